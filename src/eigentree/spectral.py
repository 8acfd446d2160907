r"""Operators from counts: Algorithm 1 of the paper, in a form that is statistically stronger.

For an edge with inside view :math:`\phi` and stacked outside views :math:`\psi`, let :math:`p` and :math:`q` be
their means, and :math:`A = E[\phi\psi^T]`. With variance scaling, the direction that every distribution shares is
taken out exactly instead of being estimated: the singular vectors are those of the scaled covariance

.. math:: \mathrm{diag}(a)\,(A - p q^T)\,\mathrm{diag}(b) = u\,s\,v^T, \quad
          a = (p + c/N)^{-1/2}, \quad b = (q + c/N)^{-1/2},

the bond carries the constant 1 and the centred features :math:`\chi = u^T \mathrm{diag}(a)(\phi - p)`, and the
operator of a node with children :math:`\alpha, \beta` is
:math:`E[\chi_\alpha \otimes \chi_\beta \otimes W^T\psi]` with
:math:`W = [\,1,\ \mathrm{diag}(b)\,v\,s^{-1}\,]` centred (Eq. 22-24). So the learned model sums to one exactly,
a missing cell is exact, and infinite shrinkage is exactly the product of the columns' marginals. Without scaling it
is the paper's Eq. 22.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import ThreadpoolController

from eigentree.moments import DENSE_CELLS, Counts, JointTable, MomentSource
from eigentree.operators import NodeOperator, TreeOperators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.graph import LatentGraph
    from eigentree.kernels import Plan
    from eigentree.views import ViewPlan

    Floats = NDArray[np.float64]

SCALING_ROWS = 20.0
"""c of the variance scaling: how many rows' worth of counts steady a rare state."""

NO_SIGNAL = 1e-10
"""Singular values below this part of the largest are rounding, and are not inverted."""

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
    share: float = 0.0

    def probability(self, columns: tuple[int, ...]) -> JointTable:
        """Return the joint distribution of some columns, as the source gives it."""
        array = np.asarray(self.source.joint([self.graph.observed[column] for column in columns]), np.float64)
        return JointTable.from_dense(columns, array)

    def expectation(self, parts: Sequence[tuple[tuple[int, ...], Floats]]) -> Floats:
        """Return E[product of features], one axis a part."""
        return self.probability(tuple(column for group, _ in parts for column in group)).expectation(parts)

    def stacked(self, groups: Sequence[tuple[tuple[int, ...], ...]]) -> Floats:
        """Return the distributions of groups of the same shape, shape (groups, cells of each part…)."""
        arrays = []
        for group in groups:
            table = self.probability(tuple(column for part in group for column in part)).array()
            sizes = [math.prod(self.graph.states[self.graph.observed[c]] for c in part) for part in group]
            arrays.append(table.reshape(sizes))
        return np.array(arrays)

    def apart(self, parts: Sequence[tuple[int, ...]]) -> Floats:
        """Return what pseudo-rows would add, which is nothing."""
        size = math.prod(self.graph.states[self.graph.observed[column]] for column in parts[0])
        return np.zeros((len(parts), size))

    def pair(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> Floats:
        """Return the joint distribution of two groups as a matrix."""
        (matrix,) = self.stacked([(inside, outside)])
        return np.asarray(matrix)


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
        apart = _outer([self.independent(group) @ matrix for group, matrix in parts])
        return np.asarray((1 - self.share) * result + self.share * apart)

    def _product(self, columns: tuple[int, ...]) -> Floats:
        """Return the product of the smoothed marginals of some columns, flat."""
        return _outer([self.counts.smoothed(column) for column in columns]).ravel()

    def independent(self, columns: tuple[int, ...]) -> Floats:
        """Return the distribution of the pseudo-rows over some columns, flat."""
        cells = self._cells(columns)
        return np.full(cells, 1 / cells)

    def _cells(self, columns: tuple[int, ...]) -> int:
        graph = self.counts.graph
        return math.prod(graph.states[graph.observed[column]] for column in columns)

    def stacked(self, groups: Sequence[tuple[tuple[int, ...], ...]]) -> Floats:
        """Return the distributions of groups of the same shape, without what the pseudo-rows add.

        Parameters
        ----------
        groups : sequence of tuple of tuple of int
            Each group is a tuple of parts, each part a tuple of columns.

        Returns
        -------
        array, shape (groups, cells of each part…)
        """
        columns = [tuple(column for part in group for column in part) for group in groups]
        counted = self.counts.stacked(columns)
        totals = counted.sum(axis=1, keepdims=True)
        for k in np.flatnonzero(~(totals[:, 0] > 0)):
            counted[k], totals[k] = self._product(columns[k]), 1.0
        counted *= (1 - self.share) / totals
        return counted.reshape(len(groups), *map(self._cells, groups[0]))

    def apart(self, parts: Sequence[tuple[int, ...]]) -> Floats:
        """Return `independent` of several parts of the same shape, one row each."""
        return np.tile(self.independent(parts[0]), (len(parts), 1))

    def pair(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> Floats:
        """Return the joint distribution of two groups as a matrix, pseudo-rows included."""
        table = self.counts.find(inside + outside)
        apart = np.outer(self.independent(inside), self.independent(outside))
        if table.total > 0:
            counted = table.array().reshape(apart.shape) / table.total
        else:
            counted = np.outer(self._product(inside), self._product(outside))
        return (1 - self.share) * counted + self.share * apart


def _outer(vectors: Sequence[Floats]) -> Floats:
    """Return the outer product of several vectors, one axis each."""
    return reduce(np.multiply.outer, vectors, np.ones(()))


@dataclass(frozen=True, eq=False)
class LearnedEdge:
    """The bond of one edge.

    Attributes
    ----------
    projection : array, shape (joint states of the inside view, rank)
        U_i: the features of the inside view that the bond carries.
    solves : tuple of array, shape (joint states of the outside view, rank)
        For each outside view, its part of the (pseudo-)inverse, before shrinkage.
    singular_values : array, shape (at most rank + 1,)
        Those of the scaled (or plain) pair moment, largest first, with the one after the rank if there is one.
    damping : array, shape (rank,)
        What the shrinkage adds to each squared singular value, per unit of kappa; 0 for the direction that is kept.
    noise : float
        The largest singular value that noise alone would have with this many rows.
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
        known = self.singular_values[: len(self.damping)] ** 2
        return np.pad(known, (0, len(self.damping) - len(known)))


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
    def _unshrunk(self) -> tuple[Plan, NDArray[np.int64], Floats, Floats]:
        """The flat plan without shrinkage, each value's place on the bonds, and the bonds' squares and dampings."""
        plan = self.operators(0.0).plan
        entries = np.diff(plan.entry_start)
        place = np.repeat(plan.place, entries) + plan.entry_parent
        widths = np.repeat(plan.width, entries)
        squares = [np.ones(1) if edge is None else edge.squares for edge in self.edges]
        damping = [np.zeros(1) if edge is None else edge.damping for edge in self.edges]
        return plan, np.repeat(place, widths), np.concatenate(squares), np.concatenate(damping)

    def flat_plan(self, shrinkage: float) -> Plan:
        """Return the flat plan of `operators` at some shrinkage, without building them anew."""
        plan, place, squares, damping = self._unshrunk
        return plan._replace(values=plan.values * _factors(squares, damping, shrinkage)[place])


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
    edges: list[list[LearnedEdge | None]] = [[None] * len(plan.nodes) for _ in tables]
    for batch in batches:
        if batch.outside:
            learned = _edges(batch, _pairs(batch, tables), [t.rows for t in tables], scaling)
            for found, bonds in zip(edges, learned, strict=True):
                for position, bond in zip(batch.positions, bonds, strict=True):
                    found[position] = bond
    cores: list[list[Floats]] = [[np.zeros(0)] * len(plan.nodes) for _ in tables]
    for batch in batches:
        for made, line in zip(cores, _cores(plan, batch, tables, edges), strict=True):
            for position, core in zip(batch.positions, line, strict=True):
                if scaling is not None and plan.nodes[position].observed is None:
                    # Exact without holes; with holes, tables that count different rows agree only roughly.
                    core[(0,) * (core.ndim - 1)] = np.eye(1, core.shape[-1])[0]
                made[position] = core
    states = tuple(plan.graph.states[name] for name in plan.graph.observed)
    return [SpectralFit(plan, tuple(e), tuple(c), states) for e, c in zip(edges, cores, strict=True)]


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
    shapes : tuple of tuple of int
        Numbers of states of the columns of each part.
    rank : int
    dense : bool
        Whether every table is small enough to be an array.
    """

    positions: list[int]
    parts: list[list[tuple[int, ...]]]
    inside: list[tuple[int, ...]]
    outside: list[list[tuple[int, ...]]]
    shapes: tuple[tuple[int, ...], ...]
    rank: int
    dense: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of joint states of the parts."""
        return tuple(math.prod(shape) for shape in self.shapes)

    def below(self, k: int) -> tuple[int, ...]:
        """Return the columns of all parts of the k-th node."""
        return tuple(column for part in self.parts[k] for column in part)


@lru_cache(maxsize=4)
def _batches(plan: ViewPlan) -> list[_Batch]:
    graph = plan.graph
    states = [graph.states[name] for name in graph.observed]

    def columns(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(graph.column(name) for name in names)

    groups: dict[tuple[Any, ...], list[int]] = {}
    parts_of: list[list[tuple[int, ...]]] = []
    for i, node in enumerate(plan.nodes):
        if node.observed is not None:
            parts = [columns([node.observed])]
        else:
            parts = [columns(plan.nodes[child].inside) for child in node.children]
        parts_of.append(parts)
        below = [column for part in parts for column in part]
        outside = tuple(tuple(graph.states[name] for name in group) for group in node.outside)
        shapes = tuple(tuple(states[column] for column in part) for part in parts)
        seen = tuple(below.index(column) for column in columns(node.inside))
        ranks = tuple(plan.nodes[child].rank for child in node.children)
        groups.setdefault((shapes, seen, outside, node.rank, ranks, node.parent < 0), []).append(i)
    batches = []
    for (shapes, _, outside_shapes, *_), members in groups.items():
        cells = math.prod(math.prod(shape) for shape in shapes)
        largest = cells * max((math.prod(shape) for shape in outside_shapes), default=1)
        # Few nodes at a time where tables are large: their copies must not outgrow the counts.
        step = max(1, BATCH_CELLS // largest)
        for start in range(0, len(members), step):
            chosen = members[start : start + step]
            nodes = [plan.nodes[i] for i in chosen]
            batches.append(
                _Batch(
                    positions=chosen,
                    parts=[parts_of[i] for i in chosen],
                    inside=[columns(node.inside) for node in nodes],
                    outside=[[columns(node.outside[g]) for node in nodes] for g in range(len(outside_shapes))],
                    shapes=shapes,
                    rank=nodes[0].rank,
                    dense=largest <= DENSE_CELLS,
                )
            )
    return batches


def _pairs(batch: _Batch, tables: Sequence[ExactTables | CountedTables]) -> list[Floats]:
    """Return P(inside view, outside view) for each outside view, shape (sets, nodes, inside, outside)."""
    if not batch.dense:
        return [
            np.array([[source.pair(a, b) for a, b in zip(batch.inside, group, strict=True)] for source in tables])
            for group in batch.outside
        ]
    found = []
    for group in batch.outside:
        groups = list(zip(batch.inside, group, strict=True))
        sets = []
        for source in tables:
            apart = source.share * source.apart(batch.inside)[:, :, None] * source.apart(group)[:, None, :]
            sets.append(source.stacked(groups) + apart)
        found.append(np.array(sets))
    return found


def _edges(
    batch: _Batch, pairs: list[Floats], rows: list[float], scaling: str | None
) -> list[list[LearnedEdge | None]]:
    """Return the bonds of a batch, one list a set of tables."""
    ends = np.cumsum([pair.shape[-1] for pair in pairs])[:-1]
    sets = np.array(rows)[:, None, None]
    decompose = _plain_bond if scaling is None else _scaled_bond
    projection, solve, sizes, scale = decompose(pairs, batch.rank, sets)
    solves = np.split(solve, ends, axis=-2)
    inside, outside = projection.shape[-2], solve.shape[-2]
    lines: list[list[LearnedEdge | None]] = []
    for f, count in enumerate(rows):
        noise = _noise((inside, outside), count)
        if scaling is None:
            # Cells are about 1 / (their number), and so is the variance of their counts times the rows.
            noise /= math.sqrt(inside * outside / len(pairs))
        line: list[LearnedEdge | None] = []
        for k in range(len(batch.positions)):
            damping = np.full(batch.rank, scale[f, k] ** 2 / count)
            damping[0] = 0.0
            parts = tuple(part[f, k] for part in solves)
            line.append(LearnedEdge(projection[f, k], parts, sizes[f, k], damping, noise))
        lines.append(line)
    return lines


def _plain_bond(pairs: list[Floats], rank: int, rows: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return projection, solve, singular values and scale, as the paper has them: of the pair moment itself."""
    u, sizes, v = _top_singular(np.concatenate(pairs, axis=-1), rank + 1)
    u, v, top = _padded(u, v, sizes, rank)
    solve = np.swapaxes(v, -1, -2) * _inverted(top, top[..., :1])[..., None, :]
    return u, solve, sizes, top[..., 0]


def _scaled_bond(pairs: list[Floats], rank: int, rows: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the same with variance scaling, the shared direction taken out exactly."""
    p = np.mean([pair.sum(axis=-1) for pair in pairs], axis=0)
    q = np.concatenate([pair.sum(axis=-2) for pair in pairs], axis=-1)
    covariance = np.concatenate(
        [pair - pair.sum(axis=-1, keepdims=True) * pair.sum(axis=-2, keepdims=True) for pair in pairs], axis=-1
    )
    steady = SCALING_ROWS / rows
    a, b = _inverse_root(p + steady), _inverse_root(q + steady)
    u, sizes, v = _top_singular(a[..., :, None] * covariance * b[..., None, :], rank)
    u, v, top = _padded(u, v, sizes, rank - 1)
    trivial = np.sqrt(((a * p) ** 2).sum(axis=-1) * ((b * q) ** 2).sum(axis=-1))
    features = a[..., :, None] * u
    features = features - p[..., None, :] @ features
    projection = np.concatenate([np.ones((*p.shape, 1)), features], axis=-1)
    solve = b[..., :, None] * np.swapaxes(v, -1, -2) * _inverted(top, trivial[..., None])[..., None, :]
    solve = solve - (q[..., None, :] @ solve) / len(pairs)
    solve = np.concatenate([np.full((*q.shape, 1), 1 / len(pairs)), solve], axis=-1)
    return projection, solve, np.concatenate([trivial[..., None], sizes], axis=-1), trivial


def _inverted(sizes: Floats, scale: Floats) -> Floats:
    """Return 1 / singular values, and 0 where they are nothing but rounding."""
    signal = sizes > NO_SIGNAL * scale
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=signal)


def _cores(
    plan: ViewPlan,
    batch: _Batch,
    tables: Sequence[ExactTables | CountedTables],
    edges: list[list[LearnedEdge | None]],
) -> list[list[Floats]]:
    """Return the unshrunk operators of a batch (Eq. 22-24), one list a set of tables."""
    below = _below(plan, batch, edges)
    if not batch.dense:
        return [
            [
                _sparse_core(batch, k, source, [part[f, k] for part in below], edges[f][position])
                for k, position in enumerate(batch.positions)
            ]
            for f, source in enumerate(tables)
        ]
    if not batch.outside:
        joint = np.array([source.stacked([tuple(parts) for parts in batch.parts]) for source in tables])
        above = np.ones((*joint.shape[:2], 1))
        return list(map(list, _projected(joint[..., None], below) + _apart_core(batch, tables, below, above)))
    total, above = np.zeros(()), np.zeros(())
    for g, group in enumerate(batch.outside):
        groups = [(*parts, outer) for parts, outer in zip(batch.parts, group, strict=True)]
        joint = np.array([source.stacked(groups) for source in tables])
        solve = np.array([[_edge(found, i).solves[g] for i in batch.positions] for found in edges])
        shape = joint.shape
        flat = joint.reshape(*shape[:2], -1, shape[-1]) @ solve
        total = total + flat.reshape(*shape[:-1], solve.shape[-1])
        above = above + np.array([source.apart(group) for source in tables])[:, :, None, :] @ solve
    return list(map(list, _projected(total, below) + _apart_core(batch, tables, below, above[:, :, 0, :])))


def _apart_core(
    batch: _Batch, tables: Sequence[ExactTables | CountedTables], below: list[Floats], above: Floats
) -> Floats:
    """Return what the pseudo-rows add to each operator: a product of one vector a part."""
    product = np.array([source.share for source in tables]).reshape(-1, 1)
    for c, features in enumerate(below):
        parts = [parts[c] for parts in batch.parts]
        vector = (np.array([source.apart(parts) for source in tables])[:, :, None, :] @ features)[:, :, 0, :]
        product = product[..., None] * vector.reshape(*vector.shape[:2], *[1] * (product.ndim - 2), -1)
    return np.asarray(product[..., None] * above.reshape(*above.shape[:2], *[1] * (product.ndim - 2), -1))


def _edge(edges: list[LearnedEdge | None], position: int) -> LearnedEdge:
    edge = edges[position]
    assert edge is not None
    return edge


def _below(plan: ViewPlan, batch: _Batch, edges: list[list[LearnedEdge | None]]) -> list[Floats]:
    """Return the features of each part, shape (sets, nodes, states of the part, features)."""
    first = plan.nodes[batch.positions[0]]
    if first.observed is not None:
        eye = np.eye(batch.sizes[0])
        return [np.broadcast_to(eye, (len(edges), len(batch.positions), *eye.shape))]
    return [
        np.array([[_edge(found, plan.nodes[i].children[c]).projection for i in batch.positions] for found in edges])
        for c in range(len(first.children))
    ]


def _projected(joint: Floats, below: list[Floats]) -> Floats:
    """Return a table (sets, nodes, parts…, bond) with each part's states turned into its features."""
    for axis, features in enumerate(below, start=2):
        moved = np.moveaxis(joint, axis, -1)
        shape = moved.shape
        flat = moved.reshape(*shape[:2], -1, shape[-1]) @ features
        joint = np.moveaxis(flat.reshape(*shape[:-1], features.shape[-1]), -1, axis)
    return joint


def _sparse_core(
    batch: _Batch, k: int, source: ExactTables | CountedTables, below: list[Floats], edge: LearnedEdge | None
) -> Floats:
    """Return the operator of one node whose tables are too large for an array."""
    parts = list(zip(batch.parts[k], below, strict=True))
    if edge is None:
        return source.expectation(parts)[..., None]
    outside = [group[k] for group in batch.outside]
    if batch.parts[k] == [batch.inside[k]]:
        pairs = [source.pair(batch.inside[k], group) for group in outside]
        return np.asarray(sum(pair @ solve for pair, solve in zip(pairs, edge.solves, strict=True)))
    terms = [source.expectation([*parts, pair]) for pair in zip(outside, edge.solves, strict=True)]
    return np.asarray(sum(terms))


def _noise(shape: tuple[int, ...], rows: float) -> float:
    """Return the spectral norm of noise of variance 1 / rows a cell."""
    return (math.sqrt(shape[0]) + math.sqrt(shape[1])) / math.sqrt(rows)


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
