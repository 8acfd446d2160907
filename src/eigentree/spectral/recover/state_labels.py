"""Which state of a set of variables is which: joint states that were told apart become states of each variable.

A state of a hidden variable has no name of its own. But where several sets hold the same variable, they must agree,
and what depends on that variable alone (a leaf below it, say) looks the same for all joint states that share its
state. So each variable's states are known by how such legs look, and joint states are given to combinations of them
at the least cost. Where nothing depends on a variable alone (a factorial HMM), the joint distribution with a
neighbouring set is the guide: only under the right names does it factorise as the graph says.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.spectral.recover.joint_distributions import at_bonds
from eigentree.spectral.recover.separations import own_legs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eigentree.arrays import Floats, Integers
    from eigentree.graphs.graph import LatentGraph
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.recover.gauges import Told
    from eigentree.spectral.recover.joint_distributions import Meeting
    from eigentree.spectral.recover.separations import Leg

__all__ = ["STEADY", "Labels", "Named", "Orders", "factorised", "named"]

MOST_PERMUTED = 4
"""Names are tried in all orders for sets of at most so many joint states."""

ROUNDS = 10
"""Most rounds in which joint states are given to combinations and these are averaged."""

STEADY = 1e-3
"""What is added to a squared residual before it becomes a weight: none is better than the others without limit."""


TINY = 1e-12
"""Stands for a probability of zero where a logarithm is taken."""


class _Look(NamedTuple):
    """How the states of one variable look from a leg, as a weighted sum over sets.

    Attributes
    ----------
    total : array, shape (coordinates, states)
    weight : float
    """

    total: Floats
    weight: float

    @property
    def mean(self) -> Floats:
        """The look itself."""
        return self.total / self.weight


class Labels:
    """How the states of each variable look, so far: it fills up as sets are labelled."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, Leg], _Look] = {}

    def labelled(self, told: Told, own: Mapping[str, Iterable[Leg]]) -> Told | None:
        """Return the states of a set in the order of its variables' states, or None where some cannot be named.

        Parameters
        ----------
        told : Told
        own : mapping of str to iterable of Leg
            For each variable of the set, the legs that depend on it alone.
        """
        names, sizes = told.separation.names, told.separation.sizes
        if len(names) > 1 and not all(own[name] for name in names):
            return None
        parts = np.array(np.unravel_index(np.arange(told.separation.states), sizes))
        columns, centres = [], []
        for name, size in zip(names, sizes, strict=True):
            known = [leg for leg in own[name] if (name, leg) in self._looks]
            columns.append(np.vstack([told.legs[leg] for leg in known or own[name]]).T)
            looks = [self._looks[name, leg].mean for leg in known]
            centres.append(np.vstack(looks).T if known else _spread(columns[-1], size))
        order = told.reordered(_given(columns, centres, parts).tolist())
        for k, (name, size) in enumerate(zip(names, sizes, strict=True)):
            for leg in own[name]:
                self._add(name, leg, _averaged(order.legs[leg], parts[k], size), told.residual)
        return order

    def _add(self, name: str, leg: Leg, look: Floats, residual: float) -> None:
        weight = 1 / (residual**2 + STEADY)
        before = self._looks.get((name, leg), _Look(np.zeros_like(look), 0.0))
        self._looks[name, leg] = _Look(before.total + weight * look, before.weight + weight)


def _spread(columns: Floats, count: int) -> Floats:
    """Return some of the columns that lie far from each other."""
    if count == len(columns):
        return columns
    chosen = [int(((columns - columns.mean(axis=0)) ** 2).sum(axis=1).argmax())]
    while len(chosen) < count:
        distances = ((columns[:, None] - columns[chosen]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int(distances.argmax()))
    return columns[chosen]


def _given(columns: list[Floats], centres: list[Floats], parts: Integers) -> Integers:
    """Return, for each combination of states, the joint state that it is given."""
    # Here, since loading it takes long and not every fit is asked for tables.
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


def _averaged(gauge: Floats, part: Integers, size: int) -> Floats:
    return np.stack([gauge[:, part == state].mean(axis=1) for state in range(size)], axis=1)


class Orders(NamedTuple):
    """The orders of the states of two sets under which their joint distribution factorises best.

    Attributes
    ----------
    first, second : list of int
    """

    first: list[int]
    second: list[int]


def factorised(
    graph: LatentGraph, joint: Floats, sets: tuple[Told, Told], fixed: tuple[bool, bool]
) -> Orders | None:
    """Return the orders of the states of two sets under which their joint distribution fits the graph best.

    Parameters
    ----------
    graph : LatentGraph
        A directed one; on others nothing is known.
    joint : array, shape (states of the first set, states of the second)
    sets : pair of Told
        Sets without a common variable.
    fixed : pair of bool
        Whether the states of each have their names already.
    """
    first, second = (told.separation for told in sets)
    names = first.names + second.names
    heads = [name for name in names if set(graph.parents(name)) <= set(names)]
    if not graph.directed or not heads or len(set(names)) < len(names) or max(joint.shape) > MOST_PERMUTED:
        return None
    families = [tuple(names.index(member) for member in (*graph.parents(head), head)) for head in heads]
    rest = tuple(k for k, name in enumerate(names) if name not in heads)
    shape = first.sizes + second.sizes
    positive = np.maximum(joint, TINY)

    def fit(orders: Orders) -> float:
        table = positive[np.ix_(orders.first, orders.second)].reshape(shape)
        total = _entropy(table, rest, ())
        return total + sum(_entropy(table, family, family[:-1]) for family in families)

    choices = [
        [list(range(size))] if known else [list(order) for order in permutations(range(size))]
        for size, known in zip(joint.shape, fixed, strict=True)
    ]
    return min((Orders(a, b) for a in choices[0] for b in choices[1]), key=fit)


def _entropy(table: Floats, axes: tuple[int, ...], given: tuple[int, ...]) -> float:
    """Return the entropy of some axes given others among them."""
    joint = table.sum(axis=tuple(k for k in range(table.ndim) if k not in axes), keepdims=True)
    alone = joint.sum(axis=tuple(k for k in axes if k not in given), keepdims=True)
    return float(-(joint * np.log(joint / alone)).sum())


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
