"""`NormalScores`: a group of columns whose normal scores are jointly normal in each state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from eigentree.emissions.full import FullGaussian, PatternedRows
from eigentree.emissions.marginal import Marginal, fitted_marginal

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats, Integers

__all__ = ["NormalScores"]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
"""Of integrals of values over a normal score; a marginal's bends are wider than the distances of nodes."""

ROWS = 1024
"""Rows whose integrals are taken at once."""


@dataclass(frozen=True, eq=False, repr=False)
class ScoredRows(PatternedRows):
    """Rows of normal scores, with the logarithm of their slopes, added over the known cells."""

    log_slope: Floats


@dataclass(frozen=True, eq=False, repr=False)
class NormalScores(FullGaussian):
    """A group of columns whose normal scores, by each column's smooth marginal, are jointly normal in each state.

    Parameters
    ----------
    mean, covariance, prior_rows, prior_covariance, centre
        As of `FullGaussian`, of normal scores.
    marginals : tuple of Marginal
        Of each column.
    """

    family: ClassVar[str] = "normal_scores"

    marginals: tuple[Marginal, ...] = ()

    @classmethod
    def started(
        cls,
        cells: Floats,
        weights: Floats,
        states: int,
        *,
        prior_rows: float = 1.0,
        prior_shape: str = "diagonal",
        marginals: tuple[Marginal, ...] | None = None,
    ) -> Self:
        """Return the emission in which every state has mean and covariance of the scores of all rows.

        Marginals that are known need not be fitted again.
        """
        marginals = marginals or tuple(fitted_marginal(each, weights) for each in cells.T)
        made = FullGaussian.started(
            _scores(marginals, cells), weights, states, prior_rows=prior_rows, prior_shape=prior_shape
        )
        return cls(made.mean, made.covariance, prior_rows, made.prior_covariance, made.centre, marginals)

    @cached_property
    def _of_scores(self) -> FullGaussian:
        return FullGaussian(self.mean, self.covariance, self.prior_rows, self.prior_covariance, self.centre)

    def features(self, cells: Floats) -> ScoredRows:
        """Return normal scores in groups of rows that know the same columns, and their slopes."""
        scores = _scores(self.marginals, cells)
        slopes = 0.5 * (scores**2 + np.log(2.0 * np.pi))
        for column, marginal in enumerate(self.marginals):
            known = ~np.isnan(cells[:, column])
            slopes[known, column] += marginal.log_density(cells[known, column])
        own = PatternedRows.of(scores, self.centre)
        return ScoredRows(own.cells, own.patterns, own.scattered, np.nansum(slopes, axis=1))

    def lines(self, features: Any) -> Floats:
        """Return the log density of the known cells of each row in each state."""
        return np.asarray(super().lines(features) + features.log_slope[:, None])

    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell in each state given the row's known cells."""
        middle, spread = self._of_scores.moments(_scores(self.marginals, cells))
        mean = np.repeat(cells[:, None, :], self.states, axis=1)
        variance = np.zeros_like(mean)
        share = WEIGHTS / WEIGHTS.sum()
        for column, marginal in enumerate(self.marginals):
            missing = np.flatnonzero(np.isnan(cells[:, column]))
            for start in range(0, len(missing), ROWS):
                own = missing[start : start + ROWS]
                nodes = middle[own, :, column, None] + np.sqrt(spread[own, :, column, None]) * NODES
                values = marginal.from_scores(nodes)
                mean[own, :, column] = values @ share
                variance[own, :, column] = (values - mean[own, :, column, None]) ** 2 @ share
        return mean, variance

    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Return P(missing cell <= value | state, the row's known cells)."""
        return self._of_scores.cdf(_scores(self.marginals, values), _scores(self.marginals, cells))

    def cdf_of(self, cells: Floats, column: int) -> Callable[[Floats], Floats]:
        """Return the function of a number for each row that is P(its cell <= number | state, its known cells)."""
        of_score = self._of_scores.cdf_of(_scores(self.marginals, cells), column)
        return lambda numbers: of_score(self.marginals[column].scores(numbers))

    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return the cells with missing ones sampled together, given the state and the known cells of each row."""
        drawn = self._of_scores.sampled(_scores(self.marginals, cells), states, random)
        made = np.array(cells)
        for column, marginal in enumerate(self.marginals):
            missing = np.isnan(cells[:, column])
            made[missing, column] = marginal.from_scores(drawn[missing, column])
        return made


def _scores(marginals: tuple[Marginal, ...], cells: Floats) -> Floats:
    """Return the normal scores of known cells; NaN for others."""
    made = np.full(cells.shape, np.nan)
    for column, marginal in enumerate(marginals):
        known = ~np.isnan(cells[:, column])
        made[known, column] = marginal.scores(cells[known, column])
    return made
