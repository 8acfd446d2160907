"""Forward and backward passes over sequences under one hidden chain: log probabilities, and expected counts.

A step is one symbol, however many channels it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from eigentree.core.counting.window_cutting import fingerprints, repeats
from eigentree.core.sequences.forward_backward import LANES, expected_sequences, log_prob_sequences, split_links
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from eigentree.arrays import Codes, Floats, Integers

__all__ = [
    "MOST_TOGETHER",
    "LinkCounts",
    "SequencePass",
    "Symbols",
    "UsedCounts",
    "following_steps",
    "marginal_chains",
    "merged_repeats",
    "parts_of",
    "product_chain",
    "sums_of_sequences",
]

MOST_LOOKED_UP = 2**20
"""With so many different symbols or fewer, those that occur are found by a table of all."""

CHUNK = 2**20
"""Steps that are encoded at a time."""

PART_STEPS = 2**15
"""Steps of the sequences that are added up by themselves: what threads share."""

MOST_PARTS = 16

MOST_TOGETHER = 2**22
"""Most transitions of several chains as one: these grow as the parameters of the chains do not."""


def product_chain(tables: Sequence[Floats]) -> Floats:
    """Return a table of a factorial chain as one chain, given those of its chains; the last one's state is fastest.

    The axes of all tables are the same steps.

    Examples
    --------
    >>> product_chain([np.array([0.5, 0.5]), np.array([0.25, 0.75])]).tolist()
    [0.125, 0.375, 0.125, 0.375]
    """

    def product(first: Floats, second: Floats) -> Floats:
        axes = np.arange(2 * first.ndim).reshape(2, -1).T.ravel()
        both: Floats = np.multiply.outer(first, second).transpose(axes)
        return both.reshape([a * b for a, b in zip(first.shape, second.shape, strict=True)])

    return reduce(product, tables)


def marginal_chains(table: Floats, sizes: Sequence[int]) -> list[Floats]:
    """Return the table of each chain of a factorial chain, the states of the others summed over.

    Examples
    --------
    >>> [own.tolist() for own in marginal_chains(np.array([1.0, 2.0, 3.0, 4.0]), (2, 2))]
    [[3.0, 7.0], [4.0, 6.0]]
    """
    if len(sizes) == 1:
        return [table]
    found = []
    for place, size in enumerate(sizes):
        split = (math.prod(sizes[:place]), size, math.prod(sizes[place + 1 :]))
        others = tuple(3 * axis + side for axis in range(table.ndim) for side in (0, 2))
        found.append(table.reshape(split * table.ndim).sum(axis=others))
    return found


@dataclass(frozen=True, eq=False)
class Symbols:
    """The symbol of each step, and the codes of all channels that a symbol stands for, missing cells included."""

    steps: NDArray[Any]
    lines: Integers
    states: tuple[int, ...]

    @classmethod
    def of(cls, codes: Codes, states: Sequence[int]) -> Symbols:
        """Return the symbols of codes, shape (steps, channels)."""
        if len(states) == 1:
            return cls(np.ascontiguousarray(codes[:, 0]), np.arange(states[0] + 1)[:, None], tuple(states))
        sizes = [count + 1 for count in states]
        if math.prod(sizes) > MOST_LOOKED_UP:
            lines, place = np.unique(codes, axis=0, return_inverse=True)
            return cls(place.ravel().astype(np.min_scalar_type(len(lines))), lines.astype(np.int64), tuple(states))
        chunks = [slice(start, start + CHUNK) for start in range(0, len(codes), CHUNK)]
        seen = np.zeros(math.prod(sizes), np.bool_)
        for chunk in chunks:
            seen[_joint_codes(codes[chunk], sizes)] = True
        found = np.flatnonzero(seen)
        places = np.zeros(len(seen), np.min_scalar_type(len(found)))
        places[found] = np.arange(len(found))
        steps = np.empty(len(codes), places.dtype)
        for chunk in chunks:
            steps[chunk] = places[_joint_codes(codes[chunk], sizes)]
        return cls(steps, np.stack(np.unravel_index(found, sizes), axis=1), tuple(states))

    def emissions(self, tables: Sequence[Floats]) -> Floats:
        """Return the probability of each symbol in each hidden state, shape (symbols, states)."""
        states = tables[0].shape[0]
        lines = np.ones((len(self.lines), states))
        for channel, table in enumerate(tables):
            lines *= np.column_stack([table, np.ones(states)]).T[self.lines[:, channel]]
        return lines

    def channel_counts(self, counts: Floats) -> list[Floats]:
        """Return the counts of each channel's codes, (hidden states, states), given those of symbols."""
        pairs = zip(self._indicators, self.states, strict=True)
        return [np.ascontiguousarray((shown @ counts)[:states].T) for shown, states in pairs]

    @cached_property
    def _indicators(self) -> list[csr_array]:
        """For each channel which symbols have which code, shape (codes, symbols)."""
        from scipy.sparse import csr_array

        count = np.arange(len(self.lines))
        return [
            csr_array((np.ones(len(count)), (codes, count)), shape=(states + 1, len(count)))
            for codes, states in zip(self.lines.T, self.states, strict=True)
        ]


def _joint_codes(codes: Codes, sizes: Sequence[int]) -> Integers:
    joint = codes[:, 0].astype(np.int64)
    for channel, size in enumerate(sizes[1:], 1):
        joint *= size
        joint += codes[:, channel]
    return joint


class UsedCounts(NamedTuple):
    """Expected counts of sequences under a chain.

    Attributes
    ----------
    links : list of array, shapes (states,), (states, states), …
    emissions : list of array, shape (states, states of a channel)
    log_prob : array, shape (sequences,)
    """

    links: list[Floats]
    emissions: list[Floats]
    log_prob: Floats


class LinkCounts(NamedTuple):
    """What is expected of some sequences.

    Attributes
    ----------
    links : list of array
        Expected counts of what states follow each other by.
    states : array, shape (steps, states)
        The posterior of each step times the weight of its sequence.
    log_prob : array, shape (sequences,)
    """

    links: list[Floats]
    states: Floats
    log_prob: Floats


def sums_of_sequences(values: Floats, starts: Integers) -> Floats:
    """Return the sum over the steps of each sequence."""
    if not len(values):
        return np.zeros(len(starts) - 1)
    # An empty sequence would get the number that it stands at.
    sums = np.add.reduceat(np.append(values, 0.0), starts[:-1])
    return np.where(np.diff(starts) > 0, sums, 0.0)


def merged_repeats(symbols: NDArray[Any], starts: Integers, weights: Floats) -> tuple[Integers, Floats]:
    """Return an order of sequences that depends on their symbols alone, and weights of which equal ones share one.

    The first of equal sequences has the weight of all, the others have none.
    """
    prints = np.empty(len(starts) - 1, np.uint64)
    fingerprints(symbols, starts, prints)
    order = np.lexsort((prints, np.diff(starts)))
    same = np.zeros(len(order), np.bool_)
    repeats(symbols, starts, order, same)
    first = np.flatnonzero(~same)
    merged = np.zeros(len(order))
    # Sorted, because sums of floats depend on their order.
    group = np.cumsum(~same) - 1
    within = np.lexsort((weights[order], group))
    merged[order[first]] = np.add.reduceat(weights[order][within], first)
    return order, merged


def parts_of(
    starts: Integers, weights: Floats, order: Integers | None, steps: int = PART_STEPS, most: int = MOST_PARTS
) -> list[Integers]:
    """Return sequences in parts, the longest first: they depend on the sequences only, so that sums do.

    A part has about so many steps, and there are so many parts at most.
    """
    lengths = np.diff(starts)
    counted = (lengths > 0) & (weights > 0)
    used = np.flatnonzero(counted) if order is None else order[counted[order]]
    numbers = used[np.argsort(-lengths[used], kind="stable")]
    groups = np.arange(len(numbers)) // LANES
    parts = min(most, int(lengths[used].sum()) // steps + 1)
    # Groups take turns, so that each part has long and short ones.
    return [numbers[groups % parts == part] for part in range(parts)]


def following_steps(starts: Integers) -> Integers:
    """Return the steps that follow another one in their sequence."""
    first = np.zeros(starts[-1] + 1, np.bool_)
    first[starts] = True
    return np.flatnonzero(~first[:-1])


@dataclass(frozen=True, eq=False)
class SequencePass:
    """Sequences that are passed through again and again.

    `weights` say how often each counts; those of weight zero are left out. Sequences of one length are added up in
    their `order`, by default as they stand.
    """

    symbols: Symbols
    starts: Integers
    weights: Floats
    threads: int = 1
    order: Integers | None = None

    origins: ClassVar[None] = None
    """Sequences have the numbers by which the user knows them."""

    @classmethod
    def of_distinct(cls, symbols: Symbols, starts: Integers, weights: Floats, threads: int) -> SequencePass:
        """Return a pass in which equal sequences are merged; its sums do not depend on the order of sequences."""
        order, merged = merged_repeats(symbols.steps, starts, weights)
        return cls(symbols, starts, merged, threads, order)

    def of_pieces(self, begins: Integers, ends: Integers, counts: Floats) -> SequencePass:
        """Return a pass over pieces of the sequences, which count so often."""
        own = self.symbols
        steps = np.concatenate([own.steps[begin:end] for begin, end in zip(begins, ends, strict=True)])
        starts = np.concatenate([[0], np.cumsum(ends - begins)])
        return SequencePass(Symbols(steps, own.lines, own.states), starts, counts, self.threads)

    @property
    def changes(self) -> Integers:
        """For each step, how often the symbol has changed before it."""
        return np.concatenate([[0], np.cumsum(np.diff(self.symbols.steps.astype(np.int64)) != 0)])

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """The steps that follow another one in their sequence: first those before them, then they themselves."""
        after = following_steps(self.starts)
        return after - 1, after

    def weighing(self, weights: Floats) -> SequencePass:
        """Return the pass with other weights."""
        return replace(self, weights=weights)

    @cached_property
    def _parts(self) -> list[Integers]:
        """Sequences in parts, the longest first: they depend on the sequences only, so that sums do."""
        return parts_of(self.starts, self.weights, self.order)

    def _each_part(self, work: Callable[[Integers], Any]) -> list[Any]:
        """Return what the work makes of each part."""
        return list(in_order(lambda part: work(self._parts[part]), len(self._parts), self.threads))

    def log_prob(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return the log probability of each sequence; that of an empty one is 0."""
        out = np.zeros(len(self.starts) - 1)
        lines = self.symbols.emissions(emissions)

        def score(numbers: Integers) -> None:
            log_prob_sequences(self.symbols.steps, self.starts, numbers, self.weights, lines, links, out)

        self._each_part(score)
        return out

    def counts(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> UsedCounts:
        """Return the expected counts of all entries of the tables, by weight, and log probabilities."""
        out = np.zeros(len(self.starts) - 1)
        lines = self.symbols.emissions(emissions)

        def count(numbers: Integers) -> tuple[Floats, Floats]:
            return expected_sequences(self.symbols.steps, self.starts, numbers, self.weights, lines, links, out)

        (used, shown), *more = self._each_part(count)
        for used_more, shown_more in more:
            used += used_more
            shown += shown_more
        return UsedCounts(split_links(used, links), self.symbols.channel_counts(shown), out)
