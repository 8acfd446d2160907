"""How a model does on rows: their log probability beside that of baselines, masked cells, and anomalies.

Baselines are independent columns and a Chow-Liu tree; of sequences independent cells and Markov chains. Numbers are
normal there: each by itself, all together beside the tree of the categories, or given the number before. Baselines
are compared on the same footing as the model: held-out, or in-sample.
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
from eigentree.emissions.families import make
from eigentree.errors import DataError, EigentreeError
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.sequence_passes import sums_of_sequences
from eigentree.viz.reports.evaluation_data import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.emissions.base import Emission
    from eigentree.viz.reports.evaluation_data import EvaluationData, MaskedCells

__all__ = [
    "Accuracy",
    "Baseline",
    "CalibrationBin",
    "Likelihoods",
    "MaskedAccuracy",
    "baselines",
    "calibration_bins",
    "likelihoods_of",
    "masked_accuracy",
]

Scorer: TypeAlias = "Callable[[EvaluationData], Floats]"
Learner: TypeAlias = "Callable[[EvaluationData], Scorer]"
"""What is fitted to rows or sequences, and returns what scores others."""

MOST_COMPARED = 20_000
"""Most rows or sequences on which models are compared."""

FOLDS, BINS, SEED = 5, 10, 0

MOST_CELLS = 40_000
"""Most cells that are masked: whole rows of a table."""

MOST_SEQUENCE_CELLS = 2_000
"""Most cells of sequences that are masked; each takes a pass over its sequence for each label."""


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
    numbers, categories = data.adapter.numbers, data.categories
    if data.starts is None:
        tree = "Chow-Liu tree of the columns"
        if numbers:
            tree = "Chow-Liu tree and a normal distribution" if categories else "normal distribution of all columns"
        return [("independent columns", _independent), (tree, _together)]
    chains = "Markov chain" if len(data.columns.names) == 1 else "Markov chain of each channel"
    if numbers:
        chains = "Markov chain or normal autoregression of each channel" if categories else "normal autoregression"
    return [("independent cells", _independent), (chains, _markov_chains)]


def _independent(data: EvaluationData) -> Scorer:
    """Return what scores each cell by the marginal of its column, summed over rows or sequences."""
    columns = data.columns
    states = {columns.names[place]: columns.states[place] for place in data.categories}
    alone = [[place] for place in range(data.numbers.shape[1])]
    score = _scorer(data, LatentGraph(states, [], []) if states else None, alone)
    return lambda rows: score(rows) if rows.starts is None else sums_of_sequences(score(rows), rows.starts)


def _together(data: EvaluationData) -> Scorer:
    """Return what scores categories by their Chow-Liu tree, and numbers by one normal distribution."""
    tree = None
    if own := data.categories:
        plain = data.columns.only([data.columns.names[place] for place in own])
        rows = Rows.of_codes(np.asfortranarray(data.codes[:, own]), plain)
        tree = learn_structure(PairCounts.empty(plain).count(rows, None), hidden_states=None)
    return _scorer(data, tree, [list(range(data.numbers.shape[1]))] if data.adapter.numbers else [])


def _scorer(data: EvaluationData, graph: LatentGraph | None, groups: list[list[int]]) -> Scorer:
    """Return what scores categories by a graph, missing cells marginalised out, and groups of numbers as normal."""
    normal = [(own, _normal(data.numbers[:, own])) for own in groups]
    network, order, tables, codes = None, [], {}, data.codes.astype(np.int64)
    if graph is not None:
        order = [data.columns.position(name) for name in graph.observed]
        for name in graph.names:
            (column, *parents) = (data.columns.position(each) for each in (name, *graph.parents(name)))
            tables[name] = marginal = _marginal(_counts(data, column))
            for parent in parents:
                states = data.columns.states[parent], data.columns.states[column]
                tables[name] = _smoothed(_table(codes[:, parent], codes[:, column], *states), marginal)
        network = LatentNetwork(graph, tables)

    def scored(rows: EvaluationData) -> Floats:
        total = np.zeros(len(rows.codes))
        if network is not None:
            total += network.log_prob(np.where(rows.missing, -1, rows.codes.astype(np.int64))[:, order])
        for own, emission in normal:
            total += emission.log_prob(rows.numbers[:, own])[:, 0]
        return total

    return scored


def _normal(cells: Floats) -> Emission:
    """Return the normal distribution of some numbers, with their covariance."""
    return make("gaussian" if cells.shape[1] == 1 else "full", cells, np.ones(len(cells)), 1)


def _markov_chains(data: EvaluationData) -> Scorer:
    """Return what scores each channel by a Markov chain of its own, missing cells marginalised out."""
    chains = {channel: _markov_chain(data, channel) for channel in data.categories}
    normal = [_normal(_with_earlier(data, place)) for place in range(data.values.shape[1])]

    def scored(more: EvaluationData) -> Floats:
        total = np.zeros(more.count)
        for channel, chain in chains.items():
            own = np.asfortranarray(more.codes[:, [channel]])
            total += chain.log_prob(Sequences(chain.columns, own, more.sequences.starts))
        for place, both in enumerate(normal):
            cells = _with_earlier(more, place)
            earlier = np.where([False, True], np.nan, cells)
            each = (both.log_prob(cells) - both.log_prob(earlier))[:, 0]
            total += sums_of_sequences(each, more.sequences.starts)
        return total

    return scored


def _with_earlier(data: EvaluationData, place: int) -> Floats:
    """Return a number of each step beside that of the step before, which is missing at the first."""
    now, starts = data.values[:, place], data.sequences.starts
    before = np.roll(now, 1)
    before[starts[:-1][np.diff(starts) > 0]] = np.nan
    return np.stack([before, now], axis=1)


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


class CalibrationBin(NamedTuple):
    """Predictions with a probability from `low` to `high`.

    `predicted` is their mean probability, `correct` the share that was correct, and `error` the standard error of
    that share (Agresti and Coull).
    """

    low: float
    high: float
    cells: int
    predicted: float
    correct: float
    error: float


class Accuracy(NamedTuple):
    """How well a column is predicted from the others.

    `usual` is the share of the most frequent label among the same cells, the accuracy without any model, and
    `log_prob` the mean log probability of the cells' own labels.
    """

    column: str
    cells: int
    accuracy: float
    usual: float
    log_prob: float


@dataclass(frozen=True)
class MaskedAccuracy:
    """How well so many masked `cells`, of the `known` ones of so many rows or sequences (`units`), are predicted.

    `usual` is the accuracy of the most frequent label of each column, `bins` are by the probability of the most
    probable label, and `columns` are those first where the model adds most.
    """

    cells: int
    known: int
    units: int
    accuracy: float
    usual: float
    calibration_error: float
    bins: tuple[CalibrationBin, ...]
    columns: tuple[Accuracy, ...]


def masked_accuracy(data: EvaluationData) -> MaskedAccuracy | None:
    """Return how well the model predicts masked cells of categories; None where none is known."""
    if not data.categories:
        return None
    cells = data.masked_cells(MOST_CELLS if data.starts is None else MOST_SEQUENCE_CELLS, SEED)
    count = len(cells.unit)
    if not count:
        return None
    columns = _accuracies(cells, data)
    bins = calibration_bins(cells.highest, cells.predicted == cells.code)
    return MaskedAccuracy(
        cells=count,
        known=int((~data.missing[:, data.categories]).sum()),
        units=len(np.unique(cells.unit)),
        accuracy=float((cells.predicted == cells.code).mean()),
        usual=sum(one.usual * one.cells for one in columns) / count,
        calibration_error=sum(one.cells * abs(one.predicted - one.correct) for one in bins if one.cells) / count,
        bins=bins,
        columns=columns,
    )


def calibration_bins(proba: Floats, correct: Booleans) -> tuple[CalibrationBin, ...]:
    """Return predictions by their probability, in bins of equal width."""
    places = np.minimum((proba * BINS).astype(np.int64), BINS - 1)
    found = []
    for place in range(BINS):
        own = places == place
        count = int(own.sum())
        mean, share = (float(each[own].mean()) if count else math.nan for each in (proba, correct))
        # Two more that were correct and two that were not: one prediction alone is not certain of anything.
        middle = (float(correct[own].sum()) + 2) / (count + 4)
        error = math.sqrt(middle * (1 - middle) / (count + 4)) if count else math.nan
        found.append(CalibrationBin(place / BINS, (place + 1) / BINS, count, mean, share, error))
    return tuple(found)


def _accuracies(cells: MaskedCells, data: EvaluationData) -> tuple[Accuracy, ...]:
    found = []
    for column, name in enumerate(data.columns.names):
        own = cells.column == column
        codes = cells.code[own]
        if not len(codes):
            continue
        with np.errstate(divide="ignore"):
            log_prob = float(np.log(cells.proba[own]).mean())
        usual = float(np.bincount(codes).max() / len(codes))
        correct = float((cells.predicted[own] == codes).mean())
        found.append(Accuracy(name, len(codes), correct, usual, log_prob))
    return tuple(sorted(found, key=lambda one: (one.usual - one.accuracy, one.column)))
