"""Profiles of hidden states as a grid, P(label | state): the same for plots and for pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.markup.charts import Axis, CellGrid, Chart, Line, counted, left_out, shown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.estimators.profiles import Profile

__all__ = ["GridColumn", "ProfileGrid", "profile_chart", "profile_grid", "state_name"]

MOST_STATES = 12
"""Hidden states that are shown, the largest."""

MOST_LABELS = 6
"""Labels of a column that are shown; where there are more, all but the most probable are taken together."""


class GridColumn(NamedTuple):
    """What is shown of one column of the data.

    Attributes
    ----------
    name : str
    nats : float
        Its mutual information with the hidden variable.
    labels : tuple of str
    shares : array, shape (labels, states)
        P(label | state).
    overall : array, shape (labels,)
        P(label).
    """

    name: str
    nats: float
    labels: tuple[str, ...]
    shares: Floats
    overall: Floats


class ProfileGrid(NamedTuple):
    """What is shown of a profile: the numbers of the states, what they are called, their shares, and columns."""

    places: Integers
    states: tuple[str, ...]
    shares: Floats
    columns: tuple[GridColumn, ...]


def profile_grid(profile: Profile, columns: Sequence[str]) -> ProfileGrid:
    """Return the grid of some columns, in their order, for the largest states."""
    shares = np.asarray(profile.shares.array)
    places = np.sort(np.argsort(-shares, kind="stable")[:MOST_STATES])
    return ProfileGrid(
        places,
        tuple(state_name(profile.states[place]) for place in places),
        shares[places],
        tuple(_grid_column(profile, column, places) for column in columns),
    )


def _grid_column(profile: Profile, column: str, places: Integers) -> GridColumn:
    table = profile.table(column)
    labels, every = [shown_name(label, 24) for label in table.states[1]], table.array.T
    overall = np.nan_to_num(every) @ profile.shares.array
    shares = every[:, places]
    if len(labels) > MOST_LABELS:
        likely = np.sort(np.argsort(-np.nan_to_num(shares).max(axis=1), kind="stable")[: MOST_LABELS - 1])
        rest = np.setdiff1d(np.arange(len(labels)), likely)
        shares = np.concatenate([shares[likely], shares[rest].sum(axis=0, keepdims=True)])
        overall = np.append(overall[likely], overall[rest].sum())
        labels = [*(labels[place] for place in likely), f"{len(rest)} others"]
    return GridColumn(column, profile.nats[profile.columns.index(column)], tuple(labels), shares, overall)


def profile_chart(profile: Profile, most: int, others: int) -> Chart:
    """Return a profile as a chart: a column for each state, a row for each label.

    Parameters
    ----------
    profile : Profile
    most : int
        Columns of the data that are shown at most.
    others : int
        How many hidden variables there are beside this one.
    """
    grid = profile_grid(profile, profile.columns[:most])
    values: list[Floats] = []
    rows: list[str] = []
    lines = []
    for column in grid.columns:
        # Of two labels one says it all.
        first = int(len(column.labels) == 2)
        labels = column.labels[first:]
        if rows:
            lines.append(Line(((0.0, len(rows)), (float(len(grid.states)), len(rows))), "ink", width=0.8))
        rows += [f"{shown_name(column.name)} = {labels[0]}", *labels[1:]]
        values.append(column.shares[first:])
    heads = [f"{state}\n{share:.0%}" for state, share in zip(grid.states, grid.shares, strict=True)]
    notes = [
        f"state, and its share of {profile.basis}",
        left_out(len(grid.columns), len(profile.columns), "column", "most informative"),
        left_out(len(grid.states), len(profile.states), "state", "largest"),
        profile.note,
    ]
    whose = "hidden states" if profile.name == "state" else f"the states of {shown_name(profile.name)}"
    beside = f"; {counted(others, 'other hidden variable')} not shown" if others else ""
    x = Axis("\n".join(filter(None, notes)), 0.0, len(heads), _middles(heads), grid=False)
    return Chart(
        f"profiles of {whose}\nP(label | state){beside}",
        "",
        x,
        Axis("", float(len(rows)), 0.0, _middles(rows), grid=False),
        (CellGrid(np.concatenate(values)), *lines),
        (40.0 * max(len(heads), 4), 13.0 * len(rows) + 30.0),
    )


def state_name(state: Any) -> str:
    """Return the name of a state; in a mixture of trees, those of its tree and of the state."""
    return ":".join(map(str, state)) if isinstance(state, tuple) else str(state)


def _middles(texts: Sequence[str]) -> tuple[tuple[float, str], ...]:
    return tuple((place + 0.5, text) for place, text in enumerate(texts))
