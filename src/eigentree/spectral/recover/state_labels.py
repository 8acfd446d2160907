"""Which state of a set of variables is which: joint states that were identified become states of each variable.

A state of a hidden variable has no label of its own. But where several sets hold the same variable, they must
agree, and what depends on that variable alone (a leaf below it, say) looks the same for all joint states that share
its state. So each variable's states are known by the gauges of such legs, and joint states are assigned to
combinations of them at the least cost. Where nothing depends on a variable alone (a factorial HMM), they have no
labels, and tables are left to EM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.spectral.recover.separations import own_legs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eigentree.arrays import Floats, Integers
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.recover.gauges import IdentifiedStates
    from eigentree.spectral.recover.separations import Leg

    GaugeSums = dict[tuple[str, Leg], tuple[Floats, float]]

__all__ = ["labelled", "weight_of"]

ROUNDS = 10
"""Most rounds in which joint states are assigned to combinations and these are averaged."""

RESIDUAL_VARIANCE = 1e-3
"""Added to a squared residual before it becomes a weight: none is better than the others without limit."""


def weight_of(states: IdentifiedStates) -> float:
    """Return how much identified states count in means."""
    return 1 / (states.residual**2 + RESIDUAL_VARIANCE)


def labelled(
    plan: ViewPlan, sets: Iterable[IdentifiedStates]
) -> tuple[tuple[IdentifiedStates, ...], tuple[IdentifiedStates, ...]]:
    """Return sets with their states in the order of their variables' states, the clearest first; and the others."""
    sums: GaugeSums = {}
    known, left = [], []
    for states in sorted(sets, key=lambda states: states.residual):
        found = _labelled_alone(sums, states, own_legs(plan, states.separation, states.legs))
        if found is None:
            left.append(states)
        else:
            known.append(found)
    return tuple(known), tuple(left)


def _labelled_alone(
    sums: GaugeSums, states: IdentifiedStates, own: Mapping[str, list[Leg]]
) -> IdentifiedStates | None:
    """Return the states of a set in the order of its variables' states, or None where some cannot be labelled.

    `own` has, for each variable of the set, the legs that depend on it alone; `sums` the gauges of the states of
    each variable so far, as weighted sums over the sets that were labelled, and goes on with this set.
    """
    names, sizes = states.separation.names, states.separation.sizes
    if len(names) > 1 and not all(own[name] for name in names):
        return None
    parts = np.array(np.unravel_index(np.arange(states.separation.states), sizes))
    columns, centres = [], []
    for name, size in zip(names, sizes, strict=True):
        known = [leg for leg in own[name] if (name, leg) in sums]
        columns.append(np.vstack([states.legs[leg] for leg in known or own[name]]).T)
        means = [total / weight for total, weight in (sums[name, leg] for leg in known)]
        centres.append(np.vstack(means).T if known else _spread(columns[-1], size))
    found = states.reordered(_assigned(columns, centres, parts).tolist())
    weight = weight_of(states)
    for name, size, part in zip(names, sizes, parts, strict=True):
        for leg in own[name]:
            gauge = found.legs[leg]
            mean = np.stack([gauge[:, part == state].mean(axis=1) for state in range(size)], axis=1)
            total, before = sums.get((name, leg), (np.zeros_like(mean), 0.0))
            sums[name, leg] = total + weight * mean, before + weight
    return found


def _spread(columns: Floats, count: int) -> Floats:
    """Return some of the columns that lie far from each other."""
    if count == len(columns):
        return columns
    chosen = [int(((columns - columns.mean(axis=0)) ** 2).sum(axis=1).argmax())]
    while len(chosen) < count:
        distances = ((columns[:, None] - columns[chosen]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int(distances.argmax()))
    return columns[chosen]


def _assigned(columns: list[Floats], centres: list[Floats], parts: Integers) -> Integers:
    """Return, for each combination of states, the joint state that is assigned to it."""
    # Here, since loading it takes long and not every fit is recovered.
    from scipy.optimize import linear_sum_assignment

    order: Integers = np.zeros(0, np.int64)
    for _ in range(ROUNDS):
        cost = np.zeros((parts.shape[1], parts.shape[1]))
        for column, centre, part in zip(columns, centres, parts, strict=True):
            cost += ((column[None, :] - centre[part][:, None]) ** 2).sum(axis=2)
        _, found = linear_sum_assignment(cost)
        if np.array_equal(found, order):
            break
        order = found
        centres = [
            np.array([column[order[part == state]].mean(axis=0) for state in range(len(centre))])
            for column, centre, part in zip(columns, centres, parts, strict=True)
        ]
    return order
