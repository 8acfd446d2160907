"""Sequences that are the same: numbers that tell most apart, and the comparison of those that are left."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.core.compiling import compiled

__all__ = ["fingerprints", "repeats"]

PRIME = np.uint64(1099511628211)
BASIS = np.uint64(14695981039346656037)
SHIFT = np.uint64(29)


@compiled
def fingerprints(symbols: Any, starts: Any, out: Any) -> None:
    """Write a number for each sequence that depends on its symbols alone."""
    for number in range(len(starts) - 1):
        mixed = BASIS
        for step in range(starts[number], starts[number + 1]):
            mixed = (mixed ^ np.uint64(symbols[step])) * PRIME
            mixed ^= mixed >> SHIFT
        out[number] = mixed


@compiled
def repeats(symbols: Any, starts: Any, numbers: Any, out: Any) -> None:
    """Write, for each sequence in an order, whether it is the same as the one before."""
    for place in range(1, len(numbers)):
        first, second = numbers[place - 1], numbers[place]
        count = starts[second + 1] - starts[second]
        same = starts[first + 1] - starts[first] == count
        if same:
            for step in range(count):
                if symbols[starts[first] + step] != symbols[starts[second] + step]:
                    same = False
                    break
        out[place] = same
