"""Columns of numbers: what is known of one, and its cells as floats, which emissions read.

A column of numbers has one state, so that all that works with codes works with it: the code 0 says that a cell is
known. Dates and durations are numbers of days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from eigentree.data.tables.cells import Categorical, are_dates, date_array, is_missing
from eigentree.data.tables.labels import MISSING, UNKNOWN, Labels
from eigentree.errors import DataError, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.tables.cells import Cells, Label

__all__ = ["NUMBER_KINDS", "LabelCodes", "NumberKind", "Numbers", "Span", "iso_dates"]

NumberKind: TypeAlias = Literal["count", "continuous", "date"]
"""What numbers are: whole and not negative, any, or points of time and durations."""

NUMBER_KINDS = get_args(NumberKind)

MOST_DECIMALS = 9
"""Numbers with more digits after the point have no step: doubles hold few more, and arithmetic leaves such."""

MOST_ZEROS = 6
"""Zeros at the end of whole numbers that make a larger step, as in prices that are multiples of a thousand."""

GRAINS = {
    "D": 1,
    "h": 24,
    "m": 1_440,
    "s": 86_400,
    "ms": 86_400 * 10**3,
    "us": 86_400 * 10**6,
    "ns": 86_400 * 10**9,
}
"""How often a day has each unit of numpy in which dates are whole, from the coarsest to the finest."""

_ISO = re.compile(r"\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?Z?)?\s*", re.ASCII)


@dataclass(frozen=True)
class Span:
    """What the numbers of a column span; the spans of parts of the rows add up to that of all.

    Attributes
    ----------
    least, most : float
    above : float
        The least that is not -1, which marks a missing cell among counts.
    decimals : int
        How many digits after the point all have; less than 0 where all end with zeros. Of dates, the place in
        `GRAINS` of the unit in which all are whole.
    unit : str
        Of dates, numpy's type.
    """

    least: float
    most: float
    above: float
    decimals: int
    unit: str = ""

    @classmethod
    def of(cls, values: NDArray[Any]) -> Span:
        """Return the span of some known numbers or dates, at least one."""
        if are_dates(values):
            days = _days(values)
            ends = float(days.min()), float(days.max())
            return cls(*ends, ends[0], _grain(values), str(values.dtype))
        rest = values[values != -1]
        ends = float(values.min()), float(values.max())
        return cls(*ends, float(rest.min()) if len(rest) else np.inf, _decimals(values))

    def __add__(self, other: Span) -> Span | None:
        if bool(self.unit) != bool(other.unit) or self.unit[:1] != other.unit[:1]:
            return None
        unit = str(np.promote_types(self.unit, other.unit)) if self.unit else ""
        least, most = min(self.least, other.least), max(self.most, other.most)
        return Span(least, most, min(self.above, other.above), max(self.decimals, other.decimals), unit)

    @property
    def whole(self) -> bool:
        """Whether all are whole: whole numbers, or dates without a time of day."""
        return self.decimals <= 0

    @property
    def counts(self) -> bool:
        """Whether the numbers may be counts: whole, none negative, 0 or 1 among them; -1 marks a missing cell."""
        return self.whole and not self.unit and (self.least in (0, 1) or (self.least == -1 and self.above == 0))

    @property
    def step(self) -> float:
        """What all are multiples of, in days for dates; 0 where they are of nothing."""
        if self.unit:
            return 1 / list(GRAINS.values())[self.decimals]
        return 0.0 if self.decimals > MOST_DECIMALS else float(f"1e{-self.decimals}")


@dataclass(frozen=True)
class Numbers:
    """The numbers of a column.

    Attributes
    ----------
    kind : {"count", "continuous", "date"}
    whole : bool
        Whether all are whole numbers, or dates without a time of day.
    least, most : float
        The range of the cells that it was learned from; others may lie beyond.
    step : float
        What all are multiples of, the resolution of the column; 0 where they are of nothing. In days for dates.
    unit : str
        Of dates and durations numpy's type, as "datetime64[us]", in which they are handed out.

    Examples
    --------
    >>> ages = Numbers.of(Span.of(np.array([18, 21, 67])), "continuous")
    >>> ages.values(np.array([20.0, np.nan])), ages.restored(np.array([20.4]))
    (array([20., nan]), array([20]))
    """

    kind: NumberKind
    whole: bool
    least: float
    most: float
    step: float
    unit: str = ""

    labels: ClassVar[tuple[Label, ...]] = ()
    """States have no labels: there is one state."""

    declared: ClassVar[bool] = False

    @classmethod
    def of(cls, span: Span, kind: NumberKind | None = None) -> Numbers:
        """Return what is known of numbers by their span; of the kind that they look like, unless that is given."""
        found: NumberKind = kind or ("date" if span.unit else "count" if span.counts else "continuous")
        least = span.above if found == "count" else span.least
        return cls(found, span.whole, least, span.most, span.step, span.unit)

    @property
    def _letter(self) -> str:
        """The letter of numpy's type of dates or durations."""
        return np.dtype(self.unit).kind if self.unit else ""

    def values(self, cells: Cells) -> Floats:
        """Return cells as numbers, NaN where one is missing or is none; dates as days."""
        if isinstance(cells, Categorical):
            lookup = [np.nan if (number := self._number(label)) is None else number for label in cells.labels]
            values = np.array([*lookup, np.nan])[cells.places]
        elif are_dates(cells):
            values = _days(cells) if cells.dtype.kind == self._letter else np.full(len(cells), np.nan)
        elif self.unit:
            values = np.full(len(cells), np.nan)
        else:
            values = cells.astype(np.float64)
        if self.kind == "count":
            values[values < 0] = np.nan
        return values

    def encode(self, cells: Cells) -> Integers:
        """Return 0 for each number, `MISSING` where there is none, `UNKNOWN` for what cannot be one."""
        values = self.values(cells)
        codes = np.zeros(len(values), np.int64)
        absent = np.isnan(values)
        codes[absent] = np.where(self._marked_missing(cells)[absent], MISSING, UNKNOWN)
        return codes

    def _marked_missing(self, cells: Cells) -> Booleans:
        """Return where cells are missing, -1 among counts."""
        if isinstance(cells, Categorical):
            marks = [self.kind == "count" and label in (-1, "-1") for label in cells.labels]
            return np.array([*marks, True])[cells.places]
        absent: Booleans = cells != cells
        return absent | (cells == -1) if self.kind == "count" and not are_dates(cells) else absent

    def _number(self, cell: Any) -> float | None:
        """Return a number, or a date as days; None for anything else."""
        if not self.unit:
            finite = isinstance(cell, Real | np.bool_) and not is_missing(cell)
            try:
                return float(cell) if finite else None
            except OverflowError:
                return np.inf if cell > 0 else -np.inf
        if isinstance(cell, str):
            cells = iso_dates([cell]) if self._letter == "M" else None
            return None if cells is None else float(_days(cells)[0])
        cells = date_array([cell])
        return None if cells is None or cells.dtype.kind != self._letter else float(_days(cells)[0])

    def code(self, cell: Any) -> int:
        """Return 0 for a number that a cell can hold; `UNKNOWN` for anything else."""
        number = self._number(cell)
        possible = number is not None and np.isfinite(number) and (self.kind != "count" or number >= 0)
        return 0 if possible else UNKNOWN

    def number(self, value: Any) -> float:
        """Return a value that is given as a number, a date as days; raise `DataError` where it is none."""
        if self.code(value) == UNKNOWN:
            raise DataError(f"{quoted(value)} is none of the {self.described()}")
        number = self._number(value)
        assert number is not None
        return number

    def restored(self, values: Floats) -> NDArray[Any]:
        """Return numbers as the user has them: whole numbers where all are, none below 0 of counts, dates."""
        if self.unit:
            letters, per_day = next((name, size) for name, size in GRAINS.items() if 1 / size <= self.step)
            ticks = np.rint(values * per_day).astype(np.int64)
            return ticks.astype(f"{self._letter}8[{letters}]").astype(self.unit)
        if self.kind == "count":
            values = np.maximum(values, 0.0)
        # Not beyond 64 bits.
        return np.rint(values.clip(-(2.0**62), 2.0**62)).astype(np.int64) if self.whole else np.asarray(values)

    def written(self, dates: NDArray[Any], like: Sequence[Label]) -> list[str]:
        """Return dates as text in ISO form, as others are: with a time of day, a T before it, a Z after it."""
        others = "".join(map(str, like))
        whole = self.whole and ":" not in others
        texts = np.datetime_as_string(dates, "D" if whole else "s" if self.step >= 1 / GRAINS["s"] else "us")
        between, end = "T" if "T" in others else " ", "Z" if "Z" in others else ""
        return [text.replace("T", between) + end for text in texts.tolist()]

    def described(self) -> str:
        """Return what cells can be, for a message."""
        if not self.unit:
            return f"{'counts' if self.kind == 'count' else 'numbers'}, as from {self.least:.6g} to {self.most:.6g}"
        ends = self.restored(np.array([self.least, self.most]))
        least, most = ends.astype(f"{self._letter}8[{'D' if self.whole else 's'}]")
        return f"{'dates' if self._letter == 'M' else 'durations'}, as from {least} to {most}"


@dataclass(frozen=True)
class LabelCodes(Numbers):
    """Labels that are read as numbers, their codes: a covariate, of which a model has no distribution.

    Attributes
    ----------
    coded : Labels
    """

    coded: Labels = field(kw_only=True)

    @classmethod
    def of_labels(cls, labels: Labels) -> LabelCodes:
        """Return what is known of the codes of labels."""
        return cls("continuous", True, 0.0, len(labels.values) - 1.0, 1.0, coded=labels)

    def values(self, cells: Cells) -> Floats:
        """Return the codes of cells, NaN where one is missing or has none."""
        codes = self.coded.encode(cells)
        return np.where(codes < 0, np.nan, codes)

    def encode(self, cells: Cells) -> Integers:
        """Return 0 for each label, `MISSING` where there is none, `UNKNOWN` for what is none of them."""
        return np.minimum(self.coded.encode(cells), 0)

    def _number(self, cell: Any) -> float | None:
        code = self.coded.code(cell)
        return None if code == UNKNOWN else float(code)

    def restored(self, values: Floats) -> NDArray[Any]:
        """Return the labels of codes."""
        labels = np.empty(len(self.coded.values), object)
        labels[:] = self.coded.values
        return labels[np.rint(values).astype(np.int64)]

    def described(self) -> str:
        """Return what cells can be, for a message."""
        return self.coded.described()


def iso_dates(texts: Sequence[str]) -> NDArray[Any] | None:
    """Return the dates that are written in ISO form, with or without a time of day; None unless all texts are such.

    A Z, for universal time, stands behind all of them or none.

    Examples
    --------
    >>> iso_dates(["2024-02-28", "2024-02-29"]), iso_dates(["2024-02-30"])
    (array(['2024-02-28', '2024-02-29'], dtype='datetime64[D]'), None)
    """
    if not texts or not all(map(_ISO.fullmatch, texts)):
        return None
    texts = [text.strip() for text in texts]
    if len({text.endswith("Z") for text in texts}) > 1:
        return None
    texts = [text.removesuffix("Z") for text in texts]
    longest = max(map(len, texts))
    # As Python has them where it does, whose dates and microseconds are the usual ones.
    unit = "D" if longest == len("2024-02-28") else "us" if longest <= len("2024-02-28T00:00:00.000000") else "ns"
    try:
        return np.array(texts, f"M8[{unit}]")
    except ValueError:  # a month or a day that there is not
        return None


def _days(cells: NDArray[Any]) -> Floats:
    """Return dates and durations as days, NaN for a missing one."""
    name, size = np.datetime_data(cells.dtype)
    days = cells.astype(np.int64) * size / GRAINS[name]
    days[np.isnat(cells)] = np.nan
    return days


def _grain(cells: NDArray[Any]) -> int:
    """Return the place in `GRAINS` of the coarsest unit in which dates are whole."""
    name, size = np.datetime_data(cells.dtype)
    ticks = cells.astype(np.int64) * size
    places = list(GRAINS)
    for place, per_day in enumerate(GRAINS.values()):
        if not (ticks % (GRAINS[name] // per_day)).any():
            return place
        if places[place] == name:
            break
    return places.index(name)


def _decimals(values: NDArray[Any]) -> int:
    """Return how many digits after the point numbers have; less than 0 where all end with zeros."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return MOST_DECIMALS + 1
    decimals = 0
    if values.dtype.kind == "f":
        left = values
        while decimals <= MOST_DECIMALS and len(left := left[np.round(left, decimals) != left]):
            decimals += 1
        if decimals:
            return decimals
    while decimals > -MOST_ZEROS and not (values % 10 ** (1 - decimals)).any():
        decimals -= 1
    return decimals
