"""Figures described once, as immutable values: marks in the units of the data, axes, and the numbers behind them.

Two renderers draw them, `eigentree.markup.figures` on pages and `eigentree.viz.matplotlib_renderer` on axes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from eigentree.markup.html import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from eigentree.arrays import Floats, Integers

__all__ = [
    "MOST_LISTED",
    "MOST_SPECTRA",
    "XY",
    "Axis",
    "BondSpectrum",
    "CellGrid",
    "Chart",
    "Curve",
    "Dots",
    "Line",
    "Mark",
    "NumberTable",
    "TextBox",
    "counted",
    "learning_charts",
    "left_out",
    "linear_axis",
    "shown_name",
    "spectra_chart",
]

MOST_SPECTRA = 24
"""Spectra that are drawn unless the user says how many."""

SMALLEST = 1e-4
"""Singular values below this share of the largest are drawn at the edge."""

MOST_LISTED = 200
"""Most rows of the table behind a figure."""

XY: TypeAlias = tuple[float, float]


class NumberTable(NamedTuple):
    """The table behind a figure; `words` are the columns that hold no numbers."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    words: tuple[int, ...] = (0,)


class Axis(NamedTuple):
    """An axis from `low` to `high` (low may be the larger), with a grid at its ticks.

    An asinh scale is about linear up to `near`.
    """

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    scale: Literal["linear", "log", "asinh"] = "linear"
    near: float = 1.0
    grid: bool = True

    def share(self, value: float) -> float:
        """Return where a value stands between the ends of the axis, from 0 to 1."""
        low, high, at = map(self._scaled, (self.low, self.high, value))
        return (at - low) / (high - low)

    def _scaled(self, value: float) -> float:
        if self.scale == "linear":
            return value
        return math.log10(value) if self.scale == "log" else math.asinh(value / self.near)


class Line(NamedTuple):
    """A line through points; a name stands in the legend, a key is the id of what is drawn."""

    points: tuple[XY, ...]
    role: str = "accent"
    name: str = ""
    dashed: bool = False
    width: float = 1.5
    key: str = ""


class Dots(NamedTuple):
    """Points by themselves, with one of matplotlib's markers."""

    points: tuple[XY, ...]
    role: str = "accent"
    name: str = ""
    filled: bool = True
    marker: str = "o"
    key: str = ""


class CellGrid(NamedTuple):
    """A table of cells, row below row: probabilities, or states (with their names; -1 is no cell).

    `texts`, by row and column, stand in some cells in place of their probabilities, and `ends` are of lines below
    these, for intervals: 0 is the left of a cell, 1 its right.
    """

    values: Floats | Integers
    states: tuple[str, ...] = ()
    texts: Mapping[tuple[int, int], str] = MappingProxyType({})
    ends: Mapping[tuple[int, int], tuple[float, float]] = MappingProxyType({})


Mark: TypeAlias = Line | Dots | CellGrid


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure with axes; `description` is for those who do not see it, `size` is that of the area (pixels)."""

    title: str
    description: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    size: tuple[float, float]
    numbers: NumberTable | None = None


class TextBox(NamedTuple):
    """A text in a box, round where `role` is "hidden"; `y` is its middle."""

    key: str
    text: str
    role: str
    left: float
    right: float
    y: float


class Curve(NamedTuple):
    """Bezier curves of third degree, one after another, and a text whose middle is `at`."""

    key: str
    points: tuple[XY, ...]
    width: float
    dashed: bool
    arrow: bool
    text: str
    at: XY


class BondSpectrum(ABC):
    """The singular values of a bond, largest first (the one after the rank, if any, comes last), and their noise.

    `noise` is the largest that pure noise would have, `states` how many joint states the separator has, if known.
    """

    singular_values: Floats
    rank: int
    noise: float
    states: int | None

    @property
    @abstractmethod
    def label(self) -> str:
        """What figures call the bond."""

    @property
    @abstractmethod
    def row(self) -> tuple[str, str]:
        """What tables call the bond, and its views."""

    @property
    def smallest(self) -> float:
        """The singular value at the rank: what the solve divides by."""
        return float(self.singular_values[self.rank - 1]) if self.rank <= len(self.singular_values) else 0.0

    @property
    def margin(self) -> float:
        """The singular value at the rank in units of the noise; the constant has none."""
        return self.smallest / self.noise if self.rank > 1 and self.noise > 0 else math.inf

    @property
    def weak(self) -> bool:
        """Whether the smallest singular value cannot be distinguished from noise."""
        return self.margin < 1


def spectra_chart(spectra: Iterable[BondSpectrum], most: int = MOST_SPECTRA) -> Chart:
    """Return the singular values of separators, a row for each, those first whose rank is nearest to the noise."""
    ranked = sorted(spectra, key=lambda one: one.margin)
    shown = ranked[:most]
    largest = max((float(one.singular_values.max(initial=0.0)) for one in shown), default=1.0) or 1.0
    least = SMALLEST * largest
    marks: list[Mark] = []
    for row, one in enumerate(shown):
        if one.noise > 0:
            bar = ((one.noise, row - 0.32), (one.noise, row + 0.32))
            marks.append(Line(bar, "alert", "" if row else "noise", width=2.2, key=f"noise {row}"))
        for place, value in enumerate(one.singular_values.tolist()):
            kept, small = place < one.rank, value < least
            at = ((max(value, least), float(row)),)
            marks.append(Dots(at, filled=kept, marker="<" if small else "o", key=f"value {row} {place}"))
    marks += [Dots((), name="kept"), Dots((), name="first not kept", filled=False)]
    weak = sum(one.weak for one in ranked)
    rest = left_out(len(shown), len(ranked), "separator", "nearest to the noise")
    rows = [
        (one.label, one.rank, "–" if one.states is None else one.states, number(one.smallest), number(one.noise))
        for one in ranked
    ]
    header = ("separator", "rank", "states", "value at the rank", "noise")
    return Chart(
        title=f"{counted(len(ranked), 'separator')}, {weak or 'none'} with a rank that noise could explain",
        description="; ".join(
            f"{one.label}: rank {one.rank}, {number(one.smallest)} where noise reaches {number(one.noise)}"
            for one in shown
        ),
        x=Axis(
            "; ".join(filter(None, ["singular value", rest])),
            least * 0.7,
            largest * 1.6,
            _decades(least, largest),
            "log",
        ),
        y=Axis("", len(shown) - 0.4, -0.6, tuple((row, _with_rank(one)) for row, one in enumerate(shown))),
        marks=tuple(marks),
        size=(360.0, 24.0 * len(shown) + 12),
        numbers=NumberTable("Separators, those nearest to the noise first", header, tuple(rows)),
    )


def _with_rank(one: BondSpectrum) -> str:
    return f"{shown_name(one.label)}: rank {one.rank}" + ("" if one.states is None else f" of {one.states}")


def learning_charts(history: Sequence[float], validation: Sequence[float], unit: str, step: str) -> list[Chart]:
    """Return the objective after each iteration (or pass) and, where there are some, that of validation rows."""
    charts: list[Chart] = []
    for values, what, role in (
        (history, f"log-likelihood of all {unit}s", "accent"),
        (validation, f"mean log probability of validation {unit}s", "hidden-line"),
    ):
        known = tuple((float(place), float(value)) for place, value in enumerate(values) if math.isfinite(value))
        if not known:
            continue
        y = linear_axis(what, [value for _, value in known])
        name = "validation data (right)" if charts else "training data"
        marks: list[Mark] = [Line(known, role, name, dashed=bool(charts))]
        if charts:
            best = max(known, key=lambda point: point[1])[0]
            marks.append(Line(((best, y.low), (best, y.high)), "edge", dashed=True, width=1.0))
        if len(known) == 1:
            marks.append(Dots(known, role))
        steps = max(len(values) - 1, 1)
        # The first iterations gain most; so that later ones are seen too, they are shown by their logarithm.
        ticks = [0, *(tick for power in range(9) for tick in (10**power, 3 * 10**power) if tick <= steps)]
        x = Axis(step, 0.0, steps * 1.05, tuple((tick, f"{tick:,}") for tick in ticks), "asinh")
        rows = [(place, number(value, 8)) for place, value in enumerate(values)]
        charts.append(
            Chart(
                what,
                f"From {number(values[0], 6)} to {number(values[-1], 6)} in {len(values)} values.",
                x,
                y,
                tuple(marks),
                (280.0, 150.0),
                NumberTable(what.capitalize(), (step, what), tuple(rows), ()),
            )
        )
    return charts


def linear_axis(label: str, values: Iterable[float], about: int = 4, grid: bool = True) -> Axis:
    """Return an axis that reaches from one round number to another, around all values."""
    known = list(values)
    low, high = min(known), max(known)
    # What differs by rounding is one number.
    if not high - low > 1e-9 * max(abs(low), 1.0):
        high = low + (abs(low) * 0.01 or 1.0)
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(step * size for step in (1, 2, 2.5, 5, 10) if step * size >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (f"{step:e}".startswith("2.5"))
    places = [round(place * step, 12) for place in range(first, last + 1)]
    ticks = tuple((at, f"{at:,.{min(digits, 8)}f}".replace("-", "−")) for at in places)
    return Axis(label, places[0], places[-1], ticks, grid=grid)


def _decades(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Return the powers of ten from one number to another, as ticks."""
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return tuple((10.0**power, f"{10.0**power:g}" if -4 <= power <= 3 else f"1e{power}") for power in powers)


def shown_name(name: object, longest: int = 40) -> str:
    """Return a name on one line, shortened where it is long."""
    line = " ".join(str(name).split()) or repr(name)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def counted(count: int, what: str, several: str = "") -> str:
    """Return how many there are of something; `several` is the plural where that is not `what` with an s."""
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {several or what + 's'}"


def left_out(shown: int, there: int, what: str, which: str) -> str:
    """Return a sentence on how many are left out; empty where all are shown.

    Examples
    --------
    >>> left_out(8, 17, "column", "most informative")
    'the 8 most informative of 17 columns; 9 are left out'
    """
    if shown >= there:
        return ""
    rest = there - shown
    return f"the {shown} {which} of {counted(there, what)}; {rest} {'is' if rest == 1 else 'are'} left out"
