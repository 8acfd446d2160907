"""Messages in trees of operators against exact fractions, with each instruction set."""

from __future__ import annotations

import copy
import math
import pickle
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.boundary_examples.message_passing import parts
from core.mirrors import message_passing as mirror
from core.mirrors.message_passing import RandomTree
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core import _native
from eigentree.inference.operators.operator_layout import NodeOperator, laid_out

if TYPE_CHECKING:
    from fractions import Fraction


pytestmark = pytest.mark.usefixtures("instructions")


@cache
def plain_tree(seed: int, most: int = 3) -> RandomTree:
    """A tree whose messages stay far from where doubles end."""
    return RandomTree(seed, nodes=1 + seed % 9, most=most)


@cache
def exact_of(seed: int, nodes: int, smallest: int, signed: bool, most: int) -> tuple[RandomTree, np.ndarray, list]:
    """A tree, rows, and their probabilities with those of the absolute values beside them."""
    tree = RandomTree(seed, nodes, smallest, signed, most)
    codes = tree.rows(37, absent=0.2)
    exact = [
        tuple(mirror.message(tree.nodes, tree.states, row, positive=each)[0] for each in (False, True))
        for row in codes.tolist()
    ]
    return tree, codes, exact


def assert_sizes(
    found: np.ndarray, sign: np.ndarray, exact: list[tuple[Fraction, Fraction]], tolerance: float
) -> None:
    """Where terms of both signs cancel, the largest of them decide how many digits are left."""
    for log_size, turn, (value, terms) in zip(found, sign, exact, strict=True):
        if terms == 0:
            assert (log_size, turn) == (-math.inf, 0)
        else:
            assert abs(turn * math.exp(log_size - mirror.log_size(terms)) - float(value / terms)) < tolerance


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("most", [3, 8])
@pytest.mark.parametrize("smallest", [0, -30, -400])
@pytest.mark.parametrize("signed", [False, True])
def test_probabilities_pass_up(seed: int, most: int, smallest: int, signed: bool) -> None:
    tree, codes, exact = exact_of(seed, 1 + seed % 9, smallest, signed, most)
    found, sign = tree.laid_out.log_prob(codes)
    assert_sizes(found, sign, exact, 1e-12)
    if not signed:
        assert_allclose(found, [mirror.log_size(value) for value, _ in exact], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("seed", "smallest"), [(8, 0), (17, -400)])
@pytest.mark.parametrize("code_type", [np.uint8, np.uint16, np.uint32])
def test_a_row_has_the_same_bits_in_any_block(seed: int, smallest: int, code_type: type) -> None:
    tree = RandomTree(seed, nodes=9, smallest=smallest, most=5)
    flat, codes = tree.laid_out, tree.rows(70, absent=0.3)
    uniform = tree.random.random(codes.shape)
    ends = np.cumsum([0, *tree.states])
    log_size, sign = flat.log_prob(codes)
    tables = flat.tables(codes, ends[:-1], int(ends[-1]))
    drawn = codes.copy()
    flat.draw(drawn, uniform)
    for count in range(1, 71):
        part = slice(70 - count, 70)
        cells = codes[part].astype(code_type, order="F" if count % 2 else "C")
        found, found_sign = flat.log_prob(cells)
        assert_array_equal(found, log_size[part])
        assert_array_equal(found_sign, sign[part])
        assert_array_equal(flat.tables(cells, ends[:-1], int(ends[-1])), tables[part])
        flat.draw(cells, uniform[part])
        assert_array_equal(cells, drawn[part])
    # More rows than one block has.
    many = np.tile(codes, (40, 1))
    assert_array_equal(flat.log_prob(many)[0], np.tile(log_size, 40))
    assert_array_equal(flat.tables(many, ends[:-1], int(ends[-1])), np.tile(tables, (40, 1)))


@pytest.mark.parametrize("large", [slice(0, 4), slice(4, 8), slice(7, 8)])
def test_any_part_of_a_message_may_become_large(large: slice) -> None:
    """A chain of 25 nodes that each multiply some of eight numbers by 2^50."""
    factors = np.ones(8)
    factors[large] = 2.0**50
    nodes = [NodeOperator.from_dense(np.ones((8, 1)), children=(1,))]
    nodes += [NodeOperator.from_dense(np.diag(factors), children=(place + 2,)) for place in range(25)]
    nodes.append(NodeOperator.from_dense(np.ones((2, 8)), columns=(0,)))
    found, sign = laid_out(nodes, [2]).log_prob(np.array([[0], [1]], np.uint8))
    assert_allclose(found, math.log(len(range(8)[large])) + 1_250 * math.log(2.0), rtol=1e-12)
    assert sign.tolist() == [1, 1]


def test_a_leaf_may_hold_no_column() -> None:
    nodes = [
        NodeOperator.from_dense(np.array([[[2.0], [3.0]], [[5.0], [7.0]]]), columns=(0,), children=(1,)),
        NodeOperator.from_dense(np.array([0.25, 0.5])),
    ]
    found, _ = laid_out(nodes, [2]).log_prob(np.array([[0], [1], [2]], np.uint8))
    assert_allclose(np.exp(found), [2.0, 4.75, 6.75])


def test_an_operator_may_have_many_entries_and_states() -> None:
    """More entries than are multiplied at once, more states than a tile has rows."""
    random = np.random.default_rng(0)
    emission = random.random((50, 9, 7, 11))
    nodes = [
        NodeOperator.from_dense(random.random((11, 1)), children=(1,)),
        NodeOperator.from_dense(emission, columns=(0,), children=(2, 3)),
        NodeOperator.from_dense(random.random((3, 9)), columns=(1,)),
        NodeOperator.from_dense(random.random((2, 7)), columns=(2,)),
    ]
    left, right = nodes[2].values.T, nodes[3].values.T
    whole = np.concatenate([emission, emission.sum(axis=0, keepdims=True)])
    joint = np.einsum("p,vabp,xa,yb->vxy", nodes[0].values[:, 0], whole, left, right)
    codes = np.array(list(product(range(51), range(4), range(3))), np.uint8)
    flat = laid_out(nodes, [50, 3, 2])
    assert_allclose(np.exp(flat.log_prob(codes)[0]), joint.ravel(), rtol=1e-13)
    tables = flat.tables(codes, np.array([0, -1, 50]), 52)
    expected = joint[:50, codes[:, 1], codes[:, 2]].T
    shares = tables[:, :50] / tables[:, :50].sum(axis=1, keepdims=True)
    assert_allclose(shares, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    expected = joint[codes[:, 0], codes[:, 1], :2]
    shares = tables[:, 50:] / tables[:, 50:].sum(axis=1, keepdims=True)
    assert_allclose(shares, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("most", [3, 6])
def test_tables_of_columns_are_right_up_to_a_factor(seed: int, most: int) -> None:
    tree = plain_tree(seed, most)
    codes = tree.rows(6, absent=0.3)
    wanted = list(range(0, len(tree.states), 2))
    ends = np.cumsum([0, *(tree.states[column] for column in wanted)])
    offset = np.full(len(tree.states), -1)
    offset[wanted] = ends[:-1]
    tables = tree.laid_out.tables(codes, offset, int(ends[-1]))
    for column, first in zip(wanted, ends, strict=False):
        for row, cells in zip(tables[:, first : first + tree.states[column]], codes.tolist(), strict=True):
            exact = mirror.shares(tree.nodes, tree.states, cells, column)
            largest = max(exact, key=abs)
            if abs(largest) > 1e-6:
                k = exact.index(largest)
                assert row[k] * float(largest) > 0
                assert_allclose(row / row[k], [float(value / largest) for value in exact], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(16))
def test_missing_cells_are_drawn_one_after_the_other(seed: int) -> None:
    tree = plain_tree(seed)
    codes = tree.rows(7, absent=0.6)
    uniform = tree.random.random(codes.shape)
    drawn = codes.copy()
    tree.laid_out.draw(drawn, uniform)
    for r, row in enumerate(codes.tolist()):
        expected, sure = mirror.draw(tree.nodes, tree.states, row, uniform[r])
        if sure:
            assert drawn[r].tolist() == expected


def test_a_cell_without_a_positive_state_stays_missing() -> None:
    nodes = [NodeOperator.from_dense(np.array([[-1.0], [0.0]]), columns=(0,))]
    codes = np.array([[2], [2]], np.uint8)
    laid_out(nodes, [2]).draw(codes, np.full((2, 1), 0.5))
    assert codes.tolist() == [[2], [2]]


@pytest.mark.parametrize("table", [[0.2, 0.5, 0.3], [0.25, 0.25, 0.5], [0.0, 2.0, -1.0], [-1.0, 0.25, 0.25], [7.0]])
def test_states_are_picked_by_their_stretch(table: list[float]) -> None:
    positive = [max(share, 0.0) for share in table]
    ends = np.cumsum(positive) / sum(positive)
    uniform = np.array([*np.linspace(0, 0.999, 30), 0.25, 0.5, 0.75])[:, None]
    codes = np.full(uniform.shape, len(table), np.uint8)
    laid_out([NodeOperator.from_dense(np.array(table)[:, None], columns=(0,))], [len(table)]).draw(codes, uniform)
    assert_array_equal(codes, np.searchsorted(ends, uniform, side="right"))


def test_the_last_state_serves_where_rounding_leaves_something() -> None:
    codes = np.full((1, 1), 10, np.uint8)
    tree = laid_out([NodeOperator.from_dense(np.full((10, 1), 0.1), columns=(0,))], [10])
    tree.draw(codes, np.full((1, 1), np.nextafter(1.0, 0.0)))
    assert codes.tolist() == [[9]]


# ------------------------------------------------------------------------- beyond the range of doubles


def torn_tree(high: int, low: int) -> tuple[list[NodeOperator], list[int]]:
    """Two sides with two leaves each, each evidence (2^high, 2^low) or the reverse for the state of the root."""
    leaf = np.exp2([[high, low], [low, high]])
    same = np.zeros((2, 2, 2))
    same[0, 0, 0] = same[1, 1, 1] = 1.0
    nodes = [NodeOperator.from_dense(np.diag([0.5, 0.5])[:, :, None], children=(1, 4))]
    for side in (0, 1):
        first = 3 * side + 1
        nodes.append(NodeOperator.from_dense(same, children=(first + 1, first + 2)))
        nodes += [NodeOperator.from_dense(leaf, columns=(2 * side + k,)) for k in (0, 1)]
    return nodes, [2] * 4


@pytest.mark.parametrize(("high", "low"), [(0, -600), (100, -450), (-100, -650)])
def test_sides_that_contradict_each_other_are_computed_again_in_extended_range(high: int, low: int) -> None:
    nodes, states = torn_tree(high, low)
    codes = np.array(list(product(range(2), repeat=4)), np.uint8)
    found, sign = laid_out(nodes, states).log_prob(codes)
    # So many of the four leaves are evidence for the first state.
    first = (codes == 0).sum(axis=1)
    of_each = np.log(2) * np.array([first * high + (4 - first) * low, (4 - first) * high + first * low])
    assert_allclose(found, np.logaddexp(*of_each) + np.log(0.5), rtol=1e-12)
    assert (sign == 1).all()


def test_predictions_and_samples_from_sides_that_contradict_each_other() -> None:
    nodes, states = torn_tree(0, -600)
    flat = laid_out(nodes, states)
    # Without its last cell, a torn row leans to its first side by 2^600 to 1.
    codes = np.array([[0, 0, 1, 2], [1, 1, 0, 2], [2, 2, 2, 2], [0, 0, 1, 1], [1, 1, 0, 0]], np.uint8)
    tables = flat.tables(codes, np.array([-1, -1, -1, 0]), 2)
    expected = [[1, 0], [0, 1], [0.5, 0.5], [1, 0], [0, 1]]
    assert_allclose(tables / tables.sum(axis=1, keepdims=True), expected, atol=1e-150)
    # The three other cells lean to the state that two of them have.
    tables = flat.tables(np.array([[0, 0, 1, 1]], np.uint8), np.array([0, 2, 4, 6]), 8).reshape(4, 2)
    assert_allclose(tables / tables.sum(axis=1, keepdims=True), [[0, 1]] * 2 + [[1, 0]] * 2, atol=1e-150)
    flat.draw(codes, np.full((5, 4), 0.75))
    assert codes.tolist() == [[0, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0]]


def test_a_missing_cell_of_a_torn_row_is_drawn_in_extended_range() -> None:
    """A third column below the root, which follows its state; both states have the same probability."""
    leaf = np.exp2([[0.0, -600.0], [-600.0, 0.0]])
    same = np.zeros((2, 2, 2))
    same[0, 0, 0] = same[1, 1, 1] = 1.0
    root = np.zeros((2, 2, 2, 1))
    root[0, 0, 0], root[1, 1, 1] = 0.25, 0.75
    nodes = [NodeOperator.from_dense(root, children=(1, 4, 7))]
    for first in (1, 4):
        nodes.append(NodeOperator.from_dense(same, children=(first + 1, first + 2)))
        nodes += [NodeOperator.from_dense(leaf, columns=(2 * (first // 3) + k,)) for k in (0, 1)]
    nodes.append(NodeOperator.from_dense(np.eye(2), columns=(4,)))
    flat = laid_out(nodes, [2] * 5)
    codes = np.array([[0, 0, 1, 1, 2]] * 2, np.uint8)
    shares = flat.tables(codes, np.array([-1, -1, -1, -1, 0]), 2)
    assert_allclose(shares / shares.sum(axis=1, keepdims=True), [[0.25, 0.75]] * 2, rtol=1e-12)
    uniform = np.full((2, 5), 0.5)
    uniform[1] = 0.2
    flat.draw(codes, uniform)
    assert codes[:, 4].tolist() == [1, 0]


def test_a_state_may_be_as_good_as_impossible_beside_another() -> None:
    nodes = [
        NodeOperator.from_dense(np.array([[1.0], [2.0**-1000]]), children=(1,)),
        NodeOperator.from_dense(np.diag([1.0, 2.0**-1000]), columns=(0,)),
    ]
    table = laid_out(nodes, [2]).tables(np.array([[2]], np.uint8), np.array([0]), 2)
    assert table[0, 0] > 0
    assert table[0, 1] == 0


def test_large_messages_are_scaled_as_small_ones_are() -> None:
    """A chain whose probabilities reach from 2^650 to 2^-3350; its last state is impossible."""
    leaf = np.array([[2.0**200], [2.0**-200], [0.0]])
    nodes = []
    for column in range(9):
        # In preorder, an inner node is followed by its leaf and by the rest of the chain.
        inner = 2 * column
        nodes.append(NodeOperator.from_dense(np.full((1, 1, 1), 2.0**-150), children=(inner + 1, inner + 2)))
        nodes.append(NodeOperator.from_dense(leaf, columns=(column,)))
    nodes.append(NodeOperator.from_dense(leaf, columns=(9,)))
    flat = laid_out(nodes, [3] * 10)
    codes = np.array([[0] * 10, [1] * 10, [0, 1] * 5, [0] * 9 + [2]], np.uint8)
    found, sign = flat.log_prob(codes)
    assert_allclose(found, np.array([650, -3350, -1350, -np.inf]) * np.log(2), rtol=1e-12)
    assert sign.tolist() == [1, 1, 1, 0]
    tables = flat.tables(codes, np.array([*[-1] * 9, 0]), 3)
    assert_allclose(tables / tables.sum(axis=1, keepdims=True), np.tile([1, 0, 0], (4, 1)), atol=1e-100)


# ---------------------------------------------------------------------------------------- the boundary


def test_trees_are_pickled_and_copied() -> None:
    tree = plain_tree(8)
    flat, codes = tree.laid_out, tree.rows(20, absent=0.3)
    for again in (pickle.loads(pickle.dumps(flat)), copy.deepcopy(flat)):
        assert_array_equal(again.log_prob(codes)[0], flat.log_prob(codes)[0])


STATES, NODES, CHILDREN, COLUMNS, INDEX, VALUES = range(6)


@pytest.mark.parametrize(
    ("part", "at", "value", "message"),
    [
        (STATES, 0, 0, "at least one state"),
        (STATES, 0, 2**62, "at least one state"),
        (STATES, 0, 2**30, "too many values"),
        (NODES, (0, 0), 2, "bond of the root"),
        (NODES, (1, 0), 0, "at least one index"),
        (NODES, (1, 0), 2**40, "at least one index"),
        (NODES, (0, 1), 4, "at most three"),
        (NODES, (0, 1), -1, "at most three"),
        (NODES, (0, 1), 3, "too few children"),
        (NODES, (0, 1), 1, "no parent"),
        (NODES, (1, 2), 2**62, "too few columns"),
        (NODES, (2, 2), 0, "more columns"),
        (NODES, (2, 3), 2**62, "at least one entry"),
        (NODES, (2, 3), 0, "at least one entry"),
        (NODES, (2, 3), 5, "too few entries"),
        (NODES, (2, 3), 1, "more entries"),
        (CHILDREN, 0, 0, "after their one parent"),
        (CHILDREN, 0, 3, "after their one parent"),
        (CHILDREN, 0, 2, "after their one parent"),
        (COLUMNS, 0, 2, "column that there is not"),
        (COLUMNS, 0, -1, "column that there is not"),
        (INDEX, (0, 0), 2, "outside a bond"),
        (INDEX, (0, 0), -1, "outside a bond"),
        (INDEX, (2, 3), 2**32, "outside a bond"),
    ],
)
def test_trees_that_lead_outside_their_arrays_are_refused(
    part: int, at: int | tuple[int, int], value: int, message: str
) -> None:
    leaf = np.array([[0.9, 0.2], [0.1, 0.8]])
    nodes = [
        NodeOperator.from_dense(np.diag([0.5, 0.5])[:, :, None], children=(1, 2)),
        NodeOperator.from_dense(leaf, columns=(0,)),
        NodeOperator.from_dense(leaf, columns=(1,)),
    ]
    _, arrays = laid_out(nodes, [2, 2]).__reduce__()
    given = [np.array(array) for array in arrays]
    _native.OperatorTree(*given)
    given[part][at] = value
    with pytest.raises(ValueError, match=message):
        _native.OperatorTree(*given)


def test_arrays_that_do_not_fit_are_refused() -> None:
    tree = plain_tree(8)
    given = parts(tree)
    for part, message in ((VALUES, "values"), (INDEX, "entries"), (CHILDREN, "children"), (COLUMNS, "columns")):
        for array in (given[part][:-1], np.concatenate([given[part], given[part][-1:]])):
            with pytest.raises(ValueError, match=message):
                _native.OperatorTree(*given[:part], np.ascontiguousarray(array), *given[part + 1 :])
    native = _native.OperatorTree(*given)
    codes = np.ascontiguousarray(tree.rows(5, 0.2).T)
    log_size, sign = np.empty(5), np.empty(5, np.int8)
    with pytest.raises(ValueError, match="one probability per row"):
        _native.tree_log_prob(native, codes, log_size[:4], sign)
    with pytest.raises(ValueError, match="a line for each column"):
        _native.tree_log_prob(native, codes[:-1], log_size, sign)
    wrong = codes.copy()
    wrong[1, 3] = tree.states[1] + 1
    with pytest.raises(ValueError, match=f"column 1 has the code {tree.states[1] + 1}"):
        _native.tree_log_prob(native, wrong, log_size, sign)
    offset = np.zeros(len(tree.states), np.int64)
    with pytest.raises(ValueError, match="outside of the tables"):
        _native.tree_tables(native, codes, offset, np.empty((5, max(tree.states) - 1)))
    with pytest.raises(ValueError, match="outside of the tables"):
        _native.tree_tables(native, codes, offset + 2**62, np.empty((5, 9)))
    with pytest.raises(ValueError, match="one uniform number per cell"):
        _native.tree_draw(native, codes, np.empty((5, 1)))
    memory = np.zeros((len(tree.states), 5), np.uint8)
    with pytest.raises(ValueError, match="share memory"):
        _native.tree_log_prob(native, memory, log_size, memory[0].view(np.int8))


def test_no_rows_pass() -> None:
    tree = plain_tree(8)
    codes = np.empty((0, len(tree.states)), np.uint8)
    found, sign = tree.laid_out.log_prob(codes)
    assert found.shape == sign.shape == (0,)
    assert tree.laid_out.tables(codes, np.full(len(tree.states), -1), 3).shape == (0, 3)
    tree.laid_out.draw(codes, np.empty(codes.shape))
