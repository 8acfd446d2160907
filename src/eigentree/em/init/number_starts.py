"""Initialisers for hidden chains with number channels: clusters of steps or windows, and what symbols have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from eigentree.core.sequences.state_posteriors import smooth_steps
from eigentree.em.init.chains import KINDS, first_steps, parameters_of, step_weights
from eigentree.em.init.k_means import k_means
from eigentree.inference.sequences.number_steps import value_places
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eigentree.arrays import Floats, Integers
    from eigentree.em.init.chains import ChainKind
    from eigentree.em.number_chains import NumberChainObjective

__all__ = ["NUMBER_KINDS", "NumberStart", "standardised"]

NumberStart: TypeAlias = Literal["clusters"]

FURTHEST = 4.0
"""Standard deviations from the mean beyond which cells count as that far, lest outliers be clusters."""

NEIGHBOUR = 0.5
"""The weight of a neighbouring step's cells in a window."""

SURE = 0.9
"""How much a step belongs to the state of its cluster; the rest is shared by all, as clusters are a guess."""

SYMBOLS = 32
"""Clusters of steps that stand for symbols; moments and mergers know up to 64, and pairs of states need several."""

STAYING = (0.0, 1.0, 5.0)
"""How much more likely a random start stays in a state than moves to any other."""


def _clusters(problem: NumberChainObjective, random: np.random.Generator, windows: bool) -> Floats:
    """Return the parameters of states that are clusters of steps, or of steps with their neighbours."""
    cells = _standardised(problem)
    if windows:
        cells = np.hstack([cells, *(NEIGHBOUR * _moved(problem, cells, away) for away in (-1, 1))])
    own = k_means(cells, step_weights(problem), problem.layout.states, random)
    return _of_shares(problem, _uncertain(own, problem.layout.states))


def _random(problem: NumberChainObjective, random: np.random.Generator) -> Floats:
    """Return the parameters of states that are about single steps, some of which like to stay in a state."""
    states = problem.layout.states
    own = k_means(_standardised(problem), step_weights(problem), states, random, iterations=1)
    vector = _of_shares(problem, _uncertain(own, states))
    tables, emissions = problem.layout.split(vector)
    shown = problem.layout.tables(tables)[1]
    moves = random.exponential(size=(states, states)) + random.choice(STAYING) * states * np.eye(states)
    made = parameters_of(problem, random.exponential(size=states), moves, shown)
    return problem.layout.whole(made, emissions)


def _position(problem: NumberChainObjective, random: np.random.Generator) -> Floats:
    """Return parameters in which states follow each other from the first steps of sequences to the last."""
    states = problem.layout.states
    return _of_shares(problem, _uncertain((_where(problem) * states).astype(np.int64), states))


def _of_symbols(problem: NumberChainObjective, random: np.random.Generator, kind: ChainKind) -> Floats:
    """Return the parameters that an initialiser finds where clusters of steps are symbols."""
    from eigentree.em.chain_fit import ChainLayout, ChainObjective

    layout, walk = problem.layout, problem.walk
    weights = step_weights(problem)
    symbols = min(SYMBOLS, int((weights > 0).sum()))
    codes = k_means(_standardised(problem), weights, symbols, random)[:, None]
    coarse = ChainLayout(layout.sizes, layout.order, (symbols,), layout.allowed, layout.starts)
    known = Symbols.of(np.asfortranarray(codes.astype(np.uint8)), [symbols])
    passed = SequencePass(known, walk.starts, walk.weights, walk.threads, walk.order)
    discrete = ChainObjective(coarse, passed, coarse.prior(0.0, 0.0))
    links, tables = coarse.tables(KINDS[kind](discrete, random))
    shares = smooth_steps(known.steps, walk.starts, known.emissions(tables), links)
    return _of_shares(problem, shares)


def _of_shares(problem: NumberChainObjective, shares: Floats) -> Floats:
    """Return the parameters that follow from how much each step belongs to each state."""
    layout, walk = problem.layout, problem.walk
    if not all(allowed.all() for allowed in layout.allowed):
        # Where states follow each other, they stand in the order in which steps show them.
        total = np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
        shares = shares[:, np.argsort(_where(problem) @ shares / total)]
    weights, first = step_weights(problem)[:, None], first_steps(problem)
    counts = weights * shares
    before, after = walk.pairs
    follow = shares[before].T @ counts[after]
    tables = []
    for place, size in enumerate(layout.channels):
        found = [np.bincount(walk.codes[:, place], own, size + 1)[:size] for own in counts.T]
        tables.append(np.stack(found).astype(np.float64))
    emissions = [
        emission.fitted(np.ascontiguousarray(walk.values[:, value_places(walk.columns, group)]), counts)
        for group, emission in layout.numbers.items()
    ]
    return layout.whole(parameters_of(problem, counts[first].sum(axis=0), follow, tables), emissions)


def _uncertain(own: Integers, states: int) -> Floats:
    shares = np.full((len(own), states), (1.0 - SURE) / states)
    shares[np.arange(len(own)), own] += SURE
    return shares


def _where(problem: NumberChainObjective) -> Floats:
    """Return how far each step is within its sequence, from 0 to before 1."""
    starts = problem.walk.starts
    lengths = np.diff(starts)
    place: Floats = (np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)) / np.repeat(lengths, lengths)
    return place


def _moved(problem: NumberChainObjective, cells: Floats, away: int) -> Floats:
    """Return the cells of each step's neighbour, its own at the end of a sequence."""
    starts = problem.walk.starts
    lengths = np.diff(starts)
    begin, end = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
    return cells[np.clip(np.arange(len(cells)) + away, begin, end - 1)]


def _standardised(problem: NumberChainObjective) -> Floats:
    """Return the cells of each step as coordinates: channels have the variance 1, missing cells their mean."""
    walk, weights = problem.walk, step_weights(problem)
    made = [standardised(walk.values, weights).clip(-FURTHEST, FURTHEST)]
    for place, size in enumerate(walk.columns.states):
        if size > 1:
            shown = (walk.codes[:, [place]] == np.arange(size)).astype(np.float64)
            share = np.average(shown, axis=0, weights=weights)
            spread = max(float(share.sum() - (share**2).sum()), np.finfo(np.float64).eps)
            made.append((shown - share) / np.sqrt(spread))
    return np.hstack(made)


def standardised(values: Floats, weights: Floats) -> Floats:
    """Return numbers with mean 0 and variance 1, missing ones at the mean."""
    known = ~np.isnan(values)
    weight = known * weights[:, None]
    total = np.maximum(weight.sum(axis=0), np.finfo(np.float64).tiny)
    filled = np.where(known, values, 0.0)
    mean = (weight * filled).sum(axis=0) / total
    apart = np.where(known, filled - mean, 0.0)
    spread = np.sqrt((weight * apart**2).sum(axis=0) / total)
    return np.asarray(apart / np.where(spread > 0, spread, 1.0))


NUMBER_KINDS: Mapping[str, Callable[[NumberChainObjective, np.random.Generator], Floats]] = {
    "clusters": partial(_clusters, windows=False),
    "windows": partial(_clusters, windows=True),
    "moments": partial(_of_symbols, kind="moments"),
    "merged": partial(_of_symbols, kind="merged"),
    "position": _position,
    "random": _random,
}
"""The initialisers; one raises `RankError` when the sequences do not allow such a start."""
