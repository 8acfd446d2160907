"""`LatentClassModel`, the default target, `predict`, and the names that other libraries use."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import eigentree as et

VOTES = et.datasets.load_votes().data
"""Roll-call votes, with missing cells."""

CARCINOMA = np.array(
    [
        [int(cell) for cell in pattern]
        for pattern, count in {
            "0000000": 34, "0000100": 2, "0100000": 6, "0100001": 1, "0100100": 4, "0100101": 5, "1000000": 2,
            "1010101": 1, "1100000": 2, "1100001": 1, "1100100": 2, "1100101": 7, "1100111": 1, "1101001": 1,
            "1101101": 2, "1101111": 3, "1110101": 13, "1110111": 5, "1111101": 10, "1111111": 16,
        }.items()
        for _ in range(count)
    ]
)  # fmt: skip
"""What seven pathologists said of 118 slides (Agresti 2002): carcinoma or none, as in poLCA's manual."""


def frame() -> pd.DataFrame:
    return pd.DataFrame(np.array(["no", "yes"])[CARCINOMA], columns=list("ABCDEFG"))


def test_fits_agree_with_stepmix() -> None:
    stepmix = pytest.importorskip("stepmix")
    other = stepmix.StepMix(3, measurement="categorical", n_init=20, random_state=0, abs_tol=1e-10, max_iter=5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.fit(CARCINOMA)
    model = et.LatentClassModel(n_classes=3, random_state=0).fit(CARCINOMA)
    assert_allclose(model.score(CARCINOMA), other.score(CARCINOMA), atol=1e-5)
    assert_allclose(model.bic(CARCINOMA), other.bic(CARCINOMA), atol=5e-3)
    assert_allclose(model.aic(CARCINOMA), other.aic(CARCINOMA), atol=5e-3)
    assert_allclose(model.entropy(CARCINOMA), other.relative_entropy(CARCINOMA), atol=1e-3)
    assert_allclose(np.sort(model.class_weights_), np.sort(other.weights_), atol=1e-3)


def test_posteriors_are_bayes_rule_on_the_tables() -> None:
    table = frame()
    model = et.LatentClassModel(3, random_state=0).fit(table)
    joint = np.log(model.class_weights_) + sum(
        np.log(np.asarray(model.tables_[name]))[:, CARCINOMA[:, place]].T for place, name in enumerate("ABCDEFG")
    )
    posterior = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
    found = model.predict_proba(table)
    assert_allclose(np.asarray(found), posterior, atol=1e-10)
    assert_array_equal(model.predict(table), posterior.argmax(axis=1))
    entropies = -np.where(posterior > 0, posterior * np.log(np.maximum(posterior, 1e-300)), 0).sum(axis=1)
    assert_allclose(model.entropy(table), 1 - entropies.mean() / np.log(3))
    halves = np.arange(len(table)) % 2
    assert_allclose(model.entropy(table, halves), model.entropy(table.loc[halves == 1]))
    assert list(model.class_weights_) == sorted(model.class_weights_, reverse=True)
    assert np.isnan(et.LatentClassModel(1).fit(table).entropy(table))


def test_it_is_the_mixture_fitted_by_em(tmp_path: Path) -> None:
    model = et.LatentClassModel(3, random_state=0).fit(VOTES)
    tree = model.as_tree().fit(VOTES)
    assert_array_equal(model.score_samples(VOTES), tree.score_samples(VOTES))
    twin = clone(model).set_params(n_classes=2)
    assert (twin.n_classes, model.n_classes) == (2, 3)
    assert twin.fit(VOTES).class_weights_.shape == (2,)
    model.save(tmp_path / "classes.eigentree")
    again = et.load(tmp_path / "classes.eigentree")
    assert type(again) is et.LatentClassModel
    assert again.get_params() == model.get_params()
    assert_array_equal(again.predict_proba(VOTES), model.predict_proba(VOTES))
    assert repr(again) == "LatentClassModel(n_classes=3, random_state=0)"


@pytest.mark.parametrize("class_as", ["models", "column"])
def test_it_classifies(class_as: str) -> None:
    votes = et.datasets.load_votes()
    classes = et.LatentClassModel(2, random_state=0)
    model = et.JunctionTreeClassifier(classes, class_as).fit(votes.data, votes.target)
    tree = et.JunctionTreeClassifier(classes.as_tree(), class_as).fit(votes.data, votes.target)
    assert_array_equal(model.predict_proba(votes.data), tree.predict_proba(votes.data))


def test_unseen_answers_of_a_class_are_rare_and_not_impossible() -> None:
    model = et.LatentClassModel(2, random_state=0).fit(CARCINOMA)
    assert np.isfinite(model.score_samples(1 - CARCINOMA)).all()
    exact = et.LatentClassModel(2, random_state=0, pseudo_counts=0).fit(CARCINOMA)
    assert_allclose(model.score(CARCINOMA), exact.score(CARCINOMA), atol=1e-6)


@pytest.mark.parametrize(("n_classes", "message"), [(0, "n_classes is a whole"), ("3", "n_classes is a whole")])
def test_numbers_of_classes_are_checked(n_classes: object, message: str) -> None:
    with pytest.raises(et.ParameterError, match=message):
        et.LatentClassModel(n_classes).fit(VOTES)


# The default target, and `predict`


def test_the_one_hidden_variable_is_the_default_target() -> None:
    mixture = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(VOTES)
    for model in (mixture, mixture.network_):
        assert_array_equal(model.predict_proba(VOTES), model.predict_proba(VOTES, target="h"))
        assert_array_equal(model.predict(VOTES), model.predict_proba(VOTES).argmax(axis=1))
    chain = et.LatentNetwork.random(et.zoo.hmm(3), random_state=0)
    for asked in (chain.predict, chain.predict_proba):
        with pytest.raises(et.ParameterError, match="there are 3 hidden variables: one of h0, h1, h2, x0, x1, x2"):
            asked(chain.sample(2))
    spectral = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(CARCINOMA)
    with pytest.raises(et.GraphError, match=r"to_network"):
        spectral.predict(CARCINOMA)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20))
def test_predictions_are_labels_of_the_largest_posterior(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "text": random.choice(["a", "b", "c"], 60),
            "number": random.choice([3, 1, 7], 60),
            "mixed": random.choice(np.array(["x", 1], object), 60),
            "truth": random.random(60) < 0.5,
        }
    )
    model = et.EMJunctionTree(et.zoo.Mixture(2), n_init=1, max_iter=5, pseudo_counts=0.1, random_state=0).fit(table)
    for name in table:
        best = np.asarray(model.predict_proba(table, name)).argmax(axis=1)
        labels = model.tables_[name].states[-1]
        assert model.predict(table, name).tolist() == [labels[place] for place in best]


# Names of other libraries, and old names


def test_a_hidden_markov_model_has_hmmlearns_names() -> None:
    assert et.HMM is et.EMHMM
    words = ["AAAABBBB", "AAABBB", "BBAA"] * 3
    model = et.HMM(2, n_init=1, random_state=0).fit(words)
    shapes = [getattr(model, name).shape for name in ("startprob_", "transmat_", "emissionprob_")]
    assert shapes == [(2,), (2, 2), (2, 2)]
    assert_array_equal(model.transmat_, model.tables_["transitions"])
    for one, other in zip(model.predict(words), model.decode(words).states, strict=True):
        assert_array_equal(one, other)
    second = et.HMM(2, order=2, n_init=1, max_iter=5, random_state=0).fit(words)
    factorial = et.HMM((2, 2), n_init=1, max_iter=5, random_state=0).fit(words)
    channels = et.HMM(2, n_init=1, max_iter=5, random_state=0).fit([[["a", "x"], ["b", "y"]]] * 4)
    for other in (second, factorial):
        with pytest.raises(AttributeError, match="transmat_ is for order 1 and one chain"):
            other.transmat_  # noqa: B018
    with pytest.raises(AttributeError, match="one channel"):
        channels.emissionprob_  # noqa: B018


@pytest.mark.parametrize(
    ("made", "foreign", "word"),
    [
        (et.LatentClassModel, "n_iter", "the largest number of iterations is max_iter="),
        (et.LatentClassModel, "measurement", "densities of numbers are emissions="),
        (et.HMM, "covariance_type", "densities of numbers are emissions="),
        (et.EMJunctionTree, "nrep", "the number of starts is n_init="),
        (et.JunctionTreeImputer, "strategy", "how missing cells are filled is method="),
    ],
)
def test_other_words_are_answered_where_there_is_such_a_parameter(made: Any, foreign: str, word: str) -> None:
    with pytest.raises(et.ParameterError, match=f"there is no argument {foreign}; {word}"):
        made(**{foreign: 3})
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_iter'"):
        et.SpectralJunctionTree(n_iter=3)  # type: ignore[call-arg]


def test_old_names_of_parameters_work_and_warn(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning, match="the argument restarts is called n_init now") as seen:
        old = et.EMJunctionTree(et.zoo.Mixture(2), restarts=3)
    assert [each.filename for each in seen] == [__file__]
    assert old.get_params() == et.EMJunctionTree(et.zoo.Mixture(2), n_init=3).get_params()
    with pytest.warns(FutureWarning, match="the parameter unknown is called handle_unknown"):
        old.set_params(unknown="missing")
    assert old.handle_unknown == "missing"
    with pytest.raises(et.ParameterError, match="restarts is the old name of n_init, which is given too"):
        et.EMJunctionTree(et.zoo.Mixture(2), 4, restarts=3)


def test_seeds_go_by_both_names() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(3), random_state=3)
    same = et.LatentNetwork.random(et.zoo.mixture(3), seed=3)
    assert all(np.array_equal(network.tables[name], same.tables[name]) for name in network.tables)
    assert_array_equal(network.sample(9, random_state=1), network.sample(9, seed=1))
    rows = network.sample(9, 1)
    assert_array_equal(network.sample_hidden(rows, random_state=1), network.sample_hidden(rows, seed=1))
    with pytest.raises(et.ParameterError, match="seed is the old name of random_state"):
        network.sample(9, 1, seed=1)


@pytest.mark.parametrize("module", [et, et.zoo, et.plot, et.datasets])
def test_only_public_names_are_listed(module: ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)
