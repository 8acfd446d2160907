"""`NumberDensity`: the distribution of a number given other cells; `ConditionalDensity`: a mixture over states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.cells import date_array
from eigentree.errors import DataError, naming, quoted
from eigentree.validation import an_array, checked_quantiles, generator, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.emissions.base import Emission
    from eigentree.validation import Seed

__all__ = [
    "ConditionalDensity",
    "NumberDensity",
    "expected_cells",
    "mixture_moments",
    "mixture_quantiles",
    "number_points",
]

HALVINGS = 60
"""Halvings of an interval between two quantiles, after which it is as narrow as rounding."""

TAILS = (0.001, 0.999)
"""Between these quantiles a density is drawn."""

COUNTS = ("poisson", "negative_binomial")
"""Families of whole numbers, which have probabilities."""

DAY = np.timedelta64(1, "D")


class NumberDensity(ABC):
    """The distribution of one number given evidence.

    Attributes
    ----------
    name : str
        Of the column.
    """

    name: str

    def pdf(self, x: ArrayLike) -> Floats:
        """Return the density at some numbers; of a count, the probability."""
        return self._pdf(number_points(x))

    def cdf(self, x: ArrayLike) -> Floats:
        """Return P(number <= x)."""
        return self._cdf(number_points(x))

    def quantile(self, q: ArrayLike) -> Floats:
        """Return the numbers below which these shares lie."""
        return self._quantiles(checked_quantiles(q))

    def sample(self, n: int = 1, random_state: Seed = None) -> Floats:
        """Return numbers that are sampled from it."""
        return self._sampled(whole_number("n", n), generator(random_state))

    @abstractmethod
    def _pdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _cdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _quantiles(self, shares: list[float]) -> Floats: ...

    @abstractmethod
    def _sampled(self, n: int, random: np.random.Generator) -> Floats: ...

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean."""

    @property
    @abstractmethod
    def std(self) -> float:
        """The standard deviation."""

    @property
    def whole(self) -> bool:
        """Whether it has probabilities of whole numbers."""
        return False

    def plot(self, ax: Any = None) -> Any:
        """Draw the density between the quantiles 0.001 and 0.999; return the axes of matplotlib."""
        from matplotlib import pyplot

        low, high = self.quantile(TAILS)
        counts = self.whole
        x = np.unique(np.rint(np.linspace(low, high, 400))) if counts else np.linspace(low, high, 400)
        ax = pyplot.subplots()[1] if ax is None else ax
        ax.plot(x, self.pdf(x), *(["."] if counts else []))
        ax.set(xlabel=self.name, ylabel="probability" if counts else "density", ylim=(0.0, None))
        return ax

    def __repr__(self) -> str:
        low, middle, high = self.quantile([0.05, 0.5, 0.95])
        ends = f"90 % {low:.4g} … {high:.4g}"
        return f"{type(self).__name__}({self.name}: mean {self.mean:.4g}, median {middle:.4g}, {ends})"


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalDensity(NumberDensity):
    """The distribution of one number given evidence.

    Attributes
    ----------
    name : str
        Of the column.
    weights : array, shape (states,)
        The posterior of the states of its parents.
    emission : Emission
    cells : array, shape (columns of the emission,)
        The known cells of the other columns that share its emission; NaN where unknown.
    place : int
        Which of these columns it is.
    """

    name: str
    weights: Floats
    emission: Emission
    cells: Floats
    place: int

    def _pdf(self, x: Floats) -> Floats:
        rows = np.repeat(self.cells[None], len(x), axis=0)
        before = self.emission.log_prob(self.cells[None])
        rows[:, self.place] = x
        with naming([self.name]):
            density: Floats = np.exp(self.emission.log_prob(rows) - before) @ self.weights
        return density

    def _cdf(self, x: Floats) -> Floats:
        cells = np.repeat(self.cells[None], len(x), axis=0)
        below: Floats = self.emission.cdf_of(cells, self.place)(x) @ self.weights
        return below

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self._moments[0])

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(self._moments[1]))

    @property
    def whole(self) -> bool:
        """Whether it has probabilities of whole numbers."""
        # Averaged fits have emissions of one family.
        return getattr(self.emission, "parts", (self.emission,))[0].family in COUNTS

    @property
    def _moments(self) -> tuple[float, float]:
        found = mixture_moments(self.emission, self.cells[None], self.weights[None])
        mean, variance = (float(own[0, self.place]) for own in found)
        return mean, variance

    def _quantiles(self, shares: list[float]) -> Floats:
        known = (self.emission, self.cells[None], self.weights[None], self.place)
        return np.asarray(mixture_quantiles(*known, shares)[0])

    def _sampled(self, n: int, random: np.random.Generator) -> Floats:
        states = random.choice(len(self.weights), n, p=self.weights)
        cells = np.repeat(self.cells[None], n, axis=0)
        return self.emission.sampled(cells, states, random)[:, self.place]


def number_points(x: Any) -> Floats:
    """Return numbers as floats, and dates and durations as days."""
    array = np.atleast_1d(an_array("x", x, DataError))
    if array.dtype == np.object_ and array.ndim == 1:
        dates = date_array(list(array))
        array = array if dates is None else dates
    if array.ndim == 1 and array.dtype.kind in "mM":
        since = array - np.datetime64(0, "D") if array.dtype.kind == "M" else array
        days: Floats = since / DAY
        return days
    if array.ndim != 1 or array.dtype.kind not in "biuf" or np.isnan(array).any():
        raise DataError(f"x is a list of numbers, or of dates of a column of such, not {quoted(x)}")
    return array.astype(np.float64)


def mixture_moments(emission: Emission, cells: Floats, proba: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each cell given the row's known cells and P(state), shape (rows, columns).

    `proba`, shape (rows, states), has seen the known cells.
    """
    means, variances = emission.moments(cells)
    mean = np.einsum("ns,nsj->nj", proba, means)
    spread = variances + (means - mean[:, None, :]) ** 2
    return mean, np.einsum("ns,nsj->nj", proba, spread)


def mixture_quantiles(
    emission: Emission, cells: Floats, proba: Floats, place: int, shares: Sequence[float]
) -> Floats:
    """Return the numbers up to which some shares of a column lie, shape (rows, shares), by halving intervals."""
    mean, variance = (own[:, place] for own in mixture_moments(emission, cells, proba))
    of_states = emission.cdf_of(cells, place)

    def cdf(numbers: Floats) -> Floats:
        below: Floats = (proba * of_states(numbers)).sum(axis=1)
        return below

    spread = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny)) + np.spacing(np.abs(mean))
    found = np.empty((len(cells), len(shares)))
    for column, share in enumerate(shares):
        low, high = mean - spread, mean + spread
        for _ in range(HALVINGS):
            # By Chebyshev's inequality few distributions need more than some doublings.
            below, above = cdf(low) >= share, cdf(high) < share
            if not (below | above).any():
                break
            low = np.where(below, low - 2.0 * (mean - low), low)
            high = np.where(above, high + 2.0 * (high - mean), high)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            less = cdf(middle) < share
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        # Of a count it is a whole number, which halving comes near to.
        whole = np.rint(high)
        found[:, column] = np.where((low <= whole) & (whole <= high), whole, high)
    return found


def expected_cells(emission: Emission, cells: Floats, proba: Floats, median: bool) -> Floats:
    """Return cells whose missing ones are filled by their means, or medians, given P(state) of each row."""
    made, missing = cells.copy(), np.isnan(cells)
    if not median:
        return np.asarray(np.where(missing, mixture_moments(emission, cells, proba)[0], cells))
    for place in np.flatnonzero(missing.any(axis=0)).tolist():
        own = missing[:, place]
        made[own, place] = mixture_quantiles(emission, cells[own], proba[own], place, [0.5])[:, 0]
    return made
