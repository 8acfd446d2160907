"""The engine on operators as learning gives them: dense, of both signs, in any gauge."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from brute_force import observed_table
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from random_graphs import latent_graphs

import eigentree as et
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.inference.operators.operator_layout import LinePool
from eigentree.inference.operators.tree_operators import NodeOperator, TreeOperators


def dense(operators: TreeOperators, node: NodeOperator) -> np.ndarray:
    """The operator as an array with axes (columns…, children…, parent), without the slots for missing cells."""
    bonds = [operators.nodes[child].bond for child in node.children]
    slots = [operators.states[column] + 1 for column in node.columns]
    array = np.zeros((math.prod(slots), *bonds, node.bond))
    array[(slice(None), *node.index.T)] = node.values.T
    return array.reshape(*slots, *bonds, node.bond)[tuple(slice(0, size - 1) for size in slots)]


def invertible(random: np.random.Generator, size: int) -> np.ndarray:
    """A dense matrix of both signs, well-conditioned."""
    left, _ = np.linalg.qr(random.normal(size=(size, size)))
    right, _ = np.linalg.qr(random.normal(size=(size, size)))
    return left * random.uniform(0.5, 2.0, size) @ right


def regauged(operators: TreeOperators, random: np.random.Generator) -> TreeOperators:
    """The same model with a random change of basis on every bond: its inverse meets it on the other side."""
    arrays = [dense(operators, node) for node in operators.nodes]
    for i, node in enumerate(operators.nodes):
        for k, child in enumerate(node.children):
            change = invertible(random, operators.nodes[child].bond)
            arrays[child] = arrays[child] @ change
            axis = len(node.columns) + k
            turned = np.tensordot(arrays[i], np.linalg.inv(change), axes=(axis, 1))
            arrays[i] = np.moveaxis(turned, -1, axis)
    nodes = (
        NodeOperator.from_dense(array, node.columns, node.children)
        for array, node in zip(arrays, operators.nodes, strict=True)
    )
    return TreeOperators(tuple(nodes), operators.states)


small_networks = st.builds(
    et.LatentNetwork.random, latent_graphs(most_states=3, most_cells=2_000), seed=st.integers(0, 2**32 - 1)
)


@settings(max_examples=60, deadline=None)
@given(small_networks, st.integers(0, 2**32 - 1))
def test_a_change_of_basis_on_every_bond_changes_no_answer(network: et.LatentNetwork, seed: int) -> None:
    random = np.random.default_rng(seed)
    operators = regauged(network.operators, random)
    rows = network.sample(30, seed=seed)
    rows[random.random(rows.shape) < 0.3] = -1
    codes = Rows.of(rows, Columns.of(network.graph)).encode(0, len(rows))
    expected = np.exp(network.log_prob(rows))
    for plan in (operators.folded.flat, operators.flat):
        log_size, sign = plan.log_prob(codes)
        assert_allclose(sign * np.exp(log_size), expected, rtol=1e-8, atol=1e-12)
        assert (sign[expected > 1e-9] == 1).all()
    columns = list(range(codes.shape[1]))
    for column, table in zip(columns, operators.tables(codes, columns), strict=True):
        proba = table / table.sum(axis=1, keepdims=True)
        name = network.graph.observed[column]
        likely = expected > 1e-6
        assert_allclose(proba[likely], network.predict_proba(rows, name)[likely], atol=1e-7)
    wanted = random.permutation(columns)[:3].tolist()
    assert_allclose(operators.joint(wanted), network.operators.joint(wanted), atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(small_networks, st.integers(0, 2**32 - 1))
def test_draws_do_not_depend_on_the_basis(network: et.LatentNetwork, seed: int) -> None:
    table = observed_table(network)
    assume(table.size <= 200)
    count = 20_000
    codes = np.asfortranarray(np.tile(np.array(table.shape, np.uint8), (count, 1)))
    random = np.random.default_rng(seed)
    assert regauged(network.operators, random).draw(codes, random) == 0
    found = np.zeros(table.shape)
    np.add.at(found, tuple(codes.T), 1)
    expected = table * count
    large = expected > 5
    statistic = ((found - expected)[large] ** 2 / expected[large]).sum()
    assert statistic < large.sum() + 6 * np.sqrt(2 * large.sum()) + 6


def test_bonds_whose_product_no_integer_holds() -> None:
    last = 2**22 - 1
    index = np.array([[last, 0, last, 5], [0, last, 1, 2], [last, 0, last, 5], [0, last, 0, 3]])
    operator = NodeOperator.from_entries(index, np.arange(4.0)[:, None] + 1, 2**22, children=(1, 2, 3))
    assert_array_equal(operator.index, [[0, last, 0, 3], [0, last, 1, 2], [last, 0, last, 5]])
    assert_array_equal(operator.values, [[4], [2], [4]])


def test_the_joint_of_neighbours_visits_only_what_joins_them() -> None:
    """Tables far down a long chain, against the chain rule of a first-order HMM."""
    network = et.LatentNetwork.random(et.zoo.hmm(300, 1, 2, 3), seed=0)
    tables = network.tables
    belief = tables["h0"]
    for t in range(1, 200):
        belief = belief @ tables[f"h{t}"]
    pair = np.einsum("a,ax,ab,by->xy", belief, tables["x199"], tables["h200"], tables["x200"])
    assert_allclose(network.joint(["x199", "x200"]), pair, atol=1e-12)
    assert_allclose(network.joint(["x200", "x199"]), pair.T, atol=1e-12)
    # In another basis, what is marginalised out on both sides has a scale.
    operators = regauged(network.operators, np.random.default_rng(0))
    assert_allclose(operators.joint((199, 200)), pair, atol=1e-9)


def holed_codes(network: et.LatentNetwork, count: int, seed: int) -> np.ndarray:
    rows = network.sample(count, seed=seed)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.3] = -1
    return Rows.of(rows, Columns.of(network.graph)).encode()


def test_no_answer_depends_on_how_rows_are_cut_into_blocks() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(9, 2, 2, 3), seed=0)
    operators = network.operators
    codes = holed_codes(network, 1100, seed=0)
    log_size, sign = operators.log_prob(codes)
    tables = operators.tables(codes, [4, 0])
    for start, stop in ((0, 1), (0, 600), (511, 513), (1099, 1100)):
        part = np.asfortranarray(codes[start:stop])
        assert_array_equal(operators.log_prob(part)[0], log_size[start:stop])
        assert_array_equal(operators.log_prob(part)[1], sign[start:stop])
        for whole, table in zip(tables, operators.tables(part, [4, 0]), strict=True):
            assert_array_equal(table, whole[start:stop])


@pytest.mark.parametrize(
    "lay_out", [np.asfortranarray, np.ascontiguousarray, lambda codes: np.repeat(codes, 2, 0)[::2]]
)
def test_codes_may_lie_in_memory_in_any_order(lay_out: Callable[[np.ndarray], np.ndarray]) -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(5, 1, 2, 3), seed=1)
    operators = network.operators
    codes = holed_codes(network, 40, seed=1)
    laid = lay_out(codes.copy())
    assert_array_equal(operators.log_prob(laid)[0], operators.log_prob(codes)[0])
    assert_array_equal(operators.tables(laid, [2])[0], operators.tables(codes, [2])[0])
    filled = codes.copy(order="F")
    assert operators.draw(filled, np.random.default_rng(2)) == 0
    assert operators.draw(laid, np.random.default_rng(2)) == 0
    assert_array_equal(laid, filled)
    assert (laid < 3).all()


def test_no_rows_have_no_answers() -> None:
    operators = et.LatentNetwork.random(et.zoo.hmm(5, 1, 2, 3), seed=1).operators
    nothing = np.zeros((0, 5), np.uint8)
    assert operators.log_prob(nothing)[0].shape == (0,)
    assert operators.tables(nothing, [2])[0].shape == (0, 3)
    assert operators.draw(nothing, np.random.default_rng(0)) == 0


def test_the_table_of_no_column_is_the_sum_over_all_rows() -> None:
    operators = et.LatentNetwork.random(et.zoo.hmm(5, 1, 2, 3), seed=1).operators
    assert_allclose(operators.joint(()), 1.0, rtol=1e-12)
    scaled = TreeOperators((NodeOperator.from_dense(np.array([[1e-200], [3e-200]]), columns=(0,)),), (2,))
    assert_allclose(scaled.joint(()), 4e-200, rtol=1e-12)


def test_an_operator_of_zeros_still_sends_a_message() -> None:
    nothing = NodeOperator.from_dense(np.zeros((2, 1)), columns=(0,))
    assert len(nothing.index) == 1
    operators = TreeOperators((nothing,), (2,))
    log_size, sign = operators.log_prob(np.array([[0], [2]], np.uint8))
    assert log_size.tolist() == [-np.inf] * 2
    assert sign.tolist() == [0, 0]
    assert_array_equal(operators.joint((0,)), [0, 0])
    assert operators.draw(np.array([[2]], np.uint8), np.random.default_rng(0)) == 1


def test_lines_in_use_never_overlap_and_few_are_needed() -> None:
    random = np.random.default_rng(0)
    pool, held = LinePool(5), []
    for _ in range(400):
        if held and random.random() < 0.5:
            pool.give_back(*held.pop(int(random.integers(len(held)))))
        else:
            count = int(random.integers(1, 6))
            held.append((pool.lend(count), count))
        lines = [line for first, count in held for line in range(first, first + count)]
        assert len(set(lines)) == len(lines)
        assert all(5 <= line < pool.end for line in lines)
    first = pool.lend(3)
    pool.give_back(first, 3)
    assert pool.lend(2) <= first
