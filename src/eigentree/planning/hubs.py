"""Hubs: places of the tree where four or more branches meet at one separator, and what is counted to learn them.

A mixture, or a hidden variable with many neighbours, is one node of the graph but many of the binary tree, and the
operators of these nodes have much in common: all multiply functions of the same separator. Learned one by one they
have many more parameters than the graph; learned as one multiplication (`eigentree.spectral.hubs`) hardly more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, permutations, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.engine.schedule import downward, upward

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.planning.ranks import Spans
    from eigentree.structures.junction_tree import JunctionTree

__all__ = ["Branch", "Edge", "Hub", "distinct_triples", "find_hubs", "symmetric_basis"]

MOST_STATES = 16
"""Separators of more states than this are no hubs: their multiplication table would be large."""

ANCHORS = (12, 16, 24)
"""How many branches fix the multiplication: the first number that is enough; the other branches join them by pairs."""

FEWEST_BRANCHES = 4
"""With three, a hub is one node, which its views learn as well."""

STACK = 4
"""How many columns speak for a branch that is more than a leaf."""

MOST_CELLS = 2**20
"""Cells of the tables of a hub."""

CLEAR = 1e-6
"""Singular values below this part of the largest count as zero."""


class Edge(NamedTuple):
    """What matters of a node of the plan, and of the edge above it.

    Attributes
    ----------
    parent : int
        -1 at the root.
    children : tuple of int
    observed : str or None
    top, bottom : int
        The nodes of the junction tree at the upper end of the edge, and at the node itself.
    rank : int
    whole : bool
        Whether the rank is the generic one.
    inside : tuple of str
    outside : tuple of tuple of str
        The views.
    """

    parent: int
    children: tuple[int, ...]
    observed: str | None
    top: int
    bottom: int
    rank: int
    whole: bool
    inside: tuple[str, ...]
    outside: tuple[tuple[str, ...], ...]


class Branch(NamedTuple):
    """One of the parts that a hub's separator cuts the columns into.

    Attributes
    ----------
    position : int
        The node of the plan below the edge that leads there: for the branch above, the hub's first node.
    columns : tuple of str
        The columns that speak for it.
    """

    position: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Hub:
    """Nodes of a plan that multiply functions of the same separator.

    Attributes
    ----------
    separator : tuple of str
    states : int
        Number of its joint states.
    nodes : tuple of int
        Their positions, the first one above all others.
    branches : tuple of Branch
        Those below, and last the one above, unless the hub holds the root.
    rooted : bool
        Whether the hub holds the root.
    anchors : tuple of int
        The branches whose pairs and triples fix the multiplication.
    """

    separator: tuple[str, ...]
    states: int
    nodes: tuple[int, ...]
    branches: tuple[Branch, ...]
    rooted: bool
    anchors: tuple[int, ...] = ()

    @property
    def below(self) -> tuple[Branch, ...]:
        """The branches below."""
        return self.branches if self.rooted else self.branches[:-1]

    def pairs(self) -> list[tuple[int, str, int, str]]:
        """Return (branch, column, anchor, column) for all pairs that are needed."""
        return [
            (e, name, a, other)
            for e, branch in enumerate(self.branches)
            for a in self.anchors
            if a != e
            for name in branch.columns
            for other in self.branches[a].columns
        ]

    def triples(self) -> list[tuple[str, str, str]]:
        """Return the columns of three different anchors each, once."""
        columns = [self.branches[a].columns for a in self.anchors]
        return [
            (first, second, third)
            for one, two, three in combinations(columns, 3)
            for first in one
            for second in two
            for third in three
        ]


def find_hubs(tree: JunctionTree, spans: Spans, edges: Sequence[Edge]) -> tuple[Hub, ...]:
    """Return the hubs of a plan, found on the random instance on which its views were found.

    A hub must be identified by pairs and triples of single columns; where it is not, or where a rank is capped, its
    nodes are learned one by one.
    """
    hubs = _candidates(tree, edges)
    says = _Conditionals(tree, spans) if hubs else None
    # Neighbouring hubs speak through each other's columns, so when one goes its neighbours must be looked at again.
    while hubs:
        spoken = _with_branches(hubs, edges)
        found = [_anchored(tree, hub, says.of_hub(hub, edges)) if hub and says else None for hub in spoken]
        found = _joined(found, says, edges) if says else found
        kept = [hub for hub, good in zip(hubs, found, strict=True) if good is not None]
        if len(kept) == len(hubs):
            return tuple(hub for hub in found if hub is not None)
        hubs = kept
    return ()


def _candidates(tree: JunctionTree, edges: Sequence[Edge]) -> list[Hub]:
    """Return connected nodes at one separator, without their branches."""
    home: dict[int, int] = {}
    found: list[tuple[tuple[str, ...], list[int]]] = []
    for position, edge in enumerate(edges):
        if edge.parent < 0 or edge.observed is not None:
            continue
        separator = tree.nodes[edge.top].separator
        if separator != tree.nodes[edge.bottom].separator:
            continue
        if not all(_stands_at(tree, edges[k], set(separator)) for k in (edge.parent, position)):
            continue
        if edge.parent not in home:
            home[edge.parent] = len(found)
            found.append((separator, [edge.parent]))
        if found[home[edge.parent]][0] == separator:
            home[position] = home[edge.parent]
            found[home[position]][1].append(position)
    hubs = []
    for separator, nodes in found:
        states = math.prod(tree.states_of(separator))
        if len(nodes) > 1 and 1 < states <= MOST_STATES and _plain(edges, nodes, states):
            hubs.append(Hub(separator, states, tuple(nodes), (), edges[nodes[0]].parent < 0))
    return hubs


def _stands_at(tree: JunctionTree, edge: Edge, separator: set[str]) -> bool:
    """Return whether a separator makes all that meets at a node independent."""
    node = tree.nodes[edge.bottom]
    around = [tree.nodes[child].separator for child in node.children]
    around += [node.separator] if edge.parent >= 0 else []
    return sum(not separator.issuperset(other) for other in around) <= 1


def _plain(edges: Sequence[Edge], nodes: Sequence[int], states: int) -> bool:
    """Return whether all ranks are generic, and those within the hub as large as its branches and states allow."""
    around = {*nodes, *(child for k in nodes for child in edges[k].children)}
    if not all(edges[k].whole for k in around):
        return False
    products = {k: math.prod(edges[child].rank for child in edges[k].children) for k in nodes[1:]}
    return all(edges[k].rank == min(states, product) for k, product in products.items())


def _with_branches(hubs: Sequence[Hub], edges: Sequence[Edge]) -> list[Hub | None]:
    """Return the hubs with their branches; None where a branch cannot speak through single columns."""
    tops = {hub.nodes[0]: h for h, hub in enumerate(hubs)}
    home = {node: h for h, hub in enumerate(hubs) for node in hub.nodes}
    made: list[Hub | None] = list(hubs)
    for h in reversed(range(len(hubs))):
        branches = []
        for position in hubs[h].nodes:
            for child in edges[position].children:
                if child not in hubs[h].nodes:
                    lower = made[tops[child]] if child in tops else None
                    columns = _mixed(lower.branches) if lower else edges[child].inside
                    branches.append(Branch(child, columns if lower or len(columns) == 1 else ()))
        made[h] = replace(hubs[h], branches=tuple(branches)) if all(b.columns for b in branches) else None
    for h, hub in enumerate(made):
        if hub is None or hub.rooted:
            continue
        top = edges[hub.nodes[0]]
        upper = made[home[top.parent]] if top.parent in home else None
        if upper is not None:
            columns = _mixed([branch for branch in upper.branches if branch.position != hub.nodes[0]])
        else:
            single = all(len(group) == 1 for group in top.outside)
            columns = tuple(name for group in top.outside for name in group) if single else ()
        made[h] = replace(hub, branches=(*hub.branches, Branch(hub.nodes[0], columns))) if columns else None
    return made


def _mixed(branches: Sequence[Branch]) -> tuple[str, ...]:
    """Return a few columns of several branches, from as many of them as possible."""
    lines = zip_longest(*(branch.columns for branch in branches))
    return tuple(name for line in lines for name in line if name is not None)[:STACK]


def _anchored(tree: JunctionTree, hub: Hub, says: Mapping[str, Floats]) -> Hub | None:
    """Return the hub with enough anchors, or None where none are."""
    directions = _centred_directions(hub.states)
    loadings = [np.concatenate([says[name] for name in branch.columns]) @ directions for branch in hub.branches]
    count = len(hub.branches)
    for most in ANCHORS:
        chosen = tuple(range(count)) if count <= most else tuple(k * count // most for k in range(most))
        anchored = replace(hub, anchors=chosen)
        cells = sum(math.prod(tree.graph.states[name] for name in group) for group in anchored.triples())
        if cells > MOST_CELLS:
            return None
        if _identified([loadings[a] for a in chosen]):
            return anchored
        if count <= most:
            return None
    return None


def _centred_directions(states: int) -> Floats:
    """Return an orthonormal basis of the functions of a separator that add up to 0, shape (states, states - 1)."""
    return np.linalg.qr(np.column_stack([np.ones(states), np.eye(states)[:, 1:]]))[0][:, 1:]


def _identified(loadings: Sequence[Floats]) -> bool:
    """Return whether pairs of branches fix what each says of the separator, and triples the multiplication."""
    if len(loadings) < FEWEST_BRANCHES:
        return False
    for e in range(len(loadings)):
        others = [part for k, part in enumerate(loadings) if k != e]
        if not (_full(np.concatenate(others[::2])) and _full(np.concatenate(others[1::2]))):
            return False
    values, vectors = np.linalg.eigh(sum(part.T @ part for part in loadings))
    even = [part @ (vectors / np.sqrt(values)) for part in loadings]
    sizes = np.linalg.eigvalsh(distinct_triples(np.array([part.T @ part for part in even])))
    return bool(sizes[0] > CLEAR * sizes[-1])


def _full(vectors: Floats) -> bool:
    """Return whether some rows have the rank of their number of columns."""
    sizes = np.linalg.svd(vectors, compute_uv=False)
    return len(sizes) == vectors.shape[1] and bool(sizes[-1] > CLEAR * sizes[0])


def symmetric_basis(size: int) -> Floats:
    """Return an orthonormal basis of the symmetric tensors of order three, shape (basis, size, size, size)."""
    places = list(combinations_with_replacement(range(size), 3))
    basis = np.zeros((len(places), size, size, size))
    for line, place in zip(basis, places, strict=True):
        for order in set(permutations(place)):
            line[order] = 1.0
        line /= math.sqrt(line.sum())
    return basis


def distinct_triples(grams: Floats) -> Floats:
    """Return the sum over three different parts of the product of their Gram matrices, on symmetric tensors.

    Parameters
    ----------
    grams : array, shape (…, parts, size, size)

    Returns
    -------
    array, shape (…, basis, basis)
        In the `symmetric_basis`.
    """
    size = grams.shape[-1]
    basis = symmetric_basis(size)
    total = grams.sum(axis=-3)
    both = np.einsum("...pai,...pbj->...abij", grams, grams)
    # Of all ordered triples, those go in which two parts are the same; where all three are, they went thrice.
    every = np.einsum("...ai,...bj,...ck->...abcijk", total, total, total)
    alike = np.einsum("...abij,...ck->...abcijk", both, total)
    same = np.einsum("...pai,...pbj,...pck->...abcijk", grams, grams, grams, optimize=True)
    flat = basis.reshape(len(basis), -1)
    cube = size**3
    matrix = (every - 3 * alike + 2 * same).reshape(*grams.shape[:-3], cube, cube)
    return np.asarray(flat @ matrix @ flat.T)


def _joined(found: Sequence[Hub | None], says: _Conditionals, edges: Sequence[Edge]) -> list[Hub | None]:
    """Return the hubs without those that the hub above does not hear in full."""
    home = {node: hub for hub in found if hub for node in hub.nodes}
    kept = list(found)
    for h, hub in enumerate(found):
        if hub is None or hub.rooted:
            continue
        upper = home.get(edges[hub.nodes[0]].parent)
        if upper is None:
            continue
        (heard,) = [branch.columns for branch in upper.branches[:] if branch.position == hub.nodes[0]][:1]
        said = says.of_hub(hub, edges)
        full = _full(np.concatenate([said[name] for name in heard]) @ _centred_directions(hub.states))
        if not full or edges[hub.nodes[0]].rank != min(hub.states, upper.states):
            kept[h] = None
    return kept


class _Conditionals:
    """What single columns say about the separators of hubs, on a random instance."""

    def __init__(self, tree: JunctionTree, spans: Spans) -> None:
        self.tree = tree
        self.passages = spans.passages
        self.leaf = {node.observed: i for i, node in enumerate(tree.nodes) if node.observed is not None}
        children = [node.children for node in tree.nodes]

        def collect(i: int, below: list[Floats]) -> Floats:
            if tree.nodes[i].observed is not None:
                return _scaled(self.passages[i].leaf().sum(axis=0, keepdims=True))
            return _scaled(self.passages[i].send(list(enumerate(below)), -1))

        def distribute(i: int, above: Floats, below: list[Floats]) -> Iterator[Floats]:
            for k in range(len(below)):
                others = [(j, message) for j, message in enumerate(below) if j != k]
                yield _scaled(self.passages[i].send([*others, (-1, above)], k))

        self.up = upward(children, collect)
        self.down = downward(children, self.up, distribute, np.ones((1, 1)))

    def of_hub(self, hub: Hub, edges: Sequence[Edge]) -> dict[str, Floats]:
        """Return P(column | separator) for the columns of a hub's branches, shape (states, those of the separator)."""
        inner = {edges[position].bottom for position in hub.nodes}
        owner = {child: k for k in hub.nodes for child in edges[k].children}
        found = {}
        for branch in hub.branches:
            above = not hub.rooted and branch is hub.branches[-1]
            target = edges[hub.nodes[0] if above else owner[branch.position]].bottom
            onto = self._inner_port(target, inner)
            for name in branch.columns:
                messages = self._carried(name, target, onto)
                found[name] = messages / messages.sum(axis=0)
        return found

    def _inner_port(self, node: int, inner: set[int]) -> int:
        """Return an edge of a node that leads to another node of its hub."""
        for k, child in enumerate(self.tree.nodes[node].children):
            if child in inner:
                return k
        return -1

    def _carried(self, name: str, target: int, onto: int) -> Floats:
        """Return the messages of a column through a node, onto one of its edges."""
        nodes = self.tree.nodes
        climbed = [self.leaf[name]]
        while climbed[-1] != 0:
            climbed.append(nodes[climbed[-1]].parent)
        descent = [target]
        while descent[-1] not in climbed:
            descent.append(nodes[descent[-1]].parent)
        path = [*climbed[: climbed.index(descent[-1])], *reversed(descent)]
        messages = self.passages[path[0]].leaf()
        for k in range(1, len(path)):
            source = self._port(path[k], path[k - 1])
            way = self._port(path[k], path[k + 1]) if k + 1 < len(path) else onto
            messages = self._through(path[k], source, messages, way)
        return messages

    def _port(self, node: int, neighbour: int) -> int:
        children = self.tree.nodes[node].children
        return children.index(neighbour) if neighbour in children else -1

    def _through(self, node: int, source: int, messages: Floats, onto: int) -> Floats:
        """Return messages sent through a node, all that comes in through its other edges summed out."""
        here = self.tree.nodes[node]
        parts = [(k, self.up[child]) for k, child in enumerate(here.children) if k not in (source, onto)]
        if -1 not in (source, onto):
            parts.append((-1, self.down[node]))
        return self.passages[node].send([*parts, (source, messages)], onto)


def _scaled(message: Floats) -> Floats:
    """Return a message with its largest entry 1."""
    return np.asarray(message / message.max())
