"""Files of rows that may be larger than memory: small ones as one table, large ones block by block."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from eigentree.cli.arguments import PIPE, Reading
from eigentree.cli.pipes import read_bytes, require_there
from eigentree.cli.table_io import Given, format_of, marks_of, narrowed, read_table, required, text_blocks
from eigentree.cli.terminal_output import note
from eigentree.data.streams.row_batches import Batch, Stream
from eigentree.data.tables.cells import Factored
from eigentree.data.tables.column_summary import Look
from eigentree.data.tables.table import ARRAY
from eigentree.data.tables.text_cells import Written
from eigentree.errors import DataError

__all__ = ["Blocks", "given_blocks", "given_rows", "hint_at_marks"]

LIKE_MARKS = ("?", "-", ".", "*", "--", "na")
"""What often marks a missing cell, though it may be a label."""

LARGE_BYTES = 2**23
"""From this size on, a file is read block by block."""

BLOCK_ROWS = 2**16
"""Rows of a block."""

BLOCK_BYTES = 2**22
"""Of a file of text that Arrow reads at a time."""


def given_rows(path: str, reading: Reading) -> "Given | Blocks":
    """Return the rows of a file or of standard input: as a table, or of a large file as a stream.

    Pipes, JSON lines, whose columns come as they like, and Parquet within another compression are read as a whole.
    """
    kind = format_of(path, reading.format)
    large = path != PIPE and os.path.isfile(path) and os.path.getsize(path) >= LARGE_BYTES
    if large and (kind in ("csv", "tsv") or (kind == "parquet" and _is_parquet(path))):
        return Blocks(path, kind, reading)
    return read_table(path, reading)


def given_blocks(path: str, reading: Reading) -> Iterator[Given]:
    """Yield the rows of a file or of standard input, all at once or, of a large file, some at a time."""
    rows = given_rows(path, reading)
    if isinstance(rows, Given):
        yield rows
        return
    yield from (batch.data for batch in rows.batches())


def hint_at_marks(rows: "Given | Blocks", reading: Reading) -> None:
    """Say which cells look like marks of missing ones, where rows are learned from and nobody said what marks them.

    Of a large file, this tells of its first block.
    """
    if reading.missing is not None:
        return
    block: Given = rows if isinstance(rows, Given) else next(rows.batches()).data
    part = "" if block is rows else f" among its first {block.count:,} rows"
    found: dict[str, list[tuple[int, str]]] = {}
    for place, name in enumerate(block.names):
        column = block.column(place, name)
        labels = column.labels if isinstance(column, Factored) else ()
        for mark in LIKE_MARKS:
            if mark in labels and (cells := int((column.places == labels.index(mark)).sum())):
                found.setdefault(mark, []).append((cells, name))
    for mark, columns in found.items():
        cells, name = max(columns, key=lambda each: each[0])
        more = len(columns) - 1
        others = f", as in {more} more column{'s' * (more > 1)}" if more else ""
        note(
            f"eigentree: note: column {name} has {cells} cell{'s' * (cells > 1)} {mark!r}{part}, taken as a label"
            f"{others}; --missing {mark!r} reads {'them' if cells > 1 or more else 'it'} as missing"
        )


class Blocks(Stream):
    """The rows of a file as a stream; every batch is a `Given`.

    Parameters
    ----------
    path : str
    kind : {"csv", "tsv", "parquet"}
    reading : Reading
    chosen : sequence of str, optional
        The columns that there are, by default all that are not dropped.
    """

    names: tuple[str, ...]

    def __init__(self, path: str, kind: str, reading: Reading, chosen: Sequence[str] | None = None) -> None:
        require_there(path)
        self.path, self.kind, self.reading, self.shown = path, kind, reading, repr(path)
        self._marks = marks_of(reading)
        if chosen is None:
            first = next(self._read(), None)
            if first is None:
                raise DataError(f"{self.shown} has no rows; give at least one")
            chosen = narrowed(first, reading).names
        self.names = tuple(chosen)
        self.told = Look.unknown(self.names, ARRAY)

    @property
    def count(self) -> int:
        """How many rows there are, once all were read."""
        assert self.rows is not None
        return self.rows

    def only(self, names: Sequence[str]) -> "Blocks":
        """Return the same rows with some of the columns; raise `DataError` where one is not there."""
        for name in names:
            required(name, self.names, self.shown)
        return Blocks(self.path, self.kind, self.reading, names)

    def batches(self, columns: Sequence[str] | None = None, skip: int = 0) -> Iterator[Batch]:
        """Yield the rows of the file, a block at a time."""
        first = 0
        for block in self._read():
            if not skip:
                yield Batch(block.only(self.names if columns is None else columns), self.shown, first)
            skip, first = max(skip - 1, 0), first + block.count
        self.rows = first

    def _read(self) -> Iterator[Given]:
        if self.kind == "parquet":
            return self._parquet()
        return self._text()

    def _parquet(self) -> Iterator[Given]:
        from eigentree.cli.table_io import given_of_arrow, reading_parquet

        with reading_parquet(self.shown) as parquet, parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(BLOCK_ROWS):
                if batch.num_rows:
                    yield given_of_arrow(batch, self.shown, self._marks)

    def _text(self) -> Iterator[Given]:
        """Yield blocks of text. Arrow reads it far faster; what it refuses we read, to say what is wrong."""
        done = 0
        if _arrow_reads(self.path):
            import pyarrow

            try:
                for block in self._text_by_arrow():
                    done += block.count
                    yield block
                return
            except (OSError, pyarrow.ArrowException):
                pass
        with read_bytes(self.path) as file:
            for block in text_blocks(file, self.shown, self._delimiter, self._marks, BLOCK_ROWS):
                here = min(done, block.count)
                done -= here
                if here < block.count:
                    yield block.after(here)

    @property
    def _delimiter(self) -> str:
        return "," if self.kind == "csv" else "\t"

    def _text_by_arrow(self) -> Iterator[Given]:
        import pyarrow
        from pyarrow import csv

        parsing = csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        sizes = csv.ReadOptions(block_size=BLOCK_BYTES)
        with csv.open_csv(self.path, sizes, parsing) as reader:
            names = reader.schema.names
        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        as_text = csv.ConvertOptions(column_types=dict.fromkeys(names, text), strings_can_be_null=False)
        if len(set(names)) < len(names) or not all(names):
            raise pyarrow.ArrowInvalid("we say what is wrong with such names")
        with csv.open_csv(self.path, sizes, parsing, as_text) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield Given(
                        tuple(names),
                        [_written(column, self._marks) for column in batch.columns],
                        batch.num_rows,
                        self.shown,
                    )


def _arrow_reads(path: str) -> bool:
    """Return whether Arrow is there, and quotes come in pairs: what follows a single one it takes for one cell."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    quotes = 0
    with read_bytes(path) as file:
        while piece := file.read(BLOCK_BYTES):
            quotes += piece.count(b'"')
    return quotes % 2 == 0


def _written(column: Any, marks: frozenset[str]) -> Written:
    """Return a column of text from Arrow, in which marks are missing cells."""
    import numpy as np

    texts = column.dictionary.to_pylist()
    kept = [text for text in texts if text not in marks]
    new = {text: place for place, text in enumerate(kept)}
    renumbered = np.array([*(new.get(text, -1) for text in texts), -1], np.int64)
    return Written(renumbered[column.indices.to_numpy()], tuple(kept))


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"
