"""Results summed up over models or splits: points of a figure, tables in Markdown, comma-separated values."""

from __future__ import annotations

import csv
import math
import statistics
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from benchmarks.paper.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from benchmarks.paper.runner import Cell, Journal

__all__ = ["Point", "error_table", "order", "points", "ratio_table", "reach_table", "time_table", "write_csv"]


NEAR = 1.1
"""An error of no more than this times that of the converged MLE has reached it."""


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
    impossible : float
        Mean number of test rows that the model calls impossible.
    theory : float
        The error that the theory of maximum likelihood foretells, sqrt(2 p / (pi N)); NaN where there is no truth.
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
    impossible: float
    theory: float


def points(cells: Sequence[Cell], journal: Journal, panel: str) -> list[Point]:
    """Return the points of all cells that the journal has, in the order of their sizes and methods."""
    gathered: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in cells:
        record = journal.find(cell.describe())
        if record is not None:
            key = (str(cell.describe()["method"]), _label(cell))
            gathered.setdefault(key, []).append({"rows": cell.size, **record["result"]})
    found = []
    for (method, label), results in gathered.items():
        good = [result for result in results if "failure" not in result]
        errors = [result["error"] for result in good]
        found.append(
            Point(
                panel,
                method,
                round(statistics.fmean(result["rows"] for result in results)),
                label,
                len(results),
                len(results) - len(good),
                statistics.fmean(errors) if good else math.nan,
                statistics.stdev(errors) / len(errors) ** 0.5 if len(good) > 1 else math.nan,
                statistics.median(errors) if good else math.nan,
                *(_mean(good, name) for name in ("cpu_seconds", "seconds", "impossible", "theory")),
            )
        )
    return sorted(found, key=order)


def order(point: Point) -> tuple[str, int, int]:
    """Return the place of a point among others: by panel, training size and method."""
    return point.panel, point.samples, list(METHODS).index(point.method)


def _mean(results: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.fmean(result.get(name, math.nan) for result in results) if results else math.nan


def _label(cell: Cell) -> str:
    """Return how tables write a training size."""
    samples = cell.describe()["samples"]
    return f"{samples:,}" if samples else "all"


def write_csv(path: Path, found: Sequence[Point]) -> None:
    """Write the points, one per line."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Point)])
        writer.writeheader()
        writer.writerows(asdict(point) for point in found)


def error_table(found: Sequence[Point], percent: bool = False) -> str:
    """Return errors with their standard errors, a row a training size and a column a method, in Markdown.

    The lowest error of a row is bold; the converged MLE, which began at the truth, does not compete. Beside it
    stands what theory foretells.
    """

    def shown(point: Point, row: Sequence[Point]) -> str:
        scale, digits = (100.0, 2) if percent else (1.0, 3)
        text = f"{point.error * scale:.{digits}f}"
        if point.standard_error == point.standard_error:
            text += f" ± {point.standard_error * scale:.{digits}f}"
        if point.method == "floor" and point.theory == point.theory:
            text += f" (theory {point.theory:.3f})"
        if point.failures:
            text += f" ({point.failures} of {point.count} failed)"
        others = [other.error for other in row if other.method != "floor" and other.error == other.error]
        return f"**{text}**" if others and point.method != "floor" and point.error == min(others) else text

    return _table(found, shown)


def time_table(found: Sequence[Point]) -> str:
    """Return the processor's seconds of training, a row a training size and a column a method, in Markdown."""
    return _table(found, lambda point, row: f"{point.cpu_seconds:.3g}")


def ratio_table(found: Sequence[Point]) -> str:
    """Return training times as multiples of the spectral fit's, in Markdown.

    There is a row a training size and a column a method.
    """

    def shown(point: Point, row: Sequence[Point]) -> str:
        (ours,) = [other.cpu_seconds for other in row if other.method == "ours"]
        ratio = point.cpu_seconds / ours
        return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"

    return _table([point for point in found if point.method != "ours"], shown, found)


def reach_table(cells: Sequence[Cell], journal: Journal) -> str:
    """Return how long each method took to come within a tenth of the error of the converged MLE, in Markdown.

    The median of the processor's seconds over the models on which it got there, and on how many it did.
    """
    results: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for cell in cells:
        described = cell.describe()
        record = journal.find(described)
        if record is not None and "failure" not in record["result"]:
            key = _label(cell), str(described["method"])
            results.setdefault(key, {})[int(str(described["model"]))] = record["result"]
    labels = list(dict.fromkeys(label for label, method in results if method == "floor"))
    methods = [name for name in METHODS if any((label, name) in results for label in labels)]
    rows = [["N", *(METHODS[name].title for name in methods)]]
    for label in labels[::-1]:
        floor = results[label, "floor"]
        rows.append([label, *(_reached(results.get((label, name), {}), floor) for name in methods)])
    return _lines(rows)


def _reached(results: dict[int, dict[str, Any]], floor: dict[int, dict[str, Any]]) -> str:
    """Return the median time of the models on which an error is within a tenth of the floor's, and how many."""
    common = [model for model in results if model in floor]
    there = [model for model in common if results[model]["error"] <= NEAR * floor[model]["error"]]
    if not there:
        return f"never (0 of {len(common)})" if common else "–"
    seconds = statistics.median(results[model]["cpu_seconds"] for model in there)
    return f"{seconds:.2g} s ({len(there)} of {len(common)})"


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
    return _lines(rows)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [_line(rows[0], widths), "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"]
    return "\n".join([*lines, *(_line(row, widths) for row in rows[1:])])


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
