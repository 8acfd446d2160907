"""How much to shrink: K-fold held-out likelihood, from counts that subtract and a bounded sample of rows.

The sample keeps the distinct rows with the smallest hashes, each with how often it occurs. So it depends on the
data alone, not on their order or on how they came in batches, and it can be merged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree import kernels
from eigentree.operators import upward_pass
from eigentree.spectral import CountedTables, learn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.graph import LatentGraph
    from eigentree.moments import Counts
    from eigentree.spectral import SpectralFit
    from eigentree.views import ViewPlan

SAMPLE_ROWS = 2000
"""Most distinct rows that are held out, over all folds."""

FOLDS = 2

LARGE_CELLS = 2**20
"""Tables with more cells than this are learned from once only: one fold is held out, not each in turn."""

GRID = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, math.inf)
"""Values of kappa to choose from; infinity is independent columns."""

MOST_SHRINKAGE = 1.5e50
"""Largest kappa times rows that "auto" tries, since the best kappa falls at least as fast as rows grow."""

INDEPENDENT_ROWS = 1_000
"""Up to so many rows "auto" tries every value, independent columns included."""

BACK_OFF = (1.0, 10.0, 100.0, math.inf)
"""Where a probability is not positive, the same fit answers with the next of these shrinkages."""

FLOOR = 1e-3
"""What is still not positive becomes this part of the product of the columns' smoothed marginals."""


@dataclass(frozen=True, eq=False)
class RowSample:
    """The distinct rows with the smallest hashes.

    Attributes
    ----------
    hashes : array of uint64, sorted
    codes : array, shape (rows, columns)
    weights : array, shape (rows,)
        How often each row occurs in all the data.
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
        kernels.hash_rows(codes, hashes)
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

    def fold(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows of one fold and how often each is in it: the copies of a row are dealt out in turn."""
        turn = (number + (self.hashes >> np.uint64(8)) % np.uint64(FOLDS)) % np.uint64(FOLDS)
        whole = np.floor(self.weights).astype(np.int64)
        dealt = whole // FOLDS + (turn.astype(np.int64) < whole % FOLDS)
        if self.weights.dtype.kind == "f":
            dealt = dealt + np.where(turn == 0, self.weights - whole, 0.0)
        held = dealt > 0
        return np.asfortranarray(self.codes[held]), dealt[held]


def floored(
    log_size: NDArray[np.float64],
    sign: NDArray[Any],
    codes: NDArray[Any],
    fit: SpectralFit,
    shrinkage: float,
    log_marginals: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], int]:
    """Return finite log probabilities, and how many were not positive and had to be replaced.

    Noise can leave a learned probability at or below zero. Shrunk further toward independent columns, the same fit
    gives a positive one, which says more about the row than any constant.

    Parameters
    ----------
    log_size, sign : array, shape (rows,)
        Of the fit at this shrinkage.
    codes : array, shape (rows, columns)
    log_marginals : sequence of array, shape (states + 1,)
        Log probability of each state of each column alone; 0 for a missing cell.
    """
    bad = np.flatnonzero(sign <= 0)
    count = len(bad)
    log_prob = log_size.copy() if count else log_size
    for more in BACK_OFF:
        if more > shrinkage and len(bad):
            size, positive = upward_pass(fit.flat_plan(more), np.asfortranarray(codes[bad]))
            log_prob[bad] = size
            bad = bad[positive <= 0]
    if len(bad):
        log_prob[bad] = math.log(FLOOR)
        for column, table in enumerate(log_marginals):
            log_prob[bad] += table[codes[bad, column]]
    return log_prob, count


def punished(log_size, sign, codes, log_marginals):
    bad = np.flatnonzero(sign <= 0)
    if not len(bad): return log_size
    log_prob = log_size.copy()
    log_prob[bad] = math.log(FLOOR)
    for column, table in enumerate(log_marginals):
        log_prob[bad] += table[codes[bad, column]]
    return log_prob


def pseudo_rows(graph: LatentGraph) -> float:
    """Return how many even pseudo-rows go with any shrinkage: half the mean number of states of a column.

    So infinite shrinkage is the product of the columns' marginals with 1/2 added to each count.
    """
    return sum(graph.states[name] for name in graph.observed) / len(graph.observed) / 2


def log_marginals(counts: Counts) -> tuple[NDArray[np.float64], ...]:
    """Return the log of the smoothed marginal of each column, with a 0 at the end for a missing cell."""
    columns = range(len(counts.graph.observed))
    return tuple(np.append(np.log(counts.smoothed(column)), 0.0) for column in columns)


def candidates(rows: float) -> list[float]:
    """Return the values of kappa that are worth trying with this many rows.

    The more rows, the less shrinkage can help, and the less a bounded sample of held-out rows can tell.
    """
    return [kappa for kappa in GRID if kappa <= max(1.5, MOST_SHRINKAGE / rows) or rows <= INDEPENDENT_ROWS]


def choose_shrinkage(
    plan: ViewPlan, counts: Counts, sample: RowSample, scaling: str | None
) -> tuple[float, dict[float, float], SpectralFit]:
    """Return the kappa with the highest held-out likelihood, that of those tried, and the fit to all counts.

    Every other value is tried first, then the neighbours of the best.
    """
    folds_tried = 1 if len(counts.dense) > LARGE_CELLS else FOLDS
    held = [(codes, weights) for codes, weights in map(sample.fold, range(folds_tried)) if len(codes)]
    rests = [counts - counts.empty().count(iter([fold])) for fold in held]
    usable = [k for k, rest in enumerate(rests) if rest.rows > 0]
    added = pseudo_rows(plan.graph)
    *fits, whole = learn(plan, [CountedTables(c, added) for c in [*(rests[k] for k in usable), counts]], scaling)
    folds = [(fit, *held[k], log_marginals(rests[k])) for fit, k in zip(fits, usable, strict=True)]
    if not folds:
        return math.inf, {}, whole
    tried: dict[float, float] = {}

    def likelihood(kappa: float) -> float:
        if kappa not in tried:
            total = weight = 0.0
            for fit, codes, weights, marginals in folds:
                log_size, sign = upward_pass(fit.flat_plan(kappa), codes)
                total += float(weights @ punished(log_size, sign, codes, marginals))
                weight += float(weights.sum())
            tried[kappa] = total / weight
        return tried[kappa]

    grid = candidates(counts.rows)
    best = max(range(0, len(grid), 2), key=lambda k: likelihood(grid[k]))
    nearby = range(max(best - 1, 0), min(best + 2, len(grid)))
    best = max(nearby, key=lambda k: likelihood(grid[k]))
    return grid[best], dict(sorted(tried.items())), whole
