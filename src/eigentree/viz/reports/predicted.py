"""How well a model predicts cells that were hidden from it: accuracy, and whether its probabilities come true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.markup.charts import Bin

if TYPE_CHECKING:
    from eigentree.viz.reports.given import Cells, Given

__all__ = ["Accuracy", "Predicted", "calibration_bins", "predicted_cells"]

MOST_CELLS = 40_000
"""Most cells that are hidden: whole rows of a table."""

MOST_SEQUENCE_CELLS = 2_000
"""Most cells of sequences that are hidden; each takes a pass over its sequence for each label."""

BINS = 10
SEED = 0


class Accuracy(NamedTuple):
    """How well a column is predicted from the others.

    Attributes
    ----------
    column : str
    cells : int
    right : float
        The share of cells whose likeliest label is theirs.
    usual : float
        The share of the most frequent label among the same cells: what one gets right without looking.
    log_prob : float
        The mean log probability of the cells' own labels.
    """

    column: str
    cells: int
    right: float
    usual: float
    log_prob: float


@dataclass(frozen=True)
class Predicted:
    """How well cells are predicted from the other cells of their row.

    Attributes
    ----------
    cells, known : int
        How many cells were hidden, of how many that are known.
    units : int
        In how many rows or sequences.
    right, usual : float
        The share that the model gets right, and the share that the most frequent label of each column would.
    gap : float
        The mean difference between what was said and what came true, over bins, by their counts (expected
        calibration error of the likeliest label).
    bins : tuple of Bin
        By the probability of the likeliest label.
    columns : tuple of Accuracy
        Those first where the model adds most.
    """

    cells: int
    known: int
    units: int
    right: float
    usual: float
    gap: float
    bins: tuple[Bin, ...]
    columns: tuple[Accuracy, ...]


def predicted_cells(given: Given) -> Predicted | None:
    """Return how well the model predicts cells; None where no cell is known."""
    known = int((~given.missing).sum())
    cells = given.hidden_cells(MOST_CELLS if given.starts is None else MOST_SEQUENCE_CELLS, SEED)
    count = len(cells.unit)
    if not count:
        return None
    columns = _accuracies(cells, given)
    bins = calibration_bins(cells.highest, cells.likeliest == cells.code)
    return Predicted(
        cells=count,
        known=known,
        units=len(np.unique(cells.unit)),
        right=float((cells.likeliest == cells.code).mean()),
        usual=sum(one.usual * one.cells for one in columns) / count,
        gap=sum(one.cells * abs(one.predicted - one.right) for one in bins if one.cells) / count,
        bins=bins,
        columns=columns,
    )


def calibration_bins(said: np.ndarray, true: np.ndarray) -> tuple[Bin, ...]:
    """Return predictions by how likely they were said to be, in bins of equal width."""
    places = np.minimum((said * BINS).astype(np.int64), BINS - 1)
    found = []
    for place in range(BINS):
        own = places == place
        count = int(own.sum())
        right = float(true[own].mean()) if count else math.nan
        # Two more that came true and two that did not: one prediction alone is not certain of anything.
        middle = (float(true[own].sum()) + 2) / (count + 4)
        error = math.sqrt(middle * (1 - middle) / (count + 4)) if count else math.nan
        predicted = float(said[own].mean()) if count else math.nan
        found.append(Bin(place / BINS, (place + 1) / BINS, count, predicted, right, error))
    return tuple(found)


def _accuracies(cells: Cells, given: Given) -> tuple[Accuracy, ...]:
    found = []
    for column, name in enumerate(given.columns.names):
        own = cells.column == column
        codes = cells.code[own]
        if not len(codes):
            continue
        with np.errstate(divide="ignore"):
            log_prob = float(np.log(cells.right[own]).mean())
        usual = float(np.bincount(codes).max() / len(codes))
        right = float((cells.likeliest[own] == codes).mean())
        found.append(Accuracy(name, len(codes), right, usual, log_prob))
    return tuple(sorted(found, key=lambda one: (one.usual - one.right, one.column)))
