"""The model of a network: exact inference, rows sampled from the root down, and the most probable hidden states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.core.trees.max_product import DecodingWorkspace, decode
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.errors import DataError
from eigentree.inference.model import Model, check_count
from eigentree.inference.operators.operator_layout import all_kept
from eigentree.inference.operators.tree_operators import NodeOperator, TreeOperators
from eigentree.inference.tensors.named_tables import flat_index
from eigentree.validation import Seed, generator, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree
    from eigentree.graphs.junction_tree import JunctionTree, TreeNode

__all__ = ["Decoded", "NetworkModel", "clique_operator"]


def clique_operator(
    tree: JunctionTree, node: TreeNode, conditional_of: Callable[[TreeNode], Floats], every: bool = False
) -> NodeOperator:
    """Return the operator of a node: P(R_i | S_i), the modes of its separators duplicated (Eq. 10), kept sparse.

    With `every`, an inner node has one entry for each cell of its clique, in their order; else none that are zero.
    """
    if node.observed is not None:
        table = conditional_of(node) if node.remainder else np.eye(tree.graph.states[node.observed])
        leaf = table.reshape(-1, table.shape[-1]).T
        return NodeOperator.from_dense(leaf, columns=(tree.graph.column(node.observed),))
    table = conditional_of(node)
    separators = [*(tree.nodes[child].separator for child in node.children), node.separator]
    index = np.stack([flat_index(table.shape, node.clique, separator) for separator in separators], axis=1)
    bond = math.prod(table.shape[: len(node.separator)])
    if every:
        return NodeOperator((), node.children, bond, index, table.reshape(-1, 1))
    return NodeOperator.from_entries(index, table.reshape(-1, 1), bond, children=node.children)


class Decoded(NamedTuple):
    """The jointly most probable hidden states of each row or sequence.

    Attributes
    ----------
    states : array, shape (rows, hidden variables), or a frame; of sequences, those of each step
        In the order of ``graph.hidden``; -1 where a row or sequence is impossible.
    log_prob : array, shape (rows,) or (sequences,)
        Log P(these hidden states, the known cells); -inf where a row or sequence is impossible.
    """

    states: Any
    log_prob: Floats


@dataclass(frozen=True, eq=False)
class NetworkModel(Model):
    """The model of a graph whose tables are known.

    Attributes
    ----------
    tree : JunctionTree
    conditional_of : callable
        P(R_i | S_i) of a node of the tree, axes (separator…, remainder…).
    """

    tree: JunctionTree
    conditional_of: Callable[[TreeNode], Floats]

    undefined: ClassVar[str] = "follow cells that the model calls impossible"
    replaced: ClassVar[str] = (
        "have probability zero under the learned tables, and the score -inf; fit with pseudo_counts above 0, or on "
        "rows that show such cells together"
    )

    def score(self, codes: Codes) -> tuple[Floats, int]:
        """Return the log probability of rows of codes, and how many are impossible: they have -inf."""
        log_prob, _ = super().score(codes)
        return log_prob, int(np.isneginf(log_prob).sum())

    @our_arithmetic
    def draw(self, n: int, seed: Seed = None, given: Mapping[str, int] | None = None) -> tuple[Integers, int]:
        """Return rows sampled from the network, given the values of some observed variables if any."""
        if given is not None:
            sampled, undefined = super().draw(n, seed, given)
            if undefined:
                raise DataError(f"the evidence {dict(given)} has probability zero under this model")
            return sampled, 0
        # Without evidence no message need be passed: each node is sampled given its separator alone.
        check_count(n, len(self.columns.names))
        random = generator(seed)
        rows = np.empty((n, len(self.columns.names)), np.int64)
        step = rows_at_a_time(len(self.tree.nodes))
        for start in range(0, n, step):
            self._sample_into(rows[start : start + step], random)
        return rows, 0

    @cached_property
    def _cumulative(self) -> list[tuple[TreeNode, Floats]]:
        """Each node with a remainder, and the cumulative distribution of that for each state of its separator."""
        conditionals = ((node, self.conditional_of(node)) for node in self.tree.nodes if node.remainder)
        return [
            (node, table.reshape(math.prod(table.shape[: len(node.separator)]), -1).cumsum(axis=1))
            for node, table in conditionals
        ]

    def _sample_into(self, rows: Integers, random: np.random.Generator) -> None:
        """Sample each node's remainder given its separator, for all rows at once, and keep what is observed."""
        states = self.graph.states
        sampled: dict[str, Integers] = {}
        for node, cumulative in self._cumulative:
            given = np.zeros(len(rows), np.int64)
            for name in node.separator:
                given = given * states[name] + sampled[name]
            chosen = np.empty(len(rows), np.int64)
            choose(cumulative, given, random.random(len(rows)), chosen)
            cells = np.unravel_index(chosen, self.tree.states_of(node.remainder))
            sampled.update(zip(node.remainder, cells, strict=True))
        for column, name in enumerate(self.graph.observed):
            rows[:, column] = sampled[name]

    @cached_property
    def _logarithms(self) -> FlatTree:
        """The logarithms of a tree whose entries are the cells of its cliques, for max-product."""
        operators = tuple(clique_operator(self.tree, node, self.conditional_of, True) for node in self.tree.nodes)
        # Every message is kept: the way back down reads how each came about.
        flat = all_kept(TreeOperators(operators, self.columns.states).flat)
        with np.errstate(divide="ignore"):
            return flat._replace(values=np.log(flat.values))

    def decode(self, codes: Codes, hidden: Sequence[str]) -> Decoded:
        """Return the jointly most probable hidden states of rows of codes, given all other columns.

        Hidden variables may be columns here: those that no observed one depends on have to be.
        """
        flat, names = self._logarithms, self.columns.names
        wide = self.extended(codes, [name for name in names if name not in hidden])
        lines = int(flat.nodes.bond.sum())
        space = DecodingWorkspace(
            np.empty(lines),
            np.empty(lines, np.int64),
            np.empty(lines, np.int64),
            np.empty(len(flat.nodes), np.int64),
            np.array([name in hidden for name in names]),
        )
        entries = np.zeros((len(flat.nodes), len(codes)), np.int64)
        log_prob = np.empty(len(codes))
        decode(flat, wide.T, space, entries, log_prob)
        found = {name: wide[:, column] for column, name in enumerate(names)}
        for node, chosen in zip(self.tree.nodes, entries, strict=True):
            if node.observed is None and node.remainder:
                cells = np.unravel_index(chosen, self.tree.states_of(node.clique))
                found |= {n: cell for n, cell in zip(node.clique, cells, strict=True) if n in node.remainder}
        states = np.empty((len(codes), len(hidden)), np.int64)
        for place, name in enumerate(hidden):
            states[:, place] = found[name]
        states[np.isneginf(log_prob)] = -1
        return Decoded(states, log_prob)
