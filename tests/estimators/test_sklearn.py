"""scikit-learn's manners: its own battery of checks, searches, copies, and work shared by processes and threads."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import eigentree as et
from eigentree.data.tables.labels import Bins

# The battery


class OfFirstColumn:
    """`predict` and `predict_proba` of the first column: scikit-learn's checks name no target, but call these."""

    def predict_proba(self, X: Any, target: Any = None) -> Any:
        self._require_fit()
        return super().predict_proba(X, self.get_feature_names_out()[0])

    def predict(self, X: Any) -> Any:
        # Their numbers: some checks compute with what is predicted, and labels of bins are text.
        return self.predict_proba(X).argmax(axis=1)


class Spectral(OfFirstColumn, et.SpectralJunctionTree):
    pass


class EM(OfFirstColumn, et.EMJunctionTree):
    pass


class OnlineEM(OfFirstColumn, et.OnlineEMJunctionTree):
    pass


# Many checks come with continuous columns, which are cut into bins.
SETTINGS: dict[str, Any] = {"structure": et.zoo.Mixture(2), "numeric": "quantiles"}
STEPS: dict[str, Any] = {"init": "random", "n_init": 1, "max_iter": 5, "pseudo_counts": 0.1, "random_state": 0}
# One check has classes that two states cannot tell apart.
WIDE = SETTINGS | {"structure": et.zoo.Mixture(6)}
CHECKED = {
    "spectral": Spectral(**SETTINGS),
    "em": EM(**SETTINGS, **STEPS),
    "latent classes": et.LatentClassModel(numeric="quantiles", **STEPS),
    "learned structure": EM(**(SETTINGS | {"structure": et.zoo.HiddenChowLiu(2)}), **STEPS),
    "online": OnlineEM(**SETTINGS, passes=1, random_state=0),
    "classifier": et.JunctionTreeClassifier(et.SpectralJunctionTree(**SETTINGS, shrinkage=1.0)),
    "class as a column": et.JunctionTreeClassifier(et.EMJunctionTree(**WIDE, **STEPS), class_as="column"),
    "imputer": et.JunctionTreeImputer(et.EMJunctionTree(**SETTINGS, **STEPS)),
}

SKIPPED = {"check_array_api_input": "runs only where SCIPY_ARRAY_API was set before scipy was imported"}
"""What scikit-learn itself leaves out; nothing is exempted by us."""


@pytest.mark.parametrize("name", CHECKED)
def test_scikit_learns_own_checks_pass(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a handful of rows of noise supports no rank
        results = check_estimator(CHECKED[name], on_fail=None, on_skip=None)
    assert len(results) > 45
    failed = {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"}
    assert not failed
    assert {each["check_name"] for each in results if each["status"] == "skipped"} <= SKIPPED.keys()


def test_tags_say_what_is_taken() -> None:
    for name, estimator in CHECKED.items():
        tags = get_tags(estimator)
        assert (tags.input_tags.allow_nan, tags.input_tags.categorical, tags.input_tags.string) == (True,) * 3
        assert not tags.input_tags.sparse
        classifies = name in ("classifier", "class as a column")
        assert tags.target_tags.required == is_classifier(estimator) == classifies
        assert (tags.classifier_tags is not None) == classifies
        assert (tags.transformer_tags is not None) == (name == "imputer")
    assert get_tags(CHECKED["em"]).estimator_type == "density_estimator"


# Searches, copies, processes and threads

TRUTH = et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), seed=1)
ROWS = np.concatenate(
    [TRUTH.sample(150, seed=0), et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), seed=7).sample(150, seed=0)]
)
ROWS = np.where(np.random.default_rng(0).random(ROWS.shape) < 0.05, -1, ROWS)
CLASSES = np.repeat(["one", "other"], 150)
MODELS: dict[str, Any] = {
    "spectral": et.SpectralJunctionTree(et.zoo.Mixture(2)),
    "em": et.EMJunctionTree(et.zoo.Mixture(2), **STEPS),
    "latent classes": et.LatentClassModel(2, **STEPS),
    "online": et.OnlineEMJunctionTree(et.zoo.Mixture(2), passes=1, random_state=0),
    "classifier": et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.Mixture(2), shrinkage=1.0)),
    "class as a column": et.JunctionTreeClassifier(
        et.EMJunctionTree(et.zoo.Mixture(3), **STEPS), class_as="column"
    ),
    "imputer": et.JunctionTreeImputer(et.EMJunctionTree(et.zoo.Mixture(2), **STEPS)),
}
FITTED = {name: clone(model).fit(ROWS, CLASSES) for name, model in MODELS.items()}


def asked(model: Any, rows: np.ndarray) -> np.ndarray:
    """The results of a fitted model for rows."""
    for question in ("predict_joint_log_proba", "transform", "score_samples"):
        if hasattr(model, question):
            return np.asarray(getattr(model, question)(rows))
    raise AssertionError(model)


@pytest.mark.parametrize("name", MODELS)
def test_copies_answer_alike(name: str) -> None:
    model, answer = FITTED[name], asked(FITTED[name], ROWS)
    twin = clone(model)
    assert str(twin.get_params()) == str(model.get_params())
    assert not twin.__sklearn_is_fitted__()
    assert_array_equal(asked(twin.fit(ROWS, CLASSES), ROWS), answer)
    assert_array_equal(asked(pickle.loads(pickle.dumps(model)), ROWS), answer)
    assert_array_equal(asked(make_pipeline("passthrough", clone(model)).fit(ROWS, CLASSES)[-1], ROWS), answer)


@pytest.mark.parametrize("name", ["spectral", "em", "latent classes", "online", "classifier", "class as a column"])
def test_rows_are_held_out_in_turn(name: str) -> None:
    model = MODELS[name]
    scores = cross_val_score(model, ROWS, CLASSES, cv=3, error_score="raise")
    assert np.isfinite(scores).all()
    if not is_classifier(model):
        assert scores.mean() > -5 * np.log(3)
        return
    assert scores.mean() > 0.6
    proba = cross_val_predict(model, ROWS, CLASSES, cv=3, method="predict_proba")
    assert_allclose(proba.sum(axis=1), 1.0)
    predicted = cross_val_predict(model, ROWS, CLASSES, cv=3)
    assert_allclose(np.mean(predicted == CLASSES), scores.mean())


@pytest.mark.parametrize("name", ["spectral", "em", "online", "classifier", "class as a column"])
def test_hidden_states_are_searched_over(name: str) -> None:
    model = clone(MODELS[name])
    key = "estimator__structure__hidden_states" if is_classifier(model) else "structure__hidden_states"
    search = GridSearchCV(model, {key: [1, 3]}, cv=2, error_score="raise").fit(ROWS, CLASSES)
    best = search.best_estimator_
    graph = (getattr(best, "estimator_", None) or best.estimators_[0] if is_classifier(model) else best).graph_
    assert graph.states["h"] == search.best_params_[key]
    given = model.estimator if is_classifier(model) else model
    assert given.structure.hidden_states in (2, 3), "what was given is as it was"


def test_a_search_reaches_parameters_two_levels_down() -> None:
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.HMM(order=1), shrinkage=1.0))
    grid = {
        "class_as": ["models", "column"],
        "estimator__shrinkage": [1.0, 5.0],
        "estimator__structure__hidden_states": [2],
    }
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(ROWS, CLASSES)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.get_params()["estimator__structure__hidden_states"] == 2


def test_work_is_shared_by_processes() -> None:
    questions = [
        getattr(model, "score_samples", None) or getattr(model, "transform", None) or model.predict_proba
        for model in FITTED.values()
    ]
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(question)(ROWS[:50]) for question in questions)
    for question, answer in zip(questions, found, strict=True):
        assert_array_equal(answer, question(ROWS[:50]))
    scores = [
        cross_val_score(MODELS["classifier"], ROWS, CLASSES, cv=2, n_jobs=jobs, error_score="raise")
        for jobs in (1, 2)
    ]
    assert_array_equal(*scores)


@pytest.mark.parametrize("name", MODELS)
def test_work_is_shared_by_threads(name: str) -> None:
    """One fitted model is asked, and clones of one are fitted, by many threads at once."""
    model, expected = FITTED[name], asked(FITTED[name], ROWS)
    parts = [slice(start, start + 60) for start in range(0, 300, 60)] * 6
    with ThreadPoolExecutor(8) as pool:
        for part, answer in zip(parts, pool.map(lambda part: asked(model, ROWS[part]), parts), strict=True):
            assert_allclose(answer, expected[part], rtol=1e-12)
    before = list(warnings.filters), warnings.showwarning
    fitted = joblib.Parallel(n_jobs=4, prefer="threads")(
        joblib.delayed(clone(MODELS[name]).fit)(ROWS, CLASSES) for _ in range(4)
    )
    assert (warnings.filters, warnings.showwarning) == before, "what users are warned of is their own affair"
    for each in fitted:
        assert_array_equal(asked(each, ROWS), expected)


# What the checks of scikit-learn led to


def test_bins_count_rows_by_weight() -> None:
    random = np.random.default_rng(0)
    for cells in (random.normal(size=200), random.integers(0, 90, 200), np.repeat(random.normal(size=50), 4)):
        weights = random.integers(0, 4, 200)
        assert Bins.of(cells, weights) == Bins.of(np.repeat(cells, weights))
        assert Bins.of(cells, np.full(200, 0.25)) == Bins.of(cells) == Bins.of(random.permutation(cells))
        assert Bins.of(cells, np.zeros(200)) == Bins.of(cells), "that no row counts is told elsewhere"
    frame = pd.DataFrame({"a": random.normal(size=200), "b": random.integers(0, 2, 200)})
    frame.loc[3, "a"] = None
    for estimator in (et.SpectralJunctionTree(**SETTINGS), et.EMJunctionTree(**SETTINGS, **STEPS)):
        weighted = estimator.fit(frame, sample_weight=weights).columns_
        assert weighted == estimator.fit(frame.loc[np.repeat(np.arange(200), weights)]).columns_
        assert weighted != estimator.fit(frame).columns_
    statistics = et.Statistics.of(frame, et.zoo.Mixture(2), sample_weight=weights, numeric="quantiles")
    assert statistics.columns == weighted


def test_a_column_of_classes_is_one_class_per_row() -> None:
    model, plain = clone(MODELS["classifier"]), FITTED["classifier"]
    for labels in (CLASSES[:, None], pd.DataFrame({"kind": CLASSES})):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
            model.fit(ROWS, labels)
        assert_array_equal(model.predict_proba(ROWS), plain.predict_proba(ROWS))
    with pytest.raises(et.DataError, match=r"y needs one label per row, shape \(300,\), not \(300, 2\)"):
        model.fit(ROWS, np.column_stack([CLASSES, CLASSES]))


def test_measurements_are_no_classes() -> None:
    model = clone(MODELS["classifier"])
    with pytest.raises(et.DataError, match="y looks continuous: 300 different numbers in 300 rows; a classifier"):
        model.fit(ROWS, np.random.default_rng(0).normal(size=300))
    halves = np.where(CLASSES == "one", 0.5, 1.5)
    assert_array_equal(model.fit(ROWS, halves).classes_, [0.5, 1.5])


@pytest.mark.parametrize("class_as", ["models", "column"])
def test_a_classifier_names_its_columns(class_as: str) -> None:
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.Mixture(2), shrinkage=1.0), class_as)
    assert not hasattr(model, "n_features_in_")
    model.fit(pd.DataFrame(ROWS, columns=list("abcde")), CLASSES)
    assert list(model.feature_names_in_) == list("abcde")
    assert model.n_features_in_ == 5
    assert not hasattr(model.fit(ROWS, CLASSES), "feature_names_in_")
