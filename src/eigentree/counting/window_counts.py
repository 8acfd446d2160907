"""Counts of windows of sequences: what one step of a homogeneous chain is learned from.

Windows are pooled over all steps and all sequences. Counts of them are `Counts` of a table with one column for
each cell of a window. First windows and single cells are counted beside them, and a sample of pieces of sequences
is kept, on which the shrinkage is chosen.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from eigentree.core.counting.window_cutting import cut_windows, hash_pieces
from eigentree.counting.additive import Additive
from eigentree.counting.count_layout import CountLayout
from eigentree.counting.counts import Counts
from eigentree.counting.holdout_sample import SAMPLE_ROWS, RowSample
from eigentree.counting.levels.hat_counts import count_hats
from eigentree.counting.levels.hats import OTHER_LEVELS, level_codes, require_same_levels
from eigentree.data.tables.columns import Columns
from eigentree.errors import DataError
from eigentree.planning.window_plan import Cell
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Integers
    from eigentree.counting.levels.hats import HatScale
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.planning.window_plan import ChannelBlocks, Group, WindowPlan

T = TypeVar("T", bound=np.generic)

__all__ = [
    "PIECE",
    "SequencePieces",
    "SequenceStatistics",
    "batches_of_steps",
    "check_plan",
    "sample_width",
]

PIECE = 128
"""How many steps of a sequence are held out together; shorter sequences stay whole."""

CONTEXT = 16
"""How many steps before a piece are kept, from which its first message follows."""

MOST_WINDOWS, MOST_STEPS = 16_384, 2**20
"""Windows that are cut at a time, and steps that are read at a time, but for those of one sequence."""


class SequencePieces(NamedTuple):
    """Pieces of sequences, end to end, with some steps before and after them.

    `codes` are the patterns of the blocks of channels, shape (steps, blocks), column-major; `starts` is where each
    piece begins, the steps before it included. From there on, `own` is which steps are the piece itself, shape
    (pieces, 2); `begins` whether it begins its sequence.
    """

    codes: Codes
    starts: Integers
    own: Integers
    begins: Booleans

    @classmethod
    def whole(cls, codes: Codes, starts: Integers) -> SequencePieces:
        """Return sequences as pieces, each of which is all of its sequence."""
        lengths = np.diff(starts)
        own = np.stack([np.zeros_like(lengths), lengths], axis=1)
        return cls(codes, starts, own, np.ones(len(lengths), bool))

    def windows(
        self,
        cells: Sequence[Cell],
        blocks: ChannelBlocks,
        reach: int,
        weights: NDArray[Any] | None,
        own: Integers | None = None,
    ) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield the windows of steps, one row each with a column for each cell, and how often each counts."""
        lags = np.array([cell.lag for cell in cells], np.int64)
        channels = np.array([cell.channel for cell in cells], np.int64)
        missing = (np.array(blocks.patterns) - 1).astype(self.codes.dtype)[channels]
        cursor = np.zeros(2, np.int64)
        found = np.empty((len(cells), MOST_WINDOWS), self.codes.dtype)
        of = np.empty(MOST_WINDOWS, np.int64)
        lines = self.codes.T
        ranges = self.own if own is None else own
        while cursor[0] < len(ranges):
            count = cut_windows(lines, self.starts, ranges, reach, lags, channels, missing, cursor, found, of)
            if count and not blocks.single:
                for line, channel in zip(found, channels.tolist(), strict=True):
                    line[:count] = blocks.symbol_of[channel][line[:count]]
            if count:
                yield found[:, :count].T, None if weights is None else weights[of[:count]]


@dataclass(frozen=True, eq=False)
class SequenceStatistics(Additive):
    """What is learned from sequences: counts of windows, and a sample of pieces; immutable.

    Attributes
    ----------
    columns : Columns
        The channels.
    plan : WindowPlan
    windows : Counts
        Of all steps that have enough others after them.
    firsts : Counts
        Of the first steps of all sequences.
    cells : Counts
        Of each channel, over all steps.
    sample : RowSample
        Pieces of sequences, one row each.
    scales : tuple of HatScale or None
        The levels of each channel of numbers, None for other channels; () where there is no channel of numbers.
    """

    columns: Columns
    plan: WindowPlan
    windows: Counts
    firsts: Counts
    cells: Counts
    sample: RowSample
    scales: tuple[HatScale | None, ...] = ()

    @classmethod
    def empty(
        cls, plan: WindowPlan, columns: Columns, scales: tuple[HatScale | None, ...] = ()
    ) -> SequenceStatistics:
        """Return the statistics of a plan when no sequences were seen."""
        return cls(
            columns,
            plan,
            _counts(plan, plan.cells, plan.groups),
            _counts(plan, plan.first_cells, plan.bonds[0].inside),
            _counts(plan, _own_cells(plan), [(cell,) for cell in _own_cells(plan)]),
            RowSample.empty(sample_width(plan)),
            scales,
        )

    @property
    def sequences(self) -> float:
        """How many sequences were counted, or the sum of their weights."""
        return self.firsts.rows

    @property
    def steps(self) -> float:
        """How many steps were counted, or the sum of their weights."""
        return self.cells.rows

    @our_arithmetic
    def update(
        self, sequences: Sequences, weights: NDArray[Any] | None = None, most_steps: int | None = None
    ) -> SequenceStatistics:
        """Return the statistics with more sequences seen, each as often as its weight says, in parts."""
        found = self
        for first, last in batches_of_steps(sequences.starts, most_steps):
            begin, end = int(sequences.starts[first]), int(sequences.starts[last])
            codes = level_codes(sequences.codes[begin:end], sequences.values[begin:end], self.scales)
            codes = self.plan.blocks.encoded(codes)
            pieces = SequencePieces.whole(codes, sequences.starts[first : last + 1] - begin)
            own = None if weights is None else weights[first:last]
            counted = found.count(pieces, own)
            found = replace(counted, sample=_sampled(found.sample, self.plan, pieces, own))
        return found

    def count(self, pieces: SequencePieces, weights: NDArray[Any] | None) -> SequenceStatistics:
        """Return the statistics with the windows of pieces counted; the sample stays as it is."""
        plan, blocks = self.plan, self.plan.blocks
        # A channel of numbers is a block of its own.
        scales = [
            self.scales[first] if hats else None
            for hats, (first, *_) in zip(plan.hats, blocks.channels, strict=True)
        ]

        def add(counts: Counts, cells: Sequence[Cell], reach: int, own: Integers | None = None) -> Counts:
            windows = pieces.windows(cells, blocks, reach, weights, own)
            if not any(plan.hats):
                return counts.count(windows)
            return count_hats(counts, windows, [scales[cell.channel] for cell in cells])

        first = np.stack([np.zeros(len(pieces.begins), np.int64), pieces.begins.astype(np.int64)], axis=1)
        return replace(
            self,
            windows=add(self.windows, plan.cells, plan.reach),
            firsts=add(self.firsts, plan.first_cells, 0, first),
            cells=add(self.cells, _own_cells(plan), 0),
        )

    def pieces(self, rows: Codes) -> SequencePieces:
        """Return rows of the sample as pieces of sequences."""
        outside, context = self.plan.blocks.patterns, _context(self.plan)
        steps = rows.reshape(len(rows), sample_width(self.plan) // len(outside), len(outside))
        there = steps[:, :, 0] != outside[0]
        before = there[:, :context].sum(axis=1)
        own = there[:, context : context + PIECE].sum(axis=1)
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        ranges = np.stack([before, before + own], axis=1)
        return SequencePieces(np.asfortranarray(steps[there]), starts, ranges, before == 0)

    def without(self, pieces: SequencePieces, weights: NDArray[Any]) -> SequenceStatistics:
        """Return the statistics without the windows of some pieces."""
        return self - SequenceStatistics.empty(self.plan, self.columns, self.scales).count(pieces, weights)

    def _combined(self, other: SequenceStatistics, sign: int) -> SequenceStatistics:
        check_plan(other, self.plan, self.columns)
        require_same_levels(self.scales, other.scales)
        combine = operator.add if sign > 0 else operator.sub
        parts = ("windows", "firsts", "cells", "sample")
        return replace(self, **{name: combine(getattr(self, name), getattr(other, name)) for name in parts})


def check_plan(statistics: SequenceStatistics, plan: WindowPlan, columns: Columns) -> None:
    """Raise `DataError` unless statistics are of these channels and were counted by this plan."""
    if statistics.columns != columns:
        if statistics.columns.names == columns.names and columns.number_places:
            raise DataError(f"statistics {OTHER_LEVELS}")
        raise DataError(
            f"statistics add up only when their channels have the same names and labels, not {statistics.columns} "
            f"and {columns}; give all labels as categories="
        )
    theirs = statistics.plan
    if (theirs.blocks, theirs.bonds, theirs.hats, theirs.pairs) != (plan.blocks, plan.bonds, plan.hats, plan.pairs):
        raise DataError(
            "these statistics are of other windows; count for the same hidden_states, order, channels and max_rank"
        )


def _context(plan: WindowPlan) -> int:
    """Return how many steps before a piece go with it."""
    return max(CONTEXT, plan.history)


def sample_width(plan: WindowPlan) -> int:
    """Return how many codes a row of the sample has: steps before a piece, its own, and steps after it."""
    return (_context(plan) + PIECE + plan.reach) * len(plan.blocks.sizes)


def _own_cells(plan: WindowPlan) -> tuple[Cell, ...]:
    return tuple(Cell(0, channel) for channel in range(len(plan.states)))


def _counts(plan: WindowPlan, cells: Sequence[Cell], groups: Sequence[Group]) -> Counts:
    """Return counts of groups of cells, without any window."""
    names = tuple(f"{cell.channel}[{cell.lag:+d}]" for cell in cells)
    states = tuple(plan.states[cell.channel] for cell in cells)
    place = {cell: k for k, cell in enumerate(cells)}
    numbered = [tuple(sorted(place[cell] for cell in group)) for group in groups]
    return Counts.laid_out(Columns(names, states), CountLayout.of(list(dict.fromkeys(numbered)), states))


def batches_of_steps(starts: Integers, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the first of some sequences and the one after their last: a bounded number of steps, or just one."""
    first, count = 0, len(starts) - 1
    size = min(MOST_STEPS, MOST_STEPS if most is None else max(most, 1))
    while first < count:
        last = int(np.searchsorted(starts, starts[first] + size, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last


def _sampled(
    sample: RowSample, plan: WindowPlan, pieces: SequencePieces, weights: NDArray[Any] | None
) -> RowSample:
    """Return a sample with more whole sequences seen."""
    if sample.known_to < 0:
        return sample
    hashes = np.empty(int((-(-np.diff(pieces.starts) // PIECE)).sum()), np.uint64)
    places = np.empty((len(hashes), 2), np.int64)
    hash_pieces(pieces.codes.T, pieces.starts, PIECE, _context(plan), plan.reach, hashes, places)
    counted = np.ones(len(hashes), np.int64) if weights is None else weights[places[:, 0]]
    chosen = np.flatnonzero((counted > 0) & (hashes <= np.uint64(sample.known_to)))
    if not len(chosen):
        return sample
    chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
    unique, first = np.unique(hashes[chosen], return_index=True)
    totals = np.add.reduceat(counted[chosen], first)[:SAMPLE_ROWS]
    known_to = sample.known_to if len(unique) <= SAMPLE_ROWS else int(unique[SAMPLE_ROWS - 1])
    rows = _sample_rows(plan, pieces, places[chosen[first[:SAMPLE_ROWS]]])
    return sample + RowSample(unique[:SAMPLE_ROWS], rows, totals, known_to)


def _sample_rows(plan: WindowPlan, pieces: SequencePieces, places: Integers) -> Codes:
    """Return the pieces of sequences that begin at some places, (sequence, step), one row each.

    A step that the sequence does not have is marked by a code beyond the patterns of each block.
    """
    outside, context = plan.blocks.patterns, _context(plan)
    made = np.empty(
        (len(places), sample_width(plan) // len(outside), len(outside)), np.min_scalar_type(max(outside))
    )
    made[:] = outside
    for row, (sequence, begin) in zip(made, places.tolist(), strict=True):
        first, last = pieces.starts[sequence : sequence + 2].tolist()
        low = max(first, first + begin - context)
        high = min(last, first + begin + PIECE + plan.reach)
        at = low - (first + begin - context)
        row[at : at + high - low] = pieces.codes[low:high]
    return made.reshape(len(places), -1)
