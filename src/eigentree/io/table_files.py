"""Tables written to files: CSV, TSV, JSON lines and Parquet, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, FileError
from eigentree.io.byte_files import ENDINGS, PIPE, named_format, needs_arrow, write_bytes
from eigentree.io.text_files import is_formula
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["write_table"]

ROWS_AT_A_TIME = 8_192


def write_table(path: str, parts: Iterable[Mapping[str, Any]], form: str | None = None, types: Any = None) -> int:
    """Return how many rows were written: to a file, whole or not at all, or to standard output.

    Cells of text that a spreadsheet would take for a formula are written to CSV and TSV with an apostrophe before
    them, which readers of ours take off again.

    Parameters
    ----------
    path : str
        A file whose name shows its format, and whether it is compressed; or "-" for standard output.
    parts : iterable of mappings of str to sequences
        Some rows after the other: columns of cells by name; None or NaN where a cell is missing.
    form : {"csv", "tsv", "jsonl", "parquet"}, optional
        By default as the name of the file shows.
    types : pyarrow.Schema, optional
        Of columns of which the first part holds nothing.
    """
    form = form or named_format(path)
    if form not in ("csv", "tsv", "jsonl", "parquet"):
        raise FileError(f"the name {path!r} does not show a format: it ends with none of {ENDINGS}; rename it")
    if form == "parquet":
        needs_arrow(f"{'standard output' if path == PIPE else repr(path)} is to be Parquet", "write CSV")
    rows = escaped = 0

    def write(file: IO[bytes]) -> None:
        nonlocal rows, escaped
        for count, more in _parquet(file, parts, types) if form == "parquet" else _text(file, parts, form):
            rows, escaped = rows + count, escaped + more

    write_bytes(path, write)
    if escaped:
        notice(
            f"{escaped:,} cells begin with =, +, - or @, as formulas of spreadsheets do; they are written "
            f"with an apostrophe before them"
        )
    return rows


def _plain(column: Any) -> list[Any]:
    """Return cells as Python has them, None for a missing one."""
    if hasattr(column, "to_pylist"):
        column = column.to_pylist()
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM" and np.datetime_data(column.dtype)[0] == "ns":
        # Python has no finer dates than those of microseconds, and would show whole numbers.
        column = column.astype(f"{column.dtype.kind}8[us]")
    cells = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return [None if cell is None or cell != cell else cell for cell in cells]


def _text(file: IO[bytes], parts: Iterable[Mapping[str, Any]], form: str) -> Iterator[tuple[int, int]]:
    """Write CSV, TSV or JSON lines; yield how many rows each part has, and how many cells were escaped."""
    names: list[str] = []
    for part in parts:
        columns, changed = [_plain(cells) for cells in part.values()], 0
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
        if form != "jsonl":
            columns, changed = _escaped(columns)
            if not names:
                heads, also = _escaped([list(part)])
                changed += also
                writer.writerow(heads[0])
        names = list(part)
        count = len(columns[0])
        for start in range(0, max(count, 1), ROWS_AT_A_TIME):
            rows = zip(*(column[start : start + ROWS_AT_A_TIME] for column in columns), strict=True)
            if form == "jsonl":
                text.writelines(
                    json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=str) + "\n"
                    for row in rows
                )
            else:
                writer.writerows(rows)
            file.write(text.getvalue().encode("utf-8", "backslashreplace"))
            text.seek(0)
            text.truncate()
        yield count, changed


def _escaped(columns: list[list[Any]]) -> tuple[list[list[Any]], int]:
    """Return columns with an apostrophe before what looks like a formula, and how many such cells there are."""
    made = [
        [f"'{cell}" if isinstance(cell, str) and is_formula(cell) else cell for cell in cells] for cells in columns
    ]
    return made, sum(
        a is not b for one, two in zip(made, columns, strict=True) for a, b in zip(one, two, strict=True)
    )


def _parquet(file: IO[bytes], parts: Iterable[Mapping[str, Any]], types: Any) -> Iterator[tuple[int, int]]:
    """Write Parquet, all rows of the types of the first part; yield how many rows each part has."""
    import pyarrow
    from pyarrow import parquet

    writer, rows = None, 0
    try:
        for part in parts:
            if writer is None:
                table = pyarrow.table({name: _of_one_type(cells) for name, cells in part.items()})
                schema = _completed(table.schema, types)
                writer = parquet.ParquetWriter(file, schema)
            table = pyarrow.table([_of_type(part[field.name], field, rows) for field in schema], schema=schema)
            writer.write_table(table)
            rows += table.num_rows
            yield table.num_rows, 0
    finally:
        if writer is not None:
            writer.close()


def _of_one_type(column: Any) -> Any:
    """Return the cells of a column as Arrow holds them; numbers and text in one column are text."""
    import pyarrow

    if hasattr(column, "to_pylist"):
        return column
    cells = _plain(column)
    try:
        return pyarrow.array(cells)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return pyarrow.array([None if cell is None else str(cell) for cell in cells])


def _completed(schema: Any, types: Any) -> Any:
    """Return a schema in which columns that hold nothing have their known types, or that of text."""
    import pyarrow

    for place, field in enumerate(schema):
        if pyarrow.types.is_null(field.type):
            kind = types.field(field.name).type if types is not None and field.name in types.names else None
            if kind is not None and pyarrow.types.is_dictionary(kind):
                kind = kind.value_type
            schema = schema.set(place, field.with_type(kind or pyarrow.string()))
    return schema


def _of_type(column: Any, field: Any, row: int) -> Any:
    """Return cells as the type that the first rows of their column had."""
    import pyarrow

    made = _of_one_type(column)
    if pyarrow.types.is_string(field.type) and not hasattr(column, "to_pylist"):
        return pyarrow.array([None if cell is None else str(cell) for cell in _plain(column)], field.type)
    try:
        return made if made.type == field.type else made.cast(field.type)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        raise DataError(
            f"from row {row} on, column {field.name!r} is of the type {made.type}, and was {field.type} before; a "
            f"Parquet file has one type per column: write CSV"
        ) from None
