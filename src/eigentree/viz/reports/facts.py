"""All facts of a report, computed once: what the model is, how it was learned, and how it does on rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eigentree.errors import DataError
from eigentree.estimators.dependencies import dependencies, edge_strengths
from eigentree.estimators.profiles import profiles
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.viz.diagrams import edge_ranks, graph_diagram, tree_diagram
from eigentree.viz.model_charts import state_sequence_chart
from eigentree.viz.reports.anomalies import anomalies
from eigentree.viz.reports.baselines import likelihoods_of
from eigentree.viz.reports.masked_cells import masked_accuracy

if TYPE_CHECKING:
    from eigentree.estimators.dependencies import Link
    from eigentree.estimators.profiles import Profile
    from eigentree.markup.charts import Chart
    from eigentree.viz.diagrams import Diagram
    from eigentree.viz.reports.adapters import ModelAdapter
    from eigentree.viz.reports.anomalies import Anomaly
    from eigentree.viz.reports.baselines import Likelihoods
    from eigentree.viz.reports.evaluation_data import EvaluationData
    from eigentree.viz.reports.masked_cells import MaskedAccuracy

__all__ = ["Facts", "facts_of"]

MOST_PAIRED = 400
"""Most columns for which mutual information of all pairs is computed."""

MOST_SEQUENCES = 200
"""Sequences whose states are drawn."""


@dataclass(frozen=True, eq=False)
class Facts:
    """All facts of a report.

    Attributes
    ----------
    adapter : ModelAdapter
        The model, its columns, and how it was learned.
    graph, tree : Diagram
        The graph and its junction tree.
    pairs : tuple of Link
        Columns with the largest mutual information, where tables are known; the largest first.
    profiles : tuple of Profile
        Of hidden variables, where tables are known; the most informative first.
    data : EvaluationData or None
        The rows or sequences that were given; without any, what follows is None or empty.
    likelihoods, masked, anomalies, states
        What is known from them.
    """

    adapter: ModelAdapter
    graph: Diagram
    tree: Diagram
    pairs: tuple[Link, ...]
    profiles: tuple[Profile, ...]
    data: EvaluationData | None
    likelihoods: Likelihoods | None = None
    masked: MaskedAccuracy | None = None
    anomalies: tuple[Anomaly, ...] = ()
    states: Chart | None = None


def facts_of(adapter: ModelAdapter, data: EvaluationData | None, training: EvaluationData | None) -> Facts:
    """Return all facts of a report.

    Parameters
    ----------
    adapter : ModelAdapter
    data : EvaluationData or None
        The rows that the model is evaluated on.
    training : EvaluationData or None
        Rows that baselines are fitted to.
    """
    network, graph = adapter.network, adapter.graph
    strengths: dict[tuple[str, str], float] = {}
    pairs: tuple[Link, ...] = ()
    found: tuple[Profile, ...] = ()
    if network is not None:
        strengths = edge_strengths(network)
        found = tuple(sorted(_profiles(adapter, data), key=lambda profile: -sum(profile.nats)))
        if not adapter.steps and 1 < len(graph.observed) <= MOST_PAIRED:
            pairs = tuple(dependencies(network).columns[:10])
    drawn = graph_diagram(graph, strengths), tree_diagram(JunctionTree.of(graph), edge_ranks(adapter.model))
    facts = Facts(adapter, *drawn, pairs, found, data)
    if data is None:
        return facts
    states = None
    if found and adapter.steps and len(data.codes):
        states = state_sequence_chart(adapter.model.model_, data.sequences, None, MOST_SEQUENCES)
    return replace(
        facts,
        likelihoods=likelihoods_of(data, training),
        masked=masked_accuracy(data),
        anomalies=anomalies(data),
        states=states,
    )


def _profiles(adapter: ModelAdapter, data: EvaluationData | None) -> list[Profile]:
    """Return profiles; those of sequences by the posterior of the given data, else as the model implies them."""
    if data is not None and adapter.steps:
        try:
            return list(profiles(adapter.model, X=data.sequences).values())
        except DataError:
            # No step is possible under the model; each profile says what its shares are shares of.
            pass
    return list(profiles(adapter.model).values())
