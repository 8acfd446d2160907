"""A bounded sample of rows that depends on the data alone.

It keeps the distinct rows with the smallest hashes, each with how often it occurs. So it does not depend on the
order of the rows or on how they came in batches, and it can be merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.kernels import codes as codes_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SAMPLE_ROWS = 2000
"""Most distinct rows that are held out, over all folds."""


@dataclass(frozen=True, eq=False)
class RowSample:
    """The distinct rows with the smallest hashes.

    Attributes
    ----------
    hashes : array of uint64, sorted
    codes : array, shape (rows, columns)
    weights : array, shape (rows,)
        How often each row occurs in all the rows seen.
    """

    hashes: NDArray[np.uint64]
    codes: NDArray[Any]
    weights: NDArray[Any]

    @classmethod
    def empty(cls, columns: int) -> RowSample:
        """Return a sample of no rows."""
        return cls(np.zeros(0, np.uint64), np.zeros((0, columns), np.uint8), np.zeros(0, np.int64))

    def update(self, codes: NDArray[Any], weights: NDArray[Any] | None) -> RowSample:
        """Return the sample with more rows seen."""
        hashes = np.empty(len(codes), np.uint64)
        codes_kernels.hash_rows(codes.T, hashes)
        counted = np.ones(len(codes), np.int64) if weights is None else weights
        chosen = counted > 0
        if len(self.hashes) == SAMPLE_ROWS:
            chosen &= hashes <= self.hashes[-1]
        if not chosen.any():
            return self
        everything = np.concatenate([self.hashes, hashes[chosen]])
        unique, first, inverse = np.unique(everything, return_index=True, return_inverse=True)
        weight = np.concatenate([self.weights, counted[chosen]])
        totals = np.zeros(len(unique), weight.dtype)
        np.add.at(totals, inverse, weight)
        rows = np.concatenate([self.codes, codes[chosen]])[first[:SAMPLE_ROWS]]
        return RowSample(unique[:SAMPLE_ROWS], rows, totals[:SAMPLE_ROWS])

    def up_to(self, largest: np.uint64) -> RowSample:
        """Return the part of the sample whose hashes are not above the largest one wanted."""
        stop = int(np.searchsorted(self.hashes, largest, side="right"))
        return RowSample(self.hashes[:stop], self.codes[:stop], self.weights[:stop])

    def fold(self, number: int, folds: int, share: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows of one fold and how often each is in it.

        Rows that occur once are dealt out in turn, for folds of equal size. The copies of others are dealt out at
        random, as if each were a row of its own: in turn, all folds would look alike, and nothing overfits.

        Parameters
        ----------
        number, folds : int
        share : float
            How much of the sample is dealt out to the folds at all; the rest is in none.
        """
        whole = np.floor(self.weights).astype(np.int64)
        random = np.random.default_rng(self.hashes[:4])
        dealt = random.multinomial(whole, [*[share / folds] * folds, 1 - share])[:, number]
        if share == 1:
            once = whole == 1
            dealt = np.where(once, (np.cumsum(once) - 1) % folds == number, dealt)
        if self.weights.dtype.kind == "f":
            turn = np.arange(len(self.hashes)) % folds
            dealt = dealt + np.where(turn == number, share * (self.weights - whole), 0.0)
        held = dealt > 0
        return np.asfortranarray(self.codes[held]), dealt[held]


def held_share(samples: Sequence[RowSample]) -> float:
    """Return how much of some samples to hold out: all where rows differ, less where they are copies of each other.

    Only copies of the rows in a sample are held out. Were these most of all such copies, what is learned from the
    rest would know that those rows are rare.
    """
    return min(1.0, SAMPLE_ROWS / float(sum(sample.weights.sum() for sample in samples)))


def bounded(samples: Sequence[RowSample]) -> list[RowSample]:
    """Return what is left of the samples of all classes when they hold no more rows together than one may.

    The hashes decide, whatever the class, so classes keep their shares.
    """
    hashes = np.sort(np.concatenate([sample.hashes for sample in samples]))
    return list(samples) if len(hashes) <= SAMPLE_ROWS else [s.up_to(hashes[SAMPLE_ROWS - 1]) for s in samples]
