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
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from eigentree.errors import RankError
from eigentree.network import LatentNetwork, table_axes
from eigentree.tree import JunctionTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from eigentree.graph import LatentGraph
    from eigentree.operators import NodeOperator

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
class ViewPlan:
    """The plan of a spectral fit: one node a branching of the observed variables, in preorder.

    Attributes
    ----------
    graph : LatentGraph
    nodes : tuple of PlanNode
    short : tuple of str
        One message an edge that goes on at a lower rank than it needs, because no view reaches it.

    Examples
    --------
    >>> from eigentree.zoo import hmm
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
        wanted: set[tuple[str, ...]] = {(name,) for name in self.graph.observed}
        for node in self.nodes:
            below = self.inner_variables(node)
            if node.parent < 0:
                wanted.add(self._ordered(below))
            wanted.update(self._ordered({*below, *group}) for group in node.outside)
        return sorted(wanted, key=self._columns)

    def inner_variables(self, node: PlanNode) -> set[str]:
        """Return the variables of the inside views of a node's children, or the variable of a leaf."""
        if node.observed is not None:
            return {node.observed}
        return {name for child in node.children for name in self.nodes[child].inside}

    def _columns(self, group: Iterable[str]) -> list[int]:
        return sorted(self.graph.column(name) for name in group)

    def _ordered(self, group: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.graph.observed[column] for column in self._columns(group))


@lru_cache(maxsize=4)
def _planned(
    graph: LatentGraph,
    views: int,
    max_rank: int | None,
    when_short: Literal["raise", "warn"],
    root: str | None,
) -> ViewPlan:
    """Return the plan, kept for the last few: a structure is planned once however often it is fitted."""
    return _Planner(JunctionTree.build(graph, root=root), views, max_rank, when_short).plan()


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

    def of(self, group: Iterable[str]) -> Floats:
        """Return the messages of a group of these variables, shape (messages, states of the separator)."""
        kept = set(group)
        part = self.table[tuple(slice(None) if name in kept else 0 for name in self.names)]
        return part.reshape(-1, self.table.shape[-1])

    def farther(self, step: int) -> _Look:
        """Return the look as it is from some steps farther away."""
        return replace(self, distances=tuple(distance + step for distance in self.distances))

    def narrowed(self, names: set[str]) -> _Look:
        """Return the look with some variables only."""
        part = self.table[tuple(slice(None) if name in names else 0 for name in self.names)]
        kept = [k for k, name in enumerate(self.names) if name in names]
        return _Look(tuple(self.names[k] for k in kept), tuple(self.distances[k] for k in kept), part)


class _Planner:
    """The passes over the tree; positions are those of the junction tree until the plan is made."""

    def __init__(
        self, tree: JunctionTree, views: int, max_rank: int | None, when_short: Literal["raise", "warn"]
    ) -> None:
        self.tree = tree
        self.views = views
        self.max_rank = max_rank
        self.when_short = when_short
        self.short: list[str] = []
        self.random = np.random.default_rng(0)
        self.states = dict(tree.graph.states)
        self.column = {name: tree.graph.column(name) for name in tree.graph.observed}

    def plan(self) -> ViewPlan:
        tree = self.tree
        spans = [_Spans(tree, _peaked_network(tree, seed)) for seed in (1, 2)]
        self.ranks = [max(pair) for pair in zip(spans[0].ranks, spans[1].ranks, strict=True)]
        self.spans = spans[0]
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
        operator = self.spans.operators[i]
        if node.observed is not None:
            self.inside_look[i] = _Look((node.observed,), (0,), _leaf_messages(operator))
            self.inside[i] = self.whole_inside[i] = (node.observed,)
            self.learned[i] = self._capped(i)
            return
        kept = {name for child in node.children for name in self.inside[child]}
        sure = {name for child in node.children for name in self.whole_inside[child]}
        looks = [self.inside_look[child] for child in node.children]
        self.inside_look[i] = _combine(looks, kept | sure, operator, None, self._steps(i, node.children))
        if len(node.children) == 1:
            self.inside[i] = self.inside[node.children[0]]
            self.whole_inside[i] = self.whole_inside[node.children[0]]
            self.learned[i] = self.learned[node.children[0]]
            return
        # The children's views together keep the rank, so only subsets of them need be tried.
        look, span = self.inside_look[i], self.spans.outside[i]
        self.learned[i] = need = self._capped(i)
        found, best = self._search(look.narrowed(kept), span, need, 1)
        if not found and kept != sure:
            # Unless they are capped, and say much of each other and too little of the outside.
            self._widen(node.children)
            found, best = self._search(look.narrowed(sure), span, need, 1)
        self.inside[i] = (found or self._short(i, best, need))[0]
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
        operator = self.spans.operators[i]
        for k, child in enumerate(node.children):
            siblings = [c for c in node.children if c != child]
            sure = {*self.whole_outside[i], *(name for c in siblings for name in self.whole_inside[c])}
            looks = [self.inside_look[c] for c in siblings]
            if i:
                looks.append(self.outside_look[i])
            sources = [*siblings, i] if i else siblings
            self.outside_look[child] = _combine(looks, sure, operator, k, self._steps(child, sources), bool(i))
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
        found, best = self._search(look, other_side, need, wanted)
        return found or self._short(i, best, need)

    def _whole(self, i: int, look: _Look, other_side: Floats, view: tuple[str, ...]) -> tuple[str, ...]:
        """Return a group that keeps the generic rank of edge i, or most of it: its view, unless that is capped."""
        if self.learned[i] == self.ranks[i]:
            return view
        found, best = self._search(look, other_side, self.ranks[i], 1)
        return found[0] if found else best[1]

    def _search(
        self, look: _Look, other_side: Floats, need: int, wanted: int
    ) -> tuple[list[tuple[str, ...]], tuple[int, tuple[str, ...]]]:
        """Return up to `wanted` groups of the smallest size at which one has a rank, and the best one otherwise."""
        distance = dict(zip(look.names, look.distances, strict=True))
        reached = {name: look.table.shape[k] for k, name in enumerate(look.names)}
        best: tuple[int, tuple[str, ...]] = (0, ())
        for size in range(1, len(look.names) + 1):
            found = []
            groups = sorted(
                combinations(look.names, size),
                key=lambda g: (sum(distance[n] for n in g), [self.column[n] for n in g]),
            )
            for group in groups:
                if math.prod(self.states[name] for name in group) > MAX_VIEW_STATES:
                    continue
                possible = min(math.prod(reached[name] for name in group), need)
                if possible < need and possible <= best[0]:
                    continue
                rank = min(_rank(look.of(group) @ other_side.T, VIEW_TOLERANCE), need)
                if rank > best[0]:
                    best = (rank, group)
                if rank == need:
                    found.append(group)
                    if len(found) == wanted:
                        break
            if found:
                return found, best
        return [], best

    def _short(self, i: int, best: tuple[int, tuple[str, ...]], need: int) -> list[tuple[str, ...]]:
        separator = "{" + ", ".join(self.tree.nodes[i].separator) + "}"
        got, view = best
        message = (
            f"separator {separator} needs rank {need}, its view {{{', '.join(view)}}} reaches {got}, and no view "
            f"of at most {MAX_VIEW_STATES} joint states does better; set max_rank={max(got, 1)} or lower, merge "
            f"states of its observed variables, or pass when_short='warn' to go on at the lower rank"
        )
        if self.when_short == "raise" or not got:
            raise RankError(message)
        self.short.append(message)
        self.learned[i] = got
        return [view]


class _Spans:
    """The spans of the messages up and down each edge on one random instance, and the ranks they give.

    Attributes
    ----------
    inside, outside : list of array, shape (dimension, states of the separator)
        Orthonormal rows.
    ranks : list of int
    """

    def __init__(self, tree: JunctionTree, network: LatentNetwork) -> None:
        self.operators = network.embed(tree).nodes
        random = np.random.default_rng(0)
        count = len(tree.nodes)
        self.inside: list[Floats] = [np.ones((1, 1))] * count
        self.outside: list[Floats] = [np.ones((1, 1))] * count
        for i in reversed(range(count)):
            node, operator = tree.nodes[i], self.operators[i]
            if node.observed is not None:
                self.inside[i] = _basis(operator.values[:, :-1].T)
            else:
                parts = [(k, self.inside[child]) for k, child in enumerate(node.children)]
                self.inside[i] = _basis(_products(operator, parts, -1, operator.bond, random))
        for i in range(count):
            node, operator = tree.nodes[i], self.operators[i]
            for k, child in enumerate(node.children):
                parts = [(j, self.inside[c]) for j, c in enumerate(node.children) if j != k]
                parts.append((-1, self.outside[i]))
                size = self.operators[child].bond
                self.outside[child] = _basis(_products(operator, parts, k, size, random))
        self.ranks = [_rank(below @ above.T) for below, above in zip(self.inside, self.outside, strict=True)]


def _peaked_network(tree: JunctionTree, seed: int) -> LatentNetwork:
    """Return a random network in which different rows of a table lean to different states."""
    random = np.random.default_rng(seed)
    graph = tree.graph
    tables = {}
    for key, axes in table_axes(graph, tree).items():
        shape = [graph.states[name] for name in axes]
        states = math.prod(shape[len(axes) - len(key) :])
        rows = random.standard_exponential((math.prod(shape) // states, states))
        rows *= (1 - PEAK) / rows.sum(axis=1, keepdims=True)
        lean = random.permutation(len(rows)) % states
        rows[np.arange(len(rows)), lean] += PEAK
        tables[key] = rows.reshape(shape)
    return LatentNetwork(graph, tables, tree)


def _basis(vectors: Floats) -> Floats:
    """Return orthonormal rows with the same span."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A product that is zero but for rounding must not be blown up to a direction of its own.
    kept = norms[:, 0] > TOLERANCE * norms.max()
    vectors = vectors[kept] / norms[kept]
    _, sizes, rows = np.linalg.svd(vectors, full_matrices=False)
    return np.asarray(rows[sizes > TOLERANCE * sizes[0]])


def _rank(matrix: Floats, tolerance: float = TOLERANCE) -> int:
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int((sizes > tolerance * sizes[0]).sum()) if sizes[0] > 0 else 0


def _products(
    operator: NodeOperator, parts: list[tuple[int, Floats]], onto: int, size: int, random: np.random.Generator
) -> Floats:
    """Return messages through an operator that span all products of the incoming spans.

    Where there are many more products than dimensions, random products of random combinations span the same, though
    less evenly.
    """
    dimensions = math.prod(len(span) for _, span in parts)
    weights = operator.values[:, -1]
    if dimensions <= 4 * size:
        table = weights[None, :]
        for axis, span in parts:
            table = (table[:, None, :] * span[:, operator.index[:, axis]]).reshape(-1, len(weights))
    else:
        table = np.tile(weights, (size + 4, 1))
        for axis, span in parts:
            mixed = random.standard_normal((size + 4, len(span))) @ span
            table = table * mixed[:, operator.index[:, axis]]
    return _collected(table, operator.index[:, onto], size)


def _collected(table: Floats, target: NDArray[np.int64], size: int) -> Floats:
    """Return the columns of a table added up by their targets, shape (rows, size)."""
    chosen = np.zeros((len(target), size))
    chosen[np.arange(len(target)), target] = 1.0
    return table @ chosen


def _leaf_messages(operator: NodeOperator) -> Floats:
    """Return messages that span a leaf's, the first being the one with its variable summed out."""
    summed = operator.values[:, -1]
    norm = np.linalg.norm(summed)
    unit = summed / norm
    rest = operator.values[:, :-1].T
    rest = rest - np.outer(rest @ unit, unit)
    _, sizes, rows = np.linalg.svd(rest, full_matrices=False)
    kept = rows[sizes > TOLERANCE * norm]
    return np.vstack([summed[None, :], kept * norm])


def _combine(
    looks: list[_Look],
    sure: set[str],
    operator: NodeOperator,
    k: int | None,
    steps: list[int],
    with_above: bool = False,
) -> _Look:
    """Return what variables seen through several edges of a node say about one more edge of it.

    Parameters
    ----------
    looks : list of _Look
        In the order of the node's other children, then (if `with_above`) of the parent's side.
    sure : set of str
        Variables that must be kept; others are kept nearest first while the table stays small.
    k : int or None
        Which child the message goes to; None for the parent.
    steps : list of int
        How much farther each look's variables are from the new edge.
    """
    looks = [look.farther(step) for look, step in zip(looks, steps, strict=True)]
    sizes = {name: size for look in looks for name, size in zip(look.names, look.table.shape, strict=False)}
    ranked = sorted(
        (name not in sure, distance, order, name)
        for order, look in enumerate(looks)
        for name, distance in zip(look.names, look.distances, strict=True)
    )
    kept: set[str] = set()
    cells = 1
    for doubtful, _, _, name in ranked:
        if doubtful and (cells * sizes[name] > CANDIDATE_CELLS or len(kept) >= MOST_CANDIDATES):
            continue
        kept.add(name)
        cells *= sizes[name]
    narrowed = [look.narrowed(kept) for look in looks]
    children = operator.index.shape[1] - 1
    axes = [j for j in range(children) if j != k] + ([-1] if with_above else [])
    table = operator.values[:, -1][None, :]
    for axis, look in zip(axes, narrowed, strict=True):
        messages = look.table.reshape(-1, look.table.shape[-1])[:, operator.index[:, axis]]
        table = (table[:, None, :] * messages).reshape(-1, messages.shape[1])
    onto = -1 if k is None else k
    size = operator.bond if k is None else int(operator.index[:, k].max()) + 1
    shape = [n for look in narrowed for n in look.table.shape[:-1]]
    combined = _Look(
        tuple(name for look in narrowed for name in look.names),
        tuple(distance for look in narrowed for distance in look.distances),
        _collected(table, operator.index[:, onto], size).reshape(*shape, size),
    )
    return _nearest_first(combined)


def _nearest_first(look: _Look) -> _Look:
    order = sorted(range(len(look.names)), key=lambda j: look.distances[j])
    return replace(
        look,
        names=tuple(look.names[j] for j in order),
        distances=tuple(look.distances[j] for j in order),
        table=np.transpose(look.table, [*order, look.table.ndim - 1]),
    )
