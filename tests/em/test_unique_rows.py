"""Rows that differ: each once, with the weight of all that are equal; missing cells are cells like others."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from eigentree.em.estep.unique_rows import DistinctRows


@settings(max_examples=60, deadline=None)
@given(
    states=st.lists(st.integers(1, 4), min_size=1, max_size=5), count=st.integers(1, 80), seed=st.integers(0, 999)
)
def test_each_row_comes_once_with_the_weight_of_all_its_copies(states: list[int], count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, np.array(states) + 1, (count, len(states))).astype(np.uint8)
    weights = random.integers(0, 3, count) * 0.5
    found = DistinctRows.of(np.asfortranarray(codes), states, weights)
    expected: dict[tuple[int, ...], float] = {}
    for row, weight in zip(codes.tolist(), weights.tolist(), strict=True):
        if weight:
            expected[tuple(row)] = expected.get(tuple(row), 0.0) + weight
    rows = [tuple(row) for row in found.codes.tolist()]
    assert len(set(rows)) == len(rows)
    assert set(rows) == set(expected)
    assert_allclose(found.weights, [expected[row] for row in rows])
    np.testing.assert_array_equal(codes[found.first], found.codes)
    assert (weights[found.first] > 0).all()
