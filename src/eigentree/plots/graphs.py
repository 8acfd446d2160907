"""The graph of a model as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.errors import EigentreeError, ParameterError, quoted
from eigentree.exact.network import LatentNetwork
from eigentree.models.dependencies import edge_strengths
from eigentree.models.face import Face
from eigentree.models.tables_face import TablesFace
from eigentree.plots.layout import Box, bowed_line, branch_line, laid_out
from eigentree.structures.discovery import mixed_tree
from eigentree.structures.graph import LatentGraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.plots.layout import Layout

__all__ = ["graph"]

FONT = 8.0
"""Points of a name, where there is room; all lengths below are points at this size."""

LARGEST_FONT = 10.0

ROW = 16.5
"""Between two rows."""

PADDING = 2.4
"""Around a name in its box."""

GAP = 26.0
"""Between the boxes of one depth and those of the next."""

THIN, THICK = 0.6, 5.0
"""Width of an edge without strength, and of the strongest."""

LONGEST_NAME = 40
"""Letters of a name that are shown."""

LARGEST_FIGURE = 40.0
"""Most inches of a figure of our own, either way; beyond, names become smaller."""

# Of Okabe and Ito, which people with any common colour-blindness tell apart; forms differ as well.
HIDDEN = {"boxstyle": "round,pad=0.3,rounding_size=0.9", "facecolor": "#FBE3B0", "edgecolor": "#B87700"}
OBSERVED = {"boxstyle": "square,pad=0.3", "facecolor": "#FFFFFF", "edgecolor": "#0072B2"}
EDGE = "#5A6A78"


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
    if ax is not None and not hasattr(ax, "set_axis_off"):
        raise ParameterError(f"ax is one of matplotlib's Axes, not {quoted(ax)}")
    layout = laid_out(shown.edges, _widths(shown), GAP)
    size = _size(layout)
    ax = _own_axes(size) if ax is None else ax
    _say(ax, shown, None if which is None else f"{whole.states[which]} such trees ({which!r}", strengths)
    scale = _room(ax, size)
    boxes = _placed(layout, scale)
    _draw_edges(ax, shown, layout, boxes, strengths, scale)
    _draw_names(ax, shown, boxes, FONT * _small(scale))
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


def _shown(name: str) -> str:
    """Return a name on one line, shortened where it is long."""
    line = " ".join(name.split()) or repr(name)
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def _widths(graph: LatentGraph) -> dict[str, float]:
    """Return how wide the box of each variable is."""
    try:
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path
    except ImportError:
        raise EigentreeError("et.plot needs matplotlib: pip install 'eigentree[plots]'") from None
    font = FontProperties(size=FONT)
    return {
        name: text_to_path.get_text_width_height_descent(_shown(name), font, False)[0] + 2 * PADDING
        for name in graph.names
    }


def _size(layout: Layout) -> tuple[float, float, float]:
    """Return where the picture begins and ends, and its height."""
    left = min(box.left for box in layout.boxes.values())
    right = max(box.right for box in layout.boxes.values())
    return left, right, layout.rows * ROW


def _own_axes(size: tuple[float, float, float]) -> Any:
    """Return axes of just this size, with room for a title above and a legend below."""
    from matplotlib.figure import Figure

    inner = [min(max(size[1] - size[0], 320.0) / 72, LARGEST_FIGURE), min(size[2] / 72, LARGEST_FIGURE)]
    width, height = inner[0] + 0.3, inner[1] + 0.9
    figure = Figure(figsize=(width, height))
    return figure.add_axes((0.15 / width, 0.5 / height, inner[0] / width, inner[1] / height))


def _room(ax: Any, size: tuple[float, float, float]) -> tuple[float, float]:
    """Return by how much to stretch the picture so that it fills axes, whose units become points."""
    if (engine := ax.figure.get_layout_engine()) is not None:
        # What stands around the axes takes its room first, in the whole figure where this is a part of one.
        engine.execute(ax.figure.canvas.figure)
    extent = ax.get_window_extent()
    wide, high = (pixels * 72 / ax.figure.dpi for pixels in (extent.width, extent.height))
    scale = wide / (size[1] - size[0]), high / size[2]
    ax.set_xlim(size[0] * scale[0], size[1] * scale[0])
    ax.set_ylim(high, 0.0)
    ax.set_axis_off()
    return scale


def _small(scale: tuple[float, float]) -> float:
    """Return by how much names are made larger or smaller."""
    return min(LARGEST_FONT / FONT, *scale)


def _placed(layout: Layout, scale: tuple[float, float]) -> dict[str, Box]:
    """Return the boxes as they are drawn: moved apart, and just as large as their names ask for."""
    boxes = {}
    for name, (left, right, row) in layout.boxes.items():
        width = (right - left) * _small(scale)
        # The end that is nearer to the middle of the picture stays where it is.
        start = left * scale[0] if left >= 0 else right * scale[0] - width
        start = -width / 2 if left < 0 < right else start
        boxes[name] = Box(start, start + width, (row + 0.5) * ROW * scale[1])
    return boxes


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
    small = _small(scale)
    for edge in graph.edges:
        share = strengths[edge] / largest if largest > 0 else 0.1
        one, other = (boxes[name] for name in edge)
        if edge in branches:
            points = branch_line(one, other, GAP * scale[0])
        elif edge[::-1] in branches:
            points = branch_line(other, one, GAP * scale[0])[::-1]
        else:
            points = bowed_line(one, other)
        ax.add_patch(
            FancyArrowPatch(
                path=_path(points),
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


def _path(points: Sequence[tuple[float, float]]) -> Any:
    """Return a path of cubic curves: two points that pull, and one that is reached, again and again."""
    from matplotlib.path import Path

    return Path(points, [Path.MOVETO, *([Path.CURVE4] * (len(points) - 1))])


def _draw_names(ax: Any, graph: LatentGraph, boxes: Mapping[str, Box], font: float) -> None:
    hidden = set(graph.hidden)
    padding = PADDING * font / FONT
    for name, (left, right, row) in boxes.items():
        # Near ends stand below each other to the point, whatever a screen makes of the letters.
        place, side = (left + padding, "left") if left >= 0 else (right - padding, "right")
        if left < 0 < right:
            place, side = 0.0, "center"
        ax.text(
            place,
            row,
            _shown(name),
            fontsize=font,
            ha=side,
            va="center_baseline",
            bbox={**(HIDDEN if name in hidden else OBSERVED), "linewidth": 0.9 * font / FONT},
            # A name may hold signs of the language that formulas are written in.
            parse_math=False,
            zorder=2,
            gid=name,
        )


def _say(ax: Any, shown: LatentGraph, mixed: str | None, strengths: Mapping[tuple[str, str], float]) -> None:
    """Say what is shown: in a title, and in a legend below."""
    from matplotlib.lines import Line2D

    title = f"{_counted(len(shown.observed), 'column')}, {_counted(len(shown.hidden), 'hidden variable')}"
    if mixed is not None:
        title += f"; a mixture of {mixed}, the parent of all, is left out)"
    ax.set_title(title, fontsize=FONT + 1, parse_math=False, wrap=True)
    kinds = [("column", OBSERVED), ("hidden variable", HIDDEN)][: 2 if shown.hidden else 1]
    marks = [
        Line2D(
            [],
            [],
            linestyle="",
            marker="s",
            markersize=8,
            markerfacecolor=style["facecolor"],
            markeredgecolor=style["edgecolor"],
            label=label,
        )
        for label, style in kinds
    ]
    largest = max(strengths.values(), default=0.0)
    for share in (1.0, 0.25) if largest > 0 else ():
        label = f"{share * largest:.2g} nats"
        marks.append(Line2D([], [], color=EDGE, linewidth=_line_width(share), label=label))
    ax.legend(
        handles=marks,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(marks),
        frameon=False,
        fontsize=FONT,
        borderaxespad=0.3,
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {what}s"
