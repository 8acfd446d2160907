"""Rows on Dask workers: parameters go out in every iteration, and one sum of counts comes back.

Each partition is encoded once and kept by the worker that has it, as the leaves of an E-step read it. What a lost
worker kept is made again elsewhere, bit-identical.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.encoded_stream import StreamedRows
from eigentree.data.tables.rows import Rows
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import DistinctRows, margins
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.em.out_of_core import parted_rows
from eigentree.em.out_of_core.parted_rows import OutOfCoreRows, PartedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.streams.partitions import Partitions
    from eigentree.data.streams.row_batches import Stream
    from eigentree.data.tables.columns import Columns
    from eigentree.em.estep.expectation import CodedRows
    from eigentree.em.out_of_core.parted_rows import CountParts
    from eigentree.graphs.graph import LatentGraph

__all__ = ["ClusterParts", "ClusterRows", "PartSummary"]


class ClusterParts(OutOfCoreRows):
    """Rows that workers keep, partition by partition, as `held` has them.

    Partitions may leave rows out, such as those without weight. A place counts the rows that are kept; the number
    by which the user knows a row counts all.
    """

    def __init__(self, held: Partitions, summary: PartSummary) -> None:
        self.count, self.margins = sum(summary.rows), summary.margins
        self._held = held
        self._bounds = list(pairwise(np.cumsum([0, *summary.rows]).tolist()))
        self._firsts = np.cumsum([0, *summary.every]).tolist()

    def _chosen(self, places: Integers, taken: Callable[..., Any]) -> Partitions:
        """Return the partitions that have rows at some places among all, with these alone.

        `taken` makes them of a partition, places in it, the number of its first row, and which place is its first.
        """
        own = {}
        for part, (begin, end) in enumerate(self._bounds):
            start, stop = np.searchsorted(places, [begin, end])
            if stop > start:
                own[part] = (places[start:stop] - begin, self._firsts[part], start)
        return self._held.lazily(taken, own)


@dataclass(frozen=True, eq=False)
class PartSummary:
    """What partitions have: how many `rows` are kept of `every` one, and how often codes of columns occur."""

    rows: tuple[int, ...]
    every: tuple[int, ...]
    margins: Mapping[str, Floats]

    def __add__(self, other: PartSummary) -> PartSummary:
        totals = {name: found + other.margins[name] for name, found in self.margins.items()}
        return PartSummary((*self.rows, *other.rows), (*self.every, *other.every), totals)


class ClusterRows(ClusterParts, PartedRows):
    """The rows of partitions, as codes that workers keep; `weight` names the column that weighs them."""

    def __init__(self, columns: Columns, partitions: Partitions, weight: str | None = None) -> None:
        self._states = dict(zip(columns.names, columns.states, strict=True))
        held = partitions.kept(_encoded, columns, weight)
        super().__init__(held, held.reduced(_summary, self._states))

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be sent here."""
        found: _Distinct = self._held.reduced(_distinct, tuple(self._states.values()), parted_rows.MEMORY_CELLS)
        return found.rows

    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""
        found: list[_PartitionRows] = self._chosen(numbers, _some).reduced(_alone)
        codes = np.asfortranarray(np.concatenate([part.codes for part in found]))
        return codes, np.concatenate([part.weights for part in found])

    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""
        found: PairCounts = self._held.reduced(_pairs, columns)
        return found

    def _counting(
        self, expectation: Expectation, numbers: Integers | None, threads: int
    ) -> tuple[CountParts, float]:
        """Return the E-step; workers take one partition for each thread of theirs, whatever `threads` says."""
        if numbers is None:
            rows = self._held.lazily(_placed, {part: (self._firsts[part],) for part in range(len(self._bounds))})
        else:
            rows = self._chosen(numbers, _some)
        count = self.count if numbers is None else len(numbers)
        coded = rows.kept(_coded, expectation.layout.graph, expectation.skeleton.missing, count)
        return partial(coded.reduced, _counted), float(coded.reduced(_weight))


class _PartitionRows(NamedTuple):
    """The rows of a partition: codes, shape (rows, columns), weights, and which of all rows the first is."""

    codes: Codes
    weights: Floats
    first: int = 0


class _Leaves(NamedTuple):
    """The rows of a partition that differ, as leaves read them, and by which number each is known."""

    expectation: Expectation
    rows: CodedRows
    numbers: Integers


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The rows of several partitions that differ, while they have no more than some cells."""

    rows: DistinctRows | None
    states: tuple[int, ...]
    most: int

    def __add__(self, other: _Distinct) -> _Distinct:
        if self.rows is None or other.rows is None:
            return replace(self, rows=None)
        codes = np.asfortranarray(np.concatenate([self.rows.codes, other.rows.codes]))
        weights = np.concatenate([self.rows.weights, other.rows.weights])
        return _distinct(_PartitionRows(codes, weights), self.states, self.most)


def _encoded(part: Stream, columns: Columns, weight: str | None) -> _PartitionRows:
    chunks = list(StreamedRows(columns, part, weight).chunks())
    codes = [np.zeros((0, len(columns.names)), columns.code_type), *(codes for codes, _ in chunks)]
    weights = [np.ones(len(codes)) if own is None else own.astype(np.float64) for codes, own in chunks]
    return _PartitionRows(np.asfortranarray(np.concatenate(codes)), np.concatenate([np.zeros(0), *weights]))


def _summary(rows: _PartitionRows, states: Mapping[str, int]) -> PartSummary:
    count = (len(rows.weights),)
    return PartSummary(count, count, margins(rows.codes, rows.weights, states))


def _placed(rows: _PartitionRows, first: int) -> _PartitionRows:
    return rows._replace(first=first)


def _some(rows: _PartitionRows, places: Integers, _first: int, start: int) -> _PartitionRows:
    # `PartedObjective` knows rows by their places in the sample.
    return _PartitionRows(np.asfortranarray(rows.codes[places]), rows.weights[places], start)


def _alone(rows: _PartitionRows) -> list[_PartitionRows]:
    return [rows]


def _distinct(rows: _PartitionRows, states: tuple[int, ...], most: int) -> _Distinct:
    found = DistinctRows.of(rows.codes, states, rows.weights)
    return _Distinct(found if found.codes.size <= most else None, states, most)


def _pairs(rows: _PartitionRows, columns: Columns) -> PairCounts:
    empty = PairCounts.empty(columns)
    whole = (rows.weights == np.floor(rows.weights)).all()
    # Whole numbers are counted as such, and then no sum depends on its order.
    weights = rows.weights.astype(np.int64) if whole else rows.weights
    return empty.count(Rows.of_codes(rows.codes, columns), weights) if len(weights) else empty


def _coded(rows: _PartitionRows, graph: LatentGraph, missing: frozenset[str], count: int) -> _Leaves:
    states = [graph.states[name] for name in graph.observed]
    distinct = DistinctRows.of(rows.codes, states, rows.weights)
    expectation = Expectation.of(graph, missing, count)
    coded = expectation.coded(distinct.codes, distinct.weights)
    return _Leaves(expectation, coded, distinct.first + rows.first)


def _weight(leaves: _Leaves) -> float:
    return float(leaves.rows.weights.sum())


def _counted(leaves: _Leaves, parameters: Floats) -> ExpectedCounts:
    if not len(leaves.numbers):
        return ExpectedCounts(np.zeros(len(parameters)), 0.0, -1)
    return leaves.expectation(parameters, leaves.rows).numbered(leaves.numbers)
