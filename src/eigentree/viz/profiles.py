"""What hidden states say about columns, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.checks import whole_number
from eigentree.errors import ParameterError
from eigentree.models.profiles import Profile
from eigentree.models.profiles import profiles as profiles_of
from eigentree.viz.axes import FONT, axes_of, checked_axes, counted, left_out, shown_name

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.exact.network import LatentNetwork
    from eigentree.models.sequence_face import HiddenSequenceFace
    from eigentree.models.tables_face import TablesFace

__all__ = ["profiles"]

MOST_COLUMNS = 10
"""Columns that are shown unless the user says how many."""

MOST_STATES = 12
"""Hidden states that are shown, the largest."""

MOST_LABELS = 6
"""Labels of a column that are shown; where there are more, all but the likeliest are taken together."""

LONGEST_LABEL = 24

STATE = 0.62
"""Inches of a state."""

LETTER = 0.6
"""How wide a letter is for its size, about."""

DARK = 0.55
"""From this probability on, numbers are white."""


class _Lines(NamedTuple):
    """What is shown of one column: a line for each label, or for several together."""

    column: str
    labels: list[str]
    shares: Floats


def profiles(
    model: LatentNetwork | TablesFace | HiddenSequenceFace | Profile,
    hidden: str | None = None,
    most: int = MOST_COLUMNS,
    ax: Any = None,
) -> Any:
    """Return matplotlib's axes with what the states of a hidden variable say about columns: P(label | state).

    One column of the picture for each state, with its share below, and a line for each label; the columns of the
    data stand in the order of what the variable tells about them (`eigentree.profiles`).

    Parameters
    ----------
    model : LatentNetwork, a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM, or one of `eigentree.profiles`
    hidden : str, optional
        The hidden variable; by default the one that tells most about all columns.
    most : int
        How many columns of the data are shown at most; a sentence below says how many were left out.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.

    Raises
    ------
    ParameterError
        When a model has no tables, no hidden variables, or there is nothing to draw on.
    """
    checked_axes(ax)
    profile, others = _chosen(model, hidden)
    states = np.sort(np.argsort(-profile.shares.array, kind="stable")[:MOST_STATES])
    lines = [_lines(profile, column, states) for column in profile.columns[: whole_number("most", most)]]
    table = np.concatenate([line.shares for line in lines])
    ax = axes_of(ax, 2.8 + STATE * max(len(states), 4), 1.3 + 0.21 * len(table))
    ax.pcolormesh(table, cmap="Blues", vmin=0.0, vmax=1.0, edgecolors="white", linewidth=0.8)
    _write_numbers(ax, table)
    _write_names(ax, profile, lines, states)
    whose = "hidden states" if profile.name == "state" else f"the states of {shown_name(profile.name)}"
    title = f"what {whose} say\nP(label | state)"
    if others:
        title += f"; {counted(others, 'other hidden variable')} not shown"
    # Names stand on the left, so that what is wider than the states has room there alone.
    wide = max(map(len, title.splitlines())) * (FONT + 1) * LETTER / 72 > STATE * len(states)
    ax.set_title(title, fontsize=FONT + 1, parse_math=False, **({"x": 1.0, "ha": "right"} if wide else {}))
    return ax


def _chosen(model: Any, hidden: str | None) -> tuple[Profile, int]:
    """Return the profile to draw, and how many there are beside it."""
    if isinstance(model, Profile):
        return model, 0
    found = profiles_of(model, None if hidden is None else [hidden])
    if not found:
        raise ParameterError("the model has no hidden variables, and so no profiles to draw")
    # By its sum, what many columns hear counts more than what one does.
    profile = max(found.values(), key=lambda each: sum(each.nats))
    return profile, len(found) - 1


def _lines(profile: Profile, column: str, states: Any) -> _Lines:
    """Return what is shown of a column: of two labels one says it all, of many the likeliest are shown."""
    table = profile.table(column)
    labels, shares = list(map(str, table.states[1])), table.array[states].T
    if len(labels) == 2:
        return _Lines(column, labels[1:], shares[1:])
    if len(labels) > MOST_LABELS:
        likely = np.sort(np.argsort(-np.nan_to_num(shares).max(axis=1), kind="stable")[: MOST_LABELS - 1])
        rest = np.setdiff1d(np.arange(len(labels)), likely)
        shares = np.concatenate([shares[likely], shares[rest].sum(axis=0, keepdims=True)])
        labels = [*(labels[place] for place in likely), f"{len(rest)} others"]
    return _Lines(column, labels, shares)


def _write_numbers(ax: Any, table: Floats) -> None:
    for (row, state), share in np.ndenumerate(table):
        if np.isfinite(share):
            # Digits that say nothing are left out.
            shown = "1" if share >= 0.995 else f"{share:.2f}".lstrip("0") if share >= 0.005 else "0"
            colour = "white" if share > DARK else "#222222"
            ax.text(state + 0.5, row + 0.5, shown, ha="center", va="center", fontsize=FONT - 1, color=colour)


def _write_names(ax: Any, profile: Profile, lines: list[_Lines], states: Any) -> None:
    rows = [
        f"{shown_name(line.column)} = {shown_name(label, LONGEST_LABEL)}"
        if place == 0
        else shown_name(label, LONGEST_LABEL)
        for line in lines
        for place, label in enumerate(line.labels)
    ]
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=FONT, parse_math=False)
    ax.set_ylim(len(rows), 0)
    ends = np.cumsum([len(line.labels) for line in lines])[:-1]
    ax.hlines(ends, 0, len(states), color="#444444", linewidth=0.8)
    heads = [f"{_state(profile.states[place])}\n{profile.shares[place]:.0%}" for place in states]
    ax.set_xticks(np.arange(len(states)) + 0.5, heads, fontsize=FONT)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    notes = [
        left_out(len(lines), len(profile.columns), "column", "most telling"),
        left_out(len(states), len(profile.states), "state", "largest"),
    ]
    told = [note.replace("; ", ";\n") for note in notes if note]
    ax.set_xlabel("\n".join(["state, and its share", *told]), fontsize=FONT)


def _state(state: Any) -> str:
    """Return the name of a state; in a mixture of trees, those of its tree and of the state."""
    return ":".join(map(str, state)) if isinstance(state, tuple) else str(state)
