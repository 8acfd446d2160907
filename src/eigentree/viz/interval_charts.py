"""Charts of estimates with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.markup.charts import (
    MOST_LISTED,
    Axis,
    Chart,
    Dots,
    Line,
    NumberTable,
    left_out,
    linear_axis,
    shown_name,
)
from eigentree.markup.html import number

if TYPE_CHECKING:
    from eigentree.arrays import Booleans
    from eigentree.uncertainty.estimates import Estimates

__all__ = ["Ends", "estimates_table", "interval_chart", "interval_ends"]

Ends = dict[tuple[str, str, str], tuple[float, float]]
"""The ends of intervals of probabilities and of means, by table, state and what is given."""


def interval_ends(found: Estimates | None, level: float = 0.95) -> Ends:
    """Return the ends of the intervals of probabilities and of means that have a standard error."""
    if found is None:
        return {}
    both = zip(found.labels, found.confint(level).tolist(), found.scales or (), strict=False)
    return {
        (str(table), shown_name(str(state), 24), str(given)): (low, high)
        for (table, state, given), (low, high), scale in both
        if (scale == "logit" or state == "mean") and low == low
    }


def estimates_table(found: Estimates, level: float = 0.95) -> NumberTable:
    """Return estimates with their standard errors and intervals, the first ones."""
    ends, errors = found.confint(level), found.standard_errors
    rows = tuple(
        (
            _named(labels),
            number(float(found.values[place]), 4),
            *(_cell(each) for each in (errors[place], *ends[place])),
        )
        for place, labels in enumerate(found.labels[:MOST_LISTED])
    )
    return NumberTable("Estimates", ("parameter", "estimate", "standard error", "lower", "upper"), rows)


def interval_chart(found: Estimates, most: int, level: float = 0.95) -> Chart:
    """Return estimates as dots on their intervals, a line each, at most so many; the others are in the table."""
    ends = found.confint(level)
    known: Booleans = np.asarray(np.isfinite(ends).all(axis=1))
    names = [_named(labels) for labels in found.labels]
    shown = range(min(most, len(names)))
    values = [
        *found.values[: len(shown)].tolist(),
        *(end for place in shown if known[place] for end in ends[place].tolist()),
    ]
    axis = linear_axis(f"estimate, and interval of {100 * level:g} %", values, about=6)
    lines = [
        Line(tuple((end, float(place)) for end in ends[place].tolist()), "accent", width=2.0)
        for place in shown
        if known[place]
    ]
    rest = left_out(len(shown), len(names), "estimate", "first")
    return Chart(
        "estimates and their intervals" + f"\n{rest}" * bool(rest),
        f"{len(shown)} estimates with intervals of {100 * level:g} %; the table behind has the numbers.",
        axis,
        Axis(
            "",
            len(shown) - 0.5,
            -0.5,
            tuple((float(place), shown_name(names[place], 60)) for place in shown),
            grid=False,
        ),
        (*lines, Dots(tuple((float(found.values[place]), float(place)) for place in shown))),
        (260.0, 16.0 * max(len(shown), 4)),
        estimates_table(found, level),
    )


def _named(labels: tuple[object, ...]) -> str:
    """Return the name of an estimate: its labels, of a parameter P(state | given)."""
    first, *others = (str(label) for label in labels)
    if len(others) != 2:
        return " ".join([first, *others])
    state, given = others
    return f"{first}={state}" + f" | {given}" * bool(given)


def _cell(value: float) -> str:
    return number(float(value), 4) if np.isfinite(value) else ""
