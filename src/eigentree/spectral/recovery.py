"""Tables from a spectral fit: what a `LatentNetwork` needs, as far as the fit tells it.

The states of sets of hidden variables are told apart on the bonds (`gauges`) and named (`labelling`). Emissions
follow from the gauges of leaves. A table among hidden variables follows from a bond that two sets separate: there
the identity is :math:`\\sum_{s, t} P(s, t)\\, G_{\\cdot s} \\otimes H_{\\cdot t}`, with the gauge G of what lies below the
bond given the one set and H of what lies above given the other; or from a node and a set beyond each of its legs.
Either is solved by non-negative least squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import nnls

from eigentree.engine.tables import flat_index, marginal, table_axes
from eigentree.engine.threads import one_thread
from eigentree.errors import RankError
from eigentree.exact.network import LatentNetwork
from eigentree.spectral.gauges import Gauges, Told
from eigentree.spectral.labelling import Labels
from eigentree.spectral.separations import Leg, legs_of, lies_beyond, own_legs, separations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats
    from eigentree.engine.tables import TableKey
    from eigentree.spectral.fit import SpectralFit
    from eigentree.spectral.separations import Separation
    from eigentree.structures.graph import LatentGraph

__all__ = ["Recovery", "recovered"]

MOST_CELLS = 1024
"""Joint distributions with more cells are not solved for."""


@dataclass(frozen=True, eq=False)
class Recovery:
    """The tables that a spectral fit tells.

    Attributes
    ----------
    graph : LatentGraph
    tables : mapping of TableKey to array
        Axes as in ``table_axes(graph)``: what is given, then what the table distributes. States of hidden variables
        come in an order of their own, the same in all tables.
    resolved : mapping of str to float
        The hidden variables whose states were told apart, with the relative residual of the joint diagonalisation:
        0 for exact moments, near 1 where noise is as large as the signal.
    unresolved : mapping of TableKey to str
        Why each other table was not found.
    """

    graph: LatentGraph
    tables: Mapping[TableKey, Floats]
    resolved: Mapping[str, float]
    unresolved: Mapping[TableKey, str]

    @property
    def network(self) -> LatentNetwork:
        """The network of the tables.

        Raises
        ------
        RankError
            When some table was not found.
        """
        if self.unresolved:
            key, reason = next(iter(self.unresolved.items()))
            raise RankError(
                f"{len(self.unresolved)} of {len(self.tables) + len(self.unresolved)} tables do not follow from the "
                f"moments alone, such as that of {', '.join(key)}: {reason}; pass rows, to_network(X), and EM finds them"
            )
        return LatentNetwork(self.graph, dict(self.tables))


def recovered(fit: SpectralFit, shrinkage: float = 0.0) -> Recovery:
    """Return the tables that a spectral fit tells.

    Parameters
    ----------
    fit : SpectralFit
    shrinkage : float
        Toward independent columns, before the states are told apart.
    """
    with one_thread():
        return _Recovering(fit, shrinkage).recovery()


class _Place(NamedTuple):
    """Where the joint distribution of several sets can be solved for.

    Attributes
    ----------
    node : int
        The node whose core tells it, or -1 for the identity on a bond.
    legs : tuple of Leg
    sets : tuple of Told
        One per leg: what separates that which lies beyond it.
    """

    node: int
    legs: tuple[Leg, ...]
    sets: tuple[Told, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of all sets."""
        return tuple(dict.fromkeys(name for told in self.sets for name in told.separation.names))

    @property
    def residual(self) -> float:
        """That of the worst set."""
        return max(told.residual for told in self.sets)


class _Recovering:
    """The steps of a recovery; what is found fills up as they are taken."""

    def __init__(self, fit: SpectralFit, shrinkage: float) -> None:
        self.plan = fit.plan
        self.graph = fit.plan.graph
        self.gauges = Gauges(fit, shrinkage)
        self.trouble: dict[tuple[str, ...], str] = {}
        self.told: list[Told] = []
        found: list[Told] = []
        for separation in self.plan.derived(separations):
            told = separation.trouble or self._told(separation)
            if isinstance(told, str):
                self.trouble[separation.names] = told
            else:
                found.append(told)
        labels = Labels()
        for told in sorted(found, key=lambda told: told.residual):
            named = labels.labelled(told, own_legs(self.plan, told.separation, told.legs))
            if named is None:
                self.trouble[told.separation.names] = "has states that cannot be named variable by variable"
            else:
                self.told.append(named)

    def _told(self, separation: Separation) -> Told | str:
        try:
            return self.gauges.told(separation)
        except np.linalg.LinAlgError:
            return "led to a matrix that cannot be inverted"

    def recovery(self) -> Recovery:
        """Return what was found."""
        tables: dict[TableKey, Floats] = {}
        unresolved: dict[TableKey, str] = {}
        for key, axes in table_axes(self.graph).items():
            table = self._table(key, axes)
            if table is None:
                unresolved[key] = self._reason(axes)
            else:
                tables[key] = table
        return Recovery(
            self.graph, MappingProxyType(tables), MappingProxyType(self._quality()), MappingProxyType(unresolved)
        )

    def _quality(self) -> dict[str, float]:
        best: dict[str, float] = {}
        for told in self.told:
            for name in told.separation.names:
                best[name] = min(told.residual, best.get(name, math.inf))
        return {name: best[name] for name in self.graph.hidden if name in best}

    def _reason(self, axes: tuple[str, ...]) -> str:
        reasons = [f"{{{', '.join(names)}}} {why}" for names, why in self.trouble.items() if set(names) & set(axes)]
        return "; ".join(reasons[:2]) or "no bond or node shows all its variables"

    def _table(self, key: TableKey, axes: tuple[str, ...]) -> Floats | None:
        table = self._emission(key, axes)
        if table is None:
            joint = self._joint(axes)
            if joint is None:
                return None
            table = joint
        return _normalised(table, len(key))

    def _emission(self, key: TableKey, axes: tuple[str, ...]) -> Floats | None:
        """Return P(x | parents) of a leaf, from all sets that hold its parents, or None."""
        leaf = self._leaves.get(key[0]) if len(key) == 1 else None
        if leaf is None or key[0] in self.plan.nodes[leaf].passed[-1]:
            return None
        given = axes[:-1]
        total, weights = np.zeros([self.graph.states[name] for name in axes]), 0.0
        for told in self.told:
            names, sizes = told.separation.names, told.separation.sizes
            if Leg(leaf, False) in told.legs and set(given) <= set(names):
                joint = (self.gauges.cores[leaf] @ told.legs[Leg(leaf, False)]) * told.shares
                table = marginal(joint.T.reshape(*sizes, -1), (*names, key[0]), axes)
                weight = 1 / (told.residual**2 + 1e-3)
                total += weight * _normalised(table, 1)
                weights += weight
        return total / weights if weights else None

    @cached_property
    def _leaves(self) -> dict[str, int]:
        return {node.observed: i for i, node in enumerate(self.plan.nodes) if node.observed is not None}

    def _joint(self, axes: tuple[str, ...]) -> Floats | None:
        """Return the joint distribution of some variables, or None."""
        within = [told for told in self.told if set(axes) <= set(told.separation.names)]
        if within:
            best = min(within, key=lambda told: (told.separation.states, told.residual))
            shares = np.maximum(best.shares, 0.0).reshape(best.separation.sizes)
            return marginal(shares, best.separation.names, axes)
        for places in (self._bond_places, self._node_places):
            fitting = [place for place in places.get(axes[0], ()) if set(axes) <= set(place.names)]
            if fitting:
                best_place = min(fitting, key=lambda place: (self._cells(place), place.residual))
                return self._solved(best_place, axes)
        return None

    def _cells(self, place: _Place) -> int:
        return math.prod(self.graph.states[name] for name in place.names)

    @cached_property
    def _bond_places(self) -> dict[str, list[_Place]]:
        places: dict[str, list[_Place]] = {}
        for bond in range(1, len(self.plan.nodes)):
            below, above = Leg(bond, False), Leg(bond, True)
            for inner, outer in product(self._at(below), self._at(above)):
                if inner is not outer and self._rises(bond, inner, outer):
                    self._keep(places, _Place(-1, (below, above), (inner, outer)))
        return places

    @cached_property
    def _node_places(self) -> dict[str, list[_Place]]:
        places: dict[str, list[_Place]] = {}
        for number, node in enumerate(self.plan.nodes):
            if node.observed is None:
                legs = legs_of(self.plan, number)
                for sets in product(*(self._at(leg) for leg in legs)):
                    if len({told.separation.names for told in sets}) > 1:
                        self._keep(places, _Place(number, legs, sets))
        return places

    def _keep(self, places: dict[str, list[_Place]], place: _Place) -> None:
        if self._cells(place) <= MOST_CELLS:
            for name in place.names:
                places.setdefault(name, []).append(place)

    def _at(self, leg: Leg) -> list[Told]:
        """Return the sets that separate what lies beyond a leg, and lie there or on its bond."""
        return self._by_leg.get(leg, [])

    @cached_property
    def _by_leg(self) -> dict[Leg, list[Told]]:
        found: dict[Leg, list[Told]] = {}
        for told in self.told:
            for leg in told.legs:
                if leg.reverse in told.legs and any(
                    home == leg.bond or lies_beyond(self.plan, home, leg) for home in told.separation.homes
                ):
                    found.setdefault(leg, []).append(told)
        return found

    def _rises(self, bond: int, inner: Told, outer: Told) -> bool:
        """Return whether one set lies below another on the way through a bond."""
        passed = self.plan.nodes[bond].passed

        def depth(told: Told) -> float:
            if told.separation.names in passed:
                return float(passed.index(told.separation.names))
            below = any(lies_beyond(self.plan, home, Leg(bond, False)) for home in told.separation.homes)
            return math.inf if below else -math.inf

        return depth(inner) > depth(outer)

    def _solved(self, place: _Place, axes: tuple[str, ...]) -> Floats | None:
        names = place.names
        shape = tuple(self.graph.states[name] for name in names)
        columns = np.ones((1, math.prod(shape)))
        for leg, told in zip(place.legs, place.sets, strict=True):
            gauge = told.legs[leg][:, flat_index(shape, names, told.separation.names)]
            columns = (columns[:, None, :] * gauge[None, :, :]).reshape(-1, columns.shape[1])
        if place.node < 0:
            target = np.eye(self.plan.nodes[place.legs[0].bond].rank)
        else:
            target = self.gauges.cores[place.node]
        if not np.isfinite(columns).all():
            return None
        try:
            found, _ = nnls(columns, target.ravel())
        except RuntimeError:
            return None
        return marginal(found.reshape(shape), names, axes) if found.any() else None


def _normalised(table: Floats, distributed: int) -> Floats:
    """Return distributions over the last axes: no negative numbers, and even ones where nothing is left."""
    positive = np.maximum(table, 0.0)
    axes = tuple(range(table.ndim - distributed, table.ndim))
    totals = positive.sum(axis=axes, keepdims=True)
    even = np.full_like(positive, 1 / math.prod(table.shape[table.ndim - distributed :]))
    return np.asarray(np.divide(positive, totals, out=even, where=totals > 0))
