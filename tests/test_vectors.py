"""Vectors of compiled loops: what they compile to does what their plain forms do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from eigentree.kernels.vectors import (
    LANES,
    add_product,
    largest,
    load,
    load_from,
    nothing,
    product,
    repeated,
    spread,
    store,
    store_at,
    sum_of,
    transposed,
)


def loaded(lines: np.ndarray, out: np.ndarray) -> None:
    store(out, 1, 2, load(lines, 2, 3))
    store(out, 2, 0, load_from(lines[1], 5))


def spread_out(lines: np.ndarray, out: np.ndarray) -> None:
    store(out, 0, 1, spread(lines[2], 4))
    store(out, 2, 1, nothing())


def combined(lines: np.ndarray, out: np.ndarray) -> None:
    first, second, third = load(lines, 0, 0), load(lines, 1, 1), load(lines, 2, 2)
    store(out, 0, 0, product(first, second))
    store(out, 1, 1, sum_of(first, second))
    store(out, 2, 2, add_product(first, second, third))


def turned(lines: np.ndarray, out: np.ndarray) -> None:
    a, b, c, d = transposed(load(lines, 0, 0), load(lines, 1, 0), load(lines, 2, 0), load(lines, 0, 4))
    store(out, 0, 0, a)
    store(out, 0, 4, b)
    store(out, 1, 0, c)
    store(out, 2, 4, d)


def repeated_and_stored(lines: np.ndarray, out: np.ndarray) -> None:
    store_at(out[1], 3, load(lines, 0, 2))
    store_at(out[2], 0, repeated(lines[1, 1] * 3.0))


def largest_of(lines: np.ndarray, out: np.ndarray) -> None:
    for line in range(3):
        for start in range(5):
            out[line, start] = largest(load(lines, line, start))


@pytest.mark.parametrize("function", [loaded, spread_out, combined, turned, repeated_and_stored, largest_of])
def test_compiled_vectors_are_their_plain_forms(function: Callable[..., None]) -> None:
    # Small integers, so that nothing is rounded.
    lines = np.random.default_rng(0).integers(-99, 99, (3, 2 * LANES + 1)).astype(float)
    plain, compiled = np.full(lines.shape, 0.5), np.full(lines.shape, 0.5)
    function(lines, plain)
    njit(function)(lines, compiled)
    assert_array_equal(compiled, plain)
    assert (plain != 0.5).sum() >= LANES


def test_four_vectors_turned_are_the_transpose() -> None:
    square = np.arange(float(LANES * LANES)).reshape(LANES, LANES)
    assert_array_equal(np.stack(transposed(*square)), square.T)
    assert_array_equal(add_product(square[0], square[1], square[2]), square[0] + square[1] * square[2])
