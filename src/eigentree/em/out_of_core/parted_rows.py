"""Rows in parts that are not all in memory: each part is counted where it lies, and the counts are added up.

Which start is best shows on few rows, and a run that begins where one on many rows has ended is short. So a
multi-start is on a sample in memory, and its best candidate finishes on all rows or, where these are far more than
the tables need, on a larger sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from eigentree.arrays import Floats
from eigentree.em.estep.expectation import Expectation
from eigentree.em.optimize.objective import ExpectedCounts, Objective

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Codes, Integers
    from eigentree.counting.pair_counts import PairCounts
    from eigentree.data.tables.columns import Columns
    from eigentree.em.constraints import ConstrainedLayout
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.parameters import ParameterLayout
    from eigentree.graphs.graph import LatentGraph

__all__ = ["MEMORY_CELLS", "CountParts", "OutOfCoreRows", "PartedObjective", "PartedRows", "sampled_numbers"]

MEMORY_CELLS = 2**25
"""Most cells of rows in memory, of a sample or of all rows that differ."""

CountParts: TypeAlias = Callable[[Floats], ExpectedCounts]
"""The E-step over all parts: parameters go out, one sum comes back, the same whichever part was first."""


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


class OutOfCoreRows:
    """Rows that are not in memory.

    Attributes
    ----------
    count : int
    margins : mapping of str to array
        How often each code of each column occurs, by weight, missing cells last.
    """

    count: int
    margins: Mapping[str, Floats]

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(next(iter(self.margins.values())).sum())

    def with_missing(self) -> frozenset[str]:
        """Return the columns with missing cells."""
        return frozenset(name for name, counts in self.margins.items() if counts[-1] > 0)


class PartedRows(OutOfCoreRows, ABC):
    """Rows of categories that are not in memory."""

    def objective(
        self,
        graph: LatentGraph,
        missing: frozenset[str],
        pseudo_counts: float,
        numbers: Integers | None = None,
        threads: int = 1,
        constrained: ConstrainedLayout | None = None,
    ) -> PartedObjective:
        """Return the objective of all rows, or of those of some numbers."""
        expectation = Expectation.of(graph, missing, self.count if numbers is None else len(numbers))
        count, weight = self._counting(expectation, numbers, threads)
        layout = constrained or expectation.layout
        return PartedObjective(layout, count, weight, layout.prior(self.margins, pseudo_counts), numbers)

    @abstractmethod
    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be in memory."""

    @abstractmethod
    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""

    @abstractmethod
    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""

    @abstractmethod
    def _counting(
        self, expectation: Expectation, numbers: Integers | None, threads: int
    ) -> tuple[CountParts, float]:
        """Return the E-step of all rows, or of those of some numbers, and their total weight."""


@dataclass(frozen=True, eq=False)
class PartedObjective(Objective):
    """The objective of rows in parts; of a sample, `numbers` are those by which the user knows the rows."""

    layout: ParameterLayout
    count_parts: CountParts
    total: float
    prior: Floats
    numbers: Integers | None = None

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return self.total

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts and the log-likelihood of all rows."""
        found = self.count_parts(parameters)
        return found if self.numbers is None else found.numbered(self.numbers)
