"""The classifier: Bayes' rule over one model a class, and a shrinkage that is chosen by classification accuracy."""

from __future__ import annotations

import math
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score

import eigentree as et
from benchmarks.paper.baselines import IndependentColumns
from eigentree.counting.holdout_sample import SAMPLE_ROWS, RowSample, bounded
from eigentree.counting.statistics import Statistics
from eigentree.planning.view_plan import ViewPlan
from eigentree.spectral.learn.shrinkage import CLASS_FOLDS, CLASS_GRID, LEVEL, choose_class_shrinkage

GRAPH = et.zoo.hmm(6, 1, 2, 3)
NAMES = np.array(["acceptor", "donor", "neither"])


def labelled(
    *counts: int, seed: int = 0, graph: et.LatentGraph = GRAPH, holes: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one random network a class, shuffled, and the numbers of their classes."""
    rows = [
        et.LatentNetwork.random(graph, seed=10 * seed + label).sample(count, seed=label)
        for label, count in enumerate(counts)
    ]
    random = np.random.default_rng(seed)
    order = random.permutation(sum(counts))
    X = np.concatenate(rows)[order]
    X[random.random(X.shape) < holes] = -1
    return X, np.repeat(np.arange(len(counts)), counts)[order]


def classifier(graph: object = GRAPH, **recipe: object) -> et.JunctionTreeClassifier:
    return et.JunctionTreeClassifier(et.SpectralJunctionTree(graph, **recipe))


def quietly(action):
    """The outcome of an action that may warn of rows floored or too few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return action()


# Bayes' rule

ESTIMATORS = {
    "spectral": et.SpectralJunctionTree(GRAPH, shrinkage=2.5),
    "independent": et.SpectralJunctionTree(GRAPH, shrinkage=math.inf),
    "em": et.EMJunctionTree(GRAPH, init="random", n_init=1, max_iter=20, random_state=0),
    "online": et.OnlineEMJunctionTree(GRAPH, passes=2, random_state=0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_class_is_the_argmax_of_separate_models_and_log_shares(name: str, weighted: bool) -> None:
    X, y = labelled(300, 200, 250, holes=0.05)
    tests, _ = labelled(100, 100, 100, seed=1, holes=0.05)
    weights = np.random.default_rng(2).integers(0, 4, len(y)) if weighted else np.ones(len(y), int)
    model = et.JunctionTreeClassifier(ESTIMATORS[name])
    quietly(lambda: model.fit(X, NAMES[y], sample_weight=weights if weighted else None))
    expected = np.empty((len(tests), 3))
    for label in range(3):
        own = clone(ESTIMATORS[name]).fit(X[y == label], sample_weight=weights[y == label])
        share = weights[y == label].sum() / weights.sum()
        assert_allclose(model.class_prior_[label], share)
        expected[:, label] = quietly(lambda own=own: own.score_samples(tests)) + math.log(share)
    assert_array_equal(model.classes_, NAMES)
    assert_allclose(quietly(lambda: model.predict_joint_log_proba(tests)), expected)
    assert_array_equal(quietly(lambda: model.predict(tests)), NAMES[expected.argmax(axis=1)])
    log_proba = quietly(lambda: model.predict_log_proba(tests))
    assert_allclose(log_proba, expected - logsumexp(expected, axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("recipe", [{}, {"shrinkage": 0}, {"shrinkage": 3}], ids=str)
def test_probabilities_are_distributions(recipe: dict[str, object]) -> None:
    X, y = labelled(60, 30, holes=0.1)
    model = quietly(lambda: classifier(**recipe).fit(X, y))
    proba = quietly(lambda: model.predict_proba(X))
    assert proba.shape == (90, 2)
    assert (proba >= 0).all()
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_allclose(np.log(proba), quietly(lambda: model.predict_log_proba(X)), atol=1e-9)
    assert quietly(lambda: model.score(X, y)) == np.mean(model.classes_[proba.argmax(axis=1)] == y)


def test_infinite_shrinkage_is_naive_bayes() -> None:
    X, y = labelled(40, 25, 60)
    tests, _ = labelled(50, 50, seed=3, holes=0.1)
    model = classifier(shrinkage=math.inf).fit(X, y)
    for label in range(3):
        expected = IndependentColumns([3] * 6, X[y == label]).score_samples(tests) + np.log(np.mean(y == label))
        assert_allclose(model.predict_joint_log_proba(tests)[:, label], expected)


def test_a_row_without_any_known_cell_gets_the_prior() -> None:
    X, y = labelled(30, 70)
    assert_allclose(classifier().fit(X, y).predict_proba(np.full((1, 6), -1)), [[0.3, 0.7]])


def test_a_row_that_is_impossible_in_all_classes_gets_the_prior() -> None:
    X, y = labelled(100, 50)
    estimator = et.EMJunctionTree(GRAPH, init="random", n_init=1, pseudo_counts=0, random_state=0)
    model = et.JunctionTreeClassifier(estimator).fit(X % 2, y)
    unseen = np.full((1, 6), 2)
    with pytest.warns(RuntimeWarning, match="class [01]: 1 of 1 rows have probability zero"):
        assert_array_equal(model.predict_joint_log_proba(unseen), [[-np.inf, -np.inf]])
    assert_allclose(quietly(lambda: model.predict_proba(unseen)), [[2 / 3, 1 / 3]])
    assert quietly(lambda: model.predict(unseen)).tolist() == [0]


# What must not matter


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 999), st.sampled_from([1, 100]))
def test_the_order_of_rows_changes_no_bit(seed: int, times: int) -> None:
    """Also where there are more different rows than are held out."""
    X, y = labelled(50 * times, 40 * times, 60 * times, seed=seed % 7, holes=0.03)
    assert (len(np.unique(np.column_stack([X, y]), axis=0)) > SAMPLE_ROWS) == (times == 100)
    order = np.random.default_rng(seed).permutation(len(y))
    one = quietly(lambda: classifier().fit(X, y))
    other = quietly(lambda: classifier().fit(X[order], y[order]))
    assert one.shrinkage_ == other.shrinkage_
    assert one.tried_ == other.tried_
    assert_array_equal(
        quietly(lambda: one.predict_joint_log_proba(X)), quietly(lambda: other.predict_joint_log_proba(X))
    )


def test_other_labels_in_another_order_change_the_names_only() -> None:
    X, y = labelled(150, 100, 120, holes=0.03)
    one = quietly(lambda: classifier().fit(X, y))
    backwards = np.array([2, 1, 0])
    other = quietly(lambda: classifier().fit(X, backwards[y]))
    assert one.shrinkage_ == other.shrinkage_
    assert_allclose(list(one.tried_.values()), list(other.tried_.values()))
    proba = quietly(lambda: one.predict_proba(X))
    assert_allclose(quietly(lambda: other.predict_proba(X)), proba[:, ::-1], atol=1e-9)


@pytest.mark.parametrize(
    "names",
    [[3, 7, 11], ["b", "bb", "c"], [0.5, 1.5, 2.5], [b"x", b"y", b"z"], [(1,), (2,), (3,)]],
    ids=["integers", "texts", "floats", "bytes", "tuples"],
)
def test_labels_are_of_any_type(names: list[object]) -> None:
    X, y = labelled(50, 40, 60)
    labels = np.empty(3, object)
    labels[:] = names
    plain = quietly(lambda: classifier(shrinkage=5).fit(X, y).predict(X))
    model = quietly(lambda: classifier(shrinkage=5).fit(X, labels[y]))
    assert model.classes_.tolist() == names
    assert_array_equal(quietly(lambda: model.predict(X)), labels[plain])


@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series, pd.Categorical])
def test_labels_come_in_any_container(kind) -> None:
    X, y = labelled(50, 40)
    model = classifier(shrinkage=5).fit(X, kind(NAMES[y].tolist()))
    assert model.classes_.tolist() == ["acceptor", "donor"]
    assert_allclose(model.class_prior_, [5 / 9, 4 / 9])


def test_weights_are_repeated_rows() -> None:
    X, y = labelled(120, 90)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = quietly(lambda: classifier().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)))
    for given_weights in (weights, weights.astype(float)):
        model = quietly(lambda given_weights=given_weights: classifier().fit(X, y, sample_weight=given_weights))
        assert model.shrinkage_ == repeated.shrinkage_
        assert_allclose(model.class_prior_, repeated.class_prior_)
        assert_allclose(
            quietly(lambda model=model: model.predict_joint_log_proba(X)),
            quietly(lambda: repeated.predict_joint_log_proba(X)),
        )


def test_a_score_is_the_share_of_rows_by_weight() -> None:
    X, y = labelled(120, 90)
    model = quietly(lambda: classifier(shrinkage=2.5).fit(X, y))
    right = quietly(lambda: model.predict(X)) == y
    weights = np.where(right, 3, 1)
    assert 0 < right.sum() < len(y)
    assert_allclose(quietly(lambda: model.score(X, y)), right.mean())
    expected = weights[right].sum() / weights.sum()
    assert_allclose(quietly(lambda: model.score(X, y, sample_weight=weights)), expected)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_read_by_the_names_of_columns(frame) -> None:
    X, y = labelled(80, 60)
    columns = {name: X[:, column] for column, name in enumerate(GRAPH.observed)}
    backwards = frame(dict(reversed(columns.items())))
    plain = quietly(lambda: classifier().fit(X, y))
    model = quietly(lambda: classifier().fit(backwards, y))
    assert_array_equal(
        quietly(lambda: model.predict_log_proba(backwards)), quietly(lambda: plain.predict_log_proba(X))
    )


def test_missing_cells_are_marked_in_any_way() -> None:
    X, y = labelled(80, 60, holes=0.1)
    with_nan = np.where(X < 0, np.nan, X)
    plain, other = (quietly(lambda rows=rows: classifier().fit(rows, y)) for rows in (X, with_nan))
    assert_array_equal(
        quietly(lambda: plain.predict_log_proba(X)), quietly(lambda: other.predict_log_proba(with_nan))
    )


def test_columns_may_have_more_states_than_a_small_integer_holds() -> None:
    graph = et.zoo.mixture(3, 2, [200, 2, 128])
    X, y = labelled(400, 300, graph=graph, holes=0.05)
    model = quietly(lambda: classifier(graph, shrinkage=20).fit(X, y))
    own = quietly(lambda: et.SpectralJunctionTree(graph, shrinkage=20).fit(X[y == 1]))
    expected = quietly(lambda: own.score_samples(X)) + math.log(3 / 7)
    assert_allclose(quietly(lambda: model.predict_joint_log_proba(X))[:, 1], expected)
    em = et.EMJunctionTree(graph, n_init=1, max_iter=3, random_state=0, pseudo_counts=1.0)
    learned = et.JunctionTreeClassifier(em).fit(X, y)
    expected = clone(em).fit(X[y == 1]).score_samples(X) + math.log(3 / 7)
    assert_allclose(learned.predict_joint_log_proba(X)[:, 1], expected)


def test_a_template_is_built_from_the_rows_of_all_classes() -> None:
    X, y = labelled(80, 60)
    X[y == 0] %= 2
    model = quietly(lambda: classifier(et.zoo.HMM(order=1, hidden_states=2)).fit(X, y))
    assert all(fitted.graph_.states["x0"] == 3 for fitted in model.estimators_)
    assert np.isfinite(quietly(lambda: model.predict_log_proba(X))).all()


# The choice of shrinkage


def chosen(X: np.ndarray, y: np.ndarray, **settings: int) -> tuple[float, dict[float, float], list[RowSample]]:
    plan = ViewPlan.build(GRAPH)
    statistics = [Statistics.empty(plan).update(X[y == label]) for label in np.unique(y)]
    return *choose_class_shrinkage(plan, statistics, "variance", **settings), [each.sample for each in statistics]


def held_out(X: np.ndarray, y: np.ndarray, kappa: float, samples: list[RowSample]) -> tuple[np.ndarray, np.ndarray]:
    """Log P(class | row) of each held-out row, by classifiers fitted afresh to the other folds, and weights."""
    values, weights = [], []
    for number in range(CLASS_FOLDS):
        held = [sample.fold(number, CLASS_FOLDS) for sample in samples]
        others = [
            (label, *sample.fold(k, CLASS_FOLDS))
            for label, sample in enumerate(samples)
            for k in range(CLASS_FOLDS)
            if k != number
        ]
        model = classifier(shrinkage=kappa).fit(
            np.concatenate([codes for _, codes, _ in others]).astype(int),
            np.concatenate([np.full(len(codes), label) for label, codes, _ in others]),
            sample_weight=np.concatenate([dealt for *_, dealt in others]),
        )
        for label, (codes, dealt) in enumerate(held):
            values.append(quietly(lambda codes=codes, m=model: m.predict_log_proba(codes.astype(int)))[:, label])
            weights.append(dealt)
    return np.concatenate(values), np.concatenate(weights)


def test_what_is_tried_is_the_held_out_conditional_likelihood() -> None:
    X, y = labelled(150, 90, 60)
    _, tried, samples = chosen(X, y)
    assert tuple(tried) == CLASS_GRID
    for kappa in (0.8, 4.8, math.inf):
        values, weights = held_out(X, y, kappa, samples)
        assert weights.sum() == len(y)
        assert_allclose(tried[kappa], values @ weights / len(y))


def test_the_choice_is_the_largest_that_is_as_good_as_the_best() -> None:
    seen = set()
    for seed in range(6):
        X, y = labelled(60, 50, seed=seed)
        kappa, tried, samples = chosen(X, y)
        best = max(tried, key=tried.__getitem__)
        top, weights = held_out(X, y, best, samples)
        within = []
        for other in CLASS_GRID:
            behind = np.repeat(top - held_out(X, y, other, samples)[0], weights)
            if behind.mean() <= LEVEL * behind.std() / math.sqrt(len(behind)) + 1e-12:
                within.append(other)
        assert kappa == max(within)
        seen.add((kappa, best))
    assert any(kappa > best for kappa, best in seen), "the rule must matter somewhere"


def test_the_classifier_takes_the_shrinkage_that_is_chosen() -> None:
    X, y = labelled(150, 90, 60)
    kappa, tried, _ = chosen(X, y)
    model = quietly(lambda: classifier().fit(X, y))
    assert (model.shrinkage_, model.tried_) == (kappa, tried)
    given_kappa = quietly(lambda: classifier(shrinkage=kappa).fit(X, y))
    assert given_kappa.shrinkage_ == kappa
    assert given_kappa.tried_ == {}
    assert_array_equal(
        quietly(lambda: model.predict_joint_log_proba(X)), quietly(lambda: given_kappa.predict_joint_log_proba(X))
    )


def test_classes_that_differ_in_dependence_only_are_distinguished() -> None:
    """Equal marginals: naive Bayes can only guess."""
    random = np.random.default_rng(0)
    mixed = np.where(
        random.random((2_000, 6)) < 0.6, random.integers(0, 2, (2_000, 1)), random.integers(0, 3, (2_000, 6))
    )
    apart = random.permuted(mixed, axis=0)
    X, tests = np.concatenate([mixed[:1_500], apart[:1_500]]), np.concatenate([mixed[1_500:], apart[1_500:]])
    y, truth = np.repeat([0, 1], 1_500), np.repeat([0, 1], 500)
    model = classifier().fit(X, y)
    accuracy = {
        kappa: quietly(lambda k=kappa: classifier(shrinkage=k).fit(X, y).score(tests, truth))
        for kappa in CLASS_GRID
    }
    assert accuracy[math.inf] < 0.6
    assert model.shrinkage_ < 50
    assert accuracy[model.shrinkage_] > max(0.7, max(accuracy.values()) - 0.03)


def test_classes_of_independent_columns_want_infinite_shrinkage() -> None:
    random = np.random.default_rng(0)
    X = (random.random((400, 6)) < np.repeat([[0.35], [0.65]], 200, axis=0)).astype(int)
    assert classifier().fit(X, np.repeat([0, 1], 200)).shrinkage_ >= 50


def test_a_bound_on_held_out_rows_keeps_the_shares_of_classes() -> None:
    X, y = labelled(3_000, 1_000, graph=et.zoo.hmm(6, 1, 2, 9))
    samples = [
        RowSample.empty(6).update(np.asfortranarray(X[y == label].astype(np.uint8)), None) for label in (0, 1)
    ]
    sizes = [len(sample.hashes) for sample in bounded(samples)]
    assert SAMPLE_ROWS - 10 <= sum(sizes) <= SAMPLE_ROWS + 10
    assert_allclose(sizes[0] / sum(sizes), 0.75, atol=0.05)


def test_large_tables_are_learned_from_with_one_fold_held_out() -> None:
    X, y = labelled(150, 90, 60)
    _, every, _ = chosen(X, y)
    _, first, samples = chosen(X, y, large_cells=0)
    assert first != every
    held = [sample.fold(0, CLASS_FOLDS) for sample in samples]
    values, weights = held_out(X, y, 4.8, samples)
    rows = sum(len(codes) for codes, _ in held)
    assert_allclose(first[4.8], values[:rows] @ weights[:rows] / weights[:rows].sum())


@pytest.mark.parametrize("counts", [(1, 1), (1, 30), (2, 3)])
def test_a_handful_of_rows_is_enough(counts: tuple[int, int]) -> None:
    X, y = labelled(*counts)
    model = quietly(lambda: classifier().fit(X, y))
    assert model.shrinkage_ in CLASS_GRID
    assert_allclose(quietly(lambda: model.predict_proba(X)).sum(axis=1), 1.0)


# Conventions


def test_it_is_a_classifier_that_is_cloned_set_pickled_and_cross_validated() -> None:
    X, y = labelled(80, 60)
    model = classifier(shrinkage=4)
    assert is_classifier(model)
    assert model.get_params()["estimator__shrinkage"] == 4
    copy = clone(model).set_params(estimator__shrinkage=6)
    assert (copy.estimator.shrinkage, model.estimator.shrinkage) == (6, 4)
    assert quietly(lambda: model.fit(X, y)) is model
    assert not hasattr(model.estimator, "graph_"), "what was given stays unfitted"
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(quietly(lambda: again.predict(X)), quietly(lambda: model.predict(X)))
    assert quietly(lambda: cross_val_score(model, X, NAMES[y], cv=3)).mean() > 0.5
    assert model.n_features_in_ == 6


def test_a_second_fit_leaves_nothing_of_the_first() -> None:
    X, y = labelled(80, 60)
    model = classifier().fit(X, y)
    model.set_params(estimator=et.EMJunctionTree(GRAPH, n_init=1, max_iter=5, random_state=0)).fit(X, y)
    assert not hasattr(model, "shrinkage_")
    assert not hasattr(model, "tried_")


def test_an_unfitted_one_says_so() -> None:
    for ask in ("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"):
        with pytest.raises(NotFittedError):
            getattr(classifier(), ask)([[0] * 6])


X_GOOD, Y_GOOD = labelled(10, 10)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X_GOOD, np.zeros(20, int), "one class only, 0; a classifier needs at least two"),
        (X_GOOD, ["a"] * 20, "one class only, 'a'"),
        (
            X_GOOD,
            "class",
            r"y needs one label per row, .* not 'class'; only rows that come as a stream name a column",
        ),
        (X_GOOD, Y_GOOD[:-1], r"y needs one label per row, shape \(20,\), not \(19,\)"),
        (X_GOOD, X_GOOD[:, :2], r"shape \(20,\), not \(20, 2\)"),
        (X_GOOD, [[1], [1, 2]] * 10, r"shape \(20,\), not lists of different lengths"),
        (X_GOOD, None, "requires y to be passed, but the target y is None"),
        (X_GOOD, [*Y_GOOD[:-1], None], "row 19 has no label; leave out rows whose class is unknown"),
        (X_GOOD, [math.nan, *Y_GOOD[1:]], "row 0 has no label"),
        (X_GOOD, np.array(["2026-01-01", "NaT"] * 10, "M8[D]"), "row 1 has no label"),
        (X_GOOD, pd.array([*Y_GOOD[:-1], pd.NA], dtype="Int64"), "row 19 has no label"),
        (X_GOOD, np.array([1, "a"] * 10, object), "no common order: int, str; use one type"),
        (X_GOOD[:, :5], Y_GOOD, "X has 5 features, but eigentree is expecting 6 features as input"),
        (X_GOOD[0], Y_GOOD, "data need the shape"),
        (X_GOOD[:0], Y_GOOD[:0], "the data have no rows"),
        (X_GOOD + 1, Y_GOOD, "has the codes 0 to 2"),
    ],
)
def test_errors_say_what_is_wrong(X: object, y: object, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        classifier().fit(X, y)


def test_weights_that_leave_a_class_without_rows_are_an_error() -> None:
    with pytest.raises(et.DataError, match="the weight of all rows of the class 'donor' is zero"):
        classifier().fit(X_GOOD, NAMES[Y_GOOD], sample_weight=1 - Y_GOOD)
    with pytest.raises(et.DataError, match="sample_weight needs one number per row"):
        classifier().fit(X_GOOD, Y_GOOD, sample_weight=[1, 2])


@pytest.mark.parametrize("estimator", [GRAPH, et.SpectralJunctionTree], ids=["graph", "class"])
def test_other_estimators_are_an_error(estimator: object) -> None:
    with pytest.raises(et.ParameterError, match="estimator is a SpectralJunctionTree, an EMJunctionTree or an"):
        et.JunctionTreeClassifier(estimator).fit(X_GOOD, Y_GOOD)


@pytest.mark.parametrize(
    "recipe", [{"views": 0}, {"scaling": "some"}, {"max_rank": 0}, {"shrinkage": "most"}], ids=str
)
def test_wrong_parameters_of_the_estimator_are_named(recipe: dict[str, object]) -> None:
    with pytest.raises(et.ParameterError, match=next(iter(recipe))):
        classifier(**recipe).fit(X_GOOD, Y_GOOD)


def test_rows_to_classify_must_fit_the_columns() -> None:
    model = quietly(lambda: classifier().fit(X_GOOD, Y_GOOD))
    with pytest.raises(et.DataError, match="X has 5 features"):
        model.predict(X_GOOD[:, :5])
    with pytest.raises(et.DataError, match="the frame has no column 'x0'"):
        model.predict(pd.DataFrame(X_GOOD, columns=["a", *GRAPH.observed[1:]]))


def test_a_failed_fit_leaves_the_classifier_as_it_was() -> None:
    X, y = labelled(80, 60)
    model = classifier().fit(X, y)
    before = dict(model.__dict__)
    model.set_params(estimator__views=0)
    with pytest.raises(et.ParameterError, match="views"):
        model.fit(X, y)
    assert {name: before[name] for name in before if name != "estimator"} == {
        name: value for name, value in model.__dict__.items() if name != "estimator"
    }


@pytest.mark.parametrize("setting", [{"shrinkage": np.array([1.0, 2.0])}, {"scaling": np.array([1.0, 2.0])}])
def test_settings_of_the_estimator_are_checked_first(setting: dict) -> None:
    with pytest.raises(et.ParameterError, match=next(iter(setting))):
        classifier(**setting).fit(X_GOOD, Y_GOOD)


def test_labels_under_a_mask_are_missing() -> None:
    X, y = labelled(80, 60)
    with pytest.raises(et.DataError, match="row 3 has no label"):
        classifier().fit(X, np.ma.array(y, mask=np.arange(140) == 3))


def test_warnings_name_the_class() -> None:
    X, y = labelled(300, 200)
    X = X.copy()
    X[y == 1, 2] = 0
    with pytest.warns(RuntimeWarning, match=r"class 'donor': the data cannot support the rank") as caught:
        classifier(shrinkage=0.4).fit(X, NAMES[y])
    assert all(warning.filename == __file__ for warning in caught)


@pytest.mark.parametrize("structure", ["template", "graph"])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes_of_a_stream_are_counted_as_those_in_memory(structure: str, weighted: bool, tmp_path: Path) -> None:
    graph = et.zoo.hmm(length=5, hidden_states=2, observed_states=3)
    made = [et.LatentNetwork.random(graph, seed=seed).sample(150, seed=seed) for seed in (0, 1, 2)]
    random = np.random.default_rng(0)
    order = random.permutation(450)
    table = pd.DataFrame(np.concatenate(made)[order], columns=list(graph.observed))
    table = table.mask(random.random(table.shape) < 0.05, -1)
    classes = np.repeat(["ant", "bee", "cow"], 150)[order]
    weights = random.integers(1, 4, 450) if weighted else None
    held = table.assign(kind=classes, weight=np.ones(450, int) if weights is None else weights)
    held.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    name = "weight" if weighted else None
    stream = held if weighted else held.drop(columns="weight")
    own = et.zoo.HMM(hidden_states=2) if structure == "template" else graph
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(own))
    expected = clone(model).fit(table.replace(-1, np.nan), classes, sample_weight=weights)
    batches = [stream[start : start + 64].replace(-1, np.nan) for start in range(0, 450, 64)]
    sources = [iter(batches), lambda: iter(batches)]
    if structure == "graph":
        sources.append(str(tmp_path / "rows.parquet"))
    for source in sources:
        found = clone(model).fit(source, "kind", sample_weight=name)
        assert found.classes_.tolist() == ["ant", "bee", "cow"]
        assert (found.class_prior_ == expected.class_prior_).all()
        assert found.columns_ == expected.columns_
        assert found.shrinkage_ == expected.shrinkage_
        assert (found.predict_log_proba(table) == expected.predict_log_proba(table)).all()


def test_a_stream_of_classes_says_what_is_wrong() -> None:
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "u", "v", "v"] * 10, "kind": ["p", "q"] * 20})
    structure = et.zoo.Mixture(hidden_states=2)
    spectral = et.JunctionTreeClassifier(et.SpectralJunctionTree(structure))
    refused = [
        (spectral, table, ["p"] * 40, "y is the name of the column that holds the classes"),
        (spectral, table, "kin", "'kin', which is no column; did you mean 'kind'"),
        (spectral, table.assign(kind="p"), "kind", "column 'kind' holds one class only, 'p'"),
        (spectral, table.assign(kind=["p", "q", None, "q"] * 10), "kind", "row 2 has no class in column 'kind'"),
        (et.JunctionTreeClassifier(et.EMJunctionTree(structure)), table, "kind", "read the rows first"),
        (et.JunctionTreeClassifier(et.SpectralJunctionTree("auto")), table, "kind", "et.learn_structure"),
    ]
    for model, rows, y, message in refused:
        with pytest.raises(et.DataError, match=re.escape(message)):
            model.fit(iter([rows]), y)
        assert not hasattr(model, "classes_")


def test_a_model_of_a_class_that_has_not_converged_is_warned_of_as_such() -> None:
    graph = et.zoo.hmm(4, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(80, seed=1)
    model = et.JunctionTreeClassifier(et.EMJunctionTree(graph, 1, init="random", max_iter=2, random_state=0))
    with pytest.warns(ConvergenceWarning, match="class 0: EM ended at max_iter=2"):
        model.fit(rows, np.arange(80) % 2)
