"""Charts of numbers: densities in each hidden state, correlations within groups of columns, and durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.data.tables.numbers import Numbers
from eigentree.estimators.number_bins import normal_parts
from eigentree.markup.charts import Axis, Chart, Line, NumberTable, left_out, linear_axis, shown_name
from eigentree.markup.html import decimals, percent
from eigentree.viz.model_charts import state_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.estimators.number_bins import NumberProfile
    from eigentree.estimators.profiles import Profile

__all__ = ["correlation_table", "density_chart", "drawn_states", "duration_chart"]

ROLES = ("accent", "alert", "green", "pink", "hidden-line", "edge")
"""Colours of states that are drawn, the largest."""

POINTS = 241
"""Points of a curve, or most whole numbers that a count is drawn at."""

BEYOND = 0.08
"""By which share of its length an axis reaches beyond the quantiles 0.002 and 0.998."""

MOST_PAIRS = 12
"""Pairs of columns whose correlations are listed, those with the strongest one."""


def drawn_states(profile: Profile) -> dict[int, str]:
    """Return the states whose densities are drawn, the largest, by their places, each with its colour."""
    shares = np.asarray(profile.shares.array)
    places = np.sort(np.argsort(-shares, kind="stable")[: len(ROLES)])
    return dict(zip(places[shares[places] > 0].tolist(), ROLES, strict=False))


def density_chart(profile: Profile, column: str, legend: bool = True) -> Chart:
    """Return the density of a number in the largest states, each times the state's share, and that of all rows."""
    own = profile.numbers[column]
    shares = np.asarray(profile.shares.array)
    places = drawn_states(profile)
    x = _points(own)
    by_parents = own.leaf.pdf(x)
    every = by_parents @ own.leaf.group.shares
    several = len(shares) > 1
    curves: list[tuple[Floats, str, str, float, bool]] = [(every, "muted", "all", 1.2, True)] if several else []
    for place, role in places.items():
        name = f"state {state_name(profile.states[place])}" if several else "all"
        curves.append((shares[place] * (by_parents @ own.weights[place]), role, name, 1.8, False))
    top = max(float(curve.max()) for curve, *_ in curves)
    marks = [Line(_curve(x, y), role, name * legend, dashed, width) for y, role, name, width, dashed in curves]
    low, high = float(x[0]), float(x[-1])
    axis = linear_axis(shown_name(column), [low, high], about=6, grid=False)
    ticks = tuple((at, own.shown(at)) for at, _ in axis.ticks if low <= at <= high)
    if isinstance(own.meaning, Numbers) and own.meaning.unit:
        # Dates are long, and would reach beyond the ends.
        inside = [tick for tick in ticks if 0.15 <= (tick[0] - low) / (high - low) <= 0.85]
        ticks = (inside[0], inside[-1]) if len(inside) > 1 else tuple(inside)
    rows = tuple(
        (state_name(state), percent(share), own.shown(mean), own.shown_spread(std))
        for state, share, (mean, std) in zip(profile.states, shares.tolist(), own.moments.tolist(), strict=True)
    )
    below = left_out(len(places), len(profile.states), "state", "largest")
    return Chart(
        shown_name(column),
        "; ".join(f"state {state}: mean {mean}, standard deviation {std}" for state, _, mean, std in rows),
        Axis("; ".join(filter(None, [shown_name(column), below])), low, high, ticks, grid=False),
        Axis("", 0.0, 1.05 * top),
        tuple(marks),
        (250.0, 110.0),
        NumberTable(f"{column} in each state", ("state", "share", "mean", "standard deviation"), rows),
    )


def duration_chart(profile: Profile, legend: bool = True) -> Chart:
    """Return how long the largest states last: P(duration | state)."""
    assert profile.durations is not None
    table = profile.durations.array
    states, longest = table.shape
    steps = np.arange(1.0, longest + 1)
    places = drawn_states(profile)
    marks = [
        Line(_curve(steps, table[place]), role, f"state {state_name(profile.states[place])}" * legend, width=1.8)
        for place, role in places.items()
    ]
    means = [(state_name(state), f"{mean:.1f}") for state, mean in zip(profile.states, table @ steps, strict=True)]
    below = left_out(len(places), states, "state", "largest")
    high = max(float(longest), 2.0)
    across = linear_axis("; ".join(filter(None, ["steps", below])), [1.0, high], grid=False)
    return Chart(
        "durations",
        "; ".join(f"state {state}: {mean} steps on average" for state, mean in means),
        across._replace(low=1.0, high=high),
        linear_axis("P(duration)", [0.0, float(table[list(places)].max())]),
        tuple(marks),
        (330.0, 150.0),
        NumberTable("mean duration of each state", ("state", "steps"), tuple(means)),
    )


def _points(own: NumberProfile) -> Floats:
    """Return where the density of a number is drawn: all whole numbers of a count, as long as these are few."""
    low, high = own.leaf.quantiles[[0, -1]].tolist()
    more = BEYOND * (high - low) or abs(low) or 1.0
    low, high = low - more, high + more
    if isinstance(own.meaning, Numbers) and own.meaning.kind == "count":
        low, high = max(np.floor(low), 0.0), np.ceil(high)
        if high - low < POINTS:
            return np.arange(low, high + 1)
        return np.unique(np.rint(np.linspace(low, high, POINTS)))
    # The means of narrow states must not fall between points.
    return np.unique(np.append(np.linspace(low, high, POINTS), own.leaf.quantiles))


def _curve(x: Floats, y: Floats) -> tuple[tuple[float, float], ...]:
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


def correlation_table(profile: Profile, group: Sequence[str], places: Sequence[int]) -> NumberTable:
    """Return the correlations of numbers that share an emission in some states, the strongest pairs first.

    Those of normal scores are the correlations of the scores.
    """
    found = []
    own = profile.numbers[group[0]]
    parts = normal_parts(own.leaf.emission)
    assert parts is not None
    means, every = parts
    for place in places:
        weights = np.nan_to_num(own.weights[place])
        apart = means - weights @ means
        within = np.tensordot(weights, every + apart[:, :, None] * apart[:, None, :], 1)
        scale = np.sqrt(np.diagonal(within))
        with np.errstate(invalid="ignore"):
            found.append(within / scale[:, None] / scale)
    pairs = [(one, other) for one in range(len(group)) for other in range(one + 1, len(group))]
    strength = {pair: max(abs(float(np.nan_to_num(each[pair]))) for each in found) for pair in pairs}
    ranked = sorted(pairs, key=lambda pair: -strength[pair])
    rows = tuple(
        (f"{group[one]}, {group[other]}", *(decimals(float(each[one, other]), 2) for each in found))
        for one, other in ranked[:MOST_PAIRS]
    )
    rest = left_out(len(rows), len(pairs), "pair", "strongest")
    caption = "Correlations in each state" + f" ({rest})" * bool(rest)
    heads = (f"state {state_name(profile.states[place])}" for place in places)
    return NumberTable(caption, ("columns", *heads), rows)
