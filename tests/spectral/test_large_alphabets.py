"""Columns of thousands of states: learned from products with sparse tables, to what whole tables give."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.counting.count_layout import CountLayout
from eigentree.counting.statistics import Statistics
from eigentree.inference.operators.normalised_scoring import floor_of
from eigentree.planning.view_plan import ViewPlan
from eigentree.spectral.learn.bonds import leaf_bond, sparse_bond
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.spectral_fit import counted_marginals


def few_of_many(states: int, rows: int, seed: int, length: int = 6) -> tuple[et.LatentGraph, np.ndarray]:
    """Rows of a chain that seldom changes its state, whose columns have many states, most of which are rare."""
    random = np.random.default_rng(seed)
    hidden = random.integers(0, 3, (rows, length))
    for step in range(1, length):
        stays = random.random(rows) < 0.8
        hidden[stays, step] = hidden[stays, step - 1]
    few = 2 * hidden + random.integers(0, 2, hidden.shape)
    rare = random.random(few.shape) < 0.02
    X = np.where(rare, random.integers(0, states, few.shape), few * (states // 6))
    return et.zoo.hmm(length, 1, 3, states), X


@pytest.mark.parametrize("absent", [False, True])
def test_sparse_pairs_are_the_pairs(absent: bool) -> None:
    """Also where no row has both columns."""
    graph, X = few_of_many(40, 500, seed=0)
    if absent:
        X[::2, 0] = X[1::2, 1] = -1
    tables = CountedTables(et.Counts(graph, [("x0", "x1"), ("x0", "x2"), ("x3", "x4", "x5")]).update(X), 3.0)
    matrix = np.random.default_rng(0).standard_normal((40, 4))
    for outside in (1, 2):
        pair, whole = tables.sparse_pair((0,), (outside,)), tables.stacked([(0, outside)]).reshape(40, 40)
        assert_allclose(pair.times(matrix), whole @ matrix, atol=1e-14)
        assert_allclose(pair.transposed_times(matrix), whole.T @ matrix, atol=1e-14)
        assert_allclose(pair.inside, whole.sum(axis=1), atol=1e-14)
        assert_allclose(pair.outside, whole.sum(axis=0), atol=1e-14)


def test_sparse_bonds_are_the_bonds() -> None:
    graph, X = few_of_many(60, 20_000, seed=1)
    tables = CountedTables(et.Counts(graph, [("x0", "x1"), ("x0", "x2")]).update(X), 1.0)
    groups = [((0,), (1,)), ((0,), (2,))]
    pairs = [tables.stacked([low + high]).reshape(1, 1, 60, 60) for low, high in groups]
    whole = leaf_bond(pairs, 3, np.array([[[tables.rows]]]))
    found = sparse_bond([tables.sparse_pair(*group) for group in groups], 3, tables.rows)
    assert_allclose(found.sizes[:3], whole.sizes[0, 0, :3], rtol=1e-9)
    assert_allclose(found.projection, whole.projection[0, 0], atol=1e-6)
    for solve, expected in zip(found.solves, whole.solves, strict=True):
        assert_allclose(solve, expected[0, 0], atol=1e-6)


def test_a_fit_does_not_depend_on_how_tables_are_kept() -> None:
    graph, X = few_of_many(40, 5_000, seed=2)
    plan = ViewPlan.build(graph)
    dense = Statistics.empty(plan).update(X).counts
    layout = CountLayout.of(dense.groups, dense.columns.states, dense_cells=100)
    codes = np.asfortranarray(X.astype(np.uint8))
    sparse = et.Counts.laid_out(dense.columns, layout).count(iter([(codes, None)]))
    assert sparse.sparse
    assert not dense.sparse
    whole = learn(plan, [CountedTables(dense, 1.0)], "variance")[0]
    found = learn(plan, [CountedTables(sparse, 1.0)], "variance", dense_cells=100)[0]
    floor = floor_of(0.01, counted_marginals(dense, 1.0))
    for shrinkage in (0.4, 1.0, 5.0):
        scores = [fit.chain_rule.log_prob(fit.values(shrinkage), floor, codes).log_prob for fit in (found, whole)]
        assert_allclose(*scores, rtol=1e-5)


def test_ten_thousand_states_are_learned_better_than_independent_columns() -> None:
    graph, X = few_of_many(10_000, 4_000, seed=3, length=4)
    tracemalloc.start()
    model = et.SpectralJunctionTree(graph).fit(X[:3_000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One table of two columns would have 800 MB.
    assert peak < 200e6
    alone = et.SpectralJunctionTree(graph, shrinkage=np.inf).fit(X[:3_000])
    assert model.score(X[3_000:]) > alone.score(X[3_000:]) + 1.0
    assert abs(model.joint(["x0"]).sum() - 1) < 1e-9
