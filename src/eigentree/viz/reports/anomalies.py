"""Anomalies: the rows of lowest probability, and which of their cells make them so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.viz.reports.evaluation_data import EvaluationData, MaskedCells

__all__ = ["Anomaly", "UnexpectedCell", "anomalies"]

MOST_ROWS = 10
MOST_CELLS = 4
ROUNDING = 1e-12
MOST_SEQUENCE_CELLS = 4_000
"""Most cells of anomalous sequences that are masked."""


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
    most = len(order) * len(data.columns.names) if lengths is None else MOST_SEQUENCE_CELLS
    cells = some.masked_cells(most)
    found = []
    for place, unit in enumerate(order.tolist()):
        own = np.flatnonzero(cells.unit == place)
        least = own[np.argsort(cells.proba[own], kind="stable")][:MOST_CELLS]
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
