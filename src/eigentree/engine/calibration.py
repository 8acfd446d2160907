"""Marginals of the cliques of a junction tree, and of what is left when some of them are cut off (section 4.1).

Both pass tables up the tree of maximal cliques; calibration passes them down again as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.engine.schedule import downward, upward
from eigentree.engine.tables import aligned, homes, marginal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eigentree.arrays import Floats
    from eigentree.structures.junction_tree import JunctionTree

__all__ = ["Factor", "calibrated", "summed_onto"]


class Factor(NamedTuple):
    """A table by the names of its axes."""

    names: tuple[str, ...]
    table: Floats


class _Belief(NamedTuple):
    """What a clique and all below it say: of its own variables, and of those that it shares with its parent."""

    table: Floats
    message: Factor


def calibrated(tree: JunctionTree, factors: Sequence[Factor]) -> list[Floats]:
    """Return the marginal of each maximal clique under the product of the factors, once normalised.

    Axes are in the order of the clique.
    """
    cliques = tree.cliques
    own = _products(tree, factors)
    children = _children(tree.clique_parents)
    separators = [_shared(tree, i, parent) for i, parent in enumerate(tree.clique_parents)]

    def collect(i: int, below: list[_Belief]) -> _Belief:
        table = own[i]
        for child in reversed(below):
            product = table * aligned(child.message.table, child.message.names, cliques[i])
            # A hub has thousands of children: the product of their messages would underflow.
            table = product / product.max()
        table = table / table.sum()
        return _Belief(table, Factor(separators[i], marginal(table, cliques[i], separators[i])))

    def distribute(i: int, calibrated: Floats | None, below: list[_Belief]) -> Iterable[Floats]:
        table = up[i].table if calibrated is None else calibrated
        for child, belief in zip(children[i], below, strict=True):
            names, said = belief.message
            above = marginal(table, cliques[i], names)
            ratio = np.divide(above, said, out=np.zeros_like(above), where=said > 0)
            yield belief.table * aligned(ratio, names, cliques[child])

    up = upward(children, collect)
    down = downward(children, up, distribute, None)
    return [belief.table if table is None else table for belief, table in zip(up, down, strict=True)]


def summed_onto(tree: JunctionTree, factors: Sequence[Factor]) -> list[Factor]:
    """Return factors over the cliques that a tree's nodes come from, the cliques that were pruned summed out.

    What was pruned hangs in parts from one clique each that is left.
    """
    left = sorted({node.origin for node in tree.nodes})
    if len(left) == len(tree.cliques):
        return list(factors)
    order, parents = _outward(tree, left)
    place = {i: k for k, i in enumerate(order)}
    pruned = order[len(left) :]
    held: dict[int, list[Factor]] = {i: [] for i in order}
    ...
