"""States put to better use: one is given up and another split, a cell is given away, or two cells change places."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats, Integers
    from eigentree.em.chains import ChainLayout
    from eigentree.em.optimize.run import EMRun

__all__ = ["resettled"]

MOST_MOVES = 36
"""Most moves that are tried in a round."""

MOST_ROUNDS = 6
"""Most rounds, each of which took the best of its moves."""

FIRST_STEPS, MORE_STEPS, FOLLOWED = 10, 10, 4
"""Steps after each move, and further ones after those that led highest."""

SPREAD = 0.7
"""How different the two halves of a state are, as the standard deviation of the logarithms."""

GAIN = 1e-6
"""By how much the objective per step has to rise for a move to be taken."""


def resettled(
    layout: ChainLayout,
    best: EMRun,
    climb: Callable[[Floats, int], EMRun],
    weight: float,
    random: np.random.Generator,
) -> EMRun:
    """Return the climb that is reached by moving states, or the same where no move leads higher.

    Parameters
    ----------
    layout : ChainLayout
    best : EMRun
    climb : callable
        A climb from parameters, of so many steps.
    weight : float
        How many steps the sequences have.
    random : Generator
    """
    states = range(layout.states)
    splits = [partial(_split, gone=a, split=b) for a in states for b in states if a != b]
    moves = splits + [
        partial(_given_away, channel=channel, symbol=symbol, to=state)
        for channel, count in enumerate(layout.channels)
        for symbol in range(count)
        for state in states
    ]
    moves += [
        partial(_swapped, channel=channel, one=one, other=other)
        for channel, count in enumerate(layout.channels)
        for other in range(count)
        for one in range(other)
    ]
    for _ in range(MOST_ROUNDS if splits else 0):
        chosen = random.permutation(len(moves))[:MOST_MOVES]
        tried = [climb(moves[move](layout, best.parameters, random), FIRST_STEPS) for move in chosen.tolist()]
        tried.sort(key=lambda each: -each.history[-1])
        leaders = [climb(each.parameters, MORE_STEPS) for each in tried[:FOLLOWED]]
        leader = max(leaders, key=lambda each: each.history[-1])
        # As many steps without a move may lead as high.
        best = climb(best.parameters, FIRST_STEPS + MORE_STEPS)
        if not leader.history[-1] - best.history[-1] > GAIN * weight:
            return best
        best = leader
    return best


def _given_away(
    layout: ChainLayout, vector: Floats, random: np.random.Generator, channel: int, symbol: int, to: int
) -> Floats:
    """Return parameters by which a cell is shown by one state above all."""
    links, emissions = layout.tables(layout.mixed(vector, 1e-2))
    table = emissions[channel].copy()
    table[to, symbol] = table[:, symbol].max()
    table[np.arange(layout.states) != to, symbol] *= 0.01
    shown = [table if place == channel else each for place, each in enumerate(emissions)]
    return layout.vector(links, shown)


def _swapped(
    layout: ChainLayout, vector: Floats, random: np.random.Generator, channel: int, one: int, other: int
) -> Floats:
    """Return parameters by which each of two cells is shown by the states that showed the other."""
    links, emissions = layout.tables(layout.mixed(vector, 1e-2))
    table = emissions[channel].copy()
    sums = table.sum(axis=0)
    table[:, one], table[:, other] = (
        emissions[channel][:, other] * (sums[one] / sums[other]),
        emissions[channel][:, one] * (sums[other] / sums[one]),
    )
    shown = [table if place == channel else each for place, each in enumerate(emissions)]
    return layout.vector(links, shown)


def _split(layout: ChainLayout, vector: Floats, random: np.random.Generator, gone: int, split: int) -> Floats:
    """Return parameters without a state, and with two states in place of another."""
    links, emissions = layout.tables(layout.mixed(vector, 1e-3))
    places: Integers = np.arange(layout.states)
    places[gone] = split
    moved = []
    for table in links:
        # Both halves are entered half as often, and followed by the same but for chance.
        taken = table[np.ix_(*[places] * table.ndim)].copy()
        taken[..., [gone, split]] *= 0.5
        moved.append(taken * np.exp(0.1 * random.normal(size=taken.shape)))
    shown = []
    for table in emissions:
        taken = table[places].copy()
        noise = SPREAD * random.normal(size=table.shape[1])
        taken[gone] *= np.exp(noise)
        taken[split] *= np.exp(-noise)
        shown.append(taken)
    return layout.vector(moved, shown)
