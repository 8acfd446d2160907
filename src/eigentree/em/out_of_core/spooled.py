"""Rows whose codes are on disk, for EM: what a large fit asks of them, one chunk after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.spool import Spool
from eigentree.em.estep.unique_rows import DistinctRows, margins
from eigentree.em.out_of_core.large import FarRows
from eigentree.em.out_of_core.leaf_file import LeafFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.streams.encoded_stream import Encoded
    from eigentree.data.tables.columns import Columns
    from eigentree.em.estep.expectation import Expectation

__all__ = ["SpooledRows"]

FEW_CELLS = 2**25
"""Most cells of the rows that differ for these to be held in memory, each with how often it occurs."""


class SpooledRows(FarRows):
    """Rows that are read once, and then lie as codes in a temporary file."""

    def __init__(self, rows: Encoded) -> None:
        self.count, self._weighted = 0, False
        states = dict(zip(rows.columns.names, rows.columns.states, strict=True))
        self.margins = {name: np.zeros(count + 1) for name, count in states.items()}
        self._gathered = _Gatherer(rows.columns.states)
        if isinstance(rows, Spool):
            self.rows = rows
            for _ in self._seen(rows, states):
                pass
        else:
            self.rows = Spool.of(rows.columns, self._seen(rows, states))

    def _seen(self, rows: Encoded, states: Mapping[str, int]) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield the rows while they are counted, and those that differ are gathered as long as they are few."""
        for codes, weights in rows.chunks():
            self.count += len(codes)
            self._weighted |= weights is not None
            for name, found in margins(codes, weights, states).items():
                self.margins[name] += found
            self._gathered.add(codes, weights)
            yield codes, weights

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be in memory."""
        return self._gathered.found()

    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""
        chosen = list(self._chosen(numbers))
        codes = np.asfortranarray(np.concatenate([codes for codes, _ in chosen]))
        return codes, np.concatenate([np.ones(len(codes)) if own is None else own for codes, own in chosen])

    def parts(self, expectation: Expectation, numbers: Integers | None, threads: int) -> LeafFile:
        """Return all rows, or those of some numbers, on disk as leaves read them."""
        chunks = self.rows.chunks() if numbers is None else self._chosen(numbers)
        return LeafFile(expectation, chunks, threads, self._weighted)

    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""
        return PairCounts.empty(columns).count(self.rows, None)

    def _chosen(self, numbers: Integers) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield those of some numbers, chunk after chunk."""
        first, start = 0, 0
        for codes, weights in self.rows.chunks():
            stop = int(np.searchsorted(numbers, first + len(codes)))
            own = numbers[start:stop] - first
            yield codes[own], None if weights is None else weights[own]
            first, start = first + len(codes), stop


class _Gatherer:
    """Rows that differ, gathered as long as they are few."""

    def __init__(self, states: Sequence[int]) -> None:
        self._states = states
        self._known: DistinctRows | None = None
        self._waiting: list[tuple[Codes, Floats]] = []
        self._most = FEW_CELLS // len(states)
        self._too_many = False

    def add(self, codes: Codes, weights: NDArray[Any] | None) -> None:
        """See some more rows."""
        if self._too_many:
            return
        self._waiting.append((codes, np.ones(len(codes)) if weights is None else weights.astype(np.float64)))
        held = len(self._known.weights) if self._known else 0
        # Merged when there are as many new ones as old ones: each row is then looked at a few times only.
        if sum(len(weights) for _, weights in self._waiting) >= max(held, self._most // 4):
            self._merge()

    def _merge(self) -> None:
        known = [(self._known.codes, self._known.weights)] if self._known is not None else []
        every = [*known, *self._waiting]
        codes = np.asfortranarray(np.concatenate([codes for codes, _ in every]))
        self._known = DistinctRows.of(codes, self._states, np.concatenate([weights for _, weights in every]))
        self._waiting = []
        if len(self._known.weights) > self._most:
            self._too_many, self._known = True, None

    def found(self) -> DistinctRows | None:
        """Return all rows that differ, or None if they were too many."""
        if self._waiting:
            self._merge()
        return self._known
