"""Hubs: places of the tree where four or more branches meet at one separator, and what is counted to learn them.

A mixture, or a hidden variable with many neighbours, is one node of the graph but many of the binary tree, and the
operators of these nodes have much in common: all multiply functions of the same separator. Learned one by one they
have many more parameters than the graph; learned as one multiplication (`eigentree.spectral.learn.hub_tensors`)
hardly more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement, permutations, product, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.inference.tensors.calibration import downward, upward

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.graphs.junction_tree import JunctionTree
    from eigentree.planning.generic_ranks import Spans
    from eigentree.planning.view_plan import PlanNode

__all__ = ["Branch", "Hub", "SymmetricBasis", "distinct_triples", "find_hubs", "is_plain"]

FEWEST_BRANCHES = 4
"""With three, a hub is one node, which its views learn as well."""

MOST_STATES = 16
"""Separators of more states than this are no hubs: their multiplication table would be large."""

MOST_ANCHORS = 36
"""How many branches are counted in pairs with each other; any others in pairs with these only."""

CIRCLES = (12, 16, 24, 36)
"""How many branches are counted in triples with each other, at most: the first number that is enough."""

STACK = 3
"""How many columns represent a branch beyond which another hub lies; with 4 errors fall by a twentieth, and triples
double."""

MOST_CELLS = 2**20
"""Cells of the tables of a hub."""

CLEAR = 1e-6
"""Singular values below this part of the largest count as zero."""

ROUNDED = 1e-12
"""Differences of probabilities that are smaller are rounding errors: columns of one state are not informative."""


class Branch(NamedTuple):
    """One of the parts that a hub's separator cuts the columns into, and the columns that represent it.

    `position` is the node of the plan below the edge that leads there: for the branch above, the hub's first node.
    """

    position: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Hub:
    """Nodes of a plan, by position and the first above all others, that multiply functions of the same separator.

    It is `rooted` where the root is one of them. `branches` are those below, and last the one above, unless the hub
    is rooted; those in `circles` fix the multiplication: all by pairs, and those of a circle by triples.
    """

    separator: tuple[str, ...]
    states: int
    nodes: tuple[int, ...]
    rooted: bool
    branches: tuple[Branch, ...] = ()
    circles: tuple[tuple[int, ...], ...] = ()

    @property
    def below(self) -> tuple[Branch, ...]:
        """The branches below."""
        return self.branches if self.rooted else self.branches[:-1]

    @property
    def anchors(self) -> tuple[int, ...]:
        """The branches of all circles, in order."""
        return tuple(sorted(a for circle in self.circles for a in circle))

    @property
    def beside(self) -> tuple[int, ...]:
        """The branches that are no anchors."""
        anchors = set(self.anchors)
        return tuple(e for e in range(len(self.branches)) if e not in anchors)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs of columns that are needed: of two anchors, and of another branch and an anchor."""
        couples = [*combinations(self.anchors, 2), *product(self.beside, self.anchors)]
        for one, two in couples:
            yield from product(self.branches[one].columns, self.branches[two].columns)

    def triples(self) -> Iterator[tuple[str, str, str]]:
        """Yield the columns of three different branches of a circle each."""
        for circle in self.circles:
            for one, two, three in combinations([self.branches[a].columns for a in circle], 3):
                yield from product(one, two, three)


def find_hubs(
    tree: JunctionTree, spans: Spans, nodes: Sequence[PlanNode], places: Sequence[tuple[int, int, int]]
) -> tuple[Hub, ...]:
    """Return the hubs of a plan, found on the random instance on which its views were found.

    A hub must be fixed by pairs and triples of single columns; where it is not, where a rank is capped, or where
    the separator is observed, so that its own column is the best view of it, nodes are learned one by one.
    Raises `OverworkError` when it takes too long.
    """
    bottoms = [bottom for _, bottom, _ in places]
    hubs = _possible_hubs(tree, nodes, bottoms)
    if not hubs:
        return ()
    search = _HubSearch(tree, _Conditionals(tree, spans), nodes, bottoms)
    while hubs:
        found = search.completed(hubs)
        kept = [hub for hub, whole in zip(hubs, found, strict=True) if whole]
        if len(kept) == len(hubs):
            return tuple(hub for hub in found if hub)
        # Neighbouring hubs use each other's columns: when one goes, the others must be searched again.
        hubs = kept
    return ()


def _possible_hubs(tree: JunctionTree, nodes: Sequence[PlanNode], bottoms: Sequence[int]) -> list[Hub]:
    """Return connected nodes at one separator, without their branches."""

    def stands_at(position: int, separator: set[str]) -> bool:
        """Return whether a separator makes all that meets at a node independent."""
        node = tree.nodes[bottoms[position]]
        around = [tree.nodes[child].separator for child in node.children] + [node.separator]
        return sum(not separator.issuperset(other) for other in around) <= 1

    home: dict[int, int] = {}
    found: list[tuple[tuple[str, ...], list[int]]] = []
    for position, node in enumerate(nodes):
        separator = tree.nodes[bottoms[position]].separator
        if node.parent < 0 or node.observed is not None or node.separator != separator:
            continue
        if not all(stands_at(k, set(separator)) for k in (node.parent, position)):
            continue
        if node.parent not in home:
            home[node.parent] = len(found)
            found.append((separator, [node.parent]))
        if found[home[node.parent]][0] == separator:
            home[position] = home[node.parent]
            found[home[position]][1].append(position)
    observed = set(tree.graph.observed)
    hubs = [
        Hub(separator, nodes[members[1]].states, tuple(members), nodes[members[0]].parent < 0)
        for separator, members in found
        if len(members) > 1 and observed.isdisjoint(separator)
    ]
    # Upper ones before lower ones.
    return sorted((hub for hub in hubs if is_plain(nodes, hub)), key=lambda hub: hub.nodes)


def is_plain(nodes: Sequence[PlanNode], hub: Hub) -> bool:
    """Return whether there are enough branches, few states, and ranks as large as these and the branches allow."""
    children = [child for k in hub.nodes for child in nodes[k].children]
    branches = len(children) - len(hub.nodes) + 2 - hub.rooted
    if branches < FEWEST_BRANCHES or not 1 < hub.states <= MOST_STATES:
        return False
    products = {k: math.prod(nodes[child].rank for child in nodes[k].children) for k in hub.nodes[1:]}
    return all(nodes[k].rank == nodes[k].generic_rank for k in (*hub.nodes, *children)) and all(
        nodes[k].rank == min(hub.states, allowed) for k, allowed in products.items()
    )


class _HubSearch:
    """What decides which possible hubs are hubs."""

    def __init__(
        self, tree: JunctionTree, conditionals: _Conditionals, nodes: Sequence[PlanNode], bottoms: Sequence[int]
    ) -> None:
        self.tree = tree
        self.conditionals = conditionals
        self.nodes = nodes
        self.bottoms = bottoms
        self.known: dict[Hub, Hub | None] = {}
        self.given: dict[tuple[str, int], Floats] = {}

    def completed(self, hubs: Sequence[Hub]) -> list[Hub | None]:
        """Return the hubs with branches and anchors; None where one is not fixed by its columns."""
        branched = self._with_branches(hubs)
        for hub in branched:
            if hub and hub not in self.known:
                self.known[hub] = self._anchored(hub)
        found = [self.known[hub] if hub else None for hub in branched]
        home = {position: hub for hub in found if hub for position in hub.nodes}
        return [hub if hub and self._fits_upper(hub, home) else None for hub in found]

    def _with_branches(self, hubs: Sequence[Hub]) -> list[Hub | None]:
        """Return the hubs with their branches; None where single columns cannot represent a branch."""
        home = {position: h for h, hub in enumerate(hubs) for position in hub.nodes}
        made: list[Hub | None] = [None] * len(hubs)
        # Columns come up from hubs below, and then down from those above.
        for h in reversed(range(len(hubs))):
            within = set(hubs[h].nodes)
            branches = []
            for child in [c for k in hubs[h].nodes for c in self.nodes[k].children if c not in within]:
                lower, inside = made[home[child]] if child in home else None, self.nodes[child].inside
                columns = _mixed(lower.branches) if lower else inside if len(inside) == 1 else ()
                branches.append(Branch(child, columns))
            if all(branch.columns for branch in branches):
                made[h] = replace(hubs[h], branches=tuple(branches))
        for h, hub in enumerate(made):
            if hub and not hub.rooted:
                top = self.nodes[hub.nodes[0]]
                upper = made[home[top.parent]] if top.parent in home else None
                columns = ()
                if upper:
                    columns = _mixed([branch for branch in upper.branches if branch.position != hub.nodes[0]])
                elif all(len(group) == 1 for group in top.outside):
                    columns = tuple(name for (name,) in top.outside)
                branches = [*hub.branches, Branch(hub.nodes[0], columns)]
                made[h] = replace(hub, branches=tuple(branches)) if columns else None
        return made

    def _anchored(self, hub: Hub) -> Hub | None:
        """Return the hub with circles as small as fix it, or None where none do."""
        given = self._centred_conditionals(hub)
        loadings = [np.concatenate([given[name] for name in branch.columns]) for branch in hub.branches]
        count = min(len(loadings), MOST_ANCHORS)
        anchors = [k * len(loadings) // count for k in range(count)]
        for e in anchors:
            # Pairs fix the loadings of a branch where the others, in two halves, have full rank each.
            others = [loadings[a] for a in anchors if a != e]
            if not (_full(np.concatenate(others[::2])) and _full(np.concatenate(others[1::2]))):
                return None
        for most in CIRCLES:
            number = -(-count // most)
            whole = replace(hub, circles=tuple(tuple(anchors[c::number]) for c in range(number)))
            if sum(math.prod(self.tree.states_of(group)) for group in whole.triples()) > MOST_CELLS:
                return None
            if _fixed_by_triples(loadings, whole.circles):
                return whole
            if number == 1:
                return None
        return None

    def _centred_conditionals(self, hub: Hub) -> Mapping[str, Floats]:
        """Return P(column | separator) of each column of a hub, less what all states have in common."""
        owner = {child: k for k in hub.nodes for child in self.nodes[k].children}
        within = {self.bottoms[k] for k in hub.nodes}
        directions = np.linalg.qr(np.column_stack([np.ones(hub.states), np.eye(hub.states)[:, 1:]]))[0][:, 1:]
        found = {}
        for branch in hub.branches:
            # The branch above has the hub's first node as its position, which is nobody's child here.
            target = self.bottoms[owner.get(branch.position, hub.nodes[0])]
            for name in branch.columns:
                if (name, target) not in self.given:
                    self.given[name, target] = self.conditionals.given(name, target, within)
                found[name] = self.given[name, target] @ directions
        return found

    def _fits_upper(self, hub: Hub, home: Mapping[int, Hub]) -> bool:
        """Return whether the hub above, if there is one, gets all that this one shows."""
        top = self.nodes[hub.nodes[0]]
        upper = home.get(top.parent)
        if hub.rooted or upper is None:
            return True
        (columns,) = [branch.columns for branch in upper.below if branch.position == hub.nodes[0]]
        given = self._centred_conditionals(hub)
        full = _full(np.concatenate([given[name] for name in columns]))
        return top.rank == min(hub.states, upper.states) and full


def _mixed(branches: Sequence[Branch]) -> tuple[str, ...]:
    """Return a few columns of several branches, from as many of them as possible."""
    lines = zip_longest(*(branch.columns for branch in branches))
    return tuple(name for line in lines for name in line if name is not None)[:STACK]


def _fixed_by_triples(loadings: Sequence[Floats], circles: Sequence[Sequence[int]]) -> bool:
    """Return whether triples of branches fix how functions of the separator multiply."""
    _, upper = np.linalg.qr(np.concatenate([loadings[a] for circle in circles for a in circle]))
    whitened = [part @ np.linalg.inv(upper) for part in loadings]
    known = [distinct_triples(np.array([whitened[a].T @ whitened[a] for a in circle])) for circle in circles]
    sizes = np.linalg.eigvalsh(sum(known))
    return bool(sizes[0] > CLEAR * sizes[-1])


def _full(vectors: Floats) -> bool:
    """Return whether some rows, differences of probabilities, have the rank of their number of columns."""
    sizes = np.linalg.svd(vectors, compute_uv=False)
    return len(sizes) == vectors.shape[1] and bool(sizes[-1] > max(CLEAR * sizes[0], ROUNDED))


class _Conditionals:
    """Conditional probabilities of single columns given separators on a random instance, by messages."""

    def __init__(self, tree: JunctionTree, spans: Spans) -> None:
        self._nodes, self._tables = tree.nodes, spans.tables
        self._leaf = {node.observed: i for i, node in enumerate(tree.nodes) if node.observed is not None}
        self._depth = [0] * len(tree.nodes)
        for i, node in enumerate(tree.nodes):
            self._depth[i] = self._depth[node.parent] + 1 if node.parent >= 0 else 0
        children = [node.children for node in tree.nodes]

        def scaled(message: Floats) -> Floats:
            return np.asarray(message / message.max())

        def collect(i: int, below: list[Floats]) -> Floats:
            if not below:
                return scaled(self._tables[i].leaf().sum(axis=0, keepdims=True))
            return scaled(self._tables[i].send(list(enumerate(below)), -1))

        def distribute(i: int, above: Floats, below: list[Floats]) -> Iterator[Floats]:
            for k in range(len(below)):
                others = [(j, message) for j, message in enumerate(below) if j != k]
                yield scaled(self._tables[i].send([*others, (-1, above)], k))

        self._up = upward(children, collect)
        self._down = downward(children, self._up, distribute, np.ones((1, 1)))

    def given(self, name: str, target: int, within: Collection[int]) -> Floats:
        """Return P(column | separator), shape (states of the column, states of the separator).

        The separator is that of an edge between a node of the junction tree, the target, and one of those within.
        """
        first, last = [self._leaf[name]], [target]
        while first[-1] != last[-1]:
            longer = first if self._depth[first[-1]] >= self._depth[last[-1]] else last
            longer.append(self._nodes[longer[-1]].parent)
        path = first + last[-2::-1]
        # The edge to a child within, and else that to the parent.
        inner = [k for k, child in enumerate(self._nodes[target].children) if child in within]
        messages = self._tables[path[0]].leaf()
        for k, node in enumerate(path[1:], start=1):
            children = self._nodes[node].children
            source, onto = (
                children.index(neighbour) if neighbour in children else -1
                for neighbour in (path[k - 1], path[k + 1] if node != target else -1)
            )
            if node == target and inner:
                onto = inner[0]
            parts = [(c, self._up[child]) for c, child in enumerate(children) if c not in (source, onto)]
            if -1 not in (source, onto):
                parts.append((-1, self._down[node]))
            messages = self._tables[node].send([*parts, (source, messages)], onto)
        return np.asarray(messages / messages.sum(axis=0))


class SymmetricBasis:
    """An orthonormal basis of the symmetric tensors of order three and some size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.places = list(combinations_with_replacement(range(size), 3))

    @cached_property
    def vectors(self) -> Floats:
        """The basis, one flat tensor per row, shape (basis, size ** 3)."""
        made = np.zeros((len(self.places), self.size, self.size, self.size))
        for tensor, place in zip(made, self.places, strict=True):
            orders = set(permutations(place))
            for order in orders:
                tensor[order] = 1 / math.sqrt(len(orders))
        return made.reshape(len(made), -1)


def distinct_triples(grams: Floats) -> Floats:
    r"""Return the sum over ordered triples of different parts of :math:`G_a \otimes G_b \otimes G_c`.

    Of symmetric matrices G, shape (…, parts, size, size); as maps of symmetric tensors in the `SymmetricBasis`.
    """
    basis = SymmetricBasis(grams.shape[-1])
    # What is symmetric is known from the entries whose places rise.
    a, b, c = np.array(basis.places).T
    total = grams.sum(axis=-3)
    x, y, z = grams[..., a, :], grams[..., b, :], grams[..., c, :]
    one, two, three = total[..., a, :], total[..., b, :], total[..., c, :]
    # Of all triples those go in which two parts are the same; where all three are, they went thrice.
    found = np.einsum("...si,...sj,...sk->...sijk", one, two, three, optimize=True)
    found -= np.einsum("...psi,...psj,...sk->...sijk", x, y, three, optimize=True)
    found -= np.einsum("...psi,...sj,...psk->...sijk", x, two, z, optimize=True)
    found -= np.einsum("...si,...psj,...psk->...sijk", one, y, z, optimize=True)
    found += 2 * np.einsum("...psi,...psj,...psk->...sijk", x, y, z, optimize=True)
    rows = found.reshape(*found.shape[:-3], -1) @ basis.vectors.T
    # A symmetric tensor's coordinate is its entry times the root of how often that entry stands there.
    often = np.sqrt((basis.vectors > 0).sum(axis=1))
    return np.asarray(often[:, None] * rows)
