"""The sections of a page: on what was learned and how, and on how the model does on rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from eigentree.estimators.number_bins import shown_spread
from eigentree.markup.charts import Axis, Chart, Dots, Line, NumberTable, linear_axis
from eigentree.markup.figures import (
    chart_figure,
    learning_figure,
    note_list,
    numbers_table,
    spectra_figure,
)
from eigentree.markup.html import (
    Html,
    bar,
    behind,
    decimals,
    element,
    facts_list,
    number,
    percent,
    table,
    with_error,
)
from eigentree.viz.model_charts import multistart_chart
from eigentree.viz.reports.state_section import diagram_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.markup.charts import Mark
    from eigentree.viz.reports.anomalous_rows import Anomaly, UnexpectedCell
    from eigentree.viz.reports.evaluation import Baseline, CalibrationBin, Likelihoods, MaskedAccuracy
    from eigentree.viz.reports.evaluation_data import EvaluationData
    from eigentree.viz.reports.masked_numbers import NumberAccuracy
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
    "structure_section",
]


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
    graph = element("div", diagram_figure(caption, facts.graph), _pairs(facts), class_="beside natural")
    caption = "The junction tree: cliques in round boxes, columns in square ones, and on each edge its separator."
    tree = behind("The junction tree", diagram_figure(caption, facts.tree))
    return [element("p", how, class_="how"), graph, tree]


def _pairs(facts: Facts) -> Html | None:
    if not facts.pairs:
        return None
    most = max(link.nats for link in facts.pairs) or 1.0
    rows = [[link.one, link.other, bar(link.nats / most, number(link.nats))] for link in facts.pairs]
    return table("Columns with most mutual information, in nats", ["column", "and", "nats"], rows, words=(0, 1))


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


MOST_COLUMNS = 12
"""Columns that are listed at once."""


def likelihood_section(facts: Facts, found: Likelihoods) -> list[Html | None]:
    """Return how probable rows are, compared with baselines."""
    unit, what = facts.adapter.unit, facts.adapter.measure
    some = "" if found.count == found.given else f", sampled from {found.given:,} by a fixed seed"
    how = (
        f"Mean {what} of a {unit} in nats, over {found.count:,} {unit}s{some}. All models are normalised "
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
    if facts.adapter.numbers:
        how += (
            " Numbers have densities, in the units of their columns, and categories probabilities. In baselines "
            "numbers are normal."
        )
    header = ["model", "compared", what, "difference"]
    notes = []
    if found.impossible:
        notes.append(
            f"{found.impossible:,} {unit}s are impossible under the model, so its mean is minus infinity; "
            f"differences are over the others. Pseudo-counts above 0, or a floor, prevent that."
        )
    parts: list[Html | None] = [element("p", how, class_="how"), note_list(notes)]
    listed = table(
        f"{what.capitalize()} of a {unit} in nats; difference: how much higher this model's is",
        header,
        rows,
        (0, 1),
    )
    if groups:
        charts = [baseline_chart(own, unit, where) for where, own in groups]
        caption = f"Dots are mean differences on the same {unit}s, lines two standard errors to both sides."
        listed = element("div", chart_figure(caption, *charts), element("div", listed), class_="beside")
    parts.append(listed)
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


def masked_section(facts: Facts) -> list[Html | None]:
    """Return how well masked cells are predicted, and whether probabilities are calibrated."""
    found = [] if facts.masked is None else _masked_categories(facts, facts.masked)
    return [*found, *(_masked_numbers(facts) if facts.numbers else [])]


def _masked_numbers(facts: Facts) -> list[Html | None]:
    """Return how well masked numbers are predicted, and whether intervals hold what they say."""
    most = max(one.cells for one in facts.numbers)
    how = (
        f"Known numbers, up to {most:,} of each column, are masked in turn and predicted by their mean given the "
        f"rest of their {facts.adapter.unit}. The error is the root mean squared one, in units of the column and "
        f"of its standard deviation (sd); R² is the share of the variance that is explained; the interval between "
        f"the quantiles of 5\u00a0% and 95\u00a0% should hold 90\u00a0% of the cells."
    )
    rows = [_number_row(facts, one) for one in facts.numbers[:200]]
    heads = ["column", "cells", "error", "error / sd", "R²", "inside 90\u00a0%"]
    rest = rows[MOST_COLUMNS:]
    more = behind(f"Further numbers ({len(rest)})", table("Further numbers", heads, rest)) if rest else None
    listed = table("Numbers, those first of which most is explained", heads, rows[:MOST_COLUMNS])
    return [element("p", how, class_="how"), listed, more]


def _number_row(facts: Facts, one: NumberAccuracy) -> list[object]:
    columns = facts.adapter.columns
    meaning = columns.meanings[columns.position(one.column)]
    explained = bar(min(max(one.r2, 0.0), 1.0), decimals(one.r2, 2)) if one.r2 == one.r2 else "–"
    relative = decimals(one.rmse / one.std, 2) if one.std > 0 else "–"
    error = shown_spread(one.rmse, meaning)
    return [one.column, f"{one.cells:,}", error, relative, explained, percent(one.covered)]


def _masked_categories(facts: Facts, found: MaskedAccuracy) -> list[Html | None]:
    """Return how well masked categories are predicted."""
    unit = facts.adapter.unit
    every = found.cells == found.known
    kind = "known categories" if facts.numbers else "known cells"
    some = f"all {kind}" if every else f"{found.cells:,} of {found.known:,} {kind}"
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
    what = facts.adapter.measure.removeprefix("log ")
    how = (
        f"The sequences of lowest {what} by the step, and their cells of low probability given the rest of the "
        "sequence. Sequences and steps are counted from 0."
        if facts.adapter.steps
        else f"The rows of lowest {what}, and their cells of low probability given the rest of the row. Rows "
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
    if cell.highest is None:
        why = f" ({cell.expected} was expected; as far out are {number(100 * cell.probability, 2)}\u00a0%)"
    else:
        more = f"{cell.expected} was expected with {number(cell.highest, 2)}"
        why = f" (probability {number(cell.probability, 2)}; {more})"
    return [f"{cell.column}{at} is ", element("strong", cell.label), element("small", why)]


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
