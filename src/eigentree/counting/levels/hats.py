r"""Hat functions of a channel of numbers: what its cells are counted as, and what is known of the numbers again.

A number x of a channel with the smooth cdf F becomes :math:`u = F(x)`, of which there are `LEVELS` levels of equal
mass. Hat functions :math:`B_0 \dots B_{M-1}` over even knots of [0, 1] are a partition of unity, so they are a
one-hot vector with fractions: a cell is counted partly as the knot below it, partly as that above. Tables of such
counts are moments :math:`E[B_a(u_1) B_b(u_2) \cdots]`. Where the distribution of a cell over levels is a mixture of
the hats :math:`H_s = B_s / \sum_q B_s(q)`, whose weights are w, its moments are :math:`G w` with
:math:`G = B^T H`, so that :math:`H G^{-1}` takes moments back to levels: exactly, and in any case to a normalised
table. Inside a level, the density of x is its marginal density.

Hats at levels are whole multiples of a power of 2, and so are their products: sums of them are exact, whatever the
order and the split of the data.

A whole or rounded number stands for all numbers that are rounded to it, and is counted as the mean of the hats over
these. So a count has a smooth density, which times its step is about its probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.emissions.marginal import Marginal

__all__ = [
    "HATS",
    "LEVELS",
    "MOST_HATS",
    "OTHER_LEVELS",
    "HatScale",
    "coarse_hats",
    "hat_values",
    "level_codes",
    "level_distribution",
    "level_tables",
    "numbers_in_levels",
    "require_same_levels",
    "usual_hats",
]

LEVELS = 512
"""Levels of u: sixteen between the finest knots, over each of which a hat changes by a sixteenth."""

STEPS = 16
"""In so many steps a hat rises from one knot to the next of the hats that are counted."""

HATS = (5, 9, 17, 33)
"""Numbers of hats to choose from. Each one's knots are among those of the next, so that the finest is counted and
the others' counts follow; three cells of the finest are a table of 36,000 entries."""

MOST_HATS = HATS[-1]

PARTS = 64
"""Means of hats are multiples of 1/64: sums of products of five of them are exact for eight million rows."""

POINTS = 8
"""Points of the quadrature of a level's mean."""


def hat_values(hats: int, counted: int = MOST_HATS) -> Floats:
    """Return each hat in each level, shape (levels, hats).

    Where fewer than the finest hats are counted, they change in wider steps: their values are multiples of 1/32, so
    that sums of products of a few of them are exact.

    Examples
    --------
    >>> hat_values(33)[0, :3].tolist(), float(hat_values(5).sum(axis=1).min())
    ([0.96875, 0.03125, 0.0], 1.0)
    """
    steps = STEPS * (counted - 1)
    return _hats_at((np.arange(LEVELS) * steps // LEVELS + 0.5) / steps, hats)


def coarse_hats(hats: int, counted: int = MOST_HATS) -> Floats:
    """Return hats in terms of those that are counted, shape (hats, counted hats).

    Examples
    --------
    >>> bool((hat_values(33) @ coarse_hats(9).T == hat_values(9)).all())
    True
    """
    return np.ascontiguousarray(_hats_at(np.arange(counted) / (counted - 1), hats).T)


def level_tables(hats: int, counted: int = MOST_HATS) -> Floats:
    """Return what takes moments of hats to a table over levels, shape (levels, hats); columns are normalised."""
    values = hat_values(hats, counted)
    densities = values / values.sum(axis=0)
    return np.asarray(np.linalg.solve((values.T @ densities).T, densities.T).T)


def level_distribution(moments: Floats, hats: int, share: float = 0.0) -> Floats:
    """Return the distribution over levels of a column, given the moments of the hats that are counted.

    A share of it is uniform, so that no level is impossible: levels that were cut by other rows may be empty.
    """
    counted = len(moments)
    table = np.maximum(level_tables(hats, counted) @ (coarse_hats(hats, counted) @ moments), 0.0)
    return np.asarray((1.0 - share) * table / table.sum() + share / LEVELS)


def _hats_at(places: Floats, hats: int) -> Floats:
    found: Floats = np.maximum(0.0, 1.0 - np.abs(places[:, None] * (hats - 1) - np.arange(hats)))
    found.flags.writeable = False
    return found


def usual_hats(steps: float) -> int:
    """Return the number of hats at which a search starts: at most the cube root of the number of steps.

    Linear pieces need fewer than the steps of a histogram, whose best number grows so.

    Examples
    --------
    >>> usual_hats(100), usual_hats(1_000), usual_hats(10_000), usual_hats(100_000)
    (5, 9, 17, 33)
    """
    return max((hats for hats in HATS if hats**3 <= steps), default=HATS[0])


@dataclass(frozen=True, eq=False)
class HatScale:
    """The levels of one channel of numbers: its marginal distribution cut into parts of equal mass.

    Attributes
    ----------
    marginal : Marginal
    step : float
        What all cells are multiples of; 0 where they are of nothing.
    """

    marginal: Marginal
    step: float = 0.0

    @classmethod
    def of(cls, values: Floats, weights: Floats, step: float = 0.0) -> HatScale:
        """Return the levels of some numbers, each as often as its weight says; NaN is missing."""
        # Tables of categories alone need none of this.
        from eigentree.emissions.marginal import fitted_marginal

        return cls(fitted_marginal(values, weights), step)

    def same_as(self, other: HatScale | None) -> bool:
        """Return whether all numbers have the same levels as on another scale."""
        if other is None or self.step != other.step:
            return False
        here, there = (each.marginal.__getstate__() for each in (self, other))
        return all(np.array_equal(value, there[name]) for name, value in here.items())

    def levels(self, values: Floats) -> NDArray[np.uint16]:
        """Return the level of each number; `LEVELS` where it is missing."""
        known = ~np.isnan(values)
        made = np.full(len(values), LEVELS, np.uint16)
        place = np.floor(self.marginal.cdf(values[known]) * LEVELS)
        made[known] = np.clip(place, 0, LEVELS - 1)
        return made

    def hats(self, counted: int) -> Floats:
        """Return what a cell in each level is counted as: the mean of each hat over the numbers it stands for."""
        values, levels = hat_values(counted, counted), np.arange(LEVELS)
        if not self.step:
            return values
        middles = self.at((levels + 0.5) / LEVELS)
        ends = [self.marginal.cdf(middles + side * self.step / 2) * LEVELS for side in (-1, 1)]
        below = np.concatenate([np.zeros((1, counted)), values.cumsum(axis=0)])

        def upto(places: Floats) -> Floats:
            whole = np.minimum(places.astype(np.int64), LEVELS - 1)
            return below[whole] + (places - whole)[:, None] * values[whole]

        # A level at least.
        low, high = np.minimum(ends[0], levels), np.maximum(ends[1], levels + 1.0)
        return _in_parts((upto(high) - upto(low)) / (high - low)[:, None])

    def log_density(self, values: Floats) -> Floats:
        """Return the log density of each number given its level; 0 where it is missing."""
        found = np.zeros(len(values))
        known = ~np.isnan(values)
        found[known] = self.marginal.log_density(values[known]) + np.log(LEVELS)
        return found

    def at(self, places: Floats) -> Floats:
        """Return the numbers at which the cdf is as given."""
        from scipy.special import ndtri

        return self.marginal.from_scores(ndtri(places))

    @cached_property
    def means(self) -> Floats:
        """The mean of the numbers of each level."""
        return self._moments[0]

    @cached_property
    def squares(self) -> Floats:
        """The mean square of the numbers of each level."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        nodes, weights = np.polynomial.legendre.leggauss(POINTS)
        numbers = self.at((np.arange(LEVELS)[:, None] + (nodes + 1) / 2) / LEVELS)
        return np.asarray(numbers @ weights / 2), np.asarray(numbers**2 @ weights / 2)

    def quantiles(self, tables: Floats, shares: Sequence[float]) -> Floats:
        """Return the quantiles of numbers whose levels have some distributions, shape (tables, shares)."""
        below = np.cumsum(tables, axis=1)
        made = np.empty((len(tables), len(shares)))
        for place, share in enumerate(shares):
            level = np.minimum((below < share * below[:, -1:]).sum(axis=1), LEVELS - 1)
            own = np.take_along_axis(tables, level[:, None], axis=1)[:, 0]
            over = share * below[:, -1] - (np.take_along_axis(below, level[:, None], axis=1)[:, 0] - own)
            part = np.clip(np.divide(over, own, out=np.full(len(own), 0.5), where=own > 0), 0.0, 1.0)
            made[:, place] = self.at((level + part) / LEVELS)
        return made

    def __getstate__(self) -> dict[str, Any]:
        # What was worked out on the way is worked out again.
        return {"marginal": self.marginal, "step": self.step}


def _in_parts(tables: Floats) -> Floats:
    """Return distributions rounded to multiples of 1 / `PARTS`, still normalised."""
    whole = np.floor(tables * PARTS)
    short = PARTS - whole.sum(axis=1, keepdims=True)
    # Those cut by most are rounded up.
    place = np.argsort(np.argsort(whole - tables * PARTS, axis=1, kind="stable"), axis=1)
    return np.asarray((whole + (place < short)) / PARTS)


OTHER_LEVELS = (
    "of numbers add up only when their numbers were cut into the same levels; count other rows with update or "
    "partial_fit, which keep the levels of the first"
)
"""What is said of statistics of numbers that were cut into others."""


def require_same_levels(scales: Sequence[HatScale | None], others: Sequence[HatScale | None]) -> None:
    """Raise `DataError` unless numbers have the same levels on some scales and on others."""
    same = len(scales) == len(others) and all(
        here is there or (here is not None and here.same_as(there))
        for here, there in zip(scales, others, strict=True)
    )
    if not same:
        raise DataError(f"statistics {OTHER_LEVELS}")


def level_codes(codes: Codes, values: Floats, scales: Sequence[HatScale | None]) -> Codes:
    """Return the codes of steps with the levels of channels that are numbers, shape (steps, channels)."""
    if not any(scales):
        return codes
    made = np.array(codes, np.promote_types(codes.dtype, np.uint16), order="F")
    numbers = [channel for channel, scale in enumerate(scales) if scale is not None]
    for place, channel in enumerate(numbers):
        scale = scales[channel]
        assert scale is not None
        made[:, channel] = scale.levels(values[:, place])
    return made


def numbers_in_levels(codes: Floats, scales: Sequence[HatScale | None], random: np.random.Generator) -> Floats:
    """Return cells with a number in place of each level, sampled inside it."""
    made = np.array(codes, np.float64)
    for channel, scale in enumerate(scales):
        if scale is not None:
            made[:, channel] = scale.at((made[:, channel] + random.random(len(made))) / LEVELS)
    return made
