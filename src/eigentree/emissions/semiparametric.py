"""`SemiParametric`: a column's smooth marginal density times a mixture of hat functions of its cdf."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr, ndtri

from eigentree.emissions.base import PARAMETER
from eigentree.emissions.column import ColumnEmission
from eigentree.emissions.marginal import Marginal, fitted_marginal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats, Integers

__all__ = ["SemiParametric"]

FEWEST_HATS, MOST_HATS = 4, 64
"""Two between the ends, so that a density can rise and fall; and as many parameters as a state of a column needs at
most, since 64 hats follow densities a fiftieth as wide as the column's."""

SCORES = np.linspace(-8.0, 8.0, 8001)
"""Normal scores at which integrals over the marginal density are taken, by the trapezoidal rule."""


@dataclass(frozen=True, eq=False, repr=False)
class HatBasis:
    """Of values: the log of the marginal density, the hat below the cdf, and the part of the way to the next."""

    log_marginal: Floats
    below: Integers
    part: Floats


@dataclass(frozen=True, eq=False, repr=False)
class SemiParametric(ColumnEmission):
    """A density f(x) sum_m weights[state, m] B_m(F(x)): a column's smooth density f, its cdf F, hat functions B.

    Parameters
    ----------
    weights : array, shape (states, hats)
        Of hat functions on even knots of [0, 1], each of which integrates to 1.
    prior_rows : float
        How many rows of the marginal density each state is thought to have shown before; 0 is maximum likelihood.
    marginal : Marginal
    """

    family: ClassVar[str] = "semiparametric"
    domains = MappingProxyType({"weights": "distribution"})

    weights: Floats = field(metadata=PARAMETER)
    prior_rows: float
    marginal: Marginal

    @classmethod
    def started(
        cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0, hats: int | None = None
    ) -> Self:
        """Return the emission in which every state has the marginal density.

        There are (2 n)^(1/3) hats for n rows: fewer bins smooth any density too much (Terrell and Scott, 1985).
        """
        known = ~np.isnan(cells[:, 0]) & (weights > 0)
        number = hats or int(np.clip(round((2.0 * float(known.sum())) ** (1 / 3)), FEWEST_HATS, MOST_HATS))
        marginal = fitted_marginal(cells[:, 0], weights)
        return cls(np.tile(_even_weights(max(number, 2)), (states, 1)), prior_rows, marginal)

    @property
    def n_parameters(self) -> int:
        """Weights, which are normalised in each state."""
        return self.states * (self._hats - 1)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of hats."""
        return {"hats": self._hats}

    @property
    def _hats(self) -> int:
        return int(self.weights.shape[1])

    @cached_property
    def _knot_densities(self) -> Floats:
        """The density of F(x) at knots: it is linear between them."""
        return np.asarray(self.weights / _even_weights(self._hats))

    def _hat_basis(self, values: Floats) -> HatBasis:
        place = np.clip(self.marginal.cdf(values), 0.0, 1.0) * (self._hats - 1)
        below = np.minimum(place.astype(np.int64), self._hats - 2)
        return HatBasis(self.marginal.log_density(values), below, place - below)

    def basis(self, values: Floats) -> Any:
        """Return the marginal density of values and their place among hats."""
        return self._hat_basis(values)

    def _parts(self, basis: HatBasis) -> tuple[Floats, Floats]:
        """Return what the hat below and the next add to the density of F(x), shape (values, states) each."""
        heights = self._knot_densities.T
        return heights[basis.below] * (1.0 - basis.part)[:, None], heights[basis.below + 1] * basis.part[:, None]

    def log_density(self, basis: Any) -> Floats:
        """Return the log density of each value in each state."""
        lower, upper = self._parts(basis)
        return np.asarray(
            basis.log_marginal[:, None] + np.log(np.maximum(lower + upper, np.finfo(np.float64).tiny))
        )

    def sums(self, basis: Any, counts: Floats) -> Floats:
        """Return the expected number of rows of each hat, shape (states, hats)."""
        lower, upper = self._parts(basis)
        both = np.maximum(lower + upper, np.finfo(np.float64).tiny)
        made = np.zeros((self.states, self._hats))
        for state in range(self.states):
            for place, part in ((basis.below, lower), (basis.below + 1, upper)):
                made[state] += np.bincount(place, counts[:, state] * part[:, state] / both[:, state], self._hats)
        return made

    def maximised(self, statistics: Floats) -> Self:
        """Return the share of each hat, the prior's rows included."""
        seen = statistics.sum(axis=1, keepdims=True) > 0
        shown = np.where(seen, statistics + self.prior_rows * _even_weights(self._hats), self.weights)
        return replace(self, weights=shown / shown.sum(axis=1, keepdims=True))

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by the weights of hats."""
        shown = statistics + self.prior_rows * _even_weights(self._hats)
        return {"weights": np.divide(shown, self.weights, out=np.zeros_like(shown), where=self.weights > 0)}

    def log_prior(self) -> float:
        """Return the log density of the prior's rows, which are spread over hats."""
        if not self.prior_rows:
            return 0.0
        return self.prior_rows * float((np.log(self.weights) @ _even_weights(self._hats)).sum())

    def state_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each state, integrated over normal scores."""
        values = self.marginal.from_scores(SCORES)
        place = ndtr(SCORES)
        knots = np.linspace(0.0, 1.0, self._hats)
        share = np.exp(-0.5 * SCORES**2)
        density = np.stack([np.interp(place, knots, each) for each in self._knot_densities]) * share
        density /= density.sum(axis=1, keepdims=True)
        mean = density @ values
        return mean, (density * (values - mean[:, None]) ** 2).sum(axis=1)

    @cached_property
    def _below(self) -> Floats:
        """The cdf of F(x) at knots, shape (states, hats)."""
        heights = self._knot_densities
        pieces = (heights[:, 1:] + heights[:, :-1]) / (2 * (self._hats - 1))
        return np.concatenate([np.zeros((self.states, 1)), np.cumsum(pieces, axis=1)], axis=1)

    def state_cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        basis = self._hat_basis(values[:, 0])
        lower, part = self._knot_densities.T[basis.below], basis.part[:, None]
        upper = self._knot_densities.T[basis.below + 1]
        inside = part * (lower + (upper - lower) * part / 2.0) / (self._hats - 1)
        return np.asarray(np.minimum(self._below.T[basis.below] + inside, 1.0))

    def drawn(self, states: Integers, random: np.random.Generator) -> Floats:
        """Return a value sampled for each given state: a hat, a place under it, and the value there."""
        upto = np.cumsum(self.weights, axis=1)[states, :-1]
        hat = (random.random(len(states))[:, None] >= upto).sum(axis=1)
        # The difference of two even numbers has the density of a hat; those at the ends are folded back.
        place = hat + random.random(len(states)) - random.random(len(states))
        place = np.abs(place) / (self._hats - 1)
        place = np.where(place > 1.0, 2.0 - place, place)
        return self.marginal.from_scores(ndtri(place))


def _even_weights(hats: int) -> Floats:
    """Return the weights of hats that add to a density of 1 on [0, 1]."""
    made = np.full(hats, 1.0 / (hats - 1))
    made[[0, -1]] /= 2.0
    return made
