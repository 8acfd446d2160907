"""The engine on operators as learning gives them: dense, of both signs, in any gauge."""

from __future__ import annotations

import math

import numpy as np
from brute_force import observed_table
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from random_graphs import latent_graphs

import eigentree as et
from eigentree.data.columns import Columns
from eigentree.data.rows import Rows
from eigentree.engine.line_pool import LinePool
from eigentree.engine.operators import NodeOperator, TreeOperators
from eigentree.engine.passes import upward_pass


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
        log_size, sign = upward_pass(plan, codes)
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
    # In another basis, what is summed out on both sides has a scale.
    operators = regauged(network.operators, np.random.default_rng(0))
    assert_allclose(operators.joint((199, 200)), pair, atol=1e-9)
