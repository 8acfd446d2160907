"""Cells as they are written in a file of text, and what they stand for.

A file of text has no types. What a column holds is known once all of it was seen, as `pandas.read_csv` has it of a
whole file: whole numbers where every cell is one, else numbers, else truth values, else text. A block of a file is
never asked alone, since its numbers may be text further on.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.cells import Categorical, Label
from eigentree.data.tables.labels import Labels
from eigentree.data.tables.table import ARRAY, ColumnTable, shown_columns
from eigentree.errors import DataError, what_there_is
from eigentree.validation import MOST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.data.tables.cells import Cells
    from eigentree.data.tables.labels import Meaning

__all__ = ["FileTable", "TextColumn", "read_as", "require_names", "typed_texts"]

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(
    r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*|\s*[+-]?(inf|infinity)\s*", re.IGNORECASE
)
_TRUTHS = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}


class TextColumn(Categorical):
    """A column of a file of text: its labels are what is written there."""


class FileTable(ColumnTable):
    """Rows of a file, whose name for messages is `source`."""

    names: tuple[str, ...]

    def __init__(
        self, names: Sequence[str], held: Sequence[Any], count: int, source: str, container: str = ARRAY
    ) -> None:
        super().__init__(names, held, count, container)
        self.source = source

    def take(self, rows: NDArray[Any]) -> FileTable:
        """Return some of the rows, by their numbers."""
        held = [
            replace(each, places=each.places[rows]) if isinstance(each, Categorical) else each.take(rows)
            for each in self.held
        ]
        return FileTable(self.names, held, len(rows), self.source, self.container)

    def only(self, names: Sequence[str]) -> FileTable:
        """Return some of the columns, in this order; raise `DataError` where one is not there."""
        require_names(names, self.names, self.source)
        held = [self.held[self.names.index(name)] for name in names]
        return FileTable(names, held, self.count, self.source, self.container)

    def dropping(self, names: Sequence[str]) -> FileTable:
        """Return all columns but some; raise `DataError` where one of these is not there, or none is left."""
        require_names(names, self.names, self.source)
        if len(set(names)) == self.width:
            raise DataError(f"{self.source} has no columns left")
        return self.only([name for name in self.names if name not in names])


def require_names(wanted: Sequence[str], names: Sequence[str], source: str) -> None:
    """Raise `DataError` unless all columns that are wanted are among those that there are."""
    if lacking := [name for name in wanted if name not in names]:
        raise DataError(f"{source} has no {shown_columns(lacking)}{what_there_is(lacking[0], names)}")


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


def read_as(cells: Cells, meaning: Meaning | None) -> Cells:
    """Return cells, those of text as those of a column whose states have a meaning: labels, numbers, or codes."""
    if not isinstance(cells, TextColumn):
        return cells
    labels: list[Label] = list(cells.labels)
    if isinstance(meaning, Labels) and any(isinstance(value, str) for value in meaning.values):
        known = set(meaning.values)
        read = [_read(str(text)) for text in labels]
        # Of labels that were given in a mix, a number is one where the text that it is written as is none.
        chosen = [
            cell if text not in known and cell in known else text for text, cell in zip(labels, read, strict=True)
        ]
        return Categorical(cells.places, tuple(chosen))
    labels = [_read(str(text)) for text in labels]
    kinds = {type(label) for label in labels}
    if kinds <= {int, float}:
        missing = bool((cells.places < 0).any())
        exact = float in kinds or all(abs(label) <= MOST_WHOLE for label in labels)  # type: ignore[arg-type]
        if not missing and kinds == {int}:
            return np.array(labels, np.int64)[cells.places]
        if exact:
            return np.array([*labels, math.nan], np.float64)[cells.places]
    if kinds == {bool}:
        truths = np.array([*(int(label) for label in labels), -1], np.int64)
        return Categorical(truths[cells.places], (False, True))
    # Beside text, -1 marks a missing cell.
    absent = np.array([label == -1 and str in kinds for label in labels] + [True])
    return Categorical(np.where(absent[cells.places], -1, cells.places), tuple(labels))
