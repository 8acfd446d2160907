"""`report`: a page about a model, and about rows beside it."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import eigentree
from eigentree.errors import DataError, FileError, ParameterError, quoted
from eigentree.estimators.dependencies import dependencies, edge_strengths
from eigentree.estimators.profiles import profiles
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.io.byte_files import write_whole
from eigentree.markup.charts import counted
from eigentree.markup.html import Html, decimals, element, joined, percent, with_error
from eigentree.markup.style import STYLE
from eigentree.validation import our_arithmetic
from eigentree.viz.diagrams import edge_ranks, graph_diagram, tree_diagram
from eigentree.viz.model_charts import state_sequence_chart
from eigentree.viz.reports.anomalous_rows import anomalies
from eigentree.viz.reports.evaluation import likelihoods_of, masked_accuracy
from eigentree.viz.reports.evaluation_data import adapter_of, evaluation_data
from eigentree.viz.reports.intervals import classification_of, criteria_of, is_mixture, parameter_estimates
from eigentree.viz.reports.masked_numbers import averages, number_accuracies
from eigentree.viz.reports.sections import (
    anomaly_section,
    data_section,
    learning_section,
    likelihood_section,
    masked_section,
    spectra_section,
    structure_section,
)
from eigentree.viz.reports.state_section import states_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.estimators.dependencies import Link
    from eigentree.estimators.mixins.density_mixin import DensityMixin
    from eigentree.estimators.mixins.information_criteria import Criteria
    from eigentree.estimators.mixins.sequence_mixin import SequenceMixin
    from eigentree.estimators.profiles import Profile
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.markup.charts import Chart
    from eigentree.uncertainty.classification_table import ClassificationTable
    from eigentree.uncertainty.estimates import Estimates
    from eigentree.viz.diagrams import Diagram
    from eigentree.viz.reports.anomalous_rows import Anomaly
    from eigentree.viz.reports.evaluation import Baseline, Likelihoods, MaskedAccuracy
    from eigentree.viz.reports.evaluation_data import EvaluationData, ModelAdapter
    from eigentree.viz.reports.masked_numbers import NumberAccuracy

__all__ = ["Facts", "Report", "headline", "page", "report"]

MOST_PAIRED = 400
"""Most columns for which mutual information of all pairs is computed."""

MOST_SEQUENCES = 200
"""Sequences whose states are drawn."""


@dataclass(frozen=True, eq=False)
class Facts:
    """All facts of a report: the model, the diagrams of its graph and its junction tree, and how it does on `data`.

    `pairs` are the columns with the largest mutual information and `profiles` those of hidden variables, the most
    informative first, where tables are known. Without data, all that follows is None or empty. `masked` is about
    categories, `numbers` about numbers; `estimates` are the parameters, where the training data are known;
    `criteria` are those of the model on the training data, or on `data`, `comparable` with others unless it has
    pseudo-counts; `classification` says how surely rows are assigned to classes.
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
    numbers: tuple[NumberAccuracy, ...] = ()
    estimates: Estimates | None = None
    criteria: Criteria | None = None
    comparable: bool = False
    classification: ClassificationTable | None = None


def facts_of(adapter: ModelAdapter, data: EvaluationData | None, training: EvaluationData | None) -> Facts:
    """Return all facts of a report: the model is evaluated on `data`, and baselines are fitted to `training`."""
    network, graph = adapter.network, adapter.graph
    strengths: dict[tuple[str, str], float] = {}
    pairs: tuple[Link, ...] = ()
    found: tuple[Profile, ...] = ()
    if network is not None:
        strengths = edge_strengths(network)
        found = tuple(sorted(_profiles(adapter, data), key=lambda profile: -sum(profile.nats)))
        if not adapter.steps and 1 < len(graph.observed) <= MOST_PAIRED:
            pairs = tuple(dependencies(network).columns[:10])
    diagram = graph_diagram(graph, strengths, chain=adapter.steps > 0)
    drawn = diagram, tree_diagram(JunctionTree.of(graph), edge_ranks(adapter.model))
    if data is None:
        return Facts(adapter, *drawn, pairs, found, data)
    states = None
    if found and adapter.steps and len(data.codes):
        states = state_sequence_chart(adapter.model.model_, data.sequences, None, MOST_SEQUENCES)
    # Rows that were learned from are not held out.
    learned = None if training is None or training.same_cells(data) else training
    likelihoods, masked = likelihoods_of(data, learned), masked_accuracy(data)
    criteria, comparable = criteria_of(data if training is None else training)
    return Facts(
        *(adapter, *drawn, pairs, found, data, likelihoods, masked, anomalies(data), states),
        numbers=number_accuracies(data),
        estimates=None if training is None else parameter_estimates(training),
        criteria=criteria,
        comparable=comparable,
        classification=classification_of(data),
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


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A page about a model; notebooks show it, and `save` writes it into a file.

    Attributes
    ----------
    facts : Facts
        All that is on the page, as values.
    title : str
    date : str
    source : str or None
        What the rows are called.
    """

    facts: Facts
    title: str
    date: str
    source: str | None

    @cached_property
    def html(self) -> str:
        """The page: one document that needs neither network nor scripts."""
        return page(self.facts, self.title, self.date, self.source)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page into a file, whole or not at all.

        Raises
        ------
        FileError
            When the file cannot be written; one that was there is as it was.
        """
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise FileError(
                f"a report is saved under the name of a file, such as 'report.html', not {quoted(path)}"
            )
        write_whole(path, lambda file: file.write(self.html.encode()))

    def __repr__(self) -> str:
        title = self.title if self.source is None else f"{self.title}, {self.source}"
        size = len(self.html.encode()) / 1000
        return f"<Report: {title}, {size:,.0f} kB; save it, or show it in a notebook>"

    def _repr_html_(self) -> str:
        # A document of its own, so that neither the notebook's style nor this one's touches the other.
        return (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:80vh;border:1px solid #888;border-radius:6px"></iframe>'
        )


@our_arithmetic
def report(
    model: LatentNetwork | DensityMixin | SequenceMixin,
    X: ArrayLike | Any = None,
    *,
    training: ArrayLike | Any = None,
    lengths: ArrayLike | None = None,
    training_lengths: ArrayLike | None = None,
    names: Sequence[Any] | None = None,
    title: str | None = None,
    source: str | None = None,
    date: datetime.date | str | None = None,
) -> Report:
    """Return a page about a model: its structure, its hidden states, how it was learned, and how it does on rows.

    Rows, or sequences, are best held out from the fit; then give the model's training data too. Labels among them
    that the model never saw are missing cells, and are listed. Where there are many rows, some are sampled by a
    fixed seed, and the page says how many; so the same model and rows give the same page.

    Parameters
    ----------
    model : LatentNetwork, or a fitted estimator of rows or sequences
    X : array-like, a data frame, rows of letters, or sequences as `fit` takes them, optional
        Without any, likelihoods, masked cells, calibration and anomalies are left out.
    training : of the same kind as X, optional
        The training data: baselines are fitted to them, and parameters have intervals.
    lengths, training_lengths : array-like of int, optional
        How many steps of `X`, and of `training`, belong to each sequence.
    names : sequence, optional
        What the rows or sequences are called; by default the index of a pandas frame, else 0, 1, ….
    title : str, optional
    source : str, optional
        What the rows are called, such as the name of a file.
    date : datetime.date or str, optional
        The date on the page; by default today.

    Raises
    ------
    ParameterError
        When there is no model, or it is a classifier, which holds several.
    DataError
        When rows do not fit the columns of the model.

    Notes
    -----
    Baselines are independent columns and a Chow-Liu tree; of sequences, independent cells and Markov chains.
    Without `training`, or where `X` is the same, they are compared on both footings: fitted to `X` as the model may
    have been (in-sample), and cross-validated on `X`.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.mixture(columns=5, hidden_states=2, observed_states=3), seed=0)
    >>> made = report(truth, truth.sample(200, seed=1))
    >>> made.title
    '2 latent classes behind 5 columns'
    >>> made.html.startswith("<!DOCTYPE html>")
    True
    """
    for name, text in (("title", title), ("source", source)):
        if text is not None and not isinstance(text, str):
            raise ParameterError(f"{name} is a text, not {quoted(text)}")
    if date is not None and not isinstance(date, datetime.date | str):
        raise ParameterError(f"date is a date or a text, not {quoted(date)}")
    if X is None:
        for name, value in (("training", training), ("lengths", lengths), ("names", names)):
            if value is not None:
                raise ParameterError(f"{name} is about rows to evaluate, so it needs X; give X too")
    adapter = adapter_of(model)
    given = None if X is None else evaluation_data(adapter, X, lengths, names)
    known = None if training is None else evaluation_data(adapter, training, training_lengths)
    facts = facts_of(adapter, given, known)
    day = datetime.date.today() if date is None else date
    return Report(facts, title or headline(facts), day if isinstance(day, str) else day.isoformat(), source)


def page(facts: Facts, title: str, date: str, source: str | None) -> str:
    """Return the page; `source` is what the rows are called."""
    sections = _sections(facts, source)
    links = [element("li", element("a", heading, href=f"#{key}")) for key, heading, _ in sections]
    package = f"eigentree {eigentree.__version__}"
    texts = [type(facts.adapter.model).__name__, *([source] if source else []), date, package]
    kicker = [part for text in texts for part in (" · ", element("span", text))]
    body = element(
        "body",
        element("a", "Skip to the report", href="#report", class_="skip"),
        element(
            "header",
            element("p", *kicker[1:], class_="kicker"),
            element("h1", title),
            element("p", findings(facts)),
            glance(facts),
            element("nav", element("ul", *links), aria_label="Contents"),
        ),
        element("main", *(_section(*each) for each in sections), id="report", tabindex=-1),
        element("footer", f"Made by {package} on {date}. Everything is in this file."),
        class_="eigentree",
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=package),
        element("title", title),
        element("style", STYLE),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def headline(facts: Facts) -> str:
    """Return what the model is, in a few words."""
    model = facts.adapter
    count = len(model.columns.names)
    if model.steps:
        sizes = " × ".join(str(len(profile.states)) for profile in facts.profiles)
        several = f", {count} channels" if count > 1 else ""
        return f"A hidden Markov model with {sizes} states{several}" if sizes else f"A spectral HMM{several}"
    columns = counted(count, "column")
    if model.mixed:
        return f"A mixture of {model.mixed:,} trees above {columns}"
    if not model.hidden:
        return f"A model of {columns}, without hidden variables"
    if is_mixture(model):
        return f"{counted(next(iter(model.hidden.values())), 'latent class', 'latent classes')} behind {columns}"
    return f"{len(model.hidden)} hidden variables above {columns}"


def findings(facts: Facts) -> str:
    """Return what matters most, in a few sentences; models are compared on the same footing."""
    text, found, unit, what = "", facts.likelihoods, facts.adapter.unit, facts.adapter.measure
    if facts.classification is not None:
        share = percent(facts.classification.misclassified)
        text = f"{share} of the rows are expected to be assigned to a wrong class. "
    if found is not None and found.held_out:
        text += _comparison(f"On held-out {unit}s the {what}", unit, found.baselines)
    elif found is not None:
        begin = f"If it was fitted to these {unit}s, the {what}"
        text += _comparison(begin, unit, found.in_sample, ", fitted to them too")
        text += _comparison(f"If they are held out, the {what}", unit, found.baselines, ", cross-validated on them")
    if facts.masked is not None:
        text += (
            f"Its accuracy on masked cells is {percent(facts.masked.accuracy)}; that of the most frequent labels "
            f"{percent(facts.masked.usual)}. "
        )
    if facts.numbers:
        explained, covered = averages(facts.numbers)
        text += (
            f"Of the variance of a masked number it explains {percent(explained)} on the average, and 90\u00a0% "
            f"intervals hold {percent(covered)} of these. "
        )
    if facts.data is None:
        text += f"No {unit}s were given, so likelihoods, masked cells, calibration and anomalies are left out. "
    return text.strip()


def _comparison(condition: str, unit: str, baselines: Sequence[Baseline], how: str = "") -> str:
    """Return a sentence on how the model compares with baselines; empty where there are none."""
    parts = []
    for one in baselines:
        # A difference without an error, of one row, is no finding.
        size = f"{with_error(abs(one.ahead), one.error)} nats {'above' if one.ahead > 0 else 'below'}"
        article = "" if one.name.startswith("independent") else "a "
        if one.ahead == one.ahead:
            parts.append(f"{size if abs(one.ahead) > 2 * one.error else 'about'} that of {article}{one.name}")
    return f"{condition} of a {unit} is {' and '.join(parts)}{how}. " if parts else ""


def glance(facts: Facts) -> Html:
    """Return the figures that matter most."""
    model = facts.adapter
    cards = [("channels" if model.steps else "columns", f"{len(model.columns.names):,}", "")]
    if is_mixture(model) and facts.profiles:
        shares = [f"{share:.0%}" for share in facts.profiles[0].shares.tolist()]
        more = ", ".join(shares[:8]) + ", …" * (len(shares) > 8)
        cards.insert(0, ("classes, and their sizes", f"{len(shares):,}", more))
    elif not model.steps:
        sizes = sorted(set(model.hidden.values()))
        states = f"{sizes[0]} to {sizes[-1]} states" if len(sizes) > 1 else f"{sizes[0]} states" if sizes else ""
        each = " each" if len(sizes) == 1 < len(model.hidden) else ""
        cards.append(("hidden variables", f"{len(model.hidden):,}", states + each))
    elif facts.profiles:
        cards.append(("hidden states", " × ".join(str(len(profile.states)) for profile in facts.profiles), ""))
    if model.parameters is not None:
        cards.append(("free parameters", f"{model.parameters:,}", ""))
    if facts.criteria is not None:
        more = "" if facts.comparable else "; the fit has pseudo-counts, so compare neither"
        cards.append(("BIC", f"{facts.criteria.bic:,.1f}", f"AIC {facts.criteria.aic:,.1f}{more}"))
        if facts.criteria.entropy_r2 == facts.criteria.entropy_r2:
            cards.append(("entropy R²", decimals(facts.criteria.entropy_r2, 2), "1 where all are certain"))
    if facts.data is not None:
        missing = facts.data.missing
        steps = f"{len(missing):,} steps" if model.steps else ""
        cards.append((f"{model.unit}s given", f"{facts.data.count:,}", steps))
        cards.append(("missing cells", percent(missing.sum() / max(missing.size, 1)), ""))
    if facts.likelihoods is not None:
        more = f"nats; ± {decimals(2 * facts.likelihoods.error, 2)} (two standard errors)"
        cards.append((f"{model.measure} of a {model.unit}", decimals(facts.likelihoods.mean, 2), more))
    if facts.masked is not None:
        more = f"{percent(facts.masked.usual)} by most frequent labels"
        cards.append(("accuracy on masked cells", percent(facts.masked.accuracy), more))
        cards.append(("calibration error", f"{100 * facts.masked.calibration_error:.1f}", "points, on the average"))
    if facts.numbers:
        explained, covered = averages(facts.numbers)
        cards.append(("variance of masked numbers explained", percent(explained), "on the average"))
        cards.append(("numbers inside 90 % intervals", percent(covered), ""))
    made = [
        element(
            "div",
            element("dt", name),
            element("dd", element("strong", value), element("small", more) if more else None),
        )
        for name, value, more in cards
    ]
    return element("dl", *made, class_="glance")


def _sections(facts: Facts, source: str | None) -> list[tuple[str, str, Sequence[Html | None]]]:
    """Return the parts of the page: where links lead, a heading, and what is in it."""
    found: list[tuple[str, str, Sequence[Html | None]]] = []
    structure = ("structure", "Structure", structure_section(facts))
    if facts.profiles:
        found.append(("states", "Classes" if is_mixture(facts.adapter) else "Hidden states", states_section(facts)))
    if len(facts.adapter.hidden) != 1 and not facts.adapter.steps:
        found.append(structure)
    if getattr(facts.adapter.fit, "spectra", ()):
        found.append(("spectra", "Spectra", spectra_section(facts)))
    if facts.likelihoods is not None:
        found.append(("likelihood", "Likelihood", likelihood_section(facts, facts.likelihoods)))
    if facts.masked is not None or facts.numbers:
        found.append(("masked", "Masked cells", masked_section(facts)))
    if facts.anomalies:
        found.append(("anomalies", "Anomalies", anomaly_section(facts)))
    if structure not in found:
        found.append(structure)
    if facts.data is not None:
        found.append(("data", "Data", data_section(facts.data, source)))
    found.append(("learning", "How it was learned", learning_section(facts)))
    return found


def _section(key: str, heading: str, inner: Sequence[Html | None]) -> Html:
    title = f"{key}-heading"
    return element("section", element("h2", heading, id=title), joined(inner), id=key, aria_labelledby=title)
