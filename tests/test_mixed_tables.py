"""The benchmark of tables with numbers: its splits, the methods that it compares, its whole path on one table."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import cumulative_trapezoid
from scipy.stats import multivariate_normal, norm

from benchmarks import mixed_data, mixed_tables
from benchmarks.mixed_baselines import (
    FILLS,
    GaussianCopula,
    Marginal,
    Task,
    cells,
    kernels,
    per_class,
)
from benchmarks.mixed_data import MixedSplit, load


@pytest.fixture(scope="module")
def iris() -> MixedSplit:
    return load("iris", 0)


# Splits


def test_a_split_has_every_row_once_and_is_standardised_by_training_rows(iris: MixedSplit) -> None:
    parts = iris[:3]
    assert [len(part) for part in parts] == [90, 30, 30]
    rows = np.concatenate([cells(iris, part) for part in parts])
    assert len(np.unique(rows, axis=0)) == 150, "noise makes all rows different"
    assert np.bincount(rows[:, -1].astype(int)).tolist() == [50, 50, 50]
    assert_allclose(iris.values(iris.train).mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(iris.values(iris.train).std(axis=0), 1.0)
    assert (iris.numbers, iris.categories, iris.states) == (tuple(iris.train.columns[:4]), ("class",), (3,))


def test_a_seed_is_a_split(iris: MixedSplit) -> None:
    assert all(part.equals(again) for part, again in zip(iris[:3], load("iris", 0)[:3], strict=True))
    assert not iris.train.equals(load("iris", 1).train)


def test_noise_is_as_wide_as_the_smallest_step(iris: MixedSplit) -> None:
    """Petal lengths have one digit after the point: rounded to it, they are the original ones."""
    from sklearn.datasets import load_iris

    raw = load_iris().data
    name = iris.numbers[2]
    seen = np.concatenate([part[name] for part in iris[:3]])
    original = raw[:, 2]
    # Standardising is a line, whose slope and place follow from the widest values.
    slope, place = np.polyfit(np.sort(seen), np.sort(original), 1)
    assert np.abs(np.sort(seen) * slope + place - np.sort(original)).max() < 0.1


# Densities of others


def test_a_marginal_is_a_distribution() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=300)
    marginal = Marginal(values)
    # Far beyond the values is only a Student's t, of which little is left there.
    x = np.sort(np.concatenate([np.linspace(-500, 500, 20_001), np.linspace(-3, values.max() + 3, 200_001)]))
    density = np.exp(marginal.log_density(x))
    below = cumulative_trapezoid(density, x, initial=0.0)
    assert_allclose(below[-1], 1.0, atol=1e-4)
    assert_allclose(norm.cdf(marginal.normal_scores(x)), below, atol=1e-3)


def test_a_copula_of_normal_columns_is_nearly_their_normal_distribution() -> None:
    truth = multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
    rows = truth.rvs(6_000, random_state=0)
    copula = GaussianCopula(rows[:3_000], rows[3_000:5_000])
    test = rows[5_000:]
    behind = truth.logpdf(test).mean() - copula.score_samples(test).mean()
    assert -0.01 < behind < 0.05


def test_densities_per_class_are_joint_densities(iris: MixedSplit) -> None:
    """The mean over the test rows is that of log P(class) + log p(numbers | class), written out for kernels."""
    found = per_class(kernels, iris)
    assert found is not None
    train, validation, test = (cells(iris, part) for part in iris[:3])
    logs = []
    for row in test:
        own = train[train[:, -1] == row[-1]]
        model = kernels(own[:, :-1], validation[validation[:, -1] == row[-1]][:, :-1])
        share = (len(own) + 0.5) / (len(train) + 1.5)
        logs.append(model.score_samples(row[None, :-1])[0] + np.log(share))
    assert_allclose(found.test, np.mean(logs))


# Masked cells


def test_cells_and_frames_are_the_same_rows(iris: MixedSplit) -> None:
    rows = mixed_tables.masked(cells(iris, iris.test), 0.3, seed=0)
    assert len(rows) == 510
    assert abs(np.isnan(rows).mean() - 0.3) < 0.03
    assert_allclose(cells(iris, mixed_tables.frame_of(iris, rows)), rows)


def test_errors_are_of_masked_cells() -> None:
    truth = np.array([[1.0, 0.0], [2.0, 1.0]])
    missing = np.array([[np.nan, 0.0], [2.0, np.nan], [1.0, np.nan], [np.nan, 1.0]])
    filled = np.array([[4.0, 9.0], [9.0, 1.0], [9.0, 1.0], [6.0, 9.0]])
    rmse, accuracy = mixed_tables.fill_errors(truth, missing, filled, (0, 2))
    assert_allclose([rmse, accuracy], [np.sqrt((3**2 + 4**2) / 2), 0.5])


@pytest.mark.parametrize("method", FILLS)
@pytest.mark.filterwarnings("ignore")
def test_known_cells_stay_and_others_follow_from_them(method: str) -> None:
    """Of a column that is another one, and a category that is its sign, all methods but the mean guess well."""
    random = np.random.default_rng(0)
    number = random.normal(size=300)
    rows = np.stack([number, number + 0.01 * random.normal(size=300), number > 0], axis=1)
    train, missing = rows[:200], rows[200:].copy()
    missing[np.arange(100), random.integers(0, 3, 100)] = np.nan
    learning = train.copy()
    learning[random.random(train.shape) < 0.1] = np.nan
    for fill in FILLS[method]:
        filled = fill(Task(train, learning, missing, (0, 0, 2)))
        known = ~np.isnan(missing)
        assert_allclose(filled[known], missing[known])
        rmse, accuracy = mixed_tables.fill_errors(rows[200:], missing, filled, (0, 0, 2))
        assert rmse is not None
        assert accuracy is not None
        assert (rmse > 0.8) if method == "column mean" else (rmse < 0.6)
        if method not in ("column mean", "IterativeImputer"):
            assert accuracy > 0.9


# Ours


def test_intervals_cover_what_is_between_them(iris: MixedSplit) -> None:
    class Normal:
        def predict_quantiles(self, X: object, target: str, quantiles: tuple[float, ...]) -> np.ndarray:
            return np.tile(norm.ppf(quantiles), (len(X), 1))  # type: ignore[arg-type]

    truth = np.random.default_rng(0).normal(size=(900, 5))
    truth[:, 4] = 0.0
    missing = truth.copy()
    missing[np.random.default_rng(1).random(truth.shape) < 0.3] = np.nan
    assert abs(mixed_tables.covered(Normal(), iris, truth, missing) - 0.9) < 0.03


# What people see


def test_the_command_measures_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    mixed_tables.run(True, sets=["iris"], methods=["KDE", "column mean"], seeds=[1, 0])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("iris")]
    assert len(lines) == 5, "densities; numbers and categories of two shares"
    tests = [next(mixed_tables.likelihoods("iris", seed, ["KDE"])).test for seed in (1, 0)]
    assert lines[0].split()[1:4] == [f"{np.mean(tests):.3f}", "±", f"{abs(tests[0] - tests[1]) / 2:.3f}"]


def test_a_table_of_a_package_that_is_absent_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mixed_data, "find_spec", lambda package: None)
    mixed_tables.run(True, sets=["abalone"], methods=["KDE"])
    assert "abalone is NOT MEASURED: it is a file of scikit-lego" in capsys.readouterr().out
