"""Information criteria: one formula, at tables of maximum likelihood."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import entr
from sklearn.mixture import GaussianMixture

import eigentree as et
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD, Criteria

NETWORK = et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), random_state=0)
ROWS = NETWORK.sample(200, random_state=1)
SEQUENCES = (
    et.EMHMM(2, random_state=0, pseudo_counts=0.0).fit([[0, 1, 0, 1], [1, 1, 0, 0]] * 20).sample(40, length=6)
)
WARNING = r"compare fits of maximum likelihood.*fit with pseudo_counts=1e-06 \(or 0\)"


def test_the_formulas_are_those_of_their_authors() -> None:
    posterior, weights = np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([1.0, 3.0])
    found = Criteria.of(-100.0, 7, 50.0, [(posterior, weights), (np.ones((2, 1)), weights)])
    bic = 200 + 7 * np.log(50)
    expected = {
        "log_likelihood": -100,
        "parameters": 7,
        "rows": 50,
        "bic": bic,
        "aic": 214,
        "sabic": 200 + 7 * np.log(52 / 24),
        "caic": bic + 7,
        "icl": bic + 2 * np.log(2),
        "entropy_r2": 0.75,
        "smallest_class": 0.125,
    }
    assert found._asdict() == pytest.approx(expected)


def test_stepmix_and_scikit_learn_have_the_same_criteria() -> None:
    """That StepMix 3 takes log(n (n + 2) / 24) for its sabic is a slip: Sclove's n* is (n + 2) / 24."""
    stepmix = pytest.importorskip("stepmix")
    other = stepmix.StepMix(2, measurement="categorical", n_init=5, random_state=0, abs_tol=1e-12, max_iter=5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.fit(ROWS)
    found = et.LatentClassModel(2, random_state=0).fit(ROWS).criteria(ROWS)
    theirs = [other.bic(ROWS), other.aic(ROWS), other.caic(ROWS), other.sabic(ROWS)]
    slip = found.parameters * np.log(len(ROWS))
    assert_allclose([found.bic, found.aic, found.caic, found.sabic + slip], theirs, atol=5e-3)
    assert_allclose(found.icl - found.bic, 2 * other.entropy(ROWS), rtol=1e-2)
    assert_allclose(found.entropy_r2, other.relative_entropy(ROWS), atol=5e-3)
    numbers = np.random.default_rng(0).normal([[0.0, 0.0], [4.0, 1.0]] * 100)
    normal = GaussianMixture(2, covariance_type="diag", reg_covar=0, tol=1e-9, random_state=0).fit(numbers)
    plain = {"family": "gaussian", "prior_rows": 0.0}
    profile = et.LatentClassModel(2, random_state=0, emissions=dict.fromkeys(("x0", "x1"), plain))
    assert_allclose(profile.fit(numbers).criteria(numbers).bic, normal.bic(numbers), atol=5e-3)
    assert_allclose(profile.aic(numbers), normal.aic(numbers), atol=5e-3)


def test_entropies_of_several_hidden_variables_and_of_steps_add_up() -> None:
    chain = et.LatentNetwork.random(et.zoo.hmm(4), random_state=2)
    rows, weights = chain.sample(50, random_state=3), np.arange(50.0)
    model = et.EMJunctionTree(et.zoo.HMM(), pseudo_counts=0, max_iter=20, tol=1.0, random_state=0).fit(rows)
    posteriors = [np.asarray(each) for each in model.posterior(rows).values()]
    entropy = -sum((weights[:, None] * each * np.log(each)).sum() for each in posteriors)
    found = model.criteria(rows, weights)
    assert found.icl - found.bic == pytest.approx(2 * entropy)
    assert found.entropy_r2 == pytest.approx(1 - entropy / (4 * weights.sum() * np.log(2)))
    assert found.smallest_class == pytest.approx(min(np.average(p, 0, weights).min() for p in posteriors))
    assert (found.bic, found.aic) == (model.bic(rows, weights), model.aic(rows, weights))
    steps = et.HMM(2, pseudo_counts=0, random_state=0).fit(SEQUENCES)
    proba = np.asarray(steps.predict_proba(SEQUENCES)).reshape(-1, 2)
    of_steps = steps.criteria(SEQUENCES)
    assert of_steps.icl - of_steps.bic == pytest.approx(2 * entr(proba).sum())
    assert of_steps.rows == len(proba)
    two = et.HMM((2, 3), pseudo_counts=0, random_state=0, n_init=1, max_iter=5, tol=1e9).fit(SEQUENCES)
    assert 0 <= two.criteria(SEQUENCES).entropy_r2 <= 1
    observed = et.learn_structure(rows, hidden_states=None)
    nothing_hidden = et.EMJunctionTree(observed, pseudo_counts=0).fit(rows).criteria(rows)
    assert nothing_hidden.icl == nothing_hidden.bic
    assert np.isnan(nothing_hidden.entropy_r2)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (et.EMJunctionTree(NETWORK.graph, pseudo_counts=0.1, random_state=0), ROWS),
        (et.EMJunctionTree(NETWORK.graph, random_state=0), ROWS),
        (et.LatentClassModel(2, pseudo_counts=0.5, random_state=0), ROWS),
        (et.OnlineEMJunctionTree(NETWORK.graph, pseudo_counts=1.0, tol=0.1, random_state=0), ROWS),
        (et.HMM(2, random_state=0), SEQUENCES),
        (et.HMM(2, random_state=0, pseudo_counts=0.0, sticky=2.0), SEQUENCES),
    ],
)
@pytest.mark.parametrize("criterion", ["bic", "aic", "criteria"])
def test_a_fit_with_pseudo_counts_is_warned_of(model: Any, data: Any, criterion: str) -> None:
    model.fit(data)
    with pytest.warns(UserWarning, match=WARNING):
        getattr(model, criterion)(data)


@pytest.mark.parametrize(
    ("model", "data", "count"),
    [
        (et.EMJunctionTree(NETWORK.graph, pseudo_counts=0, random_state=0), ROWS, 200),
        (et.LatentClassModel(2, random_state=0), ROWS, 200),
        (et.HMM(2, random_state=0, pseudo_counts=MAXIMUM_LIKELIHOOD), SEQUENCES, 240),
    ],
)
def test_a_fit_of_maximum_likelihood_is_not(model: Any, data: Any, count: int) -> None:
    log_likelihood = float(model.fit(data).score_samples(data).sum())
    expected = Criteria.of(log_likelihood, model.n_parameters_, count)
    assert (model.bic(data), model.aic(data)) == pytest.approx((expected.bic, expected.aic))
