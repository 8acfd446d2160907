"""Rows of data as integer codes: what a user gives, checked and laid out column by column.

Inside the package a row is a row of codes 0 … states-1, and the code after the last one, `states`, says that the
cell is missing. Every table of operators has a slot for it, so a missing cell costs nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, did_you_mean
from eigentree.kernels import codes as codes_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.structures.graph import LatentGraph

CHUNK = 16_384
"""Most rows that are encoded at a time."""

MOST_WEIGHT = 2.0**53
"""Largest sum of weights; beyond it doubles no longer tell whole numbers apart."""

CHUNK_CELLS = 2**22
"""Most cells that are worked on at a time, which bounds memory whatever the numbers of rows and columns."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Data that fit the observed variables of a graph; cells are checked when they are encoded.

    Attributes
    ----------
    count : int
        Number of rows.
    names : tuple of str
    states : tuple of int
        Names and numbers of states of the columns.
    columns : tuple of array, shape (count,)
        One view a column, of whatever number type the user gave.
    whole : array, shape (count, columns), or None
        The same as one column-major array, where the user gave such a one of small unsigned integers.
    """

    count: int
    names: tuple[str, ...]
    states: tuple[int, ...]
    columns: tuple[NDArray[Any], ...]
    whole: NDArray[Any] | None = None

    @classmethod
    def of(cls, X: ArrayLike | Any, graph: LatentGraph) -> Rows:
        """Return the rows of an array, a list of lists, or a data frame.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a pandas, polars or pyarrow frame
            Integer codes. Missing cells are -1, NaN or null. The columns of an array stand in the order of
            ``graph.observed``; those of a frame are found by name.

        Raises
        ------
        DataError
            When there are no rows, columns are missing or too many, or a column does not hold numbers.
        """
        _check_kind(X)
        names = graph.observed
        if isinstance(X, np.ndarray) or not hasattr(X, "columns"):
            columns = _array_columns(X, names)
        else:
            columns = _frame_columns(X, names)
        if not len(columns[0]):
            raise DataError("the data have no rows; give at least one")
        states = tuple(graph.states[name] for name in names)
        whole: NDArray[Any] | None = None
        if type(X) is np.ndarray and X.flags.f_contiguous and X.dtype == _code_type(states):
            whole = X
        return cls(len(columns[0]), names, states, columns, whole)

    def encode(self, start: int, stop: int) -> NDArray[Any]:
        """Return the codes of some rows, shape (stop - start, columns), column-major.

        Raises
        ------
        DataError
            When a cell is neither a code of its column nor missing; the message names row and column.
        """
        stop = min(stop, self.count)
        codes = np.empty((stop - start, len(self.columns)), _code_type(self.states), order="F")
        if self.whole is not None and stop > start:
            largest = np.empty(len(self.columns), codes.dtype)
            codes_kernels.copy_codes(self.whole.T, start, codes.T, largest)
            if (largest < self.states).all():
                return codes
        for j, (column, states) in enumerate(zip(self.columns, self.states, strict=True)):
            cells = column[start:stop]
            # numpy's vectorised minimum and copy beat a loop that looks at each cell, where nothing is amiss.
            unsigned, whole = cells.dtype.kind == "u", cells.dtype.kind in "iu"
            if whole and cells.flags.c_contiguous and cells.max() < states and (unsigned or cells.min() >= 0):
                codes[:, j] = cells
                continue
            bad = codes_kernels.encode_column(cells, states, codes[:, j])
            if bad >= 0:
                raise DataError(
                    f"row {start + bad}, column {self.names[j]!r} holds {column[start + bad].item()!r}, "
                    f"but {self.names[j]!r} has the codes 0 to {states - 1} (-1, NaN or null for a missing cell)"
                )
        return codes

    def chunks(self, size: int | None = None) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the first row and the codes of consecutive parts of the data; `size` is what memory allows."""
        size = size or rows_at_a_time(len(self.columns))
        for start in range(0, self.count, size):
            yield start, self.encode(start, start + size)


def checked_weights(sample_weight: ArrayLike | None, rows: int) -> NDArray[Any] | None:
    """Return the weights as an array, or None; raise `DataError` where they do not fit the rows."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight)
    except ValueError:
        weights = np.empty(0, object)
    if weights.shape != (rows,) or weights.dtype.kind not in "iufb":
        raise DataError(
            f"sample_weight needs one number a row, shape ({rows},), not {weights.shape} {weights.dtype}"
        )
    if np.ma.is_masked(sample_weight) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("sample_weight holds negative, infinite or missing numbers")
    total = weights.sum(dtype=np.float64)
    if total > MOST_WEIGHT:
        raise DataError(f"sample_weight adds up to {total:.3g}, too much to count by ones; divide it by a constant")
    return weights


def _code_type(states: Sequence[int]) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds every code, the one for missing cells included."""
    return np.min_scalar_type(max(states))


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


def rows_at_a_time(cells: int) -> int:
    """Return how many rows to work on at a time when each takes this many cells."""
    return max(1, min(CHUNK, CHUNK_CELLS // cells))


def _array_columns(X: ArrayLike | Any, names: Sequence[str]) -> tuple[NDArray[Any], ...]:
    try:
        array = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    except ValueError:
        raise DataError("the rows have different lengths; every row needs one cell a column") from None
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

    # pyarrow calls the columns themselves by that name.
    given = list(X.column_names if hasattr(X, "column_names") else X.columns)
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
