"""`StudentT`: Student's t distribution of one column in each state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln, stdtr

from eigentree.emissions.base import PARAMETER
from eigentree.emissions.column import NODES, SLOPE_WEIGHTS, ColumnEmission, best_step, mean_and_variance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats, Integers

__all__ = ["StudentT"]

LEAST_DF, MOST_DF = 2.1, 200.0
"""Fewer degrees of freedom than 2 have no variance; with more than 200 the log density is the normal one's to 0.01
within three standard deviations."""

START_DF = 10.0
"""Between normal and heavy tails: E-steps move it either way."""


@dataclass(frozen=True, eq=False, repr=False)
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
    domains = MappingProxyType({"squared_scale": "positive", "df": "positive"})
    units = MappingProxyType({"location": "squared_scale"})

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
        """Return weight, sums of the expected precision times 1, x and x^2, and log-likelihoods at the nodes of df.

        A t distribution is a normal one whose precision has a gamma distribution; x is around `centre`.
        """
        distance = self._distance(basis)
        own, x = counts * (self.df + 1.0) / (self.df + distance), basis - self.centre
        sums = [counts.sum(axis=0), own.sum(axis=0), (own * x).sum(axis=0), (own * x**2).sum(axis=0)]
        for df in self.df * np.exp(NODES)[:, None]:
            half = (df + 1.0) / 2.0
            spread = half * np.einsum("nk,nk->k", counts, np.log1p(distance / df))
            sums.append(sums[0] * (gammaln(half) - gammaln(df / 2.0) - 0.5 * np.log(df)) - spread)
        return np.stack(sums, axis=1)

    def maximised(self, statistics: Floats) -> Self:
        """Return, for each state, new location and scale (EM) or new degrees of freedom: what gains more."""
        location, scale, df = self.location - self.centre, self.squared_scale.copy(), self.df.copy()
        prior = self.prior_rows * self.prior_variance
        for state, (weight, precision, total, squares, *heights) in enumerate(statistics):
            if weight > 0:
                middle, rows = total / precision, weight + self.prior_rows
                spread = max(squares - precision * middle**2, 0.0) + prior
                # Rounding leaves this much of the variance of equal cells.
                floor = np.finfo(np.float64).eps * (self.prior_variance + middle**2)
                new, old = max(spread / rows, floor), scale[state]
                before = spread + precision * (middle - location[state]) ** 2
                gain = 0.5 * (rows * np.log(old / new) + before / old - spread / new)
                bounds = np.log(LEAST_DF / df[state]), np.log(MOST_DF / df[state])
                step, other = best_step(np.array(heights), *bounds)
                if gain >= other:
                    location[state], scale[state] = middle, new
                else:
                    df[state] *= np.exp(step)
        return replace(self, location=location + self.centre, squared_scale=scale, df=df)

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by all three parameters."""
        weight, precision, total, squares = statistics[:, :4].T
        apart = self.location - self.centre
        spread = squares - 2.0 * apart * total + precision * apart**2 + self.prior_rows * self.prior_variance
        return {
            "location": (total - precision * apart) / self.squared_scale,
            "squared_scale": 0.5 * (spread / self.squared_scale - weight - self.prior_rows) / self.squared_scale,
            "df": statistics[:, 4:] @ SLOPE_WEIGHTS / self.df,
        }

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
