"""Matrices that join messages: times the messages below, transposed times those above, and what to count.

A message is a line of numbers per state, one for each row of data, so a matrix multiplies many rows at once. With
few states that waits for memory however it is done, and squares of 2 x 2 values do. With many, tiles of 4 states by
8 rows are added up in registers, at about the speed of BLAS.

Nothing here is for calls from Python: see `compiling`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.kernels.compiling import helper, inlined, inlined_sum
from eigentree.kernels.vectors import LANES, add_product, load, nothing, spread, store, sum_of, transposed

__all__ = ["matrix_down", "matrix_up"]

TILE = 4
"""States of a tile."""

MANY = 8
"""Rows and columns from which on tiles are faster than squares."""

TILE_ROWS = 2 * LANES
"""Rows of data of a tile of a product."""


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
def _dot(lines: Any, a: int, b: int, count: int) -> float:
    total = 0.0
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
    ac, ad, bc, bd = 0.0, 0.0, 0.0, 0.0
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
def _mix_tiles(lines: Any, places: Any, task: Any, flipped: Any, value: int, whole: int) -> None:
    """Multiply lines by a matrix whose values stand as (column, row), for a whole number of tiles of rows.

    The task is where the product goes and the lines are: line, start of their places and how many, of either.
    """
    out, row, rows, source, column, columns = task
    # Unsigned numbers index without a check for negative ones.
    first, last = np.uintp(column), np.uintp(column + columns)
    for r in range(0, whole, TILE_ROWS):
        for start in range(0, rows, TILE):
            # The last tile may write some lines of the one before again.
            i = min(start, rows - TILE)
            a = b = c = d = e = f = g = h = nothing()
            place = value + i
            for j in range(first, last):
                line = source + places[j]
                left, right = load(lines, line, r), load(lines, line, r + LANES)
                p, q = spread(flipped, place), spread(flipped, place + 1)
                s, t = spread(flipped, place + 2), spread(flipped, place + 3)
                a, b = add_product(a, p, left), add_product(b, p, right)
                c, d = add_product(c, q, left), add_product(d, q, right)
                e, f = add_product(e, s, left), add_product(f, s, right)
                g, h = add_product(g, t, left), add_product(h, t, right)
                place += rows
            _store_pair(lines, out + places[row + i], r, a, b)
            _store_pair(lines, out + places[row + i + 1], r, c, d)
            _store_pair(lines, out + places[row + i + 2], r, e, f)
            _store_pair(lines, out + places[row + i + 3], r, g, h)


@inlined
def _store_pair(lines: Any, line: int, r: int, left: Any, right: Any) -> None:
    store(lines, line, r, left)
    store(lines, line, r + LANES, right)


@helper
def _mix_last(lines: Any, places: Any, task: Any, flipped: Any, value: int, whole: int, count: int) -> None:
    """Multiply the rows that are left when the tiles are through, in the same order of terms."""
    out, row, rows, source, column, columns = task
    for i in range(rows):
        for r in range(whole, count):
            total = 0.0
            for j in range(columns):
                total += flipped[value + j * rows + i] * lines[source + places[column + j], r]
            lines[out + places[row + i], r] = total


@helper
def _dot_tiles(lines: Any, places: Any, task: Any, sums: Any, value: int, count: int) -> None:
    """Add up the products of all lines above with all lines below."""
    above, row, rows, product, column, columns = task
    whole = count - count % LANES
    for row_start in range(0, rows, 2):
        i = min(row_start, rows - 2)
        p, q = above + places[row + i], above + places[row + i + 1]
        for start in range(0, columns, TILE):
            j = min(start, columns - TILE)
            s, t = product + places[column + j], product + places[column + j + 1]
            u, v = product + places[column + j + 2], product + places[column + j + 3]
            a = b = c = d = e = f = g = h = nothing()
            for r in range(0, whole, LANES):
                x, y = load(lines, p, r), load(lines, q, r)
                w, z = load(lines, s, r), load(lines, t, r)
                a, e = add_product(a, x, w), add_product(e, y, w)
                b, f = add_product(b, x, z), add_product(f, y, z)
                w, z = load(lines, u, r), load(lines, v, r)
                c, g = add_product(c, x, w), add_product(g, y, w)
                d, h = add_product(d, x, z), add_product(h, y, z)
            # The last tile may overlap the one before, which has added up the rest.
            if j < start:
                a = e = nothing()
            if j + 1 < start:
                b = f = nothing()
            if j + 2 < start:
                c = g = nothing()
            place = value + i * columns + j
            if i == row_start:
                _add_sums(sums, place, a, b, c, d)
            _add_sums(sums, place + columns, e, f, g, h)
    for i in range(rows):
        for j in range(columns):
            for r in range(whole, count):
                below = lines[product + places[column + j], r]
                sums[0, value + i * columns + j] += lines[above + places[row + i], r] * below


@inlined
def _add_sums(sums: Any, place: int, first: Any, second: Any, third: Any, fourth: Any) -> None:
    """Add the sum of each of four vectors to four places."""
    a, b, c, d = transposed(first, second, third, fourth)
    store(sums, 0, place, sum_of(load(sums, 0, place), sum_of(sum_of(a, b), sum_of(c, d))))


@helper
def _squares_up(node: Any, places: Any, values: Any, count: int, lines: Any) -> None:
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
        # The squares leave out the last column, and the last row, of an odd number.
        for i in range(rows):
            for j in range(0 if i == rows - rows % 2 else columns - columns % 2, columns):
                a = product + places[column + j]
                _mix(lines, out + places[row + i], values[value + i * columns + j], a, count, j > 0)
        value += rows * columns
        row += rows
        column += columns


@helper
def _squares_down(node: Any, places: Any, flipped: Any, count: int, lines: Any, sums: Any) -> None:
    """Write what comes down to each product, and count each value's messages.

    The flipped values hold a node's blocks as (column, row).
    """
    rows, columns, value, row, column = node.rows, node.columns, node.value, node.row, node.column
    above, product, down = node.outside, node.product, node.down
    for _ in range(node.blocks):
        for j in range(0, columns - 1, 2):
            a, b = down + places[column + j], down + places[column + j + 1]
            c, d = product + places[column + j], product + places[column + j + 1]
            first, second = value + j * rows, value + (j + 1) * rows
            for i in range(0, rows - 1, 2):
                p, q = above + places[row + i], above + places[row + i + 1]
                totals = _mix_and_dot_square(lines, a, b, flipped, first + i, second + i, p, q, c, d, count, i > 0)
                place = value + i * columns + j
                sums[0, place] += totals[0]
                sums[0, place + 1] += totals[1]
                sums[0, place + columns] += totals[2]
                sums[0, place + columns + 1] += totals[3]
        for j in range(columns):
            a = places[column + j]
            for i in range(0 if j == columns - columns % 2 else rows - rows % 2, rows):
                p = above + places[row + i]
                _mix(lines, down + a, flipped[value + j * rows + i], p, count, i > 0)
                sums[0, value + i * columns + j] += _dot(lines, p, product + a, count)
        value += rows * columns
        row += rows
        column += columns


@helper
def _tiles_up(node: Any, places: Any, flipped: Any, count: int, lines: Any) -> None:
    rows, columns, value, row, column = node.rows, node.columns, node.value, node.row, node.column
    whole = count - count % TILE_ROWS
    for _ in range(node.blocks):
        task = (node.message, row, rows, node.product, column, columns)
        _mix_tiles(lines, places, task, flipped, value, whole)
        _mix_last(lines, places, task, flipped, value, whole, count)
        value += rows * columns
        row += rows
        column += columns


@helper
def _tiles_down(node: Any, places: Any, values: Any, count: int, lines: Any, sums: Any) -> None:
    rows, columns, value, row, column = node.rows, node.columns, node.value, node.row, node.column
    whole = count - count % TILE_ROWS
    for _ in range(node.blocks):
        # Seen from above, columns are rows: the values stand as that wants them.
        task = (node.down, column, columns, node.outside, row, rows)
        _mix_tiles(lines, places, task, values, value, whole)
        _mix_last(lines, places, task, values, value, whole, count)
        _dot_tiles(lines, places, (node.outside, row, rows, node.product, column, columns), sums, value, count)
        value += rows * columns
        row += rows
        column += columns


@helper
def matrix_up(node: Any, places: Any, values: Any, flipped: Any, count: int, lines: Any) -> None:
    """Write the message of an inner node: its matrix times the products.

    The flipped values hold a node's blocks as (column, row).
    """
    if node.columns >= MANY and node.rows >= MANY:
        _tiles_up(node, places, flipped, count, lines)
    else:
        _squares_up(node, places, values, count, lines)


@helper
def matrix_down(node: Any, places: Any, values: Any, flipped: Any, count: int, lines: Any, sums: Any) -> None:
    """Write what comes down to each product, and count each value's messages."""
    if node.columns >= MANY and node.rows >= MANY:
        _tiles_down(node, places, values, count, lines, sums)
    else:
        _squares_down(node, places, flipped, count, lines, sums)
