"""Junction trees in files: read back only if they are junction trees of their graph, whoever wrote them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from eigentree.errors import FileError
from eigentree.graphs.elimination import MAX_CLIQUE_STATES
from eigentree.graphs.junction_tree import JunctionTree, TreeNode
from eigentree.io.documents import Section, texts, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.graphs.graph import LatentGraph

__all__ = ["children_of", "read_tree", "tree_content"]


def tree_content(tree: JunctionTree) -> dict[str, Any]:
    """Return the document of a tree."""
    _check_sizes(tree.graph, tree.cliques)
    return {
        "nodes": [
            [node.parent, node.origin, node.observed, list(node.separator), list(node.remainder)]
            for node in tree.nodes
        ],
        "cliques": [list(clique) for clique in tree.cliques],
        "clique_parents": list(tree.clique_parents),
    }


def read_tree(content: Any, graph: LatentGraph) -> JunctionTree:
    """Return the junction tree of a document."""
    entry = Section(content, "a junction tree", ("nodes", "cliques", "clique_parents"))
    cliques = tuple(_clique(each, graph) for each in entry.items("cliques"))
    parents = entry.wholes("clique_parents", -1, len(cliques) - 1)
    _check_sizes(graph, cliques)
    _check_cliques(graph, cliques, parents)
    lines = entry.items("nodes")
    if not lines or not all(type(line) is list and len(line) == 5 for line in lines):
        raise FileError("a node of a junction tree has five entries")
    above = [whole(line[0], "the parent of a node", -1, len(lines) - 1) for line in lines]
    below = children_of(above)
    nodes = []
    for line, parent, children in zip(lines, above, below, strict=True):
        separator, remainder = texts(line[3], "a separator"), texts(line[4], "a remainder")
        origin = whole(line[1], "the origin of a node", 0, len(cliques) - 1)
        observed = line[2]
        if not (observed is None or type(observed) is str):
            raise FileError("the observed variable of a node is a name or null")
        clique = _clique([*separator, *remainder], graph)
        nodes.append(TreeNode(clique, separator, remainder, parent, children, observed, origin))
    _check_nodes(graph, nodes, cliques)
    return JunctionTree(graph, tuple(nodes), cliques, parents)


def children_of(parents: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the children of each node of a tree whose nodes stand in preorder."""
    if not parents or parents[0] != -1:
        raise FileError("a tree begins with its root")
    children: list[list[int]] = [[] for _ in parents]
    path = [0]
    for i, parent in enumerate(parents[1:], start=1):
        while path and path[-1] != parent:
            path.pop()
        if not path:
            raise FileError("the nodes of a tree stand in preorder")
        children[parent].append(i)
        path.append(i)
    return [tuple(each) for each in children]


def _clique(content: Any, graph: LatentGraph) -> tuple[str, ...]:
    names = texts(content, "a clique")
    if len(set(names)) != len(names) or not all(name in graph.states for name in names):
        raise FileError("a clique holds variables of its graph, each once")
    return names


def _check_sizes(graph: LatentGraph, cliques: Sequence[tuple[str, ...]]) -> None:
    if any(math.prod(graph.states[name] for name in clique) > MAX_CLIQUE_STATES for clique in cliques):
        raise FileError(f"a clique of its junction tree has more than {MAX_CLIQUE_STATES:,} joint states")


def _check_cliques(graph: LatentGraph, cliques: Sequence[tuple[str, ...]], parents: Sequence[int]) -> None:
    """Raise `FileError` unless cliques hold all families, and what each shares with others its parent holds."""
    if len(parents) != len(cliques) or any(parent >= i for i, parent in enumerate(parents)):
        raise FileError("the parents of cliques stand before them")
    members = [set(clique) for clique in cliques]
    homes: dict[str, list[int]] = {name: [] for name in graph.names}
    for i, (clique, parent) in enumerate(zip(members, parents, strict=True)):
        shared = {name for name in clique if homes[name]}
        if not shared <= (members[parent] if parent >= 0 else set()):
            raise FileError("cliques that share a variable are not connected through it")
        for name in clique:
            homes[name].append(i)
    families = [(name, *graph.parents(name)) for name in graph.names]
    for family in (*families, *graph.edges):
        rarest = min((homes[name] for name in family), key=len)
        if not any(members[i].issuperset(family) for i in rarest):
            raise FileError("a family of the graph stands in no clique")


def _check_nodes(graph: LatentGraph, nodes: Sequence[TreeNode], cliques: Sequence[tuple[str, ...]]) -> None:
    """Raise `FileError` unless nodes are in normal form: one leaf per column, separators held above."""
    seen: set[str] = set()
    for i, node in enumerate(nodes):
        above = nodes[node.parent].clique if i else ()
        if not set(node.separator).issubset(above) or not set(node.clique).issubset(cliques[node.origin]):
            raise FileError("a separator is not held above, or a node by no clique")
        if not seen.isdisjoint(node.remainder):
            raise FileError("nodes that share a variable are not connected through it")
        seen.update(node.remainder)
        if (node.observed is None) != bool(node.children) or len(node.children) > (2 if i else 3):
            raise FileError("leaves, and they alone, hold a column; other nodes have two or three children")
        if node.observed is not None and node.remainder != (node.observed,) and node.clique != (node.observed,):
            raise FileError("a leaf distributes its own column")
    held = [node.observed for node in nodes if node.observed is not None]
    if sorted(held) != sorted(graph.observed):
        raise FileError("each column has one leaf")
