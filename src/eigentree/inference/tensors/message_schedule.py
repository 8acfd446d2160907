"""The order in which messages pass through a rooted tree, whatever the messages are.

Numbers with a scale, tables over some columns that stay, beliefs of cliques, spans of vectors: where trees are
visited in Python, once per model rather than once per row, this is the one schedule, and only `send` differs.

Rows of data do not come this way: a call per node and row would cost a hundred times what the multiplications cost.
They go through the compiled loops of `eigentree.core`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["downward", "root_message", "upward"]

Up = TypeVar("Up")
Down = TypeVar("Down")


def upward(children: Sequence[Sequence[int]], send: Callable[[int, list[Up]], Up]) -> list[Up]:
    """Return the message of each node to its parent.

    Parameters
    ----------
    children : sequence of sequences of int
        The children of each node, whose numbers are larger than its own. There may be several roots.
    send : callable
        ``send(node, below)`` returns the message of a node, given those of its children in their order. Nodes come
        in falling order of their numbers.

    Examples
    --------
    >>> upward([[1, 2], [], [3], []], lambda node, below: 1 + sum(below))  # sizes of subtrees
    [4, 1, 2, 1]
    """
    return list(_leaves_first(children, send))[::-1]


def root_message(children: Sequence[Sequence[int]], send: Callable[[int, list[Up]], Up]) -> Up:
    """Return the message of node 0, as `upward` does, every other one dropped as soon as it is read."""
    (message,) = deque(_leaves_first(children, send), maxlen=1)
    return message


def downward(
    children: Sequence[Sequence[int]],
    up: Sequence[Up],
    send: Callable[[int, Down, list[Up]], Iterable[Down]],
    root: Down,
) -> list[Down]:
    """Return the message that each node gets from its parent, about all that is not below the node.

    Parameters
    ----------
    children : sequence of sequences of int
        As for `upward`.
    up : sequence
        The message of each node to its parent.
    send : callable
        ``send(node, above, below)`` returns the messages of a node to each of its children, given the one that it
        got and those of its children. That to a child must not use the child's own, or must divide it out. Nodes
        come in rising order, and only those that have children.
    root : object
        What the roots get.

    Examples
    --------
    >>> children = [[1, 2], [], [3], []]
    >>> sizes = upward(children, lambda node, below: 1 + sum(below))
    >>> downward(children, sizes, lambda node, above, below: [above + 1 + sum(below) - b for b in below], 0)
    [0, 3, 2, 3]
    """
    messages = [root] * len(children)
    for node, below in enumerate(children):
        if below:
            sent = send(node, messages[node], [up[child] for child in below])
            for child, message in zip(below, sent, strict=True):
                messages[child] = message
    return messages


def _leaves_first(children: Sequence[Sequence[int]], send: Callable[[int, list[Up]], Up]) -> Iterator[Up]:
    """Yield the message of each node, the last node first, and hold none that has been read."""
    waiting: dict[int, Up] = {}
    for node in reversed(range(len(children))):
        waiting[node] = send(node, [waiting.pop(child) for child in children[node]])
        yield waiting[node]
