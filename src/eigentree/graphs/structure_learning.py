"""Trees over columns, from the mutual information or the distances of all pairs.

Ties are broken by names, so a tree does not depend on the order of columns.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from eigentree.graphs.elimination import middle
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.neighbour_joining import joined_around, refined
from eigentree.graphs.templates import apart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.graphs.neighbour_joining import Edge

__all__ = ["chow_liu", "hidden_chow_liu", "joined_tree", "mixed_tree", "mixture_of_trees", "spanning_tree"]

DIGITS = 12
"""Digits of a weight, relative to the largest, that count; the rest is rounding, by which no tie may be broken."""


def spanning_tree(weights: Floats, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the edges of the maximum spanning tree of symmetric weights, each and all in order of names.

    Examples
    --------
    >>> spanning_tree(np.array([[0, 2, 1], [2, 0, 2], [1, 2, 0]]), ["a", "b", "c"])
    [('a', 'b'), ('b', 'c')]
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = np.asarray(weights, np.float64)[np.ix_(order, order)]
    largest = np.abs(ordered).max(initial=0.0)
    if largest > 0:
        ordered = np.rint(ordered / 10.0 ** (np.ceil(np.log10(largest)) - DIGITS))
    pairs = sorted((min(pair), max(pair)) for pair in _joined(ordered))
    return [(names[order[a]], names[order[b]]) for a, b in pairs]


def chow_liu(names: Sequence[str], states: Sequence[int], weights: Floats) -> LatentGraph:
    """Return the Chow-Liu tree over columns, given their mutual information, directed away from its centre."""
    neighbors = _neighbors(names, spanning_tree(weights, names))
    edges = _directed(neighbors, _centre(neighbors, names))
    return LatentGraph(zip(names, states, strict=True), edges)


def hidden_chow_liu(
    names: Sequence[str], states: Sequence[int], weights: Floats, hidden_states: int
) -> LatentGraph:
    """Return a tree of hidden variables with the edges of the Chow-Liu tree of the columns below them.

    Each column is the child of a hidden variable named after it, such as ``h_age``, but for the leaves of the
    Chow-Liu tree, which are children of their neighbour's.

    Examples
    --------
    >>> graph = hidden_chow_liu("abcd", [2] * 4, np.diag([9, 9, 9], 1) + np.diag([9, 9, 9], -1), 3)
    >>> graph.edges
    (('h_b', 'a'), ('h_b', 'b'), ('h_b', 'h_c'), ('h_c', 'c'), ('h_c', 'd'))
    """
    tree = spanning_tree(weights, names)
    around = _neighbors(names, tree)
    # One column, or two, are all ends; one hidden variable stays all the same.
    inner = [name for name in names if len(around[name]) > 1] or [min(names)]
    columns = dict(zip(names, states, strict=True))
    own = dict(zip(inner, apart([f"h_{name}" for name in inner], columns), strict=True))
    edges = [(own[a], own[b]) for a, b in tree if a in own and b in own]
    edges += [(own[name if name in own else around[name][0]], name) for name in names]
    return _latent_tree(columns, list(own.values()), edges, hidden_states)


def joined_tree(
    names: Sequence[str],
    states: Sequence[int],
    distances: Floats,
    hidden_states: int,
    shortest: float = 0.0,
) -> LatentGraph:
    """Return the tree of hidden variables that neighbour joining finds within neighbourhoods of near columns.

    Hidden variables nearer to each other than `shortest` are one. Each has at least three neighbours where there
    are three columns, and is named after the nearest column after which no other is named.

    Examples
    --------
    >>> distances = np.array([[0, 2, 4, 4], [2, 0, 4, 4], [4, 4, 0, 2], [4, 4, 2, 0]])
    >>> joined_tree("abcd", [2] * 4, distances, 3).edges
    (('h_a', 'a'), ('h_a', 'b'), ('h_a', 'h_c'), ('h_c', 'c'), ('h_c', 'd'))
    """
    columns = dict(zip(names, states, strict=True))
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = [names[place] for place in order]
    matrix = np.asarray(distances, np.float64)[np.ix_(order, order)]
    places = {name: place for place, name in enumerate(ordered)}
    tree = [(places[one], places[other]) for one, other in spanning_tree(-matrix, ordered)]
    edges = refined(joined_around(matrix, tree), matrix, shortest)
    if len(names) < 3:
        # There is nothing to join: one hidden variable stands above all.
        edges = [(len(names), place, 0.0) for place in range(len(names))]
    called = dict(enumerate(ordered)) | _called(edges, ordered)
    hidden = [name for node, name in called.items() if node >= len(names)]
    return _latent_tree(columns, hidden, [(called[a], called[b]) for a, b, _ in edges], hidden_states)


def mixture_of_trees(graph: LatentGraph, trees: int) -> LatentGraph:
    """Return the graph of a mixture of trees: a new hidden variable, ``tree``, is the first parent of all others.

    Examples
    --------
    >>> graph = LatentGraph({"h": 3, "a": 2, "b": 2}, [("h", "a"), ("h", "b")], ["h"])
    >>> mixture_of_trees(graph, 4).parents("a")
    ('tree', 'h')
    """
    if trees == 1:
        return graph
    (which,) = apart(["tree"], graph.states)
    edges = [(which, name) for name in graph.names]
    return LatentGraph({which: trees, **graph.states}, [*edges, *graph.edges], [which, *graph.hidden])


def mixed_tree(graph: LatentGraph) -> tuple[LatentGraph, str | None]:
    """Return the tree of a graph that `mixture_of_trees` made, and its new variable; else the graph, and None.

    Examples
    --------
    >>> graph = LatentGraph({"h": 3, "a": 2, "b": 2}, [("h", "a"), ("h", "b")], ["h"])
    >>> mixed_tree(mixture_of_trees(graph, 4)) == (graph, "tree")
    True
    >>> mixed_tree(graph) == (graph, None)
    True
    """
    which, *names = graph.names
    edges = [edge for edge in graph.edges if which not in edge]
    of_all = graph.directed and all(which in graph.parents(name) for name in names)
    # Without edges, it is the hidden class of plain columns.
    one_tree = bool(edges) and len(edges) == len(names) - 1 == len({child for _, child in edges})
    if which not in graph.hidden or not of_all or not one_tree:
        return graph, None
    states = {name: graph.states[name] for name in names}
    return LatentGraph(states, edges, [name for name in graph.hidden if name != which]), which


def _called(edges: Sequence[Edge], leaves: Sequence[str]) -> dict[int, str]:
    """Return the name of each inner node: after the nearest leaf that gives its name to no other one."""
    around: dict[int, list[tuple[float, int]]] = {}
    for one, other, length in edges:
        around.setdefault(one, []).append((max(length, 0.0), other))
        around.setdefault(other, []).append((max(length, 0.0), one))
    inner = [node for node in around if node >= len(leaves)]
    # Those beside leaves choose first, the nearest of all before the others.
    nearest = {
        node: min([edge for edge in around[node] if edge[1] < len(leaves)] or [(np.inf, node)]) for node in inner
    }
    given: dict[int, int] = {}
    for node in sorted(inner, key=lambda node: (nearest[node], node)):
        seen, queue = {node}, [(0.0, node)]
        while True:
            length, here = heappop(queue)
            if here < len(leaves) and here not in given:
                given[here] = node
                break
            for step, other in around[here]:
                if other not in seen:
                    seen.add(other)
                    heappush(queue, (length + step, other))
    names = apart([f"h_{leaves[leaf]}" for leaf in given], leaves)
    return dict(zip(given.values(), names, strict=True))


def _latent_tree(
    columns: Mapping[str, int], hidden: Sequence[str], edges: Iterable[tuple[str, str]], hidden_states: int
) -> LatentGraph:
    """Return the graph of a tree, directed away from the hidden variable in the middle of the hidden ones."""
    neighbors = _neighbors([*hidden, *columns], edges)
    root = _centre(neighbors, hidden)
    directed = _directed(neighbors, root)
    order = dict.fromkeys([root, *(child for _, child in directed)])
    states = {name: hidden_states for name in order if name not in columns}
    return LatentGraph({**states, **columns}, directed, list(states))


def _joined(weights: Floats) -> list[tuple[int, int]]:
    """Return the edges of the maximum spanning tree over 0, 1, … (Prim); of equal edges the first."""
    count = len(weights)
    inside = np.zeros(count, np.bool_)
    inside[:1] = True
    best, source = weights[0].copy() if count else np.zeros(0), np.zeros(count, np.int64)
    everyone = np.arange(count)
    edges: list[tuple[int, int]] = []
    for _ in range(count - 1):
        open_edges = np.where(inside, -np.inf, best)
        ties = np.flatnonzero(open_edges == open_edges.max())
        new = int(ties[_place(source[ties], ties, count).argmin()])
        edges.append((int(source[new]), new))
        inside[new] = True
        tied = weights[new] == best
        better = weights[new] > best
        better |= tied & (_place(everyone, new, count) < _place(everyone, source, count))
        best[better], source[better] = weights[new][better], new
    return edges


def _place(one: Integers, other: Integers | int, count: int) -> Integers:
    """Return the place of edges in the order of their smaller, then their larger end."""
    return np.minimum(one, other) * count + np.maximum(one, other)


def _neighbors(names: Collection[str], edges: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the neighbours of each name, in order."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for one, other in edges:
        found[one].append(other)
        found[other].append(one)
    return {name: sorted(around) for name, around in found.items()}


def _centre(neighbors: Mapping[str, Sequence[str]], among: Collection[str]) -> str:
    """Return the centre of the part of a tree that some nodes span; of two the first."""
    spanned = set(among)
    return min(middle({name: spanned.intersection(neighbors[name]) for name in spanned}))


def _directed(neighbors: Mapping[str, Sequence[str]], root: str) -> list[tuple[str, str]]:
    """Return the edges of a tree away from a root, nearest first."""
    edges: list[tuple[str, str]] = []
    seen, queue = {root}, [root]
    for parent in queue:
        for child in neighbors[parent]:
            if child not in seen:
                seen.add(child)
                queue.append(child)
                edges.append((parent, child))
    return edges
