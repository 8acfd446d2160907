"""Stepwise EM: mini-batches that add up to all rows, and a running average whose first step is known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from em_problems import coded, problems
from hypothesis import given, settings
from hypothesis import strategies as st

import eigentree as et
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.init.classes import random_start
from eigentree.em.parameters import ParameterLayout
from eigentree.em.stepwise import RunningAverage, batches_of, stepwise_passes
from eigentree.em.tree_objective import TreeObjective


def objective_of(
    network: et.LatentNetwork, rows: np.ndarray, weights: np.ndarray, prior: float = 0.1
) -> TreeObjective:
    graph = network.graph
    distinct = DistinctRows.of(coded(graph, rows), [graph.states[name] for name in graph.observed], weights)
    return TreeObjective.of(graph, distinct, columns_with_missing(distinct.codes, graph), prior, 1)


@settings(max_examples=30, deadline=None)
@given(case=problems(), count=st.integers(1, 30), seed=st.integers(0, 99))
def test_batches_add_up_to_all_rows(case: tuple, count: int, seed: int) -> None:
    objective = objective_of(*case)
    batches = batches_of(objective, count, np.random.default_rng(seed))
    total = sum(part.line_weights for part in batches)
    np.testing.assert_allclose(total, objective.rows.line_weights, rtol=1e-12, atol=1e-12)
    assert sum(part.weights.sum() for part in batches) == pytest.approx(objective.weight, rel=1e-12)


def test_a_row_that_weighs_more_than_a_batch_is_in_each() -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(8, 2, 3), seed=0)
    rows = np.unique(truth.sample(400, seed=1), axis=0)
    weights = np.ones(len(rows))
    weights[7] = 1e4
    batches = batches_of(objective_of(truth, rows, weights), 20, np.random.default_rng(0))
    assert len(batches) == 20
    for part in batches:
        assert part.weights.max() == pytest.approx(1e4 / 20)


@settings(max_examples=30, deadline=None)
@given(case=problems(), prior=st.sampled_from([0.0, 0.1, 1.0]))
def test_one_batch_averages_the_start_with_an_em_update(case: tuple, prior: float) -> None:
    network, rows, weights = case
    objective = objective_of(network, rows, weights, prior)
    layout, start = objective.layout, random_start(objective.layout, np.random.default_rng(0))
    (found,) = stepwise_passes(objective, start, 1.0, 1, 1, np.random.default_rng(0))
    own = RunningAverage.of(network.graph, start, 1.0).average
    counts = own / 2.0 + objective.counted(start).counts / (2.0 * objective.weight)
    expected = layout.normalised(counts + objective.prior / objective.weight, start)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-12)
    assert found[1] == pytest.approx(objective.log_likelihood(start), rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(case=problems(), seed=st.integers(0, 99))
def test_each_batch_is_counted_once_in_a_pass_in_some_order(case: tuple, seed: int) -> None:
    objective = objective_of(*case, 1.0)
    random = np.random.default_rng(seed)
    start = random_start(objective.layout, random)
    same = random.bit_generator.state
    (found,) = stepwise_passes(objective, start, 0.7, 1, 2, random)
    random.bit_generator.state = same
    ends = []
    for order in permutations(batches_of(objective, 2, random)):
        state = RunningAverage.of(case[0].graph, start, 0.7)
        for part in order:
            counts = objective.expectation(state.parameters, part).counts / part.weights.sum()
            state = state.after(counts, objective.prior / objective.weight)
        ends.append(np.abs(state.parameters - found[0]).max())
    assert min(ends) < 1e-9


def test_the_order_of_mini_batches_is_random() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), seed=0)
    objective = objective_of(network, network.sample(60, seed=1), np.ones(60))
    start = random_start(objective.layout, np.random.default_rng(0))
    orders = set()
    for seed in range(12):
        (found,) = stepwise_passes(objective, start, 0.7, 1, 2, np.random.default_rng(seed))
        first, second = batches_of(objective, 2, np.random.default_rng(seed))
        state = RunningAverage.of(network.graph, start, 0.7)
        for part in (first, second):
            counts = objective.expectation(state.parameters, part).counts / part.weights.sum()
            state = state.after(counts, objective.prior / objective.weight)
        orders.add(bool(np.abs(state.parameters - found[0]).max() < 1e-9))
    assert orders == {False, True}


@settings(max_examples=30, deadline=None)
@given(case=problems())
def test_the_counts_that_a_row_without_cells_has_are_the_tables(case: tuple) -> None:
    network, _, _ = case
    layout = ParameterLayout.of(network.graph)
    parameters = layout.vector(network)
    counts = RunningAverage.of(network.graph, parameters, 0.7).average
    learned = layout.learned
    np.testing.assert_allclose(layout.normalised(counts, parameters)[learned], parameters[learned], atol=1e-12)


def test_passes_raise_the_likelihood_and_follow_from_the_seed() -> None:
    truth = et.LatentNetwork.random(et.zoo.hmm(6, hidden_states=3, observed_states=4), concentration=0.3, seed=0)
    rows = truth.sample(2_000, seed=1)
    objective = objective_of(truth, rows, np.ones(len(rows)), 0.1)

    def passes() -> list[np.ndarray]:
        random = np.random.default_rng(4)
        start = random_start(objective.layout, random)
        return [start, *(found for found, _ in stepwise_passes(objective, start, 0.6, 8, 20, random))]

    found = passes()
    assert all((one == other).all() for one, other in zip(found, passes(), strict=True))
    values = [objective.log_likelihood(each) / objective.weight for each in found]
    assert values[1] > values[0] + 0.1
    assert values[-1] > values[1]
    assert values[-1] > truth.log_prob(rows).mean() - 0.1
