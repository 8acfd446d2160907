"""Posteriors, most probable states and samples of hidden variables given rows.

A hidden variable that is wanted becomes a column whose cells are all missing, and then inference is as for columns.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.data.tables.restore import frame_like
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.errors import DataError, GraphError
from eigentree.inference.operators.operator_layout import laid_out
from eigentree.inference.operators.tree_operators import NodeOperator
from eigentree.inference.queries import Model, Queries, by_row, checked_count, warn_undefined
from eigentree.inference.tensors.named_tables import flat_index
from eigentree.messages import renamed_arguments
from eigentree.validation import Seed, different_names, generator, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.core.trees.message_passing import OperatorTree
    from eigentree.data.tables.labeled_table import LabeledTable
    from eigentree.graphs.junction_tree import JunctionTree, TreeNode
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["Decoded", "HiddenQueries", "NetworkModel", "clique_operator"]

MOST_POSTERIOR_STATES = 4096
"""Largest number of joint states of a joint posterior."""


class HiddenQueries(Queries):
    """Queries of hidden variables, wherever tables are known."""

    @property
    @abstractmethod
    def _tables(self) -> LatentNetwork:
        """The network whose tables are known."""

    def _state_labels(self, target: str) -> Sequence[Hashable]:
        graph = self._model.graph
        graph.require(target)
        return range(graph.states[target]) if target in graph.hidden else super()._state_labels(target)

    def _proba(self, X: ArrayLike | Any, target: str) -> tuple[Floats, int]:
        if target not in self._model.graph.hidden:
            return super()._proba(X, target)
        found, lost = self._marginals(X, (target,))
        return found[target], lost

    @our_arithmetic
    def posterior(
        self, X: ArrayLike | Any, names: Sequence[str] | None = None
    ) -> dict[str, LabeledTable] | LabeledTable:
        """Return the posterior of hidden variables given each row.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        names : sequence of str, optional
            Hidden variables whose joint posterior is wanted, shape (rows, states of each…); by default each by
            itself, in a dict of arrays.
        """
        if names is None:
            found, lost = self._marginals(X, self._model.graph.hidden)
            warn_undefined(lost, f"rows {self._model.undefined}; the marginals of the hidden variables were used")
            return {name: _by_row(X, proba, (name,)) for name, proba in found.items()}
        asked = self._hidden_names(names)
        shape = [self._model.graph.states[name] for name in asked]
        if math.prod(shape) > MOST_POSTERIOR_STATES:
            raise DataError(
                f"the joint posterior of {list(asked)} has {math.prod(shape):,} states (the limit is "
                f"{MOST_POSTERIOR_STATES:,}); take fewer variables at a time, or each by itself"
            )
        rows = self._rows(X)
        log_joint = np.empty((rows.count, math.prod(shape)))
        for part, known, codes, _ in self._tables.evidence(rows, len(self._columns.names) + len(asked), asked):
            revealed = known.reveal(asked)
            places = [revealed.columns.position(name) for name in asked]
            wide = revealed.extended(codes, known.columns.names)
            for cell, states in enumerate(np.ndindex(*shape)):
                wide[:, places] = states
                log_joint[part, cell] = revealed.score(wide)[0]
        impossible = ~np.isfinite(log_joint).any(axis=1)
        if impossible.any():
            with np.errstate(divide="ignore"):
                log_joint[impossible] = np.log(self._tables.reveal(asked).joint(asked)).ravel()
        count = int(impossible.sum())
        warn_undefined(count, f"rows {self._model.undefined}; the hidden variables' own distribution was used")
        joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        joint = (joint / joint.sum(axis=1, keepdims=True)).reshape(-1, *shape)
        return _by_row(X, joint, asked)

    @our_arithmetic
    def decode(self, X: ArrayLike | Any) -> Decoded:
        """Return the jointly most probable hidden states given each row, and their log probability.

        A missing cell is marginalised out; but where others depend on its column, its most probable state is found
        together with the hidden ones. For a frame the states are a frame of the same library, one column per hidden
        variable.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        """
        hidden = self._hidden_names(self._model.graph.hidden)
        rows = self._rows(X)
        states = np.empty((rows.count, len(hidden)), np.int64)
        log_prob = np.empty(rows.count)
        for part, known, codes, log_scale in self._tables.evidence(rows, len(self._tables.decoder.tree.nodes)):
            states[part], found = known.decoder.decode(codes, hidden)
            log_prob[part] = found + log_scale
        impossible = int(np.isneginf(log_prob).sum())
        warn_undefined(impossible, "rows are impossible under this model; their hidden states are -1")
        framed = frame_like(X, dict(zip(hidden, states.T, strict=True)))
        return Decoded(states if framed is None else framed, log_prob)

    @renamed_arguments(False, seed="random_state")
    @our_arithmetic
    def sample_hidden(self, X: ArrayLike | Any, random_state: Seed = None) -> Any:
        """Return one joint sample of all hidden variables given each row, shape (rows, hidden variables).

        For a frame it is a frame of the same library.
        """
        hidden = self._hidden_names(self._model.graph.hidden)
        rows = self._rows(X)
        random = generator(random_state)
        sampled = np.empty((rows.count, len(hidden)), np.int64)
        undefined = 0
        for part, known, codes, _ in self._tables.evidence(rows, len(self._columns.names) + len(hidden), hidden):
            revealed = known.reveal(hidden)
            wide = revealed.extended(codes, known.columns.names)
            undefined += revealed.operators.draw(wide, random)
            sampled[part] = wide[:, [revealed.columns.position(name) for name in hidden]]
        warn_undefined(undefined, f"cells {self._model.undefined}; they were sampled from their marginal")
        framed = frame_like(X, dict(zip(hidden, sampled.T, strict=True)))
        return sampled if framed is None else framed

    @our_arithmetic
    def _marginals(self, X: ArrayLike | Any, names: tuple[str, ...]) -> tuple[dict[str, Floats], int]:
        """Return the posterior of each variable by itself, and how many rows are impossible."""
        asked = self._hidden_names(names)
        rows = self._rows(X)
        states = self._model.graph.states
        found = {name: np.empty((rows.count, states[name])) for name in names}
        lost: Booleans = np.zeros(rows.count, np.bool_)
        cells = sum(states[name] for name in (*self._model.graph.observed, *asked))
        for part, known, codes, _ in self._tables.evidence(rows, cells, asked):
            revealed = known.reveal(asked)
            places = [revealed.columns.position(name) for name in names]
            tables = revealed.distributions(revealed.extended(codes, known.columns.names), places)
            for name, (table, gone) in zip(names, tables, strict=True):
                found[name][part] = table
                lost[part] |= gone
        return found, int(lost.sum())

    def _hidden_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names, once each is that of a hidden variable and there is at least one."""
        graph = self._model.graph
        asked = different_names("names", names)
        for name in asked:
            graph.require(name)
            if name not in graph.hidden:
                raise GraphError(f"{name!r} is observed; the hidden variables are {', '.join(graph.hidden)}")
        if not asked:
            raise GraphError(
                f"name each hidden variable once, and at least one; the graph has {list(graph.hidden)}"
            )
        return asked


def _by_row(X: ArrayLike | Any, proba: Floats, names: tuple[str, ...]) -> LabeledTable:
    """Return posteriors of hidden variables, one per row, whose states are numbers."""
    return by_row(X, proba, names, [range(size) for size in proba.shape[1:]])


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
            return super().draw(n, seed, given)
        # Without evidence no message need be passed: each node is sampled given its separator alone.
        n = checked_count(n, len(self.columns.names))
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
            chosen = choose(cumulative, given, random.random(len(rows)))
            cells = np.unravel_index(chosen, self.tree.states_of(node.remainder))
            sampled.update(zip(node.remainder, cells, strict=True))
        for column, name in enumerate(self.graph.observed):
            rows[:, column] = sampled[name]

    @cached_property
    def _logarithms(self) -> OperatorTree:
        """The logarithms of a tree whose entries are the cells of its cliques, for max-product."""
        operators = [clique_operator(self.tree, node, self.conditional_of, True) for node in self.tree.nodes]
        with np.errstate(divide="ignore"):
            return laid_out([replace(node, values=np.log(node.values)) for node in operators], self.columns.states)

    def decode(self, codes: Codes, hidden: Sequence[str]) -> Decoded:
        """Return the jointly most probable hidden states of rows of codes, given all other columns.

        Hidden variables may be columns here: those that no observed one depends on have to be.
        """
        names = self.columns.names
        wide = self.extended(codes, [name for name in names if name not in hidden])
        entries, log_prob = self._logarithms.decode(wide, np.array([name in hidden for name in names]))
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
