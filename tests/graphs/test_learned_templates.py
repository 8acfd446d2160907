"""Structures learned from data of any type, by themselves and inside estimators."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import eigentree as et
from benchmarks.planted import planted_network, random_tree
from benchmarks.tree_distance import splits
from eigentree.data.tables.columns import Columns

METHODS = ("chow-liu", "neighbour-joining")
TEMPLATE = et.zoo.HiddenChowLiu(hidden_states=2)
NETWORK = planted_network(random_tree(8, 2, 3, seed=3), seed=3)
ROWS = NETWORK.sample(1_500, seed=0)
QUICK: dict[str, Any] = {"init": "random", "n_init": 1, "max_iter": 3, "pseudo_counts": 0.1, "random_state": 0}

every_method = pytest.mark.parametrize("method", METHODS)


def holed(seed: int = 0) -> np.ndarray:
    rows = ROWS.copy()
    rows[np.random.default_rng(seed).random(rows.shape) < 0.1] = -1
    return rows


# learn_structure


@every_method
def test_a_structure_does_not_depend_on_how_data_are_given(method: Any) -> None:
    names = [f"x{place}" for place in range(8)]
    graph = et.learn_structure(ROWS, method, hidden_states=2)
    letters = np.array(["a", "b", "c"])
    frame = pd.DataFrame(ROWS, columns=names)
    random = np.random.default_rng(0)
    given = {
        "lists": ROWS.tolist(),
        "floats": ROWS.astype(float),
        "a frame": frame,
        "labels": pd.DataFrame(letters[ROWS], columns=names),
        "categories": frame.astype("category"),
        "words": ["".join(row) for row in letters[ROWS]],
        "rows in another order": random.permutation(ROWS),
        "rows in column order": np.asfortranarray(ROWS.astype(np.uint8)),
        "pair counts": et.PairCounts.of(ROWS[:700]) + et.PairCounts.of(ROWS[700:]),
    }
    for kind, X in given.items():
        assert et.learn_structure(X, method, hidden_states=2) == graph, kind
    shuffled = frame[random.permutation(names)]
    other = et.learn_structure(shuffled, method, hidden_states=2)
    assert other.observed == tuple(shuffled.columns)
    assert other.edges == graph.edges
    doubled = et.learn_structure(ROWS[:800], method, 2, sample_weight=np.full(800, 2))
    assert doubled == et.learn_structure(np.repeat(ROWS[:800], 2, axis=0), method, 2)


@every_method
def test_states_may_be_numbered_in_any_order(method: Any) -> None:
    turned = ROWS.copy()
    turned[:, ::2] = 2 - turned[:, ::2]
    one, other = (et.learn_structure(X, method, 2) for X in (ROWS, turned))
    assert splits(one) == splits(other)


@every_method
def test_missing_cells_are_left_out_pair_by_pair(method: Any) -> None:
    """Rows without a cell are not counted for its column, and are for all others."""
    alone = np.full((400, 8), -1)
    alone[:, 0] = np.arange(400) % 3
    more = np.concatenate([ROWS, alone])
    assert et.learn_structure(more, method, 2).hidden
    one, other = (et.PairCounts.of(X).table("x1", "x2") for X in (ROWS, more))
    assert (one == other).all()
    assert splits(et.learn_structure(holed(), "neighbour-joining", 2)) == splits(NETWORK.graph)


@every_method
@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((5, 4), int),
        np.arange(12).reshape(12, 1) % 3,
        np.arange(24).reshape(12, 2) % 3,
        np.arange(36).reshape(12, 3) % 4,
        np.repeat(np.arange(10) % 2, 5).reshape(10, 5),
        np.array([[0, 1, 2]]),
        np.array([[0, 1], [1, -1], [-1, 0]]),
        np.column_stack([np.arange(40), np.arange(40) % 7, np.zeros(40, int), np.arange(40)[::-1]]).astype(str),
    ],
    ids=["constants", "one column", "two columns", "three", "copies", "one row", "never together", "all different"],
)
@pytest.mark.filterwarnings("ignore:column .* is an identifier")
def test_degenerate_tables_have_structures_that_can_be_fitted(rows: np.ndarray, method: Any) -> None:
    graph = et.learn_structure(rows, method, hidden_states=2)
    assert len(graph.edges) == len(graph.names) - 1
    assert len(graph.observed) == rows.shape[1]
    assert graph.hidden
    model = et.EMJunctionTree(et.zoo.HiddenChowLiu(2, method), **QUICK).fit(rows)
    assert model.graph_ == graph
    assert np.isfinite(model.score(rows))


def test_without_hidden_variables_the_tree_is_that_of_the_columns() -> None:
    graph = et.learn_structure(ROWS, hidden_states=None)
    assert graph.hidden == ()
    assert len(graph.edges) == 7
    tree = et.EMJunctionTree(graph, **(QUICK | {"pseudo_counts": 0})).fit(ROWS)
    # The likelihood of a Chow-Liu tree: entropies of columns less the information of linked ones.
    pairs = et.PairCounts.of(ROWS)

    def entropy(table: np.ndarray) -> float:
        shares = table[table > 0] / table.sum()
        return float(-(shares * np.log(shares)).sum())

    single = {name: entropy(pairs.table(name, name)) for name in graph.observed}
    told = sum(single[a] + single[b] - entropy(pairs.table(a, b)) for a, b in graph.edges)
    assert tree.score(ROWS) == pytest.approx(told - sum(single.values()))


def test_hidden_variables_raise_the_held_out_score() -> None:
    plain = et.EMJunctionTree(et.learn_structure(ROWS, hidden_states=None), random_state=0).fit(ROWS)
    hidden = et.EMJunctionTree(et.learn_structure(ROWS, "neighbour-joining", 2), random_state=0).fit(ROWS)
    new = NETWORK.sample(2_000, seed=9)
    assert hidden.score(new) > plain.score(new)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"method": "star"}, et.ParameterError, "method is 'chow-liu' or 'neighbour-joining', not 'star'"),
        ({"method": ROWS}, et.ParameterError, "method is"),
        ({"hidden_states": 0}, et.GraphError, "hidden_states is a whole number of at least 1, not 0"),
        ({"hidden_states": "8"}, et.GraphError, "hidden_states is a whole number"),
        (
            {"hidden_states": "auto"},
            et.GraphError,
            r"not 'auto': EMJunctionTree\('auto'\) chooses it on held-out rows",
        ),
        ({"method": METHODS[1], "hidden_states": None}, et.ParameterError, "needs a number of hidden_states"),
        ({"X": []}, et.DataError, "give at least one row"),
        ({"X": np.zeros((0, 3), int)}, et.DataError, "give at least one"),
        ({"X": np.random.default_rng(0).normal(size=(99, 2))}, et.DataError, "numeric='quantiles'"),
        ({"sample_weight": np.zeros(1_500)}, et.DataError, "nothing to learn from"),
        ({"sample_weight": -np.ones(1_500)}, et.DataError, "negative"),
        ({"sample_weight": [1.0]}, et.DataError, "one number per row"),
        ({"X": et.PairCounts.of(ROWS), "sample_weight": [1.0]}, et.DataError, "leave sample_weight out"),
        ({"X": et.PairCounts.empty(Columns.learned(ROWS))}, et.DataError, "no rows were counted"),
    ],
)
def test_what_cannot_be_learned_from_is_named(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        et.learn_structure(**({"X": ROWS} | arguments))


def test_light_weights_are_warned_of_once() -> None:
    # Three iterations are too few, which is another warning.
    quick = QUICK | {"max_iter": 1_000, "tol": 1e-3}
    for learn in (
        lambda: et.learn_structure(ROWS, sample_weight=np.full(1_500, 1e-3)),
        lambda: et.EMJunctionTree(TEMPLATE, **quick).fit(ROWS, sample_weight=np.full(1_500, 1e-3)),
    ):
        with pytest.warns(RuntimeWarning, match="hardly any row") as caught:
            learn()
        assert sum("hardly any row" in str(each.message) for each in caught) == 1


# The template


def test_a_template_that_needs_rows_says_so() -> None:
    with pytest.raises(et.GraphError, match="is learned from rows, and there are only numbers of states"):
        TEMPLATE.build([2, 2])
    statistics = et.Statistics.of(ROWS, TEMPLATE)
    with pytest.raises(et.GraphError, match="give the graph that learn_structure makes"):
        et.SpectralJunctionTree(TEMPLATE).fit_statistics(statistics)
    with pytest.raises(et.ParameterError, match="method is 'chow-liu' or"):
        et.zoo.HiddenChowLiu(method="star")  # type: ignore[arg-type]


def estimators() -> dict[str, Any]:
    return {
        "em": et.EMJunctionTree(TEMPLATE, **QUICK),
        "spectral": et.SpectralJunctionTree(TEMPLATE, shrinkage=0.4),
        "online": et.OnlineEMJunctionTree(TEMPLATE, passes=1, random_state=0),
    }


@pytest.mark.parametrize("name", estimators())
@pytest.mark.parametrize("kind", ["codes", "frame"])
def test_every_estimator_learns_its_structure(name: str, kind: str, tmp_path: Path) -> None:
    X = holed()
    if kind == "frame":
        X = pd.DataFrame(X, columns=[f"x{place}" for place in range(8)]).astype("Int64").where(X >= 0)
    weights = np.random.default_rng(0).random(len(X)) + 0.5
    model = clone(estimators()[name]).fit(X, sample_weight=weights)
    assert model.graph_ == et.learn_structure(holed(), hidden_states=2, sample_weight=weights)
    assert model.columns_.names == model.graph_.observed
    model.save(tmp_path / "model")
    for copy in (et.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert copy.structure == TEMPLATE
        assert copy.graph_ == model.graph_
        assert (copy.score_samples(X) == model.score_samples(X)).all()


@pytest.mark.parametrize("name", estimators())
def test_rows_of_no_weight_play_no_part_in_the_structure(name: str) -> None:
    both = np.concatenate([ROWS, ROWS[:, ::-1], ROWS[:, [3, 0, 7, 5, 1, 2, 6, 4]]])
    model = estimators()[name].fit(both, sample_weight=np.arange(len(both)) < len(ROWS))
    assert model.graph_ == et.learn_structure(ROWS, hidden_states=2)
    assert model.graph_ != et.learn_structure(both, hidden_states=2)


@pytest.mark.parametrize("name", ["spectral", "online"])
def test_partial_fit_keeps_the_structure_of_the_first_rows(name: str) -> None:
    model = estimators()[name].partial_fit(ROWS[:100])
    first = model.graph_
    assert first == et.learn_structure(ROWS[:100], hidden_states=2)
    assert model.partial_fit(ROWS[100:]).graph_ == first
    assert model.fit(ROWS).graph_ == et.learn_structure(ROWS, hidden_states=2) != first


@pytest.mark.parametrize("class_as", ["models", "column"])
def test_classifiers_learn_structures(class_as: Any, tmp_path: Path) -> None:
    X, y = ROWS[:, 1:], np.array(["low", "mid", "high"])[ROWS[:, 0]]
    model = et.JunctionTreeClassifier(et.EMJunctionTree(TEMPLATE, **QUICK), class_as).fit(X, y)
    if class_as == "models":
        assert {each.graph_ for each in model.estimators_} == {et.learn_structure(X, hidden_states=2)}
    else:
        with_class = pd.DataFrame(X, columns=[f"x{place}" for place in range(7)]).assign(**{"class": y})
        assert model.estimator_.graph_ == et.learn_structure(with_class, hidden_states=2)
    assert model.score(X, y) > np.mean(y == "high")
    model.save(tmp_path / "model")
    assert (et.load(tmp_path / "model").predict_proba(X) == model.predict_proba(X)).all()


def test_the_imputer_learns_a_structure() -> None:
    filled = et.JunctionTreeImputer(et.EMJunctionTree(TEMPLATE, **QUICK)).fit_transform(holed())
    assert (np.asarray(filled) >= 0).all()


def test_a_search_reaches_the_sizes_of_the_template() -> None:
    model = et.EMJunctionTree(TEMPLATE, **QUICK)
    settings = {"structure__hidden_states": [1, 2], "structure__method": list(METHODS)}
    search = GridSearchCV(model, settings, cv=2).fit(ROWS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["structure__hidden_states"] == 2
    assert search.best_estimator_.structure.method == search.best_params_["structure__method"]
    assert model.structure == TEMPLATE
