"""EM where rows do not fit into memory: starts are raced on a sample, and the winner climbs on rows elsewhere.

Which start wins shows on few rows, and a climb that begins where one on many rows has ended is short. So all but
the last climb run on rows in memory, and the last one on all rows or, where these are far more than the tables
need, on a larger sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eigentree.em.expectation import Expectation
from eigentree.em.fitting import fitted
from eigentree.em.optimize.run import em_run
from eigentree.em.parted import PartedObjective
from eigentree.em.standing import Standing
from eigentree.em.starts import Start
from eigentree.exact.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.counting.pairs import PairCounts
    from eigentree.data.columns import Columns
    from eigentree.em.course import Course
    from eigentree.em.distinct import DistinctRows
    from eigentree.em.entrants import Kind
    from eigentree.em.optimize.objective import Objective
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.em.parameters import ParameterLayout
    from eigentree.em.parted import Parts

__all__ = [
    "FarRows",
    "Finish",
    "LastCourse",
    "finish_rows_for",
    "race_rows_for",
    "sampled_numbers",
    "standings",
]

FINISH_ROWS, FINISH_ROWS_PER_PARAMETER = 1_000_000, 1_000
"""How many rows the last climb runs on unless told otherwise, and how many at least for each entry of the tables.

From p entries and n rows chance makes the log-likelihood per row wrong by p / 2n, here by no more than 1/2000 nat:
far less than what models of hidden variables miss of real tables, or what their starts differ by.
"""

RACE_ROWS, RACE_ROWS_PER_PARAMETER = 200_000, 50
"""How many rows starts are raced on, and how many at least for each entry of the tables."""

RACE_CELLS = 2**26
"""Most cells of rows that are raced on, which bounds memory."""

SOFTENED = 1e-6
"""The share that is made uniform when the winner goes on to more rows: what some rule out, others may show."""


def finish_rows_for(parameters: int) -> int:
    """Return on how many rows the last climb runs, of tables with so many entries."""
    return max(FINISH_ROWS, FINISH_ROWS_PER_PARAMETER * parameters)


def race_rows_for(parameters: int, columns: int) -> int:
    """Return on how many rows starts are raced, for tables with so many entries."""
    return min(max(RACE_ROWS, RACE_ROWS_PER_PARAMETER * parameters), max(1, RACE_CELLS // columns))


def sampled_numbers(rows: int, size: int, random: np.random.Generator) -> Integers:
    """Return the numbers of so many rows, one of each stretch of rows, in their order; of all, if these are fewer.

    They depend on the number of rows and on the generator alone, and so are the same wherever rows lie.
    """
    if size >= rows:
        return np.arange(rows)
    bounds = np.arange(size + 1) * rows // size
    # Stretches are not all of one length; turned by any number of rows, they favour none.
    turned = random.integers(bounds[:-1], bounds[1:]) + random.integers(rows)
    return np.sort(turned % rows)


class FarRows(ABC):
    """Rows that are not in memory.

    Attributes
    ----------
    count : int
    margins : mapping of str to array
        How often each code of each column occurs; the last is that of a missing cell.
    """

    count: int
    margins: Mapping[str, Floats]

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(next(iter(self.margins.values())).sum())

    @abstractmethod
    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""

    @abstractmethod
    def parts(self, expectation: Expectation, numbers: Integers | None, threads: int) -> Parts:
        """Return all rows, or those of some numbers, as an E-step counts them where they lie."""

    @abstractmethod
    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be in memory."""
        return None

    def gaps(self) -> frozenset[str]:
        """Return the columns with missing cells."""
        return frozenset(name for name, counts in self.margins.items() if counts[-1] > 0)


@dataclass(frozen=True, eq=False)
class LastCourse:
    """What the winner of a race climbs on at last: rows that are elsewhere.

    Attributes
    ----------
    whole : PartedObjective
    count : int
        How many rows it has.
    pseudo_counts : float
    validation : Objective, optional
    """

    whole: PartedObjective
    count: int
    pseudo_counts: float
    validation: Objective | None = None

    @classmethod
    def of(cls, race: Course, rows: FarRows, numbers: Integers | None) -> LastCourse:
        """Return the course over all rows, or over those of some numbers, after a race on a few of them."""
        count = rows.count if numbers is None else len(numbers)
        expectation = Expectation.of(race.graph, race.gaps, count)
        parts = rows.parts(expectation, numbers, race.threads)
        whole = PartedObjective.of(expectation, parts, rows.margins, race.pseudo_counts, numbers)
        return cls(whole, count, race.pseudo_counts, race.validation)


class Finish(NamedTuple):
    """Where the last climb of a fit runs.

    Attributes
    ----------
    rows : FarRows
    numbers : (rows,), optional
        Those that it runs on; all by default.
    stopping : Stopping
    """

    rows: FarRows
    numbers: Integers | None
    stopping: Stopping


def standings(
    course: Course,
    finish: Finish | None,
    init: LatentNetwork | Literal["race"] | Kind,
    restarts: int,
    random: np.random.Generator,
) -> Iterator[tuple[Course | LastCourse, Standing]]:
    """Yield how a fit stands, again and again, until its last climb has arrived, and the course that it is on.

    Parameters
    ----------
    course : Course
        Over all rows, or over a sample.
    finish : Finish, optional
        Where it ends, if that is elsewhere.
    init, restarts, random
        As `fitted` takes them. From a network a climb elsewhere starts at once.
    """
    standing: Standing | None = None
    if finish is None or not isinstance(init, LatentNetwork):
        for standing in fitted(course, init, restarts, random):
            yield course, standing
    if finish is None:
        return
    last = LastCourse.of(course, finish.rows, finish.numbers)
    start = _start(last.whole.layout, init, standing)
    heats, absent = (standing.heats, standing.absent) if standing else ((), {})
    most, accelerate = course.max_iter, course.accelerate
    for climb in em_run(last.whole, start.parameters, finish.stopping, most, accelerate, last.validation):
        yield last, Standing(start, heats, ((start.name, climb),), absent, len(climb.history) - 1)


def _start(layout: ParameterLayout, init: object, race: Standing | None) -> Start:
    """Return where the last climb starts: from what was given, or from where a race has led to."""
    if isinstance(init, LatentNetwork):
        return Start("given", layout.vector(init))
    assert race is not None
    name, best = max(race.climbs, key=lambda end: end[1].score)
    return Start(name, layout.mixed(best.parameters, SOFTENED))
