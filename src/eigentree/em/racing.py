"""The race of starts: many short climbs on some of the rows, fewer and longer ones on more, the last to the end.

How high a climb will end shows late, and later on some structures than on others. So no share of the starts is
dropped after a fixed number of steps. Heats become longer, each twice the one before, and after each heat a start
stays only if it might still win: if what it gained in this heat would bring it ahead of the leader. The number that
can stay has a bound, which falls from heat to heat.

Where there is one hidden variable, the winner is resettled at last: one of its states is given up for another, and
what climbs higher from there takes its place.

Two starts begin, and others enter before later heats, once the leader's climb proves to be long; they run the heats
that they missed. So what a race costs is in proportion to what it decides: where a climb is short, few are tried.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from eigentree.em.climbing import Climb, Problem, Stopping, climbed
from eigentree.em.distinct import DistinctRows
from eigentree.em.entrants import FEW_ROWS, Entrant
from eigentree.em.frozen import softened
from eigentree.em.resettling import can_resettle, resettled
from eigentree.em.rounds import Round, rounds_of
from eigentree.em.starts import Start
from eigentree.errors import EigentreeError, RankError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.climbing import Objective
    from eigentree.structures.graph import LatentGraph

__all__ = ["Course", "Heat", "Part", "Standing", "part_of", "raced"]

FIRST_ROWS, GROWTH = 2_000, 4
"""How many rows that differ the first part has, and how many times as many the next."""

FIRST_OF_FEWER = 3_000
"""How many the first part has where fewer parts correct it."""

ROWS_PER_PARAMETER = 8
"""No part is drawn from fewer rows for each entry of the tables: on fewer, chance decides which start is ahead."""

WORTH_A_PART = 3
"""A part is raced on where there are so many times as many rows."""

MANY_ROWS = 32_000
"""With fewer rows that differ there are fewer parts."""

SLOW_HOPE = 10.0
"""How many times what it gained a start may hope for in the first heats, where hidden variables are many: climbs
linger on plateaus there, and those that end highest are behind at first."""

LEVEL = 1e-4
"""Starts that differ by no more in objective per row are level: no more are needed."""

STAY_TIMES = 6
"""Where rows are few all starts enter at once, and so many times as many stay: optima are close to each other."""

CHANCE = 0.5
"""By so much, over the root of the number of draws, chance alone can put a start ahead on a part of the rows."""

MATTERS = 1e-5
"""A start that cannot get ahead of the leader by more, in objective per row, does not stay where rows are many."""

SHARE_OF_ERROR = 0.002
"""A part is left once so much of its chance error, p / 2n nats per row, is still to be gained on it."""

SOFTENED = 1e-6
"""The share that is made uniform when a start goes on to more rows: what some rule out, others may show."""


PART_TIMES = 2
"""On the first part of many rows so many times as many starts can enter and stay, where there are several."""

RESETTLED_STEPS = (10, 10, 10, 15, 15)
"""How long a start near the leader may climb to get ahead, as long as it might."""

STATES_PER_FAILURE, FAILURES, MOST_RESETTLED = 3, (2, 16), 40
"""Resettling ends after one failure for so many hidden states, in a row and within bounds, or so many tries."""


@dataclass(frozen=True, eq=False)
class Course:
    """What starts are raced on.

    Attributes
    ----------
    graph : LatentGraph
    rows : DistinctRows
    gaps : frozenset of str
        The columns that may have missing cells.
    pseudo_counts : float
    stopping : Stopping
    max_iter : int
        Most steps of a climb on all rows.
    accelerate : bool
    threads : int
    validation : Problem, optional
    """

    graph: LatentGraph
    rows: DistinctRows
    gaps: frozenset[str]
    pseudo_counts: float
    stopping: Stopping
    max_iter: int
    accelerate: bool = True
    threads: int = 1
    validation: Problem | None = None

    @cached_property
    def whole(self) -> Problem:
        """The problem of all rows."""
        return self.problem(self.rows, self.threads)

    def problem(self, rows: DistinctRows, threads: int) -> Problem:
        """Return the problem of some rows."""
        return Problem.of(self.graph, rows, self.gaps, self.pseudo_counts, threads)

    def climbed(self, start: Floats) -> Iterator[Climb]:
        """Return a climb to the end on all rows."""
        return climbed(self.whole, start, self.stopping, self.max_iter, self.accelerate, self.validation)

    @property
    def has_many_rows(self) -> bool:
        """Whether most rows that differ should wait until a few have told where to go."""
        return len(self.rows.weights) >= MANY_ROWS

    @property
    def has_one_part(self) -> bool:
        """Whether starts run on a part of the rows and then on all, so that many can climb for long."""
        return not self.has_many_rows and self._has_part(self._first_size)

    def _has_part(self, size: int) -> bool:
        """Return whether a part of so many rows that differ is worth while."""
        return WORTH_A_PART * size <= len(self.rows.weights)

    @cached_property
    def _first_size(self) -> int:
        """How many rows that differ the first part has."""
        draws = ROWS_PER_PARAMETER * self.whole.layout.learned_count
        needed = int(np.ceil(np.minimum(draws * self.rows.weights / self.rows.weights.sum(), 1.0).sum()))
        return max(FIRST_ROWS if self.has_many_rows else FIRST_OF_FEWER, needed)

    def parts(self, random: np.random.Generator) -> list[Part]:
        """Return parts of the rows, each larger than the one before, and at last all rows."""
        size = self._first_size
        parts = []
        while self._has_part(size):
            parts.append(part_of(self.rows, size, random))
            size *= GROWTH
        first, *others = [*parts, Part(self.rows, math.inf)]
        return [first._replace(is_first=True), *others]


class HasWhole(Protocol):
    """What can be climbed on as a whole."""

    @property
    def whole(self) -> Objective:
        """The objective of all rows."""


class Heat(NamedTuple):
    """What one heat showed.

    Attributes
    ----------
    rows : int
        Rows that differ.
    steps : int
        Steps on these rows so far.
    standings : tuple of (str, float)
        Each start's kind and objective per row, the leader first.
    """

    rows: int
    steps: int
    standings: tuple[tuple[str, float], ...]


class Standing(NamedTuple):
    """How a race stands.

    Attributes
    ----------
    leader : Start
        With the parameters that it has come to.
    heats : tuple of Heat
    climbs : tuple of (str, Climb)
        The climbs on all rows, as far as they have come, by the kind of their start.
    absent : mapping of str to str
        The kinds of which there can be no start, with the reason.
    steps : int
        Steps on all rows so far.
    """

    leader: Start
    heats: tuple[Heat, ...]
    climbs: tuple[tuple[str, Climb], ...]
    absent: Mapping[str, str]
    steps: int

    @property
    def objective(self) -> float:
        """The highest objective on all rows so far; NaN as long as there are only parts."""
        return max((climb.history[-1] for _, climb in self.climbs), default=math.nan)

    def rescued(self, course: HasWhole) -> Standing:
        """Return where an interrupted race stands, with the leader on all rows if it was not there yet."""
        if self.climbs:
            return self
        here = course.whole.evaluated(self.leader.parameters)
        return self._replace(climbs=((self.leader.name, Climb(here, (here.objective,))),))


class Part(NamedTuple):
    """Rows that stand for all.

    Attributes
    ----------
    rows : DistinctRows
    draws : float
        As from how many rows drawn at random they are; infinity for all rows.
    is_first : bool
        Whether nothing was raced before.
    """

    rows: DistinctRows
    draws: float
    is_first: bool = False


def part_of(rows: DistinctRows, size: int, random: np.random.Generator) -> Part:
    """Return a part of rows that stands for all, with about so many that differ and their share of the weight.

    Rows are drawn in proportion to their weight, as evenly as can be: one of twice the weight is drawn twice as
    often, give or take one.
    """
    shares = rows.weights / rows.weights.sum()
    draws = float(size)
    for _ in range(30):
        # Rows that are drawn anyway leave draws to others.
        draws *= size / np.minimum(draws * shares, 1.0).sum()
    counts = np.diff(np.floor(np.cumsum(draws * shares) + random.random()), prepend=0.0)
    kept = np.flatnonzero(counts)
    weight = rows.weights.sum() * size / len(rows.weights)
    drawn = DistinctRows(
        np.asfortranarray(rows.codes[kept]), counts[kept] / counts.sum() * weight, rows.first[kept]
    )
    return Part(drawn, float(counts.sum()))


def raced(
    course: Course,
    entrants: Sequence[Entrant],
    finalists: int,
    random: np.random.Generator,
    at_once: bool = False,
) -> Iterator[Standing]:
    """Yield how a race stands, again and again, until its winner has arrived.

    Parameters
    ----------
    course : Course
    entrants : sequence of Entrant
        The later ones take part only where climbs are long.
    finalists : int
        Most starts that are climbed to the end.
    random : Generator
        Draws the parts of the rows.
    at_once : bool
        Whether all take part, from the beginning.
    """
    heats: tuple[Heat, ...] = ()
    absent: dict[str, str] = {}
    waiting = deque(entrants)
    for part in course.parts(random):
        field = _Field(course, part, at_once)
        for number, heat in enumerate(field.rounds):
            field.opened()
            for runner in field.runners:
                runner.advance(heat.steps)
                yield field.standing(heats, absent)
            while waiting and field.has_room(heat):
                entrant = waiting.popleft()
                try:
                    start = entrant.make(part.rows)
                except EigentreeError as error:
                    absent[entrant.name] = str(error)
                    continue
                field.enter(start, field.rounds[: number + 1])
                yield field.standing(heats, absent)
            if not field.runners:
                raise RankError(_nobody(absent))
            heats = (*heats, field.closed(number, heat))
        waiting = deque(Entrant(start.name, partial(_again, start)) for start in field.starts())
    for _ in field.resettling(random):
        yield field.standing(heats, absent)
    for runner in field.runners[:finalists]:
        while not runner.arrived:
            runner.advance(1)
            yield field.standing(heats, absent)


def _nobody(absent: Mapping[str, str]) -> str:
    return "; ".join(f"there can be no {name} start: {reason}" for name, reason in absent.items())


def _again(start: Start, rows: DistinctRows) -> Start:
    """Return the start with which one that has run on some rows goes on to others."""
    return start


class _Runner:
    """A start on its way, taken up again in each heat.

    Attributes
    ----------
    name : str
    climb : Climb
    arrived : bool
    gain : float
        What it gained in the last heat.
    is_out : bool
        Whether it entered late and was no match for those before it.
    """

    def __init__(self, name: str, steps: Iterator[Climb]) -> None:
        self.name = name
        self._steps = steps
        self.climb = next(steps)
        self.gain = 0.0
        self.arrived = False
        self.is_out = False

    @property
    def height(self) -> float:
        """The objective that it has come to."""
        return self.climb.history[-1]

    def advance(self, steps: int) -> None:
        """Climb so many steps, or to the end."""
        before, taken = self.height, 0
        for climb in islice(self._steps, steps):
            self.climb = climb
            taken += 1
        self.gain = self.height - before
        self.arrived = taken < steps


class _Field:
    """The starts that run on the same rows.

    Attributes
    ----------
    runners : list of _Runner
        After a heat, the leader first.
    is_last : bool
        Whether they run on all rows.
    rounds : tuple of Round
    """

    def __init__(self, course: Course, part: Part, at_once: bool) -> None:
        self.runners: list[_Runner] = []
        self.is_last = part.rows is course.rows
        self._course = course
        self._draws = part.draws
        self._few_rows = len(part.rows.weights) <= FEW_ROWS
        self._many_hidden = len(course.graph.hidden) > 1
        self._problem = course.whole if self.is_last else course.problem(part.rows, 1)
        self._at_once = at_once or self._few_rows
        self._times = STAY_TIMES if self._few_rows else 1
        many_rows = course.has_many_rows
        if many_rows and self._many_hidden and part.is_first and not self.is_last:
            self._times *= PART_TIMES
        self.rounds = rounds_of(part.is_first, self._many_hidden, many_rows, self.is_last, self.can_resettle)
        self._entered = 0
        self._settled = False
        self._agree = False
        self._heights: defaultdict[int, list[float]] = defaultdict(list)

    def opened(self) -> None:
        """Let no more starts enter where the leader has arrived before."""
        self._settled |= bool(self.runners) and self.runners[0].arrived

    def has_room(self, heat: Round) -> bool:
        """Return whether one more start may enter: one at least, and no more where it no longer matters."""
        if not self.runners or self._at_once:
            return True
        return self._entered < heat.entered * self._times and not self._settled

    def enter(self, start: Start, heats: Sequence[Round]) -> None:
        """Let a start run all heats so far, or as many as those who ran them before let it stay in."""
        if self.is_last:
            climb = self._course.climbed(start.parameters)
        else:
            climb = climbed(self._problem, start.parameters, self._good_enough(), self._course.max_iter, True)
        runner = _Runner(start.name, climb)
        for number, heat in enumerate(heats):
            runner.advance(heat.steps)
            if number < len(heats) - 1:
                ahead = sum(height > runner.height for height in self._heights[number])
                self._heights[number].append(runner.height)
                runner.is_out = ahead >= heat.most * self._times
            if runner.is_out:
                break
        self.runners.append(runner)
        self._entered += 1

    def _has_hope(self, runner: _Runner, heat: Round) -> bool:
        """Return whether a start might get ahead of the leader, by as much as it gained in a heat or a multiple."""
        hope = SLOW_HOPE if heat.slow and self._many_hidden else 1.0
        matters = 0.0 if self._few_rows else MATTERS
        enough = self.runners[0].height + (matters - CHANCE / math.sqrt(self._draws)) * self._problem.weight
        return not runner.is_out and runner.height + (not runner.arrived) * hope * runner.gain > enough

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
        return Stopping.within_chance(SHARE_OF_ERROR, self._problem.layout.learned_count, self._draws)

    def _is_level(self) -> bool:
        """Return whether it does not matter which start wins; few rows have many optima, which show late."""
        if self._few_rows or len(self.runners) == 1:
            return False
        # Where climbs are short, two that agree tell enough.
        other = self.runners[-1 if self._many_hidden else 1]
        return self.runners[0].height - other.height <= LEVEL * self._problem.weight

    def closed(self, number: int, heat: Round) -> Heat:
        """Return what a heat showed, the leader first, and keep those that might win."""
        weight = self._problem.weight
        self.runners.sort(key=lambda runner: -runner.height)
        standings = tuple((runner.name, runner.height / weight) for runner in self.runners)
        steps = max(len(runner.climb.history) - 1 for runner in self.runners)
        self._heights[number] += [runner.height for runner in self.runners if not runner.is_out]
        leader, *others = self.runners
        hopeful = [runner for runner in others if self._has_hope(runner, heat)]
        if self._is_level():
            self._settled = self._agree = True
            hopeful = hopeful if self._many_hidden else []
        self.runners = [leader, *hopeful][: heat.most * self._times]
        return Heat(len(self._problem.rows.weights), steps, standings)

    def standing(self, heats: tuple[Heat, ...], absent: Mapping[str, str]) -> Standing:
        """Return how the race stands, given what earlier heats showed."""
        leader = max(self.runners, key=lambda runner: runner.height)
        climbs = tuple((runner.name, runner.climb) for runner in self.runners) if self.is_last else ()
        steps = max((len(climb.history) - 1 for _, climb in climbs), default=0)
        return Standing(self._start(leader), heats, climbs, absent, steps)

    def starts(self) -> list[Start]:
        """Return the starts with which to go on to more rows."""
        return [self._start(runner) for runner in self.runners]

    def _start(self, runner: _Runner) -> Start:
        return Start(runner.name, softened(self._problem.layout, runner.climb.here.parameters, SOFTENED))
