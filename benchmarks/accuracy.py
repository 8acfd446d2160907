"""How wrong learned probabilities are, beside the published recipe and independent columns."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import show_note, show_table
from benchmarks.models import PUBLISHED, TEST_ROWS, Trial, structures

if TYPE_CHECKING:
    from eigentree import LatentGraph


def _show_structure(name: str, graph: LatentGraph, concentration: float, models: int, sizes: list[int]) -> None:
    """Print one table: a line for each number of rows."""
    trials = [Trial.draw(graph, concentration, number, max(sizes)) for number in range(models)]
    table = []
    for rows in sizes:
        ours = [trial.fitted(rows) for trial in trials]
        published = [trial.fitted(rows, **PUBLISHED) for trial in trials]
        independent = [trial.independent_error(rows) for trial in trials]
        error, other, apart = (
            median(one.error for one in ours),
            median(one.error for one in published),
            median(independent),
        )
        chosen = Counter(one.shrinkage for one in ours)
        table.append(
            [
                f"{rows:,}",
                f"{error:.3f}",
                f"{other:.3g}" if other > 99 else f"{other:.3f}",
                f"{apart:.3f}",
                f"{error / other:.2f}",
                f"{error / apart:.2f}",
                f"{sum(a.error < b.error for a, b in zip(ours, published, strict=True))}/{models}",
                " ".join(f"{value:g}:{count}" for value, count in sorted(chosen.items())),
                f"{median(one.clipped for one in ours):.1%}",
                f"{median(one.clipped for one in published):.1%}",
                f"{median(one.seconds for one in ours):.3f}",
                f"{median(one.seconds for one in published):.3f}",
            ]
        )
    show_table(
        f"accuracy: {name}, Dirichlet({concentration:g}):\n"
        f"mean of |estimate - truth| / truth over {TEST_ROWS:,} test rows, median of {models} models, 1 thread",
        [
            "rows",
            "ours",
            "published",
            "independent",
            "ours/publ.",
            "ours/indep.",
            "beats publ.",
            "kappa:models",
            "clipped",
            "(publ.)",
            "fit s",
            "(publ.)",
        ],
        table,
    )


def run(quick: bool, concentration: float) -> None:
    """Print a table for each structure."""
    models, sizes = (2, [100, 1_000]) if quick else (10, [100, 1_000, 10_000, 100_000])
    for name, graph in list(structures().items())[:: 3 if quick else 1]:
        _show_structure(name, graph, concentration, models, sizes)
    show_note(
        "ours: default settings; published: views=1, scaling=None, shrinkage=0, with the floor that suits it best;"
        " independent: columns apart, add-1/2 smoothing; beats publ.: models on which ours has the lower error;"
        " kappa: shrinkage_ chosen; clipped: how much of a cell's distribution stands for what was negative;"
        " fit s: processor time with planning"
    )
    show_note(
        "aims for the 2nd-order HMM, Dirichlet(1): at most 1.05 x independent at 100 rows, then 0.48, 0.20, 0.08;"
        " ours/publ. at most 1 everywhere"
    )
