"""Tables passed along cliques, against the product of all factors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs

import eigentree as et
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.inference.tensors.calibration import Factor, calibrated, without_pruned
from eigentree.inference.tensors.named_tables import aligned, marginal, table_axes

graphs = latent_graphs(most_variables=8)


def random_factors(tree: JunctionTree, seed: int, zeros: float = 0.0) -> list[Factor]:
    """One table per family of the graph, not normalised."""
    random = np.random.default_rng(seed)
    factors = []
    for names in table_axes(tree.graph, tree).values():
        table = random.random(tree.states_of(names)) + 0.1
        factors.append(Factor(names, table * (random.random(table.shape) >= zeros)))
    return factors


def product_of(factors: list[Factor], tree: JunctionTree) -> np.ndarray:
    """The product over all variables of the graph, axes in its order."""
    names = tree.graph.names
    product = np.ones(tree.states_of(names))
    for factor in factors:
        product = product * aligned(factor.table, factor.names, names)
    return product


@settings(max_examples=100, deadline=None)
@given(graphs, st.integers(0, 99), st.sampled_from([0.0, 0.2]))
def test_beliefs_are_the_marginals_of_the_product(graph: et.LatentGraph, seed: int, zeros: float) -> None:
    tree = JunctionTree.of(graph)
    factors = random_factors(tree, seed, zeros)
    product = product_of(factors, tree)
    # Where everything is impossible, there is nothing to normalise.
    if product.sum() > 0:
        product /= product.sum()
        for clique, belief in zip(tree.cliques, calibrated(tree, factors), strict=True):
            assert_allclose(belief, marginal(product, graph.names, clique), atol=1e-12)


def test_calibration_leaves_its_factors_alone_and_gives_arrays_of_its_own() -> None:
    tree = JunctionTree.of(et.zoo.hmm(4, 2, 2, 3))
    factors = random_factors(tree, 0)
    before = [factor.table.copy() for factor in factors]
    first, second = calibrated(tree, factors), calibrated(tree, factors)
    for factor, table in zip(factors, before, strict=True):
        assert np.array_equal(factor.table, table)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b)
        assert not np.shares_memory(a, b)


def test_a_hub_with_thousands_of_children_does_not_underflow() -> None:
    tree = JunctionTree.of(et.zoo.mixture(3_000, 2, 2))
    beliefs = calibrated(tree, random_factors(tree, 0))
    for belief in beliefs:
        assert_allclose(belief.sum(), 1.0)


@settings(max_examples=100, deadline=None)
@given(graphs, st.integers(0, 99))
def test_what_is_pruned_is_marginalised_out(graph: et.LatentGraph, seed: int) -> None:
    tree = JunctionTree.of(graph)
    factors = random_factors(tree, seed)
    left = without_pruned(tree, factors)
    held = {name for node in tree.nodes for name in tree.cliques[node.origin]}
    for factor in left:
        assert held.issuperset(factor.names)
    kept = tuple(name for name in graph.names if name in held)
    expected = marginal(product_of(factors, tree), graph.names, kept)
    found = np.ones(tree.states_of(kept))
    for factor in left:
        found = found * aligned(factor.table, factor.names, kept)
    # Independent parts that are pruned whole leave out a constant.
    assert_allclose(found / found.sum(), expected / expected.sum())


def test_a_pruned_part_reaches_what_is_left_through_one_factor() -> None:
    chain = [f"h{i}" for i in range(5)]
    graph = et.LatentGraph(
        dict.fromkeys(chain, 2) | {"x": 3, "y": 3},
        [*pairwise(chain), ("h2", "x"), ("h3", "y")],
        chain,
    )
    tree = JunctionTree.of(graph)
    network = et.LatentNetwork.random(graph, seed=0)
    factors = [Factor((*graph.parents(name), name), network.tables[name]) for name in graph.names]
    assert len({node.origin for node in tree.nodes}) < len(tree.cliques), "nothing is pruned"
    found = without_pruned(tree, factors)
    assert {name for factor in found for name in factor.names}.isdisjoint({"h0", "h4"})
