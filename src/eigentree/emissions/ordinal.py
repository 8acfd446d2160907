"""`Ordinal`: ordered categories of one column, by thresholds on a line on which each state has its place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import expit, logit

from eigentree.emissions.base import PARAMETER
from eigentree.emissions.column import ColumnEmission, need_counts
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats, Integers

__all__ = ["Ordinal"]

NEWTON_STEPS, HALVINGS = 25, 30
"""Newton's method on a concave function: from the last M-step's parameters, a few steps reach rounding; a step of
which 30 halvings raise nothing is rounding."""

LONGEST_STEP = 2.0
"""Logits of one step: further away the logistic curve is nothing like its parabola, and a location that is thrown
far out never comes back, since its curvature is rounded to zero there."""

FARTHEST = 30.0
"""Logits beyond it are probabilities below 1e-13: further away, maximum likelihood is flat."""


@dataclass(frozen=True, eq=False, repr=False)
class Ordinal(ColumnEmission):
    """Ordered categories 0, 1, … by a cumulative logit: P(cell <= s | state) = expit(thresholds[s] - location).

    Parameters
    ----------
    location : array, shape (states,)
    thresholds : array, shape (states, categories - 1)
        Ascending, and the same in all states.
    prior_rows : float
        How many rows of `prior_shares` each state is thought to have shown before; 0 is maximum likelihood.
    prior_shares : array, shape (categories,)
        The share of each category among all rows and one more row that is spread over all categories.
    """

    family: ClassVar[str] = "ordinal"
    is_tied = True

    location: Floats = field(metadata=PARAMETER)
    thresholds: Floats = field(metadata=PARAMETER)
    prior_rows: float
    prior_shares: Floats

    @classmethod
    def started(
        cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0, categories: int | None = None
    ) -> Self:
        """Return the emission in which every state has the shares of all rows.

        Categories are by default as many as the largest code shows.
        """
        values, weight = cls.known(cells, weights)
        largest = int(values.max()) if len(values) else 0
        number = max(categories or largest + 1, 2)
        if largest >= number:
            raise DataError(f"code {largest} is not among {number} ordered categories, whose codes are from 0")
        counts = np.bincount(values.astype(np.int64), weight, number)
        shares = (counts + 1.0 / number) / (counts.sum() + 1.0)
        thresholds = logit(np.cumsum(shares)[:-1])
        return cls(np.zeros(states), np.tile(thresholds, (states, 1)), prior_rows, shares)

    @classmethod
    def checked(cls, values: Floats) -> Floats:
        """Return known values if all are codes."""
        need_counts(values, cls.family)
        return values

    @property
    def n_parameters(self) -> int:
        """Places of states on a line whose origin is free, and thresholds."""
        return self.states - 1 + len(self.prior_shares) - 1

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of categories."""
        return {"categories": len(self.prior_shares)}

    @property
    def table(self) -> Floats:
        """Return P(category | state), shape (states, categories)."""
        return np.stack(
            [_shares(each, limits) for each, limits in zip(self.location, self.thresholds, strict=True)]
        )

    def basis(self, values: Floats) -> Any:
        """Return codes."""
        codes = values.astype(np.int64)
        number = len(self.prior_shares)
        if len(codes) and codes[-1] >= number:
            raise DataError(f"code {codes[-1]} is not among {number} ordered categories, whose codes are from 0")
        return codes

    def log_density(self, basis: Any) -> Floats:
        """Return the log probability of each code in each state."""
        return np.asarray(np.log(np.maximum(self.table.T[basis], np.finfo(np.float64).tiny)))

    def sums(self, basis: Any, counts: Floats) -> Floats:
        """Return the expected number of rows of each category, shape (states, categories)."""
        made = np.zeros((self.states, len(self.prior_shares)))
        made[:, basis] = counts.T
        return made

    def maximised(self, statistics: Floats) -> Self:
        """Return locations and thresholds of highest likelihood, the prior's rows included: Newton's method."""
        seen = np.flatnonzero(statistics.sum(axis=1) > 0)
        if not len(seen):
            return self
        counts = statistics[seen] + self.prior_rows * self.prior_shares
        line = np.concatenate([self.thresholds[0], self.location[seen]])
        height, number = _height(line, counts), counts.shape[1] - 1
        for _ in range(NEWTON_STEPS):
            step = _newton_step(line, counts)
            step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), LONGEST_STEP))
            for _ in range(HALVINGS):
                moved = np.clip(line + step, -FARTHEST, FARTHEST)
                new = _height(moved, counts)
                if new > height:
                    break
                step = step / 2.0
            else:
                break
            line, height = moved, new
        location = self.location.copy()
        location[seen] = line[number:]
        # A shift of all changes nothing; locations of states of no weight stay among the thresholds.
        middle = line[number:].mean()
        thresholds = np.tile(line[:number] - middle, (self.states, 1))
        return replace(self, location=location - middle, thresholds=thresholds)

    def moved(self, by: Floats) -> Self:
        """Return the emission at other free coordinates: thresholds, the first and distances, then locations.

        The location of the first state stays where it is.
        """
        first, widths, locations = np.split(by, [1, self.thresholds.shape[1]])
        line = self.thresholds[0]
        moved = line[0] + first + np.concatenate([[0.0], np.cumsum(np.diff(line) * np.exp(widths))])
        location = self.location + np.concatenate([[0.0], locations])
        return replace(self, location=location, thresholds=np.tile(moved, (self.states, 1)))

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by locations and thresholds."""
        shown = statistics + self.prior_rows * self.prior_shares
        ratio = shown / np.maximum(self.table, np.finfo(np.float64).tiny)
        limits = self.thresholds - self.location[:, None]
        slope = expit(limits) * expit(-limits) * (ratio[:, :-1] - ratio[:, 1:])
        return {"location": -slope.sum(axis=1), "thresholds": slope}

    def _along(self, by: Floats, moved: Mapping[str, Floats], score: Mapping[str, Floats]) -> Floats:
        # A threshold moves with the first and with each distance below it.
        beyond = np.cumsum(score["thresholds"].sum(axis=0)[::-1])[::-1]
        return np.concatenate([beyond[:1], beyond[1:] * np.diff(moved["thresholds"][0]), score["location"][1:]])

    def log_prior(self) -> float:
        """Return the log probability of the prior's rows."""
        if not self.prior_rows:
            return 0.0
        logs = np.log(np.maximum(self.table, np.finfo(np.float64).tiny))
        return self.prior_rows * float((logs @ self.prior_shares).sum())

    def state_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each state's codes."""
        codes = np.arange(len(self.prior_shares))
        mean = self.table @ codes
        return mean, self.table @ codes**2 - mean**2

    def state_cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        upto = np.concatenate([np.zeros((self.states, 1)), np.cumsum(self.table, axis=1)], axis=1)
        place = np.clip(np.floor(np.nan_to_num(values[:, 0])), -1, len(self.prior_shares) - 1).astype(np.int64) + 1
        return np.asarray(np.minimum(upto.T[place], 1.0))

    def drawn(self, states: Integers, random: np.random.Generator) -> Floats:
        """Return a code sampled for each given state."""
        upto = np.cumsum(self.table, axis=1)[states, :-1]
        return np.asarray((random.random(len(states))[:, None] >= upto).sum(axis=1), np.float64)


def _shares(location: float, thresholds: Floats) -> Floats:
    """Return the probability of each category, exact in both tails."""
    limits = np.concatenate([[-np.inf], thresholds - location, [np.inf]])
    lower, upper = limits[:-1], limits[1:]
    return np.asarray(np.where(lower > 0, expit(-lower) - expit(-upper), expit(upper) - expit(lower)))


def _height(line: Floats, counts: Floats) -> float:
    """Return the log-likelihood of counts; minus infinity where thresholds do not ascend."""
    number = counts.shape[1] - 1
    if (np.diff(line[:number]) <= 0).any():
        return -np.inf
    table = np.stack([_shares(each, line[:number]) for each in line[number:]])
    return float((counts * np.log(np.maximum(table, np.finfo(np.float64).tiny))).sum())


def _newton_step(line: Floats, counts: Floats) -> Floats:
    """Return Newton's step of thresholds and locations, the shortest where a shift of all changes nothing."""
    states, number = len(counts), counts.shape[1] - 1
    table = np.stack([_shares(each, line[:number]) for each in line[number:]])
    limits = line[:number] - line[number:, None]
    density = expit(limits) * expit(-limits)
    bend = density * (expit(-limits) - expit(limits))
    # Each threshold of each state is the upper limit of one category and the lower one of the next.
    ratio = counts / np.maximum(table, np.finfo(np.float64).tiny)
    square = ratio / np.maximum(table, np.finfo(np.float64).tiny)
    slope = density * (ratio[:, :-1] - ratio[:, 1:])
    own = bend * (ratio[:, :-1] - ratio[:, 1:]) - density**2 * (square[:, :-1] + square[:, 1:])
    both = density[:, :-1] * density[:, 1:] * square[:, 1:-1]
    second = np.zeros((states, number, number))
    place = np.arange(number)
    second[:, place, place] = own
    second[:, place[:-1], place[1:]] = second[:, place[1:], place[:-1]] = both
    gradient = np.concatenate([slope.sum(axis=0), -slope.sum(axis=1)])
    hessian = np.block(
        [
            [second.sum(axis=0), -second.sum(axis=1).T],
            [-second.sum(axis=1), np.diag(second.sum(axis=(1, 2)))],
        ]
    )
    return np.asarray(-np.linalg.lstsq(hessian, gradient, rcond=None)[0])
