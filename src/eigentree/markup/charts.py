"""Pictures of numbers as SVG: spectra, curves, intervals, calibration; with names for those who do not see them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from eigentree.markup.html import Html, element, number, with_error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Bin", "Interval", "curves", "intervals", "picture", "reliability", "spectrum", "text_width"]

WIDE = set("mwMW@%—")
NARROW = set("iIljtfr.,:;'|!()[] -")
LETTER = 6.7
"""Pixels of a usual letter of 12 pixels."""


class Interval(NamedTuple):
    """A number with its standard error."""

    name: str
    middle: float
    error: float


class Bin(NamedTuple):
    """Predictions of about the same probability.

    Attributes
    ----------
    low, high : float
        Between which their probabilities are.
    cells : int
        How many there are.
    predicted : float
        The mean of their probabilities.
    right : float
        The share that came true.
    error : float
        The standard error of that share (Agresti and Coull).
    """

    low: float
    high: float
    cells: int
    predicted: float
    right: float
    error: float


def text_width(text: str) -> float:
    """Return about how wide a text of 12 pixels is, rather too wide than too narrow."""
    return sum(
        LETTER
        * (
            1.5
            if letter in WIDE or ord(letter) > 0x2E7F
            else 0.6
            if letter in NARROW
            else 1.0 + 0.2 * letter.isupper()
        )
        for letter in text
    )


def picture(title: str, description: str, width: float, height: float, *shapes: Html) -> Html:
    """Return a picture with a name and a description, as large as it says."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *shapes,
        role="img",
        width=math.ceil(width),
        height=math.ceil(height),
        viewBox=f"0 0 {math.ceil(width)} {math.ceil(height)}",
    )


def spectrum(name: str, values: Sequence[float], rank: int, noise: float) -> Html:
    """Return singular values on a logarithmic scale: filled up to the rank, and what noise alone would reach.

    Parameters
    ----------
    name : str
    values : sequence of float
        Largest first; one that is no more than zero stands at the bottom.
    rank : int
        How many of them were kept.
    noise : float
    """
    width, height, left, right, top, bottom = 232.0, 132.0, 44.0, 10.0, 26.0, 18.0
    positive = [value for value in (*values, noise) if value > 0] or [1.0]
    # Rounding leaves values that say nothing but that they are zero.
    high, low = math.log10(max(positive)), max(math.log10(min(positive)), math.log10(max(positive)) - 6)
    low, high = low - 0.15, max(high, low + 0.3) + 0.1

    def y(value: float) -> float:
        share = (math.log10(value) - low) / (high - low) if value > 0 else 0.0
        return height - bottom - (height - top - bottom) * min(max(share, 0.0), 1.0)

    step = (width - left - right) / max(len(values), 1)
    shapes = [element("text", _cut(name, 30), x=0, y=12)]
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = y(10.0**power)
        shapes.append(element("line", class_="grid", x1=left, x2=width - right, y1=at, y2=at))
        shapes.append(element("text", _power(power), class_="m", x=left - 6, y=at + 4, text_anchor="end"))
    if noise > 0:
        at = y(noise)
        shapes.append(element("line", class_="dash", x1=left, x2=width - right, y1=at, y2=at))
    for place, value in enumerate(values):
        x = left + (place + 0.5) * step
        kept = place < rank
        size = min(4.5, max(step / 2.4, 1.6))
        shapes.append(element("circle", class_="dot" if kept else "ring", cx=x, cy=y(value), r=size))
    last = f"{len(values)}"
    shapes.append(element("text", "1", class_="m", x=left + step / 2, y=height - 2, text_anchor="middle"))
    if len(values) > 1:
        x = left + (len(values) - 0.5) * step
        shapes.append(element("text", last, class_="m", x=x, y=height - 2, text_anchor="middle"))
    told = ", ".join(number(value) for value in values[:8])
    description = f"Singular values {told}; rank {rank}; noise alone reaches {number(noise)}."
    return picture(f"Spectrum of {name}", description, width, height, *shapes)


def curves(title: str, series: Sequence[tuple[str, Sequence[float]]], across: str) -> Html:
    """Return one or two series of numbers as lines, step by step; what is not finite is left out."""
    width, height, left, right, top, bottom = 328.0, 200.0, 66.0, 10.0, 28.0, 34.0
    every = [value for _, values in series for value in values if math.isfinite(value)] or [0.0]
    ticks = _ticks(min(every), max(every), 4)
    low, high = min(ticks[0], *every), max(ticks[-1], *every)
    most = max(max(len(values) for _, values in series) - 1, 1)

    def x(place: float) -> float:
        return left + (width - left - right) * place / most

    def y(value: float) -> float:
        return height - bottom - (height - top - bottom) * (value - low) / (high - low)

    shapes: list[Html] = []
    for tick in ticks:
        shapes.append(element("line", class_="grid", x1=left, x2=width - right, y1=y(tick), y2=y(tick)))
        shapes.append(element("text", _told(tick, ticks), class_="m", x=left - 6, y=y(tick) + 4, text_anchor="end"))
    shapes += [
        element("text", f"{tick:,.0f}", class_="m", x=x(tick), y=height - 18, text_anchor="middle")
        for tick in _ticks(0, most, 4)
        if tick <= most and tick == int(tick)
    ]
    shapes.append(
        element("text", across, class_="m", x=(left + width - right) / 2, y=height - 3, text_anchor="middle")
    )
    for place, (name, values) in enumerate(series):
        known = [(x(step), y(value)) for step, value in enumerate(values) if math.isfinite(value)]
        shapes.append(element("path", class_="line second" if place else "line", d=_path(_thinned(known))))
        if len(known) == 1:
            shapes.append(element("circle", class_="dot", cx=known[0][0], cy=known[0][1], r=3.5))
        if len(series) > 1:
            begin = left + place * 130
            shapes.append(element("path", class_="line second" if place else "line", d=f"M{begin} 10h18"))
            shapes.append(element("text", name, x=begin + 24, y=14))
    told = "; ".join(
        f"{name} from {number(values[0], 6)} to {number(values[-1], 6)}" for name, values in series if len(values)
    )
    return picture(title, f"{told}, in {most} steps.", width, height, *shapes)


def intervals(title: str, rows: Sequence[Interval], across: str) -> Html:
    """Return numbers below each other, each with two standard errors to both sides, and where zero is."""
    # Those that are not finite have no place.
    ends = [one.middle + sign * 2 * one.error for one in rows for sign in (-1, 1)]
    ticks = _ticks(min([0.0, *filter(math.isfinite, ends)]), max([0.0, *filter(math.isfinite, ends)]), 4)
    width, row, top, right = 328.0, 44.0, 8.0, 18.0
    left = 18.0
    height = top + row * len(rows) + 38
    low, high = ticks[0], ticks[-1]

    def x(value: float) -> float:
        return left + (width - left - right) * (value - low) / (high - low)

    base = top + row * len(rows)
    shapes: list[Html] = []
    for tick in ticks:
        kind = "axis" if tick == 0 else "grid"
        shapes.append(element("line", class_=kind, x1=x(tick), x2=x(tick), y1=top, y2=base))
        shapes.append(element("text", _told(tick, ticks), class_="m", x=x(tick), y=base + 15, text_anchor="middle"))
    shapes.append(element("text", across, class_="m", x=width / 2, y=base + 33, text_anchor="middle"))
    for place, one in enumerate(rows):
        at = top + row * place + 30
        shapes.append(element("text", one.name, x=left, y=at - 13))
        if not math.isfinite(one.middle + one.error):
            continue
        begin, end = x(one.middle - 2 * one.error), x(one.middle + 2 * one.error)
        shapes.append(element("line", class_="line", x1=begin, x2=end, y1=at, y2=at))
        shapes.append(element("circle", class_="dot", cx=x(one.middle), cy=at, r=4.5))
    told = "; ".join(f"{one.name}: {with_error(one.middle, one.error)}" for one in rows)
    return picture(title, f"{told}.", width, height, *shapes)


def reliability(title: str, bins: Sequence[Bin]) -> Html:
    """Return how often predictions came true against how likely they were said to be, and how many there were."""
    width, side, left, top, low = 328.0, 250.0, 52.0, 12.0, 46.0
    height = top + side + low + 42

    def x(value: float) -> float:
        return left + side * value

    def y(value: float) -> float:
        return top + side * (1 - value)

    shapes: list[Html] = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes.append(element("line", class_="grid", x1=x(0), x2=x(1), y1=y(tick), y2=y(tick)))
        told = f"{tick:.0%}"
        shapes.append(element("text", told, class_="m", x=left - 6, y=y(tick) + 4, text_anchor="end"))
        shapes.append(element("text", told, class_="m", x=x(tick), y=height - 20, text_anchor="middle"))
    shapes.append(element("line", class_="axis", x1=x(0), x2=x(1), y1=y(0), y2=y(1), stroke_dasharray="2 4"))
    shapes.append(
        element(
            "text", "probability that was said", class_="m", x=left + side / 2, y=height - 3, text_anchor="middle"
        )
    )
    most = max([one.cells for one in bins], default=1)
    base = top + side + low
    for one in bins:
        tall = (low - 14) * one.cells / most
        begin, end = x(one.low) + 1, x(one.high) - 1
        shapes.append(element("rect", class_="bars", x=begin, y=base - tall, width=end - begin, height=tall))
        if one.cells:
            at = x(one.predicted)
            first, last = (min(max(one.right + sign * 2 * one.error, 0.0), 1.0) for sign in (-1, 1))
            shapes.append(element("line", class_="line", x1=at, x2=at, y1=y(first), y2=y(last)))
            shapes.append(element("circle", class_="dot", cx=at, cy=y(one.right), r=4.0))
    shapes.append(element("line", class_="axis", x1=x(0), x2=x(1), y1=base, y2=base))
    shapes.append(element("text", "cells", class_="m", x=left - 6, y=base - 2, text_anchor="end"))
    told = "; ".join(
        f"said {one.predicted:.0%}, true {one.right:.0%} of {one.cells:,}" for one in bins if one.cells
    )
    return picture(title, f"{told}.", width, height, *shapes)


def _cut(text: str, letters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= letters else f"{line[: letters - 1]}…"


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -4 <= power <= 3 else f"1e{power}"


def _ticks(low: float, high: float, about: int) -> list[float]:
    """Return round numbers that reach from one number to another."""
    # What only rounding tells apart is one number.
    if not high - low > 1e-9:
        high = low + (abs(low) * 0.01 or 1.0)
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(step * size for step in (1, 2, 2.5, 5, 10) if step * size >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def _told(tick: float, ticks: Sequence[float]) -> str:
    """Return a number with as many digits as tell it from its neighbours."""
    step = abs(ticks[1] - ticks[0]) if len(ticks) > 1 else 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (1 if f"{step:e}".startswith("2.5") else 0)
    told = f"{abs(tick):,.{min(digits, 8)}f}"
    return f"−{told}" if tick < 0 else told


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else "M0 0"


def _thinned(points: Sequence[tuple[float, float]], most: int = 400) -> Sequence[tuple[float, float]]:
    """Return a few hundred of many points, the first and the last among them: a screen shows no more."""
    if len(points) <= most:
        return points
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]
