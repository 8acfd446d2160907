"""EM runs: laws of acceleration, and of stopping."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.em.chain_fit import ChainLayout, ChainObjective
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.optimize.lbfgs import LBFGS, MEMORY
from eigentree.em.optimize.objective import Evaluation
from eigentree.em.optimize.run import TRIES, EMRun, em_run
from eigentree.em.optimize.stopping import Stopping, has_converged, remaining_gain
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols

LAYOUT = ParameterLayout.of(et.LatentGraph({"x": 4}))
END = np.array([0.5, 0.5, 0.5, 0.5])
TOTAL = 20.0


def step(point: np.ndarray, gradient: np.ndarray, objective: float = 0.0) -> Evaluation:
    """A step from parameters with these square roots, where the objective has this gradient."""
    return Evaluation(point**2, point * (point + gradient / (2 * TOTAL)), np.full(4, TOTAL), objective, -1)


def steps_towards_the_end(count: int, curvature: np.ndarray, seed: int = 0) -> list[Evaluation]:
    """Steps from random points below a parabola whose top is at the end."""
    points = END + np.random.default_rng(seed).uniform(-0.1, 0.1, (count, 4))
    return [step(point, curvature * (END - point)) for point in points]


@pytest.mark.parametrize("steps", [2, 3, MEMORY + 1, MEMORY + 4])
def test_steps_along_a_line_are_extrapolated_to_where_the_gradient_vanishes(steps: int) -> None:
    away = np.array([1.0, -1.0, 0.0, 0.5]) / 16
    accelerator = LBFGS(LAYOUT)
    proposed = None
    for k in range(steps):
        length = 1.0 - k / 16
        proposed = accelerator.propose(step(END + length * away, -30.0 * length * away))
        assert (proposed is None) == (k == 0)
    assert_allclose(proposed, END**2, rtol=1e-6)


def test_where_nothing_was_seen_of_the_curvature_it_is_that_of_rows_without_gaps() -> None:
    accelerator = LBFGS(LAYOUT)
    seen, unseen = np.array([1.0, -1.0, 0.0, 0.0]) / 16, np.array([0.0, 0.0, 1.0, -1.0]) / 64
    steady = 4 * TOTAL * unseen
    accelerator.propose(step(END + seen, steady - 30.0 * seen))
    proposed = accelerator.propose(step(END + seen / 2, steady - 30.0 * seen / 2))
    assert_allclose(proposed, (END + unseen) ** 2 / ((END + unseen) ** 2).sum(), rtol=1e-9)


def test_where_the_gradient_does_not_fall_nothing_is_learned() -> None:
    accelerator = LBFGS(LAYOUT)
    for _ in range(3):
        assert accelerator.propose(step(END, END / 50)) is None
    away = np.array([1.0, -1.0, 0.0, 0.0]) / 16
    assert accelerator.propose(step(END + away, END / 50 + away)) is None


def test_a_step_that_went_too_far_is_shortened_to_the_top_of_a_parabola() -> None:
    accelerator = LBFGS(LAYOUT)
    away = np.array([1.0, -1.0, 0.0, 0.0]) / 16
    accelerator.propose(step(END + away, -30.0 * away))
    accelerator.propose(step(END + away / 2, -30.0 * away / 2, objective=7.0))
    slope = 30.0 * float(away @ away) / 4
    # It gained nothing, so the top is half way; then it lost more than it should ever have gained.
    for objective, length in ((7.0, 0.5), (7.0 - 0.75 * slope, 0.1), (-np.inf, 0.01)):
        roots = END + away / 2 * (1 - length)
        assert_allclose(accelerator.shortened(objective), roots**2 / (roots**2).sum(), rtol=1e-9)


def test_an_extrapolation_rules_out_nothing_that_em_allows_and_allows_nothing_that_it_rules_out() -> None:
    # The second parameter falls by steps that lead below zero, the third one is zero from the start.
    accelerator = LBFGS(LAYOUT)
    towards = np.array([0.75, -0.25, 0.0, 0.5])
    away = np.array([-0.125, 0.5, 0.0, 0.0])
    assert accelerator.propose(step(towards + 1.25 * away, -10 * away)) is None
    last = step(towards + 0.9375 * away, -7.5 * away)
    proposed = accelerator.propose(last)
    assert proposed[2] == 0.0
    # Its root is a tenth of what the step itself would give, and the others go where the steps lead.
    roots = np.array([0.75, 0.1 * np.sqrt(min(last.parameters[1], last.update[1])), 0.0, 0.5])
    assert_allclose(proposed, roots**2 / (roots**2).sum(), rtol=1e-6)


def test_only_the_last_steps_are_remembered() -> None:
    curvature = np.array([10.0, 20.0, 30.0, 40.0])
    steps = steps_towards_the_end(MEMORY + 1, curvature)
    fresh, old = LBFGS(LAYOUT), LBFGS(LAYOUT)
    for one in steps_towards_the_end(3, curvature + 30.0, seed=1):
        old.propose(one)
    ends = [[accelerator.propose(one) for one in steps][-1] for accelerator in (fresh, old)]
    assert np.array_equal(*ends)
    longer, shorter = LBFGS(LAYOUT), LBFGS(LAYOUT)
    ends = [
        [accelerator.propose(one) for one in few][-1]
        for accelerator, few in ((longer, steps), (shorter, steps[1:]))
    ]
    assert not np.array_equal(*ends)
    old.forget()
    assert old.propose(steps[-1]) is None


def problem_of(graph: et.LatentGraph, rows: np.ndarray) -> TreeObjective:
    states = [graph.states[name] for name in graph.observed]
    kept = DistinctRows.of(rows.astype(np.uint8), states, np.ones(len(rows)))
    return TreeObjective.of(graph, kept, (), 0.0)


def chain_problem() -> ChainObjective:
    random = np.random.default_rng(3)
    steps, starts = random.integers(0, 3, 60, np.uint8), np.array([0, 25, 60])
    layout = ChainLayout((2,), 1, (3,), (np.ones((2, 2), np.bool_),))
    symbols = Symbols(steps, np.arange(3)[:, None], (3,))
    return ChainObjective(layout, SequencePass(symbols, starts, np.ones(2)), layout.prior(0.5, 0.2))


@pytest.mark.parametrize("kind", ["tree", "chain"])
def test_the_gradient_is_the_slope_of_the_objective(kind: str) -> None:
    """Along any direction that keeps distributions normalised; at the EM update it is no smaller."""
    random = np.random.default_rng(0)
    graph = et.zoo.mixture(4, hidden_states=2, observed_states=3)
    problem = problem_of(graph, random.integers(0, 3, (50, 4))) if kind == "tree" else chain_problem()
    layout = problem.layout
    start, other = (
        layout.normalised(random.uniform(0.2, 1.0, len(layout.learned)), layout.uniform) for _ in range(2)
    )
    direction, small = other - start, 1e-5
    value, gradient = problem.value_and_gradient(start)
    ahead, behind = (problem.evaluated(start + sign * small * direction).objective for sign in (1, -1))
    assert_allclose(gradient @ direction, (ahead - behind) / (2 * small), rtol=1e-6)
    assert_allclose(value, problem.evaluated(start).objective)
    assert problem.value_and_gradient(problem.em_update(start))[0] > value


def watched_run(
    seed: int, tol: float, most: int, monkeypatch: pytest.MonkeyPatch, poor: range = range(0)
) -> tuple[TreeObjective, list[EMRun], list[int]]:
    """An accelerated run, some of whose attempts are made poor, and how many were made before each step."""
    graph = et.zoo.hmm(5, 1, 2, 3)
    problem = problem_of(graph, et.LatentNetwork.random(graph, seed=seed).sample(150, seed=seed))
    tried = 0
    original = TreeObjective.evaluated

    def evaluated(self: TreeObjective, parameters: np.ndarray) -> Evaluation:
        nonlocal tried
        tried += 1
        found = original(self, parameters)
        return found._replace(objective=-np.inf) if tried in poor else found

    monkeypatch.setattr(TreeObjective, "evaluated", evaluated)
    start = problem.layout.vector(et.LatentNetwork.random(graph, seed=seed + 1))
    runs, counts = [], []
    for run in em_run(problem, start, Stopping("paper", tol), most, True):
        runs.append(run)
        counts.append(tried)
    monkeypatch.undo()
    return problem, runs, counts


def test_after_a_refused_extrapolation_the_run_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        problem, runs, tried = watched_run(seed, 0.0, 30, monkeypatch, range(15, 15 + TRIES))
        (k,) = (k for k, (before, after) in enumerate(pairwise(tried)) if after - before > TRIES)
        taken = runs[k + 1]
        # A plain step was taken instead, and nothing from before it plays a part.
        assert np.array_equal(taken.here.parameters, runs[k].here.update)
        again = list(em_run(problem, taken.here.parameters, Stopping("paper", 0.0), 29 - k, True))
        assert again[-1].history == runs[-1].history[k + 1 :]


def test_an_extrapolation_that_went_too_far_is_tried_again_and_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        _, runs, tried = watched_run(seed, 0.0, 30, monkeypatch, range(15, 14 + TRIES))
        (k,) = (k for k, (before, after) in enumerate(pairwise(tried)) if after - before == TRIES)
        assert runs[k + 1].history[-1] > runs[k].history[-1]
        assert not np.array_equal(runs[k + 1].here.parameters, runs[k].here.update)


def test_only_a_plain_iteration_ends_an_accelerated_run(monkeypatch: pytest.MonkeyPatch) -> None:
    doubted, tol = 0, 1e-5
    for seed in range(12):
        _, runs, _ = watched_run(seed, tol, 60, monkeypatch)
        plain = [np.array_equal(b.here.parameters, a.here.update) for a, b in pairwise(runs)]
        small = [has_converged(a.history[-1], b.history[-1], tol) for a, b in pairwise(runs)]
        for k, (was_plain, was_small) in enumerate(zip(plain, small, strict=True)):
            if was_small and not was_plain and runs[k + 1].here is not runs[k].here:
                # A poor extrapolation asks a plain step, which may find that there is no gain left.
                doubted += 1
                assert not runs[k + 1].converged
                assert plain[k + 1] or runs[k + 2].here is runs[k + 1].here
        assert not runs[-1].converged or plain[-1] or runs[-1].here is runs[-2].here
    assert doubted > 2


def test_the_usual_tolerance_is_a_share_of_chance_error_only_where_many_rows_differ() -> None:
    for count, weight, tol in ((1_000, 1.0, 4e-6), (40_000, 1.0, 0.005 * 300 / 80_000), (40_000, 1e3, 4e-6)):
        rows = DistinctRows(np.zeros((count, 1)), np.full(count, weight), np.arange(count))
        assert_allclose(Stopping.usual("gain", len(rows.weights), float(rows.weights.sum()), 300).tol, tol)
        assert Stopping.usual("paper", len(rows.weights), float(rows.weights.sum()), 300).tol == 1e-4


def test_what_is_called_converged_has_hardly_anything_left_to_gain() -> None:
    """But for a saddle here and there, which no rule distinguishes from a local optimum."""
    left, tol = [], 1e-5
    for seed in range(10):
        graph = [et.zoo.mixture(5, 3, 3), et.zoo.hmm(5, 1, 2, 3)][seed % 2]
        rows = et.LatentNetwork.random(graph, seed=seed).sample(300, seed=seed)
        problem = TreeObjective.of(graph, DistinctRows.of(rows, [3] * 5, np.ones(len(rows))), (), 0.1, 1)
        start = problem.layout.vector(et.LatentNetwork.random(graph, seed=seed + 50))
        *_, end = em_run(problem, start, Stopping("gain", tol), 3000, True)
        assert end.converged
        *_, optimum = em_run(problem, end.here.parameters, Stopping("gain", 1e-12), 1000, True)
        left.append((optimum.history[-1] - end.history[-1]) / problem.weight)
    assert np.mean(np.array(left) <= 2 * tol) >= 0.8


def test_the_remaining_gain_of_a_geometric_series_is_found() -> None:
    for rate in (0.97, 0.99):
        history = [-(rate**k) for k in range(60)]
        assert_allclose(remaining_gain(history), rate**59, rtol=1e-6)
    assert remaining_gain([0.0, 1.0]) == np.inf
    assert remaining_gain([-np.inf, *range(10)]) == np.inf
