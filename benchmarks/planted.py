"""Random trees of hidden variables, and networks on them whose rows identify the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.graphs.graph import LatentGraph
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from eigentree.validation import Seed

__all__ = ["planted_network", "random_tree"]


def random_tree(columns: int, hidden_states: int, observed_states: int, seed: Seed) -> LatentGraph:
    """Return a tree whose leaves are the columns and whose hidden variables have three neighbours or more."""
    random = np.random.default_rng(seed)
    edges = [("h0", f"x{place}") for place in range(3)]
    hidden = ["h0"]
    for place in range(3, columns):
        if random.random() < 0.3:
            edges.append((hidden[random.integers(len(hidden))], f"x{place}"))
        else:
            parent, child = edges.pop(random.integers(len(edges)))
            hidden.append(f"h{len(hidden)}")
            edges += [(parent, hidden[-1]), (hidden[-1], child), (hidden[-1], f"x{place}")]
    states = dict.fromkeys(hidden, hidden_states) | {f"x{place}": observed_states for place in range(columns)}
    return LatentGraph(states, edges, hidden)


def planted_network(graph: LatentGraph, seed: Seed) -> LatentNetwork:
    """Return tables by which each variable copies its parent, with 15 to 50 % of noise."""
    random = np.random.default_rng(seed)
    tables = {}
    for name in graph.names:
        states = graph.states[name]
        if not graph.parents(name):
            tables[name] = random.dirichlet(np.full(states, 10.0))
            continue
        above = graph.states[graph.parents(name)[0]]
        noise = random.uniform(0.15, 0.5)
        copied = np.eye(states)[random.permutation(max(states, above))[:above] % states]
        tables[name] = (1 - noise) * copied + noise * random.dirichlet(np.ones(states), above)
    return LatentNetwork(graph, tables)
