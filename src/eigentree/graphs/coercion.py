"""What users give as the structure of a model: a graph, a template, or a graph of another library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.errors import GraphError, did_you_mean, quoted
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import open_template
from eigentree.graphs.templates import Template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["as_structure", "require_structure"]

OF_NETWORKX = ("nodes", "is_multigraph")
"""What graphs of networkx have, and so models of pgmpy."""

OF_PYAGRUM = ("variable", "cpt")

NAMED = {
    "mixture": "et.zoo.Mixture(hidden_states)",
    "hmm": "et.zoo.HMM(hidden_states=…)",
    "tree": "et.zoo.HiddenChowLiu(hidden_states)",
    "factorial": "et.zoo.FactorialHMM(hidden_states=…)",
}
"""Names of structures on the command line, and what they are here."""


def as_structure(
    structure: LatentGraph | Template | Any, states: Sequence[int] | None = None, names: Sequence[str] | None = None
) -> LatentGraph:
    """Return the graph of a structure, over columns with these states and names.

    A node of networkx is hidden where its attribute ``hidden`` is true, one of pgmpy where it is among the
    ``latents``, and a variable of pyagrum where it is no column. An observed node without a number of states takes
    that of its column. Without names, the observed nodes of a graph are the columns in turn, and those of a
    template or of pyagrum are x0, x1, ….

    Examples
    --------
    >>> import networkx
    >>> graph = networkx.DiGraph([("mood", "sleep"), ("mood", "appetite")])
    >>> graph.add_node("mood", hidden=True, states=2)
    >>> as_structure(graph, [3, 4], ["appetite", "sleep"]).states["sleep"]
    4
    """
    require_structure(structure)
    if isinstance(structure, LatentGraph):
        return structure
    structure = open_template(structure) or structure
    if isinstance(structure, Template):
        if states is None:
            raise GraphError(f"{structure!r} is built for the columns of some data, and there are none")
        return structure.build(states, names)
    if _has(structure, *OF_NETWORKX):
        return _from_networkx(structure, states, names)
    return _from_pyagrum(structure, states, names)


def require_structure(structure: Any) -> None:
    """Raise `GraphError` unless this can be a structure, before any data are read."""
    if (
        isinstance(structure, LatentGraph | Template)
        or open_template(structure) is not None
        or _has(structure, *OF_NETWORKX)
        or _has(structure, *OF_PYAGRUM)
    ):
        return
    if isinstance(structure, type) and issubclass(structure, Template):
        name = structure.__name__
        raise GraphError(f"the structure is {name}, which is a class; add (): {name}() or {name}(hidden_states=3)")
    if isinstance(structure, str) and structure.casefold() in NAMED:
        raise GraphError(
            f"the structure {quoted(structure)} is a name on the command line only; in Python it is "
            f"{NAMED[structure.casefold()]}"
        )
    given = quoted(structure) if isinstance(structure, str) else type(structure).__name__
    raise GraphError(
        f"the structure is a LatentGraph, a template such as zoo.HMM(order=2), 'auto', or a graph of networkx, "
        f"pgmpy or pyagrum, not {given}"
    )


def _has(structure: Any, *attributes: str) -> bool:
    """Whether an object has the attributes of a library's graphs, without importing that library."""
    return not isinstance(structure, type) and all(hasattr(structure, name) for name in attributes)


def _from_networkx(graph: Any, states: Sequence[int] | None, names: Sequence[str] | None) -> LatentGraph:
    """Return the graph of networkx, or of pgmpy, whose models are graphs of networkx with `latents`."""
    attributes = dict(graph.nodes(data=True))
    known = {name: own["states"] for name, own in attributes.items() if "states" in own}
    if _has(graph, "latents"):
        hidden = set(graph.latents)
        to_hide, to_size = "name it among the model's latents", "add its CPD, or set its node attribute 'states'"
        if _has(graph, "get_cardinality"):
            known |= graph.get_cardinality()
    else:
        hidden = {name for name, own in attributes.items() if own.get("hidden", False)}
        to_hide, to_size = "set its node attribute 'hidden' to True", "set its node attribute 'states'"
    observed = [name for name in graph.nodes if name not in hidden]
    known = {**_columns_of(observed, states, names, to_hide), **known}
    for name in graph.nodes:
        if name not in known:
            why = "it is hidden, so no data show it" if name in hidden else "there are no data that show it"
            raise GraphError(f"{name!r} has no number of states, and {why}; {to_size}")
    return LatentGraph.from_networkx(graph, sorted(hidden, key=str), known)


def _columns_of(
    observed: Sequence[str], states: Sequence[int] | None, names: Sequence[str] | None, to_hide: str
) -> Mapping[str, int]:
    """Return the number of states of each observed node's column; nothing where no data are known."""
    if states is None:
        return {}
    if names is None:
        if len(observed) != len(states):
            raise GraphError(
                f"the graph has {len(observed)} observed nodes, but the data {len(states)} columns; where a node "
                f"is hidden, {to_hide}"
            )
        return dict(zip(observed, states, strict=True))
    for name in observed:
        if name not in names:
            raise GraphError(
                f"node {name!r} is neither hidden nor a column of the data{did_you_mean(name, names)}; if it is "
                f"hidden, {to_hide}"
            )
    return dict(zip(names, states, strict=True))


def _from_pyagrum(net: Any, states: Sequence[int] | None, names: Sequence[str] | None) -> LatentGraph:
    if states is None:
        raise GraphError(
            "a network of pyagrum does not say which of its variables are hidden; give "
            "LatentGraph.from_pyagrum(net, hidden=[…]) as the structure"
        )
    columns = [f"x{column}" for column in range(len(states))] if names is None else names
    variables = [net.variable(node).name() for node in sorted(net.nodes())]
    for name in columns:
        if name not in variables:
            raise GraphError(
                f"the data have a column {name!r}, but the network of pyagrum no such variable"
                f"{did_you_mean(name, variables)}; name the columns as it does, or give "
                f"LatentGraph.from_pyagrum(net, hidden=[…])"
            )
    graph = LatentGraph.from_pyagrum(net, [name for name in variables if name not in columns])
    # Columns without names of their own stand in the order of the data, whatever that of the network.
    order = [*graph.hidden, *columns] if names is None else graph.names
    return LatentGraph({name: graph.states[name] for name in order}, graph.edges, graph.hidden)
