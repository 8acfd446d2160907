"""How well a model predicts masked cells: accuracy, and whether its probabilities are calibrated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Floats
    from eigentree.viz.reports.evaluation_data import EvaluationData, MaskedCells

__all__ = ["Accuracy", "CalibrationBin", "MaskedAccuracy", "calibration_bins", "masked_accuracy"]

MOST_CELLS = 40_000
"""Most cells that are masked: whole rows of a table."""

MOST_SEQUENCE_CELLS = 2_000
"""Most cells of sequences that are masked; each takes a pass over its sequence for each label."""

BINS, SEED = 10, 0


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
    """How well masked cells are predicted from the other cells of their row.

    Attributes
    ----------
    cells, known : int
        How many cells were masked, of how many that are known.
    units : int
        In how many rows or sequences.
    accuracy, usual : float
        The model's, and that of the most frequent label of each column.
    calibration_error : float
        Expected calibration error of the most probable label.
    bins : tuple of CalibrationBin
        By the probability of the most probable label.
    columns : tuple of Accuracy
        Those first where the model adds most.
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
