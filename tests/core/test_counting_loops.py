"""Loops of encoding, counting and sampling against plain references.

All of it also runs with NUMBA_DISABLE_JIT=1, where the branches of the kernels can be seen.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core.counting.encoding import copy_codes, encode_column, encode_rows, hash_rows
from eigentree.core.counting.group_counting import (
    add_common_bits,
    count_groups,
    count_pairs,
    feature_sums,
    weigh_groups,
)

# ---------------------------------------------------------------------------------------------- codes


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, np.float32, np.float64])
def test_cells_become_codes(kind: type) -> None:
    cells = np.array([0, 1, 4, 2, 0], kind)
    codes = np.full(5, 9, np.uint8)
    assert encode_column(cells, 5, codes) == -1
    assert_array_equal(codes, [0, 1, 4, 2, 0])


@pytest.mark.parametrize("missing", [-1, math.nan])
def test_missing_cells_become_the_code_after_the_last(missing: float) -> None:
    codes = np.empty(3, np.uint8)
    assert encode_column(np.array([2.0, missing, 0.0]), 5, codes) == -1
    assert_array_equal(codes, [2, 5, 0])


@pytest.mark.parametrize("bad", [5, 1.5, -2, -0.5, math.inf, -math.inf])
def test_the_first_cell_that_is_no_code_is_named(bad: float) -> None:
    assert encode_column(np.array([0.0, 4.0, bad, bad]), 5, np.empty(4, np.uint8)) == 2


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, np.uint32])
@pytest.mark.parametrize("rows", [1, 63, 64, 150])
@pytest.mark.parametrize("code", [np.uint8, np.uint16])
def test_rows_become_codes_column_by_column(kind: type, rows: int, code: type) -> None:
    """As each column does by itself, and the columns that hold no code are named."""
    random = np.random.default_rng(rows)
    states = np.array([3, 5, 120, 7, 100, *range(2, 15)])
    cells = np.column_stack([random.integers(0, size, rows + 9) for size in states])
    if np.dtype(kind).kind == "i":
        cells[random.random(cells.shape) < 0.2] = -1
        cells[6, 1] = -2
    cells[rows + 4, 3] = 7
    # What lies before and after these rows does not count.
    cells[4, 4] = cells[rows + 5, 0] = 101
    cells = cells.astype(kind)
    codes, wrong = np.full((len(states), rows), 200, code), np.ones(len(states), np.bool_)
    encode_rows(cells, 5, states, codes, wrong)
    for j, size in enumerate(states.tolist()):
        column = np.empty(rows, code)
        bad = encode_column(cells[5 : 5 + rows, j], size, column)
        assert wrong[j] == (bad >= 0)
        if bad < 0:
            assert_array_equal(codes[j], column)
    assert wrong[3]


@pytest.mark.parametrize("bad", [-2, 5])
def test_each_column_may_hold_what_is_no_code(bad: int) -> None:
    states, good = np.full(6, 5), np.random.default_rng(0).integers(-1, 5, (70, 6))
    for column in range(6):
        cells = good.copy()
        cells[66, column] = bad
        codes, wrong = np.empty((6, 70), np.uint8), np.zeros(6, np.bool_)
        encode_rows(cells, 0, states, codes, wrong)
        assert_array_equal(wrong, np.arange(6) == column)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_codes_are_copied_and_their_largest_found(kind: type) -> None:
    cells = np.random.default_rng(0).integers(0, 200, (3, 40)).astype(kind)
    codes, largest = np.zeros((3, 7), kind), np.zeros(3, kind)
    copy_codes(cells, 20, codes, largest)
    assert_array_equal(codes, cells[:, 20:27])
    assert_array_equal(largest, cells[:, 20:27].max(axis=1))


def reference_hash(row: list[int]) -> int:
    """The hash in Python's integers, cut to 64 bits after each product."""
    mask = 2**64 - 1
    found = 0x9E3779B97F4A7C15
    for code in row:
        found = (found ^ code) * 0xBF58476D1CE4E5B9 & mask
        found ^= found >> 31
    found = (found ^ found >> 30) * 0x94D049BB133111EB & mask
    return found ^ found >> 29


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_hashes_of_rows(kind: type) -> None:
    codes = np.random.default_rng(0).integers(0, 250, (6, 20)).astype(kind)
    hashes = np.zeros(20, np.uint64)
    # Products of 64 bits are meant to overflow.
    with np.errstate(over="ignore"):
        hash_rows(codes, hashes)
    assert hashes.tolist() == [reference_hash(row) for row in codes.T.tolist()]


# ------------------------------------------------------------------------------------------- counting


def groups_of(groups: list[tuple[int, ...]], states: list[int]) -> tuple[np.ndarray, ...]:
    """The columns of all groups end to end, as the kernels read them."""
    cells = [math.prod(states[column] for column in group) for group in groups]
    return (
        np.cumsum([0, *(len(group) for group in groups)]),
        np.array([column for group in groups for column in group]),
        np.array([states[column] for group in groups for column in group]),
        np.cumsum([0, *cells]),
    )


def reference_counts(
    codes: np.ndarray, weights: list[float], groups: list[tuple[int, ...]], states: list[int]
) -> np.ndarray:
    """The tables end to end, one cell at a time."""
    tables = []
    for group in groups:
        totals: Counter[tuple[int, ...]] = Counter()
        for row, weight in zip(codes.T.tolist(), weights, strict=True):
            if all(row[column] < states[column] for column in group):
                totals[tuple(row[column] for column in group)] += weight
        tables += [totals[cell] for cell in product(*(range(states[column]) for column in group))]
    return np.array(tables)


# Tables of one column, of several, of more cells than the four lanes have, and of as many as there may be.
STATES = [3, 2, 4, 80, 60, 256, 256, 5]
GROUPS = [(0,), (0, 1, 2), (3, 4), (2, 0), (5, 6), (7, 2, 1, 0), (0, 1, 2, 7, 3), (2, 7), (0, 1, 2, 7, 1, 0)]


@pytest.mark.parametrize("rows", [1, 3, 100, 2048, 2051])
@pytest.mark.parametrize("absent", [False, True])
def test_joint_counts(rows: int, absent: bool) -> None:
    random = np.random.default_rng(rows)
    codes = np.array([random.integers(0, size, rows) for size in STATES], np.uint16)
    if absent:
        absent = random.random(codes.shape) < 0.3
        # One column stays whole, so that some groups have no hole.
        absent[0] = False
        codes = np.where(absent, np.array(STATES)[:, None], codes).astype(np.uint16)
    arrays = groups_of(GROUPS, STATES)
    tables = np.full(int(arrays[-1][-1]), 5, np.int64)
    any_hole = (codes == np.array(STATES)[:, None]).any(axis=1)
    # The joint code of a missing cell may wrap round; it is not used.
    with np.errstate(over="ignore"):
        count_groups(codes, np.arange(len(GROUPS)), *arrays, tables, any_hole)
    assert_array_equal(tables - 5, reference_counts(codes, [1] * rows, GROUPS, STATES))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("rows", [1999, 4099])
def test_joint_counts_of_codes_that_repeat(rows: int, share: float) -> None:
    """Tables that take turns are emptied for the next group, whether it takes turns or not."""
    random = np.random.default_rng(rows)
    states, groups = [6, 5, 4, 3, 2], [(0, 1, 2), (1, 2, 3, 4), (0, 3), (0, 1, 2, 3), (2, 4)]
    codes = np.array([random.integers(0, size, rows) for size in states], np.uint8)
    codes *= random.random(codes.shape) < share
    codes[0] = random.integers(0, 6, rows)
    arrays = groups_of(groups, states)
    tables = np.zeros(int(arrays[-1][-1]), np.int64)
    with np.errstate(over="ignore"):
        count_groups(codes, np.arange(len(groups)), *arrays, tables, np.zeros(len(states), np.bool_))
    assert_array_equal(tables, reference_counts(codes, [1] * rows, groups, states))


@pytest.mark.parametrize(("planes", "words"), [(1, 1), (3, 5), (70, 2)])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_common_bits(planes: int, words: int, kind: type) -> None:
    """Against products of zeros and ones; all words are there, those of nothing and those of ones too."""
    random = np.random.default_rng(planes)
    bits = random.random((planes, 64 * words)) < random.random((planes, 1))
    bits[0] = True
    packed = np.packbits(bits, axis=1).view(np.uint64)
    places = np.sort(random.permutation(planes + 3)[:planes])
    matrix = np.full((planes + 3, planes + 3), 7, kind)
    expected = matrix.copy()
    with np.errstate(over="ignore"):
        add_common_bits(packed, places, matrix)
    expected[np.ix_(places, places)] += np.triu(bits.astype(kind) @ bits.astype(kind).T)
    assert_array_equal(matrix, expected)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_weights_are_added_up(kind: type) -> None:
    random = np.random.default_rng(0)
    rows = 2060
    codes = np.array([random.integers(0, size + 1, rows) for size in STATES], np.uint16)
    weights = random.integers(0, 9, rows).astype(kind) / kind(1 if kind is np.int64 else 4)
    weights = weights.astype(kind)
    arrays = groups_of(GROUPS, STATES)
    tables = np.zeros(int(arrays[-1][-1]), kind)
    with np.errstate(over="ignore"):
        weigh_groups(codes, weights, *arrays, tables)
    # Quarters add up without rounding.
    assert_array_equal(tables, reference_counts(codes, weights.tolist(), GROUPS, STATES))


@pytest.mark.parametrize("rows", [1, 40, 2000])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_pairs_with_a_wide_column(rows: int, kind: type) -> None:
    """Few rows are put straight into the tables, many into one that is small; some last states are not counted."""
    random = np.random.default_rng(rows)
    states, wide = np.array([3, 9, 2, 12]), np.array([False, True, False, True])
    kept = states - np.array([0, 1, 1, 0])
    start = np.cumsum(kept) - kept
    codes = np.array([random.integers(0, size + 1, rows) for size in states], np.uint8)
    weights = (random.integers(0, 9, rows) / (1 if kind is np.int64 else 4)).astype(kind)
    matrix = np.zeros((kept.sum(), kept.sum()), kind)
    count_pairs(codes, weights, wide, states, start, kept, matrix)
    expected = np.zeros_like(matrix)
    for i, j in product(range(4), repeat=2):
        if i <= j and (wide[i] or wide[j]):
            for one, other, weight in zip(codes[i], codes[j], weights, strict=True):
                if one < kept[i] and other < kept[j]:
                    expected[start[i] + one, start[j] + other] += weight
    assert_array_equal(matrix, expected)


@pytest.mark.parametrize("whole", list(product([False, True], repeat=3)))
@pytest.mark.parametrize("widths", [(2, 2, 2), (4, 1, 5), (1, 3, 1)])
def test_sums_of_features(whole: tuple[bool, ...], widths: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    states, tables = (3, 4, 2), 5
    widths = tuple(n if all_states else w for n, w, all_states in zip(states, widths, whole, strict=True))
    cells = math.prod(states)
    dense = random.integers(0, 50, 3 + tables * cells)
    start = 3 + cells * random.permutation(tables)
    matrices = random.normal(size=(tables, 3, 5, 6))
    sums = np.full((tables, math.prod(widths)), np.nan)
    feature_sums(dense, start, np.array(states), np.array(widths), np.array(whole), matrices, sums)
    for table in range(tables):
        counts = dense[start[table] : start[table] + cells].reshape(states)
        used = [np.eye(states[k]) if whole[k] else matrices[table, k, : states[k], : widths[k]] for k in range(3)]
        expected = np.einsum("abc,ax,by,cz->xyz", counts, *used)
        assert_allclose(sums[table], expected.ravel(), rtol=1e-12, atol=1e-12)


def test_sums_of_features_have_no_negative_zeros() -> None:
    """LAPACK takes the sign of a zero for a direction."""
    sums = np.empty((1, 2))
    matrices = np.full((1, 1, 3, 2), -1.0)
    feature_sums(
        np.zeros(3, np.int64), np.array([0]), np.array([3]), np.array([2]), np.array([False]), matrices, sums
    )
    assert not np.signbit(sums).any()
