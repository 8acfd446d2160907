"""How probable rows are under a model, compared with baselines on the same footing: held-out, or in-sample.

Baselines are independent columns and a Chow-Liu tree; of sequences independent cells and Markov chains.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.counting.structure_and_schema import learn_structure
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.errors import DataError, EigentreeError
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.viz.reports.evaluation_data import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats, Integers
    from eigentree.viz.reports.evaluation_data import EvaluationData

__all__ = ["Baseline", "Likelihoods", "baselines", "likelihoods_of"]

Scorer: TypeAlias = "Callable[[EvaluationData], Floats]"
Learner: TypeAlias = "Callable[[EvaluationData], Scorer]"
"""What is fitted to rows or sequences, and returns what scores others."""

MOST_COMPARED = 20_000
"""Most rows or sequences on which models are compared."""

FOLDS, SEED = 5, 0


class Baseline(NamedTuple):
    """A baseline on the same rows, with its mean log probability.

    `ahead` is by how much the model's own is higher, in the mean over the rows that are possible under both, and
    `error` the standard error of that difference.
    """

    name: str
    mean: float
    ahead: float
    error: float


@dataclass(frozen=True)
class Likelihoods:
    """How probable `count` of the `given` rows or sequences are; `impossible` of them are so under the model.

    `baselines` have not seen the rows that they score: they were fitted to `learned` rows, of the training data
    (`held_out`), or of the others in cross-validation. Those `in_sample` were fitted to the very rows that they
    score, as the model may have been; there are none where training data were given. `absent` are baselines that
    could not be fitted, with the reason.
    """

    count: int
    given: int
    mean: float
    error: float
    impossible: int
    baselines: tuple[Baseline, ...]
    in_sample: tuple[Baseline, ...]
    learned: int
    held_out: bool
    absent: tuple[tuple[str, str], ...] = ()


def likelihoods_of(data: EvaluationData, training: EvaluationData | None = None) -> Likelihoods:
    """Return how probable rows are under the model and under baselines.

    Baselines are fitted to the training data; without any they are cross-validated on the rows, and fitted to them.
    """
    some = data.chosen(sampled(data.count, MOST_COMPARED, SEED))
    own = some.log_prob()
    known = None if training is None else training.chosen(sampled(training.count, MOST_COMPARED, SEED))
    absent: dict[str, str] = {}

    def compared(score: Callable[[Learner], Floats]) -> tuple[Baseline, ...]:
        found = []
        for name, learn in baselines(some):
            try:
                with warnings.catch_warnings():
                    # These would be about fits that the user did not make.
                    warnings.simplefilter("ignore")
                    scores = score(learn)
            except EigentreeError as error:
                absent[name] = str(error)
                continue
            both = np.isfinite(own) & np.isfinite(scores)
            ahead = _mean_and_error(own[both] - scores[both])
            found.append(Baseline(name, float(scores.mean()), *ahead))
        return tuple(found)

    unseen = compared(lambda learn: _cross_validated(learn, some) if known is None else learn(known)(some))
    mean, error = _mean_and_error(own)
    return Likelihoods(
        count=some.count,
        given=data.count,
        mean=mean,
        error=error,
        impossible=int(np.isneginf(own).sum()),
        baselines=unseen,
        in_sample=compared(lambda learn: learn(some)(some)) if known is None else (),
        learned=some.count - math.ceil(some.count / FOLDS) if known is None else known.count,
        held_out=training is not None,
        absent=tuple(absent.items()),
    )


def _mean_and_error(values: Floats) -> tuple[float, float]:
    if not len(values):
        return math.nan, math.nan
    if not np.isfinite(values).all():
        return float(values.mean()), math.nan
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(values.mean()), error


def _cross_validated(learn: Learner, data: EvaluationData) -> Floats:
    """Return how probable each row is under a baseline that was fitted to other parts of the rows."""
    if data.count < 2:
        raise DataError("there is one row only, and none other to learn from")
    order = np.random.default_rng(SEED).permutation(data.count)
    scores = np.empty(data.count)
    for part in np.array_split(order, min(FOLDS, data.count)):
        rest = np.setdiff1d(order, part)
        scores[np.sort(part)] = learn(data.chosen(rest))(data.chosen(np.sort(part)))
    return scores


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
    """Return the distribution of each row of counts, with one pseudo-count that is spread like another one."""
    tables: Floats = (counts + toward) / (counts.sum(axis=1, keepdims=True) + 1)
    return tables


def _by_sequence(steps: Floats, data: EvaluationData) -> Floats:
    """Return the sum over the steps of each sequence."""
    ends = np.concatenate([[0.0], np.cumsum(steps)])
    starts = data.sequences.starts
    total: Floats = ends[starts[1:]] - ends[starts[:-1]]
    return total
