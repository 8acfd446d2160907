"""Generic ranks, the views of every edge, and the joint counts that learning needs (sections 6 and 7).

Each edge of the junction tree cuts the observed variables in two. The rank of the joint table inside × outside is
what the bond of that edge needs, and a view (a few variables on one side) is good enough when it keeps that rank.
Both are properties of almost all parameters, so they are read off a random instance: the span of the messages that
can come up to a separator and of those that can come down is passed along the tree, at most as many vectors as the
separator has states. Observed configurations are never enumerated.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.linalg.lapack import dgeqp3, dorgqr

from eigentree.engine.tables import aligned, flat_index, homes, marginal, table_axes
from eigentree.errors import RankError
from eigentree.structures.derived import Derived
from eigentree.structures.junction_tree import JunctionTree

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.structures.graph import LatentGraph

    Floats = NDArray[np.float64]

TOLERANCE = 1e-7
"""Singular values of spans below this part of the largest count as zero: spans carry errors of about 1e-9."""

VIEW_TOLERANCE = 1e-9
"""The same for the messages of a view, which are not made orthonormal on their way."""

CANDIDATE_CELLS = 1024
"""Size of the table from which the views of an edge are picked; it bounds how many variables are looked at."""

MOST_CANDIDATES = 8

MAX_VIEW_STATES = 2**12
"""Largest number of joint states of a view."""

MOST_DRAWS = 3
"""On how many random instances views are looked for before one calls an edge short of them."""

PEAK = 0.7
"""How much of each row of a random instance stands on one state, so that singular values stay clear of rounding."""


@dataclass(frozen=True, slots=True)
class PlanNode:
    """What is to be learned at one node, and from which variables.

    Attributes
    ----------
    parent : int
        Position of the parent in the plan, -1 at the root.
    children : tuple of int
    observed : str or None
        The observed variable of a leaf.
    separator : tuple of str
        The hidden (or observed) variables that the edge to the parent passes through (S_i).
    states : int
        Number of joint states of the separator.
    generic_rank : int
        Rank of inside × outside for almost all parameters.
    rank : int
        The rank that will be learned: the generic one, or less where it was capped.
    inside : tuple of str
        The inside view (O_i): one group of variables below the edge.
    outside : tuple of tuple of str
        The outside views (O_-i): groups of variables elsewhere, nearest first.
    bound : str
        What bounds the rank, in words.
    """

    parent: int
    children: tuple[int, ...]
    observed: str | None
    separator: tuple[str, ...]
    states: int
    generic_rank: int
    rank: int
    inside: tuple[str, ...]
    outside: tuple[tuple[str, ...], ...]
    bound: str


@dataclass(frozen=True, eq=False)
class ViewPlan(Derived):
    """The plan of a spectral fit: one node a branching of the observed variables, in preorder.

    Attributes
    ----------
    graph : LatentGraph
    nodes : tuple of PlanNode
    short : tuple of str
        One message an edge that goes on at a lower rank than it needs, because no view reaches it.

    Examples
    --------
    >>> from eigentree.structures.zoo import hmm
    >>> plan = ViewPlan.build(hmm(length=8, order=2, hidden_states=2, observed_states=4), views=2)
    >>> max(node.rank for node in plan.nodes)
    4
    """

    graph: LatentGraph
    nodes: tuple[PlanNode, ...]
    short: tuple[str, ...] = ()

    @classmethod
    def build(
        cls,
        graph: LatentGraph,
        views: int = 6,
        max_rank: int | None = None,
        when_short: Literal["raise", "warn"] = "raise",
        root: str | None = None,
    ) -> ViewPlan:
        """Return the plan for a graph.

        Parameters
        ----------
        graph : LatentGraph
        views : int
            How many outside views to combine at an edge, at most.
        max_rank : int, optional
            Cap on every rank.
        when_short : {"raise", "warn"}
            What to do where no view of acceptable size reaches the rank: stop, or go on at the rank reached.
        root : str, optional
            A variable that the root clique must hold.

        Raises
        ------
        RankError
            Names the separator, the rank needed, the rank reached and what to do.
        """
        plan = _planned(graph, views, max_rank, when_short, root)
        for message in plan.short:
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return plan

    def groups(self) -> list[tuple[str, ...]]:
        """Return the groups of variables whose joint counts the fit needs, each once, columns in order."""
        return list(self._groups)

    @cached_property
    def _groups(self) -> list[tuple[str, ...]]:
        names = self.graph.observed
        place = {name: column for column, name in enumerate(names)}
        wanted: set[tuple[int, ...]] = {(column,) for column in range(len(names))}
        for node in self.nodes:
            below = {place[name] for name in self.inner_variables(node)}
            outside = [[place[name] for name in group] for group in node.outside] if node.parent >= 0 else [[]]
            wanted.update(tuple(sorted(below.union(group))) for group in outside)
        return [tuple(names[column] for column in group) for group in sorted(wanted)]

    def inner_variables(self, node: PlanNode) -> set[str]:
        """Return the variables of the inside views of a node's children, or the variable of a leaf."""
        if node.observed is not None:
            return {node.observed}
        return {name for child in node.children for name in self.nodes[child].inside}


@lru_cache(maxsize=4)
def _planned(
    graph: LatentGraph,
    views: int,
    max_rank: int | None,
    when_short: Literal["raise", "warn"],
    root: str | None,
) -> ViewPlan:
    """Return the plan, kept for the last few: a structure is planned once however often it is fitted."""
    tree = JunctionTree.build(graph, root=root)
    spans = [_Spans(tree, seed=1)]
    if not spans[0].full:
        spans.append(_Spans(tree, seed=2))
    ranks = [max(found) for found in zip(*(drawn.ranks for drawn in spans), strict=True)]
    plans: list[ViewPlan] = []
    # A view that has a rank on one instance has it on almost all, but rounding can hide it on some.
    while not plans or (plans[-1].short and len(plans) < MOST_DRAWS):
        number = len(plans)
        drawn = spans[number] if number < len(spans) else _Spans(tree, seed=number + 1)
        plans.append(_Planner(tree, drawn, ranks, views, max_rank).plan())
    best = min(plans, key=lambda plan: len(plan.short))
    if best.short and when_short == "raise":
        raise RankError(best.short[0])
    return best


@dataclass(frozen=True, eq=False)
class _Look:
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

    names: tuple[str, ...]
    distances: tuple[int, ...]
    table: Floats

    def beside(self, other_side: Floats) -> Floats:
        """Return the table with, in place of its last axis, what that says of a span on the other side.

        Where the span is all there is, any scale of the states gives the same ranks, and conditional probabilities
        given the separator are the most even.
        """
        if len(other_side) == other_side.shape[1]:
            return np.asarray(self.table / self.table[(0,) * len(self.names)])
        return self.table @ other_side.T

    def narrowed(self, names: Collection[str]) -> _Look:
        """Return the look with some variables only."""
        if all(name in names for name in self.names):
            return self
        part = self.table[tuple(slice(None) if name in names else 0 for name in self.names)]
        kept = [k for k, name in enumerate(self.names) if name in names]
        return _Look(tuple(self.names[k] for k in kept), tuple(self.distances[k] for k in kept), part)


class _Planner:
    """The passes over the tree; positions are those of the junction tree until the plan is made."""

    def __init__(
        self, tree: JunctionTree, spans: _Spans, ranks: list[int], views: int, max_rank: int | None
    ) -> None:
        self.tree = tree
        self.spans = spans
        self.ranks = ranks
        self.views = views
        self.max_rank = max_rank
        self.short: list[str] = []
        self.states = dict(tree.graph.states)
        self.column = {name: tree.graph.column(name) for name in tree.graph.observed}

    def plan(self) -> ViewPlan:
        tree = self.tree
        self.bottom = self._contraction()
        count = len(tree.nodes)
        self.inside_look: list[_Look] = [_Look((), (), np.ones(1))] * count
        self.outside_look: list[_Look] = [_Look((), (), np.ones(1))] * count
        self.inside: list[tuple[str, ...]] = [()] * count
        self.outside: list[tuple[tuple[str, ...], ...]] = [()] * count
        # Views of the generic rank: what must stay in sight of other edges, also where this one's rank is capped.
        self.whole_inside: list[tuple[str, ...]] = [()] * count
        self.whole_outside: list[tuple[str, ...]] = [()] * count
        self.learned = list(self.ranks)
        for i in reversed(range(1, count)):
            self._look_inside(i)
        for i in range(count):
            self._look_outside(i)
        return ViewPlan(tree.graph, self._nodes(), tuple(self.short))

    def _contraction(self) -> list[int]:
        """Return, for each node, the first node at or below it that is a leaf or branches."""
        nodes = self.tree.nodes
        bottom = list(range(len(nodes)))
        for i in reversed(range(len(nodes))):
            if len(nodes[i].children) == 1:
                bottom[i] = bottom[nodes[i].children[0]]
        return bottom

    def _nodes(self) -> tuple[PlanNode, ...]:
        nodes = self.tree.nodes
        order: list[tuple[int, int, int]] = []  # bottom node, the node of its edge, parent in the plan
        stack = [(self.bottom[0], 0, -1)]
        children: dict[int, list[int]] = {}
        while stack:
            bottom, edge, parent = stack.pop()
            number = len(order)
            order.append((bottom, edge, parent))
            children.setdefault(parent, []).append(number)
            stack.extend((self.bottom[child], child, number) for child in reversed(nodes[bottom].children))
        plan = []
        for number, (bottom, edge, parent) in enumerate(order):
            separator = nodes[edge].separator
            states = math.prod(self.states[name] for name in separator)
            plan.append(
                PlanNode(
                    parent=parent,
                    children=tuple(children.get(number, ())),
                    observed=nodes[bottom].observed,
                    separator=separator if parent >= 0 else (),
                    states=states if parent >= 0 else 1,
                    generic_rank=self.ranks[edge] if parent >= 0 else 1,
                    rank=self.learned[edge] if parent >= 0 else 1,
                    inside=self.inside[edge] if parent >= 0 else (),
                    outside=self.outside[edge] if parent >= 0 else (),
                    bound=self._bound(edge, states) if parent >= 0 else "the root has no edge above it",
                )
            )
        return tuple(plan)

    def _bound(self, edge: int, states: int) -> str:
        rank, learned = self.ranks[edge], self.learned[edge]
        if learned < rank:
            return f"capped: the generic rank is {rank}"
        if rank == states:
            return "all states of the separator"
        below, above = len(self.spans.inside[edge]), len(self.spans.outside[edge])
        sides = [side for side, size in (("inside", below), ("outside", above)) if size == rank]
        if sides:
            verb = "see" if len(sides) > 1 else "sees"
            return f"the {' and the '.join(sides)} {verb} only {rank} of {states} states"
        return f"what the inside and the outside see of {states} states overlaps in {rank}"

    def _look_inside(self, i: int) -> None:
        node = self.tree.nodes[i]
        passage = self.spans.passages[i]
        if node.observed is not None:
            self.inside_look[i] = _Look(
                (node.observed,), (0,), _leaf_messages(passage.leaf(), self.spans.inside[i])
            )
            self.inside[i] = self.whole_inside[i] = (node.observed,)
            self.learned[i] = self._capped(i)
            return
        kept = {name for child in node.children for name in self.inside[child]}
        sure = {name for child in node.children for name in self.whole_inside[child]}
        looks = [self.inside_look[child] for child in node.children]
        edges = list(range(len(looks)))
        self.inside_look[i] = _combine(looks, self._steps(i, node.children), kept | sure, passage, edges, -1)
        if len(node.children) == 1:
            self.inside[i] = self.inside[node.children[0]]
            self.whole_inside[i] = self.whole_inside[node.children[0]]
            self.learned[i] = self.learned[node.children[0]]
            return
        # The children's views together keep the rank, so only subsets of them need be tried.
        look, span = self.inside_look[i], self.spans.outside[i]
        self.learned[i] = need = self._capped(i)
        found = self._search(look.narrowed(kept), span, need, 1)
        if not found and kept != sure:
            # Unless they are capped, and say much of each other and too little of the outside.
            self._widen(node.children)
            found = self._search(look.narrowed(sure), span, need, 1)
        self.inside[i] = (found or self._short(i, look.narrowed(sure), span, need))[0]
        self.whole_inside[i] = self._whole(i, look.narrowed(sure), span, self.inside[i])

    def _widen(self, nodes: Sequence[int]) -> None:
        """Give some nodes, and all below that this needs, inside views of their generic rank."""
        stack = list(nodes)
        while stack:
            i = stack.pop()
            if self.inside[i] != self.whole_inside[i]:
                self.inside[i] = self.whole_inside[i]
                stack.extend(self.tree.nodes[i].children)

    def _look_outside(self, i: int) -> None:
        """Choose the outside views of each child's edge, from what its siblings and the parent's views say."""
        node = self.tree.nodes[i]
        passage = self.spans.passages[i]
        for k, child in enumerate(node.children):
            siblings = [c for c in node.children if c != child]
            sure = {*self.whole_outside[i], *(name for c in siblings for name in self.whole_inside[c])}
            looks = [self.inside_look[c] for c in siblings]
            edges = [j for j, c in enumerate(node.children) if c != child]
            if i:
                looks.append(self.outside_look[i])
                edges.append(-1)
            steps = self._steps(child, [*siblings, i] if i else siblings)
            self.outside_look[child] = _combine(looks, steps, sure, passage, edges, k)
            if i and len(node.children) == 1:
                self.outside[child] = self.outside[i]
                self.whole_outside[child] = self.whole_outside[i]
                self.learned[child] = self.learned[i]
            elif i or siblings:
                look, span = self.outside_look[child], self.spans.inside[child]
                groups = self._views(child, look, span, self.views)
                self.outside[child] = tuple(groups)
                self.whole_outside[child] = self._whole(child, look, span, groups[0])
        if i == 0 and len(node.children) == 1:
            self._no_edge_above(node.children[0])

    def _steps(self, edge: int, sources: Sequence[int]) -> list[int]:
        """Return how far each source's separator is from an edge's: how many variables it adds."""
        here = set(self.tree.nodes[edge].separator)
        return [len(set(self.tree.nodes[source].separator) - here) for source in sources]

    def _no_edge_above(self, i: int) -> None:
        """Undo the views of the root's only child: both are one node of the plan, and nothing is outside."""
        self.outside[i] = ()
        self.learned[i] = 1

    def _capped(self, i: int) -> int:
        return min(self.learned[i], self.max_rank or self.learned[i])

    def _views(self, i: int, look: _Look, other_side: Floats, wanted: int) -> list[tuple[str, ...]]:
        """Return up to `wanted` groups of the smallest size at which one keeps the rank of edge i."""
        need = self._capped(i)
        self.learned[i] = need
        return self._search(look, other_side, need, wanted) or self._short(i, look, other_side, need)

    def _whole(self, i: int, look: _Look, other_side: Floats, view: tuple[str, ...]) -> tuple[str, ...]:
        """Return a group that keeps the generic rank of edge i, or most of it: its view, unless that is capped."""
        need = self.ranks[i]
        if self.learned[i] == need:
            return view
        found = self._search(look, other_side, need, 1)
        return found[0] if found else self._best(look, other_side, need)[1]

    def _search(self, look: _Look, other_side: Floats, need: int, wanted: int) -> list[tuple[str, ...]]:
        """Return up to `wanted` groups of the smallest size at which one has a rank."""
        pairs = look.beside(other_side)
        for size in range(1, len(look.names) + 1):
            keeping = (group for group, cells in self._groups(look, size, need) if _reaches(pairs[cells], need))
            if found := list(islice(keeping, wanted)):
                return [tuple([look.names[k] for k in group]) for group in found]
        return []

    def _best(self, look: _Look, other_side: Floats, need: int) -> tuple[int, tuple[str, ...]]:
        """Return the highest rank, at most the one needed, and the smallest and nearest group that has it."""
        pairs = look.beside(other_side)
        best: tuple[int, tuple[str, ...]] = (0, ())
        for size in range(1, len(look.names) + 1):
            for group, cells in self._groups(look, size, best[0] + 1):
                while best[0] < need and _reaches(pairs[cells], best[0] + 1):
                    best = (best[0] + 1, tuple([look.names[k] for k in group]))
        return best

    def _groups(self, look: _Look, size: int, least: int) -> list[tuple[tuple[int, ...], tuple[int | slice, ...]]]:
        """Return the groups of a size whose tables are not too large and have enough messages, nearest first."""
        columns = [self.column[name] for name in look.names]
        order = tuple(map(sorted(columns).index, columns))
        states = tuple([self.states[name] for name in look.names])
        return _nearest_groups(look.distances, order, states, look.table.shape, size, least, MAX_VIEW_STATES)

    def _short(self, i: int, look: _Look, other_side: Floats, need: int) -> list[tuple[str, ...]]:
        """Return the best view of an edge that none is good enough for, and note that."""
        separator = "{" + ", ".join(self.tree.nodes[i].separator) + "}"
        got, view = self._best(look, other_side, need)
        message = (
            f"separator {separator} needs rank {need}, its view {{{', '.join(view)}}} reaches {got}, and no view "
            f"of at most {MAX_VIEW_STATES} joint states does better; set max_rank={max(got, 1)} or lower, merge "
            f"states of its observed variables, or pass when_short='warn' to go on at the lower rank"
        )
        if not got:
            raise RankError(message)
        self.short.append(message)
        self.learned[i] = got
        return [view]


@dataclass(frozen=True, eq=False)
class _Passage:
    """A node of the random instance, through which messages pass from some of its edges to another.

    Attributes
    ----------
    table : array, shape (cells,)
        What the node contributes to the joint table: one factor a joint state of its clique.
    ports : list of array, shape (states of the separator, cells)
        For each child and, last, for the parent: a 1 where a cell agrees with a joint state of their separator.
    index : list of array, shape (cells,)
        The same as positions.
    """

    table: Floats
    ports: list[Floats]
    index: list[NDArray[np.int64]]

    def leaf(self) -> Floats:
        """Return the messages of a leaf, one for each state of its variable."""
        return self.table.reshape(len(self.ports[-1]), -1).T

    def send(self, parts: Sequence[tuple[int, Floats]], onto: int, in_step: bool = False) -> Floats:
        """Return all products of messages that come in through some edges, summed down to another edge.

        Parameters
        ----------
        parts : sequence of (int, array)
            Edges (positions in `ports`), and the messages that come in through each, one a row.
        onto : int
            The edge that the products leave through.
        in_step : bool
            Whether to multiply equal rows of all parts only, in place of every row of one with every row of others.

        Returns
        -------
        array, shape (products, states of the separator)
        """
        product = self.table[:, None]
        for edge, messages in parts:
            incoming = messages.T.take(self.index[edge], axis=0)
            # There are more messages than cells: loops over them are the longer ones.
            product = product * incoming if in_step else product[:, :, None] * incoming[:, None, :]
            product = product.reshape(len(self.table), -1)
        return (self.ports[onto] @ product).T


class _Spans:
    """The spans of the messages up and down each edge on one random instance, and the ranks they give.

    Attributes
    ----------
    passages : list of _Passage
    inside, outside : list of array, shape (dimension, states of the separator)
        Orthonormal rows.
    ranks : list of int
    full : bool
        Whether no instance can have higher ranks: all are as high as the numbers of states allow.
    """

    def __init__(self, tree: JunctionTree, seed: int) -> None:
        self.passages = _passages(tree, _random_tables(tree, seed))
        random = np.random.default_rng(0)
        count = len(tree.nodes)
        self.inside: list[Floats] = [np.ones((1, 1))] * count
        self.outside: list[Floats] = [np.ones((1, 1))] * count
        most_inside, most_outside = [1] * count, [1] * count
        for i in reversed(range(count)):
            node, passage = tree.nodes[i], self.passages[i]
            if node.observed is not None:
                messages = passage.leaf()
                most_inside[i] = min(messages.shape)
            else:
                parts = [(k, self.inside[c]) for k, c in enumerate(node.children)]
                messages = _products(passage, parts, -1, random)
                most_inside[i] = min(messages.shape[1], math.prod(most_inside[c] for c in node.children))
            self.inside[i] = _basis(messages)
        for i in range(count):
            node, passage = tree.nodes[i], self.passages[i]
            for k, child in enumerate(node.children):
                siblings = [(j, c) for j, c in enumerate(node.children) if j != k]
                parts = [(j, self.inside[c]) for j, c in siblings]
                messages = _products(passage, [*parts, (-1, self.outside[i])], k, random)
                self.outside[child] = _basis(messages)
                bound = most_outside[i] * math.prod(most_inside[c] for _, c in siblings)
                most_outside[child] = min(messages.shape[1], bound)
        self.ranks = [_overlap(below, above) for below, above in zip(self.inside, self.outside, strict=True)]
        self.full = self.ranks == [min(pair) for pair in zip(most_inside, most_outside, strict=True)]


def _passages(tree: JunctionTree, tables: list[Floats]) -> list[_Passage]:
    """Return the nodes with these tables; those that look alike share what does not depend on the tables."""
    shared: dict[Any, tuple[list[Floats], list[NDArray[np.int64]]]] = {}
    passages = []
    for node, table in zip(tree.nodes, tables, strict=True):
        place = {name: axis for axis, name in enumerate(node.clique)}
        separators = [*(tree.nodes[child].separator for child in node.children), node.separator]
        key = table.shape, tuple([tuple([place[name] for name in separator]) for separator in separators])
        if key not in shared:
            index = [flat_index(table.shape, node.clique, separator) for separator in separators]
            ports = [
                np.eye(math.prod(tree.states_of(s)))[:, cells] for s, cells in zip(separators, index, strict=True)
            ]
            shared[key] = ports, index
        passages.append(_Passage(table.reshape(-1), *shared[key]))
    return passages


def _random_tables(tree: JunctionTree, seed: int) -> list[Floats]:
    """Return a table for each node, axes in the order of its clique, that multiply to a random distribution."""
    axes = table_axes(tree.graph, tree)
    factors = _peaked_factors(tree, axes, np.random.default_rng(seed))
    # On an undirected graph, what was cut off has no table.
    if tree.graph.directed:
        factors = _without_pruned(tree, factors)
    nodes = tree.nodes
    tables = [np.ones(tree.states_of(node.clique)) for node in nodes]
    placed = homes([node.clique for node in nodes], [names for names, _ in factors])
    for (names, factor), home in zip(factors, placed, strict=True):
        tables[home] *= aligned(factor, names, nodes[home].clique)
    for i, node in enumerate(nodes):
        if node.observed is not None and not node.remainder:
            tables[i] = np.eye(tree.graph.states[node.observed])
    return tables


def _peaked_factors(
    tree: JunctionTree, axes: Mapping[tuple[str, ...], tuple[str, ...]], random: np.random.Generator
) -> list[tuple[tuple[str, ...], Floats]]:
    """Return random tables by their axes, in which different rows lean to different states."""
    alike: dict[tuple[int, int], list[tuple[str, ...]]] = {}
    for key, names in axes.items():
        states = math.prod(tree.states_of(key))
        alike.setdefault((math.prod(tree.states_of(names)) // states, states), []).append(names)
    factors = []
    for (rows, states), families in alike.items():
        drawn = random.standard_exponential((len(families), rows, states))
        drawn *= (1 - PEAK) / drawn.sum(axis=2, keepdims=True)
        lean = random.permuted(np.tile(np.arange(rows) % states, (len(families), 1)), axis=1)
        drawn += PEAK * (lean[:, :, None] == np.arange(states))
        factors += [(n, table.reshape(tree.states_of(n))) for n, table in zip(families, drawn, strict=True)]
    return factors


def _without_pruned(
    tree: JunctionTree, factors: list[tuple[tuple[str, ...], Floats]]
) -> list[tuple[tuple[str, ...], Floats]]:
    """Return the factors with those of pruned cliques summed down to what these share with the cliques left."""
    cliques = tree.cliques
    kept = {node.origin for node in tree.nodes}
    if len(kept) == len(cliques):
        return factors
    around: list[list[int]] = [[] for _ in cliques]
    for i, parent in enumerate(tree.clique_parents):
        if parent >= 0:
            around[i].append(parent)
            around[parent].append(i)
    # Every pruned part hangs from one clique that is left: outward from there, neighbours come after their parents.
    order = sorted(kept)
    parents = dict.fromkeys(order, -1)
    for i in order:
        for j in around[i]:
            if j not in parents:
                parents[j] = i
                order.append(j)
    left = []
    beliefs = {i: np.ones(tree.states_of(clique)) for i, clique in enumerate(cliques) if i not in kept}
    for (names, table), home in zip(factors, homes(cliques, [names for names, _ in factors]), strict=True):
        if home in kept:
            left.append((names, table))
        else:
            beliefs[home] *= aligned(table, names, cliques[home])
    for i in reversed(order[len(kept) :]):
        above = parents[i]
        shared = tuple(name for name in cliques[i] if name in set(cliques[above]))
        message = marginal(beliefs[i], cliques[i], shared)
        if above in kept:
            left.append((shared, message))
        else:
            beliefs[above] *= aligned(message, shared, cliques[above])
    return left


@lru_cache(maxsize=32)
def _nearest_groups(
    distances: tuple[int, ...],
    columns: tuple[int, ...],
    states: tuple[int, ...],
    shape: tuple[int, ...],
    size: int,
    least: int,
    most_states: int,
) -> list[tuple[tuple[int, ...], tuple[int | slice, ...]]]:
    """Return groups of a size by the sum of their distances and then by their columns; chains ask again and again.

    Returns
    -------
    list of (tuple of int, tuple of int or slice)
        The positions of a group in a look, and its cells in the look's table.
    """
    groups = [
        group
        for group in combinations(range(len(distances)), size)
        if math.prod([shape[k] for k in group]) >= least and math.prod([states[k] for k in group]) <= most_states
    ]
    groups.sort(key=lambda group: (sum([distances[k] for k in group]), [columns[k] for k in group]))
    every = range(len(distances))
    return [(group, tuple([slice(None) if k in group else 0 for k in every])) for group in groups]


def _pivoted(vectors: Floats) -> tuple[Floats, Floats]:
    """Return the QR decomposition with pivoting of some rows, as LAPACK packs it.

    The sizes on its diagonal fall and show the rank as singular values do, at a fraction of their cost.
    """
    packed, _, scales, _, _ = dgeqp3(vectors.T)
    return packed, scales


def _basis(vectors: Floats) -> Floats:
    """Return orthonormal rows with the same span."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    # A product that is zero but for rounding must not be blown up to a direction of its own.
    least = TOLERANCE * norms.max()
    if norms.min() <= least:
        vectors, norms = vectors[norms > least], norms[norms > least]
    packed, scales = _pivoted(vectors / norms[:, None])
    rank = _rank(packed)
    if rank == len(packed):
        return np.eye(rank)
    return np.asarray(dorgqr(packed[:, :rank], scales[:rank])[0].T)


def _rank(packed: Floats) -> int:
    """Return the rank that a pivoted QR decomposition of spans shows."""
    sizes = [abs(size) for size in packed.diagonal().tolist()]
    return sum([size > TOLERANCE * sizes[0] for size in sizes])


def _reaches(messages: Floats, need: int) -> bool:
    """Return whether the messages of a view, along the last axis, have a rank."""
    packed, _ = _pivoted(messages.reshape(-1, messages.shape[-1]))
    return min(packed.shape) >= need and bool(abs(packed[need - 1, need - 1]) > VIEW_TOLERANCE * abs(packed[0, 0]))


def _overlap(below: Floats, above: Floats) -> int:
    """Return the rank of what two spans of orthonormal rows say of each other."""
    states = below.shape[1]
    if max(len(below), len(above)) == states:
        return min(len(below), len(above))
    return _rank(_pivoted(below @ above.T)[0])


def _products(passage: _Passage, parts: list[tuple[int, Floats]], onto: int, random: np.random.Generator) -> Floats:
    """Return messages through a node that span all products of the incoming spans.

    Where there are many more products than dimensions, random products of random combinations span the same, though
    less evenly.
    """
    size = len(passage.ports[onto])
    if math.prod(len(span) for _, span in parts) <= 4 * size:
        return passage.send(parts, onto)
    mixed = [(edge, random.standard_normal((size + 4, len(span))) @ span) for edge, span in parts]
    return passage.send(mixed, onto, in_step=True)


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


def _combine(
    looks: list[_Look], steps: list[int], sure: set[str], passage: _Passage, edges: list[int], onto: int
) -> _Look:
    """Return what variables seen through several edges of a node say about one more edge of it, nearest first.

    Parameters
    ----------
    looks : list of _Look
    steps : list of int
        How much farther each look's variables are from the new edge.
    sure : set of str
        Variables that must be kept; others are kept nearest first while the table stays small.
    passage : _Passage
        The node.
    edges : list of int
        The edge of the node that each look comes through.
    onto : int
        The edge that is looked from.
    """
    ranked = sorted(
        (name not in sure, distance + step, order, name, size)
        for order, (look, step) in enumerate(zip(looks, steps, strict=True))
        for name, distance, size in zip(look.names, look.distances, look.table.shape, strict=False)
    )
    kept: dict[str, int] = {}
    cells = 1
    for doubtful, distance, _, name, size in ranked:
        if doubtful and (cells * size > CANDIDATE_CELLS or len(kept) >= MOST_CANDIDATES):
            continue
        kept[name] = distance
        cells *= size
    narrowed = [look.narrowed(kept) for look in looks]
    names = [name for look in narrowed for name in look.names]
    shape = [size for look in narrowed for size in look.table.shape[:-1]]
    incoming = [look.table.reshape(-1, look.table.shape[-1]) for look in narrowed]
    messages = passage.send(list(zip(edges, incoming, strict=True)), onto)
    order = sorted(range(len(names)), key=lambda k: kept[names[k]])
    return _Look(
        tuple(names[k] for k in order),
        tuple(kept[names[k]] for k in order),
        messages.reshape(*shape, -1).transpose(*order, len(order)),
    )
