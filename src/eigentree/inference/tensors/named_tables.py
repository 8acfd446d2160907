"""Tables whose axes are named: where a table goes, how it is aligned, summed down and indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from eigentree.graphs.junction_tree import JunctionTree

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.graphs.graph import LatentGraph

__all__ = ["TableKey", "aligned", "flat_index", "homes", "learnable_tables", "marginal", "table_axes"]

TableKey: TypeAlias = tuple[str, ...]
"""The names that a table distributes: one variable on a directed graph, a remainder on an undirected one."""


def table_axes(graph: LatentGraph, tree: JunctionTree | None = None) -> dict[TableKey, tuple[str, ...]]:
    """Return the axes of each table that a network on this graph needs, by the names it distributes.

    On an undirected graph they follow the tree, by default ``JunctionTree.of(graph)``.
    """
    if graph.directed:
        return {(name,): (*graph.parents(name), name) for name in graph.names}
    tree = tree or JunctionTree.of(graph)
    return {node.remainder: node.clique for node in tree.nodes if node.remainder}


def learnable_tables(graph: LatentGraph, keys: Iterable[TableKey]) -> tuple[TableKey, ...]:
    """Return the tables that the probability of a row depends on: of observed variables and their ancestors."""
    if not graph.directed:
        return tuple(keys)
    useful = set(graph.observed)
    stack = list(useful)
    while stack:
        found = set(graph.parents(stack.pop())) - useful
        useful |= found
        stack += found
    return tuple(key for key in keys if key[0] in useful)


def flat_index(shape: tuple[int, ...], names: tuple[Hashable, ...], part: tuple[Hashable, ...]) -> Integers:
    """Return, for each cell of a table over `names`, its position in the flat table over `part`."""
    grid = np.indices(shape, sparse=True)
    flat = np.zeros((1,) * len(shape), np.int64)
    for name in part:
        axis = names.index(name)
        flat = flat * shape[axis] + grid[axis]
    return np.broadcast_to(flat, shape).ravel()


def marginal(table: Floats, names: tuple[str, ...], wanted: tuple[str, ...]) -> Floats:
    """Return a table over `names` summed down to `wanted`, axes in that order."""
    kept = [name for name in names if name in wanted]
    summed = table.sum(axis=tuple(k for k, name in enumerate(names) if name not in wanted))
    return np.transpose(summed, [kept.index(name) for name in wanted])


def aligned(table: Floats, names: tuple[str, ...], onto: tuple[str, ...]) -> Floats:
    """Return a table over `names` with its axes placed where `onto` has them, and size 1 elsewhere."""
    order = sorted(range(len(names)), key=lambda k: onto.index(names[k]))
    shape = [1] * len(onto)
    for k, name in enumerate(names):
        shape[onto.index(name)] = table.shape[k]
    return np.transpose(table, order).reshape(shape)


def homes(cliques: Sequence[tuple[str, ...]], families: Sequence[tuple[str, ...]]) -> list[int]:
    """Return, for each family of variables, the first clique that holds it."""
    holding: dict[str, list[int]] = {}
    members = [frozenset(clique) for clique in cliques]
    for i, clique in enumerate(cliques):
        for name in clique:
            holding.setdefault(name, []).append(i)
    found = []
    for family in families:
        rarest = min(family, key=lambda name: len(holding[name]))
        found.append(next(i for i in holding[rarest] if members[i].issuperset(family)))
    return found
