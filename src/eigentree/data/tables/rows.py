"""Rows of data as integer codes: what a user gives, checked and laid out column by column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.counting.encoding import encode_column, encode_rows
from eigentree.data.tables.cells import Categorical, are_dates, check_states
from eigentree.data.tables.labels import MISSING, UNKNOWN, states_of
from eigentree.data.tables.numbers import Numbers
from eigentree.data.tables.table import each_column, table_of, warn_of_extra
from eigentree.data.tables.text_cells import read_as
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.data.tables.cells import Cells
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.labels import Meaning

__all__ = ["Rows", "rows_at_a_time"]

CHUNK = 16_384
"""Most rows that are encoded at a time."""

CHUNK_CELLS = 2**22
"""Most cells that are worked on at a time, which bounds memory whatever the numbers of rows and columns."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Data that fit some columns; cells are checked when they are encoded.

    Attributes
    ----------
    columns : Columns
    cells : tuple of array, shape (rows,)
        One view per column, of whatever number type the user gave; of a column of numbers floats, NaN where a cell
        is missing.
    whole : array, shape (rows, columns), or None
        The same as one array, where the user gave a column-major one of small unsigned integers, or a row-major one
        of whole numbers of any kind.
    where : callable
        What messages call a row, by its number: rows may be a part of more, or steps of sequences.
    """

    columns: Columns
    cells: tuple[NDArray[Any], ...]
    whole: NDArray[Any] | None = None
    where: Callable[[int], str] = "row {}".format

    @classmethod
    def of(
        cls,
        X: ArrayLike | Any,
        columns: Columns,
        absent: str | None = None,
        first: int = 0,
        where: Callable[[int], str] | None = None,
    ) -> Rows:
        """Return the rows of an array, a list of rows, rows of letters, or a data frame.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Cells are labels of their columns, or codes where these have no labels. Missing cells are None, NaN,
            null, or -1. The columns of an array stand in the order of ``columns.names``; those of a frame are found
            by name. `Rows` of these columns stay as they are.
        columns : Columns
        absent : str, optional
            A column that a frame need not have; its cells are missing then.
        first : int
            The number of the first row, for messages.
        where : callable, optional
            What messages call a row, by its number, in place of that.
        """
        if isinstance(X, Rows):
            return X
        table = table_of(X)
        lenient = columns.unknown == "missing"
        at_row = where or partial(_named, first)
        places = table.places(columns.names, absent, columns.named)
        warn_of_extra(table, columns.names)

        def cells(at: int, name: str) -> NDArray[Any]:
            meaning = columns.meanings[at]
            if places[at] < 0:
                return (
                    np.full(table.count, np.nan)
                    if at in columns.number_places
                    else np.full(table.count, MISSING, np.int8)
                )
            column = read_as(table.column(places[at], name), meaning)
            if isinstance(meaning, Numbers):
                return _measured(column, meaning, name, lenient, at_row)
            check_states(column, name)
            if meaning is None:
                return _numbers(column, columns.states[at], name, lenient, at_row)
            return _coded(column, meaning, name, lenient, at_row)

        read = tuple(each_column(columns.names, cells))
        whole = table.array if type(table.array) is np.ndarray and columns.plain and not lenient else None
        return cls(columns, read, whole if _in_one_piece(whole, columns) else None, at_row)

    @classmethod
    def of_codes(cls, codes: Codes, columns: Columns) -> Rows:
        """Return the rows of codes, shape (rows, columns), in which a missing cell is the code after the last.

        Among floats, columns of numbers hold these, NaN where a cell is missing; among whole numbers their codes,
        and then only which are missing is known of them.
        """
        states = np.array(columns.states)
        if not columns.number_places:
            cells = codes.astype(np.min_scalar_type(-int(states.max())))
            cells[codes == states] = MISSING
            return cls(columns, tuple(cells.T))
        made = []
        for place, own in enumerate(columns.states):
            column = codes[:, place]
            if place not in columns.number_places:
                made.append(np.where(column == own, MISSING, column).astype(np.min_scalar_type(-own)))
            else:
                made.append(column if codes.dtype.kind == "f" else np.where(column == own, np.nan, 0.0))
        return cls(columns, tuple(made))

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.cells[0])

    def taken(self, numbers: Integers) -> Rows:
        """Return some of the rows, by their numbers."""
        return Rows(self.columns, tuple(cells[numbers] for cells in self.cells))

    def missing(self, place: int) -> Booleans:
        """Return where the cells of a column are missing."""
        cells = self.cells[place]
        if place in self.columns.number_places:
            return np.asarray(np.isnan(cells))
        absent: Booleans = cells == MISSING
        return absent | (cells != cells) if cells.dtype.kind == "f" else absent

    def encode(self, start: int = 0, stop: int | None = None) -> Codes:
        """Return the codes of some rows, shape (stop - start, columns), column-major; by default of all.

        That of a number is 0; `values` returns the numbers.
        """
        stop = self.count if stop is None else min(stop, self.count)
        states = self.columns.states
        codes = np.empty((stop - start, len(states)), self.columns.code_type, order="F")
        if stop == start or (self.whole is not None and self._encode_whole(start, codes)):
            return self._unchanged(codes)
        for j, (column, count) in enumerate(zip(self.cells, states, strict=True)):
            cells = column[start:stop]
            if j in self.columns.number_places:
                codes[:, j] = np.isnan(cells)
                continue
            # numpy's vectorised minimum and copy beat a loop that looks at each cell, where nothing is amiss.
            unsigned, whole = cells.dtype.kind == "u", cells.dtype.kind in "iu"
            if whole and cells.flags.c_contiguous and cells.max() < count and (unsigned or cells.min() >= 0):
                codes[:, j] = cells
                continue
            bad = encode_column(cells, count, codes[:, j])
            if bad >= 0:
                name = self.columns.names[j]
                raise DataError(
                    f"{self.where(start + bad)}, column {name!r} holds {column[start + bad].item()!r}, "
                    f"but {name!r} has the codes 0 to {count - 1} (-1, NaN or null for a missing cell); {_WIDEN}"
                )
        return self._unchanged(codes)

    def values(self, start: int = 0, stop: int | None = None) -> Floats:
        """Return the numbers of some rows, shape (stop - start, columns of numbers); NaN for a missing one.

        Dates are days. The columns are those at `Columns.number_places`, in their order.
        """
        stop = self.count if stop is None else min(stop, self.count)
        own = self.columns.number_places
        values = np.empty((stop - start, len(own)), order="F")
        for column, place in enumerate(own):
            values[:, column] = self.cells[place][start:stop]
        return values

    def _encode_whole(self, start: int, codes: Codes) -> bool:
        """Return whether all is well, after writing the codes of some rows of one array."""
        assert self.whole is not None
        states = np.array(self.columns.states)
        if self.whole.flags.f_contiguous:
            codes[:] = self.whole[start : start + len(codes)]
            return bool((codes.max(axis=0) < states).all())
        wrong = np.empty(len(states), np.bool_)
        encode_rows(self.whole, start, states, codes.T, wrong)
        return not wrong.any()

    def _unchanged(self, codes: Codes) -> Codes:
        """Return codes that lead into no table's outside.

        Another thread, or another process that writes a mapped file, can change cells after they were checked; the
        codes are ours.
        """
        if (codes.max(axis=0, initial=0) > np.array(self.columns.states)).any():
            raise DataError("the data changed while they were read; give a copy of what others write")
        return codes

    def chunks(
        self, size: int | None = None, first: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, Codes]]:
        """Yield the first row and the codes of consecutive parts of the data; `size` is what memory allows.

        From the `first` row on, up to before the one at `stop`; by default all.
        """
        size = size or rows_at_a_time(len(self.cells))
        stop = self.count if stop is None else stop
        for start in range(first, stop, size):
            yield start, self.encode(start, min(start + size, stop))


def _named(first: int, row: int) -> str:
    return f"row {first + row}"


def _in_one_piece(cells: NDArray[Any] | None, columns: Columns) -> bool:
    """Return whether cells can be encoded all columns at once."""
    if cells is None or cells.ndim != 2 or not cells.dtype.isnative or not cells.flags.aligned:
        return False
    if cells.flags.f_contiguous:
        return cells.dtype == columns.code_type
    # A number of 64 bits without a sign does not compare with -1.
    return cells.dtype.kind in "iu" and cells.dtype != np.uint64 and cells.flags.c_contiguous


_WIDEN = "fit with all of them as categories=, or take what is unknown as missing with handle_unknown='missing'"


def _numbers(cells: Cells, states: int, name: str, lenient: bool, where: Callable[[int], str]) -> NDArray[Any]:
    """Return the cells of a column whose codes stand for themselves, NaN or -1 where one is missing."""
    if isinstance(cells, Categorical):
        codes = [label if isinstance(label, int) else UNKNOWN for label in cells.labels]
        if not lenient and UNKNOWN in codes:
            unknown = codes.index(UNKNOWN)
            row = np.flatnonzero(cells.places == unknown)
            shown = f"{where(int(row[0]))}, column {name!r}" if len(row) else f"column {name!r}"
            raise DataError(
                f"{shown} holds {cells.labels[unknown]!r}, but {name!r} has the integer codes 0 to {states - 1}; "
                f"fit on labels, or give them as categories={{{name!r}: [...]}}"
            )
        cells = np.array([*codes, MISSING], np.int64)[cells.places]
    elif cells.dtype.kind == "b":
        cells = cells.astype(np.uint8)
    if lenient:
        with np.errstate(invalid="ignore"):
            known = (cells >= 0) & (cells < states) & (cells == np.floor(cells))
        if not known.all():
            cells = np.where(known, cells, MISSING).astype(np.int64)
    return cells


def _coded(cells: Cells, meaning: Meaning, name: str, lenient: bool, where: Callable[[int], str]) -> NDArray[Any]:
    """Return the codes of a column of labels or numbers, -1 where a cell is missing."""
    codes = meaning.encode(cells)
    if (unknown := codes == UNKNOWN).any():
        if not lenient:
            row = int(unknown.argmax())
            cell = cells.labels[cells.places[row]] if isinstance(cells, Categorical) else cells[row].item()
            raise DataError(
                f"{where(row)}, column {name!r} holds {cell!r}, but {name!r} has {meaning.described()}; {_WIDEN}"
            )
        codes[unknown] = MISSING
    return codes.astype(np.min_scalar_type(-1 - states_of(meaning)))


def _measured(
    cells: Cells, meaning: Numbers, name: str, lenient: bool, where: Callable[[int], str]
) -> NDArray[Any]:
    """Return the cells of a column of numbers as floats, NaN where one is missing."""
    values = meaning.values(cells)
    unknown = np.isinf(values)
    if unknown.any():
        row = int(unknown.argmax())
        raise DataError(f"{where(row)}, column {name!r} holds {values[row].item()!r}; mark missing cells as NaN")
    if not lenient and (unknown := meaning.encode(cells) == UNKNOWN).any():
        row = int(unknown.argmax())
        raise DataError(
            f"{where(row)}, column {name!r} holds {_shown(cells, row)}, but {name!r} has {meaning.described()} "
            f"(NaN, None or null for a missing cell); take what is none as missing with handle_unknown='missing'"
        )
    return values


def _shown(cells: Cells, row: int) -> str:
    if isinstance(cells, Categorical):
        return repr(cells.labels[cells.places[row]])
    return str(cells[row]) if are_dates(cells) else repr(cells[row].item())


def rows_at_a_time(cells: int) -> int:
    """Return how many rows to work on at a time when each takes this many cells."""
    return max(1, min(CHUNK, CHUNK_CELLS // cells))
