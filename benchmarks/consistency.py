"""How fast the error falls with the number of rows: like one over its root, if all is well."""

from __future__ import annotations

import warnings
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measure import show_note, show_table
from benchmarks.models import FIRST_SEED, codes, structures
from eigentree import LatentNetwork, SpectralJunctionTree

if TYPE_CHECKING:
    from eigentree import LatentGraph

TEST_ROWS = 1_000


def errors(graph: LatentGraph, number: int, sizes: list[int]) -> list[float]:
    """Return the mean of |estimate - truth| / truth over test rows, after fits to ever more rows of a model."""
    truth = LatentNetwork.random(graph, seed=FIRST_SEED + number)
    test, X = codes(truth, TEST_ROWS, seed=3_000 + number), codes(truth, max(sizes), seed=2_000 + number)
    expected = truth.log_prob(test)
    found = []
    for rows in sizes:
        with warnings.catch_warnings():
            # Few rows give weak separators.
            warnings.simplefilter("ignore", RuntimeWarning)
            model = SpectralJunctionTree(graph).fit(X[:rows])
        found.append(float(np.abs(np.expm1(model.score_samples(test) - expected)).mean()))
    return found


def slope(rows: list[int], found: list[float]) -> float:
    """Return the least-squares slope of log error against log rows."""
    return float(np.polyfit(np.log(rows), np.log(found), 1)[0])


def run(quick: bool) -> None:
    """Print errors and slopes, one line per structure."""
    exponents, models = ([3, 3.5, 4, 4.5], 2) if quick else ([4, 4.5, 5, 5.5, 6], 5)
    sizes = [round(10**exponent) for exponent in exponents]
    table = []
    for name, graph in list(structures().items())[3 if quick else 0 :]:
        found = [errors(graph, number, sizes) for number in range(models)]
        middle = [median(column) for column in zip(*found, strict=True)]
        slopes = sorted(slope(sizes, line) for line in found)
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
        "of Dirichlet(1), default settings; least-squares slope of log error against log rows",
        ["structure", *(f"10^{exponent:g}" for exponent in exponents), "slope", "median slope", "slopes of models"],
        table,
    )
    show_note("1/sqrt(rows) has slope -0.5; the aim is between -0.6 and -0.4")
    show_note("slope: of the medians to the left; median slope: of the slopes of the models")
