"""Where a set of variables splits the observed ones into three parts: what recovery owes to the structure alone.

A bond of the plan, seen from one of its ends, is a *leg*; what lies beyond it is the inside of the bond or its
outside. A set S of variables separates a bond when what lies on one side is independent of the other given S. Where
it separates all legs of a node, the node's core is a sum over the states of S of products of one vector per leg;
where two of these legs have as many dimensions as S has states, the states of S can be identified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from eigentree.graphs.junction_tree import subtrees

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.planning.view_plan import PlanNode, ViewPlan

__all__ = ["Crossing", "Leg", "Separation", "legs_of", "lies_beyond", "own_legs", "route", "separations"]

MOST_STATES = 64
"""Sets with more joint states are not identified."""

MOST_REFERENCES = 24
"""Among so many bonds, the best to start from is sought; among more, the first is taken."""


class Leg(NamedTuple):
    """A bond, by the node of the plan below it, seen from one end: `up` where its outside lies beyond."""

    bond: int
    up: bool

    @property
    def reverse(self) -> Leg:
        """The same bond from its other end."""
        return Leg(self.bond, not self.up)


class Crossing(NamedTuple):
    """A node that is crossed on the way outward from the reference bond, by the leg that leads back.

    `through` says of each of its other legs whether it clearly has as many dimensions as the set has states.
    """

    node: int
    entry: Leg
    exits: tuple[Leg, ...]
    through: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Separation:
    """A set of variables, and the bonds that it separates.

    Attributes
    ----------
    names : tuple of str
    sizes : tuple of int
        The number of states of each.
    homes : tuple of int
        The bonds whose edges pass through exactly this set.
    bonds : frozenset of int
        All bonds that it separates.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    homes: tuple[int, ...]
    bonds: frozenset[int]

    @property
    def states(self) -> int:
        """The number of joint states."""
        return math.prod(self.sizes)


def legs_of(plan: ViewPlan, number: int) -> tuple[Leg, ...]:
    """Return the legs of a node in the order of its core's axes: its children's, then its parent's."""
    node = plan.nodes[number]
    below = tuple(Leg(child, False) for child in node.children)
    return below if node.parent < 0 else (*below, Leg(number, True))


def lies_beyond(plan: ViewPlan, bond: int, leg: Leg) -> bool:
    """Return whether a bond lies beyond a leg of another one."""
    below = bond in plan.derived(_subtrees)[leg.bond]
    return bond != leg.bond and below != leg.up


def _subtrees(plan: ViewPlan) -> tuple[range, ...]:
    return subtrees(plan.nodes)


def own_legs(plan: ViewPlan, separation: Separation, legs: Iterable[Leg]) -> dict[str, list[Leg]]:
    """Return, for each variable of a set, those among some legs beyond which all depends on it alone."""
    if len(separation.names) == 1:
        return {separation.names[0]: list(legs)}
    found: dict[str, list[Leg]] = {name: [] for name in separation.names}
    for leg in legs:
        for name in separation.names:
            here = (name,) in plan.nodes[leg.bond].passed
            if here and not any(lies_beyond(plan, home, leg) for home in separation.homes):
                found[name].append(leg)
    return found


def separations(plan: ViewPlan) -> tuple[Separation, ...]:
    """Return the sets that edges of the junction tree pass through."""
    seen = dict.fromkeys(names for node in plan.nodes[1:] for names in node.passed if names)
    by_name: dict[str, list[int]] = {}
    for bond, node in enumerate(plan.nodes):
        for name in {name for names in node.passed for name in names}:
            by_name.setdefault(name, []).append(bond)
    found = []
    for names in seen:
        sizes = tuple(plan.graph.states[name] for name in names)
        homes = tuple(bond for bond in by_name[names[0]] if names in plan.nodes[bond].passed)
        found.append(Separation(names, sizes, homes, frozenset(_separated(plan, names, by_name))))
    return tuple(found)


def _separated(plan: ViewPlan, names: tuple[str, ...], by_name: dict[str, list[int]]) -> set[int]:
    """Return the bonds that a set separates.

    It does so where an edge passes through no more than it, and where it separates all other bonds of a node.
    """
    within = set(names)

    def covered(node: PlanNode) -> bool:
        return any(within.issuperset(passed) for passed in node.passed)

    found = {bond for name in names for bond in by_name[name] if bond > 0 and covered(plan.nodes[bond])}
    stack = list(found)
    while stack:
        for end in _ends(plan, stack.pop()):
            legs = [leg.bond for leg in legs_of(plan, end)]
            fresh = [b for b in legs if b not in found]
            if sum(not covered(plan.nodes[b]) for b in fresh) <= 1:
                found.update(fresh)
                stack.extend(fresh)
    return found


def _ends(plan: ViewPlan, bond: int) -> list[int]:
    """Return the inner nodes at the ends of a bond."""
    ends = [plan.nodes[bond].parent]
    return ends if plan.nodes[bond].observed is not None else [*ends, bond]


def route(plan: ViewPlan, separation: Separation, clear: frozenset[int]) -> tuple[int, tuple[Crossing, ...]] | str:
    """Return how the states of a set can be identified, or why they cannot, in words.

    `clear` are the bonds all of whose dimensions stand clear of noise. Returned are the bond on which the
    states are identified, and the crossings from there outward.
    """
    states = separation.states
    if states > MOST_STATES:
        return f"has {states} joint states, more than the {MOST_STATES} that are identified"
    largest = max((plan.nodes[bond].rank for bond in separation.bonds), default=0)
    if largest < states:
        return f"has {states} joint states, of which no bond sees more than {largest}"
    whole = {bond for bond in separation.bonds if plan.nodes[bond].rank == states}
    full = whole & clear
    if not full:
        return f"has {states} joint states, of which the weakest stand no clearer than noise"
    if set(separation.names) <= set(plan.graph.observed) and len(separation.names) == 1:
        # An observed variable labels its states itself, at its own leaf.
        leaf = [bond for bond in sorted(full) if plan.nodes[bond].observed == separation.names[0]]
        if not leaf:
            return "is observed, but the other columns see too little of it"
        return leaf[0], tuple(crossing for crossing, _ in _outward(plan, leaf[0], separation.bonds, full))
    candidates = sorted(full) if len(full) <= MOST_REFERENCES else [min(full)]
    found = {bond: _outward(plan, bond, separation.bonds, full) for bond in candidates}

    def merit(bond: int) -> tuple[int, int]:
        """Return at how many nodes states can be identified, and how near these are."""
        depths = [depth for crossing, depth in found[bond] if len(crossing.exits) == 2 and any(crossing.through)]
        return len(depths), -sum(depths)

    best = max(candidates, key=merit)
    if not merit(best)[0]:
        noise = "" if full == whole else " clearly"
        return f"does not split the columns into three parts of which two see all its states{noise}"
    crossings = tuple(crossing for crossing, _ in found[best])
    if unseen := set(separation.names) - _seen(plan, separation.names, crossings):
        return f"has states that look the same, since nothing distinguishes those of {min(unseen)!r}"
    return best, crossings


def _seen(plan: ViewPlan, names: tuple[str, ...], crossings: Iterable[Crossing]) -> set[str]:
    """Return the variables of a set whose states some leg that identifies them depends on."""
    seen: set[str] = set()
    for crossing in crossings:
        for source, other in zip(crossing.exits, reversed(crossing.through), strict=True):
            if len(crossing.exits) == 2 and other:
                within = [passed for passed in plan.nodes[source.bond].passed if set(passed) < set(names)]
                seen.update(sorted(within, key=len)[0] if within else names)
    return seen


def _outward(plan: ViewPlan, reference: int, bonds: frozenset[int], full: set[int]) -> list[tuple[Crossing, int]]:
    """Return the nodes that can be crossed from a bond outward, and how many lie before each."""
    front = [(end, Leg(reference, end == reference), 0) for end in _ends(plan, reference)]
    found = []
    for end, entry, depth in front:
        legs = legs_of(plan, end)
        if len(legs) > 3 or not bonds.issuperset(leg.bond for leg in legs):
            continue
        exits = tuple(leg for leg in legs if leg != entry)
        found.append((Crossing(end, entry, exits, tuple(leg.bond in full for leg in exits)), depth))
        for leg in exits:
            leaf = not leg.up and plan.nodes[leg.bond].observed is not None
            if leg.bond in full and not leaf:
                front.append((plan.nodes[leg.bond].parent if leg.up else leg.bond, leg.reverse, depth + 1))
    return found
