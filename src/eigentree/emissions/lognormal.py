"""`LogNormal`: a column of positive numbers whose logarithm is normal in each state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from eigentree.emissions.column import need_positive
from eigentree.emissions.gaussian import Gaussian

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["LogNormal"]


@dataclass(frozen=True, eq=False, repr=False)
class LogNormal(Gaussian):
    """A column of positive numbers whose logarithm is normal in each state.

    Parameters
    ----------
    mean, variance, prior_rows, prior_variance, centre
        As of `Gaussian`, of the logarithm.
    """

    family: ClassVar[str] = "lognormal"

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0) -> Self:
        """Return the emission in which every state has mean and variance of the logarithm of all rows."""
        need_positive(cells, cls.family)
        return super().started(np.log(cells), weights, states, prior_rows=prior_rows)

    def features(self, cells: Floats) -> Any:
        """Return logarithms."""
        need_positive(cells, self.family)
        return np.log(cells)

    def lines(self, features: Any) -> Floats:
        """Return the log density of each row in each state."""
        return np.asarray(super().lines(features) - np.nan_to_num(features))

    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell in each state."""
        mean = np.exp(self.mean + self.variance / 2)
        variance = mean**2 * np.expm1(self.variance)
        missing = np.isnan(cells)[:, None, :]
        return np.where(missing, mean[:, None], cells[:, None, :]), np.where(missing, variance[:, None], 0.0)

    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        logs = np.log(values, out=np.full(values.shape, -np.inf), where=values > 0)
        return super().cdf(logs, cells)

    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return the cells with missing ones sampled given the state of each row."""
        drawn = np.exp(super().sampled(np.full(cells.shape, np.nan), states, random))
        return np.where(np.isnan(cells), drawn, cells)
