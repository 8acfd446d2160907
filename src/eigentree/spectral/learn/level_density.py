"""`LevelDensity`: the distribution of a number given other cells, by the probabilities of its levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.counting.levels.hats import LEVELS, numbers_in_levels
from eigentree.inference.mixed.density import NumberDensity

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.counting.levels.hats import HatScale

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

    def _pdf(self, x: Floats) -> Floats:
        return np.asarray(self.weights[self.scale.levels(x)] * np.exp(self.scale.log_density(x)))

    def _cdf(self, x: Floats) -> Floats:
        places = self.scale.marginal.cdf(x) * LEVELS
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

    def _quantiles(self, shares: list[float]) -> Floats:
        return np.asarray(self.scale.quantiles(self.weights[None], shares)[0])

    def _sampled(self, n: int, random: np.random.Generator) -> Floats:
        levels = choose(self.weights.cumsum()[None], np.zeros(n, np.int64), random.random(n))
        return numbers_in_levels(levels[:, None].astype(np.float64), [self.scale], random)[:, 0]
