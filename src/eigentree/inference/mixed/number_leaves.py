"""The leaves of a graph that are numbers, and the discrete graph in which each row of them is a line.

A number that is known says only how probable it is in each state of its parents. So for some given rows, all
numbers below the same parents are one column with a state for each different row of them, a *line*, whose
conditional probability table holds these likelihoods (virtual evidence, Pearl 1988): inference and the E-step stay
discrete.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.errors import GraphError, naming
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.templates import apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.emissions.base import Emission

__all__ = [
    "LEAST",
    "Block",
    "LineGraph",
    "block_lines",
    "blocks_of",
    "line_graph",
    "lines_of_block",
    "without_numbers",
]

LEAST = 1e-290
"""The least likelihood of a line relative to its best state: a row whose blocks contradict each other stays
possible, and a product of it with a probability stays a normal number."""


@dataclass(frozen=True)
class Block:
    """The numbers below the same parents: `groups` of columns, each group with an emission of its own."""

    parents: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All its columns."""
        return tuple(name for group in self.groups for name in group)

    def states(self, graph: LatentGraph) -> int:
        """Return the number of joint states of its parents."""
        return math.prod(graph.states[name] for name in self.parents)


class LineGraph(NamedTuple):
    """A discrete graph without numbers; `lines` names the column of each block.

    `copies` names, for each block, a column that shows the joint state of its parents and is never known; empty
    where there are none.
    """

    graph: LatentGraph
    lines: tuple[str, ...]
    copies: tuple[str, ...]


def blocks_of(graph: LatentGraph, groups: Iterable[Sequence[str]]) -> tuple[Block, ...]:
    """Return the blocks of some groups of number columns, in the order of their first columns.

    Raises
    ------
    GraphError
        When a number is no leaf, members of a group have different parents, or the graph is undirected.
    """
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for group in groups:
        for name in group:
            if not graph.directed:
                raise GraphError(
                    f"{name!r} is a number, which needs a directed graph; direct the edges away from it"
                )
            children = [child for child in graph.neighbors(name) if name in graph.parents(child)]
            if children:
                raise GraphError(
                    f"{name!r} is a number, and so a leaf, but {children[0]!r} depends on it; turn the edge "
                    f"around, or make labels of the column"
                )
        parents = {graph.parents(name) for name in group}
        if len(parents) > 1:
            raise GraphError(f"{', '.join(group)} share an emission, so they need the same parents")
        found.setdefault(parents.pop(), []).append(tuple(group))
    order = sorted(found, key=lambda parents: graph.column(found[parents][0][0]))
    return tuple(Block(parents, tuple(found[parents])) for parents in order)


def without_numbers(graph: LatentGraph, blocks: Sequence[Block]) -> list[str]:
    """Return the observed variables that are no numbers."""
    numbers = {name for block in blocks for name in block.columns}
    return [name for name in graph.observed if name not in numbers]


def line_graph(graph: LatentGraph, blocks: tuple[Block, ...], lines: tuple[int, ...], copies: bool) -> LineGraph:
    """Return the graph in which each block is one column with so many states; with or without copies of parents."""
    return graph.derived(_line_graph, blocks, lines, copies)


def _line_graph(graph: LatentGraph, blocks: tuple[Block, ...], lines: tuple[int, ...], copies: bool) -> LineGraph:
    numbers = {name for block in blocks for name in block.columns}
    states = {name: count for name, count in graph.states.items() if name not in numbers}
    edges = [edge for edge in graph.edges if edge[1] not in numbers]
    shown = apart([f"line {place}" for place in range(len(blocks))], graph.states)
    copied = apart([f"state {place}" for place in range(len(blocks))], graph.states) if copies else []
    for block, name, count in zip(blocks, shown, lines, strict=True):
        states[name] = count
        edges += [(parent, name) for parent in block.parents]
    for block, name in zip(blocks, copied, strict=False):
        states[name] = block.states(graph)
        edges += [(parent, name) for parent in block.parents]
    made = LatentGraph(states, edges, [name for name in graph.hidden if name in states])
    return LineGraph(made, tuple(shown), tuple(copied))


def lines_of_block(values: Floats) -> tuple[Floats, Integers]:
    """Return the different rows of some numbers, and which of them each row is; equal rows are one line."""
    if values.shape[1] == 1:
        # NaN is equal to itself here.
        found, place = np.unique(values[:, 0], return_inverse=True)
        return found[:, None], place.astype(np.int64)
    # Zero has two signs, and NaN many forms.
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    rows = np.ascontiguousarray(plain).view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).ravel()
    _, first, place = np.unique(rows, return_index=True, return_inverse=True)
    return values[first], place.astype(np.int64)


def block_lines(
    block: Block, emissions: Mapping[tuple[str, ...], Emission], values: Mapping[str, Floats]
) -> Floats:
    """Return the log density of each row of numbers in each joint state of the parents, shape (rows, states)."""
    total: Floats | float = 0.0
    for group in block.groups:
        with naming(group):
            total = total + emissions[group].log_prob(np.stack([values[name] for name in group], axis=1))
    return np.asarray(total)
