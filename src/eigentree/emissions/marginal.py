"""`Marginal`: the smooth density of one column of numbers, and `fitted_marginal`, which estimates it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from eigentree.emissions.column import mean_and_variance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats

__all__ = ["POWERS", "Marginal", "fitted_marginal"]

GRID = 4096
"""Points of the grid; the narrowest bandwidth tried is several of their distances unless cells are far outliers."""

REACH = 5.0
"""Bandwidths beyond the smallest and largest cell that the grid reaches: of a normal kernel, 3e-7 lies beyond."""

LEAST_STEPS = 1.5
"""Steps of the grid that are the least bandwidth: a narrower normal kernel rings after a Fourier transform."""

BANDWIDTHS = (0.25, 0.4, 0.6, 0.8, 1.0, 1.3)
"""Tried, in units of 1.06 sd n^(-1/5), which is best for normal rows (Silverman, 1986)."""

FOLDS = 5

POWERS = np.linspace(0.0, 2.0, 21)
"""Yeo-Johnson's powers that map onto all numbers; others bend all large numbers to one."""

LARGEST = 600.0
"""The logarithm of the largest restored number, in units of its column: far beyond all data, and no overflow."""

TAIL_DF = 5.0
"""The fewest whole degrees of freedom with a finite fourth moment: variances can be integrated on a grid."""

TAIL_WIDTH = 2.0
"""Standard deviations of all rows that are one of the tail's: wide beside the rows, as few cells as they show."""

FARTHEST = 1e50
"""Widths of the tail from its middle at which its density is still a number above 0; all further cells have it."""

FAR = np.geomspace(1e-13, 0.4, 120)
"""Probabilities of the tail at which the inverse of normal scores is tabled beyond the grid."""


@dataclass(frozen=True, eq=False, repr=False)
class Marginal:
    """The smooth density of a column: linear between points of a grid, and a wide Student t tail of little weight.

    Parameters
    ----------
    power : float
        Of the Yeo-Johnson transform of cells over `unit`, on whose scale the grid is even; 1 changes nothing.
    unit : float
    start, stop : float
        Of the grid.
    density : array, shape (points,)
        On the grid's scale, normalised.
    middle, width : float
        Of the tail.
    tail : float
        Its weight: of the next of n + 1 rows, the chance to be the smallest or the largest, 2 / (n + 1).
    """

    power: float
    unit: float
    start: float
    stop: float
    density: Floats
    middle: float
    width: float
    tail: float

    @cached_property
    def _points(self) -> Floats:
        return np.linspace(self.start, self.stop, len(self.density))

    def _places(self, values: Floats) -> tuple[Floats, Floats]:
        """Return values in units, and on the grid's scale."""
        scaled = self._clipped(values) / self.unit
        return scaled, _transformed(scaled, self.power)

    def _clipped(self, values: Floats) -> Floats:
        return np.clip(values, self.middle - FARTHEST * self.width, self.middle + FARTHEST * self.width)

    def log_density(self, values: Floats) -> Floats:
        """Return the log density of each value."""
        scaled, places = self._places(values)
        grid = np.interp(places, self._points, self.density, left=0.0, right=0.0)
        inside = (places >= self.start) & (places <= self.stop)
        slope = np.exp(np.where(inside, _log_slope(scaled, self.power), 0.0)) / self.unit
        return np.asarray(np.log((1.0 - self.tail) * grid * slope + self.tail * self._tail_density(values)))

    def _tail_density(self, values: Floats) -> Floats:
        return np.asarray(_tail_density((self._clipped(values) - self.middle) / self.width) / self.width)

    def cdf(self, values: Floats) -> Floats:
        """Return P(cell <= value)."""
        _, places = self._places(values)
        tail = stdtr(TAIL_DF, (self._clipped(values) - self.middle) / self.width)
        return np.asarray((1.0 - self.tail) * self._mass(places - self.start, self.density) + self.tail * tail)

    def survival(self, values: Floats) -> Floats:
        """Return P(cell > value), exact in the upper tail."""
        _, places = self._places(values)
        tail = stdtr(TAIL_DF, (self.middle - self._clipped(values)) / self.width)
        return np.asarray((1.0 - self.tail) * self._mass(self.stop - places, self.density[::-1]) + self.tail * tail)

    def _mass(self, reach: Floats, density: Floats) -> Floats:
        """Return the integral of a density on the grid up to a distance from its start."""
        step = (self.stop - self.start) / (len(density) - 1)
        below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * (step / 2.0))])
        place = np.clip(reach / step, 0.0, len(density) - 1.0)
        cell = np.minimum(place.astype(np.int64), len(density) - 2)
        part = place - cell
        slope = density[cell + 1] - density[cell]
        return np.asarray(np.minimum(below[cell] + step * part * (density[cell] + slope * part / 2.0), 1.0))

    def scores(self, values: Floats) -> Floats:
        """Return the normal score of each value: where a standard normal number has the same cdf."""
        lower = self.cdf(values)
        return np.asarray(np.where(lower < 0.5, ndtri(lower), -ndtri(self.survival(values))))

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        tail = stdtrit(TAIL_DF, FAR) * self.width
        grid = _restored(self._points, self.power) * self.unit
        points = np.unique(np.concatenate([grid, self.middle + tail, self.middle - tail]))
        scores = self.scores(points)
        rising = np.concatenate([[True], np.diff(np.maximum.accumulate(scores)) > 0]) & np.isfinite(scores)
        return scores[rising], points[rising]

    def from_scores(self, scores: Floats) -> Floats:
        """Return the value of each normal score."""
        return np.asarray(np.interp(scores, *self._inverse))

    def __getstate__(self) -> dict[str, Any]:
        # What was worked out on the way is worked out again.
        return {own.name: getattr(self, own.name) for own in fields(self)}


def fitted_marginal(values: Floats, weights: Floats) -> Marginal:
    """Return the kernel density estimate of a column of the highest likelihood of held-out rows.

    Bandwidths are tried on cells and after a Yeo-Johnson transform. None is below the distance of the typical cell
    to the nearest different one, so that rounded cells and whole numbers have a smooth density too.
    """
    known = ~np.isnan(values) & (weights > 0)
    values, weights = values[known], weights[known]
    mean, variance = mean_and_variance(values[:, None], weights)
    middle, spread = float(mean[0]), float(np.sqrt(variance[0]))
    if not len(values):
        values, weights = mean, np.ones(1)
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    constant = values[0] == values[-1]
    unit = spread if constant else float(np.median(np.abs(values[values != 0])))
    tail = min(2.0 / (1.0 + float(weights.sum())), 0.5)
    powers = [1.0] if constant else [1.0, _most_normal_power(values / unit, weights)]
    tried = [
        (score, Marginal(power, unit, start, stop, density, middle, TAIL_WIDTH * spread, tail))
        for power in dict.fromkeys(powers)
        for score, start, stop, density in _estimates(values, weights, power, unit, (middle, spread, tail))
    ]
    return max(tried, key=lambda each: each[0])[1]


def _estimates(
    values: Floats, weights: Floats, power: float, unit: float, around: tuple[float, float, float]
) -> Iterator[tuple[float, float, float, Floats]]:
    """Yield the held-out log-likelihood, the ends and the density on the grid of each bandwidth."""
    middle, spread, tail = around
    scaled = values / unit
    places = _transformed(scaled, power)
    widths = np.maximum(
        np.array(BANDWIDTHS) * _normal_bandwidth(places, weights, spread / unit), _resolution(places, weights)
    )
    start, stop = places[0] - REACH * widths.max(), places[-1] + REACH * widths.max()
    step = (stop - start) / (GRID - 1)
    # Of cells in random folds; each is shared by the two points of the grid around it.
    fold = np.random.default_rng(0).permutation(len(values)) % FOLDS
    position = (places - start) / step
    cell = np.minimum(position.astype(np.int64), GRID - 2)
    part = position - cell
    upper = np.bincount(fold * GRID + cell + 1, weights * part, FOLDS * GRID)
    counts = (np.bincount(fold * GRID + cell, weights * (1.0 - part), FOLDS * GRID) + upper).reshape(FOLDS, GRID)
    total = counts.sum(axis=0)
    kept = np.fft.rfft(np.concatenate([total - counts, total[None]]), axis=1)
    slope = np.exp(_log_slope(scaled, power)) / unit
    far = tail * _tail_density((values - middle) / (TAIL_WIDTH * spread)) / (TAIL_WIDTH * spread)
    frequency = 2.0 * np.pi * np.fft.rfftfreq(GRID, step)
    for width in np.unique(np.maximum(widths, LEAST_STEPS * step)):
        density = np.maximum(np.fft.irfft(kept * np.exp(-0.5 * (frequency * width) ** 2), GRID, axis=1), 0.0)
        mass = np.trapezoid(density, dx=step, axis=1)[:, None]
        density = np.divide(density, mass, out=np.zeros_like(density), where=mass > 0)
        held = density[fold, cell] * (1.0 - part) + density[fold, cell + 1] * part
        score = float(weights @ np.log((1.0 - tail) * held * slope + far))
        yield score, float(start), float(stop), density[-1]


def _normal_bandwidth(places: Floats, weights: Floats, otherwise: float) -> float:
    """Return the bandwidth that is best for normal rows, by standard deviation or quartiles."""
    total = weights.sum()
    mean = weights @ places / total
    sd = float(np.sqrt(weights @ (places - mean) ** 2 / total))
    low, high = places[np.searchsorted(np.cumsum(weights), (total * 0.25, total * 0.75)).clip(max=len(places) - 1)]
    # A normal distribution's quartiles are 1.349 standard deviations apart.
    quartiles = (high - low) / 1.349
    return float(1.06 * (min(sd, quartiles) if quartiles > 0 else sd or otherwise) * total**-0.2)


def _resolution(places: Floats, weights: Floats) -> float:
    """Return the distance of the typical row to the nearest different one; 0 if there is none."""
    different, codes = np.unique(places, return_inverse=True)
    if len(different) < 2:
        return 0.0
    between = np.diff(different)
    nearest = np.minimum(np.append(between, np.inf), np.append(np.inf, between))
    order = np.argsort(nearest, kind="stable")
    upto = np.cumsum(np.bincount(codes, weights)[order])
    return float(nearest[order][np.searchsorted(upto, upto[-1] / 2.0)])


def _tail_density(values: Floats) -> Floats:
    """Return the density of Student's t with five degrees of freedom."""
    return np.asarray(8.0 / (3.0 * np.sqrt(TAIL_DF) * np.pi) * (1.0 + values**2 / TAIL_DF) ** -3.0)


def _most_normal_power(scaled: Floats, weights: Floats) -> float:
    """Return the power after which a normal distribution has the highest likelihood."""
    heights = []
    for power in POWERS:
        places = _transformed(scaled, power)
        mean = np.average(places, weights=weights)
        variance = np.average((places - mean) ** 2, weights=weights)
        heights.append(np.average(_log_slope(scaled, power), weights=weights) - 0.5 * np.log(variance))
    return float(POWERS[int(np.argmax(heights))])


def _transformed(scaled: Floats, power: float) -> Floats:
    """Return Yeo and Johnson's transform."""
    if power == 1.0:
        return scaled
    logs = np.log1p(np.abs(scaled))
    return np.where(scaled >= 0, _stretched(logs, power), -_stretched(logs, 2.0 - power))


def _stretched(logs: Floats, power: float) -> Floats:
    return np.expm1(power * logs) / power if power else logs


def _log_slope(scaled: Floats, power: float) -> Floats:
    """Return the logarithm of the transform's derivative."""
    return np.asarray((power - 1.0) * np.sign(scaled) * np.log1p(np.abs(scaled)))


def _restored(places: Floats, power: float) -> Floats:
    """Return what is transformed to given places."""
    if power == 1.0:
        return places
    size = np.abs(places)
    return np.where(places >= 0, np.expm1(_shrunk(size, power)), -np.expm1(_shrunk(size, 2.0 - power)))


def _shrunk(size: Floats, power: float) -> Floats:
    return np.minimum(np.log1p(power * size) / power if power else size, LARGEST)
