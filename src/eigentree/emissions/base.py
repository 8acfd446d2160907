"""`Emission`: the distribution of the cells of a column, or of a group of columns, in each state of their parent.

A family is one module with one frozen dataclass that derives from `Emission`. Fields whose metadata is `PARAMETER`
are arrays whose first axis is the state of the parent: EM learns them. All other fields are settings, which follow
from the data or from the user before EM begins.

EM calls `lines` (E-step: log densities), `statistics` and `maximised` (M-step: sums that add up over parts of the
rows, and the parameters that maximise the objective given them). Gradients come from the same sums, by `score`.
Queries call `moments`, `cdf` and `sampled`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = [
    "PARAMETER",
    "Domain",
    "Emission",
    "StackedEmission",
    "covariance_slopes",
    "moved_covariances",
    "stacked",
]

PARAMETER: Mapping[str, bool] = MappingProxyType({"parameter": True})
"""Metadata of the field of an array that EM learns; its first axis is the state of the parent."""

Domain = Literal["positive", "covariance", "distribution"]

MOST_SHOWN = 12
"""Most entries of a parameter that are printed: those of one column and as many states stand in a line."""


@dataclass(frozen=True, eq=False, repr=False)
class Emission(ABC):
    """The distribution of the cells of some columns in each state of their parent; immutable.

    Cells have the shape (rows, columns), NaN where one is missing: it is integrated out, so that a row without any
    known cell has the log density 0 in every state.
    """

    family: ClassVar[str]
    """What users call the family."""

    groups: ClassVar[bool] = False
    """Whether the family describes any number of columns together, or one."""

    domains: ClassVar[Mapping[str, Domain]] = MappingProxyType({})
    """Of each parameter that is not any number, what it can be."""

    units: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Of a parameter that is any number, the one whose square root is its unit."""

    is_tied: ClassVar[bool] = False
    """Whether states share parameters."""

    conditions: ClassVar[bool] = False
    """Whether the columns are covariates: the states of the parent depend on them, and rows need all of them."""

    @classmethod
    @abstractmethod
    def started(cls, cells: Floats, weights: Floats, states: int, *none: Any, **settings: Any) -> Self:
        """Return the emission in which every state shows what all rows show together.

        Settings that follow from the data, such as the scale of a prior, follow from these rows.

        Parameters
        ----------
        cells : array, shape (rows, columns)
        weights : array, shape (rows,)
        states : int
            Of the parent.
        **settings
            Of the family, as the user gave them.
        """

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of columns."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of free parameters of all states."""

    def features(self, cells: Floats) -> Any:
        """Return what of the cells does not depend on parameters, which EM computes once: the cells themselves."""
        return cells

    @abstractmethod
    def lines(self, features: Any) -> Floats:
        """Return the log density of each row in each state, shape (rows, states), given the features of rows."""

    @abstractmethod
    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return the expected sufficient statistics of rows, shape (states, …); those of parts of the rows add up.

        Parameters
        ----------
        features : as `features` returns them
        counts : array, shape (rows, states)
            The posterior of each state times the weight of the row.
        """

    @abstractmethod
    def maximised(self, statistics: Floats) -> Self:
        """Return the emission of highest expected log-likelihood plus `log_prior`, given statistics: the M-step.

        Where the maximum has no closed form, one that is higher than that of the present parameters.
        """

    def log_prior(self) -> float:
        """Return what the prior adds to the log-likelihood; 0 for maximum likelihood."""
        return 0.0

    def score(self, statistics: Floats) -> Mapping[str, Floats]:
        """Return the gradient of what `maximised` maximises, at the present parameters, in the shape of each.

        By Fisher's identity it is that of the log-likelihood plus `log_prior`. Entries of a distribution are taken
        for free ones.
        """
        raise NotImplementedError(
            f"family {self.family!r} has no score, from which conditional training and standard errors come; add "
            f"the method, as docs/how_to/emission_families.md says"
        )

    @abstractmethod
    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell in each state given the row's known cells.

        Both have the shape (rows, states, columns); a known cell is its own mean.
        """

    @abstractmethod
    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Return P(missing cell <= value | state, the row's known cells), shape (rows, states, columns).

        Values have the shape of the cells; at known cells the result means nothing.
        """

    @abstractmethod
    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return the cells with missing ones sampled together, given the state and the known cells of each row."""

    def cdf_of(self, cells: Floats, column: int) -> Callable[[Floats], Floats]:
        """Return the function of a number for each row that is P(its cell <= number | state, its known cells).

        It returns the shape (rows, states); quantiles ask it many times for the same rows.
        """

        def cdf(numbers: Floats) -> Floats:
            values = cells.copy()
            values[:, column] = numbers
            return self.cdf(values, cells)[:, :, column]

        return cdf

    def summary(self, column: int) -> tuple[str, Sequence[Any], Floats]:
        """Return what is shown of a column in each state: what the numbers are, their names, and themselves."""
        means, variances = self.moments(np.full((1, self.width), np.nan))
        return "moment", ("mean", "std"), np.stack([means[0, :, column], np.sqrt(variances[0, :, column])], axis=1)

    def is_proper(self) -> bool:
        """Return whether the parameters are those of a distribution: files may hold any numbers."""
        with np.errstate(all="ignore"):
            means, variances = self.moments(np.full((1, self.width), np.nan))
            proper = bool(self.states > 0 and np.isfinite(means).all() and (variances >= 0).all())
            # Of families of counts, a mean is no cell, but what is sampled is.
            missing, states = np.full((self.states, self.width), np.nan), np.arange(self.states)
            cells = self.sampled(missing, states, np.random.default_rng(0))
            return proper and not np.isnan(self.log_prob(cells)).any()

    def fitted(self, cells: Floats, counts: Floats) -> Self:
        """Return the emission after one M-step on some rows."""
        features = self.features(cells)
        return self.maximised(self.statistics(features, counts))

    def log_prob(self, cells: Floats) -> Floats:
        """Return the log density of each row in each state, shape (rows, states)."""
        return self.lines(self.features(np.asarray(cells, np.float64)))

    @cached_property
    def parameters(self) -> Mapping[str, Floats]:
        """The arrays that EM learns, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.metadata == PARAMETER}

    @property
    def settings(self) -> Mapping[str, Any]:
        """All other fields, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.metadata != PARAMETER}

    @property
    def sizes(self) -> Mapping[str, int]:
        """Settings by which `started` makes as many parameters from other rows, where these would set it."""
        return {}

    @property
    def states(self) -> int:
        """Number of states of the parent."""
        return len(next(iter(self.parameters.values())))

    @cached_property
    def vector(self) -> Floats:
        """All parameters, end to end."""
        return np.concatenate([np.ravel(array) for array in self.parameters.values()])

    def of_vector(self, vector: Floats) -> Self:
        """Return the emission with the parameters of a vector."""
        made, start = {}, 0
        for name, array in self.parameters.items():
            made[name] = vector[start : start + array.size].reshape(array.shape)
            start += array.size
        return replace(self, **made)

    @property
    def n_coordinates(self) -> int:
        """Number of free coordinates, those of `moved`."""
        return self.n_parameters

    def moved(self, by: Floats) -> Self:
        """Return the emission at other free coordinates, which are all 0 at this one.

        There are `n_coordinates`, state by state, and all numbers are possible: what is positive is multiplied by
        the exponential, distributions move by logits relative to their largest entry, covariances by their
        Cholesky factor, and numbers in their unit. A step of 1 is large for each of them.
        """
        steps, start = np.reshape(by, (self.states, -1)), 0
        made: dict[str, Floats] = {}
        for name, array in self.parameters.items():
            domain = self.domains.get(name)
            size = array[0].size
            if domain == "covariance":
                size = array.shape[1] * (array.shape[1] + 1) // 2
            size -= domain == "distribution"
            own = steps[:, start : start + size]
            start += size
            if domain is None:
                made[name] = array + own.reshape(array.shape) * self._unit(name)
            elif domain == "positive":
                made[name] = array * np.exp(own.reshape(array.shape))
            else:
                made[name] = moved_covariances(array, own) if domain == "covariance" else _moved_shares(array, own)
        return replace(self, **made)

    def gradient(self, by: Floats, statistics: Floats) -> Floats:
        """Return the gradient of log-likelihood plus `log_prior` along the free coordinates, at some of them.

        Parameters
        ----------
        by : array, shape (n_coordinates,)
        statistics : array
            Those that the emission at these coordinates, ``moved(by)``, has of the rows.
        """
        moved = self.moved(by)
        return self._along(by, moved.parameters, moved.score(statistics))

    def _along(self, by: Floats, moved: Mapping[str, Floats], score: Mapping[str, Floats]) -> Floats:
        """Return a gradient along the free coordinates, given that by each parameter: the chain rule."""
        steps, start = np.reshape(by, (self.states, -1)), 0
        made = []
        for name, array in self.parameters.items():
            domain = self.domains.get(name)
            if domain is None:
                own = score[name] * self._unit(name)
            elif domain == "positive":
                own = score[name] * moved[name]
            elif domain == "distribution":
                own = _share_slopes(array, moved[name], score[name])
            else:
                size = array.shape[1] * (array.shape[1] + 1) // 2
                own = covariance_slopes(array, steps[:, start : start + size], score[name])
            made.append(own.reshape(self.states, -1))
            start += made[-1].shape[1]
        return np.concatenate(made, axis=1).ravel()

    def _unit(self, name: str) -> Floats:
        """Return the unit of a parameter that is any number."""
        if name not in self.units:
            return np.maximum(np.abs(self.parameters[name]), 1.0)
        squared = self.parameters[self.units[name]]
        is_covariance = self.domains[self.units[name]] == "covariance"
        return np.sqrt(np.diagonal(squared, axis1=1, axis2=2) if is_covariance else squared)

    def permuted(self, order: Integers) -> Emission:
        """Return the emission whose state i is state ``order[i]`` of this one; states may repeat."""
        return replace(self, **{name: array[order] for name, array in self.parameters.items()})

    def __getstate__(self) -> dict[str, Any]:
        # What was worked out on the way is worked out again.
        return {own.name: getattr(self, own.name) for own in fields(self)}

    def __repr__(self) -> str:
        shown = [
            f"{name}={np.array2string(array, precision=4, separator=', ')}"
            if array.ndim == 1 and array.size <= MOST_SHOWN
            else f"{name} of shape {array.shape}"
            for name, array in self.parameters.items()
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class StackedEmission(Emission):
    """Emissions of the same columns under parts of the parent's states: those of several fits that are averaged.

    Parameters
    ----------
    parts : tuple of Emission
    order : tuple of int
        State i is state ``order[i]`` of all parts in turn.
    """

    family: ClassVar[str] = "stacked"

    parts: tuple[Emission, ...]
    order: tuple[int, ...]

    @classmethod
    def started(cls, cells: Floats, weights: Floats, states: int, **settings: Any) -> Self:
        """Raise `TypeError`: emissions are stacked once they are learned."""
        raise TypeError("emissions are stacked once they are learned")

    def joined(self, arrays: Iterable[Floats], axis: int = 0) -> Floats:
        """Return arrays of the parts, whose states stand along an axis, as one of all states in their order."""
        return np.concatenate(list(arrays), axis=axis).take(self.order, axis=axis)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.parts[0].width

    @property
    def states(self) -> int:
        """Number of states of the parent."""
        return len(self.order)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of all states."""
        return sum(part.n_parameters for part in self.parts)

    def features(self, cells: Floats) -> Any:
        """Return those of each part."""
        return [part.features(cells) for part in self.parts]

    def lines(self, features: Any) -> Floats:
        """Return the log density of each row in each state."""
        return self.joined((part.lines(own) for part, own in zip(self.parts, features, strict=True)), axis=1)

    def each_part(self, shares: Floats) -> list[Floats]:
        """Return numbers of states, along the last axis, as those of the states of each part."""
        states = np.zeros((*shares.shape[:-1], sum(part.states for part in self.parts)))
        for place, state in enumerate(self.order):  # A state may stand in several places.
            states[..., state] += shares[..., place]
        return np.split(states, np.cumsum([part.states for part in self.parts])[:-1], axis=-1)

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return those of each part, end to end."""
        parts = zip(self.parts, features, self.each_part(counts), strict=True)
        return np.concatenate([part.statistics(*own).ravel() for part, *own in parts])

    def maximised(self, statistics: Floats) -> Self:
        """Return the emission whose parts are maximised, each by its own statistics."""
        each = zip(self.parts, self._statistics_of_parts(statistics), strict=True)
        return replace(self, parts=tuple(part.maximised(own) for part, own in each))

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the statistics of each part."""
        missing = np.full((1, self.width), np.nan)
        return [part.statistics(part.features(missing), np.zeros((1, part.states))).shape for part in self.parts]

    def _statistics_of_parts(self, statistics: Floats) -> list[Floats]:
        each = self._split(statistics, [math.prod(shape) for shape in self._shapes])
        return [own.reshape(shape) for own, shape in zip(each, self._shapes, strict=True)]

    def gradient(self, by: Floats, statistics: Floats) -> Floats:
        """Return the gradients of the parts, end to end, each by its own coordinates and statistics."""
        coordinates = self._split(by, [part.n_coordinates for part in self.parts])
        each = zip(self.parts, coordinates, self._statistics_of_parts(statistics), strict=True)
        return np.concatenate([part.gradient(*own) for part, *own in each])

    def log_prior(self) -> float:
        """Return what the priors of all parts add to the log-likelihood."""
        return sum(part.log_prior() for part in self.parts)

    @cached_property
    def vector(self) -> Floats:
        """All parameters, part by part."""
        return np.concatenate([part.vector for part in self.parts])

    def of_vector(self, vector: Floats) -> Self:
        """Return the emission with the parameters of a vector."""
        each = self._split(vector, [part.vector.size for part in self.parts])
        return replace(self, parts=tuple(part.of_vector(own) for part, own in zip(self.parts, each, strict=True)))

    @property
    def n_coordinates(self) -> int:
        """Number of free coordinates, those of `moved`."""
        return sum(part.n_coordinates for part in self.parts)

    def moved(self, by: Floats) -> Self:
        """Return the emission whose parts are at other free coordinates, which stand part by part."""
        each = self._split(by, [part.n_coordinates for part in self.parts])
        return replace(self, parts=tuple(part.moved(own) for part, own in zip(self.parts, each, strict=True)))

    @staticmethod
    def _split(vector: Floats, sizes: Sequence[int]) -> list[Floats]:
        return np.split(vector, np.cumsum(sizes)[:-1])

    @property
    def table(self) -> Any:
        """The probabilities of levels, shape (states, levels), if the parts have such."""
        tables: list[Any] = [part.table for part in self.parts if hasattr(part, "table")]
        if len(tables) < len(self.parts):
            raise AttributeError("only emissions of levels have a table")
        return self.joined(tables)

    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell in each state given the row's known cells."""
        means, variances = zip(*(part.moments(cells) for part in self.parts), strict=True)
        return self.joined(means, axis=1), self.joined(variances, axis=1)

    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Return P(missing cell <= value | state, the row's known cells)."""
        return self.joined((part.cdf(values, cells) for part in self.parts), axis=1)

    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return the cells with missing ones sampled together, given the state of each row."""
        made, first, state = np.array(cells), 0, np.take(self.order, states)
        for part in self.parts:
            own = np.flatnonzero((state >= first) & (state < first + part.states))
            if len(own):
                made[own] = part.sampled(cells[own], state[own] - first, random)
            first += part.states
        return made

    def cdf_of(self, cells: Floats, column: int) -> Callable[[Floats], Floats]:
        """Return the function of a number for each row that is P(its cell <= number | state, its known cells)."""
        parts = [part.cdf_of(cells, column) for part in self.parts]
        return lambda numbers: self.joined((cdf(numbers) for cdf in parts), axis=1)

    def __repr__(self) -> str:
        return f"StackedEmission({len(self.parts)} times {type(self.parts[0]).__name__}, {self.states} states)"

    def permuted(self, order: Integers) -> Emission:
        """Return the emission whose state i is state ``order[i]`` of this one."""
        return replace(self, order=tuple(np.take(self.order, order).tolist()))


def stacked(parts: Sequence[Emission]) -> Emission:
    """Return emissions of the same columns as one, whose states are theirs in turn."""
    if len(parts) == 1:
        return parts[0]
    return StackedEmission(tuple(parts), tuple(range(sum(part.states for part in parts))))


def moved_covariances(covariance: Floats, by: Floats) -> Floats:
    """Return covariances whose Cholesky factors are multiplied by triangles near the identity.

    Parameters
    ----------
    covariance : array, shape (states, columns, columns)
    by : array, shape (states, entries of a triangle)
        Line by line; of the diagonal logarithms.
    """
    factor = np.linalg.cholesky(covariance) @ _triangles(by, covariance.shape[1])
    return np.asarray(factor @ factor.transpose(0, 2, 1))


def covariance_slopes(covariance: Floats, by: Floats, gradient: Floats) -> Floats:
    """Return a gradient with respect to `moved_covariances` as that along what moves them, of its shape."""
    factor, triangle = np.linalg.cholesky(covariance), _triangles(by, covariance.shape[1])
    slopes = 2.0 * factor.transpose(0, 2, 1) @ gradient @ factor @ triangle
    diagonal = np.arange(covariance.shape[1])
    slopes[:, diagonal, diagonal] *= triangle[:, diagonal, diagonal]
    return np.asarray(slopes[:, *np.tril_indices(len(diagonal))])


def _triangles(by: Floats, width: int) -> Floats:
    """Return lower triangles, given their entries line by line; of the diagonal logarithms."""
    triangle = np.zeros((len(by), width, width))
    triangle[:, *np.tril_indices(width)] = by
    diagonal = np.arange(width)
    triangle[:, diagonal, diagonal] = np.exp(triangle[:, diagonal, diagonal])
    return triangle


def _moved_shares(shares: Floats, by: Floats) -> Floats:
    """Return distributions whose logits relative to their largest entry are moved."""
    others = _others(shares)
    moved = shares.copy()
    moved[others] *= np.exp(by).ravel()
    return np.asarray(moved / moved.sum(axis=1, keepdims=True))


def _share_slopes(shares: Floats, moved: Floats, gradient: Floats) -> Floats:
    """Return a gradient with respect to moved shares as that along the logits that move them."""
    own = moved * gradient
    return np.asarray((own - moved * own.sum(axis=1, keepdims=True))[_others(shares)])


def _others(shares: Floats) -> Booleans:
    """Return which entries of distributions are not the largest."""
    return np.asarray(np.arange(shares.shape[1]) != shares.argmax(axis=1)[:, None])
