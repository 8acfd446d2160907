"""Children multiplied into their parents wherever that saves work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.message_passing import TINY
from eigentree.inference.operators.node_operator import NodeOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MOST_CHILDREN", "folded"]

FOLDED_VALUES = 2048
"""Largest table that folding makes: 16 KiB, half of a first-level cache."""

MOST_CHILDREN = 3
"""Children that an operator may have; the compiled passes multiply no more messages than that."""


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
