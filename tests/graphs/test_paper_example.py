"""The paper's own example: the clique {B, C, D, E} of Figure 2 (sections 3, 4.1 and 4.2)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs

import eigentree as et
from eigentree.graphs.junction_tree import JunctionTree


@pytest.fixture(scope="module")
def network() -> et.LatentNetwork:
    states = {"A": 2, "B": 2, "C": 3, "D": 2, "E": 2, "F": 4, "G": 5, "H": 3}
    clique = [("B", "C"), ("B", "D"), ("B", "E"), ("C", "D"), ("C", "E"), ("D", "E")]
    others = [("B", "F"), ("C", "F"), ("B", "G"), ("D", "G"), ("A", "C"), ("A", "E"), ("A", "H")]
    graph = et.LatentGraph(states, clique + others, hidden=list("ABCDE"), directed=False)
    return et.LatentNetwork.random(graph, seed=0)


@pytest.fixture(scope="module")
def tree(network: et.LatentNetwork) -> JunctionTree:
    return JunctionTree.build(network.graph, root="A")


def node_of(tree: JunctionTree, names: str) -> int:
    (found,) = [i for i, node in enumerate(tree.nodes) if set(node.clique) == set(names)]
    return found


def test_the_clique_hangs_as_in_figure_2(tree: JunctionTree) -> None:
    node = tree.nodes[node_of(tree, "BCDE")]
    assert set(node.separator) == {"C", "E"}
    assert set(node.remainder) == {"B", "D"}
    assert {frozenset(tree.nodes[c].separator) for c in node.children} == {frozenset("BC"), frozenset("BD")}


def test_its_tensor_is_of_sixth_order(network: et.LatentNetwork, tree: JunctionTree) -> None:
    tensor = network.clique_tensor(tree, node_of(tree, "BCDE"))
    assert tensor.order == 6
    assert Counter(tensor.labels) == Counter("BBDCCE")


def test_its_message_is_the_sum_of_section_3(network: et.LatentNetwork, tree: JunctionTree) -> None:
    node = node_of(tree, "BCDE")
    f, g = 2, 4
    from_f = network.clique_tensor(tree, node_of(tree, "BCF")).select({"F": f})
    from_g = network.clique_tensor(tree, node_of(tree, "BDG")).select({"G": g})
    message = network.clique_tensor(tree, node).multiply(from_f, over=("B", "C")).multiply(from_g, over=("B", "D"))

    conditional = network.conditional_table(tree, node)  # P(B, D | C, E), axes C, E, B, D
    assert tree.nodes[node].clique == ("C", "E", "B", "D")
    f_given = from_f.transpose(("B", "C")).array
    g_given = from_g.transpose(("B", "D")).array
    expected = np.zeros((3, 2))
    for c in range(3):
        for e in range(2):
            for b in range(2):
                for d in range(2):
                    expected[c, e] += conditional[c, e, b, d] * f_given[b, c] * g_given[b, d]
    assert_allclose(message.transpose(("C", "E")).array, expected, rtol=1e-14)


def tensor_message_passing(network: et.LatentNetwork, tree: JunctionTree, row: dict[str, int]) -> float:
    """Eq. 11-13 with labelled tensors all the way."""
    messages = {}
    for i in reversed(range(len(tree.nodes))):
        node = tree.nodes[i]
        tensor = network.clique_tensor(tree, i)
        if node.observed is not None:
            # Multiplied with the indicator of its cell; where the leaf holds the variable twice, one mode is left.
            indicator = np.eye(network.graph.states[node.observed])[row[node.observed]]
            tensor = tensor.multiply(et.LabeledTensor(indicator, node.observed), over=node.observed)
        for child in node.children:
            tensor = tensor.multiply(messages[child], over=tree.nodes[child].separator)
        messages[i] = tensor
    return float(messages[0].array)


def test_tensor_message_passing_gives_the_joint(network: et.LatentNetwork, tree: JunctionTree) -> None:
    row = {"F": 1, "G": 3, "H": 2}
    expected = network.log_prob([[row[name] for name in network.graph.observed]])[0]
    assert_allclose(np.log(tensor_message_passing(network, tree, row)), expected, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(latent_graphs(most_states=3), st.integers(0, 2**32 - 1))
def test_tensor_message_passing_gives_the_joint_of_any_graph(graph: et.LatentGraph, seed: int) -> None:
    """Also where observed variables are parents, and so stand in separators."""
    network = et.LatentNetwork.random(graph, seed=seed)
    rows = network.sample(3, seed=seed)
    for row, expected in zip(rows, network.log_prob(rows), strict=True):
        cells = dict(zip(graph.observed, map(int, row), strict=True))
        found = tensor_message_passing(network, network.tree, cells)
        assert_allclose(np.log(found), expected, rtol=1e-9, atol=1e-12)
