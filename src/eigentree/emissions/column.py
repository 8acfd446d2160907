"""What families share: moments of columns with missing cells, and `ColumnEmission`, the base of single columns."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import chebyshev

from eigentree.emissions.base import Emission
from eigentree.errors import DataError

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = [
    "NODES",
    "SLOPE_WEIGHTS",
    "ColumnCells",
    "ColumnEmission",
    "best_step",
    "mean_and_variance",
    "need_counts",
    "need_positive",
]

NODES = chebyshev.chebpts1(14)
"""Logarithms of factors by which an M-step changes a parameter without a closed form; log-likelihoods at these are
summed over rows. They are smooth but at a distance of pi: 14 nodes interpolate them to 1e-11 of their range."""

SLOPE_WEIGHTS = chebyshev.chebval(
    0.0, chebyshev.chebder(chebyshev.chebfit(NODES, np.eye(len(NODES)), len(NODES) - 1))
)
"""Log-likelihoods at `NODES` times these are the derivative of their interpolation at 0."""

TRIED = np.linspace(0.0, 1.0, 129)
"""Parts of the way between bounds at which the interpolation is evaluated before Newton's method."""


def mean_and_variance(cells: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the variance of the known cells of each column; the variance is never 0."""
    weight = np.where(np.isnan(cells), 0.0, weights[:, None])
    total = weight.sum(axis=0)
    some = np.where(total > 0, total, 1.0)
    mean = (weight * np.nan_to_num(cells)).sum(axis=0) / some
    variance = (weight * np.nan_to_num(cells - mean) ** 2).sum(axis=0) / some
    # A constant column has no variance but the mean's rounding: its resolution stands for it, or 1 without cells.
    resolution = np.where(total > 0, np.sqrt(np.spacing(np.maximum(np.abs(mean), 1.0))), 1.0)
    rounding = np.square(8 * np.spacing(np.abs(mean)))
    return mean, np.where(variance > rounding, variance, resolution)


def need_positive(values: Floats, family: str) -> None:
    """Raise `DataError` unless all known values are above 0."""
    bad = values[values <= 0]
    if len(bad):
        raise DataError(
            f"family {family!r} is of numbers above 0, but a cell is {float(bad[0])!r}; choose a family of any "
            "numbers, such as 'gaussian' or 'semiparametric', or add a constant to the column"
        )


def need_counts(values: Floats, family: str) -> None:
    """Raise `DataError` unless all known values are whole numbers from 0."""
    bad = values[(values < 0) | (values != np.floor(values))]
    if len(bad):
        raise DataError(
            f"family {family!r} is of whole numbers from 0, but a cell is {float(bad[0])!r}; choose a family of "
            "any numbers, such as 'gaussian' or 'semiparametric', or round the column"
        )


def best_step(heights: Floats, least: float, most: float) -> tuple[float, float]:
    """Return the step of highest log-likelihood within bounds and [-1, 1], and its gain; heights are at `NODES`."""
    fitted = chebyshev.chebfit(NODES, heights - heights.max(), len(NODES) - 1)
    slope, bend = chebyshev.chebder(fitted), chebyshev.chebder(fitted, 2)
    least, most = min(max(least, -1.0), 0.0), max(min(most, 1.0), 0.0)
    tried = least + (most - least) * TRIED
    best = float(tried[np.argmax(chebyshev.chebval(tried, fitted))])
    for _ in range(3):  # From a distance of 1/128, the third is exact.
        curvature = float(chebyshev.chebval(best, bend))
        if curvature < 0:
            moved = best - float(chebyshev.chebval(best, slope)) / curvature
            best = min(max(moved, best - 1 / 64, least), best + 1 / 64, most)
    gain = float(chebyshev.chebval(best, fitted) - chebyshev.chebval(0.0, fitted))
    return (best, gain) if gain > 0 else (0.0, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnCells:
    """The different values of a column, with what a family works out of them once.

    Parameters
    ----------
    basis : Any
        What the family makes of the different values.
    codes : array, shape (rows,)
        The place of each row's value; the number of different values where it is missing.
    n_values : int
    """

    basis: Any
    codes: Integers
    n_values: int

    def of_rows(self, table: Floats) -> Floats:
        """Return each row's line of a table of values; 0 where the cell is missing."""
        return np.concatenate([table, np.zeros((1, table.shape[1]))])[self.codes]

    def of_values(self, counts: Floats) -> Floats:
        """Return the sums of the rows' counts for each value, shape (values, states)."""
        summed = [np.bincount(self.codes, each, self.n_values + 1)[:-1] for each in counts.T]
        return np.stack(summed, axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnEmission(Emission):
    """The distribution of one column in each state, which is evaluated once for each different value."""

    @classmethod
    def checked(cls, values: Floats) -> Floats:
        """Return known values if the family can show them; families of fewer than all numbers raise `DataError`."""
        return values

    @classmethod
    def known(cls, cells: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the known values of positive weight, checked, and their weights."""
        own = ~np.isnan(cells[:, 0]) & (weights > 0)
        return cls.checked(cells[own, 0]), weights[own]

    def basis(self, values: Floats) -> Any:
        """Return what of different values does not depend on parameters."""
        return values[:, None]

    @abstractmethod
    def log_density(self, basis: Any) -> Floats:
        """Return the log density of each value in each state, shape (values, states)."""

    @abstractmethod
    def sums(self, basis: Any, counts: Floats) -> Floats:
        """Return the expected sufficient statistics, shape (states, …), given counts of shape (values, states)."""

    @abstractmethod
    def state_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each state, shape (states,)."""

    @abstractmethod
    def state_cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value | state), shape (values, states), given values of shape (values, 1)."""

    @abstractmethod
    def drawn(self, states: Integers, random: np.random.Generator) -> Floats:
        """Return a value sampled for each given state."""

    @property
    def width(self) -> int:
        """Number of columns: one."""
        return 1

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of all states."""
        return len(self.vector)

    def features(self, cells: Floats) -> ColumnCells:
        """Return the different values and the place of each row's among them."""
        values, codes = np.unique(cells[:, 0], return_inverse=True)
        # NaN is sorted last, and equal to itself here.
        values = self.checked(values[~np.isnan(values)])
        return ColumnCells(self.basis(values), codes, len(values))

    def lines(self, features: Any) -> Floats:
        """Return the log density of each row in each state."""
        cells: ColumnCells = features
        return cells.of_rows(self.log_density(cells.basis))

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return the expected sufficient statistics of rows."""
        cells: ColumnCells = features
        return self.sums(cells.basis, cells.of_values(counts))

    def moments(self, cells: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell in each state."""
        mean, variance = self.state_moments()
        missing = np.isnan(cells)[:, None, :]
        return np.where(missing, mean[:, None], cells[:, None, :]), np.where(missing, variance[:, None], 0.0)

    def cdf(self, values: Floats, cells: Floats) -> Floats:
        """Return P(cell <= value | state)."""
        return self.state_cdf(values)[:, :, None]

    def sampled(self, cells: Floats, states: Integers, random: np.random.Generator) -> Floats:
        """Return the cells with missing ones sampled given the state of each row."""
        return np.where(np.isnan(cells), self.drawn(states, random)[:, None], cells)
