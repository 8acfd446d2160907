r"""Operators from counts: Algorithm 1 of the paper, in a form that is statistically stronger.

First the leaves. A leaf's edge has the one-hot vector of its column on one side and those of its outside views on
the other, :math:`\phi` and :math:`\psi` with means :math:`p` and :math:`q`. With variance scaling, the direction
that every distribution shares is taken out exactly instead of being estimated: the singular vectors are those of
the scaled covariance

.. math:: \mathrm{diag}(a)\,(E[\phi\psi^T] - p q^T)\,\mathrm{diag}(b) = u\,s\,v^T, \quad
          a = (p + c/N)^{-1/2}, \quad b = (q + c/N)^{-1/2},

and the bond carries the constant 1 and the centred features :math:`\chi = u^T \mathrm{diag}(a)(\phi - p)`.

All that a column says about the others goes through its leaf's bond. So every other table is turned into the joint
moment of its columns' features, which loses nothing but noise: three columns of four states that each see two
hidden ones have 8 features, not 64 cells. The other edges are learned from these moments in the same way, without
scaling, since features have variance 1 already; and the operator of a node with children :math:`\alpha, \beta` is
:math:`E[\chi_\alpha \otimes \chi_\beta \otimes W^T\psi]` with :math:`W = [\,1,\ v\,s^{-1}\,]` centred (Eq. 22-24).
So the learned model sums to one exactly, a missing cell is exact, and infinite shrinkage is exactly the product of
the columns' marginals. Without scaling every column keeps its one-hot vector, and it is the paper's Eq. 22.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from eigentree.counting.counts import DENSE_CELLS, ColumnFeatures, Counts, JointTable, MomentSource
from eigentree.engine.layout import filled
from eigentree.engine.operators import NodeOperator, TreeOperators
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.kernels.flat import FlatTree
    from eigentree.spectral.views import ViewPlan
    from eigentree.structures.graph import LatentGraph

    Floats = NDArray[np.float64]

SCALING_ROWS = 20.0
"""c of the variance scaling: how many rows' worth of counts steady a rare state."""

NO_SIGNAL = 1e-10
"""Singular values below this part of the largest are rounding, and are not inverted."""

UNEVEN = 1e-6
"""By how much the sum of a joint distribution may differ from 1."""

BATCH_CELLS = 2**20
"""Cells of the tables that are worked on together."""

RANDOMISED_FROM = 400
"""Matrices with both sides larger than this get a randomised SVD: only a few directions are wanted."""


@dataclass(frozen=True, eq=False)
class ExactTables:
    """The tables of a source that knows the population: no noise, infinitely many rows."""

    source: MomentSource
    graph: LatentGraph
    rows: float = math.inf

    def probability(self, columns: tuple[int, ...]) -> JointTable:
        """Return the joint distribution of some columns, as the source gives it."""
        names = [self.graph.observed[column] for column in columns]
        shape = tuple(self.graph.states[name] for name in names)
        array = np.asarray(self.source.joint(names), np.float64)
        if array.shape != shape:
            raise DataError(f"joint({names}) of the moments has the shape {array.shape}, but {shape} is expected")
        total = float(array.sum())
        # Also where a cell is missing or infinite, which no comparison is true of.
        if not abs(total - 1) < UNEVEN:
            raise DataError(f"joint({names}) of the moments adds up to {total:.6g}; it must be a distribution")
        return JointTable.from_dense(columns, array)

    def expectation(self, parts: Sequence[tuple[tuple[int, ...], Floats]]) -> Floats:
        """Return E[product of features], one axis a part."""
        return self.probability(tuple(column for group, _ in parts for column in group)).expectation(parts)

    def moments(self, groups: Sequence[tuple[int, ...]], features: ColumnFeatures) -> Floats:
        """Return E[product of the columns' features] of groups of the same shape, (groups, features of each…)."""
        return np.array([self.expectation([((c,), features[c]) for c in group]) for group in groups])

    def stacked(self, groups: Sequence[tuple[int, ...]]) -> Floats:
        """Return the distributions of groups of the same shape, shape (groups, cells)."""
        return np.array([self.probability(group).values for group in groups])

    def marginal(self, column: int) -> Floats:
        """Return the distribution of one column."""
        return np.asarray(self.probability((column,)).values)

    def pair(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> Floats:
        """Return the joint distribution of two groups as a matrix."""
        cells = math.prod(self.graph.states[self.graph.observed[column]] for column in inside)
        return np.asarray(self.probability(inside + outside).values.reshape(cells, -1))


@dataclass(frozen=True, eq=False)
class CountedTables:
    """Relative frequencies, with some pseudo-rows spread evenly over all configurations.

    The pseudo-rows are one distribution over all columns, so all tables still agree with each other, and a symbol
    that was never seen gets a small probability. In a group that no row has in full, columns count as independent.
    """

    counts: Counts
    pseudo_rows: float

    @property
    def rows(self) -> float:
        """How many rows were counted."""
        return self.counts.rows

    @property
    def share(self) -> float:
        """How much of every table comes from the pseudo-rows."""
        return self.pseudo_rows / (self.rows + self.pseudo_rows)

    def expectation(self, parts: Sequence[tuple[tuple[int, ...], Floats]]) -> Floats:
        """Return E[product of features], one axis a part, pseudo-rows included."""
        table = self.counts.find(tuple(column for group, _ in parts for column in group))
        if table.total > 0:
            result = table.expectation(parts) / table.total
        else:
            result = _outer([self._product(group) @ matrix for group, matrix in parts])
        even = _outer([matrix.mean(axis=0) for _, matrix in parts])
        return np.asarray((1 - self.share) * result + self.share * even)

    def _product(self, columns: tuple[int, ...]) -> Floats:
        """Return the product of the smoothed marginals of some columns, flat."""
        return _outer([self.counts.smoothed(column) for column in columns]).ravel()

    def moments(self, groups: Sequence[tuple[int, ...]], features: ColumnFeatures) -> Floats:
        """Return E[product of the columns' features] of groups of the same shape, (groups, features of each…)."""
        sums, totals = self.counts.featured(groups, features)
        shape = [-1] + [1] * (sums.ndim - 1)
        for k in map(int, np.flatnonzero(~(totals > 0))):
            sums[k] = _outer([self.counts.smoothed(column) @ features[column] for column in groups[k]])
            totals[k] = 1.0
        sums *= ((1 - self.share) / totals).reshape(shape)
        even = np.full(len(groups), self.share)
        for axis, columns in enumerate(np.transpose(groups)):
            means = features.means[columns, : features.widths[columns[0]]]
            even = even[..., None] * means.reshape(len(groups), *[1] * axis, -1)
        return np.asarray(sums + even)

    def stacked(self, groups: Sequence[tuple[int, ...]]) -> Floats:
        """Return the distributions of groups of the same shape, pseudo-rows included, shape (groups, cells)."""
        counted = self.counts.stacked(groups)
        totals = counted.sum(axis=1, keepdims=True)
        for k in map(int, np.flatnonzero(~(totals[:, 0] > 0))):
            counted[k], totals[k] = self._product(groups[k]), 1.0
        counted *= (1 - self.share) / totals
        counted += self.share / counted.shape[1]
        return counted

    def marginal(self, column: int) -> Floats:
        """Return the distribution of one column, pseudo-rows included."""
        counted = self.counts.columns[column]
        counted = counted + self.pseudo_rows / len(counted)
        total = counted.sum()
        return np.asarray(counted / total if total > 0 else np.full(len(counted), 1 / len(counted)))

    def pair(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> Floats:
        """Return the joint distribution of two groups as a matrix, pseudo-rows included."""
        table = self.counts.find(inside + outside)
        counted = table.array().ravel() / table.total if table.total > 0 else self._product(inside + outside)
        cells = math.prod(self.counts.graph.states[self.counts.graph.observed[column]] for column in inside)
        return ((1 - self.share) * counted + self.share / len(counted)).reshape(cells, -1)


def _outer(vectors: Sequence[Floats]) -> Floats:
    """Return the outer product of several vectors, one axis each."""
    return reduce(np.multiply.outer, vectors, np.ones(()))


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
    added = np.zeros(len(damping))
    added[damping > 0] = damping[damping > 0] * shrinkage
    return np.divide(squares, squares + added, out=np.zeros(len(squares)), where=squares > 0)


@dataclass(frozen=True, eq=False)
class SpectralFit:
    """All that was learned from one set of tables; the shrinkage is still open.

    Attributes
    ----------
    plan : ViewPlan
    edges : tuple of LearnedEdge or None
        None at the root.
    cores : tuple of array
        One tensor a node, unshrunk: leaves (states, bond), inner nodes (children…, bond), the root (children…, 1).
    states : tuple of int
    """

    plan: ViewPlan
    edges: tuple[LearnedEdge | None, ...]
    cores: tuple[Floats, ...]
    states: tuple[int, ...]

    def operators(self, shrinkage: float) -> TreeOperators:
        """Return the operators at some shrinkage toward independence."""
        nodes = []
        for node, edge, core in zip(self.plan.nodes, self.edges, self.cores, strict=True):
            array = core if edge is None else core * edge.factors(shrinkage)
            columns = (self.plan.graph.column(node.observed),) if node.observed is not None else ()
            nodes.append(NodeOperator.from_dense(array, columns, node.children))
        return TreeOperators(tuple(nodes), self.states)

    @cached_property
    def _unshrunk(self) -> tuple[FlatTree, NDArray[np.int64], Floats, Floats]:
        """The flat plan without shrinkage, each value's place on the bonds, and the bonds' squares and dampings."""
        flat, place = _flat_layout(self.plan, self.states)
        values = []
        for node, core in zip(self.plan.nodes, self.cores, strict=True):
            # A leaf's last value is the sum over its states, for a missing cell.
            values.append(core if node.observed is None else np.vstack([core, core.sum(axis=0)]).T)
        squares = [np.ones(1) if edge is None else edge.squares for edge in self.edges]
        damping = [np.zeros(1) if edge is None else edge.damping for edge in self.edges]
        flat = filled(flat, np.concatenate([value.ravel() for value in values]))
        return flat, place, np.concatenate(squares), np.concatenate(damping)

    def flat_plan(self, shrinkage: float) -> FlatTree:
        """Return the flat plan of `operators` at some shrinkage, without building them anew."""
        flat, place, squares, damping = self._unshrunk
        return filled(flat, flat.values * _factors(squares, damping, shrinkage)[place])


@lru_cache(maxsize=4)
def _flat_layout(plan: ViewPlan, states: tuple[int, ...]) -> tuple[FlatTree, NDArray[np.int64]]:
    """Return a flat plan with all entries of every operator, and each value's place on the bonds."""
    nodes = []
    for node in plan.nodes:
        columns = (plan.graph.column(node.observed),) if node.observed is not None else ()
        shape = [*(states[c] for c in columns), *(plan.nodes[child].rank for child in node.children), node.rank]
        nodes.append(NodeOperator.from_dense(np.ones(shape), columns, node.children))
    flat = TreeOperators(tuple(nodes), states).flat
    bond, entries = flat.nodes.bond, flat.nodes.stop_entry - flat.nodes.first_entry
    place = np.repeat(np.cumsum(bond) - bond, entries) + flat.entry_parent
    return flat, np.repeat(place, np.repeat(flat.nodes.width, entries))


def learn(plan: ViewPlan, tables: Sequence[ExactTables | CountedTables], scaling: str | None) -> list[SpectralFit]:
    """Return, for each set of tables, the projections, solves and unshrunk operators (Algorithm 1, step 1).

    Nodes of the same shape, and all sets of tables, go through each step together: a chain of any length costs a
    few calls of numpy.
    """
    # One thread: the matrices are small, threads would only wait for each other, and sums keep their order.
    with _blas().limit(limits=1, user_api="blas"):
        return _learn(plan, tables, scaling)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _learn(plan: ViewPlan, tables: Sequence[ExactTables | CountedTables], scaling: str | None) -> list[SpectralFit]:
    batches = _batches(plan)
    made = _Learning(plan, tables, scaling)
    leaves = [batch for batch in batches if batch.leaf]
    inner = [batch for batch in batches if not batch.leaf]
    for batch in leaves:
        made.learn_leaves(batch)
    joints = [made.joints(batch) for batch in inner]
    for batch, joint in zip(inner, joints, strict=True):
        made.learn_edges(batch, joint)
    for batch, joint in zip(inner, joints, strict=True):
        made.learn_cores(batch, joint)
    return made.fits()


@dataclass(frozen=True, eq=False)
class _Batch:
    """Nodes whose tables have the same shape.

    Attributes
    ----------
    positions : list of int
        The nodes.
    parts : list of list of tuple of int
        For each node, the columns of each child's inside view (of a leaf: its own column).
    inside : list of tuple of int
        For each node, the columns of its own inside view.
    outside : list of list of tuple of int
        For each outside view, its columns at each node; empty at the root.
    rank, generic_rank : int
    leaf : bool
    dense : bool
        Whether every table is small enough to be an array.
    """

    positions: list[int]
    parts: list[list[tuple[int, ...]]]
    inside: list[tuple[int, ...]]
    outside: list[list[tuple[int, ...]]]
    rank: int
    generic_rank: int
    leaf: bool
    dense: bool

    @cached_property
    def below(self) -> list[tuple[int, ...]]:
        """For each node, the columns of all its parts."""
        return [tuple(column for part in parts for column in part) for parts in self.parts]

    @cached_property
    def groups(self) -> list[list[tuple[int, ...]]]:
        """For each outside view, and once at the root, the columns of each node's table."""
        if not self.outside:
            return [self.below]
        return [[low + high for low, high in zip(self.below, group, strict=True)] for group in self.outside]


@lru_cache(maxsize=4)
def _batches(plan: ViewPlan) -> list[_Batch]:
    graph = plan.graph
    states = [graph.states[name] for name in graph.observed]
    rank_of = {node.observed: node.generic_rank for node in plan.nodes}

    def columns(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(graph.column(name) for name in names)

    def shape(group: Sequence[int]) -> tuple[tuple[int, int], ...]:
        return tuple((states[column], rank_of[graph.observed[column]]) for column in group)

    batched: dict[tuple[Any, ...], list[int]] = {}
    parts_of: list[list[tuple[int, ...]]] = []
    largest: list[int] = []
    for i, node in enumerate(plan.nodes):
        if node.observed is not None:
            parts = [columns([node.observed])]
        else:
            parts = [columns(plan.nodes[child].inside) for child in node.children]
        parts_of.append(parts)
        below = [column for part in parts for column in part]
        outside = [columns(group) for group in node.outside]
        cells = [math.prod(states[column] for column in group) for group in outside]
        largest.append(math.prod(states[column] for column in below) * max(cells, default=1))
        seen = tuple(below.index(column) for column in columns(node.inside))
        ranks = tuple((plan.nodes[child].rank, plan.nodes[child].observed is None) for child in node.children)
        shapes = (tuple(map(shape, parts)), tuple(map(shape, outside)))
        key = (*shapes, seen, node.rank, node.generic_rank, ranks, node.observed is None, node.parent < 0)
        batched.setdefault(key, []).append(i)
    batches = []
    for members in batched.values():
        # Few nodes at a time where tables are large: their copies must not outgrow the counts.
        step = max(1, BATCH_CELLS // largest[members[0]])
        for start in range(0, len(members), step):
            chosen = members[start : start + step]
            nodes = [plan.nodes[i] for i in chosen]
            views = range(len(nodes[0].outside))
            batches.append(
                _Batch(
                    positions=chosen,
                    parts=[parts_of[i] for i in chosen],
                    inside=[columns(node.inside) for node in nodes],
                    outside=[[columns(node.outside[g]) for node in nodes] for g in views],
                    rank=nodes[0].rank,
                    generic_rank=nodes[0].generic_rank,
                    leaf=nodes[0].observed is not None,
                    dense=largest[chosen[0]] <= DENSE_CELLS,
                )
            )
    return batches


class _Learning:
    """The steps of learning, for several sets of tables at once; what is learned fills up as they are taken."""

    def __init__(self, plan: ViewPlan, tables: Sequence[ExactTables | CountedTables], scaling: str | None) -> None:
        self.plan = plan
        self.tables = tables
        self.scaled = scaling is not None
        self.rows = np.array([source.rows for source in tables])
        graph = plan.graph
        self.states = tuple(graph.states[name] for name in graph.observed)
        self.edges: list[list[LearnedEdge | None]] = [[None] * len(plan.nodes) for _ in tables]
        self.cores: list[list[Floats]] = [[np.zeros(0)] * len(plan.nodes) for _ in tables]
        self.leaves: list[list[Floats]] = [[np.zeros((size, 1)) for size in self.states] for _ in tables]

    @cached_property
    def features(self) -> list[ColumnFeatures]:
        """The features of the columns in each set of tables, once all leaves are learned."""
        return [ColumnFeatures.stack(leaves) for leaves in self.leaves]

    def fits(self) -> list[SpectralFit]:
        """Return what was learned."""
        pairs = zip(self.edges, self.cores, strict=True)
        return [SpectralFit(self.plan, tuple(edges), tuple(cores), self.states) for edges, cores in pairs]

    def learn_leaves(self, batch: _Batch) -> None:
        """Learn the bonds and operators of leaves, and with them the features of their columns."""
        if not batch.outside:
            # The only column of a graph: its leaf is the root.
            whole = np.array([source.stacked(batch.below) for source in self.tables])
            self._keep_cores(batch, whole[..., None])
            return
        pairs = self._pairs(batch)
        if self.scaled:
            bond = _scaled_bond(pairs, batch.generic_rank, self.rows[:, None, None])
            for f, projections in enumerate(bond.projection):
                for k, (column,) in enumerate(batch.below):
                    self.leaves[f][column] = projections[k]
        else:
            bond = _plain_bond(pairs, batch.rank)
        self._keep_edges(batch, bond)
        solves = [solve[..., : batch.rank] for solve in bond.solves]
        cores = np.asarray(sum(pair @ solve for pair, solve in zip(pairs, solves, strict=True)))
        if self.scaled:
            # Exact without holes; with holes, the pairs have fewer rows than the column alone.
            cores[..., 0] = [[source.marginal(column) for (column,) in batch.below] for source in self.tables]
        self._keep_cores(batch, cores)

    def _pairs(self, batch: _Batch) -> list[Floats]:
        """Return P(inside view, outside view) for each outside view, shape (sets, nodes, inside, outside)."""
        found = []
        for group in batch.outside:
            both = list(zip(batch.inside, group, strict=True))
            if batch.dense:
                tables = np.array([source.stacked([a + b for a, b in both]) for source in self.tables])
                size = math.prod(self.states[column] for column in batch.inside[0])
                found.append(tables.reshape(*tables.shape[:2], size, -1))
            else:
                found.append(np.array([[source.pair(a, b) for a, b in both] for source in self.tables]))
        return found

    def joints(self, batch: _Batch) -> list[Floats]:
        """Return the moments of each node's columns below and each outside view, shape (sets, nodes, …).

        The axes are the features of each column, or its states without scaling; there are none where those tables
        are too large for arrays.
        """
        if self.scaled:
            sets = list(zip(self.tables, self.features, strict=True))
            return [np.array([source.moments(group, found) for source, found in sets]) for group in batch.groups]
        if not batch.dense:
            return []
        sizes = [[self.states[column] for column in group[0]] for group in batch.groups]
        stacks = [np.array([source.stacked(group) for source in self.tables]) for group in batch.groups]
        return [stack.reshape(*stack.shape[:2], *size) for stack, size in zip(stacks, sizes, strict=True)]

    def learn_edges(self, batch: _Batch, joints: list[Floats]) -> None:
        """Learn the bonds of inner nodes."""
        if not batch.outside:
            return
        if self.scaled:
            self._keep_edges(batch, _centred_bond([self._seen(batch, joint) for joint in joints], batch.rank))
        else:
            pairs = [self._seen(batch, joint) for joint in joints] or self._pairs(batch)
            self._keep_edges(batch, _plain_bond(pairs, batch.rank))

    def _seen(self, batch: _Batch, joint: Floats) -> Floats:
        """Return the moments of the inside view and an outside one, as matrices."""
        below, inside = batch.below[0], batch.inside[0]
        unseen = [2 + k for k, column in enumerate(below) if column not in inside]
        if self.scaled:
            # The first feature of every column is the constant, so a column is summed out by taking it.
            joint = joint[tuple(0 if axis in unseen else slice(None) for axis in range(joint.ndim))]
        else:
            joint = joint.sum(axis=tuple(unseen))
        kept = [column for column in below if column in inside]
        order = [2 + kept.index(column) for column in inside]
        joint = np.transpose(joint, [0, 1, *order, *range(2 + len(inside), joint.ndim)])
        size = math.prod(joint.shape[2 : 2 + len(inside)])
        return joint.reshape(*joint.shape[:2], size, -1)

    def learn_cores(self, batch: _Batch, joints: list[Floats]) -> None:
        """Learn the operators of inner nodes from their own and their children's bonds (Eq. 22-24)."""
        below = self._below(batch)
        if not joints:
            sets = zip(self.tables, self.edges, strict=True)
            lines = [
                [
                    _sparse_core(batch, k, source, [part[f, k] for part in below], edges[position])
                    for k, position in enumerate(batch.positions)
                ]
                for f, (source, edges) in enumerate(sets)
            ]
            self._keep_cores(batch, lines)
            return
        lead = joints[0].shape[:2]
        sizes = [features.shape[-2] for features in below]
        if batch.outside:
            total = np.zeros(())
            for g, joint in enumerate(joints):
                solve = np.array([[_edge(edges, i).solves[g] for i in batch.positions] for edges in self.edges])
                total = total + joint.reshape(*lead, math.prod(sizes), -1) @ solve
        else:
            total = joints[0]
        self._keep_cores(batch, _projected(total.reshape(*lead, *sizes, -1), below))

    def _below(self, batch: _Batch) -> list[Floats]:
        """Return the bond's features in terms of each part's, shape (sets, nodes, of the part, of the bond)."""
        children = [self.plan.nodes[i].children for i in batch.positions]
        found = []
        for c, first in enumerate(children[0]):
            child = self.plan.nodes[first]
            if self.scaled and child.observed is not None:
                eye = np.eye(child.generic_rank, child.rank)
                found.append(np.broadcast_to(eye, (len(self.tables), len(children), *eye.shape)))
            else:
                bonds = [[_edge(edges, line[c]).projection for line in children] for edges in self.edges]
                found.append(np.array(bonds))
        return found

    def _keep_edges(self, batch: _Batch, bond: _Bond) -> None:
        inside, outside = bond.projection.shape[-2], sum(solve.shape[-2] for solve in bond.solves)
        if self.scaled:
            # Features have variance 1, but the constants none.
            variance, free = 1.0, inside - 1 + outside - len(bond.solves)
        else:
            # Cells are about 1 / (their number), and so is the variance of their counts times the rows.
            variance, free = len(bond.solves) / (inside * outside), inside + outside
        for f, rows in enumerate(self.rows):
            noise = math.sqrt(variance / rows) * (math.sqrt(inside) + math.sqrt(outside))
            damping = np.full(batch.rank, variance * free / rows)
            damping[0] = 0.0
            for k, position in enumerate(batch.positions):
                self.edges[f][position] = LearnedEdge(
                    bond.projection[f, k, :, : batch.rank],
                    tuple(solve[f, k, :, : batch.rank] for solve in bond.solves),
                    bond.sizes[f, k, : batch.rank + 1],
                    damping,
                    noise,
                )

    def _keep_cores(self, batch: _Batch, lines: Any) -> None:
        for cores, line in zip(self.cores, lines, strict=True):
            for position, core in zip(batch.positions, line, strict=True):
                if self.scaled and not batch.leaf:
                    # Exact without holes; with holes, tables that count different rows agree only roughly.
                    core[(0,) * (core.ndim - 1)] = np.eye(1, core.shape[-1])[0]
                cores[position] = core


class _Bond(NamedTuple):
    """The bonds of several edges of one shape, for several sets of tables.

    Attributes
    ----------
    projection : array, shape (sets, nodes, features of the inside view, rank)
    solves : list of array, shape (sets, nodes, features of an outside view, rank)
    sizes : array, shape (sets, nodes, at most rank + 1)
        Singular values.
    """

    projection: Floats
    solves: list[Floats]
    sizes: Floats


def _plain_bond(pairs: list[Floats], rank: int) -> _Bond:
    """Return the bonds as the paper has them: from the singular vectors of the pair moment itself."""
    u, sizes, v = _top_singular(np.concatenate(pairs, axis=-1), rank + 1)
    u, v, top = _padded(u, v, sizes, rank)
    solve = np.swapaxes(v, -1, -2) * _inverted(top, top[..., :1])[..., None, :]
    return _Bond(u, np.split(solve, _ends(pairs), axis=-2), sizes)


def _scaled_bond(pairs: list[Floats], rank: int, rows: Floats) -> _Bond:
    """Return the bonds of leaves: with variance scaling, the shared direction taken out exactly."""
    steady = SCALING_ROWS / rows
    low = _inverse_root(np.mean([pair.sum(axis=-1) for pair in pairs], axis=0) + steady)
    high = [_inverse_root(pair.sum(axis=-2) + steady) for pair in pairs]
    bordered = [_bordered(pair) for pair in pairs]
    bond = _centred_bond(bordered, rank, low, high)
    # The constant is the sum of the one-hot vector's entries.
    spread = [part[..., 1:, :] + part[..., :1, :] for part in (bond.projection, *bond.solves)]
    return _Bond(spread[0], spread[1:], bond.sizes)


def _bordered(pairs: Floats) -> Floats:
    """Return pair moments with the constant as one more feature, the first, on both sides."""
    rows = np.concatenate([pairs.sum(axis=-2, keepdims=True), pairs], axis=-2)
    return np.concatenate([rows.sum(axis=-1, keepdims=True), rows], axis=-1)


def _centred_bond(
    pairs: list[Floats], rank: int, low: Floats | None = None, high: list[Floats] | None = None
) -> _Bond:
    """Return the bonds that carry the constant and the leading directions of the covariance.

    Parameters
    ----------
    pairs : list of array, shape (sets, nodes, features of the inside view, features of an outside view)
        The first feature on each side is the constant.
    rank : int
    low, high : array and list of array, optional
        What each feature but the constant is multiplied by, inside and in each outside view.
    """
    covariance = [pair[..., 1:, 1:] - pair[..., 1:, :1] * pair[..., :1, 1:] for pair in pairs]
    if low is not None and high is not None:
        covariance = [low[..., :, None] * c * b[..., None, :] for c, b in zip(covariance, high, strict=True)]
    u, sizes, v = _top_singular(np.concatenate(covariance, axis=-1), rank)
    u, v, top = _padded(u, v, sizes, rank - 1)
    # Each outside view adds 1 to the square of what the constant's singular value would be.
    trivial = np.full((*sizes.shape[:-1], 1), math.sqrt(len(pairs)))
    inside = u if low is None else low[..., :, None] * u
    mean = np.mean([pair[..., 1:, 0] for pair in pairs], axis=0)
    solve = np.split(np.swapaxes(v, -1, -2) * _inverted(top, trivial)[..., None, :], _ends(covariance), axis=-2)
    if high is not None:
        solve = [b[..., :, None] * part for b, part in zip(high, solve, strict=True)]
    solves = [_centred(part, pair[..., 0, 1:], 1 / len(pairs)) for part, pair in zip(solve, pairs, strict=True)]
    return _Bond(_centred(inside, mean, 1.0), solves, np.concatenate([trivial, sizes], axis=-1))


def _centred(directions: Floats, mean: Floats, constant: float) -> Floats:
    """Return the constant and directions less their mean, in terms of features that begin with the constant."""
    *lead, features, rank = directions.shape
    made = np.zeros((*lead, 1 + features, 1 + rank))
    made[..., 0, 0] = constant
    made[..., :1, 1:] = -(mean[..., None, :] @ directions)
    made[..., 1:, 1:] = directions
    return made


def _ends(parts: list[Floats]) -> NDArray[np.int64]:
    """Return where each part ends in their concatenation along the last axis, the last one aside."""
    return np.cumsum([part.shape[-1] for part in parts])[:-1]


def _inverted(sizes: Floats, scale: Floats) -> Floats:
    """Return 1 / singular values, and 0 where they are nothing but rounding."""
    signal = sizes > NO_SIGNAL * scale
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=signal)


def _edge(edges: list[LearnedEdge | None], position: int) -> LearnedEdge:
    edge = edges[position]
    assert edge is not None
    return edge


def _projected(joint: Floats, below: list[Floats]) -> Floats:
    """Return a table (sets, nodes, parts…, bond) with each part's features turned into its bond's."""
    for axis, features in enumerate(below, start=2):
        moved = np.moveaxis(joint, axis, -1)
        shape = moved.shape
        flat = moved.reshape(*shape[:2], -1, shape[-1]) @ features
        joint = np.moveaxis(flat.reshape(*shape[:-1], features.shape[-1]), -1, axis)
    return joint


def _sparse_core(
    batch: _Batch, k: int, source: ExactTables | CountedTables, below: list[Floats], edge: LearnedEdge | None
) -> Floats:
    """Return the unscaled operator of one inner node whose tables are too large for an array."""
    parts = list(zip(batch.parts[k], below, strict=True))
    if edge is None:
        return source.expectation(parts)[..., None]
    solves = zip([group[k] for group in batch.outside], edge.solves, strict=True)
    return np.asarray(sum(source.expectation([*parts, solve]) for solve in solves))


def _inverse_root(values: Floats) -> Floats:
    return np.asarray(1 / np.sqrt(values, out=np.full_like(values, np.inf), where=values > 0))


def _padded(u: Floats, v: Floats, sizes: Floats, rank: int) -> tuple[Floats, Floats, Floats]:
    """Return exactly `rank` singular triples: the first ones, then zeros where there are fewer."""
    short = max(0, rank - sizes.shape[-1])
    lead = [(0, 0)] * (sizes.ndim - 1)
    return (
        np.pad(u[..., :rank], [*lead, (0, 0), (0, short)]),
        np.pad(v[..., :rank, :], [*lead, (0, short), (0, 0)]),
        np.pad(sizes[..., :rank], [*lead, (0, short)]),
    )


def _top_singular(matrices: Floats, wanted: int) -> tuple[Floats, Floats, Floats]:
    """Return the largest singular triples of a stack of matrices, with signs that do not depend on the solver."""
    small = min(matrices.shape[-2:])
    if small < 3 * wanted + 8:
        u, sizes, v = np.linalg.svd(matrices, full_matrices=False)
    elif small > RANDOMISED_FROM:
        u, sizes, v = _refined(matrices, _random_start(matrices, wanted + 10))
    else:
        u, sizes, v = _refined(matrices, _gram_start(matrices, wanted + 4))
    u, sizes, v = u[..., :wanted], sizes[..., :wanted], v[..., :wanted, :]
    if not small:
        return u, sizes, v
    largest = np.take_along_axis(u, np.abs(u).argmax(axis=-2, keepdims=True), axis=-2)
    signs = np.where(largest < 0, -1.0, 1.0)
    return u * signs, sizes, v * np.swapaxes(signs, -1, -2)


def _refined(matrices: Floats, start: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the singular triples within the row space that a start on the left leads to (Rayleigh-Ritz).

    Small singular values come out as exactly as from a full decomposition, though the start may be rough in their
    directions.
    """
    right, _ = np.linalg.qr(np.swapaxes(matrices, -1, -2) @ start)
    u, sizes, v = np.linalg.svd(matrices @ right, full_matrices=False)
    return u, sizes, v @ np.swapaxes(right, -1, -2)


def _gram_start(matrices: Floats, wanted: int) -> Floats:
    """Return leading left directions from the matrix times its transpose: three times as fast as an SVD."""
    _, vectors = np.linalg.eigh(matrices @ np.swapaxes(matrices, -1, -2))
    return np.asarray(vectors[..., -wanted:])


def _random_start(matrices: Floats, wanted: int) -> Floats:
    """Return leading left directions by subspace iteration (Halko, Martinsson and Tropp, 2011)."""
    random = np.random.default_rng(0)
    sketch = matrices @ random.standard_normal((matrices.shape[-1], wanted))
    for _ in range(6):
        sketch, _ = np.linalg.qr(sketch)
        sketch = matrices @ (np.swapaxes(matrices, -1, -2) @ sketch)
    return np.linalg.qr(sketch)[0]
