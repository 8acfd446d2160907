"""The time of a whole spectral fit, beside one EM iteration, and where it goes; `growth` has it by size."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import afresh, best_seconds, show_note, show_table
from benchmarks.models import FIRST_SEED, PUBLISHED, codes, structures
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
        _show_parts(graphs[-1:], 1_000, 1)
        return
    _show_beside_em(40, 100_000, 7)
    _show_parts(graphs, 100_000, 3)
