"""Trees of operators (sections 4.2 and 5), and the messages that queries pass through them.

An operator is the tensor of one node: the paper's P(C_i) of Eq. 10 for the exact model, and its observable
form of Eq. 22-24 for the spectral one. The engine does not care which: entries may be negative, bonds are just
sizes. Only non-zero entries are kept, so the duplicated modes of Eq. 10 cost no memory.

Messages are passed in three ways, each for a reason:

- Rows go through `eigentree.core.trees.message_passing`, compiled, a block of rows at a time, in doubles with one
  exponent per row and message. That is what makes scoring fast.
- Rows whose probability this one exponent may have changed go once more through
  `eigentree.core.trees.extended_range`, which has an exponent for each number: right for all data, and slow.
- The rows of EM go through `eigentree.core.trees.estep`, which knows no negative numbers and counts as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees import message_passing as kernels
from eigentree.core.trees.categorical_sampling import pick
from eigentree.core.trees.extended_range import WideWorkspace, wide_downward, wide_draw, wide_upward
from eigentree.core.trees.flat_tree import Workspace
from eigentree.core.trees.narrow_messages import narrow_upward
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.inference.operators.operator_layout import (
    Narrow,
    NodeOperator,
    all_kept,
    flat_tree,
    folded,
    round_tour,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree

__all__ = ["NodeOperator", "TreeOperators", "upward_pass"]

CACHE_BYTES = 192 * 1024
"""What the messages of one block of rows may take, so that they stay in the second-level cache."""


@dataclass(frozen=True, eq=False)
class TreeOperators:
    """A tree of operators: all that inference about the observed columns needs.

    Attributes
    ----------
    nodes : tuple of NodeOperator
        In preorder; the first is the root.
    states : tuple of int
        Number of states of every column.

    Examples
    --------
    A mixture of two coins, tossed twice:

    >>> import numpy as np
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

    def log_prob(self, codes: Codes) -> tuple[Floats, NDArray[np.int8]]:
        """Return the log absolute probability of each row of codes, and its sign (Eq. 13).

        A row of probability zero has log -inf and sign 0.
        """
        return upward_pass(self.folded.flat, codes, self.folded.narrow)

    def tables(self, codes: Codes, columns: Sequence[int]) -> list[Floats]:
        """Return, for each wanted column, P(column = v, the row's other cells) up to a factor per row.

        Each table has the shape (rows, states of the column). The cell of the column itself is not read.
        """
        flat = self.folded.kept
        offset = np.full(len(self.states), -1, np.int64)
        ends = np.cumsum([0, *(self.states[column] for column in columns)])
        offset[list(columns)] = ends[:-1]
        found = np.zeros((len(codes), int(ends[-1])))
        rows = _RowPass(flat, codes, down=True)
        for start, stop in rows.blocks():
            rows.pass_up(start, stop)
            kernels.downward(flat, rows.cells, start, stop, rows.space, offset, found)
        if rows.unsure.any():
            again = np.zeros((int(rows.unsure.sum()), found.shape[1]))
            wide_downward(flat, rows.unsure_cells(), rows.wide_workspace(), offset, again)
            found[rows.unsure] = again
        return np.split(found, ends[1:-1], axis=1)

    def draw(self, codes: Codes, random: np.random.Generator) -> int:
        """Fill the missing cells of the codes in place, those of each row sampled together given its known cells.

        Returned is how many cells had no state of positive probability, and were sampled from their marginal.
        """
        flat, tour = self.folded.kept, self.folded.tour
        uniform = random.random(codes.shape)
        rows = _RowPass(flat, codes, down=True)
        table = np.empty((max(self.states), rows.space.lines.shape[1]))
        for start, stop in rows.blocks():
            rows.pass_up(start, stop)
            kernels.draw(flat, tour, rows.cells, start, stop, uniform, rows.space, table, rows.unsure)
        if rows.unsure.any():
            again = rows.unsure_cells()
            wide_draw(flat, tour, again, uniform[rows.unsure], rows.wide_workspace())
            rows.cells[:, rows.unsure] = again
        if not np.may_share_memory(rows.cells, codes):
            codes[:] = rows.cells.T
        left = codes == np.asarray(self.states)
        for column in np.flatnonzero(left.any(axis=0)).tolist():
            marginal = np.maximum(self.joint((column,)), 0.0)
            weights = marginal if marginal.sum() > 0.0 else np.ones(self.states[column])
            where = np.flatnonzero(left[:, column])
            codes[where, column] = [
                pick(weights[:, None], 0, len(weights), level) for level in uniform[where, column]
            ]
        return int(left.sum())

    def joint(self, columns: Sequence[int]) -> Floats:
        """Return the table of some columns with all others marginalised out; axes in the given order."""
        shape = [self.states[column] for column in columns]
        table = np.empty(math.prod(shape))
        step = rows_at_a_time(len(self.states))
        for start in range(0, len(table), step):
            part = np.arange(start, min(start + step, len(table)))
            codes = np.repeat(np.array([self.states], np.min_scalar_type(max(self.states))), len(part), axis=0)
            for column, cells in zip(columns, np.unravel_index(part, shape) if shape else (), strict=True):
                codes[:, column] = cells
            log_size, sign = self.log_prob(codes)
            table[part] = sign * np.exp(log_size)
        return table.reshape(shape)

    @cached_property
    def folded(self) -> TreeOperators:
        """The same model with children multiplied into their parents wherever that saves work."""
        return TreeOperators(folded(self.nodes), self.states)

    @cached_property
    def flat(self) -> FlatTree:
        """The flat layout of this tree for the compiled pass up."""
        return flat_tree(self.nodes, self.states)

    @cached_property
    def narrow(self) -> Narrow | None:
        """The layout of this tree for the compiled pass up row by row, where its bonds are narrow enough."""
        return Narrow.of(self.nodes, self.flat)

    @cached_property
    def kept(self) -> FlatTree:
        """The flat layout for compiled passes up and down, in which every message is kept."""
        return all_kept(self.flat)

    @cached_property
    def tour(self) -> Integers:
        """The order in which sampling visits the nodes; see `operator_layout.round_tour`."""
        return round_tour(self.nodes)


def upward_pass(flat: FlatTree, codes: Codes, narrow: Narrow | None = None) -> tuple[Floats, NDArray[np.int8]]:
    """Return the log absolute probability of each row of codes, and its sign (Eq. 13).

    A row of probability zero has log -inf and sign 0. Where the tree is narrow, rows go through that layout of it.
    """
    rows = _RowPass(flat, codes, down=False)
    if narrow is None:
        rows.pass_up(0, len(codes))
    else:
        rows.pass_up_narrow(narrow)
    if rows.unsure.any():
        again = np.empty(int(rows.unsure.sum())), np.empty(int(rows.unsure.sum()), np.int8)
        wide_upward(flat, rows.unsure_cells(), rows.wide_workspace(), *again)
        rows.log_size[rows.unsure], rows.sign[rows.unsure] = again
    return rows.log_size, rows.sign


class _RowPass:
    """Rows of codes that pass through a flat tree, with what the compiled passes write.

    Codes lie as (columns, rows), so that one row and many are arrays of the same type to numba.
    """

    def __init__(self, flat: FlatTree, codes: Codes, down: bool) -> None:
        self.flat = flat
        self.cells = np.ascontiguousarray(codes.T)
        self.log_size, self.sign = np.empty(len(codes)), np.empty(len(codes), np.int8)
        self.unsure: Booleans = np.zeros(len(codes), np.bool_)
        self._depth = int((flat.nodes.line + flat.nodes.bond).max())
        lines = 2 * self._depth if down else self._depth
        # No more than the rows need: the lines of a single row would each lie on a page of their own.
        block = max(1, min(int(np.clip(CACHE_BYTES // (8 * lines), 32, 512)), len(codes)))
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
            start, node = kernels.upward(self.flat, self.cells, start, stop, *found)
            if node >= 0:
                end = min(start + self.space.lines.shape[1], stop)
                kernels.careful_upward(self.flat, self.cells, start, end, node, *found, self.unsure)
                start = end

    def pass_up_narrow(self, narrow: Narrow) -> None:
        """Do as `pass_up` for all rows in the narrow layout, but for blocks in which underflow could matter."""
        space, start, stop = narrow.space(len(self.unsure)), 0, len(self.unsure)
        found = self.log_size, self.sign
        while start < stop:
            start = narrow_upward(narrow.tree, narrow.width, self.cells, start, stop, space, *found)
            if start < stop:
                end = min(start + len(space.place), stop)
                self.pass_up(start, end)
                start = end

    def unsure_cells(self) -> Codes:
        """Return the cells of the rows that have to be computed again, in extended range."""
        return np.ascontiguousarray(self.cells[:, self.unsure])

    def wide_workspace(self) -> WideWorkspace:
        """Return what the passes in extended range write on."""
        spare, most = 2 * self._depth, int(self.flat.columns.states.max())
        size, power = np.zeros(spare + most), np.zeros(spare + most, np.int64)
        return WideWorkspace(size, power, self._depth, spare, np.empty((most, 1)))
