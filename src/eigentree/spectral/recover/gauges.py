r"""The states of hidden variables on the bonds of a spectral fit.

A bond's coordinates are arbitrary. Where a set S of variables separates a bond, there is a matrix G, its *gauge*,
with :math:`P(\text{what lies beyond} \mid s) = f \cdot G_{\cdot s}`, where f is what the cores beyond make of the
cells there. At a node all of whose legs S separates, the core is :math:`\sum_s p_s\, G^a_{\cdot s} \otimes
G^b_{\cdot s} \otimes G^c_{\cdot s}`. So with c summed out it is :math:`K_0 = G^a \mathrm{diag}(p)\, (G^b)^T`, with
the j-th coordinate of c it is :math:`K_j`, and :math:`K_0^{-1} K_j` has the same eigenvectors for every j and
every c: the gauge of b seen from the other end. `Gauges` finds them, and carries them outward to all other legs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.spectral.learn.bonds import NO_SIGNAL
from eigentree.spectral.recover.separations import Leg, legs_of, route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats
    from eigentree.spectral.learn.spectral_fit import SpectralFit
    from eigentree.spectral.recover.separations import Route, Separation, Step

__all__ = ["Basis", "Gauges", "Told", "jointly_diagonal"]

WEAKEST = 1e-6
"""Matrices whose smallest singular value is below this part of the largest are not inverted."""

CLEAR = 0.8
"""How many times as large as noise a singular value must be for its direction to be trusted."""

MOST_RESIDUAL = 0.3
"""States are not taken for told apart where a joint diagonalisation leaves more than this."""

SMALLEST_SHARE = 1e-9
"""A state with less probability is none that noise could tell from the others."""


@dataclass(frozen=True, eq=False)
class Told:
    """The states of a set of variables, told apart, in an order of their own.

    Attributes
    ----------
    separation : Separation
    shares : array, shape (states,)
        The probability of each state.
    legs : mapping of Leg to array, shape (coordinates, states)
        The gauges.
    residual : float
        That of the joint diagonalisation.
    """

    separation: Separation
    shares: Floats
    legs: Mapping[Leg, Floats]
    residual: float

    def reordered(self, order: list[int]) -> Told:
        """Return the same with the states in another order."""
        legs = {leg: gauge[:, order] for leg, gauge in self.legs.items()}
        return Told(self.separation, self.shares[order], legs, self.residual)


@dataclass(frozen=True, eq=False)
class Gauges:
    """The cores of a fit at some shrinkage, seen from their legs.

    Attributes
    ----------
    fit : SpectralFit
    shrinkage : float
    """

    fit: SpectralFit
    shrinkage: float

    @cached_property
    def cores(self) -> list[Floats]:
        """The core of each node, one axis per leg; of a leaf (states, bond)."""
        pairs = zip(self.fit.edges, self.fit.cores, strict=True)
        return [core[..., 0] if edge is None else core * edge.factors(self.shrinkage) for edge, core in pairs]

    @cached_property
    def clear(self) -> frozenset[int]:
        """The bonds all of whose dimensions stand clear of noise."""
        found = []
        for bond, edge in enumerate(self.fit.edges):
            if edge is not None and len(edge.singular_values) >= (rank := self.fit.plan.nodes[bond].rank):
                weakest = float(edge.singular_values[rank - 1])
                if weakest > max(CLEAR * edge.noise, NO_SIGNAL * float(edge.singular_values[0])):
                    found.append(bond)
        return frozenset(found)

    @cached_property
    def whole(self) -> dict[Leg, Floats]:
        """What the cores beyond each leg make of cells that are all missing."""
        nodes = self.fit.plan.nodes
        found: dict[Leg, Floats] = {}
        for i in reversed(range(1, len(nodes))):
            made = self.cores[i]
            for child in nodes[i].children:
                made = np.tensordot(found[Leg(child, False)], made, 1)
            found[Leg(i, False)] = made.sum(axis=0) if nodes[i].observed is not None else made
        for i, node in enumerate(nodes):
            for child in node.children:
                found[Leg(child, True)] = self.seen(i, (Leg(child, False),), found)
        return found

    def alone(self, leaf: int) -> Floats:
        """Return the distribution of a leaf's column."""
        return self.cores[leaf] @ self.whole[Leg(leaf, True)] if leaf else self.cores[leaf]

    def seen(self, node: int, kept: tuple[Leg, ...], whole: Mapping[Leg, Floats] | None = None) -> Floats:
        """Return a node's core with all legs but some summed out, axes in the order of these."""
        whole = self.whole if whole is None else whole
        legs = list(legs_of(self.fit.plan, node))
        core = self.cores[node]
        for axis in reversed(range(len(legs))):
            if legs[axis] not in kept:
                core = np.tensordot(core, whole[legs[axis]], (axis, 0))
        left = [leg for leg in legs if leg in kept]
        return np.transpose(core, [left.index(leg) for leg in kept])

    def told(self, separation: Separation) -> Told | str:
        """Return the states of a set of variables, or why they cannot be told apart."""
        found = route(self.fit.plan, separation, self.clear)
        if isinstance(found, str):
            return found
        if self.fit.plan.nodes[found.reference].observed == separation.names[0]:
            # Given itself, an observed variable is what it is.
            vectors = np.linalg.inv(self.cores[found.reference]).astype(np.float64)
            basis: Basis | None = Basis(vectors, 0.0)
        else:
            family = self._family(separation, found)
            basis = jointly_diagonal(np.concatenate(family)) if family else None
        if basis is None:
            return "is seen too weakly: no core that carries its states can be inverted"
        if basis.residual > MOST_RESIDUAL:
            return f"has states that noise mixes up: what tells them apart disagrees by {basis.residual:.0%}"
        legs = self._both(found.reference, basis.vectors)
        if legs is None:
            return "has a state of probability zero, or below"
        top = Leg(found.reference, False)
        shares = np.linalg.solve(legs[top], self.whole[top.reverse]).astype(np.float64)
        for step in found.steps:
            before = legs.get(step.entry.reverse)
            if before is not None:
                self._cross(step, before, legs)
        return Told(separation, shares, legs, basis.residual)

    def _cross(self, step: Step, before: Floats, legs: dict[Leg, Floats]) -> None:
        """Carry a gauge through a node to its other legs, and add them."""
        for leg, whole in zip(step.exits, step.through, strict=True):
            gauge = self.seen(step.node, (leg, step.entry)) @ before
            sums = self.whole[leg] @ gauge
            if not np.isfinite(gauge).all() or not (np.abs(sums) > SMALLEST_SHARE).all():
                continue
            both = self._both(leg.bond, gauge / sums, leg.up) if whole else None
            legs.update({leg: gauge / sums} if both is None else both)

    def _both(self, bond: int, vectors: Floats, up: bool = False) -> dict[Leg, Floats] | None:
        """Return the gauges of a bond from both ends, given one of them up to the lengths of its columns."""
        leg = Leg(bond, up)
        if not _strength(vectors) > WEAKEST:
            return None
        there, back = vectors, np.linalg.inv(vectors).T
        sums, shares = self.whole[leg] @ there, self.whole[leg.reverse] @ back
        if not ((sums * shares > SMALLEST_SHARE).all() and (np.abs(sums) > SMALLEST_SHARE).all()):
            return None
        return {leg: there / sums, leg.reverse: back / shares}

    def _family(self, separation: Separation, found: Route) -> list[Floats]:
        """Return matrices that are diagonal in the states of a set, seen from above the reference bond."""
        start = Leg(found.reference, False)
        carried = {leg: _Carried(np.eye(separation.states), 1.0, leg.up) for leg in (start, start.reverse)}
        family: list[Floats] = []
        for step in found.steps:
            before = carried.get(step.entry.reverse)
            if before is None:
                continue
            for leg, whole in zip(step.exits, step.through, strict=True):
                across = self.seen(step.node, (leg, step.entry))
                if not whole or not _strength(across) > WEAKEST:
                    continue
                weight = before.weight * _strength(across)
                carried[leg] = _Carried(across @ before.path, weight, before.above)
                for source in step.exits:
                    if source != leg:
                        slices = np.linalg.solve(across, self.seen(step.node, (source, leg, step.entry)))
                        seen = weight * np.linalg.solve(before.path, slices @ before.path)
                        # From below, the gauge is the inverse of that from above, turned.
                        family.append(np.asarray(np.swapaxes(seen, 1, 2) if before.above else seen))
        return [part for part in family if np.isfinite(part).all()]


class _Carried(NamedTuple):
    """How a gauge comes to a leg from the reference bond.

    Attributes
    ----------
    path : array
        What the gauge at the reference bond is multiplied with.
    weight : float
        How well that can be undone.
    above : bool
        Whether it comes from the lower end of the reference bond, upward.
    """

    path: Floats
    weight: float
    above: bool


def _strength(matrix: Floats) -> float:
    """Return the smallest singular value over the largest."""
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return float(sizes[-1] / sizes[0]) if sizes[0] > 0 else 0.0


TRIES = 12
"""From how many random combinations of the family a basis is looked for."""

EXACT = 1e-9
"""A residual below this leaves nothing to look for."""

SWEEPS = 30
"""Most steps that improve the best of them."""

LONGEST_STEP = 0.3
"""How far a step may turn a vector toward another: beyond, its first order is no guide."""

MOST_ILL = 1e8
"""A basis whose condition number is larger is none."""


class Basis(NamedTuple):
    """A basis, and how well it diagonalises a family.

    Attributes
    ----------
    vectors : array, shape (size, size)
        One column each, of length 1.
    residual : float
        What is left beside the diagonals, relative to the family less its multiples of the identity.
    """

    vectors: Floats
    residual: float


def jointly_diagonal(family: Floats) -> Basis | None:
    """Return the basis V in which V^-1 M V is nearly diagonal for every matrix M of a family, or None.

    The eigenvectors of the best of several random combinations, improved step by step: in the basis itself, the
    least squares of what stands beside the diagonals has, to first order, a solution for each pair of vectors.

    Parameters
    ----------
    family : array, shape (matrices, size, size)
    """
    size = family.shape[-1]
    if not len(family) or not np.isfinite(family).all():
        return None
    if size == 1:
        return Basis(np.ones((1, 1)), 0.0)
    means = np.trace(family, axis1=1, axis2=2)[:, None, None] / size
    scale = float(np.linalg.norm(family - means * np.eye(size)))
    if scale == 0.0:
        return None
    random = np.random.default_rng(0)
    found: list[Basis] = []
    for _ in range(TRIES):
        vectors = _eigenvectors(np.tensordot(random.standard_normal(len(family)), family, 1))
        if np.linalg.cond(vectors) < MOST_ILL:
            found.append(Basis(vectors, _beside(family, vectors) / scale))
            if found[-1].residual < EXACT:
                break
    if not found:
        return None
    return _improved(family, min(found, key=lambda basis: basis.residual), scale)


def _eigenvectors(matrix: Floats) -> Floats:
    """Return real eigenvectors of length 1; a complex pair gives its real and its imaginary part."""
    values, vectors = np.linalg.eig(matrix)
    real = np.where(values.imag < 0, vectors.imag, vectors.real)
    lengths = np.linalg.norm(real, axis=0)
    return np.asarray(np.divide(real, lengths, out=np.zeros_like(real), where=lengths > 0))


def _turned(family: Floats, vectors: Floats) -> Floats:
    return np.asarray(np.linalg.solve(vectors, family @ vectors))


def _beside(family: Floats, vectors: Floats) -> float:
    """Return the size of all that stands beside the diagonals."""
    turned = _turned(family, vectors)
    turned[:, range(len(vectors)), range(len(vectors))] = 0.0
    return float(np.linalg.norm(turned))


def _improved(family: Floats, basis: Basis, scale: float) -> Basis:
    """Return the basis after steps that lower its residual, as long as they do."""
    eye = np.eye(len(basis.vectors))
    for _ in range(SWEEPS):
        turned = _turned(family, basis.vectors)
        diagonals = np.diagonal(turned, axis1=1, axis2=2)
        gaps = diagonals[:, :, None] - diagonals[:, None, :]
        squares = (gaps**2).sum(axis=0)
        step = -(turned * gaps).sum(axis=0) / (squares + 1e-9 * squares.max() + np.finfo(float).tiny)
        np.fill_diagonal(step, 0.0)
        longest = np.abs(step).max()
        step *= min(1.0, LONGEST_STEP / longest) if longest > 0 else 0.0
        moved = basis.vectors @ (eye + step)
        moved /= np.linalg.norm(moved, axis=0)
        if not np.linalg.cond(moved) < MOST_ILL:
            break
        better = Basis(moved, _beside(family, moved) / scale)
        if not better.residual < basis.residual:
            break
        basis = better
    return basis
