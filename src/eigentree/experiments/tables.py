"""Results summed up over models or splits: points of a figure, tables in Markdown, comma-separated values."""

from __future__ import annotations

import csv
import statistics
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from eigentree.experiments.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from eigentree.experiments.journal import Journal
    from eigentree.experiments.runner import Cell

__all__ = ["Point", "error_table", "points", "ratio_table", "time_table", "write_csv"]


@dataclass(frozen=True)
class Point:
    """One method at one training size, over all models or splits that were run.

    Attributes
    ----------
    panel : str
        What a column of the figure, or the whole of it, is about.
    method : str
    samples : int
        Rows to learn from; the mean, where that differs between splits.
    label : str
        How tables write the training size.
    count : int
        Models or splits.
    failures : int
        Of these, how many the method could not do; they are left out of what follows.
    error, standard_error, median_error : float
        Mean over models or splits, its standard error (NaN for fewer than two), and median.
    cpu_seconds, seconds : float
        Mean of the processor's time and of the time on the wall that training took.
    floored : float
        Mean number of test rows to which the model gave no positive probability of its own.
    """

    panel: str
    method: str
    samples: int
    label: str
    count: int
    failures: int
    error: float
    standard_error: float
    median_error: float
    cpu_seconds: float
    seconds: float
    floored: float


def points(
    cells: Sequence[Cell],
    journal: Journal,
    panel_of: Callable[[Any], str],
    label_of: Callable[[Any], str],
) -> list[Point]:
    """Return the points of all cells that the journal has, in the order of the cells' methods and sizes."""
    gathered: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    sizes: dict[tuple[str, str, str], list[int]] = {}
    for cell in cells:
        record = journal.find(cell.describe())
        if record is not None:
            key = (panel_of(cell), str(cell.describe()["method"]), label_of(cell))
            gathered.setdefault(key, []).append(record["result"])
            sizes.setdefault(key, []).append(record["result"].get("rows", cell.size))
    found = []
    for key, results in gathered.items():
        panel, method, label = key
        good = [result for result in results if "failure" not in result]
        errors = [result["error"] for result in good]
        nothing = float("nan")
        found.append(
            Point(
                panel,
                method,
                round(statistics.fmean(sizes[key])),
                label,
                len(results),
                len(results) - len(good),
                statistics.fmean(errors) if good else nothing,
                statistics.stdev(errors) / len(errors) ** 0.5 if len(good) > 1 else nothing,
                statistics.median(errors) if good else nothing,
                statistics.fmean(result["cpu_seconds"] for result in good) if good else nothing,
                statistics.fmean(result["seconds"] for result in good) if good else nothing,
                statistics.fmean(result["floored"] + result["impossible"] for result in good) if good else nothing,
            )
        )
    order = list(METHODS)
    return sorted(found, key=lambda point: (point.panel, point.samples, order.index(point.method)))


def write_csv(path: Path, found: Sequence[Point]) -> None:
    """Write the points, one per line."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Point)])
        writer.writeheader()
        writer.writerows(asdict(point) for point in found)


def error_table(found: Sequence[Point], percent: bool = False) -> str:
    """Return errors with their standard errors, a row a training size and a column a method, in Markdown.

    The lowest error of a row is bold; EM from the truth does not compete.
    """

    def shown(point: Point, row: Sequence[Point]) -> str:
        scale, digits = (100.0, 2) if percent else (1.0, 3)
        text = f"{point.error * scale:.{digits}f}"
        if point.standard_error == point.standard_error:
            text += f" ± {point.standard_error * scale:.{digits}f}"
        if point.failures:
            text += f" ({point.failures} of {point.count} failed)"
        rivals = [other.error for other in row if other.method != "floor" and other.error == other.error]
        return f"**{text}**" if rivals and point.method != "floor" and point.error == min(rivals) else text

    return _table(found, shown)


def time_table(found: Sequence[Point]) -> str:
    """Return the processor's seconds of training, a row a training size and a column a method, in Markdown."""
    return _table(found, lambda point, row: f"{point.cpu_seconds:.3g}")


def ratio_table(found: Sequence[Point]) -> str:
    """Return training times as multiples of ours, a row a training size and a column a method, in Markdown."""

    def shown(point: Point, row: Sequence[Point]) -> str:
        (ours,) = [other.cpu_seconds for other in row if other.method == "ours"]
        ratio = point.cpu_seconds / ours
        return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"

    return _table([point for point in found if point.method != "ours"], shown, found)


def _table(
    found: Sequence[Point], shown: Callable[[Point, Sequence[Point]], str], context: Sequence[Point] | None = None
) -> str:
    """Return a Markdown table that also reads well as plain text."""
    methods = [name for name in METHODS if any(point.method == name for point in found)]
    labels = list(dict.fromkeys(point.label for point in found))
    rows = [["N", *(METHODS[name].title for name in methods)]]
    for label in labels:
        at = {point.method: point for point in found if point.label == label}
        around = [point for point in (context or found) if point.label == label]
        rows.append([label, *(shown(at[name], around) if name in at else "–" for name in methods)])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [_line(rows[0], widths), "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"]
    return "\n".join([*lines, *(_line(row, widths) for row in rows[1:])])


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
