"""Initialisers for hidden chains: pooled moments, clusters of windows, merged symbols, positions, chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from eigentree.em.init.classes import FLOOR
from eigentree.em.init.symbol_clustering import ROUNDING, exchanged, merged
from eigentree.em.optimize.stopping import SHORT_RUN
from eigentree.errors import RankError
from eigentree.inference.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.em.chain_fit import ChainObjective, SequenceObjective
    from eigentree.inference.sequences.sequence_passes import Symbols

__all__ = ["KINDS", "ChainKind", "first_steps", "parameters_of", "step_weights"]

ChainKind: TypeAlias = Literal["moments", "windows", "merged", "position", "random"]

MOST_FEATURES = 64
"""Most symbols, or pairs of neighbours, whose moments are looked at, or which are merged into states."""

REACH = 2
"""How many steps a window goes to either side."""


def _random(problem: ChainObjective, random: np.random.Generator) -> Floats:
    """Return tables at random, some of which like to stay in a state."""
    layout = problem.layout
    drawn = random.exponential(size=len(layout.possible))
    links, emissions = layout.tables(drawn)
    staying = random.choice([0.0, 1.0, 5.0]) * layout.states * np.eye(layout.states)
    return layout.vector([links[0], *(table + staying for table in links[1:])], emissions)


def _windows(problem: ChainObjective, random: np.random.Generator) -> Floats:
    """Return the tables of a mixture of windows, whose classes are taken for states."""
    cells, sizes = _window_cells(problem)
    classes = problem.layout.states
    first, sequence = _seeds(cells, classes, random), first_steps(problem)
    shares = np.full((len(cells), classes), FLOOR)
    alike = (cells[:, None, :] == cells[first]).mean(axis=2)
    shares[np.arange(len(cells)), (alike + 1e-6 * random.random(alike.shape)).argmax(axis=1)] = 1.0
    shares /= shares.sum(axis=1, keepdims=True)
    weights = step_weights(problem)
    for _ in range(SHORT_RUN):
        scores = np.log(weights @ shares + 1.0)[None, :].repeat(len(cells), axis=0)
        for column, size in enumerate(sizes):
            codes = cells[:, column]
            counts = np.stack(
                [np.bincount(codes, weights * shares[:, each], size + 1)[:size] for each in range(classes)]
            )
            logs = np.log((counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True))
            # The last is for what is missing, or beyond the ends.
            scores += np.column_stack([logs, np.zeros(classes)]).T[codes]
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=1, keepdims=True)
    return _of_shares(problem, shares, sequence)


def _merged(problem: ChainObjective, random: np.random.Generator) -> Floats:
    """Return the tables of states that are sets of symbols, or of pairs of neighbours.

    They are merged, and then exchanged, where that raises the likelihood of the transitions and emissions.
    """
    first, states = first_steps(problem), problem.layout.states
    symbols = problem.walk.symbols.steps.astype(np.int64)
    before = np.where(first, symbols, np.roll(symbols, 1))
    highest = int(symbols.max()) + 1
    units = [np.unique(codes, return_inverse=True)[1] for codes in (symbols, before * highest + symbols)]
    usable = [own for own in units if states < int(own.max()) + 1 <= MOST_FEATURES]
    if not usable:
        raise RankError("symbols and pairs of them are not more than states, or too many to be merged")
    unit = usable[int(random.integers(len(usable)))]
    weights, inside = step_weights(problem), ~first[1:]
    count = int(unit.max()) + 1
    follow: Floats = np.zeros((count, count))
    np.add.at(follow, (unit[:-1][inside], unit[1:][inside]), weights[1:][inside])
    shown: Floats = np.zeros((count, highest))
    np.add.at(shown, (unit, symbols), weights)
    group = exchanged(follow, shown, merged(follow, shown, states, random.random(), random))
    return _of_shares(problem, np.eye(states)[group[unit]], first)


def _position(problem: ChainObjective, random: np.random.Generator) -> Floats:
    """Return tables in which states follow each other from the first steps of sequences to the last."""
    lengths = np.diff(problem.walk.starts)
    where = (np.arange(lengths.sum()) - np.repeat(problem.walk.starts[:-1], lengths)) / np.repeat(lengths, lengths)
    shares = np.full((len(where), problem.layout.states), 0.1) + 0.1 * random.random((1, problem.layout.states))
    shares[np.arange(len(where)), (where * problem.layout.states).astype(np.int64)] += 1.0
    shares /= shares.sum(axis=1, keepdims=True)
    return _of_shares(problem, shares, first_steps(problem))


def _moments(problem: ChainObjective, random: np.random.Generator) -> Floats:
    """Return method-of-moments estimates from pooled counts of three neighbours (Hsu et al. 2009, Anandkumar 2012).

    Given the state of a step, what is shown before, at and after it is independent, so the matrices of what comes
    before and after, one for each symbol shown between, are diagonal in the same basis: that of the states.
    """
    states, symbols = problem.layout.states, problem.walk.symbols
    whole = np.flatnonzero((symbols.lines < np.array(symbols.states)).all(axis=1))
    without = RankError("symbols are too few or too many for moments to distinguish the states")
    if not 1 < len(whole) <= MOST_FEATURES:
        raise without
    counts = _triples(problem, whole)
    with one_thread():
        left, values, right = np.linalg.svd(counts.sum(axis=0))
        if len(values) < states or not values[states - 1] > ROUNDING * values[0]:
            raise without
        cut = (left[:, :states].T @ counts @ right[:states].T) / values[:states]
        _, basis = np.linalg.eig(np.tensordot(random.normal(size=len(whole)), cut, 1))
        basis = basis.real + basis.imag
        if np.linalg.cond(basis) > 1.0 / ROUNDING:
            raise without
        shown = np.einsum("ij,sjk,ki->is", np.linalg.inv(basis), cut, basis)
    table = np.zeros((states, len(symbols.lines)))
    table[:, whole] = np.clip(shown, 0.0, None)
    return _of_symbols(problem, symbols, table, whole)


def _triples(problem: ChainObjective, whole: Integers) -> Floats:
    """Return how often what is shown after and before a step goes with its symbol, shape (symbols, after, before).

    Where symbols are few, two steps to either side are taken together.
    """
    count, walk = len(whole), problem.walk
    reach = 2 if count * count <= MOST_FEATURES else 1
    places = np.full(len(walk.symbols.lines), -1)
    places[whole] = np.arange(count)
    codes, sequence = places[walk.symbols.steps], np.repeat(np.arange(len(walk.weights)), np.diff(walk.starts))
    middle = np.arange(reach, max(reach, len(codes) - reach))
    inside = sequence[middle - reach] == sequence[middle + reach]
    for away in range(-reach, reach + 1):
        inside &= codes[middle + away] >= 0
    middle = middle[inside]
    before, after = codes[middle - 1], codes[middle + 1]
    if reach == 2:
        before, after = codes[middle - 2] * count + before, after * count + codes[middle + 2]
    size = count**reach
    cells = (codes[middle] * size + after) * size + before
    found: Floats = np.bincount(cells, walk.weights[sequence[middle]], count * size * size).astype(np.float64)
    return found.reshape(count, size, size)


def _of_symbols(problem: ChainObjective, symbols: Symbols, table: Floats, whole: Integers) -> Floats:
    """Return tables with these probabilities of symbols, and the transitions that follow from pairs of steps."""
    states = problem.layout.states
    used = table.sum(axis=1, keepdims=True)
    table = np.divide(table, used, out=np.full_like(table, 1.0 / table.shape[1]), where=used > 0)
    steps, inside = symbols.steps.astype(np.int64), ~first_steps(problem)[1:]
    pairs = np.zeros((len(symbols.lines),) * 2)
    np.add.at(pairs, (steps[:-1][inside], steps[1:][inside]), step_weights(problem)[1:][inside])
    with one_thread():
        inverse = np.linalg.pinv(table[:, whole])
        joint = np.clip(inverse.T @ pairs[np.ix_(whole, whole)] @ inverse, 0.0, None)
    totals = joint.sum(axis=1, keepdims=True)
    follow = np.divide(joint, totals, out=np.full_like(joint, 1.0 / states), where=totals > 0)
    return parameters_of(problem, np.full(states, 1.0 / states), follow, symbols.channel_counts(table.T))


def _of_shares(problem: ChainObjective, shares: Floats, first: Booleans) -> Floats:
    """Return the tables that follow from how much each step belongs to each state."""
    weights = step_weights(problem)[:, None]
    inside = ~first[1:]
    follow = (weights[1:] * shares[:-1])[inside].T @ shares[1:][inside]
    counts = np.zeros((len(problem.walk.symbols.lines), shares.shape[1]))
    np.add.at(counts, problem.walk.symbols.steps, weights * shares)
    start = (weights * shares)[first].sum(axis=0)
    return parameters_of(problem, start, follow, problem.walk.symbols.channel_counts(counts))


def parameters_of(problem: SequenceObjective, start: Floats, follow: Floats, emissions: list[Floats]) -> Floats:
    """Return the tables that follow from counts of first states, of pairs of states, and of what each shows."""
    layout = problem.layout
    shapes = [(layout.states,) * (earlier + 1) for earlier in range(1, layout.order + 1)]
    links = [start, *(np.broadcast_to(_mixed(follow), shape) for shape in shapes)]
    return layout.vector([_mixed(links[0]), *links[1:]], [_mixed(table) for table in emissions])


def _mixed(table: Floats) -> Floats:
    """Return distributions with a little of every state."""
    totals = table.sum(axis=-1, keepdims=True)
    even = np.full_like(table, 1.0 / table.shape[-1])
    shares: Floats = np.divide(table, totals, out=even.copy(), where=totals > 0)
    return (1.0 - FLOOR) * shares + FLOOR * even


def first_steps(problem: SequenceObjective) -> Booleans:
    """Return which steps are the first of their sequence."""
    first = np.zeros(int(problem.walk.starts[-1]), np.bool_)
    begins = problem.walk.starts[:-1]
    first[begins[np.diff(problem.walk.starts) > 0]] = True
    return first


def step_weights(problem: SequenceObjective) -> Floats:
    """Return how often each step counts."""
    return np.repeat(problem.walk.weights, np.diff(problem.walk.starts))


def _window_cells(problem: ChainObjective) -> tuple[Integers, list[int]]:
    """Return the codes around each step, shape (steps, places · channels), and the states of each column."""
    symbols, starts = problem.walk.symbols, problem.walk.starts
    lengths = np.diff(starts)
    begin, end = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
    here = np.arange(len(begin))
    cells, sizes = [], []
    for away in range(-REACH, REACH + 1):
        there = np.clip(here + away, begin, end - 1)
        beyond = there != here + away
        lines = symbols.lines[symbols.steps[there]]
        for channel, size in enumerate(symbols.states):
            cells.append(np.where(beyond, size, lines[:, channel]))
            sizes.append(size)
    return np.stack(cells, axis=1), sizes


def _seeds(cells: Integers, classes: int, random: np.random.Generator) -> Integers:
    """Return windows that differ from each other, sampled in proportion to squared distances from those before."""
    chosen = [int(random.integers(len(cells)))]
    apart = (cells != cells[chosen[0]]).mean(axis=1)
    for _ in range(classes - 1):
        chances = apart**2 + 1e-12
        chosen.append(int(random.choice(len(cells), p=chances / chances.sum())))
        apart = np.minimum(apart, (cells != cells[chosen[-1]]).mean(axis=1))
    return np.array(chosen)


KINDS: Mapping[ChainKind, Callable[[ChainObjective, np.random.Generator], Floats]] = {
    "moments": _moments,
    "windows": _windows,
    "merged": _merged,
    "position": _position,
    "random": _random,
}
"""The initialisers; one raises `RankError` when the sequences do not allow such a start."""
