"""Windows of sequences, counted: what one step of a homogeneous chain is learned from.

Windows are pooled over all steps and all sequences. Counts of them are `Counts` of a table with one column for
each cell of a window, so they are whole numbers, add and subtract, and do not depend on the order of sequences or
on how these come in batches. First windows and single cells are counted beside them, and a sample of pieces of
sequences is kept, by which the shrinkage is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.checks import our_arithmetic
from eigentree.counting.counts import Counts
from eigentree.counting.layout import CountLayout
from eigentree.counting.row_sample import EVERY_HASH, SAMPLE_ROWS, RowSample
from eigentree.data.columns import Columns
from eigentree.errors import DataError, quoted
from eigentree.kernels.stepping import cut_windows, hash_pieces
from eigentree.planning.windows import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Integers
    from eigentree.counting.row_sample import Fold
    from eigentree.data.sequences import Sequences
    from eigentree.planning.windows import Group, WindowPlan

__all__ = ["PIECE", "Pieces", "SequenceStatistics", "check_plan"]

PIECE = 128
"""How many steps of a sequence are held out together; shorter sequences stay whole."""

CONTEXT = 16
"""How many steps before a piece tell what it begins with."""

MOST_WINDOWS = 16_384
"""Windows that are cut at a time."""

MOST_PIECES = 65_536
"""Pieces that are looked at at a time, but for those of one sequence."""


class Pieces(NamedTuple):
    """Pieces of sequences, end to end, with some steps before and after them.

    Attributes
    ----------
    codes : array, shape (steps, channels), column-major
    starts : array, shape (pieces + 1,)
        Where each begins, the steps before it included.
    own : array, shape (pieces, 2)
        From which step on and up to which is the piece itself, counted from there.
    begins : array, shape (pieces,)
        Whether a piece begins its sequence.
    """

    codes: Codes
    starts: Integers
    own: Integers
    begins: Booleans

    @classmethod
    def whole(cls, sequences: Sequences) -> Pieces:
        """Return sequences as pieces, each of which is all of its sequence."""
        lengths = np.diff(sequences.starts)
        own = np.stack([np.zeros_like(lengths), lengths], axis=1)
        return cls(sequences.codes, sequences.starts, own, np.ones(len(lengths), bool))

    def windows(
        self,
        cells: Sequence[Cell],
        states: Sequence[int],
        reach: int,
        weights: NDArray[Any] | None,
        own: Integers | None = None,
    ) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield the windows of steps, one row each with a column for each cell, and how often each counts."""
        lags = np.array([cell.lag for cell in cells], np.int64)
        channels = np.array([cell.channel for cell in cells], np.int64)
        missing = np.array(states, self.codes.dtype)[channels]
        cursor = np.zeros(2, np.int64)
        found = np.empty((len(cells), MOST_WINDOWS), self.codes.dtype)
        of = np.empty(MOST_WINDOWS, np.int64)
        lines = self.codes.T
        ranges = self.own if own is None else own
        while cursor[0] < len(ranges):
            count = cut_windows(lines, self.starts, ranges, reach, lags, channels, missing, cursor, found, of)
            if count:
                yield found[:, :count].T, None if weights is None else weights[of[:count]]


@dataclass(frozen=True, eq=False)
class SequenceStatistics:
    """What is learned from sequences: counts of windows, and a sample of pieces; never changed once made.

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
    """

    columns: Columns
    plan: WindowPlan
    windows: Counts
    firsts: Counts
    cells: Counts
    sample: RowSample

    @classmethod
    def empty(cls, plan: WindowPlan, columns: Columns) -> SequenceStatistics:
        """Return the statistics of a plan when no sequences were seen."""
        return cls(
            columns,
            plan,
            _counts(columns, plan.cells, plan.groups),
            _counts(columns, plan.first_cells, plan.bonds[0].inside),
            _counts(columns, _own_cells(plan), [(cell,) for cell in _own_cells(plan)]),
            RowSample.empty(_Frame.of(plan).width),
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
    def update(self, sequences: Sequences, weights: NDArray[Any] | None = None) -> SequenceStatistics:
        """Return the statistics with more sequences seen, each as often as its weight says."""
        counted = self.count(Pieces.whole(sequences), weights)
        return replace(counted, sample=_sampled(self.sample, _Frame.of(self.plan), sequences, weights))

    def count(self, pieces: Pieces, weights: NDArray[Any] | None) -> SequenceStatistics:
        """Return the statistics with the windows of pieces counted; the sample stays as it is."""
        plan = self.plan
        states = plan.states
        first = np.stack([np.zeros(len(pieces.begins), np.int64), pieces.begins.astype(np.int64)], axis=1)
        return replace(
            self,
            windows=self.windows.count(pieces.windows(plan.cells, states, plan.reach, weights)),
            firsts=self.firsts.count(pieces.windows(plan.first_cells, states, 0, weights, first)),
            cells=self.cells.count(pieces.windows(_own_cells(plan), states, 0, weights)),
        )

    def pieces(self) -> Pieces:
        """Return the sample as pieces of sequences."""
        return _Frame.of(self.plan).pieces(self.sample.codes, self.columns)

    def held(self, fold: Fold) -> tuple[Pieces, SequenceStatistics]:
        """Return the pieces of a fold, and the statistics without their windows."""
        pieces = _Frame.of(self.plan).pieces(fold.codes, self.columns)
        out = SequenceStatistics.empty(self.plan, self.columns).count(pieces, fold.weights)
        return pieces, self - out

    def __add__(self, other: SequenceStatistics) -> SequenceStatistics:
        self._require_alike(other)
        return replace(
            self,
            windows=self.windows + other.windows,
            firsts=self.firsts + other.firsts,
            cells=self.cells + other.cells,
            sample=self.sample + other.sample,
        )

    def __radd__(self, other: object) -> SequenceStatistics:
        raise DataError(f"SequenceStatistics add up with SequenceStatistics, not with {quoted(other)}")

    def __sub__(self, other: SequenceStatistics) -> SequenceStatistics:
        self._require_alike(other)
        return replace(
            self,
            windows=self.windows - other.windows,
            firsts=self.firsts - other.firsts,
            cells=self.cells - other.cells,
            sample=self.sample - other.sample,
        )

    def _require_alike(self, other: object) -> None:
        if not isinstance(other, SequenceStatistics):
            raise DataError(f"SequenceStatistics add up with SequenceStatistics, not with {quoted(other)}")
        check_plan(other, self.plan, self.columns)


def check_plan(statistics: SequenceStatistics, plan: WindowPlan, columns: Columns) -> None:
    """Raise `DataError` unless statistics are of these channels and were counted by this plan."""
    if statistics.columns != columns:
        raise DataError(
            f"statistics add up only when their channels have the same names and labels, not {statistics.columns} "
            f"and {columns}; give all labels as categories="
        )
    if (statistics.plan.states, statistics.plan.bonds) != (plan.states, plan.bonds):
        raise DataError(
            "these statistics are of other windows; count for the same hidden_states, order, channels and max_rank"
        )


def _own_cells(plan: WindowPlan) -> tuple[Cell, ...]:
    return tuple(Cell(0, channel) for channel in range(len(plan.states)))


def _counts(columns: Columns, cells: Sequence[Cell], groups: Sequence[Group]) -> Counts:
    """Return counts of groups of cells, without any window."""
    names = tuple(f"{columns.names[cell.channel]}[{cell.lag:+d}]" for cell in cells)
    states = tuple(columns.states[cell.channel] for cell in cells)
    place = {cell: k for k, cell in enumerate(cells)}
    numbered = [tuple(sorted(place[cell] for cell in group)) for group in groups]
    return Counts.laid_out(Columns(names, states), CountLayout.of(list(dict.fromkeys(numbered)), states))


class _Frame(NamedTuple):
    """How a piece of a sequence lies in a row of fixed width: steps before it, its own, steps after it.

    Attributes
    ----------
    states : tuple of int
    context, reach : int
        How many steps before and after a piece go with it.
    """

    states: tuple[int, ...]
    context: int
    reach: int

    @classmethod
    def of(cls, plan: WindowPlan) -> _Frame:
        return cls(plan.states, max(CONTEXT, plan.history), plan.reach)

    @property
    def steps(self) -> int:
        return self.context + PIECE + self.reach

    @property
    def width(self) -> int:
        return self.steps * len(self.states)

    @property
    def outside(self) -> Integers:
        """The code that marks, in each channel, a step that the sequence does not have."""
        return np.array(self.states) + 1

    def rows(self, sequences: Sequences, places: Integers) -> Codes:
        """Return pieces that begin at some places, (sequence, step), one row each."""
        made = np.empty((len(places), self.steps, len(self.states)), np.min_scalar_type(max(self.states) + 1))
        made[:] = self.outside
        for row, (sequence, begin) in zip(made, places.tolist(), strict=True):
            first, last = sequences.starts[sequence : sequence + 2].tolist()
            low = max(first, first + begin - self.context)
            high = min(last, first + begin + PIECE + self.reach)
            at = low - (first + begin - self.context)
            row[at : at + high - low] = sequences.codes[low:high]
        return made.reshape(len(places), -1)

    def pieces(self, rows: Codes, columns: Columns) -> Pieces:
        """Return rows as pieces of sequences."""
        steps = rows.reshape(len(rows), self.steps, len(self.states))
        there = steps[:, :, 0] != self.outside[0]
        before = there[:, : self.context].sum(axis=1)
        own = there[:, self.context : self.context + PIECE].sum(axis=1)
        codes = np.asfortranarray(steps[there].astype(columns.code_type))
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        return Pieces(codes, starts, np.stack([before, before + own], axis=1), before == 0)


def _sampled(sample: RowSample, frame: _Frame, sequences: Sequences, weights: NDArray[Any] | None) -> RowSample:
    """Return a sample with more sequences seen."""
    if sample.known_to < 0:
        return sample
    pieces = -(-np.diff(sequences.starts) // PIECE)
    # Some sequences at a time, so that room is needed for their pieces only.
    ends = np.cumsum(pieces)
    first, count = 0, len(pieces)
    while first < count:
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + MOST_PIECES, side="right")))
        hashes = np.empty(int(ends[last - 1]) - done, np.uint64)
        places = np.empty((len(hashes), 2), np.int64)
        starts = sequences.starts[first : last + 1]
        hash_pieces(sequences.codes.T, starts, PIECE, frame.context, frame.reach, hashes, places)
        places[:, 0] += first
        counted = np.ones(len(hashes), np.int64) if weights is None else weights[places[:, 0]]
        chosen = np.flatnonzero((counted > 0) & (hashes <= np.uint64(sample.known_to)))
        chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
        if len(chosen):
            more = _merged(hashes[chosen], counted[chosen], places[chosen], frame, sequences)
            sample = sample + replace(more, known_to=min(more.known_to, sample.known_to))
        first = last
    return sample


def _merged(
    hashes: NDArray[np.uint64],
    counted: NDArray[Any],
    places: Integers,
    frame: _Frame,
    sequences: Sequences,
) -> RowSample:
    """Return the sample of some pieces in the order of their hashes, those alike added up."""
    unique, first = np.unique(hashes, return_index=True)
    weights = np.add.reduceat(counted, first)
    kept = slice(0, SAMPLE_ROWS)
    known = EVERY_HASH if len(unique) <= SAMPLE_ROWS else int(unique[SAMPLE_ROWS - 1])
    return RowSample(unique[kept], frame.rows(sequences, places[first[kept]]), weights[kept], known)
