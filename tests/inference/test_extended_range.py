"""Probabilities far beyond the doubles: hubs with thousands of columns, and messages that contradict each other."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.inference.operators.tree_operators import NodeOperator, TreeOperators


def mixture_log_terms(network: et.LatentNetwork, row: np.ndarray) -> np.ndarray:
    """Log of P(component, the row) for each component of a mixture."""
    terms = np.log(network.tables["h"])
    for column, cell in enumerate(row):
        if cell >= 0:
            terms = terms + np.log(network.tables[f"x{column}"][:, cell])
    return terms


def torn_row(network: et.LatentNetwork, seed: int = 0) -> np.ndarray:
    """A row whose first half comes from one component and whose second half from another."""
    count = len(network.graph.observed)
    random = np.random.default_rng(seed)
    tables = network.tables
    return np.array(
        [
            random.choice(tables[f"x{i}"].shape[1], p=tables[f"x{i}"][0 if i < count // 2 else 1])
            for i in range(count)
        ]
    )


@cache
def frozen_hmm(length: int) -> et.LatentNetwork:
    """A chain that never leaves its first state, so that its message keeps both states apart."""
    tables: dict[str, object] = {"h0": [0.5, 0.5]}
    for t in range(length):
        tables[f"x{t}"] = [[0.9, 0.1], [0.1, 0.9]]
        if t:
            tables[f"h{t}"] = np.eye(2)
    return et.LatentNetwork(et.zoo.hmm(length, 1, 2, 2), tables)


@pytest.mark.parametrize("directed", [True, False])
def test_a_hub_with_thousands_of_columns_answers(directed: bool) -> None:
    columns = 2_000
    states = {"h": 16} | {f"x{i}": 2 for i in range(columns)}
    graph = et.LatentGraph(states, [("h", f"x{i}") for i in range(columns)], ["h"], directed)
    network = et.LatentNetwork.random(graph, seed=0)
    assert_allclose(network.joint(["x0", "x1999"]).sum(), 1.0, rtol=1e-12)
    rows = network.sample(5, seed=0)
    log_prob = network.log_prob(rows)
    assert np.isfinite(log_prob).all()
    if directed:
        expected = [np.logaddexp.reduce(mixture_log_terms(network, row)) for row in rows]
        assert_allclose(log_prob, expected, rtol=1e-12)
        share = network.tables["h"] @ network.tables["x7"]
        assert_allclose(network.joint(["x7"]), share, rtol=1e-10)


@pytest.mark.parametrize("root", [None, "h0", "h300"])
def test_a_message_may_contradict_what_another_has_all_but_excluded(root: str | None) -> None:
    """One side's message says (1, 1e-500), the other's (1e-500, 1)."""
    length = 1_200
    network = frozen_hmm(length)
    zeros = np.array([600, 400, 900, 1_200, 0])
    ones = length - zeros
    rows = (np.arange(length) >= zeros[:, None]).astype(int)
    expected = np.log(0.5) + np.logaddexp(
        zeros * np.log(0.9) + ones * np.log(0.1), zeros * np.log(0.1) + ones * np.log(0.9)
    )
    codes = Rows.of(rows, Columns.of(network.graph)).encode(0, len(rows))
    log_size, sign = network.embed(et.JunctionTree.build(network.graph, root)).log_prob(codes)
    assert_allclose(log_size, expected, rtol=1e-12)
    assert (sign == 1).all()


def test_predictions_of_a_torn_row_follow_its_better_half() -> None:
    network = frozen_hmm(1_201)
    for zeros in (599, 600, 601):
        row = (np.arange(1_201) >= zeros).astype(int)
        row[zeros] = -1
        odds = 9.0 ** (zeros - (1_200 - zeros))
        expected = (0.9 * odds + 0.1) / (odds + 1)
        assert_allclose(network.predict_proba([row], f"x{zeros}"), [[expected, 1 - expected]], rtol=1e-10)


def test_torn_rows_of_a_mixture() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(1_000, 2, 4), concentration=0.3, seed=0)
    row = torn_row(network)
    terms = mixture_log_terms(network, row)
    assert_allclose(network.log_prob([row]), [np.logaddexp(*terms)], rtol=1e-12)
    row[5] = -1
    terms = mixture_log_terms(network, row)
    posterior = np.exp(terms - np.logaddexp(*terms))
    expected = posterior @ network.tables["x5"]
    assert_allclose(network.predict_proba([row], "x5"), [expected], rtol=1e-9)
    assert network.impute([row])[0, 5] == expected.argmax()
    drawn = network.impute(np.repeat([row], 2_000, axis=0), method="sample", seed=0)
    frequencies = np.bincount(drawn[:, 5], minlength=4) / len(drawn)
    assert_allclose(frequencies, expected, atol=0.05)
    assert (np.delete(drawn, 5, axis=1) == np.delete(row, 5)).all()


def test_evidence_that_contradicts_itself_can_still_be_sampled() -> None:
    network = frozen_hmm(1_201)
    given = {f"x{t}": int(t > 600) for t in range(1_201) if t != 600}
    rows = network.sample(4_000, seed=0, given=given)
    assert_allclose(rows[:, 600].mean(), 0.5, atol=0.04)


def test_signs_survive_where_doubles_do_not() -> None:
    """Operators with negative entries, as learning gives them, beyond the range of one exponent."""
    length = 801
    leaf = np.array([[0.9, 0.1], [0.1, 0.9]])
    root, inner = np.zeros((2, 2, 1)), np.zeros((2, 2, 2))
    root[[0, 1], [0, 1], 0] = 0.5
    inner[0, 0, 0], inner[1, 1, 1] = 1.0, -1.0
    nodes = []
    for t in range(length - 1):
        nodes.append(NodeOperator.from_dense(inner if t else root, children=(2 * t + 1, 2 * t + 2)))
        nodes.append(NodeOperator.from_dense(leaf, columns=(t,)))
    nodes.append(NodeOperator.from_dense(leaf, columns=(length - 1,)))
    operators = TreeOperators(tuple(nodes), (2,) * length)
    zeros = np.array([390, 410, 0, 801])
    rows = (np.arange(length) >= zeros[:, None]).astype(np.uint8)
    log_size, sign = operators.log_prob(np.asfortranarray(rows))
    first = zeros * np.log(0.9) + (length - zeros) * np.log(0.1)
    second = zeros * np.log(0.1) + (length - zeros) * np.log(0.9)
    # An odd number of inner nodes turns the sign of the second state.
    assert sign.tolist() == [-1, 1, -1, 1]
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    assert_allclose(log_size, np.log(0.5) + larger + np.log1p(-np.exp(smaller - larger)), rtol=1e-12)


def test_what_cancels_may_leave_the_range_of_doubles() -> None:
    """All values are about 1, but at each node the second state keeps the last digits of a difference only."""
    length, kept = 30, 2.0**-50
    root, inner = np.zeros((2, 2, 1)), np.zeros((2, 2, 2))
    root[[0, 1], [0, 1], 0] = 1.0
    inner[0, 0, 0], inner[0, 1, 1], inner[1, 1, 1] = 1.0, 1.0, -1.0
    nodes = [NodeOperator.from_dense(root, children=(1, 2)), NodeOperator.from_dense(np.eye(2), columns=(0,))]
    for t in range(length):
        here = len(nodes)
        nodes.append(NodeOperator.from_dense(inner, children=(here + 1, here + 2)))
        nodes.append(NodeOperator.from_dense(np.array([[1.0, 1.0 - kept]]), columns=(t + 1,)))
    nodes.append(NodeOperator.from_dense(np.ones((1, 2)), columns=(length + 1,)))
    operators = TreeOperators(tuple(nodes), (2,) + (1,) * (length + 1))
    codes = np.zeros((2, length + 2), np.uint8, order="F")
    codes[1, 0] = 1
    for flat in (operators.flat, operators.folded.flat):
        log_size, sign = flat.log_prob(codes)
        assert_allclose(log_size, [0.0, length * np.log(kept)], rtol=1e-12)
        assert sign.tolist() == [1, 1]
