"""The joint counts of one group of columns, and the moments that are sums over its cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers

__all__ = ["DENSE_CELLS", "ColumnFeatures", "JointTable", "collected", "smoothed"]

DENSE_CELLS = 2**16
"""Largest table that is kept as an array; a larger one is kept as the codes that occur, never more than rows."""

BLOCK_CELLS = 2**20
"""Numbers that are worked on at a time in a table that is too large for an array."""


@dataclass(frozen=True, eq=False)
class JointTable:
    """The joint counts (or probabilities) of a group of columns.

    Attributes
    ----------
    columns : tuple of int
    shape : tuple of int
        Numbers of states of the columns.
    keys : array of int64 or None
        Sorted joint codes that occur, for a large table; None for a dense one.
    values : array
        All cells of a dense table in row-major order, or the counts of the `keys`.
    """

    columns: tuple[int, ...]
    shape: tuple[int, ...]
    keys: Integers | None
    values: NDArray[Any]

    @classmethod
    def from_dense(cls, columns: Sequence[int], array: NDArray[Any]) -> JointTable:
        """Return the table of an array with one axis per column."""
        return cls(tuple(columns), array.shape, None, array.ravel())

    @cached_property
    def total(self) -> float:
        """The sum of all cells: how many rows had all cells of the group."""
        return float(self.values.sum())

    def plus(self, other: JointTable, sign: int) -> JointTable:
        """Return the sum (sign 1) or the difference (sign -1) of two tables of the same columns."""
        if self.keys is None or other.keys is None:
            return JointTable(self.columns, self.shape, None, self.values + sign * other.values)
        keys = np.concatenate([self.keys, other.keys])
        values = np.concatenate([self.values, sign * other.values])
        return JointTable(self.columns, self.shape, *collected(keys, values))

    def marginal(self, columns: Sequence[int]) -> JointTable:
        """Return the table of some of the columns, in the order given."""
        wanted = tuple(columns)
        if wanted == self.columns:
            return self
        shape = tuple(self.shape[self.columns.index(column)] for column in wanted)
        if self.keys is None:
            array = self.values.reshape(self.shape)
            summed = array.sum(axis=tuple(k for k, column in enumerate(self.columns) if column not in wanted))
            kept = [column for column in self.columns if column in wanted]
            return JointTable.from_dense(wanted, np.transpose(summed, [kept.index(column) for column in wanted]))
        keys = self.codes(wanted)
        if math.prod(shape) <= DENSE_CELLS:
            counts = np.zeros(math.prod(shape), self.values.dtype)
            np.add.at(counts, keys, self.values)
            return JointTable(wanted, shape, None, counts)
        return JointTable(wanted, shape, *collected(keys, self.values))

    def codes(self, columns: Sequence[int]) -> Integers:
        """Return the joint code over some columns of every cell that is kept."""
        keys = np.arange(len(self.values)) if self.keys is None else self.keys
        digits = dict(zip(self.columns, np.unravel_index(keys, self.shape), strict=True))
        codes = np.zeros(len(keys), np.int64)
        for column in columns:
            codes = codes * self.shape[self.columns.index(column)] + digits[column]
        return codes

    def array(self) -> NDArray[Any]:
        """Return the table with one axis per column, in the order of the columns."""
        if self.keys is None:
            return self.values.reshape(self.shape)
        full = np.zeros(math.prod(self.shape), self.values.dtype)
        full[self.keys] = self.values
        return full.reshape(self.shape)

    def expectation(self, parts: Sequence[tuple[Sequence[int], Floats]]) -> Floats:
        """Return the sum over cells of count · product of features, shape (features of each part…).

        Parts are disjoint groups of columns that together are all of the table's, each with the features of its
        joint codes, shape (joint states, features).
        """
        if self.keys is None:
            order = [self.columns.index(column) for columns, _ in parts for column in columns]
            array = np.transpose(self.values.reshape(self.shape), order).astype(np.float64)
            result = array.reshape([len(matrix) for _, matrix in parts])
            # The last part first: it has the most states, so the table shrinks fastest.
            for _, matrix in reversed(parts):
                result = np.moveaxis(result @ matrix, -1, 0)
            return result
        codes = [self.codes(columns) for columns, _ in parts]
        widths = [matrix.shape[1] for _, matrix in parts]
        total = np.zeros((math.prod(widths[:-1]), widths[-1]))
        step = max(1, BLOCK_CELLS // len(total))
        for start in range(0, len(self.values), step):
            block = slice(start, start + step)
            product = self.values[block].astype(np.float64)[:, None]
            for code, (_, matrix) in zip(codes[:-1], parts[:-1], strict=True):
                product = (product[:, :, None] * matrix[code[block]][:, None, :]).reshape(len(product), -1)
            total += product.T @ parts[-1][1][codes[-1][block]]
        return total.reshape(widths)


def smoothed(counts: Floats) -> Floats:
    """Return the distribution of each column, 1/2 added to the count of each state, shape (states, …)."""
    return np.asarray((counts + 0.5) / (counts.sum(axis=0) + 0.5 * len(counts)))


def collected(keys: Integers, values: NDArray[Any]) -> tuple[Integers, NDArray[Any]]:
    """Return sorted keys without repeats, their values added up, zeros dropped."""
    unique, inverse = np.unique(keys, return_inverse=True)
    totals = np.zeros(len(unique), values.dtype)
    np.add.at(totals, inverse, values)
    kept = totals != 0
    return unique[kept], totals[kept]


@dataclass(frozen=True, eq=False)
class ColumnFeatures:
    """A few features of each column, the first of which is the constant 1, as one array.

    Attributes
    ----------
    padded : array, shape (columns, most states, most features)
        Zeros beyond a column's own states and features.
    states, widths : array, shape (columns,)
        How many states and features each column has.
    """

    padded: Floats
    states: Integers
    widths: Integers

    @classmethod
    def stack(cls, matrices: Sequence[Floats]) -> ColumnFeatures:
        """Return the features that are the columns of one matrix (states, features) per column."""
        states, widths = np.array([matrix.shape for matrix in matrices]).T
        padded = np.zeros((len(matrices), states.max(), widths.max()))
        for column, matrix in enumerate(matrices):
            padded[column, : len(matrix), : matrix.shape[1]] = matrix
        return cls(padded, states, widths)

    def __getitem__(self, column: int) -> Floats:
        """Return the features of one column, shape (states, features)."""
        return self.padded[column, : self.states[column], : self.widths[column]]

    @cached_property
    def means(self) -> Floats:
        """What each feature is on average over its column's states, shape (columns, most features)."""
        return np.asarray(self.padded.sum(axis=1) / self.states[:, None])
