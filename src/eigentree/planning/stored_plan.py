"""Plans in files: read back only if they are plans of their graph, whoever wrote them.

A plan is stored, not found again: finding it can take seconds, and a later version may look for other views than
those that the operators beside it were learned from.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from eigentree.data.documents import Section, texts, whole
from eigentree.errors import FileError
from eigentree.exact.stored_tree import children_of
from eigentree.planning.hubs import Branch, Hub
from eigentree.planning.views import PlanNode, ViewPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eigentree.data.stores import Reader, Writer
    from eigentree.structures.graph import LatentGraph

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
    """Return the plan of a document.

    Raises
    ------
    FileError
        When it is none.
    """
    entry = Section(content, "a plan", ("graph", "nodes", "short", "hubs"))
    graph = reader.graph(entry["graph"])
    lines = [Section(each, "a node of a plan", NODE) for each in entry.items("nodes")]
    below = children_of([line.whole("parent", -1, len(lines) - 1) for line in lines])
    nodes = tuple(_node(line, children, graph) for line, children in zip(lines, below, strict=True))
    _check_nodes(nodes, graph)
    hubs = tuple(_hub(each, nodes, graph) for each in entry.items("hubs"))
    return ViewPlan(graph, nodes, entry.texts("short"), hubs)


def _node(line: Section, children: tuple[int, ...], graph: LatentGraph) -> PlanNode:
    separator = _variables(line.texts("separator"), graph.names)
    inner = line["observed"] is None
    return PlanNode(
        parent=line.whole("parent", -1),
        children=children,
        observed=None if inner else line.text("observed"),
        separator=separator,
        passed=tuple(_variables(texts(each, line.at("passed")), graph.names) for each in line.items("passed")),
        states=_states(separator, graph),
        generic_rank=line.whole("generic_rank", 1),
        rank=line.whole("rank", 1),
        inside=_variables(line.texts("inside"), graph.observed),
        outside=tuple(
            _variables(texts(each, line.at("outside")), graph.observed) for each in line.items("outside")
        ),
        bound=line.text("bound"),
    )


def _variables(names: tuple[str, ...], known: Iterable[str]) -> tuple[str, ...]:
    if len(set(names)) != len(names) or not set(names) <= set(known):
        raise FileError("a plan names a variable twice, or one that its graph does not have")
    return names


def _states(names: Iterable[str], graph: LatentGraph) -> int:
    return math.prod(graph.states[name] for name in names)


def _check_nodes(nodes: Sequence[PlanNode], graph: LatentGraph) -> None:
    """Raise `FileError` unless there is one leaf per column, and views and ranks are such as edges can have."""
    if sorted(node.observed for node in nodes if node.observed is not None) != sorted(graph.observed):
        raise FileError("each column has one leaf in a plan")
    below: list[set[str]] = [set() if node.observed is None else {node.observed} for node in nodes]
    for i in reversed(range(len(nodes))):
        node = nodes[i]
        if (node.observed is None) != bool(node.children) or len(node.children) == 1:
            raise FileError("leaves of a plan, and they alone, hold a column; other nodes branch")
        if not 1 <= node.rank <= node.generic_rank <= node.states or (not i and node.rank > 1):
            raise FileError("the rank of a node is more than its separator allows")
        if i:
            below[node.parent] |= below[i]
            seen = {name for group in node.outside for name in group}
            if not set(node.inside) <= below[i] or not seen.isdisjoint(below[i]):
                raise FileError("a view looks at the wrong side of its edge")
            if not node.inside or not node.outside or not all(node.outside):
                raise FileError("an edge has no view")
        elif node.inside or node.outside:
            raise FileError("the root of a plan has no views")


def _hub(content: Any, nodes: Sequence[PlanNode], graph: LatentGraph) -> Hub:
    entry = Section(content, "a hub", HUB)
    separator = _variables(entry.texts("separator"), graph.hidden)
    places = entry.wholes("nodes", 0, len(nodes) - 1)
    branches = tuple(_branch(each, nodes, graph) for each in entry.items("branches"))
    circles = tuple(_circle(each, len(branches)) for each in entry.items("circles"))
    hub = Hub(separator, _states(separator, graph), places, entry.flag("rooted"), branches, circles)
    inner = {child for k in places for child in nodes[k].children} - set(places)
    above = () if hub.rooted else places[:1]
    if (
        not places
        or any(nodes[k].observed is not None for k in places)
        or tuple(branch.position for branch in branches[len(hub.below) :]) != above
        or {branch.position for branch in hub.below} != inner
        or len(hub.below) != len(inner)
        or hub.rooted != (places[0] == 0)
        or any(nodes[k].parent not in places for k in places[1:])
        or len(set(places)) != len(places)
        or not hub.anchors
        or len(set(hub.anchors)) != len(hub.anchors)
    ):
        raise FileError("a hub is not made of nodes of its plan, or its branches do not leave them")
    return hub


def _branch(content: Any, nodes: Sequence[PlanNode], graph: LatentGraph) -> Branch:
    if type(content) is not list or len(content) != 2:
        raise FileError("a branch of a hub is a node and columns")
    columns = _variables(texts(content[1], "the columns of a branch"), graph.observed)
    if not columns:
        raise FileError("no column speaks for a branch of a hub")
    return Branch(whole(content[0], "the node of a branch", 0, len(nodes) - 1), columns)


def _circle(content: Any, branches: int) -> tuple[int, ...]:
    if type(content) is not list:
        raise FileError("a circle of a hub is a list of branches")
    return tuple(whole(each, "a branch of a circle", 0, branches - 1) for each in content)
