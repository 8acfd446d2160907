"""Cells to codes and hashes of rows, against plain references."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.mirrors import encoding as mirror
from numpy.testing import assert_array_equal

from eigentree.core.counting.encoding import encode_column, encode_rows, hash_rows

if TYPE_CHECKING:
    pass

WHOLE = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
CODES = [np.uint8, np.uint16, np.uint32]


pytestmark = pytest.mark.usefixtures("instructions")


@pytest.mark.parametrize("kind", [*WHOLE, np.float16, np.float32, np.float64, ">i4", ">f8"])
@pytest.mark.parametrize("code", CODES)
def test_cells_become_codes(kind: type, code: type) -> None:
    random = np.random.default_rng(0)
    for rows in range(70):
        cells = random.integers(0, 100, rows)
        if np.dtype(kind).kind != "u":
            cells[random.random(rows) < 0.2] = -1
        cells = cells.astype(kind)
        if np.dtype(kind).kind == "f":
            cells[random.random(rows) < 0.1] = math.nan
        codes = np.full(rows, 200, code)
        expected = mirror.encode_column(cells, 100)
        assert (encode_column(cells, 100, codes), codes.tolist()) == expected


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_cells_of_a_column_may_lie_apart(step: int) -> None:
    cells = np.arange(40).reshape(10, 4)[::step, 1]
    codes = np.zeros(len(cells), np.uint8)
    assert encode_column(cells, 50, codes) == -1
    assert_array_equal(codes, cells)


def test_cells_may_be_a_field_of_records() -> None:
    records = np.zeros(5, [("one", np.int8), ("other", np.int32)])
    records["other"] = [3, -1, 2, 0, 1]
    codes = np.zeros(5, np.uint8)
    assert encode_column(records["other"], 4, codes) == -1
    assert codes.tolist() == [3, 4, 2, 0, 1]


@pytest.mark.parametrize("bad", [5, 1.5, 4.5, -2, -0.5, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_first_cell_that_is_no_code_is_named(bad: float, kind: type) -> None:
    with np.errstate(over="ignore"):
        cells = np.array([0.0, 4.0, bad, bad], kind)
    assert encode_column(cells, 5, np.empty(4, np.uint8)) == 2


@pytest.mark.parametrize("kind", WHOLE)
def test_the_first_whole_number_that_is_no_code_is_named(kind: type) -> None:
    smallest, largest = np.iinfo(kind).min, np.iinfo(kind).max
    for bad in [5, largest, *([-2, smallest] if smallest else [])]:
        cells = np.array([0, 4, bad, bad], kind)
        assert encode_column(cells, 5, np.empty(4, np.uint8)) == 2
        codes, wrong = np.empty((2, 4), np.uint8), np.zeros(2, np.bool_)
        encode_rows(np.stack([cells, np.zeros(4, kind)], axis=1), 0, np.array([5, 5]), codes, wrong)
        assert wrong.tolist() == [True, False]


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("code", CODES)
def test_rows_become_codes_column_by_column(kind: type, code: type) -> None:
    """As each column does by itself, and the columns that hold no code are named."""
    states = np.array([3, 5, 120, 7, 100, 250, *range(2, 15)])
    for rows in (1, 2, 31, 63, 64, 65, 150):
        random = np.random.default_rng(rows)
        cells = np.column_stack([random.integers(0, min(size, 127), rows + 9) for size in states])
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
            bad, expected = mirror.encode_column(cells[5 : 5 + rows, j], size)
            assert wrong[j] == (bad >= 0)
            if bad < 0:
                assert_array_equal(codes[j], expected)
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


@pytest.mark.parametrize("kind", CODES)
def test_hashes_of_rows(kind: type) -> None:
    for rows in range(40):
        codes = np.random.default_rng(rows).integers(0, np.iinfo(kind).max, (6, rows)).astype(kind)
        hashes = np.zeros(rows, np.uint64)
        hash_rows(codes, hashes)
        assert hashes.tolist() == [mirror.hash_row(row) for row in codes.T.tolist()]


@pytest.mark.parametrize("states", [0, -1, 256, 2**40])
def test_states_that_codes_cannot_hold_are_refused(states: int) -> None:
    with pytest.raises(ValueError, match="states"):
        encode_column(np.zeros(3), states, np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="states"):
        encode_rows(np.zeros((3, 1), int), 0, np.array([states]), np.zeros((1, 3), np.uint8), np.zeros(1, bool))


@pytest.mark.parametrize("start", [-1, 1, 2**62])
def test_rows_that_are_not_there_are_refused(start: int) -> None:
    with pytest.raises(ValueError, match="rows"):
        encode_rows(np.zeros((3, 1), int), start, np.array([2]), np.zeros((1, 3), np.uint8), np.zeros(1, bool))
