"""Rows in memory that stand for rows that are not: where a fit out of core begins, and where it ends."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from eigentree.data.streams.encoded_stream import StreamedRows
from eigentree.data.streams.partitions import Partitions
from eigentree.data.tables.weights import NO_WEIGHT, checked_weights
from eigentree.em.init.trees import FEW_PSEUDO_COUNTS
from eigentree.em.out_of_core.dask_workers import ClusterRows
from eigentree.em.out_of_core.on_disk import DiskRows
from eigentree.em.out_of_core.parted_rows import MEMORY_CELLS, sampled_numbers
from eigentree.em.smoothing import PSEUDO_COUNTS, ROWS_PER_PARAMETER
from eigentree.em.tree_fit import Finish
from eigentree.errors import DataError, ParameterError
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import ArrayLike

    from eigentree.arrays import Integers
    from eigentree.data.streams.encoded_stream import Encoded
    from eigentree.data.tables.rows import Rows
    from eigentree.em.constraints import Constraints
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.em.out_of_core.parted_rows import OutOfCoreRows, PartedRows

__all__ = ["EMSettings", "parted_rows", "sampled_places", "some_of", "tried_places"]

FINISH_ROWS, FINISH_ROWS_PER_PARAMETER = 1_000_000, 1_000
"""On how many rows the last run is by default, and how many at least for each entry of the tables: the chance
error, p / 2n nats per row, is then at most 1/2000."""

MEMORY_ROWS = 200_000
"""How many rows a search has in memory; more where that would be less than `ROWS_PER_PARAMETER`."""


class EMSettings(NamedTuple):
    """How an estimator runs EM; `stopping` makes the rule of so many rows, their weight and parameters."""

    stopping: Callable[[int, float, int], Stopping]
    max_iter: int
    pseudo_counts: float | Literal["auto"]
    validation_fraction: float
    n_init: int
    accelerate: bool
    threads: int
    constraints: Constraints
    finish_rows: int | Literal["auto"] | None

    @property
    def first_pseudo_counts(self) -> float:
        """The pseudo-counts that runs begin with, until they are chosen."""
        return PSEUDO_COUNTS[0] if isinstance(self.pseudo_counts, str) else float(self.pseudo_counts)

    @property
    def search_pseudo_counts(self) -> float:
        """The pseudo-counts of a search over sizes."""
        return FEW_PSEUDO_COUNTS if isinstance(self.pseudo_counts, str) else float(self.pseudo_counts)


def parted_rows(rows: Encoded) -> PartedRows:
    """Return the rows of a stream: where they lie, if these are partitions of a cluster, or else kept on disk."""
    if isinstance(rows, StreamedRows) and isinstance(rows.stream, Partitions):
        found: PartedRows = ClusterRows(rows.columns, rows.stream, rows.weight)
    else:
        found = DiskRows(rows)
    if not found.count:
        raise DataError("the data have no rows; give at least one")
    if not found.weight:
        raise DataError(NO_WEIGHT)
    return found


def some_of(
    rows: Rows, sample_weight: ArrayLike | None, size: int | str | None, random: np.random.Generator
) -> tuple[Rows, ArrayLike | None]:
    """Return so many of rows that are in memory, with their weights; all where there are no more, or no number."""
    if not isinstance(size, Integral):
        return rows, sample_weight
    weights = checked_weights(sample_weight, rows.count)
    if rows.count <= size:
        return rows, weights
    numbers = sampled_numbers(rows.count, int(size), random.spawn(1)[0])
    return rows.taken(numbers), None if weights is None else weights[numbers]


def sampled_places(
    rows: OutOfCoreRows, settings: EMSettings, parameters: int, width: int, random: np.random.Generator
) -> tuple[Integers, Finish | None]:
    """Return the numbers of the rows in memory, and where a fit that begins with them ends, if elsewhere."""
    count = _finished_on(settings.finish_rows, rows.count, parameters)
    size = min(count, _memory_rows(parameters, width))
    # A generator of its own where rows are sampled: a fit to all rows is the one that it would be in memory.
    draws = random if size == rows.count else random.spawn(1)[0]
    sample = sampled_numbers(rows.count, size, draws)
    if size == count:
        return sample, None
    if settings.validation_fraction:
        raise ParameterError(
            f"a share of {count:,} rows that are not in memory cannot be held out; give validation= rows of their "
            f"own, or finish_rows up to {size:,}"
        )
    numbers = sampled_numbers(rows.count, count, draws) if count < rows.count else None
    stopping = settings.stopping(count, rows.weight * count / rows.count, parameters)
    return sample, Finish(rows, count, numbers, stopping)


def tried_places(
    rows: OutOfCoreRows,
    settings: EMSettings,
    width: int,
    random: np.random.Generator,
    what: str,
    besides: str,
) -> Integers:
    """Return the numbers of the rows on which a search is; warn where a user who did not say so gets a sample."""
    finish_rows = settings.finish_rows
    most = int(finish_rows) if isinstance(finish_rows, Integral) else _memory_rows(0, width)
    count = min(rows.count, most)
    if count < rows.count and finish_rows is None:
        raise ParameterError(
            f"{what} tried on rows in memory, and {rows.count:,} are too many; give finish_rows a number, or a "
            f"structure of some size"
        )
    if count < rows.count and finish_rows == "auto":
        notice(
            f"{what} tried on a sample of {count:,} of the {rows.count:,} rows{besides}; finish_rows={count} says "
            f"that this is meant, another number takes so many",
            UserWarning,
        )
    draws = random if count == rows.count else random.spawn(1)[0]
    return sampled_numbers(rows.count, count, draws)


def _memory_rows(parameters: int, columns: int) -> int:
    """Return how many rows a search has in memory, for tables with so many entries."""
    return min(max(MEMORY_ROWS, ROWS_PER_PARAMETER * parameters), max(1, MEMORY_CELLS // columns))


def _finished_on(finish_rows: Any, rows: int, parameters: int) -> int:
    """Return on how many of the rows that are not in memory the last run is; warn where that is not given."""
    if finish_rows is None:
        return rows
    if isinstance(finish_rows, Integral):
        return min(rows, int(finish_rows))
    usual = max(FINISH_ROWS, FINISH_ROWS_PER_PARAMETER * parameters)
    if usual < rows:
        notice(
            f"EM finishes on a sample of {usual:,} of the {rows:,} rows, whose chance error is "
            f"{parameters / (2 * usual):.1g} nats per row; finish_rows={usual} says that this is meant, None takes "
            f"all rows",
            UserWarning,
        )
    return min(rows, usual)
