"""Free coordinates of all parameters of a network, and the slopes of a log-likelihood along them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.optimize.emission_slopes import EmissionSlopes

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Objective, SimplexVector
    from eigentree.emissions.base import Emission

__all__ = ["FreeCoordinates"]


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

    def _slopes(self, coordinates: list[Floats]) -> dict[tuple[str, ...], EmissionSlopes]:
        """Return the slopes of each emission at its coordinates."""
        pairs = zip(self._emissions.items(), coordinates, strict=True)
        return {group: EmissionSlopes(each, by) for (group, each), by in pairs}

    def slopes(self, objective: Objective, coordinates: Floats) -> tuple[float, Floats]:
        """Return the log-likelihood of an objective's rows, and its gradient along the coordinates."""
        parameters = self.moved(coordinates)
        if not self._emissions:
            counts, log_likelihood, _ = objective.counted(parameters)
            return log_likelihood, self._table_slopes(parameters, counts)
        rows: Any = objective
        tables, emissions = rows.layout.split(parameters)
        others = self._parted(coordinates)[1]
        along = self._slopes(others)
        found = {group: np.zeros(len(own.by)) for group, own in along.items()}
        counts, log_likelihood = np.zeros(len(tables)), 0.0
        for stretch in rows.stretches:
            expected, shares = rows.shares(stretch, tables, emissions)
            counts += expected.counts
            log_likelihood += expected.log_likelihood
            for block, share in zip(stretch.blocks, shares, strict=True):
                for group in block.groups:
                    found[group] += along[group].gradient(stretch.features[group], share)
        return log_likelihood, np.concatenate([self._table_slopes(tables, counts), *found.values()])

    def prior_slopes(self, objective: Objective, coordinates: Floats) -> tuple[float, Floats]:
        """Return the log prior of an objective, and its gradient along the coordinates."""
        parameters = self.moved(coordinates)
        value = objective.log_prior(parameters)
        slopes = [self._table_slopes(parameters[: self._table_size], objective.prior)]
        for own in self._slopes(self._parted(coordinates)[1]).values():
            value += own.moved.log_prior()
            slopes.append(own.prior_gradient())
        return value, np.concatenate(slopes)

    def _table_slopes(self, tables: Floats, counts: Floats) -> Floats:
        layout = self._tables
        return np.where(layout.learned, counts - tables * layout.totals(counts), 0.0)
