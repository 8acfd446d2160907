"""Mutual information of variables: against the whole joint table, relabelled, and in mixtures of trees."""

from __future__ import annotations

from itertools import combinations

import brute_force
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import latent_graphs
from sklearn.exceptions import NotFittedError

import eigentree as et
from benchmarks.planted import planted_network, random_tree
from eigentree.estimators.dependencies import Link
from eigentree.graphs.structure_learning import mixed_tree, mixture_of_trees
from eigentree.inference.networks.pair_tables import PairTables

TREE = random_tree(6, 2, 3, seed=1)
MIXTURE = et.LatentNetwork.random(mixture_of_trees(TREE, 3), concentration=0.3, seed=4)


def whole_table(network: et.LatentNetwork) -> np.ndarray:
    """P(all variables), hidden ones too, by multiplying every table."""
    names = network.graph.names
    operands: list[object] = []
    for axes, table in brute_force.factors(network):
        operands += [table, [names.index(name) for name in axes]]
    return np.einsum(*operands, list(range(len(names))))


def pair_table(network: et.LatentNetwork, *pair: str) -> np.ndarray:
    names = network.graph.names
    kept = [names.index(name) for name in pair]
    table = whole_table(network).sum(axis=tuple(k for k in range(len(names)) if k not in kept))
    return table if kept == sorted(kept) else table.T


def information(table: np.ndarray) -> float:
    independent = np.outer(table.sum(axis=1), table.sum(axis=0))
    there = table > 0
    return float((table[there] * np.log(table[there] / independent[there])).sum())


def one_tree(which: int) -> et.LatentNetwork:
    """One of the trees of the mixture by itself."""
    tables = {name: MIXTURE.tables[name][which] for name in TREE.names}
    return et.LatentNetwork(TREE, tables)


@settings(max_examples=60, deadline=None)
@given(latent_graphs(most_variables=6, most_states=4, most_cells=2_000), st.integers(0, 99))
def test_pair_tables_are_those_of_the_whole_table(graph: et.LatentGraph, seed: int) -> None:
    network = et.LatentNetwork.random(graph, concentration=0.4, seed=seed)
    pairs = PairTables(network)
    found = dict(pairs.tables())
    assert set(found) == set(graph.names)
    for name, start in zip(graph.observed, pairs.starts, strict=True):
        for other in set(graph.names) - {name}:
            table = found[other][start : start + graph.states[name]]
            if table.any():
                np.testing.assert_allclose(table, pair_table(network, name, other), atol=1e-12)
            else:
                assert information(pair_table(network, name, other)) == pytest.approx(0, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(latent_graphs(most_variables=6, most_states=3, most_cells=1_000), st.integers(0, 99))
def test_strengths_are_those_of_the_whole_table(graph: et.LatentGraph, seed: int) -> None:
    if mixed_tree(graph)[1] is not None:
        return
    network = et.LatentNetwork.random(graph, concentration=0.4, seed=seed)
    found = et.dependencies(network)
    assert {link[:2] for link in found.columns} == set(combinations(graph.observed, 2))
    assert sorted(link[:2] for link in found.edges) == sorted(graph.edges)
    assert {link[:2] for link in found.hidden} == {(h, x) for h in graph.hidden for x in graph.observed}
    for one, other, nats in (*found.columns, *found.edges, *found.hidden):
        assert nats == pytest.approx(information(pair_table(network, one, other)), abs=1e-9)


def test_in_a_mixture_columns_are_those_of_the_whole_and_hidden_variables_tree_by_tree() -> None:
    assert mixed_tree(MIXTURE.graph) == (TREE, "tree")
    found = et.dependencies(MIXTURE)
    shares = MIXTURE.tables["tree"]
    assert sorted(link[:2] for link in found.edges) == sorted(TREE.edges)
    for one, other, nats in found.columns:
        assert nats == pytest.approx(information(MIXTURE.joint([one, other]).array))
    apart = [one_tree(which) for which in range(3)]
    for one, other, nats in (*found.edges, *found.hidden):
        mean = sum(
            share * information(pair_table(each, one, other)) for share, each in zip(shares, apart, strict=True)
        )
        assert nats == pytest.approx(mean)


def test_numbers_of_hidden_states_play_no_part() -> None:
    """Also where each tree of a mixture has its own."""
    tables = {name: np.array(table) for name, table in MIXTURE.tables.items()}
    root = next(name for name in TREE.names if not TREE.parents(name))
    tables[root][1] = tables[root][1, ::-1]
    for child in TREE.neighbors(root):
        tables[child][1] = tables[child][1, ::-1]
    turned = et.LatentNetwork(MIXTURE.graph, tables)
    rows = MIXTURE.sample(20, seed=0)
    np.testing.assert_allclose(turned.log_prob(rows), MIXTURE.log_prob(rows))
    for one, other in zip(
        vars(et.dependencies(turned)).values(), vars(et.dependencies(MIXTURE)).values(), strict=True
    ):
        assert {link[:2]: pytest.approx(link.nats) for link in one} == {link[:2]: link.nats for link in other}


def test_strongest_come_first_and_any_part_makes_a_frame() -> None:
    found = et.dependencies(MIXTURE)
    for links in (found.columns, found.edges, found.about("x0")):
        assert [link.nats for link in links] == sorted((link.nats for link in links), reverse=True)
    assert {link.other for link in found.about("x0")} == set(TREE.observed) - {"x0"}
    hidden = TREE.hidden[0]
    assert {link.other for link in found.about(hidden)} == set(TREE.observed)
    assert all(link.one == hidden for link in found.about(hidden))
    for frame in (pd.DataFrame(found.columns), pl.DataFrame(found.hidden)):
        assert list(frame.columns) == list(Link._fields)
    shown = repr(found)
    assert f"{found.columns[0].nats:.4f}  {found.columns[0].one}, {found.columns[0].other}" in shown
    assert all(f"  {name}: " in shown for name in TREE.hidden)
    with pytest.raises(et.GraphError, match=r"there is no mutual information of 'X1'.*did you mean 'x1'"):
        found.about("X1")


def test_a_hidden_variable_is_most_informative_about_its_own_columns() -> None:
    network = planted_network(TREE, seed=1)
    for hidden in TREE.hidden:
        links = et.dependencies(network).about(hidden)
        mine = [name for name in TREE.neighbors(hidden) if name in TREE.observed]
        if len(mine) > 1:
            assert links[0].other in mine


def test_estimators_with_tables_are_taken_and_others_refused_with_what_to_do() -> None:
    rows = MIXTURE.sample(200, seed=0)
    model = et.EMJunctionTree(TREE, init="random", n_init=1, max_iter=3, random_state=0)
    with pytest.raises(NotFittedError):
        et.dependencies(model)
    assert et.dependencies(model.fit(rows)) == et.dependencies(model.network_)
    with pytest.raises(et.ParameterError, match="a spectral model are in to_network"):
        et.dependencies(et.SpectralJunctionTree(TREE).fit(rows))  # type: ignore[arg-type]


@pytest.mark.parametrize("graph", [et.zoo.mixture(4, 2, 2), et.zoo.hmm(4), et.zoo.factorial_hmm(3, 2), TREE])
def test_other_graphs_are_no_mixtures_of_trees(graph: et.LatentGraph) -> None:
    assert mixed_tree(graph) == (graph, None)
    assert mixed_tree(mixture_of_trees(graph, 1)) == (graph, None)
