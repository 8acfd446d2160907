"""Messages through a node of a junction tree, many at a time, and how much work they may take.

What comes in through several edges is multiplied with the node's table and summed down to the separator of another
edge. The part with most messages comes last: for each state of what its separator shares with the new one, that is
a product of two small matrices, and no table with one cell per message and state of the clique is ever made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from eigentree.errors import EigentreeError
from eigentree.inference.tensors.named_tables import flat_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers

__all__ = ["MOST_AT_ONCE", "CliqueLayout", "CliqueTable", "OverworkError", "Work"]

MOST, MOST_PER_NODE = 1.2e9, 5e6
"""Work that planning may take, in about nanoseconds of one processor, and how much more per node of the tree."""

MOST_AT_ONCE = 2**26
"""Most products that may be made at once: half a gigabyte."""

PRODUCT, STEP_OF_PRODUCT = 5.0, 0.05
"""Work of making a product and keeping it in memory, and of each step of it that a product of matrices does."""

STEP_OF_QR = 0.15
"""Work of a step of a QR decomposition."""

Axes = tuple[int, ...]


class OverworkError(EigentreeError):
    """Planning would take too long, most of all at one `node` of the junction tree."""

    def __init__(self, node: int) -> None:
        super().__init__(f"planning would take too long, most of all at node {node} of the junction tree")
        self.node = node


class Work:
    """What planning may still do (`left`): too much is refused before it is done, not waited for."""

    def __init__(
        self, nodes: int, share: float = 1.0, most: float = MOST, most_per_node: float = MOST_PER_NODE
    ) -> None:
        self.left = share * (most + most_per_node * nodes)
        self._largest, self._node = 0.0, 0

    def products(self, node: int, count: int, steps: int = 1) -> None:
        """Note that so many products are about to be made at once at a node, each a sum of some steps."""
        if count > MOST_AT_ONCE:
            raise OverworkError(node)
        self.note(node, count * (PRODUCT + STEP_OF_PRODUCT * steps))

    def decomposition(self, node: int, rows: int, columns: int) -> None:
        """Note a QR decomposition."""
        self.note(node, STEP_OF_QR * rows * columns * min(rows, columns))

    def note(self, node: int, amount: float) -> None:
        """Note work that is about to be done at a node, or raise `OverworkError`."""
        self.left -= amount
        if amount > self._largest:
            self._largest, self._node = amount, node
        if self.left < 0:
            raise OverworkError(self._node)


class _Route(NamedTuple):
    """From one separator of a clique to another: a product of matrices per state of what they share.

    `shared`, `free`, `summed` and `gone` are the numbers of joint states of the variables that both have, only the
    end, only the start, and neither.
    """

    cells: Integers  # those of the clique by gone, shared, free and summed states
    incoming: Integers | None  # the states of the start by shared and summed states, unless in this order
    outgoing: Integers | None  # the place of each state of the end among shared and free ones, unless in its order
    shared: int
    free: int
    summed: int
    gone: int


class CliqueLayout:
    """The shape of a clique and the axes of its separators, the parent's last: common to nodes of one form."""

    def __init__(self, shape: tuple[int, ...], separators: Sequence[Axes]) -> None:
        self.states = [self._size(shape, axes) for axes in separators]
        self._shape = shape
        self._every = tuple(range(len(shape)))
        self._separators = separators
        self._routes: dict[tuple[int, int], _Route] = {}
        self._agreeing: dict[int, Integers] = {}

    @staticmethod
    def _size(shape: tuple[int, ...], axes: Axes) -> int:
        return math.prod([shape[axis] for axis in axes])

    def _reordered(self, old: Axes, new: Axes) -> Integers:
        """Return, for each cell of a table whose axes have a new order, its position in the flat table before."""
        return flat_index(tuple([self._shape[axis] for axis in new]), new, old)

    def route(self, start: int, end: int) -> _Route:
        """Return how messages go from one edge to another."""
        if (start, end) not in self._routes:
            ours, theirs = self._separators[start], self._separators[end]
            shared = tuple([axis for axis in theirs if axis in ours])
            free = tuple([axis for axis in theirs if axis not in ours])
            summed = tuple([axis for axis in ours if axis not in theirs])
            gone = tuple([axis for axis in self._every if axis not in ours and axis not in theirs])
            sizes = [self._size(self._shape, axes) for axes in (shared, free, summed, gone)]
            cells = self._reordered(self._every, gone + shared + free + summed)
            incoming = self._reordered(ours, shared + summed) if ours != shared + summed else None
            outgoing = self._reordered(shared + free, theirs) if theirs != shared + free else None
            self._routes[start, end] = _Route(cells, incoming, outgoing, *sizes)
        return self._routes[start, end]

    def agreeing(self, edge: int) -> Integers:
        """Return the state of an edge's separator that each cell of the clique agrees with."""
        if edge not in self._agreeing:
            self._agreeing[edge] = flat_index(self._shape, self._every, self._separators[edge])
        return self._agreeing[edge]

    def grouped(self, edge: int) -> Integers:
        """Return the cells of the clique by the state of an edge's separator that they agree with."""
        own = self._separators[edge]
        return self._reordered(self._every, own + tuple([axis for axis in self._every if axis not in own]))


@dataclass(frozen=True, eq=False)
class CliqueTable:
    """The flat table of a node, through which messages pass from some of its edges to another.

    Edges go by their places among the node's children; the parent's is -1.
    """

    node: int
    table: Floats
    layout: CliqueLayout
    work: Work

    def leaf(self) -> Floats:
        """Return the messages of a leaf, shape (states of its variable, states of the separator)."""
        return self.table.reshape(self.layout.states[-1], -1).T

    def send(self, parts: Sequence[tuple[int, Floats]], onto: int) -> Floats:
        """Return all products of messages that come in through some edges, summed down to the edge `onto`.

        Messages are rows; the edge with most of them is best last. Products that differ in the last part alone are
        adjacent, shape (products, states of the separator).
        """
        *others, (edge, messages) = parts
        product: Floats = self.table[:, None]
        for other, factors in others:
            self.work.products(self.node, product.size * len(factors))
            incoming = factors.T.take(self.layout.agreeing(other), axis=0)
            product = (product[:, :, None] * incoming[:, None, :]).reshape(len(product), -1)
        route = self.layout.route(edge, onto)
        left, count = route.shared * route.free, product.shape[1]
        self.work.products(self.node, left * count * len(messages), route.summed)
        product = product.take(route.cells, axis=0)
        if route.gone > 1:
            product = product.reshape(route.gone, -1, count).sum(axis=0)
        if count > 1:
            product = product.reshape(left, route.summed, count).transpose(0, 2, 1)
        if route.incoming is not None:
            messages = messages.take(route.incoming, axis=1)
        incoming = messages.reshape(-1, route.shared, route.summed).transpose(1, 2, 0)
        sent = (product.reshape(route.shared, -1, route.summed) @ incoming).reshape(left, -1)
        return (sent if route.outgoing is None else sent.take(route.outgoing, axis=0)).T

    def send_in_step(self, parts: Sequence[tuple[int, Floats]], onto: int) -> Floats:
        """Return the product of the first messages of all parts, of the second, …, summed down to another edge."""
        cells = self.layout.grouped(onto)
        product: Floats = self.table.take(cells)[:, None]
        for edge, messages in parts:
            self.work.products(self.node, len(cells) * len(messages))
            product = product * messages.T.take(self.layout.agreeing(edge).take(cells), axis=0)
        sent: Floats = product.reshape(self.layout.states[onto], -1, product.shape[1]).sum(axis=1)
        return sent.T
