"""Joint counts of groups and pairs, and sums of features, against plain references."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.mirrors import counting as mirror
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core.counting.group_counting import (
    GroupCounter,
    GroupTables,
    add_common_bits,
    count_pairs,
    feature_sums,
    weigh_groups,
)

if TYPE_CHECKING:
    pass

CODES = [np.uint8, np.uint16, np.uint32]

# Tables of one column, of several, in any order, and of as many cells as there may be.
STATES = [3, 2, 4, 80, 60, 256, 256, 5, 1]
GROUPS = [(0,), (0, 1, 2), (3, 4), (2, 0), (5, 6), (7, 2, 1, 0), (0, 1, 2, 7, 3), (2, 7), (0, 8, 1), (8,)]


pytestmark = pytest.mark.usefixtures("instructions")


def random_codes(seed: int, states: list[int], rows: int, lost: float, kind: type = np.uint16) -> np.ndarray:
    """Codes with missing cells in all columns but the first."""
    random = np.random.default_rng(seed)
    codes = np.array([random.integers(0, size, rows) for size in states])
    absent = random.random(codes.shape) < lost
    absent[0] = False
    return np.where(absent, np.array(states)[:, None], codes).astype(kind)


def counted(
    codes: np.ndarray,
    groups: list[tuple[int, ...]],
    states: list[int],
    parts: int = 1,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    arrays = GroupTables(*mirror.groups_of(groups, states))
    tables = np.full(int(arrays.table_start[-1]), 5, np.int64)
    counter = GroupCounter(arrays)
    for rows in np.array_split(np.arange(codes.shape[1]), parts):
        counter.add(codes[:, rows], None if weights is None else weights[rows])
    counter.add_to(tables)
    return tables - 5


@pytest.mark.parametrize("rows", [1, 3, 100, 2048, 2051])
@pytest.mark.parametrize("lost", [0.0, 0.3])
@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_joint_counts(rows: int, lost: float, kind: type) -> None:
    codes = random_codes(rows, STATES, rows, lost, kind)
    expected = mirror.group_tables(codes, [1] * rows, GROUPS, STATES)
    assert_array_equal(counted(codes, GROUPS, STATES), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_largest_table_has_its_first_and_last_cell_beside_missing_ones(weighted: bool) -> None:
    codes = np.array([[0, 255, 256, 0, 256], [0, 255, 0, 256, 256]] * 20, np.uint16).reshape(20, 2, 5)
    codes = np.concatenate(list(codes), axis=1)
    arrays = GroupTables(*mirror.groups_of([(0, 1)], [256, 256]))
    tables = np.zeros(65_536)
    if weighted:
        weigh_groups(codes, np.ones(codes.shape[1]), arrays, tables)
    else:
        tables += counted(codes, [(0, 1)], [256, 256])
    assert np.flatnonzero(tables).tolist() == [0, 65_535]
    assert tables[[0, 65_535]].tolist() == [20, 20]


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_joint_counts_of_any_number_of_rows(lost: float) -> None:
    """Behind the last row lies what is no code, which is not read."""
    states, groups = [2, 3, 4, 5], [(0, 1), (1, 2, 3), (0, 2, 3), (3,)]
    whole = random_codes(0, states, 80, lost, np.uint8)
    for rows in range(75):
        codes = whole[:, :rows]
        buffer = np.full(codes.size + 64, 255, np.uint8)
        buffer[: codes.size] = codes.ravel()
        codes = buffer[: codes.size].reshape(codes.shape)
        assert_array_equal(counted(codes, groups, states), mirror.group_tables(codes, [1] * rows, groups, states))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("rows", [1999, 4099])
@pytest.mark.parametrize("lost", [0.0, 0.01])
def test_joint_counts_of_codes_that_repeat(rows: int, share: float, lost: float) -> None:
    """Tables that take turns are emptied for the next group, whether it takes turns or not."""
    random = np.random.default_rng(rows)
    states, groups = [6, 5, 4, 3, 2], [(0, 1, 2), (1, 2, 3, 4), (0, 3), (0, 1, 2, 3), (2, 4)]
    codes = random_codes(rows, states, rows, 0.0, np.uint8)
    codes *= random.random(codes.shape) < share
    codes[0] = random.integers(0, 6, rows)
    gone = random.random(codes.shape) < lost
    codes = np.where(gone, np.array(states)[:, None], codes).astype(np.uint8)
    assert_array_equal(counted(codes, groups, states), mirror.group_tables(codes, [1] * rows, groups, states))


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_merged_groups(kind: type, seed: int, weighted: bool) -> None:
    """Groups with columns in common are counted as one after the first 16,384 rows, where none is missing."""
    random = np.random.default_rng(seed)
    states = random.integers(1, 7, 12).tolist()
    groups = [tuple(np.sort(random.choice(12, random.integers(1, 5), replace=False)).tolist()) for _ in range(40)]
    groups += [(3, 2), (7, 1, 4)]
    codes = random_codes(seed, states, 30_000, 0.0, kind)
    codes[5, 25_000:] = np.where(random.random(5_000) < 0.1, states[5], codes[5, 25_000:])
    weights = random.integers(0, 9, 30_000) if weighted else None
    tables = counted(codes, groups, states, parts=6, weights=weights)
    at = 0
    for group in groups:
        shape = [states[column] for column in group]
        here = codes[list(group)].astype(np.int64)
        present = (here < np.array(shape)[:, None]).all(axis=0)
        joint = np.ravel_multi_index(tuple(here[:, present]), shape)
        cells = math.prod(shape)
        expected = np.bincount(joint, None if weights is None else weights[present], cells)
        assert_array_equal(tables[at : at + cells], expected)
        at += cells


def test_many_merged_groups_take_bounded_memory() -> None:
    """So many that tables of 4,096 cells each would be too many: they are merged less."""
    states, groups = [8] * 60, list(combinations(range(60), 2))
    codes = random_codes(0, states, 20_000, 0.0, np.uint8)
    tables = counted(np.concatenate([codes, codes], axis=1), groups, states, parts=2)
    for k, (i, j) in enumerate(groups):
        found = np.bincount(8 * codes[i].astype(int) + codes[j], minlength=64)
        assert_array_equal(tables[64 * k : 64 * k + 64], 2 * found)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_weights_are_added_up(kind: type) -> None:
    random = np.random.default_rng(0)
    rows = 2060
    for lost in (0.0, 0.3):
        codes = random_codes(0, STATES, rows, lost)
        weights = (random.integers(0, 9, rows) / (1 if kind is np.int64 else 4)).astype(kind)
        arrays = GroupTables(*mirror.groups_of(GROUPS, STATES))
        if kind is np.int64:
            tables = counted(codes, GROUPS, STATES, weights=weights)
        else:
            tables = np.zeros(int(arrays.table_start[-1]))
            weigh_groups(codes, weights, arrays, tables)
        # Quarters add up without rounding.
        assert_array_equal(tables, mirror.group_tables(codes, weights.tolist(), GROUPS, STATES))


def test_weights_are_added_in_the_order_of_rows() -> None:
    random = np.random.default_rng(1)
    codes, weights = random_codes(1, [3, 2], 5000, 0.1, np.uint8), random.random(5000)
    tables, expected = np.zeros(6), np.zeros(6)
    weigh_groups(codes, weights, GroupTables(*mirror.groups_of([(0, 1)], [3, 2])), tables)
    for one, other, weight in zip(*codes.tolist(), weights.tolist(), strict=True):
        if other < 2:
            expected[2 * one + other] += weight
    assert_array_equal(tables, expected)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        *(("columns", value) for value in (-1, 3, 2**62)),
        *(("states", value) for value in (0, 3, 2**33)),
        *(("group_start", value) for value in (-1, 1, 9)),
        *(("table_start", value) for value in (5, 2**62)),
    ],
)
def test_groups_that_do_not_fit_are_refused(change: str, value: int) -> None:
    arrays = GroupTables(*mirror.groups_of([(0, 1), (1, 2)], [2, 2, 2]))
    codes = np.zeros((3, 40), np.uint8)
    for at in range(len(getattr(arrays, change))):
        changed = getattr(arrays, change).copy()
        if changed[at] == value:
            continue
        changed[at] = value
        with pytest.raises(ValueError, match=r"eigentree\.core"):
            GroupCounter(arrays._replace(**{change: changed})).add(codes)
        with pytest.raises(ValueError, match=r"eigentree\.core"):
            weigh_groups(codes, np.ones(40), arrays._replace(**{change: changed}), np.zeros(8))


def test_codes_beyond_that_of_a_missing_cell_are_refused() -> None:
    arrays = GroupTables(*mirror.groups_of([(0, 1)], [2, 2, 2]))
    for column, row in product(range(3), (0, 1, 39)):
        codes = np.zeros((3, 40), np.uint8)
        codes[column, row] = 3
        if column == 2:
            GroupCounter(arrays).add(codes)
            continue
        with pytest.raises(ValueError, match="missing cell"):
            GroupCounter(arrays).add(codes)
        with pytest.raises(ValueError, match="missing cell"):
            weigh_groups(codes, np.ones(40), arrays, np.zeros(4))


@pytest.mark.parametrize(
    ("planes", "words"), [(1, 1), (3, 5), (70, 2), (130, 1), *((4, n) for n in range(7, 70, 3))]
)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_common_bits(planes: int, words: int, kind: type) -> None:
    """All words are there, those of nothing and those of ones too."""
    random = np.random.default_rng(planes)
    bits = random.random((planes, 64 * words)) < random.random((planes, 1))
    bits[0] = True
    packed = np.packbits(bits, axis=1).view(np.uint64)
    places = np.sort(random.permutation(planes + 3)[:planes])
    matrix = np.full((planes + 3, planes + 3), 7, kind)
    expected = matrix.copy()
    add_common_bits(packed, places, matrix)
    expected[np.ix_(places, places)] += mirror.common_bits(bits).astype(kind)
    assert_array_equal(matrix, expected)


@pytest.mark.parametrize("rows", [0, 1, 40, 2000])
@pytest.mark.parametrize(("kind", "total"), [(np.int64, np.int32), (np.int64, np.int64), (np.float64, np.float64)])
@pytest.mark.parametrize("code", CODES)
def test_pairs_with_a_wide_column(rows: int, kind: type, total: type, code: type) -> None:
    """Few rows are put straight into the tables, many into one that is small; some last states are not counted."""
    random = np.random.default_rng(rows)
    states, wide = np.array([3, 9, 2, 12]), np.array([False, True, False, True])
    kept = states - np.array([0, 1, 1, 0])
    start = np.cumsum(kept) - kept
    codes = np.array([random.integers(0, size + 1, rows) for size in states], code)
    weights = (random.integers(0, 9, rows) / (1 if kind is np.int64 else 4)).astype(kind)
    matrix = np.ones((kept.sum(), kept.sum()), total)
    count_pairs(codes, weights, wide, states, start, kept, matrix)
    assert_array_equal(matrix - 1, mirror.pair_matrix(codes, weights, wide, start, kept))


@pytest.mark.parametrize("whole", list(product([False, True], repeat=3)))
@pytest.mark.parametrize("widths", [(2, 2, 2), (4, 1, 5), (1, 3, 1)])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_sums_of_features(whole: tuple[bool, ...], widths: tuple[int, ...], kind: type) -> None:
    random = np.random.default_rng(0)
    states, tables = (3, 4, 2), 5
    widths = tuple(n if all_states else w for n, w, all_states in zip(states, widths, whole, strict=True))
    cells = math.prod(states)
    dense = random.integers(0, 50, 3 + tables * cells).astype(kind)
    start = 3 + cells * random.permutation(tables)
    matrices = random.normal(size=(tables, 3, 5, 6))
    sums = np.full((tables, math.prod(widths)), np.nan)
    feature_sums(dense, start, np.array(states), np.array(widths), np.array(whole), matrices, sums)
    for table in range(tables):
        counts = dense[start[table] : start[table] + cells].reshape(states)
        used = [np.eye(states[k]) if whole[k] else matrices[table, k, : states[k], : widths[k]] for k in range(3)]
        assert_allclose(sums[table], mirror.feature_sums(counts, used), rtol=1e-12, atol=1e-12)


def test_sums_of_features_have_no_negative_zeros() -> None:
    """LAPACK takes the sign of a zero for a direction."""
    sums = np.empty((1, 2))
    matrices = np.full((1, 1, 3, 2), -1.0)
    feature_sums(
        np.zeros(3, np.int64), np.array([0]), np.array([3]), np.array([2]), np.array([False]), matrices, sums
    )
    assert not np.signbit(sums).any()
