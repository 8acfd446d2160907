"""Parts of a tree in which many rows agree: what lies below an edge is passed once per kind of row there.

Below an edge a tree reads a few of all columns, so rows that differ elsewhere are often equal there. A message up
depends on nothing else, and what comes down adds up over equal rows, since everything below is linear in it. So the
tree is cut where that saves work. The part below each cut, down to further cuts, is a `TreeSection` with rows of
its own; in the section above a leaf stands for it, which reads what kind a row is.

No count changes by that but in its last digits, and a hidden Chow-Liu tree of a hundred columns and thousands of
rows has a third to a hundredth of the matrices to multiply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.estep.cliques import Clique, Leaf, joint_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.em.estep.cliques import Node

__all__ = ["SectionRows", "Sectioning", "TreeSection"]

LARGEST_SHARE = 0.5
"""The tree is cut below an edge if at most this share of the rows above differ there: those below pass up twice."""

MOST_NUMBERS = 2**22
"""All tables of messages of a tree may have so many numbers: 32 MB, as much as a large cache."""

UP_TWICE = 4 / 3
"""The work of a section below the first, whose messages up are made once more on the way down."""


class TreeSection(NamedTuple):
    """A part of a tree.

    Attributes
    ----------
    nodes : tuple of Clique or Leaf
        In preorder; children are named by their place here.
    numbers : tuple of int
        Which node of the whole tree each is: of a leaf that stands for a section, the root of that.
    """

    nodes: tuple[Node, ...]
    numbers: tuple[int, ...]


class SectionRows(NamedTuple):
    """The rows of a section, one of each kind.

    Attributes
    ----------
    codes : (leaves, rows)
        What the leaves read, those that stand for sections included.
    weights : (rows,)
        The weight of all rows of each kind.
    """

    codes: Codes
    weights: Floats


class _Kinds(NamedTuple):
    """Which rows agree below an edge: how many kinds there are, and which one each row is."""

    number: int
    of_rows: Codes


@dataclass(frozen=True, eq=False)
class Sectioning:
    """A tree in sections.

    Attributes
    ----------
    nodes : tuple of Clique or Leaf
        The whole tree, in preorder.
    line_counts : tuple of int
        How many codes each leaf has.
    sections : tuple of TreeSection
        Each behind the one that reads it; the first has the root of the tree.
    """

    nodes: tuple[Node, ...]
    line_counts: tuple[int, ...]
    sections: tuple[TreeSection, ...]

    @classmethod
    def of(
        cls,
        nodes: tuple[Node, ...],
        line_counts: tuple[int, ...],
        states: Mapping[str, int],
        codes: Codes,
    ) -> Sectioning | None:
        """Return the sections of a tree that save work for some rows, given what its leaves read; None if none do."""
        kinds = _KindsBelow(nodes, line_counts, codes)
        for i in reversed(range(1, len(nodes))):
            kinds.find(i, as_long_as_it_pays=True)
        cuts = _Cuts(kinds, states)
        sections, left = [], 0.0
        waiting = [(0, codes.shape[1])]
        for root, rows in waiting:
            section, cut = _section(cuts, root, rows)
            sections.append(section)
            left += cuts.work(section.nodes) * rows * (UP_TWICE if root else 1.0)
            waiting += [(i, kinds.known[i].number) for i in cut]
        if left >= cuts.work(nodes) * codes.shape[1]:
            return None
        return cls(nodes, line_counts, tuple(sections))

    def rows(self, codes: Codes, weights: Floats) -> tuple[SectionRows, ...]:
        """Return the rows of each section."""
        kinds = _KindsBelow(self.nodes, self.line_counts, codes)
        for i in self._asked:
            kinds.find(i)
        every = np.arange(len(weights))
        found = []
        for section in self.sections:
            some: Integers | slice = slice(None)
            own = weights
            if section is not self.sections[0]:
                number, of_rows = kinds.known[section.numbers[0]]
                # The first row of each kind; any row, with no weight, for a code of a leaf that none has.
                some = np.zeros(number, np.int64)
                some[of_rows[::-1]] = every[::-1]
                own = np.bincount(of_rows, weights, number).astype(np.float64, copy=False)
            leaves = [
                kinds.known[i].of_rows[some]
                for i, node in zip(section.numbers, section.nodes, strict=True)
                if isinstance(node, Leaf)
            ]
            # One type for nearly all data, so that the loops compile once.
            most = max((int(line.max()) for line in leaves), default=0)
            kind = np.result_type(codes.dtype, np.min_scalar_type(most))
            found.append(SectionRows(np.array(leaves, kind).reshape(len(leaves), len(own)), own))
        return tuple(found)

    @cached_property
    def _asked(self) -> list[int]:
        """The roots of sections and all cliques below them, children first."""
        roots = {section.numbers[0] for section in self.sections[1:]}
        found: set[int] = set()
        waiting = [*roots]
        while waiting:
            i = waiting.pop()
            if i not in found and isinstance(node := self.nodes[i], Clique):
                found.add(i)
                waiting += node.children
        return sorted(found, reverse=True)


class _KindsBelow:
    """What is known of rows that agree below nodes.

    Attributes
    ----------
    nodes : sequence of Clique or Leaf
    known : dict of int to _Kinds
        By the numbers of nodes.
    rows : int
    """

    def __init__(self, nodes: Sequence[Node], line_counts: Sequence[int], codes: Codes) -> None:
        self.nodes = nodes
        leaves = [i for i, node in enumerate(nodes) if isinstance(node, Leaf)]
        self.known = {i: _Kinds(*each) for i, *each in zip(leaves, line_counts, codes, strict=True)}
        self.rows = codes.shape[1]

    def find(self, number: int, as_long_as_it_pays: bool = False) -> None:
        """Find which rows agree below a clique, given the same of its children."""
        node = self.nodes[number]
        if not isinstance(node, Clique) or any(child not in self.known for child in node.children):
            return
        found = _Kinds(1, np.zeros(self.rows, np.uint8))
        for kinds in sorted((self.known[child] for child in node.children), key=lambda kinds: kinds.number):
            found = kinds if found.number == 1 else _told_apart(found, kinds)
            if as_long_as_it_pays and not _pays(found.number, self.rows):
                return
        self.known[number] = found


class _Cuts:
    """Which cuts pay, as long as there is room for their tables."""

    def __init__(self, kinds: _KindsBelow, states: Mapping[str, int]) -> None:
        self.kinds = kinds
        self._states = states
        self._room = MOST_NUMBERS

    def work(self, nodes: Iterable[Node]) -> int:
        """Return how many values cliques have together."""
        return sum(
            joint_size(node.both + node.above + node.below, self._states)
            for node in nodes
            if isinstance(node, Clique)
        )

    def made_above(self, number: int, rows: int) -> bool:
        """Return whether the tree is cut above a node, if so many rows come from above."""
        node, known = self.kinds.nodes[number], self.kinds.known.get(number)
        if not isinstance(node, Clique) or known is None or not _pays(known.number, rows):
            return False
        table = known.number * joint_size(node.separator, self._states)
        if table > self._room:
            return False
        self._room -= table
        return True


def _section(cuts: _Cuts, root: int, rows: int) -> tuple[TreeSection, list[int]]:
    """Return the section that hangs from a node, if it has so many rows, and the roots of those that it reads."""
    nodes = cuts.kinds.nodes
    numbers: list[int] = []
    cut: dict[int, None] = {}
    children: dict[int, list[int]] = {}
    waiting = [root]
    while waiting:
        i = waiting.pop()
        numbers.append(i)
        node = nodes[i]
        if not isinstance(node, Clique) or i in cut:
            continue
        cut |= dict.fromkeys(child for child in node.children if cuts.made_above(child, rows))
        leaves = [child for child in node.children if child in cut or isinstance(nodes[child], Leaf)]
        # Inner children first, and among leaves those that see all that is joined, as in the whole tree.
        partial = [child for child in leaves if len(nodes[child].separator) < len(node.joined)]
        children[i] = [child for child in node.children if child not in leaves]
        children[i] += [*(child for child in leaves if child not in partial), *partial]
        waiting += reversed(children[i])
    place = {i: k for k, i in enumerate(numbers)}
    own: list[Node] = []
    for i in numbers:
        node = nodes[i]
        if isinstance(node, Clique) and i in children:
            own.append(replace(node, children=tuple(place[child] for child in children[i])))
        else:
            own.append(Leaf(node.separator, (), ()) if i in cut else node)
    return TreeSection(tuple(own), tuple(numbers)), list(cut)


def _pays(kinds: int, rows: int) -> bool:
    """Return whether so many kinds of so many rows are worth a section of their own."""
    return kinds <= min(LARGEST_SHARE * rows, np.iinfo(np.uint16).max)


def _told_apart(first: _Kinds, second: _Kinds) -> _Kinds:
    """Return which rows agree in both."""
    key = first.of_rows.astype(np.int64) * second.number + second.of_rows
    possible = first.number * second.number
    if possible <= len(key):
        seen = np.zeros(possible, bool)
        seen[key] = True
        number = int(seen.sum())
        of_rows = (np.cumsum(seen) - 1)[key]
    else:
        values, of_rows = np.unique(key, return_inverse=True)
        number = len(values)
    return _Kinds(number, of_rows.astype(np.min_scalar_type(number)))
