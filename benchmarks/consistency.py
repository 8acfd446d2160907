"""How fast the error falls with the number of rows: like one over its root, if all is well."""

from __future__ import annotations

from statistics import median

from benchmarks.measure import show_note, show_table
from benchmarks.models import TEST_ROWS, Trial, slope, structures


def run(quick: bool, concentration: float) -> None:
    """Print errors and slopes, one line per structure."""
    exponents, models = ([3, 3.5, 4, 4.5], 2) if quick else ([4, 4.5, 5, 5.5, 6], 5)
    sizes = [round(10**exponent) for exponent in exponents]
    table = []
    for name, graph in list(structures().items())[3 if quick else 0 :]:
        errors = []
        for number in range(models):
            trial = Trial.draw(graph, concentration, number, max(sizes))
            errors.append([trial.fitted(rows).error for rows in sizes])
        middle = [median(column) for column in zip(*errors, strict=True)]
        slopes = sorted(slope(sizes, line) for line in errors)
        table.append(
            [
                name,
                *(f"{error:.4f}" for error in middle),
                f"{slope(sizes, middle):.3f}",
                f"{median(slopes):.3f}",
                f"{slopes[0]:.2f} … {slopes[-1]:.2f}",
            ]
        )
    show_table(
        f"consistency: mean of |estimate - truth| / truth over {TEST_ROWS:,} test rows, median of {models} models\n"
        f"of Dirichlet({concentration:g}), default settings; least-squares slope of log error against log rows",
        ["structure", *(f"10^{exponent:g}" for exponent in exponents), "slope", "median slope", "slopes of models"],
        table,
    )
    show_note("1/sqrt(rows) has slope -0.5; the aim is between -0.6 and -0.4")
    show_note("slope: of the medians to the left; median slope: of the slopes of the models")
