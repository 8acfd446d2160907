r"""Walks through trees of learned operators: rows as products of distributions of one cell given those before it.

Operators that were learned add up to 1 over all rows, but may call some rows negative. Scores are probabilities all
the same, of one distribution, by the chain rule over the columns in the order of a walk:

.. math:: q(x) = \prod_t q(x_t \mid x_{<t}), \qquad
          q(s \mid x_{<t}) = (1-\lambda)\,\frac{c_t^+(s) + 4 n_t\,m_t(s)}{\sum_s c_t^+(s) + 4 n_t} + \lambda\,m_t(s)

where :math:`c_t(s)` is the table of column t by the signed operators, later cells summed out, :math:`c_t^+` its
positive part, :math:`n_t = \sum_s c_t^-(s)` what is below zero, :math:`m_t` the column's own distribution, and
:math:`\lambda` the floor. Missing cells are passed over. So q adds up to 1 for every pattern of missing cells, and
it is the product of the operators where nothing is negative and the floor is 0.

Negative entries are visible noise: a table that has some is trusted less, in favour of the marginal. And a cell
that more likely came from its marginal says little about those after it: what it says is weighted by the
probability that it came from the operators. With a floor but nothing negative, q is therefore the learned model in
which each cell is replaced, with probability :math:`\lambda`, by a draw from its column alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core.trees import chain_rule as kernels
from eigentree.core.trees.chain_rule import Floor, Walk, WalkSpace
from eigentree.inference.operators.operator_layout import LinePool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Codes, Floats, Integers

__all__ = ["Floor", "WalkNode", "Walked", "Walker", "floor_of"]

CACHE_BYTES = 192 * 1024
"""What the messages of one block of rows may take, so that they stay in the second-level cache."""

NOWHERE = -1


class WalkNode(NamedTuple):
    """What a walk needs to know of a node of a rooted tree.

    Attributes
    ----------
    parent : int
        -1 at the root.
    children : tuple of int
        At most two, three at the root.
    bond : int
        Size of the edge to the parent.
    column : int
        The column that a leaf holds, else -1.
    """

    parent: int
    children: tuple[int, ...]
    bond: int
    column: int


class Walked(NamedTuple):
    """What a walk finds about rows.

    Attributes
    ----------
    log_prob : (rows,)
    clipped : (rows,)
        How much of the columns' own distributions was put in place of what was negative, summed over cells.
    refused : (rows,)
        Cells whose own probability was not positive.
    """

    log_prob: Floats
    clipped: Floats
    refused: Floats


def floor_of(share: float, marginals: Sequence[Floats]) -> Floor:
    """Return the floor that gives cells a share of their columns' own distributions."""
    sizes = [len(marginal) for marginal in marginals]
    return Floor(float(share), np.concatenate(marginals), np.cumsum([0, *sizes[:-1]]))


@dataclass(frozen=True, eq=False)
class Walker:
    """A walk through a tree, which takes rows along for any values of its nodes.

    Attributes
    ----------
    walk : Walk
    order : tuple of int
        The columns in the order of the walk.
    """

    walk: Walk
    order: tuple[int, ...]

    @classmethod
    def of(cls, nodes: Sequence[WalkNode], states: Sequence[int]) -> Walker:
        """Return the walk through a tree, given its nodes in preorder and the states of all columns.

        It goes from one end of the longest way through the tree to the other, so that most of what it has seen need
        never be told back.

        Examples
        --------
        >>> chain = [WalkNode(-1, (1, 2, 3), 1, -1), WalkNode(0, (), 2, 0), WalkNode(0, (), 2, 1)]
        >>> chain += [WalkNode(0, (4, 5), 2, -1), WalkNode(3, (), 2, 2), WalkNode(3, (), 2, 3)]
        >>> Walker.of(chain, (2, 2, 2, 2)).order
        (0, 1, 3, 2)
        """
        ports = _Ports.of(nodes, states)
        steps = _Route(nodes, ports).steps()
        table = np.array(steps, np.int64).reshape(len(steps), 8)
        columns = [node.column for node in nodes]
        return cls(
            Walk(
                ports.table,
                ports.first_value,
                np.array([states[c] if c >= 0 else 0 for c in columns], np.int64),
                ports.messages,
                ports.size,
                table,
            ),
            tuple(column for column in table[:, 7].tolist() if column >= 0),
        )

    def log_prob(self, values: Floats, floor: Floor, codes: Codes) -> Walked:
        """Return the log probability of each row of codes, and what was clipped.

        Parameters
        ----------
        values : array
            Of all nodes in their order: a table with the axes children…, parent; of a leaf, with the axes parent
            and column, whose last entry is the sum over states.
        floor : Floor
        codes : array, shape (rows, columns)
        """
        cells = np.ascontiguousarray(codes.T)
        return self._walked(values, floor, cells, np.empty((len(cells), 0)))

    def draw(self, values: Floats, floor: Floor, codes: Codes, random: np.random.Generator) -> Walked:
        """Fill the missing cells of the codes in place, each drawn given those before it alone."""
        cells = np.ascontiguousarray(codes.T)
        found = self._walked(values, floor, cells, random.random(codes.shape).T.copy())
        codes[:] = cells.T
        return found

    def total(self, values: Floats) -> float:
        """Return what the operators add up to over all rows, signs and all."""
        known = self._known(values)
        node, port = self.walk.steps[0, :2].tolist()
        size, stride, entry, _ = self.walk.ports[node, port].tolist()
        missing = int(self.walk.first_value[node] + self.walk.states[node])
        own = values[missing + np.arange(size) * stride]
        return float(own @ known[entry : entry + size])

    def _known(self, values: Floats) -> Floats:
        """Return the messages over every edge when all cells are missing."""
        known = np.empty(self.walk.size)
        kernels.constants(self.walk, values, known)
        return known

    def _walked(self, values: Floats, floor: Floor, cells: Codes, uniform: Floats) -> Walked:
        rows = cells.shape[1]
        found = np.zeros((3, rows))
        kernels.walk(self.walk, values, self._known(values), floor, cells, uniform, self._space(rows), found)
        return Walked(*found)

    def _space(self, rows: int) -> WalkSpace:
        sizes = self.walk.ports[:, :, 0]
        steps = self.walk.steps
        leaving = sizes[steps[:, 0], steps[:, 1]]
        messages = int((steps[:, 6] + leaving).max(initial=0))
        products = sizes[steps[:, 0], steps[:, 2]] * sizes[steps[:, 0], steps[:, 3]]
        lines = messages + max(int(products.max()), int(self.walk.states.max()))
        block = max(1, min(int(np.clip(CACHE_BYTES // (8 * lines), 32, 512)), rows))
        per_row = [np.empty(block) for _ in range(5)]
        return WalkSpace(np.empty((lines, block)), messages, np.empty(int(sizes.prod(axis=1).max())), *per_row)


class _Ports(NamedTuple):
    """The ports of all nodes, as `Walk` has them, and who is at the other side of each."""

    table: Integers
    first_value: Integers
    messages: Integers
    size: int
    neighbours: list[list[tuple[int, int]]]

    @classmethod
    def of(cls, nodes: Sequence[WalkNode], states: Sequence[int]) -> _Ports:
        table = np.zeros((len(nodes), 3, 4), np.int64)
        table[:, :, 0] = 1
        first_value = np.zeros(len(nodes), np.int64)
        neighbours: list[list[tuple[int, int]]] = []
        # The port of a node towards its parent is behind those towards its children.
        upward = [len(node.children) for node in nodes]
        end = 0
        for i, node in enumerate(nodes):
            first_value[i] = end
            near = [(child, upward[child]) for child in node.children]
            if node.parent >= 0:
                near.append((node.parent, nodes[node.parent].children.index(i)))
            neighbours.append(near)
            sizes = [nodes[child].bond for child in node.children] + ([node.bond] if node.parent >= 0 else [])
            stride = 1 if node.column < 0 else states[node.column] + 1
            for port in reversed(range(len(sizes))):
                table[i, port, :2] = sizes[port], stride
                stride *= sizes[port]
            end += stride
        messages = [(i, upward[i]) for i in reversed(range(1, len(nodes)))]
        messages += [(i, port) for i, node in enumerate(nodes) for port in range(len(node.children))]
        size = 1
        for i, port in messages:
            other, entry = neighbours[i][port]
            table[i, port, 3] = table[other, entry, 2] = size
            size += int(table[i, port, 0])
        made = np.array(messages, np.int64).reshape(len(messages), 2)
        return cls(table, first_value, made, size, neighbours)


class _Entry(NamedTuple):
    """A node that is to be entered by a port, and whether what it sees is to be told back."""

    node: int
    port: int
    back: bool


class _Sending(NamedTuple):
    """A message that is to be sent out of a port, from what was seen at others, some of which is then spent."""

    node: int
    port: int
    seen: tuple[int, ...]
    spent: tuple[int, ...]


class _Route:
    """The steps of a walk, as they are taken one after the other."""

    def __init__(self, nodes: Sequence[WalkNode], ports: _Ports) -> None:
        self.nodes = nodes
        self.ports = ports
        self.lines = LinePool()
        self.taken: list[tuple[int, ...]] = []
        # The line of the message that has come in at a port.
        self.come: dict[tuple[int, int], int] = {}

    def steps(self) -> list[tuple[int, ...]]:
        """Return all steps."""
        start, way = self._longest_way()
        self._observe(start, 0, back=len(self.nodes) > 1)
        pending: list[_Entry | _Sending] = [_Entry(*near, False) for near in self.ports.neighbours[start]]
        while pending:
            match pending.pop():
                case _Entry(node, port, back) if self.nodes[node].column >= 0:
                    self._observe(node, port, back)
                case _Entry(node, port, back):
                    pending += reversed(self._ahead(node, port, back, way))
                case _Sending() as sending:
                    self._send(sending)
        return self.taken

    def _ahead(self, node: int, port: int, back: bool, way: frozenset[int]) -> list[_Entry | _Sending]:
        """Return what is done at an inner node that was entered by some port, in its order."""
        near = self.ports.neighbours[node]
        others = [p for p in range(len(near)) if p != port]
        # The way on comes last: what lies there need not be told back.
        others.sort(key=lambda p: near[p][0] in way)
        ahead: list[_Entry | _Sending] = []
        for k, out in enumerate(others):
            returns = back or k < len(others) - 1
            seen = (port, *others[:k])
            ahead.append(_Sending(node, out, seen, () if k < len(others) - 1 else seen[: 1 if back else None]))
            ahead.append(_Entry(*near[out], returns))
        if back:
            ahead.append(_Sending(node, port, tuple(others), tuple(others)))
        return ahead

    def _longest_way(self) -> tuple[int, frozenset[int]]:
        """Return the leaf at one end of the costliest way through the tree, and the nodes of that way."""
        far, _ = self._farthest(next(i for i, node in enumerate(self.nodes) if node.column >= 0))
        end, parents = self._farthest(far)
        way = {end}
        while end != far:
            end = parents[end]
            way.add(end)
        return min(i for i in way if self.nodes[i].column >= 0), frozenset(way)

    def _farthest(self, start: int) -> tuple[int, dict[int, int]]:
        """Return the leaf that is farthest from one, by the work between, and how each node is reached."""
        work = self.ports.table[:, :, 0].prod(axis=1).tolist()
        reached = {start: start}
        far = {start: 0}
        stack = [start]
        while stack:
            node = stack.pop()
            for other, _ in self.ports.neighbours[node]:
                if other not in reached:
                    reached[other], far[other] = node, far[node] + work[other]
                    stack.append(other)
        leaves = [i for i in sorted(far) if self.nodes[i].column >= 0]
        return max(leaves, key=lambda i: far[i]), reached

    def _observe(self, node: int, port: int, back: bool) -> None:
        """Visit a leaf."""
        line = self.come.pop((node, port), NOWHERE)
        out = self._go_out(node, port) if back else NOWHERE
        two = (port + 1) % 3
        self.taken.append((node, port, two, two, line, NOWHERE, out, self.nodes[node].column))
        if line != NOWHERE:
            self.lines.give_back(line, self._size(node, port))

    def _send(self, sending: _Sending) -> None:
        """Send a message out of an inner node."""
        node, port, seen, spent = sending
        one, two = (*seen, *(p for p in range(3) if p != port and p not in seen))
        lines = [self.come.get((node, p), NOWHERE) for p in (one, two)]
        out = self._go_out(node, port)
        self.taken.append((node, port, one, two, *lines, out, NOWHERE))
        for p in spent:
            self.lines.give_back(self.come.pop((node, p)), self._size(node, p))

    def _go_out(self, node: int, port: int) -> int:
        """Return the line of a message that goes out of a port, and let it come in at the other side."""
        line = self.lines.lend(self._size(node, port))
        self.come[self.ports.neighbours[node][port]] = line
        return line

    def _size(self, node: int, port: int) -> int:
        return int(self.ports.table[node, port, 0])
