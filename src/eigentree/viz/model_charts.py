"""Charts of models: profiles of hidden states, states of sequences, candidates of a multi-start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.markup.charts import (
    Axis,
    CellGrid,
    Chart,
    Dots,
    Line,
    NumberTable,
    counted,
    left_out,
    linear_axis,
    shown_name,
)
from eigentree.markup.html import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.estimators.profiles import Profile
    from eigentree.inference.sequences.hmm_chain import Chain
    from eigentree.markup.charts import XY
    from eigentree.viz.interval_charts import Ends

__all__ = [
    "GridColumn",
    "ProfileGrid",
    "multistart_chart",
    "profile_chart",
    "profile_grid",
    "state_name",
    "state_sequence_chart",
]

MOST_STATES = 12
"""Hidden states that are shown, the largest."""

MOST_LABELS = 6
"""Labels of a column that are shown; where there are more, all but the most probable are taken together."""

NEAR = 1e-4
"""Nats per row, up to which distances from the best are drawn as they are, and beyond by their logarithm."""

RowEnds = tuple[tuple[float, float] | None, ...]
"""The ends of the intervals of one row of a grid, None where there is none."""

LOOKS = (("accent", "o"), ("alert", "s"), ("green", "^"), ("pink", "D"), ("hidden-line", "v"), ("edge", "<"))


class GridColumn(NamedTuple):
    """What is shown of one column: its mutual information with the state, P(label | state), and P(label).

    Of a number there is one row of shares, those of all rows below the mean in the state, and `texts` has the means
    and standard deviations, those of all rows first. `ends` are those of the intervals of shares, row by row.
    """

    name: str
    nats: float
    labels: tuple[str, ...]
    shares: Floats
    overall: Floats
    texts: tuple[tuple[str, ...], ...] = ()
    ends: tuple[RowEnds, ...] = ()


class ProfileGrid(NamedTuple):
    """What is shown of a profile: the numbers of the states, what they are called, their shares, and columns.

    `ends` are those of the intervals of the shares.
    """

    places: Integers
    states: tuple[str, ...]
    shares: Floats
    ends: RowEnds
    columns: tuple[GridColumn, ...]


def profile_grid(profile: Profile, columns: Sequence[str], ends: Ends) -> ProfileGrid:
    """Return the grid of some columns, in their order, for the largest states, and the intervals given."""
    shares = np.asarray(profile.shares.array)
    places = np.sort(np.argsort(-shares, kind="stable")[:MOST_STATES])
    names = tuple(state_name(profile.states[place]) for place in places)

    def with_ends(column: GridColumn) -> GridColumn:
        # A model of one channel has one table of emissions.
        rows = [
            [
                ends.get((column.name, label, given)) or ends.get(("emissions", label, given))
                for given in (f"{profile.name}={name}" for name in names)
            ]
            for label in column.labels
        ]
        if column.name in profile.numbers:
            every = profile.numbers[column.name].overall
            rows = [[pair and tuple(every.cdf(np.array(pair)).tolist()) for pair in rows[0]]]
        return column._replace(ends=tuple(map(tuple, rows)))

    return ProfileGrid(
        places,
        names,
        shares[places],
        tuple(ends.get((profile.name, name, "")) for name in names),
        tuple(with_ends(_grid_column(profile, column, places)) for column in columns),
    )


def _number_column(profile: Profile, column: str, places: Integers) -> GridColumn:
    own = profile.numbers[column]
    moments, every = own.moments[places], own.overall
    ranks = every.cdf(np.append(every.mean, moments[:, 0]))
    means = (own.shown(every.mean), *map(own.shown, moments[:, 0].tolist()))
    spreads = (own.shown_spread(every.std), *map(own.shown_spread, moments[:, 1].tolist()))
    nats = profile.nats[profile.columns.index(column)]
    return GridColumn(column, nats, ("mean", "sd"), ranks[None, 1:], ranks[:1], (means, spreads))


def _grid_column(profile: Profile, column: str, places: Integers) -> GridColumn:
    if column in profile.numbers:
        return _number_column(profile, column, places)
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


def profile_chart(profile: Profile, most: int, others: int, ends: Ends, level: float) -> Chart:
    """Return a profile as a chart: a column for each state, a row for each label of at most so many columns.

    `others` is how many hidden variables there are beside this one; `ends` are those of intervals.
    """
    grid = profile_grid(profile, profile.columns[:most], ends)
    values: list[Floats] = []
    texts: dict[tuple[int, int], str] = {}
    drawn: dict[tuple[int, int], tuple[float, float]] = {}
    rows: list[str] = []
    lines = []
    for column in grid.columns:
        # Of two labels one says it all.
        first = int(len(column.labels) == 2)
        labels = column.labels[first:]
        drawn |= {
            (len(rows) + row, place): pair
            for row, own in enumerate(column.ends[first * (not column.texts) :])
            for place, pair in enumerate(own)
            if pair is not None
        }
        if rows:
            lines.append(Line(((0.0, len(rows)), (float(len(grid.states)), len(rows))), "ink", width=0.8))
        if column.texts:
            texts |= {(len(rows), place): text for place, text in enumerate(column.texts[0][1:])}
            rows.append(f"{shown_name(column.name)} (mean)")
            values.append(column.shares)
            continue
        rows += [f"{shown_name(column.name)} = {labels[0]}", *labels[1:]]
        values.append(column.shares[first:])
    heads = [
        f"{state}\n{share:.0%}" + (f"\n{pair[0]:.0%} to {pair[1]:.0%}" if pair else "")
        for state, share, pair in zip(grid.states, grid.shares, grid.ends, strict=True)
    ]
    notes = [
        f"state, and its share of {profile.basis}",
        left_out(len(grid.columns), len(profile.columns), "column", "most informative"),
        left_out(len(grid.states), len(profile.states), "state", "largest"),
        "the more rows are below a mean, the darker" if texts else "",
        f"lines: intervals of {100 * level:g} %, from 0 at the left of a cell to 1" if drawn else "",
        "lines below means: the shares of rows below their ends" if drawn and texts else "",
        profile.note,
    ]
    whose = "hidden states" if profile.name == "state" else f"the states of {shown_name(profile.name)}"
    beside = f"; {counted(others, 'other hidden variable')} not shown" if others else ""
    x = Axis("\n".join(filter(None, notes)), 0.0, len(heads), _middles(heads), grid=False)
    return Chart(
        f"profiles of {whose}\nP(label | state){' and means of numbers' if texts else ''}{beside}",
        "",
        x,
        Axis("", float(len(rows)), 0.0, _middles(rows), grid=False),
        (CellGrid(np.concatenate(values), texts=texts, ends=drawn), *lines),
        (
            max(40.0, 5.0 * max(map(len, texts.values()), default=0) + 8) * max(len(heads), 4),
            (17.0 if drawn else 13.0) * len(rows) + 30.0,
        ),
    )


def state_name(state: Any) -> str:
    """Return the name of a state; in a mixture of trees, those of its tree and of the state."""
    return ":".join(map(str, state)) if isinstance(state, tuple) else str(state)


def _middles(texts: Sequence[str]) -> tuple[tuple[float, str], ...]:
    return tuple((place + 0.5, text) for place, text in enumerate(texts))


def state_sequence_chart(model: Chain, sequences: Sequences, chain: str | None, most: int) -> Chart:
    """Return the most probable states (Viterbi) of at most so many sequences, evenly taken from all; else raise.

    Of a factorial HMM it shows one chain, the first unless given.
    """
    each = model.states_of_each(model.decoded(sequences)[0])
    names = [f"chain {place}" for place in range(len(each))] if len(each) > 1 else ["state"]
    name = names[0] if chain is None else chain
    if name not in names:
        raise DataError(f"there is no chain {quoted(name)}{did_you_mean(name, names)}")
    states, count = each[names.index(name)], model.sizes[names.index(name)]
    if not len(states):
        raise DataError("there are no steps to draw")
    lengths = sequences.lengths
    table = np.full((sequences.count, int(lengths.max())), -1)
    table[np.arange(table.shape[1]) < lengths[:, None]] = states
    # By their ends first: where sequences lead is what they differ by most.
    order = np.lexsort(table.T)
    every = np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).round().astype(int))
    shown = table[order[every]]
    below = left_out(len(shown), len(table), "sequence", "evenly taken")
    # Steps and sequences are counted from 0; a cell reaches from its number to the next.
    x = linear_axis("step" + f"; {below}" * bool(below), [0.0, table.shape[1]], grid=False)
    shares = np.bincount(states[states >= 0], minlength=count) / max(len(states), 1)
    return Chart(
        title="most probable hidden states",
        description="; ".join(f"state {state}: {share:.0%} of steps" for state, share in enumerate(shares)),
        x=x._replace(high=float(table.shape[1]), ticks=tuple(t for t in x.ticks if t[0] <= table.shape[1])),
        y=Axis("sequence", float(len(shown)), 0.0, grid=False),
        marks=(CellGrid(shown, tuple(f"state {state}" for state in range(count))),),
        size=(330.0, 200.0),
    )


def multistart_chart(start: Any) -> Chart:
    """Return how far each candidate was behind the best of its rung (`start_`), by the kind of its start."""
    rungs = start.rungs
    kinds = sorted({name for rung in rungs for name, _ in rung.objectives})
    marks: list[Dots | Line] = []
    furthest = 0.0
    for place, kind in enumerate(kinds):
        points: list[XY] = []
        for at, rung in enumerate(rungs):
            behind = [rung.objectives[0][1] - objective for name, objective in rung.objectives if name == kind]
            furthest = max([furthest, *behind])
            # Candidates that are level stand beside each other.
            beside = [(place + (own + 1.0) / (len(behind) + 1)) / len(kinds) for own in range(len(behind))]
            points += [(at - 0.4 + 0.8 * share, nats) for share, nats in zip(beside, behind, strict=True)]
        role, marker = LOOKS[place % len(LOOKS)]
        marks.append(Dots(tuple(points), role, kind, filled=False, marker=marker))
    low = max(2.0 * furthest, 10 * NEAR)
    ticks = [0.0, *(10.0**power for power in range(-4, 4) if 10.0**power <= low)]
    between = [Line(((at - 0.5, low), (at - 0.5, -NEAR / 2)), "rule", width=0.8) for at in range(1, len(rungs))]
    rows = [
        (name, f"{rung.rows:,}", f"{rung.iterations:,}", number(objective, 6))
        for rung in rungs
        for name, objective in rung.objectives
    ]
    header = ("start", f"{start.unit}s that differ", "iterations", f"objective per {start.unit}")
    heads = [f"{rung.rows:,} rows\n{rung.iterations} iterations" for rung in rungs]
    return Chart(
        title=f"multi-start: the best was a {start.name} start",
        description=f"{len(rungs)} rungs; the best was a {start.name} start.",
        x=Axis("", -0.5, len(rungs) - 0.5, tuple(enumerate(heads)), grid=False),
        y=Axis(
            f"nats per {start.unit} behind the best",
            low,
            -NEAR / 2,
            tuple((tick, f"{tick:g}") for tick in ticks),
            "asinh",
            NEAR,
        ),
        marks=(*marks, *between),
        size=(60.0 + 85.0 * max(len(rungs), 3), 190.0),
        numbers=NumberTable("Candidates of the multi-start", header, tuple(rows)),
    )
