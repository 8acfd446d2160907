"""The states of all sets of variables in the order of their variables' states: set by set, then from set to set."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.spectral.recover.joint_distributions import at_bonds
from eigentree.spectral.recover.separations import own_legs
from eigentree.spectral.recover.state_labels import Labels, factorised

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.arrays import Floats
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.recover.gauges import Told
    from eigentree.spectral.recover.joint_distributions import Meeting

__all__ = ["Named", "named"]


class Named(NamedTuple):
    """What became of sets whose states were told apart.

    Attributes
    ----------
    sets : tuple of Told
        Those whose states have names now: they come in the order of their variables' states.
    nameless : tuple of Told
    """

    sets: tuple[Told, ...]
    nameless: tuple[Told, ...]


def named(plan: ViewPlan, told: Iterable[Told]) -> Named:
    """Return sets with their states in the order of their variables' states, the clearest named first."""
    labels = Labels()
    known: dict[tuple[str, ...], Told] = {}
    left: dict[tuple[str, ...], Told] = {}
    for each in sorted(told, key=lambda each: each.residual):
        found = labels.labelled(each, own_legs(plan, each.separation, each.legs))
        (left if found is None else known)[each.separation.names] = each if found is None else found
    if left:
        _name_by_neighbours(plan, known, left)
    return Named(tuple(known.values()), tuple(left.values()))


def _name_by_neighbours(
    plan: ViewPlan, known: dict[tuple[str, ...], Told], left: dict[tuple[str, ...], Told]
) -> None:
    """Move sets to the known ones, beside those that are known as long as there are any, the clearest first."""
    meetings = at_bonds(plan, [*known.values(), *left.values()])
    around: dict[tuple[str, ...], list[int]] = {}
    for place, meeting in enumerate(meetings):
        for each in meeting.sets:
            around.setdefault(each.separation.names, []).append(place)
    queue = [
        (all(each.separation.names in left for each in meeting.sets), meeting.residual, place)
        for place, meeting in enumerate(meetings)
    ]
    heapify(queue)
    while queue and left:
        place = heappop(queue)[-1]
        for names, each in _fresh(plan, meetings[place], known, left).items():
            known[names] = each
            del left[names]
            for other in around[names]:
                heappush(queue, (False, meetings[other].residual, other))


def _fresh(
    plan: ViewPlan, meeting: Meeting, known: dict[tuple[str, ...], Told], left: dict[tuple[str, ...], Told]
) -> dict[tuple[str, ...], Told]:
    """Return those of two sets that meet and had no names, named so that their joint factorises."""
    first, second = (each.separation.names for each in meeting.sets)
    if first in known and second in known:
        return {}
    one, two = known.get(first) or left[first], known.get(second) or left[second]
    joint = _pair(meeting._replace(sets=(one, two)))
    orders = None if joint is None else factorised(plan.graph, joint, (one, two), (first in known, second in known))
    if orders is None:
        return {}
    fresh = {first: one.reordered(orders.first), second: two.reordered(orders.second)}
    return {names: each for names, each in fresh.items() if names in left}


def _pair(meeting: Meeting) -> Floats | None:
    """Return the joint distribution of two sets that meet at a bond, states in their own orders."""
    below, above = (each.legs[leg] for leg, each in zip(meeting.legs, meeting.sets, strict=True))
    try:
        return np.asarray(np.linalg.inv(below) @ np.linalg.inv(above).T, np.float64)
    except np.linalg.LinAlgError:
        return None
