"""What all statistics have in common: those of two sets of rows add up to those of all rows, and subtract again.

Unweighted ones are whole numbers: however rows are ordered, split into batches or spread over machines, sums are
bit-identical, and so is every model that is learned from them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from eigentree.data.tables.weights import MOST_WEIGHT
from eigentree.errors import DataError, FileError, quoted, with_article
from eigentree.io.documents import unplain
from eigentree.io.stores import Writer, opened_store
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from eigentree.io.documents import Section
    from eigentree.io.stores import Reader

__all__ = [
    "COUNTED",
    "ROUNDING",
    "Additive",
    "StoredCounts",
    "read_stored",
    "require_added",
    "stored_content",
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


class StoredCounts(Additive):
    """Additive statistics that go into files, and come back bit by bit."""

    _what: ClassVar[str]
    """What messages call them."""

    @abstractmethod
    def _content(self, writer: Writer) -> dict[str, Any]:
        """Return the document, after putting the arrays into the file."""

    @classmethod
    @abstractmethod
    def _read(cls, reader: Reader, content: Any) -> Self:
        """Return what a document and the arrays of a file hold; raise `FileError` where they do not."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all into a file (safetensors), whole or not at all; `load` gives it back, bit by bit.

        Raises
        ------
        FileError
            When the file cannot be written; one that was there is as it was.
        """
        writer = Writer()
        writer.save(path, type(self).__name__, self._content(writer))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return what `save` wrote.

        Raises
        ------
        FileError
            When there is no such file, it is damaged or tampered with, or holds something else.
        """
        with opened_store(path) as reader:
            if reader.kind != cls.__name__:
                raise FileError(
                    f"it holds {with_article(reader.kind[:60])}, not {cls._what}; eigentree.load loads it"
                )
            return cls._read(reader, reader.content)


Kind = TypeVar("Kind", bound=StoredCounts)


def stored_content(writer: Writer, held: StoredCounts) -> dict[str, Any]:
    """Return the document of statistics, after putting their arrays into the file."""
    return held._content(writer)


def read_stored(kind: type[Kind], reader: Reader, content: Any) -> Kind:
    """Return what a document and the arrays of a file hold; raise `FileError` where they do not."""
    return kind._read(reader, content)
