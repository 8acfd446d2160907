"""A canonical order of the states of hidden variables.

Data do not determine the numbering of hidden states, and which one a fit ends in depends on its seed. The
order here depends on the distribution alone.

1. Along chains and trees, states are matched. Hidden variables are visited outward from a root (h0 of a
   chain), and each is matched, state by state, to the hidden neighbour with as many states that came last before it
   (h3 to h2), so that one number means one thing at both. Where both emit columns of the same sizes (the steps of a
   hidden Markov model), states are matched that emit alike; where emissions hardly differ, or there are none to
   compare (the inner variables of a tree), states that tend to occur together.
2. All variables that are matched with each other are then numbered alike, by size: state 0 is the one that is most
   often met, over all of them together. (One end of a chain alone would not do: tables there are not unique, and
   sizes with them.) States of one size, to nine digits, come by the first column, in the order of the columns,
   whose distribution they change: the one that makes the column's state 0 more probable first, or state 1, and so
   on.

Which of two hidden variables that could change places is which (two levels of a factorial model) is not settled.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import TreewidthError
from eigentree.graphs.elimination import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["canonical_orders"]

TIE = 1e-9
"""Probabilities that differ by no more of themselves are equal: rounding must not decide between states."""

TOGETHER = 0.1
"""What the probability of two states to occur together weighs beside the affinity (0 to 1) of their emissions."""


def canonical_orders(network: LatentNetwork) -> dict[str, Integers]:
    """Return, for each hidden variable, its states in their canonical order; the module says which that is."""
    graph = network.graph
    steps = graph.derived(_outward)
    families = [family for _, _, own in steps for family in own]
    # The table of a variable without parents is its marginal, and needs no inference.
    roots = graph.directed and all(len(family) == 1 and not graph.parents(family[0]) for family in families)
    known = network.tables
    tables = iter([known[name] for (name,) in families] if roots else network.clique_marginals(families))
    orders: dict[str, Integers] = {}
    totals: dict[str, Floats] = {}
    firsts: dict[str, str] = {}
    for name, beside, own in steps:
        sizes, *others = [next(tables) for _ in own]
        if beside is None:
            firsts[name] = name
            totals[name] = np.zeros(len(sizes))
            order = _by_size(sizes, _all_emissions(network, name, len(sizes)))
        else:
            firsts[name] = firsts[beside]
            order = _matched(orders[beside], sizes, others[0], others[1::2], others[2::2])
        orders[name] = order
        totals[firsts[name]] += sizes[order]
    ranks = {first: np.concatenate(_ranked(range(len(total)), total)) for first, total in totals.items()}
    return {name: order[ranks[firsts[name]]] for name, order in orders.items()}


def _outward(graph: LatentGraph) -> tuple[tuple[str, str | None, list[tuple[str, ...]]], ...]:
    """Return all hidden variables, outward from a root of each part that edges between them join.

    With each comes the neighbour that its states are matched to, and the families whose joint tables are compared.
    """
    hidden = frozenset(graph.hidden)
    firsts = sorted(hidden, key=lambda name: (not hidden.isdisjoint(graph.parents(name)), natural_key(name)))
    place: dict[str, int] = {}
    steps: list[tuple[str, str | None, list[tuple[str, ...]]]] = []
    for first in firsts:
        waiting = [(natural_key(first), first)]
        while waiting:
            name = heappop(waiting)[1]
            if name in place:
                continue
            around = [other for other in graph.neighbors(name) if other in hidden]
            known = [other for other in around if other in place and graph.states[other] == graph.states[name]]
            beside = max(known, key=place.__getitem__, default=None)
            place[name] = len(steps)
            families: list[tuple[str, ...]] = [(name,)]
            if beside is not None:
                theirs, own = _emitted(graph, hidden, beside), _emitted(graph, hidden, name)
                families.append((beside, name))
                # Emissions are compared where columns have the same numbers of states.
                if [graph.states[column] for column in theirs] == [graph.states[column] for column in own]:
                    pairs = zip(theirs, own, strict=True)
                    families += [each for one, other in pairs for each in ((beside, one), (name, other))]
            steps.append((name, beside, families))
            for other in around:
                heappush(waiting, (natural_key(other), other))
    return tuple(steps)


def _emitted(graph: LatentGraph, hidden: frozenset[str], name: str) -> list[str]:
    """Return the observed children of a hidden variable (neighbours on an undirected graph), by column."""
    observed = [other for other in graph.neighbors(name) if other not in hidden]
    return sorted((other for other in observed if other not in graph.parents(name)), key=graph.column)


def _matched(
    beside: Integers, sizes: Floats, together: Floats, theirs: Sequence[Floats], own: Sequence[Floats]
) -> Integers:
    """Return the states of a variable, each where the state of its neighbour stands that it is most like.

    Given are the neighbour's states in their order, P(variable), P(neighbour, variable), and P(neighbour, column)
    and P(variable, column) of the columns that are compared.
    """
    likeness = together
    emissions = [_given(joint) for joint in own]
    if own:
        pairs = zip(theirs, emissions, strict=True)
        affinities = [np.sqrt(_given(one)) @ np.sqrt(other).T for one, other in pairs]
        likeness = np.sum(affinities, axis=0) + TOGETHER * together
    # Ties are decided by this order and not by the last bits, so likeness is rounded.
    order = _by_size(sizes, (line for table in (*emissions, together[beside].T) for line in table.T))
    return order[_assigned(likeness[np.ix_(beside, order)].round(9))]


def _assigned(likeness: Floats) -> Integers:
    """Return a column for each row, each column once, so that the sum of what is picked is the largest."""
    found: Integers = likeness.argmax(axis=1)
    if len(set(found.tolist())) < len(found):
        # Imported only where rows compete for a column: it takes as long as the rest of a small fit.
        from scipy.optimize import linear_sum_assignment

        found = linear_sum_assignment(likeness, maximize=True)[1]
    return found


def _given(joint: Floats) -> Floats:
    """Return P(column | hidden) from P(hidden, column); zero where the hidden state is impossible."""
    totals = joint.sum(axis=1, keepdims=True)
    conditional: Floats = np.divide(joint, totals, out=np.zeros_like(joint), where=totals > 0)
    return conditional


def _by_size(sizes: Floats, lines: Iterable[Floats]) -> Integers:
    """Return states, the largest first, and those of one size by their values in the first line that differs."""
    groups = _ranked(range(len(sizes)), sizes)
    if len(groups) < len(sizes):
        for values in lines:
            groups = [part for group in groups for part in _ranked(group, values)]
            if len(groups) == len(sizes):
                break
    return np.array([state for group in groups for state in group], np.int64)


def _ranked(states: Iterable[int], values: Floats) -> list[list[int]]:
    """Return states by falling value, those of one value together and in the order in which they come."""
    place = {state: k for k, state in enumerate(states)}
    falling = sorted(place, key=lambda state: -values[state])
    groups = [falling[:1]]
    for before, state in pairwise(falling):
        if values[before] - values[state] > TIE * values[before]:
            groups.append([])
        groups[-1].append(state)
    return [sorted(group, key=place.__getitem__) for group in groups]


def _all_emissions(network: LatentNetwork, name: str, states: int) -> Iterator[Floats]:
    """Yield, for each column and each of its states, its probability given each state of a hidden variable."""
    try:
        revealed = network.reveal((name,))
    except TreewidthError:
        # As a column it would be too large. Ties among thousands of states are left as they are.
        return
    columns = revealed.columns
    codes = columns.missing(states)
    codes[:, columns.position(name)] = np.arange(states)
    places = [columns.position(column) for column in network.graph.observed]
    for table, _ in revealed.distributions(codes, places):
        yield from table.T
