"""Latent graphs: named discrete variables, some hidden, joined by edges (section 3 of the paper)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

from eigentree.errors import EigentreeError, GraphError, did_you_mean, quoted
from eigentree.validation import (
    MOST_STATES,
    MOST_VARIABLES,
    a_mapping,
    check_variables,
    different_names,
    flag,
    one_by_one,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Derived", "LatentGraph", "check_graph"]

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")
D = TypeVar("D", bound="Derived")

PAIRS = "names with their numbers of states, or a mapping such as {'x': 2}"


class Derived:
    """An immutable object that keeps what was computed from it.

    A copy is the object itself, so that clones of an estimator share it. Pickles leave it out.
    """

    __slots__ = ("_kept",)

    _kept: dict[Any, Any]

    def derived(self: D, make: Callable[[D, *Arguments], T], *arguments: *Arguments) -> T:
        """Return ``make(self, *arguments)``, computed once for each function and its arguments."""
        if not hasattr(self, "_kept"):
            object.__setattr__(self, "_kept", {})
        key = make, arguments
        if key not in self._kept:
            self._kept[key] = make(self, *arguments)
        found: T = self._kept[key]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class LatentGraph(Derived):
    """An immutable graph over named discrete variables, some of which are never observed.

    Parameters
    ----------
    states : mapping of str to int, or iterable of (str, int)
        Number of states of every variable, the observed ones in the order of the columns of arrays.
    edges : iterable of (str, str)
        Pairs of names; ``(parent, child)`` when the graph is directed.
    hidden : iterable of str
        Names of the variables that are never observed.
    directed : bool
        Whether edges have a direction (a Bayesian network) or not (a Markov network).

    Attributes
    ----------
    states : mapping of str to int
    edges : tuple of (str, str)
    hidden, observed, names : tuple of str
        Each in the order of `states`.
    directed : bool

    Examples
    --------
    >>> graph = LatentGraph(states={"h": 2, "x": 4, "y": 3}, edges=[("h", "x"), ("h", "y")], hidden=["h"])
    >>> graph.observed
    ('x', 'y')
    >>> graph.parents("x")
    ('h',)
    """

    states: Mapping[str, int]
    edges: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]
    observed: tuple[str, ...]
    names: tuple[str, ...]
    directed: bool
    _parents: Mapping[str, tuple[str, ...]]
    _neighbors: Mapping[str, tuple[str, ...]]
    _columns: Mapping[str, int]

    def __init__(
        self,
        states: Mapping[str, int] | Iterable[tuple[str, int]],
        edges: Iterable[tuple[str, str]] = (),
        hidden: Iterable[str] = (),
        directed: bool = True,
    ) -> None:
        directed = flag("directed", directed, GraphError)
        table = _checked_states(states)
        pairs = _checked_edges(edges, table, directed)
        concealed = set(different_names("hidden", hidden))
        for name in concealed:
            if name not in table:
                raise GraphError(f"hidden names {quoted(name)}, which is not in states{did_you_mean(name, table)}")
        if len(concealed) == len(table):
            raise GraphError("the graph has no observed variable; leave at least one name out of hidden")
        sources: dict[str, list[str]] = {name: [] for name in table}
        around: dict[str, list[str]] = {name: [] for name in table}
        for source, target in pairs:
            around[source].append(target)
            around[target].append(source)
            if directed:
                sources[target].append(source)
        try:
            TopologicalSorter(sources).prepare()
        except CycleError as error:
            cycle = _listed(tuple(error.args[1]), between=" -> ")
            raise GraphError(
                f"the edges form a cycle: {cycle}; remove one of them or pass directed=False"
            ) from None
        observed = tuple(name for name in table if name not in concealed)
        vars(self).update(
            states=MappingProxyType(table),
            edges=pairs,
            hidden=tuple(name for name in table if name in concealed),
            observed=observed,
            names=tuple(table),
            directed=directed,
            _parents={name: tuple(found) for name, found in sources.items()},
            _neighbors={name: tuple(found) for name, found in around.items()},
            _columns={name: column for column, name in enumerate(observed)},
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a LatentGraph is immutable: {name!r} cannot be set; make a new graph instead")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a LatentGraph is immutable: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.states), self.edges, self.hidden, self.directed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LatentGraph):
            return NotImplemented
        return self.__reduce__() == other.__reduce__() and self.names == other.names

    def __hash__(self) -> int:
        return hash((tuple(self.states.items()), self.edges, self.hidden, self.directed))

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return (
            f"<LatentGraph: {len(self.observed)} observed and {len(self.hidden)} hidden variables, "
            f"{len(self.edges)} {kind} edges>"
        )

    def with_states(self, states: Mapping[str, int]) -> LatentGraph:
        """Return the graph with other numbers of states of some variables.

        Examples
        --------
        >>> LatentGraph({"h": 2, "x": 4}, [("h", "x")], ["h"]).with_states({"x": 1}).states["x"]
        1
        """
        given = a_mapping("states", states, "{'x': 1}")
        for name in given:
            self.require(name)
        changed = LatentGraph({**self.states, **given}, self.edges, self.hidden, self.directed)
        return self if changed.states == self.states else changed

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the parents of a variable, in the order in which their edges were given.

        On an undirected graph there are none.
        """
        self.require(name)
        return self._parents[name]

    def neighbors(self, name: str) -> tuple[str, ...]:
        """Return the variables that share an edge with this one, in the order of the edges."""
        self.require(name)
        return self._neighbors[name]

    def require(self, name: str) -> None:
        """Raise `GraphError` unless the graph has a variable of this name."""
        if not isinstance(name, str) or name not in self.states:
            raise GraphError(f"the graph has no variable {quoted(name)}{did_you_mean(name, self.names)}")

    def column(self, name: str) -> int:
        """Return the column that holds an observed variable.

        Raises
        ------
        GraphError
            When the variable is unknown or hidden.
        """
        self.require(name)
        if name not in self._columns:
            raise GraphError(
                f"{name!r} is hidden, so no column holds it; the observed variables are {_listed(self.observed)}"
            )
        return self._columns[name]

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        hidden: Iterable[str] | None = None,
        states: Mapping[str, int] | None = None,
    ) -> Self:
        """Return the latent graph of a networkx ``DiGraph`` or ``Graph``.

        Parameters
        ----------
        graph : networkx.DiGraph or networkx.Graph
        hidden : iterable of str, optional
            Hidden names; by default the nodes whose attribute ``hidden`` is true.
        states : mapping of str to int, optional
            Numbers of states; by default the node attribute ``states``.
        """
        _require_attributes(graph, "a networkx Graph or DiGraph", "is_multigraph", "is_directed", "nodes", "edges")
        if graph.is_multigraph():
            raise GraphError("a networkx multigraph has parallel edges; give a Graph or a DiGraph")
        nodes = dict(graph.nodes(data=True))
        missing = "node {0} has no attribute 'states'; set graph.nodes[{0}]['states'] or pass states={{...}}"
        if states is None:
            states = {name: own["states"] for name, own in nodes.items() if "states" in own}
        else:
            a_mapping("states", states, "{'x': 2}")
            missing = "states= gives no number of states for node {0}"
        for name in nodes:
            if name not in states:
                raise GraphError(missing.format(quoted(name)))
        if hidden is None:
            hidden = [name for name, own in nodes.items() if own.get("hidden", False)]
        directed = graph.is_directed()
        # Parents in the order in which the graph has them.
        edges = [(one, name) for name in nodes for one in graph.predecessors(name)] if directed else graph.edges
        return cls({name: states[name] for name in nodes}, edges, hidden, directed)

    @classmethod
    def from_pgmpy(
        cls,
        model: Any,
        hidden: Iterable[str] | None = None,
        states: Mapping[str, int] | None = None,
    ) -> Self:
        """Return the latent graph of a pgmpy model.

        Parameters
        ----------
        model : pgmpy.models.DiscreteBayesianNetwork or pgmpy.models.DiscreteMarkovNetwork
        hidden : iterable of str, optional
            Hidden names; by default the model's own ``latents``.
        states : mapping of str to int, optional
            Numbers of states; by default those of the model's CPDs or factors.
        """
        _require_attributes(model, "a pgmpy model", "get_cardinality", "latents", "is_multigraph", "nodes", "edges")
        if states is None:
            states = dict(model.get_cardinality())
            if missing := [name for name in model.nodes if name not in states]:
                raise GraphError(
                    f"the pgmpy model has no CPD or factor for {missing[0]!r}, so its number of states is "
                    f"unknown; add one or pass states={{...}}"
                )
        return cls.from_networkx(model, sorted(model.latents) if hidden is None else hidden, states)

    @classmethod
    def from_pyagrum(cls, net: Any, hidden: Iterable[str]) -> Self:
        """Return the latent graph of a pyagrum ``BayesNet``, given the names that are hidden."""
        _require_attributes(net, "a pyagrum BayesNet", "variable", "cpt", "nodes")
        names = [net.variable(node).name() for node in sorted(net.nodes())]
        # A CPT lists its variable first and then the parents; their order becomes ours.
        edges = [(parent, name) for name in names for parent in list(net.cpt(name).names)[1:]]
        return cls({name: net.variable(name).domainSize() for name in names}, edges, hidden)


def _require_attributes(graph: Any, expected: str, *attributes: str) -> None:
    """Raise `GraphError` unless an object has the attributes of some library's graphs."""
    if isinstance(graph, type) or not all(hasattr(graph, attribute) for attribute in attributes):
        raise GraphError(f"{expected} is expected, not {quoted(graph)}")


def check_graph(graph: object, error: type[EigentreeError] = GraphError) -> None:
    """Raise an error unless this is a `LatentGraph`."""
    if not isinstance(graph, LatentGraph):
        raise error(f"a LatentGraph is needed, not {quoted(graph)}")


def _checked_states(states: Mapping[str, int] | Iterable[tuple[str, int]]) -> dict[str, int]:
    pairs = states.items() if isinstance(states, Mapping) else states
    table: dict[str, int] = {}
    for pair in islice(one_by_one("states", pairs, PAIRS, GraphError), MOST_VARIABLES + 1):
        if not _is_pair(pair):
            raise GraphError(f"states is a mapping or pairs of a name and a number, not {quoted(pair)}")
        name, count = pair
        if not isinstance(name, str) or not name:
            raise GraphError(f"variable names are non-empty strings, not {quoted(name)}")
        if name in table:
            raise GraphError(f"variable {quoted(name)} is given twice; names must differ")
        what = f"the number of states of {quoted(name)}"
        table[name] = whole_number(what, count, error=GraphError, most=MOST_STATES)
    check_variables("this graph", len(table))
    return table


def _checked_edges(
    edges: Iterable[tuple[str, str]], states: Mapping[str, int], directed: bool
) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    for edge in one_by_one("edges", edges, "pairs of names, such as [('h', 'x')]", GraphError):
        if not _is_pair(edge):
            raise GraphError(f"an edge is a pair of names, not {quoted(edge)}")
        source, target = edge
        for end in (source, target):
            if not isinstance(end, str) or end not in states:
                raise GraphError(
                    f"edge {quoted(edge)} names {quoted(end)}, which is not in states{did_you_mean(end, states)}"
                )
        if source == target:
            raise GraphError(f"edge {(source, target)!r} is a self-loop; a variable cannot be its own neighbour")
        key = (source, target) if directed or source < target else (target, source)
        if key in seen:
            raise GraphError(f"edge {(source, target)!r} is given twice")
        seen.add(key)
        pairs.append((source, target))
    return tuple(pairs)


def _is_pair(item: object) -> bool:
    return isinstance(item, Sequence) and not isinstance(item, str | bytes) and len(item) == 2


def _listed(names: tuple[str, ...], most: int = 8, between: str = ", ") -> str:
    shown = between.join(names[:most])
    return f"{shown}{between}… ({len(names)} in all)" if len(names) > most else shown
