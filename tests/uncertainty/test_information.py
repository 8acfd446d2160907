"""Information matrices: against brute-force Hessians, closed forms and laws of standard errors."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from benchmarks import coverage
from eigentree.errors import DataError, ParameterError
from eigentree.uncertainty.free_models import ObjectiveModel, free_model
from eigentree.uncertainty.information import Information
from eigentree.uncertainty.refits import FittedModel

RANDOM = np.random.default_rng(7)


def classes(rows: int = 400, columns: int = 5, seed: int = 0) -> np.ndarray:
    """Rows of two classes, answers of two or three levels."""
    random = np.random.default_rng(seed)
    own = random.random(rows) < 0.4
    shown = [np.where(own, random.random(rows) < 0.8, random.random(rows) < 0.25) for _ in range(columns - 1)]
    last = np.where(own, random.choice(3, rows, p=[0.6, 0.3, 0.1]), random.choice(3, rows, p=[0.1, 0.3, 0.6]))
    return np.column_stack([*shown, last]).astype(int)


def numbers(seed: int = 1) -> np.ndarray:
    """Rows of two classes of positive numbers."""
    random = np.random.default_rng(seed)
    return np.exp(np.r_[random.normal([0, 0.5], [0.3, 0.4], (120, 2)), random.normal([1.2, 1.5], 0.3, (80, 2))])


def informed(model: Any, X: Any, lengths: Any = None, weights: Any = None) -> Information:
    return Information(free_model(FittedModel.of(model, X, lengths, weights)))


def hessian(model: ObjectiveModel) -> np.ndarray:
    """Minus the Hessian of log-likelihood plus log prior, by second differences of `score_samples`."""
    step = 1e-3

    def objective(by: np.ndarray) -> float:
        (tables,), emissions = model.at(by)
        prior = sum(own.log_prior() for own in emissions)
        used = (model.objective.prior > 0) & (tables > 0)
        prior += model.objective.prior[used] @ np.log(tables[used])
        return float(model.totals @ model.estimator(by).score_samples(model.data)) + prior

    places = step * np.eye(model.count)
    found = np.empty((model.count, model.count))
    for i, a in enumerate(places):
        for j, b in enumerate(places[: i + 1]):
            found[i, j] = objective(a + b) - objective(a - b) - objective(b - a) + objective(-a - b)
            found[j, i] = found[i, j]
    return -found / (4.0 * step**2)


def mixed_rows() -> Any:
    import pandas as pd

    frame = pd.DataFrame(numbers(), columns=["a", "b"])
    own = np.r_[np.zeros(120, int), np.ones(80, int)]
    frame["c"] = np.array(["low", "high"])[(RANDOM.random(200) < 0.3 + 0.4 * own).astype(int)]
    frame.loc[5, "a"] = np.nan
    return frame


def sequences(symbols: int = 3) -> list[np.ndarray]:
    truth = {
        "start": [0.7, 0.3],
        "transitions": [[0.85, 0.15], [0.3, 0.7]],
        "emissions": np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])[:, :symbols],
    }
    random = np.random.default_rng(3)
    made = []
    for length in [6, 9, 14] * 8:
        state, own = 0, []
        for step in range(length):
            state = random.choice(2, p=truth["start"] if step == 0 else truth["transitions"][state])
            own.append(int(random.choice(3, p=truth["emissions"][state])))
        made.append(np.array(own))
    return made


def tree() -> et.LatentGraph:
    """Hidden and observed parents, and a hidden variable with a hidden parent."""
    states = {"g": 2, "h": 2, "a": 2, "b": 3, "c": 2, "d": 2, "e": 2}
    edges = [("g", "h"), ("g", "a"), ("g", "b"), ("h", "c"), ("h", "d"), ("h", "e"), ("a", "e")]
    return et.LatentGraph(states, edges, ["g", "h"])


def undirected() -> et.LatentGraph:
    states = {"h": 2, "a": 2, "b": 2, "c": 2, "d": 2}
    return et.LatentGraph(states, [("h", "a"), ("h", "b"), ("h", "c"), ("c", "d")], ["h"], directed=False)


LONG: dict[str, Any] = {"tol": 1e-10, "random_state": 0, "n_init": 2}

FITS: dict[str, Any] = {
    "classes": lambda: (et.LatentClassModel(2, **LONG), classes()),
    "tree": lambda: (
        et.EMJunctionTree(tree(), pseudo_counts=0.5, **LONG),
        et.LatentNetwork.random(tree(), seed=3).sample(500, seed=1),
    ),
    "undirected": lambda: (
        et.EMJunctionTree(undirected(), pseudo_counts=0.5, **LONG),
        et.LatentNetwork.random(undirected(), seed=2).sample(400, seed=1),
    ),
    "constraints": lambda: (
        et.EMJunctionTree(
            et.zoo.Mixture(hidden_states=2),
            fixed={"x4": [[0.5, np.nan, np.nan], [np.nan, np.nan, np.nan]]},
            equal=[("x0", "x1")],
            pseudo_counts=0.1,
            **LONG,
        ),
        classes(),
    ),
    "mixed": lambda: (et.LatentClassModel(2, **LONG), mixed_rows()),
    **{
        family: lambda family=family: (et.LatentClassModel(2, emissions=family, **LONG), numbers())
        for family in ("full", "tied", "lognormal", "gamma")
    },
    "student": lambda: (
        et.LatentClassModel(2, emissions="student", **LONG),
        np.random.default_rng(0).standard_t(3, (200, 2)) + np.repeat([[0.0], [6.0]], 100, axis=0),
    ),
    "counts": lambda: (
        et.LatentClassModel(2, emissions={"x0": "poisson", "x1": "negative_binomial"}, **LONG),
        np.random.default_rng(0).poisson(
            np.repeat([[2.0], [9.0]], 100, axis=0) * [1, 1] * np.c_[np.ones(200), RANDOM.gamma(3, 1 / 3, 200)]
        ),
    ),
    "covariates": lambda: (
        et.LatentClassModel(2, covariates=["a", "c"], emissions={"b": "gaussian"}, **LONG),
        mixed_rows().dropna(),
    ),
    "chain": lambda: (et.EMHMM(2, **LONG), sequences()),
    "order 2": lambda: (et.EMHMM(2, order=2, pseudo_counts=0.5, **LONG), sequences()),
    "factorial": lambda: (et.EMHMM([2, 2], pseudo_counts=0.5, **LONG), sequences()),
    "known start": lambda: (et.EMHMM(2, start=[0.6, 0.4], transitions="left-to-right", **LONG), sequences()),
    "numbers in steps": lambda: (
        et.EMHMM(2, emissions="full", **LONG),
        [np.random.default_rng(k).normal([[0, 0]] * 8 + [[2, 3]] * 6) for k in range(8)],
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_observed_information_is_minus_the_hessian(name: str) -> None:
    estimator, X = FITS[name]()
    own = informed(estimator.fit(X), X)
    assert isinstance(own.model, ObjectiveModel)
    brute = hessian(own.model)
    scale = np.sqrt(np.abs(np.diagonal(brute)))
    assert_allclose(own.observed / scale / scale[:, None], brute / scale / scale[:, None], atol=1e-5)


@pytest.mark.parametrize("name", ["classes", "tree", "mixed", "full", "chain", "numbers in steps"])
def test_scores_of_rows_add_up_to_the_gradient(name: str) -> None:
    """Away from the optimum, and without a prior of tables."""
    estimator, X = FITS[name]()
    estimator.set_params(pseudo_counts=0.0, max_iter=2, n_init=1, init="random")
    with pytest.warns(match="converge"):
        own = informed(estimator.fit(X), X)
    model, zero = own.model, np.zeros(own.model.count)
    assert isinstance(model, ObjectiveModel)
    prior = model.differences(lambda by: sum((each.log_prior() for each in model.at(by)[1]), 0.0))
    total = model.totals @ own.scores + prior
    assert_allclose(model.gradient(zero), total, atol=1e-6 * model.totals.sum())


def test_shares_of_one_class_have_the_errors_of_a_multinomial() -> None:
    X = classes(300)[:, -1:]
    model = et.LatentClassModel(1).fit(X)
    share = np.bincount(X[:, 0]) / 300
    expected = (np.diag(share) - np.outer(share, share)) / 300
    for kind in ("observed", "empirical", "robust"):
        found = model.estimates(kind=kind).part(table="x0")
        factor = 300 / 299 if kind == "robust" else 1.0
        assert_allclose(found.vcov(), factor * expected, rtol=1e-5, atol=1e-9)
    low, high = model.estimates().part(table="x0").confint()[0]
    middle, half = np.log(share[0] / (1 - share[0])), 1.959964 / np.sqrt(300 * share[0] * (1 - share[0]))
    assert_allclose([np.log(low / (1 - low)), np.log(high / (1 - high))], [middle - half, middle + half], rtol=1e-4)


def test_a_normal_distribution_has_the_errors_of_the_textbook() -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, (200, 1))
    model = et.LatentClassModel(1, emissions={"x0": {"family": "gaussian", "prior_rows": 0.0}}).fit(X)
    errors = model.standard_errors_["x0"]
    std = X.std()
    assert_allclose(errors, [[std / np.sqrt(200), std / np.sqrt(400)]], rtol=1e-5)


def test_known_classes_have_the_errors_of_a_logistic_regression() -> None:
    """Where items show the class, membership is a regression on covariates."""
    import pandas as pd

    random = np.random.default_rng(0)
    z = random.normal(size=200)
    shown = np.where(random.random(200) < 1 / (1 + np.exp(0.5 - z)), "yes", "no")
    rows = pd.DataFrame({"p": shown, "q": shown, "r": shown, "z": z})
    model = et.LatentClassModel(2, covariates=["z"], random_state=0, tol=1e-12).fit(rows)
    found = model.estimates().part(table="coefficients", given="h=1")
    intercept, slope = found.values
    share = 1 / (1 + np.exp(-intercept - slope * z))
    design = np.column_stack([np.ones(200), z])
    expected = np.linalg.inv((design * (share * (1 - share))[:, None]).T @ design)
    assert_allclose(found.vcov(), expected, rtol=1e-4)
    assert np.isnan(model.standard_errors_["p"]).all()
    sizes = model.estimates().part(table="h")
    slopes = (share * (1 - share)) @ design / 200
    assert_allclose(sizes.vcov()[1, 1], slopes @ expected @ slopes, rtol=1e-4)


def test_known_steps_of_a_markov_chain_have_the_errors_of_its_rows() -> None:
    """Where emissions show the state, transitions are multinomial."""
    words = ["ABBABAABBB", "BAABABBA", "AABBB"] * 4
    start = {"start": [0.5, 0.5], "transitions": np.full((2, 2), 0.5), "emissions": np.eye(2)}
    model = et.EMHMM(2, init=start, pseudo_counts=0.0).fit(words)
    pairs = np.array([pair for word in words for pair in pairwise(word)])
    count, share = int((pairs[:, 0] == "A").sum()), (pairs[pairs[:, 0] == "A", 1] == "A").mean()
    assert model.transmat_[0, 0] == pytest.approx(share, abs=1e-9)
    error = model.standard_errors_["transitions"]
    assert error[0, 0] == pytest.approx(np.sqrt(share * (1 - share) / count), rel=1e-5)
    assert np.isnan(model.standard_errors_["emissions"]).all()
    assert "on the boundary" in model.estimates().notes[0]


def test_clusters_of_copies_have_the_errors_of_single_rows() -> None:
    """Each row twice, both in one cluster: as if there were half as many rows."""
    X = classes(200)
    model = et.LatentClassModel(2, random_state=0, tol=1e-12).fit(X)
    single = model.vcov(kind="robust")
    twice, labels = np.repeat(X, 2, axis=0), np.repeat(np.arange(200).astype(str), 2)
    assert_allclose(model.vcov(twice, clusters=labels), single, rtol=1e-5, atol=1e-10)
    naive = model.vcov(twice, kind="robust")
    assert_allclose(naive / single, (400 / 399) / (200 / 199) / 2, rtol=1e-4)


def test_weights_count_as_rows_that_are_repeated() -> None:
    X, often = classes(150), np.random.default_rng(0).integers(0, 4, 150)
    model = et.LatentClassModel(2, random_state=0, tol=1e-12).fit(X, sample_weight=often)
    repeated = np.repeat(X, often, axis=0)
    for kind in ("observed", "empirical"):
        assert_allclose(model.vcov(kind=kind), model.vcov(repeated, kind=kind), rtol=1e-6, atol=1e-11)
    # Weights of a sample do not make more rows.
    assert_allclose(
        model.vcov(X, sample_weight=10.0 * often, kind="robust"), model.vcov(kind="robust"), rtol=1e-4, atol=1e-9
    )


def test_errors_do_not_depend_on_the_order_of_rows_or_the_names_of_states() -> None:
    X = classes(200)
    model = et.LatentClassModel(2, random_state=0, tol=1e-12).fit(X)
    shuffled = np.random.default_rng(0).permutation(200)
    assert_allclose(model.vcov(X[shuffled]), model.vcov(), rtol=1e-6, atol=1e-11)
    swapped = et.LatentClassModel(2, init=model.network_.relabelled({"h": [1, 0]}), tol=1e-12).fit(X)
    for name, table in swapped.standard_errors_.items():
        assert_allclose(table, model.standard_errors_[name][::-1], rtol=1e-3)


def test_what_rows_do_not_identify_is_named() -> None:
    """Two answers of two classes: five parameters, three degrees of freedom."""
    X = classes(300)[:, :3]
    model = et.LatentClassModel(2, random_state=0).fit(X[:, :2])
    found = model.estimates()
    assert any("do not identify" in note and "h=0" in note for note in found.notes)
    assert np.isnan(found.standard_errors).all()
    # What the answers have together is identified.
    both = model.estimates(statistic=lambda own: own.network_.joint(["x0", "x1"]))
    share = np.bincount(2 * X[:, 0] + X[:, 1]) / 300
    assert_allclose(both.standard_errors, np.sqrt(share * (1 - share) / 300), rtol=1e-3)


def test_fixed_entries_have_no_error_and_equal_ones_have_one() -> None:
    estimator, X = FITS["constraints"]()
    found = estimator.fit(X).standard_errors_
    assert np.isnan(found["x4"][0, 0])
    assert np.isfinite(found["x4"][0, 1:]).all()
    assert_allclose(found["x4"][0, 1], found["x4"][0, 2])
    assert_allclose(found["x0"], found["x1"])


def test_the_training_data_are_remembered_until_the_model_is_saved(tmp_path: Any) -> None:
    X = classes(100)
    model = et.LatentClassModel(2, random_state=0).fit(X)
    errors = model.standard_errors_
    assert {name: table.shape for name, table in errors.items()} == {
        name: table.shape for name, table in model.tables_.items()
    }
    assert_allclose(model.vcov(X), model.vcov())
    assert_allclose(model.confint(level=0.5), model.estimates().confint(0.5))
    model.save(tmp_path / "m.eigentree")
    for again in (pickle.loads(pickle.dumps(model)), et.load(tmp_path / "m.eigentree")):
        with pytest.raises(DataError, match="training data are not there"):
            again.standard_errors_  # noqa: B018
        assert_allclose(again.vcov(X), model.vcov(), rtol=1e-6, atol=1e-12)


def test_other_rows_than_those_of_the_fit_are_noticed() -> None:
    model = et.LatentClassModel(2, random_state=0).fit(classes(300))
    assert not model.estimates().notes
    some = classes(300)[:270]
    assert "away from the optimum" in model.estimates(some).notes[0]
    far = model.estimates(classes(300, seed=5)).notes
    assert "no maximum" in far[0]
    assert "not at the optimum" in far[1]


def test_arguments_are_checked() -> None:
    X = classes(60)
    model = et.LatentClassModel(2, random_state=0).fit(X)
    with pytest.raises(ParameterError, match="kind is 'observed'"):
        model.estimates(kind="sandwich")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="one label for each of 60 rows"):
        model.estimates(clusters=[1, 2, 3])
    with pytest.raises(DataError, match="two clusters"):
        model.estimates(clusters=np.zeros(60))
    with pytest.raises(ParameterError, match="leave kind out"):
        model.estimates(clusters=np.arange(60), kind="observed")
    with pytest.raises(ParameterError, match=r"confint\(level=0.9\)"):
        model.confint(0.9)
    with pytest.raises(ParameterError, match="averages several fits"):
        et.EMJunctionTree(random_state=0).fit(X).estimates()


def test_numbers_that_depend_on_symbols_have_a_moment_for_each() -> None:
    random = np.random.default_rng(0)
    given = [np.array(["a", "b"])[random.integers(0, 2, 10)] for _ in range(20)]
    steps = [random.normal(np.where(own == "a", 0.0, 6.0) + 3.0 * (random.random(10) < 0.5)) for own in given]
    model = et.EMHMM(2, inputs_affect="emissions", emissions="gaussian", random_state=0, n_init=1)
    errors = model.fit(steps, inputs=given).standard_errors_["x0"]
    assert errors.shape == (2, 2, 2)
    assert np.isfinite(errors).all()


def test_the_benchmark_of_coverage_runs() -> None:
    lines = coverage.table_lines(coverage.CASES[0], 200, 2)
    assert [line[1] for line in lines] == ["class sizes", "responses"]
    assert all(float(cell) > 60 for line in lines for cell in line[2:5])
