"""Conditional training of models, with the class of rows, or the labels of steps, as one more column."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.data.tables.weights import positive_weights
from eigentree.em.conditional.class_network import ClassNetwork, layout_of
from eigentree.em.conditional.conditional_fit import ClassRows, fit_conditional
from eigentree.em.conditional.labelled_sequences import (
    LabelledSequences,
    WeighedSequences,
    joined_chains,
    parted_chains,
)
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.mixed.mixed_objective import MixedLayout
from eigentree.em.mixed.number_columns import NumberColumns
from eigentree.em.number_chains import NumberChainLayout, layout_of_chain
from eigentree.errors import ParameterError, quoted
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.fits.given_tables import allowed_transitions
from eigentree.estimators.fits.known_states import StepLabels, with_labels, without_known_states
from eigentree.estimators.mixins.constructor_parameters import with_attributes
from eigentree.estimators.mixins.iterative_mixin import warn_not_converged
from eigentree.estimators.mixture_hmm import MixtureHMM
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.validation import as_float, generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.rows import Rows
    from eigentree.em.conditional.conditional_fit import ConditionalFit, LabelledData
    from eigentree.em.parameters import ParameterLayout
    from eigentree.estimators.classification.class_column import ClassColumn
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.validation import Seed

__all__ = ["Training", "checked_training"]

WORDS = {"generative": 0.0, "conditional": 1.0}
"""The weight of the conditional likelihood by name."""


class Training(NamedTuple):
    """How models are trained: weight of the conditional likelihood, penalty, and seed of held-out rows."""

    weight: float
    alpha: float | Literal["auto"]
    random_state: Seed

    def require_graph(self, structure: Any) -> None:
        """Raise an error unless the models of all classes have one directed graph."""
        if not (isinstance(structure, LatentGraph) and structure.directed):
            raise ParameterError(
                "conditional training of one model per class needs one directed graph for all classes; give a "
                "graph or a template such as zoo.Mixture() as the estimator's structure, or class_as='column'"
            )

    def of_models(
        self, models: Sequence[Any], rows: Rows, classes: Integers, weights: Floats | None, prior: Floats
    ) -> dict[str, Any]:
        """Return the fitted attributes after conditional training of one model for each class."""
        whole = ClassNetwork.of([model.network_ for model in models])
        found = self._fitted(models, whole.layout, whole.vector(prior), whole.target, rows, weights, classes)
        networks, shares = whole.parted(found.parameters)
        trained = [with_attributes(each, network_=own) for each, own in zip(models, networks, strict=True)]
        return {"estimators_": trained, "class_prior_": shares, **_chosen(found)}

    def of_column(self, model: Any, column: ClassColumn, rows: Rows, weights: Floats | None) -> dict[str, Any]:
        """Return the fitted attributes after conditional training of one model with the class as a column."""
        network = model.network_
        layout = layout_of(network.graph, network.all_emissions)
        start: Any = layout.vector(network)
        found = self._fitted([model], layout, start, column.name, rows, weights)
        trained = layout.network(found.parameters).with_columns(network.columns)
        return {"estimator_": with_attributes(model, network_=trained), **_chosen(found)}

    def of_sequences(
        self, models: Sequence[Any], sequences: Sequences, classes: Integers, weights: Floats | None, prior: Floats
    ) -> dict[str, Any]:
        """Return the fitted attributes after conditional training of one hidden Markov model for each class."""
        # The first state of a sequence is one of its class, and so are all others.
        codes, filled = np.full(sequences.steps, len(models)), sequences.lengths > 0
        codes[sequences.starts[:-1][filled]] = classes[filled]
        whole = joined_chains([model.model_ for model in models], prior)
        chain, found = self._of_chain(models[0], whole, sequences, StepLabels(codes, len(models)), weights)
        chains, shares = parted_chains(chain, len(models))
        trained = [with_attributes(each, model_=own) for each, own in zip(models, chains, strict=True)]
        return {"estimators_": trained, "class_prior_": shares, **_chosen(found)}

    def of_labels(
        self, model: Any, sequences: Sequences, labels: StepLabels, weights: Floats | None
    ) -> dict[str, Any]:
        """Return the fitted attributes after conditional training of a hidden Markov model of labels of steps."""
        chain, found = self._of_chain(model, model.model_, sequences, labels, weights)
        return {"estimator_": with_attributes(model, model_=chain), **_chosen(found)}

    def _of_chain(
        self, pattern: Any, chain: Chain, sequences: Sequences, labels: StepLabels, weights: Floats | None
    ) -> tuple[Chain, ConditionalFit]:
        """Return a chain each of whose labels stands for as many states, after conditional training."""
        wide, size = with_labels(sequences, labels), chain.states // labels.labels
        shown = np.repeat(np.eye(labels.labels), size, axis=0)
        states = pattern.hidden_states
        (allowed,) = allowed_transitions(pattern.transitions, [states])
        allowed = np.kron(np.eye(chain.states // states, dtype=np.bool_), allowed)
        labelled = replace(chain, columns=wide.columns, emissions=(*chain.emissions, shown))
        layout, start = layout_of_chain(labelled, (allowed,), known_states=True)
        rows = WeighedSequences(wide, positive_weights(weights, wide.count))
        how = (float(pattern.pseudo_counts), layout, float(pattern.sticky), pattern.n_jobs)
        found = self._trained(pattern, LabelledSequences(rows, *how), start)
        numbers = layout.numbered(found.parameters) if isinstance(layout, NumberChainLayout) else None
        made = Chain.of(wide.columns, *layout.parts(found.parameters), numbers)
        return without_known_states(made, sequences), found

    def _fitted(
        self,
        models: Sequence[Any],
        layout: ParameterLayout | MixedLayout,
        start: Floats,
        target: str,
        rows: Rows,
        weights: Floats | None,
        classes: Integers | None = None,
    ) -> ConditionalFit:
        """Return the conditional fit from the parameters of models; `classes`, if given, are the first column."""
        network, pattern = models[0].network_, models[0]
        given = positive_weights(weights, rows.count)
        names: tuple[str, ...] = ()
        every: Any
        if isinstance(layout, MixedLayout):
            numbers = _numbers(network, rows.columns)
            names, every = numbers.names, numbers.read(rows, given)
            every = every._replace(codes=_with_class(every.codes, classes, every.first)).distinct().by_value()
        else:
            codes = _with_class(rows.encode(), classes)
            every = DistinctRows.of(codes, [layout.graph.states[name] for name in layout.graph.observed], given)
        missing = columns_with_missing(every.codes, layout.graph)
        pseudo_counts = max(model.pseudo_counts_ for model in models)
        read = ClassRows(every, pseudo_counts, layout, names, target, missing, pattern.n_jobs)
        return self._trained(pattern, read, start)

    def _trained(self, pattern: Any, data: LabelledData, start: Floats) -> ConditionalFit:
        """Return the conditional fit to data, from the parameters of the generative one."""
        random = generator(pattern.random_state if self.random_state is None else self.random_state)
        found = fit_conditional(data, start, self.weight, self.alpha, pattern.max_iter, random)
        warn_not_converged(found.converged, pattern.max_iter)
        return found


def checked_training(training: Any, alpha: Any, pattern: Any, random_state: Seed) -> Training | None:
    """Return how models are trained, or None where that is by generative training alone."""
    weight = WORDS.get(training, np.nan) if isinstance(training, str) else as_float(training)
    if not 0.0 <= weight <= 1.0:
        raise ParameterError(
            f"training is 'generative', 'conditional', or the weight of the conditional likelihood, from 0 to 1, "
            f"not {quoted(training)}"
        )
    if not (isinstance(alpha, str) and alpha == "auto") and not as_float(alpha) >= 0.0:
        raise ParameterError(f"alpha is 'auto' or a number of at least 0, not {quoted(alpha)}")
    if weight == 0.0:
        return None
    # A mixture of hidden Markov models is one whose transitions say more.
    if not isinstance(pattern, EMJunctionTree | EMHMM) or isinstance(pattern, MixtureHMM):
        raise ParameterError(
            f"conditional training moves the tables of an EMJunctionTree or an EMHMM; {type(pattern).__name__} is "
            f"trained with training='generative' only"
        )
    held = ("fixed", "equal") if isinstance(pattern, EMJunctionTree) else ("start", "durations")
    if any(getattr(pattern, name) is not None for name in held):
        raise ParameterError(
            f"conditional training moves all tables; leave {' and '.join(held)} of the estimator out"
        )
    if isinstance(getattr(pattern, "hidden_states", 1), list | tuple):
        raise ParameterError("conditional training is of one hidden chain; give hidden_states as one number")
    return Training(weight, "auto" if isinstance(alpha, str) else float(alpha), random_state)


def _chosen(found: ConditionalFit) -> dict[str, Any]:
    return {"alpha_": found.alpha, "tried_": found.tried}


def _numbers(network: LatentNetwork, columns: Columns) -> NumberColumns:
    """Return the columns of a network that have an emission."""
    every = network.all_emissions
    coded = tuple(name for group in every for name in group if name not in columns.numbers)
    return NumberColumns(columns, {group: each.family for group, each in every.items()}, coded)


def _with_class(codes: Codes, classes: Integers | None, rows: Integers | None = None) -> Codes:
    """Return codes with the classes of all rows, or of some, as their first column."""
    if classes is None:
        return codes
    return np.asfortranarray(np.column_stack([classes if rows is None else classes[rows], codes]))
