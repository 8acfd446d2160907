"""Free coordinates of all parameters of a network, and the slopes of a log-likelihood along them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.emissions.base import StackedEmission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Objective, SimplexVector
    from eigentree.emissions.base import Emission

__all__ = ["FreeCoordinates"]

STEP = 1e-4
"""Of a coordinate, for central differences of log densities: their error is about its square, 1e-8, and gamma
functions of large numbers, which are rounded most, still change by more than their last digits."""


@dataclass(frozen=True, eq=False)
class FreeCoordinates:
    """Coordinates of the parameters in a layout, all 0 at some start; every number is possible.

    That of a table's entry is added to its logarithm before the distribution is normalised, so what is zero stays
    zero; emissions move as `Emission.moved` says.
    """

    layout: SimplexVector
    start: Floats

    @cached_property
    def _emissions(self) -> dict[tuple[str, ...], Emission]:
        """The emissions at the start."""
        layout: Any = self.layout
        return dict(layout.split(self.start)[1]) if self._tables is not layout else {}

    @property
    def _tables(self) -> SimplexVector:
        return self.layout.table_layout

    @cached_property
    def _table_size(self) -> int:
        return len(self._tables.learned)

    @cached_property
    def _sizes(self) -> list[int]:
        """The number of coordinates of the tables, and of each emission."""
        return [self._table_size, *(each.n_coordinates for each in self._emissions.values())]

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return sum(self._sizes)

    def _parted(self, coordinates: Floats) -> tuple[Floats, list[Floats]]:
        """Return the coordinates of the tables, and of each emission."""
        tables, *others = np.split(coordinates, np.cumsum(self._sizes)[:-1])
        return tables, others

    def moved(self, coordinates: Floats) -> Floats:
        """Return the parameters at some coordinates."""
        own, others = self._parted(coordinates)
        layout: Any = self.layout
        tables = self._moved_tables(own)
        if not self._emissions:
            return tables
        pairs = zip(self._emissions.items(), others, strict=True)
        return np.asarray(layout.joined(tables, {group: each.moved(by) for (group, each), by in pairs}))

    def _moved_tables(self, coordinates: Floats) -> Floats:
        layout, start = self._tables, self.start[: self._table_size]
        # The largest of each distribution is taken out, so that no exponential overflows.
        first = np.cumsum(layout.lengths) - layout.lengths
        peak = np.repeat(np.maximum.reduceat(coordinates, first), layout.lengths)
        moved = layout.normalised(start * np.exp(coordinates - peak), start)
        return np.where(layout.learned, moved, start)

    def slopes(self, objective: Objective, coordinates: Floats) -> tuple[float, Floats]:
        """Return the log-likelihood of an objective's rows, and its gradient along the coordinates."""
        parameters = self.moved(coordinates)
        if not self._emissions:
            counts, log_likelihood, _ = objective.counted(parameters)
            return log_likelihood, self._table_slopes(parameters, counts)
        rows: Any = objective
        tables, emissions = rows.layout.split(parameters)
        others = self._parted(coordinates)[1]
        by = dict(zip(self._emissions, others, strict=True))
        found = {group: np.zeros(len(own)) for group, own in by.items()}
        counts, log_likelihood = np.zeros(len(tables)), 0.0
        for stretch in rows.stretches:
            expected, shares = rows.shares(stretch, tables, emissions)
            counts += expected.counts
            log_likelihood += expected.log_likelihood
            for block, share in zip(stretch.blocks, shares, strict=True):
                for group in block.groups:
                    found[group] += _line_slopes(self._emissions[group], by[group], stretch.features[group], share)
        return log_likelihood, np.concatenate([self._table_slopes(tables, counts), *found.values()])

    def prior_slopes(self, objective: Objective, coordinates: Floats) -> tuple[float, Floats]:
        """Return the log prior of an objective, and its gradient along the coordinates."""
        parameters = self.moved(coordinates)
        value = objective.log_prior(parameters)
        slopes = [self._table_slopes(parameters[: self._table_size], objective.prior)]
        for each, by in zip(self._emissions.values(), self._parted(coordinates)[1], strict=True):
            value += each.moved(by).log_prior()
            steps = STEP * np.eye(len(by))
            pairs = [(each.moved(by + step).log_prior(), each.moved(by - step).log_prior()) for step in steps]
            slopes.append(np.array([higher - lower for higher, lower in pairs]) / (2.0 * STEP))
        return value, np.concatenate(slopes)

    def _table_slopes(self, tables: Floats, counts: Floats) -> Floats:
        layout = self._tables
        return np.where(layout.learned, counts - tables * layout.totals(counts), 0.0)


def _line_slopes(emission: Emission, by: Floats, features: Any, shares: Floats) -> Floats:
    """Return the gradient of the log densities of lines, times how often each is expected in each state."""
    if isinstance(emission, StackedEmission):
        each = (
            emission.each_part(shares),
            np.split(by, np.cumsum([part.n_coordinates for part in emission.parts])[:-1]),
        )
        parts = zip(emission.parts, each[1], features, each[0], strict=True)
        return np.concatenate([_line_slopes(*part) for part in parts])
    slopes, used = np.zeros(len(by)), shares > 0
    for some in _together(emission, len(by)):
        step = np.zeros(len(by))
        step[some] = STEP
        higher, lower = (emission.moved(by + own).lines(features) for own in (step, -step))
        change = shares * np.subtract(higher, lower, out=np.zeros_like(higher), where=used)
        slopes[some] = change.sum(axis=0) if len(some) == emission.states else change.sum()
    return slopes / (2.0 * STEP)


def _together(emission: Emission, size: int) -> Sequence[Sequence[int]]:
    """Return coordinates that move together: one of each state, unless states share parameters."""
    if emission.is_tied:
        return [[place] for place in range(size)]
    each = size // emission.states
    return [range(place, size, each) for place in range(each)]
