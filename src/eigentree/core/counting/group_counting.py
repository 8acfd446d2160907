"""Joint counts of groups of columns and of pairs, and the moments that are sums over their cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.core.compiling import compiled, helper

__all__ = ["add_common_bits", "count_groups", "count_pairs", "feature_sums", "weigh_groups"]

FEW_CELLS = 64
"""Tables of up to so many cells are counted in turns whatever their codes: equal ones follow each other often."""

LANE_GAP = 80
"""Cells between tables that take turns: at a power of two, all would compete for the same lines of the cache."""


@helper
def _group_codes(codes: Any, start: int, count: int, columns: Any, states: Any, joint: Any) -> None:
    """Write the joint code of a group of columns for some rows, in 16 bits so that the loops vectorise."""
    # Slices that start at 0: with an offset in the index the loops do not vectorise, and are three times slower.
    out = joint[:count]
    first = codes[columns[0], start : start + count]
    for r in range(count):
        out[r] = np.uint16(first[r])
    for k in range(1, columns.shape[0]):
        column, size = codes[columns[k], start : start + count], np.uint16(states[k])
        for r in range(count):
            out[r] = np.uint16(np.uint16(out[r] * size) + np.uint16(column[r]))


@helper
def _present(codes: Any, start: int, count: int, columns: Any, states: Any, present: Any) -> None:
    """Write whether all cells of a group are present, for some rows."""
    out = present[:count]
    for r in range(count):
        out[r] = True
    for k in range(columns.shape[0]):
        column = codes[columns[k], start : start + count]
        for r in range(count):
            out[r] &= column[r] != states[k]


@helper
def _repeats(joint: Any, count: int) -> bool:
    """Return whether at least every eighth joint code is that of the row before."""
    equal = 0
    for r in range(1, count):
        equal += joint[r] == joint[r - 1]
    return 8 * equal >= count


@helper
def _add_ones_in_turns(words: Any, joint: Any, count: int, stride: int, lanes: Any) -> None:
    """Count joint codes in eight tables that take turns, so that equal ones in a row need not wait.

    They are read four at a time: processors load and store no more often than they must.
    """
    one = np.uint32(1)
    low, by_one, by_two, by_three = np.uint64(0xFFFF), np.uint64(16), np.uint64(32), np.uint64(48)
    a, b, c, d = lanes[:stride], lanes[stride:], lanes[2 * stride :], lanes[3 * stride :]
    e, f, g, h = lanes[4 * stride :], lanes[5 * stride :], lanes[6 * stride :], lanes[7 * stride :]
    for w in range(0, count // 8 * 2, 2):
        word, next_word = words[w], words[w + 1]
        a[word & low] += one
        b[(word >> by_one) & low] += one
        c[(word >> by_two) & low] += one
        d[word >> by_three] += one
        e[next_word & low] += one
        f[(next_word >> by_one) & low] += one
        g[(next_word >> by_two) & low] += one
        h[next_word >> by_three] += one
    for r in range(count // 8 * 8, count):
        a[joint[r]] += one


@helper
def _gather_turns(stride: int, lanes: Any, cells: int) -> None:
    """Add the other seven tables that took turns to the first, and empty them."""
    zero = np.uint32(0)
    first = lanes[:cells]
    for lane in range(1, 8, 1):
        part = lanes[lane * stride : lane * stride + cells]
        for k in range(cells):
            first[k] += part[k]
            part[k] = zero


@helper
def _count_whole(codes: Any, group: Any, sizes: Any, joint: Any, lanes: Any, table: Any) -> None:
    """Add the joint counts of one group without missing cells, by way of small numbers that stay in cache.

    Where codes repeat, eight tables take turns.
    """
    block, cells = joint.shape[0], table.shape[0]
    words = joint.view(np.uint64)
    stride = cells + LANE_GAP
    turns = cells <= FEW_CELLS
    for start in range(0, codes.shape[1], block):
        count = min(block, codes.shape[1] - start)
        _group_codes(codes, start, count, group, sizes, joint)
        if start == 0 and not turns:
            turns = _repeats(joint, count)
        if turns:
            _add_ones_in_turns(words, joint, count, stride, lanes)
        else:
            for r in range(count):
                lanes[joint[r]] += np.uint32(1)
    if turns:
        _gather_turns(stride, lanes, cells)
    for k in range(cells):
        table[k] += lanes[k]
        lanes[k] = 0


@compiled
def count_groups(
    codes: Any, which: Any, group_start: Any, columns: Any, states: Any, table_start: Any, tables: Any, missing: Any
) -> None:
    """Add the joint counts of some groups of columns to their tables; rows with a missing cell do not count there.

    Tables lie end to end in `tables`, and none has more than 65,536 cells. There are fewer than 2^32 rows.
    ``missing[column]`` says whether the column has a missing cell at all.
    """
    block = 2048
    joint = np.empty(block, np.uint16)
    present = np.empty(block, np.bool_)
    most = 0
    for g in which:
        most = max(most, table_start[g + 1] - table_start[g])
    lanes = np.zeros(8 * (min(most, codes.shape[1] // 2) + LANE_GAP), np.uint32)
    for g in which:
        group = columns[group_start[g] : group_start[g + 1]]
        sizes = states[group_start[g] : group_start[g + 1]]
        cells = table_start[g + 1] - table_start[g]
        table = tables[table_start[g] : table_start[g + 1]]
        any_missing = False
        for column in group:
            any_missing |= missing[column]
        # To empty the small numbers should take less time than to fill them.
        if not any_missing and 2 * cells <= codes.shape[1]:
            _count_whole(codes, group, sizes, joint, lanes, table)
            continue
        for start in range(0, codes.shape[1], block):
            count = min(block, codes.shape[1] - start)
            _group_codes(codes, start, count, group, sizes, joint)
            if any_missing:
                _present(codes, start, count, group, sizes, present)
                for r in range(count):
                    if present[r]:
                        table[joint[r]] += 1
            else:
                for r in range(count):
                    table[joint[r]] += 1


@compiled
def weigh_groups(
    codes: Any, weights: Any, group_start: Any, columns: Any, states: Any, table_start: Any, tables: Any
) -> None:
    """Add the weights of the rows to the tables of each group, as `count_groups` adds ones."""
    block = 2048
    joint = np.empty(block, np.uint16)
    present = np.empty(block, np.bool_)
    for g in range(table_start.shape[0] - 1):
        group = columns[group_start[g] : group_start[g + 1]]
        sizes = states[group_start[g] : group_start[g + 1]]
        table = tables[table_start[g] : table_start[g + 1]]
        for start in range(0, codes.shape[1], block):
            count = min(block, codes.shape[1] - start)
            _group_codes(codes, start, count, group, sizes, joint)
            _present(codes, start, count, group, sizes, present)
            for r in range(count):
                if present[r]:
                    table[joint[r]] += weights[start + r]


@helper
def _take_features(lines: Any, here: int, features: Any, done: int, states: int, widths: int, rest: int) -> None:
    """Write one line of cells to the other, with one axis turned from states to features.

    `features` (at least states, at least widths); `done`, `rest`: how many cells there are over the axes before
    this one, and after it.
    """
    there = 1 - here
    for before in range(done):
        for state in range(states):
            source = (before * states + state) * rest
            for width in range(widths):
                factor = features[state, width]
                target = (before * widths + width) * rest
                if state == 0:
                    for cell in range(rest):
                        # Zero is added so that no zero is negative.
                        lines[there, target + cell] = factor * lines[here, source + cell] + 0.0
                else:
                    for cell in range(rest):
                        lines[there, target + cell] += factor * lines[here, source + cell]


@compiled
def feature_sums(dense: Any, start: Any, states: Any, widths: Any, whole: Any, matrices: Any, sums: Any) -> None:
    """Write the sum over the cells of each table of count times product of features.

    `dense` (cells,): tables of the same shape, each from its `start` on; `states`, `widths` (axes,): states and
    features of each axis; `whole` (axes,): axes whose features are their states; `matrices` (tables, axes, at least
    states, at least widths): the features of all other axes; `sums` (tables, product of widths).
    """
    cells = 1
    for axis in range(len(states)):
        cells *= states[axis]
    largest = work = cells
    for axis in range(len(states)):
        work = work // states[axis] * widths[axis]
        largest = max(largest, work)
    lines = np.empty((2, largest))
    for table in range(len(start)):
        # No literals: numba would compile the helper for these once more.
        here, done, rest = np.int64(0), np.int64(1), cells
        for cell in range(cells):
            lines[here, cell] = dense[start[table] + cell]
        for axis in range(len(states)):
            rest //= states[axis]
            if not whole[axis]:
                _take_features(lines, here, matrices[table, axis], done, states[axis], widths[axis], rest)
                here = 1 - here
            done *= widths[axis]
        for cell in range(done):
            sums[table, cell] = lines[here, cell]


@compiled
def count_pairs(codes: Any, weights: Any, wide: Any, states: Any, start: Any, kept: Any, matrix: Any) -> None:
    """Add the weights of the rows to the table of each pair of columns of which at least one is wide.

    Parameters
    ----------
    codes : (columns, rows)
    weights : (rows,)
    wide : (columns,)
        Whether to count the pairs of a column here.
    states, start, kept : (columns,)
        How many states each column has, where they begin in `matrix`, and how many of them are counted there.
    matrix : (counted states, counted states)
        Of a pair, the first column is the one that stands first; of a column with itself, the diagonal is counted.
    """
    rows = codes.shape[1]
    scratch = np.zeros(max(rows, 1), weights.dtype)
    for i in range(codes.shape[0]):
        first = codes[i]
        for j in range(i, codes.shape[0]):
            if not wide[i] and not wide[j]:
                continue
            second = codes[j]
            width = states[j] + 1
            cells = (states[i] + 1) * width
            if cells <= rows:
                # Without a branch on which codes are counted, which processors predict wrong.
                for r in range(rows):
                    scratch[first[r] * width + second[r]] += weights[r]
                for a in range(kept[i]):
                    for b in range(kept[j]):
                        matrix[start[i] + a, start[j] + b] += scratch[a * width + b]
                for cell in range(cells):
                    scratch[cell] = 0
            else:
                for r in range(rows):
                    if first[r] < kept[i] and second[r] < kept[j]:
                        matrix[start[i] + first[r], start[j] + second[r]] += weights[r]


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

    Rows as bits, 64 to a word: how many have two states at once is counted without reading any single row.

    `planes` (planes, words): of 64 bits each; `places` (planes,): where they stand in the matrix; they rise;
    `matrix` (at least planes, at least planes): the diagonal gets how many bits a plane has at all.
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
