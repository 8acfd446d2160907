"""What a report needs of any fitted model: its columns, a graph to draw, and the tables behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigentree.errors import ParameterError, quoted
from eigentree.estimators.classification.classifier import JunctionTreeClassifier
from eigentree.estimators.dependencies import network_of
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.imputer import JunctionTreeImputer
from eigentree.estimators.mixins.density_mixin import DensityMixin
from eigentree.estimators.mixins.latent_mixin import LatentMixin
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin
from eigentree.estimators.spectral_hmm import SpectralHMM
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.structure_learning import mixed_tree
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from eigentree.data.tables.columns import Columns

__all__ = ["ModelAdapter", "adapter_of"]


@dataclass(frozen=True, eq=False)
class ModelAdapter:
    """A model that is reported on.

    Attributes
    ----------
    model : LatentNetwork, or a fitted estimator
    columns : Columns
    graph : LatentGraph
        What is drawn: of a mixture of trees one of them, of a model of sequences some steps.
    network : LatentNetwork or None
        The tables of what is drawn, or of the mixture that it is part of; None where there are none.
    mixed : int
        How many trees are mixed; 0 where none are.
    steps : int
        How many steps of a model of sequences are drawn; 0 for one of rows.
    """

    model: Any
    columns: Columns
    graph: LatentGraph
    network: LatentNetwork | None
    mixed: int = 0
    steps: int = 0

    @property
    def unit(self) -> str:
        """What it is a model of: rows, or sequences."""
        return "sequence" if self.steps else "row"

    @property
    def hidden(self) -> dict[str, int]:
        """The hidden variables of what is drawn, and how many states each has."""
        return {name: self.graph.states[name] for name in self.graph.hidden}

    @property
    def fit(self) -> Any:
        """The estimator's ``report_``; None where nothing was fitted."""
        return None if isinstance(self.model, LatentNetwork) else self.model.report_

    @property
    def parameters(self) -> int | None:
        """How many free parameters there are, where that is known."""
        return self.model.n_parameters if self.fit is None else getattr(self.fit, "parameters", None)


def adapter_of(model: object) -> ModelAdapter:
    """Return what a report needs of a model.

    Raises
    ------
    ParameterError
        When it is no model, or a classifier, which holds several.
    NotFittedError
        When it was not fitted.
    """
    if isinstance(model, JunctionTreeImputer | JunctionTreeClassifier) and "estimator_" in vars(model):
        return adapter_of(model.estimator_)
    if isinstance(model, JunctionTreeClassifier):
        raise ParameterError(
            "a classifier holds one model per class, and a report is about one model; report each of its "
            "estimators_ with the rows of its class, or fit with class_as='column'"
        )
    if isinstance(model, LatentNetwork | LatentMixin):
        network = network_of(model)
        columns = model.columns if isinstance(model, LatentNetwork) else model.columns_
        tree, which = mixed_tree(network.graph)
        return ModelAdapter(model, columns, tree, network, network.graph.states[which] if which else 0)
    if isinstance(model, DensityMixin):
        graph = model.graph_
        return ModelAdapter(model, model.columns_, graph, None)
    if isinstance(model, SequenceMixin):
        return _of_sequences(model)
    raise ParameterError(f"a report is about a LatentNetwork or a fitted estimator, not {quoted(model)}")


def _of_sequences(model: SequenceMixin) -> ModelAdapter:
    # Whatever depends on a fit says so where there was none.
    assert model.n_features_in_
    assert isinstance(model, EMHMM | SpectralHMM)
    steps = model.order + 2
    if isinstance(model, EMHMM):
        network = model.to_network(steps)
        return ModelAdapter(model, model.columns_, network.graph, network, steps=steps)
    # The graph of some steps of a chain, named as the networks of chains are.
    states: dict[str, int] = {}
    edges: list[tuple[str, str]] = []
    for step in range(steps):
        states[f"h{step}"] = model.hidden_states
        edges += [(f"h{before}", f"h{step}") for before in range(max(0, step - model.order), step)]
        for name, count in zip(model.columns_.names, model.columns_.states, strict=True):
            shown = f"x{step}" if len(model.columns_.names) == 1 and not model.columns_.named else f"{name}_{step}"
            states[shown] = count
            edges.append((f"h{step}", shown))
    graph = LatentGraph(states, edges, [f"h{step}" for step in range(steps)], directed=True)
    return ModelAdapter(model, model.columns_, graph, None, steps=steps)
