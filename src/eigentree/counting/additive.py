"""What all statistics have in common: those of two sets of rows add up to those of all rows, and subtract again.

Unweighted ones are whole numbers: however rows are ordered, split into batches or spread over machines, sums are
bit-identical, and so is every model that is learned from them.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from eigentree.data.tables.columns import columns_content, columns_of
from eigentree.data.tables.weights import MOST_WEIGHT
from eigentree.errors import DataError, FileError, quoted
from eigentree.io.documents import unplain
from eigentree.validation import a_mapping, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from eigentree.data.tables.columns import Columns
    from eigentree.io.documents import Section

__all__ = [
    "COUNTED",
    "ROUNDING",
    "Additive",
    "GivenArrays",
    "columns_array",
    "require_added",
    "stored_rows",
    "total_rows",
]

COUNTED = ("I64", "F64")
"""How counts are stored: whole, or sums of weights."""

ROUNDING = 1e-6
"""How far below 0 the difference of fractional weights may end up."""


class Additive(ABC):
    """Statistics with `+` and `-`."""

    @abstractmethod
    def _combined(self, other: Self, sign: int) -> Self:
        """Return the sum (sign 1) or the difference (sign -1); raise `DataError` unless both count the same."""

    @our_arithmetic
    def _checked(self, other: object, sign: int) -> Self:
        if not isinstance(other, type(self)):
            name = type(self).__name__
            raise DataError(f"{name} add up with {name}, not with {quoted(other)}")
        return self._combined(other, sign)

    def __add__(self, other: Self) -> Self:
        return self._checked(other, 1)

    def __radd__(self, other: object) -> Self:
        return self._checked(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._checked(other, -1)


def total_rows(one: float, other: float, sign: int) -> float:
    """Return how many rows a sum (or difference) has; raise `DataError` where counts of so many wrap around."""
    rows = one + sign * other
    # No cell holds more than all rows, so none wraps around.
    if abs(rows) > MOST_WEIGHT:
        raise DataError(
            f"these counts add up to {rows:.3g} rows, more than the {MOST_WEIGHT:.3g} that can be counted"
        )
    return rows


def require_added(rest: Iterable[NDArray[Any]], here: float, taken: float) -> None:
    """Raise `DataError` where a difference holds negative counts: some rows were never added."""
    if here - taken < 0 or any(bool((counts < -ROUNDING).any()) for counts in rest):
        raise DataError(f"{taken:g} rows cannot be taken from these {here:g}: some of them were never added")


def stored_rows(entry: Section) -> float:
    """Return how many rows were counted, of a document."""
    rows = unplain(entry["rows"], entry.at("rows"))
    if type(rows) not in (int, float) or not 0 <= rows < math.inf:
        raise FileError("the number of rows is no number of at least 0")
    return float(rows) if type(rows) is float else int(rows)


@dataclass(frozen=True)
class GivenArrays:
    """Arrays by name, and what a user gives them for."""

    arrays: Mapping[str, Any]
    what: str

    @classmethod
    def of(cls, arrays: Any, what: str, name: str) -> Self:
        """Return arrays that are a mapping, of some class's `arrays()`."""
        return cls(a_mapping("arrays", arrays, f"those of {name}.arrays()", DataError), what)

    def error(self, why: str) -> DataError:
        """Return the error that says why these arrays are not what they should be."""
        return DataError(f"these arrays are no {self.what}: {why}")

    def one(self, name: str, types: str, axes: int = 1) -> NDArray[Any]:
        """Return a read-only copy of an array, once its numbers have one of some types and it has so many axes."""
        if name not in self.arrays:
            raise self.error(f"{name!r} is missing")
        array = self.arrays[name]
        if not isinstance(array, np.ndarray) or array.dtype.kind not in types or array.ndim != axes:
            raise self.error(f"{name!r} is not an array of the right type and shape")
        # What the caller does with the array later is no matter.
        copy = np.array(array)
        copy.flags.writeable = False
        return copy

    def columns(self) -> Columns:
        """Return the columns that were counted."""
        try:
            return columns_of(json.loads(bytes(self.one("columns", "u"))))
        except (FileError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            raise self.error("'columns' does not describe any") from None


def columns_array(columns: Columns) -> NDArray[Any]:
    """Return columns as an array of bytes, from which `GivenArrays.columns` makes the same."""
    return np.frombuffer(json.dumps(columns_content(columns)).encode(), np.uint8)
