"""Cells of one column as users have them: numbers, or labels with a code each.

A column of numbers stays an array of integers or floats that the compiled loops read, NaN where a cell is missing.
Dates and durations stay numpy's, without a time zone: what has one is in UTC. Anything else is `Categorical`: each
different label once, and per row the place of its label.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eigentree.errors import DataError, quoted
from eigentree.validation import MOST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Integers

__all__ = [
    "Categorical",
    "Cells",
    "Label",
    "are_dates",
    "array_cells",
    "arrow_dictionary",
    "check_states",
    "date_array",
    "frame_cells",
    "is_marked_missing",
    "is_missing",
    "letter_cells",
    "object_array",
    "plain_label",
]

LETTERS = 0x110000
"""One more than the last code point of Unicode."""

Label: TypeAlias = str | int | float | bool
"""What a state may be called."""


@dataclass(frozen=True, eq=False)
class Categorical:
    """A column of labels.

    Attributes
    ----------
    places : array of int, shape (rows,)
        For each row the place of its label in `labels`; -1 for a missing cell.
    labels : tuple
        Different labels. All states of a column whose categories are declared, else those that occur.
    declared : bool
    ordered : bool
        Whether declared categories have an order, as those of an ordered pandas categorical have.
    """

    places: Integers
    labels: tuple[Label, ...]
    declared: bool = False
    ordered: bool = False


Cells: TypeAlias = "NDArray[Any] | Categorical"


def array_cells(column: NDArray[Any], name: str) -> Cells:
    """Return the cells of a one-dimensional array."""
    if isinstance(column, np.ma.MaskedArray):
        if np.ma.is_masked(column):
            numeric = column.dtype.kind in "biuf"
            filled = (
                column.data.copy() if are_dates(column) else column.data.astype(np.float64 if numeric else object)
            )
            filled[np.ma.getmaskarray(column)] = np.nan if numeric else None
            return array_cells(filled, name)
        column = column.data
    kind = column.dtype.kind
    if kind == "b":
        return column
    if kind in "iu":
        return column.astype(column.dtype.newbyteorder("="), copy=False)
    if kind == "f":
        return column if column.dtype in (np.float32, np.float64) else column.astype(np.float64)
    if kind == "U":
        labels, places = np.unique(column, return_inverse=True)
        return Categorical(places.astype(np.int64, copy=False), tuple(map(str, labels)))
    if kind in "OS":
        return _object_cells(column.tolist(), name)
    if kind in "mM" and (dates := _in_usual_units(column)) is not None:
        return dates
    complaint = "Complex data not supported: " if kind == "c" else ""
    words = {"m": "durations without a unit", "c": "complex numbers", "V": "records"}
    held = words.get(kind, f"{column.dtype} cells")
    raise DataError(f"{complaint}column {name!r} holds {held}, which have no states; {_AS_TEXT}")


_AS_TEXT = "turn them into text, categories or whole numbers first"

DATES = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)

UNITS = ("D", "h", "m", "s", "ms", "us", "ns")
"""Numpy's units that are parts of a day."""


def are_dates(cells: NDArray[Any]) -> bool:
    """Return whether an array holds dates or durations."""
    return cells.dtype.kind in "mM"


def _in_usual_units(cells: NDArray[Any]) -> NDArray[Any] | None:
    """Return dates or durations in one of `UNITS`; None where that cannot be."""
    letter, unit = cells.dtype.kind, np.datetime_data(cells.dtype)[0]
    if unit not in UNITS:
        if letter == "m" and unit in ("Y", "M", "generic"):
            return None
        unit = "D" if unit in ("Y", "M", "W", "generic") else "ns"
        return cells.astype(f"{letter}8[{unit}]")
    return cells.astype(cells.dtype.newbyteorder("="), copy=False)


def date_array(cells: Sequence[Any]) -> NDArray[Any] | None:
    """Return dates, or durations, as an array, with NaT where one is missing; None where any cell is another."""
    known = [cell for cell in cells if not is_missing(cell)]
    for letter, kinds in (("M", (datetime.date, np.datetime64)), ("m", (datetime.timedelta, np.timedelta64))):
        if not known or not all(isinstance(cell, kinds) for cell in known):
            continue
        zoned = any(getattr(cell, "tzinfo", None) is not None for cell in known)
        held = [None if is_missing(cell) else _in_utc(cell) if zoned else cell for cell in cells]
        times = any(isinstance(cell, datetime.datetime) for cell in known)
        unit = "us" if times or letter == "m" else "D"
        try:
            numpys = any(isinstance(cell, np.generic) for cell in known)
            return _in_usual_units(np.array(held, f"{letter}8" if numpys else f"{letter}8[{unit}]"))
        except (TypeError, ValueError, OverflowError):
            return None
    return None


def _in_utc(cell: Any) -> Any:
    return cell if getattr(cell, "tzinfo", None) is None else cell.astimezone(datetime.UTC).replace(tzinfo=None)


def check_states(cells: Cells, name: str) -> None:
    """Raise `DataError` where cells of a column whose states have labels are dates, which have none."""
    if isinstance(cells, np.ndarray) and are_dates(cells):
        held = "dates" if cells.dtype.kind == "M" else "durations"
        raise DataError(f"column {name!r} holds {held}, which have no states; {_AS_TEXT}")


def frame_cells(series: Any, name: str) -> Cells:
    """Return the cells of a column of a frame, a narwhals series."""
    import narwhals as nw

    dtype = series.dtype
    if dtype == nw.Boolean or dtype.is_integer() or dtype.is_float():
        missing = bool(series.is_null().any())
        if dtype in (nw.Int128, nw.UInt128) or (missing and dtype == nw.Boolean):
            return _object_cells(series.to_list(), name)
        if not missing:
            return array_cells(series.to_numpy(), name)
        if dtype.is_float():
            return array_cells(series.cast(nw.Float64).to_numpy(), name)
        numbers = series.fill_null(0).to_numpy()
        if numbers.max() > MOST_WHOLE or numbers.min() < -MOST_WHOLE:
            return _object_cells(series.to_list(), name)
        return np.where(series.is_null().to_numpy(), np.nan, numbers.astype(np.float64))
    if dtype in (nw.Categorical, nw.Enum, nw.String):
        return _factored_series(series, name)
    if dtype in (nw.Date, nw.Datetime, nw.Duration):
        if getattr(dtype, "time_zone", None) is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return array_cells(np.asarray(series.to_numpy()), name)
    if dtype in (nw.Object, nw.Unknown) or dtype.is_numeric():
        return _object_cells(series.to_list(), name)
    raise DataError(f"column {name!r} holds {type(dtype).__name__} cells, which have no states; {_AS_TEXT}")


def _factored_series(series: Any, name: str) -> Categorical:
    """Return a column of text or categories, read by the library that holds it."""
    import narwhals as nw

    native, library = series.to_native(), series.implementation
    if library.is_pandas_like() and hasattr(native, "cat"):
        categories = native.cat.categories.tolist()
        return _declared(native.cat.codes.to_numpy(), categories, bool(native.cat.ordered), name)
    if library.is_polars() and isinstance(series.dtype, nw.Enum):
        places = native.to_physical().cast(int).fill_null(-1).to_numpy()
        return _declared(places, list(series.dtype.categories), False, name)
    if library.is_polars():
        text = native.cast(str)
        ranks = text.rank("dense").cast(int).fill_null(0).to_numpy()
        return Categorical(ranks.astype(np.int64) - 1, tuple(text.drop_nulls().unique().sort().to_list()))
    if library.is_pyarrow():
        import pyarrow

        if pyarrow.types.is_dictionary(native.type):
            return _declared(*arrow_dictionary(native), bool(native.type.ordered), name)
        places, labels = arrow_dictionary(native.dictionary_encode())
        return Categorical(places, tuple(labels))
    if library.is_pandas_like():
        codes, labels = native.factorize()
        return _declared(codes, list(labels), False, name, declared=False)
    found = _object_cells(series.to_list(), name)
    assert isinstance(found, Categorical)
    return found


def arrow_dictionary(column: Any) -> tuple[Integers, list[Any]]:
    """Return where the cells of an Arrow column stand in its dictionary, -1 for a missing one, and that."""
    whole = column.unify_dictionaries() if column.num_chunks > 1 else column
    # Before there are any rows there may be no chunks either.
    chunks = whole.chunks
    values = chunks[0].dictionary.to_pylist() if chunks else []
    # Places may be unsigned, which -1 is not.
    places = [chunk.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False) for chunk in chunks]
    return places[0] if len(places) == 1 else np.concatenate([np.zeros(0, np.int64), *places]), values


def _declared(
    places: NDArray[Any], categories: Sequence[Any], ordered: bool, name: str, declared: bool = True
) -> Categorical:
    """Return a column whose library knows its categories already."""
    labels: dict[Label, int] = {}
    lookup = np.full(len(categories) + 1, -1)
    for place, category in enumerate(categories):
        if not is_missing(category):
            lookup[place] = labels.setdefault(plain_label(category, name, any_kind=declared), len(labels))
    # The last entry, which -1 finds, is for missing cells.
    return Categorical(lookup[np.asarray(places, np.int64)], tuple(labels), declared, ordered)


def _object_cells(cells: list[Any], name: str) -> Cells:
    """Return a column of any objects: truth values or numbers where all are, else labels.

    Among text the number -1 marks a missing cell, as it does among codes.
    """
    try:
        # Each different cell is looked at once.
        different = list(dict.fromkeys(cells))
    except TypeError:
        different = cells
    known = [cell for cell in different if not is_missing(cell)]
    if known and all(isinstance(cell, bool | np.bool_) for cell in known):
        truths = (-1 if is_missing(cell) else int(cell) for cell in cells)
        return Categorical(np.fromiter(truths, np.int64, len(cells)), (False, True))
    # Floats do not distinguish larger whole numbers from their neighbours.
    if all(
        isinstance(cell, Real) and (not isinstance(cell, Integral) or abs(int(cell)) <= MOST_WHOLE)
        for cell in known
    ):
        try:
            return np.array([math.nan if is_missing(cell) else float(cell) for cell in cells], np.float64)
        except OverflowError:
            raise DataError(f"column {name!r} holds a number beyond all floats, which is no state") from None
    if known and isinstance(known[0], DATES) and (dates := date_array(cells)) is not None:
        return dates
    among_text = any(isinstance(cell, str | bytes) for cell in known)
    labels: dict[Label, int] = {}
    places: dict[Any, int] = {}
    for cell in different:
        if is_missing(cell) or (among_text and isinstance(cell, Real) and cell == -1):
            places[cell] = -1
        else:
            places[cell] = labels.setdefault(plain_label(cell, name), len(labels))
    return Categorical(np.fromiter(map(places.__getitem__, cells), np.int64, len(cells)), tuple(labels))


def object_array(cells: Iterable[Any]) -> NDArray[Any]:
    """Return an array of one axis that holds any objects as they are, sequences too."""
    return np.array([*cells, None], object)[:-1]


def letter_cells(text: str) -> Categorical:
    """Return the letters of a text as cells."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    seen = np.zeros(LETTERS, np.bool_)
    seen[points] = True
    alphabet = np.flatnonzero(seen)
    lookup = np.zeros(LETTERS, np.min_scalar_type(-len(alphabet)))
    lookup[alphabet] = np.arange(len(alphabet))
    return Categorical(lookup[points], tuple(map(chr, alphabet)))


def is_marked_missing(cell: Any) -> bool:
    """Return whether an object stands for a missing cell: None, or one of those that pandas has for this."""
    # By name, since pandas need not be there; comparisons with its objects have no truth.
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def is_missing(cell: Any) -> bool:
    """Return whether an object stands for a missing cell: one that `is_marked_missing`, NaN, or numpy's NaT."""
    numbers = (float, np.floating, np.datetime64, np.timedelta64)
    return is_marked_missing(cell) or (isinstance(cell, numbers) and cell != cell)


def plain_label(cell: Any, name: str, any_kind: bool = False) -> Label:
    """Return a label as a plain string, whole number, number or truth value."""
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    if isinstance(cell, Integral):
        return _whole_label(int(cell), name)
    if isinstance(cell, Real):
        try:
            number = float(cell)
        except OverflowError:  # of a fraction
            raise DataError(f"column {name!r} holds {quoted(cell)}, a number beyond 64 bits; {_AS_TEXT}") from None
        return _whole_label(int(number), name) if number.is_integer() else number
    if any_kind:
        try:
            return str(cell)
        except Exception:  # what an object's own __str__ raises
            raise DataError(f"column {name!r} is given as {quoted(cell)}, which has no text") from None
    kind = type(cell).__name__
    raise DataError(f"column {name!r} holds {quoted(cell)}, a {kind}, which is no state; {_AS_TEXT}")


def _whole_label(number: int, name: str) -> int:
    if not -(2**63) <= number < 2**63:
        raise DataError(f"column {name!r} holds {quoted(number)}, a number beyond 64 bits; {_AS_TEXT}")
    return number
