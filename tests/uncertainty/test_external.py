"""Covariates and distal outcomes of latent classes in two and three steps."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import eigentree as et
from benchmarks import three_step
from eigentree.errors import DataError, ParameterError
from eigentree.uncertainty.external.class_regression import Regression
from eigentree.uncertainty.external.classified_rows import ClassifiedRows
from eigentree.uncertainty.external.distal_outcomes import Outcome

WAYS: dict[str, dict[str, Any]] = {
    "BCH": {"correction": "BCH"},
    "BCH soft": {"correction": "BCH", "assignment": "soft"},
    "ML": {"correction": "ML"},
    "two-step": {"n_steps": 2},
}
each_way = pytest.mark.parametrize("how", WAYS.values(), ids=list(WAYS))
YES = np.array([[0.9, 0.8, 0.85, 0.7], [0.2, 0.3, 0.1, 0.25]])
"""P(yes | class) of four items."""


class Population(NamedTuple):
    """All rows that there can be, with their probabilities, and a model that was fitted to them."""

    X: pd.DataFrame
    weights: np.ndarray
    model: et.LatentClassModel


@pytest.fixture(scope="module")
def population() -> Population:
    """Class membership depends on z by intercept -0.5 and slope 0.8; outcomes are a number and a label."""
    lines, weights = [], []
    for z, label, *items in product((0, 1, 2), "abc", *[(0, 1)] * 4):
        logit = -0.5 + 0.8 * z
        for place, share in enumerate((1 / (1 + np.exp(logit)), 1 / (1 + np.exp(-logit)))):
            chance = np.prod(np.where(items, YES[place], 1 - YES[place]))
            own = ((0.5, 0.3, 0.2), (0.1, 0.3, 0.6))[place]["abc".index(label)]
            lines.append([*items, z, label, 3.0 * place + "abc".index(label)])
            weights.append(1000 * share * chance * own / 3)
    X = pd.DataFrame(lines, columns=["q0", "q1", "q2", "q3", "z", "label", "number"])
    how = {"tol": 1e-13, "pseudo_counts": 0, "random_state": 0, "n_init": 1}
    model = et.LatentClassModel(2, **how).fit(X[["q0", "q1", "q2", "q3"]], sample_weight=weights)
    return Population(X, np.array(weights), model)


def test_the_measurement_model_is_the_truth(population: Population) -> None:
    found = np.array([np.asarray(population.model.tables_[f"q{item}"])[:, 1] for item in range(4)])
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(YES.T, axis=1), atol=1e-4)


@each_way
def test_coefficients_of_a_population_are_the_truth(population: Population, how: dict[str, Any]) -> None:
    X, weights, model = population
    found = et.class_regression(model, X, ["z"], sample_weight=weights, **how)
    first = int(np.asarray(model.tables_["q0"])[:, 1].argmax())
    own = found.relative_to(first).coefficients
    np.testing.assert_allclose(own.values, [-0.5, 0.8], atol=2e-3)
    assert own.labels == [(1 - first, "intercept"), (1 - first, "z")]
    naive = et.class_regression(model, X, ["z"], sample_weight=weights, correction=None).relative_to(first)
    assert 0.3 < naive.coefficients.values[1] < 0.75


@each_way
def test_outcomes_of_a_population_are_the_truth(population: Population, how: dict[str, Any]) -> None:
    X, weights, model = population
    found = et.distal_outcomes(model, X, ["label"], sample_weight=weights, **how)
    order = np.argsort(-np.asarray(model.tables_["q0"])[:, 1])
    shares = found.estimates.values.reshape(3, 2)[:, order]
    np.testing.assert_allclose(shares, [[0.5, 0.1], [0.3, 0.3], [0.2, 0.6]], atol=2e-3)
    if how.get("correction") == "BCH":
        number = et.distal_outcomes(model, X, ["number"], sample_weight=weights, **how)
        np.testing.assert_allclose(number.estimates.values[order], [0.7, 4.5], atol=5e-3)
    naive = et.distal_outcomes(model, X, ["label"], sample_weight=weights, correction=None)
    assert np.abs(np.subtract(*naive.estimates.values[4:6])) < 0.37


def test_standard_errors_are_those_of_the_infinitesimal_jackknife() -> None:
    """Each row's influence, by fitting all steps again with a little more and a little less of it."""
    random = np.random.default_rng(4)
    lines, weights = [], []
    for z, *items in product((0, 1), *[(0, 1)] * 4):
        logit = -0.5 + 1.2 * z
        shares = np.array([1 / (1 + np.exp(logit)), 1 / (1 + np.exp(-logit))])
        chance = np.prod(np.where(items, YES, 1 - YES), axis=1)
        lines.append([*items, z, random.normal(items[0] - z)])
        weights.append(300 * float(shares @ chance) * random.uniform(0.8, 1.2))
    X, weights = pd.DataFrame(lines, columns=["q0", "q1", "q2", "q3", "z", "number"]), np.array(weights)
    items = X[["q0", "q1", "q2", "q3"]]
    settings: dict[str, Any] = {"tol": 1e-13, "max_iter": 5000, "random_state": 0}
    model = et.LatentClassModel(2, **settings).fit(items, sample_weight=weights)
    ways = {**WAYS, "naive": {"correction": None}}

    design, number = np.column_stack([np.ones(len(X)), X.z]), X[["number"]].to_numpy()

    def values(refit: et.LatentClassModel, weights: np.ndarray) -> np.ndarray:
        parts = []
        for how in ways.values():
            steps = {"n_steps": 3, "correction": None, "assignment": "modal"} | how
            evidence = ClassifiedRows.of(refit, items, weights, **steps).evidence()
            regression, means = (
                Regression(design, weights, evidence),
                Outcome(number, weights, True).fitted(evidence),
            )
            parts += [regression.fitted(), means[:2]]
        return np.concatenate(parts)

    influence, step = [], 1e-3
    for row, weight in enumerate(weights):
        ends = []
        for change in (step, -step):
            changed = weights + change * weight * (np.arange(len(weights)) == row)
            refit = et.LatentClassModel(2, init=model.network_, **settings).fit(items, sample_weight=changed)
            ends.append(values(refit, changed))
        influence.append((ends[0] - ends[1]) / (2 * step))
    expected = np.sqrt(np.square(influence).sum(axis=0) * len(X) / (len(X) - 1))
    ours = []
    for how in ways.values():
        ours.append(et.class_regression(model, X, ["z"], sample_weight=weights, **how).coefficients.standard_errors)
        ours.append(
            et.distal_outcomes(model, X, ["number"], sample_weight=weights, **how).estimates.standard_errors
        )
    np.testing.assert_allclose(np.concatenate(ours), expected, rtol=1e-2)


def fitted_to(rows: three_step.Replicate) -> et.LatentClassModel:
    return et.LatentClassModel(3, n_init=2, random_state=0, tol=1e-11).fit(rows.items)


@pytest.mark.parametrize("how", [*WAYS.values(), {"correction": None}], ids=[*WAYS, "naive"])
def test_estimates_are_those_of_stepmix(how: dict[str, Any]) -> None:
    """On data as StepMix simulates them (Bakk and Kuha); its numbers are not normal within fixed class sizes."""
    pytest.importorskip("stepmix")
    rows = three_step.simulated(500, 0.9, 0)
    model, theirs = fitted_to(rows), {"n_steps": 3, "correction": None} | how
    order = three_step.true_classes(three_step.table_of(model), 0.9)
    slopes, _ = three_step.slopes_of(et.class_regression(model, rows.items, rows.covariate, **how), order)
    np.testing.assert_allclose(slopes, three_step.of_stepmix(rows, 0.9, "covariate", theirs), atol=1e-3)
    if how.get("correction") != "ML" and "n_steps" not in how:
        # Theirs keep the class sizes of the first step where ours are estimated together with the means.
        means, _ = three_step.means_of(et.distal_outcomes(model, rows.items, rows.outcome, **how), order)
        np.testing.assert_allclose(means, three_step.of_stepmix(rows, 0.9, "outcome", theirs), atol=1e-3)


def certain() -> tuple[pd.DataFrame, et.LatentClassModel]:
    """Rows whose classes are known from their items."""
    random = np.random.default_rng(2)
    age, region = random.normal(40, 10, 300), random.choice(["north", "south"], 300)
    logits = np.column_stack([np.zeros(300), 0.05 * (age - 40), (region == "south") - 0.5])
    classes = np.array([random.choice(3, p=np.exp(own) / np.exp(own).sum()) for own in logits])
    X = pd.DataFrame({f"q{item}": np.array(list("abc"))[classes] for item in range(3)})
    X = X.assign(age=age, region=region, income=classes + random.normal(size=300))
    return X, et.LatentClassModel(3, n_init=1, random_state=0).fit(X[["q0", "q1", "q2"]])


@pytest.mark.parametrize("how", [*WAYS.values(), {"correction": None}], ids=[*WAYS, "naive"])
def test_known_classes_are_a_regression_and_means_of_groups(how: dict[str, Any]) -> None:
    from sklearn.linear_model import LogisticRegression

    X, model = certain()
    classes = np.asarray(model.predict(X[["q0", "q1", "q2"]]))
    design = np.column_stack([X.age, X.region == "south"])
    known = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(design, classes)
    theirs = np.column_stack([known.intercept_, known.coef_])
    found = et.class_regression(model, X, ["age", "region"], **how)
    np.testing.assert_allclose(found.coefficients.values, (theirs - theirs[0])[1:].ravel(), rtol=2e-3, atol=2e-3)
    assert [label for label, _ in found.coefficients.labels] == [1, 1, 1, 2, 2, 2]
    assert [term for _, term in found.coefficients.labels][:3] == ["intercept", "age", "region: south"]
    assert [test.df for test in found.tests.tests] == [2, 2]
    outcome = et.distal_outcomes(model, X, ["income", "region"], **how)
    groups = X.groupby(classes)
    np.testing.assert_allclose(outcome.estimates.values[:3], groups.income.mean(), atol=1e-3)
    spread = groups.income.std(ddof=0) / np.sqrt(groups.size())
    np.testing.assert_allclose(outcome.estimates.standard_errors[:3], spread, rtol=1e-2)
    south = (X.region == "south").groupby(classes).mean()
    np.testing.assert_allclose(outcome.estimates.values[6:], south, atol=1e-3)
    assert outcome.tests["income"].df == 2
    assert outcome.tests["region"].df == 2
    assert outcome.pairwise["income", 0, 1].df == 1
    difference = outcome.estimates.values[1] - outcome.estimates.values[0]
    variance = np.square(spread).iloc[:2].sum()
    assert outcome.pairwise["income", 0, 1].statistic == pytest.approx(difference**2 / variance, rel=2e-2)


def test_another_reference_class_changes_the_table_and_not_the_tests() -> None:
    X, model = certain()
    found = et.class_regression(model, X, ["age"])
    other = found.relative_to(2)
    assert (found.reference, other.reference) == (0, 2)
    own = dict(zip(found.coefficients.labels, found.coefficients.values, strict=True))
    moved = dict(zip(other.coefficients.labels, other.coefficients.values, strict=True))
    assert moved[0, "age"] == pytest.approx(-own[2, "age"])
    assert moved[1, "age"] == pytest.approx(own[1, "age"] - own[2, "age"])
    again = other.relative_to(0).coefficients
    np.testing.assert_allclose(again.values, found.coefficients.values)
    np.testing.assert_allclose(again.vcov(), found.coefficients.vcov(), atol=1e-12)
    assert other.coefficients.wald([1, 3]).statistic == pytest.approx(found.tests["age"].statistic)
    np.testing.assert_allclose(found.odds_ratios.values, np.exp(found.coefficients.values))
    np.testing.assert_allclose(np.log(found.odds_ratios.confint()), found.coefficients.confint())
    with pytest.raises(ParameterError, match="reference"):
        found.relative_to(3)


def test_one_step_is_the_model_with_covariates_of_its_own() -> None:
    rows = three_step.simulated(400, 0.9, 1)
    X = pd.DataFrame(rows.items, columns=[f"x{item}" for item in range(6)]).assign(age=rows.covariate[:, 0])
    model = et.LatentClassModel(3, covariates=["age"], n_init=1, random_state=0).fit(X)
    found = et.class_regression(model, X)
    np.testing.assert_allclose(found.coefficients.values, np.asarray(model.coefficients_)[1:].ravel())
    errors = model.estimates(X, statistic=lambda one: np.asarray(one.coefficients_)[1:], kind="robust")
    np.testing.assert_allclose(found.coefficients.standard_errors, errors.standard_errors)
    # By themselves, and among all parameters, whose names they have.
    part = model.estimates(X).part(table="coefficients")
    np.testing.assert_allclose(part.values, found.coefficients.values)
    assert part.labels[1] == ("coefficients", "age", "h=1")
    assert list(model.standard_errors_) == ["h", *X.columns[:6]]
    # Two steps have nearly the same information here.
    two = et.class_regression(
        et.LatentClassModel(3, n_init=1, random_state=0).fit(X.iloc[:, :6]), X, ["age"], n_steps=2
    )
    slope = np.sort(np.abs(two.coefficients.standard_errors[[1, 3]]))
    np.testing.assert_allclose(np.sort(found.coefficients.standard_errors[[1, 3]]), slope, rtol=0.4)
    assert found.errors is None
    for wrong in ({"covariates": ["age"]}, {"n_steps": 2, "covariates": ["age"]}):
        with pytest.raises(ParameterError):
            et.class_regression(model, X, **wrong)


def test_rows_weigh_and_rows_with_missing_cells_are_left_out() -> None:
    X, model = certain()
    items = X[["q0", "q1", "q2"]]
    gaps = X.assign(age=X.age.where(X.index >= 20), income=X.income.where(X.index >= 5))
    kept = et.class_regression(model, items, X[["age"]], sample_weight=(X.index >= 20).astype(float))
    found = et.class_regression(model, gaps, ["age"])
    np.testing.assert_allclose(found.coefficients.values, kept.coefficients.values, atol=1e-5)
    assert "20 rows miss a covariate" in repr(found)
    outcome = et.distal_outcomes(model, gaps, ["income", "age"])
    assert "5 rows miss income" in repr(outcome)
    assert np.isnan(outcome.estimates.vcov()[0, 3])
    twice = et.class_regression(model, pd.concat([X, X]), ["age"])
    weighted = et.class_regression(model, X, ["age"], sample_weight=np.full(300, 2.0))
    np.testing.assert_allclose(twice.coefficients.values, weighted.coefficients.values, atol=1e-6)


def test_a_covariate_that_depends_on_another_has_no_coefficient() -> None:
    X, model = certain()
    found = et.class_regression(model, X.assign(twice=2 * X.age), ["age", "twice"])
    assert np.isnan(found.coefficients.standard_errors[[2, 5]]).all()
    assert found.tests["age"].df == 2
    assert found.tests["twice"].df == 0
    assert "twice: none, as it is constant, or follows from the covariates before it" in str(found)
    other = found.relative_to(1).coefficients
    assert np.isnan(other.standard_errors[[2, 5]]).all()


def test_results_are_frames_of_the_numbers_that_they_print() -> None:
    X, model = certain()
    found = et.class_regression(model, X, ["age"])
    frame = found.to_frame()
    assert frame[["class", "term"]].to_numpy().tolist() == [list(label) for label in found.coefficients.labels]
    np.testing.assert_allclose(frame.p_value, 2 * norm.sf(abs(frame.coefficient / frame.std_error)))
    np.testing.assert_allclose(np.log(frame.lower), frame.coefficient - norm.ppf(0.975) * frame.std_error)
    outcome = et.distal_outcomes(model, X, ["income", "region"])
    assert outcome.to_frame().equals(outcome.estimates.to_frame())
    tests = outcome.pairwise.to_frame().set_index(["outcome", "class", "other class"])
    assert tuple(tests.loc[("income", 0, 2)]) == outcome.pairwise["income", 0, 2]


def test_a_first_step_that_is_not_identified_gives_no_standard_errors() -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.integers(0, 2, (80, 2)), columns=["a", "b"]).assign(z=random.normal(size=80))
    model = et.LatentClassModel(3, n_init=1, random_state=0).fit(X[["a", "b"]])
    with pytest.warns(UserWarning, match="do not identify the model of the first step"):
        found = et.class_regression(model, X, ["z"])
    assert np.isnan(found.coefficients.standard_errors).all()
    with pytest.warns(UserWarning, match="do not identify the model of the first step"):
        means = et.distal_outcomes(model, X, ["z"])
    assert np.isnan(means.estimates.standard_errors).all()
    assert np.isnan(means.tests["z"].p_value)
    naive = et.class_regression(model, X, ["z"], correction=None)
    assert (naive.coefficients.standard_errors > 0).all()


def test_an_outcome_without_rows_in_a_class_is_named() -> None:
    X, model = certain()
    classes = model.predict(X[["q0", "q1", "q2"]])
    for correction in (None, "BCH"):
        with pytest.raises(DataError, match="outcome 'income' have no weight in class 1"):
            et.distal_outcomes(
                model, X.assign(income=X.income.where(classes != 1)), ["income"], correction=correction
            )


def test_one_variable_is_a_column_or_its_cells() -> None:
    X, model = certain()
    items = X[["q0", "q1", "q2"]]
    named = et.distal_outcomes(model, X, ["income"]).estimates
    for given in (X.income, X.income.to_numpy(), X[["income"]]):
        found = et.distal_outcomes(model, items, given).estimates
        np.testing.assert_array_equal(found.values, named.values)
        assert found.labels[0][0] == ("x0" if isinstance(given, np.ndarray) else "income")


def test_results_are_tables_for_a_paper() -> None:
    X, model = certain()
    found = et.class_regression(model, X, ["age"])
    assert (
        found.to_markdown().splitlines()[0].startswith("| class | term | coefficient | std. error | p | odds ratio")
    )
    assert found.to_latex().count(r"\\") == 5
    assert "three steps, ML correction, modal assignment" in repr(found)
    np.testing.assert_allclose(np.asarray(found.errors), np.eye(3), atol=1e-4)
    outcome = et.distal_outcomes(model, X, ["income", "region"])
    assert (
        outcome.to_markdown().splitlines()[0] == "| outcome | label | class 0 | class 1 | class 2 | Wald | df | p |"
    )
    assert len(outcome.tests.to_markdown().splitlines()) == 4


def test_separated_classes_are_said_to_have_no_end() -> None:
    X, model = certain()
    with pytest.warns(UserWarning, match="coefficients have no end"):
        et.class_regression(model, X.assign(copy=X.q0), ["copy"])


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"covariates": ["aeg"]}, DataError, "'aeg'"),
        ({"covariates": "age"}, ParameterError, r"covariates=\['age'\]"),
        ({"covariates": ["q0"]}, ParameterError, "'q0' is an item"),
        ({"covariates": []}, ParameterError, "name no column"),
        ({}, ParameterError, "3 steps need covariates"),
        ({"covariates": [[1.0], [2.0]]}, DataError, "covariates have 2 rows, and X has 300"),
        ({"covariates": ["age"], "correction": "bch"}, ParameterError, "did you mean 'BCH'"),
        ({"covariates": ["age"], "assignment": "hard"}, ParameterError, "assignment is 'modal' or 'soft'"),
        ({"covariates": ["age"], "assignment": "soft"}, ParameterError, "modal"),
        ({"covariates": ["age"], "n_steps": 4}, ParameterError, "n_steps is a whole number of at most 3, not 4"),
        ({"n_steps": 1}, ParameterError, r"LatentClassModel\(covariates="),
    ],
)
def test_errors_name_what_was_wrong(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    X, model = certain()
    with pytest.raises(error, match=words):
        et.class_regression(model, X, **wrong)


def test_what_has_no_classes_is_refused() -> None:
    X, _ = certain()
    items = X[["q0", "q1", "q2"]]
    one = et.LatentClassModel(1).fit(items)
    for model, words in ((one, "one class"), (et.LatentClassModel(2), "fitted"), ("model", "fitted")):
        with pytest.raises(ParameterError, match=words):
            et.distal_outcomes(model, X, ["income"])
    own = X[["q0", "q1", "q2", "income"]]
    with pytest.raises(ParameterError, match="one class"):
        et.class_regression(et.LatentClassModel(1, covariates=["income"]).fit(own), own)
    with pytest.raises(DataError, match="'gone' has no known cell"):
        et.distal_outcomes(
            certain()[1], X.assign(gone=np.where(X.index < 1, 1.0, np.nan)), ["gone"], sample_weight=X.index
        )


def test_the_benchmark_measures_all_methods(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(three_step, "find_spec", lambda name: None)
    three_step.run(quick=True)
    lines = capsys.readouterr().out.splitlines()
    both = [line.split() for line in lines if line.startswith("0.9")]
    assert [line[2] for line in both] == [*three_step.METHODS, "one-step", *three_step.METHODS]
    biases = {line[2]: float(line[3]) for line in both[:5]}
    assert biases["naive"] < biases["ML"]
