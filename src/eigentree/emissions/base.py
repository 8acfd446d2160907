"""`Emission`: the distribution of the cells of a column, or of a group of columns, in each state of their parent.

A family is one module with one frozen dataclass that derives from `Emission`. Fields whose metadata is `PARAMETER`
are arrays whose first axis is the state of the parent: EM learns them. All other fields are settings, which follow
from the data or from the user before EM begins.

EM calls `lines` (E-step: log densities), `statistics` and `maximised` (M-step: sums that add up over parts of the
rows, and the parameters that maximise the objective given them). Queries call `moments`, `cdf` and `sampled`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from eigentree.arrays import Floats, Integers

__all__ = ["PARAMETER", "Emission", "StackedEmission", "stacked"]

PARAMETER: Mapping[str, bool] = MappingProxyType({"parameter": True})
"""Metadata of the field of an array that EM learns; its first axis is the state of the parent."""


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

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Raise `TypeError`: each part has its own."""
        raise TypeError("stacked emissions are learned already")

    def maximised(self, statistics: Floats) -> Self:
        """Raise `TypeError`: each part is learned by itself."""
        raise TypeError("stacked emissions are learned already")

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
