"""`Membership`: the probabilities of a parent's states given covariates, read as the density of the covariates.

By Bayes' rule P(covariates | state) / P(covariates) = P(state | covariates) / P(state). So a model in which the
states of a variable depend on covariates is the one in which covariates are cells below it whose density,
relative to that of all rows, is this ratio: E-step, multi-start and queries need to know no more. The
probability of a row is that of its other cells given its covariates; a row without them has the states' shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

from eigentree.data.tables.design import term_counts, terms_of, whitening_of
from eigentree.emissions.base import PARAMETER, Emission
from eigentree.emissions.covariates.multinomial_logit import information, log_probabilities, score
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["Membership", "without_distribution"]

LEAST_SHARE = np.finfo(np.float64).tiny
"""Of a state that no row has any more."""


class RegressionRows(NamedTuple):
    """Rows of covariates as a regression reads them; `known` are those without a missing cell."""

    rows: Floats
    known: Booleans


@dataclass(frozen=True, eq=False, repr=False)
class Membership(Emission):
    """The states of the parent by multinomial logistic regression: P(state | z) is softmax(coefficients @ (1, z)).

    A row with a missing covariate has the shares of the states. Coefficients are those of maximum likelihood. Those
    of covariates that are constant, or depend linearly on those before them, are zero.

    Parameters
    ----------
    coefficients : array, shape (states, terms)
        The intercept first, then numbers, and for each covariate of labels all of them but the first. The first
        state is the reference: its coefficients are zero.
    shares : array, shape (states,)
        The mean of P(state | z) over the rows: that of the parent.
    levels : tuple of int
        The number of labels of each column, whose cells are codes; 0 for numbers.
    whitening : array, shape (terms, independent terms)
        Terms times this are uncorrelated and have the mean square 1 in the rows.
    reach : float
        The norm of the longest row of them.
    """

    family: ClassVar[str] = "membership"
    groups: ClassVar[bool] = True
    conditions: ClassVar[bool] = True

    coefficients: Floats = field(metadata=PARAMETER)
    shares: Floats = field(metadata=PARAMETER)
    levels: tuple[int, ...]
    whitening: Floats
    reach: float

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *, levels: Sequence[int] | None = None) -> Self:
        """Return the emission in which covariates change nothing.

        Columns are of numbers unless the numbers of their labels are given as levels.
        """
        levels = tuple(levels or (0,) * cells.shape[1])
        own = ~np.isnan(cells).any(axis=1) & (weights > 0)
        if not own.any():
            raise DataError("no row has all covariates, so nothing can be learned of them; drop the emptiest one")
        rows = terms_of(cells[own], levels)
        whitening = whitening_of(rows, weights[own])
        reach = math.sqrt(float(np.square(rows @ whitening).sum(axis=1).max()))
        zeros = np.zeros((states, rows.shape[1]))
        return cls(zeros, np.full(states, 1.0 / states), levels, whitening, reach)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.levels)

    @property
    def n_parameters(self) -> int:
        """Slopes of all states but one; intercepts stand for the shares of the states."""
        return (self.states - 1) * (int(self.whitening.shape[1]) - 1)

    @property
    def n_coordinates(self) -> int:
        """The intercept and slopes of all states but one, along uncorrelated terms."""
        return (self.states - 1) * int(self.whitening.shape[1])

    def moved(self, by: Floats) -> Self:
        """Return the emission at other coefficients of uncorrelated terms; the shares of the rows stay."""
        steps = np.reshape(by, (self.states - 1, self.whitening.shape[1])) @ self.whitening.T
        return replace(self, coefficients=self.coefficients + np.concatenate([np.zeros_like(steps[:1]), steps]))

    @property
    def kept(self) -> Booleans:
        """Which terms have a coefficient: those that do not depend linearly on others before them."""
        return np.asarray(self.whitening.any(axis=1))

    @cached_property
    def _whitened(self) -> Floats:
        """The coefficients of uncorrelated terms, shape (independent terms, states)."""
        return np.asarray(np.linalg.solve(self.whitening[self.kept], self.coefficients[:, self.kept].T), np.float64)

    def features(self, cells: Floats) -> RegressionRows:
        """Return uncorrelated terms, and which rows have all covariates."""
        known: Booleans = np.asarray(~np.isnan(cells).any(axis=1))
        design: Floats = terms_of(np.where(known[:, None], cells, 0.0), self.levels) @ self.whitening
        return RegressionRows(design, known)

    def log_proba(self, features: Any) -> Floats:
        """Return log P(state | covariates), shape (rows, states); of the shares where a covariate is missing."""
        design: RegressionRows = features
        found = log_probabilities(design.rows, self._whitened)
        found[~design.known] = np.log(np.maximum(self.shares, LEAST_SHARE))
        return found

    def lines(self, features: Any) -> Floats:
        """Return log P(state | covariates) / P(state) of each row in each state."""
        return self.log_proba(features) - np.log(np.maximum(self.shares, LEAST_SHARE))

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return the counts of the states, and gradient and information of the present coefficients, end to end."""
        design: RegressionRows = features
        rows, own = design.rows[design.known], counts[design.known]
        gradient = score(rows, own, self._whitened)[:, 1:].T
        matrix = information(rows, own.sum(axis=1), self._whitened)
        return np.concatenate([own.sum(axis=0), gradient.ravel(), matrix.ravel()])

    def maximised(self, statistics: Floats) -> Self:
        """Return the emission after a Newton step that cannot lower the log-likelihood.

        Along the step Δ the third derivative of the log-likelihood of a count is at most M times its second one,
        where M is the largest difference that Δ makes between the logits of two states of a row. So log(1 + M) / M
        of the step is sure to raise it (self-concordance; Bach 2010); near the optimum that is all of it.
        """
        states, terms = self.states, self.whitening.shape[1]
        size = (states - 1) * terms
        counts, gradient, matrix = np.split(statistics, [states, states + size])
        total = counts.sum()
        if not total > 0:
            return self
        if not size:
            return replace(self, shares=counts / total)
        step = np.linalg.lstsq(matrix.reshape(size, size), gradient)[0].reshape(states - 1, terms)
        every = np.concatenate([np.zeros((1, terms)), step])
        apart = self.reach * float(np.linalg.norm(every[:, None] - every, axis=2).max())
        scale = math.log1p(apart) / apart if apart > 0 else 1.0
        coefficients = self.coefficients - self.coefficients[0] + scale * every @ self.whitening.T
        return replace(self, coefficients=coefficients, shares=counts / total)

    def gradient(self, by: Floats, statistics: Floats) -> Floats:
        """Return the gradient along the coefficients of uncorrelated terms, which is one of the statistics."""
        return statistics[self.states :][: self.n_coordinates]

    def permuted(self, order: Integers) -> Emission:
        """Return the emission whose state i is state ``order[i]`` of this one; the first is the reference."""
        coefficients = self.coefficients[order]
        return replace(self, coefficients=coefficients - coefficients[0], shares=self.shares[order])

    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return known covariates; raise `DataError` where one is missing."""
        need_known(cells)
        every = np.repeat(cells[:, None, :], self.states, axis=1)
        return every, np.zeros_like(every)

    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Raise `DataError`: covariates have no distribution."""
        without_distribution()

    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return known covariates; raise `DataError` where one is missing."""
        need_known(cells)
        return cells

    def is_proper(self) -> bool:
        """Return whether the parameters are those of a regression."""
        terms = 1 + sum(term_counts(self.levels))
        fits = self.coefficients.shape == (len(self.shares), terms) and self.whitening.shape[0] == terms
        square = fits and int(self.kept.sum()) == self.whitening.shape[1]
        finite = all(np.isfinite(each).all() for each in (self.coefficients, self.shares, self.whitening))
        normalised = math.isclose(self.shares.sum(), 1.0, abs_tol=1e-9) and bool((self.shares >= 0).all())
        try:
            return square and finite and normalised and self.reach > 0 and bool(np.isfinite(self._whitened).all())
        except np.linalg.LinAlgError:
            return False


def need_known(cells: Floats) -> None:
    """Raise `DataError` where a covariate is missing."""
    if np.isnan(cells).any():
        without_distribution()


def without_distribution() -> NoReturn:
    """Raise `DataError`: covariates are not explained."""
    raise DataError(
        "covariates have no distribution, so they are neither imputed, predicted nor sampled; give them: "
        "as in sample(n, given={...}), or impute them before"
    )
