"""Joint counts of groups of columns, and the moments that are sums over their cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.kernels.compiling import compiled, helper

__all__ = ["count_groups", "count_pairs", "feature_sums", "weigh_groups"]


@helper
def _group_codes(codes: Any, start: int, count: int, columns: Any, states: Any, joint: Any) -> None:
    """Write the joint code of a group of columns for some rows, in 16 bits so that the loop vectorises."""
    # Slices that start at 0: with an offset in the index the loops do not vectorise, and are three times slower.
    out = joint[:count]
    first = codes[columns[0], start : start + count]
    for r in range(count):
        out[r] = np.uint16(first[r])
    for k in range(1, columns.shape[0]):
        column = codes[columns[k], start : start + count]
        size = np.uint16(states[k])
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


@compiled
def count_groups(
    codes: Any, group_start: Any, columns: Any, states: Any, table_start: Any, tables: Any, holes: Any
) -> None:
    """Add the joint counts of each group of columns to its table; rows with a missing cell do not count there.

    Tables lie end to end in `tables`, and none has more than 65,536 cells. ``holes[column]`` says whether the
    column has a missing cell at all. Four sub-tables take turns, so that equal codes that follow each other do not
    wait for one another.
    """
    block = 2048
    joint = np.empty(block, np.uint16)
    present = np.empty(block, np.bool_)
    lanes = np.zeros((4, 4096), np.int64)
    for g in range(table_start.shape[0] - 1):
        group = columns[group_start[g] : group_start[g + 1]]
        sizes = states[group_start[g] : group_start[g + 1]]
        cells = table_start[g + 1] - table_start[g]
        table = tables[table_start[g] : table_start[g + 1]]
        any_hole = False
        for column in group:
            any_hole |= holes[column]
        in_lanes = cells <= 4096 and not any_hole
        for start in range(0, codes.shape[1], block):
            count = min(block, codes.shape[1] - start)
            _group_codes(codes, start, count, group, sizes, joint)
            if any_hole:
                _present(codes, start, count, group, sizes, present)
                for r in range(count):
                    if present[r]:
                        table[joint[r]] += 1
            elif in_lanes:
                whole = count // 4 * 4
                for r in range(0, whole, 4):
                    lanes[0, joint[r]] += 1
                    lanes[1, joint[r + 1]] += 1
                    lanes[2, joint[r + 2]] += 1
                    lanes[3, joint[r + 3]] += 1
                for r in range(whole, count):
                    lanes[0, joint[r]] += 1
            else:
                for r in range(count):
                    table[joint[r]] += 1
        if in_lanes:
            for k in range(cells):
                table[k] += lanes[0, k] + lanes[1, k] + lanes[2, k] + lanes[3, k]
                for lane in range(4):
                    lanes[lane, k] = 0


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

    Parameters
    ----------
    features : (at least states, at least widths)
    done, rest : int
        How many cells there are over the axes before this one, and after it.
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

    Parameters
    ----------
    dense : (cells,)
        Tables of the same shape, each from its `start` on.
    states, widths : (axes,)
        States and features of each axis.
    whole : (axes,)
        Axes whose features are their states.
    matrices : (tables, axes, at least states, at least widths)
        The features of all other axes.
    sums : (tables, product of widths)
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


@helper
def _weigh_pair(first: Any, second: Any, weights: Any, states: Any, scratch: Any) -> None:
    """Add the weights of rows to the joint table of two columns, which has a row and a column for missing cells."""
    width = states[1] + 1
    for r in range(first.shape[0]):
        scratch[first[r] * width + second[r]] += weights[r]


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
        Of a pair, the first column is the one that stands first; of a column alone, the diagonal is counted.
    """
    rows = codes.shape[1]
    scratch = np.zeros(max(rows, 1), weights.dtype)
    sizes = np.zeros(2, np.int64)
    for i in range(codes.shape[0]):
        first = codes[i]
        for j in range(i, codes.shape[0]):
            if not wide[i] and not wide[j]:
                continue
            second = codes[j]
            sizes[0], sizes[1] = states[i], states[j]
            cells = (sizes[0] + 1) * (sizes[1] + 1)
            if cells <= rows:
                # Without a look at which codes are counted, which processors guess wrong.
                _weigh_pair(first, second, weights, sizes, scratch)
                for a in range(kept[i]):
                    for b in range(kept[j]):
                        matrix[start[i] + a, start[j] + b] += scratch[a * (sizes[1] + 1) + b]
                for cell in range(cells):
                    scratch[cell] = 0
            else:
                for r in range(rows):
                    if first[r] < kept[i] and second[r] < kept[j]:
                        matrix[start[i] + first[r], start[j] + second[r]] += weights[r]
