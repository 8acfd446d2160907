"""The search for the views of every edge (section 7).

A view (a few variables on one side of an edge) is good enough when its joint table with the other side has the rank
of the whole inside × outside table. That holds for almost all parameters or for none, so it is tried on a random
instance: the messages of a few variables near an edge are passed up and down the tree. Variables that are too far
away drop out, so that tables stay small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.errors import RankError
from eigentree.inference.tensors.calibration import downward, upward
from eigentree.planning.generic_ranks import orthonormal, reaches, view_rank
from eigentree.validation import one_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.graphs.junction_tree import JunctionTree
    from eigentree.planning.generic_ranks import Spans
    from eigentree.planning.node_products import CliqueTable, Work

__all__ = ["CANDIDATE_CELLS", "CandidateViews", "EdgeViews", "PlanOptions", "candidates", "plan_edges"]

MAX_VIEW_STATES = 2**12
"""Largest number of joint states of a view of several variables."""

CANDIDATE_CELLS, MOST_CANDIDATES = 1024, 8
"""Size of the table from which the views of an edge are picked, and how many variables it has."""

GROUPINGS_KEPT = 32
"""How many lists of groups are remembered: chains need the same again and again."""

WORK_OF_GROUP = 1000.0
"""Work of listing a group of variables."""

View = tuple[str, ...]
Incoming = tuple[int, "CandidateViews", int]
"""An edge of a node, what is seen through it, and how much farther that is from the edge that is looked for."""
Group = tuple[tuple[int, ...], tuple[int | slice, ...]]
"""Positions of a few variables, and their cells in a table."""


class PlanOptions(NamedTuple):
    """How a plan is made: outside views per edge, a cap on ranks, and what to do where no view reaches the rank."""

    views: int
    max_rank: int | None
    when_short: Literal["raise", "warn"]

    @classmethod
    def checked(cls, views: Any, max_rank: Any, when_short: Any) -> PlanOptions:
        """Return the options of a user, or raise `ParameterError`."""
        one_of("when_short", when_short, ("raise", "warn"))
        views = whole_number("views", views)
        return cls(views, None if max_rank is None else whole_number("max_rank", max_rank), when_short)


class EdgeViews(NamedTuple):
    """The rank that is learned at an edge, its inside view, and its outside views, nearest first."""

    rank: int
    inside: View
    outside: tuple[View, ...]


@dataclass(frozen=True, eq=False)
class CandidateViews:
    """What some variables, nearest first, on one side of an edge show about its separator, on the random instance.

    `distances` are how many variables a path from the separator to each must cross. The `table` has shape (sizes of
    the variables…, states of the separator). Index 0 of a variable's axis is the message with the variable
    marginalised out; the others complete the span of its messages. So the messages of a group are the cells where
    all other variables have index 0.
    """

    names: View
    distances: tuple[int, ...]
    table: Floats

    @classmethod
    def of_leaf(cls, name: str, messages: Floats, basis: Floats) -> CandidateViews:
        """Return what the variable of a leaf shows, given its messages and a basis of their span."""
        summed = messages.sum(axis=0)
        norm = math.sqrt(summed @ summed)
        # A Householder reflection that takes the summed message to the first row of the basis takes the others to
        # rows that complete its span.
        normal = basis @ summed
        normal[0] += math.copysign(norm, normal[0])
        rest = basis[1:] - normal[1:, None] * (normal @ basis * (2 / (normal @ normal)))
        return cls((name,), (0,), np.concatenate([summed[None, :], norm * rest]))

    def narrowed(self, names: Collection[str]) -> CandidateViews:
        """Return the same of some variables only."""
        kept = [k for k, name in enumerate(self.names) if name in names]
        if len(kept) == len(self.names):
            return self
        part = self.table[tuple([slice(None) if name in names else 0 for name in self.names])]
        return CandidateViews(tuple([self.names[k] for k in kept]), tuple([self.distances[k] for k in kept]), part)

    def thinned(
        self, view: View, whole: View, most_cells: int = CANDIDATE_CELLS, most: int = MOST_CANDIDATES
    ) -> CandidateViews:
        """Return the same without variables that no other edge will use, given what must stay.

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
        return CandidateViews(thin.names, thin.distances, np.ascontiguousarray(thin.table))

    def messages(self) -> Floats:
        """Return the table with one message per row."""
        return self.table.reshape(-1, self.table.shape[-1])


NOTHING = CandidateViews((), (), np.ones(1))
"""What is seen from above the root."""


def candidates(
    seen: list[Incoming], sure: set[str], most_cells: int = CANDIDATE_CELLS, most: int = MOST_CANDIDATES
) -> dict[str, int]:
    """Return the variables that are kept, and their distances from the edge that views are sought for.

    Those that must be kept, and others nearest first while the table has at most `most_cells` cells and they are at
    most `most` in all.
    """
    ranked = sorted(
        (name not in sure, distance + step, place, name, size)
        for place, (_, views, step) in enumerate(seen)
        for name, distance, size in zip(views.names, views.distances, views.table.shape, strict=False)
    )
    kept: dict[str, int] = {}
    cells = 1
    for doubtful, distance, _, name, size in ranked:
        if doubtful and (cells * size > most_cells or len(kept) >= most):
            continue
        kept[name] = distance
        cells *= size
    return kept


def _combined(seen: list[Incoming], sure: set[str], table: CliqueTable, onto: int) -> CandidateViews:
    """Return what variables seen through several edges of a node show about one more edge of it, nearest first.

    Variables in `sure` are kept; others are kept nearest first while the result stays small.
    """
    distances = candidates(seen, sure)
    parts = [(edge, views.narrowed(distances)) for edge, views, _ in seen]
    # Nearest first, and of the equally near those first that come in first.
    listed = sorted([name for _, views in parts for name in views.names], key=distances.__getitem__)
    parts.sort(key=lambda part: part[1].table.size)
    messages = table.send([(edge, views.messages()) for edge, views in parts], onto)
    sent = [name for _, views in parts for name in views.names]
    shape = [size for _, views in parts for size in views.table.shape[:-1]]
    axes = [*map(sent.index, listed), len(listed)]
    return CandidateViews(
        tuple(listed), tuple([distances[name] for name in listed]), messages.reshape(*shape, -1).transpose(axes)
    )


def _nearest_groups(
    distances: tuple[int, ...],
    columns: tuple[int, ...],
    states: tuple[int, ...],
    shape: tuple[int, ...],
    count: int,
    least: int,
) -> list[Group]:
    """Return groups of so many variables and at least so many messages, by distance and then by columns.

    Several have at most `MAX_VIEW_STATES` joint states; a single variable may have any number of them.
    """
    every = range(len(distances))
    groups = [
        members
        for members in combinations(every, count)
        if math.prod([shape[k] for k in members]) >= least
        and (count == 1 or math.prod([states[k] for k in members]) <= MAX_VIEW_STATES)
    ]
    groups.sort(key=lambda members: (sum([distances[k] for k in members]), [columns[k] for k in members]))
    return [(members, tuple([slice(None) if k in members else 0 for k in every])) for members in groups]


@dataclass(slots=True)
class _EdgeSide:
    """What is known of an edge from one side.

    A parent may widen the inside view, `views[0]`, to `whole`: a view of the generic rank, which must stay in sight
    of other edges also where this one's rank is capped.
    """

    seen: CandidateViews
    views: tuple[View, ...]
    whole: View
    rank: int
    children: Sequence[_EdgeSide] = ()

    def widen(self) -> None:
        """Make the view one of the generic rank, and those of all below that this needs."""
        stack = [self]
        while stack:
            edge = stack.pop()
            if edge.views[0] != edge.whole:
                edge.views = (edge.whole,)
                stack.extend(edge.children)


def plan_edges(
    tree: JunctionTree, spans: Spans, ranks: Sequence[int], options: PlanOptions, work: Work
) -> tuple[list[EdgeViews], tuple[str, ...]]:
    """Return the views of all edges, found on one random instance, and a message per edge that is short of rank.

    Raises `RankError` when an edge is short of its rank and must not be, or has no view at all, and `OverworkError`
    when it takes too long.
    """
    search = _ViewSearch(tree, spans, ranks, options, work)
    children = [node.children for node in tree.nodes]
    below = upward(children, search.inside)
    above = downward(children, below, search.outside, _EdgeSide(NOTHING, (), (), 1))
    edges = [EdgeViews(down.rank, up.views[0], down.views) for up, down in zip(below, above, strict=True)]
    return edges, tuple(search.short)


class _ViewSearch:
    """The two passes over the tree, and what they share."""

    def __init__(
        self, tree: JunctionTree, spans: Spans, ranks: Sequence[int], options: PlanOptions, work: Work
    ) -> None:
        self.tree = tree
        self.spans = spans
        self.ranks = ranks
        self.options = options
        self.work = work
        self.short: list[str] = []
        self.columns = {name: column for column, name in enumerate(tree.graph.observed)}
        self.separators = [frozenset(node.separator) for node in tree.nodes]
        self.nearest_groups = lru_cache(maxsize=GROUPINGS_KEPT)(_nearest_groups)

    def inside(self, i: int, below: list[_EdgeSide]) -> _EdgeSide:
        """Return the inside view of the edge above a node, chosen from those of its children's edges."""
        node, table = self.tree.nodes[i], self.spans.tables[i]
        if node.parent < 0:
            return _EdgeSide(NOTHING, ((),), (), 1, below)
        need = min(self.ranks[i], self.options.max_rank or self.ranks[i])
        if node.observed is not None:
            seen = CandidateViews.of_leaf(node.observed, table.leaf(), self.spans.inside[i])
            return _EdgeSide(seen, (seen.names,), seen.names, need)
        incoming = [
            (k, edge.seen, self._step(child, i))
            for k, (child, edge) in enumerate(zip(node.children, below, strict=True))
        ]
        kept = {name for edge in below for name in edge.views[0]}
        sure = {name for edge in below for name in edge.whole}
        seen = _combined(incoming, kept | sure, table, -1)
        if len(below) == 1:
            (edge,) = below
            return _EdgeSide(seen.thinned(edge.views[0], edge.whole), edge.views, edge.whole, edge.rank, below)
        # The children's views together keep the rank, so only subsets of them need be tried.
        span, wide = self.spans.outside[i], seen.narrowed(sure)
        found = self._search(i, seen.narrowed(kept), span, need, 1)
        if not found and kept != sure:
            # Unless they are capped, and are informative about each other and too little about the outside.
            for edge in below:
                edge.widen()
            found = self._search(i, wide, span, need, 1)
        rank, (view,) = (need, found) if found else self._best_and_note(i, wide, span, need)
        whole = self._whole(i, rank, wide, span, view)
        return _EdgeSide(seen.thinned(view, whole), (view,), whole, rank, below)

    def outside(self, i: int, above: _EdgeSide, below: list[_EdgeSide]) -> Iterator[_EdgeSide]:
        """Yield the outside views of each child's edge, from its siblings' and the parent's views."""
        node, table = self.tree.nodes[i], self.spans.tables[i]
        for k, child in enumerate(node.children):
            siblings = [(j, other, below[j]) for j, other in enumerate(node.children) if j != k]
            incoming = [(j, edge.seen, self._step(other, child)) for j, other, edge in siblings]
            sure = {*above.whole, *(name for _, _, edge in siblings for name in edge.whole)}
            seen = _combined([*incoming, (-1, above.seen, self._step(i, child))], sure, table, k)
            if not siblings:
                yield _EdgeSide(seen.thinned((), above.whole), above.views, above.whole, above.rank)
                continue
            span, need = self.spans.inside[child], below[k].rank
            if need < self.ranks[child]:
                # A capped view is a part of what is known from below: the outside must depend on that part.
                span = orthonormal(below[k].seen.narrowed(below[k].views[0]).messages())
            found = self._search(child, seen, span, need, self.options.views)
            rank, views = (need, found) if found else self._best_and_note(child, seen, span, need)
            whole = self._whole(child, rank, seen, span, views[0])
            yield _EdgeSide(seen.thinned((), whole), tuple(views), whole, rank)
        # What has been used shall go: thousands of leaves would keep as many tables.
        for edge in (above, *below):
            edge.seen = NOTHING

    def _step(self, source: int, edge: int) -> int:
        """Return how far a node's separator is from another's: how many variables it adds."""
        return len(self.separators[source] - self.separators[edge])

    def _whole(self, i: int, rank: int, seen: CandidateViews, other_side: Floats, view: View) -> View:
        """Return a group that keeps the generic rank of edge i, or most of it: its view, unless that is capped."""
        need = self.ranks[i]
        if rank == need:
            return view
        found = self._search(i, seen, other_side, need, 1)
        return found[0] if found else self._best(i, seen, other_side, need)[1]

    def _search(self, i: int, seen: CandidateViews, other_side: Floats, need: int, wanted: int) -> list[View]:
        """Return up to `wanted` groups of the smallest size at which one has a rank."""
        found: list[View] = []
        pairs = self._pairs(i, seen, other_side)
        for count in range(1, len(seen.names) + 1):
            for members, cells in self._groups(i, seen, count, need):
                if reaches(self._messages(i, pairs, cells), need):
                    found.append(tuple([seen.names[k] for k in members]))
                    if len(found) == wanted:
                        return found
            if found:
                break
        return found

    def _best(self, i: int, seen: CandidateViews, other_side: Floats, need: int) -> tuple[int, View]:
        """Return the highest rank, at most the one needed, and the smallest and nearest group that has it."""
        best: tuple[int, View] = (0, ())
        pairs = self._pairs(i, seen, other_side)
        for count in range(1, len(seen.names) + 1):
            for members, cells in self._groups(i, seen, count, best[0] + 1):
                rank = min(view_rank(self._messages(i, pairs, cells)), need)
                if rank > best[0]:
                    best = rank, tuple([seen.names[k] for k in members])
        return best

    def _pairs(self, i: int, seen: CandidateViews, other_side: Floats) -> Floats:
        """Return the table of some variables with, in place of the separator, a span on its other side.

        Where the span is all there is, any scale of the states gives the same ranks, and conditional probabilities
        given the separator vary least.
        """
        self.work.products(i, seen.table.size, len(other_side))
        if len(other_side) == other_side.shape[1]:
            return np.asarray(seen.table / seen.table[(0,) * len(seen.names)])
        # As one product of matrices: by axes of the table there would be many small ones.
        return (seen.messages() @ other_side.T).reshape(*seen.table.shape[:-1], -1)

    def _messages(self, i: int, pairs: Floats, cells: tuple[int | slice, ...]) -> Floats:
        """Return the messages of a group, which are about to be decomposed."""
        messages = pairs[cells].reshape(-1, pairs.shape[-1])
        self.work.decomposition(i, *messages.shape)
        return messages

    def _groups(self, i: int, seen: CandidateViews, count: int, least: int) -> list[Group]:
        """Return the groups of a size whose tables are not too large and have enough messages, nearest first."""
        self.work.note(i, WORK_OF_GROUP * math.comb(len(seen.names), count))
        columns = [self.columns[name] for name in seen.names]
        order = tuple(map(sorted(columns).index, columns))
        states = self.tree.states_of(seen.names)
        return self.nearest_groups(seen.distances, order, states, seen.table.shape, count, least)

    def _best_and_note(self, i: int, seen: CandidateViews, other_side: Floats, need: int) -> tuple[int, list[View]]:
        """Return the best rank and view of an edge that none is good enough for, and note that."""
        separator = "{" + ", ".join(self.tree.nodes[i].separator) + "}"
        got, view = self._best(i, seen, other_side, need)
        message = (
            f"separator {separator} needs rank {need}, its view {{{', '.join(view)}}} reaches {got}, and no "
            f"other of one variable, or of at most {MAX_VIEW_STATES} joint states, does better; set "
            f"max_rank={max(got, 1)} or lower, merge states of its observed variables, or pass when_short='warn' "
            f"to go on at the lower rank"
        )
        if not got or self.options.when_short == "raise":
            raise RankError(message)
        self.short.append(message)
        return got, [view]
