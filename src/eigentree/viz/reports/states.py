"""Hidden states as profiles: what each says about each column, as tables of bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.markup.html import Html, behind, element, joined, number, scrolling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.models.profiles import Profile

__all__ = ["profile_block", "profile_blocks"]

MOST_VARIABLES = 10
"""Hidden variables that are shown, those that tell most."""

MOST_OPEN = 3
"""Hidden variables that are shown without being asked for."""

MOST_STATES = 9
"""States that are shown of a hidden variable, the largest first."""

MOST_LABELS = 6
"""Labels that are shown of a column; the others are added up."""

COLUMNS_ALONE, COLUMNS_EACH = 8, 4
"""Columns that are shown at once of a single hidden variable, and of each of several."""

MOST_BEHIND = 40
"""Columns that are shown when they are asked for."""

FAINT = "·"
"""What stands for less than half a per cent: most cells of most tables are that, and would drown the others."""

TELLS = 0.005
"""Nats from which on a hidden variable says something about a column."""


def profile_blocks(profiles: Sequence[Profile]) -> Html:
    """Return the profiles of hidden variables, those that tell most."""
    shown = profiles[:MOST_VARIABLES]
    at_once, behind_it = (COLUMNS_ALONE, MOST_BEHIND) if len(profiles) == 1 else (COLUMNS_EACH, COLUMNS_EACH)
    made: list[object] = [profile_block(profile, at_once, behind_it) for profile in shown[:MOST_OPEN]]
    for profile in shown[MOST_OPEN:]:
        most = " and ".join(profile.columns[:2])
        block = profile_block(profile, at_once, behind_it)
        made.append(behind(f"{profile.name}, which tells most about {most}", block))
    if left := profiles[MOST_VARIABLES:]:
        names = ", ".join(profile.name for profile in left[:30]) + (", …" if len(left) > 30 else "")
        made.append(
            element(
                "p", f"{len(left)} more hidden variables, which tell less, are left out: {names}.", class_="aside"
            )
        )
    return joined(made)


def profile_block(profile: Profile, at_once: int, behind_it: int) -> Html:
    """Return the profile of one hidden variable.

    Parameters
    ----------
    profile : Profile
    at_once, behind_it : int
        How many columns are shown, and how many more when they are asked for.
    """
    order = np.argsort(-profile.shares.array, kind="stable")
    order = np.sort(order[:MOST_STATES])
    told = [column for column, nats in zip(profile.columns, profile.nats, strict=True) if nats >= TELLS]
    # Where it says nothing at all, that is worth seeing.
    told = told or list(profile.columns[:1])
    first, rest = told[:at_once], told[at_once : at_once + behind_it]
    name = f"Profile of {profile.name}"
    parts: list[object] = [
        element("h3", f"{profile.name}: {len(profile.states):,} state{'s' * (len(profile.states) != 1)}"),
        scrolling(_table(profile, order, first, name), name),
    ]
    if rest:
        more = f"{name}, further columns"
        parts.append(behind(f"Further columns ({len(rest)})", scrolling(_table(profile, order, rest, more), more)))
    notes = []
    if len(order) < len(profile.states):
        share = float(profile.shares.array[order].sum())
        notes.append(f"The {len(order)} largest states are shown; they have {share:.0%} of all {_units(profile)}.")
    silent = len(profile.columns) - len(told)
    left = len(told) - len(first) - len(rest)
    if left > 0:
        notes.append(f"Columns that are left out: {left}.")
    if silent > 0:
        notes.append(f"Columns of which it tells nothing to speak of: {silent}.")
    if notes:
        parts.append(element("p", " ".join(notes), class_="aside"))
    if profile.transitions is not None:
        parts.append(_transitions(profile, order))
    return element("div", *parts, class_="variable")


def _units(profile: Profile) -> str:
    return "steps" if profile.transitions is not None else "rows"


def _state(state: Any) -> str:
    return f"{state[1]} of tree {state[0]}" if isinstance(state, tuple) else str(state)


def _percent(probability: float) -> str:
    """Return a probability in per cent, as short as it can be told."""
    if probability != probability:
        return "–"
    if 0 < probability < 0.005:
        return FAINT
    if 0.995 <= probability < 1:
        return ">99"
    return f"{100 * probability:.0f}"


def _bar(probability: float, kind: str = "p") -> Html:
    known = probability if probability == probability else 0.0
    told = _percent(probability)
    if told == FAINT:
        return element("td", told, class_="n faint")
    return element("td", told, class_=kind, style=f"--p:{100 * known:.0f}%")


def _table(profile: Profile, order: Any, columns: Sequence[str], caption: str) -> Html:
    shares = profile.shares.array
    heads = [element("td"), element("th", "all", scope="col", class_="n")]
    heads += [element("th", f"state {_state(profile.states[at])}", scope="col", class_="n") for at in order]
    sizes = [element("th", f"share of {_units(profile)}, %", scope="row"), _bar(1.0)]
    sizes += [_bar(float(shares[at])) for at in order]
    bodies = [_column(profile, order, column) for column in columns]
    return element(
        "table",
        element("caption", f"{caption}: how likely each label is in each state, in per cent"),
        element("thead", element("tr", *heads)),
        element("tbody", element("tr", *sizes)),
        *bodies,
        class_="profile",
    )


def _column(profile: Profile, order: Any, column: str) -> Html:
    """Return what the states say about a column: a row for each label."""
    table = profile.table(column)
    given = table.array
    alone = np.asarray(profile.shares.array) @ np.nan_to_num(given)
    labels = list(table.states[1])
    # Those that any state finds likely, in their own order.
    kept = list(range(len(labels)))
    if len(labels) > MOST_LABELS:
        peaks = np.nan_to_num(given[order]).max(axis=0)
        kept = sorted(np.argsort(-peaks, kind="stable")[: MOST_LABELS - 1].tolist())
    nats = profile.nats[profile.columns.index(column)]
    name = element(
        "th",
        column,
        element("small", f" {number(nats, 2)} nats"),
        scope="rowgroup",
        colspan=len(order) + 2,
        class_="name",
    )
    rows = [element("tr", name)]
    for label in kept:
        cells = [_bar(float(alone[label])), *(_bar(float(given[at, label])) for at in order)]
        rows.append(element("tr", element("th", str(labels[label]), scope="row", class_="label"), *cells))
    if len(kept) < len(labels):
        others = [label for label in range(len(labels)) if label not in set(kept)]
        sums = [_bar(float(alone[others].sum())), *(_bar(float(given[at, others].sum())) for at in order)]
        head = element("th", f"{len(others)} other labels", scope="row", class_="label")
        rows.append(element("tr", head, *sums))
    return element("tbody", *rows)


def _transitions(profile: Profile, order: Any) -> Html:
    """Return where sequences begin, and where each state leads."""
    moves = profile.transitions
    assert moves is not None
    states = moves.array.shape[-1]
    flat = moves.array.reshape(-1, states)
    earlier = [np.unravel_index(row, moves.array.shape[:-1]) for row in range(len(flat))]
    shown = [
        (", then ".join(_state(profile.states[int(at)]) for at in before), flat[row])
        for row, before in enumerate(earlier)
        if all(int(at) in order for at in before)
    ][: MOST_STATES**2]
    heads = [
        element("td"),
        *(element("th", f"to {_state(profile.states[at])}", scope="col", class_="n") for at in order),
    ]
    rows = [
        element("tr", element("th", f"after {name}", scope="row"), *(_bar(float(own[at])) for at in order))
        for name, own in shown
    ]
    if profile.start is not None and profile.start.array.ndim == 1:
        first = [_bar(float(profile.start.array[at])) for at in order]
        rows.insert(0, element("tr", element("th", "at the start", scope="row"), *first))
    caption = f"Transitions of {profile.name}: which state comes next, in per cent"
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="moves",
    )
    return scrolling(made, caption)
