"""Rows of a stream as Arrow tables, with the types of the columns of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.labels import Bins
from eigentree.data.tables.restore import as_frame
from eigentree.data.tables.table import frame_of
from eigentree.data.tables.text_cells import FileTable, TextColumn, read_as

if TYPE_CHECKING:
    from eigentree.data.streams.row_batches import Batch
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.labels import Meaning

__all__ = ["arrow_rows"]


def arrow_rows(batch: Batch, columns: Columns) -> Any:
    """Return the rows of a batch as an Arrow table, with all the columns that they have.

    Text of a file is turned into what the columns of a model hold: text, numbers, or truth values.
    """
    if isinstance(batch.data, FileTable):
        return _typed(batch.data, columns)
    with batch.named():
        frame = frame_of(batch.data)
        if frame is None:
            frame = frame_of(as_frame(batch.data, columns.names, "pyarrow"))
        assert frame is not None
        return frame.to_arrow()


def _typed(table: FileTable, columns: Columns) -> Any:
    import pyarrow

    made = {}
    for place, name in enumerate(table.names):
        cells = table.held[place]
        if not isinstance(cells, TextColumn) or name not in columns.names:
            made[name] = pyarrow.array(table.cells(place)) if isinstance(cells, Categorical | np.ndarray) else cells
            continue
        meaning = columns.meanings[columns.position(name)]
        read = read_as(cells, meaning)
        kind = _kind(meaning)
        if isinstance(read, Categorical):
            # What is no label of the column is a missing cell there, or an error by now.
            values = np.array([*(label if type(label) is kind else None for label in read.labels), None], object)
            made[name] = pyarrow.array(values[read.places], _arrow_type(kind))
        else:
            missing = read != read
            values = np.where(missing, 0, read).astype(np.int64 if kind is int else np.float64)
            made[name] = pyarrow.array(values, _arrow_type(kind), mask=missing)
    return pyarrow.table(made)


def _kind(meaning: Meaning | None) -> type:
    """Return what the cells of a column are."""
    if meaning is None:
        return int
    if isinstance(meaning, Bins):
        return int if meaning.whole else float
    kinds = {type(value) for value in meaning.values}
    for kind in (str, float, int):
        if kind in kinds:
            return kind
    return bool


def _arrow_type(kind: type) -> Any:
    import pyarrow

    return {str: pyarrow.string(), float: pyarrow.float64(), int: pyarrow.int64(), bool: pyarrow.bool_()}[kind]
