"""Sequences with inputs that EM passes through again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from eigentree.inference.sequences.input_chain import InputTables, ShownCells, relative
from eigentree.inference.sequences.input_steps import StepMajor
from eigentree.inference.sequences.number_steps import distinct_sequences, sums_of_sequences
from eigentree.inference.sequences.sequence_passes import parts_of
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.sequences.inputs import InputSequences
    from eigentree.data.tables.columns import Columns
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.input_chain import DependentTable
    from eigentree.inference.sequences.number_steps import Numbered

__all__ = ["InputCounts", "InputPass"]

MOST_PARTS = 2**12
"""So many parts are enough for all threads."""

PART_STEPS = 2**16
"""Steps of the sequences that are passed through together: each takes as many numbers as there are transitions."""


class InputCounts(NamedTuple):
    """Expected counts of sequences with inputs.

    Attributes
    ----------
    tables : list of array, shape (inputs, rows, classes)
        Of start, transitions and the emissions of each channel; of one input, where a table depends on none.
    statistics : list of array
        Of each group of numbers.
    log_prob : array, shape (sequences,)
    """

    tables: list[Floats]
    statistics: list[Floats]
    log_prob: Floats


class _InputPart(NamedTuple):
    """Some of the sequences: their numbers, starts, weights, and what their steps show."""

    numbers: Integers
    starts: Integers
    weights: Floats
    passes: StepMajor
    shown: ShownCells


@dataclass(frozen=True, eq=False)
class InputPass:
    """Sequences with inputs that are passed through again and again.

    Attributes
    ----------
    columns, codes, values, starts, weights, numbers, threads, origins
        As those of `NumberPass`.
    which : array of int, shape (steps,)
        The input of each step.
    design : array, shape (inputs, covariates)
    """

    columns: Columns
    codes: Codes
    values: Floats
    starts: Integers
    weights: Floats
    which: Integers
    design: Floats
    numbers: Numbered
    threads: int = 1
    origins: Integers | None = None

    order: ClassVar[None] = None
    """Sequences are added up as they stand."""

    @classmethod
    def of_distinct(cls, sequences: InputSequences, weights: Floats, numbers: Numbered, threads: int) -> InputPass:
        """Return a pass over the sequences that differ, in an order that depends on them alone."""
        both = replace(sequences, values=np.hstack([sequences.values, sequences.design[sequences.which]]))
        own, merged = distinct_sequences(both, weights)
        kept = sequences.chosen(own)
        return cls(
            kept.columns,
            kept.codes,
            kept.values,
            kept.starts,
            merged,
            kept.which,
            kept.design,
            numbers,
            threads,
            own,
        )

    def of_pieces(self, begins: Integers, ends: Integers, counts: Floats) -> InputPass:
        """Return a pass over pieces of the sequences, which count so often."""
        lengths = ends - begins
        starts = np.concatenate([[0], np.cumsum(lengths)])
        steps = np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])
        codes, values, which = np.asfortranarray(self.codes[steps]), self.values[steps], self.which[steps]
        return replace(self, codes=codes, values=values, starts=starts, weights=counts, which=which, origins=None)

    @property
    def changes(self) -> Integers:
        """For each step, how many stand before it: each is a symbol of its own."""
        return np.arange(len(self.codes))

    @cached_property
    def shares(self) -> list[Floats]:
        """The share of each input among first steps, later steps, and all steps, by weight."""
        of_steps = np.repeat(self.weights, np.diff(self.starts))
        first = np.zeros(len(of_steps), np.bool_)
        first[self.starts[:-1][np.diff(self.starts) > 0]] = True
        found = []
        for own in (first, ~first, np.ones_like(first)):
            counts = np.bincount(self.which, of_steps * own, len(self.design))
            found.append(counts / max(float(counts.sum()), np.finfo(np.float64).tiny))
        return found

    @cached_property
    def _parts(self) -> list[_InputPart]:
        return [self._part(own) for own in parts_of(self.starts, self.weights, None, PART_STEPS, MOST_PARTS)]

    def _part(self, numbers: Integers) -> _InputPart:
        lengths = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        steps = np.repeat(self.starts[numbers] - starts[:-1], lengths) + np.arange(starts[-1])
        shown = ShownCells.of(self.columns, self.codes[steps], self.values[steps], self.which[steps], self.numbers)
        return _InputPart(numbers, starts, self.weights[numbers], StepMajor(starts), shown)

    def counts(self, tables: Sequence[DependentTable], emissions: Sequence[Emission]) -> InputCounts:
        """Return what is expected of start, transitions and emissions, and of numbers, by weight."""
        model = InputTables(tables[0], tables[1], tuple(tables[2:]))
        links, shown = model.links(self.design), [table.proba(self.design) for table in tables[2:]]
        out = np.zeros(len(self.starts) - 1)

        def count(place: int) -> tuple[list[Floats], list[Floats]]:
            part = self._parts[place]
            lines, highest = relative(part.shown.logs(shown, emissions, len(tables[1].possible)))
            found = part.passes.counts(links, part.shown.which, lines, part.weights)
            out[part.numbers] = found.log_prob + sums_of_sequences(highest, part.starts)
            counted = [found.start[:, None], found.moves, *part.shown.counts(found.states, shown)]
            return counted, part.shown.statistics(found.states, emissions)

        (counted, statistics), *more = in_order(count, len(self._parts), self.threads)
        for counted_more, statistics_more in more:
            counted = [a + b for a, b in zip(counted, counted_more, strict=True)]
            statistics = [a + b for a, b in zip(statistics, statistics_more, strict=True)]
        return InputCounts(counted, statistics, out)
