"""Sequences that a command reads: rows that are steps, and a column that names the sequence of each."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.steps import SequenceForm, Steps
from eigentree.data.tables.text_cells import FileTable, require_names
from eigentree.errors import DataError

if TYPE_CHECKING:
    from eigentree.data.tables.columns import Columns

__all__ = ["NamedSequences"]

FORM = SequenceForm("lengths", flat=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedSequences(Steps):
    """The sequences of a file; results for their steps are in the order of its rows.

    Attributes
    ----------
    ids : list
        The names of the sequences, in the order in which they first occur.
    name : str
        The column that names the sequence of each row.
    whole : FileTable
        The rows with all of their columns.
    """

    ids: list[Any]
    name: str
    whole: FileTable

    @classmethod
    def of(cls, table: FileTable, name: str, columns: "Columns | None" = None) -> "NamedSequences":
        """Return the sequences that a column names; of the channels of a model, or of all other columns."""
        require_names([name], table.names, table.source)
        column = table.cells(table.names.index(name))
        if None in column:
            raise DataError(
                f"row {column.index(None)} of {table.source} has no sequence: its cell of {name!r} is missing"
            )
        number = {each: place for place, each in enumerate(dict.fromkeys(column))}
        groups = np.array([number[each] for each in column])
        channels = table.dropping([name]) if columns is None else table.only(columns.names)
        starts = np.concatenate([[0], np.cumsum(np.bincount(groups))])
        order = np.argsort(groups, kind="stable")
        return cls(channels, starts, FORM, order, ids=list(number), name=name, whole=table)

    @property
    def count(self) -> int:
        """Number of sequences."""
        return len(self.ids)

    @property
    def column(self) -> list[Any]:
        """The sequence of each row."""
        return self.whole.cells(self.whole.names.index(self.name))

    @property
    def source(self) -> str:
        """The name of the file, for messages."""
        found: str = self.table.source  # type: ignore[attr-defined]
        return found

    def take(self, numbers: Any) -> "NamedSequences":
        """Return some of the sequences, by their numbers."""
        assert self.starts is not None
        places = np.arange(self.table.count) if self.places is None else self.places
        rows = [places[self.starts[one] : self.starts[one + 1]] for one in numbers]
        table = self.table.take(np.concatenate(rows))  # type: ignore[attr-defined]
        starts = np.concatenate([[0], np.cumsum(list(map(len, rows)))])
        ids = [self.ids[one] for one in numbers]
        return NamedSequences(table, starts, FORM, ids=ids, name=self.name, whole=table)

    def without(self, names: list[str]) -> "NamedSequences":
        """Return the same sequences without some of their channels."""
        return replace(self, table=self.table.dropping(names))  # type: ignore[attr-defined]

    def labels(self, name: str, cells: Any, partly: bool = False) -> list[Any]:
        """Return the label of each sequence, the same at all of its steps; if `partly`, None without any."""
        assert self.starts is not None
        found: list[Any] = []
        for each, own in zip(self.ids, np.split(cells[self.places], self.starts[1:-1]), strict=True):
            labels = {label for label in own if label is not None}
            if len(labels) != 1 and not (partly and not labels):
                many = "several classes" if labels else "no class"
                raise DataError(f"the sequence {each!r} has {many} in {name!r}; each has one, in all of its rows")
            found += labels or [None]
        return found
