"""Bonds of leaves with large alphabets: pair moments are sums of a sparse matrix and a few outer products.

A table of 10,000 x 10,000 states has no more counts than there are rows. Singular vectors need only products with
it, so time and memory grow with rows and states, never with their square.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.spectral.learn.bonds import Bond, leading_triples, scaled_directions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats

__all__ = ["PairMoment", "sparse_bond"]


@dataclass(frozen=True, eq=False)
class PairMoment:
    """The joint distribution of two columns, as a sparse matrix and the sum of outer products ``left @ right.T``.

    Attributes
    ----------
    counted : scipy.sparse.csr_array, shape (states inside, states outside)
    left, right : array, shape (states, products)
    """

    counted: Any
    left: Floats
    right: Floats

    @cached_property
    def _transposed(self) -> Any:
        return self.counted.T.tocsr()

    def times(self, matrix: Floats) -> Floats:
        """Return the moment times a matrix."""
        return np.asarray(self.counted @ matrix + self.left @ (self.right.T @ matrix))

    def transposed_times(self, matrix: Floats) -> Floats:
        """Return the transposed moment times a matrix."""
        return np.asarray(self._transposed @ matrix + self.right @ (self.left.T @ matrix))

    @cached_property
    def inside(self) -> Floats:
        """The distribution of the inside column."""
        return self.times(np.ones((self.counted.shape[1], 1)))[:, 0]

    @cached_property
    def outside(self) -> Floats:
        """The distribution of the outside column."""
        return self.transposed_times(np.ones((self.counted.shape[0], 1)))[:, 0]


class _Covariance:
    """The scaled covariance of a column and several others side by side, which is only ever multiplied with."""

    def __init__(self, pairs: Sequence[PairMoment], low: Floats, high: Sequence[Floats]) -> None:
        self.pairs, self.low, self.high = pairs, low, high
        self.ends = np.cumsum([len(part) for part in high])[:-1]
        self.shape = (len(low), sum(len(part) for part in high))

    def times(self, matrix: Floats) -> Floats:
        total = np.zeros((len(self.low), matrix.shape[1]))
        for pair, scale, part in zip(self.pairs, self.high, np.split(matrix, self.ends), strict=True):
            scaled = scale[:, None] * part
            total += pair.times(scaled) - pair.inside[:, None] * (pair.outside @ scaled)
        return self.low[:, None] * total

    def transposed_times(self, matrix: Floats) -> Floats:
        scaled = self.low[:, None] * matrix
        parts = [
            scale[:, None] * (pair.transposed_times(scaled) - pair.outside[:, None] * (pair.inside @ scaled))
            for pair, scale in zip(self.pairs, self.high, strict=True)
        ]
        return np.concatenate(parts)


def sparse_bond(pairs: Sequence[PairMoment], rank: int, rows: float) -> Bond:
    """Return the bond of one leaf as `scaled_bond` does, without an axis for sets and nodes."""
    insides, outsides = [pair.inside for pair in pairs], [pair.outside for pair in pairs]

    def triples(low: Floats, high: list[Floats]) -> tuple[Floats, Floats, Floats]:
        covariance = _Covariance(pairs, low, high)
        return leading_triples(covariance.times, covariance.transposed_times, covariance.shape, rank)

    return scaled_directions(insides, outsides, rank, np.asarray(rows), triples)
