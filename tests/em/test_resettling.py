"""Split-merge moves: starts near the end of an EM run."""

from __future__ import annotations

import numpy as np
import pytest
from eigentree.em.resettling import can_resettle, resettled
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.tree_objective import TreeObjective

GRAPHS = {
    "mixture": et.zoo.mixture(4, 3, 2),
    "chain": et.zoo.hmm(5, 1, 2, 3),
    "undirected": et.LatentGraph(
        {"a": 3, "h": 2, "g": 3, "b": 2}, [("a", "h"), ("h", "g"), ("g", "b")], ["h", "g"], False
    ),
}


def problem_of(graph: et.LatentGraph) -> TreeObjective:
    rows = et.LatentNetwork.random(graph, seed=0).sample(60, seed=1).astype(np.uint8)
    states = [graph.states[name] for name in graph.observed]
    return TreeObjective.of(graph, DistinctRows.of(rows, states, np.ones(60)), frozenset(), 0.0, 1)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_tables_stay_distributions_and_rule_nothing_out(graph: et.LatentGraph) -> None:
    problem = problem_of(graph)
    layout = problem.layout
    here = problem.evaluated(layout.vector(et.LatentNetwork.random(graph, seed=2)))
    before = here.parameters.copy()
    for seed in range(20):
        moved = resettled(layout, here, np.random.default_rng(seed))
        assert (moved > 0).all()
        assert_allclose(layout.normalised(moved, moved), moved, rtol=1e-12)
        assert np.abs(moved - before).max() > 0.01
    np.testing.assert_array_equal(here.parameters, before)


def test_a_wasted_state_is_put_where_one_stands_for_two() -> None:
    graph = et.zoo.mixture(6, 3, 3)
    emissions = 0.85 * np.eye(3) + 0.05
    truth = et.LatentNetwork(graph, {"h": np.full(3, 1 / 3)} | dict.fromkeys(graph.observed, emissions))
    rows = truth.sample(3_000, seed=0).astype(np.uint8)
    problem = TreeObjective.of(graph, DistinctRows.of(rows, [3] * 6, np.ones(3_000)), frozenset(), 0.0, 1)
    both = (emissions[1] + emissions[2]) / 2
    wasted = {name: np.array([emissions[0], emissions[0], both]) for name in graph.observed}
    poor = problem.evaluated(problem.layout.vector(et.LatentNetwork(graph, {"h": np.full(3, 1 / 3)} | wasted)))
    ends = []
    for seed in range(12):
        here = problem.evaluated(resettled(problem.layout, poor, np.random.default_rng(seed)))
        for _ in range(20):
            here = problem.evaluated(here.update)
        ends.append(here.objective)
    best = problem.evaluated(problem.layout.vector(truth)).objective
    assert max(ends) > best - 30 > poor.objective + 100


def test_there_is_nothing_to_resettle_without_hidden_states_that_rows_tell_of() -> None:
    assert not can_resettle(problem_of(et.LatentGraph({"a": 2, "b": 2}, [("a", "b")])).layout)
    assert not can_resettle(problem_of(et.zoo.mixture(3, 1, 2)).layout)
    assert can_resettle(problem_of(et.zoo.mixture(3, 2, 2)).layout)
