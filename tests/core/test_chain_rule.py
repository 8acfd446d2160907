"""The chain rule over trees of arbitrary signed numbers, against the formula written out in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core.trees.chain_rule import CLIPPED
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


def tensors(nodes: list[ChainRuleNode], random: np.random.Generator) -> list[np.ndarray]:
    """A table per node, axes children…, parent; of a leaf, axes parent, states."""
    found = []
    for node in nodes:
        if node.column >= 0:
            found.append(random.normal(0.4, 0.5, (node.bond, STATES[node.column])))
        else:
            found.append(random.normal(0.4, 0.5, (*(nodes[child].bond for child in node.children), node.bond)))
    return found


def flat(tables: list[np.ndarray], nodes: list[ChainRuleNode]) -> np.ndarray:
    pairs = zip(tables, nodes, strict=True)
    return np.concatenate(
        [(np.c_[table, table.sum(axis=1)] if node.column >= 0 else table).ravel() for table, node in pairs]
    )


def contracted(tables: list[np.ndarray], nodes: list[ChainRuleNode], messages: dict[int, np.ndarray]) -> float:
    """The whole tree, with a message in place of each leaf."""

    def up(i: int) -> np.ndarray:
        if nodes[i].column >= 0:
            return messages[nodes[i].column]
        table = tables[i]
        for child in nodes[i].children:
            table = np.tensordot(up(child), table, (0, 0))
        return table

    return float(up(0)[0])


def by_formula(
    tables: list[np.ndarray],
    nodes: list[ChainRuleNode],
    order: tuple[int, ...],
    row: np.ndarray,
    share: float,
    own: list,
) -> list[np.ndarray]:
    """The distribution of each known cell given those before, by the formula."""
    leaves = {node.column: table for node, table in zip(nodes, tables, strict=True) if node.column >= 0}
    messages = {column: table.sum(axis=1) for column, table in leaves.items()}
    found = []
    for column in order:
        if row[column] == STATES[column]:
            continue
        cells = [contracted(tables, nodes, messages | {column: leaf}) for leaf in leaves[column].T]
        table, x = np.array(cells), row[column]
        positive, below = np.maximum(table, 0.0), CLIPPED * np.maximum(-table, 0.0).sum()
        trust = (1 - share) / (positive.sum() + below)
        q = trust * (positive + below * own[column]) + share * own[column]
        found.append(q)
        weight = trust * positive[x] / q[x]
        effect = leaves[column][:, x] * trust / q[x] if positive[x] > 0 else 0.0
        total = table.sum() if table.sum() > 0 else 1.0
        messages[column] = effect + (1 - weight) / total * messages[column]
    return found


def problem(name: str, seed: int) -> tuple[list[ChainRuleNode], list[np.ndarray], list[np.ndarray], ChainRule]:
    nodes = TREES[name]
    random = np.random.default_rng(seed)
    tables = tensors(nodes, random)
    own = [random.dirichlet(np.ones(states)) for states in STATES]
    total = contracted(tables, nodes, {n.column: t.sum(axis=1) for n, t in zip(nodes, tables, strict=True)})
    tables[0] = tables[0] / total
    return nodes, tables, own, ChainRule.of(nodes, STATES)


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_have_the_product_of_their_cells(name: str, seed: int, share: float) -> None:
    nodes, tables, own, walker = problem(name, seed)
    random = np.random.default_rng(seed)
    rows = np.asfortranarray(random.integers(0, np.array(STATES) + 1, (40, 5)).astype(np.uint8))
    found = walker.log_prob(flat(tables, nodes), floor_of(share, own), rows)
    for k, row in enumerate(rows):
        known = [column for column in walker.order if row[column] < STATES[column]]
        expected = by_formula(tables, nodes, walker.order, row, share, own)
        cells = [q[row[column]] for q, column in zip(expected, known, strict=True)]
        assert_allclose(np.exp(found.log_prob[k]), np.prod(cells), rtol=1e-9)
    if name != "leaf" and not share:
        assert found.clipped.max() > 0
    assert_allclose(walker.total(flat(tables, nodes)), 1.0)
    assert sorted(walker.order) == sorted(node.column for node in nodes if node.column >= 0)


def test_cells_are_refused_where_rows_are_tested() -> None:
    """Else the law above would not cover them."""
    refused = 0.0
    for name in ("chain", "bushy"):
        nodes, tables, own, walker = problem(name, 1)
        rows = np.asfortranarray(np.random.default_rng(1).integers(0, STATES, (40, 5)).astype(np.uint8))
        refused += walker.log_prob(flat(tables, nodes), floor_of(0.0, own), rows).refused.max()
    assert refused > 0


@pytest.mark.parametrize("name", ["chain", "leaf"])
def test_draws_are_where_the_uniform_number_falls(name: str) -> None:
    nodes, tables, own, walker = problem(name, 3)
    floor = floor_of(0.1, own)
    codes = np.asfortranarray(np.array([STATES] * 20, np.uint8))
    codes[3, 1] = 1
    first = codes[:, walker.order[0]].copy()
    found = walker.log_prob(flat(tables, nodes), floor, codes, np.random.default_rng(0))
    uniform = np.random.default_rng(0).random(codes.shape)
    assert (codes[:, list(walker.order)] < np.array(STATES)[list(walker.order)]).all()
    assert codes[3, 1] == 1
    assert (first[0], len(codes)) == (STATES[walker.order[0]], 20)
    for row, draws in zip(codes[:5], uniform[:5], strict=True):
        for q, column in zip(by_formula(tables, nodes, walker.order, row, 0.1, own), walker.order, strict=True):
            if column != 1:
                assert row[column] == np.searchsorted(np.cumsum(q), draws[column], side="right")
    again = walker.log_prob(flat(tables, nodes), floor, codes)
    assert_array_equal(found.log_prob, again.log_prob)


def test_rows_whose_probability_is_below_the_smallest_number_have_a_logarithm() -> None:
    own = [np.array([1e-150, 1.0])] * 5
    nodes = [ChainRuleNode(-1, (1, 2, 3), 1, -1), *(ChainRuleNode(0, (), 1, column) for column in range(3))]
    walker = ChainRule.of(nodes, (2,) * 5)
    values = np.concatenate([[1.0], *[[1e-150, 1.0, 1.0]] * 3])
    codes = np.asfortranarray(np.array([[0, 0, 0, 0, 0], [1, 0, 1, 0, 0]], np.uint8))
    found = walker.log_prob(values, floor_of(0.0, own), codes).log_prob
    assert_allclose(found, [3 * math.log(1e-150), math.log(1e-150)])


def test_a_table_that_is_no_number_leaves_the_marginal() -> None:
    """What operators that overflow leave is still a distribution."""
    nodes = [ChainRuleNode(-1, (1, 2), 1, -1), ChainRuleNode(0, (), 1, 0), ChainRuleNode(0, (), 1, 1)]
    walker = ChainRule.of(nodes, (2, 2))
    marginals = (np.array([0.3, 0.7]), np.array([0.9, 0.1]))
    for value in (math.inf, math.nan, 0.0, -1.0):
        values = np.array([1.0, *[value] * 3, 0.25, 0.75, 1.0])
        rows = np.indices((2, 2)).reshape(2, -1).T.astype(np.uint8)
        with np.errstate(invalid="ignore"):  # where nothing is compiled
            found = walker.log_prob(values, floor_of(0.0, marginals), np.asfortranarray(rows)).log_prob
        assert_allclose(np.exp(found).sum(), 1.0)
        assert_allclose(np.exp(found).reshape(2, 2).sum(axis=1), marginals[0])
