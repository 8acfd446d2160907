"""Graphs and junction trees drawn as SVG: boxes with names, and lines as wide as what they tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eigentree.markup.charts import picture, text_width
from eigentree.markup.html import Html, element, number
from eigentree.viz.boxes import bow, branch
from eigentree.viz.layout import laid_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.viz.layout import Box
    from eigentree.viz.reports.structure import Structure

__all__ = ["MOST_DRAWN", "Drawn", "draw_graph", "draw_junction_tree", "ranks_told"]

MOST_DRAWN = 400
"""Most boxes of a picture; beyond, the table behind it has to do."""

LONGEST = 28
"""Letters of a name that are shown."""

ROW, HEIGHT, PADDING, GAP, MARGIN = 27.0, 21.0, 8.0, 44.0, 6.0
THIN, THICK = 1.0, 7.0
MOST_MEMBERS = 3
"""Variables of a clique that are named; the others are counted."""


class Drawn(NamedTuple):
    """A picture, and how wide it is."""

    picture: Html
    width: float


class _Node(NamedTuple):
    """A box: what stands in it, and its kind, which tells its form."""

    label: str
    kind: str


def draw_graph(structure: Structure) -> Drawn | None:
    """Return the graph, hidden variables in round boxes and columns in square ones; None if it is too large."""
    if len(structure.states) > MOST_DRAWN:
        return None
    hidden = set(structure.hidden)
    nodes = {name: _Node(_short(name), "hidden" if name in hidden else "column") for name in structure.states}
    strongest = max((edge.nats or 0.0 for edge in structure.edges), default=0.0)
    widths = {
        (edge.one, edge.other): THIN + (THICK - THIN) * (edge.nats or 0.0) / strongest if strongest > 0 else 1.5
        for edge in structure.edges
    }
    told = f"{_counted(len(structure.states) - len(hidden), 'column')}, {_counted(len(hidden), 'hidden variable')}"
    strong = "; ".join(
        f"{edge.one} and {edge.other}, {number(edge.nats)} nats" for edge in structure.edges[:5] if edge.nats
    )
    description = f"{told}, {_counted(len(structure.edges), 'edge')}." + (
        f" Strongest: {strong}." if strong else ""
    )
    return _drawn("Graph of the model", description, nodes, widths, structure.arrows)


def draw_junction_tree(structure: Structure) -> Drawn | None:
    """Return the cliques as boxes, and between them what they share, with its rank; None if there are too many."""
    if len(structure.cliques) + len(structure.separators) > MOST_DRAWN:
        return None
    nodes = {f"c{place}": _Node(_members(clique), "column") for place, clique in enumerate(structure.cliques)}
    edges: dict[tuple[str, str], float] = {}
    for place, one in enumerate(structure.separators):
        nodes[f"s{place}"] = _Node(f"{_members(one.members)} · {ranks_told(one.ranks)}", "between")
        for clique in one.cliques:
            edges[f"s{place}", f"c{clique}"] = 1.5
    told = f"{_counted(len(structure.cliques), 'clique')}, {_counted(len(structure.separators), 'separator')}"
    return _drawn("Junction tree of the model", f"{told}, treewidth {structure.width}.", nodes, edges, False)


def ranks_told(ranks: tuple[int, int]) -> str:
    """Return a rank, or from which to which, in words."""
    return f"rank {ranks[0]:,}" if ranks[0] == ranks[1] else f"rank {ranks[0]:,}–{ranks[1]:,}"


def _drawn(
    title: str,
    description: str,
    nodes: Mapping[str, _Node],
    edges: Mapping[tuple[str, str], float],
    arrows: bool,
) -> Drawn:
    """Return a picture of boxes and the lines between them, which stand behind the boxes."""
    layout = laid_out(edges, {name: text_width(node.label) + 2 * PADDING for name, node in nodes.items()}, GAP)
    left = min(box.left for box in layout.boxes.values()) - MARGIN
    right = max(box.right for box in layout.boxes.values()) + MARGIN
    boxes = {
        name: box._replace(left=box.left - left, right=box.right - left, row=(box.row + 0.5) * ROW + MARGIN)
        for name, box in layout.boxes.items()
    }
    branches = frozenset(layout.branches)
    shapes: list[Html] = []
    # Wide lines lie below narrow ones, and all of them below the boxes.
    for edge, width in sorted(edges.items(), key=lambda each: -each[1]):
        points = _points(branches, boxes, edge)
        shapes.append(element("path", class_="edge", d=_curve(points), stroke_width=round(width, 2)))
        if arrows:
            shapes.append(_head(points, width))
    shapes += [_box(boxes[name], node) for name, node in nodes.items()]
    made = picture(title, description, right - left, layout.rows * ROW + 2 * MARGIN, *shapes)
    return Drawn(made, right - left)


def _head(points: Sequence[tuple[float, float]], width: float) -> Html:
    """Return the head of an arrow at the end of a line."""
    (x0, y0), (x1, y1) = points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
    along, across, size = (x1 - x0) / length, (y1 - y0) / length, 5 + width
    base_x, base_y = x1 - along * size, y1 - across * size
    side_x, side_y = -across * size / 2, along * size / 2
    corners = [(x1, y1), (base_x + side_x, base_y + side_y), (base_x - side_x, base_y - side_y)]
    return element("path", class_="arrow", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "Z")


def _points(
    branches: frozenset[tuple[str, str]], boxes: Mapping[str, Box], edge: tuple[str, str]
) -> Sequence[tuple[float, float]]:
    one, other = (boxes[name] for name in edge)
    if edge in branches:
        return branch(one, other, GAP)
    if edge[::-1] in branches:
        return branch(other, one, GAP)[::-1]
    return bow(one, other)


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return cubic curves: two points that pull, and one that is reached, again and again."""
    (x, y), *rest = points
    return f"M{x:.1f} {y:.1f}C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in rest)


def _box(box: Box, node: _Node) -> Html:
    width = box.right - box.left
    round_ = {"hidden": HEIGHT / 2, "between": 5.0}.get(node.kind, 0.0)
    return element(
        "g",
        element(
            "rect",
            class_=node.kind,
            x=box.left,
            y=box.row - HEIGHT / 2,
            width=width,
            height=HEIGHT,
            rx=round_ or None,
        ),
        element("text", node.label, x=box.left + width / 2, y=box.row + 4, text_anchor="middle"),
    )


def _members(names: Sequence[str]) -> str:
    shown = ", ".join(_short(name) for name in names[:MOST_MEMBERS])
    return f"{shown} + {len(names) - MOST_MEMBERS}" if len(names) > MOST_MEMBERS else shown


def _short(name: str) -> str:
    line = " ".join(name.split()) or repr(name)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
