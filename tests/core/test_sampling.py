"""Decoding against all entries tried, and states chosen by uniform numbers, with each instruction set."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.mirrors import sampling as mirror
from core.mirrors.message_passing import RandomTree
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.core import _native
from eigentree.core.trees.categorical_sampling import choose
from eigentree.inference.operators.operator_layout import NodeOperator, laid_out

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.usefixtures("instructions")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("code_type", [np.uint8, np.uint16, np.uint32])
def test_decoding_finds_the_largest_product(seed: int, code_type: type) -> None:
    tree = RandomTree(seed, nodes=1 + seed % 4, signed=False, most=3)

    def slots(node: NodeOperator) -> int:
        return tree.states[node.columns[-1]] + 1

    with np.errstate(divide="ignore"):
        # A node holds one column at most: of others the last code alone, which stands for a missing cell.
        nodes = [
            replace(node, values=np.log(node.values[:, -slots(node) :]), columns=node.columns[-1:])
            if node.columns
            else replace(node, values=np.log(node.values))
            for node in tree.nodes
        ]
    flat = laid_out(nodes, tree.states)
    codes = tree.rows(9, absent=0.4).astype(code_type)
    decoded = tree.random.random(len(tree.states)) < 0.6
    filled = codes.copy()
    entries, log_prob = flat.decode(filled, decoded)
    for r, row in enumerate(codes.tolist()):
        best, found = mirror.decode(nodes, tree.states, row, decoded)
        assert_allclose(log_prob[r], best, rtol=1e-12)
        if np.isneginf(best):
            assert filled[r].tolist() == row
        else:
            assert (tuple(entries[:, r].tolist()), tuple(filled[r].tolist())) in found


@pytest.mark.parametrize("seed", range(3))
def test_networks_decode_their_hidden_states(seed: int) -> None:
    """Chains with a hidden leaf below, missing cells, and an impossible row."""
    states = {"h0": 2, "h1": 3, "below": 2, "x0": 3, "x1": 2}
    edges = [("h0", "h1"), ("h0", "x0"), ("h1", "x1"), ("h1", "below")]
    graph = et.LatentGraph(states, edges, ["h0", "h1", "below"])
    network = et.LatentNetwork.random(graph, seed=seed)
    tables = {name: np.array(table) for name, table in network.tables.items()}
    tables["x1"][:] = [[1.0, 0.0]] * 3
    network = et.LatentNetwork(graph, tables)
    for row in ([0, 0], [2, -1], [-1, 0], [1, 1]):
        joint = np.einsum("a,ab,bc->abc", tables["h0"], tables["h1"], tables["below"])
        joint = joint * (tables["x0"][:, row[0]] if row[0] >= 0 else np.ones(2))[:, None, None]
        joint = joint * (tables["x1"][:, row[1]] if row[1] >= 0 else np.ones(3))[None, :, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found, log_prob = network.decode([row])
        if row[1] == 1:
            assert (found == -1).all()
            assert log_prob[0] == -np.inf
        else:
            assert tuple(found[0]) == np.unravel_index(joint.argmax(), joint.shape)
            assert_allclose(log_prob[0], np.log(joint.max()))


@pytest.mark.parametrize("states", [1, 2, 3, 8, 100])
def test_states_are_chosen_by_their_cumulative_stretch(states: int) -> None:
    random = np.random.default_rng(states)
    shares = random.random((5, states)) * (random.random((5, states)) < 0.7)
    shares[:, 0] += 0.01
    cumulative = shares.cumsum(axis=1)
    given, uniform = random.integers(0, 5, 300), random.random(300)
    assert_array_equal(choose(cumulative, given, uniform), mirror.choose(cumulative, given, uniform))
    # Arrays that are not contiguous.
    assert_array_equal(
        choose(np.asfortranarray(cumulative), given[::2], uniform[::2]),
        mirror.choose(cumulative, given[::2], uniform[::2]),
    )


def test_a_stretch_holds_its_start_and_not_its_end() -> None:
    uniform = np.array([0.0, 0.25, 0.5, 0.75])
    chosen = choose(np.array([[1.0, 1.0, 2.0, 4.0]]), np.zeros(4, np.int64), uniform)
    assert chosen.tolist() == [0, 2, 3, 3]


@pytest.mark.parametrize("line", [-1, 2, 2**62])
def test_a_distribution_that_there_is_not_is_refused(line: int) -> None:
    with pytest.raises(ValueError, match="a distribution that there is not"):
        choose(np.ones((2, 3)), np.array([0, line]), np.zeros(2))


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one state"):
        choose(np.ones((2, 0)), np.zeros(1, np.int64), np.zeros(1))
    with pytest.raises(ValueError, match="one uniform number"):
        choose(np.ones((2, 1)), np.zeros(2, np.int64), np.zeros(1))
    tree = RandomTree(1, nodes=4)
    native, columns = tree.laid_out.native, len(tree.states)
    codes = np.ascontiguousarray(tree.rows(5, 0.2).T)
    good = codes, np.ones(columns, np.bool_), np.zeros((4, 5), np.int64), np.empty(5)
    for part, array, message in (
        (1, np.ones(columns + 1, np.bool_), "one flag per column"),
        (2, np.zeros((3, 5), np.int64), "one entry per node"),
        (3, np.empty(4), "one log probability per row"),
    ):
        with pytest.raises(ValueError, match=message):
            _native.tree_decode(native, *good[:part], array, *good[part + 1 :])
