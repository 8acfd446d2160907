"""Leaves of the pass for expected counts: they turn codes into messages, and distributions into counts of codes.

Nothing else in that pass knows codes. Values of a code stand together, so four of them are read or added to at once
where there are so many, and turned by a transpose of four rows of data. Nothing here is for calls from Python: see
`compiling`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.kernels.compiling import helper, inlined
from eigentree.kernels.vectors import LANES, load, load_from, store, sum_of, transposed

__all__ = ["COPIES", "count_codes", "look_up"]

COPIES = LANES
"""Of the counts of leaves: neighbouring rows with equal codes need not wait for each other's sum."""


@inlined
def _line_of(node: Any, codes: Any, r: int) -> int:
    """Return where the values of a row's code start."""
    return node.value + np.intp(codes[node.leaf, r]) * node.bond


@helper
def look_up(node: Any, values: Any, codes: Any, begin: int, count: int, lines: Any) -> None:
    """Write the message of a leaf: one line of its table per row."""
    out, leaf = node.message, node.leaf
    tiled, whole = node.bond - node.bond % LANES, count - count % LANES
    if tiled > 0:
        for r in range(0, whole, LANES):
            i, j = _line_of(node, codes, begin + r), _line_of(node, codes, begin + r + 1)
            k, m = _line_of(node, codes, begin + r + 2), _line_of(node, codes, begin + r + 3)
            for p in range(0, tiled, LANES):
                a, b = load_from(values, i + p), load_from(values, j + p)
                c, d = load_from(values, k + p), load_from(values, m + p)
                a, b, c, d = transposed(a, b, c, d)
                store(lines, out + p, r, a)
                store(lines, out + p + 1, r, b)
                store(lines, out + p + 2, r, c)
                store(lines, out + p + 3, r, d)
        for r in range(whole, count):
            place = _line_of(node, codes, begin + r)
            for p in range(tiled):
                lines[out + p, r] = values[place + p]
    # Unsigned numbers index without a check for negative ones.
    bond, one = np.uintp(node.bond), np.uintp(1)
    for p in range(tiled, node.bond - 1, 2):
        start = np.uintp(node.value + p)
        for r in range(count):
            place = start + np.uintp(codes[leaf, begin + r]) * bond
            lines[out + p, r] = values[place]
            lines[out + p + 1, r] = values[place + one]
    if node.bond % 2 == 1:
        start, last = np.uintp(node.value + node.bond - 1), out + node.bond - 1
        for r in range(count):
            lines[last, r] = values[start + np.uintp(codes[leaf, begin + r]) * bond]


@inlined
def _add_to(sums: Any, copy: int, place: int, vector: Any) -> None:
    store(sums, copy, place, sum_of(load(sums, copy, place), vector))


@helper
def count_codes(node: Any, codes: Any, begin: int, count: int, lines: Any, source: int, sums: Any) -> None:
    """Add the distribution of each row over a leaf's bond to the row's code."""
    leaf = node.leaf
    tiled, whole = node.bond - node.bond % LANES, count - count % COPIES
    if tiled > 0:
        for r in range(0, whole, LANES):
            i, j = _line_of(node, codes, begin + r), _line_of(node, codes, begin + r + 1)
            k, m = _line_of(node, codes, begin + r + 2), _line_of(node, codes, begin + r + 3)
            for p in range(0, tiled, LANES):
                a, b = load(lines, source + p, r), load(lines, source + p + 1, r)
                c, d = load(lines, source + p + 2, r), load(lines, source + p + 3, r)
                a, b, c, d = transposed(a, b, c, d)
                _add_to(sums, 0, i + p, a)
                _add_to(sums, 1, j + p, b)
                _add_to(sums, 2, k + p, c)
                _add_to(sums, 3, m + p, d)
    bond, one = np.uintp(node.bond), np.uintp(1)
    for p in range(tiled, node.bond - 1, 2):
        start = np.uintp(node.value + p)
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                place = start + np.uintp(codes[leaf, begin + r + k]) * bond
                sums[k, place] += lines[source + p, r + k]
                sums[k, place + one] += lines[source + p + 1, r + k]
    if node.bond % 2 == 1:
        start, last = np.uintp(node.value + node.bond - 1), source + node.bond - 1
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                sums[k, start + np.uintp(codes[leaf, begin + r + k]) * bond] += lines[last, r + k]
    for r in range(whole, count):
        place = _line_of(node, codes, begin + r)
        for p in range(node.bond):
            sums[0, place + p] += lines[source + p, r]
