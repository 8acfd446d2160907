"""The starts that run on the same rows: who enters, who stays, and who turns to Newton's steps."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.entrants import FEW_ROWS
from eigentree.em.optimize.information import Information
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.resettling import can_resettle, resettled
from eigentree.em.rounds import rounds_of
from eigentree.em.standing import Heat, Standing
from eigentree.em.starts import Start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.em.course import Course, Part
    from eigentree.em.optimize.run import EMRun
    from eigentree.em.rounds import Round

__all__ = ["Field"]

SLOW_HOPE = 10.0
"""How many times what it gained a start may hope for in the first heats, where hidden variables are many: climbs
linger on plateaus there, and those that end highest are behind at first."""

LEVEL = 1e-4
"""Starts that differ by no more in objective per row are level: no more are needed."""

AT_ONE_TOP = 3
"""Where rows are many, and hidden variables too, no more enter once so many starts have arrived at one height."""

FIRST_OF_FEW, AT_ONE_TOP_OF_FEW = 4, 12
"""Where rows are few, so many starts run first, and no more enter once so many have come to one height. There are
latent classes whose highest top one start in three or four reaches, and another top all others: fewer that agree
would too often be those others."""

STAY_TIMES = 6
"""Where rows are few so many times as many starts stay: optima are close to each other."""

CHANCE = 0.5
"""By so much, over the root of the number of draws, chance alone can put a start ahead on a part of the rows."""

MATTERS = 1e-5
"""A start that cannot get ahead of the leader by more, in objective per row, does not stay unless rows are few."""

SHARE_THAT_MATTERS = 0.05
"""The same on all of many rows, whose steps are dear, as a share of their chance error."""

SHARE_OF_ERROR = 0.002
"""A part is left once so much of its chance error, p / 2n nats per row, is still to be gained on it."""

SOFTENED = 1e-6
"""The share that is made uniform when a start goes on to more rows: what some rule out, others may show."""

SHARE_OF_ERROR_CURVED = 0.02
"""The same where the part tells how the log-likelihood of more rows bends: what is left is soon gained there."""

TOLD = 4.0
"""Moments are confirmed if a climb from them gains no more times the chance error of the part that it is on."""

PART_TIMES = 2
"""On the first part of many rows so many times as many starts can enter and stay, where there are several."""

RESETTLED_STEPS = (10, 10, 10, 15, 15)
"""How long a start near the leader may climb to get ahead, as long as it might."""

STATES_PER_FAILURE, FAILURES, MOST_RESETTLED = 3, (2, 16), 40
"""Resettling ends after one failure for so many hidden states, in a row and within bounds, or so many tries."""


class _Runner:
    """A start on its way, taken up again in each heat.

    Attributes
    ----------
    name : str
    climb : EMRun
    arrived : bool
    first : float
        The objective of its start.
    gain : float
        What it gained in the last heat.
    is_out : bool
        Whether it entered late and was no match for those before it.
    curvature : Information, optional
        By which it steps.
    """

    def __init__(self, name: str, steps: Iterator[EMRun], curvature: Information | None = None) -> None:
        self.name = name
        self._steps = steps
        self.climb = next(steps)
        self.first = self.height
        self.gain = 0.0
        self.arrived = False
        self.is_out = False
        self.curvature = curvature

    @property
    def height(self) -> float:
        """The objective that it has come to."""
        return self.climb.history[-1]

    def turn(self, steps: Iterator[EMRun]) -> None:
        """Go on by another climb, which begins where this one has come to."""
        self._steps = steps
        next(steps)

    def advance(self, steps: int) -> None:
        """EMRun so many steps, or to the end."""
        before, taken = self.height, 0
        for climb in islice(self._steps, steps):
            self.climb = climb
            taken += 1
        self.gain = self.height - before
        self.arrived = taken < steps


class Field:
    """The starts that run on the same rows.

    Attributes
    ----------
    runners : list of _Runner
        After a heat, the leader first.
    entered : list of Start
        All who ever entered, as they were then.
    is_last : bool
        Whether they run on all rows.
    rounds : tuple of Round
    """

    def __init__(self, course: Course, part: Part, at_once: bool, curved: bool = False) -> None:
        self.runners: list[_Runner] = []
        self.entered: list[Start] = []
        self.is_last = part.rows is course.rows
        self._course = course
        self._draws = part.draws
        self._is_curved = curved
        self._few_rows = len(part.rows.weights) <= FEW_ROWS and not self._is_curved
        self._many_hidden = len(course.graph.hidden) > 1
        self._problem = course.whole if self.is_last else course.problem(part.rows, 1)
        self._at_once = at_once or (self._few_rows and not self.is_last)
        self._times = STAY_TIMES if self._few_rows else 1
        many_rows = course.has_many_rows
        if many_rows and self._many_hidden and part.is_first and not self.is_last and not self._is_curved:
            self._times *= PART_TIMES
        self.rounds = rounds_of(
            part.is_first, self._many_hidden, many_rows, self.is_last, self.can_resettle, self._is_curved
        )
        self._settled = False
        self._agree = False
        self._is_still = False
        self._left: list[float] = []
        self._heights: defaultdict[int, list[float]] = defaultdict(list)

    def opened(self, heat: Round) -> None:
        """Let no more starts enter where the leader has arrived before; on few rows, only once all have."""
        self._settled |= bool(self.runners) and self.runners[0].arrived
        is_last = heat is self.rounds[-1]
        self._is_still |= bool(self.runners) and (is_last or all(runner.arrived for runner in self.runners))

    def has_room(self, heat: Round) -> bool:
        """Return whether one more start may enter: one at least, and no more where it no longer matters."""
        if not self.runners or self._at_once:
            return True
        if self._few_rows:
            is_known = self._as_high() >= AT_ONE_TOP_OF_FEW
            return len(self.entered) < FIRST_OF_FEW or (self._is_still and not is_known)
        is_known = self._settled or len(self._at_the_top()) >= AT_ONE_TOP
        return len(self.entered) < heat.entered * self._times and not is_known

    def enter(self, start: Start, heats: Sequence[Round], waiting: int = 0) -> None:
        """Let a start run all heats so far, or as many as those who ran them before let it stay in.

        Parameters
        ----------
        start : Start
        heats : sequence of Round
        waiting : int
            How many may still enter after it.
        """
        runner = _Runner(start.name, self._climbed(start), start.curvature)
        # Whoever might be the first to end elsewhere is not left behind.
        is_judged = not self._few_rows or self._as_high() < len(self.entered)
        for number, heat in enumerate(heats):
            self.run(runner, heat)
            if number < len(heats) - 1:
                runner.is_out = is_judged and self._is_beaten(runner, number, heat, waiting)
                self._heights[number].append(runner.height)
            if runner.is_out:
                break
        self.runners.append(runner)
        self.entered.append(start)

    def _is_beaten(self, runner: _Runner, number: int, heat: Round, waiting: int) -> bool:
        """Return whether a start that enters late is no match for those who ran a heat before it."""
        before, most = self._heights[number], heat.most * self._times
        ahead = sum(height > runner.height for height in before)
        if not self._few_rows:
            return ahead >= most
        # Most enter late where rows are few: the share of them stays that would if all ran side by side.
        entered = len(self.entered) + 1
        has_hope = self._has_hope(runner, heat, max(before, default=-math.inf))
        return not has_hope or ahead * (entered + waiting) >= most * entered

    @property
    def _chance(self) -> float:
        """How much chance alone makes of the objective on these rows."""
        return self._problem.layout.learned_count / (2.0 * self._draws) * self._problem.weight

    def run(self, runner: _Runner, heat: Round) -> None:
        """Let a start run a heat."""
        if heat.curved:
            runner.curvature = Information.of(self._problem, runner.climb.here)
            runner.turn(self._climbed(self._start(runner)))
        runner.advance(heat.steps)

    def _climbed(self, start: Start) -> Iterator[EMRun]:
        """Return a climb on these rows: to the end if they are all, or to what chance leaves of it on a part."""
        if self.is_last:
            return self._course.climbed(start.parameters, start.curvature)
        most, stopping = self._course.max_iter, self._good_enough()
        return em_run(self._problem, start.parameters, stopping, most, True, information=start.curvature)

    def _has_hope(self, runner: _Runner, heat: Round, highest: float) -> bool:
        """Return whether a start might get ahead of the leader, by as much as it gained in a heat or a multiple."""
        hope = SLOW_HOPE if heat.slow and self._many_hidden else 1.0
        enough = highest + self._matters - CHANCE / math.sqrt(self._draws) * self._problem.weight
        return not runner.is_out and runner.height + (not runner.arrived) * hope * runner.gain > enough

    @property
    def _matters(self) -> float:
        """By how much more, in objective, a start has to be able to end ahead of the leader."""
        if self.is_last and self._course.has_many_rows:
            return SHARE_THAT_MATTERS * self._problem.layout.learned_count / 2.0
        return 0.0 if self._few_rows else MATTERS * self._problem.weight

    @property
    def can_resettle(self) -> bool:
        """Whether the leader is to be resettled: rows are neither few, so that many starts run, nor dear.

        Where there are several hidden variables, other starts were worth more for the same time.
        """
        usual = not self._few_rows and not self._course.has_many_rows and not self._many_hidden
        return usual and self.is_last and can_resettle(self._problem.layout)

    def resettling(self, random: np.random.Generator) -> Iterator[None]:
        """Let starts near the leader climb, until several in a row have not got ahead of it; yield after each."""
        if not self.can_resettle or self._agree:
            return
        states = max(self._course.graph.states[name] for name in self._course.graph.hidden)
        patience = int(np.clip(states // STATES_PER_FAILURE, *FAILURES))
        # Whoever is near the leader has more hope than the others.
        self.runners = self.runners[:1]
        failures = 0
        for _ in range(MOST_RESETTLED):
            rival = self._resettled(random)
            failures = failures + 1 if rival is None else 0
            self.runners = [rival or self.runners[0]]
            yield
            if failures == patience:
                return

    def _resettled(self, random: np.random.Generator) -> _Runner | None:
        """Return a start near the leader that got ahead of it, or None."""
        leader = self.runners[0]
        climb = self._course.climbed(resettled(self._problem.layout, leader.climb.here, random))
        rival = _Runner(leader.name, climb)
        enough = leader.height + MATTERS * self._problem.weight
        for steps in RESETTLED_STEPS:
            rival.advance(steps)
            if rival.height + rival.gain < enough:
                return None
        return rival if rival.height >= enough else None

    def _good_enough(self) -> Stopping:
        """Return when a part of the rows has no more to say: what is to be gained is small beside its error."""
        share = SHARE_OF_ERROR_CURVED if self._is_curved else SHARE_OF_ERROR
        return Stopping.within_chance(share, self._problem.layout.learned_count, self._draws)

    @property
    def is_confirmed(self) -> bool:
        """Whether what moments tell is where a climb on these rows ends, as far as chance lets them tell."""
        return any(runner.height - runner.first <= TOLD * self._chance for runner in self.runners[:1])

    def _is_level(self) -> bool:
        """Return whether it does not matter which start wins; few rows have many optima, which show late."""
        if self._few_rows or len(self.runners) == 1:
            return False
        # Where climbs are short, two that agree tell enough.
        other = self.runners[-1 if self._many_hidden else 1]
        return self.runners[0].height - other.height <= LEVEL * self._problem.weight

    def _at_the_top(self) -> list[_Runner]:
        """Return those that have arrived where the leader has, himself first, if many rows say so."""
        if not (self._course.has_many_rows and self._many_hidden):
            return []
        leader, *others = sorted(self.runners, key=lambda runner: -runner.height)
        enough = leader.height - LEVEL * self._problem.weight
        same = [runner for runner in others if runner.arrived and runner.height >= enough]
        return [leader, *same] if leader.arrived else []

    def _as_high(self) -> int:
        """Return how many have come as high as the leader, those who were left behind included."""
        heights = self._left + [runner.height for runner in self.runners]
        enough = max(heights, default=0.0) - LEVEL * self._problem.weight
        return sum(height >= enough for height in heights)

    def closed(self, number: int, heat: Round) -> Heat:
        """Return what a heat showed, the leader first, and keep those that might win."""
        weight = self._problem.weight
        self.runners.sort(key=lambda runner: -runner.height)
        standings = tuple((runner.name, runner.height / weight) for runner in self.runners)
        steps = max(len(runner.climb.history) - 1 for runner in self.runners)
        self._heights[number] += [runner.height for runner in self.runners if not runner.is_out]
        leader, *others = self.runners
        same = self._at_the_top()
        hopeful = [
            runner for runner in others if self._has_hope(runner, heat, leader.height) and runner not in same
        ]
        if self._is_level():
            self._settled = self._agree = True
            hopeful = hopeful if self._many_hidden else []
        self.runners = [leader, *hopeful][: heat.most * self._times]
        self._left += [runner.height for runner in others if runner not in self.runners]
        return Heat(len(self._problem.rows.weights), steps, standings)

    def standing(self, heats: Sequence[Heat], absent: Mapping[str, str]) -> Standing:
        """Return how the race stands, given what earlier heats showed."""
        leader = max(self.runners, key=lambda runner: runner.height)
        climbs = tuple((runner.name, runner.climb) for runner in self.runners) if self.is_last else ()
        steps = max((len(climb.history) - 1 for _, climb in climbs), default=0)
        return Standing(self._start(leader), tuple(heats), climbs, absent, steps)

    def starts(self) -> list[Start]:
        """Return the starts with which to go on to more rows."""
        # What a few steps ago was told on these rows still holds.
        is_told = any(heat.curved for heat in self.rounds)
        if self._course.is_curved and not self.is_last and not is_told:
            for runner in self.runners:
                # A climb that has not arrived may be on a plateau, where the curvature says little of the way on.
                is_near = self._is_curved or runner.arrived
                runner.curvature = Information.of(self._problem, runner.climb.here) if is_near else None
        return [self._start(runner) for runner in self.runners]

    def _start(self, runner: _Runner) -> Start:
        parameters = self._problem.layout.mixed(runner.climb.here.parameters, SOFTENED)
        return Start(runner.name, parameters, runner.curvature)
