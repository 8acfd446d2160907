r"""Scores of learned operators as probabilities: each cell given those before it, by the chain rule.

Learned operators are normalised over all rows, but may call some rows negative. Scores are probabilities all the
same, of one distribution, by the chain rule over the columns in an order that follows the tree:

.. math:: q(x) = \prod_t q(x_t \mid x_{<t}), \qquad
          q(s \mid x_{<t}) = (1-\lambda)\,\frac{c_t^+(s) + 4 n_t\,m_t(s)}{\sum_s c_t^+(s) + 4 n_t} + \lambda\,m_t(s)

where :math:`c_t(s)` is the table of column t by the signed operators, later cells marginalised out, :math:`c_t^+`
its positive part, :math:`n_t = \sum_s c_t^-(s)` what is below zero, :math:`m_t` the column's marginal, and
:math:`\lambda` the floor. Missing cells are skipped. So q is normalised for every pattern of missing cells, and it
is the product of the operators where nothing is negative and the floor is 0.

Negative entries are visible noise: a table that has some is trusted less, in favour of the marginal. And a cell
that more probably came from its marginal is less informative about those after it: its message is weighted by the
probability that it came from the operators. With a floor but nothing negative, q is therefore the learned model in
which each cell is replaced, with probability :math:`\lambda`, by a sample of its column's marginal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.trees.chain_rule import ChainRulePlan, Floor, constants, sample_rows, score_rows
from eigentree.inference.operators.operator_layout import LinePool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Codes, Floats, Integers

__all__ = ["ChainRule", "ChainRuleNode", "ChainRuleScores", "Floor", "clipped_tables", "floor_of"]

NOWHERE = -1


class ChainRuleNode(NamedTuple):
    """A node of a rooted tree, with at most two children, three at the root; -1 is no parent, or no column."""

    parent: int
    children: tuple[int, ...]
    bond: int
    column: int


class ChainRuleScores(NamedTuple):
    """Scores of rows, or of sequences: log probabilities, and how often the chain rule left the learned model.

    `clipped` is the share of marginals in place of what was negative over all cells, and `refused` the number of
    cells whose own probability was not positive. Of the steps of sequences, where wanted: the log probability of
    `each` given those before it, the `messages` before each, and the `last` one of each sequence.
    """

    log_prob: Floats
    clipped: Floats
    refused: Floats
    each: Floats = np.zeros(0)
    messages: Floats = np.zeros((0, 0))
    last: Floats = np.zeros((0, 0))


def floor_of(share: float, marginals: Sequence[Floats]) -> Floor:
    """Return the floor that gives cells a share of their columns' own distributions."""
    sizes = [len(marginal) for marginal in marginals]
    return Floor(float(share), np.concatenate(marginals), np.cumsum([0, *sizes[:-1]]))


def clipped_tables(tables: Floats, instead: Floats, weight: float = 1.0) -> tuple[Floats, Floats, Booleans]:
    """Return the distributions that lines of signed tables become, how much was negative, and what was usable.

    In place of what is negative stands another distribution, so many times; it stands alone where nothing is
    positive.
    """
    positive = np.maximum(tables, 0.0)
    kept = positive.sum(axis=1, keepdims=True)
    clipped = np.maximum(kept - tables.sum(axis=1, keepdims=True), 0.0)
    usable: Booleans = (kept > 0) & np.isfinite(kept)
    made = np.zeros_like(tables) + instead
    np.divide(positive + weight * clipped * instead, kept + weight * clipped, out=made, where=usable)
    return made, clipped[:, 0], usable[:, 0]


@dataclass(frozen=True, eq=False)
class ChainRule:
    """The chain rule over the leaves of a tree, for any values of its nodes.

    Attributes
    ----------
    plan : ChainRulePlan
    order : tuple of int
        The columns in their order.
    """

    plan: ChainRulePlan
    order: tuple[int, ...]

    @classmethod
    def of(cls, nodes: Sequence[ChainRuleNode], states: Sequence[int]) -> ChainRule:
        """Return the chain rule of a tree, given its nodes in preorder and the states of all columns.

        It goes from one end of the longest path of the tree to the other, so that most messages go one way only.

        Examples
        --------
        >>> chain = [ChainRuleNode(-1, (1, 2, 3), 1, -1), ChainRuleNode(0, (), 2, 0), ChainRuleNode(0, (), 2, 1)]
        >>> chain += [ChainRuleNode(0, (4, 5), 2, -1), ChainRuleNode(3, (), 2, 2), ChainRuleNode(3, (), 2, 3)]
        >>> ChainRule.of(chain, (2, 2, 2, 2)).order
        (0, 1, 3, 2)
        """
        route = _ChainRuleSteps(nodes, states)
        steps = np.array(route.steps(), np.int64).reshape(-1, 8)
        sizes = [states[node.column] if node.column >= 0 else 0 for node in nodes]
        plan = ChainRulePlan(
            route.ports, route.first_value, np.array(sizes, np.int64), *route.place_constants(), steps
        )
        return cls(plan, tuple(column for column in steps[:, 7].tolist() if column >= 0))

    def log_prob(
        self, values: Floats, floor: Floor, codes: Codes, random: np.random.Generator | None = None
    ) -> ChainRuleScores:
        """Return the log probability of each row of codes, and what was clipped.

        Values are those of all nodes in their order: a table with the axes children…, parent; of a leaf, with the
        axes parent and column, whose last entry is the sum over states. With `random`, missing cells of the codes
        are filled in place, each sampled given those before it alone.
        """
        cells = np.ascontiguousarray(codes.T)
        if random is None:
            return ChainRuleScores(*score_rows(self.plan, values, floor, cells))
        uniform = random.random(codes.shape).T.copy()
        found = sample_rows(self.plan, values, floor, cells, uniform)
        codes[:] = cells.T
        return ChainRuleScores(*found)

    def total(self, values: Floats) -> float:
        """Return the sum of the operators over all rows, signs and all."""
        known = constants(self.plan, values)
        node, port = self.plan.steps[0, :2].tolist()
        size, stride, entry, _ = self.plan.ports[node, port].tolist()
        missing = int(self.plan.first_value[node] + self.plan.states[node])
        own = values[missing + np.arange(size) * stride]
        return float(own @ known[entry : entry + size])


class _ChainRuleSteps:
    """The steps of the chain rule, as they are taken one after the other.

    `ports` and `first_value` are as `ChainRulePlan` has them; `neighbours` are, for each node, the neighbour at
    each of its ports and that one's port towards it.
    """

    def __init__(self, nodes: Sequence[ChainRuleNode], states: Sequence[int]) -> None:
        self.nodes = nodes
        self.ports = np.zeros((len(nodes), 3, 4), np.int64)
        self.ports[:, :, 0] = 1
        self.first_value = np.zeros(len(nodes), np.int64)
        self.neighbours: list[list[tuple[int, int]]] = []
        end = 0
        for i, node in enumerate(nodes):
            self.first_value[i] = end
            # The port of a node towards its parent is behind those towards its children.
            near = [(child, len(nodes[child].children)) for child in node.children]
            sizes = [nodes[child].bond for child in node.children]
            if node.parent >= 0:
                near.append((node.parent, nodes[node.parent].children.index(i)))
                sizes.append(node.bond)
            self.neighbours.append(near)
            stride = 1 if node.column < 0 else states[node.column] + 1
            for port in reversed(range(len(sizes))):
                self.ports[i, port, :2] = sizes[port], stride
                stride *= sizes[port]
            end += stride
        self.lines = LinePool()
        self.taken: list[tuple[int, ...]] = []
        # The line of the message that has come in at a port.
        self.come: dict[tuple[int, int], int] = {}

    def place_constants(self) -> tuple[Integers, int]:
        """Return node and port of each message when all cells are missing, and how many numbers these have."""
        messages = [(i, len(self.nodes[i].children)) for i in reversed(range(1, len(self.nodes)))]
        messages += [(i, port) for i, node in enumerate(self.nodes) for port in range(len(node.children))]
        size = 1
        for i, port in messages:
            other, entry = self.neighbours[i][port]
            self.ports[i, port, 3] = self.ports[other, entry, 2] = size
            size += self._size(i, port)
        return np.array(messages, np.int64).reshape(-1, 2), size

    def steps(self) -> list[tuple[int, ...]]:
        """Return all steps."""
        start, path = self._longest_path()
        self._observe(start, 0, back=len(self.nodes) > 1)
        pending = [partial(self._enter, path, *near, False) for near in self.neighbours[start]]
        while pending:
            pending += reversed(pending.pop()())
        return self.taken

    def _enter(self, path: frozenset[int], node: int, port: int, back: bool) -> list[Any]:
        """Observe a leaf, or return what is done at an inner node, that was entered by a port.

        With `back`, a message goes back out of that port.
        """
        if self.nodes[node].column >= 0:
            self._observe(node, port, back)
            return []
        near = self.neighbours[node]
        others = [p for p in range(len(near)) if p != port]
        # The rest of the path comes last: no message need come back from there.
        others.sort(key=lambda p: near[p][0] in path)
        ahead: list[Any] = []
        for k, out in enumerate(others):
            last, seen = k == len(others) - 1, (port, *others[:k])
            ahead.append(partial(self._send, node, out, seen, seen[: 1 if back else None] if last else ()))
            ahead.append(partial(self._enter, path, *near[out], back or not last))
        if back:
            ahead.append(partial(self._send, node, port, tuple(others), tuple(others)))
        return ahead

    def _longest_path(self) -> tuple[int, frozenset[int]]:
        """Return the leaf at one end of the costliest path through the tree, and the nodes of that path."""
        far, _ = self._farthest(next(i for i, node in enumerate(self.nodes) if node.column >= 0))
        end, parents = self._farthest(far)
        path = {end}
        while end != far:
            end = parents[end]
            path.add(end)
        return min(i for i in path if self.nodes[i].column >= 0), frozenset(path)

    def _farthest(self, start: int) -> tuple[int, dict[int, int]]:
        """Return the leaf that is farthest from one, by the work between, and how each node is reached."""
        work = self.ports[:, :, 0].prod(axis=1).tolist()
        reached, far, stack = {start: start}, {start: 0}, [start]
        while stack:
            node = stack.pop()
            for other, _ in self.neighbours[node]:
                if other not in reached:
                    reached[other], far[other] = node, far[node] + work[other]
                    stack.append(other)
        leaves = [i for i in sorted(far) if self.nodes[i].column >= 0]
        return max(leaves, key=lambda i: far[i]), reached

    def _observe(self, node: int, port: int, back: bool) -> None:
        """Take the step of a leaf."""
        line = self.come.pop((node, port), NOWHERE)
        out = self._go_out(node, port) if back else NOWHERE
        two = (port + 1) % 3
        self.taken.append((node, port, two, two, line, NOWHERE, out, self.nodes[node].column))
        if line != NOWHERE:
            self.lines.give_back(line, self._size(node, port))

    def _send(self, node: int, port: int, seen: tuple[int, ...], spent: tuple[int, ...]) -> list[Any]:
        """Send a message out of an inner node, from those that came in at some ports; some are then spent."""
        one, two = (*seen, *(p for p in range(3) if p != port and p not in seen))
        lines = [self.come.get((node, p), NOWHERE) for p in (one, two)]
        out = self._go_out(node, port)
        self.taken.append((node, port, one, two, *lines, out, NOWHERE))
        for p in spent:
            self.lines.give_back(self.come.pop((node, p)), self._size(node, p))
        return []

    def _go_out(self, node: int, port: int) -> int:
        """Return the line of a message that goes out of a port, and let it come in at the other side."""
        line = self.lines.lend(self._size(node, port))
        self.come[self.neighbours[node][port]] = line
        return line

    def _size(self, node: int, port: int) -> int:
        return int(self.ports[node, port, 0])
