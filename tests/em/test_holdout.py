"""The split into training and validation data: whole copies of rows, in their share, and folds of all."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.holdout import folds_of, held_out, held_out_folds

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


@settings(max_examples=40, deadline=None)
@given(count=st.integers(20, 4_000), share=st.sampled_from([0.0, 0.2]), seed=st.integers(0, 99))
def test_each_row_is_for_training_or_for_validation(count: int, share: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = np.arange(20, dtype=np.uint8)[:, None]
    rows = DistinctRows(codes, random.multinomial(count, np.full(20, 0.05)).astype(float), np.arange(20))
    folds = folds_of(rows, share, random)
    assert len(folds) == (1 if share or count > 2_000 else 5)
    for fold in folds:
        both = np.zeros(20)
        both[fold.rows.first] += fold.rows.weights
        both[fold.validation.first] += fold.validation.weights
        assert_allclose(both, rows.weights)
