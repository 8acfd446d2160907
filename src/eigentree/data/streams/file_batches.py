"""Files of rows: CSV, TSV, JSON lines and Parquet, small ones as a table, large ones batch by batch."""

from __future__ import annotations

import os
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from glob import glob, has_magic
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.row_batches import (
    Batch,
    Stream,
    batch_rows,
    check_names,
    has_arrow,
    needs_arrow,
    without_index,
)
from eigentree.data.tables.cells import Categorical, arrow_dictionary, object_array
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.table import ARRAY
from eigentree.data.tables.text_cells import FileTable, TextColumn, require_names
from eigentree.errors import DataError, FileError
from eigentree.io.byte_files import ENDINGS, PIPE, checked_path, named_format, read_bytes, require_there, shown_path
from eigentree.io.text_files import TextFile, TextOptions, check_header, json_columns, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FileStream", "found_files", "open_table", "read_table"]

PLAIN_TEXT = TextOptions()

LARGE_BYTES = 2**23
"""From this size on, a file is read batch by batch."""


def read_table(
    path: Any, form: str | None = None, text: TextOptions = PLAIN_TEXT, drop: Sequence[str] = ()
) -> FileTable:
    """Return the rows of a file, or of standard input, in memory; arguments as those of `open_table`."""
    path = checked_path(path)
    form, source = _form(path, form), shown_path(path)
    table: FileTable | None = None
    with read_bytes(path) as file:
        if form == "parquet":
            needs_arrow("reading Parquet")
            with _reading(path):
                import pyarrow
                from pyarrow import parquet

                whole = parquet.read_table(pyarrow.BufferReader(file.read()))
                table = _arrow_table(whole.select(without_index(whole.schema).names), (), source, ARRAY, text)
        elif form == "jsonl":
            columns, count = json_columns(file, source, text.missing)
            table = FileTable(tuple(columns), [object_array(cells) for cells in columns.values()], count, source)
        else:
            block = read_text(file, source, text, "\t" if form == "tsv" else ",")
            table = None if block is None else _text_table(block, source, ARRAY)
    if table is None or not table.count:
        raise DataError(f"{source} has no rows; give at least one")
    return table.dropping(drop) if drop else table


def open_table(
    path: Any,
    form: str | None = None,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    missing: Sequence[str] = (),
    drop: Sequence[str] = (),
    large: int = LARGE_BYTES,
) -> FileTable | FileStream:
    r"""Return the rows of a file for methods that take `X`: in memory, or of a large file as a stream.

    For files whose first lines do not show the delimiter and encoding; of others, give the path. Standard input,
    JSON lines, and Parquet within another compression are read as a whole.

    Parameters
    ----------
    path : str or PathLike
        A file of CSV, TSV, JSON lines or Parquet, compressed or not; "-" for standard input.
    form : {"csv", "tsv", "jsonl", "parquet"}, optional
        Where the name of the file does not show it.
    delimiter : str, optional
        The character between cells; by default that of comma, semicolon, tab and bar which the first lines show.
    encoding : str, optional
        By default UTF-8, or UTF-16 where the file begins with its mark.
    decimal : {".", ","}
        The decimal sign of numbers.
    thousands : str, optional
        The character between groups of digits, as the comma of "125,000".
    missing : sequence of str
        What a missing cell is written as, besides NA, NaN, null and their like.
    drop : sequence of str
        Columns that are left out.
    large : int
        From so many bytes on a file is a stream.

    Raises
    ------
    FileError, DataError
        When there is no such file, or it is no table; the message names the line.

    Examples
    --------
    >>> import eigentree as et, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.txt")
    ...     with open(path, "w", encoding="latin-1") as file:
    ...         lines = file.write("town/n\nKöln/1\nBonn/2\n")
    ...     et.open_table(path, "csv", delimiter="/", encoding="latin-1").cells(0)
    ['Köln', 'Bonn']
    """
    text = TextOptions(delimiter, encoding, decimal, thousands, tuple(missing))
    path = checked_path(path)
    form = _form(path, form)
    streamed = path != PIPE and os.path.isfile(path) and os.path.getsize(path) >= large and form != "jsonl"
    if streamed and form == "parquet":
        with open(path, "rb") as file:
            streamed = file.read(4) == b"PAR1"
    if not streamed:
        return read_table(path, form, text, drop)
    stream = FileStream([path], text, form, ARRAY)
    if not drop:
        return stream
    require_names(drop, stream.names, repr(path))
    return stream.only([name for name in stream.names if name not in drop])


def _form(path: str, given: str | None) -> str:
    """Return the format of a table: as the name of its file shows, as was given, or CSV of standard input."""
    form = ("csv" if path == PIPE else named_format(path)) if given is None or path != PIPE else given
    if form is None and given is None:
        raise FileError(
            f"the name {path!r} does not show its format: it ends with none of {ENDINGS}; rename it, or give the "
            f"format"
        )
    return form or str(given)


def found_files(path: Any) -> list[str]:
    """Return the files that a path means: itself, those of a folder and below, or those that fit a pattern."""
    given = checked_path(path)
    if os.path.isdir(given):
        return _in_folder(given)
    if not has_magic(given) or os.path.exists(given):
        require_there(given)
        return [given]
    found = sorted(name for name in glob(given, recursive=True) if not os.path.isdir(name))
    if not found:
        raise FileError(f"no file fits the pattern {given!r}")
    written = set(given.split(os.sep))
    for name in (part for each in found for part in os.path.dirname(each).split(os.sep)):
        if "=" in name and name not in written:
            raise _partitioned(f"the files of the pattern {given!r} are", name, "folder")
    return found


def _partitioned(what: str, name: str, folder: str) -> DataError:
    return DataError(
        f"{what} partitioned: the folder {name!r} holds a column that the files do not; give "
        f"pyarrow.dataset.dataset({folder}, partitioning='hive')"
    )


def _in_folder(folder: str) -> list[str]:
    found = []
    for inside, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in folders:
            if "=" in name:
                raise _partitioned(f"the folder {folder!r} is", name, repr(folder))
        found += [os.path.join(inside, name) for name in sorted(names) if not name.startswith((".", "_"))]
    found = [path for path in found if named_format(path)]
    if not found:
        raise FileError(f"the folder {folder!r} holds no file that ends with {ENDINGS}")
    if len({named_format(path) == "parquet" for path in found}) > 1:
        raise DataError(
            f"the folder {folder!r} holds Parquet and text, maybe the same rows twice; say which, as in "
            f"{os.path.join(folder, '*.parquet')!r}"
        )
    return found


class FileStream(Stream):
    """The rows of files, one file after the other.

    All files are opened once when the stream is made, so one that is damaged is known before anything is counted.
    Sampled rows of a model of these come in the `container`; by default Arrow tables where Arrow is there.
    """

    names: tuple[str, ...]

    def __init__(
        self,
        paths: Sequence[str],
        text: TextOptions = PLAIN_TEXT,
        form: str | None = None,
        container: str | None = None,
    ) -> None:
        container = container or ("pyarrow" if has_arrow() else ARRAY)
        found = []
        for path in paths:
            own = _form(path, form)
            with _reading(path):
                found.append(_FILES.get(own, _DelimitedFile)(path, own, text, container))
            check_names(found[-1].names, repr(path))
        self.files = tuple(found)
        self.names = self.files[0].names
        counts = [file.rows for file in self.files]
        self.rows = None if None in counts else sum(count for count in counts if count is not None)
        self.typed = Schema.unknown(self.names, container)
        types = [file.types for file in self.files]
        # Types that differ between files say nothing.
        if types[0] is not None and all(each is not None and each.equals(types[0]) for each in types):
            self.typed = replace(Schema.of_types(types[0].empty_table()), container=container)
        self.types = _unified(types)
        self._chosen = False

    @property
    def count(self) -> int:
        """How many rows there are, once all were read."""
        assert self.rows is not None
        return self.rows

    @property
    def source(self) -> str:
        """The name of the first file, for messages."""
        return repr(self.files[0].path)

    def only(self, names: Sequence[str]) -> FileStream:
        """Return the same rows with some of the columns; raise `DataError` where one is not there."""
        require_names(names, self.names, self.source)
        made = copy(self)
        made.names, made.typed, made._chosen = tuple(names), self.typed.only(names), True
        return made

    def whole_names(self) -> tuple[str, ...]:
        """Return the names of all columns, once they are the same in all files."""
        if self._chosen:
            return self.names
        first = self.files[0]
        for file in self.files:
            require_names(first.names, file.names, f"{file.path!r}, unlike {first.path!r},")
            require_names(file.names, first.names, f"{first.path!r}, unlike {file.path!r},")
        return first.names

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches of each file in turn."""
        wanted = tuple(self.whole_names() if columns is None else columns)
        for file in self.files:
            require_names(wanted, file.names, repr(file.path))
        rows = 0
        for file in self.files:
            first = 0
            with _reading(file.path):
                for table in file.read(wanted):
                    yield Batch(table, repr(file.path), first)
                    first += table.count
            rows += first
        self.rows = rows


class _ParquetFile:
    """A file of Parquet, which knows the types of its columns and the number of its rows."""

    def __init__(self, path: str, form: str, text: TextOptions, container: str) -> None:
        needs_arrow("reading Parquet")
        from pyarrow import parquet

        self.path, self._container = path, container
        with parquet.ParquetFile(path) as file:
            self.types, self.rows = without_index(file.schema_arrow), file.metadata.num_rows
        self.names = tuple(self.types.names)

    def read(self, columns: tuple[str, ...]) -> Iterator[FileTable]:
        """Yield batches."""
        import pyarrow
        from pyarrow import parquet

        # As they are stored, most often: each different text is made once.
        forms = (pyarrow.string(), pyarrow.large_string())
        texts = [name for name in columns if self.types.field(name).type in forms]
        # Buffered, so that no column of a group of rows need be in memory as a whole.
        with parquet.ParquetFile(self.path, buffer_size=2**20, pre_buffer=False, read_dictionary=texts) as file:
            for group in range(file.metadata.num_row_groups):
                for batch in file.iter_batches(batch_rows(len(columns)), [group], list(columns)):
                    yield _arrow_table(batch, texts, repr(self.path), self._container)


class _DelimitedFile:
    """A file of CSV or TSV, which has no types."""

    types = rows = None

    def __init__(self, path: str, form: str, text: TextOptions, container: str) -> None:
        self.path, self._container = path, container
        self._file = TextFile(path, text, "\t" if form == "tsv" else ",")
        self.names = self._file.names

    def read(self, columns: tuple[str, ...]) -> Iterator[FileTable]:
        """Yield batches."""
        for block in self._file.blocks(columns, batch_rows(len(columns))):
            yield _text_table(block, repr(self.path), self._container)


class _JsonFile:
    """A file of JSON lines, whose columns are known once all was read: it stays in memory."""

    types = None

    def __init__(self, path: str, form: str, text: TextOptions, container: str) -> None:
        self.path, self._table = path, read_table(path, form, text)
        self._table.container = container
        self.names, self.rows = self._table.names, self._table.count

    def read(self, columns: tuple[str, ...]) -> Iterator[FileTable]:
        """Yield all rows as one batch."""
        yield self._table.only(columns)


_FILES: dict[str, type[_ParquetFile | _DelimitedFile | _JsonFile]] = {"parquet": _ParquetFile, "jsonl": _JsonFile}


def _text_table(block: Any, source: str, container: str) -> FileTable:
    held = [TextColumn(places, texts) for places, texts in block.columns]
    return FileTable(block.names, held, block.rows, source, container)


def _arrow_table(
    table: Any, texts: Sequence[str], source: str, container: str, text: TextOptions = PLAIN_TEXT
) -> FileTable:
    """Return rows of Arrow; text that was read as dictionaries has the labels that occur."""
    import pyarrow
    from pyarrow import compute

    names = table.schema.names
    check_header(names, source)
    held: list[Any] = []
    for name in names:
        column = table.column(name)
        if isinstance(column, pyarrow.Array):
            column = pyarrow.chunked_array([column])
        if name in texts:
            places, labels = arrow_dictionary(column)
            held.append(_occurring(places, labels))
            continue
        if text.missing and pyarrow.types.is_string(column.type):
            absent = compute.is_in(column, pyarrow.array(text.missing, column.type))
            column = compute.if_else(absent, pyarrow.scalar(None, column.type), column)
        held.append(column)
    return FileTable(names, held, table.num_rows, source, container)


def _occurring(places: Any, labels: Sequence[str]) -> Categorical:
    came = np.bincount(places + 1, minlength=len(labels) + 1)[1:] > 0
    moved = np.append(np.cumsum(came) - 1, -1)
    return Categorical(moved[places], tuple(label for label, there in zip(labels, came, strict=True) if there))


def _unified(types: Sequence[Any]) -> Any:
    """Return the types of the columns of all files, if they are the same where a column holds anything; or None."""
    if any(each is None for each in types):
        return None
    import pyarrow

    try:
        return pyarrow.unify_schemas(types)
    except pyarrow.ArrowException:
        return None


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise `FileError` that names the file for what is wrong with it."""
    errors: tuple[type[Exception], ...] = (OSError,)
    if has_arrow():
        import pyarrow

        errors = (OSError, pyarrow.ArrowException)
    try:
        yield
    except FileNotFoundError:
        raise FileError(f"there is no file {path!r}") from None
    except errors as error:
        # What Arrow says goes on over several lines.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise FileError(f"{path!r} cannot be read; it may have been cut short or damaged: {reason}") from None
