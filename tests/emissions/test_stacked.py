"""Stacked emissions: each state answers as the one it came from, in whatever order states stand."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from eigentree.emissions.base import stacked
from eigentree.emissions.families import make

FIRST, SECOND = (
    make("gaussian", np.zeros((9, 1)), np.ones(9), 2).of_vector(np.array([*means, 0.01, 0.01]))
    for means in ((0.0, 10.0), (20.0, 30.0))
)
ORDER = np.array([3, 0, 2])
MISSING = np.full((3, 1), np.nan)


def test_samples_are_those_of_each_state() -> None:
    both = stacked([FIRST, SECOND])
    for emission, means in ((both, [0.0, 10.0, 20.0, 30.0]), (both.permuted(ORDER), [30.0, 0.0, 20.0])):
        states = np.arange(len(means)).repeat(50)[::-1]
        cells = np.full((len(states), 1), np.nan)
        cells[::10] = -1.0
        drawn = emission.sampled(cells, states, np.random.default_rng(0))
        known = ~np.isnan(cells[:, 0])
        assert (drawn[known] == -1.0).all()
        assert_allclose(drawn[~known, 0], np.array(means)[states[~known]], atol=1.0)


def test_orders_follow_each_other() -> None:
    both = stacked([FIRST, SECOND])
    twice = both.permuted(ORDER).permuted(np.array([2, 0]))
    assert twice.moments(MISSING)[0][0, :, 0].tolist() == [20.0, 30.0]
    cell = np.array([[19.9]])
    assert (twice.log_prob(cell) == both.log_prob(cell)[:, [2, 3]]).all()
    of_three = stacked([both, FIRST]).permuted(np.array([4, 1, 2]))
    assert of_three.moments(MISSING)[0][0, :, 0].tolist() == [0.0, 10.0, 20.0]


def test_parts_are_learned_and_moved_by_themselves() -> None:
    """In whatever order states stand, and also where a state stands twice."""
    both = stacked([FIRST, SECOND]).permuted(np.array([3, 0, 2, 1, 0]))
    cells = np.random.default_rng(0).normal(15.0, 10.0, (40, 1))
    features, counts = both.features(cells), np.random.default_rng(1).random((40, 5))
    halves = [
        both.statistics(both.features(part), own)
        for part, own in ((cells[:9], counts[:9]), (cells[9:], counts[9:]))
    ]
    learned = both.maximised(halves[0] + halves[1])
    alone = SECOND.maximised(SECOND.statistics(SECOND.features(cells), counts[:, [2, 0]]))
    assert_allclose(learned.log_prob(cells)[:, [2, 0]], alone.log_prob(cells))
    twice = FIRST.maximised(
        FIRST.statistics(FIRST.features(cells), np.stack([counts[:, 1] + counts[:, 4], counts[:, 3]], 1))
    )
    assert_allclose(learned.log_prob(cells)[:, [1, 3, 4]], twice.log_prob(cells)[:, [0, 1, 0]])
    by = np.random.default_rng(2).normal(size=both.n_coordinates)
    moved = both.moved(by)
    assert_allclose(moved.lines(features)[:, [2, 0]], SECOND.moved(by[FIRST.n_coordinates :]).log_prob(cells))
    assert_allclose(both.of_vector(moved.vector).lines(features), moved.lines(features))
    assert_allclose(both.log_prior(), FIRST.log_prior() + SECOND.log_prior())
    parts = [FIRST.n_coordinates, len(by)]
    alone = SECOND.gradient(by[slice(*parts)], SECOND.statistics(SECOND.features(cells), counts[:, [2, 0]]))
    assert_allclose(both.gradient(by, halves[0] + halves[1])[slice(*parts)], alone)
    assert not hasattr(both, "table")
