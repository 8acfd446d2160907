"""Loops of sampling against plain references."""

from __future__ import annotations

import numpy as np
import pytest

from eigentree.core.trees.categorical_sampling import choose, pick

# -------------------------------------------------------------------------------------------- drawing


@pytest.mark.parametrize("table", [[0.2, 0.5, 0.3], [0.25, 0.25, 0.5], [0.0, 2.0, -1.0], [-1.0, 0.25, 0.25], [7.0]])
def test_states_are_picked_by_their_stretch(table: list[float]) -> None:
    positive = [max(share, 0.0) for share in table]
    ends = np.cumsum(positive) / sum(positive)
    column = np.array([[9.0, share] for share in table])
    for uniform in [*np.linspace(0, 0.999, 30), 0.25, 0.5, 0.75]:
        assert pick(column, 1, len(table), uniform) == np.searchsorted(ends, uniform, side="right")


def test_where_nothing_is_positive_no_state_is_picked() -> None:
    assert pick(np.array([[0.0], [-1.0]]), 0, 2, 0.3) == 2


def test_the_last_state_serves_where_rounding_leaves_something() -> None:
    table = np.full((10, 1), 0.1)
    assert pick(table, 0, 10, np.nextafter(1.0, 0.0)) == 9


@pytest.mark.parametrize("states", [1, 2, 3, 8])
def test_states_are_chosen_by_their_cumulative_stretch(states: int) -> None:
    random = np.random.default_rng(states)
    shares = random.random((5, states)) * (random.random((5, states)) < 0.7)
    shares[:, 0] += 0.01
    cumulative = shares.cumsum(axis=1)
    given, uniform = random.integers(0, 5, 300), random.random(300)
    chosen = np.full(300, -1)
    choose(cumulative, given, uniform, chosen)
    for row in range(300):
        line = cumulative[given[row]]
        assert chosen[row] == np.searchsorted(line, uniform[row] * line[-1], side="right")


def test_a_stretch_holds_its_start_and_not_its_end() -> None:
    uniform = np.array([0.0, 0.25, 0.5, 0.75])
    chosen = np.full(4, -1)
    choose(np.array([[1.0, 1.0, 2.0, 4.0]]), np.zeros(4, np.int64), uniform, chosen)
    assert chosen.tolist() == [0, 2, 3, 3]


# ------------------------------------------------------------------------------------------- messages
