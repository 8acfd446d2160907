"""What estimators with tables add: labelled tables, information criteria, expected counts; hmmlearn beside them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from em_problems import brute_counts, is_learned, problems
from hmmlearn.hmm import CategoricalHMM
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from random_graphs import latent_graphs
from shared_files import shared_file

import eigentree as et
from eigentree.em.parameters import ParameterLayout

GRAPH = et.zoo.mixture(5, 3, 4)
ROWS = et.LatentNetwork.random(GRAPH, seed=0).sample(300, seed=1)


@pytest.mark.parametrize("estimator", [et.EMJunctionTree, et.OnlineEMJunctionTree])
def test_tables_are_those_of_the_network_with_names(estimator: type) -> None:
    model = estimator(GRAPH, random_state=0).fit(ROWS)
    assert list(model.tables_) == list(model.network_.tables)
    for name, table in model.tables_.items():
        assert table.names == (*GRAPH.parents(name), name)
        assert_array_equal(table, model.network_.tables[name])
    assert_allclose(model.tables_["x2"].at(h=1).array.sum(), 1)


def test_a_table_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    tables = et.LatentNetwork.random(GRAPH, seed=0).labeled_tables
    for kind in (KeyError, et.UnknownNameError, et.EigentreeError):
        with pytest.raises(kind) as told:
            tables["X2"]
        assert str(told.value) == "there is no table of 'X2'; did you mean 'x2'?"
    with pytest.raises(KeyError, match=r"there is no table of 7; there are 'h', 'x0', 'x1', 'x2', 'x3', 'x4'$"):
        tables[7]
    assert tables.get("X2") is None
    chain = et.EMHMM(2, init="random", n_init=1, max_iter=1, random_state=0).fit(["abba", "baab"]).tables_
    with pytest.raises(KeyError, match="there is no table of 'transition'; did you mean 'transitions'"):
        chain["transition"]


def test_tables_of_an_undirected_graph_go_by_remainders() -> None:
    chain = et.zoo.hmm(5, 2, 2, 3)
    network = et.LatentNetwork.random(et.LatentGraph(chain.states, chain.edges, chain.hidden, False), seed=0)
    for key, table in network.labeled_tables.items():
        assert table.names[len(table.names) - len(key) :] == key
        assert_allclose(table.array.sum(axis=tuple(range(-len(key), 0))), 1)


def test_free_parameters_by_hand() -> None:
    assert et.LatentNetwork.random(GRAPH, seed=0).n_parameters == 2 + 5 * 3 * 3
    assert et.LatentNetwork.random(et.zoo.hmm(4, 1, 2, 3), seed=0).n_parameters == 1 + 3 * 2 + 4 * 2 * 2
    below = et.LatentGraph({"h": 2, "x": 3, "g": 5}, [("h", "x"), ("x", "g")], ["h", "g"])
    assert et.LatentNetwork.random(below, seed=0).n_parameters == 1 + 2 * 2
    pair = et.LatentGraph({"x": 3, "y": 2}, [("x", "y")], directed=False)
    assert et.LatentNetwork.random(pair, seed=0).n_parameters == 5


@settings(max_examples=30, deadline=None)
@given(latent_graphs(most_variables=6, most_states=4, most_cells=2_000))
def test_free_parameters_are_directions_in_which_tables_can_move(graph: et.LatentGraph) -> None:
    layout = ParameterLayout.of(graph)
    learned = layout.learned[np.cumsum(layout.lengths) - 1]
    assert et.LatentNetwork.random(graph, seed=0).n_parameters == (layout.lengths - 1)[learned].sum()


def test_criteria_are_lower_for_the_better() -> None:
    rows = ROWS.copy()
    rows[::7, 2] = -1
    model = et.EMJunctionTree(GRAPH, pseudo_counts=0, random_state=0).fit(rows)
    deviance = -2 * model.score_samples(rows).sum()
    assert_allclose(model.bic(rows), deviance + model.n_parameters_ * np.log(300))
    assert_allclose(model.aic(rows), deviance + model.n_parameters_ * 2)
    weights = np.random.default_rng(0).integers(0, 4, 300)
    for criterion in (model.bic, model.aic):
        assert_allclose(criterion(rows, weights), criterion(np.repeat(rows, weights, axis=0)))
    with pytest.raises(et.DataError, match="sample_weight needs one number per row"):
        model.bic(rows, weights[:5])
    with pytest.raises(et.DataError, match="not 'w'; only rows that come as a stream name a column"):
        model.bic(rows, "w")
    with pytest.raises(et.DataError, match="the weight of all rows is zero"):
        model.bic(rows, 0 * weights)


def test_bic_finds_the_number_of_classes() -> None:
    drawn = et.LatentNetwork.random(et.zoo.mixture(8, 3, 3), seed=2)
    truth = et.LatentNetwork(drawn.graph, {**drawn.tables, "h": [0.4, 0.35, 0.25]})
    rows = truth.sample(2_000, seed=3)
    fits = [
        et.EMJunctionTree(et.zoo.Mixture(k), tol=1e-6, pseudo_counts=0, random_state=0).fit(rows)
        for k in (1, 2, 3, 4)
    ]
    assert np.argmin([fit.bic(rows) for fit in fits]) == 2


@settings(max_examples=60, deadline=None)
@given(problems())
def test_expected_counts_equal_enumeration(problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray]) -> None:
    network, rows, weights = problem
    by_hand = brute_counts(network, rows, weights)[0]
    found = et.expected_counts(network, rows, weights)
    assert set(found) == {key for key in by_hand if is_learned(network.graph, key)}
    for key, table in found.items():
        assert table.names == network.labeled_tables[key].names
        assert_allclose(table, by_hand[key], rtol=1e-10, atol=1e-10)
        assert_allclose(table.array.sum(), weights.sum())


@settings(max_examples=20, deadline=None)
@given(latent_graphs(most_variables=5, most_states=3), st.integers(0, 2**32 - 1))
def test_where_all_is_observed_expected_counts_are_counts(graph: et.LatentGraph, seed: int) -> None:
    graph = et.LatentGraph(graph.states, graph.edges, directed=graph.directed)
    network = et.LatentNetwork.random(graph, seed=seed)
    rows = network.sample(50, seed=seed)
    for table in et.expected_counts(network, rows).values():
        counts = np.zeros(table.shape)
        np.add.at(counts, tuple(rows[:, graph.column(name)] for name in table.names), 1)
        assert_allclose(table, counts, atol=1e-10)


def test_estimators_count_by_their_own_tables() -> None:
    model = et.EMJunctionTree(GRAPH, tol=1e-12, max_iter=20_000, pseudo_counts=0, random_state=0).fit(ROWS)
    counts = model.expected_counts(ROWS)
    # At the optimum an EM step changes nothing: tables are the relative frequencies of their counts.
    joint = np.asarray(counts["x3"])
    assert_allclose(joint / joint.sum(axis=1, keepdims=True), model.tables_["x3"], atol=1e-3)
    assert_allclose(counts["h"], model.posterior(ROWS)["h"].sum(axis=0), rtol=1e-10)


def test_an_impossible_row_has_no_expected_counts() -> None:
    graph = et.LatentGraph({"h": 2, "x": 2}, [("h", "x")], ["h"])
    network = et.LatentNetwork(graph, {"h": [0.5, 0.5], "x": [[1, 0], [1, 0]]})
    with pytest.raises(et.DataError, match="row 1 has probability zero under this model"):
        et.expected_counts(network, [[0], [1]])
    assert_allclose(et.expected_counts(network, [[0], [1]], [2, 0])["h"], [1, 1])
    with pytest.raises(et.DataError, match="row 0 has probability zero under this model"):
        et.expected_counts(network, [[1]])
    with pytest.raises(et.DataError, match="the weight of all rows is zero"):
        et.expected_counts(network, [[0], [1]], [0, 0])
    with pytest.raises(et.ParameterError, match="n_jobs"):
        et.expected_counts(network, [[0]], n_jobs=0)


@pytest.mark.parametrize("seed", range(3))
def test_answers_equal_those_of_hmmlearn(seed: int) -> None:
    """On a homogeneous chain, which both can express: log-likelihood, posteriors, most probable path and counts."""
    random = np.random.default_rng(seed)
    length, states, symbols = 40, 3, 5
    theirs = CategoricalHMM(states, implementation="log")
    theirs.startprob_ = random.dirichlet(np.ones(states))
    theirs.transmat_ = random.dirichlet(np.ones(states), states)
    theirs.emissionprob_ = random.dirichlet(np.ones(symbols), states)
    theirs.n_features = symbols
    tables = {f"h{t}": theirs.transmat_ for t in range(1, length)} | {"h0": theirs.startprob_}
    tables |= {f"x{t}": theirs.emissionprob_ for t in range(length)}
    ours = et.LatentNetwork(et.zoo.hmm(length, 1, states, symbols), tables)
    rows = ours.sample(5, seed=random)
    log_prob, posteriors, decoded = ours.log_prob(rows), ours.posterior(rows), ours.decode(rows)
    for k, row in enumerate(rows):
        score, given_row = theirs.score_samples(row[:, None])
        assert_allclose(log_prob[k], score, rtol=1e-8)
        for t in range(length):
            assert_allclose(posteriors[f"h{t}"][k], given_row[t], atol=1e-8)
        best, path = theirs.decode(row[:, None])
        assert_allclose(decoded.log_prob[k], best, rtol=1e-8)
        # Where states are swapped along equal steps, paths tie: either will do.
        for states in (decoded.states[k], path):
            logs = [np.log(tables["h0"][states[0]])]
            logs += [np.log(theirs.transmat_[a, b]) for a, b in pairwise(states)]
            logs += [np.log(theirs.emissionprob_[state, cell]) for state, cell in zip(states, row, strict=True)]
            assert_allclose(sum(logs), best, rtol=1e-8)
    counts = et.expected_counts(ours, rows)
    occupied = sum(theirs.score_samples(row[:, None])[1] for row in rows)
    for t in range(length):
        assert_allclose(counts[f"x{t}"].array.sum(axis=1), occupied[t], atol=1e-8)


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "best"), [("gss82", -2754.545), ("carcinoma", -293.705)])
def test_the_textbook_data_have_three_classes(name: str, best: float) -> None:
    """BIC chooses three; the best log-likelihood known is reached, and seeds agree on which class is which."""
    rows = pd.read_csv(shared_file(f"{name}.csv")).apply(lambda column: column.astype("category").cat.codes)

    def fitted(classes: int, seed: int) -> et.EMJunctionTree:
        model = et.EMJunctionTree(
            et.zoo.Mixture(classes), n_init=10, tol=1e-8, pseudo_counts=0, accelerate=True, random_state=seed
        )
        return model.fit(rows)

    first = fitted(3, 0)
    assert np.argmin([fitted(2, 0).bic(rows), first.bic(rows), fitted(4, 0).bic(rows)]) == 1
    for model in (first, fitted(3, 1)):
        assert_allclose(model.score_samples(rows).sum(), best, atol=0.01)
        for key, table in model.tables_.items():
            assert_allclose(table, first.tables_[key], atol=0.02)
