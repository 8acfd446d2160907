"""The joint tables of one variable with each other one, by a walk outward along the cliques of a network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from eigentree.engine.tables import flat_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats
    from eigentree.exact.network import LatentNetwork

__all__ = ["PairTables"]


class PairTables:
    """What any two variables of a network have to do with each other, hidden or not.

    Parameters
    ----------
    network : LatentNetwork
    beside : str, optional
        A variable that stands in every clique, and stays as the last axis of each table.
    """

    def __init__(self, network: LatentNetwork, beside: str | None = None) -> None:
        tree = network.tree
        self._states = network.graph.states
        self._beside = () if beside is None else (beside,)
        self._cliques = tree.cliques
        self._beliefs = network.clique_marginals(tree.cliques)
        self._around: list[list[int]] = [[] for _ in tree.cliques]
        for clique, parent in enumerate(tree.clique_parents):
            if parent >= 0:
                self._around[clique].append(parent)
                self._around[parent].append(clique)
        # In a tree of hidden variables, most walks pass the same cliques in the same directions.
        self._passages: dict[Any, Any] = {}

    def of(self, name: str) -> dict[str, Floats]:
        """Return the joint table of a variable and each other one of its part of the graph, the variable first.

        Of variables that are not here, it is independent.
        """
        start = next(place for place, clique in enumerate(self._cliques) if name in clique)
        shape = (self._states[name],)
        margin = np.bincount(
            flat_index(self._beliefs[start].shape, self._cliques[start], (name,)),
            self._beliefs[start].ravel(),
            *shape,
        )
        found: dict[str, Floats] = {}
        for clique, known, table in self._walk(start, (name,), np.diag(margin)):
            for other in self._cliques[clique]:
                if other != name and other not in found and other not in self._beside:
                    wanted = (other, *self._beside)
                    pair = table @ self._passage(clique, known, wanted)
                    found[other] = pair.reshape(*shape, *(self._states[each] for each in wanted))
        return found

    def _walk(
        self, start: int, known: tuple[str, ...], table: Floats
    ) -> Iterator[tuple[int, tuple[str, ...], Floats]]:
        """Yield each clique, the names by which it is entered, and the table of the variable with these."""
        stack = [(start, -1, known, table)]
        while stack:
            clique, before, known, table = stack.pop()
            yield clique, known, table
            for other in self._around[clique]:
                if other != before:
                    members = frozenset(self._cliques[other])
                    shared = tuple(each for each in self._cliques[clique] if each in members)
                    stack.append((other, clique, shared, table @ self._passage(clique, known, shared)))

    def _passage(self, clique: int, known: tuple[str, ...], wanted: tuple[str, ...]) -> Any:
        """Return P(wanted | known) of names in one clique, some of them in both, as a sparse matrix."""
        key = clique, known, wanted
        if key not in self._passages:
            belief, names = self._beliefs[clique], self._cliques[clique]
            rows, columns = (flat_index(belief.shape, names, part) for part in (known, wanted))
            sizes = [math.prod(self._states[name] for name in part) for part in (known, wanted)]
            given = np.bincount(rows, belief.ravel(), sizes[0])[rows]
            share = np.divide(belief.ravel(), given, out=np.zeros(belief.size), where=given > 0)
            self._passages[key] = sparse.csr_array((share, (rows, columns)), shape=sizes)
        return self._passages[key]
