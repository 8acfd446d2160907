"""The canonical order of hidden states: laws under relabelling, along chains and trees, and across seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs

import eigentree as et


def undirected(graph: et.LatentGraph) -> et.LatentGraph:
    return et.LatentGraph(graph.states, graph.edges, graph.hidden, directed=False)


STRUCTURES = {
    "chain": et.zoo.hmm(12, 1, 3, 4),
    "second order": et.zoo.hmm(7, 2, 2, 3),
    "factorial": et.zoo.factorial_hmm(4, 2, 3, 3),
    "mixture": et.zoo.mixture(6, 5, 3),
    "tree": et.zoo.latent_tree(3, 2, 3, 3),
    "paper": et.zoo.paper_junction_tree(2, 3),
    "undirected chain": undirected(et.zoo.hmm(8, 2, 3, 4)),
    "undirected tree": undirected(et.zoo.latent_tree(3, 2, 3, 3)),
}


def shuffled(network: et.LatentNetwork, seed: int) -> et.LatentNetwork:
    """The network with the states of every hidden variable in a random order."""
    random = np.random.default_rng(seed)
    graph = network.graph
    return network.relabelled({name: random.permutation(graph.states[name]) for name in graph.hidden})


def assert_same_tables(one: et.LatentNetwork, other: et.LatentNetwork, atol: float = 1e-12) -> None:
    assert set(one.tables) == set(other.tables)
    for key, table in one.tables.items():
        assert_allclose(other.tables[key], table, rtol=0, atol=atol)


def check_laws(network: et.LatentNetwork, seed: int) -> None:
    ordered = network.ordered()
    assert_same_tables(ordered, shuffled(network, seed).ordered())
    assert_same_tables(ordered, ordered.ordered(), atol=0)
    rows = network.sample(20, seed=seed)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = -1
    assert_allclose(ordered.log_prob(rows), network.log_prob(rows), rtol=1e-12, atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(latent_graphs(most_variables=6, most_states=4, most_cells=3_000), st.integers(0, 2**32 - 1))
def test_every_numbering_of_hidden_states_becomes_one(graph: et.LatentGraph, seed: int) -> None:
    check_laws(et.LatentNetwork.random(graph, seed=seed), seed)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("concentration", [1.0, 0.1])
def test_known_structures_keep_the_laws(structure: str, concentration: float) -> None:
    for seed in range(2):
        check_laws(et.LatentNetwork.random(STRUCTURES[structure], concentration, seed=seed), seed)


def test_states_come_by_size() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(4, 6, 3), seed=3)
    assert (np.diff(network.ordered().tables["h"]) < 0).all()


@pytest.mark.parametrize("states", [2, 3, 5])
def test_states_of_one_size_come_by_the_first_column_that_they_change(states: int) -> None:
    """x0 says nothing of h, and x1 favours its first state the more the earlier a state of h comes."""
    graph = et.zoo.mixture(3, states, 2)
    falling = np.linspace(0.9, 0.2, states)
    tables = {
        "h": np.full(states, 1 / states),
        "x0": np.full((states, 2), 0.5),
        "x1": np.stack([falling, 1 - falling], axis=1),
        "x2": np.stack([1 - falling, falling], axis=1),
    }
    network = et.LatentNetwork(graph, tables)
    for seed in range(5):
        assert_same_tables(network, shuffled(network, seed).ordered())


def homogeneous(start: list[float], step: np.ndarray, emission: np.ndarray, length: int) -> et.LatentNetwork:
    graph = et.zoo.hmm(length, 1, len(step), emission.shape[1])
    tables = {f"h{t}": step for t in range(1, length)} | {f"x{t}": emission for t in range(length)}
    return et.LatentNetwork(graph, {**tables, "h0": start})


@pytest.mark.parametrize(
    ("start", "step"),
    [
        ([0.5, 0.3, 0.2], [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]),
        # States follow each other in a circle: those that occur together are not the same.
        ([0.5, 0.3, 0.2], [[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]]),
        # From left to right: the first state is nearly gone at the end, and two are absent at the start.
        ([1.0, 0.0, 0.0], [[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.0, 0.0, 1.0]]),
    ],
)
def test_a_state_is_the_same_at_every_step_of_a_chain(start: list[float], step: list[list[float]]) -> None:
    emission = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.3, 0.5]])
    network = homogeneous(start, np.array(step), emission, 9)
    for seed in range(5):
        ordered = shuffled(network, seed).ordered()
        first = ordered.tables["x1"]
        for t in range(1, 9):
            assert_allclose(ordered.tables[f"x{t}"], first, atol=1e-12)
        sizes = sum(ordered.clique_marginals([(f"h{t}",) for t in range(9)]))
        assert (np.diff(sizes) < 0).all()


def test_the_inner_variables_of_a_tree_are_matched_by_what_occurs_together() -> None:
    """Every variable is a noisy copy of the one above: so it stays with its numbers."""
    graph = et.zoo.latent_tree(3, 2, 3, 4)
    random = np.random.default_rng(0)
    tables = {}
    for name in graph.names:
        if name in graph.hidden:
            tables[name] = 0.7 * np.eye(3) + 0.1 if graph.parents(name) else np.array([0.5, 0.3, 0.2])
        else:
            tables[name] = random.dirichlet(np.ones(4), 3)
    network = et.LatentNetwork(graph, tables)
    for seed in range(5):
        assert_same_tables(network, shuffled(network, seed).ordered())


def test_seeds_leave_the_same_tables() -> None:
    """On data that identify the states, every start ends in the same optimum, and now in the same numbering.

    Even where tables are not unique: at the ends of a chain, P(h0) and P(x0 | h0) can be traded.
    """
    emission = np.array([[0.85, 0.1, 0.05], [0.05, 0.15, 0.8]])
    network = homogeneous([0.6, 0.4], np.array([[0.85, 0.15], [0.3, 0.7]]), emission, 5)
    rows = network.sample(3_000, seed=0)
    fits = [et.EMJunctionTree(network.graph, tol=1e-9, random_state=seed).fit(rows) for seed in range(3)]
    for fit in fits:
        for t in (1, 2, 3):
            assert_allclose(fit.network_.tables[f"x{t}"], emission, atol=0.08)
            assert_allclose(fit.network_.tables[f"x{t}"], fits[0].network_.tables[f"x{t}"], atol=0.01)


def test_a_start_that_was_given_keeps_its_numbers() -> None:
    """A user who names the start's states (the classes of Dawid and Skene, say) finds them again."""
    truth = et.LatentNetwork.random(et.zoo.mixture(6, 3, 3), concentration=0.3, seed=1)
    rows = truth.sample(2_000, seed=0)
    for seed in range(3):
        start = shuffled(truth, seed)
        for estimator in (et.EMJunctionTree, et.OnlineEMJunctionTree):
            learned = estimator(truth.graph, init=start, pseudo_counts=0.1, random_state=0).fit(rows).network_
            assert_allclose(learned.tables["h"], start.tables["h"], atol=0.1)


def test_online_fits_are_ordered_and_go_on_unharmed() -> None:
    graph = et.zoo.hmm(4, 1, 3, 3)
    rows = et.LatentNetwork.random(graph, concentration=0.3, seed=4).sample(600, seed=0)
    one = et.OnlineEMJunctionTree(graph, batch_size=100, random_state=0).partial_fit(rows)
    many = et.OnlineEMJunctionTree(graph, batch_size=100, random_state=0)
    for part in np.split(rows, 3):
        many.partial_fit(part)
        assert_same_tables(many.network_, many.network_.ordered(), atol=0)
    assert_same_tables(one.network_, many.network_)


def test_errors_in_an_order_are_named() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(3, 2, 2), seed=0)
    with pytest.raises(et.NetworkError, match="the order of 'h' lists the states 0 to 1, each once, not"):
        network.relabelled({"h": [0, 0]})
    with pytest.raises(et.NetworkError, match="'x0' is observed"):
        network.relabelled({"x0": [1, 0]})
    with pytest.raises(et.GraphError, match="no variable 'g'"):
        network.relabelled({"g": [1, 0]})
