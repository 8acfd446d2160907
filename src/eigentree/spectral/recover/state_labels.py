"""Which state of a set of variables is which: joint states that were identified become states of each variable.

A state of a hidden variable has no label of its own. But where several sets hold the same variable, they must
agree, and what depends on that variable alone (a leaf below it, say) looks the same for all joint states that share
its state. So each variable's states are known by the gauges of such legs, and joint states are assigned to
combinations of them at the least cost. Where nothing depends on a variable alone (a factorial HMM), the joint
distribution with a neighbouring set is the guide: only under the right labels does it factorise as the graph says.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from eigentree.spectral.recover.gauges import at_bonds
from eigentree.spectral.recover.separations import own_legs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eigentree.arrays import Floats, Integers
    from eigentree.graphs.graph import LatentGraph
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.recover.gauges import IdentifiedStates, Meeting
    from eigentree.spectral.recover.separations import Leg

    Sets = dict[tuple[str, ...], IdentifiedStates]
    GaugeSums = dict[tuple[str, Leg], tuple[Floats, float]]

__all__ = ["labelled", "weight_of"]

MOST_PERMUTED = 4
"""Labels are tried in all orders for sets of at most so many joint states."""

ROUNDS = 10
"""Most rounds in which joint states are assigned to combinations and these are averaged."""

RESIDUAL_VARIANCE = 1e-3
"""Added to a squared residual before it becomes a weight: none is better than the others without limit."""

TINY = 1e-12
"""Stands for a probability of zero where a logarithm is taken."""


def weight_of(states: IdentifiedStates) -> float:
    """Return how much identified states count in means."""
    return 1 / (states.residual**2 + RESIDUAL_VARIANCE)


def labelled(
    plan: ViewPlan, sets: Iterable[IdentifiedStates]
) -> tuple[tuple[IdentifiedStates, ...], tuple[IdentifiedStates, ...]]:
    """Return sets with their states in the order of their variables' states, the clearest first; and the others."""
    sums: GaugeSums = {}
    known: Sets = {}
    left: Sets = {}
    for states in sorted(sets, key=lambda states: states.residual):
        found = _labelled_alone(sums, states, own_legs(plan, states.separation, states.legs))
        (left if found is None else known)[states.separation.names] = states if found is None else found
    if left:
        _label_by_neighbours(plan, known, left)
    return tuple(known.values()), tuple(left.values())


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


def _label_by_neighbours(plan: ViewPlan, known: Sets, left: Sets) -> None:
    """Move sets to the known ones, beside those that are known as long as there are any, the clearest first."""
    meetings = at_bonds(plan, [*known.values(), *left.values()])
    around: dict[tuple[str, ...], list[int]] = {}
    for place, meeting in enumerate(meetings):
        for states in meeting.sets:
            around.setdefault(states.separation.names, []).append(place)
    queue = [
        (all(states.separation.names in left for states in meeting.sets), meeting.residual, place)
        for place, meeting in enumerate(meetings)
    ]
    heapify(queue)
    while queue and left:
        place = heappop(queue)[-1]
        for names, states in _labelled_pair(plan.graph, meetings[place], known, left).items():
            if names in left:
                known[names] = states
                del left[names]
                for other in around[names]:
                    heappush(queue, (False, meetings[other].residual, other))


def _labelled_pair(graph: LatentGraph, meeting: Meeting, known: Sets, left: Sets) -> Sets:
    """Return two sets that meet at a bond, labelled so that their joint distribution factorises; else nothing."""
    first, second = (states.separation.names for states in meeting.sets)
    if first in known and second in known:
        return {}
    one, two = known.get(first) or left[first], known.get(second) or left[second]
    try:
        below, above = (
            np.linalg.inv(states.legs[leg]) for states, leg in zip((one, two), meeting.legs, strict=True)
        )
    except np.linalg.LinAlgError:
        return {}
    joint = np.asarray(below @ above.T, np.float64)
    orders = _factorising_orders(graph, joint, (one, two), (first in known, second in known))
    if orders is None:
        return {}
    return {first: one.reordered(orders[0]), second: two.reordered(orders[1])}


def _factorising_orders(
    graph: LatentGraph, joint: Floats, sets: tuple[IdentifiedStates, IdentifiedStates], fixed: tuple[bool, bool]
) -> tuple[list[int], list[int]] | None:
    """Return the orders of the states of two sets under which their joint distribution fits the graph best.

    `fixed` says whether the states of each have their labels already. None where the graph is not directed, the
    sets have a common variable, or have too many states.
    """
    first, second = (states.separation for states in sets)
    names = first.names + second.names
    heads = [name for name in names if set(graph.parents(name)) <= set(names)]
    if not graph.directed or not heads or len(set(names)) < len(names) or max(joint.shape) > MOST_PERMUTED:
        return None
    families = [tuple(names.index(member) for member in (*graph.parents(head), head)) for head in heads]
    rest = tuple(k for k, name in enumerate(names) if name not in heads)
    positive = np.maximum(joint, TINY)

    def misfit(orders: tuple[list[int], list[int]]) -> float:
        table = positive[np.ix_(*orders)].reshape(first.sizes + second.sizes)
        return _entropy(table, rest, ()) + sum(_entropy(table, family, family[:-1]) for family in families)

    choices = [
        [list(range(size))] if known else [list(order) for order in permutations(range(size))]
        for size, known in zip(joint.shape, fixed, strict=True)
    ]
    return min(((a, b) for a in choices[0] for b in choices[1]), key=misfit)


def _entropy(table: Floats, axes: tuple[int, ...], given: tuple[int, ...]) -> float:
    """Return the entropy of some axes given others among them."""
    joint = table.sum(axis=tuple(k for k in range(table.ndim) if k not in axes), keepdims=True)
    alone = joint.sum(axis=tuple(k for k in axes if k not in given), keepdims=True)
    return float(-(joint * np.log(joint / alone)).sum())
