"""Files of rows, CSV and Parquet, read batch by batch: only the columns that are needed, never a whole file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import contextmanager
from glob import glob, has_magic
from typing import TYPE_CHECKING, Any

from eigentree.data.streams.atomic_write import checked_path
from eigentree.data.streams.row_batches import (
    USUAL_SIZE,
    Batch,
    BatchSize,
    Stream,
    check_names,
    check_separated,
    needs_arrow,
    require_names,
    without_index,
)
from eigentree.data.tables.column_summary import Look
from eigentree.data.tables.text_cells import MISSING_MARKS, TextTable, WrittenTable
from eigentree.errors import DataError, FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FileStream", "file_kind", "found_files"]

PACKED = ("", ".gz", ".bz2", ".zst")
KINDS = {
    **{f".csv{packed}": "," for packed in PACKED},
    **{f"{end}{packed}": "\t" for end in (".tsv", ".tab") for packed in PACKED},
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""What files are by the end of their names: Parquet, or text with this between cells."""


def file_kind(path: str) -> str | None:
    """Return what a file is by its name: "parquet", what stands between the cells of its text, or None."""
    name = os.path.basename(path).lower()
    return next((kind for end, kind in KINDS.items() if name.endswith(end) and name != end), None)


def found_files(path: Any) -> list[str]:
    """Return the files that a path means: itself, those of a folder and its folders, or those that fit a pattern.

    Raises
    ------
    FileError
        When there is none.
    """
    given = checked_path(path)
    if os.path.isdir(given):
        return _in_folder(given)
    if os.path.exists(given):
        return [given]
    if has_magic(given):
        found = sorted(name for name in glob(given, recursive=True) if not os.path.isdir(name))
        if not found:
            raise FileError(f"no file fits the pattern {given!r}")
        _check_told(given, found)
        return found
    raise FileError(f"there is no file {given!r}")


def _check_told(pattern: str, found: Sequence[str]) -> None:
    """Raise `DataError` where a pattern stands for folders that tell a column which their files do not hold."""
    written = set(pattern.split(os.sep))
    for path in found:
        for name in os.path.dirname(path).split(os.sep):
            if "=" in name and name not in written:
                raise DataError(
                    f"the files of the pattern {pattern!r} are partitioned: the folder {name!r} tells a column "
                    f"that they do not hold; give pyarrow.dataset.dataset(folder, partitioning='hive')"
                )


def _in_folder(folder: str) -> list[str]:
    found = []
    for inside, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in folders:
            if "=" in name:
                raise DataError(
                    f"the folder {folder!r} is partitioned: {name!r} tells a column that its files do not hold; "
                    f"give pyarrow.dataset.dataset({folder!r}, partitioning='hive')"
                )
        found += [os.path.join(inside, name) for name in sorted(names) if not name.startswith((".", "_"))]
    found = [path for path in found if file_kind(path)]
    if not found:
        raise FileError(f"the folder {folder!r} holds no file that ends with {', '.join(KINDS)}")
    kinds = {"Parquet" if file_kind(path) == "parquet" else "text" for path in found}
    if len(kinds) > 1:
        raise DataError(
            f"the folder {folder!r} holds Parquet and text, maybe the same rows twice; say which, as in "
            f"{os.path.join(folder, '*.parquet')!r}"
        )
    return found


class FileStream(Stream):
    """The rows of files, one file after the other.

    All files are opened once when the stream is made, so one that is damaged is told before anything is counted.

    Parameters
    ----------
    paths : sequence of str
    size : BatchSize
    """

    def __init__(self, paths: Sequence[str], size: BatchSize = USUAL_SIZE) -> None:
        needs_arrow("reading files")
        self.files = tuple(_opened(path, size) for path in paths)
        self.names = self.files[0].names
        counts = [file.rows for file in self.files]
        self.rows = None if None in counts else sum(count for count in counts if count is not None)
        # Types that differ between files say nothing.
        types = self.files[0].types
        self.told = Look.unknown(self.names, "pyarrow")
        if types is not None and all(file.types is not None and file.types.equals(types) for file in self.files):
            self.told = Look.of_types(types.empty_table())
        self.types = _unified([file.types for file in self.files])

    def whole_names(self) -> tuple[str, ...]:
        """Return the names of all columns, once they are the same in all files."""
        first = self.files[0]
        for file in self.files:
            require_names(first.names, file.names, f"{file.path!r}, unlike {first.path!r},")
            require_names(file.names, first.names, f"{first.path!r}, unlike {file.path!r},")
        return first.names

    def batches(self, columns: Sequence[str] | None = None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of each file in turn."""
        wanted = tuple(self.whole_names() if columns is None else columns)
        for file in self.files:
            require_names(wanted, file.names, repr(file.path))
        for file in self.files:
            with _reading(file.path):
                for data, first in file.read(wanted, skip):
                    # What is not there was skipped, and counts.
                    if skip:
                        skip -= 1
                    if data is not None:
                        yield Batch(data, repr(file.path), first)

    def mark(self) -> list[Any]:
        """Return the names, sizes and times of the files."""
        found = []
        for file in self.files:
            with _reading(file.path):
                status = os.stat(file.path)
            found.append([os.path.abspath(file.path), status.st_size, status.st_mtime_ns])
        return found


class _File(ABC):
    """One file.

    Attributes
    ----------
    path : str
    names : tuple of str
    types : pyarrow.Schema or None
        The types of the columns, where the file tells them.
    rows : int or None
        How many there are, where the file tells.
    """

    path: str
    names: tuple[str, ...]
    types: Any = None
    rows: int | None = None

    @abstractmethod
    def read(self, columns: tuple[str, ...], skip: int) -> Iterator[tuple[Any, int]]:
        """Yield batches and where each begins; None in place of those that are skipped."""


class _Parquet(_File):
    def __init__(self, path: str, size: BatchSize) -> None:
        from pyarrow import parquet

        self.path, self._size = path, size
        with parquet.ParquetFile(path) as file:
            self.types, self.rows = file.schema_arrow, file.metadata.num_rows
        self.types = without_index(self.types)
        self.names = tuple(self.types.names)

    def read(self, columns: tuple[str, ...], skip: int) -> Iterator[tuple[Any, int]]:
        import pyarrow
        from pyarrow import parquet

        size, first = self._size.rows_of(len(columns)), 0
        # As they are stored, most often: each different text is made once.
        kinds = (pyarrow.string(), pyarrow.large_string())
        texts = frozenset(name for name in columns if self.types.field(name).type in kinds)
        # Buffered, so that no column of a group of rows need be in memory as a whole.
        with parquet.ParquetFile(
            self.path, buffer_size=2**20, pre_buffer=False, read_dictionary=list(texts)
        ) as file:
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if skip >= (there := -(-rows // size)):
                    yield from ((None, first) for _ in range(there))
                    skip, first = skip - there, first + rows
                    continue
                for batch in file.iter_batches(size, [group], list(columns)):
                    yield (None if skip else TextTable(pyarrow.Table.from_batches([batch]), texts)), first
                    skip, first = max(skip - 1, 0), first + batch.num_rows


class _Text(_File):
    def __init__(self, path: str, size: BatchSize, delimiter: str) -> None:
        self.path, self._size, self._delimiter = path, size, delimiter
        self.names = self._header()

    def _header(self) -> tuple[str, ...]:
        """Return the names in the first line; little of the file is read, unless that is long."""
        import pyarrow

        try:
            with self._open(None, self._size.header_bytes) as reader:
                return tuple(reader.schema.names)
        except pyarrow.ArrowInvalid:
            with self._open(None, self._size.text_bytes) as reader:
                return tuple(reader.schema.names)

    def read(self, columns: tuple[str, ...], skip: int) -> Iterator[tuple[Any, int]]:
        import pyarrow

        first = 0
        with self._open(columns, self._size.text_bytes) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield (None if skip else WrittenTable(pyarrow.Table.from_batches([batch]))), first
                    skip, first = max(skip - 1, 0), first + batch.num_rows

    def _open(self, columns: tuple[str, ...] | None, block: int) -> Any:
        import pyarrow
        from pyarrow import csv

        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(block_size=block),
            parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(columns or (), text),
                include_columns=list(columns or ()),
                null_values=list(MISSING_MARKS),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )


def _unified(types: Sequence[Any]) -> Any:
    """Return the types of the columns of all files, if they are the same where a column holds anything; or None."""
    import pyarrow

    if any(each is None for each in types):
        return None
    try:
        return pyarrow.unify_schemas(types)
    except pyarrow.ArrowException:
        return None


def _opened(path: str, size: BatchSize) -> _File:
    kind = file_kind(path)
    if kind is None:
        raise FileError(f"{path!r} does not end with {', '.join(KINDS)}; rename it, or read it yourself")
    with _reading(path):
        file = _Parquet(path, size) if kind == "parquet" else _Text(path, size, kind)
    check_names(file.names, repr(path))
    if kind != "parquet":
        check_separated(file.names, kind, repr(path))
    return file


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise `FileError` that names the file for what is wrong with it."""
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise FileError(f"there is no file {path!r}") from None
    except (OSError, pyarrow.ArrowException) as error:
        # What Arrow says goes on over several lines.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise FileError(f"{path!r} cannot be read; it may have been cut short or damaged: {reason}") from None
