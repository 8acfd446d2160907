"""The joint tables of every variable with every column of a network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from eigentree.arrays import Floats
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["PairTables"]


class PairTables:
    """The joint tables of the columns of a network with every variable, hidden or not.

    Parameters
    ----------
    network : LatentNetwork
    beside : str, optional
        A variable that stands in every clique, and stays as the last axis of each table.

    Attributes
    ----------
    starts : array, shape (columns,)
        The first row of each column in the tables.
    """

    def __init__(self, network: LatentNetwork, beside: str | None = None) -> None:
        self._network = network
        self._beside = () if beside is None else (beside,)
        counts = [network.graph.states[name] for name in network.graph.observed]
        self.starts = np.cumsum([0, *counts[:-1]])

    def tables(self, names: Collection[str] | None = None) -> Iterator[tuple[str, Floats]]:
        """Yield each variable, and its joint table with each state of each column, shape (rows, states…).

        Rows of a column that is in another part of the graph, and so independent, are zero. Those of the variable
        itself, if it is a column, hold its distribution on their diagonal.
        """
        graph = self._network.graph
        # All hidden variables as columns, each state of the wanted one as evidence.
        model = self._network.reveal(graph.hidden)
        places = [model.columns.position(name) for name in graph.observed]
        part = _parts(graph)
        widths = [graph.states[name] for name in graph.observed]
        own = [name for name in graph.names if name not in self._beside and (names is None or name in names)]
        families = [(name, *self._beside) for name in own]
        for wanted, shares in zip(families, self._network.clique_marginals(families), strict=True):
            name, shape = wanted[0], shares.shape
            codes = model.columns.missing(math.prod(shape))
            codes[:, [model.columns.position(each) for each in wanted]] = list(np.ndindex(*shape))
            found = np.hstack(model.operators.tables(codes, places))
            if name in graph.observed:
                start = self.starts[graph.column(name)]
                found[:, start : start + shape[0]] = np.repeat(np.eye(shape[0]), len(codes) // shape[0], axis=0)
            totals = np.repeat(np.add.reduceat(found, self.starts, axis=1), widths, axis=1)
            joint = np.divide(found, totals, out=np.zeros_like(found), where=totals > 0)
            joint *= shares.reshape(-1, 1)
            joint[:, np.repeat([part[each] != part[name] for each in graph.observed], widths)] = 0.0
            yield name, joint.T.reshape(-1, *shape)


def _parts(graph: LatentGraph) -> dict[str, str]:
    """Return, for each variable, the first one of the part of the graph that edges join it to."""
    part: dict[str, str] = {}
    for first in graph.names:
        stack = [first]
        while stack:
            name = stack.pop()
            if name not in part:
                part[name] = first
                stack += graph.neighbors(name)
    return part
