"""Rows of a stream as codes, chunk by chunk."""

from __future__ import annotations

import os
import pickle
import tempfile
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from eigentree.data.streams.partitions import Partitions
from eigentree.data.streams.row_batches import Batch, Stream
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.column_kinds import learned_meaning
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.numbers import NUMBER_KINDS
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions, given_labels
from eigentree.data.tables.table import ColumnTable, table_of
from eigentree.data.tables.text_cells import read_as
from eigentree.data.tables.weights import check_total, checked_weights, warn_of_little
from eigentree.errors import DataError, FileError, did_you_mean, quoted
from eigentree.progress import shown_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.data.tables.cells import Cells
    from eigentree.data.tables.state_rules import ColumnKind, NumericRule
    from eigentree.data.tables.table import Table
    from eigentree.graphs.graph import LatentGraph

__all__ = [
    "Encoded",
    "KeptBatches",
    "Part",
    "Scratch",
    "Spool",
    "StreamSchema",
    "StreamedRows",
    "any_rows",
    "any_rows_and_columns",
    "in_stretches",
    "kept_on_disk",
    "weighed",
    "weight_cells",
    "weight_column",
]

T = TypeVar("T")

Part: TypeAlias = "tuple[Codes, Floats, NDArray[Any] | None]"
"""Consecutive rows: their codes, their numbers, and their weights, if they have any."""


class Encoded(ABC):
    """Rows of known `columns` beyond memory that are read as codes, any number of times."""

    columns: Columns

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield codes, shape (rows, columns), column-major; numbers, as `Rows.values` has them; weights or None."""

    def chunks(self) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield codes and weights."""
        for codes, _, weights in self.parts():
            yield codes, weights

    def stretches(self, size: int) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Return the same, so many rows at a time however the chunks are cut; the last stretch has what is left."""
        return in_stretches(self.chunks(), size)

    def summed(self, function: Callable[..., T], *shared: Any) -> T:
        """Return what a function makes of the rows and `shared`; of rows in parts, the sum over the parts."""
        return function(self, *shared)


@dataclass(frozen=True, eq=False)
class StreamedRows(Encoded):
    """The rows of a stream whose columns are known, read anew each time; the column `weight` weighs them."""

    columns: Columns
    stream: Stream
    weight: str | None = None

    @classmethod
    def of(cls, X: Any, columns: Columns, sample_weight: Any = None) -> StreamedRows:
        """Return the rows of whatever is a stream."""
        stream = stream_of(X)
        return cls(columns, stream, weight_column(stream, sample_weight))

    def parts(self) -> Iterator[Part]:
        """Yield consecutive rows; warn at the end where all weigh next to nothing."""
        total, weighed_rows = 0.0, 0
        for batch in shown_batches(self.stream.whole_pass(self.needed), "counting", self.stream.rows):
            for codes, values, weights in self.encoded(batch):
                if weights is not None:
                    total += float(weights.sum(dtype=np.float64))
                    weighed_rows += int(np.count_nonzero(weights))
                    check_total(total)
                yield codes, values, weights
        warn_of_little(total, weighed_rows)

    def summed(self, function: Callable[..., T], *shared: Any) -> T:
        """Return what a function makes of the rows; partitions are worked on where they lie."""
        if isinstance(self.stream, Partitions):
            total: T = self.stream.reduced(_of_part, function, self.columns, self.weight, *shared)
            return total
        return super().summed(function, *shared)

    @property
    def needed(self) -> list[str] | None:
        """The columns to be read."""
        if self.stream.names is None:
            return None
        return [*self.columns.names, *([] if self.weight is None else [self.weight])]

    def encoded(self, batch: Batch) -> Iterator[Part]:
        """Yield the rows of one batch."""
        table, weights = weighed(batch, self.weight)
        if not table.count:
            return
        with batch.named():
            rows = Rows.of(table, self.columns, first=batch.first)
            for start, codes in rows.chunks():
                stop = start + len(codes)
                yield codes, rows.values(start, stop), None if weights is None else weights[start:stop]


def in_stretches(parts: Iterable[tuple[Any, ...]], size: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows that come in parts, so many at a time; the last stretch has what is left.

    Rows are arrays with a line for each, the first never None; one that is None in a part is so in all.
    """
    held: list[tuple[Any, ...]] = []
    count = 0
    for arrays in parts:
        begin, rows = 0, len(arrays[0])
        while count + rows - begin >= size:
            end = begin + size - count
            held.append(_cut(arrays, begin, end))
            yield _joined(held)
            held, count, begin = [], 0, end
        if begin < rows:
            held.append(_cut(arrays, begin, rows))
            count += rows - begin
    if held:
        yield _joined(held)


def _cut(arrays: tuple[Any, ...], begin: int, end: int) -> tuple[Any, ...]:
    return tuple(None if own is None else own[begin:end] for own in arrays)


def _joined(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    each = zip(*parts, strict=True)
    return tuple(None if own[0] is None else np.asfortranarray(np.concatenate(own)) for own in each)


def _of_part(stream: Stream, function: Callable[..., T], columns: Columns, weight: str | None, *shared: Any) -> T:
    return function(StreamedRows(columns, stream, weight), *shared)


def weight_column(stream: Stream, sample_weight: Any) -> str | None:
    """Return the name of the column of a stream that weighs its rows; raise `DataError` where it is none."""
    if sample_weight is None:
        return None
    if not isinstance(sample_weight, str):
        raise DataError(
            f"the rows come in batches, so sample_weight is the name of one of their columns, not "
            f"{quoted(sample_weight)}"
        )
    names = stream.names or ()
    if sample_weight not in names:
        hint = did_you_mean(sample_weight, names) or ("" if names else "; the columns have no names")
        raise DataError(f"sample_weight names {sample_weight!r}, which is no column{hint}")
    return sample_weight


def weighed(batch: Batch, weight: str | None) -> tuple[Table, NDArray[Any] | None]:
    """Return the rows of a batch without the column that weighs them, and their weights."""
    table = batch.table
    if weight is None:
        return table, None
    with batch.named():
        return table.without(weight), checked_weights(weight_cells(table, weight), table.count)


def weight_cells(table: Table, weight: str) -> NDArray[Any]:
    """Return the cells of the column that weighs rows; raise `DataError` unless they are numbers."""
    cells = read_as(table.column((table.names or ()).index(weight), weight), None)
    if isinstance(cells, Categorical):
        raise DataError(f"sample_weight, column {weight!r}, holds other cells than numbers")
    return cells


def any_rows(
    X: Any, columns: Columns, sample_weight: ArrayLike | str | None = None
) -> tuple[Rows | Encoded, NDArray[Any] | None]:
    """Return the rows of a table or a stream, and the weights of those in memory; others know theirs."""
    if isinstance(X, Encoded):
        return X, None
    if not isinstance(X, Rows) and is_stream(X):
        return StreamedRows.of(X, columns, sample_weight), None
    rows = Rows.of(X, columns)
    return rows, checked_weights(sample_weight, rows.count)


class Scratch:
    """A temporary `file` without a name, open for as long as this is, and things that are kept in it."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="eigentree-")  # noqa: SIM115 (it goes with this)
        # Threads would move each other's place in the file.
        self._alone = Lock()

    def put(self, thing: Any) -> int:
        """Return the place at which a thing was written, behind all others."""
        place = self.file.seek(0, os.SEEK_END)
        pickle.dump(thing, self.file)
        self.file.flush()
        return place

    def get(self, place: int) -> Any:
        """Return what was put there."""
        with self._alone:
            self.file.seek(place)
            return pickle.load(self.file)

    def __del__(self) -> None:
        if "file" in vars(self):
            self.file.close()


@contextmanager
def kept_on_disk(what: str = "rows", so_far: str = "", also: str = "") -> Iterator[None]:
    """Raise `FileError` where something cannot be written, with how far it came and what else may help."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{what} cannot be kept in {tempfile.gettempdir()!r} meanwhile: {error.strerror or error}{so_far}; set "
            f"TMPDIR to a folder on a disk with more room{also}"
        ) from None


class KeptBatches(Stream):
    """The batches of a stream that can be had once, kept in a temporary file as they come."""

    def __init__(self, stream: Stream) -> None:
        self.names, self.typed, self.rows = stream.names, stream.typed, 0
        self._places: list[int] = []
        with kept_on_disk():
            self._scratch = Scratch()

    def add(self, batch: Batch) -> None:
        """Write the rows of a batch."""
        table = batch.table
        with batch.named():
            cells = [_in_few_bytes(table.column(place, name)) for place, name in enumerate(table.all_names)]
        with kept_on_disk():
            held = table.names, cells, table.count, batch.source, batch.first
            self._places.append(self._scratch.put(held))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches that were written."""
        for place in self._places:
            names, cells, count, source, first = self._scratch.get(place)
            table = ColumnTable(names, cells, count, self.typed.container)
            yield Batch(table if names is None or columns is None else table.only(columns), source, first)


def _in_few_bytes(cells: Cells) -> Cells:
    """Return cells with places or whole numbers in the smallest type that holds them."""
    if isinstance(cells, Categorical):
        return replace(cells, places=cells.places.astype(np.min_scalar_type(-1 - len(cells.labels))))
    if cells.dtype.kind not in "iu" or not len(cells):
        return cells
    return cells.astype(np.result_type(*(np.min_scalar_type(end) for end in (cells.min(), cells.max()))))


@dataclass(frozen=True, eq=False)
class Spool(Encoded):
    """Rows in a temporary file, codes in the smallest type of each column; it goes when the spool goes."""

    columns: Columns
    rows: int
    _scratch: Scratch
    _places: tuple[int, ...]

    @classmethod
    def of(cls, columns: Columns, chunks: Iterable[tuple[Codes, NDArray[Any] | None]]) -> Spool:
        """Return a spool of chunks of (codes, weights or None), of rows without numbers or whose codes suffice."""
        return cls.of_parts(columns, ((codes, np.empty((len(codes), 0)), weights) for codes, weights in chunks))

    @classmethod
    def of_parts(cls, columns: Columns, chunks: Iterable[Part]) -> Spool:
        """Return a spool of all that `Encoded.parts` yields."""
        with kept_on_disk():
            scratch = Scratch()
        rows, places = 0, []
        for codes, values, weights in chunks:
            cells = [codes[:, j].astype(np.min_scalar_type(count)) for j, count in enumerate(columns.states)]
            with kept_on_disk():
                places.append(scratch.put((cells, values, weights)))
            rows += len(codes)
        return cls(columns, rows, scratch, tuple(places))

    def parts(self) -> Iterator[Part]:
        """Yield the rows as they came."""
        for place in self._places:
            cells, values, weights = self._scratch.get(place)
            codes = np.empty((len(cells[0]), len(cells)), self.columns.code_type, order="F")
            for j, own in enumerate(cells):
                codes[:, j] = own
            yield codes, values, weights


@dataclass(frozen=True, eq=False)
class StreamSchema:
    """A stream and the schema of its rows, which are weighed by the column `weight`.

    What came once, if it was read for the schema, is kept on disk and comes from there now. The codes of rows are
    `spooled` to disk where they come once and are to be read often.
    """

    schema: Schema
    stream: Stream
    weight: str | None
    spooled: bool

    @classmethod
    def of(
        cls, X: Any, options: ReadOptions = DEFAULT_OPTIONS, graph: LatentGraph | None = None, often: bool = False
    ) -> StreamSchema:
        """Return the schema of a stream; no row is read where the types of its columns show all states.

        Parameters
        ----------
        X : whatever is a stream
        options : ReadOptions
            Weights are the name of a column.
        graph : LatentGraph, optional
            The columns are its observed variables, and numbers are codes; by default all columns are summarised.
        often : bool
            Whether the rows are to be read more than once.
        """
        stream = stream_of(X)
        spooled = often and not stream.again
        weight = weight_column(stream, options.sample_weight)
        typed = stream.typed
        if stream.names is not None:
            needed = [name for name in stream.whole_names() if name != weight] if graph is None else graph.observed
            if not set(needed) <= set(stream.names):
                # Who reads the columns that are missing names the file.
                next(stream.batches(needed), None)
            typed = typed.only(needed)
        observed = typed.all_names if graph is None else graph.observed
        given, codes = set(), set()
        if typed.names or graph is None:
            given = set(given_labels(options.categories, observed))
        if graph is not None:
            codes = Columns.of(graph).of_codes(options)
        if typed.settles(given, codes) and not set((options.kinds or {}).values()) & set(NUMBER_KINDS):
            return cls(typed, stream, weight, spooled)
        kept, rule = None if stream.again else KeptBatches(stream), (options.numeric, options.kinds or {})
        if isinstance(stream, Partitions):
            schema = stream.reduced(_summed, typed, weight, given, rule)
        else:
            schema = _summed(stream, typed, weight, given, rule, kept)
        if not schema.rows:
            raise DataError("the data have no rows; give at least one")
        return cls(schema, kept or stream, weight, spooled)

    def rows(self, columns: Columns) -> Encoded:
        """Return the rows as codes of some columns, which were learned from the schema."""
        rows = StreamedRows(columns, self.stream, self.weight)
        return Spool.of_parts(columns, rows.parts()) if self.spooled else rows


def _summed(
    stream: Stream,
    typed: Schema,
    weight: str | None,
    given: Collection[str],
    rule: tuple[NumericRule, Mapping[str, ColumnKind]],
    kept: KeptBatches | None = None,
) -> Schema:
    """Return the schema of all rows of a stream, in one pass; rows that come once are kept meanwhile."""
    schema: Schema | None = None
    numeric, kinds = rule
    needed = None if typed.names is None else [*typed.names, *([] if weight is None else [weight])]
    for batch in shown_batches(stream.whole_pass(needed), "reading", stream.rows):
        table, weights = weighed(batch, weight)
        with batch.named():
            if typed.names is not None:
                table.places(typed.names)
            own = Schema.of(table, weights, given)
            schema = own if schema is None else schema + own
            # What more rows cannot mend is an error at once.
            for name, column in zip(schema.all_names, schema.columns, strict=True):
                wrong = column.is_continuous or column.holds_dates
                if name not in given and (column.beyond or (numeric == "error" and wrong and name not in kinds)):
                    learned_meaning(column, name, numeric, kinds.get(name))
        if kept is not None and table.count:
            kept.add(batch)
    if schema is None:
        return typed
    return schema if typed.names is None else schema.only(typed.names)


def any_rows_and_columns(X: Any, options: ReadOptions = DEFAULT_OPTIONS) -> tuple[Rows | Encoded, Columns]:
    """Return the rows of a table or a stream, and what was learned of their columns; those read know theirs."""
    if isinstance(X, Rows | Encoded):
        return X, X.columns
    if is_stream(X):
        summarised = StreamSchema.of(X, options, often=True)
        columns = Columns.learned(summarised.schema, options)
        return summarised.rows(columns), columns
    table = table_of(X)
    columns = Columns.learned(table, options)
    return Rows.of(table, columns), columns
