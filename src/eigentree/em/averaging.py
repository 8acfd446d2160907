"""Several networks on one tree as one network: the mixture of all, in which each keeps its share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.exact.network import LatentNetwork
from eigentree.structures.discovery import mixture_of_trees

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.structures.graph import LatentGraph

__all__ = ["averaged", "fitted_average", "fitted_shares"]

ROUNDS = 200
"""Steps of the climb to the best shares: each costs no more than a few products of two vectors."""

SMALLEST_SHARE = 0.02
"""A network with a smaller share is left out: it would cost as much as the others and say next to nothing."""


class _Forest(NamedTuple):
    """A network on a mixture of trees, taken apart.

    Attributes
    ----------
    shares : (trees,)
    tables : mapping
        The table of each variable of the tree, with the number of the tree as first axis.
    """

    shares: Floats
    tables: Mapping[str, Floats]


def averaged(tree: LatentGraph, networks: Sequence[LatentNetwork], shares: Floats) -> LatentNetwork:
    """Return the mixture of networks, each of them on a mixture of any number of the same tree.

    Parameters
    ----------
    tree : LatentGraph
    networks : sequence of LatentNetwork
        Of graphs that `mixture_of_trees` made of the tree.
    shares : array, shape (networks,)
        They add up to 1.
    """
    forests = [_forest(tree, network) for network in networks]
    sizes = np.concatenate([share * forest.shares for share, forest in zip(shares, forests, strict=True)])
    graph = mixture_of_trees(tree, len(sizes))
    tables = {name: np.concatenate([forest.tables[name] for forest in forests]) for name in tree.names}
    if len(sizes) == 1:
        return LatentNetwork(graph, {name: table[0] for name, table in tables.items()})
    return LatentNetwork(graph, {graph.names[0]: sizes / sizes.sum(), **tables})


def _forest(tree: LatentGraph, network: LatentNetwork) -> _Forest:
    own = network.tables
    tables = {name: np.asarray(own[name]) for name in tree.names}
    if network.graph == tree:
        return _Forest(np.ones(1), {name: table[None] for name, table in tables.items()})
    return _Forest(np.asarray(own[network.graph.names[0]]), tables)


def fitted_shares(log_prob: Floats, weights: Floats) -> Floats:
    """Return the shares of networks that make rows likeliest; of those that hardly help, zero.

    Parameters
    ----------
    log_prob : array, shape (networks, rows)
        Log probability of each row under each network.
    weights : array, shape (rows,)
    """
    relative = np.exp(log_prob - log_prob.max(axis=0))
    shares = np.full(len(log_prob), 1.0 / len(log_prob))
    for _ in range(ROUNDS):
        joint = shares[:, None] * relative
        # One row's worth of even shares: a few rows must not decide between networks that are as good.
        counts = (joint / joint.sum(axis=0)) @ weights + 1.0 / len(shares)
        shares = counts / counts.sum()
    shares = np.where(shares < SMALLEST_SHARE, 0.0, shares)
    return np.asarray(shares / shares.sum())


def fitted_average(log_prob: Floats, weights: Floats) -> tuple[Floats, float]:
    """Return the shares of networks that make rows likeliest, and the mean log probability of a row then.

    Parameters
    ----------
    log_prob : array, shape (networks, rows)
    weights : array, shape (rows,)
    """
    shares = fitted_shares(log_prob, weights)
    kept = np.flatnonzero(shares)
    joint = np.logaddexp.reduce(log_prob[kept] + np.log(shares[kept])[:, None], axis=0)
    return shares, float(joint @ weights / weights.sum())
