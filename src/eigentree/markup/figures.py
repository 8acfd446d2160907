"""The renderer of notebooks and pages: charts and diagrams as SVG, with a caption and the numbers behind them."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

from eigentree.markup.charts import (
    MOST_LISTED,
    CellGrid,
    Dots,
    Line,
    learning_charts,
    spectra_chart,
)
from eigentree.markup.html import Html, behind, element, scrolling, table
from eigentree.markup.style import state_colours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.markup.charts import XY, BondSpectrum, Chart, Curve, NumberTable, TextBox

__all__ = [
    "FONT",
    "chart_figure",
    "chart_svg",
    "diagram_svg",
    "figure",
    "learning_figure",
    "note_list",
    "numbers_table",
    "spectra_figure",
    "text_width",
]

WIDE = set("mwMW@%—")
NARROW = set("iIljtfr.,:;'|!()[] -")
FONT, MARGIN = 12.0, 6.0

SMALLEST = 0.75
"""By how much pictures shrink at most where they are too wide."""

MARKERS = {
    "s": "M-1-1H1V1H-1Z",
    "^": "M0-1.2L1.1 .9H-1.1Z",
    "v": "M0 1.2L1.1-.9H-1.1Z",
    "<": "M-1.2 0L.9 1.1V-1.1Z",
    "D": "M0-1.3L1.3 0L0 1.3L-1.3 0Z",
}


def numbers_table(numbers: NumberTable) -> Html:
    """Return the first numbers behind a figure as a table, whose caption says how many there are."""
    more = f" (the first {MOST_LISTED} of {len(numbers.rows):,})" if len(numbers.rows) > MOST_LISTED else ""
    return table(numbers.caption + more, numbers.header, numbers.rows[:MOST_LISTED], numbers.words)


def figure(caption: object, *inner: object, numbers: Sequence[NumberTable | None] = ()) -> Html:
    """Return pictures with a caption, and tables of their numbers behind a click."""
    tables = [numbers_table(each) for each in numbers if each is not None and each.rows]
    return element(
        "figure",
        element("div", *inner, class_="pictures"),
        element("figcaption", caption),
        behind("The numbers", *tables) if tables else None,
    )


def chart_figure(caption: object, *charts: Chart) -> Html:
    """Return figures with axes beside each other."""
    pictures = [scrolling(chart_svg(chart), chart.title) for chart in charts]
    return figure(caption, *pictures, numbers=[chart.numbers for chart in charts])


def spectra_figure(spectra: Sequence[BondSpectrum]) -> Html:
    """Return the spectra of separators, those nearest to the noise first."""
    caption = (
        "Singular values of each separator, on a logarithmic scale: filled dots were kept, a ring is the first "
        "that was not. A dot left of the bar does not differ from noise."
    )
    return chart_figure(caption, spectra_chart(spectra))


def learning_figure(history: Sequence[float], validation: Sequence[float], unit: str) -> Html:
    """Return the objective after each iteration, and beside it the log probability of validation rows."""
    beside = f"; beside it the mean log probability of a validation {unit}" if len(validation) else ""
    caption = f"The objective of the EM run that was kept, in nats over all {unit}s{beside}."
    return chart_figure(caption, *learning_charts(history, validation, unit, "iteration"))


def note_list(notes: Sequence[str]) -> Html | None:
    """Return what a user should know, if there is anything."""
    return element("ul", *(element("li", note) for note in notes), class_="notes") if notes else None


def text_width(text: str) -> float:
    """Return about how wide a text is, as a share of the size of its letters, rather too wide than too narrow."""

    def share(letter: str) -> float:
        if letter in WIDE or ord(letter) > 0x2E7F:
            return 0.98
        return 0.41 if letter in NARROW else 0.63 + 0.1 * letter.isupper()

    return max(sum(map(share, line)) for line in text.split("\n"))


def chart_svg(chart: Chart) -> Html:
    """Return a figure with axes."""
    wide, high = chart.size
    left = max((text_width(text) * FONT for _, text in chart.y.ticks), default=0.0) + 10
    named = [mark for mark in chart.marks if isinstance(mark, Line | Dots) and mark.name]
    states = next((mark.states for mark in chart.marks if isinstance(mark, CellGrid)), ())
    top = 8.0 + 18 * bool(named or states) + 18 * bool(chart.y.label)
    # Texts below the axis are centred, and may reach beyond its ends.
    centred = [(0.5, chart.x.label), *((chart.x.share(x), text) for x, text in chart.x.ticks)]
    right = max(text_width(text) * FONT / 2 + (share - 1) * wide for share, text in centred) + 4
    left = max(left, text_width(chart.x.label) * FONT / 2 - wide / 2)

    def at(point: XY) -> XY:
        return left + wide * chart.x.share(point[0]), top + high * (1 - chart.y.share(point[1]))

    shapes, legend = _legend(named, states, left)
    for x, text in chart.x.ticks:
        place = at((x, chart.y.low))[0]
        if chart.x.grid:
            shapes.append(_line([(place, top), (place, top + high)], "rule", 1))
        below = text.split("\n")
        shapes += [_text(line, place, top + high + 15 * (k + 1), "middle", True) for k, line in enumerate(below)]
    for y, text in chart.y.ticks:
        place = at((chart.x.low, y))[1]
        if chart.y.grid:
            shapes.append(_line([(left, place), (left + wide, place)], "rule", 1))
        shapes.append(_text(text, left - 6, place + 4, "end", muted=True))
    for mark in chart.marks:
        if isinstance(mark, Line) and mark.points:
            shapes.append(_line([at(point) for point in mark.points], mark.role, mark.width, mark.dashed))
        elif isinstance(mark, Dots):
            shapes += [_dot(mark, *at(point)) for point in mark.points]
        elif isinstance(mark, CellGrid):
            shapes += _states(mark, left, top, wide, high)
    bottom = 18.0 + 15 * max((text.count("\n") for _, text in chart.x.ticks), default=0)
    shapes.append(_text(chart.x.label, left + wide / 2, top + high + bottom + 15, "middle", muted=True))
    if chart.y.label:
        shapes.append(_text(chart.y.label, 0, top - 10, "start", muted=True))
    least = max(text_width(chart.y.label) * FONT, left + wide + max(right, 10.0), legend)
    return _picture(chart.title, chart.description, least, top + high + bottom + 20, shapes)


def diagram_svg(title: str, description: str, boxes: Sequence[TextBox], curves: Sequence[Curve]) -> Html:
    """Return boxes with the curves between them; wide curves lie below narrow ones, and all below the boxes."""
    corners = [(end, box.y + sign * _height(box) / 2) for box in boxes for sign in (-1, 1) for end in box[3:5]]
    for curve in curves:
        half = text_width(curve.text) * FONT / 2 if curve.text else 0.0
        corners += [*curve.points, (curve.at[0] - half, curve.at[1] - 14), (curve.at[0] + half, curve.at[1] + 8)]
    x, y = min(at for at, _ in corners) - MARGIN, MARGIN - min(row for _, row in corners)
    width, height = max(at for at, _ in corners) - x + MARGIN, max(row for _, row in corners) + y + MARGIN
    shapes = [shape for curve in sorted(curves, key=lambda one: -one.width) for shape in _curve(curve, x, y)]
    # On a ring a text stands across its curve, on branches above the line.
    texts = [
        _text(one.text, one.at[0] - x, one.at[1] + y + (4 if one.arrow else -4), "middle")
        for one in curves
        if one.text
    ]
    frames = [_box(box, x, y) for box in boxes]
    return _picture(title, description, width, height, [*shapes, *texts, *frames])


def _picture(title: str, description: str, width: float, height: float, shapes: Sequence[Html]) -> Html:
    wide, high = math.ceil(width), math.ceil(height)
    named = element("title", title), element("desc", description)
    # On a phone pictures become smaller as far as letters stay readable, and scroll beyond that.
    least = f"min-width:{round(SMALLEST * wide)}px"
    box = f"0 0 {wide} {high}"
    return element("svg", *named, *shapes, role="img", width=wide, height=high, viewBox=box, style=least)


def _colour(role: str) -> str:
    return role if role.startswith("#") else f"var(--{role})"


def _text(text: str, x: float, y: float, anchor: str, muted: bool = False) -> Html:
    return element("text", text, class_="m" if muted else None, x=x, y=y, text_anchor=anchor)


def _line(points: Sequence[XY], role: str, width: float, dashed: bool = False) -> Html:
    # A screen shows no more than a few hundred points.
    some = points if len(points) <= 400 else [points[round(k * (len(points) - 1) / 399)] for k in range(400)]
    d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in some)
    return element(
        "path",
        d=d,
        stroke=_colour(role),
        stroke_width=width,
        fill="none",
        stroke_dasharray="5 3" if dashed else None,
    )


def _dot(mark: Dots, x: float, y: float) -> Html:
    style = {"fill": _colour(mark.role if mark.filled else "paper"), "stroke": _colour(mark.role)}
    if mark.marker == "o":
        return element("circle", cx=x, cy=y, r=4.0, stroke_width=1.5, **style)
    move = f"translate({x:.1f} {y:.1f}) scale(4)"
    return element("path", d=MARKERS[mark.marker], transform=move, stroke_width=0.4, **style)


def _legend(named: Sequence[Line | Dots], states: Sequence[str], left: float) -> tuple[list[Html], float]:
    """Return the legend, and where it ends."""
    shapes, x = [], left
    colours = state_colours(len(states))
    boxes = [Dots((), colour, name, marker="s") for colour, name in zip(colours, states, strict=True)]
    for mark in (*named, *boxes):
        if isinstance(mark, Line):
            shapes.append(_line([(x, 10), (x + 18, 10)], mark.role, mark.width, mark.dashed))
        else:
            shapes.append(_dot(mark, x + 9, 10))
        shapes.append(_text(mark.name, x + 24, 14, "start"))
        x += 40 + text_width(mark.name) * FONT
    return shapes, x


def _states(mark: CellGrid, left: float, top: float, wide: float, high: float) -> list[Html]:
    """Return the states of sequences as one path for each state, a stroke for each run."""
    row, step = high / max(len(mark.values), 1), wide / max(mark.values.shape[1], 1)
    runs: dict[int, list[str]] = {}
    for line, states in enumerate(mark.values.tolist()):
        place = 0
        for state, run in groupby(states):
            steps = len(list(run))
            at = f"M{left + place * step:.1f} {top + (line + 0.5) * row:.2f}h{steps * step:.1f}"
            runs.setdefault(int(state), []).append(at)
            place += steps
    colours = state_colours(len(mark.states))
    return [
        element("path", d="".join(strokes), stroke=colours[state], stroke_width=round(row + 0.1, 2))
        for state, strokes in sorted(runs.items())
        if state >= 0
    ]


def _height(box: TextBox) -> float:
    return 6 + 15.0 * (box.text.count("\n") + 1)


def _box(box: TextBox, x: float, y: float) -> Html:
    wide, high, middle = box.right - box.left, _height(box), (box.left + box.right) / 2 - x
    lines = box.text.split("\n")
    frame = element(
        "rect",
        x=box.left - x,
        y=box.y + y - high / 2,
        width=wide,
        height=high,
        rx=min(high, 21.0) / 2 if box.role == "hidden" else None,
        fill=_colour(box.role),
        stroke=_colour(f"{box.role}-line"),
        stroke_width=1.25,
    )
    first = box.y + y + 4 - 7.5 * (len(lines) - 1)
    texts = [_text(line, middle, first + 15 * place, "middle") for place, line in enumerate(lines)]
    return element("g", frame, *texts)


def _curve(curve: Curve, x: float, y: float) -> list[Html]:
    (x0, y0), *rest = [(at - x, row + y) for at, row in curve.points]
    d = f"M{x0:.1f} {y0:.1f}C" + " ".join(f"{at:.1f} {row:.1f}" for at, row in rest)
    dash = "4 3" if curve.dashed else None
    line = element(
        "path", d=d, stroke=_colour("edge"), stroke_width=round(curve.width, 2), fill="none", stroke_dasharray=dash
    )
    return [line, _head(rest[-2:], curve.width)] if curve.arrow else [line]


def _head(ends: Sequence[XY], width: float) -> Html:
    """Return the head of an arrow at the end of a curve."""
    (x0, y0), (x1, y1) = ends
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    along, across, size = (x1 - x0) / length, (y1 - y0) / length, 5 + width
    base, side = (x1 - along * size, y1 - across * size), (-across * size / 2, along * size / 2)
    corners = [(x1, y1), (base[0] + side[0], base[1] + side[1]), (base[0] - side[0], base[1] - side[1])]
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "Z", fill=_colour("edge"))
