"""The section of a page on hidden states: their profiles, densities of numbers, and where sequences lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import ParameterError
from eigentree.estimators.number_bins import normal_parts
from eigentree.markup.figures import (
    FONT,
    chart_figure,
    diagram_svg,
    figure,
    note_list,
    numbers_table,
    text_width,
)
from eigentree.markup.html import Html, bar, behind, element, joined, number, scrolling, table
from eigentree.viz.diagrams import laid_out_diagram, placed, transition_diagram
from eigentree.viz.model_charts import profile_grid, state_name
from eigentree.viz.number_charts import correlation_table, density_chart, drawn_states, duration_chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.estimators.profiles import Profile
    from eigentree.viz.diagrams import Diagram
    from eigentree.viz.model_charts import GridColumn, ProfileGrid
    from eigentree.viz.reports.report import Facts

__all__ = ["diagram_figure", "states_section"]

MOST_DRAWN = 400
"""Most boxes of a diagram; beyond, the table behind it has to do."""

MOST_VARIABLES, MOST_OPEN = 10, 3
"""Hidden variables that are shown, the most informative, and those that are open at once."""

COLUMNS_ALONE, COLUMNS_EACH, MOST_BEHIND = 8, 4, 40
"""Columns that are shown of a single hidden variable, of each of several, and behind."""

FAINT = "·"
"""What stands for less than half a per cent: most cells of most tables are that, and would drown the others."""

INFORMATIVE = 0.005
"""Nats of mutual information from which on a column is shown."""


def states_section(facts: Facts) -> list[Html | None]:
    """Return the profiles of hidden states, and the states of sequences."""
    how = (
        "P(label | state) of each column: bars are probabilities in per cent, and a dot is less than half of one. "
        "Columns stand in the order of their mutual information with the hidden variable, and states are numbered "
        "by size."
    )
    if any(profile.numbers for profile in facts.profiles):
        how += (
            " Of numbers there are mean and standard deviation (sd); the longer the bar behind a mean, the more of "
            "all rows are below it."
        )
    notes = sorted({f"Hidden states: {profile.note}." for profile in facts.profiles if profile.note})
    parts = [element("p", how, class_="how"), note_list(notes), _profile_blocks(facts.profiles)]
    if facts.states is not None:
        caption = "The most probable states of sequences (Viterbi), a row each; those with the same end together."
        parts.append(chart_figure(caption, facts.states))
    if facts.intervals is not None:
        caption = "Parameters and their intervals of 95 %, from the training data; one without is on the boundary."
        parts.append(chart_figure(caption, facts.intervals))
    return parts


def _profile_blocks(profiles: Sequence[Profile]) -> Html:
    """Return the profiles of hidden variables, the most informative ones."""
    shown = profiles[:MOST_VARIABLES]
    sizes = (COLUMNS_ALONE, MOST_BEHIND) if len(profiles) == 1 else (COLUMNS_EACH, COLUMNS_EACH)
    made: list[object] = [_block(profile, *sizes) for profile in shown[:MOST_OPEN]]
    for profile in shown[MOST_OPEN:]:
        most = " and ".join(profile.columns[:2])
        made.append(behind(f"{profile.name}, most informative about {most}", _block(profile, *sizes)))
    if left := profiles[MOST_VARIABLES:]:
        names = ", ".join(profile.name for profile in left[:30]) + (", …" if len(left) > 30 else "")
        text = f"{len(left)} more hidden variables, which are less informative, are left out: {names}."
        made.append(element("p", text, class_="aside"))
    return joined(made)


def _block(profile: Profile, at_once: int, behind_it: int) -> Html:
    """Return the profile of one hidden variable, with so many columns, and so many more behind a click."""
    informative = [name for name, nats in zip(profile.columns, profile.nats, strict=True) if nats >= INFORMATIVE]
    # Where no column is informative, that is worth seeing.
    informative = informative or list(profile.columns[:1])
    shown, name = informative[: at_once + behind_it], f"Profile of {profile.name}"
    grid = profile_grid(profile, shown)
    parts: list[object] = [
        element("h3", f"{profile.name}: {len(profile.states):,} state{'s' * (len(profile.states) != 1)}"),
        _table(profile, grid, grid.columns[:at_once], name),
    ]
    if rest := grid.columns[at_once:]:
        more = _table(profile, grid, rest, f"{name}, further columns")
        parts.append(behind(f"Further columns ({len(rest)})", more))
    parts += _numbers(profile, grid, at_once)
    notes = []
    if len(grid.places) < len(profile.states):
        share = f"{float(grid.shares.sum()):.0%}"
        notes.append(f"The {len(grid.places)} largest states are shown; they have {share} of {profile.basis}.")
    if (left := len(informative) - len(shown)) > 0:
        notes.append(f"Columns that are left out: {left}.")
    if (silent := len(profile.columns) - len(informative)) > 0:
        notes.append(f"Columns with next to no mutual information: {silent}.")
    if notes:
        parts.append(element("p", " ".join(notes), class_="aside"))
    if profile.transitions is not None:
        parts += _transitions(profile, grid)
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


def _cell(probability: float) -> Html:
    """Return a probability in per cent, as short as it can be, with a bar behind it."""
    if probability != probability:
        return element("span", "–")
    if 0 < probability < 0.005:
        return element("span", FAINT, class_="faint")
    return bar(probability, ">99" if 0.995 <= probability < 1 else f"{100 * probability:.0f}")


def _cells(probabilities: Sequence[float]) -> list[Html]:
    return [element("td", _cell(probability), class_="n") for probability in probabilities]


def _table(profile: Profile, grid: ProfileGrid, columns: Sequence[GridColumn], caption: str) -> Html:
    heads = [element("td"), element("th", "all", scope="col", class_="n")]
    heads += [element("th", f"state {state}", scope="col", class_="n") for state in grid.states]
    sizes = [
        element("th", "share", scope="row"),
        *_cells([1.0, *grid.shares.tolist()]),
    ]
    made = element(
        "table",
        element("caption", f"{caption}: P(label | state) in per cent; shares of {profile.basis}"),
        element("thead", element("tr", *heads)),
        element("tbody", element("tr", *sizes)),
        *(_column(column) for column in columns),
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
    for label, overall, shares in zip(column.labels, column.overall.tolist(), column.shares.tolist(), strict=True):
        head = element("th", label, scope="row", class_="label")
        rows.append(element("tr", head, *_cells([overall, *shares])))
    return element("tbody", *rows)


def _transitions(profile: Profile, grid: ProfileGrid) -> list[Html]:
    """Return where sequences begin and where each state leads, as a diagram where there is room, and as a table."""
    assert profile.transitions is not None
    moves = profile.transitions.array
    rows: list[list[object]] = []
    if profile.start is not None and profile.start.array.ndim == 1:
        rows.append(["at the start", *map(_cell, profile.start.array[grid.places].tolist())])
    for before in np.ndindex(*moves.shape[:-1]):
        if set(before) <= set(grid.places.tolist()):
            names = ", then ".join(state_name(profile.states[at]) for at in before)
            rows.append([f"after {names}", *map(_cell, moves[before][grid.places].tolist())])
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
