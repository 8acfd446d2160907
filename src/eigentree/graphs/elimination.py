"""The cliques of a triangulated latent graph and their tree (section 3 of the paper).

Moralise, triangulate by min-fill, and read the maximal cliques and a tree of them off the elimination order: each
step is linear in the size of the graph when the treewidth is bounded, which networkx's are not. What is too wide is
refused before any work.
"""

from __future__ import annotations

import heapq
import math
import re
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from eigentree.errors import TreewidthError, in_short

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from eigentree.graphs.graph import LatentGraph

__all__ = [
    "MAX_CLIQUE_STATES",
    "CliqueTree",
    "check_families",
    "clique_tree",
    "middle",
    "moral_adjacency",
    "natural_key",
    "unavoidable_clique",
]

Node = TypeVar("Node")

MAX_CLIQUE_STATES = 2**24
"""Largest number of joint states of one clique: 128 MiB as a table of floats."""

MOST_VARIABLES = 30
"""Most variables of one clique, each with an axis of its table: arrays have at most 32."""

MOST_FULL_CLIQUES = 16
"""How many cliques of the largest size all cliques together may amount to."""


class CliqueTree(NamedTuple):
    """The maximal cliques of a triangulated graph, variables by number, and the parent of each (-1 for a root).

    Parents stand before children; each independent part of the graph has a root of its own.
    """

    cliques: list[tuple[int, ...]]
    parents: list[int]


def clique_tree(graph: LatentGraph, names: Sequence[str], max_states: int = MAX_CLIQUE_STATES) -> CliqueTree:
    """Return the maximal cliques of a min-fill triangulation and their tree, of variables numbered as in `names`.

    Raises `TreewidthError` when a clique, or all of them together, have too many joint states.
    """
    check_families(graph, max_states)
    position = {name: i for i, name in enumerate(names)}
    moral = moral_adjacency(graph)
    adjacency = [{position[other] for other in moral[name]} for name in names]
    states = [graph.states[name] for name in names]

    def check(members: set[int]) -> None:
        listed = [names[i] for i in sorted(members)]
        what = f"the junction tree needs a clique of {len(members)} variables with"
        _check_table(what, listed, graph, max_states, "edges")

    # It is one of joint states, to which variables of one state, such as numbers, add none.
    check({i for i in unavoidable_clique(adjacency, states) if states[i] > 1})
    order: list[int] = []
    later: list[set[int]] = [set() for _ in names]
    for vertex, around in _eliminate(adjacency):
        check({vertex, *around})
        order.append(vertex)
        later[vertex] = around
    found = _maximal_cliques(order, later)
    sizes = [math.prod(states[i] for i in clique) for clique in found.cliques]
    # A low limit on one clique is not meant for the sum of a long chain of them.
    limit = MOST_FULL_CLIQUES * max(max_states, MAX_CLIQUE_STATES)
    if sum(sizes) > limit:
        largest = max(range(len(sizes)), key=sizes.__getitem__)
        raise TreewidthError(
            f"the {len(sizes)} cliques of the junction tree have {in_short(sum(sizes))} joint states together "
            f"(the limit is {in_short(limit)}); the largest, with {in_short(sizes[largest])}, is "
            f"{_some([names[i] for i in found.cliques[largest]])}; remove edges or states so that fewer variables "
            f"meet, or raise max_clique_states of JunctionTree.build"
        )
    return found


def check_families(graph: LatentGraph, max_states: int = MAX_CLIQUE_STATES) -> None:
    """Raise `TreewidthError` if a variable and its parents have more joint states than the limit."""
    for name in graph.names:
        family = (name, *graph.parents(name))
        what = f"the table of {name!r} given its {len(family) - 1} parents has"
        _check_table(what, family, graph, max_states, "parents")


def _check_table(what: str, members: Sequence[str], graph: LatentGraph, max_states: int, less: str) -> None:
    """Raise `TreewidthError` if a table over some variables has too many cells, or too many axes."""
    size = math.prod([graph.states[name] for name in members])
    if size > max_states:
        raise TreewidthError(
            f"{what} {in_short(size)} joint states (the limit is {in_short(max_states)}): {_some(members)}; remove "
            f"{less} or states, or raise max_clique_states of JunctionTree.build"
        )
    # Variables of one state add nothing to the size of a table but an axis.
    if len(members) > MOST_VARIABLES:
        raise TreewidthError(
            f"{what} more axes than the {MOST_VARIABLES} that a table may have: {_some(members)}; remove {less}"
        )


def moral_adjacency(graph: LatentGraph) -> dict[str, set[str]]:
    """Return the neighbours of each variable once parents of a common child are joined."""
    adjacency: dict[str, set[str]] = {name: set(graph.neighbors(name)) for name in graph.names}
    for name in graph.names:
        for a, b in combinations(graph.parents(name), 2):
            adjacency[a].add(b)
            adjacency[b].add(a)
    return adjacency


def unavoidable_clique(adjacency: Sequence[set[int]], states: Sequence[int]) -> set[int]:
    """Return a vertex with neighbours such that every triangulation has a clique of as many joint states.

    Whichever vertex of a subgraph is eliminated first, its clique holds its neighbours there; so the smallest such
    clique of any subgraph is a bound. Removing its vertex repeatedly finds the best one.
    """
    weights = [math.log(count) for count in states]
    left = [weights[v] + sum(weights[u] for u in around) for v, around in enumerate(adjacency)]
    heap = [(weight, v) for v, weight in enumerate(left)]
    heapq.heapify(heap)
    gone = [False] * len(states)
    best, bound = set[int](), -1.0
    while heap:
        weight, v = heapq.heappop(heap)
        if gone[v] or weight > left[v]:
            continue
        gone[v] = True
        if weight > bound:
            bound, best = weight, {v, *(u for u in adjacency[v] if not gone[u])}
        for u in adjacency[v]:
            if not gone[u]:
                left[u] -= weights[v]
                heapq.heappush(heap, (left[u], u))
    return best


def _eliminate(adjacency: list[set[int]]) -> Iterator[tuple[int, set[int]]]:
    """Yield vertices in min-fill order, each with its neighbours at the time; consumes `adjacency`.

    The fill of each vertex is updated as edges change, so that a hub of thousands of leaves stays linear.
    """
    count = len(adjacency)
    fill = [0] * count
    for v in range(count):
        linked = sum(len(adjacency[v] & adjacency[u]) for u in adjacency[v])
        degree = len(adjacency[v])
        fill[v] = (degree * (degree - 1) - linked) // 2
    heap = [(fill[v], len(adjacency[v]), v) for v in range(count)]
    heapq.heapify(heap)
    done = [False] * count
    while heap:
        key, degree, v = heapq.heappop(heap)
        if done[v] or (key, degree) != (fill[v], len(adjacency[v])):
            continue
        around = adjacency[v]
        touched = set(around)
        if fill[v]:
            for a, b in combinations(sorted(around), 2):
                if b not in adjacency[a]:
                    common = adjacency[a] & adjacency[b]
                    for c in common:
                        fill[c] -= 1
                    fill[a] += len(adjacency[a]) - len(common)
                    fill[b] += len(adjacency[b]) - len(common)
                    adjacency[a].add(b)
                    adjacency[b].add(a)
                    touched |= common
        done[v] = True
        touched.discard(v)
        for u in around:
            adjacency[u].discard(v)
            fill[u] -= len(adjacency[u]) - len(adjacency[u] & around)
        for u in touched:
            heapq.heappush(heap, (fill[u], len(adjacency[u]), u))
        yield v, around


def _maximal_cliques(order: list[int], later: list[set[int]]) -> CliqueTree:
    """Return maximal cliques and their tree from a perfect elimination order.

    The clique of v is v with its later neighbours, and hangs below the clique of the first of these to be
    eliminated. A clique that its child covers is not maximal and is merged into that child's.
    """
    rank = {v: i for i, v in enumerate(order)}
    clique_of = [-1] * len(order)
    cliques: list[list[int]] = []
    tops: list[int] = []
    for v in order:
        if clique_of[v] < 0:
            clique_of[v] = len(cliques)
            cliques.append([v, *sorted(later[v])])
            tops.append(v)
        tops[clique_of[v]] = v
        if later[v]:
            above = min(later[v], key=rank.__getitem__)
            if clique_of[above] < 0 and len(later[v]) == len(later[above]) + 1:
                clique_of[above] = clique_of[v]
    children: list[list[int]] = [[] for _ in cliques]
    roots = []
    for i, top in enumerate(tops):
        if later[top]:
            children[clique_of[min(later[top], key=rank.__getitem__)]].append(i)
        else:
            roots.append(i)
    listed: list[tuple[int, ...]] = []
    parents: list[int] = []
    stack = [(root, -1) for root in reversed(roots)]
    while stack:
        i, parent = stack.pop()
        stack.extend((child, len(listed)) for child in reversed(children[i]))
        listed.append(tuple(sorted(cliques[i])))
        parents.append(parent)
    return CliqueTree(listed, parents)


def middle(neighbors: Mapping[Node, Collection[Node]]) -> list[Node]:
    """Return the centre of a tree: its leaves are peeled off until one or two nodes are left."""
    degree = {node: len(around) for node, around in neighbors.items()}
    layer = [node for node, count in degree.items() if count <= 1]
    left = len(degree)
    while left > 2:
        left -= len(layer)
        following = []
        for node in layer:
            degree[node] = 0
            for other in neighbors[node]:
                if degree[other] > 0:
                    degree[other] -= 1
                    if degree[other] == 1:
                        following.append(other)
        layer = following
    return layer


def _some(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return f"{{{shown}, … {len(names) - most} more}}" if len(names) > most else f"{{{shown}}}"


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts x2 before x10, and is total on different names."""
    parts = re.split(r"(\d+)", name)
    # By the number of digits and then the digits: Python reads no number of more than 4,300 of them.
    digits = [p.lstrip("0") if p.isdigit() and p.isascii() else None for p in parts]
    keys = ((0, 0, p) if d is None else (1, len(d), d) for p, d in zip(parts, digits, strict=True))
    return (*keys, (2, 0, name))
