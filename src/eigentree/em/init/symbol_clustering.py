"""States that are sets of symbols: which two to merge, and which symbols to exchange, by what the likelihood loses.

If a state were known by its symbol, the likelihood would follow from counts alone: how often one set of symbols
follows another, and how often each of its symbols is shown. Where symbols are informative about states, the best
sets of them are close to the best chain, and finding these takes no pass over the sequences (Brown et al. 1992).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["ROUNDING", "exchanged", "merged"]

ROUNDING = float(np.sqrt(np.finfo(np.float64).eps))
"""The share of a sum of many terms up to which it may be rounding alone."""


def merged(follow: Floats, shown: Floats, groups: int, doubt: float, random: np.random.Generator) -> Integers:
    """Return which group each unit belongs to, merged two by two where the likelihood falls least.

    Given is how often one unit follows another, and how often each shows what. `doubt` is how far what a merger
    costs is believed to be wrong, as the standard deviation of its logarithm.
    """
    member: Integers = np.arange(len(follow))
    while len(follow) > groups:
        cost = _costs(follow, shown) * np.exp(doubt * random.normal(size=follow.shape))
        cost[np.tril_indices(len(cost))] = np.inf
        one, other = np.unravel_index(int(cost.argmin()), cost.shape)
        place = np.arange(len(follow))
        place[other] = one
        place[place > other] -= 1
        onto = np.eye(len(follow) - 1)[place]
        follow, shown, member = onto.T @ follow @ onto, onto.T @ shown, place[member]
    return member


def exchanged(follow: Floats, shown: Floats, member: Integers) -> Integers:
    """Return groups of which no unit can move to another, and no two change places, with a gain in likelihood."""
    here = float(_likelihoods(follow, shown, member[None])[0])
    while True:
        for others in (_moves(member), _swaps(member)):
            found = _likelihoods(follow, shown, others)
            if len(found) and found.max() > here + ROUNDING * abs(here):
                here, member = float(found.max()), others[int(found.argmax())]
                break
        else:
            return member


def _likelihoods(follow: Floats, shown: Floats, members: Integers) -> Floats:
    """Return the log-likelihood of several ways to group units, shape (ways, units), but for what all have."""
    groups = int(members.max(initial=0)) + 1
    onto = np.eye(groups)[members]
    across = onto.transpose(0, 2, 1)
    found: Floats = np.zeros(len(members))
    for counts in (across @ (follow @ onto), across @ shown):
        found += _entropic(counts).sum(axis=(1, 2)) - _entropic(counts.sum(axis=2)).sum(axis=1)
    return found


def _moves(member: Integers) -> Integers:
    """Return all groupings in which one unit is elsewhere, and no group is empty."""
    sizes = np.bincount(member)
    pairs = [
        (unit, group)
        for unit, own in enumerate(member.tolist())
        for group in range(len(sizes))
        if group != own and sizes[own] > 1
    ]
    others = np.repeat(member[None], len(pairs), axis=0)
    for place, (unit, group) in enumerate(pairs):
        others[place, unit] = group
    return others


def _swaps(member: Integers) -> Integers:
    """Return all groupings in which two units have changed places."""
    one, other = np.nonzero(np.triu(member[:, None] != member))
    others = np.repeat(member[None], len(one), axis=0)
    places = np.arange(len(one))
    others[places, one], others[places, other] = member[other], member[one]
    return others


def _costs(follow: Floats, shown: Floats) -> Floats:
    """Return by how much the log-likelihood falls when two units become one, for each two."""

    def lost(table: Floats) -> Floats:
        """Return what all columns of two lines have in that when the lines are added up."""
        each = _entropic(table)
        both: Floats = (_entropic(table[:, None, :] + table) - each[:, None, :] - each).sum(axis=2)
        return both

    def own(table: Floats) -> Floats:
        """Return what the columns of the two themselves have in that."""
        each, across = np.diag(table), _entropic(table)
        first = _entropic(each[:, None] + table.T) - np.diag(across)[:, None] - across.T
        return first + first.T

    mine = np.diag(follow)
    corner = _entropic(mine[:, None] + mine + follow + follow.T)
    kept = _entropic(follow)
    corner -= np.diag(kept)[:, None] + np.diag(kept) + kept + kept.T
    totals, uses = follow.sum(axis=1), shown.sum(axis=1)
    gained = lost(follow) - own(follow) + lost(follow.T) - own(follow.T) + corner + lost(shown)
    for total in (totals, uses):
        gained -= _entropic(total[:, None] + total) - _entropic(total)[:, None] - _entropic(total)
    return -gained


def _entropic(counts: Floats) -> Floats:
    """Return x log x, and 0 for 0."""
    logs: Floats = np.log(counts, out=np.zeros_like(counts), where=counts > 0)
    return counts * logs
