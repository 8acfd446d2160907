"""Latent graphs with probability tables: the exact model (sections 3 and 4.1, Eq. 6-13)."""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.errors import NetworkError, did_you_mean, quoted
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.junction_tree import JunctionTree, TreeNode
from eigentree.inference.networks.hidden_variables import HiddenQueries, NetworkModel, clique_operator
from eigentree.inference.networks.network_interop import as_bif, as_pgmpy, as_pyagrum, bif_parts
from eigentree.inference.networks.state_order import canonical_orders
from eigentree.inference.networks.table_checks import (
    check_own_tree,
    checked_columns,
    checked_keys,
    checked_labels,
    checked_order,
    checked_tables,
    checked_tree,
    dirichlet,
    shown,
)
from eigentree.inference.operators.tree_operators import TreeOperators
from eigentree.inference.tensors.calibration import Factor, calibrated
from eigentree.inference.tensors.named_tables import homes, learnable_tables, marginal, table_axes
from eigentree.inference.tensors.tensor import LabeledTensor
from eigentree.io.byte_files import write_whole
from eigentree.messages import renamed_arguments
from eigentree.validation import Seed, a_mapping, as_float, generator, our_arithmetic

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.rows import Rows
    from eigentree.emissions.base import Emission

__all__ = ["LatentNetwork"]


class LatentNetwork(HiddenQueries):
    """A latent graph whose probabilities are known.

    Parameters
    ----------
    graph : LatentGraph
    tables : mapping
        One conditional probability table for each variable of a directed graph, or one clique conditional for each
        clique of an undirected one.
    tree : JunctionTree, optional
        The tree for inference, made from the same graph, for example with another limit on the
        size of its cliques; by default ``JunctionTree.build(graph)``.
    columns : Columns, optional
        What the states of the observed variables are called; by default codes stand for themselves.
    hidden_labels : mapping of str to sequence of str or int, optional
        What the states of some hidden variables are called in tables and files; by default 0, 1, ….

    Raises
    ------
    NetworkError
        When a table is missing, has the wrong shape, holds negative numbers or rows that do not sum to 1.
    TreewidthError
        When a table is too large. Nothing large is allocated before.

    Notes
    -----
    On a directed graph a name stands for an array with axes (parents in the order of ``graph.parents(name)``…,
    name). On an undirected graph the tuple of the remainder of a clique stands for P(R_i | S_i) (Eq. 6), with axes
    (separator…, remainder…). Rows that sum to 1 up to rounding are divided by their sum.

    Examples
    --------
    >>> graph = LatentGraph({"h": 2, "x": 2, "y": 2}, [("h", "x"), ("h", "y")], hidden=["h"])
    >>> coin = [[0.9, 0.1], [0.2, 0.8]]
    >>> truth = LatentNetwork(graph, {"h": [0.5, 0.5], "x": coin, "y": coin})
    >>> truth.joint(["x", "y"]).round(3).tolist()
    [[0.425, 0.125], [0.125, 0.325]]
    """

    @our_arithmetic
    def __init__(
        self,
        graph: LatentGraph,
        tables: Mapping[Any, ArrayLike],
        tree: JunctionTree | None = None,
        columns: Columns | None = None,
        hidden_labels: Mapping[str, Sequence[Hashable]] | None = None,
    ) -> None:
        self._graph = graph
        self._known_columns = checked_columns(graph, columns)
        self.hidden_labels = checked_labels({} if hidden_labels is None else hidden_labels, graph)
        self._given_tree = checked_tree(graph, tree)
        self._axes = table_axes(graph, self._given_tree)
        given = checked_keys(tables, graph)
        self._factors = checked_tables(self._axes, given, graph)
        for key in given:
            if key not in self._axes:
                hint = did_you_mean(key[0], graph.names) if key else ""
                raise NetworkError(f"a table is given for {shown(key)}, which the graph does not have{hint}")

    @property
    def _arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {
            "graph": self._graph,
            "tables": self.tables,
            "tree": self._given_tree,
            "columns": self._known_columns,
            "hidden_labels": self.hidden_labels,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, because a copied or unpickled array would be writeable.
        return partial(type(self), **self._arguments), ()

    @property
    def graph(self) -> LatentGraph:
        """The graph that the tables belong to."""
        return self._graph

    @property
    def given_tree(self) -> JunctionTree | None:
        """The junction tree that was given or that the tables hang on; None where the graph's own is to be used."""
        return self._given_tree

    @property
    def tables(self) -> dict[Any, Floats]:
        """The tables as they were given: read-only arrays by name (or by remainder on an undirected graph)."""
        if self._graph.directed:
            return {key[0]: table for key, table in self._factors.items()}
        return dict(self._factors)

    @property
    def all_emissions(self) -> Mapping[tuple[str, ...], Emission]:
        """The distributions of numbers, by groups of columns: none, but for those of a `MixedNetwork`."""
        return {}

    @property
    def measurement(self) -> LatentNetwork:
        """The network without covariates: itself, where there are none."""
        return self

    @property
    def columns(self) -> Columns:
        """The observed variables, and what their states are called."""
        return self._known_columns

    @property
    def _columns(self) -> Columns:
        return self._known_columns

    def changed(
        self,
        tables: Mapping[Any, ArrayLike] | None = None,
        columns: Columns | None = None,
        hidden_labels: Mapping[str, Sequence[Hashable]] | None = None,
    ) -> Self:
        """Return the network with other tables, columns or names of hidden states."""
        given = {"tables": tables, "columns": columns, "hidden_labels": hidden_labels}
        return type(self)(**self._arguments | {name: each for name, each in given.items() if each is not None})

    def with_columns(self, columns: Columns) -> Self:
        """Return the same network with other names for the states of its observed variables."""
        return self.changed(columns=columns)

    def labels(self, name: str) -> Sequence[Hashable]:
        """Return what the states of a variable are called; those of a hidden one are 0, 1, … unless named."""
        self._graph.require(name)
        if name in self._graph.hidden:
            return self.hidden_labels.get(name, range(self._graph.states[name]))
        return self.columns.labels(name)

    @property
    def labeled_tables(self) -> dict[Any, LabeledTable]:
        """The tables with their axes and states named, by the same keys."""
        axes = {key[0] if self._graph.directed else key: names for key, names in self._axes.items()}
        return TablesByName(
            (key, LabeledTable(table, axes[key], [self.labels(name) for name in axes[key]]))
            for key, table in self.tables.items()
        )

    @property
    def n_parameters(self) -> int:
        """How many parameters are free, in the tables that the probability of a row depends on."""
        free = 0
        for key in learnable_tables(self._graph, self._axes):
            shape = self._factors[key].shape
            # Each distribution is normalised.
            free += math.prod(shape) - math.prod(shape[: len(shape) - len(key)])
        return free

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self._graph!r}>"

    @our_arithmetic
    def relabelled(self, orders: Mapping[str, ArrayLike]) -> LatentNetwork:
        """Return the network with the states of some hidden variables in another order.

        Parameters
        ----------
        orders : mapping of str to sequence of int
            The old states of a hidden variable in their new order, each once.
        """
        given = a_mapping("orders", orders, "{'h': [1, 0]}", NetworkError)
        checked = {name: checked_order(name, order, self._graph) for name, order in given.items()}
        tables = {}
        for key, table in self._factors.items():
            for axis, name in enumerate(self._axes[key]):
                if name in checked:
                    table = table.take(checked[name], axis)
            tables[key] = table
        labels = {
            name: tuple(own[state] for state in checked.get(name, range(len(own))))
            for name, own in self.hidden_labels.items()
        }
        return LatentNetwork(self._graph, tables, self._given_tree, self._known_columns, labels)

    @our_arithmetic
    def ordered(self) -> LatentNetwork:
        """Return the same network with the states of hidden variables in their canonical order.

        The largest state comes first, and along chains and trees each hidden variable is matched to its neighbour,
        so that a number means the same thing at every step; `eigentree.inference.networks.state_order` has the
        rule. It depends on the distribution alone: two networks that differ by the numbers of hidden states become
        one.

        Examples
        --------
        >>> graph = LatentGraph({"h": 2, "x": 2}, [("h", "x")], hidden=["h"])
        >>> network = LatentNetwork(graph, {"h": [0.3, 0.7], "x": [[0.9, 0.1], [0.2, 0.8]]})
        >>> network.ordered().tables["x"].tolist()
        [[0.2, 0.8], [0.9, 0.1]]
        """
        return self.relabelled(canonical_orders(self))

    @classmethod
    @renamed_arguments(False, seed="random_state")
    @our_arithmetic
    def random(
        cls,
        graph: LatentGraph,
        concentration: float = 1.0,
        random_state: Seed = None,
        tree: JunctionTree | None = None,
    ) -> LatentNetwork:
        """Return a network whose conditional distributions are sampled from a symmetric Dirichlet.

        Parameters
        ----------
        graph : LatentGraph
        concentration : float
            1 samples uniformly over distributions, smaller values nearly deterministic ones.
        random_state : int, Generator or None
        tree : JunctionTree, optional
            As in the constructor.
        """
        # Below the smallest normal numbers, logarithms divided by the concentration overflow.
        if not 1e-300 < as_float(concentration) < math.inf:
            raise NetworkError(f"concentration must be a positive, finite number, not {quoted(concentration)}")
        tree = checked_tree(graph, tree)
        random = generator(random_state)
        tables: dict[tuple[str, ...], Floats] = {}
        for key, axes in table_axes(graph, tree).items():
            shape = [graph.states[name] for name in axes]
            given = math.prod(shape[: len(axes) - len(key)])
            tables[key] = dirichlet(random, given, math.prod(shape) // given, concentration).reshape(shape)
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

    @classmethod
    def from_bif(cls, source: str | os.PathLike[str], hidden: Sequence[str]) -> LatentNetwork:
        """Return the network of a text in the Interchange Format (BIF), given the names that are hidden.

        Parameters
        ----------
        source : str or PathLike
            The path of a file, or the text itself.
        hidden : sequence of str

        Raises
        ------
        FileError
            When there is no such file, or the text is malformed; names the line.

        Notes
        -----
        The names of states become labels, whole numbers where all names of a variable are such.
        """
        return cls(*bif_parts(source, hidden))

    def to_bif(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the network as a text in the Interchange Format (BIF), and write it to a file if a path is given.

        Numbers are read back bit-identical, and states by their labels. The format does not say which variables are
        hidden. Names with spaces or signs in them stand in quotes, which some other programs do not read.

        Raises
        ------
        NetworkError
            When the graph is undirected, or a name cannot be written.
        """
        text = as_bif(self)
        if path is not None:
            write_whole(path, lambda file: file.write(text.encode("utf-8")))
        return text

    def to_pgmpy(self) -> Any:
        """Return the network as pgmpy's ``DiscreteBayesianNetwork``, hidden variables as its latents."""
        return as_pgmpy(self)

    def to_pyagrum(self) -> Any:
        """Return the network as pyagrum's ``BayesNet``, which does not say which variables are hidden."""
        return as_pyagrum(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network into a file (safetensors), whole or not at all; `eigentree.load` gives it back.

        Raises
        ------
        FileError
            When the file cannot be written; one that was there is as it was.
        """
        from eigentree.inference.stored_network import save_network

        save_network(self, path)

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree for inference."""
        return self._given_tree or JunctionTree.of(self._graph)

    @cached_property
    @our_arithmetic
    def _beliefs(self) -> list[Floats]:
        """The marginal of each maximal clique of the tree, axes in the order of the clique."""
        return calibrated(self.tree, [Factor(self._axes[key], table) for key, table in self._factors.items()])

    def clique_marginals(self, families: Sequence[tuple[str, ...]]) -> list[Floats]:
        """Return the joint table of each family of variables, hidden or not, that stand in one clique."""
        cliques = self.tree.cliques
        found = zip(homes(cliques, families), families, strict=True)
        return [marginal(self._beliefs[home], cliques[home], family) for home, family in found]

    @cached_property
    @our_arithmetic
    def operators(self) -> TreeOperators:
        """The clique tensors of the tree, ready for message passing."""
        return self.embed(self.tree)

    @property
    def _model(self) -> NetworkModel:
        return self.model

    @cached_property
    def model(self) -> NetworkModel:
        """The model in codes: columns and operators."""
        return NetworkModel(self._graph, self.operators, self.tree, self._conditional)

    @property
    def _tables(self) -> LatentNetwork:
        return self

    def evidence(
        self, rows: Rows, cells: int, revealed: Collection[str] = ()
    ) -> Iterator[tuple[slice, LatentNetwork, Codes, Floats]]:
        """Yield rows as rows of a discrete network: where they stand, it, their codes, and their log scales.

        A log scale is added to the log probability of a row there. As many rows come at a time as memory allows
        where each takes so many `cells`, and some hidden variables will be `revealed` there.
        """
        for start, codes in rows.chunks(rows_at_a_time(cells)):
            yield slice(start, start + len(codes)), self, codes, np.zeros(len(codes))

    @property
    def decoder(self) -> NetworkModel:
        """The model for decoding: hidden variables that no observed one depends on are columns."""
        held = {name for node in self.tree.nodes for name in node.clique}
        apart = tuple(name for name in self._graph.hidden if name not in held)
        return self.reveal(apart) if apart else self.model

    def reveal(self, names: tuple[str, ...]) -> NetworkModel:
        """Return the model in which some hidden variables are columns too."""
        if names not in self._revealed:
            graph = self._graph.derived(_with_columns, names)
            tree = JunctionTree.of(graph)
            self._revealed[names] = NetworkModel(graph, self._embedded(tree), tree, self._conditional)
        return self._revealed[names]

    @cached_property
    def _revealed(self) -> dict[tuple[str, ...], NetworkModel]:
        return {}

    @our_arithmetic
    def conditional_table(self, tree: JunctionTree, node: int) -> Floats:
        """Return P(R_i | S_i) of a tree's node, axes (separator…, remainder…) (Eq. 6).

        Where the separator's states have probability zero, so has the row.
        """
        return self._conditional(self._own_node(tree, node))

    def _own_node(self, tree: JunctionTree, node: int) -> TreeNode:
        check_own_tree(self._graph, tree)
        return tree.nodes[tree.checked_node(node, NetworkError)]

    @our_arithmetic
    def _conditional(self, node: TreeNode) -> Floats:
        clique = self.tree.cliques[node.origin]
        table = marginal(self._beliefs[node.origin], clique, node.clique)
        given = table.sum(axis=tuple(range(len(node.separator), table.ndim)), keepdims=True)
        conditional: Floats = np.divide(table, given, out=np.zeros_like(table), where=given > 0)
        return conditional

    @our_arithmetic
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

    @our_arithmetic
    def embed(self, tree: JunctionTree) -> TreeOperators:
        """Return the operators of a rooted junction tree of this graph: Eq. 10, kept sparse."""
        check_own_tree(self._graph, tree)
        return self._embedded(tree)

    def _embedded(self, tree: JunctionTree) -> TreeOperators:
        """Return the operators of a tree of this graph, in which hidden variables may be columns."""
        operators = tuple(clique_operator(tree, node, self._conditional) for node in tree.nodes)
        return TreeOperators(operators, tree.states_of(tree.graph.observed))

    def log_prob(self, X: ArrayLike | Any) -> Floats:
        """Return the log probability of each row, hidden variables and missing cells marginalised out.

        An impossible row has -inf.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        """
        return self.model.log_prob(self._rows(X))[0]


def _with_columns(graph: LatentGraph, names: tuple[str, ...]) -> LatentGraph:
    """Return the graph with some hidden variables observed; it has the same cliques."""
    return LatentGraph(
        graph.states, graph.edges, [name for name in graph.hidden if name not in names], graph.directed
    )


def _reordered(table: ArrayLike, names: list[str], wanted: tuple[str, ...]) -> Floats:
    return np.transpose(np.asarray(table, np.float64), [names.index(name) for name in wanted])
