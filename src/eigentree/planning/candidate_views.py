"""What a few variables say about the separator of an edge, and the groups of them that may become views.

A look is passed along the tree like any message: through each node, what is seen through some of its edges is
combined to what is seen through another. Variables that are too far away drop out, so that tables stay small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from eigentree.arrays import Floats
    from eigentree.planning.node_products import Passage

__all__ = [
    "NOTHING",
    "Group",
    "Incoming",
    "Look",
    "Sizes",
    "View",
    "candidates",
    "combined",
    "leaf_look",
    "nearest_groups",
]

CANDIDATE_CELLS = 1024
"""Size of the table from which the views of an edge are picked; it bounds how many variables are looked at."""

MOST_CANDIDATES = 8
"""And how many of them are looked at beside those that must stay in sight."""

View = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Look:
    """What some variables on one side of an edge say about its separator, on the random instance.

    Attributes
    ----------
    names : tuple of str
        The variables, nearest first.
    distances : tuple of int
        How many variables a path from the separator to each must cross.
    table : array, shape (sizes of the variables…, states of the separator)
        Index 0 of a variable's axis is the message with the variable summed out; the others complete the span of
        its messages. So the messages of a group are the cells where all other variables stand at 0.
    """

    names: View
    distances: tuple[int, ...]
    table: Floats

    def beside(self, other_side: Floats) -> Floats:
        """Return the table with, in place of its last axis, what that says of a span on the other side.

        Where the span is all there is, any scale of the states gives the same ranks, and conditional probabilities
        given the separator are the most even.
        """
        if len(other_side) == other_side.shape[1]:
            return np.asarray(self.table / self.table[(0,) * len(self.names)])
        # As one product of matrices: by axes of the table there would be many small ones.
        return (self.messages() @ other_side.T).reshape(*self.table.shape[:-1], -1)

    def narrowed(self, names: Collection[str]) -> Look:
        """Return the look with some variables only."""
        kept = [k for k, name in enumerate(self.names) if name in names]
        if len(kept) == len(self.names):
            return self
        part = self.table[tuple([slice(None) if name in names else 0 for name in self.names])]
        return Look(tuple([self.names[k] for k in kept]), tuple([self.distances[k] for k in kept]), part)

    def thinned(
        self, view: View, whole: View, most_cells: int = CANDIDATE_CELLS, most: int = MOST_CANDIDATES
    ) -> Look:
        """Return the look without variables that no other edge will look at, given what must stay in sight of it.

        `candidates` keeps what must stay, and another variable only with all nearer ones of no more messages.
        """
        if self.table.size <= most_cells * self.table.shape[-1]:
            return self
        size = dict(zip(self.names, self.table.shape, strict=False))
        kept = {*view, *whole}
        cells = math.prod([size[name] for name in whole])
        nearer: list[int] = []
        for _, name in sorted(zip(self.distances, self.names, strict=True)):
            if name not in kept:
                nearer.append(size[name])
                together = [other for other in nearer if other <= size[name]]
                if len(whole) + len(together) <= most and cells * math.prod(together) <= most_cells:
                    kept.add(name)
        thin = self.narrowed(kept)
        # Not a part of the large table, which shall go.
        return Look(thin.names, thin.distances, np.ascontiguousarray(thin.table))

    def messages(self) -> Floats:
        """Return the table with one message per row."""
        return self.table.reshape(-1, self.table.shape[-1])

    def named(self, group: Group) -> View:
        """Return the names of a group."""
        return tuple([self.names[k] for k in group.members])


NOTHING = Look((), (), np.ones(1))
"""What is seen from above the root."""


class Incoming(NamedTuple):
    """A look through one edge of a node.

    Attributes
    ----------
    edge : int
        Which edge of the passage: a child's position, or -1 for the parent's.
    look : Look
    step : int
        How much farther its variables are from the edge that is looked from now.
    """

    edge: int
    look: Look
    step: int


class Sizes(NamedTuple):
    """All that the order of the groups of a look depends on: one entry per variable.

    Attributes
    ----------
    distances : tuple of int
    columns : tuple of int
        Ranks of their columns among each other.
    states : tuple of int
    shape : tuple of int
        How many messages each has, and last the states of the separator.
    """

    distances: tuple[int, ...]
    columns: tuple[int, ...]
    states: tuple[int, ...]
    shape: tuple[int, ...]


class Group(NamedTuple):
    """A few variables of a look: their positions, and their cells in its table."""

    members: tuple[int, ...]
    cells: tuple[int | slice, ...]


def nearest_groups(sizes: Sizes, count: int, least: int, most_states: int) -> list[Group]:
    """Return groups of so many variables by the sum of their distances and then by their columns.

    Several have at most so many joint states; a single variable may have any number of them.
    """
    every = range(len(sizes.distances))
    groups = [
        members
        for members in combinations(every, count)
        if math.prod([sizes.shape[k] for k in members]) >= least
        and (count == 1 or math.prod([sizes.states[k] for k in members]) <= most_states)
    ]
    groups.sort(
        key=lambda members: (sum([sizes.distances[k] for k in members]), [sizes.columns[k] for k in members])
    )
    return [Group(members, tuple([slice(None) if k in members else 0 for k in every])) for members in groups]


def leaf_look(name: str, messages: Floats, basis: Floats) -> Look:
    """Return what the variable of a leaf says, given its messages and a basis of their span."""
    return Look((name,), (0,), _leaf_messages(messages, basis))


def _leaf_messages(messages: Floats, basis: Floats) -> Floats:
    """Return messages that span a leaf's, the first being the one with its variable summed out."""
    summed = messages.sum(axis=0)
    norm = math.sqrt(summed @ summed)
    # A Householder reflection that takes the summed message to the first row of the basis takes the others to rows
    # that complete its span.
    normal = basis @ summed
    normal[0] += math.copysign(norm, normal[0])
    rest = basis[1:] - normal[1:, None] * (normal @ basis * (2 / (normal @ normal)))
    return np.concatenate([summed[None, :], norm * rest])


def combined(seen: list[Incoming], sure: set[str], passage: Passage, onto: int) -> Look:
    """Return what variables seen through several edges of a node say about one more edge of it, nearest first.

    Parameters
    ----------
    seen : list of Incoming
    sure : set of str
        Variables that must be kept; others are kept nearest first while the table stays small.
    passage : Passage
        The node.
    onto : int
        The edge that is looked from.
    """
    distances = candidates(seen, sure)
    parts = [(incoming.edge, incoming.look.narrowed(distances)) for incoming in seen]
    names = [name for _, look in parts for name in look.names]
    # Nearest first, and of the equally near those first that come in first.
    order = sorted(range(len(names)), key=lambda k: distances[names[k]])
    listed = [names[k] for k in order]
    parts.sort(key=lambda part: part[1].table.size)
    messages = passage.send([(edge, look.messages()) for edge, look in parts], onto)
    sent = [name for _, look in parts for name in look.names]
    shape = [size for _, look in parts for size in look.table.shape[:-1]]
    places = [sent.index(name) for name in listed]
    return Look(
        tuple(listed),
        tuple([distances[name] for name in listed]),
        messages.reshape(*shape, -1).transpose(*places, len(places)),
    )


def candidates(
    seen: list[Incoming], sure: set[str], most_cells: int = CANDIDATE_CELLS, most: int = MOST_CANDIDATES
) -> dict[str, int]:
    """Return the variables that are looked at, and their distances from the edge that is looked from.

    Those that must be kept, and others nearest first while the table has at most `most_cells` cells and they are at
    most `most` in all.
    """
    ranked = sorted(
        (name not in sure, distance + incoming.step, place, name, size)
        for place, incoming in enumerate(seen)
        for name, distance, size in zip(
            incoming.look.names, incoming.look.distances, incoming.look.table.shape, strict=False
        )
    )
    kept: dict[str, int] = {}
    cells = 1
    for doubtful, distance, _, name, size in ranked:
        if doubtful and (cells * size > most_cells or len(kept) >= most):
            continue
        kept[name] = distance
        cells *= size
    return kept
