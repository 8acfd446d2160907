"""Forward and backward passes over sequences under one hidden chain: log probabilities, and expected counts.

A step is one symbol, however many channels it has. Most sequences pass eight at a time, one in each lane of the
vectors; a long one under a chain of order 1 that has too few beside it is cut into pieces, which then do the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.counting.window_cutting import fingerprints, repeats
from eigentree.core.sequences.forward_backward import (
    STRETCH,
    expected_pieces,
    expected_sequences,
    log_prob_sequences,
)
from eigentree.core.sequences.forward_backward_lanes import WIDTH
from eigentree.core.sequences.symbol_products import through_words
from eigentree.core.vectors import LANES
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers

__all__ = ["LONG", "SequencePass", "Symbols", "UsedCounts", "flat_links", "marginal_chains", "product_chain"]

MOST_LOOKED_UP = 2**20
"""With so many different symbols or fewer, those that occur are found by a table of all."""

CHUNK = 2**20
"""Steps that are encoded at a time."""

BLOCK_NUMBERS = 2**14
"""Numbers of a block of messages, which stays in cache."""

FEWEST_STEPS = 32
"""Of a block."""

MOST_APART = 2**11
"""Numbers of the lines of symbols, where each lane counts for itself."""

LONG = 1_000
"""A sequence of so many steps may be cut into pieces."""

LONG_TOGETHER = 6
"""It is not, where the steps of the eight sequences of a group are so many times those of the longest."""

PIECE = 120
"""Steps of a piece; words of up to four symbols make it up."""

WORD_NUMBERS = 2**12
"""Numbers of the matrices of all words, which stay in cache."""

STEPS_PER_WORD = 16
"""Words are not so many that each would be used less often."""

SMALLEST_PRODUCT = 2.0**-240
"""Where a matrix of symbols has smaller numbers, words of more symbols might lose them."""


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
        """Return the probability of each symbol in each hidden state, shape (symbols + 1, states and some zeros).

        The last symbol has probability 1 in all states. States are padded to whole vectors.
        """
        states = tables[0].shape[0]
        lines = np.zeros((len(self.lines) + 1, -(-states // LANES) * LANES))
        lines[:, :states] = 1.0
        for channel, table in enumerate(tables):
            lines[:-1, :states] *= np.column_stack([table, np.ones(states)])[:, self.lines[:, channel]].T
        return lines

    def channel_counts(self, counts: Floats) -> list[Floats]:
        """Return the counts of each channel's codes, (hidden states, states), given those of symbols."""
        made = []
        for channel, states in enumerate(self.states):
            table = np.zeros((counts.shape[1], states + 1))
            np.add.at(table.T, self.lines[:, channel], counts)
            made.append(table[:, :states])
        return made


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

    @classmethod
    def of_distinct(cls, symbols: Symbols, starts: Integers, weights: Floats, threads: int) -> SequencePass:
        """Return a pass in which equal sequences are merged; its sums do not depend on the order of sequences."""
        prints = np.empty(len(starts) - 1, np.uint64)
        fingerprints(symbols.steps, starts, prints)
        order = np.lexsort((prints, np.diff(starts)))
        same = np.zeros(len(order), np.bool_)
        repeats(symbols.steps, starts, order, same)
        first = np.flatnonzero(~same)
        merged = np.zeros(len(order))
        # Sorted, because sums of floats depend on their order.
        group = np.cumsum(~same) - 1
        within = np.lexsort((weights[order], group))
        merged[order[first]] = np.add.reduceat(weights[order][within], first)
        return cls(symbols, starts, merged, threads, order)

    def weighing(self, weights: Floats) -> SequencePass:
        """Return the pass with other weights."""
        return replace(self, weights=weights)

    @cached_property
    def _shares(self) -> list[tuple[Integers, Integers]]:
        """The sequences that each thread passes eight at a time, the longest first, and those that it may cut."""
        lengths = np.diff(self.starts)
        counted = (lengths > 0) & (self.weights > 0)
        used = np.flatnonzero(counted) if self.order is None else self.order[counted[self.order]]
        numbers = used[np.argsort(-lengths[used], kind="stable")]
        groups = -(-len(numbers) // WIDTH)
        steps = np.zeros((groups, WIDTH), np.int64)
        steps.ravel()[: len(numbers)] = lengths[numbers]
        few = steps.sum(axis=1) < LONG_TOGETHER * steps[:, 0]
        cut = np.repeat(few, WIDTH)[: len(numbers)] & (lengths[numbers] >= LONG)
        together, pieces = numbers[~cut], numbers[cut]
        threads = max(1, min(self.threads, groups))
        # Groups take turns, so that each thread has long and short ones.
        turn = np.arange(len(together)) // WIDTH % threads
        return [(together[turn == thread], pieces[thread::threads]) for thread in range(threads)]

    def _shared(self, work: Callable[[Integers, Integers], Any], order: int) -> list[Any]:
        """Return what the work makes of each thread's sequences; under chains of order 2 and more none are cut."""
        shares = self._shares
        if order > 1:
            shares = [(np.concatenate([cut, together]), cut[:0]) for together, cut in shares]
        return list(in_order(lambda k: work(*shares[k]), len(shares), len(shares)))

    def log_prob(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return the log probability of each sequence; that of an empty one is 0."""
        out = np.zeros(len(self.starts) - 1)
        self._shared(partial(self._score, links, self.symbols.emissions(emissions), out), len(links) - 1)
        return out

    def _score(
        self, links: Sequence[Floats], lines: Floats, out: Floats, together: Integers, cut: Integers
    ) -> None:
        known = (self.symbols.steps, self.starts, together, self.weights, lines.ravel(), *flat_links(links))
        lanes, forward, _ = _workspace(links, lines.shape[1])
        log_prob_sequences(*known, lanes, forward, out)
        for number in cut.tolist():
            out[number] = self._pieces(links, lines, number, backward=False)[-1]

    def counts(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> UsedCounts:
        """Return the expected counts of all entries of the tables, by weight, and log probabilities."""
        lines = self.symbols.emissions(emissions)
        out = np.zeros(len(self.starts) - 1)
        parts = self._shared(partial(self._count, links, lines, out), len(links) - 1)
        flat, (states, _, _) = flat_links(links)
        used: Floats = sum((own for own, _ in parts), np.zeros_like(flat))
        shown: Floats = sum((own for _, own in parts), np.zeros_like(lines))
        used[states:] *= flat[states:]
        ends = accumulate(table.size for table in links)
        linked = [used[end - table.size : end].reshape(table.shape) for end, table in zip(ends, links, strict=True)]
        return UsedCounts(linked, self.symbols.channel_counts(shown[:-1, :states]), out)

    def _count(
        self, links: Sequence[Floats], lines: Floats, out: Floats, together: Integers, cut: Integers
    ) -> tuple[Floats, Floats]:
        """Return the counts of a thread's links (not yet multiplied by them) and symbols."""
        steps, emissions, (flat, shape) = self.symbols.steps, lines.ravel(), flat_links(links)
        # Each lane has counts of its own, where that does not fill the cache.
        shown = np.zeros((WIDTH if lines.size <= MOST_APART else 1, *lines.shape))
        used = np.zeros(len(flat) * WIDTH)
        counts = used, shown.reshape(-1)
        lanes, forward, backward = _workspace(links, lines.shape[1])
        longest = int(np.diff(self.starts)[together].max(initial=0))
        restarts = np.zeros(shape[2] * (longest // (len(forward[2]) - 1) + 1) * WIDTH)
        known = (steps, self.starts, together, self.weights, emissions, flat, shape)
        expected_sequences(*known, lanes, forward, backward, restarts, counts, out)
        states = shape[0]
        for number in cut.tolist():
            bounds, before, after, out[number] = self._pieces(links, lines, number, backward=True)
            weight = float(self.weights[number])
            pieces = (steps, bounds, weight, before, after, emissions, flat, states)
            expected_pieces(*pieces, lanes, forward, backward, counts)
            # The first step is in no piece.
            own = before[0, :states] * backward[0][::WIDTH]
            if own.sum() > 0.0:
                own *= weight / own.sum()
                used[: states * WIDTH : WIDTH] += own
                shown[0, steps[self.starts[number]], :states] += own
        return used.reshape(-1, WIDTH).sum(axis=1), shown.sum(axis=0)

    def _pieces(
        self, links: Sequence[Floats], lines: Floats, number: int, backward: bool
    ) -> tuple[Integers, Floats, Floats, float]:
        """Return the bounds of a sequence's pieces, the messages to them forward and backward, and log P(sequence).

        Messages are known up to a factor; those backward are computed if wanted.
        """
        begin, end = self.starts[number : number + 2].tolist()
        steps, states, padded = self.symbols.steps, len(links[0]), lines.shape[1]
        count = int(steps[begin:end].max()) + 1
        single = np.zeros((count, padded, padded))
        single[:, :states, :states] = lines[:count, None, :states] * links[1]
        # Several steps at a time, where the matrices of all words of so many symbols are few.
        length, words = 1, single
        if single[single > 0].min(initial=1.0) > SMALLEST_PRODUCT:
            most = min(WORD_NUMBERS // padded**2, (end - begin) // STEPS_PER_WORD)
            while length < 4 and count ** (length + 1) <= most:
                length += 1
                words = (words[:, None, :, :states] @ single[:, :states]).reshape(-1, padded, padded)
        bounds = np.concatenate([[begin + 1], np.arange(end, begin + 1, -PIECE)[::-1]])
        messages = np.zeros(4 * padded)
        messages[:states] = links[0] * lines[steps[begin], :states]
        messages[2 * padded : 2 * padded + states] = 1.0
        before = np.zeros((len(bounds) - 1, padded))
        after = np.zeros((len(before) if backward else 0, padded))
        flat = [matrices.reshape(-1, padded) for matrices in (single, words)]
        turned = np.ascontiguousarray(words.transpose(0, 2, 1).reshape(-1, padded)) if backward else flat[1]
        halved = through_words(steps, bounds, length, *flat, turned, messages, before, after)
        total = float(messages[:states].sum())
        found = math.log(total) + halved * math.log(2.0) if total > 0.0 else -math.inf
        return bounds, before, after, found


def flat_links(links: Sequence[Floats]) -> tuple[Floats, tuple[int, int, int]]:
    """Return the tables of a chain end to end, and its states, order and size of a full message."""
    states, order = len(links[0]), len(links) - 1
    return np.concatenate([table.ravel() for table in links]), (states, order, states**order)


def _workspace(links: Sequence[Floats], padded: int) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return what the loops write on: something for each lane, a block of messages forward, and those backward."""
    _, (_, order, widest) = flat_links(links)
    block = max(FEWEST_STEPS, BLOCK_NUMBERS // (widest * WIDTH), PIECE if order == 1 else 0)
    forward = (
        np.empty((block + 1) * widest * WIDTH),
        np.zeros((block + 1) * WIDTH),
        np.zeros(block + 1, np.bool_),
        np.zeros(padded * WIDTH),
        np.zeros(WIDTH, np.int64),
    )
    sizes = (widest, widest, (STRETCH + 1) * widest, padded, 1, 1)
    backward = tuple(np.zeros(count * WIDTH) for count in sizes)
    lanes = (*(np.zeros(WIDTH, np.int64) for _ in range(2)), *(np.zeros(WIDTH) for _ in range(3)))
    return lanes, forward, backward
