"""Standard errors of hidden Markov models with inputs: derivatives, plain models as a special case, odds ratios."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.uncertainty.free_inputs import InputModel
from eigentree.uncertainty.free_models import free_model
from eigentree.uncertainty.refits import FittedModel

COUNT, LENGTH = 60, 6


def drawn(numbers: bool = False, seed: int = 0) -> tuple[Any, pandas.DataFrame]:
    """Return sequences of two states whose moves depend on a dose, and the inputs of their steps."""
    random = np.random.default_rng(seed)
    dose = random.normal(size=(COUNT, LENGTH))
    state = random.integers(2, size=COUNT)
    steps = np.empty((COUNT, LENGTH))
    for t in range(LENGTH):
        stays = 1.0 / (1.0 + np.exp(-(1.0 + dose[:, t])))
        state = np.where(random.random(COUNT) < stays, state, 1 - state) if t else state
        shown = (random.random(COUNT) < 0.15) ^ (state == 1)
        steps[:, t] = 3.0 * state + random.normal(size=COUNT) if numbers else shown
    frame = pandas.DataFrame(
        {"dose": dose.ravel(), "group": np.where(random.random(COUNT * LENGTH) < 0.6, "u", "v")}
    )
    X = (
        [part[:, None] for part in steps]
        if numbers
        else ["".join("ab"[int(cell)] for cell in part) for part in steps]
    )
    return X, frame


def fitted(X: Any, inputs: Any, **settings: Any) -> et.EMHMM:
    settings = {"init": "random", "n_init": 1, "random_state": 0, "tol": 1e-10, "max_iter": 3000, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return et.EMHMM(2, **settings).fit(X, inputs=inputs)


CASES = [
    ("labels", ["dose", "group"], ("start", "transitions", "emissions")),
    ("labels", ["group"], ("start", "transitions", "emissions")),
    ("numbers", ["dose"], ("start", "transitions")),
    ("numbers", ["group"], ("transitions", "emissions")),
]


@pytest.mark.parametrize(("kind", "columns", "affect"), CASES)
def test_the_gradient_along_free_coordinates_is_that_of_the_objective(kind, columns, affect) -> None:
    X, frame = drawn(kind == "numbers")
    settings = {"emissions": {"x0": {"family": "gaussian", "prior_rows": 0}}} if kind == "numbers" else {}
    model = fitted(X, frame[columns], inputs_affect=affect, max_iter=5, pseudo_counts=0, **settings)
    free = free_model(FittedModel.of(model, X, None, None, frame[columns]))
    assert isinstance(free, InputModel)
    assert free.count == model.n_parameters_
    random = np.random.default_rng(1)
    at = 0.1 * random.normal(size=free.count)
    for _ in range(3):
        direction, step = random.normal(size=free.count), 1e-5
        ends = [free.log_prob(at + sign * step * direction).sum() for sign in (1, -1)]
        slope = free.gradient(at) @ direction
        assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-5)


def test_constant_inputs_have_the_errors_of_the_plain_model() -> None:
    X, _ = drawn()
    given = et.EMHMM(2, random_state=0, n_init=1, tol=1e-11, max_iter=3000).fit(X)
    settings = {"init": given.tables_, "tol": 1e-11, "max_iter": 3000}
    plain = et.EMHMM(2, **settings).fit(X)
    model = et.EMHMM(2, inputs_affect=("start", "transitions", "emissions"), **settings).fit(
        X, inputs=["u"] * COUNT
    )
    assert_allclose(model.estimates().standard_errors, plain.estimates().standard_errors, rtol=1e-4)


def test_coefficients_have_errors_and_odds_ratios_intervals() -> None:
    X, frame = drawn()
    model = fitted(X, frame[["dose"]], inputs_affect="transitions", pseudo_counts=0)
    found = model.estimates()
    own = [labels[2].endswith("covariate=dose") for labels in found.labels]
    errors = found.standard_errors[own]
    assert (errors > 0).all()
    # Odds of staying rise with the dose by the factor e.
    table = model.coefficients_["transitions"]
    assert np.asarray(table)[0, 1, 1] < 0 < np.asarray(table)[1, 1, 1]
    ratios = model.odds_ratios()
    assert_allclose(np.log(ratios.values), found.values[own])
    ends = found.confint()[own]
    assert_allclose(np.log(ratios.confint()), ends, atol=1e-8)
    truth = np.array([-1.0, 1.0])
    assert ((ends[:, 0] < truth) & (truth < ends[:, 1])).all()
    assert_allclose(model.estimates(X, inputs=frame[["dose"]]).standard_errors, found.standard_errors, atol=1e-10)
    assert np.asarray(model.standard_errors_["logit of transitions"]).shape == (2, 2, 1)


def test_errors_say_what_is_wrong() -> None:
    X, frame = drawn()
    symbols = fitted(X, frame["group"], max_iter=3)
    with pytest.raises(et.ParameterError, match="odds ratios are those of multinomial logits"):
        symbols.odds_ratios()
    with pytest.raises(et.ParameterError, match="odds ratios are those of multinomial logits"):
        et.EMHMM(2, init="random", n_init=1, max_iter=2).fit(X).odds_ratios()
    with pytest.raises(et.DataError, match="bootstrap and estimates take inputs="):
        et.bootstrap(symbols, X, n_replicates=2)
