"""The section of a page on hidden states: their profiles, densities of numbers, and where sequences lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import ParameterError
from eigentree.estimators.number_bins import normal_parts
from eigentree.markup.charts import counted
from eigentree.markup.figures import (
    FONT,
    chart_figure,
    diagram_svg,
    figure,
    note_list,
    numbers_table,
    text_width,
)
from eigentree.markup.html import Html, bar, behind, element, joined, number, percent, scrolling, table
from eigentree.viz.diagrams import laid_out_diagram, placed, transition_diagram
from eigentree.viz.interval_charts import estimates_table, interval_chart, interval_ends
from eigentree.viz.model_charts import profile_grid, state_name
from eigentree.viz.number_charts import correlation_table, density_chart, drawn_states, duration_chart
from eigentree.viz.reports.intervals import is_mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.estimators.profiles import Profile
    from eigentree.uncertainty.classification_table import ClassificationTable
    from eigentree.uncertainty.estimates import Estimates
    from eigentree.viz.diagrams import Diagram
    from eigentree.viz.interval_charts import Ends
    from eigentree.viz.model_charts import GridColumn, ProfileGrid
    from eigentree.viz.reports.report import Facts

__all__ = ["INFORMATIVE", "diagram_figure", "states_section"]

MOST_DRAWN = 400
"""Most boxes of a diagram; beyond, the table behind it has to do."""

MOST_VARIABLES, MOST_OPEN = 10, 3
"""Hidden variables that are shown, the most informative, and those that are open at once."""

COLUMNS_ALONE, COLUMNS_EACH, MOST_BEHIND = 8, 4, 40
"""Columns that are shown of a single hidden variable, of each of several, and behind."""

MOST_COEFFICIENTS = 30
"""Coefficients of covariates that are drawn."""

FAINT = "·"
"""What stands for less than half a per cent: most cells of most tables are that, and would drown the others."""

INFORMATIVE = 0.005
"""Nats of mutual information from which on a column is shown."""


def states_section(facts: Facts) -> list[Html | None]:
    """Return the profiles of hidden states, and the states of sequences."""
    noun, nouns = ("class", "classes") if is_mixture(facts.adapter) else ("state", "states")
    how = (
        f"The share of each label among the rows of a {noun}, in per cent; a dot is less than half of one. "
        f"Columns in which {nouns} differ most stand first, and {nouns} are numbered by size."
    )
    if facts.adapter.steps:
        how = how.replace("rows", "steps")
    if facts.estimates is not None:
        how += " Lines below the bars are intervals of 95\u00a0%, from the training data."
    if any(profile.numbers for profile in facts.profiles):
        how += (
            " Of numbers there are mean and standard deviation (sd); the longer the bar behind a mean, the more of "
            "all rows are below it."
        )
    notes = sorted({f"Hidden states: {profile.note}." for profile in facts.profiles if profile.note})
    parts = [element("p", how, class_="how"), note_list(notes), _profile_blocks(facts, noun)]
    if facts.states is not None:
        caption = "The most probable states of sequences (Viterbi), a row each; those with the same end together."
        parts.append(chart_figure(caption, facts.states))
    if facts.estimates is not None:
        parts += _estimates(facts.estimates)
    return parts


def _estimates(found: Estimates) -> list[Html]:
    """Return coefficients of covariates, drawn with their intervals, and all estimates behind a click."""
    parts = []
    covariates = [
        place
        for place, (table, name, _) in enumerate(found.labels)
        if table == "coefficients" and name != "intercept"
    ]
    if covariates:
        caption = (
            "Coefficients of covariates: by how much the log odds of a class, against the first, rise with each; "
            "intervals of 95\u00a0%. Those that reach over 0 may be chance."
        )
        parts.append(chart_figure(caption, interval_chart(found.chosen(covariates), MOST_COEFFICIENTS)))
    notes = [element("p", note, class_="aside") for note in found.notes]
    return [*parts, behind("All estimates, with standard errors", numbers_table(estimates_table(found)), *notes)]


def _profile_blocks(facts: Facts, noun: str) -> Html:
    """Return the profiles of hidden variables, the most informative ones."""
    profiles = facts.profiles
    shown, ends = profiles[:MOST_VARIABLES], interval_ends(facts.estimates)
    sizes = (COLUMNS_ALONE, MOST_BEHIND) if len(profiles) == 1 else (COLUMNS_EACH, COLUMNS_EACH)
    assigned = [] if facts.classification is None else _assigned(facts.classification)
    made: list[object] = [_block(profile, *sizes, noun, ends, assigned) for profile in shown[:MOST_OPEN]]
    for profile in shown[MOST_OPEN:]:
        most = " and ".join(profile.columns[:2])
        made.append(behind(f"{profile.name}, most informative about {most}", _block(profile, *sizes, noun, ends)))
    if left := profiles[MOST_VARIABLES:]:
        names = ", ".join(profile.name for profile in left[:30]) + (", …" if len(left) > 30 else "")
        text = f"{len(left)} more hidden variables, which are less informative, are left out: {names}."
        made.append(element("p", text, class_="aside"))
    return joined(made)


def _apart(profile: Profile, grid: ProfileGrid, noun: str) -> Html:
    """Return what sets each state apart, in words."""
    items = [
        element(
            "li",
            element("strong", f"{noun} {name} ({share:.0%}): "),
            ", ".join(profile.described(place)) or "never",
        )
        for place, name, share in zip(grid.places.tolist(), grid.states, grid.shares.tolist(), strict=True)
    ]
    return joined([element("h4", f"What sets each {noun} apart"), element("ul", *items, class_="apart")])


def _assigned(found: ClassificationTable) -> list[Html]:
    """Return how surely rows are assigned to classes."""
    names = [str(label) for label in found.counts.states[1]]
    rows = [
        [f"class {name}", percent(share), *map(_cell, mean)]
        for name, share, mean in zip(names, found.assigned.tolist(), found.average.tolist(), strict=True)
    ]
    head = ["assigned to", "rows", *(f"class {name}" for name in names)]
    text = (
        f"{percent(found.misclassified)} of the rows are expected to belong to another class than the one that "
        f"they are assigned to, the most probable."
    )
    made = table("Rows assigned to each class, and their mean posterior probabilities in per cent", head, rows)
    return [element("h4", "How surely rows are assigned"), made, element("p", text, class_="aside")]


def _block(
    profile: Profile, at_once: int, behind_it: int, noun: str, ends: Ends, beside: Sequence[Html] = ()
) -> Html:
    """Return the profile of one hidden variable, with so many columns, and so many more behind a click."""
    informative = [name for name, nats in zip(profile.columns, profile.nats, strict=True) if nats >= INFORMATIVE]
    # Where no column is informative, that is worth seeing.
    informative = informative or list(profile.columns[:1])
    shown, name = informative[: at_once + behind_it], f"Profile of {profile.name}"
    grid, count = profile_grid(profile, shown, ends), len(profile.states)
    parts: list[object] = [
        element("h3", f"{profile.name}: {counted(count, noun, 'classes' if noun == 'class' else '')}")
    ]
    if profile.transitions is not None:
        parts += _transitions(profile, grid, ends)
    left = [_table(profile, grid, grid.columns[:at_once], name, noun)]
    if rest := grid.columns[at_once:]:
        more = _table(profile, grid, rest, f"{name}, further columns", noun)
        left.append(behind(f"Further columns ({len(rest)})", more))
    right = [_apart(profile, grid, noun), *beside]
    parts.append(element("div", element("div", *left), element("div", *right), class_="beside"))
    parts += _numbers(profile, grid, at_once)
    notes = []
    if len(grid.places) < len(profile.states):
        share = f"{float(grid.shares.sum()):.0%}"
        them = counted(len(grid.places), f"largest {noun}", "largest classes" if noun == "class" else "")
        notes.append(f"The {them} are shown; they have {share} of {profile.basis}.")
    if (further := len(informative) - len(shown)) > 0:
        notes.append(f"Columns that are left out: {further}.")
    if (silent := len(profile.columns) - len(informative)) > 0:
        notes.append(f"Columns with next to no mutual information: {silent}.")
    if notes:
        parts.append(element("p", " ".join(notes), class_="aside"))
    if profile.durations is not None:
        caption = joined(["How many steps each state lasts. ", *_names_in_colour(profile)])
        parts.append(chart_figure(caption, duration_chart(profile, legend=False)))
    return element("div", *parts, class_="variable")


def _numbers(profile: Profile, grid: ProfileGrid, most: int) -> list[Html]:
    """Return the densities of the most informative numbers, and correlations of those that share an emission."""
    names = [column.name for column in grid.columns if column.name in profile.numbers][:most]
    if not names:
        return []
    caption: list[object] = [
        "Densities of numbers in each state, times its share; the dashed line is their sum over all. "
    ]
    caption += _names_in_colour(profile)
    parts = [chart_figure(joined(caption), *(density_chart(profile, name, legend=False) for name in names))]
    groups = {profile.numbers[name].leaf.group.names: None for name in names}
    for group in groups:
        if len(group) > 1 and normal_parts(profile.numbers[group[0]].leaf.emission) is not None:
            found = correlation_table(profile, group, grid.places.tolist())
            parts.append(numbers_table(found))
    return parts


def _names_in_colour(profile: Profile) -> list[Html]:
    return [
        element("span", f"— state {state_name(profile.states[place])} ", style=f"color:var(--{role})")
        for place, role in drawn_states(profile).items()
    ]


def _cell(probability: float, ends: tuple[float, float] | None = None) -> Html:
    """Return a probability in per cent, as short as it can be, with a bar behind it, and its interval."""
    if probability != probability:
        return element("span", "–")
    if 0 < probability < 0.005 and ends is None:
        return element("span", FAINT, class_="faint")
    return bar(probability, ">99" if 0.995 <= probability < 1 else f"{100 * probability:.0f}", ends)


def _cells(
    overall: float, probabilities: Sequence[float], ends: Sequence[tuple[float, float] | None]
) -> list[Html]:
    cells = [_cell(overall), *map(_cell, probabilities, ends)]
    return [element("td", cell, class_="n") for cell in cells]


def _table(profile: Profile, grid: ProfileGrid, columns: Sequence[GridColumn], caption: str, noun: str) -> Html:
    heads = [element("td"), element("th", "all", scope="col", class_="n")]
    heads += [element("th", f"{noun} {state}", scope="col", class_="n") for state in grid.states]
    sizes = [element("th", "share", scope="row"), *_cells(1.0, grid.shares.tolist(), grid.ends)]
    made = element(
        "table",
        element("caption", f"{caption}: P(label | {noun}) in per cent; shares of {profile.basis}"),
        element("thead", element("tr", *heads)),
        element("tbody", element("tr", *sizes)),
        *map(_column, columns),
        class_="profile",
    )
    return scrolling(made, caption)


def _column(column: GridColumn) -> Html:
    nats = element("small", f" {number(column.nats, 2)} nats")
    wide = column.shares.shape[1] + 2
    rows = [element("tr", element("th", column.name, nats, scope="rowgroup", colspan=wide, class_="name"))]
    if column.texts:
        ranks = [*column.overall.tolist(), *column.shares[0].tolist()]
        means = [
            bar(rank, text) if rank == rank else element("span", "–")
            for rank, text in zip(ranks, column.texts[0], strict=True)
        ]
        for label, cells in (
            ("mean", means),
            ("sd", [element("span", text, class_="q") for text in column.texts[1]]),
        ):
            head = element("th", label, scope="row", class_="label")
            rows.append(element("tr", head, *(element("td", cell, class_="n") for cell in cells)))
        return element("tbody", *rows)
    every = zip(column.labels, column.overall.tolist(), column.shares.tolist(), column.ends, strict=True)
    for label, overall, shares, ends in every:
        head = element("th", label, scope="row", class_="label")
        rows.append(element("tr", head, *_cells(overall, shares, ends)))
    return element("tbody", *rows)


def _transitions(profile: Profile, grid: ProfileGrid, ends: Ends) -> list[Html]:
    """Return where sequences begin and where each state leads, as a diagram where there is room, and as a table."""
    assert profile.transitions is not None
    moves = profile.transitions.array
    rows: list[list[object]] = []
    if profile.start is not None and profile.start.array.ndim == 1:
        own = [ends.get(("start", state, "")) for state in grid.states]
        rows.append(["at the start", *map(_cell, profile.start.array[grid.places].tolist(), own)])
    for before in np.ndindex(*moves.shape[:-1]):
        if set(before) <= set(grid.places.tolist()):
            names = ", then ".join(state_name(profile.states[at]) for at in before)
            own = [ends.get(("transitions", state, f"state before={names}")) for state in grid.states]
            rows.append([f"after {names}", *map(_cell, moves[before][grid.places].tolist(), own)])
    caption = f"Transitions of {profile.name}: P(next state), in per cent"
    made = table(caption, ["", *(f"to {state}" for state in grid.states)], rows)
    try:
        picture = [
            diagram_figure("Arrows are the wider the more probable the transition.", transition_diagram(profile))
        ]
    except ParameterError:
        picture = []
    return [element("div", *picture, made, class_="beside")]


def diagram_figure(caption: str, diagram: Diagram) -> Html:
    """Return a diagram with a caption, and the numbers behind it; these alone where it is too large."""
    if len(diagram.texts) > MOST_DRAWN:
        many = f"{len(diagram.texts):,} boxes are too many for a picture (the limit is {MOST_DRAWN})"
        return figure(f"{many}; the table has the first numbers.", numbers=[diagram.numbers])
    layout = laid_out_diagram(diagram, text_width)
    placed_boxes = placed(diagram, layout, text_width, (FONT, FONT), FONT)
    picture = scrolling(diagram_svg(diagram.title, diagram.description, *placed_boxes), diagram.title)
    return figure(caption, picture, numbers=[diagram.numbers])
