"""Trees of operators, and the one engine that passes messages through them (sections 4.2 and 5).

An operator is the tensor of one node: the paper's P(C_i) of Eq. 10 for the exact model, and its observable
form of Eq. 22-24 for the spectral one. The engine does not care which: entries may be negative, bonds are just
sizes. Only non-zero entries are kept, so the duplicated modes of Eq. 10 cost no memory.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.kernels import messages as messages_kernels
from eigentree.kernels import wide as wide_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

CACHE_BYTES = 192 * 1024
"""What the messages of one block of rows may take, so that they stay in the second-level cache."""

FOLDED_VALUES = 2048
"""Largest table that folding makes: 16 KiB, half of a first-level cache."""

MOST_CHILDREN = 3


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
        return cls(tuple(columns), tuple(children), shape[-1], *_nonzero(_all_entries(shape), values))

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
        return cls(tuple(columns), tuple(children), bond, *_nonzero(*_summed(index, values)))

    @cached_property
    def smallest(self) -> float:
        """The smallest absolute value that is not zero."""
        sizes = np.abs(self.values)
        return float(sizes.min(initial=1.0, where=sizes > 0))

    @property
    def work(self) -> int:
        """How many multiplications a row costs here, plus what scaling the message costs."""
        return len(self.index) * (1 + len(self.children)) + 2 * self.bond


@dataclass(frozen=True, eq=False)
class TreeOperators:
    """A tree of operators: all that is needed to answer questions about the observed columns.

    Attributes
    ----------
    nodes : tuple of NodeOperator
        In preorder; the first is the root.
    states : tuple of int
        Number of states of every column.

    Examples
    --------
    A mixture of two coins, tossed twice:

    >>> leaf = np.array([[0.9, 0.2], [0.1, 0.8]])
    >>> mixture = TreeOperators(
    ...     nodes=(
    ...         NodeOperator.from_dense(np.diag([0.5, 0.5])[:, :, None], children=(1, 2)),
    ...         NodeOperator.from_dense(leaf, columns=(0,)),
    ...         NodeOperator.from_dense(leaf, columns=(1,)),
    ...     ),
    ...     states=(2, 2),
    ... )
    >>> mixture.joint((0, 1)).round(3).tolist()
    [[0.425, 0.125], [0.125, 0.325]]
    """

    nodes: tuple[NodeOperator, ...]
    states: tuple[int, ...]

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The parent of each node, -1 for the root."""
        parents = [-1] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            for child in node.children:
                parents[child] = i
        return tuple(parents)

    @cached_property
    def folded(self) -> TreeOperators:
        """The same model with children multiplied into their parents wherever that saves work."""
        return _fold(self)

    @cached_property
    def plan(self) -> messages_kernels.FlatTree:
        """The flat layout of this tree for the compiled loops."""
        return _plan(self)

    def log_prob(self, codes: NDArray[Any]) -> tuple[Floats, NDArray[np.int8]]:
        """Return the log absolute probability of each row of codes, and its sign (Eq. 13).

        A row of probability zero has log -inf and sign 0.
        """
        return upward_pass(self.folded.plan, codes)

    def tables(self, codes: NDArray[Any], columns: Sequence[int]) -> list[Floats]:
        """Return, for each wanted column, P(column = v, the row's other cells) up to a factor a row.

        Each table has the shape (rows, states of the column). The cell of the column itself is not looked at.
        """
        plan = self.folded.plan
        offset = np.full(len(self.states), -1, np.int64)
        ends = np.cumsum([0, *(self.states[column] for column in columns)])
        offset[list(columns)] = ends[:-1]
        tables = np.zeros((len(codes), int(ends[-1])))
        depth = int(plan.bond.sum())
        block = _block_size(2 * depth)
        messages, outside = np.empty((depth, block)), np.empty((depth, block))
        unsure = np.zeros(len(codes), np.bool_)
        messages_kernels.downward(plan, codes, messages, outside, block, offset, tables, unsure)
        if unsure.any():
            again = np.zeros((int(unsure.sum()), tables.shape[1]))
            wide_kernels.wide_downward(plan, np.asfortranarray(codes[unsure]), offset, again)
            tables[unsure] = again
        return np.split(tables, ends[1:-1], axis=1)

    def draw(self, codes: NDArray[Any], random: np.random.Generator) -> int:
        """Fill the missing cells of the codes in place, each row drawn given its known cells.

        Returns
        -------
        int
            How many cells had no state of positive probability, and were drawn from their column alone.
        """
        plan = self.folded.plan
        depth = int(plan.bond.sum())
        block = _block_size(2 * depth)
        messages, outside = np.empty((depth, block)), np.empty((depth, block))
        uniform = random.random(codes.shape)
        unsure = np.zeros(len(codes), np.bool_)
        messages_kernels.draw(plan, self.folded._tour, codes, uniform, messages, outside, block, unsure)
        if unsure.any():
            again = np.asfortranarray(codes[unsure])
            wide_kernels.wide_draw(plan, self.folded._tour, again, uniform[unsure])
            codes[unsure] = again
        return self._draw_alone(codes, uniform)

    def _draw_alone(self, codes: NDArray[Any], uniform: Floats) -> int:
        """Fill the missing cells that are left, each from its column's distribution; return how many there were."""
        left = codes == np.asarray(self.states)
        for column in np.flatnonzero(left.any(axis=0)).tolist():
            alone = np.maximum(self.joint((column,)), 0.0)
            table = alone if alone.sum() > 0.0 else np.ones(self.states[column])
            rows = np.flatnonzero(left[:, column])
            codes[rows, column] = [messages_kernels.pick(table, level) for level in uniform[rows, column]]
        return int(left.sum())

    def joint(self, columns: Sequence[int]) -> Floats:
        """Return the table of some columns with all others summed out; axes in the given order.

        Only the part of the tree that joins these columns is visited.
        """
        return _joint(self.folded, tuple(columns))

    @cached_property
    def _tour(self) -> Integers:
        return _tour(self)

    @cached_property
    def _owner(self) -> dict[int, int]:
        return {column: i for i, node in enumerate(self.nodes) for column in node.columns}

    @cached_property
    def _summed_out(self) -> tuple[list[tuple[Floats, float]], list[tuple[Floats, float]]]:
        """Messages up from and down to each node when every cell is missing, with their log scales."""
        ups: list[tuple[Floats, float]] = [(np.ones(1), 0.0)] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            node = self.nodes[i]
            weight = node.values[:, -1].copy()
            scale = 0.0
            for k, child in enumerate(node.children):
                weight *= ups[child][0][node.index[:, k]]
                scale += ups[child][1]
            ups[i] = _scaled(_totals(node.index[:, -1], weight, node.bond), scale)
        downs: list[tuple[Floats, float]] = [(np.ones(1), 0.0)] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            above, scale_above = downs[i]
            for k, child in enumerate(node.children):
                weight = node.values[:, -1] * above[node.index[:, -1]]
                scale = scale_above
                for j, sibling in enumerate(node.children):
                    if j != k:
                        weight *= ups[sibling][0][node.index[:, j]]
                        scale += ups[sibling][1]
                downs[child] = _scaled(_totals(node.index[:, k], weight, self.nodes[child].bond), scale)
        return ups, downs


def upward_pass(plan: messages_kernels.FlatTree, codes: NDArray[Any]) -> tuple[Floats, NDArray[np.int8]]:
    """Return the log absolute probability of each row of codes, and its sign, under a flat plan."""
    log_size, sign = np.empty(len(codes)), np.empty(len(codes), np.int8)
    unsure = np.zeros(len(codes), np.bool_)
    depth = int((plan.slot + plan.bond).max())
    block = _block_size(depth)
    messages_kernels.upward(plan, codes, np.empty((depth, block)), block, log_size, sign, unsure)
    if unsure.any():
        again = np.empty(int(unsure.sum())), np.empty(int(unsure.sum()), np.int8)
        wide_kernels.wide_upward(plan, np.asfortranarray(codes[unsure]), *again)
        log_size[unsure], sign[unsure] = again
    return log_size, sign


def _totals(index: Integers, weight: Floats, size: int) -> Floats:
    return np.bincount(index, weight, size).astype(np.float64, copy=False)


def _scaled(message: Floats, scale: float) -> tuple[Floats, float]:
    peak = float(np.abs(message).max())
    if peak == 0.0:
        return message, scale
    return message / peak, scale + math.log(peak)


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


@lru_cache(maxsize=64)
def _all_entries(shape: tuple[int, ...]) -> Integers:
    """Return the index of every entry of an array of some shape, one a row."""
    index = np.indices(shape).reshape(len(shape), -1).T
    index.flags.writeable = False
    return index


def _nonzero(index: Integers, values: Floats) -> tuple[Integers, Floats]:
    kept = np.any(values != 0.0, axis=1)
    # A message of zeros still has to be sent: keep one entry.
    kept[0] |= not kept.any()
    return np.ascontiguousarray(index[kept], np.int64), np.ascontiguousarray(values[kept], np.float64)


def _block_size(depth: int) -> int:
    """Return how many rows a block holds: as many as keep `depth` messages in cache, within reason."""
    return int(np.clip(CACHE_BYTES // (8 * depth), 32, 512))


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
    if parent.smallest * child.smallest < messages_kernels.TINY:
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


def _fold(tree: TreeOperators) -> TreeOperators:
    nodes: list[NodeOperator | None] = list(tree.nodes)
    for i in reversed(range(len(nodes))):
        node = nodes[i]
        assert node is not None
        k = 0
        while k < len(node.children):
            child = nodes[node.children[k]]
            assert child is not None
            merged = _merge(node, k, child)
            if merged is None:
                k += 1
                continue
            nodes[node.children[k]] = None
            node = merged
            # A grandchild was already refused by its own parent, but may now fit.
            k = 0
        nodes[i] = node
    return TreeOperators(_renumbered(nodes), tree.states)


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


def _plan(tree: TreeOperators) -> messages_kernels.FlatTree:
    nodes = tree.nodes
    bond = np.array([node.bond for node in nodes], np.int64)
    entries = [len(node.index) for node in nodes]
    entry_child = np.zeros((sum(entries), MOST_CHILDREN), np.int64)
    stride: list[int] = []
    start = 0
    for node, count in zip(nodes, entries, strict=True):
        entry_child[start : start + count, : len(node.children)] = node.index[:, :-1]
        start += count
        sizes = [tree.states[column] + 1 for column in node.columns]
        stride.extend(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))
    columns = [column for node in nodes for column in node.columns]
    return messages_kernels.FlatTree(
        bond=bond,
        slot=_slots(nodes),
        place=np.cumsum(bond) - bond,
        child_start=_starts([len(node.children) for node in nodes]),
        child=np.array([child for node in nodes for child in node.children], np.int64),
        entry_start=_starts(entries),
        entry_parent=np.concatenate([node.index[:, -1] for node in nodes]),
        entry_child=entry_child,
        value_start=_starts([node.values.size for node in nodes])[:-1],
        width=np.array([node.values.shape[1] for node in nodes], np.int64),
        values=np.concatenate([node.values.ravel() for node in nodes]),
        column_start=_starts([len(node.columns) for node in nodes]),
        column=np.array(columns, np.int64),
        stride=np.array(stride, np.int64),
        states=np.array([tree.states[column] for column in columns], np.int64),
    )


def _starts(counts: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _slots(nodes: Sequence[NodeOperator]) -> Integers:
    """Return where each message goes in the upward pass; a slot is free again once the parent has read it."""
    slots = np.zeros(len(nodes), np.int64)
    free: list[tuple[int, int]] = []
    end = 0
    for i in reversed(range(len(nodes))):
        size = nodes[i].bond
        fitting = min((gap for gap in free if gap[1] >= size), default=None)
        if fitting is None:
            slots[i] = end
            end += size
        else:
            free.remove(fitting)
            slots[i] = fitting[0]
            if fitting[1] > size:
                free.append((fitting[0] + size, fitting[1] - size))
        free.extend((int(slots[child]), nodes[child].bond) for child in nodes[i].children)
    return slots


def _tour(tree: TreeOperators) -> Integers:
    """Return the steps (node or its negative, parent, which child) that enter and leave every node once."""
    steps: list[tuple[int, int, int]] = []
    stack = [(0, -1, 0)]
    while stack:
        step = stack.pop()
        steps.append(step)
        if step[0] >= 0:
            stack.append((-step[0] - 1, -1, 0))
            children = tree.nodes[step[0]].children
            stack.extend((children[k], step[0], k) for k in reversed(range(len(children))))
    return np.array(steps, np.int64)


def _joint(tree: TreeOperators, columns: tuple[int, ...]) -> Floats:
    ups, downs = tree._summed_out
    if not columns:
        return np.asarray(math.exp(ups[0][1]) * ups[0][0][0])
    inside = {tree._owner[column] for column in columns}
    # The node with the largest number is below none of the others: replace it by its parent until one is left.
    pending = [-i for i in inside]
    heapq.heapify(pending)
    while len(pending) > 1:
        parent = tree.parents[-heapq.heappop(pending)]
        if parent not in inside:
            inside.add(parent)
            heapq.heappush(pending, -parent)
    top = -pending[0]
    # A message is a table (inner columns…, bond), kept as a matrix with the list of its columns.
    messages: dict[int, tuple[Floats, list[int]]] = {}
    scale = downs[top][1]
    for i in sorted(inside, reverse=True):
        node = tree.nodes[i]
        sizes = [tree.states[column] + 1 for column in node.columns]
        wanted = [column for column in node.columns if column in columns]
        picks = [slice(0, n - 1) if c in columns else n - 1 for c, n in zip(node.columns, sizes, strict=True)]
        own = node.values.reshape(len(node.index), *sizes)[(slice(None), *picks)]
        table = own.reshape(len(node.index), -1).T
        names = wanted
        for k, child in enumerate(node.children):
            if child in messages:
                message, below = messages.pop(child)
                part = message[:, node.index[:, k]]
                table = (table[:, None, :] * part[None, :, :]).reshape(-1, len(node.index))
                names = names + below
            else:
                table = table * ups[child][0][node.index[:, k]]
                scale += ups[child][1]
        order = np.argsort(node.index[:, -1], kind="stable")
        target = node.index[order, -1]
        starts = np.flatnonzero(np.concatenate([[True], target[1:] != target[:-1]]))
        out = np.zeros((len(table), node.bond))
        out[:, target[starts]] = np.add.reduceat(table[:, order], starts, axis=1)
        messages[i] = (out, names)
    table, names = messages[top]
    flat = (table @ downs[top][0]) * math.exp(scale)
    shaped = flat.reshape([tree.states[name] for name in names])
    return np.transpose(shaped, [names.index(column) for column in columns])
