"""Messages in trees of operators, and decoding, against exact fractions.

All of it also runs with NUMBA_DISABLE_JIT=1, where the branches of the kernels can be seen.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.core.trees.extended_range import WideWorkspace, wide_downward, wide_draw, wide_upward
from eigentree.core.trees.flat_tree import FlatTree, Workspace
from eigentree.core.trees.message_passing import careful_upward, downward, draw, upward
from eigentree.core.trees.narrow_messages import narrow_upward
from eigentree.inference.operators.operator_layout import Narrow, NodeOperator, all_kept, flat_tree, round_tour
from eigentree.inference.operators.tree_operators import upward_pass


class Tree:
    """Operators with random values, and what they say as exact fractions."""

    def __init__(self, seed: int, nodes: int, smallest: int = 0, signed: bool = True, most: int = 3) -> None:
        """Values are random times a power of two from 0 down to `smallest`; bonds have at most so many states."""
        random = np.random.default_rng(seed)
        children: list[list[int]] = [[] for _ in range(nodes)]
        # In preorder: every new node hangs from the last one or from one of its ancestors.
        path = [0]
        for node in range(1, nodes):
            free = [k for k, above in enumerate(path) if len(children[above]) < 3]
            path = path[: random.choice(free) + 1]
            children[path[-1]].append(node)
            path.append(node)
        bonds = [1, *random.integers(1, most + 1, nodes - 1).tolist()]
        self.states: list[int] = []
        self.nodes = []
        for node in range(nodes):
            held = int(random.integers(0, 3)) if children[node] else 1
            columns = range(len(self.states), len(self.states) + held)
            self.states += random.integers(1, 4, held).tolist()
            shape = [self.states[column] for column in columns] + [bonds[child] for child in children[node]]
            array = random.random((*shape, bonds[node])) + 0.1
            array *= 2.0 ** random.integers(smallest, 1, array.shape)
            if signed:
                array *= random.choice([1, 1, -1], array.shape)
            array *= random.random(array.shape) < 0.8
            self.nodes.append(NodeOperator.from_dense(array, columns, children[node]))
        self.flat = flat_tree(self.nodes, self.states)
        self.random = random

    def rows(self, count: int, absent: float) -> np.ndarray:
        """Random codes, shape (columns, rows)."""
        codes = np.array([self.random.integers(0, size, count) for size in self.states], np.uint8)
        return np.where(self.random.random(codes.shape) < absent, np.array(self.states)[:, None], codes).astype(
            np.uint8
        )

    def probability(self, row: list[int]) -> Fraction:
        """The sum over all entries of all nodes, without a rounding."""
        return self._message(0, tuple(row))[0]

    def shares(self, row: list[int], column: int) -> list[Fraction]:
        """P(column = v, the other cells of the row) for each v."""
        return [self.probability([*row[:column], v, *row[column + 1 :]]) for v in range(self.states[column])]

    def _message(self, i: int, row: tuple[int, ...]) -> list[Fraction]:
        node = self.nodes[i]
        below = [self._message(child, row) for child in node.children]
        joint = 0
        for column in node.columns:
            joint = joint * (self.states[column] + 1) + row[column]
        sent = [Fraction(0)] * node.bond
        for index, values in zip(node.index.tolist(), node.values, strict=True):
            term = Fraction(float(values[joint]))
            for k, message in enumerate(below):
                term *= message[index[k]]
            sent[index[-1]] += term
        return sent


def log_size(exact: Fraction) -> float:
    """The log of a fraction of any size."""
    return math.log(abs(exact).numerator) - math.log(exact.denominator) if exact else -math.inf


def workspace(flat: FlatTree, block: int, down: bool = False) -> Workspace:
    depth = int((flat.nodes.line + flat.nodes.bond).max())
    lines = 2 * depth if down else depth
    # Numbers that would show if anything read them before it writes.
    return Workspace(
        np.full((lines + 1, block), np.nan),
        depth,
        lines,
        np.full(block, 10**9),
        np.full(block, 10**9),
        np.full(len(flat.nodes), np.nan),
    )


def wide_workspace(flat: FlatTree) -> WideWorkspace:
    depth, most = int((flat.nodes.line + flat.nodes.bond).max()), int(flat.columns.states.max())
    size, power = np.full(2 * depth + most, np.nan), np.zeros(2 * depth + most, np.int64)
    return WideWorkspace(size, power, depth, 2 * depth, np.full((most, 1), np.nan))


@cache
def plain_tree(seed: int) -> Tree:
    """A tree whose messages stay far from where doubles end."""
    return Tree(seed, nodes=1 + seed % 9)


def assert_sizes(found: np.ndarray, sign: np.ndarray, exact: list[Fraction], rtol: float) -> None:
    assert_array_equal(sign, [(value > 0) - (value < 0) for value in exact])
    assert_allclose(found, [log_size(value) for value in exact], rtol=rtol, atol=rtol)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("block", [1, 4, 16])
def test_probabilities_pass_up(seed: int, block: int) -> None:
    tree = plain_tree(seed)
    codes = tree.rows(11, absent=0.3)
    exact = [tree.probability(row) for row in codes.T.tolist()]
    for flat in (tree.flat, all_kept(tree.flat)):
        found, sign = np.full(11, np.nan), np.full(11, 7, np.int8)
        # A zero has no logarithm, as it should.
        with np.errstate(divide="ignore"):
            assert upward(flat, codes, 3, 11, workspace(flat, block), found, sign) == (11, -1)
        assert np.isnan(found[:3]).all()
        # Terms of both signs cancel; none of them is larger than one.
        certain = np.array([abs(value) > 1e-6 or value == 0 for value in exact])[3:]
        assert certain.sum() > 2
        kept = [value for value, sure in zip(exact[3:], certain, strict=True) if sure]
        assert_sizes(found[3:][certain], sign[3:][certain], kept, rtol=1e-8)
        again, sign_again = np.empty(11), np.empty(11, np.int8)
        with np.errstate(divide="ignore"):
            wide_upward(flat, codes, wide_workspace(flat), again, sign_again)
        assert_sizes(again[3:][certain], sign_again[3:][certain], kept, rtol=1e-8)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("most", [3, 4, 8])
@pytest.mark.parametrize("smallest", [0, -30, -400])
@pytest.mark.parametrize("signed", [False, True])
def test_rows_pass_narrowly_to_the_same_bits(seed: int, most: int, smallest: int, signed: bool) -> None:
    tree = Tree(seed, nodes=1 + seed % 9, smallest=smallest, signed=signed, most=most)
    codes = tree.rows(70, absent=0.2).T
    narrow = Narrow.of(tree.nodes, tree.flat, most_padding=math.inf, block=1 + seed)
    assert narrow is not None
    with np.errstate(divide="ignore"):
        expected, expected_sign = upward_pass(tree.flat, codes)
        found, sign = upward_pass(tree.flat, codes, narrow)
    assert_array_equal(found, expected)
    assert_array_equal(sign, expected_sign)


@pytest.mark.parametrize("large", [slice(0, 4), slice(4, 8), slice(7, 8)])
def test_any_part_of_a_narrow_message_may_become_large(large: slice) -> None:
    """A chain of 25 nodes that each multiply some of eight numbers by 2^50."""
    factors = np.ones(8)
    factors[large] = 2.0**50
    nodes = [NodeOperator.from_dense(np.ones((8, 1)), children=(1,))]
    nodes += [NodeOperator.from_dense(np.diag(factors), children=(place + 2,)) for place in range(25)]
    nodes.append(NodeOperator.from_dense(np.ones((2, 8)), columns=(0,)))
    flat = flat_tree(nodes, [2])
    narrow = Narrow.of(nodes, flat, most_padding=math.inf)
    assert narrow is not None
    found, sign = upward_pass(flat, np.array([[0], [1]], np.uint8), narrow)
    assert_allclose(found, math.log(len(range(8)[large])) + 1_250 * math.log(2.0), rtol=1e-12)
    assert sign.tolist() == [1, 1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [4, 8])
def test_a_narrow_pass_stops_where_underflow_could_matter(seed: int, most: int) -> None:
    """Only there: its first rows are done, and all rows of a tree without tiny numbers."""
    tree = Tree(seed, nodes=9, smallest=-500 if seed % 2 else 0, most=most)
    codes = tree.rows(40, absent=0.0)
    narrow = Narrow.of(tree.nodes, tree.flat, most_padding=math.inf)
    assert narrow is not None
    space = narrow.space(8)
    for array in space:
        array[:] = 10**9 if array.dtype.kind == "i" else np.nan
    found, sign = np.full(40, np.nan), np.full(40, 7, np.int8)
    with np.errstate(divide="ignore"):
        done = narrow_upward(narrow.tree, narrow.width, codes, 16, 40, space, found, sign)
        expected = np.empty(40), np.empty(40, np.int8)
        stopped, _ = upward(tree.flat, codes, 16, 40, workspace(tree.flat, 8), *expected)
    assert done == stopped
    assert (done == 40) or seed % 2
    assert np.isnan(found[:16]).all()
    assert np.isnan(found[done:]).all()
    assert_array_equal(found[16:done], expected[0][16:done])


def test_wide_bonds_and_sparse_operators_are_not_narrow() -> None:
    for bond in (8, 9):
        nodes = [
            NodeOperator.from_dense(np.ones((bond, 1)), children=(1,)),
            NodeOperator.from_dense(np.ones((9, bond, bond)), columns=(0,), children=(2,)),
            NodeOperator.from_dense(np.ones((9, bond)), columns=(1,)),
        ]
        found = Narrow.of(nodes, flat_tree(nodes, [9, 9]))
        assert (found is None) == (bond > 8)
    diagonal = np.zeros((30, 8, 8, 8))
    diagonal[:, range(8), range(8), range(8)] = 1.0
    nodes = [
        NodeOperator.from_dense(np.ones((8, 1)), children=(1,)),
        NodeOperator.from_dense(diagonal, columns=(0,), children=(2, 3)),
        *(NodeOperator.from_dense(np.ones((2, 8)), columns=(column,)) for column in (1, 2)),
    ]
    assert Narrow.of(nodes, flat_tree(nodes, [30, 2, 2])) is None
    nodes[1] = NodeOperator.from_dense(np.ones((30, 8, 8, 8)), columns=(0,), children=(2, 3))
    assert Narrow.of(nodes, flat_tree(nodes, [30, 2, 2])) is not None


def test_a_leaf_may_hold_no_column() -> None:
    nodes = [
        NodeOperator.from_dense(np.array([[[2.0], [3.0]], [[5.0], [7.0]]]), columns=(0,), children=(1,)),
        NodeOperator.from_dense(np.array([0.25, 0.5])),
    ]
    flat = flat_tree(nodes, [2])
    found, sign = np.empty(3), np.empty(3, np.int8)
    assert upward(flat, np.array([[0, 1, 2]], np.uint8), 0, 3, workspace(flat, 3), found, sign) == (3, -1)
    assert_allclose(np.exp(found), [2.0, 4.75, 6.75])


@pytest.mark.parametrize("seed", range(24))
def test_tables_of_columns_are_right_up_to_a_factor(seed: int) -> None:
    tree = plain_tree(seed)
    flat = all_kept(tree.flat)
    codes = tree.rows(6, absent=0.3)
    wanted = list(range(0, len(tree.states), 2))
    ends = np.cumsum([0, *(tree.states[column] for column in wanted)])
    offset = np.full(len(tree.states), -1)
    offset[wanted] = ends[:-1]
    tables, again = np.zeros((6, ends[-1])), np.zeros((6, ends[-1]))
    space = workspace(flat, 4, down=True)
    with np.errstate(divide="ignore"):
        for start, stop in ((0, 4), (4, 6)):
            assert upward(flat, codes, start, stop, space, np.empty(6), np.empty(6, np.int8)) == (stop, -1)
            downward(flat, codes, start, stop, space, offset, tables)
    wide_downward(flat, codes, wide_workspace(flat), offset, again)
    for column, first in zip(wanted, ends, strict=False):
        part = slice(first, first + tree.states[column])
        for found in (tables[:, part], again[:, part]):
            for row, cells in zip(found, codes.T.tolist(), strict=True):
                exact = tree.shares(cells, column)
                largest = max(exact, key=abs)
                if abs(largest) > 1e-6:
                    k = exact.index(largest)
                    assert row[k] * float(largest) > 0
                    assert_allclose(row / row[k], [float(value / largest) for value in exact], rtol=1e-6, atol=1e-8)


def reference_draw(tree: Tree, row: list[int], uniform: np.ndarray) -> tuple[list[int], bool]:
    """A row sampled cell by cell in the order of the nodes, and whether rounding could have changed it."""
    row, sure = list(row), True
    for node in tree.nodes:
        for column in node.columns:
            states = tree.states[column]
            if row[column] < states:
                continue
            shares = [
                max(tree.probability([*row[:column], v, *row[column + 1 :]]), Fraction(0)) for v in range(states)
            ]
            if sum(shares) < Fraction(1, 10**6):
                return row, False
            ends = np.cumsum([float(share / sum(shares)) for share in shares])
            sure &= bool(np.abs(ends[:-1] - uniform[column]).min(initial=1.0) > 1e-6)
            row[column] = int(np.searchsorted(ends[:-1], uniform[column], side="right"))
    return row, sure


@pytest.mark.parametrize("seed", range(24))
def test_missing_cells_are_drawn_one_after_the_other(seed: int) -> None:
    tree = plain_tree(seed)
    flat, tour = all_kept(tree.flat), round_tour(tree.nodes)
    codes = tree.rows(7, absent=0.6)
    uniform = tree.random.random((7, len(tree.states)))
    unsure = np.zeros(7, np.bool_)
    unsure[2] = True
    drawn, again = codes.copy(), codes.copy()
    space = workspace(flat, 5, down=True)
    with np.errstate(divide="ignore"):
        for start, stop in ((0, 5), (5, 7)):
            assert upward(flat, codes, start, stop, space, np.empty(7), np.empty(7, np.int8)) == (stop, -1)
            draw(flat, tour, drawn, start, stop, uniform, space, np.empty((max(tree.states), 5)), unsure)
    wide_draw(flat, tour, again, uniform, wide_workspace(flat))
    assert_array_equal(drawn[:, 2], codes[:, 2])
    for r, row in enumerate(codes.T.tolist()):
        expected, sure = reference_draw(tree, row, uniform[r])
        if sure:
            assert again[:, r].tolist() == expected
            if r != 2:
                assert drawn[:, r].tolist() == expected


def test_a_cell_without_a_positive_state_stays_missing() -> None:
    nodes = [NodeOperator.from_dense(np.array([[-1.0], [0.0]]), columns=(0,))]
    flat = all_kept(flat_tree(nodes, [2]))
    codes = np.array([[2, 2]], np.uint8)
    space = workspace(flat, 2, down=True)
    upward(flat, codes, 0, 2, space, np.empty(2), np.empty(2, np.int8))
    uniform = np.full((2, 1), 0.5)
    draw(flat, round_tour(nodes), codes, 0, 2, uniform, space, np.empty((2, 2)), np.zeros(2, np.bool_))
    assert codes.tolist() == [[2, 2]]
    wide_draw(flat, round_tour(nodes), codes, uniform, wide_workspace(flat))
    assert codes.tolist() == [[2, 2]]


# ------------------------------------------------------------------------- beyond the range of doubles


def passed_up(flat: FlatTree, codes: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Logs, signs and unsure rows, the careful pass taking over where it has to; and how often it had."""
    rows = codes.shape[1]
    found, sign, unsure = np.full(rows, np.nan), np.zeros(rows, np.int8), np.zeros(rows, np.bool_)
    space = workspace(flat, block)
    start = careful = 0
    with np.errstate(divide="ignore"):
        while start < rows:
            start, node = upward(flat, codes, start, rows, space, found, sign)
            if node >= 0:
                stop = min(start + block, rows)
                careful_upward(flat, codes, start, stop, node, space, found, sign, unsure)
                start, careful = stop, careful + 1
    return found, sign, unsure, careful


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_a_row_is_right_or_marked_as_unsure(seed: int, signed: bool) -> None:
    tree = Tree(seed, nodes=8, smallest=-400, signed=signed)
    codes = tree.rows(30, absent=0.1)
    exact = [tree.probability(row) for row in codes.T.tolist()]
    found, sign, unsure, _ = passed_up(tree.flat, codes, block=8)
    # Terms of both signs may cancel, which no exponent helps against: there the bits of the largest term decide.
    rtol = 1e-9
    for r, value in enumerate(exact):
        if not unsure[r] and not signed:
            assert sign[r] == (value > 0)
            assert_allclose(found[r], log_size(value), rtol=rtol)
    again, sign_again = np.empty(30), np.empty(30, np.int8)
    with np.errstate(divide="ignore"):
        wide_upward(tree.flat, codes, wide_workspace(tree.flat), again, sign_again)
    if not signed:
        assert_sizes(again, sign_again, exact, rtol=1e-12)
    sure = ~unsure
    assert_array_equal(sign[sure], sign_again[sure])
    assert_allclose(found[sure], again[sure], rtol=1e-9)


def torn_tree(high: int, low: int) -> tuple[list[NodeOperator], list[int]]:
    """Two sides with two leaves each, which all say (2^high, 2^low) or the reverse of the state of the root."""
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
@pytest.mark.parametrize("block", [16, 3])
def test_sides_that_contradict_each_other_are_computed_again_in_wide_numbers(
    high: int, low: int, block: int
) -> None:
    nodes, states = torn_tree(high, low)
    flat = flat_tree(nodes, states)
    codes = np.array(list(product(range(2), repeat=4)), np.uint8).T.copy()
    found, sign, unsure, careful = passed_up(flat, codes, block)
    assert careful >= 1
    torn = (codes[0] == codes[1]) & (codes[2] == codes[3]) & (codes[0] != codes[2])
    assert_array_equal(unsure, torn)
    # So many of the four leaves are evidence for the first state.
    first = (codes == 0).sum(axis=0)
    of_each = np.log(2) * np.array([first * high + (4 - first) * low, (4 - first) * high + first * low])
    expected = np.logaddexp(*of_each) + np.log(0.5)
    assert_allclose(found[~torn], expected[~torn], rtol=1e-12)
    assert (sign[~torn] == 1).all()
    again, sign_again = np.empty(16), np.empty(16, np.int8)
    wide_upward(flat, codes, wide_workspace(flat), again, sign_again)
    assert_allclose(again, expected, rtol=1e-12)
    assert (sign_again == 1).all()


def test_predictions_and_draws_from_sides_that_contradict_each_other() -> None:
    nodes, states = torn_tree(0, -600)
    flat, tour = all_kept(flat_tree(nodes, states)), round_tour(nodes)
    # Without its last cell, a torn row leans to its first side by 2^600 to 1.
    codes = np.array([[0, 0, 1, 2], [1, 1, 0, 2], [2, 2, 2, 2]], np.uint8).T.copy()
    tables = np.zeros((3, 2))
    wide_downward(flat, codes, wide_workspace(flat), np.array([-1, -1, -1, 0]), tables)
    assert_allclose(tables / tables.sum(axis=1, keepdims=True), [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-150)
    wide_draw(flat, tour, codes, np.full((3, 4), 0.75), wide_workspace(flat))
    assert codes.T.tolist() == [[0, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]]


def test_a_state_may_be_as_good_as_impossible_beside_another() -> None:
    nodes = [
        NodeOperator.from_dense(np.array([[1.0], [2.0**-1000]]), children=(1,)),
        NodeOperator.from_dense(np.diag([1.0, 2.0**-1000]), columns=(0,)),
    ]
    flat = all_kept(flat_tree(nodes, [2]))
    table = np.zeros((1, 2))
    wide_downward(flat, np.array([[2]], np.uint8), wide_workspace(flat), np.array([0]), table)
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
    states = [3] * 10
    codes = np.array([[0] * 10, [1] * 10, [0, 1] * 5, [0] * 9 + [2]], np.uint8).T.copy()
    found, sign, unsure, _ = passed_up(flat_tree(nodes, states), codes, block=4)
    assert not unsure.any()
    assert_allclose(found, np.array([650, -3350, -1350, -np.inf]) * np.log(2), rtol=1e-12)
    assert sign.tolist() == [1, 1, 1, 0]
    flat = all_kept(flat_tree(nodes, states))
    space, tables = workspace(flat, 4, down=True), np.zeros((4, 3))
    with np.errstate(divide="ignore"):
        upward(flat, codes, 0, 4, space, np.empty(4), np.empty(4, np.int8))
    downward(flat, codes, 0, 4, space, np.array([*[-1] * 9, 0]), tables)
    assert_allclose(tables / tables.sum(axis=1, keepdims=True), np.tile([1, 0, 0], (4, 1)), atol=1e-100)


# Decoding


@pytest.mark.parametrize("seed", range(3))
def test_decoding_finds_the_largest_product(seed: int) -> None:
    """Through the kernel's only caller: chains with a hidden leaf below, missing cells, and an impossible row."""
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
