"""Rows whose codes are on disk, for EM: what a large fit asks of them, one chunk after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.distinct import DistinctRows, margins
from eigentree.em.large import FarRows
from eigentree.em.leaf_file import LeafFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from eigentree.arrays import Codes, Integers
    from eigentree.em.expectation import Expectation
    from eigentree.structures.graph import LatentGraph

__all__ = ["SpooledRows"]

FEW_CELLS = 2**25
"""Most cells of the rows that differ for these to be held in memory, each with how often it occurs."""


class SpooledRows(FarRows):
    """Rows that come in chunks of codes, as often as they are asked for.

    Attributes
    ----------
    graph : LatentGraph
    chunks : callable
        Gives all codes anew, in chunks of shape (rows, columns).
    """

    graph: LatentGraph
    chunks: Callable[[], Iterable[Codes]]

    def __init__(self, graph: LatentGraph, chunks: Callable[[], Iterable[Codes]]) -> None:
        """Count the rows, and gather those that differ as long as they are few."""
        self.graph, self.chunks = graph, chunks
        self.count = 0
        totals = margins(np.zeros((0, len(graph.observed)), np.uint8), None, graph)
        gathered = _Gatherer([graph.states[name] for name in graph.observed])
        for codes in chunks():
            self.count += len(codes)
            totals = {name: totals[name] + found for name, found in margins(codes, None, graph).items()}
            gathered.add(codes)
        self.margins = totals
        self._few = gathered.found()

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be in memory."""
        return self._few

    def taken(self, numbers: Integers) -> Codes:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns)."""
        return np.asfortranarray(np.concatenate(list(self._chosen(numbers))))

    def parts(self, expectation: Expectation, numbers: Integers | None, threads: int) -> LeafFile:
        """Return all rows, or those of some numbers, on disk as leaves read them."""
        return LeafFile(expectation, self.chunks() if numbers is None else self._chosen(numbers), threads)

    def _chosen(self, numbers: Integers) -> Iterator[Codes]:
        """Yield those of some numbers, chunk after chunk."""
        first, start = 0, 0
        for codes in self.chunks():
            stop = int(np.searchsorted(numbers, first + len(codes)))
            yield codes[numbers[start:stop] - first]
            first, start = first + len(codes), stop


class _Gatherer:
    """Rows that differ, gathered as long as they are few."""

    def __init__(self, states: list[int]) -> None:
        self._states = states
        self._known: DistinctRows | None = None
        self._waiting: list[Codes] = []
        self._most = FEW_CELLS // len(states)
        self._gone = False

    def add(self, codes: Codes) -> None:
        """See some more rows."""
        if self._gone:
            return
        self._waiting.append(codes)
        held = len(self._known.weights) if self._known else 0
        # Merged when there are as many new ones as old ones: each row is then looked at a few times only.
        if sum(map(len, self._waiting)) >= max(held, self._most // 4):
            self._merge()

    def _merge(self) -> None:
        fresh = np.concatenate(self._waiting) if self._waiting else np.zeros((0, len(self._states)), np.uint8)
        self._waiting = []
        codes, weights = fresh, np.ones(len(fresh))
        if self._known is not None:
            codes = np.concatenate([self._known.codes, fresh])
            weights = np.concatenate([self._known.weights, weights])
        self._known = DistinctRows.of(np.asfortranarray(codes), self._states, weights)
        if len(self._known.weights) > self._most:
            self._gone, self._known = True, None

    def found(self) -> DistinctRows | None:
        """Return all rows that differ, or None if they were too many."""
        if self._waiting:
            self._merge()
        return self._known
