"""Plans in files: read back only if they are plans of their graph, whoever wrote them.

A plan is stored, not found again: finding it can take seconds, and a later version may look for other views than
those that the operators beside it were learned from.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from eigentree.errors import FileError
from eigentree.graphs.junction_tree import subtrees
from eigentree.inference.stored_network import children_of
from eigentree.io.documents import Section, texts, whole
from eigentree.planning.hub_plan import Branch, Hub, is_plain
from eigentree.planning.view_plan import PlanNode, ViewPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.graphs.graph import LatentGraph
    from eigentree.io.stores import Reader, Writer

__all__ = ["plan_content", "read_plan"]

NODE = ("parent", "observed", "separator", "passed", "generic_rank", "rank", "inside", "outside", "bound")
HUB = ("separator", "nodes", "rooted", "branches", "circles")


def plan_content(writer: Writer, plan: ViewPlan) -> dict[str, Any]:
    """Return the document of a plan."""
    return {
        "graph": writer.graph(plan.graph),
        "nodes": [{name: getattr(node, name) for name in NODE} for node in plan.nodes],
        "short": list(plan.short),
        "hubs": [{name: getattr(hub, name) for name in HUB} for hub in plan.hubs],
    }


def read_plan(reader: Reader, content: Any) -> ViewPlan:
    """Return the plan of a document, or raise `FileError`."""
    entry = Section(content, "a plan", ("graph", "nodes", "short", "hubs"))
    graph = reader.graph(entry["graph"])
    reading = _PlanReader(graph)
    lines = [Section(each, "a node of a plan", NODE) for each in entry.items("nodes")]
    below = children_of([line.whole("parent", -1, len(lines) - 1) for line in lines])
    nodes = tuple(reading.node(line, children) for line, children in zip(lines, below, strict=True))
    _check_leaves(nodes, graph)
    _check_views(nodes)
    hubs = tuple(reading.hub(each, nodes) for each in entry.items("hubs"))
    _check_columns(hubs, nodes)
    return ViewPlan(graph, nodes, entry.texts("short"), hubs)


class _PlanReader:
    """What turns documents into parts of a plan, once their names are those of its graph."""

    def __init__(self, graph: LatentGraph) -> None:
        self.states = graph.states
        self.names = frozenset(graph.names)
        self.observed = frozenset(graph.observed)

    def node(self, line: Section, children: tuple[int, ...]) -> PlanNode:
        """Return a node of the plan."""
        separator = _variables(line["separator"], self.names)
        return PlanNode(
            parent=line.whole("parent", -1),
            children=children,
            observed=None if line["observed"] is None else line.text("observed"),
            separator=separator,
            passed=tuple(_variables(each, self.names) for each in line.items("passed")),
            states=math.prod(self.states[name] for name in separator),
            generic_rank=line.whole("generic_rank", 1),
            rank=line.whole("rank", 1),
            inside=_variables(line["inside"], self.observed),
            outside=tuple(_variables(each, self.observed) for each in line.items("outside")),
            bound=line.text("bound"),
        )

    def hub(self, content: Any, nodes: Sequence[PlanNode]) -> Hub:
        """Return a hub of the plan."""
        entry = Section(content, "a hub", HUB)
        separator = _variables(entry.texts("separator"), self.names - self.observed)
        places = entry.wholes("nodes", 0, len(nodes) - 1)
        branches = tuple(self._branch(each, len(nodes)) for each in entry.items("branches"))
        circles = tuple(_circle(each, len(branches)) for each in entry.items("circles"))
        states = math.prod(self.states[name] for name in separator)
        hub = Hub(separator, states, places, entry.flag("rooted"), branches, circles)
        _check_hub(hub, nodes)
        return hub

    def _branch(self, content: Any, nodes: int) -> Branch:
        if type(content) is not list or len(content) != 2:
            raise FileError("a branch of a hub is a node and columns")
        columns = _variables(content[1], self.observed)
        if not columns:
            raise FileError("no column represents a branch of a hub")
        return Branch(whole(content[0], "the node of a branch", 0, nodes - 1), columns)


def _circle(content: Any, branches: int) -> tuple[int, ...]:
    if type(content) is not list:
        raise FileError("a circle of a hub is a list of branches")
    return tuple(whole(each, "a branch of a circle", 0, branches - 1) for each in content)


def _variables(content: Any, known: frozenset[str]) -> tuple[str, ...]:
    names = texts(content, "the names of variables") if type(content) is list else content
    if type(names) is not tuple or len(set(names)) != len(names) or not known.issuperset(names):
        raise FileError("a plan names a variable twice, or one that its graph does not have")
    return names


def _check_leaves(nodes: Sequence[PlanNode], graph: LatentGraph) -> None:
    """Raise `FileError` unless there is one leaf per column, other nodes branch, and ranks are possible."""
    if sorted(node.observed for node in nodes if node.observed is not None) != sorted(graph.observed):
        raise FileError("each column has one leaf in a plan")
    for node in nodes:
        if (node.observed is None) != bool(node.children) or len(node.children) == 1:
            raise FileError("leaves of a plan, and they alone, hold a column; other nodes branch")
        if not 1 <= node.rank <= node.generic_rank <= node.states or (node.parent < 0 and node.rank > 1):
            raise FileError("the rank of a node is more than its separator allows")
        if node.passed[:1] != (node.separator,):
            raise FileError("an edge of a plan passes its own separator first")


def _check_views(nodes: Sequence[PlanNode]) -> None:
    """Raise `FileError` unless each edge has views, and they look at its two sides."""
    place = {node.observed: i for i, node in enumerate(nodes)}
    of_node = subtrees(nodes)
    if nodes[0].inside or nodes[0].outside:
        raise FileError("the root of a plan has no views")
    for i, node in enumerate(nodes[1:], start=1):
        if not node.inside or not node.outside or not all(node.outside):
            raise FileError("an edge has no view")
        below = of_node[i]
        elsewhere = all(place[name] not in below for group in node.outside for name in group)
        if not elsewhere or not all(place[name] in below for name in node.inside):
            raise FileError("a view looks at the wrong side of its edge")


def _check_hub(hub: Hub, nodes: Sequence[PlanNode]) -> None:
    """Raise `FileError` unless a hub is made of connected nodes, and its branches are all that leaves them."""
    places = set(hub.nodes)
    leaving = sorted(child for k in places for child in nodes[k].children if child not in places)
    if (
        len(places) != len(hub.nodes)
        or not places
        or any(nodes[k].observed is not None for k in places)
        or any(nodes[k].parent not in places for k in hub.nodes[1:])
        or hub.rooted != (hub.nodes[0] == 0)
        or sorted(branch.position for branch in hub.below) != leaving
        or [branch.position for branch in hub.branches[len(leaving) :]] != list(hub.nodes[: 1 - hub.rooted])
        or not hub.anchors
        or len(set(hub.anchors)) != len(hub.anchors)
        or any(nodes[k].separator != hub.separator for k in hub.nodes[1:])
        or not is_plain(nodes, hub)
    ):
        raise FileError("a hub is not made of nodes of its plan, or its branches do not leave them")
    place = {node.observed: i for i, node in enumerate(nodes)}
    of_node = subtrees(nodes)
    for branch in hub.branches:
        is_above = branch.position == hub.nodes[0]
        if any((place[name] in of_node[branch.position]) == is_above for name in branch.columns):
            raise FileError("a branch of a hub is represented by columns elsewhere")


def _check_columns(hubs: Sequence[Hub], nodes: Sequence[PlanNode]) -> None:
    """Raise `FileError` unless a branch of a hub is represented by views of its edge, or by another hub."""
    home = {position: hub for hub in hubs for position in hub.nodes}
    if len(home) != sum(len(hub.nodes) for hub in hubs):
        raise FileError("a node of a plan belongs to two hubs")
    for hub in hubs:
        for branch in hub.branches:
            above = branch.position == hub.nodes[0]
            other = nodes[branch.position].parent if above else branch.position
            views = nodes[branch.position].outside if above else (nodes[branch.position].inside,)
            if other in home:
                shared = {name for each in home[other].branches for name in each.columns}
                fits = shared.issuperset(branch.columns)
            else:
                fits = tuple((name,) for name in branch.columns) == views
            if not fits:
                raise FileError("a branch of a hub is represented by columns that its edge has no view of")
