"""Goodness of fit, residuals and classification tables: against enumeration, and scipy."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, chi2_contingency, power_divergence

import eigentree as et
from eigentree.errors import DataError, ParameterError, UnknownNameError

NETWORK = et.LatentNetwork.random(et.zoo.mixture(3, 2, (2, 3, 2)), random_state=3, concentration=0.5)
CELLS = np.array(list(product(range(2), range(3), range(2))))
COUNTS = np.array([12, 3, 8, 0, 5, 9, 2, 2, 20, 1, 4, 14])
MODEL = et.LatentClassModel(2, random_state=0).fit(CELLS, sample_weight=COUNTS)


def test_goodness_of_fit_is_scipys_over_all_cells() -> None:
    found = et.goodness_of_fit(MODEL, CELLS, COUNTS)
    # scipy asks for equal sums, and these are shares of all cells.
    expected = COUNTS.sum() * np.exp(MODEL.score_samples(CELLS))
    for own, power in ((found.g2, 0), (found.x2, 1), (found.cressie_read, 2 / 3)):
        assert own.value == pytest.approx(power_divergence(COUNTS, expected, lambda_=power).statistic)
        assert own.p_value == pytest.approx(chi2.sf(own.value, found.df))
    assert (found.cells, found.parameters, found.df) == (12, 9, 2)
    known = et.goodness_of_fit(MODEL.network_, CELLS, COUNTS)
    assert (known.parameters, known.df, known.g2.value) == (0, 11, found.g2.value)


def test_rows_with_missing_cells_are_left_out() -> None:
    rows, counts = np.concatenate([CELLS, [[0, -1, 1]]]), np.append(COUNTS, 7)
    found = et.goodness_of_fit(MODEL, rows, counts)
    assert (found.rows, found.left_out) == (COUNTS.sum(), 7)
    assert found.g2 == et.goodness_of_fit(MODEL, CELLS, COUNTS).g2
    assert "7 rows with a missing cell are left out" in repr(found)
    with pytest.raises(DataError, match="every row has a missing cell"):
        et.goodness_of_fit(MODEL, [[0, -1, 1]])


def test_degrees_of_freedom_count_constraints_and_may_be_none() -> None:
    full = et.LatentClassModel(4, random_state=0).fit(CELLS, sample_weight=COUNTS)
    found = et.goodness_of_fit(full, CELLS, COUNTS)
    assert found.df < 0
    assert math.isnan(found.g2.p_value)
    assert "no degrees of freedom" in repr(found)


def test_pair_residuals_are_those_of_enumeration() -> None:
    found = et.bivariate_residuals(MODEL, CELLS, COUNTS)
    shares = np.exp(MODEL.score_samples(CELLS)).reshape(2, 3, 2)
    observed = COUNTS.reshape(2, 3, 2)
    for pair in found.pairs:
        axes = tuple(axis for axis in range(3) if f"x{axis}" not in pair.columns)
        seen, expected = observed.sum(axis=axes), COUNTS.sum() * shares.sum(axis=axes)
        assert_allclose(found.table(*pair.columns), (seen - expected) / np.sqrt(expected), atol=1e-9)
        assert pair.x2 == pytest.approx(((seen - expected) ** 2 / expected).sum())
        assert (pair.df, pair.residual) == ((seen.shape[0] - 1) * (seen.shape[1] - 1), pair.x2 / pair.df)
    assert_allclose(found.table("x2", "x0"), np.asarray(found.table("x0", "x2")).T)
    assert [pair.residual for pair in found.pairs] == sorted((pair.residual for pair in found.pairs), reverse=True)
    with pytest.raises(UnknownNameError, match="no residuals of"):
        found.table("x0", "x9")


def test_pairs_are_judged_by_the_rows_that_have_both() -> None:
    rows, counts = np.concatenate([CELLS, CELLS * [1, 1, 0] - [0, 0, 1]]), np.tile(COUNTS, 2)
    found, plain = (et.bivariate_residuals(MODEL, *each) for each in ((rows, counts), (CELLS, COUNTS)))
    for one, other in ((("x0", "x2"), 1.0), (("x0", "x1"), np.sqrt(2))):
        assert_allclose(found.table(*one), other * np.asarray(plain.table(*one)), atol=1e-9)


def test_pairs_of_one_class_are_tests_of_independence() -> None:
    one = et.LatentClassModel(1, random_state=0, pseudo_counts=0).fit(CELLS, sample_weight=COUNTS)
    found = {pair.columns: pair for pair in et.bivariate_residuals(one, CELLS, COUNTS).pairs}
    expected = chi2_contingency(COUNTS.reshape(2, 3, 2).sum(axis=2), correction=False)
    assert found["x0", "x1"].x2 == pytest.approx(expected.statistic)
    assert found["x0", "x1"].df == expected.dof


def test_columns_in_parts_of_a_graph_that_do_not_meet_are_independent() -> None:
    edges = [("g", "a"), ("g", "b"), ("h", "c"), ("h", "d")]
    graph = et.LatentGraph({"a": 2, "b": 2, "g": 2, "c": 2, "d": 2, "h": 2}, edges, ["g", "h"], directed=True)
    network = et.LatentNetwork.random(graph, random_state=0)
    rows = network.sample(300, random_state=0)
    found = et.bivariate_residuals(network, rows)
    joint = np.outer(*(np.asarray(network.joint([name])) for name in "ac"))
    seen = np.histogram2d(rows[:, 0], rows[:, 2], bins=2)[0]
    assert_allclose(found.table("a", "c"), (seen - 300 * joint) / np.sqrt(300 * joint))


def test_an_impossible_cell_that_was_seen_is_infinitely_far() -> None:
    graph = et.zoo.mixture(2, 1, (2, 2))
    sure = et.LatentNetwork(graph, {graph.hidden[0]: [1.0], "x0": [[1.0, 0.0]], "x1": [[0.5, 0.5]]})
    found = et.bivariate_residuals(sure, [[1, 0], [0, 0], [0, 1]])
    assert found.pairs[0].residual == math.inf
    assert et.goodness_of_fit(sure, [[1, 0], [0, 0], [0, 1]]).g2.value == math.inf


def test_numbers_have_no_counts() -> None:
    table = pandas.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "u", "v", "v"] * 10, "n": np.linspace(0, 1, 40)})
    model = et.LatentClassModel(2, random_state=0).fit(table)
    found = et.bivariate_residuals(model, table)
    assert [pair.columns for pair in found.pairs] == [("a", "b")]
    assert "left out, as numbers have no counts: n" in repr(found)
    with pytest.raises(DataError, match="columns of numbers have no counts, and n"):
        et.goodness_of_fit(model, table)
    alone = et.LatentClassModel(1, random_state=0).fit(table[["n"]])
    with pytest.raises(DataError, match="all columns are numbers"):
        et.bivariate_residuals(alone, table[["n"]])


def test_classification_table_sums_posteriors() -> None:
    posterior = np.asarray(MODEL.predict_proba(CELLS))
    modal = posterior.argmax(axis=1)
    found = et.classification_table(MODEL, CELLS, sample_weight=COUNTS)
    total = COUNTS.sum()
    for state in (0, 1):
        own = modal == state
        assert_allclose(np.asarray(found.counts)[state], COUNTS[own] @ posterior[own])
        assert_allclose(np.asarray(found.average)[state], np.average(posterior[own], axis=0, weights=COUNTS[own]))
    assert_allclose(np.asarray(found.counts).sum(), total)
    assert_allclose(found.shares, MODEL.class_weights_, atol=1e-4)
    assert_allclose(found.assigned, [COUNTS[modal == state].sum() / total for state in (0, 1)])
    assert found.misclassified == pytest.approx(1 - COUNTS @ posterior.max(axis=1) / total)
    assert found.entropy_r2 == pytest.approx(MODEL.entropy(CELLS, COUNTS))
    odds = found.avepp / (1 - found.avepp)
    assert_allclose(found.occ, odds / (found.shares / (1 - found.shares)))


def test_classification_table_of_one_class_and_of_a_class_without_rows() -> None:
    one = et.classification_table(et.LatentClassModel(1, random_state=0).fit(CELLS), CELLS)
    assert (one.misclassified, one.counts.tolist()) == (0.0, [[12.0]])
    assert math.isnan(one.entropy_r2)
    graph = et.zoo.mixture(1, 2, 2)
    unsure = et.LatentNetwork(graph, {graph.hidden[0]: [0.6, 0.4], "x0": [[0.5, 0.5], [0.5, 0.5]]})
    found = et.classification_table(unsure, [[0], [1]])
    assert np.isnan(found.avepp[1])
    assert_allclose(found.assigned, [1, 0])
    assert_allclose(found.shares, [0.6, 0.4])


def test_models_without_tables_are_refused() -> None:
    spectral = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(NETWORK.sample(100, random_state=0))
    for ask in (et.goodness_of_fit, et.bivariate_residuals, et.classification_table):
        with pytest.raises(ParameterError, match="the model is a LatentNetwork or a fitted LatentClassModel"):
            ask(spectral, CELLS)
