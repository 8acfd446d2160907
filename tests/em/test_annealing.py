"""Annealed EM: batches that add up to all rows, and steps that are EM's own where nothing is annealed."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from eigentree.em.annealing import Batches, Schedule, annealed, own_counts
from eigentree.em.starts import random_start
from em_problems import coded, problems
from hypothesis import given, settings
from hypothesis import strategies as st

import eigentree as et
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_gaps
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective


def problem_of(
    network: et.LatentNetwork, rows: np.ndarray, weights: np.ndarray, prior: float = 0.1
) -> TreeObjective:
    graph = network.graph
    distinct = DistinctRows.of(coded(graph, rows), [graph.states[name] for name in graph.observed], weights)
    return TreeObjective.of(graph, distinct, columns_with_gaps(distinct.codes, graph), prior, 1)


@settings(max_examples=30, deadline=None)
@given(case=problems(), size=st.integers(1, 30), seed=st.integers(0, 99))
def test_batches_add_up_to_all_rows(case: tuple, size: int, seed: int) -> None:
    problem = problem_of(*case)
    batches = Batches.of(problem, size, np.random.default_rng(seed))
    total = sum(part.line_weights for part in batches.parts)
    np.testing.assert_allclose(total, problem.rows.line_weights, rtol=1e-12, atol=1e-12)
    weights = [part.weights.sum() for part in batches.parts]
    assert sum(weights) == pytest.approx(problem.weight, rel=1e-12)


def test_a_row_that_weighs_more_than_a_batch_is_in_each() -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(8, 2, 3), seed=0)
    rows = np.unique(truth.sample(400, seed=1), axis=0)
    weights = np.ones(len(rows))
    weights[7] = 1e4
    batches = Batches.of(problem_of(truth, rows, weights), 20, np.random.default_rng(0))
    assert len(batches.parts) > 5
    for part in batches.parts:
        assert part.weights.max() == pytest.approx(1e4 / len(batches.parts))


@settings(max_examples=30, deadline=None)
@given(case=problems(), prior=st.sampled_from([0.0, 0.1, 1.0]))
def test_one_batch_of_all_weight_is_a_step_of_em(case: tuple, prior: float) -> None:
    network, rows, weights = case
    problem = problem_of(network, rows, weights, prior)
    start = random_start(problem.layout, np.random.default_rng(0))
    here = problem.evaluated(start)
    random = np.random.default_rng(0)
    batches = Batches.of(problem, len(problem.rows.weights), random)
    (there,) = annealed(batches, start, Schedule(1, 1.0, 1.0), random)
    np.testing.assert_allclose(there.parameters, here.update, rtol=1e-9, atol=1e-12)
    assert there.log_likelihood == pytest.approx(problem.log_likelihood(start), rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(case=problems(), seed=st.integers(0, 99))
def test_each_batch_stands_for_all_rows(case: tuple, seed: int) -> None:
    problem = problem_of(*case, 1.0)
    random = np.random.default_rng(seed)
    start = random_start(problem.layout, random)
    batches = Batches.of(problem, max(1, len(problem.rows.weights) // 2), random)
    (there,) = annealed(batches, start, Schedule(1, 1.0, 1.0), random)
    ends = []
    for order in permutations(batches.parts):
        here = start
        for part in order:
            counts = problem.expectation(here, part).counts * problem.weight / part.weights.sum()
            here = problem.layout.normalised(counts + problem.prior, here)
        ends.append(np.abs(here - there.parameters).max())
    assert min(ends) < 1e-9


@settings(max_examples=30, deadline=None)
@given(case=problems())
def test_what_is_known_of_nothing_is_the_distribution_itself(case: tuple) -> None:
    network, _, _ = case
    layout = ParameterLayout.of(network.graph)
    parameters = layout.vector(network)
    counts = own_counts(network.graph, parameters)
    learned = layout.learned
    np.testing.assert_allclose(layout.normalised(counts, parameters)[learned], parameters[learned], atol=1e-12)


def test_annealing_climbs_and_is_told_by_its_seed() -> None:
    truth = et.LatentNetwork.random(et.zoo.hmm(6, hidden_states=3, observed_states=4), concentration=0.3, seed=0)
    rows = truth.sample(2_000, seed=1)
    problem = problem_of(truth, rows, np.ones(len(rows)), 0.1)

    def ends() -> list[np.ndarray]:
        random = np.random.default_rng(4)
        batches = Batches.of(problem, 100, random)
        start = random_start(problem.layout, random)
        return [start, *(each.parameters for each in annealed(batches, start, Schedule(8, 0.5, 0.05), random))]

    found = ends()
    assert all((a == b).all() for a, b in zip(found, ends(), strict=True))
    heights = [problem.log_likelihood(each) / problem.weight for each in found]
    assert heights[1] > heights[0] + 0.1
    assert heights[-1] > heights[1]
    assert heights[-1] > truth.log_prob(rows).mean() - 0.1
