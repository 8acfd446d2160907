"""A tree of cliques and leaves as the flat arrays of a `BlockTree`, which the compiled pass reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core.trees.estep import BlockEdge, BlockNode, BlockSection, BlockTree
from eigentree.em.estep.cliques import Clique, joint_size
from eigentree.inference.operators.operator_layout import LinePool
from eigentree.inference.tensors.named_tables import flat_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Integers
    from eigentree.em.estep.cliques import Names, Node

__all__ = ["BlockLayout", "ReadFrom"]

MANY = 8
"""States from which on a leaf is looked up faster than its message could be kept and read, and from which on single
precision pays for a matrix."""


class ReadFrom(NamedTuple):
    """Where the values of one node start, or the section whose messages a leaf reads; -1 if it reads values."""

    value: int
    section: int = -1


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """A tree for the compiled pass.

    `sections` is without what depends on rows, `lines` is how many lines its messages take, and `many` whether any
    node has so many states that single precision pays.
    """

    tree: BlockTree
    sections: tuple[BlockSection, ...]
    lines: int
    many: bool

    @classmethod
    def of(
        cls,
        sections: Sequence[Sequence[Node]],
        states: Mapping[str, int],
        sources: Sequence[Sequence[ReadFrom]],
        unscaled: int,
    ) -> BlockLayout:
        """Return the layout of a tree, given the nodes of each section in preorder, and what each reads.

        Children are named by their place in their section; `unscaled` is how many cliques multiply their messages
        before these are brought back into range.
        """
        sizes = [[_sizes(node, states) for node in nodes] for nodes in sections]
        every = [size for each in sizes for size in each]
        # Lines that all sections share come first.
        ones, down = 0, 1
        share = down + max(size.terms for size in every)
        first = share + max(size.bond for size in every)
        places = _IndexLists(states)
        edges: list[BlockEdge] = []
        records: list[BlockNode] = []
        bounds: list[BlockSection] = []
        end, unstored = first, False
        for nodes, own_sizes, own_sources in zip(sections, sizes, sources, strict=True):
            lines, own_end = _placed(nodes, own_sizes, unscaled, (ones, down, first))
            root, leaves = len(records), 0
            for node, size, source, line in zip(nodes, own_sizes, own_sources, lines, strict=True):
                first_edge = first_leaf = len(edges)
                row = column = 0
                leaf = -1
                if isinstance(node, Clique):
                    first_leaf += len(_inner(node, nodes))
                    row = places.start(node.both + node.above, node.separator)
                    column = places.start(node.both + node.below, node.joined)
                    for child in node.children:
                        picks = places.start(node.joined, nodes[child].separator, picks=True)
                        edges.append(BlockEdge(root + child, picks))
                else:
                    leaf = leaves
                    leaves += 1
                own = {**size._asdict(), **line._asdict(), **source._asdict()}
                spans = {"first_edge": first_edge, "first_leaf": first_leaf, "last_edge": len(edges)}
                records.append(BlockNode(**own, **spans, leaf=leaf, row=row, column=column))
            bounds.append(BlockSection(root, len(records), 0, 0))
            end = max(end, own_end)
            unstored = unstored or any(line.message < 0 for line in lines)
        tree = BlockTree(
            np.array(records, np.int64),
            np.array(edges, np.int64).reshape(-1, len(BlockEdge._fields)),
            np.concatenate(places.lists),
            ones,
            down,
            share,
        )
        many = unstored or any(min(size.rows, size.columns) >= MANY for size in every)
        return cls(tree, tuple(bounds), end, many)


class _BlockSizes(NamedTuple):
    """Sizes of one node, with the names of `BlockNode`."""

    bond: int
    terms: int
    blocks: int
    rows: int
    columns: int


class _NodeLines(NamedTuple):
    """Lines of one node, with the names of `BlockNode`."""

    message: int
    product: int
    before: int
    outside: int
    factor: int
    down: int


class _IndexLists:
    """Index lists, one after the other; a list that was needed before is found again."""

    def __init__(self, states: Mapping[str, int]) -> None:
        self._states = states
        self._starts: dict[tuple[Names, Names, bool], int] = {}
        self.lists: list[Integers] = []
        self._end = 0

    def start(self, names: Names, target: Names, picks: bool = False) -> int:
        """Return where the list starts that says where each cell over `names` stands in a table over `target`.

        With `picks`, the cells follow in the order of their place.
        """
        key = (names, target, picks)
        if key not in self._starts:
            index = flat_index(tuple(self._states[name] for name in names), names, target)
            if picks:
                index = np.concatenate([index, np.argsort(index, kind="stable")])
            self.lists.append(index)
            self._starts[key] = self._end
            self._end += len(index)
        return self._starts[key]


def _sizes(node: Node, states: Mapping[str, int]) -> _BlockSizes:
    names = (node.joined, node.both, node.above, node.below) if isinstance(node, Clique) else ((),) * 4
    return _BlockSizes(*(joint_size(own, states) for own in (node.separator, *names)))


def _placed(
    nodes: Sequence[Node], sizes: Sequence[_BlockSizes], unscaled: int, shared: tuple[int, int, int]
) -> tuple[list[_NodeLines], int]:
    """Return where the messages of a section go, and the end of its lines.

    Lines that all sections share are given: that of ones, the first for what comes down, and the end of all.
    """
    ones, down, end = shared
    products, end = _products(nodes, sizes, end)
    outside, end = _outside(nodes, [size.bond for size in sizes], end)
    factor = [-1] * len(nodes)
    for i in _scaling(nodes, unscaled):
        factor[i] = end
        end += 1
    of_nodes = []
    for i, node in enumerate(nodes):
        message, product, before = products[i]
        comes_down = down
        if isinstance(node, Clique):
            product = product if node.children else ones
            inner = _inner(node, nodes)
            if len(inner) == 1 and nodes[inner[0]].separator == node.joined:
                comes_down = outside[inner[0]]
        of_nodes.append(_NodeLines(message, product, before, outside[i], factor[i], comes_down))
    return of_nodes, end


def _products(
    nodes: Sequence[Node], sizes: Sequence[_BlockSizes], start: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Return the lines of each node's message, of its children's products and of those before it, and their end.

    They are -1 where there are none.
    """
    message, product, before = [-1] * len(nodes), [-1] * len(nodes), [-1] * len(nodes)
    pool = LinePool(start)
    for i, node in enumerate(nodes):
        if not isinstance(node, Clique):
            continue
        if i == 0:
            message[i] = pool.lend(sizes[i].bond)
        for child in node.children:
            many = sizes[child].bond >= MANY and nodes[child].separator == node.joined
            if isinstance(nodes[child], Clique) or not many:
                message[child] = pool.lend(sizes[child].bond)
        inner = _inner(node, nodes)
        stored = [child for child in node.children if child not in inner and message[child] >= 0]
        # Leaves that are stored come first, then inner children. Of the first of either kind, the message alone is
        # not needed again, so products may take its place; not so of an inner child behind another.
        for child in (*stored[:1], *inner):
            before[child] = product[i]
            in_place = child in (*stored[:1], *inner[:1]) and nodes[child].separator == node.joined
            product[i] = message[child] if in_place else pool.lend(sizes[i].terms)
        if node.children and product[i] < 0:
            product[i] = pool.lend(sizes[i].terms)
    return list(zip(message, product, before, strict=True)), pool.end


def _inner(node: Clique, nodes: Sequence[Node]) -> tuple[int, ...]:
    """Return the children that are cliques."""
    return tuple(child for child in node.children if isinstance(nodes[child], Clique))


def _outside(nodes: Sequence[Node], bond: Sequence[int], start: int) -> tuple[list[int], int]:
    """Return the lines of the message down to each clique, and the end of them all.

    Lines are free again once the clique has sent its message on.
    """
    places = [start] * len(nodes)
    pool = LinePool(start + bond[0])
    for i, node in enumerate(nodes):
        if not isinstance(node, Clique):
            continue
        for child in _inner(node, nodes):
            places[child] = pool.lend(bond[child])
        pool.give_back(places[i], bond[i])
    return places, pool.end


def _scaling(nodes: Sequence[Node], unscaled: int) -> list[int]:
    """Return the cliques that have to bring their message back into range, the root among them."""
    found = []
    pending = [0] * len(nodes)
    for i in reversed(range(len(nodes))):
        node = nodes[i]
        if not isinstance(node, Clique):
            continue
        pending[i] = 1 + sum(pending[child] for child in node.children)
        if pending[i] >= unscaled or i == 0:
            pending[i] = 0
            found.append(i)
    return found
