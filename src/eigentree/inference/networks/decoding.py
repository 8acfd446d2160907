"""The jointly likeliest states of all hidden variables, by max-product on the junction tree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core.trees.max_product import DecodingWorkspace, decode
from eigentree.data.tables.columns import Columns
from eigentree.inference.operators.node_operator import NodeOperator
from eigentree.inference.operators.operator_layout import all_kept
from eigentree.inference.operators.tree_operators import TreeOperators
from eigentree.inference.tensors.named_tables import flat_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.junction_tree import JunctionTree, TreeNode

__all__ = ["Decoded", "Decoder"]


class Decoded(NamedTuple):
    """The jointly likeliest hidden states of each row.

    Attributes
    ----------
    states : array, shape (rows, hidden variables)
        In the order of ``graph.hidden``; -1 in a row that is impossible.
    log_prob : array, shape (rows,)
        Log P(these hidden states, the known cells of the row); -inf for a row that is impossible.
    """

    states: Integers
    log_prob: Floats


@dataclass(frozen=True, eq=False)
class Decoder:
    """Max-product on a tree whose entries are the cells of its cliques, so that an entry tells hidden states.

    Attributes
    ----------
    graph : LatentGraph
        The graph whose hidden variables are decoded.
    tree : JunctionTree
        Of the same graph, in which hidden variables that no observed one depends on are columns: else its tree
        would lack them, and they bear on which states are likeliest together.
    conditional_of : callable
        P(R_i | S_i) of a node of the tree, axes (separator…, remainder…).
    """

    graph: LatentGraph
    tree: JunctionTree
    conditional_of: Callable[[TreeNode], Floats]

    @cached_property
    def columns(self) -> Columns:
        """The columns of the tree."""
        return Columns.of(self.tree.graph)

    @cached_property
    def _logarithms(self) -> FlatTree:
        operators = tuple(self._operator(node) for node in self.tree.nodes)
        # Every message is kept: the way back down reads how each came about.
        flat = all_kept(TreeOperators(operators, self.columns.states).flat)
        with np.errstate(divide="ignore"):
            return flat._replace(values=np.log(flat.values))

    def _operator(self, node: TreeNode) -> NodeOperator:
        """Return the operator of a node with one entry per cell of its clique, none added up, none left out."""
        if node.observed is not None:
            column = self.columns.position(node.observed)
            table = self.conditional_of(node) if node.remainder else np.eye(self.columns.states[column])
            flat = table.reshape(-1, table.shape[-1])
            # The last value, for a missing cell, is the sum over states.
            values = np.hstack([flat, flat.sum(axis=1, keepdims=True)])
            return NodeOperator((column,), (), len(flat), np.arange(len(flat))[:, None], values)
        table = self.conditional_of(node)
        separators = [*(self.tree.nodes[child].separator for child in node.children), node.separator]
        index = np.stack([flat_index(table.shape, node.clique, separator) for separator in separators], axis=1)
        bond = math.prod(self.tree.states_of(node.separator))
        return NodeOperator((), node.children, bond, index, table.reshape(-1, 1))

    def decode(self, codes: Codes) -> Decoded:
        """Return the jointly likeliest hidden states of rows of codes of the graph's own columns."""
        flat = self._logarithms
        wide = self.columns.missing(len(codes))
        wide[:, [self.columns.position(name) for name in self.graph.observed]] = codes
        lines = int(flat.nodes.bond.sum())
        space = DecodingWorkspace(
            np.empty(lines),
            np.empty(lines, np.int64),
            np.empty(lines, np.int64),
            np.empty(len(flat.nodes), np.int64),
            np.array([name in self.graph.hidden for name in self.columns.names]),
        )
        entries = np.zeros((len(flat.nodes), len(codes)), np.int64)
        log_prob = np.empty(len(codes))
        decode(flat, wide.T, space, entries, log_prob)
        states = self._states(wide, entries)
        states[np.isneginf(log_prob)] = -1
        return Decoded(states, log_prob)

    def _states(self, wide: Codes, entries: Integers) -> Integers:
        """Return what the cells of cliques that were gone through say of the hidden variables."""
        place = {name: k for k, name in enumerate(self.graph.hidden)}
        states = np.empty((len(wide), len(place)), np.int64)
        for n, node in enumerate(self.tree.nodes):
            if node.observed is None and node.remainder:
                cells = np.unravel_index(entries[n], self.tree.states_of(node.clique))
                for name, found in zip(node.clique, cells, strict=True):
                    if name in node.remainder and name in place:
                        states[:, place[name]] = found
        for name in self.columns.names:
            if name in place:
                states[:, place[name]] = wide[:, self.columns.position(name)]
        return states
