"""Rows that differ: EM counts equal rows once, by their weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.structures.graph import LatentGraph

__all__ = ["DistinctRows", "columns_with_gaps"]

MOST_KINDS = 2**62
"""Most kinds of rows that one number tells apart."""


class DistinctRows(NamedTuple):
    """Rows that differ, none of weight zero.

    Attributes
    ----------
    codes : (rows, columns)
        Column-major.
    weights : (rows,)
        The total weight of all rows that are equal.
    first : (rows,)
        Where each was first in the data.
    """

    codes: Codes
    weights: Floats
    first: Integers

    @classmethod
    def of(cls, codes: Codes, states: Sequence[int], weights: Floats) -> DistinctRows:
        """Return the rows that differ among rows of codes, given the numbers of states of the columns."""
        used = np.flatnonzero(weights)
        codes, weights = codes[used], weights[used]
        key, kinds = np.zeros(len(codes), np.int64), 1
        for column, count in enumerate(states):
            if kinds > MOST_KINDS // (count + 1):
                kept, key = np.unique(key, return_inverse=True)
                if len(kept) == len(codes):
                    return cls(codes, weights, used)
                kinds = len(kept)
            key = key * (count + 1) + codes[:, column]
            kinds *= count + 1
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        total = np.bincount(inverse, weights, len(first)).astype(np.float64, copy=False)
        return cls(np.asfortranarray(codes[first]), total, used[first])


def columns_with_gaps(codes: Codes, graph: LatentGraph) -> frozenset[str]:
    """Return the names of the columns with missing cells."""
    found = (codes == np.array([graph.states[name] for name in graph.observed])).any(axis=0)
    return frozenset(name for name, some in zip(graph.observed, found, strict=True) if some)
