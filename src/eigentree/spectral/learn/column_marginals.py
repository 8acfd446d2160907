"""Each column alone: what is put in place of what a fit cannot say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.spectral.learn.moments import CountedTables, joint_of

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.counting.counts import Counts, MomentSource
    from eigentree.graphs.graph import LatentGraph

__all__ = ["counted_marginals", "exact_marginals", "pseudo_rows"]


def pseudo_rows(graph: LatentGraph) -> float:
    """Return how many even pseudo-rows go with any shrinkage: half the mean number of states of a column.

    So infinite shrinkage, with variance scaling, is the product of the columns' marginals with 1/2 added to each
    count, where all columns have the same number of states, and on average else.
    """
    return sum(graph.states[name] for name in graph.observed) / len(graph.observed) / 2


def counted_marginals(counts: Counts, added: float) -> tuple[Floats, ...]:
    """Return the distribution of each column, some pseudo-rows added: it has no zeros if these are any."""
    tables = CountedTables(counts, added)
    return tuple(tables.marginal(column) for column in range(len(counts.columns.names)))


def exact_marginals(source: MomentSource, graph: LatentGraph) -> tuple[Floats, ...]:
    """Return the distribution of each column as a source knows it."""
    tables = (np.maximum(joint_of(source, [name]), 0.0) for name in graph.observed)
    return tuple(table / table.sum() for table in tables)
