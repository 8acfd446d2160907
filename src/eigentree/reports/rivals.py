"""Simpler models that a model has to beat: independent columns and their tree, single cells and Markov chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from eigentree.counting.learned_structure import learn_structure
from eigentree.counting.pairs import PairCounts
from eigentree.data.columns import Columns
from eigentree.data.rows import Rows
from eigentree.data.sequences import Sequences
from eigentree.exact.chain import Chain
from eigentree.models.em import EMJunctionTree
from eigentree.structures.graph import LatentGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats
    from eigentree.reports.given import Given

__all__ = ["Learner", "simpler_models"]

Scorer: TypeAlias = "Callable[[Given], Floats]"
Learner: TypeAlias = "Callable[[Given], Scorer]"
"""What learns from rows or sequences, and leaves what scores others."""

STRENGTHS = 10.0 ** np.arange(-2, 3.5, 0.5)
"""How many steps the distribution of a channel alone may count as, beside the steps after a state."""


def simpler_models(given: Given) -> list[tuple[str, Learner]]:
    """Return simpler models for rows or sequences, by name."""
    if given.starts is None:
        return [("independent columns", _independent), ("Chow-Liu tree of the columns", _chow_liu)]
    chains = "Markov chain" if len(given.columns.names) == 1 else "Markov chain of each channel"
    return [("independent cells", _cells_alone), (chains, _markov_chains)]


def _independent(given: Given) -> Scorer:
    return _fitted(LatentGraph(dict(zip(given.columns.names, given.columns.states, strict=True)), [], []), given)


def _chow_liu(given: Given) -> Scorer:
    plain = Columns(given.columns.names, given.columns.states)
    pairs = PairCounts.empty(plain).count(Rows.of_codes(given.codes, plain), None)
    return _fitted(learn_structure(pairs, hidden_states=None), given)


def _fitted(graph: LatentGraph, given: Given) -> Scorer:
    """Return what scores by a graph without hidden variables; EM takes care of missing cells."""
    order = [given.columns.position(name) for name in graph.observed]

    def plain(rows: Given) -> Floats:
        return np.where(rows.missing, -1, rows.codes.astype(np.int64))[:, order]

    model = EMJunctionTree(graph, random_state=0).fit(plain(given))
    return lambda rows: model.score_samples(plain(rows))


def _cells_alone(given: Given) -> Scorer:
    """Return what scores each cell by its channel alone."""
    shares = [_alone(_known_counts(given, channel)) for channel in range(len(given.columns.names))]
    # A missing cell costs nothing.
    costs = [np.append(np.log(share), 0.0) for share in shares]

    def scored(more: Given) -> Floats:
        steps = sum(cost[more.codes[:, channel]] for channel, cost in enumerate(costs))
        return _by_sequence(np.asarray(steps), more)

    return scored


def _markov_chains(given: Given) -> Scorer:
    """Return what scores each channel by a Markov chain of its own, missing cells summed out."""
    chains = [_markov_chain(given, channel) for channel in range(len(given.columns.names))]

    def scored(more: Given) -> Floats:
        total = np.zeros(more.count)
        for channel, chain in enumerate(chains):
            own = np.asfortranarray(more.codes[:, [channel]])
            total += chain.log_prob(Sequences(chain.columns, own, more.sequences.starts))
        return total

    return scored


def _markov_chain(given: Given, channel: int) -> Chain:
    """Return the Markov chain of a channel, as a hidden one whose states are shown."""
    states, starts = given.columns.states[channel], given.sequences.starts
    codes = given.codes[:, channel].astype(np.int64)
    alone = _alone(_known_counts(given, channel))
    first = np.bincount(codes[starts[:-1][np.diff(starts) > 0]], minlength=states + 1)[:states]
    inside = np.ones(len(codes), np.bool_)
    inside[starts[:-1][starts[:-1] < len(codes)]] = False
    pairs = np.zeros((states + 1, states + 1))
    after = np.flatnonzero(inside)
    np.add.at(pairs, (codes[after - 1], codes[after]), 1.0)
    links = (_smoothed(first[None, :].astype(float), alone)[0], _smoothed(pairs[:states, :states], alone))
    columns = Columns((given.columns.names[channel],), (states,))
    return Chain.of(columns, [links], [np.eye(states)])


def _known_counts(given: Given, channel: int) -> Floats:
    states = given.columns.states[channel]
    return np.bincount(given.codes[:, channel], minlength=states + 1)[:states].astype(float)


def _alone(counts: Floats) -> Floats:
    """Return the distribution of a channel alone; half a cell more of each state, so that none is impossible."""
    return np.asarray((counts + 0.5) / (counts + 0.5).sum())


def _smoothed(counts: Floats, alone: Floats) -> Floats:
    """Return the distribution of each row of counts, drawn toward one as far as makes left-out steps likeliest."""

    def left_out(strength: float) -> float:
        left = np.maximum(counts - 1, 0) + strength * alone
        totals = np.maximum(counts.sum(axis=1, keepdims=True) - 1, 0) + strength
        return float((counts * np.log(left / totals)).sum())

    best = max(STRENGTHS.tolist(), key=left_out)
    tables: Floats = (counts + best * alone) / (counts.sum(axis=1, keepdims=True) + best)
    return tables


def _by_sequence(steps: Floats, given: Given) -> Floats:
    """Return the sum over the steps of each sequence."""
    ends = np.concatenate([[0.0], np.cumsum(steps)])
    starts = given.sequences.starts
    total: Floats = ends[starts[1:]] - ends[starts[:-1]]
    return total
