"""Answers about rows of a stream, written batch by batch into one Parquet file: whole, or not at all."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.atomic_write import write_whole
from eigentree.data.streams.row_batches import needs_arrow
from eigentree.data.tables.cells import Factored
from eigentree.data.tables.labels import Bins
from eigentree.data.tables.restore import as_frame
from eigentree.data.tables.table import frame_of
from eigentree.data.tables.text_cells import TextTable, Written, WrittenTable, read_as
from eigentree.errors import DataError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from eigentree.data.streams.row_batches import Batch
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.labels import Meaning

__all__ = ["arrow_rows", "write_parts"]


def write_parts(path: str | os.PathLike[str], parts: Iterator[tuple[Batch, Any]], types: Any = None) -> int:
    """Return how many rows were written: those of Arrow tables, one per batch, all of the types of the first.

    Parameters
    ----------
    path : str or PathLike
    parts : iterator of (Batch, pyarrow.Table)
    types : pyarrow.Schema, optional
        Of columns of which the first table holds nothing, and so tells none.

    Raises
    ------
    FileError
        When the file cannot be written; one that was there is as it was.
    DataError
        When a batch has columns of another type. What `parts` raise passes through.
    """
    needs_arrow("writing Parquet")
    from pyarrow import parquet

    rows = 0

    def write(file: IO[bytes]) -> None:
        nonlocal rows
        writer = None
        try:
            for batch, table in parts:
                if writer is None:
                    schema = _completed(table.schema.remove_metadata(), types)
                    writer = parquet.ParquetWriter(file, schema)
                writer.write_table(_cast(table, schema, batch))
                rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()

    write_whole(path, write)
    return rows


def _completed(schema: Any, types: Any) -> Any:
    """Return a schema in which columns that hold nothing have the types that others tell of them."""
    import pyarrow

    for place, field in enumerate(schema):
        if types is not None and pyarrow.types.is_null(field.type) and field.name in types.names:
            known = types.field(field.name).type
            plain = known.value_type if pyarrow.types.is_dictionary(known) else known
            schema = schema.set(place, field.with_type(plain))
    return schema


def _cast(table: Any, schema: Any, batch: Batch) -> Any:
    """Return a table with the types of the first one."""
    import pyarrow

    made = []
    for field in schema:
        column = table.column(field.name)
        try:
            made.append(column if column.type == field.type else column.cast(field.type))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            raise DataError(
                f"{batch.source}: column {field.name!r} is of the type {column.type} here, and was {field.type} "
                f"before; a Parquet file has one type per column"
            ) from None
    return pyarrow.table(made, schema=schema)


def arrow_rows(batch: Batch, columns: Columns) -> Any:
    """Return the rows of a batch as an Arrow table, with all the columns that they have.

    Text of a file is turned into what the columns of a model hold: text, numbers, or truth values.
    """
    if isinstance(batch.data, WrittenTable):
        return _typed(batch.data, columns)
    if isinstance(batch.data, TextTable):
        return batch.data.plain()
    with batch.named():
        frame = frame_of(batch.data)
        if frame is None:
            frame = frame_of(as_frame(batch.data, columns.names, "pyarrow"))
        assert frame is not None
        return frame.to_arrow()


def _typed(table: WrittenTable, columns: Columns) -> Any:
    import pyarrow

    made = {}
    for place, name in enumerate(table.names or ()):
        if name not in columns.names:
            made[name] = table.arrow.column(place).cast(pyarrow.string())
            continue
        meaning = columns.meanings[columns.position(name)]
        cells = table.column(place, name)
        assert isinstance(cells, Written)
        read = read_as(cells, meaning)
        kind = _kind(meaning)
        if isinstance(read, Factored):
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
