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
from eigentree.uncertainty.free_tables import CountedStates, FreeTables
from eigentree.uncertainty.information import FreeModel

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.inputs import InputSequences
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.input_chain import DependentTable, InputChain
    from eigentree.inference.sequences.number_steps import NumberCounts

__all__ = ["InputModel"]


@dataclass(frozen=True, eq=False)
class InputModel(FreeModel):
    """A fitted hidden Markov model with inputs: logits of its tables, coefficients, and what moves emissions."""

    model: Any
    data: InputSequences
    weights: Floats
    places: Integers
    objective: InputObjective
    unit: str = "sequence"

    @classmethod
    def of(cls, model: Any, sequences: InputSequences, weights: Floats) -> InputModel:
        """Return a fitted estimator with the sequences that it was fitted to."""
        chain: InputChain = model.model_
        allowed = (chain.tables.transitions.possible,)
        starts = () if model.start is None else (chain.tables.start.array.ravel(),)
        plain = ChainLayout(chain.sizes, 1, sequences.columns.states, allowed, starts)
        kinds = tuple(table.kind for _, table in chain.tables.named(chain.columns.names))
        layout = InputLayout.of(plain, sequences.design, kinds, chain.numbers, chain.tables.start.groups)
        prior = plain.prior(float(model.pseudo_counts), float(model.sticky))
        objective = InputObjective.of(layout, sequences, weights, prior, model.n_jobs)
        used = np.flatnonzero((weights > 0) & (sequences.lengths > 0))
        places = np.full(sequences.count, -1)
        places[used] = np.arange(len(used))
        return cls(model, sequences.chosen(used), weights, places, objective)

    @cached_property
    def _tables(self) -> list[DependentTable]:
        chain: InputChain = self.model.model_
        return [table for _, table in chain.tables.named(chain.columns.names)]

    @cached_property
    def _emissions(self) -> list[Emission]:
        return list(self.model.model_.numbers.values())

    @cached_property
    def _shown(self) -> NumberCounts:
        """What is expected at the estimate, pseudo-counts included; of emissions counts of states come last."""
        still = [CountedStates(own) for own in self._emissions]
        return self.objective.expected(self._tables, still)  # type: ignore[arg-type]

    @cached_property
    def _free(self) -> FreeTables:
        """The coordinates of tables of probabilities."""
        tables, counts, prior, learned = [], [], [], []
        extra = self.objective.pseudo_counts
        for place, table in enumerate(self._tables):
            if table.kind == "logit":
                continue
            tables.append(table.array)
            counts.append((self._shown.tables[place] - extra[place]).reshape(table.array.shape))
            prior.append(np.broadcast_to(extra[place], self._shown.tables[place].shape).reshape(table.array.shape))
            given = place == 0 and self.model.start is not None
            learned.append(np.broadcast_to(table.possible & (not given), table.array.shape))
        lengths = _joined([np.full(array.size // array.shape[-1], array.shape[-1]) for array in tables])
        values = _joined(tables)
        return FreeTables.of_lengths(
            lengths.astype(np.int64),
            np.arange(len(values)),
            _joined(learned).astype(np.bool_),
            values,
            _joined(counts),
            _joined(prior),
        )

    @cached_property
    def _slots(self) -> list[Integers]:
        """Along which coordinate each coefficient of each table of logits moves, -1 for none.

        Those of possible classes but the first of a row do; of groups, slopes of the classes of one move together.
        """
        found = []
        for place, table in enumerate(self._tables):
            if table.kind == "logit":
                moves = table.possible.copy()
                moves[np.arange(len(moves)), moves.argmax(axis=1)] = False
                counts = self._shown.tables[place]
                used = (counts.sum(axis=(0, 2)) > 0)[:, None]
                own = np.arange(table.array.size).reshape(table.array.shape)
                own = np.where(np.broadcast_to(moves & used, own.shape), own, -1)
                if table.groups is not None:
                    own[1:, 0] = own[1:, 0][:, np.searchsorted(table.groups, table.groups)]
                kept, own = np.unique(own, return_inverse=True)
                found.append(own.reshape(table.array.shape) - (kept[0] == -1))
        return found

    @cached_property
    def _ends(self) -> Integers:
        sizes = [len(self._free.entries), *(int(own.max()) + 1 for own in self._slots)]
        return np.cumsum([*sizes, *(own.n_coordinates for own in self._emissions)])

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self._ends[-1])

    def _at(self, by: Floats) -> tuple[list[DependentTable], list[Emission], list[Floats]]:
        """Return tables and emissions at some coordinates, and which of these move each emission."""
        own, *others = np.split(by, self._ends[:-1])
        moved, start, logits = self._free.moved(own), 0, iter(zip(self._slots, others, strict=False))
        made = []
        for table in self._tables:
            if table.kind == "logit":
                slots, part = next(logits)
                array = table.array + np.append(part, 0.0)[slots]
            else:
                array = moved[start : start + table.array.size].reshape(table.array.shape)
                start += table.array.size
            made.append(replace(table, array=array))
        parts = others[len(self._slots) :]
        return made, [own.moved(part) for own, part in zip(self._emissions, parts, strict=True)], parts

    def gradient(self, by: Floats) -> Floats:
        """Return the gradient of the objective at some coordinates (Fisher's identity)."""
        tables, emissions, others = self._at(by)
        found = self.objective.expected(tables, emissions)
        design, slots = self.objective.walk.design, iter(self._slots)
        logits, arrays, counts = [], [], []
        for table, own in zip(tables, found.tables, strict=True):
            if table.kind == "logit":
                logits.append(_summed(gradient_of(table, own, design), next(slots)))
            else:
                arrays.append(table.array)
                counts.append(own.reshape(table.array.shape))
        every = zip(self._emissions, others, found.statistics, strict=True)
        parts = [emission.gradient(part, own) for emission, part, own in every]
        return np.concatenate([self._free.gradient(_joined(arrays), _joined(counts)), *logits, *parts])

    @cached_property
    def complete_information(self) -> Floats:
        """About the information of each coordinate by itself, if no state were hidden."""
        design, slots, logits, counts = self.objective.walk.design, iter(self._slots), [], []
        for table, own, extra in zip(self._tables, self._shown.tables, self.objective.pseudo_counts, strict=True):
            if table.kind != "logit":
                counts.append((own - extra).reshape(table.array.shape))
                continue
            found = np.zeros_like(table.array)
            for row, possible in enumerate(table.possible):
                matrix = information(design, own[:, row].sum(axis=1), table.array[:, row, possible])
                others = np.flatnonzero(possible)[1:]
                found[:, row, others] = np.diagonal(matrix).reshape(len(others), -1).T
            logits.append(_summed(found, next(slots)))
        each = zip(self._emissions, self._shown.statistics, strict=True)
        parts = [CountedStates(emission).complete_information(own) for emission, own in each]
        return np.concatenate([self._free.complete_information(_joined(counts)), *logits, *parts])

    def estimator(self, by: Floats) -> Any:
        """Return the fitted estimator at some coordinates."""
        tables, emissions, _ = self._at(by)
        chain, made = self.model.model_, copy(self.model)
        numbers = dict(zip(chain.numbers, emissions, strict=True))
        made.model_ = replace(chain, tables=InputTables(tables[0], tables[1], tuple(tables[2:]), numbers))
        return made


def _summed(values: Floats, slots: Integers) -> Floats:
    """Return the sum of the values of each coordinate."""
    return np.bincount(slots.ravel() + 1, values.ravel())[1:].astype(np.float64)


def _joined(arrays: list[Any]) -> Floats:
    """Return arrays end to end."""
    return np.concatenate([np.zeros(0), *(np.ravel(own) for own in arrays)])
