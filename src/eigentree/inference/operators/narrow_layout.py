"""Trees of operators with narrow bonds, laid out row by row for the compiled pass up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.narrow_messages import NARROW, NarrowSpace, NarrowTree
from eigentree.inference.operators.line_pool import LinePool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree
    from eigentree.inference.operators.node_operator import NodeOperator

__all__ = ["Narrow"]

WIDTHS = (4, 8)
"""Numbers of messages that stay in registers: one vector, or two."""

MOST_PADDING = 4
"""How many times the values of the operators may be stored, zeros between them included: a vector takes four."""

BLOCK = 512
"""Rows that go through the tree together: the messages of two nodes stay in the first cache."""

CACHE_BYTES = 192 * 1024
"""What all messages of a block may take, so that they stay in the second cache."""


@dataclass(frozen=True, eq=False)
class Narrow:
    """A tree whose messages stay in registers.

    Attributes
    ----------
    tree : NarrowTree
    width : int
        Numbers of a message with its padding.
    slots : int
        How many messages of a row are kept at a time.
    block : int
        How many rows go through the tree together.
    """

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
        records.slot, slots = _slots(nodes)
        for name in ("reach", "first_child", "stop_child", "first_column", "stop_column"):
            records[name] = flat.nodes[name]
        records.stop_choice = np.cumsum([len(met) for met in choices])
        records.first_choice = records.stop_choice - [len(met) for met in choices]
        records.first_value = np.cumsum([0, *(table.size for table in tables[:-1])])
        padded = np.zeros((int(records.stop_choice[-1]), flat.entry_child.shape[1]), np.int64)
        for met, first, stop in zip(choices, records.first_choice, records.stop_choice, strict=True):
            padded[first:stop, : met.shape[1]] = met
        tree = NarrowTree(records, flat.child, padded, _strides(flat, tables), _end_to_end(tables))
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
    room = np.empty(count + 7)
    start = -room.ctypes.data // 8 % 8
    return room[start : start + count]


def _end_to_end(tables: Sequence[Floats]) -> Floats:
    values = _aligned(sum(table.size for table in tables))
    np.concatenate([table.ravel() for table in tables], out=values)
    return values


def _strides(flat: FlatTree, tables: Sequence[Floats]) -> Integers:
    """Return column and stride of each own column, strides in values."""
    columns = np.stack([flat.columns.column, flat.columns.stride], axis=1)
    for node, table in zip(flat.nodes, tables, strict=True):
        columns[node.first_column : node.stop_column, 1] *= table[0].size
    return columns


def _slots(nodes: Sequence[NodeOperator]) -> tuple[list[int], int]:
    """Return the slot of each node's message, used again once its parent has read it, and how many there are."""
    slots = [0] * len(nodes)
    pool = LinePool()
    for i in reversed(range(len(nodes))):
        slots[i] = pool.lend(1)
        for child in nodes[i].children:
            pool.give_back(slots[child], 1)
    return slots, pool.end
