"""The tensor of one node, kept sparse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["NodeOperator"]


@dataclass(frozen=True, eq=False)
class NodeOperator:
    """The tensor of one node, as a list of its non-zero entries.

    Attributes
    ----------
    columns : tuple of int
        The observed columns that the node holds.
    children : tuple of int
        Positions of the children, at most three.
    bond : int
        Size of the bond with the parent (1 at the root).
    index : array, shape (entries, children + 1)
        For each entry, its index on the bond of every child and on the bond with the parent; rows are
        sorted and differ.
    values : array, shape (entries, product of states + 1 over columns)
        For each entry, its value at each joint code of the columns; the last code of a column stands for a
        missing cell and holds the sum over its states.
    """

    columns: tuple[int, ...]
    children: tuple[int, ...]
    bond: int
    index: Integers
    values: Floats

    @classmethod
    def from_dense(cls, array: Floats, columns: Sequence[int] = (), children: Sequence[int] = ()) -> NodeOperator:
        """Return the operator of a dense array with axes (columns…, children…, parent)."""
        held = len(columns)
        for axis in range(held):
            array = np.concatenate([array, array.sum(axis=axis, keepdims=True)], axis=axis)
        shape = array.shape[held:]
        values = array.reshape(-1, math.prod(shape)).T
        kept = np.flatnonzero(_needed(values))
        index = np.stack(np.unravel_index(kept, shape), axis=1)
        return cls(
            tuple(columns), tuple(children), shape[-1], index, np.ascontiguousarray(values[kept], np.float64)
        )

    @classmethod
    def from_entries(
        cls,
        index: Integers,
        values: Floats,
        bond: int,
        columns: Sequence[int] = (),
        children: Sequence[int] = (),
    ) -> NodeOperator:
        """Return the operator with these entries; rows of `index` may repeat, and are then added up."""
        index, values = _summed(index, values)
        kept = _needed(values)
        return cls(tuple(columns), tuple(children), bond, index[kept], values[kept])

    @cached_property
    def smallest(self) -> float:
        """The smallest absolute value that is not zero."""
        sizes = np.abs(self.values)
        return float(sizes.min(initial=1.0, where=sizes > 0))

    @property
    def work(self) -> int:
        """How many multiplications a row costs here, plus what scaling the message costs."""
        return len(self.index) * (1 + len(self.children)) + 2 * self.bond


def _summed(index: Integers, values: Floats) -> tuple[Integers, Floats]:
    """Return sorted entries in which no index repeats."""
    if not len(index):
        return index, values
    shape = (index.max(axis=0) + 1).tolist()
    if math.prod(shape) < 2**63:
        order = np.argsort(np.ravel_multi_index(tuple(index.T), shape), kind="stable")
    else:
        order = np.lexsort(index.T[::-1])
    index = index[order]
    starts = np.flatnonzero(np.concatenate([[True], (index[1:] != index[:-1]).any(axis=1)]))
    return index[starts], np.add.reduceat(values[order], starts, axis=0)


def _needed(values: Floats) -> Booleans:
    """Return which entries are not zero throughout; the first one if all are, since a message has to be sent."""
    needed: Booleans = np.any(values != 0.0, axis=1)
    needed[0] |= not needed.any()
    return needed
