"""Rows through the compiled pass for expected counts: buffers, blocks of rows, and copies of sums.

A `Passage` is what one thread has to do: rows, and the tree that they pass. `Rooms` says where values and sums of
nodes stand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.trees.block_tree import Buffers
from eigentree.core.trees.estep import LOG_2, expected
from eigentree.core.trees.leaves import COPIES
from eigentree.core.trees.matrix_tiles import TILE_VECTORS
from eigentree.core.vectors import REGISTER_BYTES
from eigentree.em.estep.block_layout import BlockLayout, Room
from eigentree.em.estep.cliques import Clique, Leaf, joint_size
from eigentree.em.estep.row_sharing import Sectioning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.em.estep.clique_values import ValueLayout
    from eigentree.em.estep.cliques import Node
    from eigentree.em.estep.row_sharing import SectionRows

__all__ = ["UNSCALED_SINGLE", "Passage", "Rooms", "SectionedRows", "SectionedTree", "Sums", "fewest_rows"]

CACHE_BYTES = 4 * 1024 * 1024
"""What the messages of one block of rows may take; loops over fewer rows cost more than a miss of the cache."""

ROWS_OF_BLOCK, CACHE_LINE = (30, 126), 64
"""Fewest and most rows of a block in registers, and the bytes of a line of the cache."""

UNSCALED_SINGLE = 3
"""In single precision fewer cliques multiply their messages before these are brought back into range."""

LINE_NUMBERS = CACHE_LINE // 8
"""Numbers of double precision in a line of the cache."""


class Sums(NamedTuple):
    """What the compiled pass adds up over rows, and a row of probability zero and positive weight, or -1."""

    sums: Floats
    log_likelihood: float
    impossible: int


class Rooms(NamedTuple):
    """Where values and sums of a tree stand: where those of each node and of all leaves start, and the end.

    Values of cliques come first, then those of leaves, then tables of sections. Sums of leaves have copies, which
    follow before those of tables: neighbouring rows seldom agree in these.
    """

    starts: Sequence[int]
    leaves: int
    end: int

    @classmethod
    def of(cls, values: ValueLayout) -> Rooms:
        """Return where everything stands, given where values do."""
        return cls(values.starts.tolist(), values.first_leaf, len(values.transposed))

    @property
    def copy(self) -> int:
        """How far apart copies of the sums of leaves are."""
        return _rounded(self.end - self.leaves)

    @property
    def tables(self) -> Room:
        """Where tables of sections start."""
        return Room(_rounded(self.end), _rounded(self.end) + (COPIES - 1) * self.copy, 0)

    def of_node(self, number: int, node: Node) -> Room:
        """Return where values and sums of a node of the tree start."""
        start = self.starts[number]
        return Room(start, start, self.copy if isinstance(node, Leaf) else 0)


class Passage(NamedTuple):
    """Rows that pass a tree, with the codes of all sections one after the other.

    `kind_weights` are those of the kinds of all sections but the first, whose messages take `table` numbers.
    """

    layout: BlockLayout
    sections: Any
    codes: Codes
    weights: Floats
    kind_weights: Floats
    table: int

    @classmethod
    def whole(cls, layout: BlockLayout, codes: Codes, weights: Floats, start: int, stop: int) -> Passage:
        """Return the passage of some of many rows through a tree of one section."""
        sections = layout.sections.copy()
        sections.rows, sections.start, sections.stop = len(weights), start, stop
        return cls(layout, sections, codes.reshape(-1), weights, np.empty(0), 0)

    def passed(self, rooms: Rooms, values: NDArray[Any], transposed: NDArray[Any], counted: bool) -> Sums:
        """Return what the rows add up to, if that is `counted`, and their log-likelihood.

        Messages have the precision of the values, which are given again with blocks of cliques as (column, row).
        """
        layout, tables = self.layout, rooms.tables
        stretch = int((self.sections.stop - self.sections.start).max())
        size = min(_block(layout, values.itemsize), _width(stretch, values.itemsize))
        if self.table:
            extended = _empty((tables.value + self.table,), values.dtype)
            extended[: rooms.end] = values
            values = extended
        sums = _empty((tables.sums + self.table if counted else 0,), np.dtype(np.float64))
        sums[:] = 0.0
        lines = _empty((layout.lines, size), values.dtype)
        buffers = Buffers(lines, np.empty(size, np.int64), sums, np.empty(len(self.kind_weights), np.int64))
        log_likelihood, impossible = expected(
            layout.tree,
            self.sections,
            values,
            transposed,
            self.codes,
            self.weights,
            buffers,
            True if layout.many else None,
        )
        log_likelihood += LOG_2 * float(self.kind_weights @ buffers.exponents)
        if not counted:
            return Sums(sums, log_likelihood, impossible)
        for copy in range(rooms.copy, COPIES * rooms.copy, rooms.copy):
            sums[rooms.leaves : rooms.end] += sums[rooms.leaves + copy : rooms.end + copy]
        return Sums(sums[: rooms.end], log_likelihood, impossible)


@dataclass(frozen=True, eq=False)
class SectionedTree:
    """A tree in sections, laid out for rows of which some will be passed through it again and again.

    Each section has at most so many rows as `most` says.
    """

    sectioning: Sectioning
    rooms: Rooms
    states: Mapping[str, int]
    most: tuple[int, ...]

    def layout(self, unscaled: int) -> BlockLayout:
        """Return the layout in which so many cliques multiply messages before these are brought into range."""
        if unscaled not in self._layouts:
            sections = self.sectioning.sections
            rooms = [list(map(self._room, section.numbers, section.nodes)) for section in sections]
            nodes = [section.nodes for section in sections]
            self._layouts[unscaled] = BlockLayout.of(nodes, self.states, rooms, unscaled)
        return self._layouts[unscaled]

    @cached_property
    def _layouts(self) -> dict[int, BlockLayout]:
        return {}

    def sections(self, layout: BlockLayout, rows: Sequence[SectionRows]) -> Any:
        """Return the sections of a layout with their rows."""
        sections, first = layout.sections.copy(), self.rooms.tables
        sections.rows = sections.stop = [len(own.weights) for own in rows]
        sections.codes = _starts([own.codes.size for own in rows])
        sections.kind[1:] = _starts([len(own.weights) for own in rows[1:]])
        sections.table[1:] = [first.value + start for start in self._tables.values()]
        sections.above[1:] = [first.sums + start for start in self._tables.values()]
        return sections

    @property
    def table(self) -> int:
        """How many numbers the messages of all sections but the first take."""
        return sum(self._sizes)

    @cached_property
    def _sizes(self) -> list[int]:
        """How many numbers the messages of each section but the first take."""
        bonds = [joint_size(section.nodes[0].separator, self.states) for section in self.sectioning.sections[1:]]
        return [bond * most for bond, most in zip(bonds, self.most[1:], strict=True)]

    @cached_property
    def _tables(self) -> dict[int, int]:
        """Where the messages of each section but the first start, by the number of its root in the whole tree."""
        roots = [section.numbers[0] for section in self.sectioning.sections[1:]]
        return dict(zip(roots, _starts(self._sizes), strict=True))

    def _room(self, number: int, node: Node) -> Room:
        first = self.rooms.tables
        if isinstance(node, Clique) or number not in self._tables:
            return self.rooms.of_node(number, node)
        start = self._tables[number]
        return Room(first.value + start, first.sums + start, first.apart)


@dataclass(frozen=True, eq=False)
class SectionedRows:
    """Rows in sections of a tree; the codes of each section are a part of one array."""

    tree: SectionedTree
    rows: tuple[SectionRows, ...]
    codes: Codes
    kind_weights: Floats

    @classmethod
    def of(cls, tree: SectionedTree, rows: Sequence[SectionRows]) -> SectionedRows:
        """Return the rows of each section as rows of one tree."""
        codes = np.concatenate([own.codes.reshape(-1) for own in rows])
        starts = _starts([own.codes.size for own in rows])
        kept = tuple(
            own._replace(codes=codes[start : start + own.codes.size].reshape(own.codes.shape))
            for own, start in zip(rows, starts, strict=True)
        )
        return cls(tree, kept, codes, np.concatenate([np.empty(0), *(own.weights for own in rows[1:])]))

    @classmethod
    def parts(
        cls,
        nodes: tuple[Node, ...],
        values: ValueLayout,
        states: Mapping[str, int],
        codes: Codes,
        weights: Floats,
        bounds: Sequence[int],
    ) -> tuple[SectionedRows, ...]:
        """Return consecutive rows in parts, all in the sections that save work for the first one; none if none do.

        `bounds` are where each part starts, and where the last one ends.
        """
        line_counts = tuple(values.line_counts.tolist())
        sectioning = Sectioning.of(nodes, line_counts, states, codes[:, bounds[0] : bounds[1]])
        if sectioning is None:
            return ()
        rows = [sectioning.rows(codes[:, start:stop], weights[start:stop]) for start, stop in pairwise(bounds)]
        most = tuple(max(len(own.weights) for own in each) for each in zip(*rows, strict=True))
        tree = SectionedTree(sectioning, Rooms.of(values), dict(states), most)
        return tuple(cls.of(tree, each) for each in rows)

    def passage(self, unscaled: int) -> Passage:
        """Return the passage through the layout with so many cliques unscaled."""
        if unscaled not in self._passages:
            layout = self.tree.layout(unscaled)
            sections = self.tree.sections(layout, self.rows)
            parts = (self.codes, self.rows[0].weights, self.kind_weights, self.tree.table)
            self._passages[unscaled] = Passage(layout, sections, *parts)
        return self._passages[unscaled]

    @cached_property
    def _passages(self) -> dict[int, Passage]:
        return {}


def fewest_rows(layout: BlockLayout) -> int:
    """Return how many rows a thread should at least have: a block in double precision."""
    return _block(layout, np.dtype(np.float64).itemsize)


def _empty(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return an array that starts with a line of the cache: registers that lie in two lines take twice the time."""
    size = math.prod(shape) * kind.itemsize
    room = np.empty(size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + size].view(kind).reshape(shape)


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return where each of some consecutive pieces starts."""
    return [*accumulate(sizes, initial=0)][:-1]


def _rounded(count: int) -> int:
    """Return how many numbers of double precision take whole lines of the cache, if so many are needed."""
    return -(-count // LINE_NUMBERS) * LINE_NUMBERS


def _block(layout: BlockLayout, number_bytes: int) -> int:
    """Return how many rows pass at a time: those whose messages fit into the cache."""
    rows = CACHE_BYTES // (number_bytes * layout.lines)
    fewest, most = (REGISTER_BYTES * bound // number_bytes for bound in ROWS_OF_BLOCK)
    return _width(min(max(rows, fewest), most), number_bytes)


def _width(rows: int, number_bytes: int) -> int:
    """Return how long lines are for so many rows: a whole number of tiles, and an uneven one of cache lines.

    Else lines of messages would all fall into the same few places of the cache.
    """
    step = TILE_VECTORS * REGISTER_BYTES * CACHE_LINE // math.gcd(TILE_VECTORS * REGISTER_BYTES, CACHE_LINE)
    step //= number_bytes
    steps = -(-rows // step)
    return step * (steps + 1 - steps % 2)
