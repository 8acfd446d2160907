"""Multi-start EM by successive halving over growing samples: one search for trees of tables and for hidden chains.

1. A method-of-moments start runs first, alone. If EM gains no more from it than a few chance errors, moments and
   likelihood agree (as in Hausman's test of a consistent against an efficient estimator), and it is the only
   candidate.
2. Else candidates run on the smallest sample that can distinguish them. If the first few meet at one optimum, they
   suffice. Otherwise more join them, and the worse half is dropped after a short run (em-EM) and whenever the
   iterations have doubled.
3. The better half go on to a larger sample; on all data the best run until they have converged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from eigentree.em.optimize.run import EMRun, em_run
from eigentree.em.optimize.stopping import SHORT_RUN, remaining_gain
from eigentree.errors import EigentreeError, RankError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Objective
    from eigentree.em.optimize.stopping import Stopping

__all__ = [
    "ETA",
    "MIXED",
    "ROWS_PER_PARAMETER",
    "SHARE_OF_CHANCE",
    "Candidate",
    "Multistart",
    "Rung",
    "Sample",
    "multistart",
    "run_each",
]

STARTS = 20
"""The most candidates: an optimum that one start in seven reaches is missed by one search in twenty."""

FIRST = 4
"""If so many candidates meet at one optimum, no more are made: another that half of the starts reach is missed by
one search in sixteen."""

ETA = 4
"""Each sample is so many times as large as the one before: twice the cost for half of the candidates."""

ROWS_PER_PARAMETER = 8
"""The size of the smallest sample: the chance error is then 1/16 nat per row."""

SHARE_OF_CHANCE = 0.02
"""Candidates are compared once so much of the chance error, p / 2 nats in all, is left to gain."""

CONFIRMED = 4.0
"""Moments are confirmed if EM gains no more chance errors from them: they are less efficient than the
likelihood."""

MIXED = 1e-6
"""The share of the uniform distribution when a candidate goes on to more data, which may show what a sample
lacks."""


class Sample(NamedTuple):
    """Data that candidates run on: a part of the rows or sequences, or all, and how many differ.

    The chance error of its objective is p / 2 nats for p free parameters, times the weight of a row drawn.
    """

    objective: Objective
    rows: int
    chance: float


class Candidate(NamedTuple):
    """A start that an initialiser makes once it is its turn, or an `EigentreeError` where there can be none."""

    name: str
    make: Callable[[], Floats]


class Rung(NamedTuple):
    """What one sample showed.

    Attributes
    ----------
    rows : int
        Rows or sequences that differ.
    iterations : int
        The most iterations of a candidate on them.
    objectives : tuple of (str, float)
        Each candidate's initialiser and objective per unit of weight, the best first.
    """

    rows: int
    iterations: int
    objectives: tuple[tuple[str, float], ...]


class Multistart(NamedTuple):
    """The state of a search.

    `leader` are the initialiser and the parameters of the best candidate on the present sample, `runs` the runs on
    all data, as far as they have come, by initialiser; `absent` says why an initialiser cannot make a start.
    """

    leader: tuple[str, Floats]
    rungs: tuple[Rung, ...]
    runs: tuple[tuple[str, EMRun], ...]
    absent: Mapping[str, str]

    @property
    def best(self) -> tuple[str, EMRun]:
        """The initialiser and the run with the highest score on all data."""
        return max(self.runs, key=lambda each: each[1].score)

    @property
    def iterations(self) -> int:
        """Iterations on all data so far."""
        return sum(run.iterations for _, run in self.runs)

    @property
    def objective(self) -> float:
        """The highest objective on all data so far; NaN as long as there are only samples."""
        return max((run.objective for _, run in self.runs), default=math.nan)

    def rescued(self, objective: Objective) -> Multistart:
        """Return the state of an interrupted search, with the leader on all data if it was not there yet."""
        if self.runs:
            return self
        name, parameters = self.leader
        here = objective.evaluated(parameters)
        return self._replace(runs=((name, EMRun(here, (here.objective,))),))


@dataclass(eq=False)
class _Run:
    """A candidate's run on one sample, which can be paused."""

    name: str
    onward: Iterator[EMRun]
    run: EMRun = field(init=False)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.run = next(self.onward)

    def advance(self) -> None:
        following = next(self.onward, None)
        if following is None:
            self.is_over = True
        else:
            self.run = following

    @property
    def objective(self) -> float:
        return self.run.objective

    def after(self, iterations: int) -> float:
        return self.run.history[: iterations + 1][-1]

    def may_gain(self, least: float) -> bool:
        return not self.is_over and remaining_gain(self.run.history) > least


@dataclass(eq=False)
class _Search:
    """The runs of a search, and what earlier samples showed."""

    stopping: Stopping
    max_iter: int
    accelerate: bool
    validation: Objective | None
    rungs: list[Rung] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    def state(self, runs: Sequence[_Run], is_last: bool) -> Multistart:
        leader = max(runs, key=lambda each: each.objective)
        on_all = tuple((each.name, each.run) for each in runs) if is_last else ()
        return Multistart((leader.name, leader.run.parameters), tuple(self.rungs), on_all, self.absent)

    def started(self, sample: Sample, candidates: Iterable[Candidate], is_last: bool) -> Iterator[_Run]:
        """Yield the run of each candidate, at its start."""
        accelerate, validation = (self.accelerate, self.validation) if is_last else (True, None)
        for name, make in candidates:
            if name in self.absent:
                continue
            try:
                start = sample.objective.layout.projected(make())
            except EigentreeError as error:
                self.absent[name] = str(error)
                continue
            yield _Run(name, em_run(sample.objective, start, self.stopping, self.max_iter, accelerate, validation))

    def rung(
        self, sample: Sample, pool: Iterator[Candidate], known: Sequence[_Run], keep: int, first: int, is_last: bool
    ) -> Iterator[tuple[Multistart, list[_Run]]]:
        """Yield the state while candidates run on a sample, at last with the best runs, those that have met once.

        The first few run until they have hardly anything to gain, on all data shortly. Unless they have met at one
        optimum, others join them. The worse half is dropped after a short run, and again whenever the iterations
        have doubled.
        """
        same = SHARE_OF_CHANCE * sample.chance
        runs = [*known, *islice(self.started(sample, pool, is_last), first)]
        for each in runs:
            while first and each.may_gain(same) and not (is_last and each.run.iterations >= SHORT_RUN):
                each.advance()
                yield self.state(runs, is_last), []
        if not first or len(_distinct(runs, same)) > 1:
            runs += islice(self.started(sample, pool, is_last), STARTS - first)
        if not runs:
            return
        alive, goal = runs, SHORT_RUN
        while len(alive) > keep:
            for each in alive:
                while each.run.iterations < goal and each.may_gain(same):
                    each.advance()
                    yield self.state(runs, is_last), []
            alive = sorted(_distinct(alive, same), key=lambda each: -each.after(goal))[: max(keep, len(alive) // 2)]
            goal *= 2
        for each in alive:
            while each.may_gain(same):
                each.advance()
                yield self.state(runs, is_last), []
        every = sorted(runs, key=lambda each: -each.objective)
        weight = sample.objective.weight
        shown = tuple((each.name, each.objective / weight) for each in every)
        self.rungs.append(Rung(sample.rows, max(each.run.iterations for each in every), shown))
        best = _distinct(alive, same)
        yield self.state(best, is_last), best


def multistart(
    samples: Sequence[Sample],
    pool: Iterable[Candidate],
    stopping: Stopping,
    max_iter: int,
    accelerate: bool = True,
    validation: Objective | None = None,
    moments: Candidate | None = None,
    finalists: int = 1,
) -> Iterator[Multistart]:
    """Yield the state of a search again and again, until its best run on all data has converged.

    The samples grow; the last are all data, on which runs are as `em_run` takes them, and where at most so many
    `finalists` run until they have converged. A method-of-moments start, if given, is tried before the pool. Raises
    `RankError` when no candidate can make a start.
    """
    search = _Search(stopping, max_iter, accelerate, validation)
    keep = STARTS
    drawn = iter(pool)
    first = FIRST
    best: list[_Run] = []
    if moments is not None:
        sample, is_last = samples[0], len(samples) == 1
        for run in search.started(sample, [moments], is_last):
            while run.may_gain(SHARE_OF_CHANCE * sample.chance):
                run.advance()
                yield search.state([run], is_last)
            best = [run]
            if run.objective - run.run.history[0] <= CONFIRMED * sample.chance:
                drawn = iter(())
    for sample in samples:
        is_last = sample is samples[-1]
        keep = max(1, min(finalists, keep // ETA) if is_last else keep // 2)
        found: list[_Run] = []
        for state, so_far in search.rung(sample, drawn, best, keep, first, is_last):
            found = so_far
            yield state
        if not search.rungs:
            raise RankError(_nobody(search.absent))
        best, first = ([] if not is_last else found), 0
        layout = sample.objective.layout
        drawn = iter([Candidate(each.name, partial(layout.mixed, each.run.parameters, MIXED)) for each in found])
    for place, each in enumerate(best[:finalists]):
        while not each.is_over and each.may_gain(max(best[0].objective - each.objective, 0.0)):
            each.advance()
            yield search.state(best[: place + 1], is_last=True)


def run_each(
    sample: Sample,
    candidates: Iterable[Candidate],
    stopping: Stopping,
    max_iter: int,
    accelerate: bool = True,
    validation: Objective | None = None,
    before: Multistart | None = None,
) -> Iterator[Multistart]:
    """Yield the state while each of some candidates runs until it has converged, one after the other.

    The sample is all data, `before` the search that the candidates come from, and the others are as `em_run` takes
    them.
    """
    search = _Search(stopping, max_iter, accelerate, validation)
    if before is not None:
        search.rungs += before.rungs
        search.absent.update(before.absent)
    runs: list[_Run] = []
    for each in search.started(sample, candidates, is_last=True):
        runs.append(each)
        while not each.is_over:
            yield search.state(runs, is_last=True)
            each.advance()
    if not runs:
        raise RankError(_nobody(search.absent))
    yield search.state(runs, is_last=True)


def _distinct(runs: Iterable[_Run], same: float) -> list[_Run]:
    """Return runs, the best first; of those that have met at one optimum, with hardly anything to gain, one."""
    found: list[_Run] = []
    for each in sorted(runs, key=lambda each: -each.objective):
        near = [other for other in found if other.objective - each.objective <= 2.0 * same]
        if each.may_gain(same) or all(other.may_gain(same) for other in near):
            found.append(each)
    return found


def _nobody(absent: Mapping[str, str]) -> str:
    reasons = "; ".join(f"there can be no {name} start: {reason}" for name, reason in absent.items())
    return f"{reasons}; init='multistart' tries other starts beside it, and fewer hidden states need fewer moments"
