"""Figures in the layout of the paper's Figure 3: errors on top, training times below, a column a structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.paper.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.paper.tables import Point

__all__ = ["FORMATS", "draw"]

# Colours of Okabe and Ito, which people with any common colour-blindness distinguish; marks and dashes
# distinguish the methods in grey print.
STYLES: dict[str, dict[str, Any]] = {
    "ours": {"color": "#0072B2", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "multistart": {"color": "#D55E00", "marker": "h", "linewidth": 2.2, "zorder": 4},
    "published": {"color": "#56B4E9", "marker": "s", "linestyle": (0, (4, 1.5))},
    "em": {"color": "#F0E442", "marker": "^"},
    "accelerated": {"color": "#E69F00", "marker": "v", "linestyle": (0, (6, 1.5, 1, 1.5))},
    "online": {"color": "#009E73", "marker": "D", "markersize": 4.5},
    "smoothed": {"color": "#CC79A7", "marker": "P", "linestyle": (0, (4, 1.5))},
    "independent": {"color": "#777777", "marker": "x", "linestyle": (0, (1, 1.2))},
    "markov": {"color": "#000000", "marker": "+", "markersize": 8, "linestyle": (0, (1, 1.2))},
    "floor": {"color": "#000000", "marker": "*", "markersize": 8, "linestyle": (0, (1, 2)), "linewidth": 1.0},
}

FORMATS = ("png", "svg")


def draw(
    found: Sequence[Point],
    panels: Mapping[str, str],
    error_label: str,
    title: str,
    path: Path,
) -> list[Path]:
    """Return the files of a figure of all points, in all formats.

    Parameters
    ----------
    found : sequence of Point
    panels : mapping of str to str
        The panels to draw, from left to right, with their titles.
    error_label, title : str
    path : Path
        Without a suffix.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    settings: Any = {
        "font.size": 9,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "lines.linewidth": 1.4,
        "lines.markersize": 5.5,
        "svg.hashsalt": "eigentree",
    }
    with rc_context(settings):
        wide = max(2.9 * len(panels), 5.2)
        figure = Figure(figsize=(wide, 5.9), layout="constrained")
        axes = figure.subplots(2, len(panels), sharex="col", sharey="row", squeeze=False)
        for column, (panel, heading) in enumerate(panels.items()):
            _draw_panel(axes[0][column], axes[1][column], [point for point in found if point.panel == panel])
            axes[0][column].set_title(heading, fontsize=10)
            axes[1][column].set_xlabel("training rows")
        axes[0][0].set_ylabel(error_label)
        axes[1][0].set_ylabel("training time (processor seconds)")
        handles, labels = axes[0][0].get_legend_handles_labels()
        columns = 4 if len(panels) > 2 else 2
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2)
        figure.suptitle(title, fontsize=11)
        files = [path.with_name(f"{path.name}.{suffix}") for suffix in FORMATS]
        for file in files:
            # Without the date, the same results give the same file.
            figure.savefig(file, dpi=170, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def _draw_panel(upper: Any, lower: Any, found: Sequence[Point]) -> None:
    """Draw the errors and the times of one panel."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    for name in METHODS:
        line = sorted((point for point in found if point.method == name), key=lambda point: point.samples)
        if not line:
            continue
        sizes = [point.samples for point in line]
        bars = [point.standard_error if point.standard_error == point.standard_error else 0.0 for point in line]
        upper.errorbar(
            sizes,
            [point.error for point in line],
            # On a logarithmic axis a bar must not reach zero.
            yerr=[[min(bar, 0.9 * point.error) for bar, point in zip(bars, line, strict=True)], bars],
            label=METHODS[name].title,
            elinewidth=0.9,
            **STYLES[name],
        )
        lower.plot(sizes, [point.cpu_seconds for point in line], **STYLES[name])
    sizes = sorted({point.samples for point in found})
    for axis in (upper, lower):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
        if sizes and sizes[-1] < 100 * sizes[0]:
            # Powers of ten would leave such an axis all but empty.
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axis.xaxis.set_minor_locator(NullLocator())
    upper.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    upper.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    upper.yaxis.set_minor_formatter(NullFormatter())
