"""All tables of the networks on one graph as one vector of distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.optimize.objective import SimplexVector
from eigentree.errors import NetworkError
from eigentree.graphs.elimination import check_families
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.tensors.named_tables import learnable_tables, table_axes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["ParameterLayout"]

EVEN_PSEUDO_COUNTS = 0.25
"""So many are spread evenly: a column's own states say nothing of those that it has not shown yet."""


@dataclass(frozen=True, eq=False)
class ParameterLayout(SimplexVector):
    """Where each parameter of each table of a graph stands in one vector."""

    graph: LatentGraph
    axes: Mapping[TableKey, tuple[str, ...]]

    @classmethod
    def of(cls, graph: LatentGraph) -> ParameterLayout:
        """Return the layout for a graph, which remembers it."""
        return graph.derived(_layout)

    @cached_property
    def shapes(self) -> dict[TableKey, tuple[int, ...]]:
        """The shape of each table."""
        return {key: tuple(self.graph.states[name] for name in axes) for key, axes in self.axes.items()}

    @cached_property
    def starts(self) -> dict[TableKey, int]:
        """Where each table starts in the vector."""
        ends = np.cumsum([0, *(math.prod(shape) for shape in self.shapes.values())])
        return dict(zip(self.axes, ends[:-1].tolist(), strict=True))

    @cached_property
    def size(self) -> int:
        """The length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def lengths(self) -> Integers:
        """How many parameters each distribution has; distributions follow each other in the vector."""
        lengths: list[int] = []
        for key, shape in self.shapes.items():
            length = math.prod(shape[len(shape) - len(key) :])
            lengths += [length] * (math.prod(shape) // length)
        return np.array(lengths, np.int64)

    @cached_property
    def learnable(self) -> tuple[TableKey, ...]:
        """The tables that the probability of a row depends on: of observed variables and their ancestors."""
        return learnable_tables(self.graph, self.axes)

    @cached_property
    def learned(self) -> Booleans:
        """Which parameters rows can say anything about."""
        useful = set(self.learnable)
        parts = [np.full(math.prod(self.shapes[key]), key in useful) for key in self.axes]
        return np.concatenate(parts)

    def vector(self, network: LatentNetwork) -> Floats:
        """Return the parameters of a network.

        Raises `NetworkError` when it belongs to another graph, or has its tables on another tree than the graph's
        own.
        """
        if network.graph != self.graph:
            raise NetworkError("the network belongs to another graph; build it on the same one")
        if not self.graph.directed and table_axes(self.graph, network.tree) != self.axes:
            raise NetworkError("the network has its tables on another junction tree; build it without a tree")
        tables = {(key,) if isinstance(key, str) else key: table for key, table in network.tables.items()}
        return np.concatenate([tables[key].ravel() for key in self.axes])

    def network(self, parameters: Floats) -> LatentNetwork:
        """Return the network that has these parameters."""
        return LatentNetwork(self.graph, self.tables(parameters))

    def tables(self, parameters: Floats) -> dict[TableKey, Floats]:
        """Return the tables of a vector of parameters, as views of it."""
        return {
            key: parameters[start : start + math.prod(self.shapes[key])].reshape(self.shapes[key])
            for key, start in self.starts.items()
        }

    def orders(self, parameters: Floats) -> dict[str, Integers]:
        """Return the order of the states of hidden variables that fits constraints best, where it is another."""
        return {}

    def prior(self, margins: Mapping[str, Floats], pseudo_counts: float) -> Floats:
        """Return the pseudo-count of each parameter, on average as many as given; none where nothing is learned.

        What is not known of a column in one class is best guessed from the column in all rows. So what goes beyond
        `EVEN_PSEUDO_COUNTS` is spread over the states of an observed variable as they are among the rows, whose
        `margins` are given; over those of a hidden one evenly.
        """
        even, parts = min(pseudo_counts, EVEN_PSEUDO_COUNTS), []
        for key, shape in self.shapes.items():
            usual = np.ones(())
            for name in key:
                counts = np.ones(self.graph.states[name]) if name in self.graph.hidden else margins[name][:-1]
                shares = counts if counts.sum() > 0 else np.ones_like(counts)
                usual = np.multiply.outer(usual, shares / shares.sum())
            spread = even + (pseudo_counts - even) * usual.size * usual
            parts.append(np.tile(spread.ravel(), math.prod(shape) // usual.size))
        return np.where(self.learned, np.concatenate(parts), 0.0)


def _layout(graph: LatentGraph) -> ParameterLayout:
    check_families(graph)
    return ParameterLayout(graph, table_axes(graph))
