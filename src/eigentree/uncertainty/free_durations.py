"""Hidden semi-Markov models along free coordinates: what standard errors of durations come from."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.durations.duration_objective import DurationLayout, DurationObjective
from eigentree.uncertainty.free_tables import FreeTables
from eigentree.uncertainty.information import FreeModel, central_differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.em.chain_fit import ChainLayout
    from eigentree.em.durations.duration_families import DurationFamily
    from eigentree.emissions.base import Emission
    from eigentree.uncertainty.information import FreePart

__all__ = ["DurationModel", "duration_objective"]


def duration_objective(
    model: Any, sequences: Sequences, weights: Floats, plain: ChainLayout, tables: Floats
) -> tuple[DurationObjective, Floats]:
    """Return the objective of a fitted estimator and its parameters, given layout and those without durations."""
    table = model.model_.durations
    layout = DurationLayout.of_segments(plain, model.durations, table.shape[1])
    prior = layout.prior(float(model.pseudo_counts), 0.0)
    parameters = layout.with_durations(tables, layout.of_durations.nearest(table))
    return DurationObjective.of(layout, sequences, weights, prior, model.n_jobs), parameters


@dataclass(frozen=True, eq=False)
class FreeDurations:
    """The free coordinates of durations, given their parameters at the estimate.

    `known` is about the information of each of them, 0 for those that do not move.
    """

    family: DurationFamily
    values: Floats
    known: Floats
    pseudo_counts: float

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int((self.known > 0).sum())

    def moved(self, by: Floats, values: Floats | None = None) -> Floats:
        """Return the parameters at some coordinates, or so far from other ones."""
        moves = np.zeros(self.known.shape)
        moves[self.known > 0] = by
        return self.family.moved(self.values if values is None else values, moves)

    def gradient(self, values: Floats, counts: tuple[Floats, Floats]) -> Floats:
        """Return the gradient of the objective, given the segments that ended and those that were cut."""

        def value(step: Floats) -> float:
            return self.family.expected_log(self.moved(step, values), *counts, self.pseudo_counts)

        return central_differences(value, self.count)

    def complete_information(self, counts: tuple[Floats, Floats]) -> Floats:
        """Return about the information of each coordinate by itself, if no state were hidden."""
        del counts
        return self.known[self.known > 0]


@dataclass(frozen=True, eq=False)
class DurationModel(FreeModel):
    """A fitted hidden semi-Markov model, whose parts are its tables and its durations."""

    @cached_property
    def parts(self) -> list[FreePart]:
        """The coordinates of the tables and of durations."""
        layout, (tables, durations), (counts, segments) = self.objective.layout, self.estimates, self.here[0]
        own, prior, family = layout.table_layout, self.objective.prior[: len(tables)], layout.of_durations
        known = family.known(durations, *segments)
        return [
            FreeTables.of(own.lengths, tables, layout.estimated, counts, prior),
            FreeDurations(family, durations, known, float(self.model.pseudo_counts)),
        ]

    def expected(self, values: list[Floats], emissions: Sequence[Any]) -> tuple[list[Any], list[Floats]]:
        """Return expected counts of the tables' entries and of segments, and statistics of emissions."""
        tables, durations = values
        found = self.objective.found(tables, [*emissions, self.objective.lasting(durations)])
        start, moves, ended, censored, _ = found.links
        return [self.objective.layout.joined([start, moves], found.tables), (ended, censored)], found.statistics

    def moved(self, values: list[Floats], emissions: list[Emission]) -> Any:
        """Return the fitted estimator with other tables, durations and emissions."""
        (tables, durations), layout, made = values, self.objective.layout, copy(self.model)
        rest = layout.whole(tables, emissions)
        made.model_ = layout.chain_of(self.data.columns, layout.with_durations(rest, durations))
        return made
