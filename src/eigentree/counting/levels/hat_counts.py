"""Counts of groups of cells some of which are numbers: moments of hat functions, as tables of fractions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.counts import Counts
from eigentree.counting.joint_table import JointTable, collected
from eigentree.counting.levels.hats import LEVELS, hat_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers

__all__ = ["count_hats"]


def count_hats(
    counts: Counts, chunks: Iterator[tuple[Codes, NDArray[Any] | None]], numbers: Sequence[bool]
) -> Counts:
    """Return counts with chunks of (codes, weights or None) added.

    `numbers` says which columns are numbers: their codes are levels, and they are counted as so many hats as they
    have states.
    """
    counter = _HatCounter(counts, numbers)
    for codes, weights in chunks:
        counter.add(codes, weights)
    added = counter.counts()
    return counts + added if counts.rows else added


class _HatCounter:
    """Counts while they are being made, chunk by chunk of codes."""

    def __init__(self, like: Counts, numbers: Sequence[bool]) -> None:
        self.like, self.numbers = like, tuple(numbers)
        layout = like.layout
        self.missing = [
            LEVELS if number else states for number, states in zip(numbers, like.columns.states, strict=True)
        ]
        self.dense = np.zeros(int(layout.table_start[-1]))
        self.sparse = layout.empty_sparse()
        self.residual: Floats | None = None
        self.rows: float = 0
        shown = {states for number, states in zip(numbers, like.columns.states, strict=True) if number}
        self.hats = {hats: _two_hats(hats) for hats in shown}

    def add(self, codes: Codes, weights: NDArray[Any] | None) -> None:
        """Count rows of codes, each as often as its weight says."""
        layout = self.like.layout
        self.rows += len(codes) if weights is None else weights.sum().item()
        known = np.stack([codes[:, c] != missing for c, missing in enumerate(self.missing)], axis=1)
        dense = set(layout.dense)
        for g, (group, shape) in enumerate(zip(layout.groups, layout.shapes, strict=True)):
            keys, values = self._hats(codes, weights, group, shape, _all(known, group))
            if g in dense:
                self.dense[layout.part(g)] += np.bincount(keys, values, math.prod(shape))
            else:
                more = JointTable(group, shape, *collected(keys, values))
                self.sparse[g] = self.sparse[g].plus(more, 1)
        # The rows that a covered group has and its holder has not, for want of a cell.
        for group, (holder, shape, part) in layout.covered.items():
            chosen = _all(known, group) & ~_all(known, holder)
            if chosen.any():
                if self.residual is None:
                    self.residual = np.zeros(layout.residual_size)
                self.residual[part] += np.bincount(
                    *self._hats(codes, weights, group, shape, chosen), math.prod(shape)
                )

    def _hats(
        self,
        codes: Codes,
        weights: NDArray[Any] | None,
        group: Sequence[int],
        shape: Sequence[int],
        chosen: Booleans,
    ) -> tuple[Integers, Floats]:
        """Return all joint hats of a group that are not 0 at some rows, and the products of their values."""
        count = int(chosen.sum())
        keys = np.zeros((1, count), np.int64)
        values = np.ones((1, count)) if weights is None else weights[chosen].astype(np.float64)[None]
        for column, states in zip(group, shape, strict=True):
            own = codes[chosen, column]
            if self.numbers[column]:
                lower, parts = self.hats[states]
                below, upper = lower[own], parts[own]
                keys = keys * states + below
                keys = np.concatenate([keys, keys + 1])
                values = np.concatenate([values * (1.0 - upper), values * upper])
            else:
                keys = keys * states + own
        return keys.ravel(), values.ravel()

    def counts(self) -> Counts:
        """Return what was counted."""
        like = self.like
        return Counts.laid_out(like.columns, like.layout, self.dense, self.sparse, self.residual, self.rows)


def _two_hats(hats: int) -> tuple[Integers, Floats]:
    """Return, for each level, the first of the two hats that are not 0 there, and the value of the second."""
    levels = np.arange(LEVELS)
    below = levels * (hats - 1) // LEVELS
    return below, hat_values(hats, hats)[levels, below + 1]


def _all(known: Booleans, columns: Sequence[int]) -> Booleans:
    """Return the rows all of whose cells in some columns are known."""
    return np.asarray(known[:, list(columns)].all(axis=1))
