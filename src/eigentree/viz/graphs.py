"""The graph of a model as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.errors import ParameterError, quoted
from eigentree.exact.network import LatentNetwork
from eigentree.models.dependencies import edge_strengths
from eigentree.models.face import Face
from eigentree.models.tables_face import TablesFace
from eigentree.structures.discovery import mixed_tree
from eigentree.structures.graph import LatentGraph
from eigentree.viz.axes import FONT, checked_axes, counted, shown_name
from eigentree.viz.boxes import (
    EDGE,
    HIDDEN,
    OBSERVED,
    bow,
    branch,
    curve,
    draw_box,
    draw_legend,
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

__all__ = ["graph"]

GAP = 26.0
"""Between the boxes of one depth and those of the next."""

THIN, THICK = 0.6, 5.0
"""Width of an edge without strength, and of the strongest."""


def graph(model: LatentGraph | LatentNetwork | Face, ax: Any = None) -> Any:
    """Return matplotlib's axes with the graph of a model: hidden variables in round boxes, columns in square ones.

    A tree grows from its middle to both sides. Where tables are known, edges are the wider the more their ends tell
    of each other, as `eigentree.dependencies` has it. Arrows show directions where these matter: not in trees,
    which say the same whichever way their edges point. The variable of a mixture of trees, the parent of all
    others, is left out, and the title says so.

    Parameters
    ----------
    model : LatentGraph, LatentNetwork, or a fitted estimator
    ax : matplotlib Axes, optional
        Where to draw; names are made as small as its room asks for. By default a figure of its own, as large as the
        graph needs.

    Raises
    ------
    ParameterError
        When there is no graph to draw, or nothing to draw on.
    """
    whole, strengths = _drawn(model)
    shown, which = mixed_tree(whole)
    checked_axes(ax)
    texts = {name: shown_name(name) for name in shown.names}
    layout = laid_out(shown.edges, text_widths(texts), GAP)
    size = size_of(layout)
    ax = own_axes(size) if ax is None else ax
    _say(ax, shown, None if which is None else f"{whole.states[which]} such trees ({which!r}", strengths)
    scale = stretched(ax, size)
    boxes = placed(layout, scale)
    _draw_edges(ax, shown, layout, boxes, strengths, scale)
    hidden = set(shown.hidden)
    for name, box in boxes.items():
        draw_box(ax, name, texts[name], box, HIDDEN if name in hidden else OBSERVED, FONT * smaller(scale))
    return ax


def _drawn(model: object) -> tuple[LatentGraph, Mapping[tuple[str, str], float]]:
    """Return the graph to draw, and the strengths of its edges where they are known."""
    if isinstance(model, LatentGraph):
        return model, {}
    if isinstance(model, LatentNetwork):
        return model.graph, edge_strengths(model)
    if isinstance(model, Face):
        found = model.graph_
        return found, edge_strengths(model.network_) if isinstance(model, TablesFace) else {}
    raise ParameterError(
        f"a LatentGraph, a LatentNetwork or a fitted estimator has a graph to draw, not {quoted(model)}"
    )


def _draw_edges(
    ax: Any,
    graph: LatentGraph,
    layout: Layout,
    boxes: Mapping[str, Box],
    strengths: Mapping[tuple[str, str], float],
    scale: tuple[float, float],
) -> None:
    """Draw each edge from box to box, behind the boxes."""
    from matplotlib.patches import FancyArrowPatch

    branches = set(layout.branches)
    arrows = graph.directed and any(len(graph.parents(name)) > 1 for name in graph.names)
    largest = max(strengths.values(), default=0.0)
    small = smaller(scale)
    for edge in graph.edges:
        share = strengths[edge] / largest if largest > 0 else 0.1
        one, other = (boxes[name] for name in edge)
        if edge in branches:
            points = branch(one, other, GAP * scale[0])
        elif edge[::-1] in branches:
            points = branch(other, one, GAP * scale[0])[::-1]
        else:
            points = bow(one, other)
        ax.add_patch(
            FancyArrowPatch(
                path=curve(points),
                arrowstyle="-|>" if arrows else "-",
                mutation_scale=9 * small,
                linewidth=_line_width(share) * small,
                color=EDGE,
                zorder=1,
                capstyle="butt",
                joinstyle="round",
                gid=f"edge {edge[0]} {edge[1]}",
            )
        )


def _line_width(share: float) -> float:
    """Return how wide the edge is that has a share of the strength of the strongest."""
    return THIN + (THICK - THIN) * share


def _say(ax: Any, shown: LatentGraph, mixed: str | None, strengths: Mapping[tuple[str, str], float]) -> None:
    """Say what is shown: in a title, and in a legend below."""
    from matplotlib.lines import Line2D

    title = f"{counted(len(shown.observed), 'column')}, {counted(len(shown.hidden), 'hidden variable')}"
    if mixed is not None:
        title += f"; a mixture of {mixed}, the parent of all, is left out)"
    ax.set_title(title, fontsize=FONT + 1, parse_math=False, wrap=True)
    kinds = [("column", OBSERVED), ("hidden variable", HIDDEN)][: 2 if shown.hidden else 1]
    largest = max(strengths.values(), default=0.0)
    lines = [
        Line2D([], [], color=EDGE, linewidth=_line_width(share), label=f"{share * largest:.2g} nats")
        for share in ((1.0, 0.25) if largest > 0 else ())
    ]
    draw_legend(ax, kinds, lines)
