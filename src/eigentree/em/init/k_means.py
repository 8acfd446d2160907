"""k-means with weights: clusters of rows or steps that EM starts from.

scikit-learn has it too, but importing that takes longer than a whole fit of a small table, and its threads wait for
each other on a busy machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.inference.threads import one_thread

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["k_means", "standardised"]

MOST_POINTS = 10_000
"""Points that centres are learned from: hundreds for each cluster."""

ITERATIONS = 10
"""Most iterations: EM goes on from clusters that are only roughly right."""


def standardised(values: Floats, weights: Floats) -> Floats:
    """Return numbers with mean 0 and variance 1, missing ones at the mean."""
    known = ~np.isnan(values)
    weight = known * weights[:, None]
    total = np.maximum(weight.sum(axis=0), np.finfo(np.float64).tiny)
    filled = np.where(known, values, 0.0)
    mean = (weight * filled).sum(axis=0) / total
    apart = np.where(known, filled - mean, 0.0)
    spread = np.sqrt((weight * apart**2).sum(axis=0) / total)
    return np.asarray(apart / np.where(spread > 0, spread, 1.0))


def k_means(
    points: Floats, weights: Floats, count: int, random: np.random.Generator, iterations: int = ITERATIONS
) -> Integers:
    """Return the cluster of each point, by Lloyd's algorithm from k-means++ centres.

    Where fewer points differ than there are clusters, equal points share several at random.

    Parameters
    ----------
    points : array, shape (points, coordinates)
    weights : array, shape (points,)
        How often each point counts.
    count : int
        How many clusters.
    random : Generator
    iterations : int
        The most iterations.
    """
    among = np.flatnonzero(weights > 0)
    if len(among) > MOST_POINTS:
        among = random.choice(among, MOST_POINTS, replace=False)
    own, weight = points[among], weights[among]
    centres = np.unique(own, axis=0)
    with one_thread():
        if len(centres) > count:
            centres = _lloyd(own, weight, _seeds(own, weight, count, random), iterations)
        places, differ = _nearest(points, centres), len(centres)
    return places + differ * random.integers((count - 1 - places) // differ + 1)


def _lloyd(points: Floats, weights: Floats, centres: Floats, iterations: int) -> Floats:
    """Return the means of the points that are nearest to each centre, again and again."""
    places = _nearest(points, centres)
    for _ in range(iterations):
        shares = np.zeros((len(centres), len(points)))
        shares[places, np.arange(len(points))] = weights
        totals = shares.sum(axis=1, keepdims=True)
        centres = np.divide(shares @ points, totals, out=centres, where=totals > 0)
        before, places = places, _nearest(points, centres)
        if np.array_equal(places, before):
            break
    return centres


def _seeds(points: Floats, weights: Floats, count: int, random: np.random.Generator) -> Floats:
    """Return points, each with a chance in proportion to its squared distance from those before (k-means++)."""
    chances, squared = weights, np.full(len(points), np.inf)
    centres = np.empty((count, points.shape[1]))
    for place in range(count):
        centres[place] = points[random.choice(len(points), p=chances / chances.sum())]
        squared = np.minimum(squared, ((points - centres[place]) ** 2).sum(axis=1))
        # No chance is 0, since the squares of the smallest distances are.
        chances = weights * np.maximum(squared, np.finfo(np.float64).tiny)
    return centres


def _nearest(points: Floats, centres: Floats) -> Integers:
    """Return the nearest centre of each point."""
    return np.asarray(((centres**2).sum(axis=1) - 2.0 * points @ centres.T).argmin(axis=1), np.int64)
