"""Laws of all families: densities are normalised, EM never falls, statistics add up."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from em_problems import numerical_slope
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import kstest

from eigentree.emissions.base import Emission, StackedEmission, stacked
from eigentree.emissions.families import FAMILIES, make
from eigentree.errors import DataError, ParameterError

POSITIVE = ("lognormal", "gamma")
COUNTS = ("poisson", "negative_binomial", "ordinal")
GROUPS = tuple(name for name, family in FAMILIES.items() if family.groups)
SMOOTH = ("semiparametric", "normal_scores")
"""Families over an estimated marginal density."""

STATES = 3
every_family = pytest.mark.parametrize("family", FAMILIES)


def example(family: str, rows: int = 240, width: int | None = None, missing: float = 0.2, seed: int = 0) -> Any:
    """Cells of a family, some missing, fractional weights, and posteriors of states that differ."""
    random = np.random.default_rng(seed)
    width = width or (3 if family in GROUPS else 1)
    state = random.integers(STATES, size=rows)
    cells = random.normal(size=(rows, width)) + 2.0 * state[:, None] + random.normal(size=(rows, 1))
    if family in POSITIVE:
        cells = np.exp(cells / 3.0)
    elif family == "ordinal":
        cells = np.clip(np.floor(cells), 0, 4)
    elif family in COUNTS:
        cells = random.poisson(np.exp(cells / 3.0)).astype(float)
    cells[random.random(cells.shape) < missing] = np.nan
    posteriors = random.gamma(0.3 + 2.0 * np.eye(STATES)[state])
    return cells, random.gamma(2.0, size=rows), posteriors / posteriors.sum(axis=1, keepdims=True)


def learned(family: str, **settings: Any) -> Emission:
    """An emission whose states differ."""
    cells, weights, posteriors = example(family)
    emission = make({"family": family, **settings}, cells, weights, STATES)
    for _ in range(3):
        emission = emission.fitted(cells, posteriors * weights[:, None])
    return emission


def em(emission: Emission, cells: np.ndarray, weights: np.ndarray, steps: int) -> tuple[Emission, list[float]]:
    """EM of a mixture with even classes, and the objective before each step."""
    features, heights = emission.features(cells), []
    for _ in range(steps):
        lines = emission.lines(features) - np.log(STATES)
        each = logsumexp(lines, axis=1)
        heights.append(float(weights @ each) + emission.log_prior())
        posteriors = np.exp(lines - each[:, None]) * weights[:, None]
        emission = emission.maximised(emission.statistics(features, posteriors))
    return emission, heights


def single(emission: Emission, values: np.ndarray) -> np.ndarray:
    """The log densities of values of the last column alone, in each state."""
    cells = np.full((len(values), emission.width), np.nan)
    cells[:, -1] = values
    return emission.log_prob(cells)


def integrals(emission: Emission, of: Any, upto: float = np.inf) -> np.ndarray:
    """The integral, or sum, of a function over the last column in each state."""
    if emission.family in COUNTS:
        most = emission.prior_shares.size if emission.family == "ordinal" else 4000  # type: ignore[attr-defined]
        values = np.arange(min(most, np.floor(upto) + 1))
        return of(values) @ np.exp(single(emission, values))
    mean, variance = (each[0, :, -1] for each in emission.moments(np.full((1, emission.width), np.nan)))
    made = []
    for state, (middle, sd) in enumerate(zip(mean, np.sqrt(variance), strict=True)):

        def density(value: float, state: int = state) -> float:
            return float(of(value) * np.exp(single(emission, np.array([value]))[0, state]))

        least = 0.0 if emission.family in POSITIVE else -np.inf
        ends = [
            least,
            *(max(least, middle + step * sd) for step in (-40, -6, -2, -1, -0.5, 0, 0.5, 1, 2, 6, 40)),
            np.inf,
        ]
        ends = sorted({min(each, upto) for each in ends})
        tolerance = 1e-6 if emission.family in SMOOTH else 1e-11
        parts = [quad(density, *pair, epsabs=tolerance, epsrel=tolerance, limit=100)[0] for pair in pairwise(ends)]
        made.append(sum(parts))
    return np.array(made)


def tolerance_of(family: str) -> float:
    return 1e-3 if family in SMOOTH else 1e-8


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@every_family
def test_densities_are_normalised(family: str) -> None:
    emission = learned(family)
    assert integrals(emission, lambda value: value * 0.0 + 1.0) == pytest.approx(
        np.ones(STATES), abs=tolerance_of(family)
    )


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@every_family
def test_moments_and_cdf_are_those_of_the_density(family: str) -> None:
    emission = learned(family)
    missing = np.full((1, emission.width), np.nan)
    mean, variance = (each[0, :, -1] for each in emission.moments(missing))
    near = 5 * tolerance_of(family)
    assert integrals(emission, lambda value: value) == pytest.approx(mean, rel=near, abs=near)
    second = integrals(emission, lambda value: (value - mean[0]) ** 2)
    assert second == pytest.approx(variance + (mean - mean[0]) ** 2, rel=near, abs=near)
    for value in (mean.mean(), mean.mean() + 1.5):
        below = emission.cdf(np.full(missing.shape, value), missing)[0, :, -1]
        assert below == pytest.approx(integrals(emission, lambda x: x * 0.0 + 1.0, upto=value), abs=near)


@every_family
@pytest.mark.parametrize("prior_rows", [0.0, 1.0, 20.0])
def test_em_never_falls(family: str, prior_rows: float) -> None:
    cells, weights, posteriors = example(family)
    emission = make({"family": family, "prior_rows": prior_rows}, cells, weights, STATES)
    emission = emission.fitted(cells, posteriors * weights[:, None])
    _, heights = em(emission, cells, weights, 40)
    assert np.diff(heights).min() > -1e-9 * abs(heights[-1])
    assert heights[-1] > heights[0] + 0.01


@every_family
def test_the_m_step_raises_expected_log_likelihood(family: str) -> None:
    """Of rows whose cells are all known, what `maximised` returns is above all that is near."""
    cells, weights, posteriors = example(family, missing=0.0)
    counts = posteriors * weights[:, None]
    emission = make(family, cells, weights, STATES).fitted(cells, counts)
    for _ in range({"student": 100, "semiparametric": 300}.get(family, 10)):
        before, emission = emission, emission.fitted(cells, counts)
    features = emission.features(cells)

    def height(of: Emission) -> float:
        return float((of.lines(features) * counts).sum()) + of.log_prior()

    assert height(emission) >= height(before) - 1e-9 * abs(height(before))
    random = np.random.default_rng(1)
    for name in emission.parameters:
        if (family, name) in (("ordinal", "thresholds"), ("tied", "covariance")):
            continue  # These are the same in all states.
        for _ in range(5):
            near = {each: np.array(array) for each, array in emission.parameters.items()}
            change = 1e-3 * random.normal(size=near[name].shape)
            if name == "covariance":
                change = change + change.transpose(0, 2, 1)
            near[name] *= 1.0 + change
            if family == "semiparametric":
                near[name] /= near[name].sum(axis=1, keepdims=True)
            moved = emission.of_vector(np.concatenate([np.ravel(each) for each in near.values()]))
            assert height(moved) < height(emission) + (1e-6 if family == "student" else 0.0)


def mixture_height(emission: Emission, features: Any, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """The objective of a mixture with even classes, and the weighted posteriors of states."""
    lines = emission.lines(features) - np.log(emission.states)
    each = logsumexp(lines, axis=1)
    return float(weights @ each) + emission.log_prior(), np.exp(lines - each[:, None]) * weights[:, None]


@every_family
@pytest.mark.parametrize("prior_rows", [0.0, 2.0])
@pytest.mark.parametrize("parts", [1, 2], ids=["alone", "stacked"])
def test_the_gradient_is_that_of_the_objective(family: str, prior_rows: float, parts: int) -> None:
    """Fisher's identity, away from the start of the coordinates, with missing cells and a prior, also stacked."""
    cells, weights, _ = example(family, rows=90)
    emission = learned(family, prior_rows=prior_rows)
    emission = emission if parts == 1 else stacked([emission, emission.permuted(np.array([1, 2]))])
    features, random = emission.features(cells), np.random.default_rng(4)
    by = 0.2 * random.normal(size=emission.n_coordinates)
    moved = emission.moved(by)
    _, posteriors = mixture_height(moved, features, weights)
    gradient = emission.gradient(by, moved.statistics(features, posteriors))
    expected = [
        numerical_slope(lambda at: mixture_height(emission.moved(at), features, weights)[0], by, along) / 1e-3
        for along in 1e-3 * np.eye(len(by))
    ]
    assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@every_family
def test_the_m_step_ends_where_the_score_is_zero(family: str) -> None:
    """Along all free coordinates; given posteriors, so that only families with tails of their own iterate."""
    cells, weights, posteriors = example(family, missing=0.0)
    counts = posteriors * weights[:, None]
    emission = make({"family": family, "prior_rows": 3.0}, cells, weights, STATES)
    features = emission.features(cells)
    for _ in range({"student": 400, "semiparametric": 4000, "negative_binomial": 20}.get(family, 2)):
        emission = emission.maximised(emission.statistics(features, counts))
    gradient = emission.gradient(np.zeros(emission.n_coordinates), emission.statistics(features, counts))
    assert_allclose(gradient, 0.0, atol=1e-6 * weights.sum())


@every_family
def test_statistics_of_parts_add_up(family: str) -> None:
    cells, weights, posteriors = example(family)
    counts = posteriors * weights[:, None]
    emission = learned(family)
    whole = emission.statistics(emission.features(cells), counts)
    assert whole.shape[0] == STATES
    parts = [slice(0, 11), slice(11, 100), slice(100, 100), slice(100, None)]
    added = sum(emission.statistics(emission.features(cells[part]), counts[part]) for part in parts)
    assert added == pytest.approx(whole, rel=1e-10, abs=1e-10)


@every_family
def test_weights_are_repeated_rows(family: str) -> None:
    cells, _, posteriors = example(family)
    repeats = np.random.default_rng(3).integers(0, 4, size=len(cells))
    emission = learned(family)
    weighted = emission.fitted(cells, posteriors * repeats[:, None])
    repeated = emission.fitted(np.repeat(cells, repeats, axis=0), np.repeat(posteriors, repeats, axis=0))
    assert weighted.vector == pytest.approx(repeated.vector, rel=1e-9, abs=1e-9)


@every_family
def test_rows_without_known_cells_change_nothing(family: str) -> None:
    cells, weights, posteriors = example(family)
    counts = posteriors * weights[:, None]
    emission = learned(family)
    empty = np.full((7, cells.shape[1]), np.nan)
    assert (emission.log_prob(empty) == 0).all()
    more = emission.fitted(np.concatenate([cells, empty]), np.concatenate([counts, np.ones((7, STATES))]))
    assert more.vector == pytest.approx(emission.fitted(cells, counts).vector, rel=1e-10, abs=1e-10)


@every_family
def test_a_state_without_weight_keeps_its_parameters(family: str) -> None:
    cells, weights, posteriors = example(family)
    counts = posteriors[::-1] * weights[:, None]
    counts[:, 1] = 0.0
    emission = learned(family)
    made = emission
    for _ in range(20):
        made = made.fitted(cells, counts)
    assert np.isfinite(made.vector).all()
    if family == "ordinal":
        # Thresholds are shared, and the origin is free.
        assert made.states == STATES
        return
    for name, array in emission.parameters.items():
        if (family, name) != ("tied", "covariance"):
            assert made.parameters[name][1] == pytest.approx(array[1], rel=1e-12)
            assert made.parameters[name][0] != pytest.approx(array[0], rel=1e-12)
    nothing = emission.fitted(cells, np.zeros_like(counts))
    assert nothing.vector == pytest.approx(emission.vector, rel=1e-12)


@every_family
def test_permuted_and_stacked(family: str) -> None:
    cells, _, _ = example(family, seed=5)
    emission = learned(family)
    order = np.array([2, 0, 0, 1])
    permuted = emission.permuted(order)
    assert permuted.states == 4
    assert permuted.log_prob(cells) == pytest.approx(emission.log_prob(cells)[:, order], rel=1e-12)
    both = stacked([emission, permuted])
    assert isinstance(both, StackedEmission)
    assert both.states == 7
    assert both.log_prob(cells) == pytest.approx(
        np.concatenate([emission.log_prob(cells), permuted.log_prob(cells)], axis=1), rel=1e-12
    )
    mixed = both.permuted(np.array([5, 0]))
    assert mixed.log_prob(cells) == pytest.approx(emission.log_prob(cells)[:, [0, 0]], rel=1e-12)


@every_family
def test_vectors_and_pickles_hold_everything(family: str) -> None:
    cells, _, _ = example(family, seed=5)
    emission = learned(family)
    other = make(family, cells, np.ones(len(cells)), STATES)
    if family not in (*SMOOTH, "ordinal"):  # Their settings follow from the rows.
        assert other.of_vector(emission.vector).log_prob(cells) == pytest.approx(
            emission.log_prob(cells), rel=1e-12
        )
    assert (emission.of_vector(emission.vector).vector == emission.vector).all()
    copied = pickle.loads(pickle.dumps(emission))
    assert (copied.log_prob(cells) == emission.log_prob(cells)).all()


@every_family
def test_samples_have_the_cdf(family: str) -> None:
    emission = learned(family)
    rows = 4000
    missing = np.full((rows, emission.width), np.nan)
    for state in range(STATES):
        states = np.full(rows, state)
        drawn = emission.sampled(missing, states, np.random.default_rng(state))
        below = emission.cdf(drawn, missing)[:, state]
        if family in COUNTS:
            # A value chosen evenly between the cdf below it and at it is uniform.
            least = emission.cdf(drawn - 1, missing)[:, state]
            below = least + (below - least) * np.random.default_rng(9).random(below.shape)
        for column in below.T:
            assert kstest(column, "uniform").pvalue > 1e-3


@every_family
def test_known_cells_stay(family: str) -> None:
    cells, _, _ = example(family)
    emission = learned(family)
    known = ~np.isnan(cells)
    drawn = emission.sampled(cells, np.zeros(len(cells), np.int64), np.random.default_rng(0))
    mean, variance = emission.moments(cells)
    assert (drawn[known] == cells[known]).all()
    assert not np.isnan(drawn).any()
    for state in range(STATES):
        assert mean[:, state][known] == pytest.approx(cells[known], rel=1e-12)
        assert (variance[:, state][known] == 0).all()
        assert (variance[:, state][~known] > 0).all()


@every_family
@pytest.mark.parametrize("value", [0.0, 1.0, 3e6])
def test_constant_columns(family: str, value: float) -> None:
    if (value == 0 and family in POSITIVE) or (value == 3e6 and family == "ordinal"):
        return
    cells = np.full((30, 2 if family in GROUPS else 1), value)
    cells[3] = np.nan
    emission = make(family, cells, np.ones(30), STATES)
    posteriors = np.random.default_rng(0).dirichlet(np.ones(STATES), size=30)
    for _ in range(5):
        emission = emission.fitted(cells, posteriors)
    assert np.isfinite(emission.log_prob(cells)).all()
    mean, variance = emission.moments(cells[3:4])
    assert mean == pytest.approx(np.full(mean.shape, value), rel=1e-3, abs=0.1)
    assert np.isfinite(variance).all()


@every_family
def test_columns_without_any_known_cell(family: str) -> None:
    cells = np.full((5, 2 if family in GROUPS else 1), np.nan)
    emission = make(family, cells, np.ones(5), STATES).fitted(cells, np.full((5, STATES), 1 / STATES))
    assert (emission.log_prob(cells) == 0).all()
    assert np.isfinite(emission.moments(cells)[0]).all()


@pytest.mark.parametrize("family", [*POSITIVE, *COUNTS])
def test_cells_that_a_family_cannot_show(family: str) -> None:
    cells, weights, _ = example(family)
    bad = cells.copy()
    bad[4] = -1.0
    with pytest.raises(DataError, match=rf"'{family}'.*-1\.0; choose"):
        make(family, bad, weights, STATES)
    with pytest.raises(DataError, match="choose a family"):
        learned(family).log_prob(bad)
    if family in COUNTS:
        bad[4] = 1.5
        with pytest.raises(DataError, match="round the column"):
            make(family, bad, weights, STATES)


def test_specs() -> None:
    cells = np.random.default_rng(0).normal(size=(20, 2))
    weights = np.ones(20)
    assert make({"family": "full", "prior_rows": 3.0}, cells, weights, 2).settings["prior_rows"] == 3.0
    with pytest.raises(ParameterError, match="did you mean 'gaussian'"):
        make("gausian", cells[:, :1], weights, 2)
    with pytest.raises(ParameterError, match=r"of one column, but was given a group of 2.*'full'"):
        make("gamma", cells, weights, 2)
    with pytest.raises(ParameterError, match="did you mean 'prior_rows'"):
        make({"family": "gaussian", "prior_row": 1}, cells[:, :1], weights, 2)
    for rows in (-1, "x", np.nan):
        with pytest.raises(ParameterError, match="prior_rows is a finite number of at least 0"):
            make({"family": "gamma", "prior_rows": rows}, np.abs(cells[:, :1]), weights, 2)
    with pytest.raises(ParameterError, match="has no 'family'"):
        make({"prior_rows": 1}, cells, weights, 2)
    with pytest.raises(ParameterError, match="no family of emissions 3"):
        make(3, cells, weights, 2)
    with pytest.raises(ParameterError, match="no family of emissions"):
        make(np.array(["gaussian", "normal"]), cells, weights, 2)
    with pytest.raises(ParameterError, match="prior_shape is 'round'"):
        make({"family": "full", "prior_shape": "round"}, cells, weights, 2)


@pytest.mark.parametrize("family", GROUPS)
def test_groups_may_have_one_column(family: str) -> None:
    cells, weights, posteriors = example(family, width=1)
    emission = make(family, cells, weights, STATES).fitted(cells, posteriors * weights[:, None])
    assert emission.width == 1
    if family in ("full", "diagonal"):
        same = make("gaussian", cells, weights, STATES).fitted(cells, posteriors * weights[:, None])
        assert emission.log_prob(cells) == pytest.approx(same.log_prob(cells), rel=1e-10)
