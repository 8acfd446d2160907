"""Hidden semi-Markov models along free coordinates: what standard errors of durations come from."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.durations.duration_objective import DurationLayout, DurationObjective
from eigentree.uncertainty.free_tables import CountedStates, FreeTables
from eigentree.uncertainty.information import STEP, FreeModel

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.em.chain_fit import ChainLayout
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.duration_chain import DurationChain
    from eigentree.inference.sequences.number_steps import NumberCounts

__all__ = ["DurationModel"]


@dataclass(frozen=True, eq=False)
class DurationModel(FreeModel):
    """A fitted hidden semi-Markov model: logits of its tables, what moves emissions, and what moves durations."""

    model: Any
    data: Sequences
    weights: Floats
    places: Integers
    objective: DurationObjective
    parameters: Floats
    unit: str = "sequence"

    @classmethod
    def of(
        cls, model: Any, sequences: Sequences, weights: Floats, plain: ChainLayout, tables: Floats
    ) -> DurationModel:
        """Return a fitted estimator with its sequences, given layout and parameters without durations."""
        chain: DurationChain = model.model_
        longest = chain.durations.shape[1]
        layout = DurationLayout.of_segments(plain, model.durations, longest)
        parameters = layout.with_durations(tables, layout.of_durations.nearest(chain.durations))
        prior = layout.prior(float(model.pseudo_counts), 0.0)
        objective = DurationObjective.of(layout, sequences, weights, prior, model.n_jobs)
        used = np.flatnonzero((weights > 0) & (sequences.lengths > 0))
        places = np.full(sequences.count, -1)
        places[used] = np.arange(len(used))
        return cls(model, sequences.chosen(used), weights, places, objective, parameters)

    @cached_property
    def _emissions(self) -> list[Emission]:
        return self.objective.layout.split(self.parameters)[1]

    @cached_property
    def _durations(self) -> Floats:
        return self.objective.layout.durations(self.parameters)

    @cached_property
    def _here(self) -> NumberCounts:
        """What is expected at the estimate; of emissions counts of states come last."""
        tables = self.objective.layout.split(self.parameters)[0]
        still = [CountedStates(own) for own in self._emissions]
        return self.objective.found(tables, [*still, self.objective.lasting(self._durations)])

    def _counts(self, found: NumberCounts) -> Floats:
        return self.objective.layout.joined(found.links[:2], found.tables)

    @property
    def _prior(self) -> Floats:
        """The pseudo-counts of the tables."""
        return self.objective.prior[: len(self.objective.layout.learned)]

    @cached_property
    def tables(self) -> FreeTables:
        """The coordinates of the tables, which stand before those of emissions."""
        layout, (tables, _) = self.objective.layout, self.objective.layout.split(self.parameters)
        return FreeTables.of(layout.table_layout, layout.estimated, tables, self._counts(self._here), self._prior)

    @cached_property
    def _known(self) -> Floats:
        """About the information of each coordinate of durations; 0 for those that do not move."""
        _, _, ended, censored, _ = self._here.links
        return self.objective.layout.of_durations.known(self._durations, ended, censored)

    @property
    def _moves(self) -> Booleans:
        return self._known > 0

    @cached_property
    def _ends(self) -> Integers:
        sizes = [len(self.tables.entries), *(own.n_coordinates for own in self._emissions), int(self._moves.sum())]
        return np.cumsum(sizes)

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self._ends[-1])

    def _at(self, by: Floats) -> tuple[Floats, list[Emission], Floats, list[Floats]]:
        """Return tables, emissions and parameters of durations at some coordinates, and which move emissions."""
        own, *others, lasting = np.split(by, self._ends[:-1])
        moved = [emission.moved(part) for emission, part in zip(self._emissions, others, strict=True)]
        return self.tables.moved(own), moved, self._moved(self._durations, lasting), others

    def _moved(self, durations: Floats, by: Floats) -> Floats:
        moves = np.zeros(self._moves.shape)
        moves[self._moves] = by
        return self.objective.layout.of_durations.moved(durations, moves)

    def gradient(self, by: Floats) -> Floats:
        """Return the gradient of the objective at some coordinates (Fisher's identity)."""
        tables, emissions, durations, others = self._at(by)
        found = self.objective.found(tables, [*emissions, self.objective.lasting(durations)])
        every = zip(self._emissions, others, found.statistics, strict=True)
        parts = [emission.gradient(part, own) for emission, part, own in every]
        _, _, ended, censored, _ = found.links
        family, pseudo_counts = self.objective.layout.of_durations, float(self.model.pseudo_counts)

        def value(step: Floats) -> float:
            return family.expected_log(self._moved(durations, step), ended, censored, pseudo_counts)

        steps = STEP * np.eye(int(self._moves.sum()))
        lasting = np.array([(value(step) - value(-step)) / (2.0 * STEP) for step in steps])
        return np.concatenate([self.tables.gradient(tables, self._counts(found) + self._prior), *parts, lasting])

    @cached_property
    def complete_information(self) -> Floats:
        """About the information of each coordinate by itself, if no state were hidden."""
        each = zip(self._emissions, self._here.statistics, strict=True)
        parts = [CountedStates(emission).complete_information(own) for emission, own in each]
        tables = self.tables.complete_information(self._counts(self._here))
        return np.concatenate([tables, *parts, self._known[self._moves]])

    def estimator(self, by: Floats) -> Any:
        """Return the fitted estimator at some coordinates."""
        tables, emissions, durations, _ = self._at(by)
        layout, made = self.objective.layout, copy(self.model)
        rest = layout.whole(tables, emissions)
        made.model_ = layout.chain_of(self.data.columns, layout.with_durations(rest, durations))
        return made
