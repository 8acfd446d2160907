"""Boxes with names and the lines between them: what pictures of graphs and of junction trees share.

All lengths are points where names have their usual size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.errors import EigentreeError
from eigentree.viz.axes import FONT
from eigentree.viz.layout import Box

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.viz.layout import Layout

__all__ = [
    "EDGE",
    "HIDDEN",
    "OBSERVED",
    "bow",
    "branch",
    "curve",
    "draw_box",
    "draw_legend",
    "facing",
    "own_axes",
    "placed",
    "size_of",
    "smaller",
    "stretched",
    "text_widths",
]

LARGEST_FONT = 10.0

ROW = 16.5
"""Between two rows."""

PADDING = 2.4
"""Around a name in its box."""

BOW = 0.2
"""How far an edge that is no branch of a tree bends aside, as a share of its length."""

LARGEST_FIGURE = 40.0
"""Most inches of a figure of our own, either way; beyond, names become smaller."""

# Of Okabe and Ito, which people with any common colour-blindness tell apart; forms differ as well.
HIDDEN = {"boxstyle": "round,pad=0.3,rounding_size=0.9", "facecolor": "#FBE3B0", "edgecolor": "#B87700"}
OBSERVED = {"boxstyle": "square,pad=0.3", "facecolor": "#FFFFFF", "edgecolor": "#0072B2"}
EDGE = "#5A6A78"


def text_widths(texts: Mapping[str, str]) -> dict[str, float]:
    """Return how wide the box of each text is."""
    try:
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path
    except ImportError:
        raise EigentreeError("et.plot needs matplotlib: pip install 'eigentree[plots]'") from None
    font = FontProperties(size=FONT)
    return {
        name: text_to_path.get_text_width_height_descent(text, font, False)[0] + 2 * PADDING
        for name, text in texts.items()
    }


def size_of(layout: Layout) -> tuple[float, float, float]:
    """Return where the picture begins and ends, and its height."""
    left = min(box.left for box in layout.boxes.values())
    right = max(box.right for box in layout.boxes.values())
    return left, right, layout.rows * ROW


def own_axes(size: tuple[float, float, float]) -> Any:
    """Return axes of just this size, with room for a title above and a legend below."""
    from matplotlib.figure import Figure

    inner = [min(max(size[1] - size[0], 320.0) / 72, LARGEST_FIGURE), min(size[2] / 72, LARGEST_FIGURE)]
    width, height = inner[0] + 0.3, inner[1] + 0.9
    figure = Figure(figsize=(width, height))
    return figure.add_axes((0.15 / width, 0.5 / height, inner[0] / width, inner[1] / height))


def stretched(ax: Any, size: tuple[float, float, float]) -> tuple[float, float]:
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


def smaller(scale: tuple[float, float]) -> float:
    """Return by how much names are made larger or smaller."""
    return min(LARGEST_FONT / FONT, *scale)


def placed(layout: Layout, scale: tuple[float, float]) -> dict[str, Box]:
    """Return the boxes as they are drawn: moved apart, and just as large as their names ask for."""
    boxes = {}
    for name, (left, right, row) in layout.boxes.items():
        width = (right - left) * smaller(scale)
        # The end that is nearer to the middle of the picture stays where it is.
        start = left * scale[0] if left >= 0 else right * scale[0] - width
        start = -width / 2 if left < 0 < right else start
        boxes[name] = Box(start, start + width, (row + 0.5) * ROW * scale[1])
    return boxes


def facing(one: Box, other: Box) -> tuple[float, float]:
    """Return the ends of two boxes that face each other; of boxes above each other, both middles."""
    if one.right <= other.left:
        return one.right, other.left
    if other.right <= one.left:
        return one.left, other.right
    return (one.left + one.right) / 2, (other.left + other.right) / 2


def branch(inner: Box, outer: Box, gap: float) -> list[tuple[float, float]]:
    """Return a line along the row of a box to where the gap begins, and a curve through the gap to the next box."""
    begin, end = facing(inner, outer)
    # Beside the boxes of its depth an edge keeps to its own row.
    first = end - gap if begin < end else end + gap
    turn = (first + end) / 2
    straight = [(begin + (first - begin) * step / 3, inner.row) for step in range(4)]
    return [*straight, (turn, inner.row), (turn, outer.row), (end, outer.row)]


def bow(one: Box, other: Box) -> list[tuple[float, float]]:
    """Return a curve that bends aside, for an edge that has no room of its own."""
    begin, end = facing(one, other)
    aside, along = BOW * (other.row - one.row), BOW * (begin - end)
    thirds = [(begin + (end - begin) * step / 3, one.row + (other.row - one.row) * step / 3) for step in (1, 2)]
    return [(begin, one.row), *((x + aside, y + along) for x, y in thirds), (end, other.row)]


def curve(points: Sequence[tuple[float, float]]) -> Any:
    """Return a path of cubic curves: two points that pull, and one that is reached, again and again."""
    from matplotlib.path import Path

    return Path(points, [Path.MOVETO, *([Path.CURVE4] * (len(points) - 1))])


def draw_box(ax: Any, name: str, text: str, box: Box, style: Mapping[str, Any], font: float) -> None:
    """Draw a text in its box."""
    left, right, row = box
    padding = PADDING * font / FONT
    # Near ends stand below each other to the point, whatever a screen makes of the letters.
    place, side = (left + padding, "left") if left >= 0 else (right - padding, "right")
    if left < 0 < right:
        place, side = 0.0, "center"
    ax.text(
        place,
        row,
        text,
        fontsize=font,
        ha=side,
        va="center_baseline",
        bbox={**style, "linewidth": 0.9 * font / FONT},
        # A name may hold signs of the language that formulas are written in.
        parse_math=False,
        zorder=2,
        gid=name,
    )


def draw_legend(ax: Any, kinds: Sequence[tuple[str, Mapping[str, Any]]], lines: Sequence[Any]) -> None:
    """Say below the axes what boxes and lines stand for."""
    from matplotlib.lines import Line2D

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
    ax.legend(
        handles=[*marks, *lines],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(marks) + len(lines),
        frameon=False,
        fontsize=FONT,
        borderaxespad=0.3,
    )
