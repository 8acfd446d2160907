"""Codes of rows on disk, small and column by column: rows that come once, or are read often, wait there.

Rows whose labels are not known yet are written with codes in the order in which labels appear. What they are in
the end is known once all rows were seen, and is looked up when the rows are read again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.streams.row_batches import Batch
from eigentree.data.streams.scratch import Scratch, kept_on_disk
from eigentree.data.tables.cells import Categorical, object_array
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows, rows_at_a_time
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Integers
    from eigentree.data.tables.cells import Cells, Label

__all__ = ["Spool", "SpoolWriter"]


@dataclass(frozen=True)
class _SpoolPart:
    """Where a chunk of rows lies in the file: the columns one after the other, then the weights."""

    start: int
    rows: int
    kinds: tuple[str, ...]
    weights: bool

    def columns(self, held: NDArray[np.uint8]) -> list[NDArray[Any]]:
        """Return the columns, of all that the file holds."""
        found, start = [], self.start
        for kind in self.kinds:
            stop = start + self.rows * np.dtype(kind).itemsize
            # What lies anywhere in a file is not aligned for its type.
            found.append(np.frombuffer(held[start:stop], kind) if stop > start else np.zeros(0, kind))
            start = stop
        return found


@dataclass(frozen=True, eq=False)
class Spool(Encoded):
    """Rows of codes in a temporary file, which goes when the spool goes.

    Attributes
    ----------
    columns : Columns
    rows : int
    """

    columns: Columns
    rows: int
    _scratch: Scratch
    _parts: tuple[_SpoolPart, ...]
    _order: tuple[int, ...]
    _lookups: tuple[Integers | None, ...]

    @classmethod
    def of(cls, columns: Columns, chunks: Iterable[tuple[Codes, NDArray[Any] | None]]) -> Spool:
        """Return a spool of chunks of (codes, weights or None), whose labels are known."""
        writer, width = _PartWriter(), len(columns.names)
        kinds = [np.min_scalar_type(count) for count in columns.states]
        for codes, weights in chunks:
            writer.write([codes[:, j].astype(kind, copy=False) for j, kind in enumerate(kinds)], weights)
        return cls(columns, writer.rows, writer.scratch, tuple(writer.parts), tuple(range(width)), (None,) * width)

    @property
    def bytes(self) -> int:
        """How large the file is."""
        return os.fstat(self._scratch.file.fileno()).st_size

    def chunks(self) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield codes, shape (rows, columns), column-major, and weights or None, as they came."""
        size = rows_at_a_time(len(self.columns.names))
        held = np.memmap(self._scratch.file, np.uint8, "r") if self.bytes else np.zeros(0, np.uint8)
        for part in self._parts:
            stored = part.columns(held)
            for start in range(0, part.rows, size):
                rows = slice(start, min(start + size, part.rows))
                codes = np.empty((rows.stop - start, len(self._order)), self.columns.code_type, order="F")
                for j, (place, lookup) in enumerate(zip(self._order, self._lookups, strict=True)):
                    column = stored[place][rows]
                    codes[:, j] = column if lookup is None else lookup[column]
                yield codes, np.array(stored[-1][rows]) if part.weights else None


class _PartWriter:
    """A temporary file that columns are written into, chunk after chunk."""

    def __init__(self) -> None:
        with kept_on_disk():
            self.scratch = Scratch()
        self.parts: list[_SpoolPart] = []
        self.rows = 0
        self._end = 0

    def write(self, columns: Sequence[NDArray[Any]], weights: NDArray[Any] | None) -> None:
        """Write the columns of some rows, each in a type of its own."""
        held = [*columns, *([] if weights is None else [weights])]
        with kept_on_disk():
            for array in held:
                self.scratch.file.write(np.ascontiguousarray(array).data)
            self.scratch.file.flush()
        kinds = tuple(array.dtype.str for array in held)
        self.parts.append(_SpoolPart(self._end, len(columns[0]), kinds, weights is not None))
        self._end += sum(array.nbytes for array in held)
        self.rows += len(columns[0])


class SpoolWriter:
    """Rows on their way into a spool, before all their labels are known.

    Parameters
    ----------
    names : sequence of str
        The names of the columns; where rows have none of their own, x0, x1, ….
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._writer = _PartWriter()
        self._labels = tuple(_SpoolLabels() for _ in names)

    def add(self, batch: Batch, weights: NDArray[Any] | None = None) -> None:
        """Write the rows of a batch."""
        table = batch.table
        with batch.named():
            places = table.places(self._names)
            found = [
                labels.codes(table.column(place, name), batch)
                for place, name, labels in zip(places, self._names, self._labels, strict=True)
            ]
        self._writer.write(found, weights)

    def spool(self, columns: Columns) -> Spool:
        """Return the rows that were written, with the codes of these columns."""
        width = range(len(self._names))
        order = tuple(self._names.index(name) for name in columns.names) if columns.named else tuple(width)
        lookups = tuple(self._labels[place].lookup(_alone(columns, at)) for at, place in enumerate(order))
        return Spool(columns, self._writer.rows, self._writer.scratch, tuple(self._writer.parts), order, lookups)


def _alone(columns: Columns, place: int) -> Columns:
    """Return one of some columns by itself."""
    return Columns((columns.names[place],), (columns.states[place],), (columns.meanings[place],), columns.unknown)


class _SpoolLabels:
    """The different cells of one column in the order in which they came, and where each came first."""

    def __init__(self) -> None:
        # By kind, too: True and 1 are the same key.
        self._codes: dict[tuple[bool, Label], int] = {}
        self._where: list[tuple[str, int]] = []

    def codes(self, cells: Cells, batch: Batch) -> NDArray[Any]:
        """Return codes of the smallest type: 0 for a missing cell, and from 1 on for others as they came."""
        if isinstance(cells, Categorical):
            labels, places = list(cells.labels), cells.places
        else:
            values, places = np.unique(cells, return_inverse=True)
            labels = values.tolist()
            if len(labels) and labels[-1] != labels[-1]:
                # numpy sorts NaN to the end, and counts all of them as one.
                labels.pop()
                places = np.where(places == len(labels), -1, places)
        came = np.bincount(places[places >= 0], minlength=len(labels))
        lookup = np.zeros(len(labels) + 1, np.int64)
        for at, label in enumerate(labels):
            key = (isinstance(label, bool), label)
            if key not in self._codes and came[at]:
                self._codes[key] = len(self._codes) + 1
                self._where.append((batch.source, batch.first + int(np.argmax(places == at))))
            lookup[at] = self._codes.get(key, 0)
        return lookup[places].astype(np.min_scalar_type(len(self._codes)))

    def lookup(self, column: Columns) -> Integers:
        """Return the code of each label in a column, that of missing cells first."""
        labels = [label for _, label in self._codes]
        found = np.full(len(labels) + 1, column.states[0], np.int64)
        if not labels:
            return found
        try:
            found[1:] = Rows.of(object_array(labels).reshape(-1, 1), column).encode()[:, 0]
        except DataError:
            # Again one by one: to name the batch and the row in which it came.
            for label, (source, row) in zip(labels, self._where, strict=True):
                with Batch(None, source, row).named():
                    Rows.of(object_array([label]).reshape(-1, 1), column, first=row).encode()
            raise
        return found
