"""Cells as they are written in a file of text, and what they stand for.

A file of text has no types. What a column holds is known once all of it was seen, as `pandas.read_csv` has it of a
whole file: whole numbers where every cell is one, else numbers, else truth values, else text. A block of a file is
never asked alone, since its numbers may be text further on.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.cells import Factored, Label, arrow_dictionary
from eigentree.data.tables.labels import Labels
from eigentree.data.tables.table import Table, table_of
from eigentree.validation import MOST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.data.tables.cells import Cells
    from eigentree.data.tables.labels import Meaning

__all__ = ["MISSING_MARKS", "TextTable", "Written", "WrittenTable", "read_as", "typed_texts"]

MISSING_MARKS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""What a missing cell is written as: those that pandas takes for it."""

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(
    r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*|\s*[+-]?(inf|infinity)\s*", re.IGNORECASE
)
_TRUTHS = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}


class Written(Factored):
    """A column of a file of text: its labels are what is written there."""


@dataclass(eq=False)
class WrittenTable(Table):
    """Rows of a file of text, in an Arrow table of dictionaries of strings."""

    arrow: Any

    def __post_init__(self) -> None:
        self.container = "pyarrow"
        self.count, self.width = self.arrow.shape
        self.names = tuple(self.arrow.column_names)

    def column(self, place: int, name: str) -> Cells:
        """Return the cells of a column, as they are written."""
        places, texts = arrow_dictionary(self.arrow.column(place))
        return Written(places, tuple(texts))

    def cells(self, place: int) -> list[Any]:
        """Return the cells of a column as they are written, None for a missing one."""
        found: list[Any] = self.arrow.column(place).to_pylist()
        return found


@dataclass(eq=False)
class TextTable(Table):
    """Rows in an Arrow table, some columns of which are text that was read as dictionaries, for speed alone."""

    arrow: Any
    texts: frozenset[str]

    def __post_init__(self) -> None:
        self.container = "pyarrow"
        self.count, self.width = self.arrow.shape
        self.names = tuple(self.arrow.column_names)

    def column(self, place: int, name: str) -> Cells:
        """Return the cells of a column; text has the labels that occur."""
        if self.arrow.column_names[place] not in self.texts:
            return self._frame.column(place, name)
        places, texts = arrow_dictionary(self.arrow.column(place))
        came = np.bincount(places + 1, minlength=len(texts) + 1)[1:] > 0
        if came.all():
            return Factored(places, tuple(texts))
        moved = np.append(np.cumsum(came) - 1, -1)
        return Factored(moved[places], tuple(text for text, there in zip(texts, came, strict=True) if there))

    def cells(self, place: int) -> list[Any]:
        """Return the cells of a column, None for a missing one."""
        found: list[Any] = self.arrow.column(place).to_pylist()
        return found

    def holds_numbers(self, place: int) -> bool:
        """Return whether a column is one of numbers by its type."""
        return self._frame.holds_numbers(place)

    @cached_property
    def _frame(self) -> Table:
        return table_of(self.arrow, least=0)

    def plain(self) -> Any:
        """Return the rows as an Arrow table in which text is text."""
        import pyarrow

        types = [
            pyarrow.field(field.name, field.type.value_type) if field.name in self.texts else field
            for field in self.arrow.schema
        ]
        return self.arrow.cast(pyarrow.schema(types))


def typed_texts(texts: Sequence[str]) -> NDArray[Any] | None:
    """Return what different cells of a column stand for: integers, floats or truth values; None where it is text.

    Examples
    --------
    >>> typed_texts(["1", "07"]), typed_texts(["1", "0.5"]), typed_texts(["1", "a"])
    (array([1, 7]), array([1. , 0.5]), None)
    """
    read = [_read(text) for text in texts]
    kinds = {type(value) for value in read}
    if kinds == {int}:
        return np.array(read, np.int64)
    if kinds and kinds <= {int, float}:
        return np.array(read, np.float64)
    return np.array(read, np.bool_) if kinds == {bool} else None


def _read(text: str) -> Label:
    """Return the number or the truth value that a text is; the text itself where it is none."""
    if _WHOLE.fullmatch(text) and len(text) < 40 and -(2**63) <= int(text) < 2**63:
        return int(text)
    if _NUMBER.fullmatch(text) and not _WHOLE.fullmatch(text):
        return float(text)
    return _TRUTHS.get(text, text)


def read_as(cells: Written, meaning: Meaning | None) -> Cells:
    """Return written cells as cells of a column whose states have a meaning: its labels, numbers, or codes."""
    labels: list[Label] = list(cells.labels)
    if isinstance(meaning, Labels) and any(isinstance(value, str) for value in meaning.values):
        known = set(meaning.values)
        read = [_read(str(text)) for text in labels]
        # Of labels that were given in a mix, a number is one where the text that it is written as is none.
        chosen = [
            cell if text not in known and cell in known else text for text, cell in zip(labels, read, strict=True)
        ]
        return Factored(cells.places, tuple(chosen))
    labels = [_read(str(text)) for text in labels]
    kinds = {type(label) for label in labels}
    if kinds <= {int, float}:
        holes = bool((cells.places < 0).any())
        exact = float in kinds or all(abs(label) <= MOST_WHOLE for label in labels)  # type: ignore[arg-type]
        if not holes and kinds == {int}:
            return np.array(labels, np.int64)[cells.places]
        if exact:
            return np.array([*labels, math.nan], np.float64)[cells.places]
    if kinds == {bool}:
        truths = np.array([*(int(label) for label in labels), -1], np.int64)
        return Factored(truths[cells.places], (False, True))
    # Beside text, -1 marks a missing cell.
    absent = np.array([label == -1 and str in kinds for label in labels] + [True])
    return Factored(np.where(absent[cells.places], -1, cells.places), tuple(labels))
