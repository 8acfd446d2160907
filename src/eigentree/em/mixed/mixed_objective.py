"""The objective of rows of categories and numbers: an E-step over lines, and the M-step of each emission."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from eigentree.em.estep.unique_rows import margins
from eigentree.em.mixed.mixed_rows import STRETCH, MixedRows, Stretch
from eigentree.em.optimize.objective import ExpectedCounts, Objective, SimplexVector
from eigentree.errors import NetworkError
from eigentree.inference.mixed.mixed_network import MixedNetwork
from eigentree.inference.mixed.number_leaves import LEAST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.em.parameters import ParameterLayout
    from eigentree.emissions.base import Emission
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.mixed.number_leaves import Block

__all__ = ["MixedLayout", "MixedObjective", "NumberObjective", "Responsibilities"]


@dataclass(frozen=True, eq=False)
class MixedLayout(SimplexVector):
    """Where each parameter stands in one vector: the tables of the graph, then the emissions, group by group.

    `emissions` are as EM starts them: their settings are kept, their parameters are those of the vector.
    """

    tables: ParameterLayout
    blocks: tuple[Block, ...]
    emissions: Mapping[tuple[str, ...], Emission]

    @property
    def graph(self) -> LatentGraph:
        """The graph, in which a number has one state."""
        return self.tables.graph

    @cached_property
    def _starts(self) -> dict[tuple[str, ...], int]:
        """Where the parameters of each emission start."""
        sizes = [emission.vector.size for emission in self.emissions.values()]
        starts = self.tables.size + np.cumsum([0, *sizes])
        return dict(zip(self.emissions, starts.tolist(), strict=False))

    @cached_property
    def size(self) -> int:
        """The length of the vector."""
        return self.tables.size + sum(emission.vector.size for emission in self.emissions.values())

    @cached_property
    def lengths(self) -> Integers:
        """The number of entries of each distribution; parameters of emissions are none."""
        return np.concatenate([self.tables.lengths, np.ones(self.size - self.tables.size, np.int64)])

    @cached_property
    def learned(self) -> Booleans:
        """Which entries of tables are learned."""
        return np.concatenate([self.tables.learned, np.zeros(self.size - self.tables.size, np.bool_)])

    @cached_property
    def free_count(self) -> int:
        """The number of free parameters, those of emissions included."""
        return self.tables.free_count + sum(emission.n_parameters for emission in self.emissions.values())

    @property
    def learned_count(self) -> int:
        """The number of parameters that are learned."""
        return self.tables.learned_count + self.size - self.tables.size

    @property
    def table_layout(self) -> ParameterLayout:
        """Where each entry of the tables stands."""
        return self.tables

    @property
    def estimated(self) -> Booleans:
        """Which entries of the tables are estimated: not those that covariates decide on."""
        found = super().estimated.copy()
        for own in self._conditioned.values():
            found[own] = False
        return found

    def projected(self, parameters: Floats) -> Floats:
        """Return the parameters that satisfy constraints on the tables; emissions follow states."""
        if orders := self.tables.orders(parameters[: self.tables.size]):
            parameters = self.vector(self.network(parameters).relabelled(orders))
        tables, emissions = self.split(parameters)
        return self.joined(self.tables.projected(tables), emissions)

    def split(self, vector: Floats) -> tuple[Floats, dict[tuple[str, ...], Emission]]:
        """Return the tables of a vector, end to end, and the emissions."""
        made = {
            group: emission.of_vector(vector[self._starts[group] : self._starts[group] + emission.vector.size])
            for group, emission in self.emissions.items()
        }
        return vector[: self.tables.size], made

    @cached_property
    def _conditioned(self) -> dict[tuple[str, ...], slice]:
        """Where the tables of variables stand that depend on covariates, by the groups of these."""
        found = {}
        for block in self.blocks:
            for group in block.groups:
                if self.emissions[group].conditions:
                    start = self.tables.starts[block.parents]
                    found[group] = slice(start, start + block.states(self.graph))
        return found

    def joined(self, tables: Floats, emissions: Mapping[tuple[str, ...], Emission]) -> Floats:
        """Return tables, end to end, and emissions as one vector; what depends on covariates has their shares."""
        for group, own in self._conditioned.items():
            tables = tables.copy()
            tables[own] = emissions[group].parameters["shares"]
        return np.concatenate([tables, *(emissions[group].vector for group in self.emissions)])

    def prior(self, margins: Mapping[str, Floats], pseudo_counts: float) -> Floats:
        """Return the pseudo-count of each entry of the tables; none of what depends on covariates."""
        prior = self.tables.prior(margins, pseudo_counts)
        for own in self._conditioned.values():
            prior[own] = 0.0
        return prior

    def network(self, parameters: Floats) -> MixedNetwork:
        """Return the network that has these parameters."""
        tables, emissions = self.split(parameters)
        numbers = {name for block in self.blocks for name in block.columns}
        named = {key[0]: table for key, table in self.tables.tables(tables).items() if key[0] not in numbers}
        graph = self.graph
        if coded := {group[0]: len(each.table.T) for group, each in emissions.items() if hasattr(each, "table")}:
            graph = graph.with_states(coded)
        every: dict[Any, Emission] = dict(emissions)
        return MixedNetwork(graph, named, every)

    def vector(self, network: MixedNetwork) -> Floats:
        """Return the parameters of a network on the same graph.

        Raises `NetworkError` unless it has emissions of the same groups, families and sizes.
        """
        given = network.all_emissions
        for group, own in self.emissions.items():
            if (
                group not in given
                or type(given[group]) is not type(own)
                or given[group].vector.shape != own.vector.shape
            ):
                raise NetworkError(
                    f"the network has no emission of {', '.join(map(repr, group))} that is {own.family!r} with "
                    f"{own.vector.size} parameters, as these rows need; give emissions= as those of the network"
                )
        tables = {(key,) if isinstance(key, str) else key: table for key, table in network.tables.items()}
        # Numbers, and ordered labels in EM, have one state.
        numbers = {name for block in self.blocks for name in block.columns}
        shapes = self.tables.shapes
        each = [np.ones(shapes[key]) if key[0] in numbers else tables[key] for key in self.tables.axes]
        return self.joined(np.concatenate([table.ravel() for table in each]), given)


class Responsibilities(NamedTuple):
    """What the E-step finds in some rows: expected counts of tables, and statistics of each emission."""

    expected: ExpectedCounts
    statistics: list[Any]

    def __add__(self, other: Responsibilities) -> Responsibilities:  # type: ignore[override]
        """Return what the E-step finds in both parts of the rows together."""
        pairs = zip(self.statistics, other.statistics, strict=True)
        return Responsibilities(self.expected + other.expected, [own + more for own, more in pairs])


class NumberObjective(Objective):
    """The objective of rows with numbers, wherever they are."""

    is_accelerable: ClassVar[bool] = False

    layout: MixedLayout

    @abstractmethod
    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> Responsibilities:
        """Return what the E-step finds in all rows."""

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts of the tables and the log-likelihood of all rows."""
        return self.expected_parts(*self.parted(parameters))[0]

    def parted(self, parameters: Floats) -> tuple[Floats, tuple[Any, ...]]:
        """Return the tables of a vector of parameters, end to end, and the emissions."""
        tables, emissions = self.layout.split(parameters)
        return tables, tuple(emissions.values())

    def whole(self, tables: Floats, emissions: Sequence[Any]) -> Floats:
        """Return the vector of tables and emissions."""
        return self.layout.joined(tables, dict(zip(self.layout.emissions, emissions, strict=True)))


@dataclass(frozen=True, eq=False)
class MixedObjective(NumberObjective):
    """The objective of rows with numbers in memory: log-likelihood, log prior of tables and of each emission."""

    layout: MixedLayout
    stretches: Sequence[Stretch]
    numbers: Sequence[Integers]
    prior: Floats
    threads: int

    @classmethod
    def of(
        cls,
        layout: MixedLayout,
        names: Sequence[str],
        rows: MixedRows,
        missing: frozenset[str],
        pseudo_counts: float,
        threads: int = 1,
    ) -> MixedObjective:
        """Return the objective of rows, given the names of their number columns and those with missing cells."""
        graph = layout.graph
        parts = [rows.part(start, start + STRETCH) for start in range(0, len(rows.codes), STRETCH)]
        stretches = [Stretch.of(graph, layout.blocks, layout.emissions, names, missing, part) for part in parts]
        states = {name: graph.states[name] for name in graph.observed}
        prior = layout.prior(margins(rows.codes, rows.weights, states), pseudo_counts)
        numbers = [part.first[own.first] for part, own in zip(parts, stretches, strict=True)]
        return cls(layout, stretches, numbers, prior, threads)

    @cached_property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(sum(stretch.weights.sum() for stretch in self.stretches))

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> Responsibilities:
        """Return what the E-step finds in all rows."""
        named = dict(zip(self.layout.emissions, emissions, strict=True))
        return reduce(add, self._each(tables, named))

    def _each(self, tables: Floats, emissions: Mapping[tuple[str, ...], Any]) -> Iterator[Responsibilities]:
        for stretch, numbers in zip(self.stretches, self.numbers, strict=True):
            found, shares = self.shares(stretch, tables, emissions)
            statistics = {}
            for block, own in zip(stretch.blocks, shares, strict=True):
                for group in block.groups:
                    statistics[group] = emissions[group].statistics(stretch.features[group], own)
            yield Responsibilities(found.numbered(numbers), [statistics[group] for group in emissions])

    def shares(
        self, stretch: Stretch, tables: Floats, emissions: Mapping[tuple[str, ...], Emission]
    ) -> tuple[ExpectedCounts, list[Floats]]:
        """Return what the E-step finds in a stretch, and how often it expects each line in each state.

        The latter is for each block, shape (lines, states of its parents); expected counts are of all tables.
        """
        vector, scale = self._vector(stretch, tables, emissions)
        found = stretch.expectation(vector, stretch.coded, self.threads)
        counted = stretch.layout.tables(found.counts)
        counts = [
            counted[key].ravel() if key in counted else np.zeros(math.prod(shape))
            for key, shape in self.layout.tables.shapes.items()
        ]
        shares = []
        for name, weights in zip(stretch.names, stretch.line_weights, strict=True):
            shown = counted[(name,)]
            shares.append(np.ascontiguousarray(shown.reshape(-1, shown.shape[-1])[:, : len(weights)].T))
        whole = ExpectedCounts(np.concatenate(counts), found.log_likelihood + scale, found.impossible)
        return whole, shares

    def _vector(
        self, stretch: Stretch, tables: Floats, emissions: Mapping[tuple[str, ...], Emission]
    ) -> tuple[Floats, float]:
        """Return the parameters of a stretch's graph, and the logarithm of what was taken out of its lines."""
        own, scale = self.layout.tables.tables(tables), 0.0
        lines: dict[tuple[str, ...], Floats] = {}
        for place, (block, name) in enumerate(zip(stretch.blocks, stretch.names, strict=True)):
            log_prob = reduce(add, (emissions[group].lines(stretch.features[group]) for group in block.groups))
            peak = np.max(log_prob, axis=1)
            scale += float(stretch.line_weights[place] @ peak)
            table = np.zeros((log_prob.shape[1], stretch.layout.graph.states[name]))
            table[:, : len(peak)] = np.maximum(np.exp(log_prob - peak[:, None]), LEAST).T
            lines[(name,)] = table
        every = {**own, **lines}
        return np.concatenate([every[key].ravel() for key in stretch.layout.axes]), scale

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the rows; -inf if one is impossible."""
        tables, emissions = self.layout.split(parameters)
        total = 0.0
        for stretch in self.stretches:
            vector, scale = self._vector(stretch, tables, emissions)
            total += stretch.expectation.log_likelihood(vector, stretch.coded, self.threads) + scale
        return total

    def of_posteriors(self, tables: Floats, posteriors: Sequence[Floats]) -> Floats:
        """Return the parameters that follow from tables and from posteriors of each block's parents in each row.

        A posterior has the shape (rows, joint states of the parents), rows in the order of the objective's.
        """
        of_parents = {block.parents: each for block, each in zip(self.layout.blocks, posteriors, strict=True)}
        totals: dict[tuple[str, ...], Any] = {}
        start = 0
        for stretch in self.stretches:
            part = slice(start, start + len(stretch.weights))
            start = part.stop
            for place, block in enumerate(stretch.blocks):
                own = of_parents[block.parents][part] * stretch.weights[:, None]
                shares = np.zeros((len(stretch.line_weights[place]), own.shape[1]))
                np.add.at(shares, stretch.places[place], own)
                for group in block.groups:
                    found = self.layout.emissions[group].statistics(stretch.features[group], shares)
                    totals[group] = totals[group] + found if group in totals else found
        emissions = {group: each.maximised(totals[group]) for group, each in self.layout.emissions.items()}
        return self.layout.joined(tables, emissions)
