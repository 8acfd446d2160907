"""Expected counts for people: what rows say of each table of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import positive_weights
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.errors import DataError, quoted
from eigentree.inference.networks.network import LatentNetwork
from eigentree.validation import MOST_THREADS, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats

__all__ = ["expected_counts"]


@our_arithmetic
def expected_counts(
    network: LatentNetwork, X: ArrayLike | Any, sample_weight: ArrayLike | None = None, n_jobs: int = 1
) -> dict[Any, LabeledTable]:
    """Return how often each cell of each table is expected to have been used, given rows (the E-step).

    Hidden variables and missing cells count by their posterior, so that each table adds up to the number of rows.
    Tables of hidden variables that no observed one depends on are left out. Numbers have no tables, and count as
    evidence.

    Parameters
    ----------
    network : LatentNetwork
    X : array-like of shape (rows, columns), a data frame, or rows of letters
        Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
    sample_weight : array-like of shape (rows,), optional
        How often each row counts.
    n_jobs : int
        Threads that share the rows.

    Returns
    -------
    dict
        By the keys of ``network.tables``, with the same axes.

    Raises
    ------
    DataError
        When a row is impossible (it has no posterior), or no row has a positive weight.

    Examples
    --------
    >>> from eigentree import LatentNetwork, zoo
    >>> network = LatentNetwork.random(zoo.mixture(columns=3, hidden_states=2), seed=0)
    >>> counts = expected_counts(network, [[0, 1, 1], [0, 0, -1]])
    >>> counts["x0"].array.sum(axis=0).round(6).tolist()
    [2.0, 0.0]
    """
    threads = whole_number("n_jobs", n_jobs, most=MOST_THREADS)
    if not isinstance(network, LatentNetwork):
        raise DataError(f"expected counts are those of a LatentNetwork, not of {quoted(network)}")
    rows = Rows.of(X, network.columns)
    weights = positive_weights(sample_weight, rows.count)
    totals: dict[Any, tuple[tuple[str, ...], Floats]] = {}
    for first, known, codes in _evidence(network, rows):
        own = weights[first : first + len(codes)]
        if not own.any():
            continue
        for key, (axes, counts) in _counted(known, codes, own, first, threads).items():
            if set(axes) <= set(network.graph.names):
                totals[key] = axes, counts + totals[key][1] if key in totals else counts
    return {key: LabeledTable(counts, axes, [*map(network.labels, axes)]) for key, (axes, counts) in totals.items()}


def _evidence(network: LatentNetwork, rows: Rows) -> Iterator[tuple[int, LatentNetwork, Codes]]:
    """Yield rows as codes of a discrete network: the number of the first one, the network, and the codes."""
    if not network.all_emissions:
        yield 0, network, rows.encode()
        return
    for part, known, codes, _ in network.evidence(rows, len(network.columns.names)):
        yield part.start, known, codes


def _counted(
    network: LatentNetwork, codes: Codes, weights: Floats, first: int, threads: int
) -> dict[Any, tuple[tuple[str, ...], Floats]]:
    """Return the axes and the expected counts of each table; `first` is the number of the first row."""
    graph = network.graph
    distinct = DistinctRows.of(np.asfortranarray(codes), network.columns.states, weights)
    expectation = Expectation.of(graph, columns_with_missing(distinct.codes, graph), len(distinct.codes))
    layout = expectation.layout
    coded = expectation.coded(distinct.codes, distinct.weights)
    counts, _, impossible = expectation(layout.vector(network), coded, threads)
    if impossible >= 0:
        raise DataError(
            f"row {first + distinct.first[impossible]} has probability zero under this model, so its hidden "
            f"variables have no posterior; leave it out, or learn with pseudo_counts"
        )
    tables, axes = layout.tables(counts), layout.axes
    return {key[0] if graph.directed else key: (axes[key], tables[key]) for key in layout.learnable}
