"""The sections of a page about the model itself: its structure, its hidden states, how it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import ParameterError
from eigentree.markup.charts import NumberTable
from eigentree.markup.figures import (
    FONT,
    chart_figure,
    diagram_svg,
    figure,
    learning_figure,
    note_list,
    numbers_table,
    spectra_figure,
    text_width,
)
from eigentree.markup.html import Html, bar, behind, element, facts_list, joined, number, scrolling, table
from eigentree.viz.diagrams import laid_out_diagram, placed, transition_diagram
from eigentree.viz.model_charts import multistart_chart, profile_grid, state_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.estimators.profiles import Profile
    from eigentree.viz.diagrams import Diagram
    from eigentree.viz.model_charts import GridColumn, ProfileGrid
    from eigentree.viz.reports.report import Facts

__all__ = ["learning_section", "spectra_section", "states_section", "structure_section"]

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


def structure_section(facts: Facts) -> list[Html | None]:
    """Return the graph and its junction tree as diagrams, and the pairs of columns with most mutual information."""
    how, steps, mixed = "Direct dependences between variables.", facts.adapter.steps, facts.adapter.mixed
    if steps:
        how = f"{steps} steps of the chain are drawn; all have the same parameters."
    elif mixed:
        how = (
            f"The model mixes {mixed:,} trees of the same form, each with parameters of its own; one is drawn, and "
            f"mutual information is the mean over all."
        )
    known = any(nats != "–" for *_, nats in facts.graph.numbers.rows)
    caption = "Hidden variables stand in round boxes, columns in square ones. " + (
        "Edges are the wider the larger the mutual information of their ends under the model."
        if known
        else "A spectral model has no tables of hidden variables, so all edges have one width."
    )
    graph = element("div", _diagram_figure(caption, facts.graph), _pairs(facts), class_="beside natural")
    caption = "The junction tree: cliques in round boxes, columns in square ones, and on each edge its separator."
    tree = behind("The junction tree", _diagram_figure(caption, facts.tree))
    return [element("p", how, class_="how"), graph, tree]


def _pairs(facts: Facts) -> Html | None:
    if not facts.pairs:
        return None
    most = max(link.nats for link in facts.pairs) or 1.0
    rows = [[link.one, link.other, bar(link.nats / most, number(link.nats))] for link in facts.pairs]
    return table("Columns with most mutual information, in nats", ["column", "and", "nats"], rows, words=(0, 1))


def states_section(facts: Facts) -> list[Html | None]:
    """Return the profiles of hidden states, and the states of sequences."""
    how = (
        "P(label | state) of each column: bars are probabilities in per cent, and a dot is less than half of one. "
        "Columns stand in the order of their mutual information with the hidden variable, and states are numbered "
        "by size."
    )
    notes = sorted({f"Hidden states: {profile.note}." for profile in facts.profiles if profile.note})
    parts = [element("p", how, class_="how"), note_list(notes), _profile_blocks(facts.profiles)]
    if facts.states is not None:
        caption = "The most probable states of sequences (Viterbi), a row each; those with the same end together."
        parts.append(chart_figure(caption, facts.states))
    return parts


def spectra_section(facts: Facts) -> list[Html | None]:
    """Return the spectra of separators."""
    how = (
        "A separator passes on as many numbers as its rank. Where the last singular value that was kept is clear "
        "of the noise, the data support that rank; below it, shrinkage damps what is not known."
    )
    return [element("p", how, class_="how"), spectra_figure(facts.adapter.fit.spectra)]


def learning_section(facts: Facts) -> list[Html | None]:
    """Return how the model was learned: facts of the fit, its objective, sizes and starts that were tried."""
    fit = facts.adapter.fit
    if fit is None:
        return [facts_list([("free parameters", f"{facts.adapter.parameters:,}")])]
    parts: list[Html | None] = [note_list(fit.warnings), facts_list(fit.facts())]
    if len(getattr(fit, "history", ())) > 1:
        parts.append(learning_figure(fit.history, fit.validation_history, fit.unit))
    if (search := getattr(fit, "search", None)) is not None:
        rows = tuple(
            (
                str(trial.size),
                trial.start,
                f"{trial.parameters:,}",
                f"{trial.passes:,}",
                number(trial.log_likelihood, 5),
                number(trial.validation, 5),
            )
            for trial in search.trials
        )
        header = ("size", "start", "parameters", "passes", "training rows", "validation rows")
        caption = "Sizes that were tried, and the mean log probability of rows"
        parts.append(behind("The search over sizes", numbers_table(NumberTable(caption, header, rows, (0, 1)))))
    start = getattr(fit, "start", None)
    if start is not None and start.rungs:
        caption = "By how much each candidate was behind the best, after each rung."
        parts.append(behind("The multi-start", chart_figure(caption, multistart_chart(start))))
    if start is not None and start.absent:
        absent = "; ".join(f"no {name} start: {reason}" for name, reason in start.absent)
        parts.append(element("p", absent, class_="aside"))
    return parts


def _diagram_figure(caption: str, diagram: Diagram) -> Html:
    """Return a diagram with a caption, and the numbers behind it; these alone where it is too large."""
    if len(diagram.texts) > MOST_DRAWN:
        many = f"{len(diagram.texts):,} boxes are too many for a picture (the limit is {MOST_DRAWN})"
        return figure(f"{many}; the table has the first numbers.", numbers=[diagram.numbers])
    layout = laid_out_diagram(diagram, text_width)
    placed_boxes = placed(diagram, layout, text_width, (FONT, FONT), FONT)
    picture = scrolling(diagram_svg(diagram.title, diagram.description, *placed_boxes), diagram.title)
    return figure(caption, picture, numbers=[diagram.numbers])


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
    return element("div", *parts, class_="variable")


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
            _diagram_figure("Arrows are the wider the more probable the transition.", transition_diagram(profile))
        ]
    except ParameterError:
        picture = []
    return [element("div", *picture, made, class_="beside")]
