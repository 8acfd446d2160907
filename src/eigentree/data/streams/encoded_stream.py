"""Rows of a stream as codes, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentree.data.streams.partitions import Partitions
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.text_cells import read_as
from eigentree.data.tables.weights import check_total, checked_weights, warn_of_little
from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.progress import shown_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes
    from eigentree.data.streams.row_batches import Batch, Stream
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.table import Table

__all__ = ["Encoded", "StreamedRows", "any_rows", "in_stretches", "weighed", "weight_column"]

T = TypeVar("T")


class Encoded(ABC):
    """Rows beyond memory that are read as codes, any number of times.

    Attributes
    ----------
    columns : Columns
    """

    columns: Columns

    @abstractmethod
    def chunks(self) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield codes, shape (rows, columns), column-major, and weights or None."""

    def stretches(self, size: int) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Return the same, so many rows at a time however the chunks are cut; the last stretch has what is left."""
        return in_stretches(self.chunks(), size)

    def summed(self, function: Callable[..., T], *shared: Any) -> T:
        """Return what a function makes of the rows; of rows that lie in parts, the sum over the parts.

        Parameters
        ----------
        function : callable
            Called with the rows of a part, and the shared arguments.
        *shared
        """
        return function(self, *shared)


@dataclass(frozen=True, eq=False)
class StreamedRows(Encoded):
    """The rows of a stream whose columns are known, read anew each time.

    Attributes
    ----------
    columns : Columns
    stream : Stream
    weight : str or None
        The name of the column that holds how often each row counts.
    """

    columns: Columns
    stream: Stream
    weight: str | None = None

    @classmethod
    def of(cls, X: Any, columns: Columns, sample_weight: Any = None) -> StreamedRows:
        """Return the rows of whatever is a stream."""
        stream = stream_of(X)
        return cls(columns, stream, weight_column(stream, sample_weight))

    def chunks(self) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield codes and weights of consecutive rows; warn at the end where all weigh next to nothing."""
        total, weighed_rows = 0.0, 0
        for batch in shown_batches(self.stream.batches(self.needed), "counting", self.stream.rows):
            for codes, weights in self.encoded(batch):
                if weights is not None:
                    total += float(weights.sum(dtype=np.float64))
                    weighed_rows += int(np.count_nonzero(weights))
                    check_total(total)
                yield codes, weights
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

    def encoded(self, batch: Batch) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield codes and weights of the rows of one batch."""
        table, weights = weighed(batch, self.weight)
        if not table.count:
            return
        with batch.named():
            rows = Rows.of(table, self.columns, first=batch.first)
            for start, codes in rows.chunks():
                yield codes, None if weights is None else weights[start : start + len(codes)]


def in_stretches(
    chunks: Iterable[tuple[Codes, NDArray[Any] | None]], size: int
) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
    """Yield codes and weights of chunks, so many rows at a time; the last stretch has what is left."""
    held: list[tuple[Codes, NDArray[Any] | None]] = []
    count = 0
    for codes, weights in chunks:
        begin = 0
        while count + len(codes) - begin >= size:
            end = begin + size - count
            held.append((codes[begin:end], None if weights is None else weights[begin:end]))
            yield _joined(held)
            held, count, begin = [], 0, end
        if begin < len(codes):
            held.append((codes[begin:], None if weights is None else weights[begin:]))
            count += len(codes) - begin
    if held:
        yield _joined(held)


def _joined(parts: list[tuple[Codes, NDArray[Any] | None]]) -> tuple[Codes, NDArray[Any] | None]:
    weights = [weight for _, weight in parts if weight is not None]
    codes = np.asfortranarray(np.concatenate([codes for codes, _ in parts]))
    return codes, np.concatenate(weights) if weights else None


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
        cells = read_as(table.column((table.names or ()).index(weight), weight), None)
        if isinstance(cells, Categorical):
            raise DataError(f"sample_weight, column {weight!r}, holds other cells than numbers")
        return table.without(weight), checked_weights(cells, table.count)


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
