"""The joint tables of every variable with every column, by passes up and down the cliques of a network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from eigentree.inference.tensors.named_tables import flat_index

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["PairTables"]


class _Stack(NamedTuple):
    """The joint tables of some columns with the same variables.

    Attributes
    ----------
    rows : array, shape (n,)
        Which state of which column each row is of.
    table : array, shape (n, joint states of the variables)
    """

    rows: Integers
    table: Floats


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
        graph, tree = network.graph, network.tree
        self._states = graph.states
        self._beside = () if beside is None else (beside,)
        self._cliques, self._parents = tree.cliques, tree.clique_parents
        self._beliefs = network.clique_marginals(tree.cliques)
        counts = [graph.states[name] for name in graph.observed]
        self.starts = np.cumsum([0, *counts[:-1]])
        self._rows = sum(counts)
        self._shared = [
            tuple(name for name in clique if parent >= 0 and name in tree.cliques[parent])
            for clique, parent in zip(tree.cliques, tree.clique_parents, strict=True)
        ]
        self._children: list[list[int]] = [[] for _ in tree.cliques]
        for clique, parent in enumerate(tree.clique_parents):
            if parent >= 0:
                self._children[parent].append(clique)
        # Parents stand before their children: what a clique does not share with its parent is new in it.
        self._new = [
            [name for name in clique if name not in shared]
            for clique, shared in zip(tree.cliques, self._shared, strict=True)
        ]
        self._places = dict(zip(graph.observed, self.starts, strict=True))

    def tables(self, names: Collection[str] | None = None) -> Iterator[tuple[str, Floats]]:
        """Yield each variable, and its joint table with each state of each column, shape (rows, states…).

        Rows of a column that is in another part of the graph, and so independent, are zero. Those of the variable
        itself, if it is a column, hold its distribution on their diagonal.

        Parameters
        ----------
        names : collection of str, optional
            The variables wanted; by default all.
        """
        below = self._upward()
        wanted_in = self._wanted(self._states if names is None else names)
        above: dict[int, _Stack] = {}
        for clique, children in enumerate(self._children):
            if not wanted_in[clique]:
                continue
            around = [(self._shared[child], below[child]) for child in children]
            if clique in above:
                around.append((self._shared[clique], above.pop(clique)))
            for name in self._new[clique]:
                if name not in self._beside and (names is None or name in names):
                    wanted = (name, *self._beside)
                    yield name, self._spread(self._gathered(clique, around, wanted), wanted)
            on = [child for child in children if wanted_in[child]]
            sent = {shared: self._gathered(clique, around, shared) for shared in {self._shared[c] for c in on}}
            for child in on:
                stack = sent[self._shared[child]]
                other = ~np.isin(stack.rows, below[child].rows)
                above[child] = _Stack(stack.rows[other], stack.table[other])

    def _wanted(self, names: Collection[str]) -> list[bool]:
        """Return of each clique whether some of the names are new in it or below it."""
        wanted_in = [any(name in names for name in new) for new in self._new]
        for clique in reversed(range(len(wanted_in))):
            if wanted_in[clique] and self._parents[clique] >= 0:
                wanted_in[self._parents[clique]] = True
        return wanted_in

    def _upward(self) -> list[_Stack]:
        """Return the columns that are new in a clique or below it, with what it shares with its parent."""
        below: list[Any] = [None] * len(self._cliques)
        for clique in reversed(range(len(self._cliques))):
            around = [(self._shared[child], below[child]) for child in self._children[clique]]
            below[clique] = self._gathered(clique, around, self._shared[clique])
        return below

    def _gathered(
        self, clique: int, around: Sequence[tuple[tuple[str, ...], _Stack]], wanted: tuple[str, ...]
    ) -> _Stack:
        """Return the columns that reach a clique through its neighbours, and those new in it, with some names."""
        rows: list[Integers] = []
        tables: list[Floats] = []
        for name in self._new[clique]:
            if name in self._places:
                rows.append(self._places[name] + np.arange(self._states[name]))
                tables.append(self._conditional(clique, (name,), wanted, joint=True).toarray())
        groups: dict[tuple[str, ...], list[_Stack]] = {}
        for known, stack in around:
            groups.setdefault(known, []).append(stack)
        for known, stacks in groups.items():
            together = np.concatenate([stack.table for stack in stacks])
            rows += [stack.rows for stack in stacks]
            tables.append(together if known == wanted else together @ self._conditional(clique, known, wanted))
        size = math.prod(self._states[name] for name in wanted)
        return _Stack(
            np.concatenate([np.zeros(0, np.int64), *rows]), np.concatenate([np.zeros((0, size)), *tables])
        )

    def _conditional(
        self, clique: int, known: tuple[str, ...], wanted: tuple[str, ...], joint: bool = False
    ) -> sparse.csr_array:
        """Return P(wanted | known), or P(known, wanted), of names in one clique, some of them in both."""
        belief, names = self._beliefs[clique], self._cliques[clique]
        rows, columns = (flat_index(belief.shape, names, part) for part in (known, wanted))
        sizes = tuple(math.prod(self._states[name] for name in part) for part in (known, wanted))
        share = belief.ravel()
        if not joint:
            given = np.bincount(rows, share, sizes[0])[rows]
            share = np.divide(share, given, out=np.zeros(belief.size), where=given > 0)
        return sparse.csr_array((share, (rows, columns)), shape=sizes)

    def _spread(self, stack: _Stack, wanted: tuple[str, ...]) -> Floats:
        """Return a stack with all rows, in their order, and an axis per name."""
        table = np.zeros((self._rows, stack.table.shape[1]))
        table[stack.rows] = stack.table
        return table.reshape(self._rows, *(self._states[name] for name in wanted))
