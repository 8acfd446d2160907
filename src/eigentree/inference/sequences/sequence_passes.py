"""Passes over sequences under one hidden chain, shared by threads: log probabilities, and expected counts."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.counting.duplicate_sequences import fingerprints, repeats
from eigentree.core.sequences.forward_backward import (
    STRETCH,
    expected_pieces,
    expected_sequences,
    log_prob_sequences,
)
from eigentree.core.sequences.forward_backward_lanes import WIDTH
from eigentree.core.sequences.forward_backward_long import expected_alone, log_prob_alone
from eigentree.core.sequences.symbol_products import through_words
from eigentree.core.vectors import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.inference.sequences.symbols import Symbols

__all__ = ["LONG", "SequencePass", "UsedCounts"]

BLOCK_NUMBERS = 2**14
"""Numbers of a block of messages, which stays in cache."""

FEWEST_STEPS = 32
"""Of a block."""

FEWEST_TOGETHER = 3
"""Sequences walk side by side where their steps are at least so many times those of the longest."""

MOST_APART = 2**11
"""Numbers of the lines of symbols, where each lane counts for itself."""

LONG = 1_000
"""A sequence of so many steps may be cut into pieces that walk side by side."""

LONG_TOGETHER = 6
"""Long ones walk side by side, and not in pieces, where their steps are so many times those of the longest."""

PIECE = 120
"""Steps of a piece; words of up to four symbols make it up."""

WORD_NUMBERS = 2**12
"""Numbers of the matrices of all words, which stay in cache."""

STEPS_PER_WORD = 16
"""Words are not so many that each would be used less often."""

SMALLEST_PRODUCT = 2.0**-240
"""Where a matrix of symbols has smaller numbers, words of more symbols might lose them."""


class UsedCounts(NamedTuple):
    """How often what is expected to be used.

    Attributes
    ----------
    links : list of array, shapes (states,), (states, states), …
    emissions : list of array, shape (states, states of a channel)
    log_prob : array, shape (sequences,)
    """

    links: list[Floats]
    emissions: list[Floats]
    log_prob: Floats


class _Share(NamedTuple):
    """The numbers of the sequences that a thread walks through.

    Attributes
    ----------
    together : array of int
        Side by side.
    few : array of int
        Long ones that could walk side by side but are few.
    alone : array of int
    """

    together: Integers
    few: Integers
    alone: Integers


@dataclass(frozen=True, eq=False)
class SequencePass:
    """Sequences that are walked through again and again.

    Attributes
    ----------
    symbols : Symbols
    starts : array of int, shape (sequences + 1,)
    weights : array, shape (sequences,)
        How often each counts; those of weight zero are left out.
    threads : int
    order : array of int, shape (sequences,), optional
        The order in which they are added up, among those of one length; by default as they stand.
    """

    symbols: Symbols
    starts: Integers
    weights: Floats
    threads: int = 1
    order: Integers | None = None

    @classmethod
    def of_distinct(cls, symbols: Symbols, starts: Integers, weights: Floats, threads: int) -> SequencePass:
        """Return a pass in which sequences that are the same are walked through once.

        What it adds up does not depend on the order of the sequences.
        """
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
    def _shares(self) -> list[_Share]:
        """The sequences of each thread, the longest first, so that those side by side are alike."""
        lengths = np.diff(self.starts)
        counted = (lengths > 0) & (self.weights > 0)
        used = np.flatnonzero(counted) if self.order is None else self.order[counted[self.order]]
        numbers = used[np.argsort(-lengths[used], kind="stable")]
        groups = -(-len(numbers) // WIDTH)
        steps = np.zeros((groups, WIDTH), np.int64)
        steps.ravel()[: len(numbers)] = lengths[numbers]
        beside = steps.sum(axis=1) / np.maximum(steps[:, 0], 1)
        enough = np.where(steps[:, 0] >= LONG, LONG_TOGETHER, FEWEST_TOGETHER)
        kind = np.where(beside >= enough, 0, np.where(beside >= FEWEST_TOGETHER, 1, 2))
        kind = np.repeat(kind, WIDTH)[: len(numbers)]
        together, few, alone = (numbers[kind == each] for each in range(3))
        threads = max(1, min(self.threads, groups))
        # Turn by turn, so that each has long and short ones; those side by side stay together.
        return [
            _Share(
                together[(np.arange(len(together)) // WIDTH) % threads == thread],
                few[(np.arange(len(few)) // WIDTH) % threads == thread],
                alone[thread::threads],
            )
            for thread in range(threads)
        ]

    def log_prob(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return the log probability of each sequence; that of an empty one is 0."""
        tables = _Tables.of(links, self.symbols.emissions(emissions))
        out = np.zeros(len(self.starts) - 1)
        _shared(partial(self._score, tables, out), self._shares)
        return out

    def _score(self, tables: _Tables, out: Floats, share: _Share) -> None:
        steps, lines, shape = self.symbols.steps, tables.lines, tables.shape
        together, cut, alone = tables.arranged(share, np.diff(self.starts))
        if len(together):
            known = (steps, self.starts, together, self.weights, lines.ravel(), tables.flat, shape)
            log_prob_sequences(*known, tables.lanes(), tables.space(), out)
        for number in cut.tolist():
            out[number] = _Pieces.of(tables, steps, self.starts[number : number + 2], back=False).log_prob
        if len(alone):
            log_prob_alone(steps, self.starts, alone, lines, tables.padded, shape, tables.space_alone(), out)

    def counts(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> UsedCounts:
        """Return how often each entry of the tables is expected to be used, by weight, and log probabilities."""
        tables = _Tables.of(links, self.symbols.emissions(emissions))
        out = np.zeros(len(self.starts) - 1)
        parts: list[tuple[Floats, Floats]] = _shared(partial(self._count, tables, out), self._shares)
        used: Floats = sum((own for own, _ in parts), np.zeros_like(tables.flat))
        shown: Floats = sum((own for _, own in parts), np.zeros_like(tables.lines))
        states = tables.shape[0]
        used[states:] *= tables.flat[states:]
        ends = accumulate(table.size for table in links)
        linked = [used[end - table.size : end].reshape(table.shape) for end, table in zip(ends, links, strict=True)]
        return UsedCounts(linked, self.symbols.channel_counts(shown[:-1, :states]), out)

    def _count(self, tables: _Tables, out: Floats, share: _Share) -> tuple[Floats, Floats]:
        """Return how often a thread's share uses links (not yet multiplied by them) and symbols."""
        steps, lines, shape = self.symbols.steps, tables.lines, tables.shape
        lengths = np.diff(self.starts)
        together, cut, alone = tables.arranged(share, lengths)
        # Each lane has counts of its own, where that does not fill the cache.
        shown = np.zeros((WIDTH if lines.size <= MOST_APART else 1, *lines.shape))
        used = np.zeros(len(tables.flat) * WIDTH)
        room = lanes, space, back = tables.lanes(), tables.space(), tables.space_back()
        counts = used, shown.reshape(-1)
        if len(together):
            blocks = int(lengths[together].max()) // (len(space[2]) - 1) + 1
            known = (steps, self.starts, together, self.weights, lines.ravel(), tables.flat, shape)
            restarts = np.zeros(shape[2] * blocks * WIDTH)
            expected_sequences(*known, lanes, space, back, restarts, counts, out)
        for number in cut.tolist():
            pieces = _Pieces.of(tables, steps, self.starts[number : number + 2], back=True)
            out[number] = pieces.log_prob
            pieces.count(tables, steps, float(self.weights[number]), room, counts)
        total: Floats = used.reshape(-1, WIDTH).sum(axis=1)
        if len(alone):
            work = tables.space_alone()
            blocks = int(lengths[alone].max()) // (len(work[2]) - 1) + 1
            lone = np.zeros_like(tables.padded)
            known = (steps, self.starts, alone, self.weights, lines, tables.padded, shape)
            restarts = np.zeros((blocks, work[0].shape[1]))
            expected_alone(*known, work, tables.space_back_alone(), restarts, lone, shown[0], out)
            total += lone[: len(total) // shape[0], : shape[0]].ravel()
        return total, shown.sum(axis=0)


@dataclass(frozen=True, eq=False)
class _Tables:
    """The tables of a pass, laid out for the loops, and room to work in.

    Attributes
    ----------
    flat : array, shape (entries of all links,)
    padded : array, shape (lines and some of zeros, states and some zeros)
    lines : array, shape (symbols + 1, states and some zeros)
    shape : the number of states, the order, and how many numbers a full message has
    """

    flat: Floats
    padded: Floats
    lines: Floats
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, links: Sequence[Floats], lines: Floats) -> _Tables:
        states, order = len(links[0]), len(links) - 1
        flat = np.concatenate([table.ravel() for table in links])
        padded = np.zeros((len(flat) // states + LANES, lines.shape[1]))
        padded[:-LANES, :states] = flat.reshape(-1, states)
        return cls(flat, padded, lines, (states, order, states**order))

    def arranged(self, share: _Share, lengths: Integers) -> tuple[Integers, Integers, Integers]:
        """Return who walks side by side, in pieces, and alone."""
        if self.shape[1] > 1:
            return np.concatenate([share.together, share.few]), share.few[:0], share.alone
        long = lengths[share.alone] >= LONG
        return share.together, np.concatenate([share.few, share.alone[long]]), share.alone[~long]

    def words(self, steps: int, count: int) -> tuple[int, Floats, Floats]:
        """Return how long words are, for so many steps and symbols; the matrices of symbols; and those of words."""
        states, padded = self.shape[0], self.lines.shape[1]
        single = self.lines[:count, None, :] * self.padded[1 : 1 + states]
        length, words = 1, single
        if single[single > 0].min(initial=1.0) > SMALLEST_PRODUCT:
            most = min(WORD_NUMBERS // padded**2, steps // STEPS_PER_WORD)
            while length < 4 and count ** (length + 1) <= most:
                length += 1
                words = (words[:, None, :, :states] @ single).reshape(-1, states, padded)
        return length, _filled(single, padded), _filled(words, padded)

    def lanes(self) -> tuple[Any, ...]:
        return *(np.zeros(WIDTH, np.int64) for _ in range(2)), *(np.zeros(WIDTH) for _ in range(3))

    def space(self) -> tuple[Any, ...]:
        widest = self.shape[2]
        block = max(FEWEST_STEPS, BLOCK_NUMBERS // (widest * WIDTH), PIECE if self.shape[1] == 1 else 0)
        return (
            np.empty((block + 1) * widest * WIDTH),
            np.zeros((block + 1) * WIDTH),
            np.zeros(block + 1, np.bool_),
            np.zeros(self.lines.shape[1] * WIDTH),
            np.zeros(WIDTH, np.int64),
        )

    def space_back(self) -> tuple[Any, ...]:
        widest = self.shape[2]
        lines = (widest, widest, (STRETCH + 1) * widest, self.lines.shape[1], 1, 1)
        return tuple(np.zeros(count * WIDTH) for count in lines)

    def space_alone(self) -> tuple[Any, ...]:
        stride = self._stride
        block = max(FEWEST_STEPS, BLOCK_NUMBERS // stride)
        messages = np.zeros((block + 1, stride))
        return messages, messages.reshape(-1), np.zeros(block + 1)

    def space_back_alone(self) -> tuple[Any, ...]:
        return np.zeros((1, self._stride)), np.zeros((1, self._stride)), np.zeros((1, LANES)), np.zeros(2)

    @property
    def _stride(self) -> int:
        """How far apart messages are: each is written a line and some too long."""
        return self.shape[2] + int(self.lines.shape[1]) + LANES


@dataclass(frozen=True, eq=False)
class _Pieces:
    """A long sequence in pieces, and what comes to them.

    Attributes
    ----------
    first : int
        The symbol of its first step, which is in no piece.
    bounds : array of int, shape (pieces + 1,)
    before, after : array, shape (pieces, states and some zeros)
        The messages from either side, but for a factor.
    log_prob : float
    """

    first: int
    bounds: Integers
    before: Floats
    after: Floats
    log_prob: float

    @classmethod
    def of(cls, tables: _Tables, steps: Any, ends: Integers, back: bool) -> _Pieces:
        """Return the pieces of a sequence from a step to another; what comes from after them if asked for."""
        begin, end = ends.tolist()
        length, single, words = tables.words(end - begin, int(steps[begin:end].max()) + 1)
        bounds = np.concatenate([[begin + 1], np.arange(end, begin + 1, -PIECE)[::-1]])
        states, padded = tables.shape[0], single.shape[1]
        room = np.zeros(4 * padded)
        room[:padded] = tables.padded[0] * tables.lines[steps[begin]]
        room[2 * padded : 2 * padded + states] = 1.0
        before = np.zeros((len(bounds) - 1, padded))
        after = np.zeros((len(before) if back else 0, padded))
        turned = words.reshape(-1, padded, padded).transpose(0, 2, 1).reshape(-1, padded) if back else words
        halved = through_words(
            steps, bounds, length, single, words, np.ascontiguousarray(turned), room, before, after
        )
        total = float(room[:states].sum())
        found = math.log(total) + halved * math.log(2.0) if total > 0.0 else -math.inf
        return cls(int(steps[begin]), bounds, before, after, found)

    def count(
        self, tables: _Tables, steps: Any, weight: float, room: tuple[Any, Any, Any], counts: tuple[Floats, Floats]
    ) -> None:
        """Add how often links and symbols are used."""
        states, known = tables.shape[0], (tables.lines.ravel(), tables.flat)
        expected_pieces(steps, self.bounds, weight, self.before, self.after, *known, states, *room, counts)
        used, shown = counts
        own = self.before[0, :states] * room[2][0][::WIDTH]
        if own.sum() > 0.0:
            own *= weight / own.sum()
            used[: states * WIDTH : WIDTH] += own
            first = self.first * tables.lines.shape[1]
            shown[first : first + states] += own


def _filled(matrices: Floats, padded: int) -> Floats:
    """Return matrices one below the other, with lines of zeros so that they are square."""
    square = np.zeros((len(matrices), padded, padded))
    square[:, : matrices.shape[1]] = matrices
    return square.reshape(-1, padded)


def _shared(work: Callable[[_Share], Any], shares: Sequence[_Share]) -> list[Any]:
    """Return what comes of the work on each share, done at the same time where there are several."""
    if len(shares) < 2:
        return [work(share) for share in shares]
    with ThreadPoolExecutor(len(shares)) as pool:
        return list(pool.map(work, shares))
