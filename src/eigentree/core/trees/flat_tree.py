"""A tree of operators as flat arrays, and the workspace that passes over it write on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["NODE", "OWN_COLUMN", "FlatTree", "Workspace", "record"]


def record(fields: str) -> np.dtype[Any]:
    """Return the type of a record of whole numbers, but for its reach."""
    return np.dtype([(each, np.float64 if each == "reach" else np.int64) for each in fields.split()], align=True)


NODE = record(
    "bond line reach first_child stop_child first_entry stop_entry first_value width first_column stop_column"
)
"""The record of a node of a `FlatTree`."""

OWN_COLUMN = record("column stride states")
"""The record of a column that a node of a `FlatTree` holds."""


class FlatTree(NamedTuple):
    """A tree of sparse operators as flat arrays; nodes in preorder, so that n-1 … 0 is leaves first.

    Records rather than one array per property: numba passes each array in seven parts in every call, and to
    compile this took longer than to compile the loops.

    Attributes
    ----------
    nodes : (nodes,) of NODE
        ``bond`` is the size of the bond to the parent, and ``line`` the first line of the message over it;
        ``reach`` is the log2 of the message's smallest entry when no child's has one below 1. Children, entries
        and own columns are those from ``first_…`` to before ``stop_…`` of the arrays below; the values start at
        ``first_value``, ``width`` of them for each entry.
    child : (edges,)
        Children of each node.
    entry_parent : (entries,), entry_child : (entries, 3)
        Non-zero entries of each operator, sorted by children: index on the parent's bond and on each child's.
    columns : (own columns,) of OWN_COLUMN
        ``column`` is where the codes are. The joint code of a node is the sum of code times ``stride``; the code
        ``states`` stands for a missing cell.
    values : (all values,)
        Each entry's value for each joint code of its node.
    """

    nodes: Any
    child: Integers
    entry_parent: Integers
    entry_child: Integers
    columns: Any
    values: Floats


class Workspace(NamedTuple):
    """What the passes write on while they work on a block of rows.

    Attributes
    ----------
    lines : (lines, block)
        Messages up; from line ``above`` on, messages down in the same order; and line ``spare`` for a product.
    above, spare : int
    joint : (block,)
        The joint codes of the node at hand.
    exponent : (block,)
        What was taken out of each row's messages, as a power of two.
    low : (nodes,)
        A bound on the log2 of the smallest non-zero entry of each node's message in any row, at most 0.
    """

    lines: Floats
    above: int
    spare: int
    joint: Integers
    exponent: Integers
    low: Floats
