"""Profiles of hidden states on a page: tables of bars, P(label | state), and where states lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import ParameterError
from eigentree.markup.html import Html, behind, element, joined, number, scrolling
from eigentree.viz.diagrams import transition_diagram
from eigentree.viz.profile_grids import profile_grid, state_name
from eigentree.viz.reports.diagram_figures import diagram_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.estimators.profiles import Profile
    from eigentree.viz.profile_grids import GridColumn, ProfileGrid

__all__ = ["profile_blocks"]

MOST_VARIABLES, MOST_OPEN = 10, 3
"""Hidden variables that are shown, the most informative, and those that are open at once."""

COLUMNS_ALONE, COLUMNS_EACH, MOST_BEHIND = 8, 4, 40
"""Columns that are shown of a single hidden variable, of each of several, and behind."""

FAINT = "·"
"""What stands for less than half a per cent: most cells of most tables are that, and would drown the others."""

INFORMATIVE = 0.005
"""Nats of mutual information from which on a column is shown."""


def profile_blocks(profiles: Sequence[Profile]) -> Html:
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
    """Return the profile of one hidden variable, so many columns at once and so many when they are asked for."""
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


def _bar(probability: float) -> Html:
    """Return a cell with a probability in per cent, as short as it can be told, and a bar behind it."""
    if probability != probability:
        return element("td", "–", class_="n")
    if 0 < probability < 0.005:
        return element("td", FAINT, class_="n faint")
    shown = ">99" if 0.995 <= probability < 1 else f"{100 * probability:.0f}"
    return element("td", shown, class_="p", style=f"--p:{100 * probability:.0f}%")


def _table(profile: Profile, grid: ProfileGrid, columns: Sequence[GridColumn], caption: str) -> Html:
    heads = [element("td"), element("th", "all", scope="col", class_="n")]
    heads += [element("th", f"state {state}", scope="col", class_="n") for state in grid.states]
    sizes = [
        element("th", f"share of {profile.basis}, %", scope="row"),
        _bar(1.0),
        *map(_bar, grid.shares.tolist()),
    ]
    made = element(
        "table",
        element("caption", f"{caption}: P(label | state) in per cent"),
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
        rows.append(element("tr", head, _bar(overall), *map(_bar, shares)))
    return element("tbody", *rows)


def _transitions(profile: Profile, grid: ProfileGrid) -> list[Html]:
    """Return where sequences begin and where each state leads, as a diagram where there is room, and as a table."""
    assert profile.transitions is not None
    moves = profile.transitions.array
    rows: list[tuple[str, list[float]]] = []
    if profile.start is not None and profile.start.array.ndim == 1:
        rows.append(("at the start", profile.start.array[grid.places].tolist()))
    for before in np.ndindex(*moves.shape[:-1]):
        if set(before) <= set(grid.places.tolist()):
            names = ", then ".join(state_name(profile.states[at]) for at in before)
            rows.append((f"after {names}", moves[before][grid.places].tolist()))
    caption = f"Transitions of {profile.name}: P(next state), in per cent"
    heads = [element("td"), *(element("th", f"to {state}", scope="col", class_="n") for state in grid.states)]
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *(element("tr", element("th", name, scope="row"), *map(_bar, own)) for name, own in rows)),
        class_="moves",
    )
    try:
        picture = [
            diagram_figure("Arrows are the wider the more probable the transition.", transition_diagram(profile))
        ]
    except ParameterError:
        picture = []
    return [element("div", *picture, scrolling(made, caption), class_="beside")]
