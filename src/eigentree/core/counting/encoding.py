"""Cells to codes, and hashes of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Integers

__all__ = ["encode_column", "encode_rows", "hash_rows"]

CELLS = "bhilqBHILQfd"
"""Types of cells that are read as they are."""


def encode_column(cells: NDArray[Any], states: int, codes: Codes) -> int:
    """Return -1 after writing the codes of a column, or the first row whose cell is not a code."""
    if cells.dtype.char not in CELLS or not cells.dtype.isnative:
        cells = cells.astype(np.int64 if cells.dtype.kind in "iub" else np.float64)
    if not cells.flags.aligned or cells.strides[0] % cells.itemsize:
        # A field of records, as of a structured array.
        cells = cells.copy()
    return _native.encode_column(cells, states, codes)


def encode_rows(cells: NDArray[Any], start: int, states: Integers, codes: Codes, wrong: Booleans) -> None:
    """Write the codes of some rows, and for each column whether a cell is neither a code nor -1.

    `cells` (rows, columns): of whole numbers, one row after the other; `start`: the first row; `states`, `wrong`
    (columns,); `codes` (columns, rows).
    """
    _native.encode_rows(cells, start, states, codes, wrong)


def hash_rows(codes: Codes, hashes: NDArray[np.uint64]) -> None:
    """Write a 64-bit hash of each row's codes; codes are (columns, rows)."""
    _native.hash_rows(np.ascontiguousarray(codes), hashes)
