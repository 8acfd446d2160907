"""Pairs of columns some of which are numbers: these are cut into bins with equally many rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import Bins
from eigentree.data.tables.rows import Rows
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Codes, Floats

__all__ = ["coarse_pairs", "pairs_of_rows"]


MOST_CELLS = 2**25
"""Most cells of a stream whose pairs are counted: of more every second, third … row is, by its number."""


def pairs_of_rows(rows: Rows | Encoded, weights: Floats | None) -> PairCounts:
    """Return the pair counts of rows, numbers in bins; streams know their weights, and with numbers are sampled."""
    columns = rows.columns
    if not columns.numbers:
        return PairCounts.empty(columns).count(rows, weights)
    if isinstance(rows, Encoded):
        codes, values, weights = _sampled(rows)
    else:
        codes, values = rows.encode(), rows.values()
    return coarse_pairs(columns.names, columns.states, codes, columns.numbers, values, weights)


def _sampled(rows: Encoded) -> tuple[Codes, Floats, Floats | None]:
    """Return codes, values and weights of all rows of a stream, or of every second, third … of them."""
    count = sum(len(codes) for codes, _ in rows.chunks())
    if not count:
        raise DataError("the data have no rows; give at least one")
    every = -(-count * len(rows.columns.names) // MOST_CELLS)
    first, taken = 0, []
    for codes, values, weights in rows.parts():
        # The numbers of rows, not of batches, decide.
        own = slice(-first % every, None, every)
        taken.append((codes[own], values[own], None if weights is None else weights[own]))
        first += len(codes)
    codes, values = (np.concatenate([part[place] for part in taken]) for place in (0, 1))
    known = [np.asarray(weights, np.float64) for _, _, weights in taken if weights is not None]
    return codes, values, np.concatenate(known) if known else None


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
