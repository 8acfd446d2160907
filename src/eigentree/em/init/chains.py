"""Initialisers for hidden chains: clusters of steps or windows, pooled moments, merged symbols, positions, chance.

A step is a point whose coordinates are its numbers and indicators of its categories. Clusters of steps with numbers
are symbols where an initialiser needs such.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from eigentree.core.sequences.forward_backward import smooth_steps
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.init.classes import FLOOR
from eigentree.em.init.k_means import k_means, standardised
from eigentree.em.init.symbol_clustering import ROUNDING, exchanged, merged
from eigentree.errors import RankError
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols
from eigentree.inference.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.em.chain_fit import ChainObjective
    from eigentree.em.number_chains import NumberChainObjective

    Problem: TypeAlias = ChainObjective | NumberChainObjective

__all__ = ["KINDS", "NUMBER_KINDS", "ChainKind"]

Scalar = TypeVar("Scalar", bound=np.generic)

ChainKind: TypeAlias = Literal["clusters", "windows", "moments", "merged", "position", "random"]

MOST_FEATURES = 64
"""Most symbols, or pairs of neighbours, whose moments are looked at, or which are merged into states."""

REACH = 2
"""How many steps a window of categories goes to either side."""

FURTHEST = 4.0
"""Standard deviations from the mean beyond which numbers count as that far, lest outliers be clusters."""

NEIGHBOUR = 0.5
"""The weight of a neighbouring step's cells in a window."""

SURE = 0.9
"""How much a step belongs to the state of its cluster; the rest is shared by all, as clusters are a guess."""

SYMBOLS = 32
"""Clusters of steps that stand for symbols; moments and mergers know up to 64, and pairs of states need several."""

STAYING = (0.0, 1.0, 5.0)
"""How much more likely a random start stays in a state than moves to any other."""


def _clusters(problem: NumberChainObjective, random: np.random.Generator, windows: bool = False) -> Floats:
    """Return the parameters of states that are clusters of steps, or of steps with their neighbours."""
    cells, states = _points(problem), problem.layout.states
    if windows:
        cells = np.hstack([cells, *(NEIGHBOUR * _moved(problem, cells, away) for away in (-1, 1))])
    return _of_shares(problem, _uncertain(k_means(cells, _step_weights(problem), states, random), states))


def _windows(problem: ChainObjective, random: np.random.Generator) -> Floats:
    """Return the tables of states that are classes of steps with their neighbours, by a mixture of these."""
    # Here, since it loads what else starts trees.
    from eigentree.em.init.trees import fitted_classes

    symbols, states = problem.walk.symbols, problem.layout.states
    cells = np.hstack([_moved(problem, symbols.lines[symbols.steps], away) for away in range(-REACH, REACH + 1)])
    sizes = symbols.states * (2 * REACH + 1)
    graph = LatentGraph({f"x{place}": size for place, size in enumerate(sizes)})
    rows = DistinctRows.of(np.asfortranarray(cells), sizes, _step_weights(problem))
    classes = fitted_classes(graph, rows, columns_with_missing(rows.codes, graph), states, random)
    scores = np.log(classes.shares) + np.zeros((len(cells), 1))
    for codes, table in zip(cells.T, classes.columns.values(), strict=True):
        scores += np.vstack([np.log(table.T), np.zeros(states)])[codes]
    return _of_shares(problem, np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)))


def _random(problem: Problem, random: np.random.Generator) -> Floats:
    """Return parameters at random, some of which like to stay in a state; numbers are about single steps."""
    layout = problem.layout
    links, shown = layout.tables(random.exponential(size=len(layout.possible)))
    staying = random.choice(STAYING) * layout.states * np.eye(layout.states)
    links = [links[0], *(table + staying for table in links[1:])]
    if isinstance(problem.walk, SequencePass):
        return layout.vector(links, shown)
    own = k_means(_points(problem), _step_weights(problem), layout.states, random, 1)
    tables, emissions = problem.parted(_of_shares(problem, _uncertain(own, layout.states)))
    return problem.whole(layout.vector(links, layout.tables(tables)[1]), emissions)


def _position(problem: Problem, random: np.random.Generator) -> Floats:
    """Return parameters in which states follow each other from the first steps of sequences to the last."""
    states = problem.layout.states
    return _of_shares(problem, _uncertain((_where(problem) * states).astype(np.int64), states))


def _by_symbols(
    problem: NumberChainObjective,
    random: np.random.Generator,
    make: Callable[[ChainObjective, np.random.Generator], Floats],
) -> Floats:
    """Return the parameters that an initialiser finds where clusters of steps are symbols."""
    from eigentree.em.chain_fit import ChainLayout, ChainObjective

    layout, walk, weights = problem.layout, problem.walk, _step_weights(problem)
    symbols = min(SYMBOLS, int((weights > 0).sum()))
    codes = k_means(_points(problem), weights, symbols, random)[:, None]
    coarse = ChainLayout(layout.sizes, layout.order, (symbols,), layout.allowed, layout.starts)
    known = Symbols.of(np.asfortranarray(codes.astype(np.uint8)), [symbols])
    passed = SequencePass(known, walk.starts, walk.weights, walk.threads, walk.order)
    discrete = ChainObjective(coarse, passed, coarse.prior(0.0, 0.0))
    links, tables = coarse.tables(make(discrete, random))
    return _of_shares(problem, smooth_steps(known.steps, walk.starts, known.emissions(tables), links))


def _merged(problem: ChainObjective, random: np.random.Generator) -> Floats:
    """Return the tables of states that are sets of symbols, or of pairs of neighbours.

    They are merged, and then exchanged, where that raises the likelihood of the transitions and emissions.
    """
    first, states = _first_steps(problem), problem.layout.states
    symbols = problem.walk.symbols.steps.astype(np.int64)
    before = np.where(first, symbols, np.roll(symbols, 1))
    highest = int(symbols.max()) + 1
    units = [np.unique(codes, return_inverse=True)[1] for codes in (symbols, before * highest + symbols)]
    usable = [own for own in units if states < int(own.max()) + 1 <= MOST_FEATURES]
    if not usable:
        raise RankError("symbols and pairs of them are not more than states, or too many to be merged")
    unit = usable[int(random.integers(len(usable)))]
    weights, inside = _step_weights(problem), ~first[1:]
    count = int(unit.max()) + 1
    follow: Floats = np.zeros((count, count))
    np.add.at(follow, (unit[:-1][inside], unit[1:][inside]), weights[1:][inside])
    shown: Floats = np.zeros((count, highest))
    np.add.at(shown, (unit, symbols), weights)
    group = exchanged(follow, shown, merged(follow, shown, states, random.random(), random))
    return _of_shares(problem, np.eye(states)[group[unit]])


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
    steps, inside = symbols.steps.astype(np.int64), ~_first_steps(problem)[1:]
    pairs = np.zeros((len(symbols.lines),) * 2)
    np.add.at(pairs, (steps[:-1][inside], steps[1:][inside]), _step_weights(problem)[1:][inside])
    with one_thread():
        inverse = np.linalg.pinv(table[:, whole])
        joint = np.clip(inverse.T @ pairs[np.ix_(whole, whole)] @ inverse, 0.0, None)
    totals = joint.sum(axis=1, keepdims=True)
    follow = np.divide(joint, totals, out=np.full_like(joint, 1.0 / states), where=totals > 0)
    return _parameters_of(problem, np.full(states, 1.0 / states), follow, symbols.channel_counts(table.T))


def _of_shares(problem: Problem, shares: Floats) -> Floats:
    """Return the parameters that follow from how much each step belongs to each state."""
    layout = problem.layout
    if not all(allowed.all() for allowed in layout.allowed):
        # Where states follow each other, they stand in the order in which steps show them.
        total = np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
        shares = shares[:, np.argsort(_where(problem) @ shares / total)]
    counts = _step_weights(problem)[:, None] * shares
    before, after = problem.walk.pairs
    tables, emissions = problem.shown(counts)
    start = counts[_first_steps(problem)].sum(axis=0)
    return problem.whole(_parameters_of(problem, start, shares[before].T @ counts[after], tables), emissions)


def _uncertain(own: Integers, states: int) -> Floats:
    shares = np.full((len(own), states), (1.0 - SURE) / states)
    shares[np.arange(len(own)), own] += SURE
    return shares


def _parameters_of(problem: Problem, start: Floats, follow: Floats, emissions: list[Floats]) -> Floats:
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


def _first_steps(problem: Problem) -> Booleans:
    """Return which steps are the first of their sequence."""
    first = np.zeros(int(problem.walk.starts[-1]), np.bool_)
    begins = problem.walk.starts[:-1]
    first[begins[np.diff(problem.walk.starts) > 0]] = True
    return first


def _step_weights(problem: Problem) -> Floats:
    """Return how often each step counts."""
    return np.repeat(problem.walk.weights, np.diff(problem.walk.starts))


def _where(problem: Problem) -> Floats:
    """Return how far each step is within its sequence, from 0 to before 1."""
    starts = problem.walk.starts
    lengths = np.diff(starts)
    place: Floats = (np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)) / np.repeat(lengths, lengths)
    return place


def _moved(problem: Problem, cells: NDArray[Scalar], away: int) -> NDArray[Scalar]:
    """Return the cells of each step's neighbour, its own at the end of a sequence."""
    starts = problem.walk.starts
    lengths = np.diff(starts)
    begin, end = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
    return cells[np.clip(np.arange(len(cells)) + away, begin, end - 1)]


def _points(problem: NumberChainObjective) -> Floats:
    """Return the cells of each step as coordinates: channels have the variance 1, missing cells their mean."""
    walk, weights = problem.walk, _step_weights(problem)
    made = [standardised(walk.values, weights).clip(-FURTHEST, FURTHEST)]
    for place, size in enumerate(walk.columns.states):
        if size > 1:
            shown = (walk.codes[:, [place]] == np.arange(size)).astype(np.float64)
            share = np.average(shown, axis=0, weights=weights)
            spread = max(float(share.sum() - (share**2).sum()), np.finfo(np.float64).eps)
            made.append((shown - share) / np.sqrt(spread))
    return np.hstack(made)


KINDS: Mapping[str, Callable[[Any, np.random.Generator], Floats]] = {
    "windows": _windows,
    "moments": _moments,
    "merged": _merged,
    "position": _position,
    "random": _random,
}
"""The initialisers for categories; one raises `RankError` when the sequences do not allow such a start."""

NUMBER_KINDS: Mapping[str, Callable[[Any, np.random.Generator], Floats]] = {
    **KINDS,
    "clusters": _clusters,
    "windows": partial(_clusters, windows=True),
    "moments": partial(_by_symbols, make=_moments),
    "merged": partial(_by_symbols, make=_merged),
}
"""Those for channels of which some are numbers."""
