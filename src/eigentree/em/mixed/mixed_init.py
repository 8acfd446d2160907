"""Initialisers for networks with numbers: k-means of rows carried into the graph, and clusters of each block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.init.classes import (
    NOISE,
    SHARPNESS,
    Classes,
    carried,
    copies_of_class,
    most_classes,
)
from eigentree.em.init.k_means import k_means, standardised
from eigentree.em.multistart import Candidate
from eigentree.em.parameters import ParameterLayout
from eigentree.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.em.init.trees import Kind
    from eigentree.em.mixed.mixed_objective import MixedObjective
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.mixed.number_leaves import Block

__all__ = ["MixedInit", "seeded_classes"]


@dataclass(frozen=True, eq=False)
class MixedInit:
    """The initialisers for one graph and the rows of an objective."""

    objective: MixedObjective
    rows: MixedRows
    numbers: tuple[str, ...]

    @property
    def _graph(self) -> LatentGraph:
        return self.objective.layout.graph

    @cached_property
    def hidden(self) -> Sequence[str]:
        """The hidden variables that the data depend on."""
        learnable = {name for key in self.objective.layout.tables.learnable for name in key}
        return [name for name in self._graph.hidden if name in learnable]

    def pool(self, random: np.random.Generator) -> Iterator[Candidate]:
        """Yield candidates for a multi-start without end: clusters of rows and of blocks in turn."""
        kinds: tuple[Kind, ...] = ("mixture", "random")
        for kind in cycle(kinds):
            yield self.candidate(kind, random.spawn(1)[0])

    def candidate(self, kind: Kind, random: np.random.Generator) -> Candidate:
        """Return one candidate."""
        makers = {"mixture": self._mixture, "copy": self._mixture, "spectral": self._spectral}
        make = makers.get(kind) if self.hidden else None
        return Candidate(kind, partial(make or self._random, random))

    def _spectral(self, random: np.random.Generator) -> Floats:
        raise RankError("moments of numbers determine no tables here; start from a mixture or at random")

    def _mixture(self, random: np.random.Generator) -> Floats:
        """Return clusters of rows (k-means), of which hidden variables are copies."""
        classes = most_classes(self._graph)
        numbers = [place for place, name in enumerate(self.numbers) if name not in self._covariates]
        own = self.rows._replace(values=self.rows.values[:, numbers])
        places = k_means(row_features(own, self._graph, self._kept), own.weights, classes, random)
        return self._carried(places, classes, 0.0 if len(self.hidden) == 1 else NOISE, random)

    @cached_property
    def _kept(self) -> list[str]:
        return [name for name in self._graph.observed if name not in self.numbers]

    @cached_property
    def _covariates(self) -> set[str]:
        """The columns that states depend on: rows are not clustered by them."""
        emissions = self.objective.layout.emissions
        return {name for group, own in emissions.items() if own.conditions for name in group}

    def _carried(self, places: Integers, classes: int, noise: float, random: np.random.Generator) -> Floats:
        """Return parameters under which every hidden variable is a noisy copy of the cluster of its row."""
        found = seeded_classes(self.rows, self._graph, places, classes)
        tables = carried(ParameterLayout.of(self._graph), found, noise, random if noise else None)
        shares = np.full((len(places), classes), (1.0 - SHARPNESS) / classes)
        shares[np.arange(len(places)), places] += SHARPNESS
        return self.objective.of_posteriors(
            tables, [self._posterior(block, shares, noise) for block in self._blocks]
        )

    @property
    def _blocks(self) -> tuple[Block, ...]:
        return self.objective.layout.blocks

    def _posterior(self, block: Block, shares: Floats, noise: float) -> Floats:
        """Return the posterior of the joint state of a block's parents in each row, given that of its class."""
        graph = self._graph

        def of_parent(name: str) -> Floats:
            states = graph.states[name]
            if name not in graph.hidden:
                return shown_states(self.rows.codes[:, graph.column(name)], states)
            return np.asarray(shares @ copies_of_class(shares.shape[1], states, noise))

        return joint_states([of_parent(name) for name in block.parents], len(shares))

    def _random(self, random: np.random.Generator) -> Floats:
        """Return the tables of hidden variables that are clusters, each of what it is a parent of."""
        graph, rows = self._graph, self.rows
        labels = {name: self._own_clusters(name, random) for name in graph.hidden}
        seen = {**labels, **{name: rows.codes[:, graph.column(name)].astype(np.int64) for name in graph.observed}}
        layout, parts = ParameterLayout.of(graph), []
        for axes in layout.axes.values():
            shape = [graph.states[name] for name in axes]
            known = np.all([seen[name] < size for name, size in zip(axes, shape, strict=True)], axis=0)
            places = np.ravel_multi_index([seen[name][known] for name in axes], shape)
            parts.append(np.bincount(places, rows.weights[known], math.prod(shape)) + 1.0 / math.prod(shape))
        tables = layout.mixed(layout.normalised(np.concatenate(parts), layout.uniform), NOISE)

        def of_parent(name: str) -> Floats:
            own = shown_states(seen[name], graph.states[name])
            return SHARPNESS * own + (1.0 - SHARPNESS) / graph.states[name] if name in labels else own

        every = [[of_parent(name) for name in block.parents] for block in self._blocks]
        return self.objective.of_posteriors(tables, [joint_states(own, len(rows.weights)) for own in every])

    def _own_clusters(self, hidden: str, random: np.random.Generator) -> Integers:
        """Return clusters of the rows by the observed children of a hidden variable; at random if it has none."""
        graph, states = self._graph, self._graph.states[hidden]
        children = [
            name for name in graph.neighbors(hidden) if name in graph.observed and hidden in graph.parents(name)
        ]
        if not children:
            return random.integers(states, size=len(self.rows.weights))
        children = [name for name in children if name not in self._covariates]
        numbers = [place for place, name in enumerate(self.numbers) if name in children]
        own = self.rows._replace(values=self.rows.values[:, numbers])
        points = row_features(own, graph, [name for name in children if name in self._kept])
        return k_means(points, own.weights, states, random)


def shown_states(codes: Integers, states: int) -> Floats:
    """Return each row's distribution of a variable that is known; a missing cell may be any state."""
    return np.vstack([np.eye(states), np.full(states, 1.0 / states)])[codes]


def joint_states(parents: Sequence[Floats], rows: int) -> Floats:
    """Return the distribution of the joint state of parents in each row, given that of each, the last fastest."""
    joint = np.ones((rows, 1))
    for own in parents:
        joint = (joint[:, :, None] * own[:, None, :]).reshape(rows, -1)
    return joint


def row_features(rows: MixedRows, graph: LatentGraph, categories: Sequence[str]) -> Floats:
    """Return rows as points in which each column has the total variance 1."""
    parts = [standardised(rows.values, rows.weights)]
    share = rows.weights / rows.weights.sum()
    for name in categories:
        codes, states = rows.codes[:, graph.column(name)], graph.states[name]
        shown = np.vstack([np.eye(states), np.zeros(states)])[codes]
        variance = 1.0 - float(((share @ shown) ** 2).sum())
        parts.append(shown / np.sqrt(max(variance, np.finfo(np.float64).eps)))
    return np.concatenate(parts, axis=1)


def seeded_classes(rows: MixedRows, graph: LatentGraph, places: Integers, classes: int) -> Classes:
    """Return the classes that clusters of rows are: their shares, and columns as they are in each and in all."""
    weight = np.bincount(places, rows.weights, classes)
    columns = {}
    for column, name in enumerate(graph.observed):
        states = graph.states[name]
        counts = np.zeros((classes, states + 1))
        np.add.at(counts, (places, rows.codes[:, column].astype(np.int64)), rows.weights)
        own, total = counts[:, :-1], counts[:, :-1].sum(axis=0)
        usual = (total + 0.5) / (total + 0.5).sum()
        columns[name] = (own + usual) / (own + usual).sum(axis=1, keepdims=True)
    return Classes((weight + 1.0) / (weight + 1.0).sum(), columns)
