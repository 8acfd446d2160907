"""Problems for EM, and its steps by enumeration of all variables: the reference that its tests compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from brute_force import joint_table
from hypothesis import strategies as st
from random_graphs import latent_graphs

from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import columns_with_missing
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.em.parameters import ParameterLayout
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Callable


@st.composite
def problems(draw: st.DrawFn) -> tuple[LatentNetwork, np.ndarray, np.ndarray]:
    """A random network, rows with missing cells in some columns, and weights."""
    graphs = latent_graphs(most_variables=6, most_states=3, most_cells=600)
    network = LatentNetwork.random(draw(graphs), seed=draw(st.integers(0, 2**20)))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    rows = network.sample(draw(st.integers(1, 60)), seed=random)
    gaps = draw(st.sampled_from([0.0, 0.3]))
    holed = random.random(rows.shape[1]) < draw(st.sampled_from([0.5, 1.0]))
    rows[(random.random(rows.shape) < gaps) & holed] = -1
    weights = random.choice([1.0, 0.5, 3.25], len(rows)) if draw(st.booleans()) else np.ones(len(rows))
    return network, rows, weights


def coded(graph: LatentGraph, rows: np.ndarray) -> np.ndarray:
    """Rows with the code after the last state where a cell is missing."""
    return np.where(rows < 0, [graph.states[name] for name in graph.observed], rows)


def counted(
    network: LatentNetwork,
    rows: np.ndarray,
    weights: np.ndarray | None = None,
    many: int = 1_000_000,
    threads: int = 1,
    single: bool = False,
    often: bool = False,
) -> ExpectedCounts:
    """The expected counts of rows, in which -1 is a missing cell; as if they were asked for often, or not."""
    graph = network.graph
    codes = coded(graph, rows)
    expectation = Expectation.of(graph, columns_with_missing(codes, graph), many)
    weights = np.ones(len(rows)) if weights is None else weights
    parameters = ParameterLayout.of(graph).vector(network)
    prepared = expectation.coded(codes, weights, often=often)
    return expectation(parameters, prepared, threads, single)


def by_table(graph: LatentGraph, counts: np.ndarray) -> dict[object, np.ndarray]:
    """A vector of counts cut into tables, by the keys of a network's tables."""
    layout = ParameterLayout.of(graph)
    parts = {key: counts[start:][: np.prod(layout.shapes[key])] for key, start in layout.starts.items()}
    return {(key[0] if graph.directed else key): part.reshape(layout.shapes[key]) for key, part in parts.items()}


def table_axes(network: LatentNetwork) -> dict[object, tuple[str, ...]]:
    graph = network.graph
    if graph.directed:
        return {name: (*graph.parents(name), name) for name in graph.names}
    return {node.remainder: node.clique for node in JunctionTree.build(graph).nodes if node.remainder}


def brute_counts(
    network: LatentNetwork, rows: np.ndarray, weights: np.ndarray
) -> tuple[dict[object, np.ndarray], float]:
    """Expected counts of every table and the log-likelihood."""
    graph = network.graph
    joint = joint_table(network, network.graph.names)
    total = np.zeros_like(joint)
    log_likelihood = 0.0
    for row, weight in zip(rows, weights, strict=True):
        picks: list[slice] = [slice(None)] * joint.ndim
        for name, cell in zip(graph.observed, row, strict=True):
            if cell >= 0:
                picks[graph.names.index(name)] = slice(cell, cell + 1)
        part = joint[tuple(picks)]
        total[tuple(picks)] += weight * part / part.sum()
        log_likelihood += weight * np.log(part.sum())
    letter = {name: k for k, name in enumerate(graph.names)}
    counts = {
        key: np.einsum(total, range(total.ndim), [letter[name] for name in axes])
        for key, axes in table_axes(network).items()
    }
    return counts, log_likelihood


def brute_step(network: LatentNetwork, rows: np.ndarray, weights: np.ndarray) -> LatentNetwork:
    """One EM step."""
    tables = {}
    for key, counts in brute_counts(network, rows, weights)[0].items():
        width = 1 if isinstance(key, str) else len(key)
        sums = counts.sum(axis=tuple(range(counts.ndim - width, counts.ndim)), keepdims=True)
        tables[key] = np.where(sums > 0, counts / np.where(sums > 0, sums, 1), network.tables[key])
    return LatentNetwork(network.graph, tables)


def is_learned(graph: LatentGraph, key: object) -> bool:
    """Whether rows say anything about a table: on a directed graph, of observed variables and their ancestors."""
    if not isinstance(key, str):
        return True
    useful = set(graph.observed)
    for _ in graph.names:
        useful |= {parent for child in useful for parent in graph.parents(child)}
    return key in useful


def numerical_slope(value: Callable[[np.ndarray], float], at: np.ndarray, along: np.ndarray) -> float:
    """The derivative of a function along a small step, by Richardson's extrapolation of central differences."""
    near, far = ([value(at + step * sign * along) for sign in (1, -1)] for step in (0.5, 1.0))
    return (8 * (near[0] - near[1]) - (far[0] - far[1])) / 6
