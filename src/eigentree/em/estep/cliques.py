"""The tree that expected counts pass through: cliques of what is marginalised out, and leaves that read columns.

Hidden variables are joined into cliques as usual, but observed variables are not: a table with an observed
variable becomes a leaf that reads the row's code, so separators stay as small as the hidden part of the graph.
Only an observed variable that is sometimes missing *and* stands in several tables has to be marginalised out like a
hidden one.

A `Skeleton` is what this makes of a graph. Which leaves are then joined into one depends on the number of rows,
and gives the nodes: `Clique` and `Leaf`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from eigentree.em.parameters import ParameterLayout
from eigentree.graphs.elimination import clique_tree, natural_key
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.tensors.named_tables import homes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["UNSCALED", "Clique", "Home", "Leaf", "Names", "Node", "Skeleton", "joint_size"]

Names: TypeAlias = tuple[str, ...]

UNSCALED = 8
"""How many messages are multiplied before they are brought back into range, of the children of a clique and of
cliques: a product of more could underflow."""

JOINED_VALUES = 1024
"""Values of the largest leaf that is made by joining smaller ones: its table takes a quarter of the first cache."""

ROWS_PER_VALUE = 4
"""Least rows for each value of a joined leaf; fewer would not pay for a table that is made at every iteration."""


@dataclass(frozen=True)
class Leaf:
    """A node that reads columns: it has no tables if it only says which state of its one column was seen."""

    separator: Names
    tables: tuple[TableKey, ...]
    columns: Names


@dataclass(frozen=True)
class Clique:
    """A node that joins the messages of its children, multiplies them by its tables and sums out.

    Its parent sees the names in `separator`, its children, inner ones first, those in `joined`. So its names fall
    into those that both see, only its parent, only its children, and neither.
    """

    separator: Names
    joined: Names
    both: Names
    above: Names
    below: Names
    alone: Names
    tables: tuple[TableKey, ...]
    children: tuple[int, ...]

    @property
    def names(self) -> Names:
        """All names, in the order of the parts."""
        return self.both + self.above + self.below + self.alone


Node: TypeAlias = Clique | Leaf


@dataclass(frozen=True)
class Home:
    """A clique of a junction tree over what is marginalised out, with the tables that have their place there.

    The first has the parent -1. `tables` are those without columns; `leaves` has one leaf for each table with
    columns, `marks` one for each column that is marginalised out here.
    """

    names: Names
    parent: int
    tables: tuple[TableKey, ...]
    leaves: tuple[Leaf, ...]
    marks: tuple[Leaf, ...]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The cliques of a graph and their leaves, before any are joined; `missing` columns may have missing cells."""

    layout: ParameterLayout
    missing: frozenset[str]
    homes: tuple[Home, ...]

    @classmethod
    def of(cls, graph: LatentGraph, missing: frozenset[str]) -> Skeleton:
        """Return the skeleton of a graph, which remembers it."""
        return graph.derived(_skeleton, missing)

    def codes(self, column: str) -> int:
        """Return the number of codes of a column, that for a missing cell included if it may be missing."""
        return self.layout.graph.states[column] + (column in self.missing)

    def joined(self, rows: int) -> tuple[tuple[Leaf, ...], ...]:
        """Return the leaves of each clique, joined into one look-up where that pays for about so many rows."""
        most = min(JOINED_VALUES, rows // ROWS_PER_VALUE)
        return tuple(self._joined(home.leaves, most) for home in self.homes)

    def _joined(self, leaves: Iterable[Leaf], most: int) -> tuple[Leaf, ...]:
        """Return the leaves of one clique, joined where that adds no work; a table gets at most `most` values."""
        states = self.layout.graph.states
        joined: list[Leaf] = []
        for leaf in sorted(leaves, key=lambda leaf: leaf.separator):
            if joined:
                last = joined[-1]
                separator = _union(last.separator, leaf.separator)
                columns = _union(last.columns, leaf.columns)
                codes = math.prod(map(self.codes, columns))
                bond = joint_size(separator, states)
                if codes * bond <= most and bond <= joint_size(last.separator, states) + joint_size(
                    leaf.separator, states
                ):
                    joined[-1] = Leaf(separator, last.tables + leaf.tables, columns)
                    continue
            joined.append(leaf)
        return tuple(joined)

    def nodes(self, leaves: Sequence[Sequence[Leaf]]) -> tuple[Node, ...]:
        """Return the nodes of the tree in preorder, given the leaves of each clique."""
        drafts = [_Draft(home.names, self._separator(home), home.tables) for home in self.homes]
        for i, home in enumerate(self.homes):
            if home.parent >= 0:
                drafts[home.parent].children.append(drafts[i])
        for draft, home, parts in zip(drafts, self.homes, leaves, strict=True):
            draft.children += [*parts, *home.marks]
            _limit_children(draft)
        return _preorder(drafts[0])

    def _separator(self, home: Home) -> Names:
        above = set(self.homes[home.parent].names) if home.parent >= 0 else set()
        return tuple(name for name in home.names if name in above)


def _skeleton(graph: LatentGraph, missing: frozenset[str]) -> Skeleton:
    layout = ParameterLayout.of(graph)
    tables = layout.learnable
    uses: dict[str, int] = {}
    for key in tables:
        for name in layout.axes[key]:
            uses[name] = uses.get(name, 0) + 1
    observed = set(graph.observed)
    shared = [name for name in graph.observed if name in missing and uses[name] > 1]
    summed = {name for name in uses if name not in observed} | set(shared)
    families = {key: tuple(name for name in layout.axes[key] if name in summed) for key in tables}
    cliques, parents = _cliques(graph, families.values())
    columns = {key: tuple(name for name in layout.axes[key] if name not in summed) for key in tables}
    read = [key for key in tables if families[key] and columns[key]]
    reading = [families[key] for key in read]
    weights = [0.0] * len(cliques)
    for key, place in zip(read, homes(cliques, reading), strict=True):
        weights[place] += sum(math.log2(graph.states[name]) for name in columns[key])
    cliques, parents = _rooted_amid(cliques, parents, weights)
    cliques, parents = _below_separator(cliques, parents, reading, graph.states)
    placed = homes(cliques, [family for family in families.values() if family])
    home = dict(zip((key for key in tables if families[key]), placed, strict=True))
    inner: list[list[TableKey]] = [[] for _ in cliques]
    leaves: list[list[Leaf]] = [[] for _ in cliques]
    for key in tables:
        place = home.get(key, 0)
        if columns[key]:
            separator = tuple(name for name in cliques[place] if name in families[key])
            leaves[place].append(Leaf(separator, (key,), columns[key]))
        else:
            inner[place].append(key)
    marks: list[list[Leaf]] = [[] for _ in cliques]
    for name, place in zip(shared, homes(cliques, [(name,) for name in shared]), strict=True):
        marks[place].append(Leaf((name,), (), (name,)))
    parts = zip(cliques, parents, map(tuple, inner), map(tuple, leaves), map(tuple, marks), strict=True)
    return Skeleton(layout, missing, tuple(Home(*part) for part in parts))


def _cliques(graph: LatentGraph, families: Iterable[Names]) -> tuple[list[Names], list[int]]:
    """Return a junction tree over what is marginalised out: its cliques, and the parent of each but the first."""
    states: dict[str, int] = {}
    edges: dict[tuple[str, str], None] = {}
    for family in families:
        states |= {name: graph.states[name] for name in family}
        edges |= {(min(pair), max(pair)): None for pair in combinations(family, 2)}
    if not states:
        return [()], [-1]
    names = sorted(states, key=natural_key)
    found = clique_tree(LatentGraph(states, edges, directed=False), names)
    cliques = [tuple(names[v] for v in clique) for clique in found.cliques]
    # Independent parts join at an empty separator.
    parents = [parent if parent >= 0 or i == 0 else 0 for i, parent in enumerate(found.parents)]
    return _fewer_cliques(cliques, parents, states)


def _fewer_cliques(
    cliques: list[Names], parents: list[int], states: Mapping[str, int]
) -> tuple[list[Names], list[int]]:
    """Return cliques and parents with children put into their parents where that adds no work."""
    cliques = list(cliques)
    into = list(range(len(cliques)))
    for i in reversed(range(1, len(cliques))):
        union = _union(cliques[parents[i]], cliques[i])
        if joint_size(union, states) <= joint_size(cliques[parents[i]], states) + joint_size(cliques[i], states):
            cliques[parents[i]] = union
            into[i] = parents[i]
    kept = [i for i, target in enumerate(into) if target == i]
    for i in range(len(cliques)):
        into[i] = into[into[i]]
    number = {i: new for new, i in enumerate(kept)}
    return [cliques[i] for i in kept], [number[into[parents[i]]] if i else -1 for i in kept]


def _rooted_amid(
    cliques: list[Names], parents: list[int], weights: Sequence[float]
) -> tuple[list[Names], list[int]]:
    """Return the same tree, parents first, from the clique nearest to all columns, by their numbers of states.

    The fewer columns are below an edge, the more rows agree there, and are passed once.
    """
    links: list[list[int]] = [[] for _ in cliques]
    below = list(weights)
    for i in reversed(range(1, len(cliques))):
        below[parents[i]] += below[i]
        links[i].append(parents[i])
        links[parents[i]].append(i)
    root = 0
    # Where no part that hangs from it weighs more than all others together.
    while True:
        heavier = [i for i in links[root] if parents[i] == root and 2 * below[i] > below[0]]
        if not heavier:
            break
        (root,) = heavier
    order, above, stack = [], {root: -1}, [root]
    while stack:
        i = stack.pop()
        order.append(i)
        further = sorted((j for j in links[i] if j not in above), reverse=True)
        stack += further
        for j in further:
            # As high as a clique holds what it shares with those above: else separators of two sides meet in one.
            shared, higher = set(_common(cliques[j], cliques[i])), i
            while above[higher] >= 0 and shared <= set(cliques[above[higher]]):
                higher = above[higher]
            above[j] = higher
    number = {i: new for new, i in enumerate(order)} | {-1: -1}
    return [cliques[i] for i in order], [number[above[i]] for i in order]


def _below_separator(
    cliques: list[Names], parents: list[int], reading: Iterable[Names], states: Mapping[str, int]
) -> tuple[list[Names], list[int]]:
    """Return cliques and parents with a new root above the first clique where that saves work: a part of it.

    Children of the first clique see different parts of it, as do leaves, `reading`, and their messages are all
    multiplied in all states of what they see together. Below a part of the clique, only those stay with it that see
    something else.
    """
    seen = [_common(cliques[0], clique) for clique, parent in zip(cliques, parents, strict=True) if parent == 0]
    placed = [family for family in reading if set(family) <= set(cliques[0])]
    seen += [_common(cliques[0], family) for family in placed]

    def work(parts: Sequence[Names]) -> int:
        return (len(parts) + 1) * joint_size({name for part in parts for name in part}, states)

    def work_below(top: Names) -> int:
        inside = [part for part in seen if set(part) <= set(top)]
        outside = [part for part in seen if not set(part) <= set(top)]
        return work([*inside, top]) + work(outside)

    # All columns of a mixture see the same.
    best = min(dict.fromkeys(seen), key=work_below, default=())
    if not best or len(best) == len(cliques[0]) or work_below(best) >= work(seen):
        return cliques, parents
    lifted = [-1, 0]
    for clique, parent in zip(cliques[1:], parents[1:], strict=True):
        lifted.append(0 if parent == 0 and set(_common(cliques[0], clique)) <= set(best) else parent + 1)
    return [best, *cliques], lifted


@dataclass
class _Draft:
    """A clique while its children are being gathered."""

    names: Names
    separator: Names
    tables: tuple[TableKey, ...] = ()
    children: list[_Draft | Leaf] = field(default_factory=list)


def _limit_children(draft: _Draft) -> None:
    """Put nodes without tables between a clique and its children where these are many."""
    while len(draft.children) > UNSCALED:
        grouped: list[_Draft | Leaf] = []
        for first in range(0, len(draft.children), UNSCALED):
            part = draft.children[first : first + UNSCALED]
            below = {name for child in part for name in child.separator}
            names = tuple(name for name in draft.names if name in below)
            grouped.append(_Draft(names, names, children=part))
        draft.children = grouped


def _preorder(root: _Draft) -> tuple[Node, ...]:
    """Return all nodes below a draft, parents before children; children are named by their place."""
    found: list[_Draft | Leaf] = []
    place: dict[int, int] = {}
    stack: list[_Draft | Leaf] = [root]
    while stack:
        node = stack.pop()
        place[id(node)] = len(found)
        found.append(node)
        if isinstance(node, _Draft):
            # Inner children first, and among them and among leaves those that see all that is joined.
            below = {name for child in node.children for name in child.separator}
            node.children.sort(key=lambda child: (isinstance(child, Leaf), len(child.separator) < len(below)))
            stack.extend(reversed(node.children))
    return tuple(
        node if isinstance(node, Leaf) else _clique(node, tuple(place[id(child)] for child in node.children))
        for node in found
    )


def _clique(draft: _Draft, children: tuple[int, ...]) -> Clique:
    """Return a clique whose names stand in the order in which its messages are joined."""
    below = {name for child in draft.children for name in child.separator}
    joined = tuple(name for name in draft.names if name in below)
    # In the order of a child that sees all of it, the message of that child need not be reordered.
    joined = next((child.separator for child in draft.children if len(child.separator) == len(below)), joined)
    above, seen = set(draft.separator), set(joined)
    return Clique(
        separator=draft.separator,
        joined=joined,
        both=tuple(name for name in joined if name in above),
        above=tuple(name for name in draft.separator if name not in seen),
        below=tuple(name for name in joined if name not in above),
        alone=tuple(name for name in draft.names if name not in above and name not in seen),
        tables=draft.tables,
        children=children,
    )


def _union(first: Names, second: Names) -> Names:
    return tuple(dict.fromkeys(first + second))


def _common(first: Names, second: Names) -> Names:
    return tuple(name for name in first if name in second)


def joint_size(names: Iterable[str], states: Mapping[str, int]) -> int:
    """Return how many joint states some variables have."""
    return math.prod(states[name] for name in names)
