"""Passes over sequences under one hidden chain, shared by threads: log probabilities, and expected counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.kernels.alike import fingerprints, repeats
from eigentree.kernels.long_sequences import expected_alone, log_prob_alone
from eigentree.kernels.sequences import WIDTH, expected_sequences, log_prob_sequences
from eigentree.kernels.vectors import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.engine.symbols import Symbols

__all__ = ["SequencePass", "UsedCounts"]

BLOCK_NUMBERS = 2**14
"""Numbers of a block of messages, which stays in cache."""

FEWEST_STEPS = 32
"""Of a block."""

FEWEST_TOGETHER = 3
"""Sequences walk side by side where their steps are at least so many times those of the longest."""


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
    """The numbers of the sequences that a thread walks through: those side by side, and those alone."""

    together: Integers
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
        together = np.repeat(steps.sum(axis=1) >= FEWEST_TOGETHER * steps[:, 0], WIDTH)[: len(numbers)]
        both = numbers[together], numbers[~together]
        threads = max(1, min(self.threads, groups))
        # Turn by turn, so that each has long and short ones; those side by side stay together.
        return [
            _Share(
                both[0][(np.arange(len(both[0])) // WIDTH) % threads == thread],
                both[1][thread::threads],
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
        if len(share.together):
            log_prob_sequences(
                steps, self.starts, share.together, self.weights, lines, tables.flat, shape, tables.space(), out
            )
        if len(share.alone):
            log_prob_alone(steps, self.starts, share.alone, lines, tables.padded, shape, tables.space_alone(), out)

    def counts(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> UsedCounts:
        """Return how often each entry of the tables is expected to be used, by weight, and log probabilities."""
        tables = _Tables.of(links, self.symbols.emissions(emissions))
        out = np.zeros(len(self.starts) - 1)
        parts: list[tuple[Floats, Floats]] = _shared(partial(self._count, tables, out), self._shares)
        used: Floats = sum((own for own, _ in parts), np.zeros_like(tables.flat))
        shown: Floats = sum((own for _, own in parts), np.zeros_like(tables.lines))
        states = tables.shape[0]
        used[states:] *= tables.flat[states:]
        ends = np.cumsum([table.size for table in links])
        linked = [part.reshape(table.shape) for part, table in zip(np.split(used, ends[:-1]), links, strict=True)]
        return UsedCounts(linked, self.symbols.channel_counts(shown[:-1, :states]), out)

    def _count(self, tables: _Tables, out: Floats, share: _Share) -> tuple[Floats, Floats]:
        """Return how often a thread's share uses links (not yet multiplied by them) and symbols."""
        steps, lines, shape = self.symbols.steps, tables.lines, tables.shape
        states, _, widest = shape
        lengths = np.diff(self.starts)
        shown = np.zeros_like(lines)
        used = np.zeros((len(tables.flat), WIDTH))
        if len(share.together):
            space = tables.space()
            blocks = int(lengths[share.together].max()) // (len(space[1]) - 1) + 1
            expected_sequences(
                steps,
                self.starts,
                share.together,
                self.weights,
                lines,
                tables.flat,
                shape,
                space,
                tables.space_back(),
                np.zeros((widest * blocks, WIDTH)),
                used,
                shown,
                out,
            )
        total: Floats = used.sum(axis=1)
        if len(share.alone):
            work = tables.space_alone()
            blocks = int(lengths[share.alone].max()) // (len(work[2]) - 1) + 1
            lone = np.zeros_like(tables.padded)
            expected_alone(
                steps,
                self.starts,
                share.alone,
                self.weights,
                lines,
                tables.padded,
                shape,
                work,
                tables.space_back_alone(),
                np.zeros((blocks, work[0].shape[1])),
                lone,
                shown,
                out,
            )
            total += lone[: len(total) // states, :states].ravel()
        return total, shown


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

    def space(self) -> tuple[Any, ...]:
        widest = self.shape[2]
        block = max(FEWEST_STEPS, BLOCK_NUMBERS // (widest * WIDTH))
        return (
            np.zeros(((block + 1) * widest, WIDTH)),
            np.zeros((block + 1, WIDTH)),
            np.zeros((self.lines.shape[1], WIDTH)),
            np.zeros(WIDTH, np.int64),
            np.zeros((1, WIDTH)),
            np.zeros(WIDTH, np.int64),
            np.zeros(WIDTH, np.int64),
            np.zeros(WIDTH),
            np.zeros(WIDTH),
            np.zeros(WIDTH),
        )

    def space_back(self) -> tuple[Any, ...]:
        ahead = (np.zeros((self.shape[2], WIDTH)) for _ in range(3))
        return (*ahead, np.zeros((self.lines.shape[1], WIDTH)), np.zeros((2, WIDTH)), np.zeros(WIDTH))

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


def _shared(work: Callable[[_Share], Any], shares: Sequence[_Share]) -> list[Any]:
    """Return what comes of the work on each share, done at the same time where there are several."""
    if len(shares) < 2:
        return [work(share) for share in shares]
    with ThreadPoolExecutor(len(shares)) as pool:
        return list(pool.map(work, shares))
