"""From tables that are partly known to a network: the others found beside them, then all learned together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.em.course import part_of
from eigentree.em.distinct import columns_with_gaps
from eigentree.em.frozen import completed
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.tree_objective import TreeObjective

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from eigentree.arrays import Floats
    from eigentree.em.distinct import DistinctRows
    from eigentree.engine.tables import TableKey
    from eigentree.exact.network import LatentNetwork
    from eigentree.structures.graph import LatentGraph

__all__ = ["finished"]

FIRST_PART = 2_000
"""Rows from which the tables that are not known are found, beside those that are."""

PARTS = ((4_000, 60), (16_000, 60), (64_000, 30))
"""Growing parts of the rows, and the steps that are taken on each before all rows are run."""

SOFTENING = 1e-5
"""The even share of every distribution after a part of the rows: what it lacks, others may have."""


def finished(
    graph: LatentGraph,
    rows: DistinctRows,
    known: Mapping[TableKey, Floats],
    steps: int,
    random: np.random.Generator,
    pseudo_counts: float,
) -> LatentNetwork:
    """Return the network that EM makes of rows from tables that are partly known.

    The known tables are kept while the others are found on a few rows. Then all are free, on growing parts of the
    rows and, for `steps` accelerated steps, on all of them. States of hidden variables come in canonical order.
    """
    gaps = columns_with_gaps(rows.codes, graph)

    def problem(size: int) -> TreeObjective:
        part = part_of(rows, size, random).rows if size < len(rows.weights) else rows
        return TreeObjective.of(graph, part, gaps, pseudo_counts, threads=1)

    parameters = completed(problem(FIRST_PART), known, random)
    stages = [(size, count) for size, count in PARTS if size < len(rows.weights)]
    for size, count in (*stages, (len(rows.weights), steps)):
        climbing = problem(size)
        start = climbing.layout.mixed(parameters, SOFTENING)
        for climb in em_run(climbing, start, Stopping("paper", 0.0), count, accelerate=True):
            parameters = climb.here.parameters
    return climbing.layout.network(parameters).ordered()
