"""The command ``python -m benchmarks.paper``: runs Figure 3 or 4, prints its tables, writes values and figures."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.paper import figure3, figure4, figures, tables
from benchmarks.paper.runner import Journal, run
from eigentree.errors import EigentreeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.paper.tables import Point


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, 1 when something failed, 2 for an error in the arguments."""
    asked = _arguments(arguments)
    out = asked.out or Path("results") / (f"{asked.figure}-quick" if asked.quick else asked.figure)
    try:
        figure, module = (_figure3, figure3) if asked.figure == "fig3" else (_figure4, figure4)
        journal = Journal(out / "journal.jsonl")
        cells: list[Any] = module.chosen(asked)
        outcome = run(cells, module.measure, journal, asked.jobs)
        text, found, files = figure(cells, journal, out)
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it stopped", file=sys.stderr)
        return 130
    except BrokenProcessPool:
        print("a worker died, perhaps for want of memory; the same command goes on", file=sys.stderr)
        return 1
    except EigentreeError as error:
        print(error, file=sys.stderr)
        return 1
    name = asked.figure.replace("fig", "figure")
    table, values = out / f"{name}.md", out / f"{name}.csv"
    tables.write_csv(values, found)
    table.write_text(f"# {name.replace('figure', 'Figure ')}, all tables\n\n{text}", encoding="utf-8")
    print(text)
    print("\n".join(f"written: {file}" for file in (table, values, *files)))
    for failure in outcome.failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if outcome.failures else 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper",
        description="Run an experiment of the paper. A run that was stopped goes on where it stopped. On two idle "
        "cores (--jobs 2) the whole of fig3, ten models and seven sizes, takes two hours, fig4 eight minutes, "
        "and either with --quick under a minute; each line of progress says how long the rest will take.",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--samples", type=_count, nargs="+", metavar="ROWS", help="training sizes (the paper's)")
    common.add_argument("--jobs", type=_count, default=1, metavar="COUNT", help="processes, of one thread each")
    common.add_argument("--quick", action="store_true", help="a small version that takes well under a minute")
    common.add_argument("--out", type=Path, metavar="DIR", help="where results go (results/…)")
    below = parser.add_subparsers(dest="figure", required=True)
    fig3 = below.add_parser("fig3", parents=[common], help="error and time on samples of known models")
    fig3.add_argument("--structure", nargs="+", choices=figure3.STRUCTURES, help="some of the structures (all)")
    fig3.add_argument("--models", type=_count, metavar="COUNT", help="true models per structure (10)")
    fig3.add_argument(
        "--concentration",
        type=_positive,
        nargs="+",
        metavar="NUMBER",
        help="of the Dirichlet distribution of the true tables' rows (1.0 0.3)",
    )
    fig3.add_argument("--tests", type=_count, metavar="COUNT", help="test rows (1000)")
    fig3.add_argument("--methods", nargs="+", choices=figure3.METHOD_NAMES, help="some of the methods (all)")
    fig4 = below.add_parser("fig4", parents=[common], help="classes of splice junctions, one model per class")
    fig4.add_argument("--splits", type=_count, metavar="COUNT", help="training-test splits (10)")
    fig4.add_argument(
        "--drop-ambiguous",
        action="store_true",
        help="drop the 15 sequences with ambiguous letters; without it such letters are missing cells",
    )
    fig4.add_argument("--methods", nargs="+", choices=figure4.METHOD_NAMES, help="some of the methods (all)")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _positive(text: str) -> float:
    try:
        if 0 < (value := float(text)) < float("inf"):
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def _figure3(
    cells: Sequence[figure3.Figure3Cell], journal: Journal, out: Path
) -> tuple[str, list[Point], list[Path]]:
    """Return the tables of Figure 3, its points, and the files that were drawn."""
    parts: list[str] = []
    files: list[Path] = []
    everything: list[Point] = []
    structures = list(dict.fromkeys(cell.structure for cell in cells))
    for concentration in dict.fromkeys(cell.concentration for cell in cells):
        panels: dict[str, str] = {}
        for name in structures:
            own = [cell for cell in cells if (cell.structure, cell.concentration) == (name, concentration)]
            panel = f"{name}, concentration {concentration:g}"
            panels[panel] = figure3.STRUCTURES[name].title
            part = tables.points(own, journal, panel)
            everything += part
            parts.append(
                f"## {panels[panel]}, Dirichlet({concentration:g}) tables, {_counted(part, 'model')}\n\n"
                f"Mean relative error ± standard error over models:\n\n{tables.error_table(part)}\n\n"
                f"Training, processor seconds:\n\n{tables.time_table(part)}\n"
            )
            if any(point.method == "ours" for point in part):
                parts.append(f"Training time as a multiple of the spectral fit's:\n\n{tables.ratio_table(part)}\n")
            if any(point.method == "floor" for point in part):
                parts.append(
                    f"Time to come within a tenth of the error of the converged MLE:\n\n"
                    f"{tables.reach_table(own, journal)}\n"
                )
        title = f"Figure 3 reproduced: tables drawn from Dirichlet({concentration:g})"
        path = out / f"figure3-concentration-{concentration:g}"
        files += figures.draw(everything, panels, "mean relative error", title, path)
    return "\n".join(parts), sorted(everything, key=tables.order), files


def _figure4(
    cells: Sequence[figure4.Figure4Cell], journal: Journal, out: Path
) -> tuple[str, list[Point], list[Path]]:
    """Return the tables of Figure 4, its points, and the files that were drawn."""
    found = tables.points(cells, journal, "splice")
    text = (
        f"## Splice junctions, {_counted(found, 'split')}\n\n"
        f"Test rows with the wrong class, per cent ± standard error over splits "
        f"(independent columns, one model per class, are naive Bayes):\n\n"
        f"{tables.error_table(found, percent=True)}\n\n"
        f"Training of all classes, processor seconds:\n\n{tables.time_table(found)}\n"
    )
    panels = {"splice": "Splice junctions"}
    files = figures.draw(found, panels, "share classified wrongly", "Figure 4 reproduced", out / "figure4")
    return text, found, files


def _counted(found: Sequence[Point], what: str) -> str:
    """Return how many models or splits the points are over, such as "3 models" or "2 to 3 models"."""
    counts = {point.count for point in found}
    least, most = min(counts, default=0), max(counts, default=0)
    shown = f"{most}" if least == most else f"{least} to {most}"
    return f"{shown} {what}{'' if most == 1 else 's'}"


if __name__ == "__main__":
    sys.exit(main())
