"""Information criteria: one formula, at tables of maximum likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eigentree as et
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD, Criteria

NETWORK = et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), seed=0)
ROWS = NETWORK.sample(200, seed=1)
SEQUENCES = (
    et.EMHMM(2, random_state=0, pseudo_counts=0.0).fit([[0, 1, 0, 1], [1, 1, 0, 0]] * 20).sample(40, length=6)
)
WARNING = r"compare fits of maximum likelihood.*fit with pseudo_counts=1e-06 \(or 0\)"


def test_the_formulas_are_those_of_schwarz_and_akaike() -> None:
    assert Criteria.of(-100.0, 7, 50.0) == pytest.approx((200 + 7 * np.log(50), 214))


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
@pytest.mark.parametrize("criterion", ["bic", "aic"])
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
    assert (model.bic(data), model.aic(data)) == pytest.approx(expected)


@pytest.mark.parametrize("criterion", ["bic", "aic"])
def test_a_selection_by_a_criterion_compares_fits_of_maximum_likelihood(criterion: Any) -> None:
    selected = et.select_hmm(
        SEQUENCES, (1, 2), criterion=criterion, estimator=et.HMM(random_state=0, pseudo_counts=1)
    )
    assert selected.model.pseudo_counts == MAXIMUM_LIKELIHOOD
    best = min(selected.trials, key=lambda trial: trial.value)
    assert getattr(selected.model, criterion)(SEQUENCES) == best.value
