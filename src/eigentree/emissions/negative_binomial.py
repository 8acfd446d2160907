"""`NegativeBinomial`: a negative binomial distribution of a column of counts in each state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import betainc, digamma, gammaln

from eigentree.emissions.base import PARAMETER
from eigentree.emissions.column import NODES, SLOPE_WEIGHTS, ColumnEmission, best_step, need_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats, Integers

__all__ = ["NegativeBinomial"]

SMALLEST_SIZE, LARGEST_SIZE = 1e-3, 1e5
"""With the largest, variance exceeds the Poisson's by a share of mean / 100,000, with the smallest by 1,000 times
the mean; beyond them the likelihood is flat."""


@dataclass(frozen=True, eq=False, repr=False)
class NegativeBinomial(ColumnEmission):
    """A negative binomial distribution of a column of counts in each state: variance = mean + mean^2 / size.

    Parameters
    ----------
    mean, size : array, shape (states,)
    prior_rows : float
        How many rows that show `prior_mean` each state is thought to have shown before; 0 is maximum likelihood.
    prior_mean : float
        The mean of all rows.
    """

    family: ClassVar[str] = "negative_binomial"
    domains = MappingProxyType({"mean": "positive", "size": "positive"})

    mean: Floats = field(metadata=PARAMETER)
    size: Floats = field(metadata=PARAMETER)
    prior_rows: float
    prior_mean: float

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0) -> Self:
        """Return the emission in which every state has mean and variance of all rows."""
        values, weight = cls.known(cells, weights)
        mean = float(np.average(values, weights=weight)) if len(values) else 1.0
        excess = float(np.average((values - mean) ** 2, weights=weight)) - mean if len(values) else 0.0
        mean = mean or 1.0 / (1.0 + weight.sum())  # Rows of zeros exclude no other count.
        size = np.clip(mean**2 / excess if excess > 0 else LARGEST_SIZE, SMALLEST_SIZE, LARGEST_SIZE)
        return cls(np.full(states, mean), np.full(states, size), prior_rows, mean)

    @classmethod
    def checked(cls, values: Floats) -> Floats:
        """Return known values if all are counts."""
        need_counts(values, cls.family)
        return values

    def log_density(self, basis: Any) -> Floats:
        """Return the log probability of each count in each state."""
        made = gammaln(basis + self.size) - gammaln(self.size) - gammaln(basis + 1.0)
        return np.asarray(
            made - self.size * np.log1p(self.mean / self.size) - basis * np.log1p(self.size / self.mean)
        )

    def sums(self, basis: Any, counts: Floats) -> Floats:
        """Return weight, sum, and log rising factorials at the nodes around the size, shape (states, 2 + nodes)."""
        sizes = self.size[:, None] * np.exp(NODES)
        rising = [own @ (gammaln(basis + each) - gammaln(each)) for own, each in zip(counts.T, sizes, strict=True)]
        head = np.stack([counts.sum(axis=0), counts.T @ basis[:, 0]], axis=1)
        return np.concatenate([head, np.array(rising)], axis=1)

    def maximised(self, statistics: Floats) -> Self:
        """Return mean and size of highest likelihood, the size within a factor of e of the present one."""
        mean, size = self.mean.copy(), self.size.copy()
        for state, (weight, total, *rising) in enumerate(statistics):
            if weight > 0:
                rows = weight + self.prior_rows
                shown = total + self.prior_rows * self.prior_mean
                mean[state] = max(shown / rows, np.finfo(np.float64).tiny)
                sizes = self.size[state] * np.exp(NODES)
                prior = self.prior_rows * (gammaln(self.prior_mean + sizes) - gammaln(sizes))
                chance = sizes * np.log1p(mean[state] / sizes) + mean[state] * np.log1p(sizes / mean[state])
                bounds = np.log(SMALLEST_SIZE / size[state]), np.log(LARGEST_SIZE / size[state])
                size[state] *= np.exp(best_step(np.array(rising) + prior - rows * chance, *bounds)[0])
        return replace(self, mean=mean, size=size)

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by mean and size."""
        weight, total = statistics[:, 0] + self.prior_rows, statistics[:, 1] + self.prior_rows * self.prior_mean
        rising = statistics[:, 2:] @ SLOPE_WEIGHTS / self.size
        rising = rising + self.prior_rows * (digamma(self.prior_mean + self.size) - digamma(self.size))
        both = self.mean + self.size
        of_mean = self.size / both * (total / self.mean - weight)
        of_size = rising - weight * np.log1p(self.mean / self.size) + (weight * self.mean - total) / both
        return {"mean": of_mean, "size": of_size}

    def log_prior(self) -> float:
        """Return the log probability of the prior's rows but for a constant."""
        return self.prior_rows * float(self.log_density(np.array([[self.prior_mean]])).sum())

    def state_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each state."""
        return self.mean, self.mean + self.mean**2 / self.size

    def state_cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        chance = self.size / (self.size + self.mean)
        return np.where(values < 0, 0.0, betainc(self.size, np.floor(np.maximum(values, 0.0)) + 1.0, chance))

    def drawn(self, states: Integers, random: np.random.Generator) -> Floats:
        """Return a count sampled for each given state."""
        own = self.size[states]
        return random.negative_binomial(own, own / (own + self.mean[states])).astype(np.float64)
