"""The Robinson-Foulds distance of trees over the same columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.errors import GraphError
from eigentree.graphs.graph import check_graph

if TYPE_CHECKING:
    from eigentree.graphs.graph import LatentGraph

__all__ = ["robinson_foulds", "splits"]


def splits(graph: LatentGraph) -> set[frozenset[str]]:
    """Return the splits of the columns by the edges of a tree, each as the part without the first column.

    Edges that cut off one column, or none, are left out.
    """
    check_graph(graph)
    root = min(graph.observed)
    below: dict[str, frozenset[str]] = {}
    order, queue = {root: root}, [root]
    for name in queue:
        found = [other for other in graph.neighbors(name) if other not in order]
        order |= dict.fromkeys(found, name)
        queue += found
    if len(graph.edges) != len(graph.names) - 1 or len(queue) != len(graph.names):
        raise GraphError("the graph is no tree: it has a cycle, or is in several parts")
    for name in reversed(queue):
        inner = [below[other] for other in graph.neighbors(name) if order[other] == name and other != root]
        below[name] = frozenset().union(*inner, [name] if name in graph.observed else [])
    return {part for part in below.values() if 1 < len(part) < len(graph.observed) - 1}


def robinson_foulds(one: LatentGraph, other: LatentGraph) -> float:
    """Return the share of splits that only one of two trees over the same columns has, from 0 for equal trees to 1.

    Raises
    ------
    GraphError
        When a graph is no tree, or the columns differ.

    Examples
    --------
    >>> from eigentree.graphs.zoo import hmm, mixture
    >>> robinson_foulds(hmm(5), hmm(5)), robinson_foulds(hmm(5), mixture(5))
    (0.0, 1.0)
    """
    if set(one.observed) != set(other.observed):
        raise GraphError("trees can be compared where they have the same columns, and these differ")
    first, second = splits(one), splits(other)
    return len(first ^ second) / max(1, len(first) + len(second))
