"""Fits of tables with numbers: rows as EM reads them, in memory or not, and the fit or search that reads them.

It is imported once there are numbers: tables of categories alone need none of it.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.pair_counts import coarse_pairs
from eigentree.data.streams.encoded_stream import StreamedRows
from eigentree.data.streams.partitions import Partitions
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import NO_WEIGHT
from eigentree.em.holdout import check_split, folds_of, held_out
from eigentree.em.mixed.mixed_fit import MixedFit, mixed_layout
from eigentree.em.mixed.mixed_objective import MixedObjective
from eigentree.em.mixed.mixed_search import MixedProblem, average_designs, search_designs
from eigentree.em.out_of_core.number_rows import DiskNumbers
from eigentree.em.out_of_core.number_workers import ClusterNumbers
from eigentree.em.out_of_core.parted_rows import sampled_numbers
from eigentree.errors import DataError
from eigentree.estimators.fits.memory_sample import sampled_places, some_of, tried_places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from eigentree.data.streams.encoded_stream import Encoded
    from eigentree.em.constraints import Constraints
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.em.mixed.number_columns import NumberColumns
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.em.out_of_core.number_rows import NumberRows
    from eigentree.em.tree_fit import Finish
    from eigentree.graphs.graph import LatentGraph

__all__ = [
    "average_designs",
    "fit_numbers",
    "mixed_fit",
    "mixed_problem",
    "number_rows",
    "read_rows",
    "search_designs",
    "search_numbers",
    "split_rows",
]

MEMORY_ROWS_OF_NUMBERS = 10_000
"""Rows by which emissions are made once only to count their parameters."""


def number_rows(numbers: NumberColumns, rows: Encoded) -> NumberRows:
    """Return the rows with numbers of a stream: where they lie, if these are partitions, or else kept on disk."""
    if isinstance(rows, StreamedRows) and isinstance(rows.stream, Partitions):
        found: NumberRows = ClusterNumbers(numbers, rows.stream, rows.weight)
    else:
        found = DiskNumbers(numbers, rows)
    if not found.count:
        raise DataError(NO_WEIGHT)
    return found


def fit_numbers(
    graph: LatentGraph,
    numbers: NumberColumns,
    rows: NumberRows,
    finish_rows: int | str | None,
    validation_fraction: float,
    random: np.random.Generator,
    stopping: Callable[[int, float, int], Stopping],
) -> tuple[MixedRows, Finish | None]:
    """Return rows with numbers in memory, and where a fit that begins with them ends; as `fit_sample` does.

    What emissions learn before EM begins, such as the scale of a prior, they learn from these rows.
    """
    some = rows.taken(sampled_numbers(rows.count, MEMORY_ROWS_OF_NUMBERS, np.random.default_rng(0)))
    parameters = mixed_layout(graph, numbers.families, numbers.names, some).learned_count
    width = len(numbers.columns.names) + len(numbers.names)
    places, finish = sampled_places(rows, parameters, width, finish_rows, validation_fraction, random, stopping)
    return rows.taken(places), finish


def search_numbers(
    numbers: NumberColumns, rows: NumberRows, finish_rows: int | str | None, random: np.random.Generator
) -> MixedRows:
    """Return the rows on which structures and emissions of a table with numbers are tried."""
    width = len(numbers.columns.names) + len(numbers.names)
    return rows.taken(tried_places(rows, width, finish_rows, random, "structure and emissions are", ""))


def read_rows(
    numbers: NumberColumns,
    X: ArrayLike | Any,
    sample_weight: ArrayLike | None,
    finish_rows: int | str | None,
    random: np.random.Generator,
) -> MixedRows:
    """Return rows with numbers in memory; so many of them, if `finish_rows` is a number."""
    if isinstance(finish_rows, Integral):
        X, sample_weight = some_of(Rows.of(X, numbers.columns), sample_weight, int(finish_rows), random)
    return numbers.read(X, sample_weight)


def split_rows(rows: MixedRows, share: float, random: np.random.Generator) -> tuple[MixedRows, MixedRows | None]:
    """Return training rows and a share of the rows that is held out; None where the share is 0."""
    if not share:
        return rows, None
    held = held_out(rows.weights, share, random)
    check_split(float((rows.weights - held).sum()), float(held.sum()), share, len(rows.codes))
    return rows.weighing(rows.weights - held), rows.weighing(held)


def mixed_fit(
    graph: LatentGraph,
    numbers: NumberColumns,
    rows: MixedRows,
    held: MixedRows | None,
    finish: Finish | None,
    pseudo_counts: float,
    stopping: Callable[[int, float, int], Stopping],
    max_iter: int,
    threads: int,
    constraints: Constraints,
) -> MixedFit:
    """Return the fit of rows with numbers in memory, with those that are held out and where it ends."""
    rows = rows.distinct()
    missing = numbers.missing(rows) | (numbers.missing(held) if held else frozenset())
    if finish is not None:
        missing |= finish.rows.with_missing()
    constrained = constraints.layout(graph, numbers.columns, numbers.names)
    layout = mixed_layout(graph, numbers.families, numbers.names, rows, constrained)
    checked = MixedObjective.of(layout, numbers.names, held, missing, 0.0, threads) if held else None
    ends = stopping(len(rows.weights), float(rows.weights.sum()), layout.learned_count)
    how = (missing, pseudo_counts, ends, max_iter, False, threads, checked, constrained)
    return MixedFit(graph, rows, *how, vectors=layout, names=numbers.names)


def mixed_problem(
    numbers: NumberColumns,
    given: Mapping[tuple[str, ...], Any],
    rows: MixedRows,
    held: MixedRows | None,
    share: float,
    pseudo_counts: float,
    threads: int,
    fits: int,
    most_states: int,
    random: np.random.Generator,
) -> MixedProblem:
    """Return what designs are compared on: training rows, and the given held-out ones or folds of the rows."""
    columns, names = numbers.columns, numbers.names
    states = numbers.states
    pairs = coarse_pairs(columns.names, tuple(states.values()), rows.codes, names, rows.values, rows.weights)
    known: Any = rows
    folds: list[tuple[Any, Any]] = [(known, held)]
    if held is None:
        folds = [(fold.rows, fold.validation) for fold in folds_of(known, share, random)]
    missing = frozenset().union(*(numbers.missing(part) for fold in folds for part in fold))
    return MixedProblem(
        states,
        names,
        given,
        np.asarray(pairs.information),
        folds,
        missing,
        rows if held is None and len(folds) == 1 else None,
        pseudo_counts,
        threads,
        fits,
        most_states,
    )
