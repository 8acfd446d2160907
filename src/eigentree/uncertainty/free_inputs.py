"""Hidden Markov models with inputs along free coordinates: tables by symbol, and coefficients of logits."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.inputs.input_objective import InputLayout, InputObjective
from eigentree.em.inputs.input_pass import InputPass
from eigentree.inference.sequences.input_chain import InputChain, InputTables
from eigentree.uncertainty.free_tables import EmissionScores, FreeTables, at_boundary
from eigentree.uncertainty.information import FreeModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.sequences.inputs import InputSequences
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.input_chain import DependentTable

__all__ = ["InputModel", "input_model"]


@dataclass(frozen=True, eq=False)
class FreeLogits:
    """The free coordinates of multinomial logits: coefficients of uncorrelated covariates, but for a reference.

    Attributes
    ----------
    table : DependentTable
    design : array, shape (inputs, covariates)
    whitening : array, shape (covariates, independent covariates)
        Covariates times this are uncorrelated and have the mean square 1 in the steps.
    """

    table: DependentTable
    design: Floats
    whitening: Floats

    @classmethod
    def of(cls, table: DependentTable, design: Floats, shares: Floats) -> FreeLogits:
        """Return the coordinates of a table, given the share of each input among steps."""
        weighted = design * np.sqrt(shares)[:, None]
        _, sizes, turn = np.linalg.svd(weighted, full_matrices=False)
        kept = sizes > sizes[0] * max(weighted.shape) * np.finfo(np.float64).eps
        return cls(table, design, np.asarray(turn[kept].T / sizes[kept]))

    @cached_property
    def _moving(self) -> Booleans:
        """Which classes have coefficients: all that are possible but the first of each row."""
        moving = self.table.possible.copy()
        moving[np.arange(len(moving)), moving.argmax(axis=1)] = False
        return moving

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self._moving.sum()) * int(self.whitening.shape[1])

    def moved(self, by: Floats) -> DependentTable:
        """Return the table at some coordinates."""
        if not by.any():
            return self.table
        steps = np.zeros((self.whitening.shape[1], *self._moving.shape))
        steps[:, self._moving] = by.reshape(len(steps), -1)
        return replace(self.table, array=self.table.array + np.tensordot(self.whitening, steps, 1))

    def gradient(self, table: DependentTable, counts: Floats) -> Floats:
        """Return the derivative of the objective, given counts at each input, pseudo-counts included."""
        apart = counts - counts.sum(axis=-1, keepdims=True) * table.proba(self.design)
        return np.tensordot((self.design @ self.whitening).T, apart, 1)[:, self._moving].ravel()

    def complete_information(self, counts: Floats) -> Floats:
        """Return about how much rows say of each coordinate: the count of its row of the table."""
        totals = np.broadcast_to(counts.sum(axis=(0, 2))[:, None], self._moving.shape)[self._moving]
        return np.tile(totals, self.whitening.shape[1])


@dataclass(frozen=True, eq=False)
class FreeEntries:
    """The free coordinates of probabilities, which are the same at all inputs, or others at each symbol."""

    table: DependentTable
    tables: FreeTables

    @classmethod
    def of(cls, table: DependentTable, counts: Floats, prior: Floats, is_learned: bool) -> FreeEntries:
        """Return the coordinates of a table, given how often steps are expected to use its entries."""
        values, width = table.array.ravel(), table.array.shape[-1]
        possible = np.broadcast_to(table.possible, table.array.shape).ravel()
        added = np.broadcast_to(prior, counts.shape).ravel()
        moving = possible & is_learned & (values > 0) & ~at_boundary(counts.ravel(), added)
        lengths = np.full(values.size // width, width)
        return cls(table, FreeTables(values, lengths, moving, np.arange(values.size)))

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return len(self.tables.entries)

    def moved(self, by: Floats) -> DependentTable:
        """Return the table at some coordinates."""
        return replace(self.table, array=self.tables.moved(by).reshape(self.table.array.shape))

    def gradient(self, table: DependentTable, counts: Floats) -> Floats:
        """Return the derivative of the objective, given counts at each input, pseudo-counts included."""
        return self.tables.gradient(table.array.ravel(), counts.ravel())

    def complete_information(self, counts: Floats) -> Floats:
        """Return the information of each coordinate by itself, if no state were hidden."""
        return self.tables.complete_information(counts.ravel())


@dataclass(frozen=True, eq=False)
class InputModel(FreeModel):
    """A fitted hidden Markov model with inputs."""

    model: Any
    data: InputSequences
    weights: Floats
    places: Integers
    objective: InputObjective
    tables: Sequence[DependentTable]
    emissions: Sequence[Emission]
    unit: str = "sequence"

    @cached_property
    def _here(self) -> tuple[list[Floats], list[Floats]]:
        """Expected counts at the estimate, without pseudo-counts: of tables' entries, and of emissions' states."""
        still = [EmissionScores(own, np.zeros(own.n_coordinates)) for own in self.emissions]
        found = self.objective.expected(self.tables, still)  # type: ignore[arg-type]
        pairs = zip(found.tables, self.objective.pseudo_counts, strict=True)
        totals = [own[len(each.by) :] for own, each in zip(found.statistics, still, strict=True)]
        return [counts - extra for counts, extra in pairs], totals

    @cached_property
    def _parts(self) -> list[FreeLogits | FreeEntries]:
        walk, found = self.objective.walk, list[FreeLogits | FreeEntries]()
        for place, (table, counts) in enumerate(zip(self.tables, self._here[0], strict=True)):
            if table.kind == "logit":
                found.append(FreeLogits.of(table, walk.design, walk.shares[2]))
            else:
                is_learned = place > 0 or not self.objective.layout.starts
                found.append(FreeEntries.of(table, counts, self.objective.pseudo_counts[place], is_learned))
        return found

    @cached_property
    def _ends(self) -> Integers:
        return np.cumsum([*(own.count for own in self._parts), *(own.n_coordinates for own in self.emissions)])

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self._ends[-1])

    def _at(self, by: Floats) -> tuple[list[DependentTable], list[EmissionScores]]:
        """Return the tables and emissions at some coordinates."""
        steps = np.split(by, self._ends[:-1])
        tables = [own.moved(step) for own, step in zip(self._parts, steps, strict=False)]
        rest = steps[len(tables) :]
        return tables, [EmissionScores(own, step) for own, step in zip(self.emissions, rest, strict=True)]

    def gradient(self, by: Floats) -> Floats:
        """Return the gradient of the objective at some coordinates (Fisher's identity)."""
        tables, scores = self._at(by)
        found = self.objective.expected(tables, scores)  # type: ignore[arg-type]
        of_tables = [
            own.gradient(table, counts)
            for own, table, counts in zip(self._parts, tables, found.tables, strict=True)
        ]
        pairs = zip(found.statistics, scores, strict=True)
        return np.concatenate([*of_tables, *(own[: len(each.by)] + each.prior_gradient() for own, each in pairs)])

    @cached_property
    def complete_information(self) -> Floats:
        """About the information of each coordinate by itself, if no state were hidden."""
        counts, totals = self._here
        _, scores = self._at(np.zeros(self.count))
        of_tables = [own.complete_information(each) for own, each in zip(self._parts, counts, strict=True)]
        of_emissions = [own.complete_information(each) for own, each in zip(scores, totals, strict=True)]
        return np.concatenate([*of_tables, *of_emissions])

    def estimator(self, by: Floats) -> Any:
        """Return the fitted estimator at some coordinates."""
        tables, scores = self._at(by)
        old = self.model.model_
        numbers = dict(zip(old.tables.numbers, (own.moved for own in scores), strict=True))
        made = copy(self.model)
        made.model_ = InputChain(
            old.columns, old.input_columns, InputTables(tables[0], tables[1], tuple(tables[2:]), numbers)
        )
        return made


def input_model(model: Any, sequences: InputSequences, weights: Floats) -> InputModel:
    """Return a fitted hidden Markov model with inputs along its free coordinates, with its data."""
    own: InputTables = model.model_.tables
    tables, emissions = [own.start, own.transitions, *own.emissions], list(own.numbers.values())
    layout = InputLayout(
        (model.model_.states,),
        1,
        sequences.columns.states,
        (own.transitions.possible,),
        () if model.start is None else (own.start.array[0],),
        own.numbers,
        sequences.design.shape[1],
        tuple(table.kind for table in tables),
    )
    walk = InputPass.of_distinct(sequences, weights, own.numbers, model.n_jobs)
    objective = InputObjective(layout, walk, layout.prior(float(model.pseudo_counts), float(model.sticky)))
    used = np.flatnonzero((weights > 0) & (sequences.lengths > 0))
    places = np.full(sequences.count, -1)
    places[used] = np.arange(len(used))
    return InputModel(model, sequences.chosen(used), weights, places, objective, tables, emissions)
