"""Tables in and out: CSV, TSV, JSON lines and Parquet, as a model reads them and as people wrote them.

Cells of text files stay as they are written until a model says what its labels are: a column of "1" and "2" is one
of numbers where the model has learned numbers, and of text where it has learned text.
"""

import csv
import io
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from eigentree.cli.arguments import PIPE, Reading, UsageError
from eigentree.cli.pipes import PACKED, plain_name, read_bytes, written
from eigentree.data.tables.cells import Factored, array_cells, object_array
from eigentree.data.tables.table import ARRAY, Table, table_of
from eigentree.data.tables.text_cells import Written
from eigentree.errors import DataError, FileError, what_there_is
from eigentree.io.text_files import MISSING_MARKS

__all__ = [
    "FORMATS",
    "Given",
    "format_of",
    "given_of_arrow",
    "marks_of",
    "narrowed",
    "read_table",
    "reading_parquet",
    "required",
    "text_blocks",
    "write_table",
]

FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS |= {".parquet": "parquet", ".pq": "parquet"}
"""Formats by the ends of names."""

ROWS_AT_A_TIME = 8_192


class Given(Table):
    """The rows of a file, column by column.

    Attributes
    ----------
    names : tuple of str
    held : list of Cells, or of columns of frames
    count : int
    shown : str
        The name of the file, for messages.
    """

    names: tuple[str, ...]

    def __init__(self, names: tuple[str, ...], held: list[Any], count: int, shown: str) -> None:
        self.names, self.held, self.count, self.shown = names, held, count, shown
        self.container, self.width, self.ndim = ARRAY, len(names), 2

    def read_column(self, place: int, name: str) -> Any:
        """Return the cells of a column."""
        held = self.held[place]
        if isinstance(held, Factored):
            return held
        if isinstance(held, np.ndarray):
            return array_cells(held, name)
        return table_of(held).column(0, name)

    def cells(self, place: int) -> list[Any]:
        """Return the cells of a column as they were written, None for a missing one."""
        held = self.held[place]
        if isinstance(held, Factored):
            labels = object_array([*held.labels, None])
            found: list[Any] = labels[held.places].tolist()
            return found
        if isinstance(held, np.ndarray):
            return [None if cell is None or cell != cell else cell for cell in held.tolist()]
        return table_of(held).cells(0)

    def take(self, rows: np.ndarray[Any, Any]) -> "Given":
        """Return some of the rows, by their numbers."""
        held: list[Any] = []
        for each in self.held:
            if isinstance(each, Factored):
                held.append(type(each)(each.places[rows], each.labels, each.declared, each.ordered))
            else:
                held.append(each[rows] if isinstance(each, np.ndarray) else each.take(rows))
        return Given(self.names, held, len(rows), self.shown)

    def after(self, rows: int) -> "Given":
        """Return the rows but for so many at the beginning."""
        return self.take(np.arange(rows, self.count)) if rows else self

    def only(self, names: Sequence[str]) -> "Given":
        """Return some of the columns, in this order.

        Raises
        ------
        DataError
            When one is not there.
        """
        for name in names:
            required(name, self.names, self.shown)
        places = {name: place for place, name in enumerate(self.names)}
        return Given(tuple(names), [self.held[places[name]] for name in names], self.count, self.shown)

    def without(self, names: Sequence[str]) -> "Given":
        """Return all columns but some; these have to be there."""
        for name in names:
            required(name, self.names, self.shown)
        left = [name for name in self.names if name not in names]
        if not left:
            raise DataError(f"{self.shown} has no columns left")
        return self.only(left)


def required(name: str, names: Sequence[str], shown: str) -> str:
    """Return the name of a column, once it is there; raise `DataError` with a hint where it is not."""
    if name not in names:
        raise DataError(f"{shown} has no column {name!r}{what_there_is(name, names)}")
    return name


def format_of(path: str, given: str | None) -> str:
    """Return how a table is written: as the name of its file says, as was given, or as CSV in a pipe.

    Raises
    ------
    UsageError
        When neither tells.
    """
    if path == PIPE:
        return given or "csv"
    name = plain_name(path)
    kind = next((kind for end, kind in FORMATS.items() if name.endswith(end) and name != end), None)
    if kind is None and given is None:
        known = ", ".join(FORMATS)
        raise UsageError(
            f"the name {path!r} does not tell its format: it ends with none of {known} (and {', '.join(PACKED)}); "
            f"say it, as in --format csv"
        )
    return kind or str(given)


def read_table(path: str, reading: Reading) -> Given:
    """Return the rows of a file or of standard input.

    Raises
    ------
    FileError, DataError
        When there is no such file, or it is no table: names the line.
    """
    kind = format_of(path, reading.format)
    shown = "standard input" if path == PIPE else repr(path)
    marks = marks_of(reading)
    given: Given | None
    with read_bytes(path) as file:
        if kind == "parquet":
            given = _parquet(file, shown, marks)
        elif kind == "jsonl":
            given = _json_lines(file, shown, marks)
        else:
            given = next(text_blocks(file, shown, "," if kind == "csv" else "\t", marks), None)
    if given is None or not given.count:
        raise DataError(f"{shown} has no rows; give at least one")
    return narrowed(given, reading)


def marks_of(reading: Reading) -> frozenset[str]:
    """Return all that a missing cell is written as."""
    return frozenset((*MISSING_MARKS, *(reading.missing or ())))


def narrowed(given: Given, reading: Reading) -> Given:
    """Return rows without the columns that are to be dropped."""
    return given.without(reading.drop) if reading.drop else given


class _Places(dict[str, int]):
    """The place of each text, in the order in which texts are met."""

    def __missing__(self, text: str) -> int:
        place = self[text] = len(self)
        return place


def text_blocks(
    file: IO[bytes], shown: str, delimiter: str, marks: frozenset[str], size: int | None = None
) -> Iterator[Given]:
    """Yield the rows of a text with a first line of names, at least so many at a time; by default all at once."""
    lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        names = tuple(next(reader, ()))
        _check_names(names, shown)
        known = [_Places() for _ in names]
        places = [array("q") for _ in names]
        for block in _blocks(reader, len(names), shown):
            for texts, own, found in zip(known, places, zip(*block, strict=True), strict=True):
                own.extend(map(texts.__getitem__, found))
            if size is not None and len(places[0]) >= size:
                yield _made(names, places, known, marks, shown)
                known = [_Places() for _ in names]
                places = [array("q") for _ in names]
    except UnicodeDecodeError as error:
        raise FileError(f"{shown} is no text in UTF-8 ({error.reason}); save it as UTF-8") from None
    except csv.Error as error:
        raise FileError(f"line {reader.line_num} of {shown} cannot be read: {error}") from None
    finally:
        # The file is whoever opened it's to close.
        lines.detach()
    if len(places[0]):
        yield _made(names, places, known, marks, shown)


def _made(
    names: tuple[str, ...],
    places: "Sequence[array[int]]",
    known: Sequence[_Places],
    marks: frozenset[str],
    shown: str,
) -> Given:
    held = [_marked(own, texts, marks) for own, texts in zip(places, known, strict=True)]
    return Given(names, held, len(places[0]), shown)


def _blocks(reader: Any, width: int, shown: str) -> Iterator[list[list[str]]]:
    """Yield rows of cells, a number of them at a time; empty lines are none."""
    block: list[list[str]] = []
    for row in reader:
        if len(row) != width:
            if not row:
                continue
            raise FileError(
                f"line {reader.line_num} of {shown} has {len(row)} cells, but the first line {width}; a cell with "
                f"a comma in it stands in quotes, and TSV is said by --format tsv or the name"
            )
        block.append(row)
        if len(block) == ROWS_AT_A_TIME:
            yield block
            block = []
    if block:
        yield block


def _marked(places: "array[int]", texts: _Places, marks: frozenset[str]) -> Written:
    """Return a column in which marks are missing cells."""
    kept = [text for text in texts if text not in marks]
    new = {text: place for place, text in enumerate(kept)}
    # A column of no rows has no texts.
    renumbered = np.array([*(new.get(text, -1) for text in texts), -1], np.int64)
    return Written(renumbered[np.frombuffer(places, np.int64)], tuple(kept))


def _check_names(names: Sequence[str], shown: str) -> None:
    if not names:
        raise FileError(f"{shown} is empty; its first line holds the names of the columns")
    if "" in names:
        place = names.index("")
        raise FileError(
            f"the first line of {shown} holds the names of the columns, and one of them is empty: name column "
            f"{place + 1}"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(f"{shown} has two columns {twice!r}; rename one (its first line holds their names)")


def _json_lines(file: IO[bytes], shown: str, marks: frozenset[str]) -> Given:
    columns: dict[str, list[Any]] = {}
    count = 0
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise FileError(f"line {number} of {shown} is no JSON: {error}") from None
        if not isinstance(row, dict):
            raise FileError(f'line {number} of {shown} is no object such as {{"odor": "none"}}')
        for name, cell in row.items():
            if isinstance(cell, dict | list):
                raise FileError(f"line {number} of {shown} holds more than one value in {name!r}")
            if name not in columns:
                columns[name] = [None] * count
            columns[name].append(None if isinstance(cell, str) and cell in marks else cell)
        count += 1
        for cells in columns.values():
            if len(cells) < count:
                cells.append(None)
    if count:
        _check_names(tuple(columns), shown)
    return Given(tuple(columns), [object_array(cells) for cells in columns.values()], count, shown)


@contextmanager
def reading_parquet(shown: str) -> Iterator[Any]:
    """Hand out the reader of Parquet, and raise `FileError` for what is wrong with a file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise FileError(f"{shown} is Parquet, which takes pyarrow: pip install pyarrow; or give CSV") from None
    try:
        yield parquet
    except (OSError, pyarrow.ArrowException) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise FileError(f"{shown} is no Parquet, or damaged: {reason}") from None


def _parquet(file: IO[bytes], shown: str, marks: frozenset[str]) -> Given:
    with reading_parquet(shown) as parquet:
        import pyarrow

        table = parquet.read_table(pyarrow.BufferReader(file.read()))
    return given_of_arrow(table, shown, marks)


def given_of_arrow(table: Any, shown: str, marks: frozenset[str]) -> Given:
    """Return the rows of an Arrow table, or of a batch of one, in which texts that are marks are missing cells."""
    import pyarrow
    from pyarrow import compute

    _check_names(table.schema.names, shown)
    held = []
    for name in table.schema.names:
        column = table.column(name)
        if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
            missing = compute.is_in(column, pyarrow.array(sorted(marks), column.type))
            column = compute.if_else(missing, pyarrow.scalar(None, column.type), column)
        held.append(pyarrow.table({name: column}))
    return Given(tuple(table.schema.names), held, table.num_rows, shown)


def write_table(path: str, kind: str, names: Sequence[str], parts: Iterable[Sequence[Sequence[Any]]]) -> None:
    """Write a table, some rows after the other, to a file whole or not at all, or to standard output.

    Parameters
    ----------
    path : str
    kind : {"csv", "tsv", "jsonl", "parquet"}
    names : sequence of str
    parts : iterable of sequences of sequences
        Columns of cells of any plain kind; None or NaN where one is missing.
    """
    plain = ([_plain_cells(column) for column in columns] for columns in parts)
    if kind == "parquet":
        written(path, lambda file: _write_parquet(file, path, names, plain))
    else:
        written(path, lambda file: _write_text(file, kind, names, plain))


def _plain_cells(column: Sequence[Any]) -> list[Any]:
    cells = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return [None if cell is None or cell != cell else cell for cell in cells]


def _write_text(file: IO[bytes], kind: str, names: Sequence[str], parts: Iterable[Sequence[list[Any]]]) -> None:
    begun = False
    for columns in parts:
        for start in range(0, max(len(columns[0]), 1), ROWS_AT_A_TIME):
            rows = zip(*(column[start : start + ROWS_AT_A_TIME] for column in columns), strict=True)
            text = io.StringIO()
            if kind == "jsonl":
                text.writelines(
                    json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n" for row in rows
                )
            else:
                writer = csv.writer(text, delimiter="," if kind == "csv" else "\t", lineterminator="\n")
                if not begun:
                    writer.writerow(names)
                writer.writerows(rows)
            begun = True
            file.write(text.getvalue().encode())


def _write_parquet(file: IO[bytes], path: str, names: Sequence[str], parts: Iterable[Sequence[list[Any]]]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        shown = "standard output" if path == PIPE else repr(path)
        raise FileError(
            f"{shown} is to be Parquet, which takes pyarrow: pip install pyarrow; or write CSV"
        ) from None
    writer = None
    try:
        for columns in parts:
            if writer is None:
                table = pyarrow.table(
                    {name: _of_one_type(cells) for name, cells in zip(names, columns, strict=True)}
                )
                writer = parquet.ParquetWriter(file, table.schema)
            else:
                made = [_of_type(cells, field) for cells, field in zip(columns, table.schema, strict=True)]
                table = pyarrow.table(made, schema=table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _of_one_type(cells: list[Any]) -> Any:
    import pyarrow

    try:
        found = pyarrow.array(cells)
        # Of a column that holds nothing yet, text may come later.
        return found.cast(pyarrow.string()) if pyarrow.types.is_null(found.type) else found
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        # Numbers and text in one column.
        return pyarrow.array([None if cell is None else str(cell) for cell in cells])


def _of_type(cells: list[Any], field: Any) -> Any:
    """Return cells of later rows as the type that the first rows of their column had."""
    import pyarrow

    if pyarrow.types.is_string(field.type):
        cells = [None if cell is None else str(cell) for cell in cells]
    try:
        return pyarrow.array(cells, field.type)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        raise DataError(
            f"the first rows of column {field.name!r} are of the type {field.type}, and later ones are not; "
            f"Parquet has one type per column, so write CSV"
        ) from None
