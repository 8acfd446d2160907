"""`Gaussian` and `Diagonal`: normal distributions of one column, or of independent columns, in each state."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr

from eigentree.emissions.base import PARAMETER, Emission
from eigentree.emissions.column import mean_and_variance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["Diagonal", "Gaussian"]


@dataclass(frozen=True, eq=False, repr=False)
class IndependentNormal(Emission):
    """Normal distributions of columns that are independent in each state, or of one column.

    Arrays have an axis of columns, last, unless there can be only one column.
    """

    domains = MappingProxyType({"variance": "positive"})
    units = MappingProxyType({"mean": "variance"})

    mean: Floats = field(metadata=PARAMETER)
    variance: Floats = field(metadata=PARAMETER)
    prior_rows: float
    prior_variance: Any
    centre: Any

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self._means.shape[1])

    @property
    def n_parameters(self) -> int:
        """A mean and a variance of each column for each state."""
        return 2 * int(self.mean.size)

    @property
    def _means(self) -> Floats:
        """The means, shape (states, columns)."""
        return self.mean if self.groups else self.mean[:, None]

    @property
    def _variances(self) -> Floats:
        """The variances, shape (states, columns)."""
        return self.variance if self.groups else self.variance[:, None]

    def lines(self, features: Any) -> Floats:
        """Return the log density of the known cells of each row in each state."""
        return _normal_lines(features, self._means, self._variances)

    def maximised(self, statistics: Floats) -> Self:
        """Return mean and variance of the rows of each state, the prior's included."""
        weight, total, squares = np.moveaxis(statistics, 1, 0)
        seen = weight > 0
        mean = np.divide(total, weight, out=self.mean - self.centre, where=seen)
        spread = np.maximum(squares - weight * mean**2, 0.0) + self.prior_rows * self.prior_variance
        variance = np.divide(spread, weight + self.prior_rows, out=self.variance.copy(), where=seen)
        # Rounding leaves this much of the variance of equal cells.
        floor = np.finfo(np.float64).eps * (self.prior_variance + mean**2)
        return replace(self, mean=mean + self.centre, variance=np.maximum(variance, floor))

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by mean and variance."""
        weight, total, squares = np.moveaxis(statistics, 1, 0)
        apart = self.mean - self.centre
        spread = squares - 2.0 * apart * total + weight * apart**2 + self.prior_rows * self.prior_variance
        of_variance = 0.5 * (spread / self.variance - weight - self.prior_rows) / self.variance
        return {"mean": (total - weight * apart) / self.variance, "variance": of_variance}

    def log_prior(self) -> float:
        """Return the log density of the prior's rows."""
        return -0.5 * self.prior_rows * float(np.sum(np.log(self.variance) + self.prior_variance / self.variance))

    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell in each state."""
        missing = np.isnan(cells)[:, None, :]
        return np.where(missing, self._means, cells[:, None, :]), np.where(missing, self._variances, 0.0)

    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        return np.asarray(ndtr((values[:, None, :] - self._means) / np.sqrt(self._variances)))

    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return the cells with missing ones sampled given the state of each row."""
        drawn = self._means[states] + np.sqrt(self._variances)[states] * random.normal(size=cells.shape)
        return np.where(np.isnan(cells), drawn, cells)

    def is_proper(self) -> bool:
        """Return whether means are finite, and variances positive, of finite size, and such that densities are."""
        # Without the sample that other families need: a table with numbers has one of these for each.
        if not (self.mean.size and self.mean.shape == self.variance.shape and self.mean.ndim == 1 + self.groups):
            return False
        with np.errstate(divide="ignore", over="ignore"):
            numbers = np.stack([self.mean, self.variance, 0.5 / self.variance])
        return bool(np.isfinite(numbers).all() and (self.variance > 0).all())


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(IndependentNormal):
    """A normal distribution of one column in each state.

    Parameters
    ----------
    mean, variance : array, shape (states,)
    prior_rows : float
        How many rows of `prior_variance` each state is thought to have shown before. The default is one row of the
        column's variance over the square of the number of states, which keeps a state from collapsing onto one
        value and hardly changes anything else (Fraley and Raftery, 2007); 0 is maximum likelihood.
    prior_variance : float
    centre : float
        The mean of all rows, which sums are taken around.
    """

    family: ClassVar[str] = "gaussian"

    prior_variance: float
    centre: float

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0) -> Self:
        """Return the emission in which every state has mean and variance of all rows."""
        mean, variance = (float(each[0]) for each in mean_and_variance(cells, weights))
        every = np.ones(states)
        return cls(mean * every, variance * every, prior_rows, variance / states**2, mean)

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return weight, sum and sum of squares around `centre`, shape (states, 3)."""
        known = ~np.isnan(features[:, 0])
        own, x = counts[known], features[known, 0] - self.centre
        return np.asarray(own.T @ np.stack([np.ones_like(x), x, x * x], axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(IndependentNormal):
    """Normal distributions of a group of columns that are independent in each state.

    Parameters
    ----------
    mean, variance : array, shape (states, columns)
    prior_rows : float
        How many rows of `prior_variance` each state is thought to have shown before; 0 is maximum likelihood.
    prior_variance : array, shape (columns,)
        The columns' variances over the number of states to the power of 2 / columns (Fraley and Raftery, 2007).
    centre : array, shape (columns,)
        The mean of all rows, which sums are taken around.
    """

    family: ClassVar[str] = "diagonal"
    groups: ClassVar[bool] = True

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0) -> Self:
        """Return the emission in which every state has mean and variance of all rows."""
        mean, variance = mean_and_variance(cells, weights)
        every = np.ones((states, 1))
        return cls(mean * every, variance * every, prior_rows, variance / states ** (2 / len(mean)), mean)

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return weight, sum and sum of squares around `centre`, shape (states, 3, columns)."""
        known = ~np.isnan(features)
        x = np.where(known, features - self.centre, 0.0)
        return np.stack([counts.T @ known, counts.T @ x, counts.T @ np.square(x)], axis=1)


def _normal_lines(cells: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return the log density of the known cells of each row in each state, columns independent."""
    missing = np.isnan(cells)
    some: Booleans = np.asarray(missing.any(axis=0))
    scale, constant = np.sqrt(0.5 / variance), -0.5 * np.log(2.0 * math.pi * variance)
    made = np.empty((len(cells), len(mean)))
    # Column by column: sums over a short axis would take most of the time.
    for state in range(len(mean)):
        own = np.full(len(cells), constant[state, ~some].sum())
        for column in range(cells.shape[1]):
            z = cells[:, column] - mean[state, column]
            z *= scale[state, column]
            np.multiply(z, z, out=z)
            if some[column]:
                z = np.where(missing[:, column], 0.0, z - constant[state, column])
            own -= z
        made[:, state] = own
    return made
