"""Hidden variables whose states no row could tell, and what they may be copies of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.graphs.elimination import moral_adjacency

if TYPE_CHECKING:
    from eigentree.graphs.graph import LatentGraph

__all__ = ["copied"]


def copied(graph: LatentGraph, known: frozenset[str]) -> dict[str, str]:
    """Return hidden variables that may be copies of known ones without any loss, each with its original.

    A hidden variable between two others only (the first of a chain, a root with two children) has no states of its
    own that rows could tell: what it makes of one neighbour given the other, a copy of that one makes too. The same
    holds of several hidden variables that are all parents of one observed variable, and beside it have one known
    neighbour each, like the first step of a factorial HMM.

    Parameters
    ----------
    graph : LatentGraph
    known : frozenset of str
        Hidden variables whose states are known.

    Examples
    --------
    >>> from eigentree.graphs.zoo import hmm
    >>> copied(hmm(length=4), frozenset({"h1", "h2"}))
    {'h0': 'h1', 'h3': 'h2'}
    """
    moral = moral_adjacency(graph)
    copies: dict[str, str] = {}
    for name in graph.hidden:
        if name in known or name in copies:
            continue
        beside = sorted(other for other in moral[name] & known if graph.states[other] <= graph.states[name])
        if len(moral[name]) == 2 and beside:
            copies[name] = beside[0]
        else:
            copies |= _copied_together(graph, name, known, moral)
    return copies


def _copied_together(
    graph: LatentGraph, name: str, known: frozenset[str], moral: dict[str, set[str]]
) -> dict[str, str]:
    """Return copies for a variable and the other parents of the one observed variable below it, or none."""
    below = sorted(moral[name].intersection(graph.observed))
    group = {name, *(moral[below[0]] if len(below) == 1 else ())}
    copies: dict[str, str] = {}
    for member in sorted(group):
        others = moral[member] - group - set(below)
        if len(others) != 1 or not others <= known or not group.isdisjoint(graph.neighbors(member)):
            return {}
        (copies[member],) = others
    distinct = len(set(copies.values())) == len(group) and known.isdisjoint(group)
    fits = all(graph.states[original] <= graph.states[member] for member, original in copies.items())
    return copies if distinct and fits else {}
