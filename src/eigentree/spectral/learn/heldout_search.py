"""A search for the shrinkage and the floor that make held-out data likeliest, of rows and of sequences alike."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats

__all__ = ["FLOORS", "GRID", "LEAST_LOG", "USUAL", "Search", "Trial", "paired_gain", "usual_floor"]

GRID = (0.1, 0.2, 0.4, 0.8, 1.6, 6.4, 25.6, 102.4, math.inf)
"""Values of kappa to choose from; infinity is independent columns, if scaled. Less than the first is never best."""

USUAL = 0.4
"""The best or next to it whatever the structure, from 1,000 rows on: here the search begins, and without rows to
hold out it ends here."""

FLOORS = (1.0, 10.0, 30.0, 100.0)
"""Floors to choose from, as multiples of the usual one."""

LEAST_LOG = -745.0
"""About the log of the smallest number: what a cell counts as that is impossible without a floor."""

SURE = 2.0
"""By how many standard errors held-out likelihood must be better than at the usual place; less would be chance."""


def usual_floor(rows: float) -> float:
    """Return the floor at which the search begins, and ends where there are no rows to hold out.

    It is far below what a cell's probability is uncertain by, and goes away as rows grow in number.
    """
    return min(1e-3, 10.0 / max(rows, 1.0))


class Trial(Protocol):
    """A fit without some data, and these data."""

    def score(self, shrinkage: float, floor: float) -> Floats:
        """Return the log probability of each held-out row or piece."""


_Place: TypeAlias = tuple[int, int]
"""Where a shrinkage and a floor stand among those to choose from."""


class Search:
    """A search among shrinkages and floors, which scores held-out rows at no more pairs than it has to.

    Attributes
    ----------
    trials : sequence of Trial
    weights : array, shape (rows of all trials,)
    grid : (tuple of float, tuple of float)
        Shrinkages and floors to choose from, in rising order.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        weights: NDArray[Any],
        shrinkages: tuple[float, ...],
        floors: tuple[float, ...],
    ) -> None:
        self.trials = trials
        self.weights = weights
        self.grid = shrinkages, floors
        self._scores: dict[_Place, Floats] = {}

    def best(self) -> tuple[float, float]:
        """Return the pair that climbing from the usual one leads to, if it is surely better; else the usual."""
        return self._at(self._best)

    @cached_property
    def _best(self) -> _Place:
        usual = place = self.grid[0].index(USUAL), 0
        while (better := max(self._near(place), key=self._mean)) != place:
            place = better
        gain, error = paired_gain(self._score(place) - self._score(usual), self.weights)
        return place if gain > SURE * error else usual

    def beats(self, other: Search) -> bool:
        """Return whether the best pair is better than that of a search on other fits and the same rows."""
        return self._mean(self._best) > other._mean(other._best)

    def tried(self) -> dict[tuple[float, float], float]:
        """Return the mean log probability at all pairs that were scored."""
        return {self._at(place): self._mean(place) for place in sorted(self._scores)}

    def _near(self, place: _Place) -> list[_Place]:
        """Return a place and those next to it: more or less of one, or more of both."""
        places = [(place[0] + a, place[1] + b) for a, b in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1))]
        shrinkages, floors = self.grid
        return [near for near in places if 0 <= near[0] < len(shrinkages) and 0 <= near[1] < len(floors)]

    def _mean(self, place: _Place) -> float:
        return float(self.weights @ self._score(place)) / float(self.weights.sum())

    def _at(self, place: _Place) -> tuple[float, float]:
        shrinkages, floors = self.grid
        return shrinkages[place[0]], floors[place[1]]

    def _score(self, place: _Place) -> Floats:
        if place not in self._scores:
            self._scores[place] = np.concatenate([trial.score(*self._at(place)) for trial in self.trials])
        return self._scores[place]


def paired_gain(gains: Floats, weights: NDArray[Any]) -> tuple[float, float]:
    """Return the mean of the rows' gains, and its standard error."""
    total = float(weights.sum())
    mean = float(weights @ gains) / total
    return mean, math.sqrt(float(weights @ (gains - mean) ** 2)) / total
