"""How the time to build a junction tree grows with the graph."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.measure import best_seconds, show_note, show_table
from eigentree import JunctionTree, zoo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree import LatentGraph


def _show_growth(title: str, unit: str, graphs: Mapping[int, LatentGraph], repeats: int) -> None:
    """Print the time of each graph, smallest first, and its ratio to that of half the size."""
    best = best_seconds({str(size): partial(JunctionTree.build, graph) for size, graph in graphs.items()}, repeats)
    times = [best[str(size)] for size in graphs]
    ratios = ["", *(f"{after / before:.2f}" for before, after in pairwise(times))]
    rows = [
        [f"{size:,}", f"{len(graph.names):,}", f"{1e3 * time:.1f}", f"{1e6 * time / len(graph.names):.1f}", ratio]
        for (size, graph), time, ratio in zip(graphs.items(), times, ratios, strict=True)
    ]
    show_table(
        f"trees: JunctionTree.build, {title}, 1 thread, best of {repeats}",
        [unit, "variables", "ms", "µs per variable", "x half the size"],
        rows,
    )


def run(quick: bool) -> None:
    """Print how the time grows for long chains, and for a hub with many leaves."""
    repeats = 3 if quick else 7
    steps = (125, 250, 500) if quick else (1_250, 2_500, 5_000, 10_000)
    columns = (500, 1_000) if quick else (10_000, 20_000)
    chains = {length: zoo.hmm(length, order=2, hidden_states=2, observed_states=4) for length in steps}
    hubs = {count: zoo.mixture(count, hidden_states=2, observed_states=4) for count in columns}
    _show_growth("2nd-order HMM (2 hidden, 4 observed states)", "steps", chains, repeats)
    _show_growth("mixture (2 hidden states, 4 observed states)", "columns", hubs, repeats)
    show_note("linear time doubles with the size; the aim is a ratio of at most about 2.2")
