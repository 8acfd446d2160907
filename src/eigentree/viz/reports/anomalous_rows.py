"""The rows of lowest probability, and their cells that are unexpected given the rest of the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.estimators.number_bins import shown_number, shown_spread
from eigentree.viz.reports.masked_numbers import masked_numbers

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.viz.reports.evaluation_data import EvaluationData, MaskedCells
    from eigentree.viz.reports.masked_numbers import MaskedNumbers

__all__ = ["Anomaly", "UnexpectedCell", "anomalies"]

MOST_ROWS = 10
MOST_UNEXPECTED = 4
ROUNDING = 1e-12

MOST_ANOMALOUS_CELLS = 4_000
"""Most cells of anomalous sequences that are masked."""

RARE = 0.01
"""A number is unexpected where as few are as far out at either end, or fewer."""


class UnexpectedCell(NamedTuple):
    """A cell of low probability given the rest of its row, the most probable label, and the probability of that.

    Of a number `probability` is that of all as far out at either end, and `expected` its mean with the standard
    deviation, for which `highest` is None.
    """

    column: str
    label: str
    step: int | None
    probability: float
    expected: str
    highest: float | None


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
    found: list[list[UnexpectedCell]] = [[] for _ in order]
    if data.categories:
        cells = some.masked_cells(most)
        # What is most probable itself makes no row an anomaly.
        for at in np.flatnonzero(cells.predicted != cells.code).tolist():
            found[cells.unit[at]].append(_unexpected(data, cells, at))
    for numbers in masked_numbers(some, most):
        for at in np.flatnonzero(numbers.beyond(RARE)).tolist():
            found[numbers.unit[at]].append(_unexpected_number(data, numbers, at))
    return tuple(
        Anomaly(
            str(data.names[unit]),
            float(scores[unit]),
            tuple(sorted(found[place], key=lambda cell: cell.probability)[:MOST_UNEXPECTED]),
            None if lengths is None else int(lengths[unit]),
            copies[place],
        )
        for place, unit in enumerate(order.tolist())
    )


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
        cells = data.codes[slice(*ends)].tobytes() + data.values[slice(*ends)].tobytes()
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


def _unexpected_number(data: EvaluationData, numbers: MaskedNumbers, at: int) -> UnexpectedCell:
    meaning = data.columns.meanings[data.columns.position(numbers.column)]
    value, mean, std = (float(each[at]) for each in (numbers.value, numbers.mean, numbers.std))
    return UnexpectedCell(
        numbers.column,
        shown_number(value, meaning),
        None if data.starts is None else int(numbers.step[at]),
        float(numbers.tail[at]),
        f"{shown_number(mean, meaning)} ± {shown_spread(std, meaning)}",
        None,
    )
