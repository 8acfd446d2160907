"""One page of HTML with all facts of a report: no network, no script, and nothing that it needs beside itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import eigentree
from eigentree.markup.charts import counted
from eigentree.markup.html import Html, decimals, element, joined, percent, with_error
from eigentree.markup.style import STYLE
from eigentree.viz.reports.data_sections import anomaly_section, data_section, likelihood_section, masked_section
from eigentree.viz.reports.model_sections import (
    learning_section,
    spectra_section,
    states_section,
    structure_section,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.viz.reports.baselines import Baseline
    from eigentree.viz.reports.report import Facts

__all__ = ["headline", "page"]


def page(facts: Facts, title: str, date: str, source: str | None) -> str:
    """Return the page.

    Parameters
    ----------
    facts : Facts
    title : str
    date : str
    source : str or None
        What the rows are called.
    """
    sections = _sections(facts, source)
    links = [element("li", element("a", heading, href=f"#{key}")) for key, heading, _ in sections]
    package = f"eigentree {eigentree.__version__}"
    texts = [type(facts.adapter.model).__name__, *([source] if source else []), date, package]
    body = element(
        "body",
        element("a", "Skip to the report", href="#report", class_="skip"),
        element(
            "header",
            element("p", *_apart(texts), class_="kicker"),
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


def _apart(texts: Sequence[str]) -> list[object]:
    """Return texts with dots between them, each in one line."""
    first, *rest = (element("span", text) for text in texts)
    return [first, *(part for text in rest for part in (" · ", text))]


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
    if len(model.hidden) == 1:
        return f"One hidden variable with {counted(next(iter(model.hidden.values())), 'state')} above {columns}"
    return f"{len(model.hidden)} hidden variables above {columns}"


def findings(facts: Facts) -> str:
    """Return what matters most, in a few sentences; models are compared on the same footing."""
    text, found, unit = "", facts.likelihoods, facts.adapter.unit
    if found is not None and found.held_out:
        text = _comparison(f"On held-out {unit}s the", unit, found.baselines)
    elif found is not None:
        text = _comparison(f"If it was fitted to these {unit}s, the", unit, found.in_sample, ", fitted to them too")
        text += _comparison("If they are held out, the", unit, found.baselines, ", cross-validated on them")
    if facts.masked is not None:
        text += (
            f"Its accuracy on masked cells is {percent(facts.masked.accuracy)}; that of the most frequent labels "
            f"{percent(facts.masked.usual)}. "
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
        if one.ahead == one.ahead:
            parts.append(f"{size if abs(one.ahead) > 2 * one.error else 'about'} that of {_article(one.name)}")
    return f"{condition} log probability of a {unit} is {' and '.join(parts)}{how}. " if parts else ""


def _article(name: str) -> str:
    return f"a {name}" if "chain" in name or "tree" in name else name


def glance(facts: Facts) -> Html:
    """Return the figures that matter most."""
    model = facts.adapter
    cards = [("channels" if model.steps else "columns", f"{len(model.columns.names):,}", "")]
    if not model.steps:
        sizes = sorted(set(model.hidden.values()))
        states = f"{sizes[0]} to {sizes[-1]} states" if len(sizes) > 1 else f"{sizes[0]} states" if sizes else ""
        each = " each" if len(sizes) == 1 < len(model.hidden) else ""
        cards.append(("hidden variables", f"{len(model.hidden):,}", states + each))
    elif facts.profiles:
        cards.append(("hidden states", " × ".join(str(len(profile.states)) for profile in facts.profiles), ""))
    if model.parameters is not None:
        cards.append(("free parameters", f"{model.parameters:,}", ""))
    if facts.data is not None:
        missing = facts.data.missing
        steps = f"{len(missing):,} steps" if model.steps else ""
        cards.append((f"{model.unit}s given", f"{facts.data.count:,}", steps))
        cards.append(("missing cells", percent(missing.sum() / max(missing.size, 1)), ""))
    if facts.likelihoods is not None:
        more = f"nats; ± {decimals(2 * facts.likelihoods.error, 2)} (two standard errors)"
        cards.append((f"log probability of a {model.unit}", decimals(facts.likelihoods.mean, 2), more))
    if facts.masked is not None:
        more = f"{percent(facts.masked.usual)} by most frequent labels"
        cards.append(("accuracy on masked cells", percent(facts.masked.accuracy), more))
        cards.append(("calibration error", f"{100 * facts.masked.calibration_error:.1f}", "points, on the average"))
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
    found: list[tuple[str, str, Sequence[Html | None]]] = [("structure", "Structure", structure_section(facts))]
    if facts.profiles:
        found.append(("states", "Hidden states", states_section(facts)))
    if getattr(facts.adapter.fit, "spectra", ()):
        found.append(("spectra", "Spectra", spectra_section(facts)))
    if facts.likelihoods is not None:
        found.append(("likelihood", "Likelihood", likelihood_section(facts, facts.likelihoods)))
    if facts.masked is not None:
        found.append(("masked", "Masked cells", masked_section(facts, facts.masked)))
    if facts.anomalies:
        found.append(("anomalies", "Anomalies", anomaly_section(facts)))
    if facts.data is not None:
        found.append(("data", "Data", data_section(facts.data, source)))
    found.append(("learning", "How it was learned", learning_section(facts)))
    return found


def _section(key: str, heading: str, inner: Sequence[Html | None]) -> Html:
    title = f"{key}-heading"
    return element("section", element("h2", heading, id=title), joined(inner), id=key, aria_labelledby=title)
