"""Conditional training: the likelihood of classes given rows, its gradient, and what becomes of a classifier."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from em_problems import numerical_slope
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import OneHotEncoder

import eigentree as et
from eigentree.data.tables.rows import Rows
from eigentree.em.conditional.class_network import ClassNetwork
from eigentree.em.conditional.conditional_fit import ClassRows
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.mixed.mixed_objective import MixedLayout
from eigentree.em.mixed.mixed_rows import MixedRows
from eigentree.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

    from eigentree.em.conditional.conditional_fit import ConditionalObjective

FAST: dict[str, Any] = {"n_init": 1, "random_state": 0}
NAIVE = et.EMJunctionTree(et.zoo.Mixture(1), **FAST)
MIXTURE = et.EMJunctionTree(et.zoo.Mixture(2), **FAST)


def table(
    rows: int = 120, holes: float = 0.0, numbers: bool = False, seed: int = 0
) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose columns depend on each other as well as on the class, which naive Bayes believes too much."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, rows)
    hidden = (y + (random.random(rows) < 0.4)) % 3
    columns: dict[str, Any] = {}
    for place in range(4):
        codes = np.where(random.random(rows) < 0.7, hidden, random.integers(0, 3, rows))
        columns[f"q{place}"] = np.array(["low", "mid", "top"], object)[codes]
        columns[f"q{place}"][random.random(rows) < holes] = None
    if numbers:
        columns["size"] = hidden + random.normal(size=rows)
        columns["width"] = columns["size"] + random.normal(size=rows) * (1 + y)
        columns["size"][random.random(rows) < holes] = np.nan
        columns["height"] = random.gamma(1.0 + y)
    return pd.DataFrame(columns), np.array(["ash", "birch", "cedar"])[y]


def trained(estimator: Any, X: Any, y: Any, **how: Any) -> et.JunctionTreeClassifier:
    return et.JunctionTreeClassifier(estimator, **({"training": "conditional"} | how)).fit(X, y)


def conditional(model: et.JunctionTreeClassifier, X: Any, y: np.ndarray) -> float:
    """The conditional log-likelihood of the classes that are known."""
    known = np.array([label is not None for label in y])
    codes = np.searchsorted(model.classes_, y[known].astype(str))
    return float(model.predict_log_proba(X[known])[np.arange(known.sum()), codes].sum())


# The objective


def objective_of(
    model: et.JunctionTreeClassifier, X: Any, y: np.ndarray, pseudo_counts: float = 0.1
) -> ConditionalObjective:
    """The conditional objective of a generative classifier with one model per class."""
    whole = ClassNetwork.of([each.network_ for each in model.estimators_])
    own, layout = Rows.of(X, model.columns_), whole.layout
    codes = np.asfortranarray(np.column_stack([np.searchsorted(model.classes_, y), own.encode()]))
    rows: Any
    if isinstance(layout, MixedLayout):
        rows = MixedRows.of(codes, own.values(), np.ones(len(y))).distinct()
    else:
        rows = DistinctRows.of(
            codes, [layout.graph.states[name] for name in layout.graph.observed], np.ones(len(y))
        )
    missing = columns_with_missing(rows.codes, layout.graph)
    read = ClassRows(rows, pseudo_counts, layout, model.columns_.numbers, whole.target, missing, 1)
    return read.conditional(rows, whole.vector(model.class_prior_))


@pytest.mark.parametrize(
    ("emissions", "numbers"),
    [
        ("auto", False),
        ({("size", "width"): "full", "height": "gaussian"}, True),
        ({("size", "width"): "tied", "height": "lognormal"}, True),
        ({"size": "student", "width": "normal_scores", "height": "gamma"}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_the_gradient_equals_numerical_differences(emissions: Any, numbers: bool, weight: float) -> None:
    X, y = table(30, holes=0.1, numbers=numbers)
    # So few iterations that emissions of few rows stay wide.
    estimator = et.EMJunctionTree(et.zoo.Mixture(2), emissions=emissions, max_iter=4, tol=1.0, **FAST)
    model = trained(estimator, X, y, training="generative")
    objective = replace(objective_of(model, X, y), conditional_weight=weight, alpha=0.3)
    start = np.zeros(objective.coordinates.size)
    assert_allclose(objective.log_likelihood(start), conditional(model, X, y), rtol=1e-9)
    random = np.random.default_rng(1)
    at = 0.2 * random.normal(size=len(start))
    _, gradient = objective.value_and_gradient(at)
    for _ in range(3):
        along = random.normal(size=len(at))
        along *= 1e-3 / np.linalg.norm(along)
        slope = numerical_slope(lambda here: objective.value_and_gradient(here)[0], at, along)
        assert_allclose(gradient @ along, slope, rtol=1e-6, atol=1e-9)


def test_the_conditional_likelihood_has_no_prior() -> None:
    """That of the class does not depend on whether the class is left out."""
    X, y = table()
    X, y = X[y != "ash"], y[y != "ash"]
    X, y = pd.concat([X, X[y == "birch"]]), np.append(y, y[y == "birch"])
    model = trained(NAIVE, X, y, training="generative")
    objective = objective_of(model, X, y, pseudo_counts=3.0)
    value, _ = objective.value_and_gradient(np.zeros(objective.coordinates.size))
    assert_allclose(value, conditional(model, X, y), rtol=1e-9)


@pytest.mark.parametrize("class_as", ["models", "column"])
@pytest.mark.parametrize("numbers", [False, True], ids=["categories", "numbers"])
def test_classes_of_training_rows_are_never_less_likely_than_generatively(class_as: str, numbers: bool) -> None:
    X, y = table(holes=0.1, numbers=numbers)
    generative = trained(MIXTURE, X, y, class_as=class_as, training="generative")
    model = trained(MIXTURE, X, y, class_as=class_as, alpha=3.0)
    assert conditional(model, X, y) > conditional(generative, X, y) + 0.1
    assert model.alpha_ == 3.0
    assert model.tried_ == {}


def test_hidden_states_of_a_class_learn_what_naive_bayes_cannot() -> None:
    """An exclusive or of two columns."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 2, (300, 2))
    X, y = pd.DataFrame(np.array(["no", "yes"], object)[codes], columns=["a", "b"]), codes.sum(axis=1) % 2
    for estimator, right in ((NAIVE, 0.6), (MIXTURE, 1.0)):
        model = trained(estimator, X, y, alpha=0.1)
        assert abs(np.mean(model.predict(X) == y) - right) <= 0.1


def test_what_few_rows_of_a_class_show_is_believed_less_than_generatively() -> None:
    """A label of two rows of one class, in three columns: generatively it counts thrice, and is nearly proof."""
    X, y = table(120)
    rare = np.flatnonzero(y == "ash")[:2]
    for name in ("q0", "q1", "q2"):
        X.loc[rare, name] = "rare"
    row = pd.DataFrame([dict.fromkeys(X.columns, None) | dict.fromkeys(("q0", "q1", "q2"), "rare")])
    generative, model = (trained(NAIVE, X, y, training=how, alpha=3.0) for how in ("generative", "conditional"))
    doubts = [1.0 - each.predict_proba(row)[0, 0] for each in (generative, model)]
    assert doubts[0] < 0.002
    assert 3 * doubts[0] < doubts[1] < 0.5


def test_weaker_penalties_fit_training_rows_better() -> None:
    X, y = table()
    fits = [conditional(trained(MIXTURE, X, y, alpha=alpha), X, y) for alpha in (100, 10, 1, 0.1)]
    assert sorted(fits) == fits
    assert fits[-1] > fits[0] + 1


def test_naive_bayes_becomes_multinomial_logistic_regression() -> None:
    X, y = table(400)
    # A last penalty of nearly nothing, as logistic regression has one that is nothing.
    model = trained(NAIVE, X, y, alpha=0)
    rows = OneHotEncoder().fit_transform(X)
    logistic = LogisticRegression(C=np.inf, max_iter=5_000, tol=1e-10).fit(rows, y)
    expected = logistic.predict_proba(rows)
    assert abs(log_loss(y, model.predict_proba(X)) - log_loss(y, expected)) < 1e-4
    assert_allclose(model.predict_proba(X), expected, atol=0.01)


def parents_of_columns(X: pd.DataFrame) -> et.EMJunctionTree:
    """Naive Bayes in which the class is a column, the parent of all others."""
    graph = et.LatentGraph({**dict.fromkeys(X.columns, 3), "class": 3}, [("class", name) for name in X.columns])
    return et.EMJunctionTree(graph, pseudo_counts=0.1, **FAST)


def test_both_forms_of_naive_bayes_become_the_same() -> None:
    """One model per class, or the class as the one parent of all columns."""
    X, y = table()
    column = trained(parents_of_columns(X), X, y, class_as="column", alpha=1.0)
    models = trained(clone(NAIVE).set_params(pseudo_counts=0.1), X, y, alpha=1.0)
    assert_allclose(column.predict_proba(X), models.predict_proba(X), atol=5e-3)


@pytest.mark.parametrize("training", ["generative", 0, 0.0])
def test_weight_zero_is_generative_training(training: Any) -> None:
    X, y = table()
    plain = et.JunctionTreeClassifier(MIXTURE).fit(X, y)
    model = trained(MIXTURE, X, y, training=training)
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert not hasattr(model, "alpha_")


def test_an_infinite_penalty_is_generative_training() -> None:
    X, y = table(numbers=True)
    plain, model = trained(MIXTURE, X, y, training="generative"), trained(MIXTURE, X, y, alpha=np.inf)
    assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-9)


def test_a_hybrid_is_between_both_trainings() -> None:
    X, y = table()

    def joint(model: et.JunctionTreeClassifier) -> float:
        codes = np.searchsorted(model.classes_, y)
        return float(model.predict_joint_log_proba(X)[np.arange(len(y)), codes].sum())

    fits = [trained(NAIVE, X, y, training=weight, alpha=0.01) for weight in (0.0, 0.5, 0.9, 1.0)]
    assert sorted(conditional(fit, X, y) for fit in fits) == [conditional(fit, X, y) for fit in fits]
    assert sorted((joint(fit) for fit in fits), reverse=True) == [joint(fit) for fit in fits]


# What must not matter


@pytest.mark.parametrize("class_as", ["models", "column"])
def test_names_of_classes_order_of_rows_and_of_columns_do_not_matter(class_as: str) -> None:
    X, y = table(holes=0.1)
    order = np.random.default_rng(2).permutation(len(y))
    how = {"class_as": class_as, "alpha": 1.0}
    naive = NAIVE if class_as == "models" else parents_of_columns(X)
    one = trained(naive, X, y, **how)
    other = trained(naive, X.iloc[order, ::-1], np.char.add("z ", y[order]), **how)
    assert other.classes_.tolist() == ["z ash", "z birch", "z cedar"]
    assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=5e-3)


def test_a_weight_is_so_many_equal_rows() -> None:
    X, y = table(120, numbers=True)
    weights = np.random.default_rng(0).integers(1, 3, len(y))
    model = et.JunctionTreeClassifier(NAIVE, training="conditional", alpha=1.0)
    one = clone(model).fit(X, y, sample_weight=weights).predict_proba(X)
    other = clone(model).fit(X.loc[X.index.repeat(weights)], np.repeat(y, weights)).predict_proba(X)
    assert_allclose(one, other, atol=1e-6)


def test_missing_cells_are_marginalised_out() -> None:
    """A column of which nothing is known changes nothing; where some cells are, they are summed over."""
    X, y = table(holes=0.15)
    model = trained(MIXTURE, X, y, alpha=1.0)
    row = X.iloc[:1].assign(q1=None)
    each = [model.predict_joint_log_proba(row.assign(q1=label)) for label in ("low", "mid", "top")]
    assert_allclose(model.predict_joint_log_proba(row), np.logaddexp.reduce(each), rtol=1e-9)


def test_a_hybrid_learns_from_rows_without_a_class() -> None:
    X, y = table(180)
    labels = y.astype(object)
    labels[60:] = None
    with pytest.warns(UserWarning, match="have no class"):
        model = trained(MIXTURE, X, labels, class_as="column", training=0.8)
    assert np.mean(model.predict(X) == y) > 0.45
    assert set(model.tried_) >= {np.inf, 100.0}


# The penalty


@pytest.mark.parametrize("numbers", [False, True], ids=["categories", "numbers"])
def test_the_penalty_is_chosen_on_held_out_rows(numbers: bool) -> None:
    X, y = table(150, numbers=numbers)
    tests, truth = table(2_000, numbers=numbers, seed=1)
    model = trained(NAIVE, X, y, random_state=0)
    assert model.tried_[model.alpha_] == max(model.tried_.values()) > model.tried_[np.inf]
    generative = trained(NAIVE, X, y, training="generative")
    losses = [log_loss(truth, each.predict_proba(tests)) for each in (model, generative)]
    assert losses[0] < losses[1] - 0.02
    # The held-out likelihood of 150 rows is near to that of new rows: its standard error is about 0.07.
    assert abs(losses[0] + model.tried_[model.alpha_]) < 0.2


def test_held_out_rows_may_have_cells_that_a_fold_never_saw() -> None:
    """Without pseudo-counts they would be impossible, and no penalty could be chosen."""
    X, y = table()
    X.loc[0, "q0"] = "rare"
    model = trained(et.LatentClassModel(1, random_state=0), X, y, random_state=0)
    assert np.isfinite(list(model.tried_.values())).all()
    assert model.tried_[model.alpha_] > model.tried_[np.inf]


def test_generative_training_is_kept_where_it_predicts_best() -> None:
    """Classes that tell nothing: whatever is learned from them is chance."""
    X, _ = table(60)
    model = trained(MIXTURE, X, np.random.default_rng(0).permutation(60) % 2, random_state=0)
    assert model.alpha_ >= 10


def test_probabilities_are_calibrated_by_the_training() -> None:
    """Naive Bayes is far too sure where columns repeat each other; nothing is left to calibrate after training."""
    X, y = table(150)
    X = pd.concat([X, X.add_suffix(" again"), X.add_suffix(" thrice")], axis=1)
    tests, truth = table(1_000, seed=1)
    tests = pd.concat([tests, tests.add_suffix(" again"), tests.add_suffix(" thrice")], axis=1)
    losses = []
    for training in ("generative", "conditional"):
        model = et.JunctionTreeClassifier(NAIVE, training=training, random_state=0)
        calibrated = CalibratedClassifierCV(model, cv=3).fit(X, y)
        losses.append([log_loss(truth, each.predict_proba(tests)) for each in (model.fit(X, y), calibrated)])
    assert losses[0][0] > losses[0][1] + 0.2
    assert losses[1][0] < losses[1][1] + 0.02
    assert losses[1][0] < losses[0][1]


# The estimator


@pytest.mark.parametrize("class_as", ["models", "column"])
@pytest.mark.parametrize("numbers", [False, True], ids=["categories", "numbers"])
def test_a_trained_classifier_is_saved_cloned_and_pickled(class_as: str, numbers: bool, tmp_path: Path) -> None:
    X, y = table(80, numbers=numbers)
    model = trained(MIXTURE, X, y, class_as=class_as, training=0.9, alpha="auto")
    model.save(tmp_path / "trees.eigentree")
    for other in (et.load(tmp_path / "trees.eigentree"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        assert (other.alpha_, other.tried_) == (model.alpha_, model.tried_)
        assert other.get_params()["training"] == 0.9
    assert clone(model).get_params()["alpha"] == "auto"


def test_the_fitted_models_of_generative_training_stay_as_they_are() -> None:
    X, y = table()
    model = trained(MIXTURE, X, y, alpha=1.0)
    for own in model.estimators_:
        assert_allclose(own.network_.tables["q0"].sum(axis=1), 1.0)
        assert own.columns_ == model.columns_
    assert_allclose(model.class_prior_.sum(), 1.0)


def test_few_iterations_are_warned_of() -> None:
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        trained(et.EMJunctionTree(et.zoo.Mixture(1), max_iter=2, **FAST), X, y, alpha=0.01)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"training": "discriminative"}, "training is 'generative', 'conditional', or the weight"),
        ({"training": 1.5}, "from 0 to 1, not 1.5"),
        ({"training": None}, "from 0 to 1, not None"),
        ({"alpha": -1}, "alpha is 'auto' or a number of at least 0, not -1"),
        ({"alpha": "some"}, "alpha is 'auto' or a number of at least 0, not 'some'"),
        ({"estimator": et.SpectralJunctionTree(et.zoo.Mixture(2))}, "SpectralJunctionTree is trained with"),
        ({"estimator": et.EMJunctionTree("auto", **FAST)}, "needs one directed graph for all classes"),
        ({"estimator": et.EMJunctionTree(et.zoo.Mixture(2), equal=[("q0", "q1")])}, "leave fixed and equal"),
    ],
    ids=str,
)
def test_what_cannot_be_trained_is_refused(how: dict[str, Any], message: str) -> None:
    X, y = table(60)
    with pytest.raises(ParameterError, match=message):
        trained(how.pop("estimator", NAIVE), X, y, **how)
