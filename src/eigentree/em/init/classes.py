"""Initialisers from classes: around rows far from each other, and as copies of one class; and at random.

All but random starts come from *classes*: one hidden class per row, and columns that are independent given it. They
are carried into a graph as the joint distribution in which every hidden variable is a noisy copy of the class and
every column depends on the class alone. Whatever the graph, each of its tables is a conditional of that joint
distribution, so directed and undirected graphs, observed parents and hidden variables that nobody sees need nothing
of their own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.graphs.graph import LatentGraph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.parameters import ParameterLayout

__all__ = [
    "FLOOR",
    "NOISE",
    "SHARPNESS",
    "Classes",
    "carried",
    "class_graph",
    "most_classes",
    "random_start",
    "seeded",
]

SEEDS_FROM = 2_000
"""Rows that seeds are chosen among."""

SHARPNESS = 0.5
"""How much of a class is the row that it is seeded by; the rest are the marginals of the columns."""

NOISE = 0.1
"""How much of a hidden variable is independent of the class that it copies, and by what share the entries of its
tables are disturbed, so that variables with equal parts can part."""

FLOOR = 1e-3
"""The share of every carried distribution that is uniform: nothing is ruled out at the start."""


class Classes(NamedTuple):
    """Columns that are independent given a class: their distributions in each class, shape (classes, states)."""

    shares: Floats
    columns: Mapping[str, Floats]

    def one(self, place: int) -> Classes:
        """Return one of the classes alone."""
        return Classes(np.ones(1), {name: table[place : place + 1] for name, table in self.columns.items()})


def most_classes(graph: LatentGraph) -> int:
    """Return how many classes hidden variables can be copies of."""
    return max(graph.states[name] for name in graph.hidden)


def class_graph(graph: LatentGraph, classes: int) -> LatentGraph:
    """Return the graph of classes over the columns of a graph; its first variable is the class."""
    name = "class"
    while name in graph.observed:
        name += "_"
    states = {name: classes} | {column: graph.states[column] for column in graph.observed}
    return LatentGraph(states, [(name, column) for column in graph.observed], [name])


def random_start(layout: ParameterLayout, random: np.random.Generator) -> Floats:
    """Return random parameters, every distribution uniform on its simplex."""
    return layout.normalised(random.exponential(size=layout.size), layout.uniform)


def seeded(graph: LatentGraph, rows: DistinctRows, classes: int, random: np.random.Generator) -> Classes:
    """Return classes around rows that are far from each other."""
    states = [graph.states[name] for name in graph.observed]
    share = rows.weights / rows.weights.sum()
    among, odds = rows.codes, share
    if len(share) > SEEDS_FROM:
        among = rows.codes[random.choice(len(share), SEEDS_FROM, p=share)]
        odds = np.full(SEEDS_FROM, 1.0 / SEEDS_FROM)
    seeds = among[_far_apart(among, odds, np.array(states), classes, random)]
    columns = {}
    for k, name in enumerate(graph.observed):
        # A missing cell has the code after the last state, and says nothing.
        counts = np.bincount(rows.codes[:, k], share, states[k] + 1)[:-1]
        usual = (counts + 0.5 / SEEDS_FROM) / (counts + 0.5 / SEEDS_FROM).sum()
        picked = np.vstack([np.eye(states[k]), usual])[seeds[:, k]]
        columns[name] = SHARPNESS * picked + (1.0 - SHARPNESS) * usual
    return Classes(np.full(classes, 1.0 / classes), columns)


def _far_apart(
    codes: Codes, weights: Floats, states: Integers, count: int, random: np.random.Generator
) -> Integers:
    """Return rows sampled one after the other in proportion to squared distances from those before (k-means++).

    Of a few that are sampled so, the one that leaves the others nearest is chosen. The distance of two rows is
    the share of cells, among those known in both, in which they differ.
    """
    known = codes < states

    def distances(row: int) -> Floats:
        both = known & known[row]
        differ, cells = ((codes != codes[row]) & both).sum(axis=1), both.sum(axis=1)
        return np.where(cells > 0, differ / np.maximum(cells, 1), 1.0)

    chosen = [int(random.choice(len(codes), p=weights))]
    nearest = distances(chosen[0])
    # As many as scikit-learn's k-means++ draws.
    tries = 2 + int(math.log(count))
    while len(chosen) < count:
        odds = weights * nearest**2
        total = odds.sum()
        drawn = random.choice(len(codes), tries, p=odds / total if total > 0 else None).tolist()
        left = [np.minimum(nearest, distances(row)) for row in drawn]
        best = int(np.argmin([float(weights @ each**2) for each in left]))
        chosen.append(drawn[best])
        nearest = left[best]
    return np.array(chosen)


def carried(
    layout: ParameterLayout, classes: Classes, noise: float, random: np.random.Generator | None = None
) -> Floats:
    """Return parameters under which every hidden variable is a noisy copy of the class of its row.

    `noise` is how much of it is independent of the class; `random` disturbs the tables a little, since without it
    variables with the same neighbours stay the same for ever.
    """
    graph, count = layout.graph, len(classes.shares)
    copies = {name: _copies_of_class(count, graph.states[name], noise) for name in graph.hidden}
    given_class = {**copies, **classes.columns}
    parts = []
    for axes in layout.axes.values():
        joint = classes.shares
        for name in axes:
            factor = given_class[name].reshape(count, *(1,) * (joint.ndim - 1), -1)
            joint = joint[..., None] * factor
        parts.append(joint.sum(axis=0).ravel())
    counts = np.concatenate(parts)
    if random is not None:
        counts = counts * random.uniform(1.0 - NOISE, 1.0 + NOISE, layout.size)
    return layout.mixed(layout.normalised(counts, layout.uniform), FLOOR)


def _copies_of_class(classes: int, states: int, noise: float) -> Floats:
    """Return P(hidden variable | class), shape (classes, states): as many states as there are take turns."""
    turns = min(classes, states)
    same = (np.arange(classes) % turns)[:, None] == np.arange(states) % turns
    copies: Floats = (1.0 - noise) * same / same.sum(axis=1, keepdims=True) + noise / states
    return copies
