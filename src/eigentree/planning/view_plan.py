"""The plan of a spectral fit: the rank and the views of every edge, and the joint counts that learning needs."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from eigentree.errors import RankError
from eigentree.graphs.graph import Derived, check_graph
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.inference.threads import one_thread
from eigentree.messages import notice
from eigentree.planning.generic_ranks import Spans, most_dimensions
from eigentree.planning.hub_plan import find_hubs
from eigentree.planning.node_products import OverworkError, Work
from eigentree.planning.view_search import PlanOptions, plan_edges
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eigentree.graphs.graph import LatentGraph
    from eigentree.planning.hub_plan import Hub
    from eigentree.planning.view_search import EdgeViews

__all__ = ["PlanNode", "ViewPlan", "best_plan"]

MOST_INSTANCES = 3
"""On how many random instances views are sought before one calls an edge short of them."""

FEWEST_DIMENSIONS = 32
"""How many dimensions of a span are kept at least where not all are."""


@dataclass(frozen=True, slots=True)
class PlanNode:
    """What is to be learned at one node, and from which variables.

    `parent` is a position in the plan, -1 at the root; a leaf has an `observed` variable. The edge to the parent
    passes through the variables of the `separator` (S_i), which has so many joint `states`; `passed` are those of
    all edges of the junction tree that it stands for, from the top. `generic_rank` is the rank of inside × outside
    for almost all parameters (where it is capped and finding all of it would take too long, more than the cap),
    and `rank` the one that will be learned; `bound` says what bounds it. The `inside` view (O_i) is one group of
    variables below the edge, the `outside` views (O_-i) are groups elsewhere, nearest first.
    """

    parent: int
    children: tuple[int, ...]
    observed: str | None
    separator: tuple[str, ...]
    passed: tuple[tuple[str, ...], ...]
    states: int
    generic_rank: int
    rank: int
    inside: tuple[str, ...]
    outside: tuple[tuple[str, ...], ...]
    bound: str


@dataclass(frozen=True, eq=False)
class ViewPlan(Derived):
    """The plan of a spectral fit: one node per branching of the observed variables, in preorder.

    Attributes
    ----------
    graph : LatentGraph
    nodes : tuple of PlanNode
    short : tuple of str
        One message per edge that goes on at a lower rank than it needs, because no view reaches it.
    hubs : tuple of Hub
        Nodes that are learned together, with variance scaling; none where one view is wanted.

    Examples
    --------
    >>> from eigentree.graphs.zoo import hmm
    >>> plan = ViewPlan.build(hmm(length=8, order=2, hidden_states=2, observed_states=4), views=2)
    >>> max(node.rank for node in plan.nodes)
    4
    """

    graph: LatentGraph
    nodes: tuple[PlanNode, ...]
    short: tuple[str, ...] = ()
    hubs: tuple[Hub, ...] = ()

    @classmethod
    @our_arithmetic
    def build(
        cls,
        graph: LatentGraph,
        views: int = 6,
        max_rank: int | None = None,
        when_short: Literal["raise", "warn"] = "raise",
    ) -> ViewPlan:
        """Return the plan for a graph, which keeps it: a structure is planned once however often it is fitted.

        Parameters
        ----------
        graph : LatentGraph
        views : int
            How many outside views to combine at an edge, at most.
        max_rank : int, optional
            Cap on every rank.
        when_short : {"raise", "warn"}
            What to do where no view of acceptable size reaches the rank: stop, or go on at the rank reached.

        Raises
        ------
        RankError
            Where no view reaches the rank, or where finding out would take too long. Names the separator, what it
            needs and what to do.
        """
        check_graph(graph)
        plan = graph.derived(_planned, PlanOptions.checked(views, max_rank, when_short))
        for message in plan.short:
            notice(message)
        return plan

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.graph, self.nodes, self.short, self.hubs)

    def groups(self) -> list[tuple[str, ...]]:
        """Return the groups of variables whose joint counts the fit needs, each once, columns in order."""
        names = self.graph.observed
        return [tuple(names[column] for column in group) for group in sorted(self.column_groups())]

    def column_groups(self) -> frozenset[tuple[int, ...]]:
        """Return these groups by the places of their columns."""
        return self.derived(_column_groups)


def _column_groups(plan: ViewPlan) -> frozenset[tuple[int, ...]]:
    place = {name: column for column, name in enumerate(plan.graph.observed)}
    wanted: set[tuple[int, ...]] = {(column,) for column in place.values()}
    for node in plan.nodes:
        inner = [plan.nodes[child].inside for child in node.children] or [(node.observed or "",)]
        below = {place[name] for names in inner for name in names}
        outside = [[place[name] for name in group] for group in node.outside] if node.parent >= 0 else [[]]
        wanted.update(tuple(sorted(below.union(group))) for group in outside)
    for hub in plan.hubs:
        wanted.update(tuple(sorted(map(place.__getitem__, g))) for g in chain(hub.pairs(), hub.triples()))
    return frozenset(wanted)


def _planned(graph: LatentGraph, options: PlanOptions) -> ViewPlan:
    """Return the plan; with a cap, at ranks that are found only as far as they matter where all takes too long."""
    tree = JunctionTree.of(graph)
    try:
        try:
            return best_plan(tree, options)
        except OverworkError:
            if options.max_rank is None:
                raise
            return best_plan(tree, options, max(FEWEST_DIMENSIONS, 2 * options.max_rank))
    except OverworkError as error:
        raise RankError(_refusal(tree, error.node, options.max_rank)) from None


def best_plan(
    tree: JunctionTree,
    options: PlanOptions,
    most: int | None = None,
    sample: Callable[[JunctionTree, int, Work, int | None], Spans] = Spans.sampled,
    search: Callable[..., tuple[Sequence[EdgeViews], tuple[str, ...]]] = plan_edges,
) -> ViewPlan:
    """Return the plan that is short at the fewest edges, of a few random instances.

    Of spans at most `most` dimensions are kept; `sample` samples an instance, and `search` finds views on it.
    Raises `OverworkError` when it would take too long.
    """
    with one_thread():
        allowed = [min(pair) for pair in zip(*most_dimensions(tree, most), strict=True)]
        work = Work(len(tree.nodes))
        sampled = [sample(tree, 1, work, most)]
        # No instance can have higher ranks than the numbers of states allow.
        if sampled[0].ranks != allowed:
            sampled.append(sample(tree, 2, work, most))
        ranks = [max(found) for found in zip(*(spans.ranks for spans in sampled), strict=True)]
        places = _places(tree)
        plans: list[ViewPlan] = []
        # A view that has a rank on one instance has it on almost all, but rounding can hide it on some.
        for number in range(MOST_INSTANCES):
            spans = sampled[number] if number < len(sampled) else sample(tree, number + 1, work, most)
            try:
                edges, short = search(tree, spans, ranks, options, work)
            except RankError:
                if number + 1 == MOST_INSTANCES and not plans:
                    raise
                continue
            nodes = _contracted(tree, places, spans, ranks, edges, most)
            hubs: tuple[Hub, ...] = ()
            # Without hubs, where finding them takes too long, their nodes are learned one by one.
            with suppress(OverworkError):
                hubs = find_hubs(tree, spans, nodes, places) if options.views > 1 else ()
            plans.append(ViewPlan(tree.graph, nodes, short, hubs))
            if not short:
                break
    return min(plans, key=lambda plan: len(plan.short))


def _refusal(tree: JunctionTree, node: int, max_rank: int | None) -> str:
    """Return why a plan would take too long, and what to do."""
    here = tree.nodes[node]
    separators = [here.separator, *(tree.nodes[child].separator for child in here.children)]
    states, separator = max((math.prod(tree.states_of(separator)), separator) for separator in separators)
    cap = f"lower max_rank={max_rank}" if max_rank else "set max_rank, for example to 16"
    return (
        f"separator {{{', '.join(separator)}}} has {states:,} joint states, and finding its rank and its views "
        f"would take too long; {cap}, or let fewer hidden states meet there, by a lower order, by fewer edges or "
        f"by fewer states per hidden variable"
    )


def _contracted(
    tree: JunctionTree,
    places: Sequence[tuple[int, int, int]],
    spans: Spans,
    ranks: Sequence[int],
    edges: Sequence[EdgeViews],
    most: int | None,
) -> tuple[PlanNode, ...]:
    """Return the nodes of the plan: the leaves of the junction tree and its nodes that branch."""
    children: list[list[int]] = [[] for _ in places]
    for number, (_, _, parent) in enumerate(places[1:], start=1):
        children[parent].append(number)
    nodes = []
    for (top, bottom, parent), below in zip(places, children, strict=True):
        separator, found = tree.nodes[top].separator, edges[top]
        passed, edge = [separator], top
        while edge != bottom:
            (edge,) = tree.nodes[edge].children
            passed.append(tree.nodes[edge].separator)
        nodes.append(
            PlanNode(
                parent=parent,
                children=tuple(below),
                observed=tree.nodes[bottom].observed,
                separator=separator,
                passed=tuple(passed),
                states=math.prod(tree.states_of(separator)),
                generic_rank=ranks[top],
                rank=found.rank,
                inside=found.inside,
                outside=found.outside,
                bound=_bound(spans, top, ranks[top], found.rank, most) if top else "the root has no edge above it",
            )
        )
    return tuple(nodes)


def _places(tree: JunctionTree) -> list[tuple[int, int, int]]:
    """Return, for each node of the plan in preorder: its edge, its bottom and its parent in the plan.

    The edge goes by the node of the junction tree below it; the bottom is the first node from there on that is a
    leaf or branches.
    """
    nodes = tree.nodes
    bottom = list(range(len(nodes)))
    for i in reversed(range(len(nodes))):
        if len(nodes[i].children) == 1:
            bottom[i] = bottom[nodes[i].children[0]]
    places: list[tuple[int, int, int]] = []
    stack = [(0, -1)]
    while stack:
        edge, parent = stack.pop()
        stack.extend((child, len(places)) for child in reversed(nodes[bottom[edge]].children))
        places.append((edge, bottom[edge], parent))
    return places


def _bound(spans: Spans, edge: int, rank: int, learned: int, most: int | None) -> str:
    """Return what bounds the rank of an edge, in words."""
    below, above = spans.inside[edge], spans.outside[edge]
    states = below.shape[1]
    if learned < rank:
        return f"capped: the generic rank is {'at least ' if rank == most else ''}{rank}"
    if rank == states:
        return "all states of the separator"
    sides = [side for side, span in (("inside", below), ("outside", above)) if len(span) == rank]
    if sides:
        verb = "see" if len(sides) > 1 else "sees"
        return f"the {' and the '.join(sides)} {verb} only {rank} of {states} states"
    return f"what the inside and the outside see of {states} states overlaps in {rank}"
