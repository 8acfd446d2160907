"""Standard errors of hidden semi-Markov models: slopes along free coordinates, and replicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.uncertainty.free_models import free_model
from eigentree.uncertainty.refits import FittedModel

FAMILIES = ("explicit", "negative_binomial", "geometric")


def drawn(count: int = 80, steps: int = 25, numbers: bool = False) -> list[np.ndarray]:
    """Return sequences whose two states last one step and a Poisson number of further ones."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(count):
        states: list[int] = []
        state = int(random.integers(2))
        while len(states) < steps:
            states += [state] * (1 + random.poisson((2, 5)[state]))
            state = 1 - state
        shown = np.array(states[:steps])
        found.append(
            shown + random.normal(size=steps) if numbers else np.where(random.random(steps) < 0.85, shown, 2)
        )
    return found


def fitted(family: Any, numbers: bool = False, **settings: Any) -> tuple[et.HMM, list[np.ndarray]]:
    X = drawn(numbers=numbers)
    how: dict[str, Any] = {"emissions": "gaussian"} if numbers else {}
    how |= {"durations": family, "max_duration": 8, "random_state": 0, "pseudo_counts": 1e-6, "n_init": 2}
    return et.HMM(2, **how | settings).fit(X), X


@pytest.mark.parametrize(("family", "numbers"), [(own, False) for own in FAMILIES] + [("negative_binomial", True)])
@pytest.mark.parametrize("prior", [0.0, 0.7])
def test_the_gradient_equals_numerical_differences(family: Any, numbers: bool, prior: float) -> None:
    model, X = fitted(family, numbers, pseudo_counts=prior)
    free = free_model(FittedModel.of(model, X, None, None))
    assert 0 < free.count <= model.n_parameters_
    by = 0.05 * np.random.default_rng(1).normal(size=free.count)

    def value(at: np.ndarray) -> float:
        (tables, durations), emissions = free.at(at)
        layout = free.objective.layout
        vector = layout.with_durations(layout.whole(tables, emissions), durations)
        if not prior:
            assert_allclose(free.objective.log_likelihood(vector), free.totals @ free.log_prob(at), rtol=1e-10)
        return free.objective.evaluated(vector).objective

    found = [(value(by + step) - value(by - step)) / 2e-5 for step in 1e-5 * np.eye(free.count)]
    # Those of emissions are differences themselves.
    assert_allclose(free.gradient(by), found, rtol=1e-3 if numbers else 1e-5, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES[:2])
def test_errors_of_mean_durations_are_those_of_replicates(family: Any) -> None:
    model, X = fitted(family, tol=1e-8)
    found = model.estimates(statistic=lambda own: own.durations_)
    assert_allclose(found.values, model.durations_)
    replicates = et.bootstrap(model, X, lambda own: own.durations_, n_replicates=20, random_state=0)
    assert_allclose(replicates.standard_errors, found.standard_errors, rtol=0.6)
    labels = model.estimates().labels
    assert sum(label[0] == "durations" for label in labels) == 16
