"""How time grows with rows, length, states, hidden states and leaves: measured, with fitted exponents."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.measure import best_seconds, in_fresh_process, peak_memory, seconds, show_note, show_table
from eigentree import LatentNetwork, SpectralJunctionTree, zoo
from eigentree.em.estep.expectation import Expectation
from eigentree.em.parameters import ParameterLayout
from eigentree.planning.view_plan import ViewPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eigentree import LatentGraph

CLOCK = time.process_time
WORK = ("plan", "fit", "score, spectral", "score, exact", "EM step")
FITTED_SIZES = 3
"""The largest sizes, to which exponents are fitted: below them fixed costs show."""


class Growth(NamedTuple):
    """One size that grows, all others fixed."""

    story: str
    """What it grows in."""
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    graph: Callable[[int], LatentGraph]
    rows: int | None
    """None where the rows are what grows."""
    expected: str
    """What the exponents should be."""


GROWTHS = {
    "rows": Growth(
        "2nd-order HMM of 40 steps, 2 hidden, 4 observed states",
        (30_000, 100_000, 300_000, 1_000_000),
        (1_000, 2_000, 4_000),
        lambda _: zoo.hmm(40, 2, 2, 4),
        None,
        "at most 1; a fit has work that no row adds to",
    ),
    "length": Growth(
        "HMM, 3 hidden, 4 observed states, 1,000 rows",
        (1_000, 3_000, 10_000),
        (20, 40, 80),
        lambda size: zoo.hmm(size, 1, 3, 4),
        1_000,
        "1",
    ),
    "observed states": Growth(
        "HMM of 10 steps, 3 hidden states, 10,000 rows",
        (1_000, 3_000, 10_000),
        (10, 20, 40),
        lambda size: zoo.hmm(10, 1, 3, size),
        10_000,
        "at most 1",
    ),
    "hidden states": Growth(
        "HMM of 20 steps, 32 observed states, 10,000 rows",
        (4, 8, 16, 32),
        (2, 3, 4),
        lambda size: zoo.hmm(20, 1, size, 32),
        10_000,
        "2 for EM and exact scores, 3 for spectral models, whose operators have three bonds of that rank",
    ),
    "leaves": Growth(
        "latent tree, two children each, 3 hidden, 4 observed states, 1,000 rows",
        (1_000, 3_000, 10_000),
        (20, 40, 80),
        lambda size: zoo.LatentTree(3).build((4,) * size),
        1_000,
        "1",
    ),
}


def times(name: str, size: int, repeats: int) -> list[float]:
    """Return the processor seconds of each type of work, and the peak memory in bytes; for a fresh process."""
    warnings.simplefilter("ignore")
    growth = GROWTHS[name]
    _measured(zoo.hmm(4, 1, 2, max(growth.graph(growth.quick[0]).states.values())), 300, 1)
    return [*_measured(growth.graph(size), growth.rows or size, repeats), peak_memory()]


def _measured(graph: LatentGraph, rows: int, repeats: int) -> list[float]:
    """Return the seconds of each type of work; what is remembered of a structure is so from the second on."""
    truth = LatentNetwork.random(graph, seed=0)
    states = [graph.states[column] for column in graph.observed]
    X = np.empty((rows, len(states)), np.min_scalar_type(max(states)), order="F")
    X[:] = np.random.default_rng(1).integers(0, states, X.shape)
    plan = seconds(lambda: ViewPlan.build(graph), CLOCK)
    model = SpectralJunctionTree(graph, shrinkage=1.0).fit(X)
    layout = ParameterLayout.of(graph)
    expectation = Expectation.of(graph, rows=len(X))
    parameters, coded = layout.vector(truth), expectation.coded(X, np.ones(len(X)))
    runs: dict[str, Callable[[], Any]] = {
        "fit": lambda: SpectralJunctionTree(graph, shrinkage=1.0).fit(X),
        "score, spectral": partial(model.score_samples, X),
        "score, exact": partial(truth.log_prob, X),
        "EM step": partial(expectation, parameters, coded),
    }
    for name in ("score, spectral", "score, exact", "EM step"):
        runs[name]()
    best = best_seconds(runs, repeats, CLOCK)
    return [plan, *(best[name] for name in WORK[1:])]


def exponent(sizes: Sequence[int], spent: Sequence[float]) -> float:
    """Return the least-squares slope of log time against log size, over the largest sizes."""
    logs = np.log([sizes[-FITTED_SIZES:], spent[-FITTED_SIZES:]])
    return float(np.polyfit(*logs, 1)[0])


def _show(name: str, growth: Growth, sizes: Sequence[int], repeats: int) -> None:
    """Print the times of one growth, and their exponents."""
    found = [in_fresh_process(__name__, "times", name, size, repeats) for size in sizes]
    rows = [
        [f"{size:,}", *(f"{1e3 * spent:,.1f}" for spent in line[:-1]), f"{line[-1] / 1e6:,.0f}"]
        for size, line in zip(sizes, found, strict=True)
    ]
    by_work = list(zip(*found, strict=True))[: len(WORK)]
    rows.append(["exponent", *(f"{exponent(sizes, spent):.2f}" for spent in by_work), ""])
    show_table(
        f"growth with {name}: {growth.story};\nprocessor ms, 1 thread, best of {repeats}, each size in a"
        f" fresh process; exponents of the {FITTED_SIZES} largest",
        [name, *WORK, "peak MB"],
        rows,
    )
    show_note(f"should be: {growth.expected}")


def run(quick: bool) -> None:
    """Print all growths."""
    for name, growth in GROWTHS.items():
        _show(name, growth, growth.quick if quick else growth.sizes, 1 if quick else 2)
    show_note(
        "rows are drawn evenly, so that hardly any are equal; plan: ViewPlan.build of a structure that was never"
        " seen, once; fit: SpectralJunctionTree(graph, shrinkage=1), structure planned before; score: all rows;"
        " EM step: the E-step over all rows"
    )
