"""How much work planning may take: what is too much is refused before it is done, not waited for."""

from __future__ import annotations

from eigentree.errors import EigentreeError

__all__ = ["OverworkError", "Work"]

MOST = 1.2e9
"""Work that any planning may take, in units of about a nanosecond of one processor."""

MOST_PER_NODE = 5e6
"""And how much more per node of the junction tree, since long chains take long."""

MOST_AT_ONCE = 2**26
"""Most products that may be made at once: half a gigabyte."""

PRODUCT = 5.0
"""What it takes to make a product and to carry it on through memory."""

STEP_OF_PRODUCT = 0.05
"""What each step of it takes that is done in a product of matrices."""

STEP_OF_QR = 0.15
"""What a step of a QR decomposition takes."""

GROUP = 1000.0
"""What it takes to list a group of variables."""


class OverworkError(EigentreeError):
    """Planning would take too long.

    Attributes
    ----------
    node : int
        The node of the junction tree that takes most.
    """

    def __init__(self, node: int) -> None:
        super().__init__(f"planning would take too long, most of all at node {node} of the junction tree")
        self.node = node


class Work:
    """What a planning may still do.

    Parameters
    ----------
    nodes : int
        How many nodes the junction tree has.
    share : float
        For which part of the planning.
    most, most_per_node : float
        How much all of it may take.

    Attributes
    ----------
    left : float
        What may still be done.
    """

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

    def groups(self, node: int, count: int) -> None:
        """Note that so many groups of variables are about to be listed."""
        self.note(node, GROUP * count)

    def note(self, node: int, amount: float) -> None:
        """Note work that is about to be done at a node, or raise `OverworkError`."""
        self.left -= amount
        if amount > self._largest:
            self._largest, self._node = amount, node
        if self.left < 0:
            raise OverworkError(self._node)
