"""The two commands from end to end: run the cells, print the tables, write values and figures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigentree.experiments import figure3, figure4, figures, tables
from eigentree.experiments.journal import Journal
from eigentree.experiments.runner import run
from eigentree.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from eigentree.experiments.runner import Outcome
    from eigentree.experiments.tables import Point

__all__ = ["Report", "reproduce_figure3", "reproduce_figure4", "time_left"]


@dataclass(frozen=True)
class Report:
    """What a command leaves behind.

    Attributes
    ----------
    outcome : Outcome
        What was worked on now.
    text : str
        The tables, in Markdown.
    files : tuple of Path
    """

    outcome: Outcome
    text: str
    files: tuple[Path, ...]


def reproduce_figure3(chosen: Sequence[figure3.Figure3Cell], jobs: int, out: Path) -> Report:
    """Return the tables of Figure 3 after running what the journal in `out` lacks, and write values and figures."""
    journal, outcome = _completed("Figure 3", chosen, figure3.measure, jobs, out)
    parts: list[str] = []
    files: list[Path] = []
    everything: list[Point] = []
    structures = list(dict.fromkeys(cell.structure for cell in chosen))
    for concentration in dict.fromkeys(cell.concentration for cell in chosen):
        panels = {f"{name}, concentration {concentration:g}": figure3.STRUCTURES[name].title for name in structures}
        found = tables.points(
            [cell for cell in chosen if cell.concentration == concentration],
            journal,
            lambda cell: f"{cell.structure}, concentration {cell.concentration:g}",
            lambda cell: f"{cell.samples:,}",
        )
        everything += found
        for panel, heading in panels.items():
            part = [point for point in found if point.panel == panel]
            parts.append(
                f"## {heading}, Dirichlet({concentration:g}) tables, {_counted(part, 'model')}\n\n"
                f"Mean relative error ± standard error over models:\n\n{tables.error_table(part)}\n\n"
                f"Training, processor seconds:\n\n{tables.time_table(part)}\n"
            )
            if any(point.method == "ours" for point in part):
                parts.append(f"Training time as a multiple of the spectral fit's:\n\n{tables.ratio_table(part)}\n")
            if any(point.method == "floor" for point in part):
                own = [
                    cell for cell in chosen if f"{cell.structure}, concentration {cell.concentration:g}" == panel
                ]
                parts.append(
                    f"Time to come within a tenth of the error of the converged MLE:\n\n"
                    f"{tables.reach_table(own, journal, lambda cell: f'{cell.samples:,}')}\n"
                )
        files += figures.draw(
            found,
            panels,
            "mean relative error",
            "training rows",
            f"Figure 3 reproduced: tables drawn from Dirichlet({concentration:g})",
            out / f"figure3-concentration-{concentration:g}",
        )
    return _written(out / "figure3", everything, parts, files, outcome)


def reproduce_figure4(chosen: Sequence[figure4.Figure4Cell], jobs: int, out: Path) -> Report:
    """Return the tables of Figure 4 after running what the journal in `out` lacks, and write values and figures."""
    journal, outcome = _completed("Figure 4", chosen, figure4.measure, jobs, out)
    found = tables.points(
        chosen,
        journal,
        lambda cell: "splice",
        lambda cell: f"{cell.samples:,}" if cell.samples else "all",
    )
    text = (
        f"## Splice junctions, {_counted(found, 'split')}\n\n"
        f"Test rows with the wrong class, per cent ± standard error over splits "
        f"(independent columns, one model per class, are naive Bayes):\n\n"
        f"{tables.error_table(found, percent=True)}\n\n"
        f"Training of all classes, processor seconds:\n\n{tables.time_table(found)}\n"
    )
    files = figures.draw(
        found,
        {"splice": "Splice junctions"},
        "share classified wrongly",
        "training rows",
        "Figure 4 reproduced",
        out / "figure4",
    )
    return _written(out / "figure4", found, [text], files, outcome)


def _completed(
    title: str, chosen: Sequence[Any], measure: Callable[[Any], dict[str, Any]], jobs: int, out: Path
) -> tuple[Journal, Outcome]:
    journal = Journal(out / "journal.jsonl")
    with progress(title, visible=sys.stderr.isatty(), lines=True) as show:

        def display(done: int, total: int, remaining: float | None) -> None:
            show(done, time_left(remaining), total)

        return journal, run(chosen, measure, journal, jobs, display)


def time_left(remaining: float | None) -> str:
    """Return how long a run will still take, in words."""
    if remaining is None:
        return "time left not known before each kind of cell was met once"
    if remaining < 90:
        return f"about {remaining:.0f} s left"
    minutes = round(remaining / 60)
    return f"about {minutes} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"


def _written(
    path: Path, found: Sequence[Point], parts: Sequence[str], drawn: Sequence[Path], outcome: Outcome
) -> Report:
    """Write the values and the tables beside the figures."""
    values, table = path.with_suffix(".csv"), path.with_suffix(".md")
    tables.write_csv(values, found)
    text = "\n".join(parts)
    table.write_text(f"# {path.name.replace('figure', 'Figure ')}, all tables\n\n{text}", encoding="utf-8")
    return Report(outcome, text, (table, values, *drawn))


def _counted(found: Sequence[Point], what: str) -> str:
    """Return how many models or splits the points are over, such as "3 models" or "2 to 3 models"."""
    counts = {point.count for point in found}
    least, most = min(counts, default=0), max(counts, default=0)
    shown = f"{most}" if least == most else f"{least} to {most}"
    return f"{shown} {what}{'' if most == 1 else 's'}"
