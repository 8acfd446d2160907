"""Classes of a multi-group model that no column ties between groups, numbered alike in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.inference.mixed.mixed_network import MixedNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["matched_groups"]


def matched_groups(network: LatentNetwork, group: str) -> LatentNetwork:
    """Return a network of one hidden variable whose states in each group are those of the largest group.

    Where every column depends on the group, the states of a group can be permuted by themselves. They are matched
    to those of the largest group by the distance of the columns' distributions (Hungarian assignment). Where some
    column ties the states of different groups, they stay as they are.
    """
    graph = network.graph
    (hidden,) = graph.hidden
    below = [name for name in graph.names if hidden in graph.parents(name)]
    if not all(group in graph.parents(name) for name in below):
        return network
    from scipy.optimize import linear_sum_assignment

    profiles = np.concatenate(list(_profiles(network, group, hidden, below)), axis=2)
    groups, states = profiles.shape[:2]
    largest = int(np.argmax(network.tables[group]))
    orders: Integers = np.tile(np.arange(states), (groups, 1))
    for place in range(groups):
        apart = ((profiles[largest][:, None] - profiles[place][None]) ** 2).sum(axis=2)
        orders[place] = linear_sum_assignment(apart)[1]
    return _relabelled(network, group, hidden, orders)


def _relabelled(network: LatentNetwork, group: str, hidden: str, orders: Integers) -> LatentNetwork:
    """Return a network with the states of a hidden variable in an order of each group's own."""
    graph = network.graph

    def permuted(values: Any, axes: Sequence[str]) -> Any:
        if hidden not in axes:
            return values
        places = (axes.index(group), axes.index(hidden))
        moved = np.moveaxis(values, places, (0, 1))[np.arange(len(orders))[:, None], orders]
        return np.moveaxis(moved, (0, 1), places)

    tables = {name: permuted(table, (*graph.parents(name), name)) for name, table in network.tables.items()}
    if not isinstance(network, MixedNetwork):
        return network.changed(tables)
    emissions = {}
    for names, emission in network.all_emissions.items():
        parents = graph.parents(names[0])
        states = np.arange(emission.states).reshape([graph.states[parent] for parent in parents])
        emissions[names] = emission.permuted(permuted(states, parents).ravel())
    return MixedNetwork(graph, tables, emissions, network.columns, network.hidden_labels)


def _profiles(network: LatentNetwork, group: str, hidden: str, columns: list[str]) -> Iterator[Floats]:
    """Yield what each column shows in each state of each group: square roots of probabilities, or a mean.

    Means are in standard deviations, as far apart as distributions can be where these are all different.
    """
    tables = network.labeled_tables
    for name in columns:
        table = np.asarray(tables[name])
        parents = network.graph.parents(name)
        table = np.moveaxis(table, (parents.index(group), parents.index(hidden)), (0, 1))
        if name in network.columns.numbers:
            means, deviations = table[..., 0], table[..., 1]
            yield (means / max(float(deviations.mean()), np.finfo(np.float64).tiny))[:, :, None]
        else:
            yield np.sqrt(table)
