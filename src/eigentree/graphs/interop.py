"""The graphs of other libraries, read without importing any of them: networkx, pgmpy, pyagrum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from eigentree.errors import GraphError, quoted
from eigentree.validation import a_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["GraphParts", "networkx_parts", "pgmpy_parts", "pyagrum_parts"]


class GraphParts(NamedTuple):
    """What a `LatentGraph` is made of, in the order of its arguments."""

    states: Mapping[str, int]
    edges: Iterable[tuple[str, str]]
    hidden: Iterable[str]
    directed: bool


def networkx_parts(graph: Any, hidden: Iterable[str] | None, states: Mapping[str, int] | None) -> GraphParts:
    """Return the parts of a networkx graph; see `LatentGraph.from_networkx`."""
    _check_kind(graph, "a networkx Graph or DiGraph", "is_multigraph", "is_directed", "nodes", "edges")
    if graph.is_multigraph():
        raise GraphError("a networkx multigraph has parallel edges; give a Graph or a DiGraph")
    if states is not None:
        a_mapping("states", states, "{'x': 2}")
    if states is None:
        states = {}
        for name, attributes in graph.nodes(data=True):
            if "states" not in attributes:
                raise GraphError(
                    f"node {quoted(name)} has no attribute 'states'; "
                    f"set graph.nodes[{quoted(name)}]['states'] or pass states={{...}}"
                )
            states[name] = attributes["states"]
    elif missing := [name for name in graph.nodes if name not in states]:
        raise GraphError(f"states= gives no number of states for node {missing[0]!r}")
    if hidden is None:
        hidden = [name for name, attributes in graph.nodes(data=True) if attributes.get("hidden", False)]
    directed = graph.is_directed()
    return GraphParts(
        {name: states[name] for name in graph.nodes},
        _parents_first(graph) if directed else graph.edges,
        hidden,
        directed,
    )


def pgmpy_parts(model: Any, hidden: Iterable[str] | None, states: Mapping[str, int] | None) -> GraphParts:
    """Return the parts of a pgmpy model; see `LatentGraph.from_pgmpy`."""
    _check_kind(model, "a pgmpy model", "get_cardinality", "latents", "is_multigraph", "nodes", "edges")
    if states is None:
        states = dict(model.get_cardinality())
        if missing := [name for name in model.nodes if name not in states]:
            raise GraphError(
                f"the pgmpy model has no CPD or factor for {missing[0]!r}, so its number of states is "
                f"unknown; add one or pass states={{...}}"
            )
    return networkx_parts(model, sorted(model.latents) if hidden is None else hidden, states)


def pyagrum_parts(net: Any, hidden: Iterable[str]) -> GraphParts:
    """Return the parts of a pyagrum network; see `LatentGraph.from_pyagrum`."""
    _check_kind(net, "a pyagrum BayesNet", "variable", "cpt", "nodes")
    names = [net.variable(node).name() for node in sorted(net.nodes())]
    # A CPT lists its variable first and then the parents; their order becomes ours.
    edges = [(parent, name) for name in names for parent in list(net.cpt(name).names)[1:]]
    return GraphParts({name: net.variable(name).domainSize() for name in names}, edges, hidden, directed=True)


def _check_kind(graph: Any, expected: str, *attributes: str) -> None:
    """Raise `GraphError` unless an object has what the graphs of some library have."""
    if isinstance(graph, type) or not all(hasattr(graph, attribute) for attribute in attributes):
        raise GraphError(f"{expected} is expected, not {quoted(graph)}")


def _parents_first(graph: Any) -> list[tuple[str, str]]:
    return [(source, target) for target in graph.nodes for source in graph.predecessors(target)]
