"""Tables written to files: CSV, TSV, JSON lines and Parquet, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, FileError
from eigentree.io.byte_files import ENDINGS, PIPE, named_format, write_bytes
from eigentree.io.text_files import is_formula
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["write_table"]

ROWS_AT_A_TIME = 8_192


def write_table(
    path: str,
    parts: Iterable[Mapping[str, Any]],
    form: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    types: Any = None,
) -> int:
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
    delimiter, encoding : str, optional
        Of CSV and TSV.
    types : pyarrow.Schema, optional
        Of columns of which the first part holds nothing.
    """
    form = form or named_format(path)
    if form == "parquet":
        writer: _TextWriter | _ParquetWriter = _ParquetWriter(parts, types, path)
    elif form in ("csv", "tsv", "jsonl"):
        writer = _TextWriter(parts, form, delimiter or ("\t" if form == "tsv" else ","), encoding)
    else:
        raise FileError(f"the name {path!r} does not show a format: it ends with none of {ENDINGS}; rename it")
    write_bytes(path, writer.write)
    if isinstance(writer, _TextWriter) and writer.escaped:
        notice(
            f"{writer.escaped:,} cells begin with =, +, - or @, as formulas of spreadsheets do; they are written "
            f"with an apostrophe before them"
        )
    return writer.rows


def _plain(column: Any) -> list[Any]:
    """Return cells as Python has them, None for a missing one."""
    if hasattr(column, "to_pylist"):
        column = column.to_pylist()
    cells = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return [None if cell is None or cell != cell else cell for cell in cells]


class _TextWriter:
    """Rows on their way into CSV, TSV or JSON lines."""

    def __init__(self, parts: Iterable[Mapping[str, Any]], form: str, delimiter: str, encoding: str) -> None:
        self._parts, self._form, self._delimiter, self._encoding = parts, form, delimiter, encoding
        self.rows, self.escaped = 0, 0

    def write(self, file: IO[bytes]) -> None:
        """Write all rows; the names of the columns are those of the first part."""
        begun = False
        for part in self._parts:
            names = list(part)
            columns = [self._cells(part[name]) for name in names]
            count = len(columns[0])
            for start in range(0, max(count, 1), ROWS_AT_A_TIME):
                rows = zip(*(column[start : start + ROWS_AT_A_TIME] for column in columns), strict=True)
                text = io.StringIO()
                if self._form == "jsonl":
                    text.writelines(
                        json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n" for row in rows
                    )
                else:
                    writer = csv.writer(text, delimiter=self._delimiter, lineterminator="\n")
                    if not begun:
                        writer.writerow(self._cells(names))
                    writer.writerows(rows)
                begun = True
                try:
                    file.write(text.getvalue().encode(self._encoding))
                except UnicodeEncodeError as error:
                    raise DataError(
                        f"{error.object[error.start]!r} cannot be written in {self._encoding}; write UTF-8"
                    ) from None
            self.rows += count

    def _cells(self, column: Any) -> list[Any]:
        cells = _plain(column)
        if self._form == "jsonl":
            return cells
        made = [f"'{cell}" if isinstance(cell, str) and is_formula(cell) else cell for cell in cells]
        self.escaped += sum(new is not old for new, old in zip(made, cells, strict=True))
        return made


class _ParquetWriter:
    """Rows on their way into Parquet, all of the types of the first part."""

    def __init__(self, parts: Iterable[Mapping[str, Any]], types: Any, path: str) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            shown = "standard output" if path == PIPE else repr(path)
            raise FileError(
                f"{shown} is to be Parquet, which takes pyarrow: pip install pyarrow; or write CSV"
            ) from None
        self._parts, self._types, self.rows = parts, types, 0

    def write(self, file: IO[bytes]) -> None:
        """Write all rows."""
        import pyarrow
        from pyarrow import parquet

        writer = None
        try:
            for part in self._parts:
                if writer is None:
                    table = pyarrow.table({name: _of_one_type(cells) for name, cells in part.items()})
                    schema = _completed(table.schema, self._types)
                    writer = parquet.ParquetWriter(file, schema)
                made = [_of_type(part[field.name], field, self.rows) for field in schema]
                table = pyarrow.table(made, schema=schema)
                writer.write_table(table)
                self.rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "to_pylist")


def _of_one_type(column: Any) -> Any:
    """Return the cells of a column as Arrow holds them; numbers and text in one column are text."""
    import pyarrow

    if _is_arrow(column):
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
    if pyarrow.types.is_string(field.type) and not _is_arrow(column):
        return pyarrow.array([None if cell is None else str(cell) for cell in _plain(column)], field.type)
    try:
        return made if made.type == field.type else made.cast(field.type)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        raise DataError(
            f"from row {row} on, column {field.name!r} is of the type {made.type}, and was {field.type} before; a "
            f"Parquet file has one type per column: write CSV"
        ) from None
