"""Mixture hidden Markov models: clusters of sequences, with covariates, against enumeration and kin of theirs."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.errors import DataError, EigentreeError, FileError, ParameterError
from eigentree.inference.sequences.stored_chain import read_clusters
from eigentree.uncertainty.free_models import free_model
from eigentree.uncertainty.refits import FittedModel


def drawn(count: int = 120, seed: int = 0, steps: int = 12) -> tuple[list[np.ndarray], np.ndarray]:
    """Return sequences of two clusters, one of which stays where it is, and the clusters."""
    random = np.random.default_rng(seed)
    clusters, found = random.integers(2, size=count), []
    for cluster in clusters:
        states = [0]
        for _ in range(steps - 1):
            states.append(states[-1] if random.random() < (0.95, 0.3)[cluster] else 1 - states[-1])
        found.append(np.where(random.random(steps) < 0.9, states, 2))
    return found, clusters


def covariates_of(clusters: np.ndarray, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.stack([clusters + random.normal(size=len(clusters)), random.normal(size=len(clusters))], axis=1)


def fitted(X: Any, inputs: Any = None, **settings: Any) -> et.MixtureHMM:
    return et.MixtureHMM(**({"random_state": 0, "pseudo_counts": 1e-6} | settings)).fit(X, inputs=inputs)


SEQUENCES, CLUSTERS = drawn()
COVARIATES = covariates_of(CLUSTERS)


def enumerated(model: et.MixtureHMM, sequence: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return P(cluster, sequence) of each cluster, as a sum over all paths of its states."""
    found = []
    for share, own in zip(shares, model.clusters_, strict=True):
        total = 0.0
        for path in itertools.product(range(own.hidden_states), repeat=len(sequence)):
            weight = own.startprob_[path[0]]
            for before, state in itertools.pairwise(path):
                weight *= own.transmat_[before, state]
            total += weight * np.prod([own.emissionprob_[s, x] for s, x in zip(path, sequence, strict=True)])
        found.append(share * total)
    return np.array(found)


@pytest.mark.parametrize("with_covariates", [False, True])
def test_scores_and_clusters_equal_enumeration(with_covariates: bool) -> None:
    inputs = COVARIATES if with_covariates else None
    model = fitted(SEQUENCES, inputs, hidden_states=[1, 3], max_iter=5, init="random", n_init=1)
    about = {"inputs": COVARIATES[:3]} if with_covariates else {}
    short = [part[:5] for part in SEQUENCES[:3]]
    proba, log_prob = model.predict_proba(short, **about), model.score_samples(short, **about)
    for number, part in enumerate(short):
        shares = model.cluster_weights_ if not with_covariates else None
        if shares is None:
            logits = np.asarray(model.coefficients_) @ [1.0, *COVARIATES[number]]
            shares = np.exp(logits) / np.exp(logits).sum()
            plain = model.at_inputs(COVARIATES[number])
            assert_allclose(plain.cluster_weights_, shares)
            assert_allclose(plain.score_samples([part]), log_prob[number])
        joint = enumerated(model, part, shares)
        assert_allclose(np.exp(log_prob[number]), joint.sum(), rtol=1e-10)
        assert_allclose(proba[number], joint / joint.sum(), rtol=1e-9)
    states = model.predict_proba(short, target="state", **about)
    by_cluster = [np.add.reduceat(part, [0, 1], axis=1) for part in states]
    assert_allclose(by_cluster, np.repeat(np.asarray(proba)[:, None], 5, axis=1), atol=1e-10)
    decoded = model.decode(short, **about).states
    assert all(len(set(model.state_clusters_[part])) == 1 for part in decoded)


def test_one_cluster_is_the_hidden_markov_model() -> None:
    mixture, plain = fitted(SEQUENCES, n_clusters=1), et.HMM(2, random_state=0, pseudo_counts=1e-6).fit(SEQUENCES)
    assert_array_equal(mixture.score_samples(SEQUENCES), plain.score_samples(SEQUENCES))
    assert mixture.n_parameters_ == plain.n_parameters_ == mixture.clusters_[0].n_parameters_
    assert_array_equal(mixture.predict(SEQUENCES), 0)
    assert_allclose(mixture.predict_proba(SEQUENCES), 1.0)
    about = fitted(SEQUENCES, COVARIATES, n_clusters=1)
    assert about.n_parameters_ == plain.n_parameters_
    assert_allclose(about.score(SEQUENCES, inputs=COVARIATES), plain.score(SEQUENCES), rtol=1e-6)


def test_clusters_are_found() -> None:
    model = fitted(SEQUENCES)
    right = np.mean(model.predict(SEQUENCES) == CLUSTERS)
    assert max(right, 1 - right) > 0.95
    assert model.cluster_weights_[0] >= model.cluster_weights_[1]
    assert_allclose(model.tables_["clusters"], model.cluster_weights_)
    assert 0.8 < model.entropy(SEQUENCES) < 1
    assert model.bic(SEQUENCES) == pytest.approx(model.criteria(SEQUENCES).bic)
    assert et.select(SEQUENCES, (1, 2, 3), et.MixtureHMM(random_state=0)).best().n_clusters == 2
    # Scores are those of the clusters, weighed.
    each = [own.score_samples(SEQUENCES) for own in model.clusters_]
    assert_allclose(np.exp(model.score_samples(SEQUENCES)), model.cluster_weights_ @ np.exp(each))
    new = model.sample(400, length=12, random_state=0)
    assert_allclose(np.bincount(model.predict(new)) / 400, model.cluster_weights_, atol=0.08)


@pytest.mark.parametrize("with_covariates", [False, True])
def test_clusters_in_another_order_are_the_same_model(with_covariates: bool) -> None:
    inputs = COVARIATES if with_covariates else None
    model = fitted(SEQUENCES, inputs)
    about = {"inputs": inputs} if with_covariates else {}
    order = np.array([2, 3, 0, 1])
    other = fitted(SEQUENCES, inputs)
    other.model_ = model.model_.permuted([order])
    assert_allclose(other.score_samples(SEQUENCES, **about), model.score_samples(SEQUENCES, **about))
    swapped = np.asarray(model.predict_proba(SEQUENCES, **about))[:, ::-1]
    assert_allclose(other.predict_proba(SEQUENCES, **about), swapped, rtol=1e-9)
    if with_covariates:
        assert_allclose(np.asarray(other.coefficients_)[1], -np.asarray(model.coefficients_)[1])
        return
    tables = other.tables_
    given = {name: tables[name] for name in ("start", "transitions", "emissions")}
    again = fitted(SEQUENCES, init=given)
    assert_allclose(again.score(SEQUENCES), model.score(SEQUENCES), rtol=1e-8)


def test_clusters_of_one_step_are_latent_classes() -> None:
    """One step with several channels has no transitions: a latent class model, with its coefficients and errors."""
    random = np.random.default_rng(3)
    z = random.normal(size=600)
    classes = (random.random(600) < 1 / (1 + np.exp(-1.0 - 0.8 * z))).astype(int)
    items = (random.random((600, 4)) < np.array([0.15, 0.85])[classes][:, None]).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture = fitted(items[:, None, :], z[:, None], hidden_states=1, tol=1e-12)
    columns = {f"x{place}": column for place, column in enumerate(items.T)}
    table = {**columns, "z": z}
    import pandas

    frame = pandas.DataFrame(table)
    plain = et.LatentClassModel(2, covariates=["z"], random_state=0, tol=1e-12).fit(frame)
    assert mixture.n_parameters_ == plain.n_parameters_
    assert_allclose(mixture.coefficients_, plain.coefficients_, atol=2e-4)
    steps = et.class_regression(plain, frame)
    errors = mixture.estimates(kind="robust").part(table="logit of clusters").standard_errors
    assert_allclose(errors, steps.coefficients.standard_errors, rtol=1e-3)
    ratios = mixture.odds_ratios()
    assert_allclose(ratios.values, np.exp(np.asarray(mixture.coefficients_)[1, 1:]))


@pytest.mark.parametrize("inputs", [np.ones((120, 1)), ["same"] * 120])
def test_covariates_that_are_constant_change_nothing(inputs: Any) -> None:
    plain, about = fitted(SEQUENCES), fitted(SEQUENCES, inputs)
    assert about.n_parameters_ == plain.n_parameters_
    assert_allclose(about.score(SEQUENCES, inputs=inputs), plain.score(SEQUENCES), rtol=1e-6)


def test_symbols_have_one_coefficient_less_than_labels() -> None:
    label = np.where(CLUSTERS + np.random.default_rng(5).random(120) > 0.9, "high", "low")
    model = fitted(SEQUENCES, label)
    assert np.asarray(model.coefficients_).shape == (2, 2)
    assert model.n_parameters_ == fitted(SEQUENCES).n_parameters_ + 1
    numbers = (label == "low").astype(float)[:, None]
    assert_allclose(model.coefficients_, fitted(SEQUENCES, numbers).coefficients_, atol=1e-4)


@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_em_with_covariates_never_lowers_the_objective(prior: float) -> None:
    model = fitted(SEQUENCES, COVARIATES, hidden_states=[2, 1], pseudo_counts=prior, tol=1e-10)
    assert (np.diff(model.history_) > -1e-9 * len(SEQUENCES)).all()
    steps = sum(map(len, SEQUENCES))
    if prior == 0:
        assert_allclose(model.history_[-1], model.score_samples(SEQUENCES, inputs=COVARIATES).sum(), rtol=1e-6)
    assert model.score(SEQUENCES, inputs=COVARIATES) * len(SEQUENCES) / steps < 0


def test_the_gradient_of_free_coordinates_equals_numerical_differences() -> None:
    model = fitted(
        SEQUENCES, COVARIATES, hidden_states=[2, 3], pseudo_counts=0.0, max_iter=3, init="random", n_init=1
    )
    free = free_model(FittedModel.of(model, SEQUENCES, None, None, COVARIATES))
    # Entries that hardly any sequence uses do not move.
    assert model.n_parameters_ - 4 <= free.count <= model.n_parameters_
    by = 0.1 * np.random.default_rng(0).normal(size=free.count)
    own = free.estimator(by)
    slopes = np.diff(own.model_.tables.start.array[1:, 0], axis=1)
    assert_array_equal(slopes[:, np.diff(model.state_clusters_) == 0], 0.0)

    def value(at: np.ndarray) -> float:
        return float(free.totals @ free.log_prob(at))

    found = [(value(by + step) - value(by - step)) / 2e-5 for step in 1e-5 * np.eye(free.count)]
    assert_allclose(free.gradient(by), found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["plain", "covariates", "durations", "numbers"])
def test_a_saved_model_is_the_same(kind: str, tmp_path: Path) -> None:
    X: Any = SEQUENCES
    if kind == "numbers":
        X = [part + np.random.default_rng(0).normal(size=len(part)) for part in SEQUENCES]
    inputs = COVARIATES if kind == "covariates" else None
    more: dict[str, Any] = {"durations": "geometric", "max_duration": 4} if kind == "durations" else {}
    if kind == "numbers":
        more["emissions"] = "gaussian"
    model = fitted(X, inputs, hidden_states=[2, 1], max_iter=20, n_init=1, init="random", **more)
    model.save(tmp_path / "model")
    again = et.load(tmp_path / "model")
    about = {} if inputs is None else {"inputs": inputs}
    assert_allclose(again.predict_proba(X, **about), model.predict_proba(X, **about), rtol=1e-12, atol=1e-14)
    assert_array_equal(again.state_clusters_, [0, 0, 1])
    assert [own.hidden_states for own in again.clusters_] == [2, 1]
    for damaged in ([1, 2], [2, 1, 1], [2.0, 1], "2, 1", [2, -1, 2]):
        with pytest.raises(FileError):
            read_clusters(damaged, model.model_)
    assert_array_equal(read_clusters([2, 1], model.model_), [0, 0, 1])


def test_replicates_keep_inputs_and_clusters() -> None:
    model = fitted(SEQUENCES, COVARIATES)
    found = et.bootstrap(
        model, SEQUENCES, lambda own: own.coefficients_[1], inputs=COVARIATES, n_replicates=20, random_state=0
    )
    errors = model.estimates().part(table="logit of clusters").standard_errors
    assert ((found.standard_errors > 0.4 * errors) & (found.standard_errors < 2.5 * errors)).all()
    moves = et.HMM(2, inputs_affect="transitions", random_state=0).fit(SEQUENCES, inputs=COVARIATES)
    again = FittedModel.of(moves, SEQUENCES, None, None, COVARIATES)
    # A fit to the same data from where it ended stays there.
    same = again.refit(again.data, again.weights, np.random.default_rng(0))
    about = {"inputs": COVARIATES}
    assert_allclose(same.score(SEQUENCES, **about), moves.score(SEQUENCES, **about), rtol=1e-6)
    data, weights = again.sampled(np.random.default_rng(0))
    assert_array_equal(data.which, again.data.which)
    assert weights.sum() == len(SEQUENCES)
    assert_allclose(again.matched(same).score(SEQUENCES, **about), same.score(SEQUENCES, **about))


def test_matching_keeps_states_within_clusters() -> None:
    model = fitted(SEQUENCES)
    fit = FittedModel.of(model, SEQUENCES, None, None)
    other = fitted(SEQUENCES)
    other.model_ = model.model_.permuted([np.array([3, 2, 0, 1])])
    assert_allclose(fit.matched(other).model_.links[1], model.model_.links[1])


def test_the_rest_of_the_interface() -> None:
    left = fitted(SEQUENCES, transitions="left-to-right", hidden_states=[2, 3])
    moves = np.asarray(left.tables_["transitions"])
    assert_array_equal(np.tril(moves, -1), 0.0)
    assert_array_equal(moves[:2, 2:], 0.0)
    lasting = fitted(SEQUENCES, durations="explicit", max_duration=3, hidden_states=[1, 2])
    assert lasting.clusters_[1].tables_["durations"].shape == (2, 3)
    assert_allclose(
        np.exp(lasting.score_samples(SEQUENCES)),
        lasting.cluster_weights_ @ np.exp([own.score_samples(SEQUENCES) for own in lasting.clusters_]),
    )
    model = fitted(SEQUENCES)
    assert_allclose(model.predict_proba([[], [0, 0, 0]])[0], model.cluster_weights_)
    lines = model.estimates().labels
    assert not any(
        name == "transitions" and given == "state before=0" and state > 1 for name, state, given in lines
    )
    assert ("clusters", 0, "") in lines
    second = fitted([part[:6] for part in SEQUENCES], order=2)
    assert second.clusters_[0].model_.order == 2


@pytest.mark.parametrize(
    ("settings", "inputs", "message"),
    [
        ({"n_clusters": 0}, None, "n_clusters"),
        ({"hidden_states": [2, 3, 1]}, None, "one for each of 2 clusters"),
        ({"hidden_states": [2, 0]}, None, "hidden_states"),
        ({"transitions": np.ones((4, 4))}, None, "transitions"),
        ({}, [np.arange(12.0)] * 120, "differ from step to step"),
        ({"durations": "explicit"}, COVARIATES, "durations are of chains without inputs"),
    ],
)
def test_errors_say_what_is_wrong(settings: dict[str, Any], inputs: Any, message: str) -> None:
    with pytest.raises((ParameterError, DataError), match=message):
        fitted(SEQUENCES, inputs, **settings)


def test_what_depends_on_covariates_says_so() -> None:
    model, plain = fitted(SEQUENCES, COVARIATES), fitted(SEQUENCES)
    with pytest.raises(AttributeError, match="at_inputs"):
        _ = model.cluster_weights_
    with pytest.raises(AttributeError, match="without"):
        _ = plain.coefficients_
    with pytest.raises(EigentreeError, match="inputs"):
        model.predict(SEQUENCES)
    with pytest.raises(DataError, match="bootstrap and estimates take inputs="):
        et.bootstrap(model, SEQUENCES)
