"""Figures that notebooks and pages share: pictures with a caption, and the numbers behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eigentree.markup.charts import curves, spectrum
from eigentree.markup.html import Html, behind, element, number, table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Spectrum", "figure", "learning_figure", "note_list", "spectra_figure"]

MOST_SPECTRA = 12
"""Most spectra that are drawn, the weakest first."""

MOST_LISTED = 200
"""Most lines of a table behind a figure."""


class Spectrum(NamedTuple):
    """The singular values of one separator.

    Attributes
    ----------
    name : str
    values : tuple of float
        Largest first; the one after the rank, if any, comes last.
    rank : int
    noise : float
        What the singular values of pure noise would reach.
    states : int or None
        How many joint states the separator has, where that is known.
    """

    name: str
    values: tuple[float, ...]
    rank: int
    noise: float
    states: int | None = None

    @property
    def smallest(self) -> float:
        """The singular value at the rank."""
        return self.values[self.rank - 1] if self.rank <= len(self.values) else 0.0

    @property
    def weak(self) -> bool:
        """Whether noise reaches it; the constant has none."""
        return self.rank > 1 and self.smallest < self.noise


def figure(caption: object, *inner: object, numbers: Html | None = None) -> Html:
    """Return pictures with a caption, and a table of their numbers that is shown when it is asked for."""
    return element(
        "figure",
        element("div", *inner, class_="pictures"),
        element("figcaption", caption),
        None if numbers is None else behind("The numbers", numbers),
    )


def spectra_figure(spectra: Sequence[Spectrum]) -> Html:
    """Return the spectra of separators, the weakest first, beside what noise alone would reach."""
    ranked = sorted(
        spectra, key=lambda one: (one.smallest / one.noise if one.noise > 0 else one.smallest, one.name)
    )
    shown = ranked[:MOST_SPECTRA]
    left = f" The {len(shown)} weakest of {len(ranked)} are drawn." if len(ranked) > len(shown) else ""
    caption = (
        "Singular values of each separator, on a logarithmic scale: filled dots were kept, a ring is the first "
        f"that was not, and below the dashed line nothing can be told from noise.{left}"
    )
    rows = [
        [
            one.name,
            one.rank,
            "–" if one.states is None else one.states,
            number(one.smallest),
            number(one.noise),
            "noise" if one.weak else "",
        ]
        for one in ranked[:MOST_LISTED]
    ]
    listed = table(
        "Separators, the weakest first" + _first(len(ranked)),
        ["separator", "rank", "states", "value at the rank", "noise", "no more than"],
        rows,
        words=(0, 5),
    )
    return figure(caption, *(spectrum(one.name, one.values, one.rank, one.noise) for one in shown), numbers=listed)


def learning_figure(history: Sequence[float], validation: Sequence[float], unit: str) -> Html:
    """Return how the objective rose step by step, and beside it what validation rows said."""
    pictures = [curves("Learning curve", [("objective", history)], "steps")]
    columns = ["step", "objective"]
    steps = [[str(step), number(value, 8)] for step, value in enumerate(history)]
    if len(validation):
        pictures.append(curves("Validation", [("validation", validation)], "steps"))
        columns.append("validation")
        for step, row in enumerate(steps):
            row.append(number(validation[step], 6) if step < len(validation) else "–")
    told = f"; beside it the mean log probability of a validation {unit}" if len(validation) else ""
    caption = f"The objective of the climb that was kept, in nats over all {unit}s{told}."
    if len(steps) > MOST_LISTED:
        steps = steps[: MOST_LISTED // 2] + steps[-MOST_LISTED // 2 :]
    return figure(caption, *pictures, numbers=table("Steps of the climb", columns, steps, words=()))


def note_list(notes: Sequence[str]) -> Html | None:
    """Return what a user should know, if there is anything."""
    return element("ul", *(element("li", note) for note in notes), class_="notes") if notes else None


def _first(count: int) -> str:
    return f" (the first {MOST_LISTED} of {count:,})" if count > MOST_LISTED else ""
