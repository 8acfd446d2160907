r"""Hubs from counts: one multiplication table for all nodes at a separator.

Given the separator :math:`S` of a hub, its branches are independent. Let :math:`b_1(S), b_2(S), \dots` be functions
that complete the constant to an orthonormal basis of all functions of the separator. The centred features of branch
:math:`e` have :math:`E[\chi_e \mid S] = B_e\,b`, so for different branches

.. math:: E[\chi_e \chi_f^T] = B_e B_f^T, \qquad
          E[\chi_e \otimes \chi_f \otimes \chi_g] = (B_e \otimes B_f \otimes B_g)\, C, \qquad
          C_{ijk} = E[b_i b_j b_k].

The loadings :math:`B` are a low-rank fit to the covariances of different branches, and :math:`C`, which is
symmetric, a least squares fit to their third moments. That is all the operators of the hub's nodes need, since all
they do is to multiply functions of the separator: :math:`b_i b_j = \delta_{ij} + \sum_k C_{ijk} b_k`. The basis is
known up to a rotation only, which cancels; hidden states are never identified.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.planning.hub_plan import SymmetricBasis, distinct_triples
from eigentree.spectral.learn.bonds import NO_SIGNAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Booleans, Floats
    from eigentree.counting.joint_table import ColumnFeatures
    from eigentree.planning.hub_plan import Hub
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.learn.moments import Tables
    from eigentree.spectral.learn.spectral_fit import LearnedEdge, SpectralFit

__all__ = ["HubFit", "learn_hubs", "with_hubs"]

SWEEPS = 20
"""How often loadings are fitted again."""

RIDGE = 6.0
"""How many rows' worth of noise the ridge of C is, where shrinkage is wanted: 6, for 6 orders of three branches."""

BATCH_CELLS = 2**22
"""Cells of the matrices that are worked on together."""


class HubFit(NamedTuple):
    """What was learned of a hub from one set of tables.

    Attributes
    ----------
    loadings : dict of str to array, shape (features but the constant, states of the separator - 1)
        B of each column that represents a branch.
    multiplication : array, shape (states, states, states)
        The product of two functions of the separator, in the basis that begins with the constant.
    sizes : array, shape (states,)
        The eigenvalues of the covariance of all features of the anchors, that the loadings make up, and before them
        that of the constant.
    features : int
        How many features these are.
    """

    loadings: dict[str, Floats]
    multiplication: Floats
    sizes: Floats
    features: int


def learn_hubs(plan: ViewPlan, tables: Sequence[Tables], features: Sequence[ColumnFeatures]) -> list[list[HubFit]]:
    """Return the fits of the hubs of a plan to each set of tables, hubs of the same shape learned together."""
    found: list[dict[Hub, HubFit]] = [{} for _ in tables]
    if plan.hubs:
        for batch in _batches(plan, features[0]):
            for known, fits in zip(found, batch.learned(tables, features), strict=True):
                known.update(zip(batch.hubs, fits, strict=True))
    return [[known[hub] for hub in plan.hubs] for known in found]


def _batches(plan: ViewPlan, features: ColumnFeatures) -> Iterator[_HubBatch]:
    """Yield the hubs of a plan in batches of one shape."""
    alike: dict[object, list[Hub]] = {}
    for hub in plan.hubs:
        columns = [[plan.graph.column(name) for name in branch.columns] for branch in hub.branches]
        shape = tuple(tuple((features.states[c], features.widths[c]) for c in branch) for branch in columns)
        alike.setdefault((hub.states, hub.circles, shape), []).append(hub)
    for hubs in alike.values():
        size = hubs[0].states
        step = max(1, BATCH_CELLS // (size**3 * math.comb(size + 1, 3)))
        for k in range(0, len(hubs), step):
            yield _HubBatch(plan, hubs[k : k + step], features)


class _HubBatch:
    """Hubs of the same shape; arrays begin with axes for the sets of tables and for the hubs."""

    def __init__(self, plan: ViewPlan, hubs: Sequence[Hub], features: ColumnFeatures) -> None:
        self.hubs = hubs
        first = hubs[0]
        self.rank = first.states - 1
        number = plan.graph.column
        self.columns = [[[number(name) for name in branch.columns] for branch in hub.branches] for hub in hubs]
        self.sizes = [
            [(int(features.states[c]), int(features.widths[c])) for c in branch] for branch in self.columns[0]
        ]
        # Anchors first, so that their covariance is one block.
        self.order = [*first.anchors, *first.beside]
        ends = np.cumsum([0, *(width - 1 for e in self.order for _, width in self.sizes[e])]).tolist()
        places = iter(slice(a, b) for a, b in pairwise(ends))
        # The places of the features of each branch's columns, and of the branch.
        self.parts = {e: tuple(next(places) for _ in self.sizes[e]) for e in self.order}
        self.branch = {e: slice(columns[0].start, columns[-1].stop) for e, columns in self.parts.items()}
        self.count = ends[-1]
        self.anchored = self.branch[first.anchors[-1]].stop

    def learned(self, tables: Sequence[Tables], features: Sequence[ColumnFeatures]) -> list[list[HubFit]]:
        """Return the fit of each hub to each set of tables."""
        sets = list(zip(tables, features, strict=True))
        covariance = self._covariance(sets)
        anchors = self.hubs[0].anchors
        values, vectors = _fitted(covariance[..., : self.anchored, :], [self.branch[a] for a in anchors], self.rank)
        roots = np.sqrt(values)[..., None, :]
        inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
        loadings = np.concatenate(
            [vectors * roots, covariance[..., self.anchored :, :] @ vectors * inverse], axis=-2
        )
        third, known = self._third(sets, vectors)
        noise = np.array([RIDGE / source.rows if source.share else 0.0 for source in tables])
        multiplications = _multiplications(third, known, values, noise)
        trivial = np.full((*values.shape[:-1], 1), sum(len(self.sizes[a]) for a in anchors))
        sizes = np.concatenate([trivial, values], axis=-1)
        return [
            [
                HubFit(self._named(h, loadings[f, h]), multiplications[f, h], sizes[f, h], self.anchored)
                for h in range(len(self.hubs))
            ]
            for f in range(len(tables))
        ]

    def _named(self, h: int, loadings: Floats) -> dict[str, Floats]:
        return {
            name: loadings[place]
            for e, branch in enumerate(self.hubs[h].branches)
            for name, place in zip(branch.columns, self.parts[e], strict=True)
        }

    def _covariance(self, sets: Sequence[tuple[Tables, ColumnFeatures]]) -> Floats:
        """Return the covariance of all features with those of anchors, 0 within a branch."""
        first = self.hubs[0]
        made = np.zeros((len(sets), len(self.hubs), self.count, self.anchored))
        anchors, beside = first.anchors, first.beside
        couples = [(e, a) for k, a in enumerate(anchors) for e in (*anchors[k + 1 :], *beside)]
        for places, moments in self._moments(sets, couples):
            centred = moments[..., 1:, 1:] - moments[..., 1:, :1] * moments[..., :1, 1:]
            for k, (one, two) in enumerate(places):
                made[..., one, two] = centred[..., k, :, :]
                if one.start < self.anchored:
                    made[..., two, one] = np.swapaxes(centred[..., k, :, :], -1, -2)
        return made

    def _third(self, sets: Sequence[tuple[Tables, ColumnFeatures]], vectors: Floats) -> tuple[Floats, Floats]:
        """Return the sum of third moments of different branches, along some directions, and its map from C.

        Both are in coordinates of a `SymmetricBasis`; the latter is a matrix.
        """
        total = np.zeros((len(sets), len(self.hubs), *(self.rank,) * 3))
        known = np.zeros(())
        for circle in self.hubs[0].circles:
            triples = [
                (one, two, three)
                for i, one in enumerate(circle)
                for j, two in enumerate(circle[i + 1 :], start=i + 1)
                for three in circle[j + 1 :]
            ]
            for places, t in self._moments(sets, triples):
                a, b, c = t[..., 1:, :1, :1], t[..., :1, 1:, :1], t[..., :1, :1, 1:]
                third = t[..., 1:, 1:, 1:] + 2 * a * b * c
                third -= t[..., 1:, 1:, :1] * c + t[..., 1:, :1, 1:] * b + t[..., :1, 1:, 1:] * a
                for axis in range(3):
                    along = np.stack([vectors[..., place[2 - axis], :] for place in places], axis=2)
                    third = np.einsum("fhtabc,fhtcx->fhtxab", third, along, optimize=True)
                total += third.sum(axis=2)
            branches = [vectors[..., self.branch[e], :] for e in circle]
            grams = np.stack([np.swapaxes(part, -1, -2) @ part for part in branches], axis=2)
            known = known + distinct_triples(grams)
        basis = SymmetricBasis(self.rank).vectors
        # Each three branches came once here, and come in every order in the matrix.
        return 6 * total.reshape(*total.shape[:2], -1) @ basis.T, known

    def _moments(
        self, sets: Sequence[tuple[Tables, ColumnFeatures]], groups: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[list[tuple[slice, ...]], Floats]]:
        """Yield moments of columns of groups of branches, those of one shape together, and the places of these.

        The moments have the shape (sets, hubs, groups, features of each column…).
        """
        alike: dict[tuple[tuple[int, int], ...], list[tuple[tuple[int, int], ...]]] = {}
        for group in groups:
            for chosen in np.ndindex(*(len(self.sizes[e]) for e in group)):
                members = tuple(zip(group, chosen, strict=True))
                alike.setdefault(tuple(self.sizes[e][k] for e, k in members), []).append(members)
        for same in alike.values():
            columns = [tuple(hub[e][k] for e, k in members) for hub in self.columns for members in same]
            moments = np.array([source.moments(columns, found) for source, found in sets])
            places = [tuple(self.parts[e][k] for e, k in members) for members in same]
            yield places, moments.reshape(len(sets), len(self.hubs), len(same), *moments.shape[2:])


def _fitted(covariance: Floats, parts: Sequence[slice], rank: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and -vectors of a matrix of some rank that fits a covariance between different parts."""
    within = np.zeros(covariance.shape[-2:], bool)
    for part in parts:
        within[part, part] = True
    return _settled(covariance, within, _completed(covariance, parts, rank), rank)


def _completed(covariance: Floats, parts: Sequence[slice], rank: int) -> Floats:
    """Return the covariance with its parts filled in from the others: exact where those are."""
    made = covariance.copy()
    places = [np.arange(part.start, part.stop) for part in parts]
    for e, part in enumerate(places):
        others = places[:e] + places[e + 1 :]
        one, two = np.concatenate(others[::2]), np.concatenate(others[1::2])
        u, sizes, v = np.linalg.svd(covariance[..., two[:, None], one], full_matrices=False)
        sizes = sizes[..., None, :rank]
        inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > NO_SIGNAL * sizes[..., :1])
        left = covariance[..., part[:, None], one] @ np.swapaxes(v[..., :rank, :], -1, -2) * inverse
        block = left @ np.swapaxes(u[..., :rank], -1, -2) @ covariance[..., two[:, None], part]
        made[..., part[:, None], part] = (block + np.swapaxes(block, -1, -2)) / 2
    return made


def _settled(covariance: Floats, within: Booleans, start: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return the eigenvalues and -vectors that filling in the parts again and again leads to."""
    filled = start
    _, vectors = np.linalg.eigh(filled)
    vectors = vectors[..., : -rank - 1 : -1]
    for _ in range(SWEEPS):
        # One step of subspace iteration is enough, since the matrix is about to change.
        vectors, _ = np.linalg.qr(filled @ vectors)
        values, turn = np.linalg.eigh(np.swapaxes(vectors, -1, -2) @ filled @ vectors)
        values, vectors = values[..., ::-1], vectors @ turn[..., ::-1]
        values = np.where(values > NO_SIGNAL * values[..., :1], values, 0.0)
        fitted = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        filled = np.where(within, fitted, covariance)
    return values, vectors


def _multiplications(third: Floats, known: Floats, values: Floats, noise: Floats) -> Floats:
    """Return the products of two functions of the separator, given what `_HubBatch._third` returns.

    `values` are the eigenvalues of the covariance, along whose eigenvectors it is; `noise` is each set's ridge.
    """
    rank = values.shape[-1]
    basis = SymmetricBasis(rank)
    roots = np.sqrt(values)
    a, b, c = np.array(basis.places).T
    scale = roots[..., a] * roots[..., b] * roots[..., c]
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    penalised = known + (noise[:, None, None] * inverse**2)[..., None] * np.eye(len(a))
    sizes, turn = np.linalg.eigh(penalised)
    signal = sizes > NO_SIGNAL * sizes[..., -1:]
    weights = np.divide((third[..., None, :] @ turn)[..., 0, :], sizes, out=np.zeros_like(sizes), where=signal)
    solved = (turn @ weights[..., None])[..., 0] * inverse
    made = np.zeros((*values.shape[:-1], *(rank + 1,) * 3))
    made[..., 0, :, :] = made[..., :, 0, :] = np.eye(rank + 1)
    made[..., 1:, 1:, 0] = np.eye(rank) * (values > 0)[..., None, :]
    made[..., 1:, 1:, 1:] = (solved @ basis.vectors).reshape(*values.shape[:-1], rank, rank, rank)
    return made


def with_hubs(fit: SpectralFit, hubs: Sequence[HubFit], rows: float) -> SpectralFit:
    """Return a fit with the nodes of its plan's hubs learned together.

    The fit has each node learned by its own views, `hubs` what was learned of each hub.
    """
    home = {position: h for h, hub in enumerate(fit.plan.hubs) for position in hub.nodes}
    edges, cores = list(fit.edges), list(fit.cores)
    for h in range(len(hubs)):
        for position, core in _HubOperators(fit, hubs, home, h).cores().items():
            # So it is but for rounding, which would add up along a chain.
            core[(0,) * (core.ndim - 1)] = np.eye(1, core.shape[-1])[0]
            cores[position] = core
    for position, edge in enumerate(fit.edges):
        if edge is not None and position in home and fit.plan.nodes[position].parent in home:
            edges[position] = _bond(fit.plan, hubs, home, position, edge, rows)
    return replace(fit, edges=tuple(edges), cores=tuple(cores), together=True, apart=fit)


def _bond(
    plan: ViewPlan, hubs: Sequence[HubFit], home: dict[int, int], position: int, edge: LearnedEdge, rows: float
) -> LearnedEdge:
    """Return a bond within a hub or between two, which has the basis of a hub, given that of its views."""
    node = plan.nodes[position]
    whole = [h for h in (home[position], home[node.parent]) if plan.hubs[h].states == node.rank]
    if not whole:
        # All dependence on two branches or so, and nothing else: it is shrunk where it comes in.
        return replace(edge, damping=np.zeros(node.rank))
    hub = hubs[whole[0]]
    damping = np.full(node.rank, hub.features / rows)
    damping[0] = 0.0
    noise = 2 * math.sqrt(hub.features / rows)
    return replace(edge, singular_values=hub.sizes, damping=damping, noise=noise)


class _HubOperators:
    """The operators of one hub among all: its multiplication, in terms of the bonds of its branches."""

    def __init__(self, fit: SpectralFit, fits: Sequence[HubFit], home: dict[int, int], number: int) -> None:
        self.plan, self.edges = fit.plan, fit.edges
        self.fits, self.home, self.number = fits, home, number
        self.hub = fit.plan.hubs[number]

    def cores(self) -> dict[int, Floats]:
        """Return the operators of the hub's nodes."""
        multiplication = self.fits[self.number].multiplication
        carried = {branch.position: self._below(branch.position, branch.columns) for branch in self.hub.below}
        cores = {}
        for position in reversed(self.hub.nodes):
            node = self.plan.nodes[position]
            table = np.eye(1, self.hub.states)[0]
            for child in node.children:
                turned = np.tensordot(carried[child], multiplication, axes=(1, 1))
                table = np.tensordot(table, turned, axes=(-1, 1))
            if position == self.hub.nodes[0]:
                cores[position] = table @ self._above()
            else:
                cores[position], carried[position] = _narrowed(table, node.rank)
        return cores

    def _seen(self, name: str) -> Floats:
        """Return the features of a column given the separator, in the basis: shape (features, states)."""
        return _bordered(self.fits[self.number].loadings[name])

    def _below(self, position: int, names: Sequence[str]) -> Floats:
        """Return the features of the bond of a branch below, in the basis: shape (bond, states)."""
        node = self.plan.nodes[position]
        if position in self.home:
            lower = self.home[position]
            # The bond to a hub of more states than this one has this one's basis.
            whole = node.rank == self.plan.hubs[lower].states
            return self._between(lower, self.number, names) if whole else np.eye(node.rank)
        (name,) = names
        if node.observed is not None:
            return self._seen(name)
        edge = self.edges[position]
        assert edge is not None
        return np.asarray(edge.projection.T @ self._seen(name))

    def _above(self) -> Floats:
        """Return the basis in terms of the bond above, shape (states, bond)."""
        if self.hub.rooted:
            return np.eye(self.hub.states, 1)
        top = self.hub.nodes[0]
        node = self.plan.nodes[top]
        if node.parent in self.home:
            if node.rank == self.hub.states:
                return np.eye(self.hub.states)
            upper = self.home[node.parent]
            (names,) = [branch.columns for branch in self.plan.hubs[upper].below if branch.position == top]
            return self._between(self.number, upper, names)
        edge = self.edges[top]
        assert edge is not None
        views = zip(node.outside, edge.solves, strict=True)
        return np.asarray(sum(self._seen(name).T @ solve for (name,), solve in views))

    def _between(self, lower: int, upper: int, names: Sequence[str]) -> Floats:
        """Return the basis of a hub in that of the hub above, by the columns that represent it there."""
        below, above = (np.concatenate([self.fits[h].loadings[name] for name in names]) for h in (lower, upper))
        return _bordered(np.linalg.pinv(below, rcond=NO_SIGNAL) @ above)


def _bordered(matrix: Floats) -> Floats:
    """Return a matrix with the constant as one more direction, the first, on both sides."""
    made = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1))
    made[0, 0] = 1.0
    made[1:, 1:] = matrix
    return made


def _narrowed(table: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return a table (parts…, states) as an operator with some bond, and the bond's features: (bond, states)."""
    states = table.shape[-1]
    if rank == states:
        return table, np.eye(states)
    flat = table.reshape(-1, states)
    u, sizes, v = np.linalg.svd(flat[:, 1:], full_matrices=False)
    core = np.column_stack([flat[:, 0], (u * sizes)[:, : rank - 1]])
    return core.reshape(*table.shape[:-1], rank), _bordered(v[: rank - 1])
