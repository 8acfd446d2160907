"""Fits of tables with numbers: rows as EM reads them, in memory or not, and the fit or search that reads them.

It is imported once there are numbers: tables of categories alone need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.pair_counts import coarse_pairs
from eigentree.data.streams.encoded_stream import Encoded, StreamedRows
from eigentree.data.streams.partitions import Partitions
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import NO_WEIGHT
from eigentree.em.holdout import Fold, check_split, folds_of, held_out
from eigentree.em.mixed.emission_choice import families_of_columns, given_families
from eigentree.em.mixed.mixed_fit import MixedFit, mixed_layout
from eigentree.em.mixed.mixed_objective import MixedObjective
from eigentree.em.mixed.mixed_search import MixedProblem
from eigentree.em.mixed.number_columns import NumberColumns
from eigentree.em.out_of_core.number_rows import DiskNumbers
from eigentree.em.out_of_core.number_workers import ClusterNumbers
from eigentree.em.out_of_core.parted_rows import sampled_numbers
from eigentree.errors import DataError
from eigentree.estimators.fits.memory_sample import sampled_places, some_of, tried_places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from eigentree.data.tables.columns import Columns
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.em.out_of_core.number_rows import NumberRows
    from eigentree.em.tree_fit import Finish
    from eigentree.estimators.fits.memory_sample import EMSettings
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.learned_templates import HiddenChowLiu

__all__ = ["mixed_fit", "mixed_problem", "number_rows"]

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


def mixed_fit(
    settings: EMSettings,
    graph: LatentGraph,
    columns: Columns,
    families: Mapping[tuple[str, ...], Any],
    X: Rows | Encoded,
    sample_weight: ArrayLike | None,
    validation: ArrayLike | Any | None,
    random: np.random.Generator,
) -> tuple[MixedFit, Finish | None, int]:
    """Return the fit of rows with numbers, with those held out, where it ends, and how many rows there are.

    What emissions learn before EM begins, such as the scale of a prior, they learn from the rows in memory.
    """
    numbers = NumberColumns.of(columns, families)
    graph, finish = numbers.graph(graph), None
    if isinstance(X, Encoded):
        parted = number_rows(numbers, X)
        some = parted.taken(sampled_numbers(parted.count, MEMORY_ROWS_OF_NUMBERS, np.random.default_rng(0)))
        parameters = mixed_layout(graph, numbers.families, numbers.names, some).learned_count
        places, finish = sampled_places(parted, settings, parameters, _width(numbers), random)
        rows = parted.taken(places)
    else:
        rows = numbers.read(*some_of(Rows.of(X, numbers.columns), sample_weight, settings.finish_rows, random))
    count, share = len(rows.codes), settings.validation_fraction
    held = None if validation is None else numbers.read(validation, None)
    if held is None and share:
        weights = held_out(rows.weights, share, random)
        check_split(float((rows.weights - weights).sum()), float(weights.sum()), share, count)
        rows, held = rows.weighing(rows.weights - weights), rows.weighing(weights)
    rows = rows.distinct()
    missing = numbers.missing(rows) | (numbers.missing(held) if held else frozenset())
    if finish is not None:
        missing |= finish.rows.with_missing()
    constrained = settings.constraints.layout(graph, numbers.columns, numbers.names)
    layout = mixed_layout(graph, numbers.families, numbers.names, rows, constrained)
    threads = settings.threads
    checked = MixedObjective.of(layout, numbers.names, held, missing, 0.0, threads) if held else None
    ends = settings.stopping(len(rows.weights), float(rows.weights.sum()), layout.learned_count)
    how = (missing, settings.first_pseudo_counts, ends, settings.max_iter, False, threads, checked, constrained)
    return MixedFit(graph, rows, *how, vectors=layout, names=numbers.names), finish, count


def mixed_problem(
    settings: EMSettings,
    template: HiddenChowLiu,
    emissions: Any,
    columns: Columns,
    X: Rows | Encoded,
    sample_weight: ArrayLike | None,
    validation: ArrayLike | Any | None,
    random: np.random.Generator,
) -> tuple[MixedProblem, int]:
    """Return what designs are compared on, and the number of rows: training rows, and held-out ones or folds."""
    numbers = NumberColumns.of(columns, families_of_columns(emissions, columns))
    if isinstance(X, Encoded):
        parted = number_rows(numbers, X)
        about = ("structure and emissions are", "")
        known = parted.taken(tried_places(parted, settings, _width(numbers), random, *about))
    else:
        known = numbers.read(X, sample_weight)
    known = known.by_value()
    names, states = numbers.names, numbers.states
    pairs = coarse_pairs(columns.names, tuple(states.values()), known.codes, names, known.values, known.weights)
    if validation is not None:
        folds: tuple[Fold[MixedRows], ...] = (Fold(known, numbers.read(validation, None)),)
    else:
        folds = folds_of(known, settings.validation_fraction, random)
    problem = MixedProblem(
        columns=states,
        names=names,
        given=given_families(emissions, columns),
        information=np.asarray(pairs.information),
        folds=folds,
        missing=frozenset().union(*(numbers.missing(part) for fold in folds for part in fold)),
        whole=known if validation is None and len(folds) == 1 else None,
        pseudo_counts=settings.search_pseudo_counts,
        threads=settings.threads,
        fits=settings.n_init,
        most_states=template.most_states,
    )
    return problem, len(known.weights)


def _width(numbers: NumberColumns) -> int:
    return len(numbers.columns.names) + len(numbers.names)
