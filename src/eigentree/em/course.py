"""What starts are raced on: all rows, and growing parts of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.distinct import DistinctRows
from eigentree.em.optimize.information import Information
from eigentree.em.optimize.run import EMRun, em_run
from eigentree.em.tree_objective import TreeObjective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.structures.graph import LatentGraph

__all__ = ["Course", "Part", "part_of"]

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
    validation : TreeObjective, optional
    """

    graph: LatentGraph
    rows: DistinctRows
    gaps: frozenset[str]
    pseudo_counts: float
    stopping: Stopping
    max_iter: int
    accelerate: bool = True
    threads: int = 1
    validation: TreeObjective | None = None

    @cached_property
    def whole(self) -> TreeObjective:
        """The problem of all rows."""
        return self.problem(self.rows, self.threads)

    def problem(self, rows: DistinctRows, threads: int) -> TreeObjective:
        """Return the problem of some rows."""
        return TreeObjective.of(self.graph, rows, self.gaps, self.pseudo_counts, threads)

    def climbed(self, start: Floats, curvature: Information | None = None) -> Iterator[EMRun]:
        """Return a climb to the end on all rows, given what a part of them told of the curvature."""
        most, accelerate, validation, stopping = self.max_iter, self.accelerate, self.validation, self.stopping
        if curvature is not None:
            stopping = stopping.eased(self.rows, self.whole.layout.learned_count)
        return em_run(self.whole, start, stopping, most, accelerate, validation, information=curvature)

    @property
    def has_many_rows(self) -> bool:
        """Whether most rows that differ should wait until a few have told where to go."""
        return len(self.rows.weights) >= MANY_ROWS

    @cached_property
    def is_curved(self) -> bool:
        """Whether parts of the rows tell how the log-likelihood of all of them bends."""
        parts = self.has_many_rows and self._has_part(self._first_size)
        return parts and self.accelerate and Information.pays(self.whole.layout)

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
