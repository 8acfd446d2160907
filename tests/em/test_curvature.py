"""The information matrix estimated from rows, and what Newton's steps gain by it: laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from eigentree.em.course import part_of
from em_problems import coded, problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_gaps
from eigentree.em.optimize.information import DAMPING, FEW_COUNTS, MOST_PARAMETERS, Information
from eigentree.em.optimize.lbfgs import LBFGS
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective

SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def given_rows(graph: et.LatentGraph, rows: np.ndarray, weights: np.ndarray | None = None) -> DistinctRows:
    """The rows as they are, equal ones apart."""
    weights = np.ones(len(rows)) if weights is None else weights
    return DistinctRows(np.asfortranarray(coded(graph, rows)), weights, np.arange(len(rows)))


def curvature_of(problem: TreeObjective, network: et.LatentNetwork) -> Information:
    return Information.of(problem, problem.evaluated(problem.layout.vector(network)))


@SOME
@given(problems(), st.integers(1, 5))
def test_the_counts_of_a_batch_are_those_of_its_rows_alone(
    case: tuple[et.LatentNetwork, np.ndarray, np.ndarray], size: int
) -> None:
    network, rows, weights = case
    graph = network.graph
    gaps = columns_with_gaps(coded(graph, rows), graph)
    whole = TreeObjective.of(graph, given_rows(graph, rows, weights), gaps, 0.0, 1)
    parameters = whole.layout.vector(network)
    found = whole.expectation.batches(parameters, whole.rows.codes, whole.rows.weights, size)
    bounds = range(0, len(rows), size)
    assert len(found) == len(bounds)
    for counts, begin in zip(found, bounds, strict=True):
        some = slice(begin, begin + size)
        alone = TreeObjective.of(graph, given_rows(graph, rows[some], weights[some]), gaps, 0.0, 1)
        assert_allclose(counts, alone.counted(parameters).counts, rtol=1e-9, atol=1e-12)


def test_without_hidden_variables_it_is_that_of_multinomials() -> None:
    graph = et.LatentGraph({"a": 2, "b": 3}, [("a", "b")])
    network = et.LatentNetwork.random(graph, seed=0)
    rows = np.array(list(itertools.product(range(2), range(3))))
    # Every row as often as it is probable: the estimate is the truth.
    weights = 1e6 * np.exp(network.log_prob(rows))
    problem = TreeObjective.of(graph, given_rows(graph, rows, weights), frozenset(), 0.0, 1)
    told = curvature_of(problem, network).told
    layout = problem.layout
    roots = np.sqrt(layout.vector(network))
    counts = problem.counted(layout.vector(network)).counts
    totals = layout.totals(counts) / problem.weight
    same = np.repeat(np.arange(len(layout.lengths)), layout.lengths)
    expected = 4.0 * totals * (np.eye(len(roots)) - (same[:, None] == same) * np.outer(roots, roots))
    damping = 4.0 * totals * (DAMPING + FEW_COUNTS / (counts + FEW_COUNTS))
    assert_allclose(told, expected + np.diag(damping), atol=1e-5)


def test_weights_stand_for_copies_and_their_scale_is_that_of_the_curvature() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(4, 1, 2, 3), seed=1)
    rows = network.sample(40, seed=2)
    weights = np.random.default_rng(3).integers(1, 4, len(rows)).astype(float)
    weighted = TreeObjective.of(network.graph, given_rows(network.graph, rows, weights), frozenset(), 0.1, 1)
    copies = np.repeat(rows, weights.astype(int), axis=0)
    copied = TreeObjective.of(network.graph, given_rows(network.graph, copies), frozenset(), 0.1, 1)
    one, other = curvature_of(weighted, network), curvature_of(copied, network)
    assert_allclose(one.told, other.told, rtol=1e-4, atol=1e-5)
    assert_allclose(one.prior, other.prior)
    gradient = np.random.default_rng(4).normal(size=weighted.layout.size)
    heavy = Information(one.learned, one.told, 0.0 * one.prior)
    assert_allclose(heavy.factored(10.0).solved(gradient), heavy.factored(1.0).solved(gradient) / 10.0)


def test_the_first_step_is_newtons() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(5, 1, 2, 4), seed=1)
    rows = given_rows(network.graph, network.sample(2_000, seed=2))
    problem = TreeObjective.of(network.graph, rows, frozenset(), 0.1, 1)
    here = problem.evaluated(problem.layout.vector(network))
    factored = Information.of(problem, here).factored(problem.weight)
    proposed = LBFGS(problem.layout, factored).propose(here)
    roots = np.sqrt(here.parameters)
    gradient = 2.0 * here.totals * (here.update / roots - roots)
    reached = (roots + factored.solved(gradient)) ** 2
    assert_allclose(proposed, problem.layout.normalised(reached, reached), rtol=1e-9)
    assert LBFGS(problem.layout).propose(here) is None


def gap_after(
    problem: TreeObjective, start: np.ndarray, top: float, steps: int, curvature: Information | None
) -> float:
    *_, end = em_run(problem, start, Stopping("gain", 0.0), steps, True, information=curvature)
    assert np.all(np.diff(end.history) > 0)
    return top - end.here.objective


@pytest.mark.parametrize(("concentration", "within", "share"), [(1.0, 0.3, 0.5), (0.3, 0.45, 0.85)])
def test_what_a_part_tells_ends_a_climb_on_all_rows_soon(concentration: float, within: float, share: float) -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(12, 2, 2, 4), concentration, seed=1)
    rows = given_rows(network.graph, network.sample(12_000, seed=2))
    problem = TreeObjective.of(network.graph, rows, frozenset(), 0.1, 1)
    some = TreeObjective.of(network.graph, part_of(rows, 3_000, np.random.default_rng(0)).rows, frozenset(), 0.1, 1)
    start = problem.layout.vector(network)
    *_, near = em_run(some, start, Stopping("gain", 0.0), 100, True)
    *_, top = em_run(problem, start, Stopping("gain", 0.0), 200, True)
    chance = network.n_parameters / 2.0
    told = Information.of(some, near.here)
    with_it, without = (
        gap_after(problem, near.here.parameters, top.here.objective, 6, each) / chance for each in (told, None)
    )
    assert with_it < within
    assert with_it < share * without


def test_too_many_parameters_have_no_matrix() -> None:
    assert Information.pays(ParameterLayout.of(et.zoo.hmm(5, 1, 2, 4)))
    assert not Information.pays(ParameterLayout.of(et.zoo.mixture(20, 10, MOST_PARAMETERS // 100)))


def test_moments_that_the_likelihood_confirms_need_no_other_start() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(16, 2, 2, 4), seed=3)
    rows = network.sample(36_000, seed=4)
    race = et.EMJunctionTree(network.graph, random_state=0).fit(rows)
    assert race.start_.name == "spectral"
    assert all(len(heat.standings) == 1 for heat in race.start_.heats)
    assert race.converged_
    top = et.EMJunctionTree(network.graph, init=network, pseudo_counts=race.pseudo_counts_).fit(rows)
    # Both have stopped short of the same optimum, by a share of the sampling error.
    assert top.history_[-1] - race.history_[-1] < 0.2 * network.n_parameters / 2.0


def test_newtons_steps_may_stop_sooner_but_a_tolerance_that_is_given_is_kept() -> None:
    rows = DistinctRows(np.zeros((40_000, 1)), np.ones(40_000), np.arange(40_000))
    usual = Stopping.usual("gain", rows, 300)
    assert usual.eased(rows, 300).tol == pytest.approx(4 * usual.tol)
    for kept in (Stopping("gain", 1e-7), Stopping("paper", 1e-4)):
        assert kept.eased(rows, 300) == kept
    heavy = rows._replace(weights=np.full(40_000, 1e6))
    assert Stopping.usual("gain", heavy, 300).eased(heavy, 300).tol == Stopping.usual("gain", heavy, 300).tol
