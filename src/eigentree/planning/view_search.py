"""The search for the views of every edge (section 7).

A view (a few variables on one side of an edge) is good enough when what it says of the other side has the rank of
the whole inside × outside table. That holds for almost all parameters or for none, so it is tried on a random
instance: what a few variables near an edge say about its separator is passed up and down the tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.errors import RankError
from eigentree.inference.tensors.message_schedule import downward, upward
from eigentree.planning.generic_ranks import reaches, view_rank
from eigentree.validation import one_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.graphs.junction_tree import JunctionTree
    from eigentree.planning.generic_ranks import Spans
    from eigentree.planning.node_products import Passage, Work

__all__ = [
    "NOTHING",
    "EdgeViews",
    "Group",
    "Incoming",
    "Look",
    "PlannedEdges",
    "Sizes",
    "View",
    "Wishes",
    "candidates",
    "combined",
    "leaf_look",
    "nearest_groups",
    "plan_edges",
]

MAX_VIEW_STATES = 2**12
"""Largest number of joint states of a view of several variables."""

GROUPINGS_KEPT = 32
"""For how many kinds of looks their groups are remembered: chains ask for the same again and again."""


class EdgeViews(NamedTuple):
    """The views of the edge above a node of the junction tree.

    Attributes
    ----------
    rank : int
        The rank that they reach: the generic one, or less where it is capped or no view reaches it.
    inside : tuple of str
    outside : tuple of tuple of str
        Nearest first.
    """

    rank: int
    inside: View
    outside: tuple[View, ...]


class PlannedEdges(NamedTuple):
    """The views of all edges, one per node of the junction tree, and one message per edge that is short of rank."""

    edges: list[EdgeViews]
    short: tuple[str, ...]


class Wishes(NamedTuple):
    """What a user wants of a plan.

    Attributes
    ----------
    views : int
        How many outside views to look for at an edge, at most.
    max_rank : int or None
        Cap on every rank.
    when_short : {"raise", "warn"}
        What to do where no view reaches the rank: stop, or go on at the rank reached.
    """

    views: int
    max_rank: int | None
    when_short: Literal["raise", "warn"]

    @classmethod
    def checked(cls, views: Any, max_rank: Any, when_short: Any) -> Wishes:
        """Return what a user wants, or raise `ParameterError`."""
        one_of("when_short", when_short, ("raise", "warn"))
        views = whole_number("views", views)
        return cls(views, None if max_rank is None else whole_number("max_rank", max_rank), when_short)


def plan_edges(tree: JunctionTree, spans: Spans, ranks: Sequence[int], wishes: Wishes, work: Work) -> PlannedEdges:
    """Return the views of all edges, found on one random instance.

    Parameters
    ----------
    tree : JunctionTree
    spans : Spans
        Those of the instance.
    ranks : sequence of int
        The generic rank of each edge.
    wishes : Wishes
    work : Work
        Where the work is noted.

    Raises
    ------
    RankError
        When an edge is short of its rank and must not be, or has no view at all.
    OverworkError
        When it takes too long.
    """
    return _Planner(tree, spans, ranks, wishes, work).plan()


@dataclass(slots=True)
class _Below:
    """What is found out about an edge on the way up.

    Attributes
    ----------
    look : Look
        What variables below the edge say of its separator.
    view : tuple of str
        The inside view; a parent may widen it to `whole`.
    whole : tuple of str
        A view of the generic rank: what must stay in sight of other edges, also where this one's rank is capped.
    rank : int
        The rank that is learned.
    children : list of _Below
    """

    look: Look
    view: View
    whole: View
    rank: int
    children: list[_Below]

    def widen(self) -> None:
        """Make the view one of the generic rank, and those of all below that this needs."""
        stack = [self]
        while stack:
            edge = stack.pop()
            if edge.view != edge.whole:
                edge.view = edge.whole
                stack.extend(edge.children)


@dataclass(slots=True)
class _Above:
    """What is found out about an edge on the way down: `look`, `whole` and `rank` as in `_Below`.

    Attributes
    ----------
    views : tuple of tuple of str
        The outside views.
    """

    look: Look
    views: tuple[View, ...]
    whole: View
    rank: int


class _Planner:
    """One planning: the passes over the tree, and what they share."""

    def __init__(self, tree: JunctionTree, spans: Spans, ranks: Sequence[int], wishes: Wishes, work: Work) -> None:
        self.tree = tree
        self.spans = spans
        self.ranks = ranks
        self.wishes = wishes
        self.work = work
        self.short: list[str] = []
        self.columns = {name: column for column, name in enumerate(tree.graph.observed)}
        self.separators = [frozenset(node.separator) for node in tree.nodes]
        self.nearest_groups = lru_cache(maxsize=GROUPINGS_KEPT)(nearest_groups)

    def plan(self) -> PlannedEdges:
        children = [node.children for node in self.tree.nodes]
        below = upward(children, self._inside)
        above = downward(children, below, self._outside, _Above(NOTHING, (), (), 1))
        edges = [EdgeViews(down.rank, up.view, down.views) for up, down in zip(below, above, strict=True)]
        return PlannedEdges(edges, tuple(self.short))

    def _inside(self, i: int, below: list[_Below]) -> _Below:
        """Return the inside view of the edge above a node, chosen from those of its children's edges."""
        node, passage = self.tree.nodes[i], self.spans.passages[i]
        if node.parent < 0:
            return _Below(NOTHING, (), (), 1, below)
        if node.observed is not None:
            look = leaf_look(node.observed, passage.leaf(), self.spans.inside[i])
            return _Below(look, look.names, look.names, self._capped(self.ranks[i]), below)
        seen = [
            Incoming(k, edge.look, self._step(child, i))
            for k, (child, edge) in enumerate(zip(node.children, below, strict=True))
        ]
        kept = {name for edge in below for name in edge.view}
        sure = {name for edge in below for name in edge.whole}
        look = combined(seen, kept | sure, passage, -1)
        if len(below) == 1:
            (edge,) = below
            return _Below(look.thinned(edge.view, edge.whole), edge.view, edge.whole, edge.rank, below)
        # The children's views together keep the rank, so only subsets of them need be tried.
        span, need = self.spans.outside[i], self._capped(self.ranks[i])
        found = self._search(i, look.narrowed(kept), span, need, 1)
        if not found and kept != sure:
            # Unless they are capped, and say much of each other and too little of the outside.
            for edge in below:
                edge.widen()
            found = self._search(i, look.narrowed(sure), span, need, 1)
        rank, (view,) = (need, found) if found else self._short(i, look.narrowed(sure), span, need)
        whole = self._whole(i, rank, look.narrowed(sure), span, view)
        return _Below(look.thinned(view, whole), view, whole, rank, below)

    def _outside(self, i: int, above: _Above, below: list[_Below]) -> Iterator[_Above]:
        """Yield the outside views of each child's edge, from what its siblings and the parent's views say."""
        node, passage = self.tree.nodes[i], self.spans.passages[i]
        for k, child in enumerate(node.children):
            siblings = [(j, other, below[j]) for j, other in enumerate(node.children) if j != k]
            seen = [Incoming(j, edge.look, self._step(other, child)) for j, other, edge in siblings]
            sure = {*above.whole, *(name for _, _, edge in siblings for name in edge.whole)}
            look = combined([*seen, Incoming(-1, above.look, self._step(i, child))], sure, passage, k)
            if not siblings:
                yield _Above(look.thinned((), above.whole), above.views, above.whole, above.rank)
                continue
            span, need = self.spans.inside[child], below[k].rank
            found = self._search(child, look, span, need, self.wishes.views)
            rank, views = (need, found) if found else self._short(child, look, span, need)
            whole = self._whole(child, rank, look, span, views[0])
            yield _Above(look.thinned((), whole), tuple(views), whole, rank)
        # What has been looked through shall go: thousands of leaves would keep as many tables.
        above.look = NOTHING
        for edge in below:
            edge.look = NOTHING

    def _step(self, source: int, edge: int) -> int:
        """Return how far a node's separator is from another's: how many variables it adds."""
        return len(self.separators[source] - self.separators[edge])

    def _capped(self, rank: int) -> int:
        return min(rank, self.wishes.max_rank or rank)

    def _whole(self, i: int, rank: int, look: Look, other_side: Floats, view: View) -> View:
        """Return a group that keeps the generic rank of edge i, or most of it: its view, unless that is capped."""
        need = self.ranks[i]
        if rank == need:
            return view
        found = self._search(i, look, other_side, need, 1)
        return found[0] if found else self._best(i, look, other_side, need)[1]

    def _search(self, i: int, look: Look, other_side: Floats, need: int, wanted: int) -> list[View]:
        """Return up to `wanted` groups of the smallest size at which one has a rank."""
        pairs, sizes = self._beside(i, look, other_side), self._sizes(look)
        found: list[View] = []
        for count in range(1, len(look.names) + 1):
            for group in self._groups(i, sizes, count, need):
                if reaches(self._messages(i, pairs, group), need):
                    found.append(look.named(group))
                    if len(found) == wanted:
                        return found
            if found:
                break
        return found

    def _best(self, i: int, look: Look, other_side: Floats, need: int) -> tuple[int, View]:
        """Return the highest rank, at most the one needed, and the smallest and nearest group that has it."""
        pairs, sizes = self._beside(i, look, other_side), self._sizes(look)
        best: tuple[int, View] = (0, ())
        for count in range(1, len(look.names) + 1):
            for group in self._groups(i, sizes, count, best[0] + 1):
                rank = min(view_rank(self._messages(i, pairs, group)), need)
                if rank > best[0]:
                    best = (rank, look.named(group))
        return best

    def _beside(self, i: int, look: Look, other_side: Floats) -> Floats:
        self.work.products(i, look.table.size, len(other_side))
        return look.beside(other_side)

    def _messages(self, i: int, pairs: Floats, group: Group) -> Floats:
        """Return the messages of a group, which are about to be decomposed."""
        messages = pairs[group.cells].reshape(-1, pairs.shape[-1])
        self.work.decomposition(i, *messages.shape)
        return messages

    def _sizes(self, look: Look) -> Sizes:
        columns = [self.columns[name] for name in look.names]
        order = tuple(map(sorted(columns).index, columns))
        return Sizes(look.distances, order, self.tree.states_of(look.names), look.table.shape)

    def _groups(self, i: int, sizes: Sizes, count: int, least: int) -> list[Group]:
        """Return the groups of a size whose tables are not too large and have enough messages, nearest first."""
        self.work.groups(i, math.comb(len(sizes.states), count))
        return self.nearest_groups(sizes, count, least, MAX_VIEW_STATES)

    def _short(self, i: int, look: Look, other_side: Floats, need: int) -> tuple[int, list[View]]:
        """Return the best rank and view of an edge that none is good enough for, and note that."""
        separator = "{" + ", ".join(self.tree.nodes[i].separator) + "}"
        got, view = self._best(i, look, other_side, need)
        message = (
            f"separator {separator} needs rank {need}, its view {{{', '.join(view)}}} reaches {got}, and no "
            f"other of one variable, or of at most {MAX_VIEW_STATES} joint states, does better; set "
            f"max_rank={max(got, 1)} or lower, merge states of its observed variables, or pass when_short='warn' "
            f"to go on at the lower rank"
        )
        if not got or self.wishes.when_short == "raise":
            raise RankError(message)
        self.short.append(message)
        return got, [view]


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
