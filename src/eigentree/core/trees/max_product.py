"""The most probable states: max-product up the tree in logarithms, so that nothing underflows, and back down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.core.trees.message_passing import OperatorTree

__all__ = ["decode"]


def decode(tree: OperatorTree, codes: Codes, decoded: Booleans) -> tuple[Integers, Floats]:
    """Return which entry of each operator the jointly most probable states go through, and their log probability.

    Entries have the shape (nodes, rows). The values of the tree are logarithms, and a node holds one column at
    most. Missing cells of the codes, shape (rows, columns), are filled in place where `decoded` has their column;
    others are marginalised out. A row that is impossible gets -inf, and is left as it is.
    """
    cells = np.ascontiguousarray(codes.T)
    entries, log_prob = np.zeros((tree.size, len(codes)), np.int64), np.empty(len(codes))
    _native.tree_decode(tree.native, cells, decoded, entries, log_prob)
    if not np.may_share_memory(cells, codes):
        codes[:] = cells.T
    return entries, log_prob
