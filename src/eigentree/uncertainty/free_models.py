"""Fitted models of tables, numbers and sequences along free coordinates: what their standard errors come from."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.inputs import InputSequences
from eigentree.em.chain_fit import ChainLayout
from eigentree.em.constraints import ConstrainedLayout, Constraints
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.mixed.mixed_objective import MixedLayout, MixedObjective
from eigentree.em.mixed.mixed_rows import distinct_rows
from eigentree.em.mixed.number_columns import NumberColumns
from eigentree.em.number_chains import (
    NumberChainLayout,
    NumberChainObjective,
    chain_objective,
    layout_of_chain,
)
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective
from eigentree.emissions.covariates.membership import Membership
from eigentree.errors import DataError
from eigentree.inference.mixed.number_leaves import blocks_of
from eigentree.inference.sequences.duration_chain import DurationChain
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.tree_chain import TreeChain, pass_of
from eigentree.uncertainty.free_durations import DurationModel, duration_objective
from eigentree.uncertainty.free_inputs import InputModel, input_objective
from eigentree.uncertainty.free_tables import FreeTables
from eigentree.uncertainty.information import FreeModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.rows import Rows
    from eigentree.em.optimize.objective import Objective, SimplexVector
    from eigentree.emissions.base import Emission
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.uncertainty.refits import FittedModel

__all__ = ["ObjectiveModel", "free_model"]


@dataclass(frozen=True, eq=False)
class ObjectiveModel(FreeModel):
    """A fitted model whose parameters are tables and emissions, those of an `Objective` of EM.

    Attributes
    ----------
    layout : SimplexVector
        Where parameters stand.
    covariates : array, shape (data, columns)
        What class membership depends on.
    """

    layout: SimplexVector = field(kw_only=True)
    covariates: Floats | None = None

    @cached_property
    def parts(self) -> list[FreeTables]:
        """The coordinates of the tables."""
        own, (tables,), (counts,) = self.layout.table_layout, self.estimates, self.here[0]
        equal = own.first_equal if isinstance(own, ConstrainedLayout) else None
        return [FreeTables.of(own.lengths, tables, self.layout.estimated, counts, self.objective.prior, equal)]

    def expected(self, values: list[Floats], emissions: Sequence[Any]) -> tuple[list[Floats], list[Floats]]:
        """Return expected counts of the tables' entries, and statistics of emissions."""
        found, statistics = self.objective.expected_parts(values[0], emissions)
        return [found.counts], statistics

    def moved(self, values: list[Floats], emissions: list[Emission]) -> Any:
        """Return the fitted estimator with other tables and emissions."""
        vector = self.objective.whole(values[0], [self._with_shares(own) for own in emissions])
        made, layout = copy(self.model), self.layout
        if isinstance(layout, ChainLayout):
            numbers = layout.numbered(vector) if isinstance(layout, NumberChainLayout) else None
            chain = Chain.of(self.data.columns, *layout.parts(vector), numbers)
            made.model_ = TreeChain.of_plain(chain) if isinstance(self.model.model_, TreeChain) else chain
        elif isinstance(layout, ParameterLayout | MixedLayout):
            old = self.model.network_
            made.network_ = layout.network(vector).changed(columns=old.columns, hidden_labels=old.hidden_labels)
        return made

    def _with_shares(self, emission: Emission) -> Emission:
        """Return an emission; of class membership with the shares of the classes that follow for these rows."""
        if not isinstance(emission, Membership):
            return emission
        assert self.covariates is not None
        shares = self.totals @ np.exp(emission.log_proba(emission.features(self.covariates))) / self.totals.sum()
        return replace(emission, shares=np.asarray(shares))


def free_model(fitted: FittedModel) -> FreeModel:
    """Return a fitted model along its free coordinates; hidden states of averages of fits have no such."""
    if not (fitted.weights > 0).any():
        raise DataError("no row counts, so there is nothing to learn from")
    if fitted.network is None:
        return _of_chain(fitted, fitted.data)  # type: ignore[arg-type]
    return _of_network(fitted, fitted.data, fitted.network)  # type: ignore[arg-type]


def _of_network(fitted: FittedModel, rows: Rows, network: LatentNetwork) -> FreeModel:
    model, columns = fitted.model, rows.columns
    emissions, threads = network.all_emissions, model.n_jobs
    pseudo_counts = float(vars(model).get("pseudo_counts_", model.pseudo_counts))
    constraints = Constraints(getattr(model, "fixed", None), getattr(model, "equal", None))
    codes, values = rows.encode(), rows.values()
    complete, about = fitted.weights > 0, []
    for group, emission in emissions.items():
        if emission.conditions:
            about = [columns.position(name) for name in group]
            complete &= ~np.any([rows.missing(place) for place in about], axis=0)
    used = np.flatnonzero(complete)
    first, places = distinct_rows(codes[used], values[used])
    every = np.full(rows.count, -1)
    every[used] = places
    numbered = columns.number_places
    cells = [values[:, numbered.index(place)] if place in numbered else codes[:, place] for place in about]
    covariates = np.column_stack(cells)[used[first]].astype(np.float64) if about else None
    distinct, totals = rows.taken(used[first]), np.bincount(places, fitted.weights[used]).astype(np.float64)
    objective: Objective
    layout: ParameterLayout | MixedLayout
    if emissions:
        families = {group: {"family": own.family} for group, own in emissions.items()}
        numbers = NumberColumns.of(columns, families)
        graph = numbers.graph(network.graph)
        tables = constraints.layout(graph, columns, numbers.names) or ParameterLayout.of(graph)
        blocks = blocks_of(graph, emissions)
        layout = MixedLayout(tables, blocks, {group: emissions[group] for each in blocks for group in each.groups})
        read = numbers.read(distinct, totals)
        objective = MixedObjective.of(layout, numbers.names, read, numbers.missing(read), pseudo_counts, threads)
        parameters = layout.vector(network)  # type: ignore[arg-type]
    else:
        graph, constrained = network.graph, constraints.layout(network.graph, columns)
        layout = constrained or ParameterLayout.of(graph)
        own = DistinctRows(np.asfortranarray(codes[used[first]]), totals, first)
        missing = columns_with_missing(own.codes, graph)
        objective = TreeObjective.of(graph, own, missing, pseudo_counts, threads, constrained=constrained)
        parameters = layout.vector(network)
    known = (model, distinct, fitted.weights, every, objective, *_parted(objective, parameters))
    return ObjectiveModel(*known, layout=layout, covariates=covariates)


def _of_chain(fitted: FittedModel, sequences: Sequences) -> FreeModel:
    model, chain = fitted.model, fitted.model.model_
    known = (model, *used_sequences(sequences, fitted.weights))
    if isinstance(sequences, InputSequences):
        objective: Any = input_objective(model, sequences, fitted.weights)
        arrays = [table.array for _, table in chain.tables.named(chain.columns.names)]
        return InputModel(*known, objective, arrays, list(chain.numbers.values()), "sequence")
    every = tuple(np.ones((size, size), np.bool_) for size in chain.sizes)
    starts = () if getattr(model, "start", None) is None else tuple(links[0] for links in chain.chains)
    layout, parameters = layout_of_chain(chain, every, starts)
    if isinstance(chain, DurationChain):
        objective, parameters = duration_objective(model, sequences, fitted.weights, layout, parameters)
        (tables, emissions), durations = objective.layout.split(parameters), objective.layout.durations(parameters)
        return DurationModel(*known, objective, [tables, durations], emissions, "sequence")
    prior = layout.prior(float(model.pseudo_counts), float(getattr(model, "sticky", 0.0)))
    if isinstance(chain, TreeChain):
        layout = numbered = NumberChainLayout.of(layout, chain.numbers)
        walk = pass_of(sequences, fitted.weights, chain.numbers, model.n_jobs)
        objective = NumberChainObjective(numbered, walk, prior)
    else:
        objective = chain_objective(layout, sequences, fitted.weights, prior, model.n_jobs)
    return ObjectiveModel(*known, objective, *_parted(objective, parameters), "sequence", layout=layout)


def _parted(objective: Objective, parameters: Floats) -> tuple[list[Floats], Sequence[Emission]]:
    tables, emissions = objective.parted(parameters)
    return [tables], emissions


def used_sequences(sequences: Sequences, weights: Floats) -> tuple[Sequences, Floats, Integers]:
    """Return the sequences that count and are not empty, the weights of all, and which of them each is."""
    used = np.flatnonzero((weights > 0) & (sequences.lengths > 0))
    places = np.full(sequences.count, -1)
    places[used] = np.arange(len(used))
    return sequences.chosen(used), weights, places
