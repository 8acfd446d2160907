"""Latent graphs with probability tables: the exact model (sections 3 and 4.1, Eq. 6-13)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.data.rows import rows_at_a_time
from eigentree.engine import queries
from eigentree.engine.operators import NodeOperator, TreeOperators
from eigentree.engine.tables import aligned, flat_index, homes, marginal, table_axes
from eigentree.engine.tensor import LabeledTensor
from eigentree.errors import DataError, NetworkError, did_you_mean
from eigentree.kernels.drawing import choose
from eigentree.structures.graph import LatentGraph
from eigentree.structures.junction_tree import JunctionTree, TreeNode, check_families

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

ROW_SUM_TOLERANCE = 1e-6
"""How far from 1 a distribution may sum to and still be taken for one; it is then divided by its sum."""

ROUNDING = 1e-12
"""How far from 1 rounding may put the sum of a distribution: such tables stay as they are, bit by bit."""


class LatentNetwork:
    """A latent graph whose probabilities are known.

    Parameters
    ----------
    graph : LatentGraph
    tables : mapping
        On a directed graph one CPT a variable: name to an array with axes (parents in the order of
        ``graph.parents(name)``…, name). On an undirected graph one clique conditional P(R_i | S_i) (Eq. 6) for
        each node of the tree with a remainder: the tuple of remainder names to an array with
        axes (separator…, remainder…). Rows that sum to 1 up to rounding are divided by their sum.
    tree : JunctionTree, optional
        The tree that questions are answered on, made from the same graph, for example with another limit on the
        size of its cliques; by default ``JunctionTree.build(graph)``.

    Raises
    ------
    NetworkError
        When a table is missing, has the wrong shape, holds negative numbers or rows that do not sum to 1.
    TreewidthError
        When a table is too large. Nothing large is allocated before.

    Examples
    --------
    >>> graph = LatentGraph({"h": 2, "x": 2, "y": 2}, [("h", "x"), ("h", "y")], hidden=["h"])
    >>> coin = [[0.9, 0.1], [0.2, 0.8]]
    >>> truth = LatentNetwork(graph, {"h": [0.5, 0.5], "x": coin, "y": coin})
    >>> truth.joint(["x", "y"]).round(3).tolist()
    [[0.425, 0.125], [0.125, 0.325]]
    """

    def __init__(
        self, graph: LatentGraph, tables: Mapping[Any, ArrayLike], tree: JunctionTree | None = None
    ) -> None:
        self._graph = graph
        self._given_tree = _checked_tree(graph, tree)
        self._axes = table_axes(graph, self._given_tree)
        given = _checked_keys(tables, graph)
        self._factors: dict[tuple[str, ...], Floats] = {}
        for key, axes in self._axes.items():
            if key not in given:
                raise NetworkError(f"there is no table for {_shown(key)}; it needs the axes {axes}")
            self._factors[key] = _checked_table(key, axes, given[key], graph)
        for key in given:
            if key not in self._axes:
                hint = did_you_mean(key[0], graph.names) if key else ""
                raise NetworkError(f"a table is given for {_shown(key)}, which the graph does not have{hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, because a copied or unpickled array would be writeable.
        return type(self), (self._graph, self.tables, self._given_tree)

    @property
    def graph(self) -> LatentGraph:
        """The graph that the tables belong to."""
        return self._graph

    @property
    def tables(self) -> dict[Any, Floats]:
        """The tables as they were given: read-only arrays by name (or by remainder on an undirected graph)."""
        if self._graph.directed:
            return {key[0]: table for key, table in self._factors.items()}
        return dict(self._factors)

    def __repr__(self) -> str:
        return f"<LatentNetwork over {self._graph!r}>"

    @classmethod
    def random(
        cls,
        graph: LatentGraph,
        concentration: float = 1.0,
        seed: int | np.random.Generator | None = None,
        tree: JunctionTree | None = None,
    ) -> LatentNetwork:
        """Return a network whose conditional distributions are drawn from a symmetric Dirichlet.

        Parameters
        ----------
        graph : LatentGraph
        concentration : float
            1 draws uniformly over distributions, smaller values draw peaked ones.
        seed : int or Generator, optional
        tree : JunctionTree, optional
            As in the constructor.
        """
        # Below the smallest normal numbers, logarithms divided by the concentration overflow.
        if not isinstance(concentration, Real) or not 1e-300 < concentration < math.inf:
            raise NetworkError(f"concentration must be a positive, finite number, not {concentration!r}")
        tree = _checked_tree(graph, tree)
        random = np.random.default_rng(seed)
        tables: dict[tuple[str, ...], Floats] = {}
        for key, axes in table_axes(graph, tree).items():
            shape = [graph.states[name] for name in axes]
            given = math.prod(shape[: len(axes) - len(key)])
            tables[key] = _dirichlet(random, given, math.prod(shape) // given, concentration).reshape(shape)
        return cls(graph, tables, tree)

    @classmethod
    def from_pgmpy(cls, model: Any, hidden: Sequence[str] | None = None) -> LatentNetwork:
        """Return the network of a pgmpy Bayesian network with its CPDs; hidden are its latents by default.

        Raises
        ------
        NetworkError
            When the model is no Bayesian network, or pgmpy itself calls it inconsistent.
        """
        if not hasattr(model, "get_cpds"):
            raise NetworkError(
                f"a {type(model).__name__} has no CPDs; give a DiscreteBayesianNetwork, or take the structure "
                f"alone with LatentGraph.from_pgmpy"
            )
        graph = LatentGraph.from_pgmpy(model, hidden)
        try:
            model.check_model()
        except ValueError as error:
            raise NetworkError(f"pgmpy calls the model inconsistent: {error}") from None
        tables = {}
        for name in graph.names:
            cpd = model.get_cpds(name)
            tables[name] = _reordered(cpd.values, list(cpd.variables), (*graph.parents(name), name))
        return cls(graph, tables)

    @classmethod
    def from_pyagrum(cls, net: Any, hidden: Sequence[str]) -> LatentNetwork:
        """Return the network of a pyagrum ``BayesNet`` with its CPTs, given the names that are hidden."""
        graph = LatentGraph.from_pyagrum(net, hidden)
        tables = {}
        for name in graph.names:
            cpt = net.cpt(name)
            # pyagrum lists the variables of a table from the fastest axis to the slowest.
            tables[name] = _reordered(cpt.toarray(), list(cpt.names)[::-1], (*graph.parents(name), name))
        return cls(graph, tables)

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree that questions are answered on."""
        return self._given_tree or JunctionTree.build(self._graph)

    @cached_property
    def _beliefs(self) -> list[Floats]:
        """The marginal of each maximal clique of the tree, axes in the order of the clique."""
        return _calibrated(self.tree, self._factors, self._axes)

    @cached_property
    def operators(self) -> TreeOperators:
        """The clique tensors of the tree, ready for message passing."""
        return self.embed(self.tree)

    def conditional_table(self, tree: JunctionTree, node: int) -> Floats:
        """Return P(R_i | S_i) of a tree's node, axes (separator…, remainder…) (Eq. 6).

        Where the separator's states have probability zero, so has the row.
        """
        return self._conditional(self._own_node(tree, node))

    def _own_node(self, tree: JunctionTree, node: int) -> TreeNode:
        _check_graph(self._graph, tree)
        if not 0 <= node < len(tree.nodes):
            raise NetworkError(f"the tree has the nodes 0 to {len(tree.nodes) - 1}, but no {node!r}")
        return tree.nodes[node]

    def _conditional(self, node: TreeNode) -> Floats:
        clique = self.tree.cliques[node.origin]
        table = marginal(self._beliefs[node.origin], clique, node.clique)
        given = table.sum(axis=tuple(range(len(node.separator), table.ndim)), keepdims=True)
        conditional: Floats = np.divide(table, given, out=np.zeros_like(table), where=given > 0)
        return conditional

    def clique_tensor(self, tree: JunctionTree, node: int) -> LabeledTensor:
        """Return P(C_i) with the modes of its incident separators duplicated (Eq. 9-10).

        Examples
        --------
        For the clique {B, C, D, E} of the paper's Figure 2, the labels are B, B, D, C, C, E. Where the parent of a
        leaf holds the leaf's observed variable X as well, the leaf is the identity with labels X, X.
        """
        this = self._own_node(tree, node)
        if this.observed is not None and not this.remainder:
            return LabeledTensor.identity(this.clique, tree.states_of(this.clique))
        conditional = LabeledTensor(self._conditional(this), this.clique)
        if not this.children:
            return conditional
        incident = [this.separator, *(tree.nodes[child].separator for child in this.children)]
        return conditional.diagonal({name: sum(name in s for s in incident) for name in this.clique})

    def embed(self, tree: JunctionTree) -> TreeOperators:
        """Return the operators of a rooted junction tree of this graph: Eq. 10, kept sparse."""
        _check_graph(self._graph, tree)
        return TreeOperators(
            tuple(self._operator(tree, node) for node in tree.nodes),
            tree.states_of(self._graph.observed),
        )

    def _operator(self, tree: JunctionTree, node: TreeNode) -> NodeOperator:
        if node.observed is not None:
            column = self._graph.column(node.observed)
            if not node.remainder:
                return NodeOperator.from_dense(np.eye(self._graph.states[node.observed]), columns=(column,))
            table = self._conditional(node)
            return NodeOperator.from_dense(table.reshape(-1, table.shape[-1]).T, columns=(column,))
        table = self._conditional(node)
        shape = table.shape
        index = np.empty((table.size, len(node.children) + 1), np.int64)
        for k, child in enumerate(node.children):
            index[:, k] = flat_index(shape, node.clique, tree.nodes[child].separator)
        index[:, -1] = flat_index(shape, node.clique, node.separator)
        bond = math.prod(shape[: len(node.separator)])
        return NodeOperator.from_entries(index, table.reshape(-1, 1), bond, children=node.children)

    def sample(
        self,
        n: int,
        seed: int | np.random.Generator | None = None,
        given: Mapping[str, int] | None = None,
    ) -> NDArray[np.int64]:
        """Return rows drawn from the model, shape (n, columns), hidden variables left out.

        Parameters
        ----------
        n : int
        seed : int or Generator, optional
        given : mapping of str to int, optional
            Values of some observed variables; the others are drawn given these.
        """
        if given is not None:
            rows, undefined = queries.sample(self.operators, self._graph, n, given, seed)
            if undefined:
                raise DataError(f"the evidence {dict(given)} has probability zero under this model")
            return rows
        queries.check_count(n)
        random = np.random.default_rng(seed)
        rows = np.empty((n, len(self._graph.observed)), np.int64)
        step = rows_at_a_time(len(self.tree.nodes))
        for start in range(0, n, step):
            self._sample_into(rows[start : start + step], random)
        return rows

    @cached_property
    def _cumulative(self) -> list[tuple[TreeNode, Floats]]:
        """Each node with a remainder, and the cumulative distribution of that for each state of its separator."""
        conditionals = ((node, self._conditional(node)) for node in self.tree.nodes if node.remainder)
        return [
            (node, table.reshape(math.prod(table.shape[: len(node.separator)]), -1).cumsum(axis=1))
            for node, table in conditionals
        ]

    def _sample_into(self, rows: NDArray[np.int64], random: np.random.Generator) -> None:
        """Draw each node's remainder given its separator, for all rows at once, and keep what is observed."""
        states = self._graph.states
        drawn: dict[str, NDArray[np.int64]] = {}
        for node, cumulative in self._cumulative:
            given = np.zeros(len(rows), np.int64)
            for name in node.separator:
                given = given * states[name] + drawn[name]
            chosen = np.empty(len(rows), np.int64)
            choose(cumulative, given, random.random(len(rows)), chosen)
            drawn.update(
                zip(node.remainder, np.unravel_index(chosen, self.tree.states_of(node.remainder)), strict=True)
            )
        for column, name in enumerate(self._graph.observed):
            rows[:, column] = drawn[name]

    def log_prob(self, X: ArrayLike | Any) -> Floats:
        """Return the log probability of each row, hidden variables and missing cells summed out.

        An impossible row has -inf.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        """
        return queries.log_prob(self.operators, self._graph, X)[0]

    def joint(self, names: Sequence[str]) -> Floats:
        """Return the exact table of some observed variables, axes in the order of the names."""
        return queries.joint(self.operators, self._graph, names)

    def conditional(self, names: Sequence[str], given: Mapping[str, int]) -> Floats:
        """Return the exact table P(names | given), axes in the order of the names."""
        return queries.conditional(self.operators, self._graph, names, given)

    def predict_proba(self, X: ArrayLike | Any, target: str) -> Floats:
        """Return P(target | the other cells) of each row, shape (rows, states of the target).

        The target's own cell is not looked at. A row that is impossible gets the target's marginal, and a
        warning says how many did.
        """
        proba, undefined = queries.predict_proba(self.operators, self._graph, X, target)
        _warn_undefined(undefined, "rows")
        return proba

    def impute(
        self,
        X: ArrayLike | Any,
        method: Literal["mode", "sample"] = "mode",
        seed: int | np.random.Generator | None = None,
    ) -> NDArray[np.int64]:
        """Return the rows with their missing cells filled, by the likeliest state or by a joint draw."""
        filled, undefined = queries.impute(self.operators, self._graph, X, method, seed)
        _warn_undefined(undefined, "missing cells")
        return filled


def _warn_undefined(count: int, what: str) -> None:
    if count:
        warnings.warn(
            f"{count} {what} follow cells that the model calls impossible; their column's marginal was used",
            RuntimeWarning,
            stacklevel=3,
        )


def _check_graph(graph: LatentGraph, tree: JunctionTree) -> None:
    if not isinstance(tree, JunctionTree):
        raise NetworkError(f"a tree is a JunctionTree, made by JunctionTree.build(graph), not {tree!r}")
    if tree.graph != graph:
        raise NetworkError("the junction tree belongs to another graph; build it from network.graph")


def _checked_tree(graph: LatentGraph, tree: JunctionTree | None) -> JunctionTree | None:
    """Return the tree given, or one that the tables need, once it is sure that no table is too large."""
    if not isinstance(graph, LatentGraph):
        raise NetworkError(f"a network needs a LatentGraph, not {graph!r}")
    if tree is not None:
        _check_graph(graph, tree)
        return tree
    if not graph.directed:
        return JunctionTree.build(graph)
    check_families(graph)
    return None


def _checked_keys(tables: Mapping[Any, ArrayLike], graph: LatentGraph) -> dict[tuple[str, ...], ArrayLike]:
    """Return the tables by tuples of names."""
    if not isinstance(tables, Mapping):
        raise NetworkError(
            f"tables is a mapping of names to arrays, such as {{{graph.names[0]!r}: [...]}}, "
            f"not a {type(tables).__name__}"
        )
    given: dict[tuple[str, ...], ArrayLike] = {}
    for key, table in tables.items():
        names = (key,) if isinstance(key, str) else key
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise NetworkError(f"a table is given for {key!r}; tables go by names or by tuples of names")
        given[names] = table
    return given


def _checked_table(key: tuple[str, ...], axes: tuple[str, ...], table: ArrayLike, graph: LatentGraph) -> Floats:
    try:
        if np.iscomplexobj(table):
            raise TypeError
        array = np.array(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise NetworkError(f"the table of {_shown(key)} is not an array of numbers") from None
    shape = tuple(graph.states[name] for name in axes)
    if array.shape != shape:
        raise NetworkError(
            f"the table of {_shown(key)} needs the shape {shape}, one axis for each of {axes}, not {array.shape}"
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise NetworkError(f"the table of {_shown(key)} holds negative, infinite or missing numbers")
    summed = tuple(range(len(axes) - len(key), len(axes)))
    totals = array.sum(axis=summed)
    worst = np.unravel_index(np.abs(totals - 1).argmax(), totals.shape) if totals.ndim else ()
    if abs(totals[worst] - 1) > ROW_SUM_TOLERANCE:
        where = dict(zip(axes, map(int, worst), strict=False))
        raise NetworkError(
            f"the table of {_shown(key)} must sum to 1 over its last {len(key)} axis"
            f"{'' if len(key) == 1 else 'es'}, but sums to {totals[worst]:.6g} where {where or 'given'}"
        )
    if abs(totals[worst] - 1) > ROUNDING:
        array /= array.sum(axis=summed, keepdims=True)
    array.flags.writeable = False
    return array


def _shown(key: tuple[str, ...]) -> str:
    return repr(key[0]) if len(key) == 1 else repr(key)


def _dirichlet(random: np.random.Generator, rows: int, states: int, concentration: float) -> Floats:
    # Log-gamma draws: with a small concentration, plain gamma draws can all underflow to zero.
    uniform = random.random((rows, states))
    logs = np.log(random.gamma(concentration + 1.0, size=(rows, states))) + np.log1p(-uniform) / concentration
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _reordered(table: ArrayLike, names: list[str], wanted: tuple[str, ...]) -> Floats:
    return np.transpose(np.asarray(table, np.float64), [names.index(name) for name in wanted])


def _calibrated(
    tree: JunctionTree,
    factors: Mapping[tuple[str, ...], Floats],
    axes: Mapping[tuple[str, ...], tuple[str, ...]],
) -> list[Floats]:
    """Return the marginal of each maximal clique under the product of the factors, once normalised."""
    cliques, parents = tree.cliques, tree.clique_parents
    placed = homes(cliques, [axes[key] for key in factors])
    beliefs = [np.ones(tree.states_of(clique)) for clique in cliques]
    for (key, table), home in zip(factors.items(), placed, strict=True):
        beliefs[home] = beliefs[home] * aligned(table, axes[key], cliques[home])
    separators = [
        tuple(name for name in clique if name in set(cliques[parent])) if parent >= 0 else ()
        for clique, parent in zip(cliques, parents, strict=True)
    ]
    messages = [np.ones(())] * len(cliques)
    for i in reversed(range(len(cliques))):
        beliefs[i] = beliefs[i] / beliefs[i].sum()
        messages[i] = marginal(beliefs[i], cliques[i], separators[i])
        if parents[i] >= 0:
            product = beliefs[parents[i]] * aligned(messages[i], separators[i], cliques[parents[i]])
            # A hub has thousands of children: the product of their messages would underflow.
            beliefs[parents[i]] = product / product.max()
    for i in range(len(cliques)):
        if parents[i] >= 0:
            above = marginal(beliefs[parents[i]], cliques[parents[i]], separators[i])
            ratio = np.divide(above, messages[i], out=np.zeros_like(above), where=messages[i] > 0)
            beliefs[i] = beliefs[i] * aligned(ratio, separators[i], cliques[i])
    return beliefs
