"""The renderer of `eigentree.plot`: figures on matplotlib's axes; matplotlib is loaded when something is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import EigentreeError, ParameterError, quoted
from eigentree.markup.charts import CellGrid, Dots, Line
from eigentree.markup.style import PALETTE, state_colours
from eigentree.viz.diagrams import ROW, laid_out_diagram, placed

if TYPE_CHECKING:
    from eigentree.markup.charts import Axis, Chart, Curve, TextBox
    from eigentree.viz.diagrams import Diagram

__all__ = ["FONT", "checked_axes", "draw_chart", "draw_diagram"]

FONT, LARGEST_FONT = 8.0, 10.0
"""Points of a letter where there is room, and at most."""

LARGEST_FIGURE = 40.0
"""Most inches of a figure of our own, either way; beyond, letters become smaller."""

COLOURS = {role: shades[0] for role, shades in PALETTE.items()} | {"paper": "#ffffff"}
PIXELS = 62.0
"""Pixels of a page that are an inch."""

DARK = 0.55
"""From this probability on, numbers are white."""

BOXES = {"hidden": "round,pad=0.3,rounding_size=0.9", "column": "square,pad=0.3"}


def checked_axes(ax: Any) -> Any:
    """Return what a figure is to be drawn on: axes, or None for axes of its own; else raise `ParameterError`."""
    if ax is not None and not hasattr(ax, "set_axis_off"):
        raise ParameterError(f"ax is one of matplotlib's Axes, not {quoted(ax)}")
    return ax


def _figure(width: float, height: float, **more: Any) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EigentreeError("et.plot needs matplotlib: pip install 'eigentree[plots]'") from None
    return Figure(figsize=(width, height), **more)


def draw_chart(chart: Chart, ax: Any = None) -> Any:
    """Return axes with a chart, those that are given or new ones."""
    if checked_axes(ax) is None:
        left = max((len(text) for _, text in chart.y.ticks), default=0) * 0.07
        width, height = (pixels / PIXELS for pixels in chart.size)
        ax = _figure(width + left + 0.9, height + 1.0, layout="constrained").subplots()
    for mark in chart.marks:
        if isinstance(mark, Line | Dots):
            _draw_points(ax, mark)
        else:
            _draw_cells(ax, mark)
    for which, axis in (("x", chart.x), ("y", chart.y)):
        _set_axis(ax, which, axis)
    ax.set_axisbelow(True)
    ax.set_title(chart.title, fontsize=FONT + 1, parse_math=False, wrap=True)
    if names := ax.get_legend_handles_labels()[1]:
        # Many stand beside the axes, where they hide nothing.
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if len(names) > 3 or ax.images else {}
        ax.legend(fontsize=FONT - 1, frameon=not beside, **beside)
    return ax


def _draw_points(ax: Any, mark: Line | Dots) -> None:
    x, y = zip(*mark.points, strict=True) if mark.points else ((), ())
    colour = COLOURS[mark.role]
    style: dict[str, Any] = {"color": colour, "gid": mark.key or None}
    if mark.name:
        style["label"] = mark.name
    if isinstance(mark, Line):
        ax.plot(x, y, linewidth=mark.width, linestyle="--" if mark.dashed else "-", **style)
    else:
        face = colour if mark.filled else "white"
        ax.plot(x, y, mark.marker, linestyle="", markersize=5, markerfacecolor=face, zorder=3, **style)


def _draw_cells(ax: Any, mark: CellGrid) -> None:
    if not mark.states:
        ax.pcolormesh(mark.values, cmap="Blues", vmin=0.0, vmax=1.0, edgecolors="white", linewidth=0.8)
        for (row, column), share in np.ndenumerate(mark.values):
            if np.isfinite(share):
                # Digits that say nothing are left out.
                shown = "1" if share >= 0.995 else f"{share:.2f}".lstrip("0") if share >= 0.005 else "0"
                shown = mark.texts.get((row, column), shown)
                colour = "white" if share > DARK else COLOURS["ink"]
                place = {"ha": "center", "va": "center", "fontsize": FONT - 1}
                ends = mark.ends.get((row, column))
                ax.text(column + 0.5, row + (0.4 if ends else 0.5), shown, color=colour, **place)
                if ends:
                    inside = [column + 0.03 + 0.94 * end for end in ends]
                    ax.plot(inside, [row + 0.85] * 2, color=colour, linewidth=1.2)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        return
    from matplotlib.colors import ListedColormap

    colours = state_colours(len(mark.states))
    masked, (rows, steps) = np.ma.masked_less(mark.values, 0), mark.values.shape
    limits = {"vmin": -0.5, "vmax": len(colours) - 0.5, "extent": (0, steps, rows, 0)}
    ax.imshow(masked, aspect="auto", interpolation="nearest", cmap=ListedColormap(colours), **limits)
    for colour, name in zip(colours, mark.states, strict=True):
        ax.plot([], [], "s", markersize=8, color=colour, label=name)


def _set_axis(ax: Any, which: str, axis: Axis) -> None:
    near = {"linear_width": axis.near} if axis.scale == "asinh" else {}
    getattr(ax, f"set_{which}scale")(axis.scale, **near)
    getattr(ax, f"set_{which}lim")(axis.low, axis.high)
    places, texts = zip(*axis.ticks, strict=True) if axis.ticks else ((), ())
    getattr(ax, f"set_{which}ticks")(places, texts, fontsize=FONT, parse_math=False)
    getattr(ax, f"set_{which}ticks")([], minor=True)
    getattr(ax, f"set_{which}label")(axis.label, fontsize=FONT)
    if axis.grid:
        ax.grid(axis=which, color=COLOURS["rule"], linewidth=0.6)


def draw_diagram(diagram: Diagram, ax: Any = None) -> Any:
    """Return axes with a diagram; letters are made as small as their room needs."""
    checked_axes(ax)
    layout = laid_out_diagram(diagram, _text_width)
    boxes = layout.boxes.values()
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    rows = layout.rows * ROW
    if ax is None:
        # Axes of just this size, with room for a title above and a legend below.
        inner = min(max((right - left) * FONT, 320.0) / 72, LARGEST_FIGURE), min(rows * FONT / 72, LARGEST_FIGURE)
        width, height = inner[0] + 0.3, inner[1] + 0.9
        room = (0.15 / width, 0.5 / height, inner[0] / width, inner[1] / height)
        ax = _figure(width, height).add_axes(room)
    ax.set_title(diagram.title, fontsize=FONT + 1, parse_math=False, wrap=True)
    _draw_legend(ax, diagram)
    if (engine := ax.figure.get_layout_engine()) is not None:
        # What stands around the axes takes its room first, in the whole figure where this is a part of one.
        engine.execute(ax.figure.canvas.figure)
    extent = ax.get_window_extent()
    wide, high = (pixels * 72 / ax.figure.dpi for pixels in (extent.width, extent.height))
    scale = wide / (right - left), high / rows
    ax.set_xlim(left * scale[0], right * scale[0])
    ax.set_ylim(high, 0.0)
    ax.set_axis_off()
    font = min(LARGEST_FONT, *scale)
    shown, curves = placed(diagram, layout, _text_width, scale, font)
    for curve in curves:
        _draw_curve(ax, curve, font, "move" if diagram.ring else "edge")
    for box in shown:
        _draw_box(ax, box, font)
    return ax


def _text_width(text: str) -> float:
    """Return how wide a text is, as a share of the size of its letters."""
    try:
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path
    except ImportError:
        raise EigentreeError("et.plot needs matplotlib: pip install 'eigentree[plots]'") from None
    font = FontProperties(size=FONT)
    widths = [text_to_path.get_text_width_height_descent(line, font, False)[0] for line in text.split("\n")]
    return float(max(widths)) / FONT


def _draw_curve(ax: Any, curve: Curve, font: float, what: str) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    ax.add_patch(
        FancyArrowPatch(
            path=Path(curve.points, [Path.MOVETO, *([Path.CURVE4] * (len(curve.points) - 1))]),
            arrowstyle="-|>" if curve.arrow else "-",
            mutation_scale=font + 1.5 * curve.width,
            linewidth=curve.width,
            linestyle=(0, (3, 2)) if curve.dashed else "-",
            color=COLOURS["edge"],
            zorder=1,
            capstyle="butt",
            joinstyle="round",
            gid=f"{what} {curve.key}",
        )
    )
    if curve.text:
        ax.text(
            *curve.at,
            curve.text,
            fontsize=font * 0.875,
            ha="center",
            va="center_baseline",
            color=COLOURS["ink"],
            bbox={"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"},
            parse_math=False,
            zorder=1.5,
            gid=f"separator {curve.key}" if what == "edge" else None,
        )


def _draw_box(ax: Any, box: TextBox, font: float) -> None:
    # Near ends stand below each other to the point, whatever a screen makes of the letters.
    padding = 0.3 * font
    place, side = (box.left + padding, "left") if box.left >= 0 else (box.right - padding, "right")
    if box.left < 0 < box.right or "\n" in box.text:
        place, side = (box.left + box.right) / 2, "center"
    colours = {"facecolor": COLOURS[box.role], "edgecolor": COLOURS[f"{box.role}-line"]}
    ax.text(
        place,
        box.y,
        box.text,
        fontsize=font,
        ha=side,
        va="center" if "\n" in box.text else "center_baseline",
        bbox={"boxstyle": BOXES[box.role], "linewidth": 0.9 * font / FONT, **colours},
        # A name may hold signs of the language that formulas are written in.
        parse_math=False,
        zorder=2,
        gid=box.key,
    )


def _draw_legend(ax: Any, diagram: Diagram) -> None:
    """Say below the axes what boxes and lines stand for."""
    from matplotlib.lines import Line2D

    marks = []
    for name, what in diagram.legend:
        style: dict[str, Any] = {"color": COLOURS["edge"]}
        if isinstance(what, str):
            face, line = COLOURS[what], COLOURS[f"{what}-line"]
            style = {"linestyle": "", "marker": "s", "markersize": 8, "mfc": face, "mec": line}
        else:
            style["linewidth"] = 0.6 + 4.4 * what
        marks.append(Line2D([], [], label=name, **style))
    if any(edge.dashed for edge in diagram.edges):
        dashed: dict[str, Any] = {"color": COLOURS["edge"], "linestyle": (0, (3, 2)), "linewidth": 1.1}
        marks.append(Line2D([], [], label="no more than noise", **dashed))
    if marks:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": 0.3}
        ax.legend(handles=marks, ncols=len(marks), frameon=False, fontsize=FONT, **below)
