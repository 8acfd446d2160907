"""A bounded sample of rows that depends on the data alone.

It keeps the distinct rows with the smallest hashes, each with how often it occurs. So it does not depend on the
order of the rows or on how they came in batches, and it can be merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.counting.encoding import hash_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes

__all__ = ["EVERY_HASH", "SAMPLE_ROWS", "RowSample", "bounded", "held_share"]

SAMPLE_ROWS = 2000
"""Most distinct rows that are held out, over all folds."""

EVERY_HASH = 2**64 - 1


@dataclass(frozen=True, eq=False)
class RowSample:
    """The distinct rows with the smallest hashes.

    Attributes
    ----------
    hashes : array of uint64, sorted
    codes : array, shape (rows, columns)
    weights : array, shape (rows,)
        How often each row occurs in all the rows seen.
    known_to : int
        Every row seen whose hash is not above this is in the sample; -1 where none is known, as of counts whose
        rows are gone. What is above it in another sample cannot be added to this one.
    """

    hashes: NDArray[np.uint64]
    codes: Codes
    weights: NDArray[Any]
    known_to: int = EVERY_HASH

    @classmethod
    def empty(cls, columns: int) -> RowSample:
        """Return the sample when no rows were seen."""
        return cls(np.zeros(0, np.uint64), np.zeros((0, columns), np.uint8), np.zeros(0, np.int64))

    @classmethod
    def unknown(cls, columns: int) -> RowSample:
        """Return the sample when rows were seen, but none of them is known any more."""
        return replace(cls.empty(columns), known_to=-1)

    def update(self, codes: Codes, weights: NDArray[Any] | None) -> RowSample:
        """Return the sample with more rows seen, each as often as its weight says."""
        if self.known_to < 0:
            return self
        hashes = np.empty(len(codes), np.uint64)
        hash_rows(codes.T, hashes)
        counted = np.ones(len(codes), np.int64) if weights is None else weights
        chosen = (counted > 0) & (hashes <= np.uint64(self.known_to))
        if not chosen.any():
            return self
        return self._collected(RowSample(hashes[chosen], codes[chosen], counted[chosen], self.known_to))

    def __add__(self, other: RowSample) -> RowSample:
        known_to = min(self.known_to, other.known_to)
        return self.up_to(known_to)._collected(other.up_to(known_to))

    def __sub__(self, other: RowSample) -> RowSample:
        known_to = min(self.known_to, other.known_to)
        return self.up_to(known_to)._collected(
            replace(other.up_to(known_to), weights=-other.up_to(known_to).weights)
        )

    def _collected(self, more: RowSample) -> RowSample:
        """Return this sample and another that is known as far, rows that are in both with their weights added."""
        unique, first, inverse = np.unique(
            np.concatenate([self.hashes, more.hashes]), return_index=True, return_inverse=True
        )
        weights = np.concatenate([self.weights, more.weights])
        totals = np.zeros(len(unique), weights.dtype)
        np.add.at(totals, inverse, weights)
        kept = np.flatnonzero(totals > 0)
        known_to = self.known_to if len(kept) <= SAMPLE_ROWS else int(unique[kept[SAMPLE_ROWS - 1]])
        kept = kept[:SAMPLE_ROWS]
        codes = np.concatenate([self.codes, more.codes])[first[kept]]
        return RowSample(unique[kept], codes, totals[kept], known_to)

    def up_to(self, largest: int) -> RowSample:
        """Return the part of the sample whose hashes are not above the largest one wanted."""
        if largest < 0:
            return RowSample.unknown(self.codes.shape[1])
        stop = int(np.searchsorted(self.hashes, np.uint64(largest), side="right"))
        return RowSample(self.hashes[:stop], self.codes[:stop], self.weights[:stop], min(largest, self.known_to))

    def fold(self, number: int, folds: int, share: float = 1.0) -> tuple[Codes, NDArray[Any]]:
        """Return the rows of one fold and how often each is in it.

        Rows that occur once are dealt out in turn, for folds of equal size. The copies of others are dealt out at
        random, as if each were a row of its own: in turn, all folds would look alike, and nothing overfits. Only a
        `share` of the sample is dealt out to the folds at all.
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

    Only copies of the rows in a sample are held out. Were these most of all such copies, those rows would be rare
    in the rest, from which the model is learned.
    """
    return min(1.0, SAMPLE_ROWS / float(sum(sample.weights.sum() for sample in samples)))


def bounded(samples: Sequence[RowSample]) -> list[RowSample]:
    """Return what is left of the samples of all classes when they hold no more rows together than one may.

    The hashes decide, whatever the class, so classes keep their shares.
    """
    hashes = np.sort(np.concatenate([sample.hashes for sample in samples]))
    if len(hashes) <= SAMPLE_ROWS:
        return list(samples)
    return [sample.up_to(int(hashes[SAMPLE_ROWS - 1])) for sample in samples]
