"""The exact model against exhaustive enumeration, on random graphs of every type."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import all_rows, observed_table, predictive, probability
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs

import eigentree as et
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.graphs.junction_tree import JunctionTree


def with_zeros(network: et.LatentNetwork, share: float, seed: int) -> et.LatentNetwork:
    """The same network with this share of its entries set to zero, though never all of a distribution."""
    random = np.random.default_rng(seed)
    tables = {}
    for key, table in network.tables.items():
        distributed = 1 if network.graph.directed else len(key)
        flat = table.reshape(-1, int(np.prod(table.shape[table.ndim - distributed :])))
        kept = random.random(flat.shape) >= share
        kept[np.arange(len(flat)), random.integers(flat.shape[1], size=len(flat))] = True
        flat = np.where(kept, flat, 0.0)
        tables[key] = (flat / flat.sum(axis=1, keepdims=True)).reshape(table.shape)
    return et.LatentNetwork(network.graph, tables)


networks = st.builds(
    et.LatentNetwork.random,
    latent_graphs(),
    concentration=st.sampled_from([1.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
seeds = st.integers(0, 2**32 - 1)
networks_with_zeros = st.builds(with_zeros, networks, st.sampled_from([0.3, 0.6]), seeds)


def rows_with_holes(network: et.LatentNetwork, seed: int, count: int = 20) -> np.ndarray:
    random = np.random.default_rng(seed)
    rows = random.choice(all_rows(network.graph), count)
    rows[random.random(rows.shape) < random.choice([0.0, 0.3, 0.8])] = -1
    return rows


@settings(max_examples=200, deadline=None)
@given(networks, seeds)
def test_every_answer_equals_enumeration(network: et.LatentNetwork, seed: int) -> None:
    table = observed_table(network)
    assert_allclose(table.sum(), 1.0, atol=1e-12)
    everything = all_rows(network.graph)
    assert_allclose(np.exp(network.log_prob(everything)), table.ravel(), rtol=1e-10, atol=1e-300)
    rows = rows_with_holes(network, seed)
    expected = np.array([probability(table, row) for row in rows])
    assert_allclose(network.log_prob(rows), np.log(expected), rtol=1e-10, atol=1e-10)
    for column, name in enumerate(network.graph.observed):
        predicted = network.predict_proba(rows, target=name)
        assert_allclose(predicted, [predictive(table, row, column) for row in rows], atol=1e-10)
    order = np.random.default_rng(seed).permutation(table.ndim)[: 1 + seed % 3]
    names = [network.graph.observed[column] for column in order]
    summed = table.sum(axis=tuple(set(range(table.ndim)) - set(order.tolist())))
    kept = sorted(order.tolist())
    expected_joint = np.transpose(summed, [kept.index(column) for column in order])
    assert_allclose(network.joint(names), expected_joint, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(networks_with_zeros, seeds)
def test_impossible_rows_are_told_from_possible_ones(network: et.LatentNetwork, seed: int) -> None:
    table = observed_table(network)
    rows = rows_with_holes(network, seed)
    expected = np.array([probability(table, row) for row in rows])
    possible = expected > 0
    log_prob = network.log_prob(rows)
    assert_allclose(np.exp(log_prob), expected, rtol=1e-9)
    assert ((log_prob == -np.inf) == ~possible).all()
    assert_allclose(network.joint(network.graph.observed), table, atol=1e-12)
    assert (table[tuple(network.sample(100, seed=seed).T)] > 0).all()
    if possible.any():
        rows = rows[possible]
        assert (table[tuple(network.impute(rows, "sample", seed=seed).T)] > 0).all()
        for column, name in enumerate(network.graph.observed):
            # Without reading the target's own cell, a possible row stays possible.
            predicted = network.predict_proba(rows, name)
            assert_allclose(predicted, [predictive(table, row, column) for row in rows], atol=1e-10)
    evidence = {name: int(cell) for name, cell in zip(network.graph.observed, rows[0], strict=True) if cell >= 0}
    if evidence and possible[0]:
        drawn = network.sample(20, seed=seed, given=evidence)
        assert (table[tuple(drawn.T)] > 0).all()


@settings(max_examples=60, deadline=None)
@given(networks, seeds)
def test_missing_cells_may_be_spelled_in_any_way(network: et.LatentNetwork, seed: int) -> None:
    rows = rows_with_holes(network, seed)
    floats = np.where(rows < 0, np.nan, rows.astype(float))
    assert_allclose(network.log_prob(floats), network.log_prob(rows), rtol=0, atol=0)
    listed = [[None if cell < 0 else int(cell) for cell in row] for row in rows]
    assert_allclose(network.log_prob(listed), network.log_prob(rows), rtol=0, atol=0)


@settings(max_examples=60, deadline=None)
@given(networks, seeds)
def test_imputed_cells_are_the_most_probable_and_known_cells_stay(network: et.LatentNetwork, seed: int) -> None:
    table = observed_table(network)
    rows = rows_with_holes(network, seed)
    filled = network.impute(rows)
    assert (filled[rows >= 0] == rows[rows >= 0]).all()
    for row, full in zip(rows, filled, strict=True):
        for column in np.flatnonzero(row < 0):
            distribution = predictive(table, row, int(column))
            assert distribution[full[column]] >= distribution.max() - 1e-12


@settings(max_examples=60, deadline=None)
@given(networks, seeds)
def test_the_root_changes_nothing(network: et.LatentNetwork, seed: int) -> None:
    names = network.graph.names
    tree = JunctionTree.build(network.graph, root=names[seed % len(names)])
    rows = rows_with_holes(network, seed)
    codes = Rows.of(rows, Columns.of(network.graph)).encode(0, len(rows))
    log_size, sign = network.embed(tree).log_prob(codes)
    assert (sign == 1).all()
    assert_allclose(log_size, network.log_prob(rows), atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(networks, seeds)
def test_conditionals_are_ratios_of_joints(network: et.LatentNetwork, seed: int) -> None:
    names = network.graph.observed
    row = network.sample(1, seed=seed)[0]
    given_names = dict(zip(names[1:], map(int, row[1:]), strict=True))
    table = observed_table(network)[(slice(None), *row[1:])]
    assert_allclose(network.conditional(names[:1], given_names), table / table.sum(), atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(networks, seeds)
def test_samples_have_the_frequencies_of_the_model(network: et.LatentNetwork, seed: int) -> None:
    """Ancestral and evidence-driven samples agree with the joint table by a chi-square statistic."""
    table = observed_table(network)
    assume(table.size <= 400)
    count = 20_000
    drawn = {
        "ancestral": network.sample(count, seed=seed),
        "all cells missing": network.impute(np.full((count, table.ndim), -1), method="sample", seed=seed),
    }
    for how, rows in drawn.items():
        observed = np.zeros(table.shape)
        np.add.at(observed, tuple(rows.T), 1)
        expected = table * count
        large = expected > 5
        assert (observed[table == 0] == 0).all(), how
        statistic = ((observed - expected)[large] ** 2 / expected[large]).sum()
        degrees = large.sum()
        assert statistic < degrees + 6 * np.sqrt(2 * degrees) + 6, how


def test_draws_given_evidence_follow_the_conditional() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(4, 2, 2, 3), seed=3)
    rows = network.sample(40_000, seed=0, given={"x1": 2, "x3": 0})
    assert (rows[:, 1] == 2).all()
    assert (rows[:, 3] == 0).all()
    frequencies = np.zeros((3, 3))
    np.add.at(frequencies, (rows[:, 0], rows[:, 2]), 1 / len(rows))
    assert_allclose(frequencies, network.conditional(["x0", "x2"], {"x1": 2, "x3": 0}), atol=0.012)


def test_blocks_and_chunks_of_rows_change_no_bit() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(12, 2, 2, 3), seed=0)
    rows = network.sample(40_000, seed=1)
    whole = network.log_prob(rows)
    parts = np.concatenate([network.log_prob(rows[k : k + 7_001]) for k in range(0, len(rows), 7_001)])
    assert (whole == parts).all()
    assert (network.log_prob(rows[::-1])[::-1] == whole).all()


def test_seeds_repeat_and_differ() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), seed=0)
    assert (network.sample(50, seed=1) == network.sample(50, seed=1)).all()
    assert (network.sample(50, seed=1) != network.sample(50, seed=2)).any()
    again = et.LatentNetwork.random(network.graph, seed=0)
    assert all((again.tables[name] == table).all() for name, table in network.tables.items())


def test_a_chain_of_a_thousand_steps_neither_under_nor_overflows() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(1_200, 1, 2, 4), seed=0)
    rows = network.sample(3, seed=1)
    forward = [forward_log_prob(network, row) for row in rows]
    assert max(forward) < np.log(5e-324), "too small to be a number"
    assert_allclose(network.log_prob(rows), forward, rtol=1e-11)
    rows[:, 1:] = -1
    assert_allclose(network.log_prob(rows), np.log(network.joint(["x0"])[rows[:, 0]]), rtol=1e-9)


def forward_log_prob(network: et.LatentNetwork, row: np.ndarray) -> float:
    """The textbook scaled forward recursion."""
    tables = network.tables
    belief, total = tables["h0"], 0.0
    for t, cell in enumerate(row):
        if t:
            belief = belief @ tables[f"h{t}"]
        belief = belief * tables[f"x{t}"][:, cell]
        total += np.log(belief.sum())
        belief = belief / belief.sum()
    return total


def test_impossible_rows_have_log_minus_infinity_and_predictions_fall_back() -> None:
    graph = et.LatentGraph({"h": 2, "x": 2, "y": 2}, [("h", "x"), ("h", "y")], ["h"])
    network = et.LatentNetwork(graph, {"h": [1, 0], "x": [[1, 0], [0, 1]], "y": [[0.3, 0.7], [0, 1]]})
    assert network.log_prob([[1, 0]])[0] == -np.inf
    with pytest.warns(RuntimeWarning, match="1 rows follow cells that the model calls impossible"):
        assert_allclose(network.predict_proba([[1, 0]], "y"), [[0.3, 0.7]])
    with pytest.raises(et.DataError, match="no positive probability"):
        network.conditional(["y"], {"x": 1})
    with pytest.raises(et.DataError, match="no positive probability"):
        network.sample(3, given={"x": 1})
    with pytest.raises(et.DataError, match="no positive probability"):
        network.sample(3, given={"x": 1, "y": 0})


def test_only_missing_cells_are_counted_as_undefined() -> None:
    graph = et.LatentGraph({"x": 2, "y": 2, "z": 2}, [("x", "y"), ("y", "z")])
    coin = [[0.5, 0.5], [0.5, 0.5]]
    network = et.LatentNetwork(graph, {"x": [1, 0], "y": coin, "z": coin})
    # The second row is impossible but complete; nothing in it is imputed.
    network.impute([[0, 0, -1], [1, 0, 0]])
    for method in ("mode", "sample"):
        with pytest.warns(RuntimeWarning, match="2 missing cells follow cells that the model calls impossible"):
            filled = network.impute([[0, -1, -1], [1, -1, -1], [1, 0, 0]], method, seed=0)
        assert (filled >= 0).all()
        assert (filled < 2).all()


def test_what_follows_impossible_cells_is_drawn_from_its_column_alone() -> None:
    graph = et.LatentGraph({"x": 2, "y": 3}, [("x", "y")])
    network = et.LatentNetwork(graph, {"x": [1, 0], "y": [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]})
    with pytest.warns(RuntimeWarning, match="4000 missing cells follow cells that the model calls impossible"):
        drawn = network.impute(np.tile([1, -1], (4_000, 1)), "sample", seed=0)
    assert_allclose(np.bincount(drawn[:, 1], minlength=3) / 4_000, [0.7, 0.2, 0.1], atol=0.03)


def test_independent_columns_of_many_states_are_the_product_of_their_tables() -> None:
    """Their nodes have one state to agree on, and tables too large to be multiplied: many children meet."""
    graph = et.LatentGraph(dict.fromkeys("abcdefghij", 200))
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(100, seed=1)
    rows[::3, 4] = -1
    expected = np.zeros(100)
    for column, name in enumerate(graph.observed):
        expected += np.append(np.log(network.tables[name]), 0.0)[rows[:, column]]
    assert_allclose(network.log_prob(rows), expected, rtol=1e-12)


def test_tiny_probabilities_survive() -> None:
    """Messages far below the smallest double: the log scale carries them."""
    tiny = 1e-200
    graph = et.zoo.hmm(6, 1, 2, 2)
    tables = {f"x{t}": [[1 - tiny, tiny], [1 - tiny, tiny]] for t in range(6)}
    tables |= {"h0": [0.5, 0.5]} | {f"h{t}": np.full((2, 2), 0.5) for t in range(1, 6)}
    network = et.LatentNetwork(graph, tables)
    assert_allclose(network.log_prob([[1] * 6]), [6 * np.log(tiny)], rtol=1e-12)
