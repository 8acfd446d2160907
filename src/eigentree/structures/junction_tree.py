"""Rooted junction trees in the normal form of section 3 of the paper.

The steps, each linear in the size of the graph when the treewidth is bounded: moralise, triangulate by
min-fill, read the maximal cliques and their tree off the elimination order, root it, prune what no observed
variable hangs from, give each observed variable a leaf of its own, and split nodes with many children.

networkx can do the first steps, but its triangulation and its maximum spanning tree compare all pairs of
nodes, which a chain of thousands of steps cannot afford.
"""

from __future__ import annotations

import heapq
import math
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby, pairwise
from typing import TYPE_CHECKING

from eigentree.errors import TreewidthError, in_short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eigentree.structures.graph import LatentGraph

MAX_CLIQUE_STATES = 2**24
"""Largest number of joint states of one clique: 128 MiB as a table of floats."""

MOST_FULL_CLIQUES = 16
"""How many cliques of the largest size all cliques together may amount to."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One clique of a rooted junction tree.

    Attributes
    ----------
    clique : tuple of str
        C_i, separator first.
    separator : tuple of str
        S_i, what the clique shares with its parent; empty at the root.
    remainder : tuple of str
        R_i = C_i without S_i.
    parent : int
        Position of the parent in the tree, -1 at the root.
    children : tuple of int
        Positions of the children.
    observed : str or None
        The observed variable that this node holds; only leaves hold one.
    origin : int
        The maximal clique that this node is a part of, as a position in `JunctionTree.cliques`.
    """

    clique: tuple[str, ...]
    separator: tuple[str, ...]
    remainder: tuple[str, ...]
    parent: int
    children: tuple[int, ...]
    observed: str | None
    origin: int


@dataclass(frozen=True)
class JunctionTree:
    """A rooted junction tree in normal form, made by `JunctionTree.build`.

    Nodes stand in preorder: parents before children, every subtree in one piece. Each inner node has at
    most two children (the root three); leaves and observed variables correspond one to one.

    Attributes
    ----------
    graph : LatentGraph
    nodes : tuple of TreeNode
    cliques : tuple of tuple of str
        The maximal cliques of the triangulated graph, also those that were pruned.
    clique_parents : tuple of int
        The parent of each in a junction tree of them all, -1 for the root of an independent part; parents
        stand before their children.

    Examples
    --------
    >>> from eigentree.structures.zoo import hmm
    >>> tree = JunctionTree.build(hmm(length=4, order=2, hidden_states=2, observed_states=3))
    >>> tree.width
    2
    >>> tree.inside(0) == frozenset({"x0", "x1", "x2", "x3"})
    True
    """

    graph: LatentGraph
    nodes: tuple[TreeNode, ...]
    cliques: tuple[tuple[str, ...], ...]
    clique_parents: tuple[int, ...]

    @classmethod
    def build(
        cls,
        graph: LatentGraph,
        root: str | None = None,
        max_clique_states: int = MAX_CLIQUE_STATES,
    ) -> JunctionTree:
        """Return the junction tree of a latent graph, the same for any order of its variables and edges.

        Parameters
        ----------
        graph : LatentGraph
        root : str, optional
            A variable that the root clique must hold; by default the root is the middle of the tree.
        max_clique_states : int
            Largest number of joint states of a clique; all cliques together may have 16 times as many.

        Raises
        ------
        TreewidthError
            When there would be more joint states than that. Nothing large is allocated before.
        """
        if root is not None:
            graph.require(root)
        names = sorted(graph.names, key=_natural_key)
        cliques, parents = _clique_tree(graph, names, max_clique_states)
        draft = _Draft.from_clique_tree(graph, names, cliques, parents)
        draft.reroot(names.index(root) if root is not None else None)
        draft.prune()
        draft.hang_leaves()
        draft.absorb()
        draft.limit_children()
        nodes = draft.nodes()
        _check_copies(graph, nodes, max_clique_states)
        named = tuple(tuple(names[v] for v in clique) for clique in cliques)
        return cls(graph, nodes, named, tuple(parents))

    @property
    def width(self) -> int:
        """The treewidth of the triangulation: the size of the largest clique minus one."""
        return max(len(clique) for clique in self.cliques) - 1

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """One past the last node of the subtree below each node."""
        ends = list(range(1, len(self.nodes) + 1))
        for i in reversed(range(len(self.nodes))):
            for child in self.nodes[i].children:
                ends[i] = max(ends[i], ends[child])
        return tuple(ends)

    def subtree(self, node: int) -> range:
        """Return the positions of a node and of all nodes below it."""
        return range(node, self._ends[node])

    def inside(self, node: int) -> frozenset[str]:
        """Return the observed variables in the subtree of a node (O_i)."""
        held = (self.nodes[i].observed for i in self.subtree(node))
        return frozenset(name for name in held if name is not None)

    def outside(self, node: int) -> frozenset[str]:
        """Return the observed variables that are not in the subtree of a node (O_-i)."""
        return frozenset(self.graph.observed) - self.inside(node)

    def states_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of states of some variables, as the shape of a table over them."""
        return tuple(self.graph.states[name] for name in names)

    def __repr__(self) -> str:
        return f"<JunctionTree: {len(self.nodes)} nodes, treewidth {self.width}, over {self.graph!r}>"


def check_families(graph: LatentGraph, max_states: int = MAX_CLIQUE_STATES) -> None:
    """Raise `TreewidthError` if a variable and its parents have more joint states than the limit."""
    for name in graph.names:
        family = (name, *graph.parents(name))
        size = math.prod(graph.states[member] for member in family)
        if size > max_states:
            raise TreewidthError(
                f"the table of {name!r} given its {len(family) - 1} parents has {in_short(size)} joint states "
                f"(the limit is {in_short(max_states)}): {_some(family)}; remove parents or states, or raise "
                f"max_clique_states of JunctionTree.build"
            )


def _check_copies(graph: LatentGraph, nodes: Sequence[TreeNode], max_states: int) -> None:
    """Raise `TreewidthError` if the leaf of an observed variable that others depend on is too large a table."""
    for node in nodes:
        if node.observed is not None and not node.remainder and graph.states[node.observed] ** 2 > max_states:
            states = graph.states[node.observed]
            raise TreewidthError(
                f"{node.observed!r} is observed, has {states} states and meets other variables, which takes a "
                f"table of {in_short(states**2)} entries (the limit is {in_short(max_states)}); merge some of its "
                f"states, or raise max_clique_states of JunctionTree.build"
            )


def moral_adjacency(graph: LatentGraph) -> dict[str, set[str]]:
    """Return the neighbours of each variable once parents of a common child are joined."""
    adjacency: dict[str, set[str]] = {name: set(graph.neighbors(name)) for name in graph.names}
    for name in graph.names:
        for a, b in combinations(graph.parents(name), 2):
            adjacency[a].add(b)
            adjacency[b].add(a)
    return adjacency


def _natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts x2 before x10, and is total on different names."""
    parts = re.split(r"(\d+)", name)
    return (*((1, int(p), "") if p.isdigit() and p.isascii() else (0, 0, p) for p in parts), (2, 0, name))


def _clique_tree(
    graph: LatentGraph, names: Sequence[str], max_states: int
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the maximal cliques of a min-fill triangulation and each one's parent (-1 for a root).

    Variables are positions in `names`. Independent parts of the graph give several roots.
    """
    check_families(graph, max_states)
    position = {name: i for i, name in enumerate(names)}
    moral = moral_adjacency(graph)
    adjacency = [{position[other] for other in moral[name]} for name in names]
    states = [graph.states[name] for name in names]

    def check(members: Iterable[int]) -> None:
        size = math.prod(states[i] for i in members)
        if size > max_states:
            listed = [names[i] for i in sorted(members)]
            raise TreewidthError(
                f"the junction tree needs a clique of {len(listed)} variables with {in_short(size)} joint states "
                f"(the limit is {in_short(max_states)}): {_some(listed)}; remove edges or states so that fewer "
                f"variables meet, or raise max_clique_states of JunctionTree.build"
            )

    check(_unavoidable(adjacency, states))
    order: list[int] = []
    later: list[set[int]] = [set() for _ in names]
    for vertex, around in _eliminate(adjacency):
        check({vertex, *around})
        order.append(vertex)
        later[vertex] = around
    cliques, parents = _maximal_cliques(order, later)
    sizes = [math.prod(states[i] for i in clique) for clique in cliques]
    # A low limit on one clique is not meant for the sum of a long chain of them.
    limit = MOST_FULL_CLIQUES * max(max_states, MAX_CLIQUE_STATES)
    if sum(sizes) > limit:
        largest = max(range(len(cliques)), key=sizes.__getitem__)
        raise TreewidthError(
            f"the {len(cliques)} cliques of the junction tree have {in_short(sum(sizes))} joint states together "
            f"(the limit is {in_short(limit)}); the largest, with {in_short(sizes[largest])}, is "
            f"{_some([names[i] for i in cliques[largest]])}; remove edges or states so that fewer variables meet, "
            f"or raise max_clique_states of JunctionTree.build"
        )
    return cliques, parents


def _unavoidable(adjacency: Sequence[set[int]], states: Sequence[int]) -> set[int]:
    """Return a vertex with neighbours such that every triangulation has a clique of as many joint states.

    Whichever vertex of a subgraph is eliminated first, its clique holds its neighbours there; so the smallest
    such clique of any subgraph is a bound. Taking the vertex of the smallest one away, again and again, finds the
    best bound without the work of triangulating a graph that is hopeless.
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


def _eliminate(adjacency: list[set[int]]) -> Iterable[tuple[int, set[int]]]:
    """Yield vertices in min-fill order, each with its neighbours at the time; consumes `adjacency`.

    The number of missing edges among each vertex's neighbours is kept up to date as edges come and go, so
    that a hub with thousands of leaves costs no more than its leaves.
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


def _maximal_cliques(order: list[int], later: list[set[int]]) -> tuple[list[tuple[int, ...]], list[int]]:
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
    return _parents_first(cliques, children, roots)


def _parents_first(
    cliques: list[list[int]], children: list[list[int]], roots: list[int]
) -> tuple[list[tuple[int, ...]], list[int]]:
    listed: list[tuple[int, ...]] = []
    parents: list[int] = []
    stack = [(root, -1) for root in reversed(roots)]
    while stack:
        i, parent = stack.pop()
        stack.extend((child, len(listed)) for child in reversed(children[i]))
        listed.append(tuple(sorted(cliques[i])))
        parents.append(parent)
    return listed, parents


def _some(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return f"{{{shown}, … {len(names) - most} more}}" if len(names) > most else f"{{{shown}}}"


class _Draft:
    """A junction tree while it is being shaped; variables are positions in `names`."""

    def __init__(self, graph: LatentGraph, names: Sequence[str]) -> None:
        self.names = names
        observed = set(graph.observed)
        self.is_observed = [name in observed for name in names]
        self.cliques: list[frozenset[int]] = []
        self.neighbors: list[list[int]] = []
        self.parent: list[int] = []
        self.children: list[list[int]] = []
        self.separator: list[frozenset[int]] = []
        self.observed: list[int] = []
        self.origin: list[int] = []
        self.root = 0

    @classmethod
    def from_clique_tree(
        cls,
        graph: LatentGraph,
        names: Sequence[str],
        cliques: Sequence[tuple[int, ...]],
        parents: Sequence[int],
    ) -> _Draft:
        draft = cls(graph, names)
        draft.cliques = [frozenset(clique) for clique in cliques]
        draft.neighbors = [[] for _ in cliques]
        roots = [i for i, parent in enumerate(parents) if parent < 0]
        for i, parent in enumerate(parents):
            # Independent parts join at an empty separator, whose one state carries no information.
            above = parent if parent >= 0 else roots[0]
            if above != i:
                draft.neighbors[i].append(above)
                draft.neighbors[above].append(i)
        return draft

    def reroot(self, variable: int | None) -> None:
        """Orient all edges away from a clique that holds the variable, or from the middle of the tree."""
        if variable is None:
            self.root = self._middle()
        else:
            self.root = min(
                (i for i in range(len(self.cliques)) if variable in self.cliques[i]),
                key=lambda i: sorted(self.cliques[i]),
            )
        count = len(self.cliques)
        self.parent = [-1] * count
        self.children = [[] for _ in range(count)]
        self.separator = [frozenset()] * count
        self.observed = [-1] * count
        self.origin = list(range(count))
        stack = [self.root]
        while stack:
            i = stack.pop()
            for j in self.neighbors[i]:
                if j != self.parent[i]:
                    self.parent[j] = i
                    self.children[i].append(j)
                    self.separator[j] = self.cliques[i] & self.cliques[j]
                    stack.append(j)

    def _middle(self) -> int:
        """Return the centre of the tree: peel its leaves until one or two nodes are left."""
        degree = [len(around) for around in self.neighbors]
        layer = [i for i, d in enumerate(degree) if d <= 1]
        left = len(degree)
        while left > 2:
            left -= len(layer)
            following = []
            for i in layer:
                degree[i] = 0
                for j in self.neighbors[i]:
                    if degree[j] > 0:
                        degree[j] -= 1
                        if degree[j] == 1:
                            following.append(j)
            layer = following
        return min(layer, key=lambda i: sorted(self.cliques[i]))

    def preorder(self) -> list[int]:
        """Return the nodes that hang from the root, parents first."""
        order = []
        stack = [self.root]
        while stack:
            i = stack.pop()
            order.append(i)
            stack.extend(reversed(self.children[i]))
        return order

    def prune(self) -> None:
        """Cut the subtrees without observed variables, from below and from above."""
        bottom_up = self.preorder()[::-1]
        useful = [False] * len(self.cliques)
        for i in bottom_up:
            # An observed variable in the separator is held further up as well.
            own = any(self.is_observed[v] for v in self.cliques[i] - self.separator[i])
            self.children[i] = [j for j in self.children[i] if useful[j]]
            useful[i] = own or bool(self.children[i])
        while len(self.children[self.root]) == 1 and not any(self.is_observed[v] for v in self.cliques[self.root]):
            self._move_root(self.children[self.root][0])

    def _move_root(self, node: int) -> None:
        """Make a child of the root the root, and the root's other children its own."""
        for j in self.children[self.root]:
            if j != node:
                self.parent[j] = node
                self.children[node].append(j)
        self.root = node
        self.parent[node] = -1
        self.separator[node] = frozenset()

    def hang_leaves(self) -> None:
        """Give each observed variable a leaf below the topmost clique that holds it."""
        for i in self.preorder():
            for v in sorted(self.cliques[i] - self.separator[i]):
                if self.is_observed[v]:
                    self._hang_leaf(i, v)

    def _hang_leaf(self, i: int, v: int) -> None:
        others = self.cliques[i] - {v}
        ends_here = not any(v in self.separator[j] for j in self.children[i])
        hidden_only = not any(self.is_observed[u] for u in others)
        if ends_here and hidden_only:
            # The family of v becomes the leaf, and the inner clique loses v.
            self._append(self.cliques[i], others, i, v)
            self.cliques[i] = others
        else:
            self._append(frozenset({v}), frozenset({v}), i, v)

    def _append(self, clique: frozenset[int], separator: frozenset[int], parent: int, observed: int) -> int:
        self.cliques.append(clique)
        self.separator.append(separator)
        self.parent.append(parent)
        self.children.append([])
        self.observed.append(observed)
        self.origin.append(self.origin[parent])
        self.children[parent].append(len(self.cliques) - 1)
        return len(self.cliques) - 1

    def absorb(self) -> None:
        """Remove inner nodes that a neighbour covers, which losing an observed variable leaves behind."""
        for i in self.preorder()[::-1]:
            kept: list[int] = []
            for j in self.children[i]:
                covered = self.observed[j] < 0 and self.cliques[j] == self.separator[j]
                kept.extend(self.children[j] if covered else [j])
            for j in kept:
                self.parent[j] = i
            self.children[i] = kept
        while covering := [
            j
            for j in self.children[self.root]
            if self.observed[j] < 0 and self.cliques[self.root] <= self.cliques[j]
        ]:
            self._move_root(covering[0])

    def limit_children(self) -> None:
        """Split nodes with more than two children (three at the root) in a balanced way."""
        for i in self.preorder():
            self.children[i].sort(key=lambda j: (sorted(self.separator[j]), sorted(self.cliques[j])))
            most = 3 if i == self.root else 2
            if len(self.children[i]) > most:
                alike = [list(part) for _, part in groupby(self.children[i], key=self.separator.__getitem__)]
                if len(alike) > 1:
                    # Children with one separator need no more than it between them and their parent.
                    self.children[i] = [self._gather(i, part) for part in alike]
            if len(self.children[i]) > most:
                self.children[i] = [self._gather(i, part) for part in _parts(self.children[i], most)]

    def _gather(self, parent: int, children: list[int]) -> int:
        """Return a node that holds just the separators of some children, between them and their parent."""
        if len(children) == 1:
            self.parent[children[0]] = parent
            return children[0]
        union = frozenset().union(*(self.separator[j] for j in children))
        node = self._append(union, union, parent, -1)
        self.children[node] = [self._gather(node, part) for part in _parts(children, 2)]
        return node

    def nodes(self) -> tuple[TreeNode, ...]:
        order = self.preorder()
        number = {i: k for k, i in enumerate(order)}
        names = self.names

        def listed(members: Iterable[int]) -> tuple[str, ...]:
            return tuple(names[v] for v in sorted(members))

        return tuple(
            TreeNode(
                clique=listed(self.separator[i]) + listed(self.cliques[i] - self.separator[i]),
                separator=listed(self.separator[i]),
                remainder=listed(self.cliques[i] - self.separator[i]),
                parent=number[self.parent[i]] if i != self.root else -1,
                children=tuple(number[j] for j in self.children[i]),
                observed=names[self.observed[i]] if self.observed[i] >= 0 else None,
                origin=self.origin[i],
            )
            for i in order
        )


def _parts(items: list[int], count: int) -> list[list[int]]:
    """Return consecutive parts of nearly equal length."""
    bounds = [round(k * len(items) / count) for k in range(count + 1)]
    return [items[a:b] for a, b in pairwise(bounds)]
