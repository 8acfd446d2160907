"""The average of networks: one network, with the probabilities of a mixture."""

from __future__ import annotations

import numpy as np
import pytest
from eigentree.em.averaging import averaged, fitted_shares
from hypothesis import given, settings
from hypothesis import strategies as st

import eigentree as et
from eigentree.graphs.structure_learning import mixture_of_trees

TREE = et.zoo.LatentTree(hidden_states=3).build([2, 3, 2, 4, 2])
ROWS = et.LatentNetwork.random(TREE, seed=9).sample(60, seed=0)


@settings(max_examples=20, deadline=None)
@given(trees=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 999))
def test_an_average_has_the_probabilities_of_a_mixture(trees: list[int], seed: int) -> None:
    networks = [
        et.LatentNetwork.random(mixture_of_trees(TREE, count), seed=seed + place)
        for place, count in enumerate(trees)
    ]
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(trees)))
    whole = averaged(TREE, networks, shares)
    each = np.array([network.log_prob(ROWS) for network in networks])
    expected = np.logaddexp.reduce(each + np.log(shares)[:, None], axis=0)
    np.testing.assert_allclose(whole.log_prob(ROWS), expected, rtol=1e-12)
    assert whole.graph == mixture_of_trees(TREE, sum(trees))


def test_one_network_is_its_own_average() -> None:
    network = et.LatentNetwork.random(TREE, seed=0)
    alone = averaged(TREE, [network], np.ones(1))
    assert alone.graph == TREE
    for name in TREE.names:
        np.testing.assert_array_equal(alone.tables[name], network.tables[name])


def test_the_variable_of_a_mixture_takes_no_name_that_is_taken() -> None:
    graph = et.LatentGraph({"tree": 2, "a": 2, "b": 2}, [("tree", "a"), ("tree", "b")], ["tree"])
    mixed = mixture_of_trees(graph, 3)
    assert mixed.hidden == ("hidden_tree", "tree")
    assert mixed.parents("a") == ("hidden_tree", "tree")


def test_shares_make_rows_likeliest() -> None:
    random = np.random.default_rng(0)
    truth, other, useless = (et.LatentNetwork.random(TREE, concentration=0.2, seed=seed) for seed in (1, 2, 3))
    rows = np.concatenate([truth.sample(3_000, seed=1), other.sample(1_000, seed=2)])
    log_prob = np.array([network.log_prob(rows) for network in (truth, other, useless)])
    weights = np.where(np.arange(len(rows)) < 3_000, 1.0, 4.0) * random.choice([1.0, 2.0], len(rows))
    shares = fitted_shares(log_prob, weights)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[2] == 0.0
    assert shares[0] == pytest.approx(np.average(np.arange(len(rows)) < 3_000, weights=weights), abs=0.05)

    def height(mixed: np.ndarray) -> float:
        used = mixed > 0
        return float(np.logaddexp.reduce(log_prob[used] + np.log(mixed[used])[:, None], axis=0) @ weights)

    for move in ([0.02, -0.02, 0.0], [-0.02, 0.02, 0.0], [-0.03, 0.0, 0.03]):
        assert height(shares) > height(shares + np.array(move))


def test_equal_networks_have_equal_shares() -> None:
    log_prob = et.LatentNetwork.random(TREE, seed=0).log_prob(ROWS)
    np.testing.assert_allclose(fitted_shares(np.array([log_prob] * 4), np.ones(len(ROWS))), 0.25)
