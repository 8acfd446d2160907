r"""Hubs from counts: one multiplication table for all nodes at a separator.

Given the separator :math:`S` of a hub, its branches are independent. Let :math:`b_1(S), b_2(S), \dots` be functions
that complete the constant to an orthonormal basis of all functions of the separator. The centred features of branch
:math:`e` have :math:`E[\chi_e \mid S] = B_e\,b`, so that for different branches

.. math:: E[\chi_e \chi_f^T] = B_e B_f^T, \qquad
          E[\chi_e \otimes \chi_f \otimes \chi_g] = (B_e \otimes B_f \otimes B_g)\, C, \qquad
          C_{ijk} = E[b_i b_j b_k].

The loadings :math:`B` are a low-rank fit to the pair moments of different branches, and :math:`C`, which is symmetric,
a least squares fit to those of triples. They give all operators of the hub's nodes, whose one job is to multiply
functions of the separator: :math:`b_i b_j = \delta_{ij} + \sum_k C_{ijk} b_k`. Hidden states need not be known, so
nothing but eigenvectors and linear solves is needed; the basis is known up to a rotation, which cancels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eigentree.planning.hubs import distinct_triples, symmetric_basis
from eigentree.spectral.bonds import NO_SIGNAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.counting.features import ColumnFeatures
    from eigentree.planning.hubs import Hub
    from eigentree.planning.views import ViewPlan
    from eigentree.spectral.fit import LearnedEdge
    from eigentree.spectral.sources import Tables

__all__ = ["HubFit", "hub_cores", "learn_hub"]

SWEEPS = 100
"""How often the loadings are fitted again at most."""

SETTLED = 1e-7
"""By how much of their size, squared, the loadings still change when they are settled."""

STEADY = 6.0
"""How many rows' noise, of a triple moment, the entries of C are steadied against."""


@dataclass(frozen=True, eq=False)
class HubFit:
    """What was learned of a hub from one set of tables.

    Attributes
    ----------
    loadings : dict of int to array, shape (features but the constant, states of the separator - 1)
        For each column that speaks for a branch, B.
    product : array, shape (states, states, states)
        The product of two functions, in the basis that begins with the constant.
    """

    loadings: dict[int, Floats]
    product: Floats

    def seen(self, column: int) -> Floats:
        """Return the features of a column given the separator, in the basis: shape (features, states)."""
        return _bordered(self.loadings[column])


def _bordered(matrix: Floats) -> Floats:
    """Return a matrix with the constant as one more direction, the first, on both sides."""
    made = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1))
    made[0, 0] = 1.0
    made[1:, 1:] = matrix
    return made


def learn_hub(plan: ViewPlan, hub: Hub, source: Tables, features: ColumnFeatures) -> HubFit:
    """Return what the moments of a hub's columns say of it."""
    column = plan.graph.column
    moments = _Moments(source, features)
    branches = [[column(name) for name in branch.columns] for branch in hub.branches]
    anchors = [branches[a] for a in hub.anchors]
    starts = np.cumsum([0, *(sum(map(moments.width, columns)) for columns in anchors)])
    parts = [slice(a, b) for a, b in zip(starts, starts[1:], strict=False)]
    covariance = np.zeros((len(hub.branches), 0, 0))
    pairs = moments.covariances([(column(one), column(two)) for _, one, _, two in hub.pairs()])
    place = {c: p for columns in anchors for c, p in zip(columns, _places(moments, columns), strict=True)}
    offset = {c: starts[k] + place[c] for k, columns in enumerate(anchors) for c in columns}
    covariance = np.zeros((starts[-1], starts[-1]))
    for (one, two), found in pairs.items():
        if one in offset and two in offset:
            rows = slice(offset[one], offset[one] + moments.width(one))
            covariance[rows, offset[two] : offset[two] + moments.width(two)] = found
    values, vectors = _fitted_loadings(covariance, parts, hub.states - 1)
    roots = np.sqrt(values)
    loadings = {c: vectors[offset[c] : offset[c] + moments.width(c)] * roots for c in offset}
    inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    for columns in branches:
        for c in columns:
            if c not in loadings:
                across = np.concatenate([pairs[c, other] for other in offset], axis=1)
                loadings[c] = across @ vectors * inverse
    triples = [tuple(map(column, group)) for group in hub.triples()]
    even = {c: vectors[offset[c] : offset[c] + moments.width(c)] for c in offset}
    grams = np.array([vectors[part].T @ vectors[part] for part in parts])
    product = _product(moments.third(triples, even), grams, values, source.rows)
    return HubFit(loadings, product)


def _places(moments: _Moments, columns: Sequence[int]) -> list[int]:
    """Return where the features of each column begin among those of a branch."""
    return [0, *np.cumsum([moments.width(c) for c in columns[:-1]]).tolist()] if columns else []


class _Moments:
    """Centred moments of columns' features, those of the same shape together."""

    def __init__(self, source: Tables, features: ColumnFeatures) -> None:
        self.source = source
        self.features = features

    def width(self, column: int) -> int:
        """Return how many features a column has beside the constant."""
        return int(self.features.widths[column]) - 1

    def covariances(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Floats]:
        """Return the covariance of the features of each pair of columns."""
        found = {}
        for same in self._alike([*{tuple(sorted(pair)) for pair in pairs}]):
            tables = self.source.moments(same, self.features)
            covariances = tables[:, 1:, 1:] - tables[:, 1:, :1] * tables[:, :1, 1:]
            for (one, two), covariance in zip(same, covariances, strict=True):
                found[one, two], found[two, one] = covariance, covariance.T
        return found

    def third(self, triples: Sequence[tuple[int, ...]], onto: dict[int, Floats]) -> Floats:
        """Return the sum over triples of centred third moments, each column's features turned into directions."""
        total = np.zeros(())
        for same in self._alike(triples):
            t = self.source.moments(same, self.features)
            a, b, c = t[:, 1:, :1, :1], t[:, :1, 1:, :1], t[:, :1, :1, 1:]
            centred = t[:, 1:, 1:, 1:] - t[:, 1:, 1:, :1] * c - t[:, 1:, :1, 1:] * b - t[:, :1, 1:, 1:] * a
            centred = centred + 2 * a * b * c
            first, second, last = (np.array([onto[group[k]] for group in same]) for k in range(3))
            turned = np.einsum("nabc,ncz->nabz", centred, last, optimize=True)
            turned = np.einsum("nabz,nby->nayz", turned, second, optimize=True)
            total = total + np.einsum("nayz,nax->xyz", turned, first, optimize=True)
        return np.asarray(total)

    def _alike(self, groups: Sequence[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
        alike: dict[tuple[tuple[int, int], ...], list[tuple[int, ...]]] = {}
        for group in groups:
            shape = tuple((int(self.features.states[c]), int(self.features.widths[c])) for c in group)
            alike.setdefault(shape, []).append(group)
        return list(alike.values())


def _fitted_loadings(covariance: Floats, parts: Sequence[slice], rank: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and -vectors of the matrix of some rank that fits best between different parts."""
    best = None
    for start in (_completed(covariance, parts, rank), covariance):
        values, vectors = _settled(covariance, start, parts, rank)
        fitted = (vectors * values) @ vectors.T
        for part in parts:
            fitted[part, part] = 0.0
        misfit = float(((fitted - covariance) ** 2).sum())
        if best is None or misfit < best[0]:
            best = (misfit, values, vectors)
    assert best is not None
    return best[1], best[2]


def _completed(covariance: Floats, parts: Sequence[slice], rank: int) -> Floats:
    """Return the matrix with its parts filled in from the others: exact where those are."""
    made = covariance.copy()
    for e, part in enumerate(parts):
        others = [np.arange(other.start, other.stop) for k, other in enumerate(parts) if k != e]
        one, two = np.concatenate(others[::2]), np.concatenate(others[1::2])
        u, sizes, v = np.linalg.svd(covariance[np.ix_(two, one)], full_matrices=False)
        u, sizes, v = u[:, :rank], sizes[:rank], v[:rank]
        inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > NO_SIGNAL * sizes[:1])
        block = covariance[part][:, one] @ v.T * inverse @ u.T @ covariance[two][:, part]
        made[part, part] = (block + block.T) / 2
    return made


def _settled(covariance: Floats, start: Floats, parts: Sequence[slice], rank: int) -> tuple[Floats, Floats]:
    """Return the eigenvalues and -vectors that fitting again and again from a start leads to."""
    filled, total = start.copy(), float((covariance**2).sum())
    for _ in range(SWEEPS):
        values, vectors = np.linalg.eigh(filled)
        values, vectors = values[: -rank - 1 : -1], vectors[:, : -rank - 1 : -1]
        values = np.where(values > NO_SIGNAL * values[:1], values, 0.0)
        change = 0.0
        for part in parts:
            block = vectors[part] * values @ vectors[part].T
            change += float(((block - filled[part, part]) ** 2).sum())
            filled[part, part] = block
        if change <= SETTLED * total:
            break
    return values, vectors


def _product(third: Floats, grams: Floats, values: Floats, rows: float) -> Floats:
    """Return the product of two functions of the separator, from the sum of third moments of distinct branches."""
    rank = len(values)
    basis = symmetric_basis(rank).reshape(-1, rank**3)
    # Each triple comes once here and in every order there.
    wanted = 6 * basis @ third.ravel()
    matrix = distinct_triples(grams)
    roots = np.sqrt(values)
    scale = np.einsum("i,j,k->ijk", roots, roots, roots).ravel()
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    if math.isfinite(rows):
        matrix = matrix + (basis * (STEADY / rows * inverse**2)) @ basis.T
    sizes, vectors = np.linalg.eigh(matrix)
    turned = np.divide(vectors.T @ wanted, sizes, out=np.zeros_like(sizes), where=sizes > NO_SIGNAL * sizes[-1:])
    constants = (basis.T @ (vectors @ turned) * inverse).reshape(rank, rank, rank)
    product = np.zeros((rank + 1,) * 3)
    product[0] = product[:, 0] = np.eye(rank + 1)
    product[1:, 1:, 0] = np.diag((values > 0).astype(float))
    product[1:, 1:, 1:] = constants
    return product


def hub_cores(plan: ViewPlan, fits: Sequence[HubFit], edges: Sequence[LearnedEdge | None]) -> dict[int, Floats]:
    """Return the operators of the nodes of all hubs, unshrunk."""
    home = {node: h for h, hub in enumerate(plan.hubs) for node in hub.nodes}
    return {
        position: core
        for h in range(len(plan.hubs))
        for position, core in _Walk(plan, plan.hubs, fits, edges, home, h).cores().items()
    }


@dataclass(frozen=True, eq=False)
class _Walk:
    """One hub among all: how its bonds are turned into its basis."""

    plan: ViewPlan
    hubs: Sequence[Hub]
    fits: Sequence[HubFit]
    edges: Sequence[LearnedEdge | None]
    home: dict[int, int]
    number: int

    def cores(self) -> dict[int, Floats]:
        hub, fit = self.hubs[self.number], self.fits[self.number]
        columns = {branch.position: branch.columns for branch in hub.below}
        into = {position: self._from_below(position, names) for position, names in columns.items()}
        made = {}
        for position in reversed(hub.nodes):
            node = self.plan.nodes[position]
            total = np.eye(1, hub.states)[0]
            for child in node.children:
                total = np.einsum("...i,aj,ijk->...ak", total, into[child], fit.product, optimize=True)
            if position == hub.nodes[0]:
                made[position] = total @ self._above()
            else:
                made[position], into[position] = _narrowed(total, node.rank)
        return made

    def _from_below(self, position: int, names: Sequence[str]) -> Floats:
        """Return what the bond of a branch below carries, in the basis: shape (bond, states)."""
        node, fit = self.plan.nodes[position], self.fits[self.number]
        if node.observed is not None:
            return fit.seen(self.plan.graph.column(node.observed))
        if position in self.home:
            lower = self.home[position]
            if node.rank < self.hubs[lower].states:
                return np.eye(node.rank)
            return self._between(lower, self.number, names)
        edge = self.edges[position]
        assert edge is not None
        return np.asarray(edge.projection.T @ fit.seen(self.plan.graph.column(names[0])))

    def _between(self, lower: int, upper: int, names: Sequence[str]) -> Floats:
        """Return the basis of a hub in that of the hub above, from the columns through which it speaks there."""
        columns = [self.plan.graph.column(name) for name in names]
        below = np.concatenate([self.fits[lower].loadings[c] for c in columns])
        above = np.concatenate([self.fits[upper].loadings[c] for c in columns])
        return _bordered(np.linalg.pinv(below, rcond=NO_SIGNAL) @ above)

    def _above(self) -> Floats:
        """Return the basis in terms of the bond above, shape (states, bond)."""
        hub, fit = self.hubs[self.number], self.fits[self.number]
        if hub.rooted:
            return np.eye(hub.states, 1)
        top = hub.nodes[0]
        node = self.plan.nodes[top]
        if node.parent in self.home:
            upper = self.home[node.parent]
            if node.rank == hub.states:
                return np.eye(hub.states)
            (names,) = [branch.columns for branch in self.hubs[upper].below if branch.position == top]
            return self._between(self.number, upper, names)
        edge = self.edges[top]
        assert edge is not None
        columns = [self.plan.graph.column(name) for (name,) in node.outside]
        return np.asarray(sum(fit.seen(c).T @ solve for c, solve in zip(columns, edge.solves, strict=True)))


def _narrowed(table: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return a table (parts…, states) as a core with some bond, and what that carries, shape (bond, states)."""
    states = table.shape[-1]
    if rank == states:
        return table, np.eye(states)
    flat = table.reshape(-1, states)
    u, sizes, v = np.linalg.svd(flat[:, 1:], full_matrices=False)
    core = np.column_stack([flat[:, 0], (u * sizes)[:, : rank - 1]])
    return core.reshape(*table.shape[:-1], rank), _bordered(v[: rank - 1])
