"""Graphs, junction trees and transitions as boxes and the edges between them: described once, then placed.

Lengths are those of a letter's size (em) until a renderer says how large that is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.errors import ParameterError
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
from eigentree.markup.charts import Curve, NumberTable, TextBox, counted, shown_name
from eigentree.markup.html import number

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from eigentree.estimators.profiles import Profile
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.junction_tree import JunctionTree
    from eigentree.markup.charts import XY
    from eigentree.spectral.learn.diagnostics import SeparatorReport

__all__ = [
    "ROW",
    "Box",
    "Diagram",
    "Edge",
    "Layout",
    "edge_ranks",
    "graph_diagram",
    "laid_out",
    "laid_out_diagram",
    "placed",
    "transition_diagram",
    "tree_diagram",
]

ROW, PADDING, BEND = 2.1, 0.45, 3.2
"""Between two rows, around a text in its box, and for the bend of an edge."""

SMALL = 0.875
"""Letters on edges are smaller than those in boxes."""

BOW = 0.18
"""How far an edge that is no branch of a tree bends aside, as a share of its length."""

THIN, THICK = 0.075, 0.6
"""Width of an edge without strength, and of the strongest."""

NO_NUMBERS = NumberTable("", (), ())

MOST_STATES = 12
"""States of a diagram of transitions; more are a tangle."""

FAINTEST = 0.05
"""Transitions less probable than this share of the most probable one are left out."""


class Edge(NamedTuple):
    """An edge: its ends, its share of the largest width, a text on it, and whether it is dashed."""

    one: str
    other: str
    share: float = 0.1
    text: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Diagram:
    """Boxes with texts, by key, and edges between them; boxes that are no `columns` are hidden variables.

    They stand in a ring, in steps, or as a tree from its middle. The legend names roles of boxes, widths of edges.
    """

    title: str
    description: str
    texts: Mapping[str, str]
    columns: frozenset[str]
    edges: tuple[Edge, ...]
    numbers: NumberTable = NO_NUMBERS
    arrows: bool = False
    ring: bool = False
    steps: tuple[tuple[str, ...], ...] = ()
    legend: tuple[tuple[str, str | float], ...] = ()


def graph_diagram(
    graph: LatentGraph, strengths: Mapping[tuple[str, str], float], mixed: str = "", chain: bool = False
) -> Diagram:
    """Return the graph of a model, edges the wider the larger the mutual information of their ends (`strengths`).

    Strengths are empty where they are not known; `mixed` is added to the title of a mixture of such graphs. Of a
    `chain` the steps stand beside each other, hidden variables above columns.
    """
    largest = max(strengths.values(), default=0.0)
    ranked = sorted(graph.edges, key=lambda edge: -strengths.get(edge, 0.0))
    known = [
        (one, other, number(strengths[one, other]) if (one, other) in strengths else "–") for one, other in ranked
    ]
    title = f"{counted(len(graph.observed), 'column')}, {counted(len(graph.hidden), 'hidden variable')}{mixed}"
    strongest = "; ".join(f"{one} and {other}, {nats} nats" for one, other, nats in known[:5] if largest > 0)
    kinds = [("column", "column"), ("hidden variable", "hidden")][: 2 if graph.hidden else 1]
    widths = [(f"{share * largest:.2g} nats", share) for share in (1.0, 0.25) if largest > 0]
    return Diagram(
        title=title,
        description=f"{title}, {counted(len(ranked), 'edge')}." + f" Strongest: {strongest}." * bool(strongest),
        texts={name: shown_name(name) for name in graph.names},
        columns=frozenset(graph.observed),
        edges=tuple(
            Edge(*edge, share=strengths.get(edge, 0.0) / largest if largest > 0 else 0.1) for edge in graph.edges
        ),
        numbers=NumberTable("Edges of the graph", ("from", "to", "nats"), tuple(known), (0, 1)),
        arrows=chain or (graph.directed and any(len(graph.parents(name)) > 1 for name in graph.names)),
        steps=_steps(graph) if chain else (),
        legend=(*kinds, *widths),
    )


def _steps(graph: LatentGraph) -> tuple[tuple[str, ...], ...]:
    """Return the variables of each step of a chain: hidden ones by how many come before, and columns below them."""
    depth: dict[str, int] = {}
    for name in (*graph.hidden, *graph.observed):
        before = [depth[parent] for parent in graph.parents(name) if parent in depth]
        depth[name] = max(before, default=-1) + (name in graph.hidden)
    return tuple(tuple(name for name in depth if depth[name] == step) for step in range(max(depth.values()) + 1))


def tree_diagram(tree: JunctionTree, bonds: Mapping[frozenset[str], SeparatorReport]) -> Diagram:
    """Return a junction tree: cliques, columns at the ends, and separators on the edges with their ranks."""
    nodes, states = tree.nodes, tree.graph.states
    of = list(range(len(nodes)))
    for place, node in enumerate(nodes):
        # Cliques that were split because many meet there are one; parents stand before their children.
        if node.parent >= 0 and node.observed is None and set(node.clique) == set(nodes[node.parent].clique):
            of[place] = of[node.parent]
    texts, columns, edges = {}, set(), []
    ranks: dict[tuple[str, ...], list[int]] = {}
    for place, node in enumerate(nodes):
        if of[place] != place:
            continue
        key = node.observed if node.observed is not None else f"clique {place}"
        # Parts of a graph that are independent meet at an empty clique.
        texts[key] = shown_name(node.observed or ", ".join(node.clique) or "∅")
        if node.observed is not None:
            columns.add(key)
        if node.parent >= 0:
            bond = bonds.get(frozenset(tree.inside(place)))
            size = math.prod(states[name] for name in node.separator)
            ranks.setdefault(node.separator, []).append(size if bond is None else bond.rank)
            names = shown_name(", ".join(node.separator), 36) if node.separator else "independent"
            size_text = f": {counted(size, 'state')}" if bond is None else f": rank {bond.rank} of {size}"
            weak = bond is not None and bond.weak
            edges.append(
                Edge(f"clique {of[node.parent]}", key, 0.12, names + size_text * bool(node.separator), weak)
            )
    cliques = len(texts) - len(columns)
    largest = max(math.prod(states[name] for name in node.clique) for node in nodes)
    rows = [
        (", ".join(names), len(found), f"{math.prod(states[name] for name in names):,}", _between(found))
        for names, found in ranks.items()
        if names
    ]
    title = (
        f"junction tree: {counted(cliques, 'clique')} above {counted(len(columns), 'column')}, "
        f"at most {counted(largest, 'joint state')}"
    )
    return Diagram(
        title=title,
        description=f"{title}, treewidth {tree.width}.",
        texts=texts,
        columns=frozenset(columns),
        edges=tuple(edges),
        numbers=NumberTable(
            "Separators of the junction tree", ("separator", "edges", "joint states", "rank"), tuple(rows)
        ),
        legend=(("column", "column"), ("clique", "hidden"))[: 2 if cliques else 1],
    )


def edge_ranks(model: object) -> dict[frozenset[str], SeparatorReport]:
    """Return what a spectral model has learned of each edge, by the columns beyond it; of others nothing."""
    if not isinstance(model, SpectralJunctionTree):
        return {}
    nodes = model.plan_.nodes
    beyond: list[set[str]] = [set() if node.observed is None else {node.observed} for node in nodes]
    for place in reversed(range(len(nodes))):
        if nodes[place].parent >= 0:
            beyond[nodes[place].parent] |= beyond[place]
    edges = [place for place, node in enumerate(nodes) if node.parent >= 0]
    reports = zip(edges, model.report_.separators, strict=True)
    return {frozenset(beyond[place]): report for place, report in reports}


def transition_diagram(profile: Profile) -> Diagram:
    """Return the transitions of a chain of order 1; raise `ParameterError` where they cannot be drawn."""
    assert profile.transitions is not None
    moves = profile.transitions.array
    count = len(moves)
    if moves.ndim > 2:
        raise ParameterError(
            "transitions are drawn of order 1; those of a higher one are in tables_['transitions']"
        )
    if count > MOST_STATES:
        raise ParameterError(f"transitions are drawn of at most {MOST_STATES} states, not of {count}")
    pairs = [pair for pair in permutations(range(count), 2) if moves[pair] > 0]
    largest = max((float(moves[pair]) for pair in pairs), default=0.0)
    kept = [pair for pair in pairs if moves[pair] >= FAINTEST * largest]
    which = "states" if profile.name == "state" else f"the states of {profile.name}"
    rarer = f"; {counted(len(pairs) - len(kept), 'rarer one')} left out" if len(kept) < len(pairs) else ""
    return Diagram(
        title=f"transitions of {which}, by step{rarer}",
        description="; ".join(f"from {one} to {other} {moves[one, other]:.2g}" for one, other in kept) or "None.",
        texts={f"state {k}": f"state {k}\nstays {moves[k, k]:.2f}" for k in range(count)},
        columns=frozenset(),
        edges=tuple(
            Edge(f"state {one}", f"state {other}", share / largest, f"{share:.{2 if share >= 0.01 else 1}g}")
            for one, other, share in ((*pair, float(moves[pair])) for pair in kept)
        ),
        arrows=True,
        ring=True,
    )


def laid_out_diagram(diagram: Diagram, width: Callable[[str], float]) -> Layout:
    """Return where the boxes of a diagram stand, given how wide texts are (em)."""
    widths = {key: width(text) + 2 * PADDING for key, text in diagram.texts.items()}
    if diagram.steps:
        return _in_steps(diagram.steps, widths, {(edge.one, edge.other) for edge in diagram.edges})
    if not diagram.ring:
        gap = BEND + max((width(edge.text) * SMALL + 1.0 for edge in diagram.edges if edge.text), default=0.0)
        return laid_out(((edge.one, edge.other) for edge in diagram.edges), widths, gap)
    radius = max(3.4, 0.9 * len(widths)) if len(widths) > 1 else 0.0
    boxes = {}
    for place, (key, wide) in enumerate(widths.items()):
        angle = math.pi / 2 - 2 * math.pi * place / len(widths)
        middle = 1.35 * ROW * radius * math.cos(angle)
        boxes[key] = Box(middle - wide / 2, middle + wide / 2, 0.5 + radius * (1 - math.sin(angle)))
    return Layout(boxes, [], 2 * radius + 2)


def _in_steps(
    steps: Sequence[Sequence[str]], widths: Mapping[str, float], edges: Container[tuple[str, str]]
) -> Layout:
    """Return steps beside each other; neighbours in one row are joined by straight lines."""
    boxes, middle, half = {}, 0.0, 0.0
    for place, names in enumerate(steps):
        wide = max(widths[name] for name in names) / 2
        middle += half + BEND + wide if place else wide
        half = wide
        for row, name in enumerate(names):
            boxes[name] = Box(middle - widths[name] / 2, middle + widths[name] / 2, 1.5 * row + 1.0)
    beside = [pair for one, other in pairwise(steps) for pair in zip(one, other, strict=False) if pair in edges]
    return Layout(boxes, beside, 1.5 * max(map(len, steps)) + 1.0)


def placed(
    diagram: Diagram, layout: Layout, width: Callable[[str], float], scale: tuple[float, float], font: float
) -> tuple[list[TextBox], list[Curve]]:
    """Return the boxes and curves of a diagram as they are drawn.

    `width` is how wide texts are (em), `scale` how large an em is between boxes, across and down, `font` in texts.
    """
    roles = "hidden", "column"
    boxes = {
        key: _placed(TextBox(key, text, roles[key in diagram.columns], *layout.boxes[key]), scale, font)
        for key, text in diagram.texts.items()
    }
    branches = set(layout.branches)
    curves = []
    for edge in diagram.edges:
        one, other = boxes[edge.one], boxes[edge.other]
        tail = (width(edge.text) * SMALL + 1.0) * font if edge.text else 0.0
        if (edge.one, edge.other) in branches:
            points, at = _branch(one, other, BEND * scale[0], tail)
        elif (edge.other, edge.one) in branches:
            points, at = _branch(other, one, BEND * scale[0], tail)
            points = points[::-1]
        else:
            points, at = _arc(one, other, font)
        wide = (THIN + (THICK - THIN) * edge.share) * font
        key = f"{edge.one} {edge.other}"
        curves.append(Curve(key, tuple(points), wide, edge.dashed, diagram.arrows, edge.text, at))
    return list(boxes.values()), curves


def _placed(box: TextBox, scale: tuple[float, float], font: float) -> TextBox:
    """Return a box moved apart from others, and just as large as its text needs."""
    wide = (box.right - box.left) * font
    # The end that is nearer to the middle of the picture stays where it is.
    start = box.left * scale[0] if box.left >= 0 else box.right * scale[0] - wide
    if box.left < 0 < box.right:
        start = (box.left + box.right) / 2 * scale[0] - wide / 2
    return box._replace(left=start, right=start + wide, y=(box.y + 0.5) * ROW * scale[1])


def _branch(inner: TextBox, outer: TextBox, bend: float, tail: float) -> tuple[list[XY], XY]:
    """Return a line along the row of a box, a bend, and a line along the row of the next, where a text stands."""
    begin, end = (inner.right, outer.left) if inner.right <= outer.left else (inner.left, outer.right)
    side = 1.0 if end >= begin else -1.0
    last = end - side * min(tail, abs(end - begin) * 0.8)
    first = last - side * min(bend, abs(last - begin))
    turn = (first + last) / 2
    points = [(begin + (first - begin) * step / 3, inner.y) for step in range(4)]
    points += [(turn, inner.y), (turn, outer.y), (last, outer.y)]
    if tail:
        points += [(last + (end - last) * step / 3, outer.y) for step in range(1, 4)]
    return points, ((last + end) / 2, outer.y)


def _arc(one: TextBox, other: TextBox, font: float) -> tuple[list[XY], XY]:
    """Return a curve from box to box that bends aside, so that an edge and its return stand apart."""
    start, end = (np.array([(box.left + box.right) / 2, box.y]) for box in (one, other))
    # What stands below another is joined by a straight line.
    bow = BOW if abs(start[0] - end[0]) > 1e-6 else 0.0
    aside = bow * np.array([1.0, -1.0]) * (end - start)[::-1]
    pull = (start + end) / 2 + aside
    start, end = _border(one, pull, font), _border(other, pull, font)
    points = [start, (start + 2 * pull) / 3, (end + 2 * pull) / 3, end]
    middle = (start + 2 * pull + end) / 4
    return [(float(x), float(y)) for x, y in points], (float(middle[0]), float(middle[1]))


def _border(box: TextBox, toward: np.ndarray, font: float) -> np.ndarray:
    """Return where a line from the middle of a box toward a point leaves it, with a little room."""
    middle = np.array([(box.left + box.right) / 2, box.y])
    high = (ROW * 0.42 + 0.62 * box.text.count("\n") + 0.25) * font
    half = np.array([(box.right - box.left) / 2 + 0.25 * font, high])
    way = toward - middle
    share = float((half / np.maximum(abs(way), 1e-9)).min())
    return np.asarray(middle + min(share, 1.0) * way)


def _between(ranks: Sequence[int]) -> str:
    low, high = min(ranks), max(ranks)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


class Box(NamedTuple):
    """Where the box of a variable stands: 0 is the middle of the picture, and its top is row 0."""

    left: float
    right: float
    row: float


class Layout(NamedTuple):
    """Where all variables stand, the edges of the trees away from their middles, and how many rows there are."""

    boxes: dict[str, Box]
    branches: list[tuple[str, str]]
    rows: float


def laid_out(edges: Iterable[tuple[str, str]], widths: Mapping[str, float], gap: float) -> Layout:
    """Return where the variables of a graph stand; one that is no tree is laid out along one that spans it.

    `widths` are those of the boxes, `gap` is for edges between the boxes of one depth and those of the next.

    Examples
    --------
    >>> laid_out([("h", "x"), ("h", "y"), ("h", "z")], dict.fromkeys("hxyz", 10.0), 5.0).boxes["h"]
    Box(left=-5.0, right=5.0, row=0.5)
    """
    around: dict[str, list[str]] = {name: [] for name in widths}
    for one, other in edges:
        around[one].append(other)
        around[other].append(one)
    boxes: dict[str, Box] = {}
    branches: list[tuple[str, str]] = []
    rows = 0.0
    for name in widths:
        if name not in boxes:
            order, parents = _outward(around, _middle(around, name))
            branches += [(parents[each], each) for each in order[1:]]
            part = _tree(order, parents, widths, gap)
            boxes |= {each: box._replace(row=box.row + rows) for each, box in part.items()}
            rows = 1 + max(box.row for box in boxes.values())
    return Layout(boxes, branches, rows)


def _tree(
    order: Sequence[str], parents: Mapping[str, str], widths: Mapping[str, float], gap: float
) -> dict[str, Box]:
    """Return where the variables of a tree stand, given them from its root outward."""
    root = order[0]
    children: dict[str, list[str]] = {name: [] for name in order}
    for name in order[1:]:
        children[parents[name]].append(name)
    ends = dict.fromkeys(order, 1)
    for name in reversed(order):
        ends[name] = sum(ends[child] for child in children[name]) or 1
    sides: tuple[list[str], list[str]] = ([], [])
    # The largest branches of the root stand apart, then as many ends on both sides.
    for name in sorted(children[root], key=lambda name: -ends[name]):
        min(sides, key=lambda side: sum(ends[each] for each in side)).append(name)
    heights = [sum(ends[name] for name in side) for side in sides]
    middle = (max(heights) - 1) / 2 if children[root] else 0.0
    boxes = {root: Box(-widths[root] / 2, widths[root] / 2, middle)}
    for side, height, sign in zip(sides, heights, (1, -1), strict=True):
        inner = [widths[root] / 2]
        last = (max(heights) - height) / 2
        # Depth first: ends take their rows one after another, and children come before their parents.
        ahead = [(name, 1) for name in reversed(side)]
        way: list[tuple[str, int]] = []
        rows: dict[str, float] = {}
        while ahead:
            name, depth = ahead.pop()
            way.append((name, depth))
            ahead += [(child, depth + 1) for child in reversed(children[name])]
            if children[name]:
                inner += [0.0] * (depth + 1 - len(inner))
                inner[depth] = max(inner[depth], widths[name])
            else:
                rows[name], last = last, last + 1
        for name, depth in reversed(way):
            if own := children[name]:
                rows[name] = (rows[own[0]] + rows[own[-1]]) / 2
            near = sum(inner[:depth]) + depth * gap
            far = near + widths[name]
            boxes[name] = Box(near, far, rows[name]) if sign > 0 else Box(-far, -near, rows[name])
    return boxes


def _outward(around: Mapping[str, Sequence[str]], root: str) -> tuple[list[str], dict[str, str]]:
    """Return what is connected to a root, nearest first, and the neighbour by which each was reached."""
    order, parents = [root], {root: root}
    for name in order:
        for other in around[name]:
            if other not in parents:
                parents[other] = name
                order.append(other)
    return order, parents


def _middle(around: Mapping[str, Sequence[str]], name: str) -> str:
    """Return the middle of the longest path, of two the one with more neighbours."""
    one = _outward(around, name)[0][-1]
    order, parents = _outward(around, one)
    path = [order[-1]]
    while path[-1] != one:
        path.append(parents[path[-1]])
    middle = path[(len(path) - 1) // 2 : len(path) // 2 + 1]
    return max(middle, key=lambda each: len(around[each]))
