"""From tables that are partly known to a network: the others found beside them, then all climbed together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.climbing import Problem, Stopping, climbed
from eigentree.em.distinct import DistinctRows, columns_with_gaps
from eigentree.em.expectation import Expectation
from eigentree.em.frozen import completed, softened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats
    from eigentree.engine.tables import TableKey
    from eigentree.exact.network import LatentNetwork
    from eigentree.structures.graph import LatentGraph

__all__ = ["finished", "part_of"]

FIRST_PART = 2_000
"""Rows from which the tables that are not known are found, beside those that are."""

PARTS = ((8_000, 30), (32_000, 40))
"""Growing parts of the rows, and the steps that are taken on each before all rows are climbed."""

SOFTENING = 1e-5
"""The even share of every distribution after a part of the rows: what it lacks, others may have."""


def part_of(rows: DistinctRows, count: int, random: np.random.Generator) -> DistinctRows:
    """Return about so many rows, drawn as often as they weigh, or all where there are no more."""
    total = float(rows.weights.sum())
    if len(rows.weights) <= count:
        return rows
    weights: Floats = random.multinomial(count, rows.weights / total) * np.float64(total / count)
    drawn = np.flatnonzero(weights)
    return DistinctRows(np.asfortranarray(rows.codes[drawn]), weights[drawn], rows.first[drawn])


def finished(
    graph: LatentGraph,
    rows: DistinctRows,
    known: Mapping[TableKey, Floats],
    steps: int,
    random: np.random.Generator,
    pseudo_counts: float = 0.0,
    threads: int = 1,
) -> LatentNetwork:
    """Return the network that EM makes of rows from tables that are partly known.

    The known tables are kept while the others are found on a few rows. Then all are free, on growing parts of the
    rows and, for `steps` accelerated steps, on all of them.
    """
    gaps = columns_with_gaps(rows.codes, graph)

    def problem(part: DistinctRows) -> Problem:
        expectation = Expectation.of(graph, gaps, len(part.codes))
        return Problem(expectation, expectation.coded(part.codes, part.weights), part.first, pseudo_counts, threads)

    parameters = completed(problem(part_of(rows, FIRST_PART, random)), known, random)
    stages = [(size, count) for size, count in PARTS if size < len(rows.weights)]
    for size, count in (*stages, (len(rows.weights), steps)):
        climbing = problem(part_of(rows, size, random))
        start = softened(climbing.layout, parameters, SOFTENING)
        for climb in climbed(climbing, start, Stopping("paper", 0.0), count, accelerate=True):
            parameters = climb.here.parameters
    return climbing.layout.network(parameters)
