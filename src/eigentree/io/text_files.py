"""Tables in text: CSV, TSV and their like, and JSON lines, read block by block.

Cells of delimited text stay as they are written: what a column holds is known once all of it was seen. Arrow reads
plain files far faster than Python; what it refuses Python reads, and names the line that is wrong.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from array import array
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.errors import FileError, quoted
from eigentree.io.byte_files import read_bytes, shown_path
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from eigentree.arrays import Integers

__all__ = [
    "MISSING_MARKS",
    "TextBlock",
    "TextFile",
    "TextOptions",
    "check_header",
    "is_formula",
    "json_columns",
    "read_text",
]

MISSING_MARKS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""What a missing cell is written as: those that pandas takes for it."""

DELIMITERS = (",", ";", "\t", "|")

SNIFFED_LINES = 20
"""Lines that show the delimiter."""

PYTHON_ROWS = 8_192
"""Rows that Python reads before it puts them into columns."""

BLOCK_BYTES = 2**22
"""Bytes of text that are read at a time."""

_NUMBER = re.compile(r"\s*[+-]?[0-9]+([.,][0-9]*)*([eE][+-]?[0-9]+)?\s*")


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would take text for a formula: it begins with ``=``, ``+``, ``-`` or ``@``."""
    return text[:1] in ("=", "+", "-", "@", "\t", "\r") and len(text) > 1 and not _NUMBER.fullmatch(text)


@dataclass(frozen=True)
class TextOptions:
    """How text is read.

    Attributes
    ----------
    delimiter : str, optional
        The character between cells; by default that of comma, semicolon, tab and bar which the first lines show.
    encoding : str, optional
        By default UTF-8, or UTF-16 where the file begins with its mark.
    decimal : {".", ","}
        The decimal sign of numbers.
    thousands : str, optional
        The character between groups of digits, as the comma of "125,000".
    missing : tuple of str
        What a missing cell is written as, besides `MISSING_MARKS`.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."
    thousands: str | None = None
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
        given = self.delimiter
        if given is not None:
            found = named.get(given, given) if isinstance(given, str) else ""
            if len(found) != 1 or found in '"\r\n':
                raise FileError(f"delimiter is one character, such as ';', or 'tab', not {quoted(given)}")
            object.__setattr__(self, "delimiter", found)
        if self.decimal not in (".", ",") or self.thousands == self.decimal:
            raise FileError(f"decimal is '.' or ',', and not the sign of thousands, not {quoted(self.decimal)}")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except (LookupError, TypeError, ValueError):
            raise FileError(
                f"there is no encoding {quoted(self.encoding)}; common ones are 'utf-8', 'latin-1' and 'cp1252'"
            ) from None

    @cached_property
    def _marks(self) -> frozenset[str]:
        return frozenset((*MISSING_MARKS, *self.missing))

    def cell(self, text: str) -> str | None:
        """Return a cell of text without escapes and with numbers as Python writes them; None for a missing one."""
        if text in self._marks:
            return None
        if text[:1] == "'" and is_formula(text[1:]):
            return text[1:]
        if (self.thousands or self.decimal != ".") and _NUMBER.fullmatch(text):
            return text.replace(self.thousands or "", "").replace(self.decimal, ".")
        return text


class TextBlock(NamedTuple):
    """Some rows of text: names, columns, and how many rows.

    Of each column the place of each cell among its different texts, -1 for a missing cell, and these.
    """

    names: tuple[str, ...]
    columns: list[tuple[Integers, tuple[str, ...]]]
    rows: int


class _Lines:
    """The lines of a text, counted; an undecodable byte is an error that names its line."""

    def __init__(self, file: IO[bytes], shown: str, encoding: str | None) -> None:
        if encoding is None:
            start = file.peek(2)[:2]  # type: ignore[attr-defined]
            encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        self.encoding, self._shown, self._number = encoding, shown, 0
        self._text = io.TextIOWrapper(file, encoding=encoding, newline="")
        self._ahead: list[str] = []

    def first(self, count: int) -> list[str]:
        """Return the first lines, which come again."""
        while len(self._ahead) < count and (line := next(self._decoded(), "")):
            self._ahead.append(line)
        return self._ahead[:]

    def _decoded(self) -> Iterator[str]:
        try:
            for line in self._text:
                self._number += 1
                yield line
        except UnicodeDecodeError as error:
            # What was decoded before ends within the line that is read now.
            line_number = self._number + 1 + error.object[: error.start].count(b"\n")
            raise FileError(
                f"line {line_number} of {self._shown} holds the byte 0x{error.object[error.start]:02x}, which is "
                f"no {self.encoding.removesuffix('-sig').upper()}; give its encoding, often encoding='latin-1' or "
                f"'cp1252' (eigentree.open_table, --encoding), or save it as UTF-8"
            ) from None

    def __iter__(self) -> Iterator[str]:
        yield from self._ahead
        yield from self._decoded()

    def detach(self) -> None:
        """Leave the file to whoever opened it."""
        self._text.detach()


class _TextReader:
    """Delimited text that is being read: its first line, and the rows that follow."""

    def __init__(self, file: IO[bytes], shown: str, options: TextOptions, usual: str) -> None:
        self.shown, self.options = shown, options
        self.lines = _Lines(file, shown, options.encoding)
        self.delimiter = options.delimiter or _sniffed(self.lines.first(SNIFFED_LINES), usual)
        self._rows = csv.reader(iter(self.lines), delimiter=self.delimiter, strict=True)
        with self._named_errors():
            self.header = tuple(next(self._rows, ()))
        # The index that pandas and R write stands first, and has no name.
        self.indexed = len(self.header) > 1 and self.header[0] == ""
        self.names = self.header[1:] if self.indexed else self.header
        check_header(self.names, shown)
        other = next((each for each in DELIMITERS if each in self.names[0]), None)
        if options.delimiter is not None and len(self.names) == 1 and other is not None:
            raise FileError(
                f"the first line of {shown} has no {self.delimiter!r}, and is one name, {quoted(self.names[0])}; "
                f"the delimiter may be {other!r}"
            )

    def blocks(self, size: int | None) -> Iterator[TextBlock]:
        """Yield blocks of at least so many rows; by default all rows at once."""
        texts, places = self._empty()
        with self._named_errors():
            for rows in self._checked():
                for own, found, cells in zip(places, texts, zip(*rows, strict=True), strict=True):
                    own.extend(map(found.__getitem__, cells))
                if size is not None and len(places[0]) >= size:
                    yield self._block(places, texts)
                    texts, places = self._empty()
        if len(places[0]):
            yield self._block(places, texts)

    def _empty(self) -> tuple[list[defaultdict[str, int]], list[array[int]]]:
        """Return the place of each text of a column, in the order in which texts occur, and those of its cells."""
        texts: list[defaultdict[str, int]] = [defaultdict() for _ in self.header]
        for found in texts:
            found.default_factory = found.__len__
        return texts, [array("q") for _ in self.header]

    def _block(self, places: list[array[int]], texts: list[defaultdict[str, int]]) -> TextBlock:
        columns = [
            _column(np.frombuffer(own, np.int64), list(found), self.options)
            for own, found in zip(places, texts, strict=True)
        ]
        return TextBlock(self.names, columns[1:] if self.indexed else columns, len(places[0]))

    def _checked(self) -> Iterator[list[list[str]]]:
        """Yield some rows at a time, once each has as many cells as the first line; empty lines are none."""
        rows: list[list[str]] = []
        for row in self._rows:
            if len(row) != len(self.header):
                if not row:
                    continue
                raise FileError(
                    f"line {self._rows.line_num} of {self.shown} has {len(row)} cells, but the first line "
                    f"{len(self.header)}; a cell with {self.delimiter!r} in it stands in quotes, and another "
                    f"delimiter is given as delimiter="
                )
            rows.append(row)
            if len(rows) == PYTHON_ROWS:
                yield rows
                rows = []
        if rows:
            yield rows

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except csv.Error as error:
            raise FileError(f"line {self._rows.line_num} of {self.shown} cannot be read: {error}") from None


def _sniffed(lines: Sequence[str], usual: str) -> str:
    """Return the delimiter by which most lines have as many cells as the first, and it the most; else the usual."""
    best = 0, 1, False, usual
    for delimiter in DELIMITERS:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        alike = sum(width == widths[0] > 1 for width in widths)
        if 2 * alike > len(widths):
            best = max(best, (alike, widths[0], delimiter == usual, delimiter))
    return best[3]


def _column(places: Integers, texts: Sequence[str], options: TextOptions) -> tuple[Integers, tuple[str, ...]]:
    """Return the cells of a column: places among different texts, and these, once they are read as options say."""
    kept: dict[str, int] = {}
    lookup = [-1 if (cell := options.cell(text)) is None else kept.setdefault(cell, len(kept)) for text in texts]
    # A column of no rows has no texts.
    return np.array([*lookup, -1], np.int64)[places], tuple(kept)


def check_header(names: Sequence[str], shown: str) -> None:
    """Raise `FileError` unless the columns of a file have different names, and there is one at all."""
    if not names:
        raise FileError(f"{shown} is empty; its first line holds the names of the columns")
    if "" in names:
        raise FileError(
            f"the first line of {shown} holds the names of the columns, and one of them is empty: name column "
            f"{names.index('') + 1}"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(f"{shown} has two columns {twice!r}; rename one (its first line holds their names)")


def read_text(file: IO[bytes], shown: str, options: TextOptions, usual: str) -> TextBlock | None:
    """Return the rows of delimited text that can be read once; None where there are none."""
    reader = _TextReader(file, shown, options, usual)
    try:
        _report_index(reader)
        return next(reader.blocks(None), None)
    finally:
        reader.lines.detach()


def _report_index(reader: _TextReader) -> None:
    if reader.indexed:
        notice(
            f"the first column of {reader.shown} has no name, as the index has that to_csv writes; it is left out "
            f"(write with index=False, or name the column to keep it)"
        )


class TextFile:
    """A file of delimited text that can be read more than once.

    `names` are its columns, without an index that has no name; `usual` is the delimiter that its name shows.
    """

    names: tuple[str, ...]

    def __init__(self, path: str, options: TextOptions, usual: str) -> None:
        self.path = path
        with read_bytes(path) as file:
            reader = _TextReader(file, shown_path(path), options, usual)
            _report_index(reader)
            self.names, self._header = reader.names, reader.header
            self._options = replace(options, delimiter=reader.delimiter, encoding=reader.lines.encoding)
            reader.lines.detach()

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[TextBlock]:
        """Yield some columns, block by block: of about so many rows, or bytes where Arrow reads them."""
        done = 0
        if self._arrow_reads:
            import pyarrow

            try:
                for block in self._by_arrow(columns):
                    done += block.rows
                    yield block
                return
            except (OSError, pyarrow.ArrowException):
                pass
        with read_bytes(self.path) as file:
            reader = _TextReader(file, shown_path(self.path), self._options, ",")
            wanted = [reader.names.index(name) for name in columns]
            for block in reader.blocks(rows):
                skip = min(done, block.rows)
                done -= skip
                if skip < block.rows:
                    kept = [(block.columns[at][0][skip:], block.columns[at][1]) for at in wanted]
                    yield TextBlock(tuple(columns), kept, block.rows - skip)

    def _by_arrow(self, columns: Sequence[str]) -> Iterator[TextBlock]:
        import pyarrow
        from pyarrow import csv as arrow_csv

        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        encoding = str(self._options.encoding).removesuffix("-sig")
        with arrow_csv.open_csv(
            self.path,
            arrow_csv.ReadOptions(block_size=BLOCK_BYTES, encoding=encoding),
            arrow_csv.ParseOptions(delimiter=self._options.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, text),
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        ) as reader:
            for batch in reader:
                if batch.num_rows:
                    found = [
                        _column(column.indices.to_numpy(), column.dictionary.to_pylist(), self._options)
                        for column in batch.columns
                    ]
                    yield TextBlock(tuple(columns), found, batch.num_rows)

    @cached_property
    def _arrow_reads(self) -> bool:
        """Whether Arrow is there, and quotes come in pairs: what follows a single one it takes for one cell."""
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            return False
        quotes = 0
        with read_bytes(self.path) as file:
            while piece := file.read(BLOCK_BYTES):
                quotes += piece.count(b'"')
        return quotes % 2 == 0


def json_columns(file: IO[bytes], shown: str, missing: Collection[str] = ()) -> tuple[dict[str, list[Any]], int]:
    """Return the columns of JSON lines, None where a line does not name one, and the number of rows."""
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
            columns.setdefault(name, [None] * count).append(
                None if isinstance(cell, str) and cell in missing else cell
            )
        count += 1
        for cells in columns.values():
            if len(cells) < count:
                cells.append(None)
    if count:
        check_header(tuple(columns), shown)
    return columns, count
