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
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
    """A part of a tree: nodes in preorder, whose children are named by their place here.

    `numbers` are which node of the whole tree each is: of a leaf that stands for a section, the root of that.
    """

    nodes: tuple[Node, ...]
    numbers: tuple[int, ...]


class SectionRows(NamedTuple):
    """The rows of a section, one of each kind, with the weight of all rows of that kind.

    Their codes, shape (leaves, rows), include those of leaves that stand for sections.
    """

    codes: Codes
    weights: Floats


class _Kinds(NamedTuple):
    """Which rows agree below an edge: how many kinds there are, and which one each row is."""

    number: int
    of_rows: Codes


@dataclass(frozen=True, eq=False)
class Sectioning:
    """A tree in sections, each behind the one that reads it; the first has the root of the tree."""

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
        """Return the sections that save work for some rows, given what leaves read; None if none do."""
        kinds = _kinds_below(nodes, line_counts, codes, range(1, len(nodes)), as_long_as_it_pays=True)
        room = MOST_NUMBERS

        def is_cut_above(number: int, rows: int) -> bool:
            """Return whether the tree is cut above a node, if so many rows come from above."""
            nonlocal room
            if isinstance(nodes[number], Leaf) or number not in kinds or not _pays(kinds[number].number, rows):
                return False
            table = kinds[number].number * joint_size(nodes[number].separator, states)
            if is_cut := table <= room:
                room -= table
            return is_cut

        sections, left = [], 0.0
        waiting = [(0, codes.shape[1])]
        for root, rows in waiting:
            section, cut = _section(nodes, root, rows, is_cut_above)
            sections.append(section)
            left += _work(section.nodes, states) * rows * (UP_TWICE if root else 1.0)
            waiting += [(i, kinds[i].number) for i in cut]
        if left >= _work(nodes, states) * codes.shape[1]:
            return None
        return cls(nodes, line_counts, tuple(sections))

    def rows(self, codes: Codes, weights: Floats) -> tuple[SectionRows, ...]:
        """Return the rows of each section."""
        kinds = _kinds_below(self.nodes, self.line_counts, codes, self._cliques_below)
        every = np.arange(len(weights))
        found = []
        for section in self.sections:
            some: Integers | slice = slice(None)
            own = weights
            if section is not self.sections[0]:
                number, of_rows = kinds[section.numbers[0]]
                # The first row of each kind; any row, with no weight, for a code of a leaf that none has.
                some = np.zeros(number, np.int64)
                some[of_rows[::-1]] = every[::-1]
                own = np.bincount(of_rows, weights, number).astype(np.float64, copy=False)
            leaves = [
                kinds[i].of_rows[some]
                for i, node in zip(section.numbers, section.nodes, strict=True)
                if isinstance(node, Leaf)
            ]
            # That of the given codes, or a larger one where rows of a section below need it.
            most = max((int(line.max()) for line in leaves), default=0)
            kind = np.result_type(codes.dtype, np.min_scalar_type(most))
            found.append(SectionRows(np.array(leaves, kind).reshape(len(leaves), len(own)), own))
        return tuple(found)

    @cached_property
    def _cliques_below(self) -> list[int]:
        """The roots of sections and all cliques below them."""
        roots = {section.numbers[0] for section in self.sections[1:]}
        found: set[int] = set()
        waiting = [*roots]
        while waiting:
            i = waiting.pop()
            if i not in found and isinstance(node := self.nodes[i], Clique):
                found.add(i)
                waiting += node.children
        return sorted(found)


def _kinds_below(
    nodes: Sequence[Node],
    line_counts: Sequence[int],
    codes: Codes,
    which: Sequence[int],
    as_long_as_it_pays: bool = False,
) -> dict[int, _Kinds]:
    """Return which rows agree below each leaf and below some cliques, given what leaves read."""
    leaves = [i for i, node in enumerate(nodes) if isinstance(node, Leaf)]
    known = {i: _Kinds(*each) for i, *each in zip(leaves, line_counts, codes, strict=True)}
    # Children first.
    for i in reversed(which):
        node = nodes[i]
        if not isinstance(node, Clique) or any(child not in known for child in node.children):
            continue
        found = _Kinds(1, np.zeros(codes.shape[1], np.uint8))
        for kinds in sorted((known[child] for child in node.children), key=lambda kinds: kinds.number):
            found = kinds if found.number == 1 else _joined(found, kinds)
            if as_long_as_it_pays and not _pays(found.number, codes.shape[1]):
                break
        else:
            known[i] = found
    return known


def _work(nodes: Iterable[Node], states: Mapping[str, int]) -> int:
    """Return how many values cliques have together."""
    cliques = [node for node in nodes if isinstance(node, Clique)]
    return sum(joint_size(node.both + node.above + node.below, states) for node in cliques)


def _section(
    nodes: Sequence[Node], root: int, rows: int, is_cut_above: Callable[[int, int], bool]
) -> tuple[TreeSection, list[int]]:
    """Return the section of so many rows that hangs from a node, and the roots of those that it reads."""
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
        cut |= dict.fromkeys(child for child in node.children if is_cut_above(child, rows))
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


def _joined(first: _Kinds, second: _Kinds) -> _Kinds:
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
