"""Rows on disk: batches that come once, to be read again, and codes that are read often."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.streams.row_batches import Batch, Stream
from eigentree.data.streams.scratch import Scratch, kept_on_disk
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.data.tables.table import ColumnTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes
    from eigentree.data.tables.cells import Cells
    from eigentree.data.tables.columns import Columns

__all__ = ["KeptBatches", "Spool"]


class KeptBatches(Stream):
    """The batches of a stream that can be had once, kept in a temporary file as they come.

    Parameters
    ----------
    stream : Stream
    """

    def __init__(self, stream: Stream) -> None:
        self.names, self.typed, self.rows = stream.names, stream.typed, 0
        self._starts: list[int] = []
        with kept_on_disk():
            self._scratch = Scratch()

    def add(self, batch: Batch) -> None:
        """Write the rows of a batch."""
        table, file = batch.table, self._scratch.file
        with batch.named():
            cells = [_in_few_bytes(table.column(place, name)) for place, name in enumerate(table.all_names)]
        with kept_on_disk():
            self._starts.append(file.seek(0, os.SEEK_END))
            pickle.dump((table.names, cells, table.count, batch.source, batch.first), file)
            file.flush()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches that were written."""
        for start in self._starts:
            self._scratch.file.seek(start)
            names, cells, count, source, first = pickle.load(self._scratch.file)
            table = ColumnTable(names, cells, count, self.typed.container)
            yield Batch(table if names is None or columns is None else table.only(columns), source, first)


def _in_few_bytes(cells: Cells) -> Cells:
    """Return cells with places or whole numbers in the smallest type that holds them."""
    if isinstance(cells, Categorical):
        return replace(cells, places=cells.places.astype(np.min_scalar_type(-1 - len(cells.labels))))
    if cells.dtype.kind not in "iu" or not len(cells):
        return cells
    return cells.astype(np.result_type(*(np.min_scalar_type(end) for end in (cells.min(), cells.max()))))


class _SpoolPart(NamedTuple):
    """Where a chunk of rows lies in the file, columns one after the other; the type of weights after them."""

    start: int
    rows: int
    weights: str | None


@dataclass(frozen=True, eq=False)
class Spool(Encoded):
    """Rows of codes in a temporary file, each column in the smallest type; it goes when the spool goes.

    Attributes
    ----------
    columns : Columns
    rows : int
    """

    columns: Columns
    rows: int
    _scratch: Scratch
    _parts: tuple[_SpoolPart, ...]

    @classmethod
    def of(cls, columns: Columns, chunks: Iterable[tuple[Codes, NDArray[Any] | None]]) -> Spool:
        """Return a spool of chunks of (codes, weights or None)."""
        with kept_on_disk():
            scratch = Scratch()
        parts, end, rows = [], 0, 0
        kinds = [np.min_scalar_type(count) for count in columns.states]
        for codes, weights in chunks:
            held = [codes[:, j].astype(kind, copy=False) for j, kind in enumerate(kinds)]
            held += [] if weights is None else [weights]
            with kept_on_disk():
                for array in held:
                    scratch.file.write(np.ascontiguousarray(array).data)
                scratch.file.flush()
            parts.append(_SpoolPart(end, len(codes), None if weights is None else weights.dtype.str))
            end += sum(array.nbytes for array in held)
            rows += len(codes)
        return cls(columns, rows, scratch, tuple(parts))

    @property
    def bytes(self) -> int:
        """How large the file is."""
        return os.fstat(self._scratch.file.fileno()).st_size

    def chunks(self) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield codes, shape (rows, columns), column-major, and weights or None, as they came."""
        size = rows_at_a_time(len(self.columns.names))
        file = np.memmap(self._scratch.file, np.uint8, "r") if self.bytes else np.zeros(0, np.uint8)
        kinds = [np.min_scalar_type(count).str for count in self.columns.states]
        for part in self._parts:
            held, start = [], part.start
            for kind in (*kinds, *([part.weights] if part.weights else [])):
                stop = start + part.rows * np.dtype(kind).itemsize
                # What lies anywhere in a file is not aligned for its type.
                held.append(np.frombuffer(file[start:stop], kind) if stop > start else np.zeros(0, kind))
                start = stop
            for begin in range(0, part.rows, size):
                rows = slice(begin, min(begin + size, part.rows))
                codes = np.empty((rows.stop - begin, len(kinds)), self.columns.code_type, order="F")
                for j in range(len(kinds)):
                    codes[:, j] = held[j][rows]
                yield codes, np.array(held[-1][rows]) if part.weights else None
