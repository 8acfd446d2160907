"""How well a model predicts masked cells, whether it is calibrated, and which rows are anomalies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.viz.reports.evaluation_data import EvaluationData, MaskedCells

__all__ = [
    "Accuracy",
    "Anomaly",
    "CalibrationBin",
    "MaskedAccuracy",
    "UnexpectedCell",
    "anomalies",
    "calibration_bins",
    "masked_accuracy",
]

MOST_CELLS = 40_000
"""Most cells that are masked: whole rows of a table."""

MOST_SEQUENCE_CELLS = 2_000
"""Most cells of sequences that are masked; each takes a pass over its sequence for each label."""

BINS, SEED = 10, 0

MOST_ROWS = 10
MOST_UNEXPECTED = 4
ROUNDING = 1e-12
MOST_ANOMALOUS_CELLS = 4_000
"""Most cells of anomalous sequences that are masked."""


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
    """Return how well the model predicts masked cells; None where no cell is known."""
    cells = data.masked_cells(MOST_CELLS if data.starts is None else MOST_SEQUENCE_CELLS, SEED)
    count = len(cells.unit)
    if not count:
        return None
    columns = _accuracies(cells, data)
    bins = calibration_bins(cells.highest, cells.predicted == cells.code)
    return MaskedAccuracy(
        cells=count,
        known=int((~data.missing).sum()),
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


class UnexpectedCell(NamedTuple):
    """A cell of low probability given the rest of its row, the most probable label, and the probability of that."""

    column: str
    label: str
    step: int | None
    probability: float
    expected: str
    highest: float


class Anomaly(NamedTuple):
    """A row of low probability, or a sequence: `log_prob` is then per step.

    `cells` are the least probable first, and `like` is how many other rows have the same cells.
    """

    name: str
    log_prob: float
    cells: tuple[UnexpectedCell, ...]
    length: int | None = None
    like: int = 0


def anomalies(data: EvaluationData) -> tuple[Anomaly, ...]:
    """Return the rows of lowest probability, or sequences by the step, the lowest first; equal ones once."""
    scores = data.log_prob()
    lengths = None
    if data.starts is not None:
        lengths = np.diff(data.starts)
        scores = np.where(lengths > 0, scores / np.maximum(lengths, 1), np.inf)
    order, copies = _different(data, scores)
    if not len(order):
        return ()
    some = data.chosen(order)
    most = len(order) * len(data.columns.names) if lengths is None else MOST_ANOMALOUS_CELLS
    cells = some.masked_cells(most)
    found = []
    for place, unit in enumerate(order.tolist()):
        own = np.flatnonzero(cells.unit == place)
        least = own[np.argsort(cells.proba[own], kind="stable")][:MOST_UNEXPECTED]
        # What is most probable itself makes no row an anomaly.
        wrong = [at for at in least.tolist() if cells.predicted[at] != cells.code[at]]
        found.append(
            Anomaly(
                str(data.names[unit]),
                float(scores[unit]),
                tuple(_unexpected(data, cells, at) for at in wrong),
                None if lengths is None else int(lengths[unit]),
                copies[place],
            )
        )
    return tuple(found)


def _different(data: EvaluationData, scores: Floats) -> tuple[Integers, list[int]]:
    """Return the rows of lowest probability that differ, and how many others have the cells of each."""
    found: dict[bytes, list[int]] = {}
    highest = -np.inf
    for unit in np.argsort(scores, kind="stable").tolist():
        # What is more probable than all of these has other cells, up to rounding.
        full = len(found) == MOST_ROWS
        if not scores[unit] < np.inf or (full and scores[unit] > highest + ROUNDING * abs(highest)):
            break
        ends = (unit, unit + 1) if data.starts is None else data.starts[unit : unit + 2]
        cells = data.codes[slice(*ends)].tobytes()
        if cells in found:
            found[cells].append(unit)
        elif not full:
            found[cells], highest = [unit], scores[unit]
    return np.array([units[0] for units in found.values()], np.int64), [len(units) - 1 for units in found.values()]


def _unexpected(data: EvaluationData, cells: MaskedCells, at: int) -> UnexpectedCell:
    name = data.columns.names[cells.column[at]]
    labels = data.columns.labels(name)
    return UnexpectedCell(
        name,
        str(labels[cells.code[at]]),
        None if data.starts is None else int(cells.step[at]),
        float(cells.proba[at]),
        str(labels[cells.predicted[at]]),
        float(cells.highest[at]),
    )
