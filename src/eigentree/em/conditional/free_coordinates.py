"""Free coordinates of all parameters of a model, and the gradient of an objective along them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

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

    def _at(self, coordinates: Floats) -> tuple[Floats, list[Emission], list[Floats]]:
        """Return tables and emissions at some coordinates, and which of these move each emission."""
        own, *others = np.split(coordinates, np.cumsum(self._sizes)[:-1])
        layout, (start, emissions) = self._layout, self._parts
        # The largest of each distribution is taken out, so that no exponential overflows.
        first = np.cumsum(layout.lengths) - layout.lengths
        peak = np.repeat(np.maximum.reduceat(own, first), layout.lengths)
        moved = layout.normalised(start * np.exp(own - peak), start)
        each = [emission.moved(by) for emission, by in zip(emissions, others, strict=True)]
        return np.where(layout.learned, moved, start), each, others

    def moved(self, coordinates: Floats) -> Floats:
        """Return the parameters at some coordinates."""
        tables, emissions, _ = self._at(coordinates)
        return self.objective.whole(tables, emissions)

    def value_and_gradient(self, objective: Objective, coordinates: Floats) -> tuple[float, Floats]:
        """Return log-likelihood plus log prior of an objective, and its gradient along the coordinates."""
        tables, emissions, others = self._at(coordinates)
        expected, statistics = objective.expected_parts(tables, emissions)
        value = expected.log_likelihood + objective.log_prior(tables)
        value += sum(emission.log_prior() for emission in emissions)
        counts, layout = expected.counts + objective.prior, self._layout
        slopes = [np.where(layout.learned, counts - tables * layout.totals(counts), 0.0)]
        every = zip(self._parts[1], others, statistics, strict=True)
        slopes += [emission.gradient(by, own) for emission, by, own in every]
        return value, np.concatenate(slopes)
