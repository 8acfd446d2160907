"""Baselines of a report: independent columns, a Chow-Liu tree; of sequences independent cells, Markov chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from eigentree.counting.learn_structure import learn_structure
from eigentree.counting.pair_counts import PairCounts
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.sequences.hmm_chain import Chain

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats, Integers
    from eigentree.viz.reports.evaluation_data import EvaluationData

__all__ = ["Learner", "baselines"]

Scorer: TypeAlias = "Callable[[EvaluationData], Floats]"
Learner: TypeAlias = "Callable[[EvaluationData], Scorer]"
"""What is fitted to rows or sequences, and returns what scores others."""

STRENGTHS = 10.0 ** np.arange(-2, 3.5, 0.5)
"""Pseudo-counts of the marginal distribution of a column, to choose from."""


def baselines(data: EvaluationData) -> list[tuple[str, Learner]]:
    """Return the baselines of rows or sequences, by name."""
    if data.starts is None:
        return [("independent columns", _independent), ("Chow-Liu tree of the columns", _chow_liu)]
    chains = "Markov chain" if len(data.columns.names) == 1 else "Markov chain of each channel"
    return [("independent cells", _independent_cells), (chains, _markov_chains)]


def _independent(data: EvaluationData) -> Scorer:
    """Return what scores each cell by the marginal of its column."""
    marginal = [_marginal(_counts(data, column)) for column in range(len(data.columns.names))]
    # A missing cell costs nothing.
    costs = [np.append(np.log(share), 0.0) for share in marginal]
    return lambda rows: np.asarray(sum(cost[rows.codes[:, column]] for column, cost in enumerate(costs)))


def _chow_liu(data: EvaluationData) -> Scorer:
    """Return what scores by the Chow-Liu tree of the columns, missing cells marginalised out."""
    plain = Columns(data.columns.names, data.columns.states)
    pairs = PairCounts.empty(plain).count(Rows.of_codes(data.codes, plain), None)
    graph = learn_structure(pairs, hidden_states=None)
    tables = {}
    for name in graph.names:
        column = plain.position(name)
        marginal = _marginal(_counts(data, column))
        parents = [plain.position(parent) for parent in graph.parents(name)]
        tables[name] = _smoothed(_pair_counts(data, parents[0], column), marginal) if parents else marginal
    network = LatentNetwork(graph, tables)
    order = [plain.position(name) for name in graph.observed]
    return lambda rows: network.log_prob(np.where(rows.missing, -1, rows.codes.astype(np.int64))[:, order])


def _independent_cells(data: EvaluationData) -> Scorer:
    """Return what scores each cell of sequences by the marginal of its channel."""
    steps = _independent(data)
    return lambda more: _by_sequence(steps(more), more)


def _markov_chains(data: EvaluationData) -> Scorer:
    """Return what scores each channel by a Markov chain of its own, missing cells marginalised out."""
    chains = [_markov_chain(data, channel) for channel in range(len(data.columns.names))]

    def scored(more: EvaluationData) -> Floats:
        total = np.zeros(more.count)
        for channel, chain in enumerate(chains):
            own = np.asfortranarray(more.codes[:, [channel]])
            total += chain.log_prob(Sequences(chain.columns, own, more.sequences.starts))
        return total

    return scored


def _markov_chain(data: EvaluationData, channel: int) -> Chain:
    """Return the Markov chain of a channel, as a hidden one whose states are observed."""
    states, starts = data.columns.states[channel], data.sequences.starts
    codes = data.codes[:, channel].astype(np.int64)
    marginal = _marginal(_counts(data, channel))
    begins = starts[:-1][np.diff(starts) > 0]
    first = np.bincount(codes[begins], minlength=states + 1)[:states].astype(float)
    inside = np.ones(len(codes), np.bool_)
    inside[begins] = False
    after = np.flatnonzero(inside)
    links = (
        _smoothed(first[None], marginal)[0],
        _smoothed(_table(codes[after - 1], codes[after], states, states), marginal),
    )
    columns = Columns((data.columns.names[channel],), (states,))
    return Chain.of(columns, [links], [np.eye(states)])


def _counts(data: EvaluationData, column: int) -> Floats:
    """Return how often each state of a column occurs."""
    states = data.columns.states[column]
    return np.bincount(data.codes[:, column], minlength=states + 1)[:states].astype(float)


def _pair_counts(data: EvaluationData, one: int, other: int) -> Floats:
    """Return how often the states of two columns occur together."""
    codes = data.codes.astype(np.int64)
    return _table(codes[:, one], codes[:, other], data.columns.states[one], data.columns.states[other])


def _table(one: Integers, other: Integers, rows: int, columns: int) -> Floats:
    """Return how often codes occur together; the code after the last is a missing cell, which does not count."""
    flat = np.bincount(one * (columns + 1) + other, minlength=(rows + 1) * (columns + 1))
    return flat.reshape(rows + 1, columns + 1)[:rows, :columns].astype(float)


def _marginal(counts: Floats) -> Floats:
    """Return the marginal distribution of a column, shrunk toward the uniform one so that nothing is impossible."""
    return np.asarray(_smoothed(counts[None], np.full(len(counts), 1.0 / len(counts)))[0])


def _smoothed(counts: Floats, toward: Floats) -> Floats:
    """Return the distribution of each row of counts, shrunk toward one by leave-one-out likelihood."""

    def left_out(strength: float) -> float:
        left = np.maximum(counts - 1, 0) + strength * toward
        totals = np.maximum(counts.sum(axis=1, keepdims=True) - 1, 0) + strength
        return float((counts * np.log(left / totals)).sum())

    best = max(STRENGTHS.tolist(), key=left_out)
    tables: Floats = (counts + best * toward) / (counts.sum(axis=1, keepdims=True) + best)
    return tables


def _by_sequence(steps: Floats, data: EvaluationData) -> Floats:
    """Return the sum over the steps of each sequence."""
    ends = np.concatenate([[0.0], np.cumsum(steps)])
    starts = data.sequences.starts
    total: Floats = ends[starts[1:]] - ends[starts[:-1]]
    return total
