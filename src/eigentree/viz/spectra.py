"""The singular values of a spectral model as a picture: which rank was taken, and where noise begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from eigentree.checks import whole_number
from eigentree.errors import ParameterError, quoted
from eigentree.models.spectral import SpectralJunctionTree
from eigentree.models.spectral_hmm import SpectralHMM
from eigentree.viz.axes import COLOURS, FONT, GRID, axes_of, checked_axes, counted, left_out, shown_name

if TYPE_CHECKING:
    from eigentree.arrays import Floats

__all__ = ["spectra"]

MOST_SHOWN = 24
"""Separators that are shown unless the user says how many."""

SMALLEST = 1e-4
"""Singular values below this share of the largest are drawn at the edge."""


class _Spectrum(NamedTuple):
    """One separator: what it is called, its singular values, the rank taken (of how many states), and the noise."""

    name: str
    values: Floats
    rank: int
    states: int | None
    noise: float

    @property
    def margin(self) -> float:
        """The singular value at the rank, in units of the noise; the constant has none."""
        if self.rank <= 1 or not self.noise > 0:
            return float("inf")
        return float(self.values[self.rank - 1]) / self.noise if self.rank <= len(self.values) else 0.0


def spectra(model: SpectralJunctionTree | SpectralHMM, most: int = MOST_SHOWN, ax: Any = None) -> Any:
    """Return matplotlib's axes with the singular values of each separator of a spectral model.

    One line for each separator, those first whose rank is nearest to the noise. Dots are the singular values that
    were kept, a ring is the first that was not, a bar is how large singular values of pure noise would be. A dot
    left of the bar cannot be told from noise.

    Parameters
    ----------
    model : a fitted SpectralJunctionTree or SpectralHMM
    most : int
        How many separators are shown at most; a sentence below says how many were left out.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.

    Raises
    ------
    ParameterError
        When there are no singular values to draw, or nothing to draw on.
    """
    found = sorted(_found(model), key=lambda each: each.margin)
    checked_axes(ax)
    shown = found[: whole_number("most", most)]
    ax = axes_of(ax, 7.0, 1.1 + 0.24 * len(shown))
    largest = max((float(each.values.max(initial=0.0)) for each in shown), default=1.0) or 1.0
    least = SMALLEST * largest
    for row, each in enumerate(shown):
        _draw(ax, row, each, least)
    ax.set_xscale("log")
    ax.set_xlim(least * 0.7, largest * 1.6)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    names = [shown_name(each.name) for each in shown]
    ax.set_yticks(range(len(shown)), names, fontsize=FONT, parse_math=False)
    for row, each in enumerate(shown):
        told = f"rank {each.rank}" + ("" if each.states is None else f" of {each.states}")
        ax.text(1.01, row, told, transform=ax.get_yaxis_transform(), fontsize=FONT, va="center")
    ax.tick_params(axis="x", labelsize=FONT)
    ax.grid(axis="x", **GRID)
    ax.set_axisbelow(True)
    weak = sum(each.margin < 1 for each in found)
    ax.set_title(
        f"{counted(len(found), 'separator')}, {weak or 'none'} with a rank that noise could explain",
        fontsize=FONT + 1,
    )
    below = left_out(len(shown), len(found), "separator", "nearest to the noise")
    ax.set_xlabel("singular value" + (f"\n{below}" if below else ""), fontsize=FONT)
    _legend(ax)
    return ax


def _found(model: object) -> list[_Spectrum]:
    if isinstance(model, SpectralJunctionTree):
        # Where it was not fitted, this says so.
        assert model.graph_
        return [
            _Spectrum(
                f"{', '.join(each.separator)} → {', '.join(each.inside)}",
                each.singular_values,
                each.rank,
                each.states,
                each.noise,
            )
            for each in model.report_.separators
        ]
    if isinstance(model, SpectralHMM):
        assert model.columns_
        return [
            _Spectrum(f"before {each.channel}", each.singular_values, each.rank, None, each.noise)
            for each in model.report_.bonds
        ]
    raise ParameterError(
        f"a fitted SpectralJunctionTree or SpectralHMM has singular values to draw, not {quoted(model)}"
    )


def _draw(ax: Any, row: int, each: _Spectrum, least: float) -> None:
    ax.axhline(row, color="#eeeeee", linewidth=0.8, zorder=0)
    if each.noise > 0:
        ax.plot([each.noise] * 2, [row - 0.32, row + 0.32], color=COLOURS[1], linewidth=2.2, gid=f"noise {row}")
    for place, value in enumerate(each.values.tolist()):
        kept = place < each.rank
        marker = "<" if value < least else "o"
        ax.plot(
            [max(value, least)],
            [row],
            marker,
            color=COLOURS[0],
            markerfacecolor=COLOURS[0] if kept else "white",
            markersize=5,
            zorder=3,
            gid=f"value {row} {place}",
        )


def _legend(ax: Any) -> None:
    from matplotlib.lines import Line2D

    def dot(face: str, marker: str, label: str) -> Any:
        return Line2D(
            [], [], linestyle="", marker=marker, markersize=5, color=COLOURS[0], markerfacecolor=face, label=label
        )

    marks = [
        dot(COLOURS[0], "o", "kept"),
        dot("white", "o", "first left out"),
        dot(COLOURS[0], "<", "smaller still"),
        Line2D([], [], color=COLOURS[1], linewidth=2.2, label="noise"),
    ]
    ax.legend(handles=marks, fontsize=FONT - 1, loc="best", framealpha=0.9)
