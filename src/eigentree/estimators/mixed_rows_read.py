"""Rows with numbers as EM reads them, and the fit that they are given to."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.coarse_pairs import coarse_pairs
from eigentree.data.tables.rows import Rows
from eigentree.em.holdout import check_split, folds_of, held_out
from eigentree.em.mixed.mixed_fit import MixedFit, mixed_layout
from eigentree.em.mixed.mixed_objective import MixedObjective
from eigentree.em.mixed.mixed_search import MixedProblem
from eigentree.estimators.memory_sample import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.em.mixed.number_columns import NumberColumns
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.em.tree_fit import Finish
    from eigentree.graphs.graph import LatentGraph

__all__ = ["mixed_fit", "mixed_problem", "read_rows", "split_rows"]


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
) -> MixedFit:
    """Return the fit of rows with numbers in memory, with those that are held out and where it ends."""
    rows = rows.distinct()
    missing = numbers.missing(rows) | (numbers.missing(held) if held else frozenset())
    if finish is not None:
        missing |= finish.rows.with_missing()
    layout = mixed_layout(graph, numbers.families, numbers.names, rows)
    checked = MixedObjective.of(layout, numbers.names, held, missing, 0.0, threads) if held else None
    ends = stopping(len(rows.weights), float(rows.weights.sum()), layout.learned_count)
    how = (missing, pseudo_counts, ends, max_iter, False, threads, checked)
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
