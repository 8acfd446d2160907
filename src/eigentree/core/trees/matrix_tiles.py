"""Matrices that join messages: times the messages below, transposed times those above, and what to count.

A message is a line of numbers per state, one for each row of data, so a matrix multiplies many rows at once. With
few states that waits for memory however it is done, and squares of 2 x 2 values do. With many, tiles of 4 states by
three registers of rows are added up in registers: fewer sums at a time would wait for each other.

Nothing here is for calls from Python: see `compiling`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.core.compiling import helper, inlined, inlined_sum
from eigentree.core.vectors import (
    FOUR,
    add_product,
    lanes,
    load,
    load_from,
    nothing,
    spread,
    store,
    store_at,
    sum_of,
    totals_of,
)

__all__ = ["MANY", "TILE_VECTORS", "dot_tiles", "mix_tiles", "squares_down", "squares_up"]

TILE = FOUR
"""States of a tile."""

MANY = 8
"""Rows and columns from which on tiles are faster than squares."""

TILE_VECTORS = 3
"""Registers of rows of data of a tile. The last tile may go beyond the rows: lines have to be so long, and zero
there."""


@inlined
def _mix(lines: Any, out: int, value: float, a: int, count: int, add: bool) -> None:
    if add:
        for r in range(count):
            lines[out, r] += value * lines[a, r]
    else:
        for r in range(count):
            lines[out, r] = value * lines[a, r]


@inlined
def _mix_square(
    lines: Any, out: int, last: int, values: Any, i: int, j: int, a: int, b: int, count: int, add: bool
) -> None:
    """Multiply two lines by a matrix of 2 x 2 values, whose rows start at i and j."""
    p, q, s, t = values[i], values[i + 1], values[j], values[j + 1]
    if add:
        for r in range(count):
            lines[out, r] += p * lines[a, r] + q * lines[b, r]
            lines[last, r] += s * lines[a, r] + t * lines[b, r]
    else:
        for r in range(count):
            lines[out, r] = p * lines[a, r] + q * lines[b, r]
            lines[last, r] = s * lines[a, r] + t * lines[b, r]


@inlined_sum
def _dot(lines: Any, a: int, b: int, count: int) -> Any:
    total = lines.dtype.type(0.0)
    for r in range(count):
        total += lines[a, r] * lines[b, r]
    return total


@inlined_sum
def _mix_and_dot_square(
    lines: Any,
    out: int,
    last: int,
    values: Any,
    i: int,
    j: int,
    a: int,
    b: int,
    c: int,
    d: int,
    count: int,
    add: bool,
) -> tuple[float, float, float, float]:
    """Multiply two lines by a matrix of 2 x 2 values; return their dot products with two others."""
    p, q, s, t = values[i], values[i + 1], values[j], values[j + 1]
    ac = ad = bc = bd = lines.dtype.type(0.0)
    if add:
        for r in range(count):
            lines[out, r] += p * lines[a, r] + q * lines[b, r]
            lines[last, r] += s * lines[a, r] + t * lines[b, r]
            ac += lines[a, r] * lines[c, r]
            ad += lines[a, r] * lines[d, r]
            bc += lines[b, r] * lines[c, r]
            bd += lines[b, r] * lines[d, r]
    else:
        for r in range(count):
            lines[out, r] = p * lines[a, r] + q * lines[b, r]
            lines[last, r] = s * lines[a, r] + t * lines[b, r]
            ac += lines[a, r] * lines[c, r]
            ad += lines[a, r] * lines[d, r]
            bc += lines[b, r] * lines[c, r]
            bd += lines[b, r] * lines[d, r]
    return ac, ad, bc, bd


@helper
def mix_tiles(lines: Any, places: Any, task: Any, flipped: Any, value: int, count: int) -> None:
    """Multiply lines by a matrix whose values stand as (column, row), for many rows and columns.

    The task is how many blocks the matrix has, and then twice, for the product and for what is multiplied: the
    first line, where in `places` the others are named, and how many there are in a block.
    """
    blocks, out, row, rows, source, column, columns = task
    width = lanes(lines)
    for _ in range(blocks):
        # Unsigned numbers index without a check for negative ones.
        first, last = np.uintp(column), np.uintp(column + columns)
        for r in range(0, count, TILE_VECTORS * width):
            second, third = r + width, r + 2 * width
            for start in range(0, rows, TILE):
                # The last tile may write some lines of the one before again.
                i = min(start, rows - TILE)
                a = b = c = d = e = f = g = h = k = m = n = o = nothing(lines)
                place = value + i
                for j in range(first, last):
                    line = source + places[j]
                    x, y, z = load(lines, line, r), load(lines, line, second), load(lines, line, third)
                    p = spread(flipped, place)
                    a, b, c = add_product(a, p, x), add_product(b, p, y), add_product(c, p, z)
                    p = spread(flipped, place + 1)
                    d, e, f = add_product(d, p, x), add_product(e, p, y), add_product(f, p, z)
                    p = spread(flipped, place + 2)
                    g, h, k = add_product(g, p, x), add_product(h, p, y), add_product(k, p, z)
                    p = spread(flipped, place + 3)
                    m, n, o = add_product(m, p, x), add_product(n, p, y), add_product(o, p, z)
                    place += rows
                _store_three(lines, out + places[row + i], r, a, b, c)
                _store_three(lines, out + places[row + i + 1], r, d, e, f)
                _store_three(lines, out + places[row + i + 2], r, g, h, k)
                _store_three(lines, out + places[row + i + 3], r, m, n, o)
        value += rows * columns
        row += rows
        column += columns


@inlined
def _store_three(lines: Any, line: int, start: int, a: Any, b: Any, c: Any) -> None:
    width = lanes(lines)
    store(lines, line, start, a)
    store(lines, line, start + width, b)
    store(lines, line, start + 2 * width, c)


@helper
def dot_tiles(node: Any, places: Any, count: int, lines: Any, sums: Any) -> None:
    """Count each value's messages: add up the products of lines above and below, for many rows and columns."""
    rows, columns, total, row, column = node.rows, node.columns, node.sums, node.row, node.column
    width = lanes(lines)
    for _ in range(node.blocks):
        i = 0
        while i < rows:
            # Twelve sums keep a processor busy, eight nearly so; four would not.
            three = rows - i == 3 or rows - i > 4
            first, second = node.outside + places[row + i], node.outside + places[row + i + 1]
            third = node.outside + places[row + i + 2] if three else second
            for start in range(0, columns, TILE):
                j = min(start, columns - TILE)
                s, t = node.product + places[column + j], node.product + places[column + j + 1]
                u, v = node.product + places[column + j + 2], node.product + places[column + j + 3]
                a = b = c = d = e = f = g = h = k = m = n = o = nothing(lines)
                if three:
                    for r in range(0, count, width):
                        x, y, z = load(lines, first, r), load(lines, second, r), load(lines, third, r)
                        w = load(lines, s, r)
                        a, e, k = add_product(a, x, w), add_product(e, y, w), add_product(k, z, w)
                        w = load(lines, t, r)
                        b, f, o = add_product(b, x, w), add_product(f, y, w), add_product(o, z, w)
                        w = load(lines, u, r)
                        c, g, m = add_product(c, x, w), add_product(g, y, w), add_product(m, z, w)
                        w = load(lines, v, r)
                        d, h, n = add_product(d, x, w), add_product(h, y, w), add_product(n, z, w)
                else:
                    for r in range(0, count, width):
                        x, y = load(lines, first, r), load(lines, second, r)
                        w, z = load(lines, s, r), load(lines, t, r)
                        a, e = add_product(a, x, w), add_product(e, y, w)
                        b, f = add_product(b, x, z), add_product(f, y, z)
                        w, z = load(lines, u, r), load(lines, v, r)
                        c, g = add_product(c, x, w), add_product(g, y, w)
                        d, h = add_product(d, x, z), add_product(h, y, z)
                # The last tile may overlap the one before, which has added up the rest.
                if j < start:
                    a = e = k = nothing(lines)
                if j + 1 < start:
                    b = f = o = nothing(lines)
                if j + 2 < start:
                    c = g = m = nothing(lines)
                place = total + i * columns + j
                store_at(sums, place, sum_of(load_from(sums, place), totals_of(a, b, c, d)))
                place += columns
                store_at(sums, place, sum_of(load_from(sums, place), totals_of(e, f, g, h)))
                if three:
                    place += columns
                    store_at(sums, place, sum_of(load_from(sums, place), totals_of(k, o, m, n)))
            i += 3 if three else 2
        total += rows * columns
        row += rows
        column += columns


@helper
def squares_up(node: Any, places: Any, values: Any, count: int, lines: Any) -> None:
    """Write the message of an inner node: its matrix times the products."""
    rows, columns, value, row, column = node.rows, node.columns, node.value, node.row, node.column
    out, product = node.message, node.product
    for _ in range(node.blocks):
        for i in range(0, rows - 1, 2):
            p, q = out + places[row + i], out + places[row + i + 1]
            first, second = value + i * columns, value + (i + 1) * columns
            for j in range(0, columns - 1, 2):
                a, b = product + places[column + j], product + places[column + j + 1]
                _mix_square(lines, p, q, values, first + j, second + j, a, b, count, j > 0)
        # The squares leave out the last column, and the last row, where their number is not even.
        for i in range(rows):
            for j in range(0 if i == rows - rows % 2 else columns - columns % 2, columns):
                a = product + places[column + j]
                _mix(lines, out + places[row + i], values[value + i * columns + j], a, count, j > 0)
        value += rows * columns
        row += rows
        column += columns


@helper
def squares_down(node: Any, places: Any, flipped: Any, count: int, lines: Any, sums: Any) -> None:
    """Write what comes down to each product, and count each value's messages.

    The flipped values hold a node's blocks as (column, row).
    """
    rows, columns, value, row, column = node.rows, node.columns, node.value, node.row, node.column
    total = node.sums
    above, product, down = node.outside, node.product, node.down
    for _ in range(node.blocks):
        for j in range(0, columns - 1, 2):
            a, b = down + places[column + j], down + places[column + j + 1]
            c, d = product + places[column + j], product + places[column + j + 1]
            first, second = value + j * rows, value + (j + 1) * rows
            for i in range(0, rows - 1, 2):
                p, q = above + places[row + i], above + places[row + i + 1]
                found = _mix_and_dot_square(lines, a, b, flipped, first + i, second + i, p, q, c, d, count, i > 0)
                place = total + i * columns + j
                sums[place] += found[0]
                sums[place + 1] += found[1]
                sums[place + columns] += found[2]
                sums[place + columns + 1] += found[3]
        for j in range(columns):
            a = places[column + j]
            for i in range(0 if j == columns - columns % 2 else rows - rows % 2, rows):
                p = above + places[row + i]
                _mix(lines, down + a, flipped[value + j * rows + i], p, count, i > 0)
                sums[total + i * columns + j] += _dot(lines, p, product + a, count)
        value += rows * columns
        total += rows * columns
        row += rows
        column += columns
