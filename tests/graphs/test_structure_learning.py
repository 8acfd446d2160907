"""Trees from mutual information of columns: against brute force, under renaming, and planted ones found again."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eigentree as et
from benchmarks.planted import planted_network, random_tree
from benchmarks.tree_distance import robinson_foulds, splits
from eigentree.counting.mutual_information import distances_of
from eigentree.errors import GraphError
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.neighbour_joining import joined
from eigentree.graphs.structure_learning import chow_liu, hidden_chow_liu, joined_tree, spanning_tree


def names_of(count: int) -> list[str]:
    return [f"x{place}" for place in range(count)]


def random_weights(seed: int, count: int, levels: int) -> np.ndarray:
    """Few levels make many ties."""
    weights = np.random.default_rng(seed).integers(0, levels, (count, count)) / levels
    return np.triu(weights, 1) + np.triu(weights, 1).T


def links(graph: LatentGraph) -> set[frozenset[str]]:
    return {frozenset(edge) for edge in graph.edges}


# Spanning trees


@given(st.integers(0, 10**6), st.integers(1, 7), st.sampled_from([2, 3, 10**6]))
@settings(max_examples=60, deadline=None)
def test_of_all_trees_the_heaviest_is_found(seed: int, count: int, levels: int) -> None:
    weights, names = random_weights(seed, count, levels), names_of(count)
    edges = spanning_tree(weights, names)
    found = sum(weights[names.index(a), names.index(b)] for a, b in edges)
    graph = nx.Graph()
    graph.add_nodes_from(names)
    graph.add_weighted_edges_from((names[a], names[b], weights[a, b]) for a, b in combinations(range(count), 2))
    best = nx.maximum_spanning_tree(graph).size(weight="weight")
    assert len(edges) == count - 1
    assert found == pytest.approx(best)
    # Of equal trees it is the one that Kruskal finds who takes edges by weight and then by name.
    ranked = sorted(combinations(sorted(names), 2), key=lambda e: (-graph.edges[e]["weight"], e))
    taken = nx.Graph()
    taken.add_nodes_from(names)
    for one, other in ranked:
        if not nx.has_path(taken, one, other):
            taken.add_edge(one, other)
    assert edges == sorted(tuple(sorted(edge)) for edge in taken.edges)


@given(st.integers(0, 10**6), st.integers(2, 9), st.sampled_from([2, 3, 10**6]))
@settings(max_examples=60, deadline=None)
def test_the_order_of_columns_plays_no_part(seed: int, count: int, levels: int) -> None:
    weights, names = random_weights(seed, count, levels), names_of(count)
    order = np.random.default_rng(seed).permutation(count)
    moved = [names[place] for place in order]
    states = list(range(2, count + 2))
    for make in (
        lambda n, s, w: chow_liu(n, s, w),
        lambda n, s, w: hidden_chow_liu(n, s, w, 3),
        lambda n, s, w: joined_tree(n, s, 1 - w, 3, 0.01),
    ):
        one = make(names, states, weights)
        other = make(moved, [states[place] for place in order], weights[np.ix_(order, order)])
        assert other.observed == tuple(moved)
        assert one.edges == other.edges
        assert dict(one.states) == dict(other.states)


def test_rounding_breaks_no_tie() -> None:
    names = ["b", "a", "c", "d"]
    weights = 0.3 * np.ones((4, 4))
    weights[2, 3] = weights[3, 2] = 0.1 + 0.2  # a bit more than 0.3
    assert spanning_tree(weights, names) == [("a", "b"), ("a", "c"), ("a", "d")]


# Hidden Chow-Liu trees


@given(st.integers(0, 10**6), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_hidden_variables_are_linked_as_their_columns(seed: int, count: int) -> None:
    """Against the slow way: a copy of each column, then those of degree 2 spliced out, one by one."""
    weights, names = random_weights(seed, count, 10**6), names_of(count)
    graph = hidden_chow_liu(names, [2] * count, weights, 3)
    slow = nx.Graph([(f"h_{a}", f"h_{b}") for a, b in spanning_tree(weights, names)])
    slow.add_edges_from((f"h_{name}", name) for name in names)
    while spare := [node for node in slow if node not in names and slow.degree(node) < 3]:
        if len(slow) == count + 1:
            break
        around = list(slow.neighbors(max(spare)))
        slow.remove_node(max(spare))
        slow.add_edges_from([around] if len(around) == 2 else [])
    assert links(graph) == {frozenset(edge) for edge in slow.edges}
    assert set(graph.hidden) == set(slow) - set(names)
    assert graph.observed == tuple(names)
    assert all(graph.states[name] == 3 for name in graph.hidden)
    assert all(len(graph.parents(name)) == 1 for name in names)


def test_the_root_is_in_the_middle() -> None:
    chain = np.diag(np.ones(8), 1) + np.diag(np.ones(8), -1)
    assert hidden_chow_liu("abcdefghi", [2] * 9, chain, 2).parents("h_e") == ()
    assert chow_liu("abcdefghi", [2] * 9, chain).parents("e") == ()


def test_hidden_names_keep_apart_from_those_of_columns() -> None:
    names = ["a", "h_a", "h_b", "b"]
    for graph in (
        hidden_chow_liu(names, [2] * 4, random_weights(0, 4, 99), 2),
        joined_tree(names, [2] * 4, 1 + random_weights(0, 4, 99), 2),
    ):
        assert graph.observed == tuple(names)
        assert all(name.startswith("hidden_h_") for name in graph.hidden)


def test_hidden_variables_are_called_after_what_is_nearest() -> None:
    """x0 and x1 hang below one, x2 and x3 below the other; x1 and x3 are nearer to theirs."""
    lengths = np.array([0.5, 0.1, 0.4, 0.2])
    distances = lengths[:, None] + lengths + np.kron(1 - np.eye(2), np.ones((2, 2)))
    np.fill_diagonal(distances, 0)
    graph = joined_tree(names_of(4), [2] * 4, distances, 2)
    assert set(graph.hidden) == {"h_x1", "h_x3"}
    assert graph.parents("x0") == graph.parents("x1") == ("h_x1",)


# Neighbour joining


def path_lengths(graph: LatentGraph, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    tree = nx.Graph()
    tree.add_weighted_edges_from((*edge, random.uniform(0.1, 1)) for edge in graph.edges)
    found = dict(nx.all_pairs_dijkstra_path_length(tree))
    return np.array([[found[one][other] for other in graph.observed] for one in graph.observed])


@given(st.integers(0, 10**6), st.integers(3, 24))
@settings(max_examples=60, deadline=None)
def test_a_tree_follows_from_the_lengths_of_its_paths(seed: int, columns: int) -> None:
    planted = random_tree(columns, 2, 2, seed)
    distances = path_lengths(planted, seed)
    found = joined_tree(planted.observed, [2] * columns, distances, 2, shortest=1e-6)
    assert splits(found) == splits(planted)
    assert len(found.hidden) == len(planted.hidden)
    assert robinson_foulds(found, planted) == 0
    assert all(len(found.neighbors(name)) >= 3 for name in found.hidden)


@pytest.mark.parametrize("seed", range(5))
def test_joined_lengths_are_those_of_the_paths(seed: int) -> None:
    distances = path_lengths(random_tree(9, 2, 2, seed), seed)
    tree = nx.Graph()
    # Where a node has more than three neighbours, some lengths are 0, but for rounding.
    tree.add_weighted_edges_from((one, other, max(length, 0)) for one, other, length in joined(distances))
    found = dict(nx.all_pairs_dijkstra_path_length(tree))
    assert [[found[i][j] for j in range(9)] for i in range(9)] == pytest.approx(distances)


@pytest.mark.parametrize("columns", [1, 2])
def test_one_hidden_variable_stands_above_two_columns(columns: int) -> None:
    graph = joined_tree(names_of(columns), [2] * columns, 1 - np.eye(columns), 3)
    assert graph.hidden == ("h_x0",)
    assert graph.edges == tuple(("h_x0", name) for name in names_of(columns))


# Planted trees


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("hidden_states", "observed_states"), [(2, 2), (2, 4), (3, 3), (3, 4)])
def test_exact_pair_tables_give_the_planted_tree(seed: int, hidden_states: int, observed_states: int) -> None:
    network = planted_network(random_tree(12, hidden_states, observed_states, seed), seed)
    names = network.graph.observed
    distances = np.zeros((12, 12))
    for i, j in combinations(range(12), 2):
        joint = np.asarray(network.joint([names[i], names[j]]))
        distances[i, j] = distances[j, i] = distances_of(joint[:, :, None], hidden_states)[0]
    found = joined_tree(names, [observed_states] * 12, distances, hidden_states, shortest=1e-4)
    assert splits(found) == splits(network.graph)


def recovered(columns: int, hidden_states: int, observed_states: int, rows: int, seeds: int) -> list[float]:
    """Robinson-Foulds distances of learned trees to planted ones."""
    found = []
    for seed in range(seeds):
        network = planted_network(random_tree(columns, hidden_states, observed_states, seed), seed)
        learned = et.learn_structure(network.sample(rows, seed=seed), "neighbour-joining", hidden_states=8)
        found.append(robinson_foulds(learned, network.graph))
    return found


def test_enough_rows_give_the_planted_tree() -> None:
    """It is not given how many states the hidden variables have."""
    far = recovered(16, 4, 4, 20_000, 10)
    assert sum(each == 0 for each in far) >= 7
    assert np.mean(far) < 0.03
    near = recovered(16, 3, 6, 100_000, 4)
    assert near == [0] * 4


@pytest.mark.parametrize("seed", range(4))
def test_balanced_trees_are_found_though_many_distances_are_equal(seed: int) -> None:
    """Chance decides which leaves are nearest to each other, and must not decide the tree."""
    graph = et.zoo.latent_tree(depth=2, branching=3, hidden_states=3, observed_states=3)
    noisy = 0.7 * np.eye(3) + 0.1
    network = et.LatentNetwork(graph, dict.fromkeys(graph.names, noisy) | {"h0": [0.2, 0.3, 0.5]})
    found = et.learn_structure(network.sample(10_000, seed=seed), "neighbour-joining", 3)
    assert splits(found) == splits(graph)
    assert len(found.hidden) == 4


def test_more_rows_give_better_trees() -> None:
    few, some, many = (np.mean(recovered(16, 2, 2, rows, 8)) for rows in (300, 3_000, 30_000))
    assert few > some > many
    assert many < 0.1


# Comparing


def test_splits_are_those_of_the_edges() -> None:
    tree = et.zoo.latent_tree(edges=[("r", "s"), ("r", "t"), ("s", "a"), ("s", "b"), ("t", "c"), ("t", "d")])
    # Rooted at a hidden variable of degree 2: both edges of the root make the same split.
    assert splits(tree) == {frozenset("cd")}
    assert splits(et.zoo.mixture(5)) == set()
    assert splits(et.zoo.hmm(5)) == {frozenset({"x2", "x3", "x4"}), frozenset({"x3", "x4"})}


@given(st.integers(0, 10**6), st.integers(4, 12))
@settings(max_examples=20, deadline=None)
def test_robinson_foulds_is_a_distance_of_trees(seed: int, columns: int) -> None:
    one, other = (random_tree(columns, 2, 2, seed + more) for more in (0, 1))
    assert robinson_foulds(one, other) == robinson_foulds(other, one)
    assert robinson_foulds(one, one) == 0
    assert 0 <= robinson_foulds(one, other) <= 1
    turned = LatentGraph(one.states, [edge[::-1] for edge in one.edges], one.hidden, directed=False)
    assert robinson_foulds(turned, one) == 0


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (et.zoo.factorial_hmm(3), "no tree"),
        (LatentGraph({"a": 2, "b": 2}), "no tree"),
        ("tree", "a LatentGraph is needed"),
    ],
)
def test_what_is_no_tree_is_refused(graph: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        splits(graph)
    with pytest.raises(GraphError, match="same columns"):
        robinson_foulds(et.zoo.hmm(3), et.zoo.hmm(4))


def test_answers_from_1_are_learned_as_codes_from_0_are() -> None:
    random = np.random.default_rng(0)
    codes = pd.DataFrame(random.integers(0, 3, (60, 1)) + random.integers(0, 2, (60, 4)), columns=list("abcd"))
    missing = random.random(codes.shape) < 0.1
    scores = []
    for answers in (codes, codes + 1, (codes + 1).mask(missing), codes.mask(missing), (codes + 1).astype("Int64")):
        graph = et.learn_structure(answers, hidden_states=2)
        model = et.EMJunctionTree(graph, n_init=1, random_state=0).fit(answers)
        assert set(model.sample(50, random_state=0)["a"]) <= set(answers["a"].dropna())
        scores.append(model.score(answers))
    assert scores[0] == scores[1] == scores[4]
    assert scores[2] == scores[3]
    # A cell that the graph has no state for is still an error.
    with pytest.raises(et.DataError, match="has the codes 0 to 3"):
        et.EMJunctionTree(graph, random_state=0).fit(codes.replace(3, 4))
