"""Rows of categories and numbers, and how the numbers of a stretch of rows are coded as lines for the E-step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.em.estep.expectation import CodedRows, Expectation
from eigentree.em.estep.unique_rows import DistinctRows, sample_weights
from eigentree.inference.mixed.number_leaves import Block, line_graph, lines_of_block, without_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.em.parameters import ParameterLayout
    from eigentree.emissions.base import Emission
    from eigentree.graphs.graph import LatentGraph

__all__ = ["STRETCH", "MixedRows", "Stretch", "distinct_rows"]

STRETCH = 2**15
"""Rows of one E-step: what their lines take stays within tens of megabytes, and the overhead of a call is small."""


class MixedRows(NamedTuple):
    """Rows, none of weight zero: codes of all columns, and values of the number columns, NaN where missing.

    `first` is the number by which the user knows each row.
    """

    codes: Codes
    values: Floats
    weights: Floats
    first: Integers

    @classmethod
    def of(cls, codes: Codes, values: Floats, weights: Floats) -> MixedRows:
        """Return the rows that count."""
        return cls(codes, values, weights, np.arange(len(codes))).weighing(weights)

    def weighing(self, weights: Floats) -> MixedRows:
        """Return the rows with other weights, without those of none."""
        kept = np.flatnonzero(weights > 0)
        return MixedRows(np.asfortranarray(self.codes[kept]), self.values[kept], weights[kept], self.first[kept])

    def part(self, start: int, stop: int) -> MixedRows:
        """Return consecutive rows."""
        return self.taken(slice(start, stop))

    def taken(self, own: Integers | slice) -> MixedRows:
        """Return some of the rows."""
        return MixedRows(self.codes[own], self.values[own], self.weights[own], self.first[own])

    def sampled(self, size: int, random: np.random.Generator) -> tuple[MixedRows, float]:
        """Return about so many rows, with their share of the weight, and how many rows were drawn."""
        weights, drawn = sample_weights(self.weights, size, random)
        return self.weighing(weights), drawn

    def distinct(self) -> MixedRows:
        """Return the rows that differ, sorted by their cells, with their weights added up.

        A fit with weights is then bit-identical to that of rows that are repeated so often.
        """
        first, place = distinct_rows(self.codes, self.values)
        return self.taken(first)._replace(
            codes=np.asfortranarray(self.codes[first]), weights=np.bincount(place, self.weights).astype(np.float64)
        )

    def by_value(self) -> MixedRows:
        """Return the rows sorted by their cells: the order of rows decides nothing."""
        keys = [*self.codes.T, *np.where(np.isnan(self.values), np.inf, self.values).T]
        order = np.lexsort(keys[::-1])
        return MixedRows(
            np.asfortranarray(self.codes[order]), self.values[order], self.weights[order], self.first[order]
        )


def distinct_rows(codes: Codes, values: Floats) -> tuple[Integers, Integers]:
    """Return the first of the rows that are equal, sorted by their cells, and which of these each row is like."""
    key = np.zeros(len(codes), np.int64)
    for column in (*values.T, *codes.T):
        # NaN is equal to itself here, and -0 to 0.
        kinds, own = np.unique(column, return_inverse=True)
        kept, key = np.unique(key * len(kinds) + own, return_inverse=True)
        if len(kept) == len(key):
            break
    _, first, places = np.unique(key, return_index=True, return_inverse=True)
    return first, places


@dataclass(frozen=True, eq=False)
class Stretch:
    """Some rows, whose numbers are coded as lines.

    Attributes
    ----------
    expectation : Expectation
        Of the graph in which each block is one column.
    coded : CodedRows
    weights : array, shape (rows,)
    places : tuple of array, shape (rows,)
        The line of each row in each block.
    line_weights : tuple of array, shape (lines,)
    features : mapping of tuple of str to what an emission makes of the lines' cells
    names : tuple of str
        The columns of the lines.
    blocks : tuple of Block
        Those of the graph, or parts of them that have fewer lines by themselves.
    first : array
        Of each row that differs, the number of the first that is like it.
    """

    expectation: Expectation
    coded: CodedRows
    weights: Floats
    places: tuple[Integers, ...]
    line_weights: tuple[Floats, ...]
    features: Mapping[tuple[str, ...], Any]
    names: tuple[str, ...]
    blocks: tuple[Block, ...]
    first: Integers

    @classmethod
    def of(
        cls,
        graph: LatentGraph,
        blocks: tuple[Block, ...],
        emissions: Mapping[tuple[str, ...], Emission],
        numbers: Sequence[str],
        missing: frozenset[str],
        rows: MixedRows,
    ) -> Stretch:
        """Return some rows of a graph, given the names of the number columns in their order."""
        column = {name: place for place, name in enumerate(numbers)}
        features: dict[tuple[str, ...], Any] = {}
        parts = [part for block in blocks for part in _fewest_lines(block, rows.values, column)]
        for block, (cells, _) in parts:
            start = 0
            for group in block.groups:
                features[group] = emissions[group].features(cells[:, start : start + len(group)])
                start += len(group)
        blocks = tuple(block for block, _ in parts)
        places = [place for _, (_, place) in parts]
        counts = [len(cells) for _, (cells, _) in parts]
        # Few different sizes, so that few different graphs are kept: no row reads the lines beyond.
        sizes = tuple(1 << (count - 1).bit_length() for count in counts)
        made = line_graph(graph, blocks, sizes, copies=False)
        kept = without_numbers(graph, blocks)
        states = [made.graph.states[name] for name in made.graph.observed]
        codes = np.empty((len(rows.codes), len(states)), np.min_scalar_type(max(states)), order="F")
        for name in kept:
            codes[:, made.graph.column(name)] = rows.codes[:, graph.column(name)]
        for name, place in zip(made.lines, places, strict=True):
            codes[:, made.graph.column(name)] = place
        distinct = DistinctRows.of(codes, states, rows.weights)
        expectation = Expectation.of(made.graph, missing & set(kept), len(distinct.codes))
        totals = [np.bincount(place, rows.weights, count) for place, count in zip(places, counts, strict=True)]
        return cls(
            expectation,
            expectation.coded(distinct.codes, distinct.weights, often=True),
            rows.weights,
            tuple(places),
            tuple(np.asarray(total, np.float64) for total in totals),
            features,
            made.lines,
            blocks,
            distinct.first,
        )

    @property
    def layout(self) -> ParameterLayout:
        """Where the tables of its graph stand in one vector."""
        return self.expectation.layout


def _fewest_lines(
    block: Block, values: Floats, column: Mapping[str, int]
) -> list[tuple[Block, tuple[Floats, Integers]]]:
    """Return a block with its lines, or each of its groups by itself where they have fewer lines together."""

    def lines(part: Block) -> tuple[Floats, Integers]:
        return lines_of_block(values[:, [column[name] for name in part.columns]])

    whole = lines(block)
    parts = [Block(block.parents, (group,)) for group in block.groups]
    if len(parts) == 1:
        return [(block, whole)]
    each = [lines(part) for part in parts]
    if sum(len(cells) for cells, _ in each) < len(whole[0]):
        return list(zip(parts, each, strict=True))
    return [(block, whole)]
