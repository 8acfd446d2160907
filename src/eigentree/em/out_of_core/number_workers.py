"""Rows with numbers on Dask workers: parameters go out in every iteration, and one sum of statistics comes back.

Each partition is read once and kept by the worker that has it. Sums are in the order of the partitions, the same
each time; other partitions of the same rows change them by rounding, as they do expected counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.streams.encoded_stream import StreamedRows
from eigentree.em.estep.unique_rows import margins
from eigentree.em.mixed.mixed_objective import MixedLayout, MixedObjective, NumberObjective, Responsibilities
from eigentree.em.out_of_core.number_rows import NumberRows, joined_rows
from eigentree.em.parameters import ParameterLayout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.streams.partitions import Partitions
    from eigentree.data.streams.row_batches import Stream
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.em.mixed.number_columns import NumberColumns
    from eigentree.emissions.base import Emission
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.mixed.number_leaves import Block

__all__ = ["ClusterNumbers"]


class ClusterNumbers(NumberRows):
    """The rows with numbers of partitions, which workers keep; `weight` names the column that weighs them."""

    def __init__(self, numbers: NumberColumns, partitions: Partitions, weight: str | None = None) -> None:
        self.numbers = numbers
        held = partitions.kept(_read, numbers, weight)
        found: _Parts = held.reduced(_summary, numbers.states)
        ends = np.cumsum([0, *found.rows]).tolist()
        self.count, self.margins, self._held = ends[-1], found.margins, held
        self._bounds = list(pairwise(ends))
        # The rows of a partition are known by their numbers among all, those without weight included.
        self._firsts = np.cumsum([0, *found.every])[:-1].tolist()

    def taken(self, places: Integers) -> MixedRows:
        """Return the rows at some places among all, which rise."""
        found: _Parts = self._chosen(places).reduced(_whole)
        return joined_rows(found.parts)

    def objective(
        self,
        layout: MixedLayout,
        names: Sequence[str],
        missing: frozenset[str],
        pseudo_counts: float,
        places: Integers | None = None,
        threads: int = 1,
    ) -> NumberObjective:
        """Return the objective; workers take one partition for each thread of theirs, whatever `threads` says."""
        rows = self._chosen(np.arange(self.count) if places is None else places)
        total: _Parts = rows.reduced(_summary, self.numbers.states)
        of_layout = (layout.graph, layout.blocks, dict(layout.emissions))
        objectives = rows.kept(_objective, *of_layout, tuple(names), missing)
        return ClusterObjective(layout, objectives, total, layout.prior(total.margins, pseudo_counts))

    def _chosen(self, places: Integers) -> Partitions:
        """Return the partitions that have rows at some places, with these alone."""
        from dask.delayed import delayed

        taken, parts, called = delayed(_taken, pure=False), [], []
        for number, (part, (begin, end)) in enumerate(zip(self._held.parts, self._bounds, strict=True)):
            start, stop = np.searchsorted(places, [begin, end])
            if stop > start:
                parts.append(taken(part, places[start:stop] - begin, self._firsts[number]))
                called.append(self._held.places[number])
        return replace(self._held, parts=tuple(parts), places=tuple(called))


@dataclass(frozen=True, eq=False)
class ClusterObjective(NumberObjective):
    """The objective of rows with numbers on workers, each partition of which is an objective there."""

    vectors: MixedLayout
    parts: Partitions
    total: _Parts
    prior: Floats

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(next(iter(self.total.margins.values())).sum())

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> Responsibilities:
        """Return what the E-step finds in all rows."""
        found: Responsibilities = self.parts.reduced(MixedObjective.expected_parts, tables, emissions)
        return found


@dataclass(frozen=True, eq=False)
class _Parts:
    """What partitions have.

    Attributes
    ----------
    rows, every : tuple of int
        How many rows count in each, and how many there are.
    margins : mapping of str to array
        How often each code of each column occurs.
    parts : tuple of MixedRows
        The rows, if they are wanted.
    """

    rows: tuple[int, ...]
    every: tuple[int, ...]
    margins: Mapping[str, Floats]
    parts: tuple[MixedRows, ...] = ()

    def __add__(self, other: _Parts) -> _Parts:
        totals = {name: found + other.margins[name] for name, found in self.margins.items()}
        counts = (*self.rows, *other.rows), (*self.every, *other.every)
        return _Parts(*counts, totals, (*self.parts, *other.parts))


class _Partition(NamedTuple):
    """The rows of a partition that count, None where there are none, and how many there are."""

    rows: MixedRows | None
    every: int


def _read(part: Stream, numbers: NumberColumns, weight: str | None) -> _Partition:
    parts = list(StreamedRows(numbers.columns, part, weight).parts())
    found = list(numbers.parts(parts))
    return _Partition(joined_rows(found) if found else None, sum(len(codes) for codes, _, _ in parts))


def _summary(part: _Partition, states: Mapping[str, int]) -> _Parts:
    rows = part.rows
    if rows is None:
        return _Parts((0,), (part.every,), {name: np.zeros(count + 1) for name, count in states.items()})
    return _Parts((len(rows.weights),), (part.every,), margins(rows.codes, rows.weights, states))


def _taken(part: _Partition, places: Integers, first: int) -> _Partition:
    assert part.rows is not None
    found = part.rows.taken(places)
    return _Partition(found._replace(first=found.first + first, codes=np.asfortranarray(found.codes)), part.every)


def _whole(part: _Partition) -> _Parts:
    assert part.rows is not None
    return _Parts((len(part.rows.weights),), (part.every,), {}, (part.rows,))


def _objective(
    part: _Partition,
    graph: LatentGraph,
    blocks: tuple[Block, ...],
    emissions: Mapping[tuple[str, ...], Emission],
    names: tuple[str, ...],
    missing: frozenset[str],
) -> MixedObjective:
    assert part.rows is not None
    layout = MixedLayout(ParameterLayout.of(graph), blocks, emissions)
    return MixedObjective.of(layout, names, part.rows, missing, 0.0)
