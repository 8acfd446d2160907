"""Where sets of variables with identified states meet: there their joint distribution can be solved for."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.inference.tensors.named_tables import flat_index
from eigentree.spectral.recover.separations import Leg, legs_of, lies_beyond

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.arrays import Floats
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.recover.gauges import Gauges, IdentifiedStates

__all__ = ["Meeting", "at_bonds", "at_nodes"]

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
