"""Cells to codes and hashes of rows, one cell at a time."""

from __future__ import annotations

import numpy as np


def encode_column(cells: np.ndarray, states: int) -> tuple[int, list[int]]:
    """The first row whose cell is not a code, or -1, and the codes of the rows before it."""
    codes = []
    for row, cell in enumerate(cells.tolist()):
        if cell == -1 or cell != cell:
            codes.append(states)
        elif cell in range(states):
            codes.append(int(cell))
        else:
            return row, codes
    return -1, codes


def hash_row(row: list[int]) -> int:
    """The hash in Python's integers, cut to 64 bits after each product."""
    mask = 2**64 - 1
    found = 0x9E3779B97F4A7C15
    for code in row:
        found = (found ^ code) * 0xBF58476D1CE4E5B9 & mask
        found ^= found >> 31
    found = (found ^ found >> 30) * 0x94D049BB133111EB & mask
    return found ^ found >> 29
