"""Trees of operators as flat arrays, for the compiled passes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.trees.flat_tree import NODE, OWN_COLUMN, FlatTree
from eigentree.inference.operators.folding import MOST_CHILDREN
from eigentree.inference.operators.line_pool import LinePool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.inference.operators.node_operator import NodeOperator

__all__ = ["all_kept", "filled", "flat_tree", "round_tour"]


def flat_tree(nodes: Sequence[NodeOperator], states: Sequence[int]) -> FlatTree:
    """Return the flat arrays of a tree, given its nodes in preorder and the states of all columns.

    Lines of messages are used again once the parent has read them, which suits a pass up alone.
    """
    records = np.recarray(len(nodes), NODE)
    records.bond = [node.bond for node in nodes]
    records.line = _reused_lines(nodes)
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


def _reused_lines(nodes: Sequence[NodeOperator]) -> list[int]:
    """Return the first line of each message in a pass up; lines are free again once the parent has read them."""
    lines = [0] * len(nodes)
    pool = LinePool()
    for i in reversed(range(len(nodes))):
        lines[i] = pool.lend(nodes[i].bond)
        for child in nodes[i].children:
            pool.give_back(lines[child], nodes[child].bond)
    return lines
