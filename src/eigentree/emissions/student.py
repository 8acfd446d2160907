"""`StudentT`: Student's t distribution of one column in each state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, gammaln, stdtr

from eigentree.emissions.base import PARAMETER
from eigentree.emissions.column import ColumnEmission, mean_and_variance

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["StudentT"]

LEAST_DF, MOST_DF = 2.1, 200.0
"""Fewer degrees of freedom than 2 have no variance; with more than 200 the log density is the normal one's to 0.01
within three standard deviations."""

START_DF = 10.0
"""Between normal and heavy tails: E-steps move it either way."""

BISECTIONS = 50
"""Halvings of the logarithms of the bounds of degrees of freedom, which leave rounding."""


@dataclass(frozen=True, eq=False)
class StudentT(ColumnEmission):
    """Student's t distribution of one column in each state.

    Parameters
    ----------
    location, squared_scale, df : array, shape (states,)
    prior_rows : float
        How many rows of `prior_variance` each state is thought to have shown before, as for `Gaussian`.
    prior_variance : float
    centre : float
        The mean of all rows, which sums are taken around.
    """

    family: ClassVar[str] = "student"

    location: Floats = field(metadata=PARAMETER)
    squared_scale: Floats = field(metadata=PARAMETER)
    df: Floats = field(metadata=PARAMETER)
    prior_rows: float
    prior_variance: float
    centre: float

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0) -> Self:
        """Return the emission in which every state has mean and variance of all rows."""
        mean, variance = (float(each[0]) for each in mean_and_variance(cells, weights))
        every = np.ones(states)
        scale = variance * (START_DF - 2.0) / START_DF
        return cls(mean * every, scale * every, START_DF * every, prior_rows, variance / states**2, mean)

    def _distance(self, basis: Floats) -> Floats:
        return np.asarray((basis - self.location) ** 2 / self.squared_scale)

    def log_density(self, basis: Any) -> Floats:
        """Return the log density of each value in each state."""
        half = (self.df + 1.0) / 2.0
        constant = gammaln(half) - gammaln(self.df / 2.0) - 0.5 * np.log(np.pi * self.df * self.squared_scale)
        return np.asarray(constant - half * np.log1p(self._distance(basis) / self.df))

    def sums(self, basis: Any, counts: Floats) -> Floats:
        """Return weight, sums of the expected precision times 1, x and x^2, and of its log less itself.

        A t distribution is a normal one whose precision has a gamma distribution; x is around `centre`.
        """
        precision = (self.df + 1.0) / (self.df + self._distance(basis))
        log_precision = np.log(precision) + digamma((self.df + 1.0) / 2.0) - np.log((self.df + 1.0) / 2.0)
        x, own = basis - self.centre, counts * precision
        sums = [counts, own, own * x, own * x**2, counts * (log_precision - precision)]
        return np.stack([each.sum(axis=0) for each in sums], axis=1)

    def maximised(self, statistics: Floats) -> Self:
        """Return location, scale and degrees of freedom of the rows of each state, the prior's included."""
        seen = statistics[:, 0] > 0
        weight, precision, total, squares, score = np.where(seen[:, None], statistics, 1.0).T
        middle = total / precision
        spread = np.maximum(squares - precision * middle**2, 0.0) + self.prior_rows * self.prior_variance
        # Rounding leaves this much of the variance of equal cells.
        floor = np.finfo(np.float64).eps * (self.prior_variance + middle**2)
        scale = np.maximum(spread / (weight + self.prior_rows), floor)
        return replace(
            self,
            location=np.where(seen, middle + self.centre, self.location),
            squared_scale=np.where(seen, scale, self.squared_scale),
            df=np.where(seen, _degrees(score / weight), self.df),
        )

    def log_prior(self) -> float:
        """Return the log density of the prior's rows."""
        spread = np.log(self.squared_scale) + self.prior_variance / self.squared_scale
        return -0.5 * self.prior_rows * float(spread.sum())

    def state_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each state."""
        return self.location, self.squared_scale * self.df / (self.df - 2.0)

    def state_cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        return np.asarray(stdtr(self.df, (values - self.location) / np.sqrt(self.squared_scale)))

    def drawn(self, states: Integers, random: np.random.Generator) -> Floats:
        """Return a value sampled for each given state."""
        noise = random.standard_t(self.df[states])
        return np.asarray(self.location[states] + np.sqrt(self.squared_scale)[states] * noise)


def _degrees(score: Floats) -> Floats:
    """Return the degrees of freedom within bounds at which the expected log-likelihood is highest."""
    low = np.full(score.shape, np.log(LEAST_DF))
    high = np.full(score.shape, np.log(MOST_DF))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        half = np.exp(middle) / 2.0
        # The slope falls as degrees of freedom grow.
        rising = np.log(half) - digamma(half) + 1.0 + score > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(np.exp((low + high) / 2.0))
