"""Figures of notebooks and pages: pictures with a caption, and the numbers behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.markup.charts import MOST_LISTED, Spectrum, learning_charts, spectra_chart
from eigentree.markup.html import Html, behind, element, scrolling, table
from eigentree.markup.svg import chart_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.markup.charts import Chart, NumberTable

__all__ = ["Spectrum", "chart_figure", "figure", "learning_figure", "note_list", "numbers_table", "spectra_figure"]


def numbers_table(numbers: NumberTable) -> Html:
    """Return the first numbers behind a figure as a table, whose caption says how many there are."""
    more = f" (the first {MOST_LISTED} of {len(numbers.rows):,})" if len(numbers.rows) > MOST_LISTED else ""
    return table(numbers.caption + more, numbers.header, numbers.rows[:MOST_LISTED], numbers.words)


def figure(caption: object, *inner: object, numbers: Sequence[NumberTable | None] = ()) -> Html:
    """Return pictures with a caption, and tables of their numbers that are shown when they are asked for."""
    tables = [numbers_table(each) for each in numbers if each is not None and each.rows]
    return element(
        "figure",
        element("div", *inner, class_="pictures"),
        element("figcaption", caption),
        behind("The numbers", *tables) if tables else None,
    )


def chart_figure(caption: object, *charts: Chart) -> Html:
    """Return figures with axes beside each other."""
    pictures = [scrolling(chart_svg(chart), chart.title) for chart in charts]
    return figure(caption, *pictures, numbers=[chart.numbers for chart in charts])


def spectra_figure(spectra: Sequence[Spectrum]) -> Html:
    """Return the spectra of separators, those nearest to the noise first."""
    caption = (
        "Singular values of each separator, on a logarithmic scale: filled dots were kept, a ring is the first "
        "that was not. A dot left of the bar cannot be told from noise."
    )
    return chart_figure(caption, spectra_chart(spectra))


def learning_figure(history: Sequence[float], validation: Sequence[float], unit: str) -> Html:
    """Return the objective after each iteration, and beside it the log probability of validation rows."""
    beside = f"; beside it the mean log probability of a validation {unit}" if len(validation) else ""
    caption = f"The objective of the EM run that was kept, in nats over all {unit}s{beside}."
    return chart_figure(caption, *learning_charts(history, validation, unit, "iteration"))


def note_list(notes: Sequence[str]) -> Html | None:
    """Return what a user should know, if there is anything."""
    return element("ul", *(element("li", note) for note in notes), class_="notes") if notes else None
