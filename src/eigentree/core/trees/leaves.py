"""Leaves of the pass for expected counts: they turn codes into messages, and distributions into counts of codes.

Nothing else in that pass knows codes. Values of a code stand together, so four of them are read or added to at once
where there are so many, and turned by a transpose of four rows of data. Nothing here is for calls from Python: see
`compiling`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.core.compiling import helper, inlined
from eigentree.core.vectors import (
    FOUR,
    load_four,
    load_from,
    no_four,
    product,
    store,
    store_at,
    sum_of,
    transposed,
)

__all__ = ["COPIES", "MANY_STATES", "count_codes", "count_products", "look_up", "multiply_by_leaf"]

MANY_STATES = 2 * FOUR
"""From so many states on, a leaf is looked up by vectors, and faster than its message could be kept and read."""

COPIES = FOUR
"""Of the counts of leaves: neighbouring rows with equal codes need not wait for each other's sum."""


@inlined
def _line_of(node: Any, codes: Any, r: int) -> Any:
    """Return where the values of a row's code start."""
    # Unsigned numbers index without a check for negative ones.
    return node.value + np.intp(codes[np.uintp(node.leaf), np.uintp(r)]) * node.bond


@helper
def multiply_by_leaf(node: Any, values: Any, codes: Any, begin: int, end: int, lines: Any, out: int) -> None:
    """Multiply lines by the message of a leaf of many states that is not stored."""
    last = end - 1
    for r in range(begin, end, FOUR):
        # Beyond the last row, lines are zero and have to stay so, whatever they are multiplied by.
        i, j = _line_of(node, codes, r), _line_of(node, codes, min(r + 1, last))
        k, m = _line_of(node, codes, min(r + 2, last)), _line_of(node, codes, min(r + 3, last))
        for start in range(0, node.bond, FOUR):
            p = min(start, node.bond - FOUR)
            a, b = load_from(values, i + p), load_from(values, j + p)
            c, d = load_from(values, k + p), load_from(values, m + p)
            a, b, c, d = transposed(a, b, c, d)
            # The last four states may be some of those before, too.
            line = out + p
            if p >= start:
                store(lines, line, r - begin, product(a, load_four(lines, line, r - begin)))
            if p + 1 >= start:
                store(lines, line + 1, r - begin, product(b, load_four(lines, line + 1, r - begin)))
            if p + 2 >= start:
                store(lines, line + 2, r - begin, product(c, load_four(lines, line + 2, r - begin)))
            store(lines, line + 3, r - begin, product(d, load_four(lines, line + 3, r - begin)))


@helper
def look_up(node: Any, values: Any, codes: Any, begin: int, count: int, lines: Any) -> None:
    """Write the message of a leaf that is stored: one line of its table per row."""
    out, leaf = node.message, node.leaf
    bond, one = np.uintp(node.bond), np.uintp(1)
    for p in range(0, node.bond - 1, 2):
        start = np.uintp(node.value + p)
        for r in range(count):
            place = start + np.uintp(codes[leaf, begin + r]) * bond
            lines[out + p, r] = values[place]
            lines[out + p + 1, r] = values[place + one]
    if node.bond % 2 == 1:
        start, last = np.uintp(node.value + node.bond - 1), out + node.bond - 1
        for r in range(count):
            lines[last, r] = values[start + np.uintp(codes[leaf, begin + r]) * bond]


@helper
def count_products(
    node: Any, codes: Any, begin: int, end: int, lines: Any, above: int, below: int, sums: Any
) -> None:
    """Add the products of two messages to each row's code, for a leaf of many states that is not stored."""
    last, apart, ahead = end - 1, node.apart, node.sums - node.value
    for r in range(begin, end, FOUR):
        i, j = ahead + _line_of(node, codes, r), ahead + apart + _line_of(node, codes, min(r + 1, last))
        k = ahead + 2 * apart + _line_of(node, codes, min(r + 2, last))
        m = ahead + 3 * apart + _line_of(node, codes, min(r + 3, last))
        for start in range(0, node.bond, FOUR):
            p = min(start, node.bond - FOUR)
            x, y = above + p, below + p
            a = product(load_four(lines, x, r - begin), load_four(lines, y, r - begin))
            b = product(load_four(lines, x + 1, r - begin), load_four(lines, y + 1, r - begin))
            c = product(load_four(lines, x + 2, r - begin), load_four(lines, y + 2, r - begin))
            d = product(load_four(lines, x + 3, r - begin), load_four(lines, y + 3, r - begin))
            # What the four states before have counted already.
            if p < start:
                a = no_four(lines)
                b = no_four(lines) if p + 1 < start else b
                c = no_four(lines) if p + 2 < start else c
            a, b, c, d = transposed(a, b, c, d)
            store_at(sums, i + p, sum_of(load_from(sums, i + p), a))
            store_at(sums, j + p, sum_of(load_from(sums, j + p), b))
            store_at(sums, k + p, sum_of(load_from(sums, k + p), c))
            store_at(sums, m + p, sum_of(load_from(sums, m + p), d))


@helper
def count_codes(node: Any, codes: Any, begin: int, count: int, lines: Any, source: int, sums: Any) -> None:
    """Add the distribution of each row over the bond of a leaf that is stored to the row's code."""
    leaf = node.leaf
    bond, one = np.uintp(node.bond), np.uintp(1)
    whole = count - count % COPIES
    for p in range(0, node.bond - 1, 2):
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                start = np.uintp(node.sums + k * node.apart + p)
                place = start + np.uintp(codes[leaf, begin + r + k]) * bond
                sums[place] += lines[source + p, r + k]
                sums[place + one] += lines[source + p + 1, r + k]
    if node.bond % 2 == 1:
        last = source + node.bond - 1
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                start = np.uintp(node.sums + k * node.apart + node.bond - 1)
                sums[start + np.uintp(codes[leaf, begin + r + k]) * bond] += lines[last, r + k]
    for r in range(whole, count):
        place = node.sums + np.intp(codes[leaf, begin + r]) * node.bond
        for p in range(node.bond):
            sums[place + p] += lines[source + p, r]
