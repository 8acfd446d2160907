r"""Operators from counts: Algorithm 1 of the paper, in a form that is statistically stronger.

First the leaves. A leaf's edge has the one-hot vector of its column on one side and those of its outside views on
the other, :math:`\phi` and :math:`\psi` with means :math:`p` and :math:`q`. With variance scaling, the direction
that every distribution shares is taken out exactly instead of being estimated: the singular vectors are those of
the scaled covariance

.. math:: \mathrm{diag}(a)\,(E[\phi\psi^T] - p q^T)\,\mathrm{diag}(b) = u\,s\,v^T, \quad
          a = (p + c/N)^{-1/2}, \quad b = (q + c/N)^{-1/2},

and the bond carries the constant 1 and the centred features :math:`\chi = u^T \mathrm{diag}(a)(\phi - p)`.

All dependence of a column on the others goes through its leaf's bond. So every other table is turned into the joint
moment of its columns' features, which loses nothing but noise: three columns of four states that each see two
hidden ones have 8 features, not 64 cells. The other edges are learned from these moments in the same way, without
scaling, since features have variance 1 already; and the operator of a node with children :math:`\alpha, \beta` is
:math:`E[\chi_\alpha \otimes \chi_\beta \otimes W^T\psi]` with :math:`W = [\,1,\ v\,s^{-1}\,]` centred (Eq. 22-24).
So the learned model sums to one exactly, a missing cell is exact, and infinite shrinkage is exactly the product of
the columns' marginals. Without scaling every column keeps its one-hot vector, and it is the paper's Eq. 22.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.joint_table import DENSE_CELLS, ColumnFeatures
from eigentree.counting.levels.hats import coarse_hats, level_tables
from eigentree.data.tables.columns import Columns
from eigentree.inference.threads import one_thread
from eigentree.spectral.learn.bonds import Bond, centred_bond, leaf_bond, plain_bond, sparse_bond
from eigentree.spectral.learn.hub_tensors import learn_hubs, with_hubs
from eigentree.spectral.learn.moments import CountedTables, ExactTables
from eigentree.spectral.learn.spectral_fit import LearnedEdge, SpectralFit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.planning.view_plan import PlanNode, ViewPlan
    from eigentree.spectral.learn.bonds import PairMoment
    from eigentree.spectral.learn.moments import Tables

__all__ = ["learn"]

Group = tuple[int, ...]

BATCH_CELLS = 2**20
"""Cells of the tables that are worked on together."""


def learn(
    plan: ViewPlan,
    tables: Sequence[Tables],
    scaling: str | None,
    dense_cells: int = DENSE_CELLS,
    hats: tuple[int, ...] = (),
) -> list[SpectralFit]:
    """Return, for each set of tables, the projections, solves and unshrunk operators (Algorithm 1, step 1).

    Nodes of the same shape, and all sets of tables, go through each step together: a chain of any length costs a
    few calls of numpy. Tables of more than `dense_cells` cells are taken as what occurs, never as arrays.
    """
    batches = plan.derived(_batches, dense_cells, hats)
    made = _TreeLearning(plan, tables, scaling, hats)
    # One thread: the matrices are small, threads would only wait for each other, and sums keep their order.
    with one_thread():
        for batch in batches:
            if batch.node.observed is not None:
                made.learn_leaves(batch)
        inner = [(batch, made.joints(batch)) for batch in batches if batch.node.observed is None]
        for batch, joint in inner:
            made.learn_edges(batch, joint)
        for batch, joint in inner:
            made.learn_cores(batch, joint)
        return made.fits()


@dataclass(frozen=True, eq=False)
class _NodeBatch:
    """Nodes whose tables have the same shape, which go through each step of learning together; `node` is the first.

    For each node, `parts` are the columns of each child's inside view (its own of a leaf), `inside` its own;
    `outside` has, for each outside view, its columns at each node, and is empty at the root. Where the
    batch is `dense`, every table is small enough to be an array.
    """

    positions: list[int]
    node: PlanNode
    parts: list[list[Group]]
    inside: list[Group]
    outside: list[list[Group]]
    dense: bool

    @cached_property
    def below(self) -> list[Group]:
        """For each node, the columns of all its parts."""
        return [tuple(column for part in parts for column in part) for parts in self.parts]

    @cached_property
    def groups(self) -> list[list[Group]]:
        """For each outside view, and once at the root, the columns of each node's table."""
        if not self.outside:
            return [self.below]
        return [[low + high for low, high in zip(self.below, group, strict=True)] for group in self.outside]


def _batches(plan: ViewPlan, dense_cells: int, hats: tuple[int, ...]) -> list[_NodeBatch]:
    """Return the nodes of a plan in batches of one shape, dense where a table has at most so many cells."""
    states = Columns.of(plan.graph).states
    ranks = {node.observed: node.generic_rank for node in plan.nodes}
    names = plan.graph.observed
    sizes = [
        (count, ranks[name], own) for count, name, own in zip(states, names, hats or (0,) * len(names), strict=True)
    ]
    place = {name: column for column, name in enumerate(plan.graph.observed)}

    def columns(names: Sequence[str]) -> Group:
        return tuple([place[name] for name in names])

    alike: dict[Any, list[tuple[int, list[Group], Group, list[Group]]]] = {}
    for position, node in enumerate(plan.nodes):
        children = [plan.nodes[child] for child in node.children]
        own = () if node.observed is None else (node.observed,)
        parts = [columns(child.inside) for child in children] or [columns(own)]
        inside, outside = columns(node.inside), [columns(group) for group in node.outside]
        below = [column for part in parts for column in part]
        shape = (
            tuple([tuple([sizes[column] for column in part]) for part in parts]),
            tuple([tuple([sizes[column] for column in group]) for group in outside]),
            tuple(map(below.index, inside)),
            (node.rank, node.generic_rank, node.observed is None, node.parent < 0),
            tuple([(child.rank, child.observed is None) for child in children]),
        )
        alike.setdefault(shape, []).append((position, parts, inside, outside))
    batches = []
    for members in alike.values():
        _, parts, _, outside = members[0]
        views = [math.prod(states[column] for column in group) for group in outside]
        cells = math.prod(states[column] for part in parts for column in part) * max(views, default=1)
        # Few nodes at a time where tables are large: their copies must not outgrow the counts.
        step = max(1, BATCH_CELLS // cells)
        for k in range(0, len(members), step):
            positions, every, insides, outsides = map(list, zip(*members[k : k + step], strict=True))
            views_first = [list(view) for view in zip(*outsides, strict=True)]
            node = plan.nodes[positions[0]]
            batches.append(_NodeBatch(positions, node, every, insides, views_first, cells <= dense_cells))
    return batches


class _TreeLearning:
    """The steps of learning, for several sets of tables at once; what is learned fills up as they are taken."""

    def __init__(
        self, plan: ViewPlan, tables: Sequence[Tables], scaling: str | None, hats: tuple[int, ...]
    ) -> None:
        self.plan = plan
        self.tables = tables
        self.scaled = scaling is not None
        self.rows = np.array([source.rows for source in tables])
        self.states = Columns.of(plan.graph).states
        self.hats = hats
        # Of columns of numbers: the hats that are learned from in terms of those that are counted.
        self.maps = [
            coarse_hats(own, count) if own else None
            for count, own in zip(self.states, hats or (0,) * len(self.states), strict=True)
        ]
        self.edges: list[dict[int, LearnedEdge]] = [{} for _ in tables]
        self.cores: list[list[Floats]] = [[np.zeros(0)] * len(plan.nodes) for _ in tables]
        self.leaves: list[list[Floats]] = [[np.zeros((size, 1)) for size in self.states] for _ in tables]

    @cached_property
    def features(self) -> list[ColumnFeatures]:
        """The features of the columns in each set of tables, once all leaves are learned."""
        return [ColumnFeatures.stack(leaves) for leaves in self.leaves]

    def fits(self) -> list[SpectralFit]:
        """Return what was learned; hubs, if there are any, are learned together and beside that apart."""
        positions = range(len(self.plan.nodes))
        apart = [
            SpectralFit(self.plan, tuple(map(edges.get, positions)), tuple(cores), self.scaled, hats=self.hats)
            for edges, cores in zip(self.edges, self.cores, strict=True)
        ]
        if not (self.scaled and self.plan.hubs):
            return apart
        learned = learn_hubs(self.plan, self.tables, self.features)
        triples = zip(apart, learned, self.tables, strict=True)
        return [with_hubs(fit, hubs, source.rows) for fit, hubs, source in triples]

    def learn_leaves(self, batch: _NodeBatch) -> None:
        """Learn the bonds and operators of leaves, and with them the features of their columns."""
        if not batch.outside:
            # The only column of a graph: its leaf is the root.
            whole = np.array([source.stacked(batch.below) for source in self.tables])
            self._keep_cores(batch, self._over_levels(batch, self._narrowed_leaves(batch, whole[..., None])))
            return
        if self.scaled and not batch.dense and not any(isinstance(source, ExactTables) for source in self.tables):
            bond, cores = self._sparse_leaves(batch)
        else:
            pairs = self._pairs(batch)
            if self.scaled:
                bond = leaf_bond(pairs, batch.node.generic_rank, self.rows[:, None, None])
            else:
                bond = plain_bond(pairs, batch.node.rank)
            solves = [solve[..., : batch.node.rank] for solve in bond.solves]
            cores = np.asarray(sum(pair @ solve for pair, solve in zip(pairs, solves, strict=True)))
        self._keep_edges(batch, bond)
        if self.scaled:
            projection = self._widened(batch, bond.projection)
            for f, edges in enumerate(self.edges):
                for k, (column,) in enumerate(batch.below):
                    position = batch.positions[k]
                    edges[position] = replace(edges[position], projection=projection[f, k][:, : batch.node.rank])
                    self.leaves[f][column] = projection[f, k]
            # Exact without missing cells; with some, the pairs have fewer rows than the column itself.
            own = np.array([[source.marginal(column) for (column,) in batch.below] for source in self.tables])
            cores[..., :1] = self._narrowed_leaves(batch, own[..., None])
        self._keep_cores(batch, self._over_levels(batch, cores))

    def _narrowed_leaves(self, batch: _NodeBatch, tables: Floats) -> Floats:
        """Return tables of the columns of leaves, of numbers those of the hats that are learned from."""
        maps = self.maps[batch.below[0][0]]
        return tables if maps is None else maps @ tables

    def _widened(self, batch: _NodeBatch, projection: Floats) -> Floats:
        """Return features of leaves, of numbers in terms of the hats that are counted."""
        maps = self.maps[batch.below[0][0]]
        return projection if maps is None else maps.T @ projection

    def _over_levels(self, batch: _NodeBatch, cores: Floats) -> Floats:
        """Return the operators of leaves, of numbers over the levels that have these moments of hats."""
        (column,) = batch.below[0]
        if self.maps[column] is None:
            return cores
        return np.asarray(level_tables(self.hats[column], self.states[column]) @ cores)

    def _sparse_leaves(self, batch: _NodeBatch) -> tuple[Bond, Floats]:
        """Return bonds and operators of leaves whose tables with others are too large for arrays."""
        bonds, cores = [], []
        for source, rows in zip(self.tables, self.rows.tolist(), strict=True):
            assert isinstance(source, CountedTables)
            for k in range(len(batch.positions)):
                own = [(batch.inside[k], group[k]) for group in batch.outside]
                pairs = [self._sparse_pair(source, *both) for both in own]
                bond = sparse_bond(pairs, batch.node.generic_rank, rows)
                solves = [solve[:, : batch.node.rank] for solve in bond.solves]
                bonds.append(bond)
                cores.append(sum(pair.times(solve) for pair, solve in zip(pairs, solves, strict=True)))

        def stacked(parts: Sequence[Floats]) -> Floats:
            return np.array(parts).reshape(len(self.tables), -1, *parts[0].shape)

        solves = [stacked([bond.solves[g] for bond in bonds]) for g in range(len(batch.outside))]
        projection = stacked([bond.projection for bond in bonds])
        bond = Bond(projection, solves, stacked([bond.sizes for bond in bonds]))
        return bond, stacked([np.asarray(core) for core in cores])

    def _sparse_pair(self, source: CountedTables, inside: Group, outside: Group) -> PairMoment:
        maps = [self.maps[column] for column in inside + outside]
        if all(each is None for each in maps):
            return source.sparse_pair(inside, outside)
        return source.narrowed_pair(inside, outside, maps)

    def _pairs(self, batch: _NodeBatch) -> list[Floats]:
        """Return P(inside view, outside view) for each outside view, shape (sets, nodes, inside, outside).

        Of numbers it is that of the hats that are learned from.
        """
        found = []
        for group in batch.outside:
            both = [low + high for low, high in zip(batch.inside, group, strict=True)]
            tables = np.array([source.stacked(both) for source in self.tables])
            table = tables.reshape(*tables.shape[:2], *(self.states[column] for column in both[0]))
            for axis, column in enumerate(both[0], start=2):
                if (maps := self.maps[column]) is not None:
                    table = np.moveaxis(np.moveaxis(table, axis, -1) @ maps.T, -1, axis)
            size = math.prod(table.shape[2 : 2 + len(batch.inside[0])])
            found.append(table.reshape(*table.shape[:2], size, -1))
        return found

    def joints(self, batch: _NodeBatch) -> list[Floats]:
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

    def learn_edges(self, batch: _NodeBatch, joints: list[Floats]) -> None:
        """Learn the bonds of inner nodes."""
        if not batch.outside:
            return
        pairs = [self._seen(batch, joint) for joint in joints] or self._pairs(batch)
        self._keep_edges(batch, (centred_bond if self.scaled else plain_bond)(pairs, batch.node.rank))

    def _seen(self, batch: _NodeBatch, joint: Floats) -> Floats:
        """Return the moments of the inside view and an outside one, as matrices."""
        below, inside = batch.below[0], batch.inside[0]
        unseen = [2 + k for k, column in enumerate(below) if column not in inside]
        if self.scaled:
            # The first feature of every column is the constant, so taking it marginalises a column out.
            joint = joint[tuple(0 if axis in unseen else slice(None) for axis in range(joint.ndim))]
        else:
            joint = joint.sum(axis=tuple(unseen))
        kept = [column for column in below if column in inside]
        order = [2 + kept.index(column) for column in inside]
        joint = np.transpose(joint, [0, 1, *order, *range(2 + len(inside), joint.ndim)])
        size = math.prod(joint.shape[2 : 2 + len(inside)])
        return joint.reshape(*joint.shape[:2], size, -1)

    def learn_cores(self, batch: _NodeBatch, joints: list[Floats]) -> None:
        """Learn the operators of inner nodes from their own and their children's bonds (Eq. 22-24)."""
        below = self._below(batch)
        if not joints:
            sets = zip(self.tables, self.edges, strict=True)
            lines = [
                [
                    _sparse_core(batch, k, source, [part[f, k] for part in below], edges.get(position))
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
                solve = np.array([[edges[i].solves[g] for i in batch.positions] for edges in self.edges])
                total = total + joint.reshape(*lead, math.prod(sizes), -1) @ solve
        else:
            total = joints[0]
        table: Any = total.reshape(*lead, *sizes, -1)
        for axis, features in enumerate(below, start=2):
            moved = np.moveaxis(table, axis, -1)
            flat = moved.reshape(*lead, -1, moved.shape[-1]) @ features
            table = np.moveaxis(flat.reshape(*moved.shape[:-1], features.shape[-1]), -1, axis)
        self._keep_cores(batch, table)

    def _below(self, batch: _NodeBatch) -> list[Floats]:
        """Return the bond's features in terms of each part's, shape (sets, nodes, of the part, of the bond)."""
        children = [self.plan.nodes[i].children for i in batch.positions]
        found = []
        for c, first in enumerate(children[0]):
            child = self.plan.nodes[first]
            if self.scaled and child.observed is not None:
                eye = np.eye(child.generic_rank, child.rank)
                found.append(np.broadcast_to(eye, (len(self.tables), len(children), *eye.shape)))
            else:
                found.append(np.array([[edges[line[c]].projection for line in children] for edges in self.edges]))
        return found

    def _keep_edges(self, batch: _NodeBatch, bond: Bond) -> None:
        variance = 1.0 if self.scaled else None
        for f, rows in enumerate(self.rows):
            for k, position in enumerate(batch.positions):
                parts = bond.projection[f, k], [solve[f, k] for solve in bond.solves], bond.sizes[f, k]
                self.edges[f][position] = LearnedEdge.of(*parts, batch.node.rank, rows, variance)

    def _keep_cores(self, batch: _NodeBatch, lines: Any) -> None:
        for cores, line in zip(self.cores, lines, strict=True):
            for position, core in zip(batch.positions, line, strict=True):
                if self.scaled and batch.node.observed is None:
                    # So it is but for rounding, which would add up along a chain.
                    core[(0,) * (core.ndim - 1)] = np.eye(1, core.shape[-1])[0]
                cores[position] = core


def _sparse_core(
    batch: _NodeBatch, k: int, source: Tables, below: list[Floats], edge: LearnedEdge | None
) -> Floats:
    """Return the unscaled operator of one inner node whose tables are too large for an array."""
    parts = list(zip(batch.parts[k], below, strict=True))
    if edge is None:
        return source.expectation(parts)[..., None]
    solves = zip([group[k] for group in batch.outside], edge.solves, strict=True)
    return np.asarray(sum(source.expectation([*parts, solve]) for solve in solves))
