"""Whatever rows come from in batches: files, engines that read them as they are asked, and iterators."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from eigentree.data.streams.file_batches import FileStream, found_files
from eigentree.data.streams.partitions import Partitions, is_dask_frame
from eigentree.data.streams.row_batches import (
    Batch,
    Stream,
    batch_rows,
    check_names,
    needs_arrow,
    without_index,
)
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.text_cells import FileTable, require_names
from eigentree.errors import DataError, named_failures, quoted
from eigentree.io.byte_files import named_format

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["is_stream", "stream_of"]

LAZY, RELATION, READER = ("polars", "LazyFrame"), ("duckdb", "DuckDBPyRelation"), ("pyarrow", "RecordBatchReader")
DATASET, SCANNER = ("pyarrow.dataset", "Dataset"), ("pyarrow.dataset", "Scanner")
ENGINES = (LAZY, RELATION, READER, DATASET, SCANNER)
"""What reads rows when they are needed: modules and classes."""


def is_stream(X: Any) -> bool:
    """Return whether data come in batches: from files, an engine, or an iterator, rather than as a table in memory.

    Examples
    --------
    >>> is_stream("rows.csv"), is_stream(iter([])), is_stream([[0, 1]]), is_stream(["ACGT"])
    (True, True, False, False)
    """
    if isinstance(X, Stream | str | os.PathLike | Iterator):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(path, os.PathLike) or _is_file_name(path) for path in X)
    return (
        is_dask_frame(X)
        or any(_is(X, *kind) for kind in ENGINES)
        or (callable(X) and not hasattr(type(X), "columns"))
    )


def stream_of(X: Any) -> Stream:
    """Return the stream that some data are.

    Parameters
    ----------
    X : str, PathLike, pyarrow Dataset, polars LazyFrame, duckdb relation, iterator, callable, …
        A file of CSV, TSV, JSON lines or Parquet, a folder of such, a pattern such as ``"part-*.parquet"``, or a
        list of these; a Dataset, Scanner or RecordBatchReader of pyarrow; a lazy frame of polars; a relation of
        duckdb; a Dask DataFrame; an iterator of batches, each of what a table may be; or a callable that returns
        such an iterator anew each time that it is called.
    """
    if isinstance(X, Stream):
        return X
    if isinstance(X, str | os.PathLike):
        return FileStream(found_files(X))
    if isinstance(X, list | tuple) and is_stream(X):
        return FileStream([path for each in X for path in found_files(each)])
    if is_dask_frame(X):
        return Partitions.of(X)
    if _is(X, *LAZY):
        return _lazy(X)
    if _is(X, *RELATION):
        return _relation(X)
    if _is(X, *DATASET):
        return _dataset(X)
    if _is(X, *SCANNER) or _is(X, *READER):
        return _Batches(_engine("the record batches", lambda: X.to_reader() if hasattr(X, "to_reader") else X))
    if isinstance(X, Iterator) or callable(X):
        return _Batches(X)
    raise DataError(f"rows in batches are a path, a lazy frame, a dataset or an iterator, not {quoted(X)}")


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and named_format(name) is not None


def _is(X: Any, module: str, name: str) -> bool:
    """Return whether something is of a class of a library, which need not be there."""
    library = sys.modules.get(module)
    return library is not None and isinstance(X, getattr(library, name))


class _Engine(Stream):
    """Rows that a library reads when they are needed.

    Messages call it `what`; `typed` is a frame without rows that has the types of the columns; `read` takes the
    names of the columns that are needed, and returns tables, each with the name of what it is from.
    """

    names: tuple[str, ...]

    def __init__(
        self, what: str, names: Sequence[str], typed: Any, read: Callable[[list[str]], Iterable[tuple[str, Any]]]
    ) -> None:
        self._what, self._read, self.names = what, read, tuple(names)
        check_names(self.names, what)
        self.typed = Schema.of_types(typed)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches that the library makes and that have rows."""
        wanted = list(self.names if columns is None else columns)
        require_names(wanted, self.names, self._what)
        last, first = "", 0
        for source, table in _engine(self._what, lambda: self._read(wanted)):
            last, first = source, first if source == last else 0
            if len(table):
                yield Batch(table, source, first)
            first += len(table)


def _lazy(frame: Any) -> Stream:
    """Return the rows of a lazy frame of polars."""
    if not hasattr(frame, "collect_batches"):
        raise DataError("this polars is too old to return the batches of a lazy frame; 1.34 or later does")
    what = "the lazy frame"
    with named_failures(what):
        schema = frame.collect_schema()

    def read(wanted: list[str]) -> Iterable[tuple[str, Any]]:
        rows = batch_rows(len(wanted))
        tables = frame.select(wanted).collect_batches(chunk_size=rows, maintain_order=True)
        return ((what, table) for table in tables)

    return _Engine(what, schema.names(), sys.modules["polars"].DataFrame(schema=schema), read)


def _relation(relation: Any) -> Stream:
    """Return the rows of a relation of duckdb; its enumerations declare all their values."""
    arrow, what = needs_arrow("reading a duckdb relation"), "the relation"
    with named_failures(what):
        empty = relation.limit(0).to_arrow_table()
    for place, kind in enumerate(relation.types):
        if kind.id == "enum":
            values = arrow.array(dict(kind.children)["values"], arrow.string())
            held = arrow.DictionaryArray.from_arrays(arrow.array([], arrow.int32()), values)
            empty = empty.set_column(place, empty.column_names[place], arrow.chunked_array([held]))

    def read(wanted: list[str]) -> Iterable[tuple[str, Any]]:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in wanted)
        some = relation.project(names)
        # Before 2.0 it has another name.
        reader = getattr(some, "to_arrow_reader", None) or some.fetch_arrow_reader
        batches = reader(batch_rows(len(wanted)))
        return ((what, arrow.Table.from_batches([batch])) for batch in batches)

    return _Engine(what, relation.columns, empty, read)


def _dataset(dataset: Any) -> Stream:
    """Return the rows of a dataset of pyarrow, fragment by fragment."""
    arrow = needs_arrow("reading a dataset")

    def read(wanted: list[str]) -> Iterable[tuple[str, Any]]:
        # Little is read ahead: it would be in memory.
        scanner = dataset.scanner(
            columns=wanted, batch_size=batch_rows(len(wanted)), batch_readahead=2, fragment_readahead=1
        )
        for tagged in scanner.scan_batches():
            path = getattr(tagged.fragment, "path", None)
            source = "the dataset" if path is None else repr(path)
            yield source, arrow.Table.from_batches([tagged.record_batch])

    schema = without_index(dataset.schema)
    return _Engine("the dataset", schema.names, schema.empty_table(), read)


class _Batches(Stream):
    """The batches of an iterator, which can be had once, or of what returns one each time that it is called."""

    def __init__(self, made: Iterator[Any] | Callable[[], Iterable[Any]]) -> None:
        self._made, self.again = made, not isinstance(made, Iterator)
        batches = self._batches()
        first = next(batches, None)
        if first is None:
            raise DataError("the iterator of batches has none; give at least one, with at least one row")
        if not self.again:
            self._made = chain([first], batches)
        self.typed = Schema.of_types(Batch(_as_table(first), "batch 0", 0).table).undeclared()
        self.names = self.typed.names

    def _batches(self) -> Iterator[Any]:
        made: Any = self._made
        if self.again:
            what = f"{quoted(self._made)}, which is to return batches,"
            try:
                made = made()
            except TypeError as error:
                raise DataError(f"{what} cannot be called without arguments: {error}") from None
            if not isinstance(made, Iterator) and (not isinstance(made, list | tuple) or is_stream(made)):
                raise DataError(f"{what} returned {quoted(made)}; return an iterator or a list of batches")
        if type(made).__module__ in ("_csv", "csv"):
            raise DataError(
                f"a {type(made).__name__} of csv hands out one row at a time, and batches of rows are wanted; "
                f"give the path of the file, or an iterator of frames such as pandas.read_csv(…, chunksize=9_999)"
            )
        return iter(made)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches that are left or made anew, each with its number, and with the columns needed."""
        for number, data in enumerate(self._batches()):
            batch = Batch(_as_table(data), data.source if isinstance(data, FileTable) else f"batch {number}", 0)
            names = batch.table.names
            if columns is not None and names is not None and set(names) != set(columns):
                require_names(columns, names, batch.source)
                batch = Batch(batch.table.only(columns), batch.source, 0)
            yield batch


def _as_table(data: Any) -> Any:
    """Return a record batch of Arrow as a table, anything else as it is."""
    return sys.modules["pyarrow"].Table.from_batches([data]) if _is(data, "pyarrow", "RecordBatch") else data


def _engine(what: str, read: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield what an engine hands out; what it raises of its own is a `DataError` that names it."""
    with named_failures(what):
        yield from read()
