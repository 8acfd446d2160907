"""The rows that a command reads, as its options say."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from eigentree.cli.arguments import PIPE, Reading, UsageError
from eigentree.cli.terminal_output import note
from eigentree.data.sequences.steps import Steps
from eigentree.data.streams.file_batches import FileStream, open_table
from eigentree.data.streams.file_batches import read_table as read_file
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.text_cells import FileTable
from eigentree.errors import DataError
from eigentree.io.byte_files import ENDINGS, named_format
from eigentree.io.text_files import TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["batches_of", "format_of", "hint_at_marks", "open_rows", "read_rows"]

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


def read_rows(path: str, reading: Reading) -> FileTable:
    """Return the rows of a file or of standard input."""
    return read_file(path, format_of(path, reading.format), _text(reading), reading.drop or ())


def open_rows(path: str, reading: Reading) -> FileTable | FileStream:
    """Return the rows of a file or of standard input: as a table, or of a large file as a stream."""
    options = asdict(_text(reading))
    return open_table(path, format_of(path, reading.format), drop=reading.drop or (), **options)


def batches_of(rows: FileTable | FileStream) -> "Iterator[FileTable]":
    """Yield rows: a table as it is, those of a stream batch by batch."""
    if isinstance(rows, FileTable):
        yield rows
        return
    empty = True
    for batch in rows.batches():
        empty = False
        yield batch.data
    if empty:
        raise DataError(f"{rows.source} has no rows; give at least one")


def hint_at_marks(rows: FileTable | FileStream | Steps, reading: Reading) -> None:
    """Note which labels look like marks of missing cells, where none was given; of a stream, in its first batch."""
    given: Any = rows.table if isinstance(rows, Steps) else rows
    if reading.missing is not None:
        return
    batch = next(batches_of(given))
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
