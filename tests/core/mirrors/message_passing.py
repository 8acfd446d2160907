"""Messages in trees of operators as exact fractions: sums over entries as the equations say, without a rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from eigentree.inference.operators.operator_layout import NodeOperator, laid_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.core.trees.message_passing import OperatorTree


def message(
    nodes: Sequence[NodeOperator], states: Sequence[int], row: Sequence[int], i: int = 0, positive: bool = False
) -> list[Fraction]:
    """Return the message of a node to its parent (Eq. 11, 12, 19); with `positive`, of the absolute values."""
    node = nodes[i]
    below = [message(nodes, states, row, child, positive) for child in node.children]
    joint = 0
    for column in node.columns:
        joint = joint * (states[column] + 1) + row[column]
    sent = [Fraction(0)] * node.bond
    for index, values in zip(node.index.tolist(), node.values, strict=True):
        term = Fraction(float(values[joint]))
        for k, each in enumerate(below):
            term *= each[index[k]]
        sent[index[-1]] += abs(term) if positive else term
    return sent


def shares(nodes: Sequence[NodeOperator], states: Sequence[int], row: Sequence[int], column: int) -> list[Fraction]:
    """Return P(column = v, the other cells of the row) for each v."""
    return [message(nodes, states, [*row[:column], v, *row[column + 1 :]])[0] for v in range(states[column])]


def draw(
    nodes: Sequence[NodeOperator], states: Sequence[int], row: Sequence[int], uniform: Sequence[float]
) -> tuple[list[int], bool]:
    """Return a row sampled cell by cell in the order of the nodes, and whether rounding could not change it."""
    row, sure = list(row), True
    for node in nodes:
        for column in node.columns:
            if row[column] < states[column]:
                continue
            positive = [max(share, Fraction(0)) for share in shares(nodes, states, row, column)]
            if sum(positive) < Fraction(1, 10**6):
                return row, False
            ends = np.cumsum([float(share / sum(positive)) for share in positive])
            sure &= bool(np.abs(ends[:-1] - uniform[column]).min(initial=1.0) > 1e-6)
            row[column] = int(np.searchsorted(ends[:-1], uniform[column], side="right"))
    return row, sure


def log_size(exact: Fraction) -> float:
    """Return the log of the absolute value of a fraction of any size."""
    return math.log(abs(exact).numerator) - math.log(exact.denominator) if exact else -math.inf


class RandomTree:
    """Operators with random values on a random tree."""

    def __init__(self, seed: int, nodes: int, smallest: int = 0, signed: bool = True, most: int = 3) -> None:
        """Values are random times a power of two from 0 down to `smallest`; bonds have at most so many states."""
        random = np.random.default_rng(seed)
        children: list[list[int]] = [[] for _ in range(nodes)]
        # In preorder: every new node hangs from the last one or from one of its ancestors.
        path = [0]
        for node in range(1, nodes):
            free = [k for k, above in enumerate(path) if len(children[above]) < 3]
            path = path[: random.choice(free) + 1]
            children[path[-1]].append(node)
            path.append(node)
        bonds = [1, *random.integers(1, most + 1, nodes - 1).tolist()]
        self.states: list[int] = []
        self.nodes: list[NodeOperator] = []
        for node in range(nodes):
            held = int(random.integers(0, 3)) if children[node] else int(random.integers(1, 3))
            columns = range(len(self.states), len(self.states) + held)
            self.states += random.integers(1, 4, held).tolist()
            shape = [self.states[column] for column in columns] + [bonds[child] for child in children[node]]
            array = random.random((*shape, bonds[node])) + 0.1
            array *= 2.0 ** random.integers(smallest, 1, array.shape)
            if signed:
                array *= random.choice([1, 1, -1], array.shape)
            array *= random.random(array.shape) < 0.8
            self.nodes.append(NodeOperator.from_dense(array, columns, children[node]))
        self.random = random

    @property
    def laid_out(self) -> OperatorTree:
        """The tree for the compiled passes."""
        return laid_out(self.nodes, self.states)

    def rows(self, count: int, absent: float) -> np.ndarray:
        """Return random codes, shape (rows, columns), some of them of missing cells."""
        codes = np.array([self.random.integers(0, size, count) for size in self.states], np.uint8)
        missing = self.random.random(codes.shape) < absent
        return np.where(missing, np.array(self.states)[:, None], codes).astype(np.uint8).T
