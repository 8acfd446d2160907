"""Operators of nodes, multiplied into each other where that saves work, and laid out for the compiled passes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.message_passing import MOST_CHILDREN, OperatorTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = [
    "LinePool",
    "NodeOperator",
    "folded",
    "laid_out",
]

FOLDED_VALUES = 2048
"""Largest table that folding makes: 16 KiB, half of a first-level cache."""

TINY = 2.0**-60
"""Products of values below this are left to the passes, which have a scale beside each message."""


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


def folded(nodes: Sequence[NodeOperator]) -> tuple[NodeOperator, ...]:
    """Return the operators of the same model, as few as pay, in preorder."""
    left: list[NodeOperator | None] = list(nodes)
    for i in reversed(range(len(left))):
        node = left[i]
        assert node is not None
        k = 0
        while k < len(node.children):
            child = left[node.children[k]]
            assert child is not None
            merged = _merge(node, k, child)
            if merged is None:
                k += 1
                continue
            left[node.children[k]] = None
            node = merged
            # A grandchild was already refused by its own parent, but may now fit.
            k = 0
        left[i] = node
    return _renumbered(left)


def _merge(parent: NodeOperator, k: int, child: NodeOperator) -> NodeOperator | None:
    """Return the parent with its k-th child multiplied into it, or None where that saves nothing."""
    children = parent.children[:k] + child.children + parent.children[k + 1 :]
    if len(children) > MOST_CHILDREN:
        return None
    meets = parent.index[:, k]
    below = np.bincount(child.index[:, -1], minlength=child.bond)
    pairs = int(below[meets].sum())
    width = parent.values.shape[1] * child.values.shape[1]
    # Bonds of the merged children are not known here, but no more entries than pairs can come out.
    if pairs == 0 or pairs * width > 16 * FOLDED_VALUES:
        return None
    # A folded table has no scale beside it: products of tiny values would be lost.
    if parent.smallest * child.smallest < TINY:
        return None
    order = np.argsort(child.index[:, -1], kind="stable")
    starts = np.cumsum(below) - below
    repeats = below[meets]
    upper = np.repeat(np.arange(len(meets)), repeats)
    within = np.arange(pairs) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    lower = order[starts[meets[upper]] + within]
    index = np.concatenate([parent.index[upper, :k], child.index[lower, :-1], parent.index[upper, k + 1 :]], axis=1)
    values = (parent.values[upper][:, :, None] * child.values[lower][:, None, :]).reshape(pairs, width)
    merged = NodeOperator.from_entries(index, values, parent.bond, parent.columns + child.columns, children)
    if merged.values.size > FOLDED_VALUES and child.children:
        return None
    return merged if merged.work <= parent.work + child.work else None


def _renumbered(nodes: Sequence[NodeOperator | None]) -> tuple[NodeOperator, ...]:
    """Return the nodes that are left, in preorder, their children renumbered."""
    order = []
    stack = [0]
    while stack:
        i = stack.pop()
        node = nodes[i]
        assert node is not None
        order.append((i, node))
        stack.extend(reversed(node.children))
    number = {i: new for new, (i, _) in enumerate(order)}
    return tuple(
        NodeOperator(node.columns, tuple(number[c] for c in node.children), node.bond, node.index, node.values)
        for _, node in order
    )


class LinePool:
    """Consecutive lines up to an `end`, lent and given back; what is free is lent again, lowest first."""

    def __init__(self, start: int = 0) -> None:
        self.end = start
        self._free: list[tuple[int, int]] = []

    def lend(self, count: int) -> int:
        """Return the first of some lines that nobody has."""
        fitting = min((gap for gap in self._free if gap[1] >= count), default=None)
        if fitting is None:
            first = self.end
            self.end += count
            return first
        self._free.remove(fitting)
        first, length = fitting
        if length > count:
            self._free.append((first + count, length - count))
        return first

    def give_back(self, first: int, count: int) -> None:
        """Take some lines back."""
        self._free.append((first, count))


def laid_out(nodes: Sequence[NodeOperator], states: Sequence[int]) -> OperatorTree:
    """Return the tree of these operators, parents before children, for the compiled passes."""
    counts = [(node.bond, len(node.children), len(node.columns), len(node.index)) for node in nodes]
    index = np.zeros((sum(len(node.index) for node in nodes), MOST_CHILDREN + 1), np.int64)
    first = 0
    for node in nodes:
        part = index[first : first + len(node.index)]
        part[:, : len(node.children)], part[:, -1] = node.index[:, :-1], node.index[:, -1]
        first += len(node.index)
    return OperatorTree(
        states=np.array(states, np.int64),
        nodes=np.array(counts, np.int64),
        children=np.array([child for node in nodes for child in node.children], np.int64),
        columns=np.array([column for node in nodes for column in node.columns], np.int64),
        index=index,
        values=np.concatenate([node.values.ravel() for node in nodes]),
    )
