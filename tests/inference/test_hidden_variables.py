"""Hidden variables: posteriors, decoding and samples against enumeration and against the textbook recursion."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import factors
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs

import eigentree as et

networks = st.builds(
    et.LatentNetwork.random,
    latent_graphs(most_variables=6, most_states=4, most_cells=3_000).filter(lambda graph: graph.hidden),
    concentration=st.sampled_from([1.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
seeds = st.integers(0, 2**32 - 1)


def whole_table(network: et.LatentNetwork) -> np.ndarray:
    """P(all variables), one axis per name, by multiplying all factors."""
    graph = network.graph
    letter = {name: k for k, name in enumerate(graph.names)}
    operands: list[object] = []
    for axes, table in factors(network):
        operands += [table, [letter[name] for name in axes]]
    for name in graph.names:
        operands += [np.ones(graph.states[name]), [letter[name]]]
    return np.einsum(*operands, [letter[name] for name in graph.names])


def at(network: et.LatentNetwork, row: np.ndarray) -> np.ndarray:
    """The whole table with every known cell fixed; axes of known variables have length 1."""
    graph = network.graph
    picks = []
    for name in graph.names:
        cell = -1 if name in graph.hidden else int(row[graph.column(name)])
        picks.append(slice(None) if cell < 0 else slice(cell, cell + 1))
    return whole_table(network)[tuple(picks)]


def holed_rows(network: et.LatentNetwork, seed: int, count: int = 6) -> np.ndarray:
    rows = network.sample(count, seed=seed)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.3] = -1
    return rows


def summed(table: np.ndarray, graph: et.LatentGraph, names: tuple[str, ...]) -> np.ndarray:
    """The table summed down to some names, axes in their order."""
    axes = [graph.names.index(name) for name in names]
    kept = table.sum(axis=tuple(k for k in range(table.ndim) if k not in axes))
    return np.transpose(kept, [sorted(axes).index(axis) for axis in axes])


@settings(max_examples=200, deadline=None)
@given(networks, seeds)
def test_posteriors_equal_enumeration(network: et.LatentNetwork, seed: int) -> None:
    graph = network.graph
    rows = holed_rows(network, seed)
    tables = [at(network, row) for row in rows]
    each = network.posterior(rows)
    assert set(each) == set(graph.hidden)
    for name in graph.hidden:
        expected = np.array([summed(table, graph, (name,)) / table.sum() for table in tables])
        assert_allclose(each[name], expected, atol=1e-10)
        assert_allclose(network.predict_proba(rows, name), expected, atol=1e-10)
    pair = tuple(np.random.default_rng(seed).permutation(graph.hidden)[:2].tolist())
    expected = np.array([summed(table, graph, pair) / table.sum() for table in tables])
    assert_allclose(network.posterior(rows, pair), expected, atol=1e-10)


@settings(max_examples=200, deadline=None)
@given(networks, seeds)
def test_decoding_equals_enumeration(network: et.LatentNetwork, seed: int) -> None:
    """Missing cells are marginalised out, or found with the hidden states where other variables depend on them."""
    graph = network.graph
    rows = holed_rows(network, seed)
    states, log_prob = network.decode(rows)
    assert states.shape == (len(rows), len(graph.hidden))
    nodes = network.decoder.tree.nodes
    shared = {node.observed for node in nodes if node.observed and not node.remainder}
    for row, found, score in zip(rows, states, log_prob, strict=True):
        table = at(network, row)
        # Axes to find: the hidden variables, and missing cells that are shared between cliques.
        free = [k for k, name in enumerate(graph.names) if name in graph.hidden or name in shared]
        kept = table.sum(axis=tuple(k for k in range(table.ndim) if k not in free))
        names = [graph.names[k] for k in free]
        assert_allclose(score, np.log(kept.max()), rtol=1e-10, atol=1e-10)
        picks = tuple(found[graph.hidden.index(name)] if name in graph.hidden else slice(None) for name in names)
        assert_allclose(kept[picks].max(), kept.max(), rtol=1e-10)


@settings(max_examples=40, deadline=None)
@given(networks, seeds)
def test_complete_rows_decode_to_the_most_probable_hidden_states(network: et.LatentNetwork, seed: int) -> None:
    rows = network.sample(5, seed=seed)
    states, log_prob = network.decode(rows)
    for row, found, score in zip(rows, states, log_prob, strict=True):
        table = summed(at(network, row), network.graph, network.graph.hidden)
        assert_allclose(np.log(table[tuple(found)]), np.log(table.max()), rtol=1e-10, atol=1e-10)
        assert_allclose(score, np.log(table.max()), rtol=1e-10, atol=1e-10)


def test_draws_of_hidden_states_follow_their_posterior() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(4, 1, 3, 3), seed=2)
    rows = np.repeat([[0, -1, 2, 1]], 40_000, axis=0)
    drawn = network.sample_hidden(rows, seed=0)
    pair = network.posterior(rows[:1], ["h1", "h3"])[0]
    frequencies = np.zeros((3, 3))
    np.add.at(frequencies, (drawn[:, 1], drawn[:, 3]), 1 / len(drawn))
    assert_allclose(frequencies, pair, atol=0.012)


def viterbi(network: et.LatentNetwork, row: np.ndarray) -> tuple[list[int], float]:
    """The textbook recursion in logarithms."""
    with np.errstate(divide="ignore"):
        tables = {name: np.log(table) for name, table in network.tables.items()}
    score, back = tables["h0"] + tables["x0"][:, row[0]], []
    for t in range(1, len(row)):
        step = score[:, None] + tables[f"h{t}"]
        back.append(step.argmax(axis=0))
        score = step.max(axis=0) + tables[f"x{t}"][:, row[t]]
    path = [int(score.argmax())]
    for pointers in reversed(back):
        path.append(int(pointers[path[-1]]))
    return path[::-1], float(score.max())


def test_a_chain_of_a_thousand_steps_decodes_without_underflow() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(1_200, 1, 3, 4), seed=0)
    rows = network.sample(2, seed=1)
    states, log_prob = network.decode(rows)
    assert (log_prob < np.log(5e-324)).all(), "too small to be a number"
    for row, found, score in zip(rows, states, log_prob, strict=True):
        path, best = viterbi(network, row)
        assert found.tolist() == path
        assert_allclose(score, best, rtol=1e-11)


def test_impossible_rows_are_told() -> None:
    graph = et.LatentGraph({"h": 2, "x": 2, "y": 2}, [("h", "x"), ("h", "y")], ["h"])
    network = et.LatentNetwork(graph, {"h": [1, 0], "x": [[1, 0], [0, 1]], "y": [[0.3, 0.7], [0, 1]]})
    with pytest.warns(RuntimeWarning, match="1 rows are impossible under this model; their hidden states are -1"):
        states, log_prob = network.decode([[1, 0], [0, 1]])
    assert states.tolist() == [[-1], [0]]
    assert log_prob[0] == -np.inf
    with pytest.warns(RuntimeWarning, match="the marginal of 'h' was used"):
        assert_allclose(network.predict_proba([[1, 0]], "h"), [[1.0, 0.0]])


def test_errors_are_named() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(14, 1, 3, 3), seed=0)
    row = np.zeros((1, 14), int)
    with pytest.raises(et.GraphError, match=r"'x0' is observed; the hidden variables are h0, h1"):
        network.posterior(row, ["x0"])
    with pytest.raises(et.GraphError, match=r"names is a list of names; write names=\['h0'\]"):
        network.posterior(row, "h0")
    with pytest.raises(et.GraphError, match="no variable 'h99'"):
        network.posterior(row, ["h99"])
    with pytest.raises(et.DataError, match="has 4,782,969 states"):
        network.posterior(row, network.graph.hidden)
    with pytest.raises(et.GraphError, match="name each hidden variable once, and at least one"):
        et.LatentNetwork.random(et.LatentGraph({"x": 2}), seed=0).decode([[0]])


@pytest.mark.parametrize("estimator", [et.EMJunctionTree, et.OnlineEMJunctionTree])
def test_learned_tables_speak_as_well(estimator: type) -> None:
    graph = et.zoo.mixture(5, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(300, seed=1)
    model = estimator(graph, random_state=0).fit(rows)
    assert_allclose(model.predict_proba(rows, "h"), model.network_.predict_proba(rows, "h"))
    assert (model.decode(rows).states[:, 0] == model.predict_proba(rows, "h").argmax(axis=1)).all()
    assert model.sample_hidden(rows, seed=0).shape == (300, 1)


def test_a_spectral_model_has_no_hidden_variables_to_ask() -> None:
    graph = et.zoo.mixture(5, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(300, seed=1)
    model = et.SpectralJunctionTree(graph).fit(rows)
    with pytest.raises(et.GraphError, match=r"'h' is hidden, and a spectral model .* model.to_network"):
        model.predict_proba(rows, "h")
