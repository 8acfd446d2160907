"""Trees of operators as flat arrays, for the compiled passes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.trees.flat_tree import NODE, OWN_COLUMN, FlatTree
from eigentree.core.trees.message_passing import TINY
from eigentree.core.trees.narrow_messages import NARROW, NarrowSpace, NarrowTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = [
    "MOST_CHILDREN",
    "LinePool",
    "Narrow",
    "NodeOperator",
    "all_kept",
    "filled",
    "flat_tree",
    "folded",
    "round_tour",
]

FOLDED_VALUES = 2048
"""Largest table that folding makes: 16 KiB, half of a first-level cache."""

MOST_CHILDREN = 3
"""Children that an operator may have; the compiled passes multiply no more messages than that."""


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


WIDTHS = (4, 8)
"""Numbers of messages that stay in registers: one vector, or two."""

MOST_PADDING = 4
"""How many times the values of the operators may be stored, zeros between them included: a vector takes four."""

BLOCK = 512
"""Rows that go through the tree together: the messages of two nodes stay in the first cache."""

CACHE_BYTES = 192 * 1024
"""What all messages of a block may take, so that they stay in the second cache."""


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


def flat_tree(nodes: Sequence[NodeOperator], states: Sequence[int]) -> FlatTree:
    """Return the flat arrays of a tree, given its nodes in preorder and the states of all columns.

    Lines of messages are used again once the parent has read them, which suits a pass up alone.
    """
    records = np.recarray(len(nodes), NODE)
    records.bond = [node.bond for node in nodes]
    records.line, _ = _reused_lines(nodes, [node.bond for node in nodes])
    records.first_child, records.stop_child = _parts([len(node.children) for node in nodes])
    records.first_entry, records.stop_entry = _parts([len(node.index) for node in nodes])
    records.first_value, _ = _parts([node.values.size for node in nodes])
    records.width = [node.values.shape[1] for node in nodes]
    records.first_column, records.stop_column = _parts([len(node.columns) for node in nodes])
    entry_child = np.zeros((int(records.stop_entry[-1]), MOST_CHILDREN), np.int64)
    for node, first, stop in zip(nodes, records.first_entry, records.stop_entry, strict=True):
        entry_child[first:stop, : len(node.children)] = node.index[:, :-1]
    flat = FlatTree(
        nodes=records,
        child=np.array([child for node in nodes for child in node.children], np.int64),
        entry_parent=np.concatenate([node.index[:, -1] for node in nodes]),
        entry_child=entry_child,
        columns=_own_columns(nodes, states),
        values=np.empty(0),
    )
    return filled(flat, np.concatenate([node.values.ravel() for node in nodes]))


def filled(flat: FlatTree, values: Floats) -> FlatTree:
    """Return the same tree with other values."""
    sizes = np.abs(values)
    starts = flat.nodes.first_value
    nodes = flat.nodes.copy()
    nodes.reach = np.log2(np.minimum.reduceat(np.where(sizes > 0.0, np.minimum(sizes, 1.0), 1.0), starts))
    # Terms of both signs can cancel down to the last digit of the smallest of them.
    nodes.reach -= np.where(np.minimum.reduceat(values, starts) < 0.0, 53.0, 0.0)
    return flat._replace(nodes=nodes, values=values)


def all_kept(flat: FlatTree) -> FlatTree:
    """Return the same tree with a line for every message, as passes up and down need it."""
    nodes = flat.nodes.copy()
    nodes.line = np.cumsum(nodes.bond) - nodes.bond
    return flat._replace(nodes=nodes)


def round_tour(nodes: Sequence[NodeOperator]) -> Integers:
    """Return the steps (node or -1 less its number, parent, which child) that enter and leave every node once."""
    steps: list[tuple[int, int, int]] = []
    stack = [(0, -1, 0)]
    while stack:
        step = stack.pop()
        steps.append(step)
        if step[0] >= 0:
            stack.append((-step[0] - 1, -1, 0))
            children = nodes[step[0]].children
            stack.extend((children[k], step[0], k) for k in reversed(range(len(children))))
    return np.array(steps, np.int64)


def _parts(counts: Sequence[int]) -> tuple[Integers, Integers]:
    """Return where each of some consecutive parts starts and stops."""
    stops = np.cumsum(counts, dtype=np.int64)
    return stops - counts, stops


def _own_columns(nodes: Sequence[NodeOperator], states: Sequence[int]) -> Any:
    """Return the columns of all nodes, in the order of the nodes."""
    found = []
    for node in nodes:
        sizes = [states[column] + 1 for column in node.columns]
        strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        found += [(c, stride, states[c]) for c, stride in zip(node.columns, strides, strict=True)]
    return np.array(found, OWN_COLUMN).view(np.recarray)


def _reused_lines(nodes: Sequence[NodeOperator], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the first line of each message in a pass up, and how many there are.

    Lines are free again once the parent has read them.
    """
    lines = [0] * len(nodes)
    pool = LinePool()
    for i in reversed(range(len(nodes))):
        lines[i] = pool.lend(sizes[i])
        for child in nodes[i].children:
            pool.give_back(lines[child], sizes[child])
    return lines, pool.end


@dataclass(frozen=True, eq=False)
class Narrow:
    """A tree whose messages, of `width` numbers, stay in registers: `slots` of a row, `block` rows each."""

    tree: NarrowTree
    width: int
    slots: int
    block: int

    @classmethod
    def of(
        cls, nodes: Sequence[NodeOperator], flat: FlatTree, most_padding: float = MOST_PADDING, block: int = BLOCK
    ) -> Narrow | None:
        """Return the layout of a tree of nodes in preorder; None where bonds are wide, or most entries are zero.

        It stores at most `most_padding` times the values of the operators.
        """
        bond = max(node.bond for node in nodes)
        if bond > max(WIDTHS):
            return None
        width = next(width for width in WIDTHS if bond <= width)
        choices, tables = [], []
        for node in nodes:
            met, position = np.unique(node.index[:, :-1], axis=0, return_inverse=True)
            table = np.zeros((node.values.shape[1], len(met), width))
            table[:, position.ravel(), node.index[:, -1]] = node.values.T
            choices.append(met)
            tables.append(table)
        if sum(table.size for table in tables) > most_padding * max(flat.values.size, 1):
            return None
        records = np.recarray(len(nodes), NARROW)
        records.slot, slots = _reused_lines(nodes, [1] * len(nodes))
        for name in ("reach", "first_child", "stop_child", "first_column", "stop_column"):
            records[name] = flat.nodes[name]
        records.stop_choice = np.cumsum([len(met) for met in choices])
        records.first_choice = records.stop_choice - [len(met) for met in choices]
        records.first_value = np.cumsum([0, *(table.size for table in tables[:-1])])
        padded = np.zeros((int(records.stop_choice[-1]), flat.entry_child.shape[1]), np.int64)
        for met, first, stop in zip(choices, records.first_choice, records.stop_choice, strict=True):
            padded[first:stop, : met.shape[1]] = met
        values = _aligned(sum(table.size for table in tables))
        np.concatenate([table.ravel() for table in tables], out=values)
        columns = np.stack([flat.columns.column, flat.columns.stride], axis=1)
        for node, table in zip(flat.nodes, tables, strict=True):
            # Strides of columns, in values.
            columns[node.first_column : node.stop_column, 1] *= table[0].size
        tree = NarrowTree(records, flat.child, padded, columns, values)
        return cls(tree, width, slots, block)

    def space(self, rows: int) -> NarrowSpace:
        """Return what a pass of so many rows writes on."""
        block = max(1, min(rows, self.block, CACHE_BYTES // (8 * self.width * self.slots)))
        return NarrowSpace(
            messages=_aligned(self.slots * block * self.width),
            place=np.empty(block, np.int32),
            exponent=np.empty(block, np.int64),
            low=np.empty(len(self.tree.nodes)),
        )


def _aligned(count: int) -> Floats:
    """Return so many numbers that start where a vector lies within one line of the cache."""
    spare = np.empty(count + 7)
    start = -spare.ctypes.data // 8 % 8
    return spare[start : start + count]
