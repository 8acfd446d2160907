"""Rows with numbers on Dask workers: parameters go out in every iteration, and one sum of statistics comes back.

Each partition is read once and kept by the worker that has it. Sums are in the order of the partitions, the same
each time; other partitions of the same rows change them by rounding, as they do expected counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.streams.encoded_stream import StreamedRows
from eigentree.em.estep.unique_rows import margins
from eigentree.em.mixed.mixed_objective import MixedLayout, MixedObjective, NumberObjective, Responsibilities
from eigentree.em.mixed.mixed_rows import MixedRows
from eigentree.em.out_of_core.dask_workers import ClusterParts, PartSummary
from eigentree.em.out_of_core.number_rows import NumberRows, joined_rows
from eigentree.em.parameters import ParameterLayout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.streams.partitions import Partitions
    from eigentree.data.streams.row_batches import Stream
    from eigentree.em.mixed.number_columns import NumberColumns
    from eigentree.emissions.base import Emission
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.mixed.number_leaves import Block

__all__ = ["ClusterNumbers"]


class ClusterNumbers(ClusterParts, NumberRows):
    """The rows with numbers of partitions, which workers keep; `weight` names the column that weighs them."""

    def __init__(self, numbers: NumberColumns, partitions: Partitions, weight: str | None = None) -> None:
        self.numbers = numbers
        held = partitions.kept(_read, numbers, weight)
        super().__init__(held, held.reduced(_summary, numbers.states))

    def taken(self, places: Integers) -> MixedRows:
        """Return the rows at some places among all, which rise."""
        found: list[MixedRows] = self._chosen(places, _taken).reduced(_alone)
        return joined_rows(found)

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
        rows = self._chosen(np.arange(self.count) if places is None else places, _taken)
        total: PartSummary = rows.reduced(_summary, self.numbers.states)
        of_layout = (layout.graph, layout.blocks, dict(layout.emissions))
        objectives = rows.kept(_objective, *of_layout, tuple(names), missing)
        return ClusterObjective(layout, objectives, total, layout.prior(total.margins, pseudo_counts))


@dataclass(frozen=True, eq=False)
class ClusterObjective(NumberObjective):
    """The objective of rows with numbers on workers, each partition of which is an objective there."""

    layout: MixedLayout
    parts: Partitions
    total: PartSummary
    prior: Floats

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(next(iter(self.total.margins.values())).sum())

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> Responsibilities:
        """Return what the E-step finds in all rows."""
        found: Responsibilities = self.parts.reduced(MixedObjective.expected_parts, tables, emissions)
        return found


class _Partition(NamedTuple):
    """The rows of a partition that count, and how many there are."""

    rows: MixedRows
    every: int


def _read(part: Stream, numbers: NumberColumns, weight: str | None) -> _Partition:
    parts = list(StreamedRows(numbers.columns, part, weight).parts())
    codes = np.zeros((0, len(numbers.columns.names)), np.uint8)
    none = MixedRows.of(codes, np.zeros((0, len(numbers.names))), np.zeros(0))
    return _Partition(joined_rows([none, *numbers.parts(parts)]), sum(len(codes) for codes, _, _ in parts))


def _summary(part: _Partition, states: Mapping[str, int]) -> PartSummary:
    rows = part.rows
    return PartSummary((len(rows.weights),), (part.every,), margins(rows.codes, rows.weights, states))


def _taken(part: _Partition, places: Integers, first: int, _start: int) -> _Partition:
    found = part.rows.taken(places)
    return _Partition(found._replace(first=found.first + first, codes=np.asfortranarray(found.codes)), part.every)


def _alone(part: _Partition) -> list[MixedRows]:
    return [part.rows]


def _objective(
    part: _Partition,
    graph: LatentGraph,
    blocks: tuple[Block, ...],
    emissions: Mapping[tuple[str, ...], Emission],
    names: tuple[str, ...],
    missing: frozenset[str],
) -> MixedObjective:
    layout = MixedLayout(ParameterLayout.of(graph), blocks, emissions)
    return MixedObjective.of(layout, names, part.rows, missing, 0.0)
