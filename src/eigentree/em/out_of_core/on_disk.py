"""Rows on disk: codes are written once, as the leaves of an E-step read them, and read in every iteration.

Leaves of small alphabets are joined (`em/estep/cliques`), so this takes about one byte for each cell. Stretches are
read, not mapped: mapped pages count as memory of the process, and copying costs little beside the E-step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.encoded_stream import Spool, in_stretches
from eigentree.em.estep.unique_rows import DistinctRows, margins
from eigentree.em.out_of_core import parted_rows
from eigentree.em.out_of_core.parted_rows import PartedRows
from eigentree.em.out_of_core.stretch_file import StretchFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.streams.encoded_stream import Encoded
    from eigentree.data.tables.columns import Columns
    from eigentree.em.estep.expectation import Expectation
    from eigentree.em.optimize.objective import ExpectedCounts
    from eigentree.em.out_of_core.parted_rows import CountParts

    Chunks: TypeAlias = Iterable[tuple[Codes, NDArray[Any] | None]]

__all__ = ["STRETCH", "DiskRows"]

STRETCH = 65_536
"""How many rows are read at a time: enough that what a stretch costs beside its rows does not matter."""


class DiskRows(PartedRows):
    """Rows that are read once, and then lie as codes in a temporary file."""

    def __init__(self, rows: Encoded) -> None:
        self.count, self._weighted = 0, False
        states = dict(zip(rows.columns.names, rows.columns.states, strict=True))
        self.margins = {name: np.zeros(count + 1) for name, count in states.items()}
        self._distinct = _DistinctRowsOfChunks(rows.columns.states)
        if isinstance(rows, Spool):
            self._spool = rows
            for _ in self._seen(rows, states):
                pass
        else:
            self._spool = Spool.of(rows.columns, self._seen(rows, states))

    def _seen(self, rows: Encoded, states: Mapping[str, int]) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield the rows while they are counted, and those that differ are kept as long as they are few."""
        for codes, weights in rows.chunks():
            self.count += len(codes)
            self._weighted |= weights is not None
            for name, found in margins(codes, weights, states).items():
                self.margins[name] += found
            self._distinct.add(codes, weights)
            yield codes, weights

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be in memory."""
        return self._distinct.merged()

    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""
        chosen = list(self._chosen(numbers))
        codes = np.asfortranarray(np.concatenate([codes for codes, _ in chosen]))
        return codes, np.concatenate([np.ones(len(codes)) if own is None else own for codes, own in chosen])

    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""
        return PairCounts.empty(columns).count(self._spool, None)

    def _counting(
        self, expectation: Expectation, numbers: Integers | None, threads: int
    ) -> tuple[CountParts, float]:
        chunks = self._spool.chunks() if numbers is None else self._chosen(numbers)
        leaves = _LeafFile(expectation, chunks, threads, self._weighted)
        return leaves.counted, leaves.weight

    def _chosen(self, numbers: Integers) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield those of some numbers, chunk after chunk."""
        first, start = 0, 0
        for codes, weights in self._spool.chunks():
            stop = int(np.searchsorted(numbers, first + len(codes)))
            own = numbers[start:stop] - first
            yield codes[own], None if weights is None else weights[own]
            first, start = first + len(codes), stop


class _DistinctRowsOfChunks:
    """The rows that differ in all chunks, as long as they are few."""

    def __init__(self, states: Sequence[int]) -> None:
        self._states = states
        self._chunks: list[tuple[Codes, Floats]] = []
        self._held = 0
        self._most = parted_rows.MEMORY_CELLS // len(states)

    def add(self, codes: Codes, weights: NDArray[Any] | None) -> None:
        if self._held > self._most:
            return
        self._chunks.append((codes, np.ones(len(codes)) if weights is None else weights.astype(np.float64)))
        # Merged when there are as many new ones as old ones: each row is then compared a few times only.
        if sum(len(own) for _, own in self._chunks) >= max(2 * self._held, self._most // 4):
            self.merged()

    def merged(self) -> DistinctRows | None:
        """Return all rows that differ so far, or None if they are too many."""
        if self._held > self._most:
            return None
        codes = np.asfortranarray(np.concatenate([codes for codes, _ in self._chunks]))
        found = DistinctRows.of(codes, self._states, np.concatenate([weights for _, weights in self._chunks]))
        self._held = len(found.weights)
        self._chunks = [(found.codes, found.weights)] if self._held <= self._most else []
        return found if self._chunks else None


class _LeafFile:
    """Rows on disk as leaves read them."""

    def __init__(self, expectation: Expectation, chunks: Chunks, threads: int, weighted: bool) -> None:
        """Write rows, which come in chunks of any sizes; `weighted` where any chunk has weights."""
        self._expectation, self._threads, self.weight = expectation, threads, 0.0
        self._line_weights = np.zeros(expectation.line_count)
        self._ones = None if weighted else np.ones(STRETCH)
        self._file = StretchFile(self._read_by_leaves(chunks), STRETCH, "the codes of rows")

    def _read_by_leaves(self, chunks: Chunks) -> Iterator[list[NDArray[Any]]]:
        for own, given in in_stretches(chunks, STRETCH):
            codes = self._expectation.leaf_codes(own)
            weights = np.ones(len(own)) if given is None else given.astype(np.float64)
            self.weight += float(weights.sum())
            self._line_weights += self._expectation.line_weights(codes, weights)
            yield [codes.T, weights] if self._ones is None else [codes.T]

    def _stretch(self, number: int) -> tuple[Codes, Floats, int]:
        codes, *weights = self._file.read(number)
        ones = self._ones
        return codes.T, weights[0] if ones is None else ones[: len(codes)], number * STRETCH

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts and the log-likelihood of all rows."""
        stretches = self._file.stretches
        return self._expectation.over(parameters, self._stretch, stretches, self._line_weights, self._threads)
