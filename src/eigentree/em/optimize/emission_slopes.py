"""`EmissionSlopes`: how log densities and the prior of an emission change along its free coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.emissions.base import StackedEmission

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.emissions.base import Emission

__all__ = ["STEP", "EmissionSlopes"]

STEP = 1e-4
"""The step of central differences, along coordinates in which 1 is far: their error, in proportion, is about
STEP² / 6, and rounding adds about 1e-16 / STEP of what is differenced; gamma functions of large numbers, which are
rounded most, still change by more than their last digits."""


@dataclass(frozen=True, eq=False)
class EmissionSlopes:
    """An emission at some free coordinates, and slopes along these, by central differences.

    It has what an E-step needs of an emission, and its statistics are the gradient: by Fisher's identity that of
    the log-likelihood is the sum of those of the log densities, each row and state by its posterior.

    Attributes
    ----------
    emission : Emission
        At coordinates 0.
    by : array, shape (n_coordinates,)
    """

    emission: Emission
    by: Floats

    @cached_property
    def moved(self) -> Emission:
        """The emission at these coordinates."""
        return self.emission.moved(self.by) if self.by.any() else self.emission

    @property
    def is_shared(self) -> bool:
        """Whether a coordinate moves several states."""
        return self.emission.is_tied or self.emission.conditions

    @cached_property
    def _parts(self) -> list[EmissionSlopes]:
        """Those of each part of a stacked emission."""
        assert isinstance(self.emission, StackedEmission)
        ends = np.cumsum([part.n_coordinates for part in self.emission.parts])[:-1]
        return [EmissionSlopes(*both) for both in zip(self.emission.parts, np.split(self.by, ends), strict=True)]

    @cached_property
    def _pairs(self) -> list[tuple[Integers, Emission, Emission]]:
        """Coordinates that are differenced together, the emission beyond and that before.

        Those of different states are, unless the states share parameters.
        """
        count = len(self.by)
        every = np.arange(count)
        groups = every[:, None] if self.is_shared else every.reshape(self.emission.states, -1).T
        found = []
        for group in groups:
            step = np.zeros(count)
            step[group] = STEP
            found.append((group, self.emission.moved(self.by + step), self.emission.moved(self.by - step)))
        return found

    def gradient(self, features: Any, counts: Floats) -> Floats:
        """Return the gradient of the expected log density of rows, given the count of each state in each row."""
        if isinstance(self.emission, StackedEmission):
            parts = zip(self._parts, features, self.emission.each_part(counts), strict=True)
            return np.concatenate([part.gradient(own, shares) for part, own, shares in parts])
        made, used = np.zeros(len(self.by)), counts > 0
        for group, beyond, before in self._pairs:
            higher, lower = beyond.lines(features), before.lines(features)
            change = counts * np.subtract(higher, lower, out=np.zeros_like(higher), where=used)
            made[group] = change.sum() if self.is_shared else change.sum(axis=0)
        return made / (2.0 * STEP)

    def prior_gradient(self) -> Floats:
        """Return the gradient of the log prior."""
        steps = STEP * np.eye(len(self.by))
        pairs = ((self.emission.moved(self.by + step), self.emission.moved(self.by - step)) for step in steps)
        return np.array([beyond.log_prior() - before.log_prior() for beyond, before in pairs]) / (2.0 * STEP)

    @property
    def states(self) -> int:
        """Number of states."""
        return self.emission.states

    def lines(self, features: Any) -> Floats:
        """Return the log density of each row in each state."""
        return self.moved.lines(features)

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return the gradient of the expected log density, and then the counts of the states."""
        return np.concatenate([self.gradient(features, counts), counts.sum(axis=0)])

    def complete_information(self, totals: Floats) -> Floats:
        """Return about how much rows say of each coordinate: one row one unit, given the count of each state."""
        if self.is_shared:
            return np.full(len(self.by), totals.sum())
        return np.repeat(totals, len(self.by) // len(totals))
