"""What a new user tries first: estimators without arguments, other libraries' names, columns too many or wrong."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import eigentree as et

VOTES, PARTY = et.datasets.load_votes(return_X_y=True, as_frame=True)
X, Y = VOTES.iloc[:120, :5].astype(object), PARTY[:120]
MIXTURE = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0)
FITTED = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(X)


@pytest.mark.parametrize("kind", [et.EMJunctionTree, et.SpectralJunctionTree, et.LatentClassModel])
def test_density_estimators_need_no_arguments(kind: type) -> None:
    model = kind().fit(X)
    assert np.isfinite(model.score(X))
    assert set(model.get_feature_names_out()) == set(X.columns)


def test_a_classifier_needs_no_arguments(tmp_path: Path) -> None:
    model = et.JunctionTreeClassifier(random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert_array_equal(model.predict(X), et.JunctionTreeClassifier(random_state=0).fit(X, Y).predict(X))
    assert model.predict(X.assign(crime="never seen")[X.columns])[0] in model.classes_
    model.save(tmp_path / "m.eigentree")
    assert_array_equal(et.load(tmp_path / "m.eigentree").predict_proba(X), model.predict_proba(X))


def test_an_imputer_needs_no_arguments() -> None:
    assert not et.JunctionTreeImputer().fit_transform(X).isna().any().any()


def test_online_em_says_what_structure_to_give() -> None:
    for call in (et.OnlineEMJunctionTree().fit, et.OnlineEMJunctionTree().partial_fit):
        with pytest.raises(et.ParameterError, match=r"a structure: .*zoo\.Mixture\(4\).*learn_structure\(X\)"):
            call(X)
    assert np.isfinite(et.OnlineEMJunctionTree(et.zoo.Mixture(4), passes=1, random_state=0).fit(X).score(X))


def test_an_identifier_is_called_one_and_is_to_be_dropped() -> None:
    known = X.assign(id=[f"person {number}" for number in range(len(X))])
    with pytest.warns(RuntimeWarning, match="'id' is an identifier: 120 different labels.*; drop the column"):
        MIXTURE.fit(known)
    numbered = X.assign(id=np.arange(len(X)))
    with pytest.warns(RuntimeWarning, match="'id' is an identifier, which numbers the rows; drop it"):
        et.EMJunctionTree(et.zoo.Mixture(2), numeric="quantiles", random_state=0).fit(numbered)


@pytest.mark.parametrize("name", ["n_components", "n_clusters", "n_states"])
@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (et.LatentClassModel, "n_classes="),
        (et.EMHMM, "hidden_states="),
        (et.HMM, "hidden_states="),
        (et.SpectralHMM, "hidden_states="),
        (et.zoo.Mixture, "hidden_states="),
        (et.zoo.HMM, "hidden_states="),
        (et.zoo.FactorialHMM, "hidden_states="),
        (et.zoo.LatentTree, "hidden_states="),
        (et.zoo.hmm, "hidden_states="),
        (et.zoo.factorial_hmm, "hidden_states="),
        (et.zoo.latent_tree, "hidden_states="),
        (et.zoo.mixture, "hidden_states="),
        (et.zoo.paper_junction_tree, "hidden_states="),
        (et.zoo.semi_hidden_markov, "hidden_states="),
        (et.select, "sizes="),
        (et.EMJunctionTree, r"zoo.Mixture\(hidden_states=3\)"),
        (et.SpectralJunctionTree, r"zoo.Mixture\(hidden_states=3\)"),
        (et.OnlineEMJunctionTree, r"zoo.Mixture\(hidden_states=3\)"),
        (et.JunctionTreeClassifier, r"zoo.Mixture\(hidden_states=3\)"),
        (et.JunctionTreeImputer, r"zoo.Mixture\(hidden_states=3\)"),
    ],
)
def test_other_libraries_words_get_the_right_one(kind: Any, word: str, name: str) -> None:
    with pytest.raises(et.ParameterError, match=f"no argument {name}; the number of hidden states is .*{word}"):
        kind(**{name: 3})


def test_other_libraries_words_get_the_right_one_where_parameters_are_set() -> None:
    with pytest.raises(et.ParameterError, match="n_classes="):
        et.LatentClassModel().set_params(n_components=3)
    with pytest.raises(et.ParameterError, match="hidden_states="):
        FITTED.set_params(structure__n_components=3)


def test_old_and_new_names_of_one_argument_are_an_error_of_ours() -> None:
    for both in (lambda: et.zoo.Mixture(3, components=3), lambda: et.zoo.mixture(4, 2, components=3)):
        with pytest.raises(et.ParameterError, match="components is the old name of hidden_states"):
            both()
    with pytest.raises(et.ParameterError, match="components is the old name"):
        et.zoo.mixture(1, 2, 3, 4, components=2)


def test_the_zoo_shows_templates_and_graphs_only() -> None:
    for name in dir(et.zoo):
        shown = getattr(et.zoo, name)
        if isinstance(shown, type):
            assert issubclass(shown, et.zoo.Template)
        else:
            assert "LatentGraph" in str(shown.__annotations__["return"])


@pytest.mark.parametrize("kind", ["score_samples", "predict", "predict_proba", "decode", "impute", "posterior"])
def test_extra_columns_of_a_frame_are_ignored_with_a_warning(kind: str) -> None:
    extra = X.assign(id=range(len(X)), note="text")
    expected = getattr(FITTED, kind)(X)
    with pytest.warns(UserWarning, match="ignores columns 'id', 'note' of the frame") as caught:
        found = getattr(FITTED, kind)(extra)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    if kind == "impute":
        # What came comes back, with its missing cells imputed.
        pd.testing.assert_frame_equal(found, expected.assign(id=extra["id"], note="text"))
    else:
        assert repr(found) == repr(expected)


def test_extra_columns_are_ignored_by_classifiers_and_imputers() -> None:
    extra = X.assign(id=range(len(X)))[["id", *X.columns]]
    for model in (
        et.JunctionTreeClassifier(MIXTURE).fit(X, Y),
        et.JunctionTreeClassifier(MIXTURE, class_as="column").fit(X, Y),
    ):
        with pytest.warns(UserWarning, match="ignores column 'id'"):
            assert_array_equal(model.predict(extra), model.predict(X))
    imputer = et.JunctionTreeImputer(MIXTURE).fit(X)
    with pytest.warns(UserWarning, match="ignores column 'id'"):
        pd.testing.assert_frame_equal(imputer.transform(extra), imputer.transform(X))


def test_extra_columns_without_names_are_an_error_and_so_are_those_of_a_fit_to_a_graph() -> None:
    with pytest.raises(et.DataError, match="X has 6 features, but eigentree is expecting 5"):
        FITTED.score(X.assign(id=0).to_numpy())
    with pytest.raises(et.DataError, match="no observed variable for column 'id' of the frame"):
        et.EMJunctionTree(FITTED.graph_).fit(X.assign(id=0))


def test_unlabelled_rows_are_warned_of() -> None:
    partly = np.where(np.arange(len(Y)) % 3, None, Y)
    model = et.JunctionTreeClassifier(MIXTURE, class_as="column")
    with pytest.warns(UserWarning, match="80 of 120 rows have no class.*better or worse: compare the score"):
        model.fit(X, partly)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y)


def test_names_of_hidden_states_are_kept_in_bif_and_files(tmp_path: Path) -> None:
    graph = et.LatentGraph({"mood": 2, "x": 2}, [("mood", "x")], ["mood"])
    tables = {"mood": [0.3, 0.7], "x": [[0.1, 0.9], [0.5, 0.5]]}
    network = et.LatentNetwork(graph, tables, hidden_labels={"mood": ["low", "high"]})
    again = et.LatentNetwork.from_bif(network.to_bif(), ["mood"])
    assert again.to_bif() == network.to_bif()
    assert again.labels("mood") == ("low", "high")
    assert again.ordered().labels("mood") == ("high", "low")
    assert again.labeled_tables["x"].states[0] == ("low", "high")
    assert "high (70.0%)" in str(et.profiles(again))
    again.save(tmp_path / "n.eigentree")
    assert et.load(tmp_path / "n.eigentree").to_bif() == network.to_bif()
    numbered = et.LatentNetwork(graph, tables)
    assert et.LatentNetwork.from_bif(numbered.to_bif(), ["mood"]).hidden_labels == {}
    for wrong in ({"x": ["a", "b"]}, {"mood": ["a", "a"]}, {"mood": ["a"]}, {"mood": "ab"}, ["mood"]):
        with pytest.raises(et.NetworkError, match="hidden_labels"):
            et.LatentNetwork(graph, tables, hidden_labels=wrong)


def test_far_too_many_classes_are_refused_before_any_memory_is_taken() -> None:
    with pytest.raises(et.TreewidthError, match="joint states"):
        et.LatentClassModel(10**9, pseudo_counts=0.1).fit(X)
