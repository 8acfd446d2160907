"""`Gamma`: a gamma distribution of a column of positive numbers in each state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, gammainc, gammaln, polygamma

from eigentree.emissions.base import PARAMETER
from eigentree.emissions.column import ColumnEmission, need_positive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats, Integers

__all__ = ["Gamma"]

LEAST_SPREAD = 1e-8
"""Of log mean - mean log: below it, half of the digits of log shape - digamma(shape) are lost."""

NEWTON_STEPS = 8
"""From Minka's start, whose error is below 2 %, four reach rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Gamma(ColumnEmission):
    """A gamma distribution of a column of positive numbers in each state.

    Parameters
    ----------
    mean, shape : array, shape (states,)
    prior_rows : float
        How many rows of `prior_spread` around its own mean each state is thought to have shown before; 0 is maximum
        likelihood.
    prior_spread : float
        Logarithm of the mean less mean of the logarithm; that of all rows over the square of the number of states,
        as for `Gaussian`, since it is half of the squared coefficient of variation where that is small.
    """

    family: ClassVar[str] = "gamma"
    domains = MappingProxyType({"mean": "positive", "shape": "positive"})

    mean: Floats = field(metadata=PARAMETER)
    shape: Floats = field(metadata=PARAMETER)
    prior_rows: float
    prior_spread: float

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0) -> Self:
        """Return the emission in which every state has the distribution of all rows."""
        values, weight = cls.known(cells, weights)
        every = np.ones(states)
        if not len(values):
            return cls(every, every, prior_rows, 1.0)
        mean = float(np.average(values, weights=weight))
        spread = max(float(np.log(mean) - np.average(np.log(values), weights=weight)), LEAST_SPREAD)
        return cls(mean * every, _shape_of(np.full(states, spread)), prior_rows, spread / states**2)

    @classmethod
    def checked(cls, values: Floats) -> Floats:
        """Return known values if all are positive."""
        need_positive(values, cls.family)
        return values

    def basis(self, values: Floats) -> Any:
        """Return values and logarithms, shape (values, 2)."""
        return np.stack([values, np.log(values)], axis=1)

    def log_density(self, basis: Any) -> Floats:
        """Return the log density of each value in each state."""
        constant = self.shape * np.log(self.shape / self.mean) - gammaln(self.shape)
        return np.asarray(constant + basis[:, 1:] * (self.shape - 1.0) - basis[:, :1] * (self.shape / self.mean))

    def sums(self, basis: Any, counts: Floats) -> Floats:
        """Return weight, sum and sum of logarithms, shape (states, 3)."""
        return np.concatenate([counts.sum(axis=0)[:, None], counts.T @ basis], axis=1)

    def maximised(self, statistics: Floats) -> Self:
        """Return mean and shape of the rows of each state, the prior's included."""
        seen = statistics[:, 0] > 0
        weight, total, logs = np.where(seen[:, None], statistics, 1.0).T
        mean = total / weight
        spread = weight * (np.log(mean) - logs / weight) + self.prior_rows * self.prior_spread
        shape = _shape_of(spread / (weight + self.prior_rows))
        return replace(self, mean=np.where(seen, mean, self.mean), shape=np.where(seen, shape, self.shape))

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by mean and shape."""
        weight, total, logs = statistics.T
        ratio = self.shape / self.mean
        bend = np.log(self.shape) - digamma(self.shape)
        of_shape = weight * (bend + 1.0 - np.log(self.mean)) + logs - total / self.mean
        of_shape = of_shape + self.prior_rows * (bend - self.prior_spread)
        return {"mean": ratio * (total / self.mean - weight), "shape": of_shape}

    def log_prior(self) -> float:
        """Return the log density of the prior's rows, which depends on shapes alone."""
        own = self.shape * (np.log(self.shape) - 1.0 - self.prior_spread) - gammaln(self.shape)
        return self.prior_rows * float(own.sum())

    def state_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each state."""
        return self.mean, self.mean**2 / self.shape

    def state_cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        return np.asarray(gammainc(self.shape, np.maximum(values, 0.0) * (self.shape / self.mean)))

    def drawn(self, states: Integers, random: np.random.Generator) -> Floats:
        """Return a value sampled for each given state."""
        return random.gamma(self.shape[states], (self.mean / self.shape)[states])


def _shape_of(spread: Floats) -> Floats:
    """Return the shapes at which log shape - digamma(shape) is the spread (Minka, 2002)."""
    spread = np.maximum(spread, LEAST_SPREAD)
    shape = (3.0 - spread + np.sqrt((spread - 3.0) ** 2 + 24.0 * spread)) / (12.0 * spread)
    for _ in range(NEWTON_STEPS):
        step = (np.log(shape) - digamma(shape) - spread) / (shape - shape**2 * polygamma(1, shape))
        shape = 1.0 / (1.0 / shape + step)
    return np.asarray(shape)
