"""Rows in memory that stand for rows that are not: what a fit begins with, and how many it ends with."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

from eigentree.data.streams.encoded_stream import StreamedRows
from eigentree.data.streams.partitions import Partitions
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import NO_WEIGHT, checked_weights
from eigentree.em.out_of_core.dask_workers import ClusterRows
from eigentree.em.out_of_core.large import finish_rows_for, race_rows_for, sampled_numbers
from eigentree.em.out_of_core.spooled import SpooledRows
from eigentree.em.parameters import ParameterLayout
from eigentree.errors import DataError, ParameterError
from eigentree.messages import notice
from eigentree.validation import whole_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats, Integers
    from eigentree.data.streams.encoded_stream import Encoded
    from eigentree.data.tables.columns import Columns
    from eigentree.em.out_of_core.large import FarRows
    from eigentree.graphs.graph import LatentGraph

__all__ = ["NearRows", "check_finish_rows", "far_rows", "near_rows", "searched_rows", "some_of"]

SEARCH_ROWS = 200_000
"""On how many rows sizes of a learned tree are tried unless told otherwise: each size is a fit of its own."""


class NearRows(NamedTuple):
    """Rows in memory that stand for rows that are not.

    Attributes
    ----------
    rows : Rows
    weights : (rows,)
    parameters : int
        How many entries of the tables are learned.
    finish_rows : int
        How many rows the last climb runs on.
    numbers : (finish_rows,), optional
        Which; by default all.
    is_last : bool
        Whether that climb runs on these rows themselves.
    """

    rows: Rows
    weights: Floats
    parameters: int
    finish_rows: int
    numbers: Integers | None = None
    is_last: bool = True


def far_rows(rows: Encoded) -> FarRows:
    """Return the rows of a stream: where they lie, if these are partitions of a cluster, or else kept on disk.

    Raises
    ------
    DataError
        When there are none, or none that counts.
    """
    if isinstance(rows, StreamedRows) and isinstance(rows.stream, Partitions):
        found: FarRows = ClusterRows(rows.columns, rows.stream, rows.weight)
    else:
        found = SpooledRows(rows)
    if not found.count:
        raise DataError("the data have no rows; give at least one")
    if not found.weight:
        raise DataError(NO_WEIGHT)
    return found


def check_finish_rows(finish_rows: Any) -> None:
    """Raise `ParameterError` unless this says how many rows the last climb runs on."""
    if finish_rows is not None and not (isinstance(finish_rows, str) and finish_rows == "auto"):
        whole_number("finish_rows", finish_rows)


def some_of(
    rows: Rows, sample_weight: ArrayLike | None, size: int, random: np.random.Generator
) -> tuple[Rows, ArrayLike | None]:
    """Return so many of rows that are in memory, with their weights; all where there are no more."""
    weights = checked_weights(sample_weight, rows.count)
    if rows.count <= size:
        return rows, weights
    numbers = sampled_numbers(rows.count, size, random.spawn(1)[0])
    return rows.taken(numbers), None if weights is None else weights[numbers]


def near_rows(
    graph: LatentGraph,
    columns: Columns,
    rows: FarRows,
    finish_rows: int | str | None,
    validation_fraction: float,
    random: np.random.Generator,
) -> NearRows:
    """Return the rows that a fit to rows that are not in memory begins with.

    Parameters
    ----------
    graph : LatentGraph
    columns : Columns
    rows : FarRows
    finish_rows : int, "auto" or None
        As the estimator has it.
    validation_fraction : float
        What share of the rows will be held out.
    random : Generator
        Draws those that are taken.
    """
    parameters = ParameterLayout.of(graph).learned_count
    few = None if validation_fraction or isinstance(finish_rows, Integral) else rows.few()
    if few is not None:
        return NearRows(Rows.of_codes(few.codes, columns), few.weights, parameters, rows.count)
    count = _finished_on(finish_rows, rows.count, parameters)
    raced = min(count, race_rows_for(parameters, len(columns.names)))
    # Draws of their own where there are any, so that a fit to all rows is the one that it would be in memory.
    draws = random if raced == rows.count else random.spawn(1)[0]
    codes, weights = rows.taken(sampled_numbers(rows.count, raced, draws))
    near = Rows.of_codes(codes, columns)
    if raced == count:
        return NearRows(near, weights, parameters, count)
    if validation_fraction:
        raise ParameterError(
            f"a share of {count:,} rows that are not in memory cannot be held out; give validation= rows of their "
            f"own, or finish_rows up to {raced:,}"
        )
    last = sampled_numbers(rows.count, count, draws) if count < rows.count else None
    return NearRows(near, weights, parameters, count, last, is_last=False)


def searched_rows(
    columns: Columns, rows: FarRows, finish_rows: int | str | None, random: np.random.Generator
) -> tuple[Rows, Floats, int]:
    """Return the rows on which sizes of a learned tree are tried, their weights, and for how many they stand.

    Raises
    ------
    ParameterError
        When all are asked for, and these are too many.
    """
    few = None if isinstance(finish_rows, Integral) else rows.few()
    if few is not None:
        return Rows.of_codes(few.codes, columns), few.weights, rows.count
    count = min(rows.count, int(finish_rows) if isinstance(finish_rows, Integral) else SEARCH_ROWS)
    if count < rows.count and finish_rows is None:
        raise ParameterError(
            f"the sizes of a learned tree are tried on rows in memory, and {rows.count:,} are too many; give "
            f"finish_rows a number, or a structure of some size"
        )
    if count < rows.count and finish_rows == "auto":
        notice(
            f"sizes are tried on a sample of {count:,} of the {rows.count:,} rows, and the tree is that of all; "
            f"finish_rows={count} says that this is meant, another number takes so many",
            UserWarning,
        )
    draws = random if count == rows.count else random.spawn(1)[0]
    codes, weights = rows.taken(sampled_numbers(rows.count, count, draws))
    return Rows.of_codes(codes, columns), weights, count


def _finished_on(finish_rows: Any, rows: int, parameters: int) -> int:
    """Return on how many of the rows that are not in memory the last climb runs; say so, where nobody asked."""
    if finish_rows is None:
        return rows
    if isinstance(finish_rows, Integral):
        return min(rows, int(finish_rows))
    usual = finish_rows_for(parameters)
    if usual < rows:
        notice(
            f"EM finishes on a sample of {usual:,} of the {rows:,} rows, whose chance error is "
            f"{parameters / (2 * usual):.1g} nats per row; finish_rows={usual} says that this is meant, None takes "
            f"all rows",
            UserWarning,
        )
    return min(rows, usual)
