"""Vectors of compiled loops: what they compile to does what their plain forms do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from eigentree.core.vectors import (
    FOUR,
    add_product,
    lanes,
    largest,
    load,
    load_four,
    load_from,
    no_four,
    nothing,
    product,
    repeated,
    smallest,
    spread,
    store,
    store_at,
    sum_of,
    totals_of,
    transposed,
)


def loaded(lines: np.ndarray, out: np.ndarray) -> None:
    store(out, 1, 2, load(lines, 2, 3))
    store(out, 2, 0, load_from(lines[1], 5))
    store(out, 0, lanes(lines), load_four(lines, 0, 1))


def spread_out(lines: np.ndarray, out: np.ndarray) -> None:
    store(out, 0, 1, spread(lines[2], 4))
    store(out, 2, 1, nothing(lines))
    store(out, 1, 1, no_four(lines))


def combined(lines: np.ndarray, out: np.ndarray) -> None:
    first, second, third = load(lines, 0, 0), load(lines, 1, 1), load(lines, 2, 2)
    store(out, 0, 0, product(first, second))
    store(out, 1, 1, sum_of(first, second))
    store(out, 2, 2, add_product(first, second, third))


def turned(lines: np.ndarray, out: np.ndarray) -> None:
    a, b, c, d = transposed(
        load_four(lines, 0, 0), load_four(lines, 1, 0), load_four(lines, 2, 0), load_four(lines, 0, 4)
    )
    store(out, 0, 0, a)
    store(out, 0, 4, b)
    store(out, 1, 0, c)
    store(out, 2, 4, d)


def added_up(lines: np.ndarray, out: np.ndarray) -> None:
    store(out, 1, 1, totals_of(load(lines, 0, 0), load(lines, 1, 1), load(lines, 2, 2), load(lines, 0, 3)))


def widened(lines: np.ndarray, out: np.ndarray) -> None:
    store(out, 2, 1, sum_of(load_four(out, 0, 0), load_four(lines, 1, 1)))


def repeated_and_stored(lines: np.ndarray, out: np.ndarray) -> None:
    store_at(out[1], 3, load(lines, 0, 2))
    store_at(out[2], 0, repeated(lines[1, 1] * 3.0))


def smallest_of(lines: np.ndarray, out: np.ndarray) -> None:
    for line in range(3):
        for start in range(4):
            out[line, start] = smallest(load(lines, line, start), load(lines, 2 - line, start + 1))


def largest_of(lines: np.ndarray, out: np.ndarray) -> None:
    for line in range(3):
        for start in range(5):
            out[line, start] = largest(load(lines, line, start))


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        *(
            (function, kind)
            for function in (loaded, spread_out, combined, turned, added_up, widened)
            for kind in (np.float64, np.float32)
        ),
        (repeated_and_stored, np.float64),
        (largest_of, np.float64),
        (smallest_of, np.float64),
    ],
)
def test_compiled_vectors_are_their_plain_forms(function: Callable[..., None], kind: type) -> None:
    # Small integers, so that nothing is rounded.
    lines = np.random.default_rng(0).integers(-99, 99, (3, 17)).astype(kind)
    # What is added up is double; all else is as precise as what it is made of.
    precise = function in (added_up, widened)
    plain, compiled = (np.full(lines.shape, 0.5, np.float64 if precise else kind) for _ in range(2))
    function(lines, plain)
    njit(function)(lines, compiled)
    assert_array_equal(compiled, plain)
    assert (plain != 0.5).sum() >= FOUR


def test_sums_are_double_where_what_is_added_is_not() -> None:
    tiny = np.full((3, 17), 2.0**-40, np.float32)
    out = np.ones((3, 17))
    njit(widened)(tiny, out)
    assert_array_equal(out[2, 1:5], 1.0 + 2.0**-40)


def test_a_register_holds_twice_as_many_numbers_of_half_the_size() -> None:
    assert lanes(np.zeros(3)) == FOUR
    assert lanes(np.zeros(3, np.float32)) == 2 * FOUR
    assert njit(lambda lines: lanes(lines))(np.zeros(3, np.float32)) == 2 * FOUR


def test_four_vectors_turned_are_the_transpose() -> None:
    square = np.arange(float(FOUR * FOUR)).reshape(FOUR, FOUR)
    assert_array_equal(np.stack(transposed(*square)), square.T)
    assert_array_equal(totals_of(*square), square.sum(axis=1))
    assert_array_equal(add_product(square[0], square[1], square[2]), square[0] + square[1] * square[2])
