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
from typing import TYPE_CHECKING

import numpy as np

from eigentree.moments import Counts, JointTable, MomentSource
from eigentree.operators import NodeOperator, TreeOperators

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.graph import LatentGraph
    from eigentree.views import PlanNode, ViewPlan

    Floats = NDArray[np.float64]

SCALING_ROWS = 5.0
"""c of the variance scaling: how many rows' worth of counts steady a rare state."""

NO_SIGNAL = 1e-10
"""Singular values below this part of the largest are rounding, and are not inverted."""

RANDOMISED_FROM = 400
"""Matrices with both sides larger than this get a randomised SVD: only a few directions are wanted."""


@dataclass(frozen=True, eq=False)
class ExactTables:
    """The tables of a source that knows the population: no noise, infinitely many rows."""

    source: MomentSource
    graph: LatentGraph
    rows: float = math.inf

    def probability(self, columns: Sequence[int]) -> JointTable:
        """Return the joint distribution of some columns, as the source gives it."""
        array = np.asarray(self.source.joint([self.graph.observed[column] for column in columns]), np.float64)
        return JointTable.from_dense(columns, array)


@dataclass(frozen=True, eq=False)
class CountedTables:
    """Relative frequencies, with some pseudo-rows drawn from the product of smoothed marginals.

    The pseudo-rows are one distribution over all columns, so all tables still agree with each other, and a symbol
    that was never seen gets a small probability.
    """

    counts: Counts
    pseudo_rows: float

    @property
    def rows(self) -> float:
        """How many rows were counted."""
        return self.counts.rows

    def probability(self, columns: Sequence[int]) -> JointTable:
        """Return relative frequencies, each table normalised by its own total, without the pseudo-rows."""
        table = self.counts.find(tuple(columns))
        values = table.values / max(table.total, 1.0) if table.total else table.values.astype(np.float64)
        return JointTable(table.columns, table.shape, table.keys, values)


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
        squares = np.zeros(len(self.damping))
        known = self.singular_values[: len(self.damping)]
        squares[: len(known)] = known**2
        shrunk = self.damping > 0
        added = np.zeros(len(self.damping))
        added[shrunk] = self.damping[shrunk] * shrinkage
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


def learn(plan: ViewPlan, tables: ExactTables | CountedTables, scaling: str | None) -> SpectralFit:
    """Return the projections, solves and unshrunk operators of every node (Algorithm 1, step 1)."""
    learner = _Learner(plan, tables, scaling)
    edges = tuple(None if node.parent < 0 else learner.edge(node) for node in plan.nodes)
    cores = tuple(learner.core(node, edges, i) for i, node in enumerate(plan.nodes))
    graph = plan.graph
    return SpectralFit(plan, edges, cores, tuple(graph.states[name] for name in graph.observed))


class _Learner:
    def __init__(self, plan: ViewPlan, tables: ExactTables | CountedTables, scaling: str | None) -> None:
        self.plan = plan
        self.tables = tables
        self.scaling = scaling
        self.pseudo_rows = tables.pseudo_rows if isinstance(tables, CountedTables) else 0.0
        self.smooth = _smoothed_marginals(plan.graph, tables) if self.pseudo_rows else {}

    def columns(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.plan.graph.column(name) for name in names)

    def independent(self, columns: Sequence[int]) -> Floats:
        """Return the product of the smoothed marginals of some columns, flat."""
        product = np.ones(1)
        for column in columns:
            product = np.outer(product, self.smooth[column]).ravel()
        return product

    @property
    def share(self) -> float:
        """How much of every table comes from the pseudo-rows."""
        return self.pseudo_rows / (self.tables.rows + self.pseudo_rows) if self.pseudo_rows else 0.0

    def expectation(self, parts: Sequence[tuple[tuple[int, ...], Floats]]) -> Floats:
        """Return E[product of features], one axis a part, pseudo-rows included."""
        columns = tuple(sorted(column for group, _ in parts for column in group))
        result = self.tables.probability(columns).expectation(parts)
        if self.pseudo_rows:
            apart = np.ones(())
            for group, matrix in parts:
                apart = np.multiply.outer(apart, self.independent(group) @ matrix)
            result = (1 - self.share) * result + self.share * apart
        return result

    def pair(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> Floats:
        """Return the joint distribution of two groups as a matrix, pseudo-rows included."""
        table = self.tables.probability(inside + outside).array()
        rows = math.prod(table.shape[: len(inside)])
        matrix = table.reshape(rows, -1).astype(np.float64)
        if self.pseudo_rows:
            apart = np.outer(self.independent(inside), self.independent(outside))
            matrix = (1 - self.share) * matrix + self.share * apart
        return matrix

    def edge(self, node: PlanNode) -> LearnedEdge:
        inside = self.columns(node.inside)
        pairs = [self.pair(inside, self.columns(group)) for group in node.outside]
        if self.scaling is None:
            return _plain_edge(pairs, node.rank, self.tables.rows)
        return _scaled_edge(pairs, node.rank, self.tables.rows)

    def core(self, node: PlanNode, edges: Sequence[LearnedEdge | None], position: int) -> Floats:
        if node.observed is not None:
            column = self.columns([node.observed])
            below = [(column, np.eye(self.plan.graph.states[node.observed]))]
        else:
            below = []
            for child in node.children:
                edge = edges[child]
                assert edge is not None
                below.append((self.columns(self.plan.nodes[child].inside), edge.projection))
        above = edges[position]
        if above is None:
            return self.expectation(below)[..., None]
        return np.asarray(
            sum(
                self.expectation([*below, (self.columns(group), solve)])
                for group, solve in zip(node.outside, above.solves, strict=True)
            )
        )


def _smoothed_marginals(graph: LatentGraph, tables: CountedTables | ExactTables) -> Mapping[int, Floats]:
    assert isinstance(tables, CountedTables)
    smooth = {}
    for column, name in enumerate(graph.observed):
        counted = tables.counts.find((column,)).array()
        smooth[column] = (counted + 0.5) / (counted.sum() + 0.5 * graph.states[name])
    return smooth


def _plain_edge(pairs: Sequence[Floats], rank: int, rows: float) -> LearnedEdge:
    """Return the bond as the paper has it: singular vectors of the pair moment itself."""
    stacked = np.hstack(pairs)
    u, sizes, v = _top_singular(stacked, rank + 1)
    inverse = np.zeros(rank)
    u, v, top = _padded(u, v, sizes, rank)
    signal = top > NO_SIGNAL * top[0]
    inverse[signal] = 1 / top[signal]
    damping = np.full(rank, top[0] ** 2 / rows)
    damping[0] = 0.0
    solve = v.T * inverse
    # Cells are about 1 / (their number), and so is the variance of their counts times the rows.
    noise = _noise(stacked.shape, rows) / math.sqrt(len(stacked) * stacked.shape[1] / len(pairs))
    return LearnedEdge(u, _split(solve, pairs), sizes[: rank + 1], damping, noise)


def _scaled_edge(pairs: Sequence[Floats], rank: int, rows: float) -> LearnedEdge:
    """Return the bond with variance scaling and the shared direction taken out exactly."""
    stacked = np.hstack(pairs)
    p = np.mean([pair.sum(axis=1) for pair in pairs], axis=0)
    q = stacked.sum(axis=0)
    covariance = stacked - np.hstack([np.outer(pair.sum(axis=1), pair.sum(axis=0)) for pair in pairs])
    steady = SCALING_ROWS / rows
    a = _inverse_root(p + steady)
    b = _inverse_root(q + steady)
    u, sizes, v = _top_singular(a[:, None] * covariance * b, rank)
    u, v, top = _padded(u, v, sizes, rank - 1)
    trivial = float(np.sqrt(((a * p) ** 2).sum() * ((b * q) ** 2).sum()))
    inverse = np.zeros(rank - 1)
    signal = top > NO_SIGNAL * trivial
    inverse[signal] = 1 / top[signal]
    features = a[:, None] * u
    projection = np.hstack([np.ones((len(p), 1)), features - p @ features])
    solve = b[:, None] * v.T * inverse
    constant = np.full((len(q), 1), 1 / len(pairs))
    solve = np.hstack([constant, solve - constant * (q @ solve)])
    damping = np.concatenate([[0.0], np.full(rank - 1, trivial**2 / rows)])
    noise = _noise(stacked.shape, rows)
    return LearnedEdge(projection, _split(solve, pairs), np.concatenate([[trivial], sizes]), damping, noise)


def _noise(shape: tuple[int, ...], rows: float) -> float:
    """Return the spectral norm of noise of variance 1 / rows a cell."""
    return (math.sqrt(shape[0]) + math.sqrt(shape[1])) / math.sqrt(rows)


def _inverse_root(values: Floats) -> Floats:
    return np.asarray(1 / np.sqrt(values, out=np.full_like(values, np.inf), where=values > 0))


def _split(solve: Floats, pairs: Sequence[Floats]) -> tuple[Floats, ...]:
    ends = np.cumsum([pair.shape[1] for pair in pairs])[:-1]
    return tuple(np.split(solve, ends, axis=0))


def _padded(u: Floats, v: Floats, sizes: Floats, rank: int) -> tuple[Floats, Floats, Floats]:
    """Return exactly `rank` singular triples: the first ones, then zeros where there are fewer."""
    kept = min(rank, len(sizes))
    full_u, full_v, full = np.zeros((len(u), rank)), np.zeros((rank, v.shape[1])), np.zeros(rank)
    full_u[:, :kept], full_v[:kept], full[:kept] = u[:, :kept], v[:kept], sizes[:kept]
    return full_u, full_v, full


def _top_singular(matrix: Floats, wanted: int) -> tuple[Floats, Floats, Floats]:
    """Return the largest singular triples, with signs that do not depend on the solver."""
    if min(matrix.shape) > RANDOMISED_FROM and wanted + 10 < min(matrix.shape):
        u, sizes, v = _randomised(matrix, wanted)
    else:
        u, sizes, v = np.linalg.svd(matrix, full_matrices=False)
    u, sizes, v = u[:, :wanted], sizes[:wanted], v[:wanted]
    signs = np.sign(u[np.abs(u).argmax(axis=0), np.arange(u.shape[1])])
    signs[signs == 0] = 1.0
    return u * signs, sizes, v * signs[:, None]


def _randomised(matrix: Floats, wanted: int) -> tuple[Floats, Floats, Floats]:
    """Return leading singular triples by subspace iteration (Halko, Martinsson and Tropp, 2011)."""
    random = np.random.default_rng(0)
    sketch = matrix @ random.standard_normal((matrix.shape[1], wanted + 10))
    for _ in range(6):
        sketch, _ = np.linalg.qr(sketch)
        sketch = matrix @ (matrix.T @ sketch)
    basis, _ = np.linalg.qr(sketch)
    u, sizes, v = np.linalg.svd(basis.T @ matrix, full_matrices=False)
    return basis @ u, sizes, v
