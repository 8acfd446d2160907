"""Where sets of variables whose states were told apart meet: there their joint distribution can be solved for."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.inference.tensors.named_tables import flat_index
from eigentree.spectral.recover.separations import Leg, legs_of, lies_beyond

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eigentree.arrays import Floats
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.recover.gauges import Gauges, Told

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
    sets : tuple of Told
        One per leg: what separates that which lies beyond it from all else.
    """

    node: int
    legs: tuple[Leg, ...]
    sets: tuple[Told, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of all sets, each once."""
        return tuple(dict.fromkeys(name for told in self.sets for name in told.separation.names))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of states of each of them."""
        sizes: dict[str, int] = {}
        for told in self.sets:
            sizes |= zip(told.separation.names, told.separation.sizes, strict=True)
        return tuple(sizes[name] for name in self.names)

    @property
    def residual(self) -> float:
        """That of the worst set."""
        return max(told.residual for told in self.sets)

    def joint(self, gauges: Gauges) -> Floats | None:
        """Return P(names), by non-negative least squares, or None where that fails."""
        # Here, since loading it takes long and not every fit is asked for tables.
        from scipy.optimize import nnls

        names, shape = self.names, self.shape
        if self.node < 0:
            target = np.eye(gauges.fit.plan.nodes[self.legs[0].bond].rank)
        else:
            target = gauges.cores[self.node]
        columns = np.ones((1, math.prod(shape)))
        for leg, told in zip(self.legs, self.sets, strict=True):
            gauge = told.legs[leg][:, flat_index(shape, names, told.separation.names)]
            columns = (columns[:, None, :] * gauge[None, :, :]).reshape(-1, columns.shape[1])
        if not np.isfinite(columns).all():
            return None
        try:
            found, _ = nnls(columns, target.ravel())
        except RuntimeError:
            # Too many rounds.
            return None
        return np.asarray(found.reshape(shape) / found.sum()) if found.any() else None


def at_bonds(plan: ViewPlan, sets: Iterable[Told]) -> list[Meeting]:
    """Return the bonds at which two different sets meet."""
    by_leg = _by_leg(plan, sets)
    found = []
    for bond in range(1, len(plan.nodes)):
        below, above = Leg(bond, False), Leg(bond, True)
        for inner, outer in product(by_leg.get(below, ()), by_leg.get(above, ())):
            if _depth(plan, bond, inner) > _depth(plan, bond, outer):
                found.append(Meeting(-1, (below, above), (inner, outer)))
    return list(_small(found))


def at_nodes(plan: ViewPlan, sets: Iterable[Told]) -> list[Meeting]:
    """Return the nodes at which sets meet, one per leg and not all the same."""
    by_leg = _by_leg(plan, sets)
    found = []
    for number, node in enumerate(plan.nodes):
        if node.observed is None:
            legs = legs_of(plan, number)
            choices = product(*(by_leg.get(leg, ()) for leg in legs))
            found += [Meeting(number, legs, sets) for sets in choices if len({*map(_names, sets)}) > 1]
    return list(_small(found))


def _names(told: Told) -> tuple[str, ...]:
    return told.separation.names


def _small(meetings: Iterable[Meeting]) -> Iterator[Meeting]:
    return (meeting for meeting in meetings if math.prod(meeting.shape) <= MOST_CELLS)


def _by_leg(plan: ViewPlan, sets: Iterable[Told]) -> dict[Leg, list[Told]]:
    """Return, for each leg, the sets that separate what lies beyond it, and lie there or on its bond."""
    found: dict[Leg, list[Told]] = {}
    for told in sets:
        homes = told.separation.homes
        for leg in told.legs:
            whole = leg.reverse in told.legs
            if whole and any(home == leg.bond or lies_beyond(plan, home, leg) for home in homes):
                found.setdefault(leg, []).append(told)
    return found


def _depth(plan: ViewPlan, bond: int, told: Told) -> float:
    """Return how deep a set lies on the way down through a bond."""
    passed, names = plan.nodes[bond].passed, told.separation.names
    if names in passed:
        return float(passed.index(names))
    below = any(lies_beyond(plan, home, Leg(bond, False)) for home in told.separation.homes)
    return math.inf if below else -math.inf
