"""Expected counts: how often each cell of each table of a network was used, given rows with hidden variables.

This is the E-step of EM. An `Expectation` is made for a graph, for the columns that may have missing cells, and
for about so many rows. It turns parameters into the values of its nodes (`values`), passes rows through them
(`kernels.expected`), and turns what was summed up into counts.

It has a tree and a pass of its own because it needs less than what answers questions, and is asked again and again
for the same rows: probabilities have no sign, observed variables need not be joined into cliques, and a sum over
all rows is wanted, not an answer per row. `kernels.expected` says what that gains.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.em.block_layout import BlockLayout
from eigentree.em.cliques import Leaf, Skeleton
from eigentree.em.values import ValueLayout, totals
from eigentree.engine.threads import in_order
from eigentree.kernels.expected import Buffers, expected
from eigentree.kernels.leaves import COPIES
from eigentree.kernels.matrices import TILE_VECTORS
from eigentree.kernels.vectors import REGISTER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.em.cliques import Node
    from eigentree.em.parameters import ParameterLayout
    from eigentree.em.values import Values
    from eigentree.structures.graph import LatentGraph

__all__ = ["CodedRows", "Expectation", "ExpectedCounts", "Stretch"]

CACHE_BYTES = 4 * 1024 * 1024
"""What the messages of one block of rows may take; loops over fewer rows cost more than a miss of the cache."""

ROWS_OF_BLOCK, CACHE_LINE = (30, 126), 64
"""Fewest and most rows of a block in registers, and the bytes of a line of the cache."""

UNSCALED, UNSCALED_SINGLE = 8, 3
"""How many cliques multiply their messages before these are brought back into range; in single precision fewer."""


class CodedRows(NamedTuple):
    """Rows as the leaves of an `Expectation` read them.

    Attributes
    ----------
    codes : (leaves, rows)
    weights : (rows,)
    line_weights : (lines,)
        Total weight of the rows that read each line of each leaf.
    """

    codes: Codes
    weights: Floats
    line_weights: Floats


class Stretch(NamedTuple):
    """Some of many rows, as the leaves of an `Expectation` read them.

    Attributes
    ----------
    codes : (leaves, rows)
    weights : (rows,)
    first : int
        Which of all rows the first one is.
    """

    codes: Codes
    weights: Floats
    first: int


class ExpectedCounts(NamedTuple):
    """What rows say about parameters.

    Attributes
    ----------
    counts : (parameters,)
        Weighted; they add up to the rows' weight over each table that can be learned.
    log_likelihood : float
        Weighted; -inf if a row is impossible.
    impossible : int
        A row that is impossible, or -1.
    """

    counts: Floats
    log_likelihood: float
    impossible: int

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:  # type: ignore[override]
        """Return what rows say together; of those that are impossible the first is named."""
        numbers = [part.impossible for part in (self, other) if part.impossible >= 0]
        return ExpectedCounts(
            self.counts + other.counts, self.log_likelihood + other.log_likelihood, min(numbers, default=-1)
        )


class _Sums(NamedTuple):
    """What the compiled loop adds up over rows."""

    sums: Floats
    log_likelihood: float
    impossible: int


@dataclass(frozen=True, eq=False)
class Expectation:
    """The expected counts of all tables of a graph, with everything prepared that does not depend on parameters.

    Attributes
    ----------
    skeleton : Skeleton
    nodes : tuple of Clique or Leaf
        In preorder.
    """

    skeleton: Skeleton
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, graph: LatentGraph, missing: Iterable[str] = (), rows: int = 1_000_000) -> Expectation:
        """Return the expectation for a graph, which remembers it.

        Parameters
        ----------
        graph : LatentGraph
        missing : iterable of str
            Columns that may have missing cells.
        rows : int
            About how many rows will be counted at a time; leaves are only joined where that pays.
        """
        skeleton = Skeleton.of(graph, frozenset(missing))
        # Many numbers of rows lead to the same few ways of joining leaves.
        return graph.derived(_expectation, skeleton.missing, skeleton.joined(rows))

    @property
    def layout(self) -> ParameterLayout:
        """Where each parameter stands."""
        return self.skeleton.layout

    @cached_property
    def _values(self) -> ValueLayout:
        return ValueLayout.of(self.skeleton, self.nodes)

    @cached_property
    def _usual(self) -> BlockLayout:
        return self._block_layout(UNSCALED)

    @cached_property
    def _single(self) -> BlockLayout:
        return self._block_layout(UNSCALED_SINGLE)

    @cached_property
    def _careful(self) -> BlockLayout:
        """The layout for rows that are too unlikely for the usual one: every clique brings messages into range."""
        return self._block_layout(1)

    def _block_layout(self, unscaled: int) -> BlockLayout:
        return BlockLayout.of(self.nodes, self.layout.graph.states, self._values.starts.tolist(), unscaled)

    def leaf_codes(self, codes: Codes) -> Codes:
        """Return rows of codes, shape (rows, columns), as one line of codes for each leaf."""
        graph = self.layout.graph
        joint = np.empty((len(self._leaves), len(codes)), self.code_type)
        for leaf, line in zip(self._leaves, joint, strict=True):
            line[:] = codes[:, graph.column(leaf.columns[0])]
            for name in leaf.columns[1:]:
                line *= self.code_type.type(self.skeleton.codes(name))
                line += codes[:, graph.column(name)].astype(self.code_type)
        return joint

    def line_weights(self, joint: Codes, weights: Floats) -> Floats:
        """Return the total weight of the rows that read each line of each leaf, given what leaves read."""
        counts = self._values.line_counts.tolist()
        return np.concatenate(
            [np.bincount(line, weights, count) for line, count in zip(joint, counts, strict=True)]
        )

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The type of what leaves read."""
        # One type for nearly all data, so that the loops compile once; two bytes cost no time beside one.
        largest = int(self._values.line_counts.max()) - 1
        return np.result_type(np.uint16, np.min_scalar_type(largest))

    @property
    def leaf_count(self) -> int:
        """How many leaves read a code of each row."""
        return len(self._leaves)

    @property
    def line_count(self) -> int:
        """How many lines all leaves have together."""
        return len(self._values.line_widths)

    @cached_property
    def _leaves(self) -> list[Leaf]:
        return [node for node in self.nodes if isinstance(node, Leaf)]

    def coded(self, codes: Codes, weights: Floats) -> CodedRows:
        """Return rows of codes, shape (rows, columns), as the leaves read them."""
        joint = self.leaf_codes(codes)
        return CodedRows(joint, np.ascontiguousarray(weights, np.float64), self.line_weights(joint, weights))

    def part(self, rows: CodedRows, start: int, stop: int) -> CodedRows:
        """Return some consecutive rows."""
        codes = np.ascontiguousarray(rows.codes[:, start:stop])
        weights = rows.weights[start:stop]
        lines = codes + self._values.line_starts[:, None]
        repeated = np.broadcast_to(weights, lines.shape)
        return CodedRows(codes, weights, totals(lines.ravel(), repeated.ravel(), self.line_count))

    def __call__(
        self, parameters: Floats, rows: CodedRows, threads: int = 1, single: bool = False
    ) -> ExpectedCounts:
        """Return the expected count of each parameter and the log-likelihood of the rows.

        Parameters
        ----------
        parameters : array
            As `ParameterLayout.vector` lays them out.
        rows : CodedRows
        threads : int
        single : bool
            Whether messages may be of single precision, where nodes have many states and no row is too unlikely for
            that. Counts are then right to about six digits.
        """
        filled = self._values.filled(parameters)
        found = self._found(filled.scaled, rows, threads, len(filled.scaled), single)
        return self._told(filled, found, rows.line_weights)

    def log_likelihood(self, parameters: Floats, rows: CodedRows, threads: int = 1, single: bool = False) -> float:
        """Return the log-likelihood of the rows, to the last bit that of a call, in a third of the time."""
        filled = self._values.filled(parameters)
        return _whole(self._found(filled.scaled, rows, threads, 0, single), filled, rows.line_weights)

    def batches(self, parameters: Floats, codes: Codes, weights: Floats, size: int) -> Floats:
        """Return the expected counts of each batch of so many consecutive rows, shape (batches, parameters).

        Parameters
        ----------
        parameters : array
        codes : (leaves, rows)
            As the leaves read them; all rows must be possible.
        weights : (rows,)
        size : int
            The last batch may have fewer rows.
        """
        filled = self._values.filled(parameters)
        values, transposed = filled.scaled, filled.scaled[self._values.transposed]
        for layout in (self._usual, self._careful):
            width, many = _width(size, values.itemsize), True if layout.many else None
            lines, exponent = np.empty((layout.lines, width)), np.empty(width, np.int64)
            sums, impossible = np.empty((-(-len(weights) // size), len(values))), -1
            for number, each in enumerate(sums):
                begin, end = number * size, min((number + 1) * size, len(weights))
                buffers = Buffers(lines, exponent, np.zeros((COPIES, len(values))))
                _, found = expected(layout.tree, values, transposed, codes, weights, begin, end, buffers, many)
                impossible = max(impossible, found)
                each[:] = buffers.sums.sum(axis=0)
            if impossible < 0:
                break
        counts: Floats = sums @ self._values.counting(filled)
        return counts

    def over(
        self,
        parameters: Floats,
        read: Callable[[int], Stretch],
        stretches: int,
        line_weights: Floats,
        threads: int = 1,
    ) -> ExpectedCounts:
        """Return what all rows say, which are read one stretch after another and never all at once.

        Threads share the stretches. What each says is added in their order, so that no bit depends on threads.

        Parameters
        ----------
        parameters : array
        read : callable
            Gives each stretch by its number; several threads may ask.
        stretches : int
            How many there are.
        line_weights : (lines,)
            Of all rows, as those of `CodedRows`.
        threads : int
        """
        filled = self._values.filled(parameters)

        def run(number: int) -> _Sums:
            stretch = read(number)
            found = self._found(filled.scaled, stretch, 1, len(filled.scaled))
            return found if found.impossible < 0 else found._replace(impossible=stretch.first + found.impossible)

        sums, log_likelihood, impossible = np.zeros(len(filled.scaled)), 0.0, -1
        for found in in_order(run, stretches, threads):
            sums += found.sums
            log_likelihood += found.log_likelihood
            impossible = found.impossible if impossible < 0 else impossible
        return self._told(filled, _Sums(sums, log_likelihood, impossible), line_weights)

    def _found(
        self, values: Floats, rows: CodedRows | Stretch, threads: int, counted: int, single: bool = False
    ) -> _Sums:
        """Return what the compiled loop adds up over all rows, in the least precision that does; so many sums."""
        if single and self._single.many:
            found = self._pass(self._single, values.astype(np.float32), rows, threads, counted)
            if found.impossible < 0 and np.isfinite(found.sums).all():
                return found
        found = self._pass(self._usual, values, rows, threads, counted)
        return found if found.impossible < 0 else self._pass(self._careful, values, rows, threads, counted)

    def _told(self, filled: Values, found: _Sums, line_weights: Floats) -> ExpectedCounts:
        log_likelihood = _whole(found, filled, line_weights)
        return ExpectedCounts(self._values.counted(filled, found.sums), log_likelihood, found.impossible)

    def _pass(
        self,
        layout: BlockLayout,
        values: NDArray[np.floating[Any]],
        rows: CodedRows | Stretch,
        threads: int,
        counted: int,
    ) -> _Sums:
        """Return what the compiled loop adds up over all rows."""
        count = len(rows.weights)
        block = _block(CACHE_BYTES // (values.itemsize * layout.lines), values.itemsize)
        transposed = values[self._values.transposed]
        threads = min(threads, -(-count // block))
        bounds = np.linspace(0, count, threads + 1).astype(int).tolist()

        many, leaves = True if layout.many else None, self._values.first_leaf

        def run(part: int) -> _Sums:
            start, stop = bounds[part], bounds[part + 1]
            size = min(block, _width(stop - start, values.itemsize))
            sums = _empty((COPIES, _width_of_sums(counted)), np.dtype(np.float64))
            # Cliques are counted in the first copy alone.
            sums[0], sums[1:, leaves:] = 0.0, 0.0
            lines = _empty((layout.lines, size), values.dtype)
            buffers = Buffers(lines, np.empty(size, np.int64), sums)
            log_likelihood, impossible = expected(
                layout.tree, values, transposed, rows.codes, rows.weights, start, stop, buffers, many
            )
            sums[0, leaves:] += sums[1:, leaves:].sum(axis=0)
            return _Sums(sums[0, :counted], log_likelihood, impossible)

        if threads == 1:
            return run(0)
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(run, range(threads)))
        return _Sums(
            np.sum([part.sums for part in done], axis=0),
            sum(part.log_likelihood for part in done),
            max(part.impossible for part in done),
        )


def _whole(found: _Sums, filled: Values, line_weights: Floats) -> float:
    """Return a log-likelihood with what was taken out of the lines of leaves."""
    # Its logarithm is accounted for by counting lines.
    taken = math.log(2.0) * float(line_weights @ filled.exponents)
    return found.log_likelihood + taken if found.impossible < 0 else -math.inf


def _empty(shape: tuple[int, int], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return an array that starts with a line of the cache: registers that lie in two lines take twice the time."""
    size = math.prod(shape) * kind.itemsize
    room = np.empty(size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + size].view(kind).reshape(shape)


def _width_of_sums(counted: int) -> int:
    """Return how long a copy of the sums is, so that the next one starts with a line of the cache, too."""
    step = CACHE_LINE // np.dtype(np.float64).itemsize
    return -(-counted // step) * step


def _block(rows: int, number_bytes: int) -> int:
    """Return how many rows pass at a time, if about so many are best for the cache."""
    fewest, most = (REGISTER_BYTES * bound // number_bytes for bound in ROWS_OF_BLOCK)
    return _width(min(max(rows, fewest), most), number_bytes)


def _width(rows: int, number_bytes: int) -> int:
    """Return how long lines are for so many rows: a whole number of tiles, and an odd one of cache lines.

    Else lines of messages would all fall into the same few places of the cache.
    """
    step = TILE_VECTORS * REGISTER_BYTES * CACHE_LINE // math.gcd(TILE_VECTORS * REGISTER_BYTES, CACHE_LINE)
    step //= number_bytes
    steps = -(-rows // step)
    return step * (steps + 1 - steps % 2)


def _expectation(graph: LatentGraph, missing: frozenset[str], leaves: tuple[tuple[Leaf, ...], ...]) -> Expectation:
    skeleton = Skeleton.of(graph, missing)
    return Expectation(skeleton, skeleton.nodes(leaves))
