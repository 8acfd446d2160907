"""All facts of a report, computed once: what the model is, how it was learned, and how it does on rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import eigentree
from eigentree.errors import EigentreeError
from eigentree.estimators.dependencies import dependencies, edge_strengths
from eigentree.estimators.profiles import profiles
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.inference.networks.network import LatentNetwork
from eigentree.viz.diagrams import edge_ranks, graph_diagram, tree_diagram
from eigentree.viz.reports.anomalies import anomalies
from eigentree.viz.reports.likelihoods import likelihoods_of
from eigentree.viz.reports.masked_cells import masked_accuracy
from eigentree.viz.state_sequences import state_sequence_chart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.estimators.dependencies import Link
    from eigentree.estimators.profiles import Profile
    from eigentree.markup.charts import Chart
    from eigentree.viz.diagrams import Diagram
    from eigentree.viz.reports.adapters import ModelAdapter
    from eigentree.viz.reports.anomalies import Anomaly
    from eigentree.viz.reports.evaluation_data import EvaluationData, UnseenLabel
    from eigentree.viz.reports.likelihoods import Likelihoods
    from eigentree.viz.reports.masked_cells import MaskedAccuracy

__all__ = ["DataFacts", "Facts", "facts_of"]

MOST_PAIRED = 400
"""Most columns all pairs of which are looked at."""

MOST_SEQUENCES = 200
"""Sequences whose states are drawn."""


@dataclass(frozen=True)
class DataFacts:
    """What is known of the rows that were given.

    Attributes
    ----------
    count : int
        Rows, or sequences.
    steps : int or None
        Steps of sequences.
    cells, missing : int
        All cells, and those that are missing, unseen labels among them.
    by_column : tuple of (str, int)
        Missing cells of each column that has some, most first.
    unseen : tuple of UnseenLabel
        Labels that the model never saw.
    """

    count: int
    steps: int | None
    cells: int
    missing: int
    by_column: tuple[tuple[str, int], ...]
    unseen: tuple[UnseenLabel, ...]


@dataclass(frozen=True, eq=False)
class Facts:
    """All facts of a report.

    Attributes
    ----------
    kind : str
        What the model is, as its class is called.
    unit : {"row", "sequence"}
    columns : tuple of (str, int)
        The columns, or channels, and how many states each has.
    hidden : mapping of str to int
        Hidden variables of what is drawn, and how many states each has.
    mixed : int
        How many trees are mixed; 0 where none are.
    steps : int
        How many steps of a model of sequences are drawn; 0 for one of rows.
    graph, tree : Diagram
        The graph and its junction tree.
    pairs : tuple of Link
        Columns with the largest mutual information, where tables are known; the largest first.
    profiles : tuple of Profile
        Of hidden variables, where tables are known; the most informative first.
    fit : object or None
        The estimator's ``report_``.
    parameters : int or None
        Free parameters, where they are known.
    data, likelihoods, masked, anomalies, states
        What is known from rows; None, or empty, without any.
    version : str
        That of the package.
    """

    kind: str
    unit: str
    columns: tuple[tuple[str, int], ...]
    hidden: Mapping[str, int]
    mixed: int
    steps: int
    graph: Diagram
    tree: Diagram
    pairs: tuple[Link, ...]
    profiles: tuple[Profile, ...]
    fit: Any
    parameters: int | None
    data: DataFacts | None
    likelihoods: Likelihoods | None
    masked: MaskedAccuracy | None
    anomalies: tuple[Anomaly, ...]
    states: Chart | None
    version: str


def facts_of(adapter: ModelAdapter, given: EvaluationData | None, training: EvaluationData | None) -> Facts:
    """Return all facts of a report.

    Parameters
    ----------
    adapter : ModelAdapter
    given : EvaluationData or None
        The rows that the model is evaluated on.
    training : EvaluationData or None
        Rows that baselines are fitted to.
    """
    model, network, graph = adapter.model, adapter.network, adapter.graph
    paired = network is not None and not adapter.steps and 1 < len(graph.observed) <= MOST_PAIRED
    fit = None if isinstance(model, LatentNetwork) else model.report_
    found = () if network is None else _profiles(adapter, given)
    return Facts(
        kind=type(model).__name__,
        unit=adapter.unit,
        columns=tuple(zip(adapter.columns.names, adapter.columns.states, strict=True)),
        hidden={name: graph.states[name] for name in graph.hidden},
        mixed=adapter.mixed,
        steps=adapter.steps,
        graph=graph_diagram(graph, {} if network is None else edge_strengths(network)),
        tree=tree_diagram(JunctionTree.of(graph), edge_ranks(model)),
        pairs=tuple(dependencies(network).columns[:10]) if paired and network is not None else (),
        profiles=tuple(sorted(found, key=lambda profile: -sum(profile.nats))),
        fit=fit,
        parameters=model.n_parameters if fit is None else getattr(fit, "parameters", None),
        data=None if given is None else _data(given),
        likelihoods=None if given is None else likelihoods_of(given, training),
        masked=None if given is None else masked_accuracy(given),
        anomalies=() if given is None else anomalies(given),
        states=_states(adapter, given) if found and given is not None and adapter.steps else None,
        version=eigentree.__version__,
    )


def _profiles(adapter: ModelAdapter, given: EvaluationData | None) -> tuple[Profile, ...]:
    if given is None or not adapter.steps:
        return tuple(profiles(adapter.model).values())
    try:
        return tuple(profiles(adapter.model, X=given.sequences).values())
    except EigentreeError:
        # No sequence is possible under the model, so what it implies has to do.
        return tuple(profiles(adapter.model).values())


def _states(adapter: ModelAdapter, given: EvaluationData) -> Chart | None:
    return (
        state_sequence_chart(adapter.model.model_, given.sequences, None, MOST_SEQUENCES)
        if len(given.codes)
        else None
    )


def _data(given: EvaluationData) -> DataFacts:
    missing = given.missing
    counts = missing.sum(axis=0).tolist()
    by_column = [(name, count) for name, count in zip(given.columns.names, counts, strict=True) if count]
    return DataFacts(
        count=given.count,
        steps=None if given.starts is None else len(given.codes),
        cells=missing.size,
        missing=int(missing.sum()),
        by_column=tuple(sorted(by_column, key=lambda each: -each[1])),
        unseen=given.unseen,
    )
