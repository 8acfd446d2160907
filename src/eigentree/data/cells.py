"""Cells as users have them, column by column, turned into numbers that the compiled loops read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["cells_of", "is_marked_missing", "names_in", "shape_of"]


def shape_of(X: ArrayLike | Any) -> tuple[int, int]:
    """Return how many rows and columns some data have; raise `DataError` where that is not what they are."""
    _check_kind(X)
    try:
        shape = np.shape(X)
    except ValueError:
        raise _uneven() from None
    if len(shape) != 2 or shape[1] == 0:
        raise DataError(f"data need the shape (rows, columns), not {shape}")
    return shape


def _uneven() -> DataError:
    return DataError("the rows have different lengths; every row needs one cell per column")


def names_in(X: ArrayLike | Any) -> list[str] | None:
    """Return the names of a frame's columns; None for an array, and for a frame whose columns count by position."""
    if isinstance(X, np.ndarray) or not hasattr(X, "columns"):
        return None
    given = _given_names(X)
    return given if all(isinstance(name, str) for name in given) else None


def cells_of(X: ArrayLike | Any, names: Sequence[str]) -> tuple[NDArray[Any], ...]:
    """Return one array of numbers per column, NaN or -1 where a cell is missing.

    Parameters
    ----------
    X : array-like of shape (rows, columns), or a pandas, polars or pyarrow frame
        The columns of an array stand in the order of the names; those of a frame are found by name.
    names : sequence of str

    Raises
    ------
    DataError
        When there are no rows, columns are missing or too many, or a column does not hold numbers.
    """
    _check_kind(X)
    if isinstance(X, np.ndarray) or not hasattr(X, "columns"):
        columns = _array_columns(X, names)
    else:
        columns = _frame_columns(X, names)
    if not len(columns[0]):
        raise DataError("the data have no rows; give at least one")
    return columns


def _given_names(frame: Any) -> list[Any]:
    # pyarrow calls the columns themselves by that name.
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _check_kind(X: Any) -> None:
    """Raise `DataError` for kinds of data that could be read, but not as they are."""
    kind = type(X).__name__
    expected = "an array, a list of lists or a data frame is expected"
    # Asking a lazy frame itself for anything would make it work.
    if hasattr(type(X), "collect"):
        raise DataError(f"the data are lazy ({kind}), but {expected}; call .collect() first")
    if hasattr(type(X), "toarray"):
        raise DataError(f"the data are sparse ({kind}), but {expected}; call .toarray() first")
    if isinstance(X, Mapping):
        raise DataError(f"the data are a {kind}, but {expected}; make a frame of it, as with pandas.DataFrame(X)")
    if isinstance(X, Iterator):
        raise DataError(f"the data are a {kind}, but {expected}; write list(X)")


def _array_columns(X: ArrayLike | Any, names: Sequence[str]) -> tuple[NDArray[Any], ...]:
    try:
        array = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    except ValueError:
        raise _uneven() from None
    if array.ndim != 2:
        hint = "; for one row, write X[None, :]" if array.ndim == 1 else ""
        raise DataError(f"data need the shape (rows, columns), not {array.shape}{hint}")
    if array.shape[1] != len(names):
        raise DataError(
            f"the data have {array.shape[1]} columns, but the graph has {len(names)} observed variables: "
            f"{', '.join(names[:6])}{', …' if len(names) > 6 else ''}"
        )
    return tuple(_numbers(array[:, j], name) for j, name in enumerate(names))


def _frame_columns(X: Any, names: Sequence[str]) -> tuple[NDArray[Any], ...]:
    import narwhals as nw

    given = _given_names(X)
    if twice := [name for name, times in Counter(given).items() if times > 1]:
        raise DataError(f"the frame has two columns {twice[0]!r}; drop or rename one")
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        raise DataError(f"data are an array, a list of lists or a data frame, not {type(X).__name__}") from None
    if any(isinstance(name, tuple) for name in given):
        raise DataError(f"the frame's columns have several levels, such as {given[0]!r}; give each one name")
    if not any(isinstance(name, str) for name in given):
        # A frame made from a plain array has numbers for names: its columns count by position.
        return _array_columns(frame.to_numpy(), names)
    present = set(given)
    for name in names:
        if name not in present:
            raise DataError(f"the frame has no column {name!r}{did_you_mean(name, map(str, given))}")
    if extra := [name for name in given if name not in set(names)]:
        raise DataError(f"the frame has a column {extra[0]!r} that is not an observed variable; drop it")
    columns = []
    for name in names:
        series = frame.get_column(name)
        numeric = series.dtype.is_numeric() or series.dtype == nw.Boolean
        if numeric and series.is_null().any():
            series = series.cast(nw.Float64)
        columns.append(_numbers(series.to_numpy(), name))
    return tuple(columns)


def _numbers(column: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a column as integers or floats that the compiled loops read, NaN where a cell is missing."""
    if isinstance(column, np.ma.MaskedArray):
        kind = object if column.dtype.kind == "O" else np.float64
        column = np.ma.filled(column.astype(kind), np.nan) if np.ma.is_masked(column) else column.data
    if column.dtype.kind == "b":
        return column.astype(np.uint8)
    if column.dtype.kind in "iu":
        return column.astype(column.dtype.newbyteorder("="), copy=False)
    if column.dtype.kind == "f":
        return column if column.dtype in (np.float32, np.float64) else column.astype(np.float64)
    if column.dtype.kind == "O":
        return np.array([_number(cell, name) for cell in column], np.float64)
    raise _no_code(column[0] if len(column) else column.dtype, name)


def is_marked_missing(cell: Any) -> bool:
    """Return whether an object stands for a missing cell: None, or one of those that pandas has for this."""
    # By name, since pandas need not be there; comparisons with its objects have no truth.
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def _number(cell: Any, name: str) -> float:
    if is_marked_missing(cell):
        return math.nan
    try:
        if not isinstance(cell, str | bytes):
            return float(cell)
    except (TypeError, ValueError, OverflowError):
        pass
    raise _no_code(cell, name)


def _no_code(cell: object, name: str) -> DataError:
    shown = str(cell)[:40]
    return DataError(
        f"column {name!r} holds {shown!r}, but integer codes are expected; "
        f"map its labels to 0, 1, 2, … first (for example with numpy.unique(column, return_inverse=True))"
    )
