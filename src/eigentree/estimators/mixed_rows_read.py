"""Rows with numbers as EM reads them, and the fit that they are given to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.counting.coarse_pairs import coarse_pairs
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.em.holdout import check_split, folds_of, held_out
from eigentree.em.mixed.emission_choice import coded_columns
from eigentree.em.mixed.mixed_rows import MixedRows
from eigentree.em.mixed.mixed_search import MixedProblem
from eigentree.graphs.graph import LatentGraph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from eigentree.data.tables.columns import Columns

__all__ = ["NumberColumns", "mixed_problem", "split_rows"]


class NumberColumns(NamedTuple):
    """The columns that have an emission: numbers, and ordered labels, whose codes are read as numbers.

    Attributes
    ----------
    columns : Columns
    families : mapping of tuple of str to str or dict
    coded : tuple of str
        Ordered labels among them.
    """

    columns: Columns
    families: Mapping[tuple[str, ...], Any]
    coded: tuple[str, ...]

    @classmethod
    def of(cls, columns: Columns, families: Mapping[tuple[str, ...], Any]) -> NumberColumns:
        """Return the columns that have an emission, given the families of these."""
        return cls(columns, families, tuple(coded_columns(families, columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of `read`'s values."""
        return (*self.columns.numbers, *self.coded)

    def graph(self, graph: LatentGraph) -> LatentGraph:
        """Return the graph that EM runs on: all these columns have one state."""
        return graph.with_states(dict.fromkeys(self.names, 1))

    def read(self, X: ArrayLike | Any, sample_weight: ArrayLike | None) -> MixedRows:
        """Return rows that count as EM reads them."""
        rows = Rows.of(X, self.columns)
        codes, values = rows.encode(), rows.values()
        for name in self.coded:
            place = self.columns.position(name)
            missing = codes[:, place] == self.columns.states[place]
            levels = np.where(missing, np.nan, codes[:, place].astype(np.float64))
            values = np.column_stack([values, levels])
            codes[:, place] = missing
        weights = positive_weights(sample_weight, rows.count)
        warn_of_few(weights)
        return MixedRows.of(codes, values, weights)

    def missing(self, graph: LatentGraph, rows: MixedRows) -> frozenset[str]:
        """Return the categories with missing cells."""
        return frozenset(
            name
            for place, name in enumerate(graph.observed)
            if name not in self.names and (rows.codes[:, place] == graph.states[name]).any()
        )


def split_rows(
    rows: MixedRows, share: float, random: np.random.Generator
) -> tuple[MixedRows, MixedRows | None]:
    """Return training rows and a share of the rows that is held out; None where the share is 0."""
    if not share:
        return rows, None
    held = held_out(rows.weights, share, random)
    check_split(float((rows.weights - held).sum()), float(held.sum()), share, len(rows.codes))
    return rows.weighing(rows.weights - held), rows.weighing(held)


def mixed_problem(
    numbers: NumberColumns,
    given: Mapping[tuple[str, ...], Any],
    rows: MixedRows,
    held: MixedRows | None,
    share: float,
    pseudo_counts: float,
    threads: int,
    fits: int,
    random: np.random.Generator,
) -> MixedProblem:
    """Return what designs are compared on: training rows, and the given held-out ones or folds of the rows."""
    columns, names = numbers.columns, numbers.names
    states = {name: 1 if name in names else count for name, count in zip(columns.names, columns.states, strict=True)}
    pairs = coarse_pairs(columns.names, tuple(states.values()), rows.codes, names, rows.values, rows.weights)
    folds = [(rows, held)] if held else [(fold.rows, fold.validation) for fold in folds_of(rows, share, random)]
    graph = LatentGraph(states)
    missing = frozenset().union(*(numbers.missing(graph, part) for fold in folds for part in fold))
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
    )
