"""Multinomial logistic regression: gradient, information, agreement with scikit-learn, and hard designs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.testing import assert_allclose

from eigentree.emissions.covariates.multinomial_logit import (
    information,
    log_probabilities,
    multinomial_logit,
    score,
)

if TYPE_CHECKING:
    from eigentree.arrays import Floats


def drawn(seed: int, rows: int = 200, covariates: int = 3, classes: int = 4) -> tuple[Floats, Floats, Floats]:
    """A design with an intercept, counts that are not whole, and some coefficients."""
    random = np.random.default_rng(seed)
    design = np.column_stack([np.ones(rows), random.normal(size=(rows, covariates - 1))])
    coefficients = np.column_stack([np.zeros(covariates), random.normal(size=(covariates, classes - 1))])
    counts = random.gamma(1.0, size=(rows, 1)) * np.exp(log_probabilities(design, coefficients))
    return design, counts + random.gamma(0.5, size=counts.shape), coefficients


def value(design: Floats, counts: Floats, coefficients: Floats) -> float:
    return float((counts * log_probabilities(design, coefficients)).sum())


def test_probabilities_are_normalised_however_large_the_logits() -> None:
    design, _, coefficients = drawn(0)
    assert_allclose(np.exp(log_probabilities(design, 1e4 * coefficients)).sum(axis=1), 1.0)


def test_score_and_information_are_numerical_differences() -> None:
    design, counts, coefficients = drawn(1)
    step = 1e-5
    places = [(row, column) for column in range(1, 4) for row in range(3)]
    gradient = score(design, counts, coefficients)
    matrix = information(design, counts.sum(axis=1), coefficients)
    for number, place in enumerate(places):
        up, down = coefficients.copy(), coefficients.copy()
        up[place] += step
        down[place] -= step
        difference = (value(design, counts, up) - value(design, counts, down)) / (2 * step)
        assert gradient[place] == pytest.approx(difference, rel=1e-6, abs=1e-6)
        hessian = (score(design, counts, up) - score(design, counts, down)) / (2 * step)
        assert_allclose(matrix[number], -hessian[:, 1:].T.ravel(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_zero_at_the_maximum(seed: int) -> None:
    design, counts, start = drawn(seed)
    found = multinomial_logit(design, counts)
    assert np.abs(score(design, counts, found)).max() < 1e-8
    assert not found[:, 0].any()
    assert_allclose(multinomial_logit(design, counts, start), found, atol=1e-8)


def test_it_agrees_with_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    design, _, coefficients = drawn(2, rows=500)
    random = np.random.default_rng(3)
    labels = np.array([random.choice(4, p=own) for own in np.exp(log_probabilities(design, coefficients))])
    found = multinomial_logit(design, np.eye(4)[labels])
    other = linear_model.LogisticRegression(C=1e10, tol=1e-10, max_iter=10_000).fit(design[:, 1:], labels)
    slopes = other.coef_ - other.coef_[0]
    assert_allclose(found[1:].T, slopes, atol=1e-3)
    assert_allclose(found[0], other.intercept_ - other.intercept_[0], atol=1e-3)


def test_units_and_origins_of_covariates_change_only_the_coefficients() -> None:
    design, counts, _ = drawn(4)
    other = design.copy()
    other[:, 1] = 2000.0 + 1e-3 * other[:, 1]
    other[:, 2] *= 1e8
    found = [log_probabilities(own, multinomial_logit(own, counts)) for own in (design, other)]
    assert_allclose(*found, atol=1e-8)


def test_covariates_that_depend_on_each_other_are_allowed() -> None:
    design, counts, start = drawn(5)
    twice = np.column_stack([design, design[:, 1] - 2 * design[:, 0]])
    wide = np.vstack([start, np.zeros(4)])
    for began in (None, wide):
        own = multinomial_logit(twice, counts, began)
        assert_allclose(
            log_probabilities(twice, own), log_probabilities(design, multinomial_logit(design, counts)), atol=1e-8
        )


def test_separated_classes_come_to_an_end() -> None:
    design = np.column_stack([np.ones(20), np.arange(20.0)])
    counts = np.eye(2)[(np.arange(20) >= 10).astype(int)]
    found = multinomial_logit(design, counts)
    assert np.isfinite(found).all()
    assert value(design, counts, found) > -1e-8


def test_with_an_intercept_alone_shares_are_those_of_a_table() -> None:
    counts = np.array([[3.0, 2.0, 1.0], [2.0, 0.0, 6.0]])
    found = multinomial_logit(np.ones((2, 1)), counts)
    table = counts.sum(axis=0) / counts.sum()
    assert_allclose(np.exp(log_probabilities(np.ones((1, 1)), found))[0], table, atol=1e-12)


def test_one_class_and_no_rows_have_coefficients_of_zero() -> None:
    assert multinomial_logit(np.ones((3, 2)), np.ones((3, 1))).tolist() == [[0.0], [0.0]]
    assert not multinomial_logit(np.ones((0, 2)), np.ones((0, 3))).any()
