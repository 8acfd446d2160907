"""Climbs: laws of acceleration, and of what ends a climb."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.em.climbing import MEMORY, Accelerator, Climb, Evaluation, Problem, Stopping, climbed, has_converged
from eigentree.em.distinct import DistinctRows
from eigentree.em.expectation import Expectation
from eigentree.em.parameters import ParameterLayout

LAYOUT = ParameterLayout.of(et.LatentGraph({"x": 4}))
END = np.array([0.5, 0.5, 0.5, 0.5])


def step(point: np.ndarray, target: np.ndarray) -> Evaluation:
    """A step from parameters with these square roots to others."""
    return Evaluation(point**2, target**2, 0.0, -1)


@pytest.mark.parametrize("steps", [2, 3, MEMORY + 1, MEMORY + 4])
def test_steps_that_shrink_along_a_line_are_extrapolated_to_its_end(steps: int) -> None:
    # All numbers are sums of few powers of two, so that equal changes are equal to the last bit.
    away = np.array([1.0, -1.0, 0.0, 0.5]) / 16
    accelerator = Accelerator(LAYOUT)
    proposed = None
    for k in range(steps):
        length = 1.0 - k / 16
        proposed = accelerator.propose(step(END + length * away, END + length * away / 2))
        assert (proposed is None) == (k == 0)
    assert_allclose(proposed, END**2, rtol=1e-6)


def test_steps_that_do_not_change_are_not_extrapolated() -> None:
    accelerator = Accelerator(LAYOUT)
    for _ in range(3):
        assert accelerator.propose(step(END, END + 0.01)) is None


def test_an_extrapolation_rules_out_nothing_that_em_allows_and_allows_nothing_that_it_rules_out() -> None:
    # The second parameter falls by steps that lead below zero, the third one is zero from the start.
    accelerator = Accelerator(LAYOUT)
    towards = np.array([0.75, -0.25, 0.0, 0.5])
    away = np.array([-0.125, 0.5, 0.0, 0.0])
    targets = [towards + length * away for length in (1.0, 0.75)]
    points = [towards + length * away for length in (1.25, 0.9375)]
    assert accelerator.propose(step(points[0], targets[0])) is None
    proposed = accelerator.propose(step(points[1], targets[1]))
    assert proposed[2] == 0.0
    # Its root is a tenth of what the step itself would give, and the others go where the steps lead.
    roots = np.array([0.75, 0.1 * targets[1][1], 0.0, 0.5])
    assert_allclose(proposed, roots**2 / (roots**2).sum(), rtol=1e-6)


def test_only_the_last_steps_are_remembered() -> None:
    random = np.random.default_rng(0)
    steps = [step(*np.sqrt(random.dirichlet(np.ones(4), 2))) for _ in range(MEMORY + 1)]
    fresh, old = Accelerator(LAYOUT), Accelerator(LAYOUT)
    for _ in range(3):
        old.propose(step(*np.sqrt(random.dirichlet(np.ones(4), 2))))
    ends = [[accelerator.propose(one) for one in steps][-1] for accelerator in (fresh, old)]
    assert np.array_equal(*ends)
    old.forget()
    assert old.propose(steps[0]) is None


def problem_of(graph: et.LatentGraph, rows: np.ndarray) -> Problem:
    states = [graph.states[name] for name in graph.observed]
    kept = DistinctRows.of(rows.astype(np.uint8), states, np.ones(len(rows)))
    expectation = Expectation.of(graph, (), len(kept.codes))
    return Problem(expectation, expectation.coded(kept.codes, kept.weights), kept.first, 0.0, 1)


def watched_climb(
    seed: int, tol: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Problem, list[Climb], list[int]]:
    """An accelerated climb, and how many parameters were tried before each of its steps."""
    graph = et.zoo.hmm(5, 1, 2, 3)
    problem = problem_of(graph, et.LatentNetwork.random(graph, seed=seed).sample(150, seed=seed))
    tried = 0
    original = Problem.evaluated

    def evaluated(self: Problem, parameters: np.ndarray) -> Evaluation:
        nonlocal tried
        tried += 1
        return original(self, parameters)

    monkeypatch.setattr(Problem, "evaluated", evaluated)
    start = problem.layout.vector(et.LatentNetwork.random(graph, seed=seed + 1))
    climbs, counts = [], []
    for climb in climbed(problem, start, Stopping("paper", tol), most, True):
        climbs.append(climb)
        counts.append(tried)
    monkeypatch.undo()
    return problem, climbs, counts


def test_after_a_refused_extrapolation_the_climb_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 0
    for seed in range(6):
        problem, climbs, tried = watched_climb(seed, 0.0, 30, monkeypatch)
        for k, (before, after) in enumerate(pairwise(tried)):
            if after - before < 2 or climbs[k + 1].converged:
                continue
            refused += 1
            taken = climbs[k + 1]
            # A plain step was taken instead, and nothing from before it plays a part.
            assert np.array_equal(taken.here.parameters, climbs[k].here.following)
            again = list(climbed(problem, taken.here.parameters, Stopping("paper", 0.0), 29 - k, True))
            assert again[-1].history == climbs[-1].history[k + 1 :]
            break
    assert refused > 2


def test_only_a_plain_step_ends_an_accelerated_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    doubted, tol = 0, 1e-5
    for seed in range(12):
        _, climbs, _ = watched_climb(seed, tol, 60, monkeypatch)
        plain = [np.array_equal(b.here.parameters, a.here.following) for a, b in pairwise(climbs)]
        small = [has_converged(a.history[-1], b.history[-1], tol) for a, b in pairwise(climbs)]
        for k, (was_plain, was_small) in enumerate(zip(plain, small, strict=True)):
            if was_small and not was_plain and climbs[k + 1].here is not climbs[k].here:
                # A poor extrapolation asks a plain step, which may find that there is no gain left.
                doubted += 1
                assert not climbs[k + 1].converged
                assert plain[k + 1] or climbs[k + 2].here is climbs[k + 1].here
        assert not climbs[-1].converged or plain[-1] or climbs[-1].here is climbs[-2].here
    assert doubted > 2
