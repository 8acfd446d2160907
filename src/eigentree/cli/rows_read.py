"""The rows that a command reads, as its options say, and sequences whose steps are rows."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.cli.arguments import PIPE, Reading, UsageError
from eigentree.cli.output import note
from eigentree.data.sequences.steps import SequenceForm, Steps
from eigentree.data.streams.encoded_stream import weight_cells
from eigentree.data.streams.file_batches import FileStream, open_table
from eigentree.data.streams.file_batches import read_table as read_file
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.text_cells import FileTable, require_names
from eigentree.errors import DataError
from eigentree.io.byte_files import ENDINGS, named_format, require_there
from eigentree.io.text_files import TextOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.data.tables.columns import Columns

__all__ = ["NamedSequences", "format_of", "hint_at_marks", "open_rows", "read_rows", "row_weights"]

FORM = SequenceForm("lengths", flat=False)

LIKE_MARKS = ("?", "-", ".", "*", "--", "na")
"""What often marks a missing cell, though it may be a label."""


def format_of(path: str, given: str | None) -> str:
    """Return the format of a table: as the name of its file shows, as was given, or CSV in a pipe."""
    form = (given or "csv") if path == PIPE else named_format(path) or given
    if form is None:
        raise UsageError(
            f"the name {path!r} does not show a format: it ends with none of {ENDINGS}; say it, as by --format csv"
        )
    return form


def _format_read(path: str, reading: Reading) -> str:
    """Return the format of a file to read, which has to be there: a mistyped ending is a mistyped name."""
    # A pipe, or a mistyped option.
    if not path.startswith("-"):
        require_there(path)
    return format_of(path, reading.format)


def read_rows(path: str, reading: Reading) -> FileTable:
    """Return the rows of a file or of standard input."""
    return read_file(path, _format_read(path, reading), _text(reading), reading.drop or ())


def open_rows(path: str, reading: Reading) -> FileTable | FileStream:
    """Return the rows of a file or of standard input: as a table, or of a large file as a stream."""
    options = asdict(_text(reading))
    return open_table(path, _format_read(path, reading), drop=reading.drop or (), **options)


def row_weights(rows: Any, column: str) -> Any:
    """Return how often each row of a table counts, as a column says."""
    if not isinstance(rows, FileTable):
        raise UsageError("--weights are of rows, not of sequences; leave them out")
    require_names([column], rows.names, rows.source)
    return weight_cells(rows, column)


def hint_at_marks(rows: FileTable | FileStream | Steps, reading: Reading) -> None:
    """Note which labels look like marks of missing cells, where none was given; of a stream, in its first batch."""
    given: Any = rows.table if isinstance(rows, Steps) else rows
    if reading.missing is not None:
        return
    first = None if isinstance(given, FileTable) else next(given.batches(), None)
    if isinstance(given, FileStream) and first is None:
        raise DataError(f"{given.source} has no rows; give at least one")
    batch = given if first is None else first.data
    part = "" if batch is given else f" among its first {batch.count:,} rows"
    found: dict[str, list[tuple[int, str]]] = {}
    for place, name in enumerate(batch.names):
        column = batch.column(place, name)
        if not isinstance(column, Categorical):
            continue
        for mark in LIKE_MARKS:
            if mark in column.labels and (cells := int((column.places == column.labels.index(mark)).sum())):
                found.setdefault(mark, []).append((cells, name))
    for mark, columns in found.items():
        cells, name = max(columns, key=lambda each: each[0])
        more = len(columns) - 1
        others = f", as in {more} more column{'s' * (more > 1)}" if more else ""
        note(
            f"eigentree: note: column {name} has {cells} cell{'s' * (cells > 1)} {mark!r}{part}, taken as a label"
            f"{others}; --missing {mark!r} reads {'them' if cells > 1 or more else 'it'} as missing"
        )


def _text(reading: Reading) -> TextOptions:
    return TextOptions(
        delimiter=reading.delimiter,
        encoding=reading.encoding,
        decimal=reading.decimal,
        thousands=reading.thousands,
        missing=tuple(reading.missing or ()),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedSequences(Steps):
    """The sequences of a file, by the column `name`; results for their steps are in the order of its rows.

    `ids` are the sequences in the order in which they first occur, `whole` the rows with all of their columns.
    """

    ids: list[Any]
    name: str
    whole: FileTable

    @classmethod
    def of(
        cls, table: FileTable, name: str, columns: "Columns | None" = None, inputs: "Sequence[str]" = ()
    ) -> "NamedSequences":
        """Return the sequences that a column names, of the channels of a model or of all but the inputs."""
        require_names([name, *inputs], table.names, table.source)
        column = table.cells(table.names.index(name))
        if None in column:
            raise DataError(
                f"row {column.index(None)} of {table.source} has no sequence: its cell of {name!r} is missing"
            )
        number = {each: place for place, each in enumerate(dict.fromkeys(column))}
        groups = np.array([number[each] for each in column])
        channels = table.dropping([name, *inputs]) if columns is None else table.only(columns.names)
        about = table.only(inputs) if inputs else None
        starts = np.concatenate([[0], np.cumsum(np.bincount(groups))])
        order = np.argsort(groups, kind="stable")
        return cls(channels, starts, FORM, order, about, ids=list(number), name=name, whole=table)

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
        assert self.places is not None
        rows = [self.places[self.starts[one] : self.starts[one + 1]] for one in numbers]
        about = () if self.inputs is None else self.inputs.all_names
        return NamedSequences.of(self.whole.take(np.sort(np.concatenate(rows))), self.name, inputs=about)

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
