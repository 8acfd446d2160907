"""One page of HTML with all facts of a report: no network, no script, and nothing that it needs beside itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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

    from eigentree.viz.reports.facts import Facts
    from eigentree.viz.reports.likelihoods import Baseline

__all__ = ["headline", "page"]


class Section(NamedTuple):
    """A part of the page: where links lead, its heading, and what is in it."""

    key: str
    heading: str
    inner: Sequence[Html | None]


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
    links = [element("li", element("a", each.heading, href=f"#{each.key}")) for each in sections]
    texts = [facts.kind, *([source] if source else []), date, f"eigentree {facts.version}"]
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
        element("main", *map(_section, sections), id="report", tabindex=-1),
        element("footer", f"Made by eigentree {facts.version} on {date}. Everything is in this file."),
        class_="eigentree",
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"eigentree {facts.version}"),
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
    columns = len(facts.columns)
    if facts.steps:
        channels = f"{columns} channels" if columns > 1 else "one channel"
        states = " × ".join(str(len(profile.states)) for profile in facts.profiles)
        more = f", {states} hidden states" if states else ""
        return f"A hidden Markov model of {channels}{more}"
    above = f"{columns} columns" if columns != 1 else "one column"
    if facts.mixed:
        return f"A mixture of {facts.mixed:,} trees above {above}"
    if not facts.hidden:
        return f"A model of {above}, without hidden variables"
    if len(facts.hidden) == 1:
        return f"One hidden variable with {next(iter(facts.hidden.values()))} states above {above}"
    return f"{len(facts.hidden)} hidden variables above {above}"


def findings(facts: Facts) -> str:
    """Return what matters most, in a few sentences; models are compared on the same footing."""
    text, found, unit = "", facts.likelihoods, facts.unit
    if found is not None:
        footing = (
            (f"On held-out {unit}s", "", found.baselines)
            if found.held_out
            else (f"If it was fitted to these {unit}s", ", fitted to them too (in-sample)", found.in_sample),
            (
                f"If these {unit}s are held out",
                ", cross-validated on them",
                () if found.held_out else found.baselines,
            ),
        )
        for condition, how, baselines in footing:
            if compared := [_compared(one) for one in baselines if one.ahead == one.ahead]:
                text += f"{condition}, the log probability of a {unit} is {', and '.join(compared)}{how}. "
    if facts.masked is not None:
        text += (
            f"Its accuracy on masked cells is {percent(facts.masked.accuracy)}; that of the most frequent labels "
            f"{percent(facts.masked.usual)}. "
        )
    if facts.data is None:
        text += f"No {unit}s were given, so likelihoods, masked cells, calibration and anomalies are left out. "
    return text.strip()


def _compared(one: Baseline) -> str:
    name = f"{'a ' if 'chain' in one.name or 'tree' in one.name else ''}{one.name}"
    # A difference without an error, of one row, is no finding.
    if not abs(one.ahead) > 2 * one.error:
        return f"about that of {name}"
    size = f"{with_error(abs(one.ahead), one.error)} nats"
    return f"{size} {'above' if one.ahead > 0 else 'below'} that of {name}"


def glance(facts: Facts) -> Html:
    """Return the figures that matter most."""
    cards: list[tuple[str, str, str]] = [("channels" if facts.steps else "columns", f"{len(facts.columns):,}", "")]
    if not facts.steps:
        sizes = sorted(set(facts.hidden.values()))
        states = f"{sizes[0]} to {sizes[-1]} states" if len(sizes) > 1 else f"{sizes[0]} states" if sizes else ""
        each = " each" if len(sizes) == 1 < len(facts.hidden) else ""
        cards.append(("hidden variables", f"{len(facts.hidden):,}", states + each))
    elif facts.profiles:
        cards.append(("hidden states", " × ".join(str(len(profile.states)) for profile in facts.profiles), ""))
    if facts.parameters is not None:
        cards.append(("free parameters", f"{facts.parameters:,}", ""))
    if facts.data is not None:
        steps = "" if facts.data.steps is None else f"{facts.data.steps:,} steps"
        cards.append((f"{facts.unit}s given", f"{facts.data.count:,}", steps))
        cards.append(("missing cells", percent(facts.data.missing / max(facts.data.cells, 1)), ""))
    if facts.likelihoods is not None:
        more = f"nats; ± {decimals(2 * facts.likelihoods.error, 2)} (two standard errors)"
        cards.append((f"log probability of a {facts.unit}", decimals(facts.likelihoods.mean, 2), more))
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


def _sections(facts: Facts, source: str | None) -> list[Section]:
    found = [Section("structure", "Structure", structure_section(facts))]
    if facts.profiles:
        found.append(Section("states", "Hidden states", states_section(facts)))
    if getattr(facts.fit, "spectra", ()):
        found.append(Section("spectra", "Spectra", spectra_section(facts)))
    if facts.likelihoods is not None:
        found.append(Section("likelihood", "Likelihood", likelihood_section(facts, facts.likelihoods)))
    if facts.masked is not None:
        found.append(Section("masked", "Masked cells", masked_section(facts, facts.masked)))
    if facts.anomalies:
        found.append(Section("anomalies", "Anomalies", anomaly_section(facts)))
    if facts.data is not None:
        found.append(Section("data", "Data", data_section(facts, source)))
    found.append(Section("learning", "How it was learned", learning_section(facts)))
    return found


def _section(section: Section) -> Html:
    head = f"{section.key}-heading"
    return element(
        "section",
        element("h2", section.heading, id=head),
        joined(section.inner),
        id=section.key,
        aria_labelledby=head,
    )
