"""The junction tree of a model as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from eigentree.errors import ParameterError, quoted
from eigentree.exact.network import LatentNetwork
from eigentree.models.face import Face
from eigentree.models.spectral import SpectralJunctionTree
from eigentree.structures.graph import LatentGraph
from eigentree.structures.junction_tree import JunctionTree
from eigentree.viz.axes import FONT, checked_axes, counted, shown_name
from eigentree.viz.boxes import (
    EDGE,
    HIDDEN,
    OBSERVED,
    curve,
    draw_box,
    draw_legend,
    facing,
    own_axes,
    placed,
    size_of,
    smaller,
    stretched,
    text_widths,
)
from eigentree.viz.layout import laid_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.viz.layout import Box, Layout

__all__ = ["tree"]

BEND = 22.0
"""Room in which an edge bends from the row of one clique to that of the next; its separator stands behind it."""

LONGEST_SEPARATOR = 36
"""Letters of a separator that are shown."""


class _Bond(NamedTuple):
    """What a spectral model has learned of an edge: its rank, and whether noise alone reaches as far."""

    rank: int
    weak: bool


class _Picture(NamedTuple):
    """What is to be drawn: cliques by a name of their own, and the separators between them.

    Attributes
    ----------
    texts : dict of str to str
    columns : set of str
        The cliques that stand for a column.
    separators : dict of (str, str) to str
        What is written on each edge, parents first.
    weak : set of (str, str)
    """

    texts: dict[str, str]
    columns: set[str]
    separators: dict[tuple[str, str], str]
    weak: set[tuple[str, str]]


def tree(model: LatentGraph | JunctionTree | LatentNetwork | Face, ax: Any = None) -> Any:
    """Return matplotlib's axes with the junction tree of a model: cliques, separators, and where the columns hang.

    Cliques are round boxes with the names of their variables, columns square ones at the ends. On each edge stands
    its separator with the number of its states; of a spectral model with the rank that was learned, and the edge is
    dashed where the data cannot tell its smallest singular value from noise. Cliques that were split because many
    meet there are drawn as one.

    Parameters
    ----------
    model : LatentGraph, JunctionTree, LatentNetwork, or a fitted estimator
    ax : matplotlib Axes, optional
        Where to draw; names are made as small as its room asks for. By default a figure of its own, as large as the
        tree needs.

    Raises
    ------
    ParameterError
        When there is no junction tree to draw, or nothing to draw on.
    """
    found, bonds = _drawn(model)
    checked_axes(ax)
    picture = _picture(found, bonds)
    labels = text_widths({text: text for text in picture.separators.values()})
    gap = BEND + max(labels.values(), default=0.0) + 8.0
    layout = laid_out(picture.separators, text_widths(picture.texts), gap)
    size = size_of(layout)
    ax = own_axes(size) if ax is None else ax
    _say(ax, found, picture)
    scale = stretched(ax, size)
    boxes = placed(layout, scale)
    _draw_edges(ax, picture, layout, boxes, scale)
    for name, box in boxes.items():
        style = OBSERVED if name in picture.columns else HIDDEN
        draw_box(ax, name, picture.texts[name], box, style, FONT * smaller(scale))
    return ax


def _drawn(model: object) -> tuple[JunctionTree, Mapping[frozenset[str], _Bond]]:
    """Return the tree to draw, and what was learned of its edges, by the columns beyond each."""
    if isinstance(model, JunctionTree):
        return model, {}
    if isinstance(model, LatentGraph):
        return JunctionTree.of(model), {}
    if isinstance(model, LatentNetwork):
        return model.tree, {}
    if isinstance(model, Face):
        found = JunctionTree.of(model.graph_)
        return found, _bonds(model) if isinstance(model, SpectralJunctionTree) else {}
    raise ParameterError(
        f"a LatentGraph, a JunctionTree, a LatentNetwork or a fitted estimator has a junction tree to draw, "
        f"not {quoted(model)}"
    )


def _bonds(model: SpectralJunctionTree) -> dict[frozenset[str], _Bond]:
    nodes = model.plan_.nodes
    beyond: list[set[str]] = [set() if node.observed is None else {node.observed} for node in nodes]
    for place in reversed(range(len(nodes))):
        if nodes[place].parent >= 0:
            beyond[nodes[place].parent] |= beyond[place]
    edges = [place for place, node in enumerate(nodes) if node.parent >= 0]
    reports = model.report_.separators
    return {
        frozenset(beyond[place]): _Bond(report.rank, report.weak)
        for place, report in zip(edges, reports, strict=True)
    }


def _picture(tree: JunctionTree, bonds: Mapping[frozenset[str], _Bond]) -> _Picture:
    nodes, states = tree.nodes, tree.graph.states
    of = list(range(len(nodes)))
    for place, node in enumerate(nodes):
        # Parents stand before their children.
        if node.parent >= 0 and node.observed is None and set(node.clique) == set(nodes[node.parent].clique):
            of[place] = of[node.parent]
    picture = _Picture({}, set(), {}, set())
    for place, node in enumerate(nodes):
        if of[place] != place:
            continue
        key = node.observed if node.observed is not None else f"clique {place}"
        if node.observed is not None:
            picture.columns.add(key)
        # Parts of a graph that are independent meet at an empty clique.
        clique = ", ".join(node.clique) or "∅"
        picture.texts[key] = shown_name(clique if node.observed is None else node.observed)
        if node.parent >= 0:
            edge = (f"clique {of[node.parent]}", key)
            bond = bonds.get(frozenset(tree.inside(place)))
            size = math.prod(states[name] for name in node.separator)
            picture.separators[edge] = _written(node.separator, size, bond)
            if bond is not None and bond.weak:
                picture.weak.add(edge)
    return picture


def _written(separator: tuple[str, ...], states: int, bond: _Bond | None) -> str:
    """Return what is written on an edge."""
    names = shown_name(", ".join(separator), LONGEST_SEPARATOR) if separator else "independent"
    if not separator:
        return names
    return f"{names}: {counted(states, 'state')}" if bond is None else f"{names}: rank {bond.rank} of {states}"


def _draw_edges(
    ax: Any, picture: _Picture, layout: Layout, boxes: Mapping[str, Box], scale: tuple[float, float]
) -> None:
    """Draw each edge from box to box, behind the boxes, and its separator where it runs along the outer row."""
    from matplotlib.patches import FancyArrowPatch

    small = smaller(scale)
    for inner, outer in layout.branches:
        edge = (inner, outer) if (inner, outer) in picture.separators else (outer, inner)
        text = picture.separators[edge]
        one, other = boxes[inner], boxes[outer]
        begin, end = facing(one, other)
        side = 1.0 if end >= begin else -1.0
        # The separator needs as much room as its letters take, the bend has the rest.
        length = min(_length(text) * small + 8.0 * small, abs(end - begin) * 0.8)
        last = end - side * length
        first = last - side * min(BEND * scale[0], abs(last - begin))
        turn = (first + last) / 2
        straight = [(begin + (first - begin) * step / 3, one.row) for step in range(4)]
        on = [(last + (end - last) * step / 3, other.row) for step in range(1, 4)]
        points = [*straight, (turn, one.row), (turn, other.row), (last, other.row), *on]
        ax.add_patch(
            FancyArrowPatch(
                path=curve(points),
                arrowstyle="-",
                linewidth=1.1 * small,
                linestyle=(0, (3, 2)) if edge in picture.weak else "-",
                color=EDGE,
                zorder=1,
                gid=f"edge {edge[0]} {edge[1]}",
            )
        )
        ax.text(
            (last + end) / 2,
            other.row,
            text,
            fontsize=(FONT - 1.0) * small,
            ha="center",
            va="center_baseline",
            color="#30404C",
            bbox={"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"},
            parse_math=False,
            zorder=1.5,
            gid=f"separator {edge[0]} {edge[1]}",
        )


def _length(text: str) -> float:
    return text_widths({text: text})[text] * (FONT - 1.0) / FONT


def _say(ax: Any, tree: JunctionTree, picture: _Picture) -> None:
    """Say what is shown: in a title, and in a legend below."""
    from matplotlib.lines import Line2D

    cliques = len(picture.texts) - len(picture.columns)
    largest = max(math.prod(tree.graph.states[name] for name in node.clique) for node in tree.nodes)
    title = (
        f"junction tree: {counted(cliques, 'clique')} above {counted(len(picture.columns), 'column')}, "
        f"at most {counted(largest, 'joint state')}"
    )
    ax.set_title(title, fontsize=FONT + 1, parse_math=False, wrap=True)
    kinds = [("column", OBSERVED), ("clique", HIDDEN)][: 2 if cliques else 1]
    weak = Line2D([], [], color=EDGE, linewidth=1.1, linestyle=(0, (3, 2)), label="no more than noise")
    draw_legend(ax, kinds, [weak] if picture.weak else [])
