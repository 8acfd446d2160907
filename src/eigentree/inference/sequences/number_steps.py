"""What steps show: the likelihood of each in each hidden state, and passes over sequences of such steps.

A step with numbers is a symbol of its own, whose probabilities are likelihoods relative to the highest of the step;
the logs of these are added to the log probability of its sequence. Where tables depend on inputs, or states last,
all steps are passed through so; how states follow each other is up to the links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from eigentree.core.sequences.forward_backward import log_prob_sequences
from eigentree.data.sequences.inputs import InputSequences
from eigentree.emissions.base import Emission
from eigentree.inference.sequences.links import MarkovLinks, known_steps
from eigentree.inference.sequences.sequence_passes import (
    Symbols,
    following_steps,
    merged_repeats,
    parts_of,
    sums_of_sequences,
)
from eigentree.inference.sequences.tree_steps import TreeSteps
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns
    from eigentree.inference.sequences.links import Links

__all__ = [
    "NumberCounts",
    "NumberPass",
    "Numbered",
    "Part",
    "ShownSteps",
    "by_input",
    "distinct_sequences",
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


def by_input(proba: Floats, which: Integers, emission: Emission) -> Floats:
    """Return probabilities of states as those of the states of an emission, which may depend on symbols."""
    states = proba.shape[1]
    if emission.states == states:
        return proba
    made = np.zeros((len(proba), emission.states // states, states))
    made[np.arange(len(proba)), which] = proba
    return made.reshape(len(proba), -1)


@dataclass(frozen=True, eq=False)
class ShownSteps:
    """What steps show: symbols of their categories, and what emissions need of their numbers.

    The cells of a channel whose table depends on inputs are those of the channel and the input together.

    Attributes
    ----------
    channels : tuple of int
        The places of the channels that are no numbers.
    symbols : Symbols or None
        Of these channels; None where there are none.
    features : tuple
        Of each group of number channels.
    which : array of int, shape (steps,)
        The input of each step; zeros where there are none.
    """

    channels: tuple[int, ...]
    symbols: Symbols | None
    features: tuple[Any, ...]
    which: Integers

    @classmethod
    def of(
        cls,
        columns: Columns,
        codes: Codes,
        values: Floats,
        numbers: Numbered,
        which: Integers | None = None,
        inputs: Sequence[int] = (),
    ) -> ShownSteps:
        """Return the steps of codes and values, shapes (steps, channels) and (steps, number channels).

        `inputs` are the numbers of inputs that tables of channels depend on, 1 for one that depends on none.
        """
        channels = tuple(place for place in range(len(columns.states)) if place not in columns.number_places)
        states = [columns.states[place] for place in channels]
        cells = np.asfortranarray(codes[:, channels])
        if which is not None and max(inputs, default=1) > 1:
            cells = cells.astype(np.int64)
            for own, place in enumerate(channels):
                if inputs[place] > 1:
                    cells[:, own] += which * (states[own] + 1)
                    states[own] = inputs[place] * (states[own] + 1)
        features = [
            emission.features(np.asfortranarray(values[:, value_places(columns, group)]))
            for group, emission in numbers.items()
        ]
        none = np.zeros(len(codes), np.int64) if which is None else which
        return cls(channels, Symbols.of(cells, states) if channels else None, tuple(features), none)

    def lines(self, tables: Sequence[Floats], emissions: Sequence[Emission]) -> tuple[NDArray[Any], Floats, Floats]:
        """Return which line each step is, the likelihoods of lines, and by how much the log of each step is more.

        Without numbers lines are those of symbols, with numbers each step has its own, as `likelihoods` has them.
        """
        if not emissions and self.symbols is not None:
            return self.symbols.steps, self.symbols.emissions(tables), np.zeros(len(self.which))
        lines, highest = self.likelihoods(tables, emissions)
        return np.arange(len(lines), dtype=np.uint32), lines, highest

    def likelihoods(self, tables: Sequence[Floats], emissions: Sequence[Emission]) -> tuple[Floats, Floats]:
        """Return the likelihood of each step in each state over a high one of the step, and the log of that.

        A table that depends on inputs has the shape (inputs, states, cells).
        """
        lines, highest = np.ones(1), np.zeros(len(self.which))
        if emissions:
            lines, highest = self._of_numbers(emissions, tables[0].shape[-2])
        if self.symbols is not None:
            of_symbols = self.symbols.emissions([_with_missing(tables[place]) for place in self.channels])
            lines = lines * of_symbols[self.symbols.steps]
        return lines, highest

    def _of_numbers(self, emissions: Sequence[Emission], states: int) -> tuple[Floats, Floats]:
        every = []
        for emission, features in zip(emissions, self.features, strict=True):
            own = emission.lines(features)
            if emission.states != states:
                own = own.reshape(len(own), -1, states)[np.arange(len(own)), self.which]
            every.append(own)
        logs = every[0]
        for own in every[1:]:
            logs = logs + own
        least, most = logs.min(initial=np.inf), logs.max(initial=-np.inf)
        if most - least <= -LEAST:
            # As near to each other as the states of a step may be: the highest of all serves every step.
            highest, lines = np.full(len(logs), most), np.subtract(logs, most, order="C")
        else:
            highest = logs.max(axis=1)
            # What is impossible in all states has no highest likelihood, and stays impossible.
            highest[np.isneginf(highest)] = 0.0
            lines = np.subtract(logs, highest[:, None], order="C")
            np.maximum(lines, LEAST, out=lines, where=lines > -np.inf)
        return np.exp(lines, out=lines), highest

    def channel_counts(self, counts: Floats, tables: Sequence[Floats]) -> list[Floats]:
        """Return counts of each channel's codes as tables have them, given those of steps; ones for a number."""
        made = [np.ones((*table.shape[:-1], 1)) for table in tables]
        if self.symbols is not None:
            symbols = self.symbols
            of_symbols = np.stack(
                [np.bincount(symbols.steps, own, len(symbols.lines)) for own in counts.T], axis=1
            ).astype(np.float64)
            for place, own in zip(self.channels, symbols.channel_counts(of_symbols), strict=True):
                shape = tables[place].shape
                made[place] = own
                if len(shape) == 3:
                    each = own.reshape(shape[1], shape[0], -1)[..., : shape[2]]
                    made[place] = np.ascontiguousarray(each.transpose(1, 0, 2))
        return made

    def statistics(self, counts: Floats, emissions: Sequence[Emission]) -> list[Floats]:
        """Return the statistics of each group of numbers, given the counts of steps."""
        pairs = zip(emissions, self.features, strict=True)
        return [own.statistics(features, by_input(counts, self.which, own)) for own, features in pairs]


def _with_missing(table: Floats) -> Floats:
    """Return a table that may depend on inputs as that of cells and inputs together, missing cells included."""
    if table.ndim == 2:
        return table
    inputs, states, _ = table.shape
    wide: Floats = np.concatenate([table, np.ones((inputs, states, 1))], axis=2) if inputs > 1 else table
    return wide.transpose(1, 0, 2).reshape(states, -1)


class Part(NamedTuple):
    """Some of the sequences end to end, none of them empty: their numbers, starts and weights, and their steps.

    `trees` has their shapes, where steps are passed through as nodes of trees.
    """

    numbers: Integers
    starts: Integers
    weights: Floats
    shown: ShownSteps
    trees: TreeSteps | None = None


class NumberCounts(NamedTuple):
    """Expected counts of sequences under a chain, and the sufficient statistics of each group of numbers.

    Attributes
    ----------
    links : list of array
        As `Links` have them; of a Markov chain in the shapes (states,), (states, states), …
    tables : list of array, shape (states, states of a channel)
        With an axis of inputs before these where tables have one.
    statistics : list of array
    log_prob : array, shape (sequences,)
    """

    links: list[Floats]
    tables: list[Floats]
    statistics: list[Floats]
    log_prob: Floats


@dataclass(frozen=True, eq=False)
class NumberPass:
    """Sequences, with numbers, inputs or durations, that are passed through again and again.

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
    which : array of int, shape (steps,), optional
        The input of each step.
    design : array, shape (inputs, covariates)
    depends : sequence of bool
        Whether the table of each channel depends on inputs.
    part_steps : int
        Steps that are worked on together.
    as_trees : bool
        Whether transitions depend on inputs, so that steps are passed through as nodes of trees.
    """

    columns: Columns
    codes: Codes
    values: Floats
    starts: Integers
    weights: Floats
    numbers: Numbered
    threads: int = 1
    origins: Integers | None = None
    which: Integers | None = None
    design: Floats = field(default_factory=lambda: np.ones((1, 1)))
    depends: Sequence[bool] = ()
    part_steps: int = PART_STEPS
    as_trees: bool = False

    order: ClassVar[None] = None
    """Sequences are added up as they stand."""

    @classmethod
    def of_distinct(
        cls, sequences: Sequences, weights: Floats, numbers: Numbered, threads: int, **more: Any
    ) -> NumberPass:
        """Return a pass over the sequences that differ, in an order that depends on them alone."""
        both = sequences
        if isinstance(sequences, InputSequences):
            both = replace(sequences, values=np.hstack([sequences.values, sequences.design[sequences.which]]))
        own, merged = distinct_sequences(both, weights)
        kept = sequences.chosen(own)
        if isinstance(kept, InputSequences):
            more |= {"which": kept.which, "design": kept.design}
        return cls(kept.columns, kept.codes, kept.values, kept.starts, merged, numbers, threads, own, **more)

    def of_pieces(self, begins: Integers, ends: Integers, counts: Floats) -> NumberPass:
        """Return a pass over pieces of the sequences, which count so often."""
        starts, steps = _steps_of(begins, ends)
        codes, values = np.asfortranarray(self.codes[steps]), self.values[steps]
        which = None if self.which is None else self.which[steps]
        return replace(self, codes=codes, values=values, starts=starts, weights=counts, which=which, origins=None)

    @property
    def changes(self) -> Integers:
        """For each step, how many stand before it: each is a symbol of its own."""
        return np.arange(len(self.codes))

    def links(self, tables: Sequence[Floats]) -> Links:
        """Return how steps follow each other, given the tables of a Markov chain."""
        return MarkovLinks(tables)

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """The steps that follow another one in their sequence: first those before them, then they themselves."""
        after = following_steps(self.starts)
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
    def _parts(self) -> list[Part]:
        every = parts_of(self.starts, self.weights, None, self.part_steps, MOST_PARTS)
        return [self._part(numbers) for numbers in every]

    def _part(self, numbers: Integers) -> Part:
        starts, steps = _steps_of(self.starts[numbers], self.starts[numbers + 1])
        which = None if self.which is None else self.which[steps]
        inputs = [len(self.design) if own else 1 for own in self.depends]
        shown = ShownSteps.of(self.columns, self.codes[steps], self.values[steps], self.numbers, which, inputs)
        chains = TreeSteps.of_sequences(starts) if self.as_trees else None
        return Part(numbers, starts, self.weights[numbers], shown, chains)

    def _each_part(self, work: Callable[[Part], Any]) -> list[Any]:
        """Return what the work makes of each part."""
        return list(in_order(lambda place: work(self._parts[place]), len(self._parts), self.threads))

    def log_prob(self, links: Sequence[Floats], tables: Sequence[Floats], emissions: Sequence[Emission]) -> Floats:
        """Return the log density of each sequence under a Markov chain; that of an empty one is 0."""
        out = np.zeros(len(self.starts) - 1)

        def score(part: Part) -> None:
            lines, highest = part.shown.likelihoods(tables, emissions)
            own = np.zeros(len(part.numbers))
            log_prob_sequences(*known_steps(part), lines, links, own)
            out[part.numbers] = own + sums_of_sequences(highest, part.starts)

        self._each_part(score)
        return out

    def counts(self, links: Links, tables: Sequence[Floats], emissions: Sequence[Emission]) -> NumberCounts:
        """Return what is expected of all sequences by weight, and their log densities."""
        out = np.zeros(len(self.starts) - 1)

        def count(part: Part) -> tuple[list[Floats], list[Floats], list[Floats]]:
            lines, highest = part.shown.likelihoods(tables, emissions)
            found = links.expected(part, lines)
            out[part.numbers] = found.log_prob + sums_of_sequences(highest, part.starts)
            counted = part.shown.channel_counts(found.states, tables)
            return found.links, counted, part.shown.statistics(found.states, emissions)

        every = zip(*self._each_part(count), strict=True)
        used, counted, statistics = ([reduce(add, own) for own in zip(*parts, strict=True)] for parts in every)
        return NumberCounts(used, counted, statistics, out)


def _steps_of(begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Return where pieces start end to end, and which steps theirs are."""
    lengths = ends - begins
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return starts, np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])


def distinct_sequences(sequences: Sequences, weights: Floats) -> tuple[Integers, Floats]:
    """Return the numbers of the sequences that differ and count, in an order of their own, and their weights."""
    # Zero has two signs, and NaN many forms.
    plain = np.where(np.isnan(sequences.values), np.nan, sequences.values + 0.0)
    words = [np.ascontiguousarray(plain).view(np.uint32), sequences.codes.astype(np.uint32)]
    joined = np.concatenate(words, axis=1)
    order, merged = merged_repeats(joined.ravel(), sequences.starts * joined.shape[1], weights)
    own = order[merged[order] > 0]
    return own, merged[own]
