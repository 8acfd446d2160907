"""Rooted junction trees in the normal form of section 3 of the paper.

The tree of cliques is rooted, pruned of subtrees without observed variables, given one leaf per observed variable,
and nodes with many children are split. Each step is linear in the number of cliques.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from eigentree.errors import EigentreeError, GraphError, TreewidthError, in_short
from eigentree.graphs.elimination import MAX_CLIQUE_STATES, CliqueTree, clique_tree, middle, natural_key
from eigentree.graphs.graph import check_graph
from eigentree.validation import different_names, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eigentree.graphs.graph import LatentGraph

__all__ = ["JunctionTree", "TreeNode", "subtrees"]


def subtrees(nodes: Sequence[Any]) -> tuple[range, ...]:
    """Return the positions of each node and of all nodes below it: those of a tree in preorder are one piece."""
    ends = list(range(1, len(nodes) + 1))
    for place in reversed(range(1, len(nodes))):
        parent = nodes[place].parent
        ends[parent] = max(ends[parent], ends[place])
    return tuple(range(place, end) for place, end in enumerate(ends))


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
    """A rooted junction tree in normal form, made by `JunctionTree.of` or `JunctionTree.build`.

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
    >>> from eigentree.graphs.zoo import hmm
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
    def of(cls, graph: LatentGraph) -> JunctionTree:
        """Return the junction tree of a latent graph, rooted in its middle: built once, and kept on the graph.

        Raises
        ------
        TreewidthError
            As `build` does.
        """
        check_graph(graph)
        return graph.derived(cls.build)

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
        check_graph(graph)
        whole_number("max_clique_states", max_clique_states, error=GraphError)
        if root is not None:
            graph.require(root)
        names = sorted(graph.names, key=natural_key)
        found = clique_tree(graph, names, max_clique_states)
        observed = set(graph.observed)
        builder = _TreeBuilder(found, frozenset(i for i, name in enumerate(names) if name in observed))
        builder.reroot(names.index(root) if root is not None else None)
        builder.prune()
        builder.hang_leaves()
        builder.absorb()
        builder.limit_children()
        nodes = builder.nodes(names)
        for node in nodes:
            # The leaf of an observed variable that others depend on.
            if node.observed is None or node.remainder:
                continue
            if (states := graph.states[node.observed]) ** 2 > max_clique_states:
                raise TreewidthError(
                    f"{node.observed!r} is observed, has {states} states and meets other variables, which takes a "
                    f"table of {in_short(states**2)} entries (the limit is {in_short(max_clique_states)}); merge "
                    f"some of its states, or raise max_clique_states of JunctionTree.build"
                )
        return cls(
            graph,
            nodes,
            cliques=tuple(tuple(names[v] for v in clique) for clique in found.cliques),
            clique_parents=tuple(found.parents),
        )

    @property
    def width(self) -> int:
        """The treewidth of the triangulation: the size of the largest clique minus one."""
        return max(len(clique) for clique in self.cliques) - 1

    @cached_property
    def _subtrees(self) -> tuple[range, ...]:
        return subtrees(self.nodes)

    def subtree(self, node: int) -> range:
        """Return the positions of a node and of all nodes below it."""
        return self._subtrees[self.checked_node(node)]

    def checked_node(self, node: int, error: type[EigentreeError] = GraphError) -> int:
        """Return the position of a node, or raise an error where the tree has none there."""
        return whole_number("the number of a node", node, 0, error, len(self.nodes) - 1)

    def inside(self, node: int) -> frozenset[str]:
        """Return the observed variables in the subtree of a node (O_i)."""
        held = (self.nodes[i].observed for i in self.subtree(node))
        return frozenset(name for name in held if name is not None)

    def outside(self, node: int) -> frozenset[str]:
        """Return the observed variables that are not in the subtree of a node (``O_-i``)."""
        return frozenset(self.graph.observed) - self.inside(node)

    def states_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of states of some variables, as the shape of a table over them."""
        states = self.graph.states
        # Called in inner loops: names are checked one by one only where they are no list.
        listed = names if isinstance(names, tuple | list) else different_names("names", names)
        try:
            return tuple([states[name] for name in listed])
        except (KeyError, TypeError):
            for name in listed:
                self.graph.require(name)
            raise

    def __repr__(self) -> str:
        return f"<JunctionTree: {len(self.nodes)} nodes, treewidth {self.width}, over {self.graph!r}>"


@dataclass(slots=True)
class _CliqueNode:
    """A node of a junction tree under construction: a part of the maximal clique `origin`, variables as numbers.

    `observed` is the observed variable that it is the leaf of, or -1.
    """

    clique: frozenset[int]
    origin: int
    separator: frozenset[int] = frozenset()
    parent: int = -1
    children: list[int] = field(default_factory=list)
    observed: int = -1


class _TreeBuilder:
    """A junction tree under construction; pruned nodes stay in `parts` without a parent."""

    def __init__(self, tree: CliqueTree, observed: frozenset[int]) -> None:
        self.observed = observed
        self.parts = [_CliqueNode(frozenset(clique), origin) for origin, clique in enumerate(tree.cliques)]
        self.neighbors: list[list[int]] = [[] for _ in tree.cliques]
        self.root = 0
        roots = [i for i, parent in enumerate(tree.parents) if parent < 0]
        for i, parent in enumerate(tree.parents):
            # Independent parts join at an empty separator, whose one state carries no information.
            above = parent if parent >= 0 else roots[0]
            if above != i:
                self.neighbors[i].append(above)
                self.neighbors[above].append(i)

    def reroot(self, variable: int | None) -> None:
        """Orient all edges away from a clique that holds the variable, or from the middle of the tree."""
        if variable is None:
            candidates = middle(dict(enumerate(self.neighbors)))
        else:
            candidates = [i for i, part in enumerate(self.parts) if variable in part.clique]
        self.root = min(candidates, key=lambda i: sorted(self.parts[i].clique))
        stack = [self.root]
        while stack:
            i = stack.pop()
            part = self.parts[i]
            for j in self.neighbors[i]:
                if j != part.parent:
                    self.parts[j].parent = i
                    self.parts[j].separator = part.clique & self.parts[j].clique
                    part.children.append(j)
                    stack.append(j)

    def preorder(self) -> list[int]:
        """Return the nodes that hang from the root, parents first."""
        order = []
        stack = [self.root]
        while stack:
            i = stack.pop()
            order.append(i)
            stack.extend(reversed(self.parts[i].children))
        return order

    def prune(self) -> None:
        """Cut the subtrees without observed variables, from below and from above."""
        useful = [False] * len(self.parts)
        for i in reversed(self.preorder()):
            part = self.parts[i]
            part.children = [j for j in part.children if useful[j]]
            # An observed variable in the separator is held further up as well.
            useful[i] = bool(part.children) or not self.observed.isdisjoint(part.clique - part.separator)
        while len(self.parts[self.root].children) == 1 and self.observed.isdisjoint(self.parts[self.root].clique):
            self._move_root(self.parts[self.root].children[0])

    def _move_root(self, node: int) -> None:
        """Make a child of the root the root, and the root's other children its own."""
        for j in self.parts[self.root].children:
            if j != node:
                self.parts[j].parent = node
                self.parts[node].children.append(j)
        self.root = node
        self.parts[node].parent = -1
        self.parts[node].separator = frozenset()

    def hang_leaves(self) -> None:
        """Give each observed variable a leaf below the topmost clique that holds it."""
        for i in self.preorder():
            part = self.parts[i]
            for v in sorted(self.observed & (part.clique - part.separator)):
                others = part.clique - {v}
                ends_here = not any(v in self.parts[j].separator for j in part.children)
                if ends_here and self.observed.isdisjoint(others):
                    # The family of v becomes the leaf, and the inner clique loses v.
                    self._append(part.clique, others, i, v)
                    part.clique = others
                else:
                    self._append(frozenset({v}), frozenset({v}), i, v)

    def _append(self, clique: frozenset[int], separator: frozenset[int], parent: int, observed: int = -1) -> int:
        """Return the number of a new last child."""
        number = len(self.parts)
        above = self.parts[parent]
        above.children.append(number)
        self.parts.append(_CliqueNode(clique, above.origin, separator, parent, observed=observed))
        return number

    def absorb(self) -> None:
        """Remove inner nodes that a neighbour covers, which losing an observed variable leaves behind."""
        for i in reversed(self.preorder()):
            kept: list[int] = []
            for j in self.parts[i].children:
                child = self.parts[j]
                covered = child.observed < 0 and child.clique == child.separator
                kept.extend(child.children if covered else [j])
            for j in kept:
                self.parts[j].parent = i
            self.parts[i].children = kept
        while covering := [
            j
            for j in self.parts[self.root].children
            if self.parts[j].observed < 0 and self.parts[self.root].clique <= self.parts[j].clique
        ]:
            self._move_root(covering[0])

    def limit_children(self) -> None:
        """Split nodes with more than two children (three at the root) in a balanced way."""
        for i in self.preorder():
            part = self.parts[i]
            part.children.sort(key=lambda j: (sorted(self.parts[j].separator), sorted(self.parts[j].clique)))
            most = 3 if i == self.root else 2
            if len(part.children) > most:
                alike = [list(group) for _, group in groupby(part.children, key=lambda j: self.parts[j].separator)]
                if len(alike) > 1:
                    # Children with one separator need no more than it between them and their parent.
                    part.children = [self._gather(i, group) for group in alike]
            if len(part.children) > most:
                part.children = [self._gather(i, group) for group in _split(part.children, most)]

    def _gather(self, parent: int, children: list[int]) -> int:
        """Return a node that holds just the separators of some children, between them and their parent."""
        if len(children) == 1:
            self.parts[children[0]].parent = parent
            return children[0]
        union = frozenset().union(*(self.parts[j].separator for j in children))
        node = self._append(union, union, parent)
        self.parts[node].children = [self._gather(node, part) for part in _split(children, 2)]
        return node

    def nodes(self, names: Sequence[str]) -> tuple[TreeNode, ...]:
        """Return the nodes that hang from the root, in preorder and by names."""
        order = self.preorder()
        number = {i: k for k, i in enumerate(order)} | {-1: -1}
        nodes = []
        for part in (self.parts[i] for i in order):
            separator = tuple([names[v] for v in sorted(part.separator)])
            remainder = tuple([names[v] for v in sorted(part.clique - part.separator)])
            children = tuple([number[j] for j in part.children])
            observed = names[part.observed] if part.observed >= 0 else None
            parent = number[part.parent]
            nodes.append(
                TreeNode(separator + remainder, separator, remainder, parent, children, observed, part.origin)
            )
        return tuple(nodes)


def _split(items: list[int], count: int) -> list[list[int]]:
    """Return consecutive parts of nearly equal length."""
    bounds = [round(k * len(items) / count) for k in range(count + 1)]
    return [items[a:b] for a, b in pairwise(bounds)]
