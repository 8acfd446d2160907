"""Messages up and down a tree of operators: probabilities, tables of columns, samples, most probable states.

The loops are in ``native/message_passing_loops.cpp``: rows pass in doubles, with one exponent for each message of a
row; those whose probability underflow may have changed pass once more through the same loops in extended range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers

__all__ = ["MOST_CHILDREN", "OperatorTree"]

MOST_CHILDREN = _native.MOST_CHILDREN
"""Children that an operator may have."""


class OperatorTree:
    """A tree of sparse operators, checked and laid out for the compiled passes.

    Parameters
    ----------
    states : array, shape (columns,)
        Number of states of each column; the code after the last stands for a missing cell.
    nodes : array, shape (nodes, 4)
        Size of the bond with the parent, and numbers of children, own columns and entries of each node. Children
        come after their parents; the first node is the root, whose bond has one index.
    children, columns : array
        Children, and own columns, of all nodes.
    index : array, shape (entries, 4)
        Index of each entry on the bond of each child, 0 where there is none, and on that with the parent.
    values : array
        The value of each entry of a node at each joint code of its columns, in C order.
    """

    def __init__(
        self,
        states: Integers,
        nodes: Integers,
        children: Integers,
        columns: Integers,
        index: Integers,
        values: Floats,
    ) -> None:
        self._parts = (states, nodes, children, columns, index, values)
        self.native = _native.OperatorTree(*self._parts)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self._parts[1])

    def __reduce__(self) -> tuple[type[OperatorTree], tuple[object, ...]]:
        return OperatorTree, self._parts

    def log_prob(self, codes: Codes) -> tuple[Floats, NDArray[np.int8]]:
        """Return the log absolute probability of each row of codes, shape (rows, columns), and its sign (Eq. 13).

        A row of probability zero has log -inf and sign 0.
        """
        log_size, sign = np.empty(len(codes)), np.empty(len(codes), np.int8)
        _native.tree_log_prob(self.native, np.ascontiguousarray(codes.T), log_size, sign)
        return log_size, sign

    def tables(self, codes: Codes, offset: Integers, width: int) -> Floats:
        """Return P(column = v, the other cells of the row), up to a factor per row, shape (rows, width).

        `offset` is where each column's states start in a row of the tables, or -1 where they are not wanted.
        """
        found = np.zeros((len(codes), width))
        _native.tree_tables(self.native, np.ascontiguousarray(codes.T), offset, found)
        return found

    def decode(self, codes: Codes, decoded: Booleans) -> tuple[Integers, Floats]:
        """Return which entry of each operator the most probable states go through, and their log probability.

        States are most probable jointly; entries have the shape (nodes, rows). Values of the tree are logarithms,
        so that no product underflows, and a node holds one column at most. Missing cells of the codes are filled in
        place where `decoded` has their column; others are marginalised out. A row that is impossible gets -inf, and
        is left as it is.
        """
        cells = np.ascontiguousarray(codes.T)
        entries, log_prob = np.zeros((self.size, len(codes)), np.int64), np.empty(len(codes))
        _native.tree_decode(self.native, cells, decoded, entries, log_prob)
        if not np.may_share_memory(cells, codes):
            codes[:] = cells.T
        return entries, log_prob

    def draw(self, codes: Codes, uniform: Floats) -> None:
        """Fill the missing cells of the codes in place with a sample given the other cells of their row.

        `uniform` has the shape of the codes. A cell for which no state has a positive probability stays missing.
        """
        cells = np.ascontiguousarray(codes.T)
        _native.tree_draw(self.native, cells, uniform)
        if not np.may_share_memory(cells, codes):
            codes[:] = cells.T
