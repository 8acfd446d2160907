"""What single columns say about a separator, on a random instance: messages along the path between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.inference.tensors.calibration import downward, upward

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from eigentree.arrays import Floats
    from eigentree.graphs.junction_tree import JunctionTree
    from eigentree.planning.generic_ranks import Spans

__all__ = ["Conditionals"]


class Conditionals:
    """Conditional probabilities of columns given separators, on a random instance.

    Parameters
    ----------
    tree : JunctionTree
    spans : Spans
        Those of the instance.
    """

    def __init__(self, tree: JunctionTree, spans: Spans) -> None:
        self._nodes = tree.nodes
        self._passages = spans.passages
        self._leaf = {node.observed: i for i, node in enumerate(tree.nodes) if node.observed is not None}
        self._depth = [0] * len(tree.nodes)
        for i, node in enumerate(tree.nodes):
            self._depth[i] = self._depth[node.parent] + 1 if node.parent >= 0 else 0
        children = [node.children for node in tree.nodes]

        def collect(i: int, below: list[Floats]) -> Floats:
            if not below:
                return _scaled(self._passages[i].leaf().sum(axis=0, keepdims=True))
            return _scaled(self._passages[i].send(list(enumerate(below)), -1))

        def distribute(i: int, above: Floats, below: list[Floats]) -> Iterator[Floats]:
            for k in range(len(below)):
                others = [(j, message) for j, message in enumerate(below) if j != k]
                yield _scaled(self._passages[i].send([*others, (-1, above)], k))

        self._up = upward(children, collect)
        self._down = downward(children, self._up, distribute, np.ones((1, 1)))

    def given(self, name: str, target: int, within: Collection[int]) -> Floats:
        """Return P(column | separator), shape (states of the column, states of the separator).

        Parameters
        ----------
        name : str
            The column.
        target : int
            A node of the junction tree, at one end of an edge with the separator.
        within : collection of int
            Nodes of which one is at the other end.
        """
        path = self._path(self._leaf[name], target)
        # The edge to a child within, and else that to the parent.
        inner = [k for k, child in enumerate(self._nodes[target].children) if child in within]
        messages = self._passages[path[0]].leaf()
        for k, node in enumerate(path[1:], start=1):
            onto = self._edge(node, path[k + 1]) if node != target else inner[0] if inner else -1
            messages = self._through(node, self._edge(node, path[k - 1]), messages, onto)
        return np.asarray(messages / messages.sum(axis=0))

    def _path(self, start: int, end: int) -> list[int]:
        """Return the nodes from one to another."""
        first, last = [start], [end]
        while first[-1] != last[-1]:
            longer = first if self._depth[first[-1]] >= self._depth[last[-1]] else last
            longer.append(self._nodes[longer[-1]].parent)
        return first + last[-2::-1]

    def _edge(self, node: int, neighbour: int) -> int:
        """Return which edge of a node leads to another."""
        children = self._nodes[node].children
        return children.index(neighbour) if neighbour in children else -1

    def _through(self, node: int, source: int, messages: Floats, onto: int) -> Floats:
        """Return messages sent through a node, all that comes in through its other edges summed out."""
        children = self._nodes[node].children
        parts = [(k, self._up[child]) for k, child in enumerate(children) if k not in (source, onto)]
        if -1 not in (source, onto):
            parts.append((-1, self._down[node]))
        return self._passages[node].send([*parts, (source, messages)], onto)


def _scaled(message: Floats) -> Floats:
    """Return a message with its largest entry 1."""
    return np.asarray(message / message.max())
