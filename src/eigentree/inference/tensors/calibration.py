"""Messages in a rooted tree, in Python: their order, whatever they are, and calibrated cliques (section 4.1).

Rows of data do not come this way: they go through the compiled loops of `eigentree.core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from eigentree.inference.tensors.named_tables import aligned, homes, marginal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from eigentree.arrays import Floats
    from eigentree.graphs.junction_tree import JunctionTree

__all__ = ["Factor", "calibrated", "downward", "upward", "without_pruned"]

Up = TypeVar("Up")
Down = TypeVar("Down")


def upward(children: Sequence[Sequence[int]], send: Callable[[int, list[Up]], Up]) -> list[Up]:
    """Return the message of each node to its parent, where children have larger numbers than their parents.

    ``send(node, below)`` returns the message of a node, given those of its children in their order. Nodes come in
    falling order of their numbers. There may be several roots.

    Examples
    --------
    >>> upward([[1, 2], [], [3], []], lambda node, below: 1 + sum(below))  # sizes of subtrees
    [4, 1, 2, 1]
    """
    found: dict[int, Up] = {}
    for node in reversed(range(len(children))):
        found[node] = send(node, [found[child] for child in children[node]])
    return list(found.values())[::-1]


def downward(
    children: Sequence[Sequence[int]],
    up: Sequence[Up],
    send: Callable[[int, Down, list[Up]], Iterable[Down]],
    root: Down,
) -> list[Down]:
    """Return the message that each node gets from its parent, given those of `upward` and what the roots get.

    ``send(node, above, below)`` returns the messages of a node to each of its children, given the one that it got
    and those of its children. That to a child must not use the child's own, or must divide it out. Nodes come in
    rising order, and only those that have children.

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


class Factor(NamedTuple):
    """A table and the names of its axes."""

    names: tuple[str, ...]
    table: Floats


def calibrated(tree: JunctionTree, factors: Sequence[Factor]) -> list[Floats]:
    """Return the marginal of each maximal clique under the product of the factors, once normalised.

    Each factor is over variables that some clique holds. Axes are in the order of the clique.
    """
    cliques, parents = tree.cliques, tree.clique_parents
    tables = [_product(tree, i, own) for i, own in enumerate(_by_clique(tree, factors))]
    messages = [Factor((), np.ones(()))] * len(cliques)
    # Last first: sums of floats depend on the order, and this one is the order in which they become known.
    for i in reversed(range(len(cliques))):
        tables[i] /= tables[i].sum()
        messages[i] = _message(tree, i, parents[i], tables[i])
        if parents[i] >= 0:
            above = tables[parents[i]]
            above *= aligned(messages[i].table, messages[i].names, cliques[parents[i]])
            # A hub has thousands of children: the product of their messages would underflow.
            above /= above.max()
    for i, (names, said) in enumerate(messages):
        if parents[i] >= 0:
            above = marginal(tables[parents[i]], cliques[parents[i]], names)
            ratio = np.divide(above, said, out=np.zeros_like(above), where=said > 0)
            tables[i] *= aligned(ratio, names, cliques[i])
    return tables


def without_pruned(tree: JunctionTree, factors: Sequence[Factor]) -> list[Factor]:
    """Return the factors over what the nodes of a tree hold, those of pruned cliques marginalised onto it.

    Each pruned part hangs from one clique that is left, and reaches that as one more factor; or from none, and is a
    constant that is left out.
    """
    left = sorted({node.origin for node in tree.nodes})
    if len(left) == len(tree.cliques):
        return list(factors)
    held = _by_clique(tree, factors)
    order, parents = _outward(tree, left)

    def collect(place: int, below: list[list[Factor]]) -> list[Factor]:
        i = order[place]
        known = [*held[i], *(factor for factors in below for factor in factors)]
        if parents[place] < 0:
            return known
        return [_message(tree, i, order[parents[place]], _product(tree, i, known))]

    known = upward(_children(parents), collect)
    return [factor for place in range(len(left)) for factor in known[place]]


def _outward(tree: JunctionTree, left: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return all cliques, those left first and then outward from them, and the place of each one's parent."""
    around: list[list[int]] = [[] for _ in tree.cliques]
    for i, parent in enumerate(tree.clique_parents):
        if parent >= 0:
            around[i].append(parent)
            around[parent].append(i)
    order = list(left)
    parents = [-1] * len(order)
    seen = set(order)
    for place, i in enumerate(order):
        for j in around[i]:
            if j not in seen:
                seen.add(j)
                order.append(j)
                parents.append(place)
    return order, parents


def _children(parents: Sequence[int]) -> list[list[int]]:
    """Return the children of each node in rising order."""
    children: list[list[int]] = [[] for _ in parents]
    for i, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(i)
    return children


def _by_clique(tree: JunctionTree, factors: Sequence[Factor]) -> list[list[Factor]]:
    """Return the factors by the first clique that holds all their variables."""
    held: list[list[Factor]] = [[] for _ in tree.cliques]
    for factor, home in zip(factors, homes(tree.cliques, [factor.names for factor in factors]), strict=True):
        held[home].append(factor)
    return held


def _product(tree: JunctionTree, i: int, factors: Iterable[Factor]) -> Floats:
    product = np.ones(tree.states_of(tree.cliques[i]))
    for names, table in factors:
        product *= aligned(table, names, tree.cliques[i])
    return product


def _message(tree: JunctionTree, i: int, onto: int, table: Floats) -> Factor:
    """Return the marginal of a table of clique i over what it shares with another clique: nothing if that is -1."""
    beside = frozenset(tree.cliques[onto]) if onto >= 0 else frozenset()
    shared = tuple(name for name in tree.cliques[i] if name in beside)
    return Factor(shared, marginal(table, tree.cliques[i], shared))
