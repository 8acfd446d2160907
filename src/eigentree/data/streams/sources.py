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
    USUAL_SIZE,
    Batch,
    BatchSize,
    Stream,
    check_names,
    needs_arrow,
    without_index,
)
from eigentree.data.tables.column_summary import Look
from eigentree.data.tables.table import frame_of
from eigentree.data.tables.text_cells import FileTable, require_names
from eigentree.errors import DataError, quoted
from eigentree.io.byte_files import named_format

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["is_stream", "stream_of"]


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
        or _is_lazy(X)
        or _is_arrow(X)
        or _is_relation(X)
        or (callable(X) and not hasattr(type(X), "columns"))
    )


def stream_of(X: Any, size: BatchSize = USUAL_SIZE) -> Stream:
    """Return the stream that some data are.

    Parameters
    ----------
    X : str, PathLike, pyarrow Dataset, polars LazyFrame, duckdb relation, iterator, callable, …
        A file of CSV, TSV, JSON lines or Parquet, a folder of such, a pattern such as ``"part-*.parquet"``, or a
        list of these; a Dataset, Scanner or RecordBatchReader of pyarrow; a lazy frame of polars; a relation of
        duckdb; a Dask DataFrame; an iterator of batches, each of what a table may be; or a callable that returns
        such an iterator anew each time that it is called.
    size : BatchSize
        How much is read at a time; of no matter where the batches are made by others.

    Raises
    ------
    DataError
        When they are nothing of these.
    FileError
        When there is no such file, or it is damaged.
    """
    if isinstance(X, Stream):
        return X
    if isinstance(X, str | os.PathLike):
        return FileStream(found_files(X), size)
    if isinstance(X, list | tuple) and is_stream(X):
        return FileStream([path for each in X for path in found_files(each)], size)
    if is_dask_frame(X):
        return Partitions.of(X)
    if _is_lazy(X):
        return _Lazy(X, size)
    if _is_relation(X):
        return _Relation(X, size)
    if _is_arrow(X):
        return _Dataset(X, size) if hasattr(X, "scanner") else _Batches(_reader(X))
    if isinstance(X, Iterator):
        return _Batches(X)
    if callable(X):
        return _Callable(X)
    raise DataError(f"rows in batches are a path, a lazy frame, a dataset or an iterator, not {quoted(X)}")


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and named_format(name) is not None


def _is_lazy(X: Any) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(X, polars.LazyFrame)


def _is_relation(X: Any) -> bool:
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(X, duckdb.DuckDBPyRelation)


def _is_arrow(X: Any) -> bool:
    arrow, dataset = sys.modules.get("pyarrow"), sys.modules.get("pyarrow.dataset")
    return (arrow is not None and isinstance(X, arrow.RecordBatchReader)) or (
        dataset is not None and isinstance(X, dataset.Dataset | dataset.Scanner)
    )


def _reader(X: Any) -> Iterator[Any]:
    return _engine("the record batches", X.to_reader() if hasattr(X, "to_reader") else X)


class _Lazy(Stream):
    """A lazy frame of polars."""

    def __init__(self, frame: Any, size: BatchSize) -> None:
        if not hasattr(frame, "collect_batches"):
            raise DataError("this polars is too old to hand out the batches of a lazy frame; 1.34 or later does")
        schema = _asked("the lazy frame", frame.collect_schema)
        self._frame, self._size, self.names = frame, size, tuple(schema.names())
        check_names(self.names, "the lazy frame")
        self.told = Look.of_types(sys.modules["polars"].DataFrame(schema=schema))

    def batches(self, columns: Sequence[str] | None = None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches that polars collects."""
        wanted = list(self.names or () if columns is None else columns)
        require_names(wanted, self.names or (), "the lazy frame")
        asked = self._frame.select(wanted).collect_batches(
            chunk_size=self._size.rows_of(len(wanted)), maintain_order=True
        )
        yield from _named(_engine("the lazy frame", asked), "the lazy frame", skip)


class _Relation(Stream):
    """A relation of duckdb."""

    def __init__(self, relation: Any, size: BatchSize) -> None:
        self._relation, self._size, self.names = relation, size, tuple(relation.columns)
        check_names(self.names, "the relation")
        self.told = Look.of_types(self._declared(needs_arrow("reading a duckdb relation")))

    def _declared(self, arrow: Any) -> Any:
        """Return an empty table of the types of the columns, its enumerations with all their values."""
        empty = _asked("the relation", self._relation.limit(0).to_arrow_table)
        for place, kind in enumerate(self._relation.types):
            if kind.id == "enum":
                values = arrow.array(dict(kind.children)["values"], arrow.string())
                held = arrow.DictionaryArray.from_arrays(arrow.array([], arrow.int32()), values)
                empty = empty.set_column(place, empty.column_names[place], arrow.chunked_array([held]))
        return empty

    def batches(self, columns: Sequence[str] | None = None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches that duckdb hands out."""
        import pyarrow

        wanted = list(self.names or () if columns is None else columns)
        require_names(wanted, self.names or (), "the relation")
        quoted_names = ", ".join('"' + name.replace('"', '""') + '"' for name in wanted)
        asked = self._relation.project(quoted_names)
        reader = _asked("the relation", lambda: asked.to_arrow_reader(self._size.rows_of(len(wanted))))
        tables = (pyarrow.Table.from_batches([batch]) for batch in _engine("the relation", reader))
        yield from _named(tables, "the relation", skip)


class _Dataset(Stream):
    """A dataset of pyarrow."""

    def __init__(self, dataset: Any, size: BatchSize) -> None:
        schema = without_index(dataset.schema)
        self._dataset, self._size, self.names = dataset, size, tuple(schema.names)
        check_names(self.names, "the dataset")
        self.told = Look.of_types(schema.empty_table())

    def batches(self, columns: Sequence[str] | None = None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of each fragment in turn."""
        import pyarrow

        wanted = list(self.names or () if columns is None else columns)
        require_names(wanted, self.names or (), "the dataset")
        # Little is read ahead: it would be in memory.
        scanner = self._dataset.scanner(
            columns=wanted, batch_size=self._size.rows_of(len(wanted)), batch_readahead=2, fragment_readahead=1
        )
        source, first = "the dataset", 0
        for tagged in _engine("the dataset", scanner.scan_batches()):
            path = getattr(tagged.fragment, "path", None)
            name = "the dataset" if path is None else repr(path)
            source, first = name, first if name == source else 0
            rows = tagged.record_batch.num_rows
            if rows and not skip:
                yield Batch(pyarrow.Table.from_batches([tagged.record_batch]), source, first)
            skip, first = skip - (rows > 0 and skip > 0), first + rows


class _Batches(Stream):
    """An iterator, which can be had once."""

    again = False

    def __init__(self, batches: Iterator[Any]) -> None:
        if type(batches).__module__ in ("_csv", "csv"):
            raise DataError(
                f"a {type(batches).__name__} of csv hands out one row at a time, and batches of rows are wanted; "
                f"give the path of the file, or an iterator of frames such as pandas.read_csv(…, chunksize=9_999)"
            )
        first = next(batches, None)
        if first is None:
            raise DataError("the iterator of batches has none; give at least one, with at least one row")
        self._rest = chain([first], batches)
        self.told = Look.of_types(Batch(_as_table(first), "batch 0", 0).table).undeclared()
        self.names = self.told.names

    def batches(self, columns: Sequence[str] | None = None, skip: int = 0) -> Iterator[Batch]:
        """Yield what the iterator has left, each batch with its number."""
        for number, data in enumerate(self._rest):
            if number >= skip:
                source = data.source if isinstance(data, FileTable) else f"batch {number}"
                yield _projected(Batch(_as_table(data), source, 0), columns)


class _Callable(Stream):
    """What returns an iterator of batches each time that it is called."""

    def __init__(self, function: Callable[[], Iterable[Any]]) -> None:
        self._function = function
        self.told = _Batches(self._called()).told
        self.names = self.told.names

    def _called(self) -> Iterator[Any]:
        what = f"{quoted(self._function)}, which is to return batches,"
        try:
            made = self._function()
        except TypeError as error:
            raise DataError(f"{what} cannot be called without arguments: {error}") from None
        if not isinstance(made, Iterator) and (not isinstance(made, list | tuple) or is_stream(made)):
            raise DataError(f"{what} returned {quoted(made)}; return an iterator or a list of batches")
        return iter(made)

    def batches(self, columns: Sequence[str] | None = None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of a new iterator."""
        yield from _Batches(self._called()).batches(columns, skip)


def _as_table(data: Any) -> Any:
    """Return a record batch of Arrow as a table, anything else as it is."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(data, arrow.RecordBatch):
        return arrow.Table.from_batches([data])
    return data


def _projected(batch: Batch, columns: Sequence[str] | None) -> Batch:
    """Return a batch with the columns that are needed alone, where they have names."""
    if columns is None:
        return batch
    table = batch.table
    if table.names is None or set(table.names) == set(columns):
        return batch
    require_names(columns, table.names, batch.source)
    if isinstance(batch.data, FileTable):
        return Batch(batch.data.only(columns), batch.source, batch.first)
    places = [table.names.index(name) for name in columns]
    frame = frame_of(batch.data)
    assert frame is not None
    return Batch(frame[:, places].to_native(), batch.source, batch.first)


def _named(batches: Iterable[Any], source: str, skip: int) -> Iterator[Batch]:
    """Yield the batches of an engine that have rows, each with where it begins."""
    first = 0
    for data in batches:
        rows = len(data)
        if rows and not skip:
            yield Batch(data, source, first)
        skip, first = skip - (rows > 0 and skip > 0), first + rows


def _engine(what: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield what an engine hands out; what it raises of its own is a `DataError` that names it."""
    asked = iter(batches)
    while True:
        try:
            batch = next(asked)
        except StopIteration:
            return
        except (DataError, MemoryError):
            raise
        except Exception as error:
            raise _failed(what, error) from error
        yield batch


def _asked(what: str, question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:
        raise _failed(what, error) from error


def _failed(what: str, error: Exception) -> DataError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DataError(f"{what} failed: {type(error).__name__}: {reason}")
