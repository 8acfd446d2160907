"""Rows that differ: EM counts equal rows once, by their weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.graphs.graph import LatentGraph

__all__ = ["DistinctRows", "columns_with_missing", "margins", "sample_weights", "systematic"]


class DistinctRows(NamedTuple):
    """Rows that differ, none of weight zero: codes are column-major, weights those of all rows that are equal.

    `first` is where each was first in the data.
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
            if kinds > np.iinfo(np.int64).max // (count + 1):
                kept, key = np.unique(key, return_inverse=True)
                if len(kept) == len(codes):
                    return cls(codes, weights, used)
                kinds = len(kept)
            key = key * (count + 1) + codes[:, column]
            kinds *= count + 1
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        total = np.bincount(inverse, weights, len(first)).astype(np.float64, copy=False)
        return cls(np.asfortranarray(codes[first]), total, used[first])

    def by_name(self, names: Sequence[str]) -> DistinctRows:
        """Return the rows sorted by their cells, columns taken by name, wherever these stand in the data.

        Which rows are held out changes what is chosen; the order of rows or of columns is no reason for that.
        """
        # By length first: x2 before x10, as columns without names stand.
        places = sorted(range(len(names)), key=lambda place: (len(names[place]), names[place]))
        order = np.lexsort([self.codes[:, place] for place in reversed(places)])
        return DistinctRows(np.asfortranarray(self.codes[order]), self.weights[order], self.first[order])

    def sampled(self, size: int, random: np.random.Generator) -> tuple[DistinctRows, float]:
        """Return about so many rows that differ, with their share of the weight, and how many rows were drawn."""
        weights, drawn = sample_weights(self.weights, size, random)
        return self.weighing(weights), drawn

    def weighing(self, weights: Floats) -> DistinctRows:
        """Return the rows with other weights, without those of none."""
        kept = np.flatnonzero(weights > 0)
        return DistinctRows(np.asfortranarray(self.codes[kept]), weights[kept], self.first[kept])


def sample_weights(weights: Floats, size: int, random: np.random.Generator) -> tuple[Floats, float]:
    """Return the weights of a sample of about so many rows that differ, with their share of the weight.

    With it comes how many rows were drawn.
    """
    shares = weights / weights.sum()
    draws = float(size)
    for _ in range(30):
        # Rows that are drawn anyway leave draws to others.
        draws *= size / np.minimum(draws * shares, 1.0).sum()
    counts = systematic(draws / weights.sum() * weights, random)
    return counts / counts.sum() * weights.sum() * size / len(weights), float(counts.sum())


def systematic(expected: Floats, random: np.random.Generator) -> Floats:
    """Return how often each row is drawn: as often as expected, rounded up or down (systematic sampling)."""
    counts: Floats = np.diff(np.floor(np.cumsum(expected) + random.random()), prepend=0.0)
    return counts


def columns_with_missing(codes: Codes, graph: LatentGraph) -> frozenset[str]:
    """Return the names of the columns with missing cells."""
    found = (codes == np.array([graph.states[name] for name in graph.observed])).any(axis=0)
    return frozenset(name for name, some in zip(graph.observed, found, strict=True) if some)


def margins(codes: Codes, weights: Floats | None, states: Mapping[str, int]) -> dict[str, Floats]:
    """Return how often each code of each column occurs, given their numbers of states; last come missing cells."""
    return {
        name: np.bincount(codes[:, place], weights, count + 1).astype(np.float64, copy=False)
        for place, (name, count) in enumerate(states.items())
    }
