"""Free coordinates of all parameters of a model, and the slopes of a log-likelihood along them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.optimize.emission_slopes import EmissionSlopes

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Objective, SimplexVector
    from eigentree.emissions.base import Emission

__all__ = ["FreeCoordinates"]


@dataclass(frozen=True, eq=False)
class FreeCoordinates:
    """Coordinates of the parameters of an objective, all 0 at some start; every number is possible.

    That of a table's entry is added to its logarithm before the distribution is normalised, so what is zero stays
    zero; emissions move as `Emission.moved` says.
    """

    objective: Objective
    start: Floats

    @property
    def _layout(self) -> SimplexVector:
        return self.objective.layout.table_layout

    @cached_property
    def _parts(self) -> tuple[Floats, tuple[Emission, ...]]:
        """The tables and the emissions at the start."""
        return self.objective.parted(self.start)

    @cached_property
    def _sizes(self) -> list[int]:
        """The number of coordinates of the tables, and of each emission."""
        tables, emissions = self._parts
        return [len(tables), *(each.n_coordinates for each in emissions)]

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return sum(self._sizes)

    def _at(self, coordinates: Floats) -> tuple[Floats, list[EmissionSlopes]]:
        """Return the tables at some coordinates, and the slopes of each emission there."""
        own, *others = np.split(coordinates, np.cumsum(self._sizes)[:-1])
        layout, (start, emissions) = self._layout, self._parts
        # The largest of each distribution is taken out, so that no exponential overflows.
        first = np.cumsum(layout.lengths) - layout.lengths
        peak = np.repeat(np.maximum.reduceat(own, first), layout.lengths)
        moved = layout.normalised(start * np.exp(own - peak), start)
        slopes = [EmissionSlopes(each, by) for each, by in zip(emissions, others, strict=True)]
        return np.where(layout.learned, moved, start), slopes

    def moved(self, coordinates: Floats) -> Floats:
        """Return the parameters at some coordinates."""
        tables, slopes = self._at(coordinates)
        return self.objective.whole(tables, [each.moved for each in slopes])

    def slopes(self, objective: Objective, coordinates: Floats) -> tuple[float, Floats]:
        """Return the log-likelihood of an objective's rows, and its gradient along the coordinates."""
        tables, slopes = self._at(coordinates)
        expected, found = objective.expected_parts(tables, slopes)
        others = [own[: len(each.by)] for own, each in zip(found, slopes, strict=True)]
        return expected.log_likelihood, np.concatenate([self._table_slopes(tables, expected.counts), *others])

    def prior_slopes(self, objective: Objective, coordinates: Floats) -> tuple[float, Floats]:
        """Return the log prior of an objective, and its gradient along the coordinates."""
        tables, slopes = self._at(coordinates)
        value = objective.log_prior(tables) + sum(each.moved.log_prior() for each in slopes)
        others = [each.prior_gradient() for each in slopes]
        return value, np.concatenate([self._table_slopes(tables, objective.prior), *others])

    def _table_slopes(self, tables: Floats, counts: Floats) -> Floats:
        layout = self._layout
        return np.where(layout.learned, counts - tables * layout.totals(counts), 0.0)
