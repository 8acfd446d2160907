"""The sections of a page that tell how a model does on rows: likelihood, predictions, odd rows, and gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.markup.charts import Interval, intervals, reliability
from eigentree.markup.figures import figure, note_list
from eigentree.markup.html import Html, behind, decimals, element, facts_list, number, table

if TYPE_CHECKING:
    from eigentree.viz.reports.anomalies import OddCell, OddRow
    from eigentree.viz.reports.facts import Facts
    from eigentree.viz.reports.likelihoods import Likelihoods
    from eigentree.viz.reports.predicted import Predicted

__all__ = ["data_section", "likelihood_section", "odd_section", "predicted_section", "share_told"]

MOST_COLUMNS = 12
"""Columns that are listed at once."""

MOST_LISTED = 200
MOST_UNSEEN = 20


def share_told(share: float) -> str:
    """Return a share in per cent, with one digit behind the point."""
    return f"{100 * share:.1f}\u00a0%"


def likelihood_section(facts: Facts, found: Likelihoods) -> list[Html | None]:
    """Return how likely rows are, beside simpler models."""
    unit = facts.unit
    some = "" if found.count == found.given else f", drawn from {found.given:,} by a fixed seed"
    how = (
        f"Mean log probability of a {unit} in nats, over {found.count:,} {unit}s{some}. All models here add up to "
        f"1 over everything that a {unit} could be, and missing cells are summed out. "
    )
    if found.rivals:
        how += (
            f"The simpler ones were learned from {found.learned:,} training {unit}s."
            if found.apart
            else f"The simpler ones were learned from these {unit}s: each fifth is scored by what "
            f"{found.learned:,} others tell."
        )
        how += f" Where the model has learned from the {unit}s that it scores here, its own figure is too good."
    rows = [["this model", decimals(found.mean, 3), "", ""]]
    rows += [
        [rival.name, decimals(rival.mean, 3), decimals(rival.ahead, 3), decimals(rival.error, 3)]
        for rival in found.rivals
    ]
    header = ["model", f"log probability of a {unit}", "the model is ahead by", "standard error of that"]
    notes = []
    if found.impossible:
        notes.append(
            f"{found.impossible:,} {unit}s are impossible under the model, so its mean is minus infinity; "
            f"differences are over the others. Pseudo-counts above 0, or a floor, prevent that."
        )
    parts: list[Html | None] = [element("p", how, class_="how"), note_list(notes)]
    listed = table("Log probabilities in nats", header, rows)
    if found.rivals:
        ends = [Interval(rival.name, rival.ahead, rival.error) for rival in found.rivals]
        title = "How far the model is ahead of simpler ones"
        chart = intervals(title, ends, f"nats per {unit}, by which the model is ahead")
        caption = "Dots are mean differences on the same rows, lines two standard errors to both sides."
        parts.append(figure(caption.replace("rows", f"{unit}s"), chart, listed))
    else:
        parts.append(listed)
    if found.absent:
        told = "; ".join(f"no {name}: {reason}" for name, reason in found.absent)
        parts.append(element("p", told, class_="aside"))
    return parts


def predicted_section(facts: Facts, found: Predicted) -> list[Html | None]:
    """Return how well hidden cells are predicted, and whether probabilities come true."""
    unit = facts.unit
    some = "all known cells" if found.cells == found.known else f"{found.cells:,} of {found.known:,} known cells"
    drawn = "" if found.cells == found.known else ", drawn by a fixed seed"
    how = (
        f"Each cell is hidden in turn and predicted from the rest of its {unit}: {some}, in {found.units:,} "
        f"{unit}s{drawn}. The likeliest label is right in {share_told(found.right)}; the most frequent label of "
        f"each column would be in {share_told(found.usual)}."
    )
    bins = [
        [
            f"{one.low:.0%} to {one.high:.0%}",
            f"{one.cells:,}",
            share_told(one.predicted) if one.cells else "–",
            share_told(one.right) if one.cells else "–",
            share_told(one.error) if one.cells else "–",
        ]
        for one in found.bins
    ]
    header = ["said", "cells", "mean said", "came true", "standard error"]
    caption = (
        f"Calibration: predictions by the probability of their likeliest label, and how often that was right, with "
        f"two standard errors. On the dotted line both are the same; on the average they differ by "
        f"{100 * found.gap:.1f} points. Bars count the cells."
    )
    chart = reliability("Calibration of predicted cells", found.bins)
    rows = [
        [
            one.column,
            f"{one.cells:,}",
            element("span", share_told(one.right), class_="p", style=f"--p:{100 * one.right:.0f}%"),
            share_told(one.usual),
            number(one.log_prob),
        ]
        for one in found.columns[:MOST_LISTED]
    ]
    heads = ["column", "cells", "right", "most frequent label", "log probability"]
    name = "Columns, those first where the model adds most"
    rest = rows[MOST_COLUMNS:]
    more = behind(f"Further columns ({len(rest)})", table("Further columns", heads, rest)) if rest else None
    calibration = figure(caption, chart, numbers=table("Predictions by their probability", header, bins))
    listed = element("div", table(name, heads, rows[:MOST_COLUMNS]), more)
    return [element("p", how, class_="how"), element("div", calibration, listed, class_="beside uneven")]


def odd_section(facts: Facts) -> list[Html | None]:
    """Return the rows that the model finds least likely, and why."""
    how = (
        "The least likely sequences by the step, and the cells that the rest of the sequence does not lead one to "
        "expect. Sequences and steps are counted from 0."
        if facts.steps
        else "The least likely rows, and the cells that the rest of the row does not lead one to expect. Rows are "
        "counted from 0, or called as in the index of a frame."
    )
    return [element("p", how, class_="how"), element("ol", *(_odd(facts, row) for row in facts.odd), class_="odd")]


def _odd(facts: Facts, row: OddRow) -> Html:
    per = f" nats a step, {row.length:,} steps" if row.length is not None else " nats"
    others = f", and {row.like:,} like it" if row.like else ""
    head = element("h3", f"{facts.unit} {row.name} ", element("small", f"{number(row.log_prob, 4)}{per}{others}"))
    if not row.cells:
        return element("li", head, element("small", "No cell by itself is odd; together they are."))
    return element("li", head, element("ul", *(element("li", *_cell(cell)) for cell in row.cells)))


def _cell(cell: OddCell) -> list[object]:
    at = "" if cell.step is None else f" at step {cell.step}"
    return [
        f"{cell.column}{at} is ",
        element("strong", cell.label),
        element(
            "small",
            f" (probability {number(cell.probability, 2)}; {cell.expected} was expected with "
            f"{number(cell.likelier, 2)})",
        ),
    ]


def data_section(facts: Facts, source: str | None) -> list[Html | None]:
    """Return what is known of the rows that were given."""
    data = facts.data
    assert data is not None
    told: list[tuple[str, object]] = [] if source is None else [("data", source)]
    told.append((f"{facts.unit}s", f"{data.count:,}"))
    if data.steps is not None:
        told.append(("steps", f"{data.steps:,}"))
    share = data.missing / data.cells if data.cells else 0.0
    told.append(("missing cells", f"{data.missing:,} of {data.cells:,} ({share_told(share)})"))
    unseen = sum(one.cells for one in data.unseen)
    if unseen:
        told.append(("labels that the model never saw", f"{unseen:,} cells, taken as missing"))
    parts: list[Html | None] = [facts_list(told)]
    if data.unseen:
        rows = [[one.column, one.label, f"{one.cells:,}"] for one in data.unseen[:MOST_UNSEEN]]
        more = f" (the first {MOST_UNSEEN} of {len(data.unseen):,})" if len(data.unseen) > MOST_UNSEEN else ""
        caption = f"Labels that the model never saw{more}"
        parts.append(table(caption, ["column", "label", "cells"], rows, words=(0, 1)))
    if data.by_column:
        each = max(data.cells // max(len(facts.columns), 1), 1)
        cells = [[name, f"{count:,}", share_told(count / each)] for name, count in data.by_column[:MOST_LISTED]]
        listed = table("Missing cells by column", ["column", "missing", "share"], cells)
        parts.append(behind(f"Columns with missing cells ({len(data.by_column)})", listed))
    return parts
