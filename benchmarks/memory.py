"""Peak memory of a fit beyond the data."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import in_fresh_process, peak_growth, show_note, show_table
from benchmarks.models import codes
from eigentree import LatentNetwork, SpectralJunctionTree, zoo

STEPS = 60
SAMPLED = 100_000
LIMIT = 200


def fit_growth(rows: int, order: str, warm: bool) -> list[float]:
    """Return bytes of the data and of the growth of peak memory when they are fitted; for a fresh process.

    The rows repeat a smaller sample. `warm` says whether a small fit in the same process comes first, so that
    loading libraries is no part of the growth.
    """
    graph = zoo.hmm(STEPS, 2, 2, 4)
    truth = LatentNetwork.random(graph, seed=0)
    part = codes(truth, min(rows, SAMPLED), seed=1)
    X = np.empty((rows, STEPS), np.uint8, order="F" if order == "F" else "C")
    for start in range(0, rows, len(part)):
        X[start : start + len(part)] = part[: rows - start]
    if warm:
        SpectralJunctionTree(graph).fit(part[:1_000])
    return [X.nbytes, peak_growth(lambda: SpectralJunctionTree(graph).fit(X))]


def run(quick: bool) -> None:
    """Print the growth for few and many rows, column- and row-major."""
    sizes = (1_000_000, 10_000_000)
    cases = [(rows, order, warm) for warm in (True, False) for order in "FC" for rows in sizes]
    if quick:
        cases = [(200_000, "F", True)]
    table = []
    for rows, order, warm in cases:
        data, growth = in_fresh_process(__name__, "fit_growth", rows, order, warm)
        table.append(
            [
                "later fit" if warm else "first fit of a process",
                "column-major" if order == "F" else "row-major",
                f"{rows:,}",
                f"{data / 1e6:,.0f}",
                f"{growth / 1e6:.1f}",
                "yes" if growth <= LIMIT * 1e6 else "NO",
            ]
        )
    show_table(
        f"memory: peak resident memory beyond the data, MB (10^6 bytes), of SpectralJunctionTree(graph).fit(X),\n"
        f"2nd-order HMM, {STEPS} steps, 2 hidden, 4 observed states, uint8, 1 thread, each in a fresh process",
        ["run", "data", "rows", "data MB", "MB beyond the data", f"at most {LIMIT}"],
        table,
    )
    show_note("the first fit of a process also loads libraries; neither should grow with the rows")
