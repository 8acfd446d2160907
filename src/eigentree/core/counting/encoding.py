"""Cells to codes, and hashes of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.core.compiling import compiled

__all__ = ["copy_codes", "encode_column", "encode_rows", "hash_rows"]


@compiled
def encode_column(cells: Any, states: int, codes: Any) -> int:
    """Return -1 after writing the codes of a column, or the first row whose cell is not a code."""
    for r in range(cells.shape[0]):
        cell = cells[r]
        if cell >= 0 and cell < states:
            code = int(cell)
            if code != cell:
                return r
            codes[r] = code
        elif cell == -1 or cell != cell:
            codes[r] = states
        else:
            return r
    return -1


@compiled
def encode_rows(cells: Any, start: int, states: Any, codes: Any, wrong: Any) -> None:
    """Write the codes of some rows, and for each column whether a cell is neither a code nor -1.

    `cells` (rows, columns): of whole numbers, one row after the other; `start`: the first row; `states`, `wrong`
    (columns,): the loop is fastest where states are of the type of the cells; `codes` (columns, rows): they are
    transposed by the tile, so that both sides are read and written line by line of the cache.
    """
    columns, tile_rows = codes.shape[0], 64
    tile = np.zeros((tile_rows, columns), codes.dtype)
    for j in range(columns):
        wrong[j] = False
    for first in range(0, codes.shape[1], tile_rows):
        count = min(tile_rows, codes.shape[1] - first)
        for r in range(count):
            row, out = cells[start + first + r], tile[r]
            for j in range(columns):
                cell, size = row[j], states[j]
                missing = cell == -1
                wrong[j] |= not missing and (cell < 0 or cell >= size)
                out[j] = size if missing else cell
        for j in range(columns):
            column = codes[j, first : first + count]
            for r in range(count):
                column[r] = tile[r, j]


@compiled
def copy_codes(cells: Any, start: int, codes: Any, largest: Any) -> None:
    """Write the codes of some rows, and the largest of each column; all but `largest` are (columns, rows)."""
    for j in range(codes.shape[0]):
        # A slice, because with an offset in the index the loop does not vectorise.
        column = cells[j, start : start + codes.shape[1]]
        high = column[0]
        for r in range(codes.shape[1]):
            codes[j, r] = column[r]
            high = max(high, column[r])
        largest[j] = high


@compiled
def hash_rows(codes: Any, hashes: Any) -> None:
    """Write a 64-bit hash of each row's codes; codes are (columns, rows)."""
    for r in range(codes.shape[1]):
        hashes[r] = np.uint64(0x9E3779B97F4A7C15)
    for j in range(codes.shape[0]):
        for r in range(codes.shape[1]):
            mixed = (hashes[r] ^ np.uint64(codes[j, r])) * np.uint64(0xBF58476D1CE4E5B9)
            hashes[r] = mixed ^ (mixed >> np.uint64(31))
    for r in range(codes.shape[1]):
        mixed = (hashes[r] ^ (hashes[r] >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
        hashes[r] = mixed ^ (mixed >> np.uint64(29))
