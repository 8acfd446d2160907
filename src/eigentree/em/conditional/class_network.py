"""The networks of all classes as one, in which every variable depends on the class; and back again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.mixed.mixed_objective import MixedLayout
from eigentree.em.parameters import ParameterLayout
from eigentree.emissions.base import stacked
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.templates import apart
from eigentree.inference.mixed.mixed_network import MixedNetwork
from eigentree.inference.mixed.number_leaves import blocks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.emissions.base import Emission
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["ClassNetwork", "layout_of"]


@dataclass(frozen=True, eq=False)
class ClassNetwork:
    """The networks of all classes on one directed graph, and the share of each class, as one vector of parameters.

    `graph` has the class as its first column, the parent of everything.
    """

    networks: Sequence[LatentNetwork]
    graph: LatentGraph
    target: str
    layout: ParameterLayout | MixedLayout

    @classmethod
    def of(cls, networks: Sequence[LatentNetwork]) -> ClassNetwork:
        """Return the networks of classes as one."""
        own = networks[0].graph
        (target,) = apart(["class"], own.states)
        edges = [*((target, name) for name in own.names), *own.edges]
        graph = LatentGraph({target: len(networks), **own.states}, edges, own.hidden)
        emissions = {
            group: stacked([network.all_emissions[group] for network in networks])
            for group in networks[0].all_emissions
        }
        return cls(networks, graph, target, layout_of(graph, emissions))

    @cached_property
    def _own(self) -> LatentGraph:
        """The graph of each class, in which a column with an emission has one state."""
        own = self.networks[0].graph
        return own.with_states({name: self.layout.graph.states[name] for name in own.names})

    def vector(self, shares: Floats) -> Floats:
        """Return the parameters, given the share of each class."""
        tables: dict[str, Floats] = {self.target: shares}
        for name in self._own.names:
            each = [network.tables[name] for network in self.networks]
            if any(name in group for group in self.networks[0].all_emissions):
                each = [np.ones((*table.shape[:-1], 1)) for table in each]
            tables[name] = np.stack(each)
        return self._joined(tables)

    @property
    def _tables(self) -> ParameterLayout:
        return self.layout.tables if isinstance(self.layout, MixedLayout) else self.layout

    def _joined(self, tables: Mapping[str, Floats]) -> Floats:
        layout = self.layout
        vector = np.concatenate([tables[key[0]].ravel() for key in self._tables.axes])
        return layout.joined(vector, layout.emissions) if isinstance(layout, MixedLayout) else vector

    def parted(self, parameters: Floats) -> tuple[list[LatentNetwork], Floats]:
        """Return the network of each class, and the shares of the classes."""
        emissions: Mapping[tuple[str, ...], Any] = {}
        vector, layout = parameters, self.layout
        if isinstance(layout, MixedLayout):
            vector, emissions = layout.split(parameters)
        tables = {key[0]: table for key, table in self._tables.tables(vector).items()}
        shares = np.array(tables.pop(self.target))
        found: list[LatentNetwork] = []
        for place, network in enumerate(self.networks):
            own: dict[Any, Floats] = {name: table[place] for name, table in tables.items()}
            if not emissions:
                found.append(network.changed(tables=own))
                continue
            shown = {name for group in emissions for name in group}
            own = {name: table for name, table in own.items() if name not in shown}
            parts: dict[Any, Emission] = {group: each.parts[place] for group, each in emissions.items()}
            found.append(MixedNetwork(network.graph, own, parts, network.columns, network.hidden_labels))
        return found, shares


def layout_of(graph: LatentGraph, emissions: Mapping[tuple[str, ...], Emission]) -> ParameterLayout | MixedLayout:
    """Return where the parameters of a network stand; columns with emissions have one state there."""
    if not emissions:
        return ParameterLayout.of(graph)
    plain = graph.with_states({name: 1 for group in emissions for name in group})
    return MixedLayout(ParameterLayout.of(plain), blocks_of(plain, emissions), emissions)
