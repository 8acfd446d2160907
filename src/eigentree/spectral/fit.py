"""What was learned from one set of tables, with the shrinkage still open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.data.columns import Columns
from eigentree.engine.layout import filled
from eigentree.engine.node_operator import NodeOperator
from eigentree.engine.operators import TreeOperators
from eigentree.engine.passes import upward_pass

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.kernels.flat import FlatTree
    from eigentree.planning.views import ViewPlan

__all__ = ["LearnedEdge", "SpectralFit"]


@dataclass(frozen=True, eq=False)
class LearnedEdge:
    """The bond of one edge.

    Attributes
    ----------
    projection : array, shape (features of the inside view, rank)
        U_i: what the bond carries, in terms of products of features of the inside view's columns; at a leaf, and
        without scaling, in terms of joint states.
    solves : tuple of array, shape (features of the outside view, rank)
        For each outside view, its part of the (pseudo-)inverse, before shrinkage.
    singular_values : array, shape (at most rank + 1,)
        Those of the scaled (or plain) pair moment, largest first, with the one after the rank if there is one.
    damping : array, shape (rank,)
        What the shrinkage adds to each squared singular value, per unit of kappa: the number of features on both
        sides over the rows, about what noise adds. 0 for the direction that is kept.
    noise : float
        About the largest singular value that noise alone would have with this many rows; up to half as much again
        where the columns' features are noise themselves.
    """

    projection: Floats
    solves: tuple[Floats, ...]
    singular_values: Floats
    damping: Floats
    noise: float

    def factors(self, shrinkage: float) -> Floats:
        """Return what each direction of the bond is multiplied by: 1 unshrunk, 0 gone."""
        return _factors(self.squares, self.damping, shrinkage)

    @property
    def squares(self) -> Floats:
        """Squared singular values of the directions of the bond, 0 where there is no more signal."""
        squares = np.zeros(len(self.damping))
        known = self.singular_values[: len(squares)]
        squares[: len(known)] = known**2
        return squares


def _factors(squares: Floats, damping: Floats, shrinkage: float) -> Floats:
    """Return what directions with these squared singular values are multiplied by at some shrinkage."""
    shrunk = damping > 0
    added = np.zeros(len(damping))
    added[shrunk] = damping[shrunk] * shrinkage
    return np.divide(squares, squares + added, out=np.ones(len(squares)) * ~shrunk, where=squares > 0)


class _Unshrunk(NamedTuple):
    """The flat tree of a fit without shrinkage, and what shrinkage does to it.

    Attributes
    ----------
    flat : FlatTree
    place : array, shape (values,)
        Each value's place on the bonds.
    squares, damping : array, shape (all bonds,)
        Squared singular values, and what a unit of shrinkage adds to each.
    """

    flat: FlatTree
    place: Integers
    squares: Floats
    damping: Floats


@dataclass(frozen=True, eq=False)
class SpectralFit:
    """All that was learned from one set of tables; the shrinkage is still open.

    Attributes
    ----------
    plan : ViewPlan
    edges : tuple of LearnedEdge or None
        None at the root.
    cores : tuple of array
        One tensor per node, unshrunk: leaves (states, bond), inner nodes (children…, bond), the root
        (children…, 1).
    sums_to_one : bool
        Whether the operators add up to 1 at any shrinkage by themselves, as those do that were learned with
        variance scaling. Others are divided by what they add up to.
    """

    plan: ViewPlan
    edges: tuple[LearnedEdge | None, ...]
    cores: tuple[Floats, ...]
    sums_to_one: bool

    def operators(self, shrinkage: float) -> TreeOperators:
        """Return the operators at some shrinkage toward independence."""
        graph = self.plan.graph
        nodes = []
        for node, edge, core in zip(self.plan.nodes, self.edges, self.cores, strict=True):
            array = core / self._total(shrinkage) if edge is None else core * edge.factors(shrinkage)
            columns = (graph.column(node.observed),) if node.observed is not None else ()
            nodes.append(NodeOperator.from_dense(array, columns, node.children))
        return TreeOperators(tuple(nodes), Columns.of(graph).states)

    def flat(self, shrinkage: float) -> FlatTree:
        """Return the flat tree of `operators` at some shrinkage, without building them anew."""
        flat, total = self._shrunk(shrinkage), self._total(shrinkage)
        if total == 1:
            return flat
        root = flat.nodes[0]
        values = flat.values.copy()
        values[: (root.stop_entry - root.first_entry) * root.width] /= total
        return filled(flat, values)

    def _shrunk(self, shrinkage: float) -> FlatTree:
        unshrunk = self._unshrunk
        factors = _factors(unshrunk.squares, unshrunk.damping, shrinkage)
        return filled(unshrunk.flat, unshrunk.flat.values * factors[unshrunk.place])

    def _total(self, shrinkage: float) -> float:
        """Return what the learned operators add up to, or 1 where that is nothing to divide by."""
        if self.sums_to_one:
            return 1.0
        log_size, sign = upward_pass(self._shrunk(shrinkage), Columns.of(self.plan.graph).missing(1))
        return math.exp(log_size[0]) if sign[0] > 0 else 1.0

    @cached_property
    def _unshrunk(self) -> _Unshrunk:
        layout = self.plan.derived(_flat_layout)
        values = []
        for node, core in zip(self.plan.nodes, self.cores, strict=True):
            # A leaf's last value is the sum over its states, for a missing cell.
            values.append(core if node.observed is None else np.vstack([core, core.sum(axis=0)]).T)
        return _Unshrunk(
            filled(layout.flat, np.concatenate([value.ravel() for value in values])),
            layout.place,
            np.concatenate([np.ones(1) if edge is None else edge.squares for edge in self.edges]),
            np.concatenate([np.zeros(1) if edge is None else edge.damping for edge in self.edges]),
        )


class _FlatLayout(NamedTuple):
    """A flat tree with all entries of every operator of a plan, and each value's place on the bonds."""

    flat: FlatTree
    place: Integers


def _flat_layout(plan: ViewPlan) -> _FlatLayout:
    states = Columns.of(plan.graph).states
    nodes = []
    for node in plan.nodes:
        columns = (plan.graph.column(node.observed),) if node.observed is not None else ()
        shape = [*(states[c] for c in columns), *(plan.nodes[child].rank for child in node.children), node.rank]
        nodes.append(NodeOperator.from_dense(np.ones(shape), columns, node.children))
    flat = TreeOperators(tuple(nodes), states).flat
    bond, entries = flat.nodes.bond, flat.nodes.stop_entry - flat.nodes.first_entry
    place = np.repeat(np.cumsum(bond) - bond, entries) + flat.entry_parent
    return _FlatLayout(flat, np.repeat(place, np.repeat(flat.nodes.width, entries)))
