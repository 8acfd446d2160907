"""EM on a cluster: rows stay where they lie; parameters go out in every step, and one sum of counts comes back.

Each partition is encoded once and kept by the worker that has it, as the leaves of an E-step read it. A worker that
is lost takes nothing with it but time: what it kept is made again elsewhere, to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.encoded_stream import StreamedRows
from eigentree.data.tables.rows import Rows
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import DistinctRows, margins
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.em.out_of_core.large import FarRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.streams.partitions import Partitions
    from eigentree.data.streams.row_batches import Stream
    from eigentree.data.tables.columns import Columns
    from eigentree.em.estep.expectation import CodedRows
    from eigentree.graphs.graph import LatentGraph

__all__ = ["ClusterParts", "ClusterRows"]

FEW_CELLS = 2**22
"""Most cells of the rows that differ for these to be sent and held in memory, each with how often it occurs."""


class ClusterRows(FarRows):
    """The rows of partitions, as codes that workers keep.

    Parameters
    ----------
    columns : Columns
    partitions : Partitions
    weight : str, optional
        The name of the column that weighs the rows.
    """

    def __init__(self, columns: Columns, partitions: Partitions, weight: str | None = None) -> None:
        self._states = dict(zip(columns.names, columns.states, strict=True))
        held = partitions.kept(_encoded, columns, weight)
        told: _Summary = held.reduced(_summary, self._states)
        firsts = np.cumsum([0, *told.rows]).tolist()
        self.count, self.margins = firsts[-1], told.margins
        self._bounds = list(pairwise(firsts))
        self._held = _with(held, _placed, [first for first, _ in self._bounds])

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be sent here."""
        found: _Few = self._held.reduced(_few, tuple(self._states.values()))
        return found.rows

    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""
        found: _Taken = self._chosen(numbers).reduced(_taken)
        return np.asfortranarray(np.concatenate(found.codes)), np.concatenate(found.weights)

    def parts(self, expectation: Expectation, numbers: Integers | None, threads: int) -> ClusterParts:
        """Return all rows, or those of some numbers, on the workers as leaves read them.

        Workers take one partition at a time for each thread that Dask gave them, whatever `threads` says.
        """
        rows = self._held if numbers is None else self._chosen(numbers)
        count = self.count if numbers is None else len(numbers)
        coded = rows.kept(_coded, expectation.layout.graph, expectation.skeleton.missing, count)
        return ClusterParts(coded, float(coded.reduced(_weight)))

    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""
        found: PairCounts = self._held.reduced(_pairs, columns)
        return found

    def _chosen(self, numbers: Integers) -> Partitions:
        """Return the partitions with the rows of some numbers alone."""
        places = [np.searchsorted(numbers, bounds).tolist() for bounds in self._bounds]
        own = [(numbers[start:stop], start) for start, stop in places]
        return _with(self._held, _some, own)


@dataclass(frozen=True, eq=False)
class ClusterParts:
    """Rows on workers as leaves read them.

    Attributes
    ----------
    partitions : Partitions
    weight : float
        The total weight of the rows.
    """

    partitions: Partitions
    weight: float

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return what all rows say."""
        found: ExpectedCounts = self.partitions.reduced(_counted, parameters)
        return found


class _Rows(NamedTuple):
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
class _Taken:
    """Rows of some partitions, one after the other."""

    codes: tuple[Codes, ...]
    weights: tuple[Floats, ...]

    def __add__(self, other: _Taken) -> _Taken:
        return _Taken((*self.codes, *other.codes), (*self.weights, *other.weights))


@dataclass(frozen=True, eq=False)
class _Few:
    """Rows that differ, or None where they are too many."""

    states: tuple[int, ...]
    rows: DistinctRows | None

    @classmethod
    def of(cls, states: tuple[int, ...], codes: Codes, weights: Floats) -> _Few:
        rows = DistinctRows.of(codes, states, weights)
        return cls(states, rows if rows.codes.size <= FEW_CELLS else None)

    def __add__(self, other: _Few) -> _Few:
        if self.rows is None or other.rows is None:
            return replace(self, rows=None)
        codes = np.asfortranarray(np.concatenate([self.rows.codes, other.rows.codes]))
        return _Few.of(self.states, codes, np.concatenate([self.rows.weights, other.rows.weights]))


def _with(partitions: Partitions, function: Callable[..., Any], own: Sequence[Any]) -> Partitions:
    """Return what a function will make of each part and of something of its own, wherever it is needed."""
    from dask.delayed import delayed

    made = delayed(function, pure=False)
    parts = [made(part, each) for part, each in zip(partitions.parts, own, strict=True)]
    return replace(partitions, parts=tuple(parts))


def _encoded(part: Stream, columns: Columns, weight: str | None) -> _Rows:
    chunks = list(StreamedRows(columns, part, weight).chunks())
    codes = [np.zeros((0, len(columns.names)), columns.code_type), *(codes for codes, _ in chunks)]
    weights = [np.ones(len(codes)) if own is None else own.astype(np.float64) for codes, own in chunks]
    return _Rows(np.asfortranarray(np.concatenate(codes)), np.concatenate([np.zeros(0), *weights]))


def _summary(rows: _Rows, states: Mapping[str, int]) -> _Summary:
    return _Summary((len(rows.weights),), margins(rows.codes, rows.weights, states))


def _placed(rows: _Rows, first: int) -> _Rows:
    return rows._replace(first=first)


def _some(rows: _Rows, own: tuple[Integers, int]) -> _Rows:
    numbers, first = own
    places = numbers - rows.first
    return _Rows(np.asfortranarray(rows.codes[places]), rows.weights[places], first)


def _pairs(rows: _Rows, columns: Columns) -> PairCounts:
    empty = PairCounts.empty(columns)
    whole = (rows.weights == np.floor(rows.weights)).all()
    # Whole numbers are counted as such, and then no sum depends on its order.
    weights = rows.weights.astype(np.int64) if whole else rows.weights
    return empty.count(Rows.of_codes(rows.codes, columns), weights) if len(weights) else empty


def _taken(rows: _Rows) -> _Taken:
    return _Taken((rows.codes,), (rows.weights,))


def _few(rows: _Rows, states: tuple[int, ...]) -> _Few:
    return _Few.of(states, rows.codes, rows.weights)


def _coded(rows: _Rows, graph: LatentGraph, gaps: frozenset[str], count: int) -> _Leaves:
    states = [graph.states[name] for name in graph.observed]
    distinct = DistinctRows.of(rows.codes, states, rows.weights)
    expectation = Expectation.of(graph, gaps, count)
    coded = expectation.coded(distinct.codes, distinct.weights)
    return _Leaves(expectation, coded, distinct.first + rows.first)


def _weight(leaves: _Leaves) -> float:
    return float(leaves.rows.weights.sum())


def _counted(leaves: _Leaves, parameters: Floats) -> ExpectedCounts:
    if not len(leaves.numbers):
        return ExpectedCounts(np.zeros(len(parameters)), 0.0, -1)
    found = leaves.expectation(parameters, leaves.rows)
    if found.impossible < 0:
        return found
    return found._replace(impossible=int(leaves.numbers[found.impossible]))
