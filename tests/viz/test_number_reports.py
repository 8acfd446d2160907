"""Reports and plots of models with numbers: what they show is what the model answers."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import eigentree as et
from eigentree.viz.reports.anomalous_rows import anomalies
from eigentree.viz.reports.evaluation import likelihoods_of, masked_accuracy
from eigentree.viz.reports.evaluation_data import EvaluationData, adapter_of, evaluation_data
from eigentree.viz.reports.masked_numbers import masked_numbers, number_accuracies


def people(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    which = random.choice(3, rows, p=[0.5, 0.3, 0.2])
    found = pd.DataFrame(
        {
            "colour": np.array(["red", "blue", "green"])[np.where(random.random(rows) < 0.85, which, 0)],
            "height": np.round(np.array([165.0, 180.0, 150.0])[which] + random.normal(0, 6, rows), 1),
            "visits": random.poisson(np.array([2, 15, 40])[which]),
        }
    )
    found["weight"] = np.round(found.height * 0.9 - 90 + random.normal(0, 6, rows), 1)
    found.loc[::11, "height"] = None
    found.loc[::13, "colour"] = None
    return found


FAMILIES = {("height", "weight"): "full", "visits": "negative_binomial"}


@pytest.fixture(scope="module")
def fitted() -> et.LatentClassModel:
    return et.LatentClassModel(3, emissions=FAMILIES, random_state=0).fit(people())


@pytest.fixture(scope="module")
def data(fitted: et.LatentClassModel) -> EvaluationData:
    return evaluation_data(adapter_of(fitted), people(seed=1))


def text_of(page: str) -> str:
    return re.sub(r"<[^>]+>", " ", page)


def test_a_page_has_every_column_and_what_is_known_of_numbers(fitted: et.LatentClassModel) -> None:
    made = et.report(fitted, people(seed=1), training=people())
    shown = text_of(made.html)
    for name in ("colour", "height", "weight", "visits"):
        assert name in shown
    for mean, std in np.asarray(fitted.tables_["height"]):
        assert f"{mean:.4g}" in shown
        assert f"{std:.3g}" in shown
    for words in ("log density", "Correlations in each state", "Densities of numbers", "inside 90"):
        assert words in shown
    assert "nan" not in shown.lower().split()


@pytest.mark.parametrize("columns", [["height"], ["height", "weight"], ["colour", "height"], ["visits"]])
def test_any_columns_make_a_page(columns: list[str]) -> None:
    rows = people()[columns]
    emissions = {"visits": "poisson"} if "visits" in columns else "auto"
    model = et.LatentClassModel(2, emissions=emissions, random_state=0).fit(rows)
    assert et.report(model).html
    assert et.report(model, rows).html
    assert et.report(model.network_, rows).html
    assert et.plot.profiles(model).get_title()
    assert et.plot.densities(model).lines
    assert et.plot.graph(model).get_title()


def test_masked_numbers_are_predicted_as_by_predict(fitted: et.LatentClassModel, data: EvaluationData) -> None:
    rows = people(seed=1)
    for one in masked_numbers(data, 10_000):
        known = rows[one.column].notna().to_numpy()
        np.testing.assert_array_equal(one.unit, np.flatnonzero(known))
        np.testing.assert_allclose(one.mean, np.asarray(fitted.predict(rows, one.column))[known])
        if one.column == "visits":
            continue
        # Outside the quantiles of 5 % and 95 % is the tail of a tenth.
        low, high = np.asarray(fitted.predict_quantiles(rows, one.column, [0.05, 0.95]))[known].T
        np.testing.assert_array_equal(one.beyond(0.1), (one.value < low) | (one.value > high))


def test_accuracies_of_numbers_are_those_of_their_predictions(data: EvaluationData) -> None:
    predictions = {one.column: one for one in masked_numbers(data, 10_000)}
    for one in number_accuracies(data):
        own = predictions[one.column]
        error = np.mean((own.value - own.mean) ** 2)
        assert one.rmse == pytest.approx(np.sqrt(error))
        assert one.r2 == pytest.approx(1 - error / own.value.var())
        assert 0.8 < one.covered <= 1.0
        assert one.rmse < own.value.std()


def test_masked_categories_are_predicted_as_by_predict_proba(
    fitted: et.LatentClassModel, data: EvaluationData
) -> None:
    cells = data.masked_cells(10_000)
    rows = people(seed=1)
    proba = np.asarray(fitted.predict_proba(rows, "colour"))[cells.unit]
    np.testing.assert_allclose(cells.highest, proba.max(axis=1))
    np.testing.assert_allclose(cells.proba, proba[np.arange(len(proba)), cells.code])
    assert len(cells.unit) == rows.colour.notna().sum()
    found = masked_accuracy(data)
    assert found is not None
    assert (found.cells, found.known) == (len(cells.unit), len(cells.unit))


def test_independent_columns_are_normal_and_categories_counted(data: EvaluationData) -> None:
    numbers = evaluation_data(
        adapter_of(et.LatentClassModel(1, random_state=0).fit(people()[["height", "weight"]])),
        people(seed=1)[["height", "weight"]],
    )
    found = likelihoods_of(numbers)
    independent = next(one for one in found.in_sample if one.name == "independent columns")
    expected = 0.0
    for own in people(seed=1)[["height", "weight"]].to_numpy().T:
        own = own[~np.isnan(own)]
        expected += norm.logpdf(own, own.mean(), own.std()).sum() / numbers.count
    assert independent.mean == pytest.approx(expected)
    assert found.mean == pytest.approx(numbers.log_prob().mean())
    # More is known of a row by a tree and covariances than by each column alone.
    every = {one.name: one.mean for one in likelihoods_of(data).in_sample}
    assert every["Chow-Liu tree and a normal distribution"] > every["independent columns"]


def test_a_planted_outlier_is_the_first_anomaly(fitted: et.LatentClassModel) -> None:
    rows = people(seed=1)
    rows.loc[17, "weight"] = 300.0
    found = anomalies(evaluation_data(adapter_of(fitted), rows))
    assert found[0].name == "17"
    assert found[0].cells[0].column == "weight"
    assert found[0].cells[0].label == "300"
    assert found[0].cells[0].highest is None
    assert "300" in text_of(et.report(fitted, rows).html)


def test_curves_of_densities_add_up(fitted: et.LatentClassModel) -> None:
    ax = et.plot.densities(fitted, "height")
    every, *states = (line.get_ydata() for line in ax.lines)
    assert len(states) == 3
    np.testing.assert_allclose(sum(states), every)
    x = ax.lines[0].get_xdata()
    np.testing.assert_allclose(every, fitted.conditional(["height"], {}).pdf(x), rtol=1e-9)
    counts = et.plot.densities(fitted, "visits").lines[0].get_xdata()
    np.testing.assert_array_equal(counts, np.rint(counts))


def test_what_cannot_be_drawn_is_an_error(fitted: et.LatentClassModel) -> None:
    with pytest.raises(et.errors.GraphError, match="no number 'hight'; did you mean 'height'"):
        et.plot.densities(fitted, "hight")
    with pytest.raises(et.errors.ParameterError, match="no columns of numbers"):
        et.plot.densities(et.LatentNetwork.random(et.zoo.mixture(columns=3, hidden_states=2), seed=0))


def sequences(seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    states = np.concatenate([np.repeat(random.permutation(2), 15) for _ in range(12)])
    return pd.DataFrame(
        {
            "who": np.repeat(np.arange(12), 30),
            "x": np.array([0.0, 5.0])[states] + random.normal(size=360),
            "y": np.array([2.0, -1.0])[states] + random.normal(size=360),
            "kind": np.array(["a", "b"])[np.where(random.random(360) < 0.8, states, 1 - states)],
        }
    )


@pytest.mark.parametrize("columns", [["who", "x"], ["who", "x", "y"], ["who", "x", "y", "kind"]])
def test_sequences_with_numbers_make_a_page(columns: list[str]) -> None:
    rows = sequences()[columns]
    model = et.EMHMM(2, sequence="who", random_state=0).fit(rows)
    made = et.report(model, rows, training=sequences(1)[columns])
    assert {one.column for one in made.facts.numbers} == {"x", "y"} & set(columns)
    assert all(one.r2 > 0.3 for one in made.facts.numbers)
    assert "log density" in made.html
    assert et.report(model).html
    assert et.plot.densities(model).lines
    assert et.plot.profiles(model).get_title()


def test_masked_steps_are_predicted_from_the_rest_of_their_sequence() -> None:
    rows = sequences()
    model = et.EMHMM(2, sequence="who", random_state=0).fit(rows)
    one = next(own for own in masked_numbers(evaluation_data(adapter_of(model), rows), 5) if own.column == "y")
    for unit, step, mean in zip(one.unit, one.step, one.mean, strict=True):
        masked = rows[rows.who == unit].reset_index(drop=True)
        masked.loc[step, "y"] = None
        assert np.asarray(model.impute(masked)["y"])[step] == pytest.approx(mean)
