"""Tables as users bring them, read one column at a time: arrays, lists of rows, rows of letters, frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentree.data.tables.cells import (
    Categorical,
    Cells,
    array_cells,
    frame_cells,
    is_missing,
    letter_cells,
    object_array,
)
from eigentree.errors import DataError, did_you_mean, quoted, what_there_is
from eigentree.messages import notice
from eigentree.validation import check_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ARRAY",
    "TEXT",
    "ColumnTable",
    "Table",
    "as_array",
    "each_column",
    "extra_columns",
    "frame_of",
    "placed",
    "shown_columns",
    "table_of",
    "warn_of_extra",
]

ARRAY = "array"
"""The container of arrays and lists of rows."""

MOST_ERRORS = 8
"""Columns whose errors are all shown."""

T = TypeVar("T")

TEXT = "text"
"""The container of rows that are words of equally many letters."""


class Table(ABC):
    """Rows and columns of anything.

    Attributes
    ----------
    count : int
        Number of rows.
    names : tuple of str, or None
        The names of the columns, where they have some and do not count by position.
    array : array, shape (rows, columns), or None
        All cells in one array, where they stand in one.
    container : str
        What holds them: `ARRAY`, `TEXT`, or the name of a library of frames.
    """

    container: str
    count: int
    width: int
    names: tuple[str, ...] | None = None
    array: NDArray[Any] | None = None

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of the columns, x0, x1, … where they have none."""
        return self.names or tuple(f"x{place}" for place in range(self.width))

    def column(self, place: int, name: str) -> Cells:
        """Return the cells of a column; its name is for messages. Labels are factorised once."""
        if (found := self._factorised.get(place)) is None:
            cells = self.read_column(place, name)
            if not isinstance(cells, Categorical):
                return cells
            found = self._factorised[place] = cells
        return found

    @cached_property
    def _factorised(self) -> dict[int, Categorical]:
        return {}

    @abstractmethod
    def read_column(self, place: int, name: str) -> Cells:
        """Return the cells of a column, read anew."""

    @abstractmethod
    def cells(self, place: int) -> list[Any]:
        """Return the cells of a column as the user gave them."""

    def places(self, names: Sequence[str], absent: str | None = None, named: bool = True) -> Sequence[int]:
        """Return where the columns of some names stand: by position, unless the table has names of its own.

        Parameters
        ----------
        names : sequence of str
        absent : str, optional
            A column that a frame need not have; its place is -1 then.
        named : bool
            Whether the names are those of a frame, or a graph's.
        """
        return placed(self.names, self.width, names, absent, named)

    def holds_numbers(self, place: int) -> bool:
        """Return whether a column is one of numbers by its type, whatever its cells."""
        return False

    @abstractmethod
    def only(self, names: Sequence[str]) -> Table:
        """Return the same rows with some of the columns, by their names and in this order."""

    def without(self, name: str) -> Table:
        """Return the same rows without one of their columns that have names."""
        return self.only([each for each in self.names or () if each != name])


class ColumnTable(Table):
    """Columns that were read already: each `TextColumn`, `Categorical`, array or Arrow column is `held`."""

    def __init__(
        self, names: Sequence[str] | None, held: Sequence[Any], count: int, container: str = ARRAY
    ) -> None:
        self.names, self.held, self.count = None if names is None else tuple(names), list(held), count
        self.container, self.width = container, len(self.held)

    def read_column(self, place: int, name: str) -> Cells:
        """Return the cells of a column."""
        held = self.held[place]
        if isinstance(held, Categorical):
            return held
        return array_cells(held, name) if isinstance(held, np.ndarray) else self._frame(place).column(0, name)

    def cells(self, place: int) -> list[Any]:
        """Return the cells of a column as they were written, None for a missing one."""
        held = self.held[place]
        if isinstance(held, Categorical):
            found: list[Any] = object_array([*held.labels, None])[held.places].tolist()
            return found
        if isinstance(held, np.ndarray):
            return [None if is_missing(cell) else cell for cell in held.tolist()]
        return self._frame(place).cells(0)

    def holds_numbers(self, place: int) -> bool:
        """Return whether a column is one of numbers by its type."""
        held = self.held[place]
        if isinstance(held, np.ndarray):
            return held.dtype.kind in "iuf"
        return not isinstance(held, Categorical) and self._frame(place).holds_numbers(0)

    def only(self, names: Sequence[str]) -> Table:
        """Return the same rows with some of the columns."""
        return ColumnTable(names, [self.held[place] for place in self.places(names)], self.count, self.container)

    def _frame(self, place: int) -> Table:
        import pyarrow

        return table_of(pyarrow.table([self.held[place]], names=["held"]), least=0)


@dataclass(eq=False)
class _Frame(Table):
    frame: Any

    def __post_init__(self) -> None:
        self.container = self.frame.implementation.value
        self.count, self.width = self.frame.shape
        given = _given_names(self.frame.to_native())
        if any(isinstance(name, tuple) for name in given):
            raise DataError(f"the frame's columns have several levels, such as {given[0]!r}; give each one name")
        # A frame made from a plain array has the numbers 0, 1, … for names: its columns count by position.
        if not all(type(name) is int and name == place for place, name in enumerate(given)):
            self.names = tuple(map(str, given))

    def read_column(self, place: int, name: str) -> Cells:
        return frame_cells(self.frame[:, place], name)

    def holds_numbers(self, place: int) -> bool:
        return bool(self.frame[:, place].dtype.is_numeric())

    def cells(self, place: int) -> list[Any]:
        found: list[Any] = self.frame[:, place].to_list()
        return found

    def only(self, names: Sequence[str]) -> Table:
        return _Frame(self.frame[:, list(self.places(names))])


def placed(
    own: tuple[str, ...] | None,
    width: int,
    names: Sequence[str],
    absent: str | None = None,
    named: bool = True,
) -> Sequence[int]:
    """Return where the columns of some names stand among those of a table, as `Table.places` does."""
    if own is None:
        if width != len(names):
            few = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
            raise DataError(
                f"X has {width} features, but eigentree is expecting {len(names)} features as input, one "
                f"per observed variable: {few}"
            )
        return range(width)
    place = {name: at for at, name in enumerate(own)}
    if absent is not None and absent in names:
        place.setdefault(absent, -1)
    if lacking := [name for name in names if name not in place]:
        hint = what_there_is(lacking[0], own) if named else did_you_mean(lacking[0], own)
        if not named and not hint:
            hint = "; the model was fitted on columns without names, so give X.to_numpy()"
        raise DataError(f"the frame has no {shown_columns(lacking)}{hint}")
    return [place[name] for name in names]


def extra_columns(own: tuple[str, ...] | None, names: Sequence[str]) -> list[str]:
    """Return the columns of a table that are none of some names."""
    wanted = set(names)
    return [name for name in own or () if name not in wanted]


def warn_of_extra(table: Table, names: Sequence[str]) -> None:
    """Warn of the columns that a frame has beside those of a model."""
    if extra := extra_columns(table.names, names):
        notice(f"the model ignores {shown_columns(extra)} of the frame, which it was not fitted on", UserWarning)


def each_column(names: Sequence[str], read: Callable[[int, str], T]) -> list[T]:
    """Return what a function makes of the place and name of each column."""
    made: list[T] = []
    errors: dict[str, str] = {}
    for place, name in enumerate(names):
        try:
            made.append(read(place, name))
        except DataError as error:
            errors[name] = str(error)
    if len(errors) == 1:
        raise DataError(*errors.values())
    if errors:
        more = ", ".join(map(repr, list(errors)[MOST_ERRORS:]))
        lines = [*list(errors.values())[:MOST_ERRORS], *([f"and columns {more}"] if more else [])]
        raise DataError(f"{len(errors)} columns cannot be read:\n- " + "\n- ".join(lines))
    return made


def shown_columns(names: Sequence[str]) -> str:
    """Return some columns for a message."""
    if len(names) == 1:
        return f"column {names[0]!r}"
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"columns {', '.join(map(repr, names[:6]))}{more}"


def table_of(X: ArrayLike | Any, least: int = 1) -> Table:
    """Return the table that some data are, of at least so many rows."""
    if isinstance(X, Table):
        table = X
    else:
        _check_kind(X)
        frame = frame_of(X)
        table = _Frame(frame) if frame is not None else _unnamed(X)
    if not table.width:
        raise DataError(
            f"the data have no columns: 0 feature(s) (shape=({table.count}, 0)) while a minimum of 1 is required; "
            f"give at least one"
        )
    if table.count < least:
        raise DataError("the data have no rows; give at least one")
    return table


def frame_of(X: Any) -> Any | None:
    """Return the narwhals form of a frame; None for anything else."""
    if isinstance(X, np.ndarray | list | tuple) or not hasattr(X, "columns"):
        return None
    import narwhals as nw

    try:
        twice = [name for name, times in Counter(map(str, _given_names(X))).items() if times > 1]
        if twice:
            raise DataError(f"the frame has two columns {twice[0]!r}; drop or rename one")
        return nw.from_native(X, eager_only=True)
    except TypeError:
        raise DataError(f"data are an array, rows in a list or a data frame, not {quoted(X)}") from None


def as_array(cells: Any, what: str, complaint: str) -> NDArray[Any]:
    """Return a list of cells, or of rows of cells, as an array that keeps them as they are."""
    if isinstance(cells, Sized) and not isinstance(cells, np.ndarray):
        check_cells(what, len(cells), "give them in parts")
    try:
        array = cells if isinstance(cells, np.ma.MaskedArray) else np.asarray(cells)
        if array.dtype.kind in "US" and not isinstance(cells, np.ndarray):
            # numpy would turn the numbers of a mixed list into text.
            array = np.array(cells, object)
    except (ValueError, TypeError, OverflowError):
        raise DataError(complaint) from None
    except Exception as error:  # what an object's own __array__ raises
        raise DataError(f"{what} cannot be read as an array: {type(error).__name__}: {error}") from None
    return array


def _unnamed(X: Any) -> Table:
    array = as_array(X, "the data", "the rows have different lengths; every row needs one cell per column")
    if array.dtype.kind == "V":
        raise DataError("the data are an array of records; make a frame of it, as with pandas.DataFrame(X)")
    if array.ndim == 1 and len(array) and (words := _words(array)):
        return _letters(words)
    if array.ndim == 1 and any(isinstance(cell, str) for cell in array.tolist()):
        wrong = next(row for row, cell in enumerate(array.tolist()) if not isinstance(cell, str))
        raise DataError(f"row {wrong} is {quoted(array[wrong])}, others are words; give words, or rows of cells")
    if array.ndim != 2:
        hint = "; Reshape your data: for one row, write X[None, :]" if array.ndim == 1 and len(array) else ""
        if not array.shape or not array.shape[0]:
            hint = "; give at least one row"
        elif array.size and isinstance(array.flat[0], Mapping):
            hint = "; make a frame of it, as with pandas.DataFrame(X)"
        raise DataError(f"data need the shape (rows, columns), not {array.shape}{hint}")
    table = ColumnTable(None, list(array.T), len(array))
    table.array = array
    return table


def _letters(words: Sequence[str]) -> Table:
    """Return the table of words of equally many letters, one per row."""
    width = len(words[0])
    for row, word in enumerate(words):
        if len(word) != width:
            raise DataError(f"row {row} has {len(word)} letters and row 0 has {width}; all words need equally many")
    if not width:
        raise DataError("the rows are empty strings; give at least one letter, that is one column")
    letters = letter_cells("".join(words))
    places = letters.places.reshape(-1, width)
    columns = [Categorical(places[:, place], letters.labels) for place in range(width)]
    return ColumnTable(None, columns, len(words), TEXT)


def _words(array: NDArray[Any]) -> list[str] | None:
    """Return the rows of letters that an array holds; None where they are anything else."""
    cells = array.tolist()
    if all(isinstance(cell, bytes) for cell in cells):
        cells = [cell.decode("utf-8", "backslashreplace") for cell in cells]
    return cells if all(isinstance(cell, str) for cell in cells) else None


def _given_names(frame: Any) -> list[Any]:
    # pyarrow calls the columns themselves by that name.
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _check_kind(X: Any) -> None:
    """Raise `DataError` for kinds of data that could be read, but not as they are."""
    kind = type(X).__name__
    expected = "an array, a list of rows or a data frame is expected"
    # Asking a lazy frame itself for anything would make it work.
    if hasattr(type(X), "collect"):
        raise DataError(f"the data are lazy ({kind}), but {expected}; call .collect() first")
    if hasattr(type(X), "toarray"):
        raise DataError(f"the data are sparse ({kind}), but {expected}; call .toarray() first")
    if isinstance(X, Mapping):
        raise DataError(f"the data are a {kind}, but {expected}; make a frame of it, as with pandas.DataFrame(X)")
    if isinstance(X, str | PathLike):
        raise DataError(f"the data are {str(X)[:60]!r}, but {expected}; read a file first, as with pandas.read_csv")
    if isinstance(X, Iterator):
        raise DataError(f"the data are a {kind}, but {expected}; write list(X)")
    if X is None:
        raise DataError(f"the data are None, but {expected}")
