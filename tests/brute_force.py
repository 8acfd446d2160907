"""The reference: the whole joint table, by multiplying every table of a network and summing."""

from __future__ import annotations

import numpy as np

from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.inference.networks.network import LatentNetwork


def joint_table(network: LatentNetwork, names: tuple[str, ...]) -> np.ndarray:
    """P(these variables), one axis a name, by enumeration."""
    letter = {name: k for k, name in enumerate(network.graph.names)}
    operands: list[object] = []
    for axes, table in factors(network):
        operands += [table, [letter[name] for name in axes]]
    for (
        name,
        states,
    ) in network.graph.states.items():  # variables without any table too
        operands += [np.ones(states), [letter[name]]]
    return np.einsum(*operands, [letter[name] for name in names])


def observed_table(network: LatentNetwork) -> np.ndarray:
    """P(observed), one axis a column, by enumeration."""
    return joint_table(network, network.graph.observed)


def factors(network: LatentNetwork) -> list[tuple[tuple[str, ...], np.ndarray]]:
    graph = network.graph
    if graph.directed:
        return [((*graph.parents(name), name), table) for name, table in network.tables.items()]
    cliques = {node.remainder: node.clique for node in JunctionTree.build(graph).nodes}
    free = set(graph.names).difference(*cliques.values())
    # A pruned hidden variable has no table on an undirected graph: let it be uniform.
    return [(cliques[key], table) for key, table in network.tables.items()] + [
        ((name,), np.full(graph.states[name], 1 / graph.states[name])) for name in sorted(free)
    ]


def probability(table: np.ndarray, row: np.ndarray) -> float:
    """Probability of one row, -1 cells marginalised out."""
    return float(table[tuple(slice(None) if cell < 0 else cell for cell in row)].sum())


def predictive(table: np.ndarray, row: np.ndarray, column: int) -> np.ndarray:
    """P(column | the row's other cells)."""
    picks = [slice(None) if cell < 0 or j == column else slice(cell, cell + 1) for j, cell in enumerate(row)]
    part = table[tuple(picks)]
    part = part.sum(axis=tuple(j for j in range(table.ndim) if j != column))
    return part / part.sum()


def all_rows(graph: LatentGraph) -> np.ndarray:
    """Every configuration of the observed variables."""
    shape = [graph.states[name] for name in graph.observed]
    return np.indices(shape).reshape(len(shape), -1).T
