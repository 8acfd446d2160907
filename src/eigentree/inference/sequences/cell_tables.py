"""What the cells of steps are distributed as given hidden states: cells that are filled, sampled and predicted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.inference.mixed.density import expected_cells, mixture_moments, mixture_quantiles
from eigentree.inference.sequences.number_steps import Numbered, by_input, value_places
from eigentree.inference.sequences.sequence_passes import sums_of_sequences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns
    from eigentree.inference.sequences.links import InputLinks
    from eigentree.inference.sequences.tree_steps import TreeSteps

__all__ = ["CellQueries", "CellTables", "StepQueries"]

CHUNK = 2**18
"""Steps whose cells are sampled or filled at a time."""


class CellTables(NamedTuple):
    """The distributions of the cells of some steps, given their hidden states.

    Attributes
    ----------
    columns : Columns
    tables : list of array, shape (inputs, states, states of a channel)
        Of each channel; of one input, where it depends on none. Ones for a channel of numbers.
    numbers : mapping of tuple of int to Emission
    which : array of int, shape (steps,)
        The input of each step.
    """

    columns: Columns
    tables: list[Floats]
    numbers: Numbered
    which: Integers

    @property
    def states(self) -> int:
        """Number of hidden states."""
        return int(self.tables[0].shape[1])

    def proba(self, channel: int, state: Floats, steps: Any = slice(None)) -> Floats:
        """Return the distribution of a category at some steps, given P(state) of each."""
        table = self.tables[channel]
        if len(table) == 1:
            return np.asarray(state @ table[0])
        return np.asarray((state[:, None, :] @ table[self.which[steps]])[:, 0, :])

    def number_moments(self, state: Floats, shares: Sequence[float] | None) -> Floats:
        """Return the mean of each number given P(state), shape (steps, number channels), or its quantiles."""
        count = len(self.columns.number_places)
        made = np.empty((len(state), count) if shares is None else (len(state), count, len(shares)))
        for group, emission in self.numbers.items():
            cells, wide = np.full((len(state), len(group)), np.nan), by_input(state, self.which, emission)
            own = value_places(self.columns, group)
            if shares is None:
                made[:, own] = mixture_moments(emission, cells, wide)[0]
                continue
            for place, channel in enumerate(own):
                made[:, channel] = mixture_quantiles(emission, cells, wide, place, shares)
        return made

    def sampled(self, states: Integers, random: np.random.Generator) -> NDArray[Any]:
        """Return all cells sampled given the state of each step: codes, or floats where some are numbers."""
        kind, every = np.float64 if self.numbers else self.columns.code_type, np.arange(len(states))
        cells = np.empty((len(states), len(self.tables)), kind, order="F")
        for channel in range(len(self.tables)):
            if channel not in self.columns.number_places:
                cells[:, channel] = self._sampled(channel, states, every, random)
        for group, emission in self.numbers.items():
            lines = self._lines(emission.states // self.states, states, every)
            cells[:, list(group)] = emission.sampled(np.full((len(states), len(group)), np.nan), lines, random)
        return cells

    def filled(
        self, sequences: Sequences, chain: CellQueries, method: str, random: np.random.Generator
    ) -> tuple[NDArray[Any], int]:
        """Return what `CellQueries.filled` describes, given the chain whose states the steps have."""
        codes, missing = sequences.codes.copy(order="F"), sequences.missing
        state, sampled = np.empty((0, self.states)), np.empty(0, np.int64)
        if method == "sample":
            sampled = chain.sampled_states(sequences, random)
            lost = sampled < 0
            sampled[lost] = random.integers(self.states, size=int(lost.sum()))
        else:
            state = chain.smoothed(sequences)
            lost = state.sum(axis=1) == 0
            state[lost] = 1.0 / self.states
        for channel in range(len(self.tables)):
            every = np.flatnonzero(missing[:, channel])
            for absent in np.split(every, range(CHUNK, len(every), CHUNK)):
                if method == "sample":
                    codes[absent, channel] = self._sampled(channel, sampled[absent], absent, random)
                else:
                    codes[absent, channel] = self.proba(channel, state[absent], absent).argmax(axis=1)
        number = np.repeat(np.arange(sequences.count), sequences.lengths)
        impossible = len(np.unique(number[lost & missing.any(axis=1)]))
        if not self.numbers:
            return codes, impossible
        cells = np.array(codes, np.float64, order="F")
        for group, emission in self.numbers.items():
            own = sequences.values[:, value_places(self.columns, group)]
            absent = np.flatnonzero(np.isnan(own).any(axis=1))
            if method == "sample":
                lines = self._lines(emission.states // self.states, sampled[absent], absent)
                own[absent] = emission.sampled(own[absent], lines, random)
            else:
                wide = by_input(state[absent], self.which[absent], emission)
                own[absent] = expected_cells(emission, own[absent], wide, method == "median")
            cells[:, list(group)] = own
        return cells, impossible

    def _lines(self, inputs: int, states: Integers, steps: Integers) -> Integers:
        """Return the line of each step among those of all states under the first input, the second, and so on."""
        return states + self.states * self.which[steps] if inputs > 1 else states

    def _sampled(self, channel: int, states: Integers, steps: Integers, random: np.random.Generator) -> Integers:
        """Return a category for each hidden state."""
        table, cells = self.tables[channel], np.empty(len(states), np.int64)
        lines, ends = self._lines(len(table), states, steps), np.cumsum(table.reshape(-1, table.shape[-1]), axis=1)
        # Rounding must leave nothing beyond the last category that is possible.
        ends[ends >= ends[:, -1:]] = np.inf
        for start in range(0, len(states), CHUNK):
            own = ends[lines[start : start + CHUNK]]
            cells[start : start + CHUNK] = (random.random(len(own))[:, None] >= own).sum(axis=1)
        return cells


class CellQueries(ABC):
    """Queries of the cells of sequences, which follow from those of hidden states."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each chain."""

    @abstractmethod
    def smoothed(self, sequences: Any) -> Floats:
        """Return P(state | all steps of its sequence), shape (steps, states); zeros where that is impossible."""

    @abstractmethod
    def sampled_states(self, sequences: Any, random: np.random.Generator) -> Integers:
        """Return the hidden states of all steps, sampled given the sequences; -1 where one is impossible."""

    @abstractmethod
    def states_ahead(self, sequences: Any, steps: int) -> Floats:
        """Return P(state so many steps after the end | sequence), shape (sequences, states)."""

    @abstractmethod
    def cells_at(self, sequences: Any, ahead: int = 0) -> CellTables:
        """Return the distributions of the cells of all steps, or so many steps after the end of each sequence."""

    def ahead(self, sequences: Any, steps: int) -> list[Floats]:
        """Return P(cell so many steps after the end | sequence) of each channel, shape (sequences, states)."""
        state, cells = self.states_ahead(sequences, steps), self.cells_at(sequences, steps)
        return [cells.proba(channel, state) for channel in range(len(cells.tables))]

    def numbers_ahead(self, sequences: Any, state: Floats, steps: int, shares: Sequence[float] | None) -> Floats:
        """Return the mean of each number so many steps after the end, given P(state), or its quantiles."""
        return self.cells_at(sequences, steps).number_moments(state, shares)

    def filled(
        self, sequences: Any, method: Literal["mode", "median", "sample"], random: np.random.Generator
    ) -> tuple[NDArray[Any], int]:
        """Return all cells, missing ones filled, and how many sequences with such were impossible.

        Cells are codes, and where channels are numbers floats that hold codes and these. "mode" fills in the most
        probable state of each cell by itself, of a number the mean; "median" is the same but for numbers; "sample"
        samples the cells of a sequence together.
        """
        return self.cells_at(sequences).filled(sequences, self, method, random)

    def of_each(self, proba: Floats) -> list[Floats]:
        """Return, for each chain, P(its state) of each step, given P(states of all), shape (steps, states)."""
        if len(self.sizes) == 1:
            return [proba]
        every = proba.reshape(-1, *self.sizes)
        axes = range(1, every.ndim)
        return [every.sum(axis=tuple(other for other in axes if other != own)) for own in axes]

    def states_of_each(self, states: Integers) -> list[Integers]:
        """Return, for each chain, its state at each step, given the states of all; -1 stays -1."""
        return [np.where(states < 0, -1, own) for own in np.unravel_index(np.maximum(states, 0), self.sizes)]


class StepQueries(CellQueries):
    """Queries of trees and of sequences with inputs, whose steps are passed through in numpy."""

    @abstractmethod
    def _read_steps(self, sequences: Any) -> tuple[TreeSteps, tuple[InputLinks, Integers, Floats], Floats]:
        """Return what passes over some sequences or trees read: links, the inputs of steps, and likelihoods.

        These are over a high one of the step, whose logs come last.
        """

    def log_prob(self, sequences: Any, threads: int = 1) -> Floats:
        """Return the log probability of each sequence, missing cells marginalised out; -inf if it is impossible."""
        del threads
        steps, known, highest = self._read_steps(sequences)
        return steps.upward(*known).log_prob + sums_of_sequences(highest, sequences.starts)

    def smoothed(self, sequences: Any) -> Floats:
        """Return P(state | all steps of its sequence), shape (steps, states); zeros where that is impossible."""
        steps, known, _ = self._read_steps(sequences)
        return steps.downward(*known[:2], steps.upward(*known))[0]

    def decoded(self, sequences: Any) -> tuple[Integers, Floats]:
        """Return the jointly most probable states of all steps, and their log probability with each sequence."""
        steps, (links, which, lines), highest = self._read_steps(sequences)
        with np.errstate(divide="ignore"):
            states, log_prob = steps.decoded(links, which, np.log(lines))
        return states, log_prob + sums_of_sequences(highest, sequences.starts)

    def sampled_states(self, sequences: Any, random: np.random.Generator) -> Integers:
        """Return the hidden states of all steps, sampled given the sequences; -1 where one is impossible."""
        steps, known, _ = self._read_steps(sequences)
        return steps.drawn(*known[:2], steps.upward(*known), random.random(sequences.steps))
