"""Rows of data as integer codes: what a user gives, checked and laid out column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.cells import cells_of
from eigentree.errors import DataError
from eigentree.kernels.codes import copy_codes, encode_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes
    from eigentree.data.columns import Columns

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
        One view per column, of whatever number type the user gave.
    whole : array, shape (rows, columns), or None
        The same as one column-major array, where the user gave such a one of small unsigned integers.
    """

    columns: Columns
    cells: tuple[NDArray[Any], ...]
    whole: NDArray[Any] | None = None

    @classmethod
    def of(cls, X: ArrayLike | Any, columns: Columns) -> Rows:
        """Return the rows of an array, a list of lists, or a data frame.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a pandas, polars or pyarrow frame
            Integer codes. Missing cells are -1, NaN or null. The columns of an array stand in the order of
            ``columns.names``; those of a frame are found by name.
        columns : Columns

        Raises
        ------
        DataError
            When there are no rows, columns are missing or too many, or a column does not hold numbers.
        """
        cells = cells_of(X, columns.names)
        if type(X) is np.ndarray and X.flags.f_contiguous and X.dtype == columns.code_type:
            return cls(columns, cells, X)
        return cls(columns, cells)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.cells[0])

    def encode(self, start: int = 0, stop: int | None = None) -> Codes:
        """Return the codes of some rows, shape (stop - start, columns), column-major; by default of all.

        Raises
        ------
        DataError
            When a cell is neither a code of its column nor missing; the message names row and column.
        """
        stop = self.count if stop is None else min(stop, self.count)
        states = self.columns.states
        codes = np.empty((stop - start, len(states)), self.columns.code_type, order="F")
        if self.whole is not None and stop > start:
            largest = np.empty(len(states), codes.dtype)
            copy_codes(self.whole.T, start, codes.T, largest)
            if (largest < states).all():
                return codes
        for j, (column, count) in enumerate(zip(self.cells, states, strict=True)):
            cells = column[start:stop]
            # numpy's vectorised minimum and copy beat a loop that looks at each cell, where nothing is amiss.
            unsigned, whole = cells.dtype.kind == "u", cells.dtype.kind in "iu"
            if whole and cells.flags.c_contiguous and cells.max() < count and (unsigned or cells.min() >= 0):
                codes[:, j] = cells
                continue
            bad = encode_column(cells, count, codes[:, j])
            if bad >= 0:
                name = self.columns.names[j]
                raise DataError(
                    f"row {start + bad}, column {name!r} holds {column[start + bad].item()!r}, "
                    f"but {name!r} has the codes 0 to {count - 1} (-1, NaN or null for a missing cell)"
                )
        return codes

    def chunks(self, size: int | None = None) -> Iterator[tuple[int, Codes]]:
        """Yield the first row and the codes of consecutive parts of the data; `size` is what memory allows."""
        size = size or rows_at_a_time(len(self.cells))
        for start in range(0, self.count, size):
            yield start, self.encode(start, start + size)


def rows_at_a_time(cells: int) -> int:
    """Return how many rows to work on at a time when each takes this many cells."""
    return max(1, min(CHUNK, CHUNK_CELLS // cells))
