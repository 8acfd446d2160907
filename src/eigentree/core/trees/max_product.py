"""The most probable states: max-product up the tree in logarithms, so that nothing underflows, and back down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.compiling import compiled, helper

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree

__all__ = ["DecodingWorkspace", "decode"]


class DecodingWorkspace(NamedTuple):
    """Messages of one row, and how each entry of them came about.

    Attributes
    ----------
    score : (lines,)
        The log of the largest product for each entry of each node's message.
    entry, state : (lines,)
        Which entry of the operator it is from, and the state of the node's own column if that is decoded.
    chosen : (nodes,)
        The index on each node's bond on the way back.
    decoded : (columns,)
        Whether a missing cell of each column is decoded; others are marginalised out.
    """

    score: Floats
    entry: Integers
    state: Integers
    chosen: Integers
    decoded: Booleans


@helper
def _send_up(tree: FlatTree, n: int, codes: Any, r: int, space: DecodingWorkspace) -> None:
    """Write the largest product for each index on a node's bond; the tree's values are logarithms."""
    node = tree.nodes[n]
    for p in range(node.line, node.line + node.bond):
        space.score[p] = -np.inf
        space.entry[p] = node.first_entry
        space.state[p] = 0
    first, last = 0, 1
    if node.stop_column > node.first_column:
        own = tree.columns[node.first_column]
        first = codes[own.column, r]
        last = first + 1
        if first == own.states and space.decoded[own.column]:
            first, last = 0, own.states
    for e in range(node.first_entry, node.stop_entry):
        below = 0.0
        for k in range(node.stop_child - node.first_child):
            below += space.score[tree.nodes[tree.child[node.first_child + k]].line + tree.entry_child[e, k]]
        values = node.first_value + (e - node.first_entry) * node.width
        at = node.line + tree.entry_parent[e]
        for state in range(first, last):
            score = below + tree.values[values + state]
            if score > space.score[at]:
                space.score[at] = score
                space.entry[at] = e
                space.state[at] = state


@compiled
def decode(tree: FlatTree, codes: Any, space: DecodingWorkspace, entries: Any, log_prob: Any) -> None:
    """Write which entry of each operator the jointly most probable states go through, and their log probability.

    Decoded missing cells are filled. A node holds one column at most, and the values of the tree are logarithms. A
    row that is impossible gets -inf, and is left as it is.
    """
    for r in range(codes.shape[1]):
        for n in range(tree.nodes.shape[0] - 1, -1, -1):
            _send_up(tree, n, codes, r, space)
        log_prob[r] = space.score[tree.nodes[0].line]
        if log_prob[r] == -np.inf:
            continue
        space.chosen[0] = 0
        for n in range(tree.nodes.shape[0]):
            node = tree.nodes[n]
            at = node.line + space.chosen[n]
            e = space.entry[at]
            entries[n, r] = e - node.first_entry
            for k in range(node.stop_child - node.first_child):
                space.chosen[tree.child[node.first_child + k]] = tree.entry_child[e, k]
            if node.stop_column > node.first_column:
                own = tree.columns[node.first_column]
                if codes[own.column, r] == own.states and space.decoded[own.column]:
                    codes[own.column, r] = space.state[at]
