"""The sections of a page: on what was learned and how, and on how the model does on rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import ParameterError
from eigentree.markup.charts import Axis, Chart, Dots, Line, NumberTable, linear_axis
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
from eigentree.markup.html import (
    Html,
    bar,
    behind,
    decimals,
    element,
    facts_list,
    joined,
    number,
    percent,
    scrolling,
    table,
    with_error,
)
from eigentree.viz.diagrams import laid_out_diagram, placed, transition_diagram
from eigentree.viz.model_charts import multistart_chart, profile_grid, state_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.estimators.profiles import Profile
    from eigentree.markup.charts import Mark
    from eigentree.viz.diagrams import Diagram
    from eigentree.viz.model_charts import GridColumn, ProfileGrid
    from eigentree.viz.reports.evaluation import (
        Anomaly,
        Baseline,
        CalibrationBin,
        Likelihoods,
        MaskedAccuracy,
        UnexpectedCell,
    )
    from eigentree.viz.reports.evaluation_data import EvaluationData
    from eigentree.viz.reports.report import Facts

__all__ = [
    "anomaly_section",
    "baseline_chart",
    "calibration_chart",
    "data_section",
    "learning_section",
    "likelihood_section",
    "masked_section",
    "spectra_section",
    "states_section",
    "structure_section",
]

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


MOST_COLUMNS = 12
"""Columns that are listed at once."""


def likelihood_section(facts: Facts, found: Likelihoods) -> list[Html | None]:
    """Return how probable rows are, compared with baselines."""
    unit = facts.adapter.unit
    some = "" if found.count == found.given else f", sampled from {found.given:,} by a fixed seed"
    how = (
        f"Mean log probability of a {unit} in nats, over {found.count:,} {unit}s{some}. All models are normalised "
        f"over everything that a {unit} could be, and missing cells are marginalised out. "
    )
    if found.held_out:
        how += f"Baselines were fitted to {found.learned:,} training {unit}s; these {unit}s are held out."
    elif found.baselines:
        how += (
            f"If the model was fitted to these {unit}s, compare it with the baselines that were too (in-sample); "
            f"if they are held out, with the cross-validated ones, which score each fifth after a fit to the "
            f"others. With training= baselines are fitted to the model's own training data."
        )
    groups = [(footing(found, own), own) for own in (found.baselines, found.in_sample) if own]
    rows: list[Sequence[object]] = [("this model", "", decimals(found.mean, 3), "")]
    rows += [
        (one.name, where, decimals(one.mean, 3), with_error(one.ahead, one.error))
        for where, own in groups
        for one in own
    ]
    header = ["model", "compared", f"log probability of a {unit}", "this model is higher by"]
    notes = []
    if found.impossible:
        notes.append(
            f"{found.impossible:,} {unit}s are impossible under the model, so its mean is minus infinity; "
            f"differences are over the others. Pseudo-counts above 0, or a floor, prevent that."
        )
    parts: list[Html | None] = [element("p", how, class_="how"), note_list(notes)]
    if groups:
        charts = [baseline_chart(own, unit, where) for where, own in groups]
        caption = f"Dots are mean differences on the same {unit}s, lines two standard errors to both sides."
        parts.append(chart_figure(caption, *charts))
    parts.append(table("Log probabilities in nats", header, rows, words=(0, 1)))
    if found.absent:
        absent = "; ".join(f"no {name}: {reason}" for name, reason in found.absent)
        parts.append(element("p", absent, class_="aside"))
    return parts


def footing(found: Likelihoods, own: Sequence[Baseline]) -> str:
    """Return on which footing baselines are compared."""
    if own is found.in_sample:
        return "in-sample"
    return "held-out" if found.held_out else "cross-validated"


def baseline_chart(baselines: Sequence[Baseline], unit: str, where: str) -> Chart:
    """Return by how much a model is ahead of baselines, each with two standard errors to both sides."""
    known = [one for one in baselines if math.isfinite(one.ahead + one.error)]
    ends = [one.ahead + sign * 2 * one.error for one in known for sign in (-1, 1)]
    x = linear_axis(f"nats per {unit} above the baseline, {where}", [0.0, *ends])
    high = len(baselines) - 0.5
    marks: list[Mark] = [Line(((0.0, -0.5), (0.0, high)), "muted", width=1.0)]
    for row, one in enumerate(baselines):
        if one in known:
            line = ((one.ahead - 2 * one.error, float(row)), (one.ahead + 2 * one.error, float(row)))
            marks += [Line(line, width=2.0), Dots(((one.ahead, float(row)),))]
    described = "; ".join(f"{one.name}: {with_error(one.ahead, one.error)}" for one in baselines)
    y = Axis("", high, -0.5, tuple((row, one.name) for row, one in enumerate(baselines)))
    return Chart(
        f"How far the model is ahead of baselines, {where}", f"{described}.", x, y, tuple(marks), (300.0, 64.0)
    )


def masked_section(facts: Facts, found: MaskedAccuracy) -> list[Html | None]:
    """Return how well masked cells are predicted, and whether probabilities are calibrated."""
    unit = facts.adapter.unit
    every = found.cells == found.known
    some = "all known cells" if every else f"{found.cells:,} of {found.known:,} known cells"
    how = (
        f"Each cell is masked in turn and predicted from the rest of its {unit}: {some}, in {found.units:,} "
        f"{unit}s{'' if every else ', sampled by a fixed seed'}. The accuracy of the most probable label is "
        f"{percent(found.accuracy)}; that of the most frequent label of each column {percent(found.usual)}."
    )
    caption = (
        f"Calibration: the probability of the most probable label, and how often it was correct, with two standard "
        f"errors. On the dashed line both are the same; on the average they differ by "
        f"{100 * found.calibration_error:.1f} points. Bars count the cells."
    )
    rows = [
        [
            one.column,
            f"{one.cells:,}",
            bar(one.accuracy, percent(one.accuracy)),
            percent(one.usual),
            number(one.log_prob),
        ]
        for one in found.columns[:200]
    ]
    heads = ["column", "cells", "accuracy", "most frequent label", "log probability"]
    rest = rows[MOST_COLUMNS:]
    more = behind(f"Further columns ({len(rest)})", table("Further columns", heads, rest)) if rest else None
    listed = table("Columns, those first where the model adds most", heads, rows[:MOST_COLUMNS])
    calibration = chart_figure(caption, calibration_chart(found.bins))
    both = element("div", calibration, element("div", listed, more), class_="beside uneven")
    return [element("p", how, class_="how"), both]


def calibration_chart(bins: Sequence[CalibrationBin]) -> Chart:
    """Return how often predictions were correct by their probability, and how many there were."""
    marks: list[Mark] = [Line(((0.0, 0.0), (1.0, 1.0)), "muted", dashed=True, width=1.0)]
    most = max((one.cells for one in bins), default=1) or 1
    for one in bins:
        if one.cells:
            middle, top = (one.low + one.high) / 2, 0.2 * one.cells / most
            marks.insert(0, Line(((middle, 0.0), (middle, top)), "tint", width=21.0))
            low, high = (min(max(one.correct + sign * 2 * one.error, 0.0), 1.0) for sign in (-1, 1))
            marks.append(Line(((one.predicted, low), (one.predicted, high)), width=2.0))
            marks.append(Dots(((one.predicted, one.correct),)))
    described = "; ".join(
        f"probability {one.predicted:.0%}, correct {one.correct:.0%} of {one.cells:,}" for one in bins if one.cells
    )
    rows = tuple(
        (
            f"{one.low:.0%} to {one.high:.0%}",
            f"{one.cells:,}",
            *(percent(value) if one.cells else "–" for value in (one.predicted, one.correct, one.error)),
        )
        for one in bins
    )
    header = ("probability", "cells", "mean probability", "correct", "standard error")
    ticks = tuple((tick / 4, f"{tick / 4:.0%}") for tick in range(5))
    return Chart(
        "Calibration of masked cells",
        f"{described}.",
        Axis("predicted probability", 0.0, 1.0, ticks, grid=False),
        Axis("share correct", 0.0, 1.0, ticks),
        tuple(marks),
        (250.0, 250.0),
        NumberTable("Predictions by their probability", header, rows),
    )


def anomaly_section(facts: Facts) -> list[Html | None]:
    """Return the rows of lowest probability, and why."""
    how = (
        "The sequences of lowest probability by the step, and their cells of low probability given the rest of the "
        "sequence. Sequences and steps are counted from 0."
        if facts.adapter.steps
        else "The rows of lowest probability, and their cells of low probability given the rest of the row. Rows "
        "are counted from 0, or called as in the index of a frame."
    )
    found = (_anomaly(facts, row) for row in facts.anomalies)
    return [element("p", how, class_="how"), element("ol", *found, class_="anomalies")]


def _anomaly(facts: Facts, row: Anomaly) -> Html:
    per = f" nats a step, {row.length:,} steps" if row.length is not None else " nats"
    others = f", and {row.like:,} like it" if row.like else ""
    head = element(
        "h3", f"{facts.adapter.unit} {row.name} ", element("small", f"{number(row.log_prob, 4)}{per}{others}")
    )
    if not row.cells:
        return element("li", head, element("small", "No cell by itself is unexpected; together they are."))
    return element("li", head, element("ul", *(element("li", *_unexpected_cell(cell)) for cell in row.cells)))


def _unexpected_cell(cell: UnexpectedCell) -> list[object]:
    at = "" if cell.step is None else f" at step {cell.step}"
    more = f"{cell.expected} was expected with {number(cell.highest, 2)}"
    return [
        f"{cell.column}{at} is ",
        element("strong", cell.label),
        element("small", f" (probability {number(cell.probability, 2)}; {more})"),
    ]


def data_section(data: EvaluationData, source: str | None) -> list[Html | None]:
    """Return what is known of the rows that were given: how many, and their missing cells and unseen labels."""
    missing = data.missing
    share = missing.mean() if missing.size else 0.0
    facts: list[tuple[str, object]] = [] if source is None else [("data", source)]
    facts.append((f"{data.adapter.unit}s", f"{data.count:,}"))
    if data.starts is not None:
        facts.append(("steps", f"{len(data.codes):,}"))
    facts.append(("missing cells", f"{missing.sum():,} of {missing.size:,} ({percent(share)})"))
    if data.unseen:
        cells = sum(count for *_, count in data.unseen)
        facts.append(("labels that the model never saw", f"{cells:,} cells, taken as missing"))
    parts: list[Html | None] = [facts_list(facts)]
    if data.unseen:
        labels = tuple((column, label, f"{count:,}") for column, label, count in data.unseen)
        header = ("column", "label", "cells")
        parts.append(numbers_table(NumberTable("Labels that the model never saw", header, labels, (0, 1))))
    by_column = sorted(zip(missing.sum(axis=0).tolist(), data.columns.names, strict=True), key=lambda one: -one[0])
    if some := [one for one in by_column if one[0]]:
        rows = tuple((name, f"{count:,}", percent(count / len(missing))) for count, name in some)
        listed = numbers_table(NumberTable("Missing cells by column", ("column", "missing", "share"), rows))
        parts.append(behind(f"Columns with missing cells ({len(some)})", listed))
    return parts
