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
from eigentree.em.out_of_core.parted_rows import PartedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.streams.partitions import Partitions
    from eigentree.data.streams.row_batches import Stream
    from eigentree.data.tables.columns import Columns
    from eigentree.em.estep.expectation import CodedRows
    from eigentree.em.out_of_core.parted_rows import CountParts
    from eigentree.graphs.graph import LatentGraph

__all__ = ["ClusterRows"]


class ClusterRows(PartedRows):
    """The rows of partitions, as codes that workers keep; `weight` names the column that weighs them."""

    def __init__(self, columns: Columns, partitions: Partitions, weight: str | None = None) -> None:
        self._states = dict(zip(columns.names, columns.states, strict=True))
        held = partitions.kept(_encoded, columns, weight)
        summary: _Summary = held.reduced(_summary, self._states)
        firsts = np.cumsum([0, *summary.rows]).tolist()
        self.count, self.margins = firsts[-1], summary.margins
        self._bounds = list(pairwise(firsts))
        self._held = _with(held, _placed, [first for first, _ in self._bounds])

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be sent here."""
        found: _Merged = self._held.reduced(_distinct, tuple(self._states.values()), parted_rows.MEMORY_CELLS)
        assert not isinstance(found.rows, _PartitionRows)
        return found.rows

    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""
        found: _Merged = self._chosen(numbers).reduced(_in_order)
        assert found.rows is not None
        return found.rows.codes, found.rows.weights

    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""
        found: PairCounts = self._held.reduced(_pairs, columns)
        return found

    def _counting(
        self, expectation: Expectation, numbers: Integers | None, threads: int
    ) -> tuple[CountParts, float]:
        """Return the E-step; workers take one partition for each thread of theirs, whatever `threads` says."""
        rows = self._held if numbers is None else self._chosen(numbers)
        count = self.count if numbers is None else len(numbers)
        coded = rows.kept(_coded, expectation.layout.graph, expectation.skeleton.missing, count)
        return partial(coded.reduced, _counted), float(coded.reduced(_weight))

    def _chosen(self, numbers: Integers) -> Partitions:
        """Return the partitions with the rows of some numbers alone."""
        places = [np.searchsorted(numbers, bounds).tolist() for bounds in self._bounds]
        own = [(numbers[start:stop], start) for start, stop in places]
        return _with(self._held, _some, own)


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
class _Summary:
    """How many rows each partition has, and how often each code of each column occurs."""

    rows: tuple[int, ...]
    margins: Mapping[str, Floats]

    def __add__(self, other: _Summary) -> _Summary:
        totals = {name: found + other.margins[name] for name, found in self.margins.items()}
        return _Summary((*self.rows, *other.rows), totals)


@dataclass(frozen=True, eq=False)
class _Merged:
    """Rows of several partitions: in their order, or those that differ while they have no more than some cells."""

    rows: _PartitionRows | DistinctRows | None
    states: tuple[int, ...] = ()
    most: int = 0

    def __add__(self, other: _Merged) -> _Merged:
        if self.rows is None or other.rows is None:
            return replace(self, rows=None)
        codes = np.asfortranarray(np.concatenate([self.rows.codes, other.rows.codes]))
        both = _PartitionRows(codes, np.concatenate([self.rows.weights, other.rows.weights]))
        return _distinct(both, self.states, self.most) if self.states else _in_order(both)


def _with(partitions: Partitions, function: Callable[..., Any], own: Sequence[Any]) -> Partitions:
    """Return what a function will make of each part and of something of its own, wherever it is needed."""
    from dask.delayed import delayed

    made = delayed(function, pure=False)
    parts = [made(part, each) for part, each in zip(partitions.parts, own, strict=True)]
    return replace(partitions, parts=tuple(parts))


def _encoded(part: Stream, columns: Columns, weight: str | None) -> _PartitionRows:
    chunks = list(StreamedRows(columns, part, weight).chunks())
    codes = [np.zeros((0, len(columns.names)), columns.code_type), *(codes for codes, _ in chunks)]
    weights = [np.ones(len(codes)) if own is None else own.astype(np.float64) for codes, own in chunks]
    return _PartitionRows(np.asfortranarray(np.concatenate(codes)), np.concatenate([np.zeros(0), *weights]))


def _summary(rows: _PartitionRows, states: Mapping[str, int]) -> _Summary:
    return _Summary((len(rows.weights),), margins(rows.codes, rows.weights, states))


def _placed(rows: _PartitionRows, first: int) -> _PartitionRows:
    return rows._replace(first=first)


def _some(rows: _PartitionRows, own: tuple[Integers, int]) -> _PartitionRows:
    numbers, first = own
    places = numbers - rows.first
    return _PartitionRows(np.asfortranarray(rows.codes[places]), rows.weights[places], first)


def _in_order(rows: _PartitionRows) -> _Merged:
    return _Merged(rows)


def _distinct(rows: _PartitionRows, states: tuple[int, ...], most: int) -> _Merged:
    found = DistinctRows.of(rows.codes, states, rows.weights)
    return _Merged(found if found.codes.size <= most else None, states, most)


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
