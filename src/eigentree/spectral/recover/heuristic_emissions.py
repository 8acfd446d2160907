r"""Emissions guessed from the span of a leaf, to initialise EM where the states above it cannot be identified.

A leaf's core shows, with fewer rows than identify hidden states, in which few directions the distribution of its
column varies: :math:`P(x \mid s) = p(x)\,(1 + F(x)\cdot\mu_s)` with features F of mean 0 and variance 1. What is
left to guess are the :math:`\mu_s`, few numbers per state. The column's own states, clustered by their features,
give their directions, and that no probability is below zero bounds their lengths.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from eigentree.arrays import Floats
    from eigentree.inference.tensors.named_tables import TableKey
    from eigentree.spectral.recover.gauges import Gauges

__all__ = ["guessed_emissions"]

SPREAD = 0.7
"""How far a state goes on its way from the column's own distribution to where a probability would be zero."""

ROUNDS = 20
"""Most iterations of clustering."""

RAREST = 1e-9
"""A state of a column with less probability has no features."""

NO_SPAN = 1e-9
"""Directions that are shorter than this part of the longest are rounding."""


def guessed_emissions(gauges: Gauges, known: Collection[str]) -> dict[TableKey, Floats]:
    """Return guesses of P(x | parents) for leaves whose parents are hidden and not known, on a directed graph.

    Of several leaves below the same parents, only the clearest gets one: the order of states is anybody's guess,
    and two guesses would not agree.
    """
    plan, graph = gauges.fit.plan, gauges.fit.plan.graph
    clearest: dict[tuple[str, ...], tuple[float, TableKey, Floats]] = {}
    for bond, (node, edge) in enumerate(zip(plan.nodes, gauges.fit.edges, strict=True)):
        if node.observed is None or edge is None:
            continue
        parents = graph.parents(node.observed)
        if not parents or not set(parents) <= set(graph.hidden) or not set(parents).isdisjoint(known):
            continue
        sizes = [graph.states[name] for name in parents]
        guess = _guess(gauges.cores[bond], gauges.alone(bond), math.prod(sizes))
        if guess is None:
            continue
        clarity = float(edge.singular_values[: node.rank][-1]) / max(edge.noise, RAREST)
        if parents not in clearest or clarity > clearest[parents][0]:
            clearest[parents] = (clarity, (node.observed,), guess.reshape(*sizes, -1))
    return {key: guess for _, key, guess in clearest.values()}


def _guess(core: Floats, alone: Floats, count: int) -> Floats | None:
    """Return as many distributions within the span of a leaf's core, shape (count, states), or None."""
    if count > len(alone) or not np.isfinite(core).all() or not alone.min() > RAREST:
        return None
    roots = np.sqrt(alone)[:, None]
    moves = (core - alone[:, None] * core.sum(axis=0)) / roots
    directions, sizes, _ = np.linalg.svd(moves, full_matrices=False)
    features = directions[:, sizes > NO_SPAN * max(1.0, sizes[0])] / roots
    if not features.shape[1]:
        return None
    leanings = features @ _clustered(features, alone, count).T
    lowest = leanings.min(axis=0)
    far = np.divide(-SPREAD, lowest, out=np.zeros_like(lowest), where=lowest < 0)
    guess: Floats = (alone[:, None] * (1 + leanings * far)).T
    return np.asarray(guess / guess.sum(axis=1, keepdims=True))


def _clustered(points: Floats, weights: Floats, count: int) -> Floats:
    """Return the centres of weighted clusters, begun at points that lie far from each other."""
    distances = (points**2).sum(axis=1)
    chosen: list[int] = []
    while len(chosen) < count:
        chosen.append(int((weights * distances).argmax()))
        distances = ((points[:, None] - points[chosen]) ** 2).sum(axis=2).min(axis=1)
    centres = points[chosen]
    for _ in range(ROUNDS):
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        members = (nearest == np.arange(count)[:, None]) * weights
        totals = members.sum(axis=1, keepdims=True)
        moved = np.divide(members @ points, totals, out=centres.copy(), where=totals > 0)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres
