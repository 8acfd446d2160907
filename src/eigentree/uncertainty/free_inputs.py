"""Hidden Markov models with inputs along free coordinates: what standard errors of coefficients come from."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.chain_fit import ChainLayout
from eigentree.em.inputs.input_objective import InputLayout, InputObjective, gradient_of
from eigentree.emissions.covariates.multinomial_logit import information
from eigentree.inference.sequences.input_chain import InputTables
from eigentree.uncertainty.free_tables import FreeTables
from eigentree.uncertainty.information import FreeModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.inputs import InputSequences
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.input_chain import DependentTable, InputChain
    from eigentree.uncertainty.information import FreePart

__all__ = ["InputModel", "input_objective"]


def input_objective(model: Any, sequences: InputSequences, weights: Floats) -> InputObjective:
    """Return the objective of a fitted estimator for the sequences that it was fitted to."""
    chain: InputChain = model.model_
    allowed = (chain.tables.transitions.possible,)
    starts = () if model.start is None else (chain.tables.start.array.ravel(),)
    plain = ChainLayout(chain.sizes, 1, sequences.columns.states, allowed, starts)
    kinds = tuple(table.kind for _, table in chain.tables.named(chain.columns.names))
    layout = InputLayout.of(plain, sequences.design, kinds, chain.numbers, chain.tables.start.groups)
    prior = plain.prior(float(model.pseudo_counts), float(model.sticky))
    return InputObjective.of(layout, sequences, weights, prior, model.n_jobs)


@dataclass(frozen=True, eq=False)
class FreeLogits:
    """The free coordinates of a multinomial logit: coefficients of possible classes but the first of each row.

    Attributes
    ----------
    table : DependentTable
        At the estimate.
    design : array, shape (inputs, covariates)
    prior : array
        Pseudo-counts, in the shape of counts at each input.
    slots : array of int
        Along which coordinate each coefficient moves, -1 for none; of groups, slopes of the classes of one move
        together.
    """

    table: DependentTable
    design: Floats
    prior: Floats
    slots: Integers

    @classmethod
    def of(cls, table: DependentTable, design: Floats, counts: Floats, prior: Floats) -> FreeLogits:
        """Return the coordinates of a table at its estimate, given expected counts at each input."""
        moves = table.possible.copy()
        moves[np.arange(len(moves)), moves.argmax(axis=1)] = False
        used = ((counts + prior).sum(axis=(0, 2)) > 0)[:, None]
        own = np.arange(table.array.size).reshape(table.array.shape)
        own = np.where(np.broadcast_to(moves & used, own.shape), own, -1)
        if table.groups is not None:
            own[1:, 0] = own[1:, 0][:, np.searchsorted(table.groups, table.groups)]
        kept, own = np.unique(own, return_inverse=True)
        return cls(table, design, prior, own.reshape(table.array.shape) - (kept[0] == -1))

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self.slots.max()) + 1

    def moved(self, by: Floats) -> Floats:
        """Return the coefficients at some coordinates."""
        return np.asarray(self.table.array + np.append(by, 0.0)[self.slots])

    def gradient(self, values: Floats, counts: Floats) -> Floats:
        """Return the gradient of the objective, given coefficients and expected counts at each input."""
        return self._summed(gradient_of(replace(self.table, array=values), counts + self.prior, self.design))

    def complete_information(self, counts: Floats) -> Floats:
        """Return about the information of each coordinate by itself, if no state were hidden."""
        array, own = self.table.array, (counts + self.prior).sum(axis=2)
        found = np.zeros_like(array)
        for row, possible in enumerate(self.table.possible):
            matrix = information(self.design, own[:, row], array[:, row, possible])
            others = np.flatnonzero(possible)[1:]
            found[:, row, others] = np.diagonal(matrix).reshape(len(others), -1).T
        return self._summed(found)

    def _summed(self, values: Floats) -> Floats:
        """Return the sum of the values of each coordinate."""
        return np.bincount(self.slots.ravel() + 1, values.ravel())[1:].astype(np.float64)


@dataclass(frozen=True, eq=False)
class InputModel(FreeModel):
    """A fitted hidden Markov model with inputs, whose parts are its tables."""

    @cached_property
    def _tables(self) -> list[DependentTable]:
        chain: InputChain = self.model.model_
        return [table for _, table in chain.tables.named(chain.columns.names)]

    @cached_property
    def parts(self) -> list[FreePart]:
        """The coordinates of each table."""
        found: list[FreePart] = []
        for table, counts, extra in zip(self._tables, self.here[0], self.objective.pseudo_counts, strict=True):
            if table.kind == "logit":
                found.append(FreeLogits.of(table, self.objective.walk.design, counts, extra))
                continue
            rows, width = table.array.size // table.array.shape[-1], table.array.shape[-1]
            given = not found and self.model.start is not None
            learned = np.broadcast_to(table.possible & (not given), table.array.shape).ravel()
            prior = np.broadcast_to(extra, counts.shape).ravel()
            own = table.array.ravel(), learned, counts.ravel(), prior
            found.append(FreeTables.of(np.full(rows, width), *own))
        return found

    def _moved(self, values: list[Floats]) -> list[DependentTable]:
        pairs = zip(self._tables, values, strict=True)
        return [replace(table, array=own.reshape(table.array.shape)) for table, own in pairs]

    def expected(self, values: list[Floats], emissions: Sequence[Any]) -> tuple[list[Floats], list[Floats]]:
        """Return what is expected at each input, and statistics of emissions."""
        found = self.objective.found(self._moved(values), emissions)
        start, moves = found.links
        return [start[:, None], moves, *found.tables], found.statistics

    def moved(self, values: list[Floats], emissions: list[Emission]) -> Any:
        """Return the fitted estimator with other tables and emissions."""
        (start, moves, *shown), chain, made = self._moved(values), self.model.model_, copy(self.model)
        numbers = dict(zip(chain.numbers, emissions, strict=True))
        made.model_ = replace(chain, tables=InputTables(start, moves, tuple(shown), numbers))
        return made
