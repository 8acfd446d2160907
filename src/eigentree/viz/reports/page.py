"""One page of HTML with all facts of a report: no network, no script, and nothing that it needs beside itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eigentree.markup.html import Html, decimals, element, joined, with_error
from eigentree.markup.style import STYLE
from eigentree.viz.reports.data_sections import (
    data_section,
    likelihood_section,
    odd_section,
    predicted_section,
    share_told,
)
from eigentree.viz.reports.model_sections import (
    learning_section,
    spectra_section,
    states_section,
    structure_section,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.viz.reports.facts import Facts

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
    told = [facts.kind, *([source] if source else []), date, f"eigentree {facts.version}"]
    body = element(
        "body",
        element("a", "Skip to the report", href="#report", class_="skip"),
        element(
            "header",
            element("p", *_apart(told), class_="kicker"),
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


def _apart(told: Sequence[str]) -> list[object]:
    """Return texts with dots between them, each in one line."""
    first, *rest = (element("span", text) for text in told)
    return [first, *(part for text in rest for part in (" · ", text))]


def headline(facts: Facts) -> str:
    """Return what the model is, in a few words."""
    hidden, columns = facts.structure.hidden, len(facts.columns)
    if facts.steps:
        channels = f"{columns} channels" if columns > 1 else "one channel"
        states = " × ".join(str(len(profile.states)) for profile in facts.profiles)
        more = f", {states} hidden states" if states else ""
        return f"A hidden Markov model of {channels}{more}"
    above = f"{columns} columns" if columns != 1 else "one column"
    if facts.mixed:
        return f"A mixture of {facts.mixed:,} trees above {above}"
    if not hidden:
        return f"A model of {above}, without hidden variables"
    if len(hidden) == 1:
        return f"One hidden variable with {facts.structure.states[hidden[0]]} states above {above}"
    return f"{len(hidden)} hidden variables above {above}"


def findings(facts: Facts) -> str:
    """Return what matters most, in a few sentences."""
    said = []
    if facts.likelihoods is not None:
        for rival in facts.likelihoods.rivals:
            if rival.ahead != rival.ahead:
                continue
            clear = abs(rival.ahead) > 2 * rival.error
            which = "likelier" if rival.ahead > 0 else "less likely"
            name = f"than {'a ' if 'chain' in rival.name or 'tree' in rival.name else ''}{rival.name}"
            size = f"{with_error(abs(rival.ahead), rival.error)} nats"
            said.append(
                f"{size} {which} {name} would" if clear else f"as likely as {name.removeprefix('than ')} would"
            )
    text = f"The model finds a {facts.unit} {', and '.join(said)}. " if said else ""
    if facts.predicted is not None:
        text += (
            f"Of cells that are hidden from it, it gets {share_told(facts.predicted.right)} right; the most "
            f"frequent labels would be right in {share_told(facts.predicted.usual)}. "
        )
    if facts.data is None:
        text += (
            f"No {facts.unit}s were given, so likelihoods, predictions, calibration and odd {facts.unit}s are left "
            f"out. "
        )
    return text.strip()


def glance(facts: Facts) -> Html:
    """Return the figures that matter most."""
    cards: list[tuple[str, str, str]] = [("channels" if facts.steps else "columns", f"{len(facts.columns):,}", "")]
    if not facts.steps:
        states = sorted({facts.structure.states[name] for name in facts.structure.hidden})
        told = (
            f"{states[0]} to {states[-1]} states"
            if len(states) > 1
            else f"{states[0]} states each"
            if states
            else ""
        )
        told = told.removesuffix(" each") if len(facts.structure.hidden) == 1 else told
        cards.append(("hidden variables", f"{len(facts.structure.hidden):,}", told))
    elif facts.profiles:
        cards.append(("hidden states", " × ".join(str(len(profile.states)) for profile in facts.profiles), ""))
    if facts.learned.parameters is not None:
        cards.append(("free parameters", f"{facts.learned.parameters:,}", ""))
    if facts.data is not None:
        steps = "" if facts.data.steps is None else f"{facts.data.steps:,} steps"
        cards.append((f"{facts.unit}s given", f"{facts.data.count:,}", steps))
        share = facts.data.missing / max(facts.data.cells, 1)
        cards.append(("missing cells", share_told(share), ""))
    if facts.likelihoods is not None:
        told = f"nats; ± {decimals(2 * facts.likelihoods.error, 2)} (two standard errors)"
        cards.append((f"log probability of a {facts.unit}", decimals(facts.likelihoods.mean, 2), told))
    if facts.predicted is not None:
        cards.append(
            (
                "hidden cells right",
                share_told(facts.predicted.right),
                f"{share_told(facts.predicted.usual)} by most frequent labels",
            )
        )
        cards.append(("calibration gap", f"{100 * facts.predicted.gap:.1f}", "points, on the average"))
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
    if facts.learned.spectra:
        found.append(Section("spectra", "Spectra", spectra_section(facts)))
    if facts.likelihoods is not None:
        found.append(Section("likelihood", "Likelihood", likelihood_section(facts, facts.likelihoods)))
    if facts.predicted is not None:
        found.append(Section("predictions", "Predictions", predicted_section(facts, facts.predicted)))
    if facts.odd:
        found.append(Section("surprising", f"Surprising {facts.unit}s", odd_section(facts)))
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
