"""The time of a whole spectral fit: beside one EM iteration, by rows, by length, and where it goes."""

from __future__ import annotations

import time
import warnings
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import afresh, best_seconds, show_note, show_table
from benchmarks.models import FIRST_SEED, PUBLISHED, codes, per_doubling, structures
from benchmarks.numpy_em import NumpyHMM
from eigentree import Counts, LatentNetwork, SpectralJunctionTree, zoo
from eigentree.planning.view_plan import ViewPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from eigentree import LatentGraph

EM = "numpy, one EM iteration"
CLOCK = time.process_time


def refit(graph: LatentGraph, X: NDArray[Any], **parameters: Any) -> SpectralJunctionTree:
    """Return a fitted model; whatever is remembered of its structure may be used."""
    with warnings.catch_warnings():
        # That few rows make weak separators is no news here.
        warnings.simplefilter("ignore", RuntimeWarning)
        return SpectralJunctionTree(graph, **parameters).fit(X)


def fit(graph: LatentGraph, X: NDArray[Any], **parameters: Any) -> SpectralJunctionTree:
    """Return a fitted model, planned anew."""
    return refit(afresh(graph), X, **parameters)


def _show_beside_em(steps: int, rows: int, repeats: int) -> None:
    """Print the time of the fit and of one EM iteration over the same rows."""
    graph = zoo.hmm(steps, 2, 2, 4)
    X = codes(LatentNetwork.random(graph, seed=FIRST_SEED), rows, seed=1)
    wide = np.ascontiguousarray(X, dtype=np.int64)
    start = LatentNetwork.random(graph, seed=FIRST_SEED + 1)
    em_run = NumpyHMM(start)
    expected = float(start.log_prob(X).sum())
    if not abs(em_run.step(X.T) / expected - 1) < 1e-9:
        raise AssertionError("the EM iteration does not find the likelihood of its start")
    runs: dict[str, Callable[[], Any]] = {
        "fit, default": partial(fit, graph, X),
        # Runs take turns in this order, so the run before has just fitted the same structure.
        "fit again, default": partial(refit, graph, X),
        "fit, default, int64 row-major": partial(fit, graph, wide),
        "fit, shrinkage=1": partial(fit, graph, X, shrinkage=1.0),
        "fit, published Algorithm 1": partial(fit, graph, X, **PUBLISHED),
        # Each call is the next iteration of one EM run; all cost the same.
        EM: partial(em_run.step, X.T),
    }
    _warm(runs.values())
    best = best_seconds(runs, repeats, CLOCK)
    show_table(
        f"fitting: 2nd-order HMM, {steps} steps, 2 hidden, 4 observed states, {rows:,} rows, uint8 column-major\n"
        f"unless said otherwise; processor time, 1 thread, best of {repeats}",
        ["run", "ms", "x one EM iteration"],
        [[name, f"{1e3 * spent:.1f}", f"{spent / best[EM]:.2f}"] for name, spent in best.items()],
    )
    show_note(
        "the EM iteration: forward and backward over blocks of rows in numpy, expected counts of all tables, which"
        " differ from step to step; EM needs tens of iterations from several starts"
    )
    show_note(
        "fit: with planning; fit again: after another fit of the same structure, whose plan may be remembered"
    )
    show_note("the aim is less than one iteration for the default fit")


def _warm(runs: Any) -> None:
    """Run everything once, so that everything is imported before any clock runs."""
    for run in runs:
        run()


def _show_growth(title: str, unit: str, runs: dict[int, Callable[[], Any]], each: int, repeats: int) -> None:
    """Print the time for each size, and what twice the size costs."""
    _warm(runs.values())
    best = best_seconds({str(size): one for size, one in runs.items()}, repeats, CLOCK)
    sizes, times = list(runs), list(best.values())
    show_table(
        f"fitting: {title}, default settings, with planning,\nprocessor time, 1 thread, best of {repeats}",
        [unit, "ms", "ns a cell", "ns a further cell", "x for twice the size"],
        [
            [f"{size:,}", f"{1e3 * spent:.1f}", f"{1e9 * spent / size / each:.2f}", further, factor]
            for size, spent, further, factor in zip(
                sizes, times, _further(sizes, times, each), per_doubling(sizes, times), strict=True
            )
        ],
    )


def _further(sizes: Sequence[int], times: Sequence[float], each: int) -> list[str]:
    """Return the nanoseconds of each cell that a size has beyond the one before; empty for the first."""
    pairs = pairwise(zip(sizes, times, strict=True))
    return ["", *(f"{1e9 * (b[1] - a[1]) / (b[0] - a[0]) / each:.2f}" for a, b in pairs)]


def _show_by_rows(steps: int, sizes: tuple[int, ...], repeats: int) -> None:
    """Print how the time grows with the rows."""
    graph = zoo.hmm(steps, 2, 2, 4)
    X = codes(LatentNetwork.random(graph, seed=FIRST_SEED), max(sizes), seed=1)
    runs = {rows: partial(fit, graph, np.asfortranarray(X[:rows])) for rows in sizes}
    _show_growth(f"by rows, 2nd-order HMM, {steps} steps", "rows", runs, steps, repeats)
    show_note(
        "planning, learning and choosing the shrinkage do not depend on the rows, so the factor rises toward 2;"
        " linear means that a further cell costs the same throughout"
    )


def _show_by_length(lengths: tuple[int, ...], rows: int, repeats: int) -> None:
    """Print how the time grows with the length."""
    runs = {}
    for steps in lengths:
        graph = zoo.hmm(steps, 2, 2, 4)
        runs[steps] = partial(fit, graph, codes(LatentNetwork.random(graph, seed=FIRST_SEED), rows, seed=1))
    _show_growth(f"by length, 2nd-order HMM, {rows:,} rows", "steps", runs, rows, repeats)
    show_note("linear time doubles with the length")


def _parts(name: str, graph: LatentGraph, rows: int, repeats: int) -> list[str]:
    """Return a line of the table: where the time of a fit goes, by public calls that do ever more of it."""
    X = codes(LatentNetwork.random(graph, seed=FIRST_SEED), rows, seed=1)
    plan = ViewPlan.build(graph)
    counts = Counts(graph, plan.groups()).update(X)
    runs: dict[str, Callable[[], Any]] = {
        "plan": lambda: ViewPlan.build(afresh(graph)),
        "count": lambda: Counts(afresh(graph), plan.groups()).update(X),
        "plan, learn": lambda: SpectralJunctionTree(afresh(graph), shrinkage=1.0).fit_moments(counts),
        "fixed": partial(fit, graph, X, shrinkage=1.0),
        "whole": partial(fit, graph, X),
    }
    _warm(runs.values())
    best = best_seconds(runs, repeats, CLOCK)
    learning = best["plan, learn"] - best["plan"]
    other = best["fixed"] - best["plan, learn"] - best["count"]
    choosing = best["whole"] - best["fixed"]
    parts = [best["plan"], best["count"], learning, other, choosing, best["whole"]]
    return [
        name,
        f"{len(counts.groups)}",
        f"{len(counts.dense):,}",
        *(f"{1e3 * part:.0f}" for part in parts),
        f"{choosing / best['fixed']:.2f}",
    ]


def _show_parts(graphs: Sequence[tuple[str, LatentGraph]], rows: int, repeats: int) -> None:
    """Print where the time goes, for each structure."""
    show_table(
        f"fitting: ms of the parts of a fit, default settings, {rows:,} rows, uint8 column-major,\n"
        f"processor time, 1 thread, best of {repeats}",
        ["structure", "groups", "cells", "plan", "count", "learn", "other", "choose", "whole", "choose / all else"],
        [_parts(name, graph, rows, repeats) for name, graph in graphs],
    )
    show_note(
        "plan: ViewPlan.build; count: Counts.update; learn: fit_moments(counts) at one shrinkage, less plan; other:"
        " what fit takes beyond these at one shrinkage (it samples rows to hold out); choose: what the default fit"
        " takes beyond that, to choose the shrinkage; the aim is choose / all else of at most 1"
    )


def run(quick: bool) -> None:
    """Print all tables."""
    graphs = list(structures().items())
    if quick:
        _show_beside_em(10, 2_000, 2)
        _show_by_rows(10, (1_000, 2_000), 2)
        _show_by_length((5, 10), 1_000, 2)
        _show_parts(graphs[-1:], 1_000, 1)
        return
    _show_beside_em(40, 100_000, 7)
    _show_by_rows(40, (10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000), 3)
    _show_by_length((20, 40, 80, 160), 100_000, 3)
    _show_parts(graphs, 100_000, 3)
