"""The operators of a hub's nodes: its multiplication table, turned into the bonds of its branches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from eigentree.spectral.learn.bonds import NO_SIGNAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.planning.hub_plan import Hub
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.learn.hub_tensors import HubFit
    from eigentree.spectral.learn.spectral_fit import LearnedEdge, SpectralFit

__all__ = ["with_hubs"]


def with_hubs(fit: SpectralFit, hubs: Sequence[HubFit], rows: float) -> SpectralFit:
    """Return a fit with the nodes of its plan's hubs learned together.

    Parameters
    ----------
    fit : SpectralFit
        What was learned of each node by its own views.
    hubs : sequence of HubFit
        What was learned of each hub.
    rows : float
    """
    home = {position: h for h, hub in enumerate(fit.plan.hubs) for position in hub.nodes}
    edges, cores = list(fit.edges), list(fit.cores)
    for h in range(len(hubs)):
        for position, core in _Turning(fit.plan, hubs, fit.edges, home, h).cores().items():
            # So it is but for rounding, which would add up along a chain.
            core[(0,) * (core.ndim - 1)] = np.eye(1, core.shape[-1])[0]
            cores[position] = core
    for position, edge in enumerate(fit.edges):
        if edge is not None and position in home and fit.plan.nodes[position].parent in home:
            edges[position] = _bond(fit.plan, hubs, home, position, edge, rows)
    return replace(fit, edges=tuple(edges), cores=tuple(cores), apart=fit)


def _bond(
    plan: ViewPlan, hubs: Sequence[HubFit], home: dict[int, int], position: int, edge: LearnedEdge, rows: float
) -> LearnedEdge:
    """Return a bond within a hub or between two, which carries the basis of a hub, given what its views tell."""
    node = plan.nodes[position]
    whole = [h for h in (home[position], home[node.parent]) if plan.hubs[h].states == node.rank]
    if not whole:
        # All that two branches or so can say, and nothing else: what they say is shrunk where it comes in.
        return replace(edge, damping=np.zeros(node.rank))
    hub = hubs[whole[0]]
    damping = np.full(node.rank, hub.features / rows)
    damping[0] = 0.0
    noise = 2 * math.sqrt(hub.features / rows)
    return replace(edge, singular_values=hub.sizes, damping=damping, noise=noise)


class _Turning:
    """One hub among all, and how its branches' bonds are turned into its basis."""

    def __init__(
        self,
        plan: ViewPlan,
        fits: Sequence[HubFit],
        edges: Sequence[LearnedEdge | None],
        home: dict[int, int],
        number: int,
    ) -> None:
        self.plan = plan
        self.fits = fits
        self.edges = edges
        self.home = home
        self.number = number

    @property
    def hub(self) -> Hub:
        return self.plan.hubs[self.number]

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
        """Return what the bond of a branch below carries, in the basis: shape (bond, states)."""
        node = self.plan.nodes[position]
        if position in self.home:
            lower = self.home[position]
            # A hub of more states than this one speaks in this one's basis.
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
        """Return the basis of a hub in that of the hub above, by the columns through which it speaks there."""
        below, above = (np.concatenate([self.fits[h].loadings[name] for name in names]) for h in (lower, upper))
        return _bordered(np.linalg.pinv(below, rcond=NO_SIGNAL) @ above)


def _bordered(matrix: Floats) -> Floats:
    """Return a matrix with the constant as one more direction, the first, on both sides."""
    made = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1))
    made[0, 0] = 1.0
    made[1:, 1:] = matrix
    return made


def _narrowed(table: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return a table (parts…, states) as an operator with some bond, and what that carries: (bond, states)."""
    states = table.shape[-1]
    if rank == states:
        return table, np.eye(states)
    flat = table.reshape(-1, states)
    u, sizes, v = np.linalg.svd(flat[:, 1:], full_matrices=False)
    core = np.column_stack([flat[:, 0], (u * sizes)[:, : rank - 1]])
    return core.reshape(*table.shape[:-1], rank), _bordered(v[: rank - 1])
