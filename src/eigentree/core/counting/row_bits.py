"""Rows as bits, 64 to a word: how many have two states at once is counted without looking at any single row."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.core.compiling import compiled, helper

__all__ = ["add_common_bits"]


@helper
def _bits_set(word: Any) -> Any:
    """Return how many bits of a word are set; the compiler knows this form, and what the processor has for it."""
    pairs, fours = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
    bytes_of, ones = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
    word = word - ((word >> np.uint64(1)) & pairs)
    word = (word & fours) + ((word >> np.uint64(2)) & fours)
    word = (word + (word >> np.uint64(4))) & bytes_of
    return (word * ones) >> np.uint64(56)


@compiled
def add_common_bits(planes: Any, places: Any, matrix: Any) -> None:
    """Add to the upper triangle of a matrix how many bits each plane has in common with each that follows.

    Parameters
    ----------
    planes : (planes, words)
        Of 64 bits each.
    places : (planes,)
        Where they stand in the matrix; they rise.
    matrix : (at least planes, at least planes)
        The diagonal gets how many bits a plane has at all.
    """
    count, words = planes.shape
    # Some planes stay in the second cache while each of the others passes once, by way of the first.
    tile = 64
    for begin in range(0, count, tile):
        for j in range(begin, count):
            other = planes[j]
            for i in range(begin, min(begin + tile, j + 1)):
                plane = planes[i]
                common = np.uint64(0)
                for w in range(words):
                    common += _bits_set(plane[w] & other[w])
                matrix[places[i], places[j]] += common
