"""Messages passed through trees of operators: what rows of data, and tables of columns, ask of them.

There are four ways to pass messages, each for a reason:

- Rows go through `eigentree.core.trees.message_passing`, compiled, a block of rows at a time, in doubles with one
  exponent per row and message. That is what makes scoring fast.
- Rows whose probability this one exponent may have spoiled go once more through
  `eigentree.core.trees.extended_range`, which has an exponent for each number. That is right for all data, and far
  too slow for most.
- The rows of expectation-maximisation go through `eigentree.core.trees.estep`. It has no negative numbers to care
  for, counts on its way down, and runs hundreds of times over the same rows: its operators are cut so that a
  value is one number for all rows, where those here are multiplied together until a row needs few.
- Tables of some columns, all else summed out, are messages of another kind, once per model and not once per row.
  They go through `eigentree.inference.tensors.message_schedule`, in numpy (`joint` and `summed_out` below).
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core.trees import extended_range as wide_kernels
from eigentree.core.trees import message_passing as messages_kernels
from eigentree.core.trees.categorical_sampling import pick
from eigentree.core.trees.flat_tree import Workspace
from eigentree.core.trees.narrow_messages import narrow_upward
from eigentree.inference.tensors import message_schedule as schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree
    from eigentree.inference.operators.narrow_layout import Narrow
    from eigentree.inference.operators.node_operator import NodeOperator
    from eigentree.inference.operators.tree_operators import TreeOperators

__all__ = ["Scaled", "draw", "joint", "summed_out", "tables", "upward_pass"]

CACHE_BYTES = 192 * 1024
"""What the messages of one block of rows may take, so that they stay in the second-level cache."""


class Scaled(NamedTuple):
    """A message ``table · e^log_scale``; the table has the shape (cells of the columns that stay, bond)."""

    table: Floats
    log_scale: float


def upward_pass(flat: FlatTree, codes: Codes, narrow: Narrow | None = None) -> tuple[Floats, NDArray[np.int8]]:
    """Return the log absolute probability of each row of codes, and its sign (Eq. 13).

    A row of probability zero has log -inf and sign 0. Where the tree is narrow, rows go through that layout of it.
    """
    rows = _Rows(flat, codes, down=False)
    if narrow is None:
        rows.pass_up(0, len(codes))
    else:
        rows.pass_narrowly(narrow)
    if rows.unsure.any():
        again = np.empty(int(rows.unsure.sum())), np.empty(int(rows.unsure.sum()), np.int8)
        wide_kernels.wide_upward(flat, rows.spoiled(), rows.wide_workspace(), *again)
        rows.log_size[rows.unsure], rows.sign[rows.unsure] = again
    return rows.log_size, rows.sign


def tables(tree: TreeOperators, codes: Codes, columns: Sequence[int]) -> list[Floats]:
    """Return, for each wanted column, P(column = v, the row's other cells) up to a factor per row.

    Each table has the shape (rows, states of the column). The cell of the column itself is not looked at.
    """
    flat = tree.folded.kept
    offset = np.full(len(tree.states), -1, np.int64)
    ends = np.cumsum([0, *(tree.states[column] for column in columns)])
    offset[list(columns)] = ends[:-1]
    found = np.zeros((len(codes), int(ends[-1])))
    rows = _Rows(flat, codes, down=True)
    for start, stop in rows.blocks():
        rows.pass_up(start, stop)
        messages_kernels.downward(flat, rows.cells, start, stop, rows.space, offset, found)
    if rows.unsure.any():
        again = np.zeros((int(rows.unsure.sum()), found.shape[1]))
        wide_kernels.wide_downward(flat, rows.spoiled(), rows.wide_workspace(), offset, again)
        found[rows.unsure] = again
    return np.split(found, ends[1:-1], axis=1)


def draw(tree: TreeOperators, codes: Codes, random: np.random.Generator) -> int:
    """Fill the missing cells of the codes in place, each row drawn given its known cells.

    Returns
    -------
    int
        How many cells had no state of positive probability, and were drawn from their column alone.
    """
    flat, tour = tree.folded.kept, tree.folded.tour
    uniform = random.random(codes.shape)
    rows = _Rows(flat, codes, down=True)
    table = np.empty((max(tree.states), rows.space.lines.shape[1]))
    for start, stop in rows.blocks():
        rows.pass_up(start, stop)
        messages_kernels.draw(flat, tour, rows.cells, start, stop, uniform, rows.space, table, rows.unsure)
    if rows.unsure.any():
        again = rows.spoiled()
        wide_kernels.wide_draw(flat, tour, again, uniform[rows.unsure], rows.wide_workspace())
        rows.cells[:, rows.unsure] = again
    if not np.may_share_memory(rows.cells, codes):
        codes[:] = rows.cells.T
    return _draw_alone(tree, codes, uniform)


def _draw_alone(tree: TreeOperators, codes: Codes, uniform: Floats) -> int:
    """Fill the missing cells that are left, each from its column's distribution; return how many there were."""
    left = codes == np.asarray(tree.states)
    for column in np.flatnonzero(left.any(axis=0)).tolist():
        alone = np.maximum(tree.joint((column,)), 0.0)
        table = alone if alone.sum() > 0.0 else np.ones(tree.states[column])
        rows = np.flatnonzero(left[:, column])
        codes[rows, column] = [pick(table[:, None], 0, len(table), level) for level in uniform[rows, column]]
    return int(left.sum())


class _Rows:
    """Rows of codes on their way through a flat tree, with what the compiled passes write.

    Attributes
    ----------
    cells : (columns, rows)
        The codes as the kernels read them: so laid out, one row and many are arrays of the same kind to numba.
    log_size, sign, unsure : (rows,)
        What the pass up finds, and where underflow may have spoiled it.
    """

    def __init__(self, flat: FlatTree, codes: Codes, down: bool) -> None:
        self.flat = flat
        self.cells = np.ascontiguousarray(codes.T)
        self.log_size, self.sign = np.empty(len(codes)), np.empty(len(codes), np.int8)
        self.unsure: Booleans = np.zeros(len(codes), np.bool_)
        self._depth = int((flat.nodes.line + flat.nodes.bond).max())
        lines = 2 * self._depth if down else self._depth
        # No more than the rows need: the lines of a single row would each lie on a page of their own.
        block = max(1, min(_block_size(lines), len(codes)))
        self.space = Workspace(
            lines=np.empty((lines + 1, block)),
            above=self._depth,
            spare=lines,
            joint=np.empty(block, np.int64),
            exponent=np.empty(block, np.int64),
            low=np.empty(len(flat.nodes)),
        )

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the first row of each block, and the first one after it."""
        size = self.space.lines.shape[1]
        for start in range(0, len(self.unsure), size):
            yield start, min(start + size, len(self.unsure))

    def pass_up(self, start: int, stop: int) -> None:
        """Pass messages up the whole tree for some rows; those of the last block stay."""
        found = self.space, self.log_size, self.sign
        while start < stop:
            start, node = messages_kernels.upward(self.flat, self.cells, start, stop, *found)
            if node >= 0:
                end = min(start + self.space.lines.shape[1], stop)
                messages_kernels.careful_upward(self.flat, self.cells, start, end, node, *found, self.unsure)
                start = end

    def pass_narrowly(self, narrow: Narrow) -> None:
        """Pass messages up the whole tree for all rows; blocks in which underflow could matter go the long way."""
        space, start, stop = narrow.space(len(self.unsure)), 0, len(self.unsure)
        while start < stop:
            start = narrow_upward(
                narrow.tree, narrow.width, self.cells, start, stop, space, self.log_size, self.sign
            )
            if start < stop:
                end = min(start + len(space.place), stop)
                self.pass_up(start, end)
                start = end

    def spoiled(self) -> Codes:
        """Return the cells of the rows that have to be computed again, in wide numbers."""
        return np.ascontiguousarray(self.cells[:, self.unsure])

    def wide_workspace(self) -> wide_kernels.WideWorkspace:
        """Return what the wide passes write on."""
        spare, most = 2 * self._depth, int(self.flat.columns.states.max())
        size, power = np.zeros(spare + most), np.zeros(spare + most, np.int64)
        return wide_kernels.WideWorkspace(size, power, self._depth, spare, np.empty((most, 1)))


def _block_size(lines: int) -> int:
    """Return how many rows a block holds: as many as keep the lines in cache, within reason."""
    return int(np.clip(CACHE_BYTES // (8 * lines), 32, 512))


def summed_out(nodes: Sequence[NodeOperator]) -> tuple[list[Scaled], list[Scaled]]:
    """Return the messages up from and down to each node when every cell is missing."""

    def send_up(i: int, below: list[Scaled]) -> Scaled:
        return sent(i, -1, list(enumerate(below)))

    def send_down(i: int, above: Scaled, below: list[Scaled]) -> Iterator[Scaled]:
        for k in range(len(below)):
            yield sent(i, k, [(-1, above), *((j, message) for j, message in enumerate(below) if j != k)])

    def sent(i: int, port: int, incoming: list[tuple[int, Scaled]]) -> Scaled:
        node = nodes[i]
        weights = _products(node, node.values[:, -1:].T, ((k, message.table) for k, message in incoming))
        bond = node.bond if port < 0 else nodes[node.children[port]].bond
        table = _totals(node.index[:, port], weights, bond)
        log_scale = sum(message.log_scale for _, message in incoming)
        peak = float(np.abs(table).max())
        return Scaled(table, log_scale) if peak == 0.0 else Scaled(table / peak, log_scale + math.log(peak))

    children = [node.children for node in nodes]
    up = schedule.upward(children, send_up)
    return up, schedule.downward(children, up, send_down, Scaled(np.ones((1, 1)), 0.0))


def joint(tree: TreeOperators, columns: Sequence[int]) -> Floats:
    """Return the table of some columns with all others summed out; axes in the given order.

    Only the part of the tree that joins these columns is visited.
    """
    up, down = tree.summed_out
    if not columns:
        return np.asarray(math.exp(up[0].log_scale) * up[0].table[0, 0])
    inside = _joining(tree, columns)
    number = {i: k for k, i in enumerate(inside)}
    log_scale = down[inside[0]].log_scale

    def send(k: int, below: list[Floats]) -> Floats:
        nonlocal log_scale
        node, kept = tree.nodes[inside[k]], iter(below)
        incoming = []
        for port, child in enumerate(node.children):
            if child in number:
                incoming.append((port, next(kept)))
            else:
                incoming.append((port, up[child].table))
                log_scale += up[child].log_scale
        return _totals(node.index[:, -1], _products(node, _own_values(tree, node, columns), incoming), node.bond)

    children = [[number[child] for child in tree.nodes[i].children if child in number] for i in inside]
    table = schedule.root_message(children, send)
    flat = (table @ down[inside[0]].table[0]) * math.exp(log_scale)
    # A message has a node's own columns first, then those of its children: the nodes' order.
    found = [column for i in inside for column in tree.nodes[i].columns if column in columns]
    shaped = flat.reshape([tree.states[column] for column in found])
    return np.transpose(shaped, [found.index(column) for column in columns])


def _joining(tree: TreeOperators, columns: Sequence[int]) -> list[int]:
    """Return the nodes that hold some columns or lie between those that do, in the order of the tree."""
    inside = {tree.owner[column] for column in columns}
    # The node with the largest number is below none of the others: replace it by its parent until one is left.
    pending = [-i for i in inside]
    heapq.heapify(pending)
    while len(pending) > 1:
        parent = tree.parents[-heapq.heappop(pending)]
        if parent not in inside:
            inside.add(parent)
            heapq.heappush(pending, -parent)
    return sorted(inside)


def _own_values(tree: TreeOperators, node: NodeOperator, columns: Sequence[int]) -> Floats:
    """Return a node's values, shape (cells of the columns that stay, entries), its other columns summed out."""
    sizes = [tree.states[column] + 1 for column in node.columns]
    picks = [slice(0, n - 1) if c in columns else n - 1 for c, n in zip(node.columns, sizes, strict=True)]
    own: Floats = node.values.reshape(len(node.index), *sizes)[(slice(None), *picks)]
    return own.reshape(len(node.index), -1).T


def _products(node: NodeOperator, own: Floats, incoming: Iterable[tuple[int, Floats]]) -> Floats:
    """Return own values times messages at each entry, shape (cells of all columns that stay, entries).

    A message comes with its port: a child's number, or -1 for the parent.
    """
    table = own
    for port, message in incoming:
        part = message[:, node.index[:, port]]
        table = (table[:, None, :] * part).reshape(-1, len(node.index))
    return table


def _totals(index: Integers, weights: Floats, bond: int) -> Floats:
    """Return the sums of weights, shape (cells, entries), over the entries at each index of a bond."""
    if len(weights) == 1:
        return np.bincount(index, weights[0], bond)[None, :].astype(np.float64, copy=False)
    order = np.argsort(index, kind="stable")
    target = index[order]
    starts = np.flatnonzero(np.concatenate([[True], target[1:] != target[:-1]]))
    totals = np.zeros((len(weights), bond))
    totals[:, target[starts]] = np.add.reduceat(weights[:, order], starts, axis=1)
    return totals
