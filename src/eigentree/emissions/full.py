"""`FullGaussian` and `TiedGaussian`: a normal distribution of a group of columns in each state."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import ndtr

from eigentree.emissions.base import PARAMETER, Emission, covariance_slopes, moved_covariances
from eigentree.emissions.column import mean_and_variance
from eigentree.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["FullGaussian", "PatternedRows", "TiedGaussian"]

BLOCK = 1024
"""Rows that are worked on at once: their products with all states stay in the processor's cache."""

START_STEPS = 3
"""EM steps of the normal distribution that rows with missing cells start from: a start need not be a maximum."""

PATTERNS = 64
"""Patterns whose matrices are factorised at once: those of 30 columns and 16 states take 7 MB."""

PRIOR_SHAPES = ("diagonal", "pooled")


class ScatteredRows(NamedTuple):
    """Rows of patterns of known columns that few others have: their matrices are factorised all at once.

    Attributes
    ----------
    rows : array
    place : array
        Which of the patterns each row has.
    masks : array, shape (patterns, columns)
    """

    rows: Integers
    place: Integers
    masks: Booleans


@dataclass(frozen=True, eq=False, repr=False)
class PatternedRows:
    """Rows in groups that know the same columns.

    Parameters
    ----------
    cells : array, shape (rows, 1 + columns)
        1, then the cells less the centre, 0 where missing: sums of products of these are weights, sums and squares.
    patterns : list of (rows, known columns)
        Each group's rows and a mask of the columns that they know.
    scattered : list of ScatteredRows
        Rows in groups with fewer rows than columns, some groups at a time.
    """

    cells: Floats
    patterns: list[tuple[Integers | slice, Booleans]]
    scattered: list[ScatteredRows]

    @classmethod
    def of(cls, cells: Floats, centre: Floats, scatter: bool = True) -> Self:
        """Return the rows of a matrix in which NaN is missing; small groups may stand by themselves."""
        known = ~np.isnan(cells)
        made = np.ones((len(cells), cells.shape[1] + 1))
        if known.all():
            np.subtract(cells, centre, out=made[:, 1:])
            return cls(made, [(slice(None), np.ones(cells.shape[1], bool))], [])
        made[:, 1:] = np.where(known, cells - centre, 0.0)
        masks, groups = np.unique(known, axis=0, return_inverse=True)
        groups = np.ravel(groups)
        order = np.argsort(groups, kind="stable")
        rows = np.split(order, np.cumsum(np.bincount(groups, minlength=len(masks)))[:-1])
        few = [scatter and len(own) < cells.shape[1] for own in rows]
        many: list[tuple[Integers | slice, Booleans]] = [
            (own, mask) for own, mask, is_few in zip(rows, masks, few, strict=True) if not is_few
        ]
        small = np.flatnonzero(few)
        scattered = []
        for start in range(0, len(small), PATTERNS):
            part = small[start : start + PATTERNS]
            sizes = [len(rows[place]) for place in part]
            every = np.concatenate([rows[place] for place in part])
            scattered.append(ScatteredRows(every, np.repeat(np.arange(len(part)), sizes), masks[part]))
        return cls(made, many, scattered)


@dataclass(frozen=True, eq=False, repr=False)
class FullGaussian(Emission):
    """A normal distribution of a group of columns, with its own covariance, in each state.

    Parameters
    ----------
    mean : array, shape (states, columns)
    covariance : array, shape (states, columns, columns)
    prior_rows : float
        How many rows of `prior_covariance` each state is thought to have shown before; 0 is maximum likelihood.
    prior_covariance : array, shape (columns, columns)
        By default the columns' variances over the number of states to the power of 2 / columns, which is the size
        of parts that divide the space of all rows evenly (Fraley and Raftery, 2007).
    centre : array, shape (columns,)
        The mean of all rows, which sums are taken around.
    """

    family: ClassVar[str] = "full"
    groups: ClassVar[bool] = True
    domains = MappingProxyType({"covariance": "covariance"})
    units = MappingProxyType({"mean": "covariance"})

    mean: Floats = field(metadata=PARAMETER)
    covariance: Floats = field(metadata=PARAMETER)
    prior_rows: float
    prior_covariance: Floats
    centre: Floats

    @classmethod
    def started(
        cls, cells: Floats, weights: Floats, states: int, *, prior_rows: float = 1.0, prior_shape: str = "diagonal"
    ) -> Self:
        """Return the emission in which every state has mean and covariance of all rows.

        The prior's covariance has the shape of the rows' covariance ("pooled") or of its diagonal.
        """
        if prior_shape not in PRIOR_SHAPES:
            raise ParameterError(f"prior_shape is {prior_shape!r}; it should be one of {', '.join(PRIOR_SHAPES)}")
        mean, variance = mean_and_variance(cells, weights)
        whole = cls(mean[None], np.diag(variance)[None], 0.0, np.diag(variance), mean)
        features = whole.features(cells)
        for _ in range(1 if len(features.patterns) == 1 else START_STEPS):
            whole = whole.maximised(whole.statistics(features, weights[:, None]))
        total = whole.covariance[0]
        prior = (total if prior_shape == "pooled" else np.diag(variance)) / states ** (2 / len(mean))
        every = np.ones((states, 1))
        return cls(whole.mean * every, total * every[:, None], prior_rows, prior, mean)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.mean.shape[1])

    @property
    def n_parameters(self) -> int:
        """A mean and the triangle of a covariance for each state."""
        return self.states * (self.width + self._n_covariance)

    @property
    def _n_covariance(self) -> int:
        return self.width * (self.width + 1) // 2

    def features(self, cells: Floats) -> PatternedRows:
        """Return the rows in groups that know the same columns."""
        return PatternedRows.of(cells, self.centre)

    def lines(self, features: PatternedRows) -> Floats:
        """Return the log density of the known cells of each row in each state."""
        made = np.empty((len(features.cells), self.states))
        for rows, known in features.patterns:
            own = features.cells[rows]
            made[rows] = self._pattern_lines(own if known.all() else own[:, np.append(True, known)], known)
        for some in features.scattered:
            precision, log_scale = self._precisions(some.masks)
            apart = self._apart(features, some)
            size = (np.einsum("nkij,nkj->nki", precision[some.place], apart) * apart).sum(axis=2)
            known_columns = np.asarray(some.masks.sum(axis=1), np.float64)
            constant = log_scale + 0.5 * math.log(2.0 * math.pi) * known_columns[:, None]
            made[some.rows] = -0.5 * size - constant[some.place]
        return made

    def _apart(self, features: PatternedRows, some: ScatteredRows) -> Floats:
        """Return how far cells are from each state's mean, 0 where missing, shape (rows, states, columns)."""
        apart = features.cells[some.rows, None, 1:] - (self.mean - self.centre)
        return np.asarray(np.where(some.masks[some.place][:, None], apart, 0.0))

    def _precisions(self, masks: Booleans) -> tuple[Floats, Floats]:
        """Return the inverse covariance of the known columns of each pattern, 0 elsewhere, and half its log size.

        The shapes are (patterns, states, columns, columns) and (patterns, states).
        """
        both = (masks[:, :, None] & masks[:, None, :])[:, None]
        # A column that is not known stands by itself with variance 1.
        factor = np.linalg.cholesky(np.where(both, self.covariance, np.eye(self.width)))
        inverse = np.linalg.inv(factor)
        log_scale = np.log(np.diagonal(factor, axis1=2, axis2=3)).sum(axis=2)
        return np.where(both, inverse.swapaxes(2, 3) @ inverse, 0.0), log_scale

    def _pattern_lines(self, cells: Floats, known: Booleans) -> Floats:
        # Rows times W are the rows less the state's mean, whitened: W stacks [-W mean; W] of every state.
        columns, states = np.flatnonzero(known), self.states
        factor = np.linalg.cholesky(self.covariance[:, columns[:, None], columns])
        inverse = np.linalg.inv(factor)
        offset = inverse @ (self.mean - self.centre)[:, columns, None]
        whiten = np.concatenate([-offset, inverse], axis=2).reshape(-1, 1 + len(columns)).T
        log_scale = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        constant = -log_scale - 0.5 * len(columns) * math.log(2.0 * math.pi)
        made = np.empty((len(cells), states))
        for start in range(0, len(cells), BLOCK):
            white = cells[start : start + BLOCK] @ whiten
            np.square(white, out=white)
            made[start : start + BLOCK] = constant - 0.5 * white.reshape(len(white), states, len(columns)).sum(
                axis=2
            )
        return made

    def statistics(self, features: PatternedRows, counts: Floats) -> Floats:
        """Return the expected sum of [1, x] [1, x]' around `centre`, shape (states, 1 + columns, 1 + columns).

        Rows without any known cell add nothing.
        """
        made = np.zeros((self.states, 1 + self.width, 1 + self.width))
        for rows, known in features.patterns:
            if known.any():
                sums = _products(features.cells[rows], counts[rows])
                if not known.all():
                    given, spread = self._conditional(known)
                    sums = given @ sums @ given.transpose(0, 2, 1) + sums[:, :1, :1] * spread
                made += sums
        for some in features.scattered:
            knows_any = np.asarray(some.masks.any(axis=1))
            weights = counts[some.rows] * knows_any[some.place][:, None]
            slope = self.covariance @ self._precisions(some.masks)[0]
            whole = np.ones((len(some.rows), self.states, 1 + self.width))
            whole[:, :, 1:] = np.einsum("nkij,nkj->nki", slope[some.place], self._apart(features, some))
            whole[:, :, 1:] += self.mean - self.centre
            by_state = whole.transpose(1, 2, 0)
            made += (by_state * weights.T[:, None]) @ by_state.transpose(0, 2, 1)
            each = np.zeros((len(some.masks), self.states))
            np.add.at(each, some.place, weights)
            shown = np.einsum("pk,pkij->kij", each, slope) @ self.covariance
            made[:, 1:, 1:] += each.sum(axis=0)[:, None, None] * self.covariance - shown
        return made

    def _conditional(self, known: Booleans) -> tuple[Floats, Floats]:
        """Return the maps from [1, x], 0 where unknown, to its mean given what is known, and its covariance then.

        Both have the shape (states, 1 + columns, 1 + columns).
        """
        one, mean = np.append(True, known), self.mean - self.centre
        old, new = np.flatnonzero(known), np.flatnonzero(~known)
        cross = self.covariance[:, old[:, None], new]
        slope = np.linalg.solve(self.covariance[:, old[:, None], old], cross).transpose(0, 2, 1)
        given = np.zeros((self.states, len(one), len(one)))
        given[:, one, one] = 1.0
        given[:, 1 + new[:, None], 1 + old] = slope
        given[:, 1 + new, 0] = mean[:, new] - (slope @ mean[:, old, None])[..., 0]
        spread = np.zeros_like(given)
        spread[:, 1 + new[:, None], 1 + new] = self.covariance[:, new[:, None], new] - slope @ cross
        return given, spread

    def maximised(self, statistics: Floats) -> Self:
        """Return mean and covariance of the rows of each state, the prior's included."""
        weight, mean, spread = self._spreads(statistics)
        seen = weight > 0
        spread = spread + self.prior_rows * self.prior_covariance
        rows = np.where(seen, weight + self.prior_rows, 1.0)[:, None, None]
        covariance = np.where(seen[:, None, None], self._definite(spread / rows, mean), self.covariance)
        return replace(self, mean=mean + self.centre, covariance=covariance)

    def _spreads(self, statistics: Floats) -> tuple[Floats, Floats, Floats]:
        """Return weight, mean less `centre`, and sum of squares around the mean of each state."""
        weight = statistics[:, 0, 0]
        some = np.where(weight > 0, weight, 1.0)[:, None]
        mean = np.where((weight > 0)[:, None], statistics[:, 0, 1:] / some, self.mean - self.centre)
        spread = statistics[:, 1:, 1:] - weight[:, None, None] * mean[:, :, None] * mean[:, None, :]
        return weight, mean, (spread + spread.transpose(0, 2, 1)) / 2

    def _definite(self, covariance: Floats, mean: Floats) -> Floats:
        """Return covariances whose eigenvalues, in units of the columns, are beyond the rounding of sums."""
        scale = np.sqrt(np.diagonal(self.prior_covariance))
        outer = scale[:, None] * scale
        values, vectors = np.linalg.eigh(covariance / outer)
        # Sums round by this much, and a Cholesky factorisation needs as much.
        size = np.maximum(values[:, -1], 0.0) + 1.0 + np.square(mean / scale).max(axis=1)
        floor = (np.finfo(np.float64).eps * self.width**2 * size)[:, None]
        mended = (vectors * np.maximum(values, floor)[:, None, :]) @ vectors.transpose(0, 2, 1) * outer
        low = (values < floor).any(axis=1)[:, None, None]
        return np.where(low, (mended + mended.transpose(0, 2, 1)) / 2, covariance)

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of expected log-likelihood plus log prior by mean and covariance."""
        weight, mean, spread = self._spreads(statistics)
        gap = mean - (self.mean - self.centre)
        sums = weight[:, None] * gap
        # A prior that all states share is shown by each of them in part.
        rows = self.prior_rows * len(self._prior_covariances) / self.states
        around = spread + sums[:, :, None] * gap[:, None, :] + rows * self.prior_covariance
        precision = np.linalg.inv(self.covariance)
        of_covariance = precision @ (around @ precision - (weight + rows)[:, None, None] * np.eye(self.width))
        return {"mean": (precision @ sums[:, :, None])[..., 0], "covariance": 0.5 * of_covariance}

    def log_prior(self) -> float:
        """Return the log density of the prior's rows."""
        if not self.prior_rows:
            return 0.0
        covariance = self._prior_covariances
        log_scale = np.linalg.slogdet(covariance).logabsdet
        size = np.trace(np.linalg.solve(covariance, self.prior_covariance[None]), axis1=1, axis2=2)
        return -0.5 * self.prior_rows * float(np.sum(log_scale + size))

    @property
    def _prior_covariances(self) -> Floats:
        """The covariances that the prior is about."""
        return self.covariance

    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell in each state given the row's known cells."""
        features = self.features(cells)
        mean = np.empty((len(cells), self.states, self.width))
        variance = np.zeros_like(mean)
        for rows, known in features.patterns:
            given, spread = self._conditional(known)
            around = np.einsum("kij,nj->nki", given[:, 1:], features.cells[rows])
            mean[rows] = np.where(known, cells[rows][:, None, :], around + self.centre)
            variance[rows] = np.diagonal(spread, axis1=1, axis2=2)[:, 1:]
        for some in features.scattered:
            slope = self.covariance @ self._precisions(some.masks)[0]
            around = np.einsum("nkij,nkj->nki", slope[some.place], self._apart(features, some)) + self.mean
            mask = some.masks[some.place][:, None]
            mean[some.rows] = np.where(mask, cells[some.rows][:, None, :], around)
            left = np.diagonal(self.covariance - slope @ self.covariance, axis1=2, axis2=3)
            variance[some.rows] = np.where(mask, 0.0, left[some.place])
        return mean, np.maximum(variance, 0.0)

    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Return P(missing cell <= value | state, the row's known cells)."""
        mean, variance = self.moments(cells)
        sd = np.sqrt(np.where(variance > 0, variance, 1.0))
        return np.asarray(ndtr((values[:, None, :] - mean) / sd))

    def cdf_of(self, cells: Floats, column: int) -> Callable[[Floats], Floats]:
        """Return the function of a number for each row that is P(its cell <= number | state, its known cells)."""
        means, variances = self.moments(cells)
        mean, sd = means[:, :, column], np.sqrt(variances[:, :, column])
        return lambda numbers: np.asarray(ndtr((numbers[:, None] - mean) / sd))

    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return the cells with missing ones sampled together, given the state and the known cells of each row."""
        features, made = PatternedRows.of(cells, self.centre, scatter=False), np.array(cells)
        noise = random.normal(size=cells.shape)
        for rows, known in features.patterns:
            if known.all():
                continue
            new, own = np.flatnonzero(~known), np.arange(len(cells))[rows]
            given, spread = self._conditional(known)
            spread = spread[:, 1 + new[:, None], 1 + new]
            values, vectors = np.linalg.eigh(spread)
            factor = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
            for state in np.unique(states[own]):
                some = own[states[own] == state]
                mean = features.cells[some] @ given[state, 1 + new].T + self.centre[new]
                made[np.ix_(some, new)] = mean + noise[np.ix_(some, new)] @ factor[state].T
        return made


@dataclass(frozen=True, eq=False, repr=False)
class TiedGaussian(FullGaussian):
    """A normal distribution of a group of columns in each state, all of one covariance.

    Parameters
    ----------
    mean, covariance, prior_rows, prior_covariance, centre
        As of `FullGaussian`; the covariances are equal, and the prior's rows are shown once.
    """

    family: ClassVar[str] = "tied"
    is_tied = True

    @property
    def n_parameters(self) -> int:
        """A mean for each state and the triangle of one covariance."""
        return self.states * self.width + self._n_covariance

    def maximised(self, statistics: Floats) -> Self:
        """Return the mean of the rows of each state and the covariance of all around them, the prior's included."""
        weight, mean, spread = self._spreads(statistics)
        if not (weight > 0).any():
            return self
        own = spread.sum(axis=0) + self.prior_rows * self.prior_covariance
        covariance = self._definite(own[None] / (weight.sum() + self.prior_rows), mean[[0]])
        return replace(self, mean=mean + self.centre, covariance=np.repeat(covariance, self.states, axis=0))

    def moved(self, by: Floats) -> Self:
        """Return the emission at other free coordinates: those of the means, then of the covariance."""
        means, shared = np.split(by, [self.mean.size])
        covariance = moved_covariances(self.covariance[:1], shared[None])
        mean = self.mean + means.reshape(self.mean.shape) * self._unit("mean")
        return replace(self, mean=mean, covariance=np.repeat(covariance, self.states, axis=0))

    def _along(self, by: Floats, moved: Mapping[str, Floats], score: Mapping[str, Floats]) -> Floats:
        shared = by[self.mean.size :]
        of_covariance = covariance_slopes(self.covariance[:1], shared[None], score["covariance"].sum(axis=0)[None])
        return np.concatenate([(score["mean"] * self._unit("mean")).ravel(), of_covariance[0]])

    @property
    def _prior_covariances(self) -> Floats:
        return self.covariance[:1]


def _products(cells: Floats, counts: Floats) -> Floats:
    """Return the sum of cells' products with each other, weighted by each state's counts."""
    states, width = counts.shape[1], cells.shape[1]
    made = np.zeros((states * width, width))
    for start in range(0, len(cells), BLOCK):
        own = cells[start : start + BLOCK]
        weighted = counts[start : start + BLOCK, :, None] * own[:, None, :]
        made += weighted.reshape(len(own), -1).T @ own
    return made.reshape(states, width, width)
