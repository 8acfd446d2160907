"""Steps that show numbers: the likelihood of each in each hidden state, and passes over sequences of them.

A step with numbers is a symbol of its own, whose probabilities are likelihoods relative to the highest of the step;
the logs of these are added to the log probability of its sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from eigentree.core.sequences.forward_backward import expected_sequences, log_prob_sequences, split_links
from eigentree.emissions.base import Emission
from eigentree.inference.sequences.sequence_passes import Symbols, merged_repeats, parts_of
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns

__all__ = [
    "NumberCounts",
    "NumberPass",
    "Numbered",
    "ShownSteps",
    "distinct_sequences",
    "sums_of_sequences",
    "value_places",
]

Numbered: TypeAlias = Mapping[tuple[int, ...], Emission]
"""The emission of each group of number channels, by their places among all channels."""

LEAST = -500.0
"""The least log-likelihood of a state at a step relative to the best state, so that a step stays possible where the
transitions forbid the best one. Messages of 2^-200 are the smallest that are not scaled, and times this they are
normal numbers."""

PART_STEPS = 2**13
"""Steps that are worked on together: their likelihoods in a few states stay in the processor's cache."""

MOST_PARTS = 2**12
"""So many parts are enough for all threads, and their sums are small beside their steps."""


def value_places(columns: Columns, group: Sequence[int]) -> list[int]:
    """Return where the channels of a group stand among the number channels."""
    return [columns.number_places.index(place) for place in group]


@dataclass(frozen=True, eq=False)
class ShownSteps:
    """What steps show: symbols of their categories, and what emissions need of their numbers.

    Attributes
    ----------
    count : int
    channels : tuple of int
        The places of the channels that are no numbers.
    symbols : Symbols or None
        Of these channels; None where there are none.
    features : tuple
        Of each group of number channels.
    """

    count: int
    channels: tuple[int, ...]
    symbols: Symbols | None
    features: tuple[Any, ...]

    @classmethod
    def of(cls, columns: Columns, codes: Codes, values: Floats, numbers: Numbered) -> ShownSteps:
        """Return the steps of codes and values, shapes (steps, channels) and (steps, number channels)."""
        channels = tuple(place for place in range(len(columns.states)) if place not in columns.number_places)
        states = [columns.states[place] for place in channels]
        symbols = Symbols.of(np.asfortranarray(codes[:, channels]), states) if channels else None
        features = [
            emission.features(np.asfortranarray(values[:, value_places(columns, group)]))
            for group, emission in numbers.items()
        ]
        return cls(len(codes), channels, symbols, tuple(features))

    def likelihoods(self, tables: Sequence[Floats], emissions: Sequence[Emission]) -> tuple[Floats, Floats]:
        """Return the likelihood of each step in each state over a high one of the step, and the log of that."""
        logs: Floats = np.zeros((self.count, tables[0].shape[0]))
        for emission, features in zip(emissions, self.features, strict=True):
            logs = logs + emission.lines(features)
        least, most = logs.min(initial=np.inf), logs.max(initial=-np.inf)
        if most - least <= -LEAST:
            # As near to each other as the states of a step may be: the highest of all serves every step.
            highest, lines = np.full(self.count, most), np.subtract(logs, most, order="C")
        else:
            highest = logs.max(axis=1)
            # What is impossible in all states has no highest likelihood, and stays impossible.
            highest[np.isneginf(highest)] = 0.0
            lines = np.subtract(logs, highest[:, None], order="C")
            np.maximum(lines, LEAST, out=lines, where=lines > -np.inf)
        np.exp(lines, out=lines)
        if self.symbols is not None:
            lines *= self.symbols.emissions([tables[place] for place in self.channels])[self.symbols.steps]
        return lines, highest

    def channel_counts(self, counts: Floats, tables: Sequence[Floats]) -> list[Floats]:
        """Return the counts of each channel's codes, given those of the steps; ones for a number."""
        made = [np.ones((counts.shape[1], 1)) for _ in tables]
        if self.symbols is not None:
            symbols = self.symbols
            of_symbols = np.stack(
                [np.bincount(symbols.steps, own, len(symbols.lines)) for own in counts.T], axis=1
            ).astype(np.float64)
            for place, own in zip(self.channels, symbols.channel_counts(of_symbols), strict=True):
                made[place] = own
        return made


class NumberCounts(NamedTuple):
    """Expected counts of sequences under a chain, and the sufficient statistics of each group of numbers.

    Attributes
    ----------
    links : list of array, shapes (states,), (states, states), …
    tables : list of array, shape (states, states of a channel)
    statistics : list of array
    log_prob : array, shape (sequences,)
    """

    links: list[Floats]
    tables: list[Floats]
    statistics: list[Floats]
    log_prob: Floats


class _Part(NamedTuple):
    """Some of the sequences end to end: their numbers, starts and weights, and what their steps show."""

    numbers: Integers
    starts: Integers
    weights: Floats
    symbols: NDArray[np.uint32]
    shown: ShownSteps


@dataclass(frozen=True, eq=False)
class NumberPass:
    """Sequences with number channels that are passed through again and again.

    Attributes
    ----------
    columns : Columns
    codes, values : array, shapes (steps, channels), (steps, number channels)
    starts, weights, threads
        As those of `SequencePass`.
    numbers : mapping of tuple of int to Emission
        Whose settings are those of all emissions that are used.
    origins : array of int, optional
        The numbers by which the user knows the sequences.
    """

    columns: Columns
    codes: Codes
    values: Floats
    starts: Integers
    weights: Floats
    numbers: Numbered
    threads: int = 1
    origins: Integers | None = None

    order: ClassVar[None] = None
    """Sequences are added up as they stand."""

    @classmethod
    def of_distinct(cls, sequences: Sequences, weights: Floats, numbers: Numbered, threads: int) -> NumberPass:
        """Return a pass over the sequences that differ, in an order that depends on them alone."""
        own, merged = distinct_sequences(sequences, weights)
        kept = sequences.chosen(own)
        return cls(kept.columns, kept.codes, kept.values, kept.starts, merged, numbers, threads, origins=own)

    def of_pieces(self, begins: Integers, ends: Integers, counts: Floats) -> NumberPass:
        """Return a pass over pieces of the sequences, which count so often."""
        lengths = ends - begins
        starts = np.concatenate([[0], np.cumsum(lengths)])
        steps = np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])
        codes, values = np.asfortranarray(self.codes[steps]), self.values[steps]
        return NumberPass(self.columns, codes, values, starts, counts, self.numbers, self.threads)

    @property
    def changes(self) -> Integers:
        """For each step, how many stand before it: each is a symbol of its own."""
        return np.arange(len(self.codes))

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """The steps that follow another one in their sequence: first those before them, then they themselves."""
        first = np.zeros(len(self.codes) + 1, np.bool_)
        first[self.starts] = True
        after = np.flatnonzero(~first[:-1])
        return after - 1, after

    def blocks(self, count: int) -> tuple[NumberPass, NumberPass] | None:
        """Return most blocks of steps, and one in `count` to be held out; None where there are too few."""
        lengths = np.diff(self.starts)
        size = max(1, int(lengths.sum()) // (2 * count))
        counts = -(-lengths // size)
        sequence = np.repeat(np.arange(len(lengths)), counts)
        number = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = self.starts[sequence] + number * size
        ends = np.minimum(begins + size, self.starts[sequence + 1])
        held = np.arange(len(sequence)) % count == count - 1
        if not held.any():
            return None
        made = [self.of_pieces(begins[own], ends[own], self.weights[sequence[own]]) for own in (~held, held)]
        return made[0], made[1]

    @cached_property
    def _parts(self) -> list[_Part]:
        return [
            self._part(numbers) for numbers in parts_of(self.starts, self.weights, None, PART_STEPS, MOST_PARTS)
        ]

    def _part(self, numbers: Integers) -> _Part:
        lengths = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        steps = np.repeat(self.starts[numbers] - starts[:-1], lengths) + np.arange(starts[-1])
        shown = ShownSteps.of(self.columns, self.codes[steps], self.values[steps], self.numbers)
        return _Part(numbers, starts, self.weights[numbers], np.arange(starts[-1], dtype=np.uint32), shown)

    def _each_part(self, work: Callable[[_Part], Any]) -> list[Any]:
        """Return what the work makes of each part."""
        return list(in_order(lambda place: work(self._parts[place]), len(self._parts), self.threads))

    def log_prob(self, links: Sequence[Floats], tables: Sequence[Floats], emissions: Sequence[Emission]) -> Floats:
        """Return the log density of each sequence; that of an empty one is 0."""
        out = np.zeros(len(self.starts) - 1)

        def score(part: _Part) -> None:
            lines, highest = part.shown.likelihoods(tables, emissions)
            own = np.zeros(len(part.numbers))
            log_prob_sequences(*_known(part), lines, links, own)
            out[part.numbers] = own + sums_of_sequences(highest, part.starts)

        self._each_part(score)
        return out

    def counts(
        self, links: Sequence[Floats], tables: Sequence[Floats], emissions: Sequence[Emission]
    ) -> NumberCounts:
        """Return what is expected of all sequences by weight, and their log densities."""
        out = np.zeros(len(self.starts) - 1)

        def count(part: _Part) -> tuple[Floats, list[Floats], list[Floats]]:
            lines, highest = part.shown.likelihoods(tables, emissions)
            own = np.zeros(len(part.numbers))
            used, shown = expected_sequences(*_known(part), lines, links, own)
            out[part.numbers] = own + sums_of_sequences(highest, part.starts)
            statistics = [
                emission.statistics(features, shown)
                for emission, features in zip(emissions, part.shown.features, strict=True)
            ]
            return used, part.shown.channel_counts(shown, tables), statistics

        (used, counted, statistics), *more = self._each_part(count)
        for used_more, counted_more, statistics_more in more:
            used = used + used_more
            counted = [a + b for a, b in zip(counted, counted_more, strict=True)]
            statistics = [a + b for a, b in zip(statistics, statistics_more, strict=True)]
        return NumberCounts(split_links(used, links), counted, statistics, out)


def distinct_sequences(sequences: Sequences, weights: Floats) -> tuple[Integers, Floats]:
    """Return the numbers of the sequences that differ and count, in an order of their own, and their weights."""
    # Zero has two signs, and NaN many forms.
    plain = np.where(np.isnan(sequences.values), np.nan, sequences.values + 0.0)
    words = [np.ascontiguousarray(plain).view(np.uint32), sequences.codes.astype(np.uint32)]
    joined = np.concatenate(words, axis=1)
    order, merged = merged_repeats(joined.ravel(), sequences.starts * joined.shape[1], weights)
    own = order[merged[order] > 0]
    return own, merged[own]


def _known(part: _Part) -> tuple[NDArray[Any], Integers, Integers, Floats]:
    """Return what loops over sequences read first of a part."""
    return part.symbols, part.starts, np.arange(len(part.numbers)), part.weights


def sums_of_sequences(values: Floats, starts: Integers) -> Floats:
    """Return the sum over the steps of each sequence."""
    if not len(values):
        return np.zeros(len(starts) - 1)
    # An empty sequence would get the number that it stands at.
    sums = np.add.reduceat(np.append(values, 0.0), starts[:-1])
    return np.where(np.diff(starts) > 0, sums, 0.0)
