"""`Poisson`: a Poisson distribution of a column of counts in each state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln, pdtr

from eigentree.emissions.base import PARAMETER
from eigentree.emissions.column import ColumnEmission, need_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats, Integers

__all__ = ["Poisson"]


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(ColumnEmission):
    """A Poisson distribution of a column of counts in each state.

    Parameters
    ----------
    mean : array, shape (states,)
    prior_rows : float
        How many rows that show `prior_mean` each state is thought to have shown before: a state that saw only zeros
        does not exclude other counts. 0 is maximum likelihood.
    prior_mean : float
        The mean of all rows.
    """

    family: ClassVar[str] = "poisson"
    domains = MappingProxyType({"mean": "positive"})

    mean: Floats = field(metadata=PARAMETER)
    prior_rows: float
    prior_mean: float

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0) -> Self:
        """Return the emission in which every state has the mean of all rows."""
        values, weight = cls.known(cells, weights)
        mean = float(np.average(values, weights=weight)) if len(values) else 1.0
        mean = mean or 1.0 / (1.0 + weight.sum())  # Rows of zeros exclude no other count.
        return cls(np.full(states, mean), prior_rows, mean)

    @classmethod
    def checked(cls, values: Floats) -> Floats:
        """Return known values if all are counts."""
        need_counts(values, cls.family)
        return values

    def basis(self, values: Floats) -> Any:
        """Return counts and the logarithms of their factorials, shape (values, 2)."""
        return np.stack([values, gammaln(values + 1.0)], axis=1)

    def log_density(self, basis: Any) -> Floats:
        """Return the log probability of each count in each state."""
        return np.asarray(basis[:, :1] * np.log(self.mean) - self.mean - basis[:, 1:])

    def sums(self, basis: Any, counts: Floats) -> Floats:
        """Return weight and sum, shape (states, 2)."""
        return np.stack([counts.sum(axis=0), counts.T @ basis[:, 0]], axis=1)

    def maximised(self, statistics: Floats) -> Self:
        """Return the mean of the rows of each state, the prior's included."""
        weight, total = statistics.T
        rows = np.where(weight > 0, weight + self.prior_rows, 1.0)
        mean = np.where(weight > 0, (total + self.prior_rows * self.prior_mean) / rows, self.mean)
        # Of maximum likelihood, where a state saw only zeros, the logarithm stays finite.
        return replace(self, mean=np.maximum(mean, np.finfo(np.float64).tiny))

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by the mean."""
        weight, total = statistics.T
        return {"mean": (total + self.prior_rows * self.prior_mean) / self.mean - weight - self.prior_rows}

    def log_prior(self) -> float:
        """Return the log probability of the prior's rows but for a constant."""
        return self.prior_rows * float(np.sum(self.prior_mean * np.log(self.mean) - self.mean))

    def state_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each state."""
        return self.mean, self.mean

    def state_cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        return np.where(values < 0, 0.0, pdtr(np.floor(np.maximum(values, 0.0)), self.mean))

    def drawn(self, states: Integers, random: np.random.Generator) -> Floats:
        """Return a count sampled for each given state."""
        return random.poisson(self.mean[states]).astype(np.float64)
