"""The chain rule over trees of arbitrary signed numbers, against the formula written out in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from core.mirrors import chain_rule as mirror
from core.random_operators import TreeProblem, tree_problem
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core import _native
from eigentree.core.trees.chain_rule import CLIPPED, score_rows
from eigentree.inference.operators.normalised_scoring import ChainRule, ChainRuleNode, floor_of

STATES = (2, 3, 2, 4, 3)

CHAIN = [
    ChainRuleNode(-1, (1, 2, 3), 1, -1),
    ChainRuleNode(0, (), 2, 0),
    ChainRuleNode(0, (), 3, 1),
    ChainRuleNode(0, (4, 5), 4, -1),
    ChainRuleNode(3, (), 2, 2),
    ChainRuleNode(3, (6, 7), 5, -1),
    ChainRuleNode(5, (), 1, 3),
    ChainRuleNode(5, (), 3, 4),
]
BUSHY = [
    ChainRuleNode(-1, (1, 4), 1, -1),
    ChainRuleNode(0, (2, 3), 3, -1),
    ChainRuleNode(1, (), 2, 3),
    ChainRuleNode(1, (), 2, 0),
    ChainRuleNode(0, (5, 6), 2, -1),
    ChainRuleNode(4, (), 2, 1),
    ChainRuleNode(4, (7, 8), 6, -1),
    ChainRuleNode(6, (), 4, 4),
    ChainRuleNode(6, (), 2, 2),
]
TREES = {"chain": CHAIN, "bushy": BUSHY, "leaf": [ChainRuleNode(-1, (), 1, 1)]}


def problem(name: str, seed: int) -> TreeProblem:
    return tree_problem(np.random.default_rng(seed), TREES[name], states=STATES)


def check_rows(tree: TreeProblem, rows: np.ndarray, share: float) -> np.ndarray:
    """Compare scores with the mirror's; return them."""
    found = np.array(tree.rule.log_prob(tree.values, tree.floor(share), rows)[:3])
    for row, own in zip(rows, found.T, strict=True):
        expected = mirror.score(tree.tables, tree.nodes, tree.rule.order, row, share, tree.marginals)
        assert_allclose(own, expected[:3], rtol=1e-8, atol=1e-9)
    return found


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_have_the_product_of_their_cells(name: str, seed: int, share: float, instructions: str) -> None:
    tree = problem(name, seed)
    found = check_rows(tree, tree.rows(40, np.random.default_rng(seed)), share)
    if name != "leaf" and not share:
        assert found[1].max() > 0
    assert_allclose(tree.rule.total(tree.values), 1.0)
    assert_allclose(mirror.constants(tree.tables, tree.nodes), 1.0)
    assert sorted(tree.rule.order) == sorted(node.column for node in tree.nodes if node.column >= 0)


@pytest.mark.parametrize("seed", range(25))
def test_any_tree_is_scored_by_the_formula(seed: int, instructions: str) -> None:
    random = np.random.default_rng(seed)
    tree = tree_problem(random)
    tree.tables[0] *= 1.7 if seed % 2 else 1.0  # operators that are not normalised
    check_rows(tree, tree.rows(12, random, (np.uint8, np.uint16, np.uint32)[seed % 3]), random.choice([0.0, 0.1]))


@pytest.mark.parametrize("seed", range(4))
def test_no_row_depends_on_those_beside_it(seed: int, instructions: str) -> None:
    random = np.random.default_rng(seed)
    tree = tree_problem(random, CHAIN if seed < 2 else BUSHY, states=STATES)
    values, floor = tree.values, tree.floor(0.1)
    rows = np.ascontiguousarray(tree.rows(1_200, random).T)
    whole = score_rows(tree.rule.plan, values, floor, rows)
    for count in (*range(1, 71), 511, 512, 513):
        first = int(random.integers(0, rows.shape[1] - count))
        part = np.ascontiguousarray(rows[:, first : first + count])
        assert_array_equal(score_rows(tree.rule.plan, values, floor, part), whole[:, first : first + count])


def test_wide_bonds_are_no_exception(instructions: str) -> None:
    random = np.random.default_rng(0)
    nodes = [node._replace(bond=node.bond * 3) if node.parent >= 0 else node for node in BUSHY]
    tree = tree_problem(random, nodes, states=(2, 17, 2, 40, 3))
    check_rows(tree, tree.rows(10, random), 0.01)


def test_cells_are_refused_where_rows_are_tested() -> None:
    """Else the law above would not cover them."""
    refused = 0.0
    for name in ("chain", "bushy"):
        tree = problem(name, 1)
        rows = np.asfortranarray(np.random.default_rng(1).integers(0, STATES, (40, 5)).astype(np.uint8))
        refused += tree.rule.log_prob(tree.values, tree.floor(0.0), rows).refused.max()
    assert refused > 0


@pytest.mark.parametrize("name", ["chain", "leaf"])
def test_samples_are_where_the_uniform_number_falls(name: str, instructions: str) -> None:
    tree = problem(name, 3)
    floor = tree.floor(0.1)
    codes = np.asfortranarray(np.array([STATES] * 40, np.uint8))
    codes[3, 1] = 1
    given = codes.copy()
    found = tree.rule.log_prob(tree.values, floor, codes, np.random.default_rng(0))
    uniform = np.random.default_rng(0).random(codes.shape)
    order = list(tree.rule.order)
    assert (codes[:, order] < np.array(STATES)[order]).all()
    for before, row, own in zip(given, codes, uniform, strict=True):
        expected = mirror.score(tree.tables, tree.nodes, tree.rule.order, before, 0.1, tree.marginals, own)
        assert_array_equal(row, expected[3])
    again = tree.rule.log_prob(tree.values, floor, codes)
    assert_array_equal(found.log_prob, again.log_prob)


def test_a_sample_is_possible_whatever_rounding_leaves() -> None:
    nodes = [ChainRuleNode(-1, (1, 2), 1, -1), ChainRuleNode(0, (), 1, 0), ChainRuleNode(0, (), 1, 1)]
    rule = ChainRule.of(nodes, (3, 3))
    values = np.array([1.0, *[0.5, 0.5 - 1e-12, 0.0, 1.0] * 2])
    codes = np.full((1, 2), 3, np.uint8)
    plan, floor = rule.plan, floor_of(0.0, [np.array([0.5, 0.5, 0.0])] * 2)
    cells = np.ascontiguousarray(codes.T)
    _native.chain_rule_sample(*plan, values, *floor, cells, np.full((2, 1), 1.0), np.empty((3, 1)))
    assert cells.ravel().tolist() == [1, 1]


def test_rows_whose_probability_is_below_the_smallest_number_have_a_logarithm() -> None:
    own = [np.array([1e-150, 1.0])] * 5
    nodes = [ChainRuleNode(-1, (1, 2, 3), 1, -1), *(ChainRuleNode(0, (), 1, column) for column in range(3))]
    rule = ChainRule.of(nodes, (2,) * 5)
    values = np.concatenate([[1.0], *[[1e-150, 1.0, 1.0]] * 3])
    codes = np.asfortranarray(np.array([[0, 0, 0, 0, 0], [1, 0, 1, 0, 0]], np.uint8))
    found = rule.log_prob(values, floor_of(0.0, own), codes).log_prob
    assert_allclose(found, [3 * math.log(1e-150), math.log(1e-150)])


def test_a_table_that_is_no_number_leaves_the_marginal(instructions: str) -> None:
    """What operators that overflow leave is still a distribution."""
    nodes = [ChainRuleNode(-1, (1, 2), 1, -1), ChainRuleNode(0, (), 1, 0), ChainRuleNode(0, (), 1, 1)]
    rule = ChainRule.of(nodes, (2, 2))
    marginals = (np.array([0.3, 0.7]), np.array([0.9, 0.1]))
    for own in ([math.inf] * 3, [math.nan] * 3, [0.0] * 3, [-1.0] * 3, [5e-324] * 3, [1e308, -1e308, 0.0]):
        values = np.array([1.0, *own, 0.25, 0.75, 1.0])
        rows = np.indices((2, 2)).reshape(2, -1).T.astype(np.uint8)
        found = rule.log_prob(values, floor_of(0.0, marginals), np.asfortranarray(rows)).log_prob
        assert_allclose(np.exp(found).sum(), 1.0)
        assert_allclose(np.exp(found).reshape(2, 2).sum(axis=1), marginals[0])


def test_a_table_with_one_entry_that_is_no_number_leaves_the_marginal(instructions: str) -> None:
    nodes = [ChainRuleNode(-1, (), 1, 0)]
    rule = ChainRule.of(nodes, (3,))
    marginal = np.array([0.2, 0.3, 0.5])
    rows = np.asfortranarray(np.arange(3, dtype=np.uint8)[:, None])
    found = rule.log_prob(np.array([0.5, math.nan, 0.5, 1.0]), floor_of(0.0, [marginal]), rows).log_prob
    assert_allclose(np.exp(found), marginal)


def test_the_mirror_has_the_same_constant() -> None:
    assert CLIPPED == mirror.CLIPPED


def damaged(name: str, index: tuple[int, ...], value: int) -> tuple[object, ...]:
    """The arguments of a call with one number of the plan replaced."""
    tree = problem("bushy", 0)
    array = getattr(tree.rule.plan, name).copy()
    array[index] = value
    rows = np.ascontiguousarray(tree.rows(4, np.random.default_rng(0)).T)
    plan = tree.rule.plan._replace(**{name: array})
    return (*plan, tree.values, *tree.floor(0.1), rows, np.empty((3, 4)))


@pytest.mark.parametrize(
    ("name", "index", "value", "why"),
    [
        ("ports", (1, 0, 0), 0, "size of a port"),
        ("ports", (1, 0, 0), 2**62, "size of a port"),
        ("ports", (1, 0, 1), 0, "stride of a port"),
        ("ports", (1, 0, 1), 2**62, "stride of a port"),
        ("ports", (8, 0, 0), 9, "inside the array"),
        ("ports", (1, 0, 2), -1, "constants that come in"),
        ("ports", (1, 0, 2), 10_000, "constants that come in"),
        ("ports", (1, 0, 3), -1, "constants that go out"),
        ("ports", (1, 0, 3), 10_000, "constants that go out"),
        ("first_value", (0,), -1, "values of a node"),
        ("first_value", (8,), 140, "inside the array"),
        ("states", (2,), -1, "numbers of states"),
        ("states", (2,), 2**62, "numbers of states"),
        ("constants", (0, 0), 9, "node and port"),
        ("constants", (0, 1), 3, "node and port"),
        ("steps", (0, 0), -1, "node of a step"),
        ("steps", (0, 0), 9, "node of a step"),
        ("steps", (0, 1), 3, "ports of a step"),
        ("steps", (1, 2), -1, "ports of a step"),
        ("steps", (1, 3), 7, "ports of a step"),
        ("steps", (1, 4), 2**62, "lines of a message"),
        ("steps", (1, 4), -1, "lines of a message"),
        ("steps", (1, 6), 2**62, "lines of a message"),
        ("steps", (1, 6), -2, "lines of a message"),
        ("steps", (0, 7), 5, "the column of a step"),
    ],
)
def test_a_plan_that_leads_outside_its_arrays_is_refused(
    name: str, index: tuple[int, ...], value: int, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        _native.chain_rule_score(*damaged(name, index, value))


def test_codes_and_results_are_checked() -> None:
    tree = problem("chain", 0)
    rows = np.ascontiguousarray(tree.rows(4, np.random.default_rng(0)).T)
    plan, values, floor = tree.rule.plan, tree.values, tree.floor(0.1)
    wrong = rows.copy()
    wrong[2, 3] = STATES[2] + 1
    with pytest.raises(ValueError, match="a code is beyond those of its column"):
        _native.chain_rule_score(*plan, values, *floor, wrong, np.empty((3, 4)))
    with pytest.raises(ValueError, match="three numbers per row"):
        _native.chain_rule_score(*plan, values, *floor, rows, np.empty((3, 3)))
    with pytest.raises(ValueError, match="a random number per cell"):
        _native.chain_rule_sample(*plan, values, *floor, rows, np.empty((5, 3)), np.empty((3, 4)))
    with pytest.raises(ValueError, match="marginals of a column"):
        _native.chain_rule_score(
            *plan, values, *floor._replace(marginals=floor.marginals[:-1]), rows, np.empty((3, 4))
        )
    with pytest.raises(ValueError, match="values of a"):
        _native.chain_rule_score(*plan, values[:-1], *floor, rows, np.empty((3, 4)))
    with pytest.raises(TypeError):
        _native.chain_rule_score(*plan, values, *floor, rows.astype(np.int64), np.empty((3, 4)))


def test_a_message_is_not_written_over_one_that_is_read() -> None:
    tree = problem("bushy", 0)
    inner = np.flatnonzero(tree.rule.plan.steps[:, 7] < 0)[0]
    line = int(tree.rule.plan.steps[inner, 4])
    with pytest.raises(ValueError, match="written over one that is read"):
        _native.chain_rule_score(*damaged("steps", (int(inner), 6), line))


def test_no_rows_have_no_scores() -> None:
    tree = problem("chain", 0)
    assert tree.rule.log_prob(tree.values, tree.floor(0.0), tree.rows(0, np.random.default_rng(0)))[0].shape == (0,)
