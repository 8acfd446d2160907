"""Families of one column against the fits of scipy, and smooth marginal densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from eigentree.emissions.base import Emission
from eigentree.emissions.families import make
from eigentree.emissions.marginal import fitted_marginal
from eigentree.emissions.ordinal import Ordinal
from eigentree.emissions.semiparametric import SemiParametric
from eigentree.errors import DataError


def maximum_likelihood(family: str, cells: np.ndarray, steps: int = 1) -> Any:
    """One state's emission after EM steps without a prior."""
    emission: Emission = make({"family": family, "prior_rows": 0.0}, cells[:, None], np.ones(len(cells)), 1)
    for _ in range(steps):
        emission = emission.fitted(cells[:, None], np.ones((len(cells), 1)))
    return emission


def test_gamma_is_the_fit_of_scipy() -> None:
    cells = np.random.default_rng(0).gamma(2.5, 3.0, size=500)
    found = maximum_likelihood("gamma", cells)
    shape, _, scale = stats.gamma.fit(cells, floc=0)
    assert found.shape[0] == pytest.approx(shape, rel=1e-6)
    assert found.mean[0] == pytest.approx(shape * scale, rel=1e-6)
    assert found.log_prob(cells[:, None])[:, 0] == pytest.approx(
        stats.gamma.logpdf(cells, shape, 0, scale), rel=1e-5
    )


@pytest.mark.parametrize("shape", [0.02, 0.5, 3.0, 1e3, 1e6])
def test_shapes_solve_their_equation(shape: float) -> None:
    """A column of two values whose mean and mean logarithm are those of a gamma distribution of the shape."""
    from scipy.special import digamma

    spread = np.log(shape) - digamma(shape)
    # Of values exp(-a) and exp(a): log mean - mean log = log cosh a.
    half = np.arccosh(np.exp(spread)) if spread < 100 else spread
    found = maximum_likelihood("gamma", np.exp([half, -half]))
    assert found.shape[0] == pytest.approx(shape, rel=1e-4)


def test_lognormal_is_the_fit_of_scipy() -> None:
    cells = np.exp(np.random.default_rng(0).normal(1.0, 0.7, size=500))
    found = maximum_likelihood("lognormal", cells)
    shape, _, scale = stats.lognorm.fit(cells, floc=0)
    assert np.sqrt(found.variance[0]) == pytest.approx(shape, rel=1e-6)
    assert found.mean[0] == pytest.approx(np.log(scale), rel=1e-6)
    assert found.log_prob(cells[:, None])[:, 0] == pytest.approx(
        stats.lognorm.logpdf(cells, shape, 0, scale), rel=1e-5
    )


def test_poisson_is_the_mean() -> None:
    cells = np.random.default_rng(0).poisson(3.3, size=500).astype(float)
    found = maximum_likelihood("poisson", cells)
    assert found.mean[0] == pytest.approx(cells.mean(), rel=1e-12)
    assert found.log_prob(cells[:, None])[:, 0] == pytest.approx(
        stats.poisson.logpmf(cells, cells.mean()), rel=1e-10
    )


@pytest.mark.parametrize("size", [0.2, 2.0, 30.0])
def test_negative_binomial_is_of_highest_likelihood(size: float) -> None:
    cells = np.random.default_rng(0).negative_binomial(size, size / (size + 5.0), size=2000).astype(float)

    def loss(logs: np.ndarray) -> float:
        mean, own = np.exp(logs)
        return -float(stats.nbinom.logpmf(cells, own, own / (own + mean)).sum())

    best = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000})
    found = maximum_likelihood("negative_binomial", cells, steps=6)
    assert found.mean[0] == pytest.approx(np.exp(best.x[0]), rel=1e-5)
    assert found.size[0] == pytest.approx(np.exp(best.x[1]), rel=1e-4)
    assert -float(found.log_prob(cells[:, None]).sum()) <= best.fun + 1e-7


def test_counts_that_vary_less_than_poisson_are_poisson() -> None:
    cells = np.random.default_rng(0).binomial(10, 0.9, size=300).astype(float)
    found = maximum_likelihood("negative_binomial", cells, steps=20)
    expected = stats.poisson.logpmf(cells, cells.mean())
    assert found.log_prob(cells[:, None])[:, 0] == pytest.approx(expected, abs=1e-3)


def test_student_is_of_highest_likelihood() -> None:
    cells = 5.0 + 2.0 * np.random.default_rng(0).standard_t(4.0, size=2000)
    found = maximum_likelihood("student", cells, steps=60)

    def loss(vector: np.ndarray) -> float:
        return -float(stats.t.logpdf(cells, np.exp(vector[0]), vector[1], np.exp(vector[2])).sum())

    best = minimize(loss, [1.0, 5.0, 0.0], method="BFGS")
    ours = np.array([np.log(found.df[0]), found.location[0], 0.5 * np.log(found.squared_scale[0])])
    assert ours == pytest.approx(best.x, abs=1e-5)
    assert -float(found.log_prob(cells[:, None]).sum()) == pytest.approx(best.fun, abs=1e-8)
    assert best.fun <= 1e-6 - float(stats.t.logpdf(cells, *stats.t.fit(cells)).sum())


def test_student_hardly_moves_for_an_outlier() -> None:
    cells = np.append(np.random.default_rng(0).normal(size=100), 1e4)
    assert abs(maximum_likelihood("student", cells, steps=200).location[0]) < 0.3
    assert abs(maximum_likelihood("gaussian", cells).mean[0]) > 50


def ordinal_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Codes, and the state of each, which is known."""
    random = np.random.default_rng(seed)
    states = random.integers(3, size=900)
    latent = np.array([-1.0, 0.5, 2.0])[states] + random.logistic(size=900)
    return np.searchsorted([-1.0, 0.0, 0.7, 2.0], latent).astype(float), np.eye(3)[states]


def test_ordinal_is_of_highest_likelihood() -> None:
    codes, counts = ordinal_rows()
    emission = Ordinal.started(codes[:, None], np.ones(900), 3, prior_rows=0.0).fitted(codes[:, None], counts)
    states = counts.argmax(axis=1)

    def loss(vector: np.ndarray) -> float:
        limits = np.concatenate([[-np.inf], np.cumsum(np.append(vector[0], np.exp(vector[1:4]))), [np.inf]])
        place = np.append(0.0, vector[4:])[states]
        own = codes.astype(int)
        return -float(
            np.log(stats.logistic.cdf(limits[own + 1] - place) - stats.logistic.cdf(limits[own] - place)).sum()
        )

    best = minimize(loss, [-1.0, 0.0, 0.0, 0.0, 1.0, 2.0], method="BFGS", options={"gtol": 1e-7})
    found = float((emission.log_prob(codes[:, None]) * counts).sum())
    assert found == pytest.approx(-best.fun, abs=1e-6)
    assert np.diff(emission.location) == pytest.approx(np.diff(np.append(0.0, best.x[4:])), abs=1e-4)
    assert (np.diff(emission.thresholds, axis=1) > 0).all()
    assert (emission.thresholds == emission.thresholds[0]).all()
    assert emission.table.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-12)


@pytest.mark.parametrize(
    "counts",
    [
        ((1e4, 1.0), (4.0, 1.0)),
        ((1e5, 1.0), (2.0, 3.0)),
        ((2.0, 3.0), (5.0, 1.0)),
        ((900.0, 1.0), (1.0, 9.0)),
        ((9999.0, 1.0), (1.0, 9.0)),
    ],
)
def test_two_ordered_categories_are_as_frequent_as_counted(counts: tuple[tuple[float, float], ...]) -> None:
    """A location for each state is all that two categories need, however rare one is."""
    rows = np.array(counts)
    start = Ordinal.started(np.array([[0.0], [1.0]]), rows.sum(axis=0), 2, prior_rows=0.0)
    assert start.maximised(rows).table == pytest.approx(rows / rows.sum(axis=1, keepdims=True), rel=1e-6)


def test_ordinal_categories_without_rows() -> None:
    codes, counts = ordinal_rows()
    for prior_rows in (0.0, 1.0):
        emission = Ordinal.started(codes[:, None], np.ones(900), 3, categories=7, prior_rows=prior_rows)
        for _ in range(3):
            emission = emission.fitted(codes[:, None], counts)
        assert emission.table.shape == (3, 7)
        assert np.isfinite(emission.log_prob(np.arange(7.0)[:, None])).all()
    with pytest.raises(DataError, match="code 7 is not among 7"):
        emission.log_prob(np.array([[7.0]]))
    with pytest.raises(DataError, match="code 4 is not among 3"):
        Ordinal.started(codes[:, None], np.ones(900), 3, categories=3)


def test_states_that_saw_only_zeros_allow_other_counts() -> None:
    cells = np.array([[0.0]] * 30 + [[4.0]] * 30)
    counts = np.repeat(np.eye(2), 30, axis=0)
    for family in ("poisson", "negative_binomial"):
        emission = make(family, cells, np.ones(60), 2).fitted(cells, counts)
        assert emission.log_prob(np.array([[3.0]]))[0, 0] > -20


COLUMNS = {
    "normal": lambda random, n: random.normal(20.0, 3.0, size=n),
    "skewed": lambda random, n: np.exp(random.normal(3.0, 1.0, size=n)),
    "two modes": lambda random, n: np.where(
        random.random(n) < 0.3, random.normal(-4, 0.5, n), random.normal(3, 1, n)
    ),
    "heavy tails": lambda random, n: random.standard_t(3.0, size=n),
    "ages": lambda random, n: np.floor(random.uniform(18, 70, size=n)),
    "few whole numbers": lambda random, n: random.poisson(2.0, size=n).astype(float),
    "years": lambda random, n: 2000.0 + random.integers(-10, 10, size=n),
    "half zero": lambda random, n: np.where(random.random(n) < 0.5, 0.0, random.gamma(2.0, 2.0, size=n)),
    "tiny": lambda random, n: 1e-9 * random.gamma(2.0, size=n),
}
every_column = pytest.mark.parametrize("column", COLUMNS)


@every_column
@pytest.mark.parametrize("rows", [5, 50, 3000])
def test_marginals_are_distributions(column: str, rows: int) -> None:
    """The density is the slope of the cdf, cdf and survival are 1 together, scores and values inverse."""
    values = COLUMNS[column](np.random.default_rng(0), rows)
    marginal = fitted_marginal(values, np.ones(rows))
    at = np.linspace(values.min() - 3 * values.std(), values.max() + 3 * values.std(), 60_001)
    below, above = marginal.cdf(at), marginal.survival(at)
    assert below + above == pytest.approx(np.ones(len(at)), abs=1e-9)
    assert (np.diff(below) > 0).all()
    density = np.exp(marginal.log_density(at))
    slope = np.diff(below) / np.diff(at)
    assert np.sum(np.abs((density[1:] + density[:-1]) / 2 - slope)) * (at[1] - at[0]) < 2e-3
    assert marginal.cdf(np.array([-1e300, 1e300])) == pytest.approx([0.0, 1.0], abs=1e-12)
    scores = np.linspace(-6.0, 6.0, 101)
    assert marginal.scores(marginal.from_scores(scores)) == pytest.approx(scores, abs=1e-3)


@every_column
def test_marginals_of_rounded_cells_have_no_spikes(column: str) -> None:
    """However many the rows, the density between whole numbers is of the size of that at them."""
    values = COLUMNS[column](np.random.default_rng(0), 30_000)
    if column not in ("ages", "few whole numbers", "years"):
        return
    marginal = fitted_marginal(values, np.ones(len(values)))
    whole = np.unique(values)
    between = (whole[1:] + whole[:-1]) / 2
    log_density = marginal.log_density(between)
    ends = np.minimum(marginal.log_density(whole[1:]), marginal.log_density(whole[:-1]))
    common = np.arange(len(between)) < 6
    assert (log_density - ends)[common].min() > -0.25


def test_normal_scores_rise_as_far_above_as_below() -> None:
    """Where the cdf rounds to 1, scores go on rising: those of mirrored rows are mirrored."""
    values = np.random.default_rng(0).normal(size=3_000)
    far = np.geomspace(1.0, 1e5, 26)
    upper = fitted_marginal(values, np.ones(3_000)).scores(far)
    lower = fitted_marginal(-values, np.ones(3_000)).scores(-far)
    assert (np.diff(upper) > 0).all()
    assert upper == pytest.approx(-lower, abs=0.05)


@pytest.mark.parametrize("column", ["normal", "skewed", "two modes", "heavy tails"])
def test_marginals_are_near_the_truth(column: str) -> None:
    random = np.random.default_rng(0)
    values, fresh = COLUMNS[column](random, 4000), COLUMNS[column](random, 4000)
    truth = {
        "normal": stats.norm(20, 3).logpdf,
        "skewed": stats.lognorm(1.0, 0.0, np.exp(3.0)).logpdf,
        "two modes": lambda x: np.log(0.3 * stats.norm(-4, 0.5).pdf(x) + 0.7 * stats.norm(3, 1).pdf(x)),
        "heavy tails": stats.t(3).logpdf,
    }[column](fresh)
    found = fitted_marginal(values, np.ones(4000)).log_density(fresh)
    assert found.mean() > truth.mean() - 0.015


def test_marginals_of_weights_are_those_of_repeated_rows() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=200)
    one = fitted_marginal(np.repeat(values, 3), np.ones(600))
    other = fitted_marginal(values, np.full(200, 3.0))
    at = np.linspace(0.1, 6, 50)
    # Folds differ, hence maybe the bandwidth.
    assert other.cdf(at) == pytest.approx(one.cdf(at), abs=0.03)


@every_column
def test_marginals_follow_units(column: str) -> None:
    values = COLUMNS[column](np.random.default_rng(0), 500)
    one, other = fitted_marginal(values, np.ones(500)), fitted_marginal(values * 1024.0, np.ones(500))
    assert other.log_density(values * 1024.0) + np.log(1024.0) == pytest.approx(one.log_density(values), abs=1e-6)


def test_hats_become_what_states_show() -> None:
    """Two states that are no family's: EM with known states comes near both densities."""
    random = np.random.default_rng(0)
    states = np.repeat([0, 1], 6000)
    cells = np.where(states == 0, random.gamma(2.0, size=12_000), 6.0 - random.gamma(1.5, size=12_000))[:, None]
    emission = SemiParametric.started(cells, np.ones(12_000), 2)
    assert emission.weights.shape == (2, round((2 * 12_000) ** (1 / 3)))
    for _ in range(50):
        emission = emission.fitted(cells, np.eye(2)[states])
    fresh = random.gamma(2.0, size=4000)
    truth = stats.gamma(2.0).logpdf(fresh)
    assert emission.log_prob(fresh[:, None])[:, 0].mean() > truth.mean() - 0.03


def test_as_many_hats_as_given() -> None:
    cells = np.random.default_rng(0).normal(size=(50, 1))
    emission = make({"family": "semiparametric", "hats": 9}, cells, np.ones(50), 2)
    assert emission.n_parameters == 16
    marginal = fitted_marginal(cells[:, 0], np.ones(50))
    assert emission.log_prob(cells)[:, 1] == pytest.approx(marginal.log_density(cells[:, 0]), rel=1e-12)
