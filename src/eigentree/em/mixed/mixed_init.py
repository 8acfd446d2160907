"""Initialisers for networks with numbers: hidden variables are clusters of rows, by all columns or by their own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.init.classes import FLOOR, NOISE, SHARPNESS, most_classes
from eigentree.em.init.k_means import k_means, standardised
from eigentree.em.multistart import Candidate
from eigentree.em.parameters import ParameterLayout
from eigentree.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.em.init.trees import Kind
    from eigentree.em.mixed.mixed_objective import MixedObjective
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.graphs.graph import LatentGraph

__all__ = ["MixedInit"]


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
        """Return the parameters of hidden variables that are copies of one cluster of each row (k-means)."""
        graph = self._graph
        places = self._clusters(graph.observed, most_classes(graph), random)
        return self._of_states({name: places % graph.states[name] for name in graph.hidden}, random)

    def _random(self, random: np.random.Generator) -> Floats:
        """Return the parameters of hidden variables that are clusters, each of what it is a parent of."""
        graph, labels = self._graph, {}
        for hidden in graph.hidden:
            near = [name for name in graph.neighbors(hidden) if name in graph.observed]
            children = [name for name in near if hidden in graph.parents(name)]
            labels[hidden] = self._clusters(children, graph.states[hidden], random)
        return self._of_states(labels, random)

    @cached_property
    def _kept(self) -> list[str]:
        return [name for name in self._graph.observed if name not in self.numbers]

    @cached_property
    def _covariates(self) -> set[str]:
        """The columns that states depend on: rows are not clustered by them."""
        emissions = self.objective.layout.emissions
        return {name for group, own in emissions.items() if own.conditions for name in group}

    def _clusters(self, columns: Iterable[str], count: int, random: np.random.Generator) -> Integers:
        """Return clusters of the rows by some columns."""
        columns = [name for name in columns if name not in self._covariates]
        numbers = [place for place, name in enumerate(self.numbers) if name in columns]
        own = self.rows._replace(values=self.rows.values[:, numbers])
        points = row_features(own, self._graph, [name for name in columns if name in self._kept])
        return k_means(points, own.weights, count, random)

    def _of_states(self, labels: Mapping[str, Integers], random: np.random.Generator) -> Floats:
        """Return the parameters that follow from guesses of the states of hidden variables in each row."""
        graph, rows = self._graph, self.rows
        seen = {**labels, **{name: rows.codes[:, graph.column(name)].astype(np.int64) for name in graph.observed}}
        layout, parts = ParameterLayout.of(graph), []
        for axes in layout.axes.values():
            shape = [graph.states[name] for name in axes]
            known = np.all([seen[name] < size for name, size in zip(axes, shape, strict=True)], axis=0)
            places = np.ravel_multi_index([seen[name][known] for name in axes], shape)
            parts.append(np.bincount(places, rows.weights[known], math.prod(shape)) + 1.0 / math.prod(shape))
        counts = np.concatenate(parts)
        if len(labels) > 1:
            # Variables with equal parts can part.
            counts *= random.uniform(1.0 - NOISE, 1.0 + NOISE, layout.size)
        tables = layout.mixed(layout.normalised(counts, layout.uniform), FLOOR)

        def of_parent(name: str) -> Floats:
            own = shown_states(seen[name], graph.states[name])
            return SHARPNESS * own + (1.0 - SHARPNESS) / graph.states[name] if name in labels else own

        blocks = self.objective.layout.blocks
        every = [[of_parent(name) for name in block.parents] for block in blocks]
        return self.objective.of_posteriors(tables, [joint_states(own, len(rows.weights)) for own in every])


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
