"""`MixedNetwork`: a latent graph whose probabilities are known, and some of whose leaves are numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.data.tables.numbers import Numbers
from eigentree.errors import NetworkError
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.mixed.mixed_model import MixedModel
from eigentree.inference.mixed.number_leaves import blocks_of
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.tables.rows import Rows
    from eigentree.emissions.base import Emission

__all__ = ["MixedNetwork"]


class MixedNetwork(LatentNetwork):
    """A latent graph whose probabilities are known, and some of whose leaves are numbers.

    Parameters
    ----------
    graph : LatentGraph
        Directed; a leaf that is a number has one state.
    tables : mapping
        As for `LatentNetwork`; numbers need none.
    emissions : mapping of str or tuple of str to Emission
        The distribution of each number, or group of numbers, given the joint states of its parents, the last
        parent's state fastest.
    columns : Columns, optional
        What the states of the observed variables are called, and which are numbers.
    hidden_labels : mapping of str to sequence of str or int, optional

    Raises
    ------
    NetworkError
        When an emission has other columns or states than the graph.
    """

    def __init__(
        self,
        graph: LatentGraph,
        tables: Mapping[Any, ArrayLike],
        emissions: Mapping[Any, Emission],
        columns: Columns | None = None,
        hidden_labels: Mapping[str, Sequence[Hashable]] | None = None,
    ) -> None:
        self._emissions = {
            (names,) if isinstance(names, str) else tuple(names): emission for names, emission in emissions.items()
        }
        if () in self._emissions:
            raise NetworkError("an emission is of at least one column, not of none")
        for name in chain.from_iterable(self._emissions):
            graph.require(name)
        # The emission of a category, such as ordered levels, is a table that has fewer parameters than others.
        coded = {names: each for names, each in self._emissions.items() if graph.states[names[0]] > 1}
        self.emissions = {names: each for names, each in self._emissions.items() if names not in coded}
        self.blocks = blocks_of(graph, self.emissions)
        shown = {name: _table(graph, name, emission) for (name,), emission in coded.items()}
        for block in self.blocks:
            for group in block.groups:
                emission = self.emissions[group]
                if (emission.width, emission.states) != (len(group), block.states(graph)):
                    raise NetworkError(
                        f"the emission of {', '.join(group)} has {emission.width} columns and {emission.states} "
                        f"states, but needs {len(group)} and {block.states(graph)}, those of its parents"
                    )
        numbers = {name for block in self.blocks for name in block.columns}
        for name in numbers:
            if graph.states[name] != 1:
                raise NetworkError(
                    f"{name!r} is a number, which has one state in the graph, not {graph.states[name]}"
                )
        if columns is not None and (apart := numbers ^ set(columns.numbers)):
            raise NetworkError(
                f"{', '.join(map(repr, sorted(apart)))}: columns of numbers, and they alone, have a density"
            )
        ones = {name: np.ones([*(graph.states[parent] for parent in graph.parents(name)), 1]) for name in numbers}
        super().__init__(
            graph, {**tables, **shown, **ones}, None, columns or _columns(graph, numbers), hidden_labels
        )

    @property
    def all_emissions(self) -> Mapping[tuple[str, ...], Emission]:
        """The distributions of numbers and of ordered labels, by groups of columns."""
        return self._emissions

    @property
    def _arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {
            "graph": self.graph,
            "tables": self.tables,
            "emissions": self.all_emissions,
            "columns": self.columns,
            "hidden_labels": self.hidden_labels,
        }

    def relabelled(self, orders: Mapping[str, ArrayLike]) -> MixedNetwork:
        """Return the network with the states of some hidden variables in another order."""
        discrete = super().relabelled(orders)
        emissions: dict[Any, Emission] = {}
        for group, emission in self.all_emissions.items():
            parents = self.graph.parents(group[0])
            sizes = [self.graph.states[name] for name in parents]
            own = [np.asarray(orders.get(name, range(size))) for name, size in zip(parents, sizes, strict=True)]
            order: Integers = np.arange(emission.states)
            if sizes:
                order = order.reshape(sizes)[np.ix_(*own)].ravel()
            emissions[group] = emission.permuted(order)
        return type(self)(self.graph, discrete.tables, emissions, self.columns, discrete.hidden_labels)

    @cached_property
    def measurement(self) -> LatentNetwork:
        """The network without covariates: hidden variables that depend on some have their shares."""
        conditions = {name for group, own in self.emissions.items() if own.conditions for name in group}
        if not conditions:
            return self
        graph = LatentGraph(
            {name: count for name, count in self.graph.states.items() if name not in conditions},
            [edge for edge in self.graph.edges if not conditions & set(edge)],
            self.graph.hidden,
        )
        tables = {name: table for name, table in self.tables.items() if name in graph.states}
        emissions = {group: each for group, each in self.all_emissions.items() if not conditions & set(group)}
        columns = self.columns.only(graph.observed)
        if emissions:
            return type(self)(graph, tables, emissions, columns, self.hidden_labels)
        return LatentNetwork(graph, tables, None, columns, self.hidden_labels)

    @property
    def labeled_tables(self) -> dict[Any, LabeledTable]:
        """The tables with their axes and states named; of a number mean and standard deviation in each state."""
        found: dict[Any, LabeledTable] = {}
        for name in self.measurement.graph.names:
            parents = self.graph.parents(name)
            axes, labels = [*parents], [self.labels(parent) for parent in parents]
            if name in self.columns.numbers:
                group = next(group for group in self.emissions if name in group)
                axis, numbers, shown = self.emissions[group].summary(group.index(name))
                by_state = shown.reshape(*(self.graph.states[parent] for parent in parents), -1)
                found[name] = LabeledTable(by_state, [*axes, axis], [*labels, numbers])
            else:
                found[name] = LabeledTable(self.tables[name], [*axes, name], [*labels, self.labels(name)])
        return TablesByName(found.items())

    @property
    def n_parameters(self) -> int:
        """How many parameters are free, those of numbers included."""
        free = super().n_parameters
        for group, emission in self.all_emissions.items():
            table = emission.states * (self.graph.states[group[0]] - 1)
            free += emission.n_parameters - table
        return free

    @cached_property
    def model(self) -> MixedModel:
        """The model in codes and values."""
        discrete = (self.graph, self.operators, self.tree, self._conditional)
        return MixedModel(*discrete, self, self.blocks, self.emissions)

    def evidence(
        self, rows: Rows, cells: int, revealed: Collection[str] = ()
    ) -> Iterator[tuple[slice, LatentNetwork, Codes, Floats]]:
        """Yield rows as rows of a discrete network: where they stand, it, their codes, and their log scales."""
        for part, known, _ in self.model.evidence(rows, revealed=revealed):
            yield part, known.network, known.codes, known.log_scale


def _table(graph: LatentGraph, name: str, emission: Any) -> Floats:
    shape = [*(graph.states[parent] for parent in graph.parents(name)), graph.states[name]]
    return np.asarray(emission.table).reshape(shape)


def _columns(graph: LatentGraph, numbers: set[str]) -> Columns:
    plain = Columns.of(graph)
    # Nothing is known of their range or resolution.
    meanings = [
        Numbers("continuous", False, -math.inf, math.inf, 0.0) if name in numbers else None for name in plain.names
    ]
    return replace(plain, meanings=tuple(meanings))
