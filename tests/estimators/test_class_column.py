"""The class as one more column: Bayes' rule by enumeration, wherever the class stands, known or not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from brute_force import observed_table, probability
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone

import eigentree as et

MIXTURE = et.zoo.mixture(5, 3, [3, 2, 4, 2, 3])
TRUTH = et.LatentNetwork.random(MIXTURE, seed=3)
DRAWN = TRUTH.sample(400, seed=1)
DRAWN[np.random.default_rng(0).random(DRAWN.shape) < 0.08] = -1
X, Y = DRAWN[:, :4], np.maximum(DRAWN[:, 4], 0)
NAMES = np.array(["ham", "neither", "spam"])
TEST = np.concatenate([X[:30], np.full((1, 4), -1)])


def em(structure: object) -> et.EMJunctionTree:
    return et.EMJunctionTree(structure, init="random", n_init=1, max_iter=15, pseudo_counts=0.1, random_state=0)


EM = em(et.zoo.Mixture(3))
UNLABELLED = pytest.mark.filterwarnings("ignore:.*rows have no class")
ESTIMATORS = {
    "em": EM,
    "online": et.OnlineEMJunctionTree(et.zoo.Mixture(3), passes=2, random_state=0),
    "spectral": et.SpectralJunctionTree(et.zoo.Mixture(3), shrinkage=1.0),
}


def column(estimator: object = EM, **settings: object) -> et.JunctionTreeClassifier:
    return et.JunctionTreeClassifier(estimator, class_as="column", **settings)


def with_class(rows: np.ndarray, classes: object) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[f"x{place}" for place in range(4)]).assign(**{"class": classes})


def by_enumeration(model: et.JunctionTreeClassifier, rows: np.ndarray) -> np.ndarray:
    """Log P(row, class) from the whole joint table of the columns and the class."""
    network = model.estimator_.network_
    place = network.graph.observed.index(model.class_column_.name)
    table = observed_table(network)
    whole = [[np.insert(row, place, label) for label in range(len(model.classes_))] for row in np.asarray(rows)]
    return np.log([[probability(table, row) for row in same] for same in whole])


STRUCTURES = {
    "mixture": et.zoo.Mixture(3),
    "chain": et.zoo.HMM(hidden_states=3),
    "tree": et.zoo.LatentTree(hidden_states=2),
    "graph": MIXTURE,
    "first": et.LatentGraph(
        {"h": 2, "class": 3, "a": 3, "b": 2, "c": 4, "d": 2},
        [("class", "h"), ("h", "a"), ("h", "b"), ("class", "c"), ("h", "d")],
        ["h"],
        directed=True,
    ),
    "undirected": et.LatentGraph(
        {"h": 2, "a": 3, "b": 2, "class": 3, "c": 4, "d": 2},
        [("class", "h"), ("h", "a"), ("h", "b"), ("class", "c"), ("h", "d")],
        ["h"],
        directed=False,
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_classes_follow_by_bayes_rule_from_the_whole_table(name: str) -> None:
    model = column(em(STRUCTURES[name])).fit(X, NAMES[Y])
    assert model.class_column_.name == ("x4" if name == "graph" else "class")
    log_joint = by_enumeration(model, TEST)
    assert_allclose(model.predict_joint_log_proba(TEST), log_joint, atol=1e-10)
    log_proba = log_joint - logsumexp(log_joint, axis=1, keepdims=True)
    assert_allclose(model.predict_log_proba(TEST), log_proba, atol=1e-10)
    assert_allclose(model.predict_proba(TEST), np.exp(log_proba), atol=1e-10)
    assert_array_equal(model.predict(TEST), NAMES[log_joint.argmax(axis=1)])
    right = model.predict(X) == NAMES[Y]
    assert_allclose(model.score(X, NAMES[Y]), right.mean())
    assert 0.4 < right.mean() < 1
    assert_array_equal(model.classes_, NAMES)
    assert_allclose(model.class_prior_, np.bincount(Y) / len(Y))
    assert model.n_features_in_ == 4


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_is_the_model_of_one_more_column(name: str) -> None:
    model = column(ESTIMATORS[name]).fit(X, Y)
    own = clone(ESTIMATORS[name]).fit(with_class(X, Y))
    rows = with_class(TEST, -1)
    assert_allclose(model.predict_proba(TEST), own.predict_proba(rows, target="class"), atol=1e-10)
    assert_array_equal(model.estimator_.score_samples(rows), own.score_samples(rows))
    assert not hasattr(ESTIMATORS[name], "graph_"), "what was given stays unfitted"


@UNLABELLED
def test_rows_whose_class_is_unknown_are_learned_from() -> None:
    known = np.random.default_rng(1).random(len(Y)) < 0.3
    own = clone(EM).fit(with_class(X, np.where(known, Y, -1)))
    weights = np.random.default_rng(2).integers(1, 4, len(Y))
    for labels in (
        np.where(known, Y, np.nan),
        np.where(known, NAMES[Y], None),
        pd.array(np.where(known, Y, pd.NA), dtype="Int64"),
        np.ma.array(Y, mask=~known),
    ):
        model = column().fit(X, labels)
        assert_allclose(model.predict_proba(X), own.predict_proba(with_class(X, -1), target="class"), atol=1e-10)
        assert_allclose(model.class_prior_, np.bincount(Y[known]) / known.sum())
        weighted = column().fit(X, labels, sample_weight=weights).class_prior_
        assert_allclose(weighted, np.bincount(Y[known], weights[known]) / weights[known].sum())
    with pytest.raises(et.DataError, match=r"row \d+ has no label; leave out .* with class_as='column'"):
        et.JunctionTreeClassifier(EM).fit(X, np.where(known, Y, np.nan))
    with pytest.raises(et.DataError, match="y holds no class at all; a classifier needs at least two"):
        column().fit(X, np.full(len(Y), None))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_labels_mean_what_arrays_and_codes_mean(frame: type) -> None:
    cells = {
        "class": [None if cell < 0 else "abc"[cell] for cell in X[:, 0]],
        **{f"c{place}": [None if cell < 0 else int(cell) for cell in X[:, place]] for place in (1, 2, 3)},
    }
    model = column(ESTIMATORS["spectral"]).fit(frame(cells), NAMES[Y])
    assert model.class_column_.name == "class_", "the data have a column of the name"
    assert list(model.feature_names_in_) == ["class", "c1", "c2", "c3"]
    own = clone(ESTIMATORS["spectral"]).fit(frame(cells | {"class_": NAMES[Y]}))
    rows = frame(cells | {"class_": [None] * len(Y)})
    assert_allclose(model.predict_proba(frame(cells)), own.predict_proba(rows, target="class_"), atol=1e-10)
    drawn = model.estimator_.sample(20, seed=0)
    assert type(drawn) is frame
    assert set(drawn["class_"]) <= set(NAMES)
    assert model.estimator_.joint(["class_"]).states == (tuple(NAMES),)


def test_the_class_of_a_graph_is_what_is_no_column() -> None:
    graph = STRUCTURES["first"]
    estimator = em(graph)
    frame = pd.DataFrame(X, columns=list("abcd"))
    by_position = column(estimator).fit(X, Y).predict_proba(X)
    assert_array_equal(column(estimator).fit(frame[list("dbca")], Y).predict_proba(frame), by_position)
    renamed = et.LatentGraph(
        {"party" if name == "class" else name: count for name, count in graph.states.items()},
        [tuple("party" if end == "class" else end for end in edge) for edge in graph.edges],
        ["h"],
        directed=True,
    )
    model = column(em(renamed)).fit(frame, Y)
    assert model.class_column_.name == "party"
    assert_allclose(model.predict_proba(frame), by_position)
    for columns, message in (
        ("abc", "no column of X, but 2 are: party, d; rename, drop or add"),
        (("a", "b", "c", "d", "party"), "no column of X, but all are columns; rename"),
    ):
        with pytest.raises(et.DataError, match=message):
            column(em(renamed)).fit(pd.DataFrame(DRAWN[:, : len(columns)], columns=list(columns)), Y)
    with pytest.raises(et.DataError, match="X has 3 features, but eigentree is expecting 4 features as input: one"):
        column(em(renamed)).fit(X[:, :3], Y)
    with pytest.raises(et.DataError, match=r"the class is the variable 'party', which has 3 states .* 2 classes"):
        column(em(renamed)).fit(frame, Y % 2)


def test_graphs_of_other_libraries_have_a_class_too() -> None:
    graph = nx.DiGraph([("h", name) for name in ("a", "b", "c", "d", "class")])
    graph.add_node("h", hidden=True, states=3)
    frame = pd.DataFrame(X, columns=list("abcd"))
    found = column(em(graph)).fit(frame, Y)
    own = column(em(et.zoo.Mixture(3))).fit(frame, Y)
    assert_allclose(found.predict_proba(frame), own.predict_proba(frame))


@pytest.mark.parametrize(
    "series", [lambda labels, name: pd.Series(labels, name=name), lambda labels, name: pl.Series(name, labels)]
)
def test_the_class_is_called_as_y_is(series: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    plain = column().fit(frame, NAMES[Y])
    assert plain.class_column_.name == "class"
    model = column().fit(frame, series(NAMES[Y].tolist(), "kind"))
    assert model.class_column_.name == "kind"
    assert model.estimator_.graph_.observed == (*"abcd", "kind")
    assert_allclose(model.predict_proba(frame), plain.predict_proba(frame))
    model.save(tmp_path / "kind.eigentree")
    assert et.load(tmp_path / "kind.eigentree").class_column_.name == "kind"
    assert column().fit(frame, series(NAMES[Y].tolist(), "")).class_column_.name == "class"
    with pytest.raises(
        et.DataError, match="y is called 'b', and so is a column of X; leave that column out, if it"
    ):
        column().fit(frame, series(NAMES[Y].tolist(), "b"))
    # Columns without names are called x0, x1, … by nobody's wish.
    assert column().fit(X, series(NAMES[Y].tolist(), "x0")).class_column_.name == "x0_"


def test_graphs_may_know_the_class_by_the_name_of_y() -> None:
    frame, own = pd.DataFrame(X, columns=list("abcd")), STRUCTURES["first"]
    y = pd.Series(NAMES[Y], name="b")
    assert column(em(own)).fit(frame, y).class_column_.name == "class", "a graph knows its own class"
    with pytest.raises(et.DataError, match="the class is the variable 'b', which has 2 states"):
        column(em(own)).fit(X, y)  # columns without names do not show otherwise
    for called, name in (("class", "kind"), ("kind", "kind")):
        graph = nx.DiGraph([("h", each) for each in (*"abcd", called)])
        graph.add_node("h", hidden=True, states=3)
        found = column(em(graph)).fit(frame, pd.Series(NAMES[Y], name=name))
        assert found.class_column_.name == called


@pytest.mark.parametrize("place", range(5))
def test_a_class_stands_anywhere_among_nodes_of_another_library(place: int) -> None:
    names = [*"abcd"]
    names.insert(place, "class")
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_node("h", hidden=True, states=2)
    graph.add_edges_from([("class", "h"), *(("h", name) for name in "abcd")])
    frame = pd.DataFrame(X, columns=list("abcd"))
    by_name, by_position = column(em(graph)).fit(frame, Y), column(em(graph)).fit(X, Y)
    assert by_position.estimator_.graph_.states == {"h": 2, "class": 3, "a": 3, "b": 2, "c": 4, "d": 2}
    assert by_position.estimator_.graph_.observed.index("class") == place
    assert_array_equal(by_position.predict_proba(X), by_name.predict_proba(frame))


def held_by_libraries(labels: list[Any]) -> dict[str, Any]:
    return {
        "list": labels,
        "column": np.array(labels, object)[:, None],
        "polars": pl.Series(labels),
        "pandas": pd.Series(labels),
        "nullable": pd.Series(labels).convert_dtypes(),
        "nullable array": pd.array(labels),
        "categories": pd.Categorical(labels),
        "pyarrow": pa.array(labels),
        "chunks": pa.chunked_array([labels]),
        "behind pandas": pd.Series(labels, dtype=pd.ArrowDtype(pa.array(labels).type)),
    }


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("labels", [[0, 1], [False, True], [0.5, 1.5], [2**53, 2**53 + 1]], ids=str)
@UNLABELLED
def test_classes_are_the_same_whatever_library_holds_them(labels: list[Any]) -> None:
    given = [None if place % 7 == 0 else labels[place % 2] for place in range(len(X))]
    for name, held in held_by_libraries(given).items():
        if labels[0] == 2**53 and name in ("pandas", "nullable", "categories"):
            continue  # pandas itself has made floats of them, which are one.
        model = column(ESTIMATORS["spectral"]).fit(X, held)
        assert model.classes_.dtype == np.array(labels).dtype, name
        assert model.classes_.tolist() == labels, name
        right = model.predict(X) == np.array(given, object)
        assert model.score(X, held) == right.mean(), "what is not known is not right"
    if labels == [0, 1]:
        floats = column(ESTIMATORS["spectral"]).fit(X, np.array(given, float))
        assert floats.classes_.dtype == np.int64


def test_names_of_classes_and_the_order_of_rows_do_not_matter() -> None:
    plain = column(ESTIMATORS["spectral"]).fit(X, Y)
    order = np.random.default_rng(0).permutation(len(Y))
    shuffled = column(ESTIMATORS["spectral"]).fit(X[order], Y[order])
    assert_array_equal(shuffled.predict_joint_log_proba(X), plain.predict_joint_log_proba(X))
    for names in ([5, 6, 9], [0.5, 1.5, 2.5], [b"x", b"y", b"z"], [(1,), (2,), (3,)]):
        labels = np.empty(3, object)
        labels[:] = names
        other = column(ESTIMATORS["spectral"]).fit(X, labels[Y])
        assert other.classes_.tolist() == names
        assert_array_equal(other.predict_proba(X), plain.predict_proba(X))
        assert_array_equal(other.predict(X), labels[plain.predict(X)])


def test_weights_are_repeated_rows() -> None:
    weights = np.random.default_rng(0).integers(0, 4, len(Y))
    repeated = column(ESTIMATORS["spectral"]).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    model = column(ESTIMATORS["spectral"]).fit(X, Y, sample_weight=weights)
    assert_allclose(model.class_prior_, repeated.class_prior_)
    assert_allclose(model.predict_joint_log_proba(X), repeated.predict_joint_log_proba(X))
    with pytest.raises(et.DataError, match="the weight of all rows of the class 1 is zero"):
        column().fit(X, Y, sample_weight=(Y != 1).astype(float))


def test_an_impossible_row_gets_the_prior() -> None:
    estimator = et.EMJunctionTree(
        et.zoo.mixture(3, 2, [3, 3, 2]), init="random", n_init=1, max_iter=5, pseudo_counts=0, random_state=0
    )
    rows, labels = np.array([[0, 0], [1, 1], [0, 1]] * 20), np.array([0, 1, 1] * 20)
    model = column(estimator).fit(rows, labels)
    with pytest.warns(RuntimeWarning, match="all classes: 1 of 2 rows have probability zero"):
        proba = model.predict_proba([[2, 2], [0, 0]])
    assert_allclose(proba[0], [1 / 3, 2 / 3])
    assert proba[1, 0] > 0.5


def test_labels_that_the_columns_do_not_have() -> None:
    cells = np.array(["a", "b", "c"], object)[np.maximum(X, 0) % 3]
    model = column(ESTIMATORS["spectral"]).fit(cells, Y)
    odd = cells[:2].copy()
    odd[0, 0] = "z"
    with pytest.raises(et.DataError, match="row 0, column 'x0' holds 'z'"):
        model.predict(odd)
    spectral = et.SpectralJunctionTree(et.zoo.Mixture(3), shrinkage=1.0, handle_unknown="missing")
    lenient = column(spectral).fit(cells, Y)
    holed = odd.copy()
    holed[0, 0] = None
    assert_array_equal(lenient.predict_proba(odd), model.predict_proba(holed))


def test_a_fit_in_another_way_leaves_nothing_of_the_first() -> None:
    model = column(ESTIMATORS["spectral"]).fit(X, Y)
    assert not hasattr(model, "estimators_")
    assert math.isfinite(model.predict_log_proba(X).sum())
    model.set_params(class_as="models").fit(X, Y)
    assert not hasattr(model, "estimator_")
    assert not hasattr(model, "class_column_")
    before = dict(vars(model))
    with pytest.raises(et.ParameterError, match="class_as is 'models' or 'column', not 'row'"):
        model.set_params(class_as="row").fit(X, Y)
    assert vars(model) == before | {"class_as": "row"}
