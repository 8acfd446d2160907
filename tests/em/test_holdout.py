"""The split into training and validation data: whole copies of rows, in their share, and folds of all."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from eigentree.em.holdout import held_out, held_out_folds

WEIGHTS = st.lists(st.integers(0, 40), min_size=1, max_size=60).map(lambda counts: np.array(counts, float))


@settings(max_examples=60, deadline=None)
@given(weights=WEIGHTS, share=st.floats(0.05, 0.95), seed=st.integers(0, 99))
def test_a_share_of_the_copies_of_each_row_is_held_out(weights: np.ndarray, share: float, seed: int) -> None:
    held = held_out(weights, share, np.random.default_rng(seed))
    assert (held == np.rint(held)).all()
    assert (np.abs(held - share * weights) < 1 + 1e-9).all()
    assert abs(held.sum() - share * weights.sum()) < 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(weights=WEIGHTS, parts=st.lists(st.floats(0.0, 1.0), min_size=60, max_size=60), seed=st.integers(0, 99))
def test_a_fraction_of_a_copy_is_held_out_whole_or_not_at_all(
    weights: np.ndarray, parts: list[float], seed: int
) -> None:
    weights = weights + np.array(parts[: len(weights)])
    held = held_out(weights, 0.3, np.random.default_rng(seed))
    assert (held >= 0).all()
    assert (held <= weights).all()
    fraction = weights - np.floor(weights)
    copies = [np.isclose(each, np.rint(each), atol=1e-9) for each in (held, held - fraction)]
    assert (copies[0] | copies[1]).all()


@settings(max_examples=60, deadline=None)
@given(weights=WEIGHTS, folds=st.integers(2, 6), seed=st.integers(0, 99))
def test_folds_hold_out_everything_once(weights: np.ndarray, folds: int, seed: int) -> None:
    parts = held_out_folds(weights, folds, np.random.default_rng(seed))
    assert len(parts) == folds
    assert all((part >= 0).all() for part in parts)
    assert_allclose(np.sum(parts, axis=0), weights)
    assert all(abs(part.sum() - weights.sum() / folds) < folds for part in parts)
