r"""The states of hidden variables on the bonds of a spectral fit.

A bond's coordinates are arbitrary. Where a set S of variables separates a bond, there is a matrix G, its *gauge*,
with :math:`P(\text{what lies beyond} \mid s) = f \cdot G_{\cdot s}`, where f is what the cores beyond make of the
cells there. At a node all of whose legs S separates, the core is :math:`\sum_s p_s\, G^a_{\cdot s} \otimes
G^b_{\cdot s} \otimes G^c_{\cdot s}`. So with c marginalised out it is :math:`K_0 = G^a \mathrm{diag}(p)\, (G^b)^T`,
with the j-th coordinate of c it is :math:`K_j`, and :math:`K_0^{-1} K_j` has the same eigenvectors for every j and
every c: the gauge of b seen from the other end. `Gauges` finds them by joint diagonalisation, and carries them
outward to all other legs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.inference.tensors.named_tables import flat_index
from eigentree.spectral.learn.bonds import NO_SIGNAL
from eigentree.spectral.recover.separations import Leg, legs_of, lies_beyond, route

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.learn.spectral_fit import SpectralFit
    from eigentree.spectral.recover.separations import Crossing, Separation

__all__ = ["Gauges", "IdentifiedStates", "Meeting", "at_bonds", "at_nodes", "jointly_diagonal"]

WEAKEST = 1e-6
"""Matrices whose smallest singular value is below this part of the largest are not inverted."""

CLEAR = 0.8
"""How many times as large as noise a singular value must be for its direction to be trusted."""

MOST_RESIDUAL = 0.3
"""States are not identified where a joint diagonalisation leaves more than this."""

SMALLEST_SHARE = 1e-9
"""A state with less probability cannot be distinguished from noise."""

TRIES = 12
"""From how many random combinations of the family a basis is sought."""

EXACT = 1e-9
"""A residual below this leaves nothing to improve."""

SWEEPS = 30
"""Most steps that improve the best basis."""

LONGEST_STEP = 0.3
"""How far a step may turn a vector toward another: beyond, its first order is no guide."""

MOST_ILL = 1e8
"""A basis whose condition number is larger is none."""


@dataclass(frozen=True, eq=False)
class IdentifiedStates:
    """The states of a set of variables, in an order of their own.

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

    def reordered(self, order: list[int]) -> IdentifiedStates:
        """Return the same with the states in another order."""
        legs = {leg: gauge[:, order] for leg, gauge in self.legs.items()}
        return IdentifiedStates(self.separation, self.shares[order], legs, self.residual)


@dataclass(frozen=True, eq=False)
class Gauges:
    """The cores of a fit at some shrinkage, seen from their legs."""

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
        """Return a node's core with all legs but some marginalised out, axes in the order of these."""
        whole = self.whole if whole is None else whole
        legs = list(legs_of(self.fit.plan, node))
        core = self.cores[node]
        for axis in reversed(range(len(legs))):
            if legs[axis] not in kept:
                core = np.tensordot(core, whole[legs[axis]], (axis, 0))
        left = [leg for leg in legs if leg in kept]
        return np.transpose(core, [left.index(leg) for leg in kept])

    def identified(self, separation: Separation) -> IdentifiedStates | str:
        """Return the states of a set of variables, or why they cannot be identified."""
        found = route(self.fit.plan, separation, self.clear)
        if isinstance(found, str):
            return found
        reference, crossings = found
        basis: tuple[Floats, float] | None
        if self.fit.plan.nodes[reference].observed == separation.names[0]:
            # Given itself, an observed variable is what it is.
            basis = np.linalg.inv(self.cores[reference]).astype(np.float64), 0.0
        else:
            family = self._family(separation.states, reference, crossings)
            basis = jointly_diagonal(np.concatenate(family)) if family else None
        if basis is None:
            return "is seen too weakly: no core that shows its states can be inverted"
        vectors, residual = basis
        if residual > MOST_RESIDUAL:
            return f"has states that noise mixes up: the matrices that identify them disagree by {residual:.0%}"
        legs = self._both(Leg(reference, False), vectors)
        if legs is None:
            return "has a state of probability zero, or below"
        top = Leg(reference, False)
        shares = np.linalg.solve(legs[top], self.whole[top.reverse]).astype(np.float64)
        for node, entry, exits, through in crossings:
            before = legs.get(entry.reverse)
            if before is None:
                continue
            # The gauge is carried through the node to its other legs.
            for leg, whole in zip(exits, through, strict=True):
                gauge = self.seen(node, (leg, entry)) @ before
                sums = self.whole[leg] @ gauge
                if not np.isfinite(gauge).all() or not (np.abs(sums) > SMALLEST_SHARE).all():
                    continue
                both = self._both(leg, gauge / sums) if whole else None
                legs.update({leg: gauge / sums} if both is None else both)
        return IdentifiedStates(separation, shares, legs, residual)

    def _both(self, leg: Leg, vectors: Floats) -> dict[Leg, Floats] | None:
        """Return the gauges of a bond from both ends, given one of them up to the lengths of its columns."""
        if not _strength(vectors) > WEAKEST:
            return None
        there, back = vectors, np.linalg.inv(vectors).T
        sums, shares = self.whole[leg] @ there, self.whole[leg.reverse] @ back
        if not ((sums * shares > SMALLEST_SHARE).all() and (np.abs(sums) > SMALLEST_SHARE).all()):
            return None
        return {leg: there / sums, leg.reverse: back / shares}

    def _family(self, states: int, reference: int, crossings: Sequence[Crossing]) -> list[Floats]:
        """Return matrices that are diagonal in the states of a set, seen from above the reference bond."""
        start = Leg(reference, False)
        # How a gauge comes to a leg: what it is multiplied with, how well that can be undone, and whether upward.
        carried = {leg: (np.eye(states), 1.0, leg.up) for leg in (start, start.reverse)}
        family: list[Floats] = []
        for node, entry, exits, through in crossings:
            if entry.reverse not in carried:
                continue
            path, strength, above = carried[entry.reverse]
            for leg, whole in zip(exits, through, strict=True):
                across = self.seen(node, (leg, entry))
                if not whole or not _strength(across) > WEAKEST:
                    continue
                weight = strength * _strength(across)
                carried[leg] = across @ path, weight, above
                for source in exits:
                    if source != leg:
                        slices = np.linalg.solve(across, self.seen(node, (source, leg, entry)))
                        seen = weight * np.linalg.solve(path, slices @ path)
                        # From below, the gauge is the transposed inverse of that from above.
                        family.append(np.asarray(np.swapaxes(seen, 1, 2) if above else seen))
        return [part for part in family if np.isfinite(part).all()]


def _strength(matrix: Floats) -> float:
    """Return the smallest singular value over the largest."""
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return float(sizes[-1] / sizes[0]) if sizes[0] > 0 else 0.0


def jointly_diagonal(family: Floats) -> tuple[Floats, float] | None:
    """Return the basis V in which V^-1 M V is nearly diagonal for every matrix M of a family, and what is left.

    The eigenvectors of the best of several random combinations, improved step by step: in the basis itself, the
    least squares of what stands beside the diagonals has, to first order, a solution for each pair of vectors.
    None where there is no such basis.

    The family has the shape (matrices, size, size). Returned are the vectors, one column of length 1 each, and
    what is left beside the diagonals, relative to the family less its multiples of the identity.
    """
    size = family.shape[-1]
    if not len(family) or not np.isfinite(family).all():
        return None
    if size == 1:
        return np.ones((1, 1)), 0.0
    means = np.trace(family, axis1=1, axis2=2)[:, None, None] / size
    scale = float(np.linalg.norm(family - means * np.eye(size)))
    if scale == 0.0:
        return None
    random = np.random.default_rng(0)
    found: list[tuple[Floats, float]] = []
    for _ in range(TRIES):
        vectors = _eigenvectors(np.tensordot(random.standard_normal(len(family)), family, 1))
        if np.linalg.cond(vectors) < MOST_ILL:
            found.append((vectors, _beside(family, vectors) / scale))
            if found[-1][1] < EXACT:
                break
    return _improved(family, *min(found, key=lambda basis: basis[1]), scale) if found else None


def _eigenvectors(matrix: Floats) -> Floats:
    """Return real eigenvectors of length 1; a complex pair gives its real and its imaginary part."""
    values, vectors = np.linalg.eig(matrix)
    real = np.where(values.imag < 0, vectors.imag, vectors.real)
    lengths = np.linalg.norm(real, axis=0)
    return np.asarray(np.divide(real, lengths, out=np.zeros_like(real), where=lengths > 0))


def _beside(family: Floats, vectors: Floats) -> float:
    """Return the size of all that stands beside the diagonals."""
    turned = np.linalg.solve(vectors, family @ vectors)
    turned[:, range(len(vectors)), range(len(vectors))] = 0.0
    return float(np.linalg.norm(turned))


def _improved(family: Floats, vectors: Floats, residual: float, scale: float) -> tuple[Floats, float]:
    """Return the basis after steps that lower its residual, as long as they do."""
    eye = np.eye(len(vectors))
    for _ in range(SWEEPS):
        turned = np.linalg.solve(vectors, family @ vectors)
        diagonals = np.diagonal(turned, axis1=1, axis2=2)
        apart = diagonals[:, :, None] - diagonals[:, None, :]
        squares = (apart**2).sum(axis=0)
        step = -(turned * apart).sum(axis=0) / (squares + 1e-9 * squares.max() + np.finfo(float).tiny)
        np.fill_diagonal(step, 0.0)
        longest = np.abs(step).max()
        step *= min(1.0, LONGEST_STEP / longest) if longest > 0 else 0.0
        moved = vectors @ (eye + step)
        moved /= np.linalg.norm(moved, axis=0)
        if not np.linalg.cond(moved) < MOST_ILL:
            break
        better = _beside(family, moved) / scale
        if not better < residual:
            break
        vectors, residual = moved, better
    return vectors, residual


MOST_CELLS = 1024
"""Joint distributions with more cells are not solved for."""


class Meeting(NamedTuple):
    """A bond or a node, and a set of variables beyond each of its legs.

    Attributes
    ----------
    node : int
        The node, or -1 for a bond.
    legs : tuple of Leg
    sets : tuple of IdentifiedStates
        One per leg: what separates that which lies beyond it from all else.
    """

    node: int
    legs: tuple[Leg, ...]
    sets: tuple[IdentifiedStates, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """The variables of all sets, each once, and the number of states of each."""
        found: dict[str, int] = {}
        for states in self.sets:
            found |= zip(states.separation.names, states.separation.sizes, strict=True)
        return found

    @property
    def residual(self) -> float:
        """That of the worst set."""
        return max(states.residual for states in self.sets)

    def joint(self, gauges: Gauges) -> Floats | None:
        """Return P(variables), by non-negative least squares, or None where that fails."""
        # Here, since loading it takes long and not every fit is recovered.
        from scipy.optimize import nnls

        names, shape = tuple(self.sizes), tuple(self.sizes.values())
        if self.node < 0:
            target = np.eye(gauges.fit.plan.nodes[self.legs[0].bond].rank)
        else:
            target = gauges.cores[self.node]
        columns = np.ones((1, math.prod(shape)))
        for leg, states in zip(self.legs, self.sets, strict=True):
            gauge = states.legs[leg][:, flat_index(shape, names, states.separation.names)]
            columns = (columns[:, None, :] * gauge[None, :, :]).reshape(-1, columns.shape[1])
        if not np.isfinite(columns).all():
            return None
        try:
            found, _ = nnls(columns, target.ravel())
        except RuntimeError:
            # Too many iterations.
            return None
        return np.asarray(found.reshape(shape) / found.sum()) if found.any() else None


def at_bonds(plan: ViewPlan, sets: Iterable[IdentifiedStates]) -> list[Meeting]:
    """Return the bonds at which two different sets meet."""
    by_leg = _by_leg(plan, sets)
    found = []
    for bond in range(1, len(plan.nodes)):
        below, above = Leg(bond, False), Leg(bond, True)
        for inner, outer in product(by_leg.get(below, ()), by_leg.get(above, ())):
            if _depth(plan, bond, inner) > _depth(plan, bond, outer):
                found.append(Meeting(-1, (below, above), (inner, outer)))
    return [meeting for meeting in found if math.prod(meeting.sizes.values()) <= MOST_CELLS]


def at_nodes(plan: ViewPlan, sets: Iterable[IdentifiedStates]) -> list[Meeting]:
    """Return the nodes at which sets meet, one per leg and not all the same."""
    by_leg = _by_leg(plan, sets)
    found = []
    for number, node in enumerate(plan.nodes):
        if node.observed is None:
            legs = legs_of(plan, number)
            every = product(*(by_leg.get(leg, ()) for leg in legs))
            differing = (sets for sets in every if len({states.separation.names for states in sets}) > 1)
            found += [Meeting(number, legs, chosen) for chosen in differing]
    return [meeting for meeting in found if math.prod(meeting.sizes.values()) <= MOST_CELLS]


def _by_leg(plan: ViewPlan, sets: Iterable[IdentifiedStates]) -> dict[Leg, list[IdentifiedStates]]:
    """Return, for each leg, the sets that separate what lies beyond it, and lie there or on its bond."""
    found: dict[Leg, list[IdentifiedStates]] = {}
    for states in sets:
        homes = states.separation.homes
        for leg in states.legs:
            whole = leg.reverse in states.legs
            if whole and any(home == leg.bond or lies_beyond(plan, home, leg) for home in homes):
                found.setdefault(leg, []).append(states)
    return found


def _depth(plan: ViewPlan, bond: int, states: IdentifiedStates) -> float:
    """Return how deep a set lies on the way down through a bond."""
    passed, names = plan.nodes[bond].passed, states.separation.names
    if names in passed:
        return float(passed.index(names))
    below = any(lies_beyond(plan, home, Leg(bond, False)) for home in states.separation.homes)
    return math.inf if below else -math.inf
