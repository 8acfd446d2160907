"""Gaussian families against scikit-learn's mixtures and scipy's multivariate normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.mixture import GaussianMixture

from eigentree.emissions.base import Emission
from eigentree.emissions.families import make
from eigentree.emissions.full import FullGaussian
from eigentree.emissions.normal_scores import NormalScores

SKLEARN = {"full": "full", "tied": "tied", "diagonal": "diag", "gaussian": "diag"}


def mixed_rows(rows: int = 400, width: int = 4, states: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    means = 3.0 * random.normal(size=(states, width))
    cells = means[random.integers(states, size=rows)] + random.normal(size=(rows, width)) @ random.normal(
        size=(width, width)
    )
    return 100.0 + 10.0 * cells, random.dirichlet(np.full(states, 0.3), size=rows)


def em(
    emission: Emission, cells: np.ndarray, classes: np.ndarray, steps: int
) -> tuple[Emission, np.ndarray, float]:
    """Emission and class probabilities after EM steps, and the mean log-likelihood before the last."""
    features, mean = emission.features(cells), 0.0
    for _ in range(steps):
        lines = emission.lines(features) + np.log(classes)
        each = logsumexp(lines, axis=1)
        posteriors, mean = np.exp(lines - each[:, None]), float(each.mean())
        emission, classes = emission.maximised(emission.statistics(features, posteriors)), posteriors.mean(axis=0)
    return emission, classes, mean


@pytest.mark.parametrize("family", SKLEARN)
@pytest.mark.parametrize("steps", [1, 30])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_em_is_that_of_scikit_learn(family: str, steps: int) -> None:
    cells, posteriors = mixed_rows(width=1 if family == "gaussian" else 4)
    start = make({"family": family, "prior_rows": 0.0}, cells, np.ones(len(cells)), 3).fitted(cells, posteriors)
    classes = posteriors.mean(axis=0)
    covariance = getattr(start, "covariance", None)
    if family == "tied":
        precision = np.linalg.inv(start.covariance[0])  # type: ignore[attr-defined]
    elif covariance is not None:
        precision = np.linalg.inv(covariance)
    else:
        precision = 1.0 / np.reshape(start.parameters["variance"], (3, -1))
    means = np.reshape(start.parameters["mean"], (3, -1))
    theirs = GaussianMixture(
        3, covariance_type=SKLEARN[family], reg_covar=0.0, max_iter=steps, tol=0.0, weights_init=classes,
        means_init=means, precisions_init=precision,
    )  # fmt: skip
    theirs.fit(cells)
    ours, classes, mean = em(start, cells, classes, steps)
    assert np.reshape(ours.parameters["mean"], (3, -1)) == pytest.approx(theirs.means_, rel=1e-8)
    assert classes == pytest.approx(theirs.weights_, rel=1e-8)
    own = ours.parameters["covariance" if covariance is not None else "variance"]
    own = own[0] if family == "tied" else np.reshape(own, theirs.covariances_.shape)
    assert own == pytest.approx(theirs.covariances_, rel=1e-8, abs=1e-8 * own.max())
    assert mean == pytest.approx(theirs.lower_bound_, rel=1e-8)
    assert logsumexp(ours.log_prob(cells) + np.log(classes), axis=1) == pytest.approx(
        theirs.score_samples(cells), rel=1e-8
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_are_counted_as_scikit_learn_does() -> None:
    cells, _ = mixed_rows()
    for family, kind in SKLEARN.items():
        own = cells[:, :1] if family == "gaussian" else cells
        emission = make(family, own, np.ones(len(own)), 3)
        theirs = GaussianMixture(3, covariance_type=kind, max_iter=1).fit(np.vstack([own, own]))
        assert emission.n_parameters + 2 == theirs._n_parameters()


def full(width: int = 4) -> tuple[FullGaussian, np.ndarray]:
    cells, posteriors = mixed_rows(width=width)
    emission = FullGaussian.started(cells, np.ones(len(cells)), 3).fitted(cells, posteriors)
    masked = cells.copy()
    masked[np.random.default_rng(1).random(cells.shape) < 0.4] = np.nan
    return emission, masked


def test_missing_cells_are_marginalised_out() -> None:
    emission, cells = full()
    found = emission.log_prob(cells)
    for row, line in zip(cells[:60], found, strict=False):
        known = ~np.isnan(row)
        for state in range(3):
            expected = 0.0
            if known.any():
                covariance = emission.covariance[state][np.ix_(known, known)]
                expected = multivariate_normal(emission.mean[state][known], covariance).logpdf(row[known])
            assert line[state] == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_conditional_distributions_are_quotients_of_densities() -> None:
    """Of one missing cell: p(x | known) = p(x, known) / p(known)."""
    emission, cells = full()
    rows = cells[np.isnan(cells).sum(axis=1) == 1][:20]
    column = np.argmax(np.isnan(rows), axis=1)
    mean, variance = emission.moments(rows)
    values = rows.copy()
    values[np.arange(len(rows)), column] = 103.0
    quotient = emission.log_prob(values) - emission.log_prob(rows)
    for row, place in enumerate(column):
        expected = norm(mean[row, :, place], np.sqrt(variance[row, :, place]))
        assert quotient[row] == pytest.approx(expected.logpdf(103.0), rel=1e-9)
        assert emission.cdf(values, rows)[row, :, place] == pytest.approx(expected.cdf(103.0), rel=1e-9)


def test_samples_given_known_cells_have_their_moments() -> None:
    emission, cells = full()
    row = cells[np.isnan(cells).sum(axis=1) == 2][:1]
    missing = np.isnan(row[0])
    drawn = emission.sampled(np.repeat(row, 40_000, axis=0), np.full(40_000, 1), np.random.default_rng(0))
    mean, variance = (each[0, 1] for each in emission.moments(row))
    assert drawn[:, ~missing] == pytest.approx(np.repeat(row[:, ~missing], 40_000, axis=0))
    error = np.sqrt(variance[missing] / 40_000)
    assert np.abs(drawn[:, missing].mean(axis=0) - mean[missing]).max() < 4 * error.max()
    assert drawn[:, missing].var(axis=0) == pytest.approx(variance[missing], rel=0.05)
    precision = np.linalg.inv(np.linalg.inv(emission.covariance[1])[np.ix_(missing, missing)])
    assert np.cov(drawn[:, missing].T) == pytest.approx(precision, abs=0.05 * precision.max())


def test_maximum_likelihood_with_missing_cells_has_no_slope() -> None:
    """EM of one state ends where the log-likelihood of known cells, as scipy has it, is flat."""
    _, cells = full(width=2)
    emission = FullGaussian.started(cells, np.ones(len(cells)), 1, prior_rows=0.0)
    for _ in range(300):
        emission = emission.fitted(cells, np.ones((len(cells), 1)))
    best = float(emission.log_prob(cells).sum())
    for place in range(len(emission.vector)):
        slopes = []
        for step in (-1e-4, 1e-4):
            vector = emission.vector.copy()
            vector[place] += step * abs(vector[place])
            if place in (3, 4):
                vector[[3, 4]] = vector[place]
            slopes.append(float(emission.of_vector(vector).log_prob(cells).sum()) - best)
        assert max(slopes) < 0
        assert slopes[0] == pytest.approx(slopes[1], rel=0.01)


@pytest.mark.parametrize("family", ["full", "tied", "diagonal", "gaussian"])
def test_units_of_columns_change_nothing(family: str) -> None:
    cells, posteriors = mixed_rows(width=1 if family == "gaussian" else 3)
    unit = np.array([1e-6, 1.0, 1e7])[: cells.shape[1]]
    weights = np.ones(len(cells))
    one = make(family, cells, weights, 3).fitted(cells, posteriors)
    other = make(family, cells * unit, weights, 3).fitted(cells * unit, posteriors)
    assert other.log_prob(cells * unit) + np.log(unit).sum() == pytest.approx(one.log_prob(cells), rel=1e-7)


@pytest.mark.parametrize("family", ["full", "tied", "diagonal", "normal_scores"])
@pytest.mark.parametrize("prior_rows", [0.0, 1.0])
def test_collinear_columns_and_collapsing_states(family: str, prior_rows: float) -> None:
    """A copied column, and a state of one row: covariances stay definite."""
    random = np.random.default_rng(0)
    cells = random.normal(size=(60, 2))[:, [0, 1, 0]] * [1.0, 1.0, 5.0]
    posteriors = np.zeros((60, 3))
    posteriors[0, 0], posteriors[1:, 1] = 1.0, 1.0
    emission = make({"family": family, "prior_rows": prior_rows}, cells, np.ones(60), 3)
    for _ in range(3):
        emission = emission.fitted(cells, posteriors)
        assert np.isfinite(emission.log_prob(cells)).all()
        assert np.isfinite(emission.log_prior())


def test_the_prior_is_rows_of_its_covariance() -> None:
    """Rows around a state's mean whose sum of squares is the prior's change a covariance as the prior does."""
    cells, posteriors = mixed_rows(width=2)
    emission = FullGaussian.started(cells, np.ones(len(cells)), 3, prior_rows=7.0, prior_shape="pooled")
    assert emission.prior_covariance == pytest.approx(np.cov(cells.T, bias=True) / 3.0, rel=1e-9)
    bare = FullGaussian.started(cells, np.ones(len(cells)), 3, prior_rows=0.0).fitted(cells, posteriors)
    weight = posteriors.sum(axis=0)[:, None, None]
    expected = (weight * bare.covariance + 7.0 * emission.prior_covariance) / (weight + 7.0)
    assert emission.fitted(cells, posteriors).covariance == pytest.approx(expected, rel=1e-9)


def test_normal_scores_of_normal_rows_are_about_a_full_gaussian() -> None:
    random = np.random.default_rng(0)
    cells = random.normal(size=(20_000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    weights, counts = np.ones(len(cells)), np.ones((len(cells), 1))
    scores = NormalScores.started(cells, weights, 1).fitted(cells, counts)
    gaussian = FullGaussian.started(cells, weights, 1).fitted(cells, counts)
    fresh = random.normal(size=(20_000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    assert scores.log_prob(fresh).mean() == pytest.approx(gaussian.log_prob(fresh).mean(), abs=0.01)
    fresh[:, 1] = np.nan
    near = np.abs(fresh[:, 0]) < 2
    assert np.sqrt(np.mean((scores.moments(fresh)[0] - gaussian.moments(fresh)[0])[near] ** 2)) < 0.05


def test_normal_scores_follow_skewed_rows() -> None:
    """Correlated log-normal columns: ahead of a full Gaussian by far, near the truth."""
    random = np.random.default_rng(0)
    logs = random.normal(size=(8000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    cells = np.exp(logs)
    half, weights = slice(0, 4000), np.ones(4000)
    truth = multivariate_normal([0, 0], np.array([[1.0, 0.8], [0.8, 1.0]])).logpdf(logs[4000:]) - logs[4000:].sum(
        axis=1
    )
    counts = np.ones((4000, 1))
    scores = NormalScores.started(cells[half], weights, 1).fitted(cells[half], counts).log_prob(cells[4000:]).mean()
    gaussian = (
        FullGaussian.started(cells[half], weights, 1).fitted(cells[half], counts).log_prob(cells[4000:]).mean()
    )
    assert scores > gaussian + 0.5
    assert scores > truth.mean() - 0.05
