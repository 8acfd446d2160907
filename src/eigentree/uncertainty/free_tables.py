"""Free coordinates of conditional probability tables, and the gradient of an objective along them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["FreeTables"]

LEAST_COUNT = 0.01
"""An entry that fewer rows are expected to have used is at the boundary: the error of its logit is about one over
the square root of their number, so an interval of 95 % would reach 20 logits to each side."""


MOST_PRIOR = 0.5
"""Where pseudo-counts are more, an entry is at the boundary if less than half a row is expected to have used it: a
strong prior keeps what is learned with it."""


@dataclass(frozen=True, eq=False)
class FreeTables:
    """The free coordinates of tables: logits of entries relative to the largest one of their distribution.

    Entries that are fixed or at the boundary stay where they are, and those that are equal move together.

    Attributes
    ----------
    values : array
        All tables, end to end.
    lengths : array of int
        The number of entries of each distribution.
    moving : array of bool
        The entries that move.
    first_equal : array of int
        The first entry that each one is equal to.
    prior : array
        The pseudo-counts of all entries.
    """

    values: Floats
    lengths: Integers
    moving: Booleans
    first_equal: Integers
    prior: Floats

    @classmethod
    def of(
        cls,
        lengths: Integers,
        values: Floats,
        estimated: Booleans,
        counts: Floats,
        prior: Floats,
        first_equal: Integers | None = None,
    ) -> FreeTables:
        """Return the coordinates of tables at their estimate, given which entries are, and expected counts there.

        An entry is at the boundary where hardly any row is expected to have used it, or fewer than pseudo-counts.
        """
        equal = np.arange(len(values)) if first_equal is None else first_equal
        used, added = (np.bincount(equal, own, len(values))[equal] for own in (counts, prior))
        moving = estimated & (values > 0) & (used >= np.maximum(LEAST_COUNT, np.minimum(added, MOST_PRIOR)))
        return cls(values, lengths, moving, equal, prior)

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return len(self.entries)

    @cached_property
    def _first(self) -> Integers:
        return np.cumsum(self.lengths) - self.lengths

    def _totals(self, counts: Floats) -> Floats:
        return np.repeat(np.add.reduceat(counts, self._first), self.lengths)

    @cached_property
    def _mass(self) -> Floats:
        """What all moving entries of a distribution have together."""
        return self._totals(np.where(self.moving, self.values, 0.0))

    @cached_property
    def entries(self) -> Integers:
        """The entry that each coordinate moves: all moving ones but the largest of each distribution."""
        own = np.where(self.moving, self.values, -1.0)
        line = np.repeat(np.arange(len(self.lengths)), self.lengths)
        # The first of the largest entries, which stands at the same place in distributions that are equal.
        order = np.lexsort([np.arange(len(own)), -own, line])
        reference = np.zeros(len(own), np.bool_)
        reference[order[self._first]] = True
        return np.flatnonzero(self.moving & ~reference & (self.first_equal == np.arange(len(own))))

    def moved(self, by: Floats) -> Floats:
        """Return the tables at some coordinates, which are all 0 at the estimate."""
        shift = np.zeros(len(self.values))
        shift[self.entries] = by
        raw = np.where(self.moving, self.values * np.exp(shift[self.first_equal]), 0.0)
        scaled = np.divide(raw * self._mass, self._totals(raw), out=raw.copy(), where=self._mass > 0)
        return np.where(self.moving, scaled, self.values)

    def gradient(self, tables: Floats, counts: Floats) -> Floats:
        """Return the gradient of the objective at some coordinates, given the tables and expected counts there."""
        own = np.where(self.moving, counts.ravel() + self.prior, 0.0)
        shares = np.divide(tables, self._mass, out=np.zeros_like(tables), where=self._mass > 0)
        slopes = np.where(self.moving, own - self._totals(own) * shares, 0.0)
        return np.bincount(self.first_equal, slopes, len(slopes))[self.entries].astype(np.float64)

    def complete_information(self, counts: Floats) -> Floats:
        """Return the information of each coordinate by itself, if no state were hidden."""
        own = np.where(self.moving, counts.ravel(), 0.0)
        shares = np.divide(self.values, self._mass, out=np.zeros_like(own), where=self._mass > 0)
        parts = self._totals(own) * shares * (1.0 - shares)
        return np.bincount(self.first_equal, parts, len(parts))[self.entries].astype(np.float64)
