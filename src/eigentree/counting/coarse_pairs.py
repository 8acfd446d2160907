"""Pairs of columns some of which are numbers: these are cut into bins with equally many rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import Bins
from eigentree.data.tables.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Codes, Floats

__all__ = ["coarse_pairs", "pairs_of_rows"]


def pairs_of_rows(rows: Rows, weights: Floats | None) -> PairCounts:
    """Return the pair counts of rows, numbers in bins."""
    columns = rows.columns
    if not columns.numbers:
        return PairCounts.empty(columns).count(rows, weights)
    return coarse_pairs(columns.names, columns.states, rows.encode(), columns.numbers, rows.values(), weights)


def coarse_pairs(
    names: Sequence[str],
    states: Sequence[int],
    codes: Codes,
    numbers: Sequence[str],
    values: Floats,
    weights: Floats | None,
) -> PairCounts:
    """Return the pair counts of columns given as codes, of which those of some names have values in their place.

    A number is cut into bins that hold equally many rows: mutual information needs no more to find a tree, and no
    scale decides.
    """
    coarse = np.array(codes, np.int64)
    counts = list(states)
    for name, column in zip(numbers, values.T, strict=True):
        place, known = names.index(name), ~np.isnan(column)
        bins = Bins.of(column[known], None if weights is None else np.asarray(weights, np.float64)[known])
        counts[place] = len(bins.labels)
        coarse[:, place] = np.where(known, bins.encode(column), counts[place])
    columns = Columns(tuple(names), tuple(counts))
    small = np.asfortranarray(coarse.astype(columns.code_type))
    return PairCounts.empty(columns).count(Rows.of_codes(small, columns), weights)
