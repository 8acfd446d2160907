"""`LevelDensity`: the distribution of a number given other cells, by the probabilities of its levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.counting.levels.hats import LEVELS, numbers_in_levels
from eigentree.inference.mixed.density import NumberDensity, number_points
from eigentree.validation import checked_quantiles, generator

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.counting.levels.hats import HatScale
    from eigentree.validation import Seed

__all__ = ["LevelDensity"]


@dataclass(frozen=True, eq=False, repr=False)
class LevelDensity(NumberDensity):
    """The distribution of one number given evidence: a table over its levels, inside which it has its own density.

    Attributes
    ----------
    name : str
        Of the column.
    weights : array, shape (levels,)
    scale : HatScale
    """

    name: str
    weights: Floats
    scale: HatScale

    def pdf(self, x: ArrayLike) -> Floats:
        """Return the density at some numbers."""
        values = number_points(x)
        return np.asarray(self.weights[self.scale.levels(values)] * np.exp(self.scale.log_density(values)))

    def cdf(self, x: ArrayLike) -> Floats:
        """Return P(number <= x)."""
        places = self.scale.marginal.cdf(number_points(x)) * LEVELS
        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        return np.asarray(np.interp(places, np.arange(LEVELS + 1), below))

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.weights @ self.scale.means)

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(max(float(self.weights @ self.scale.squares) - self.mean**2, 0.0)))

    def quantile(self, q: ArrayLike) -> Floats:
        """Return the numbers below which these shares lie."""
        return np.asarray(self.scale.quantiles(self.weights[None], checked_quantiles(q))[0])

    def sample(self, n: int = 1, random_state: Seed = None) -> Floats:
        """Return numbers that are sampled from it."""
        random = generator(random_state)
        levels = choose(self.weights.cumsum()[None], np.zeros(n, np.int64), random.random(n))
        return numbers_in_levels(levels[:, None].astype(np.float64), [self.scale], random)[:, 0]
