"""Many fits, scores, threads and rows in one process: memory that stays, waiting times, what checks cost."""

from __future__ import annotations

import gc
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks.measure import in_fresh_process, peak_growth, show_note, show_table
from eigentree import (
    EMHMM,
    EMJunctionTree,
    JunctionTreeClassifier,
    LatentClassModel,
    LatentNetwork,
    SpectralHMM,
    SpectralJunctionTree,
    load,
    zoo,
)
from eigentree.counting.count_layout import CountLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.graphs.graph import LatentGraph

THREADS = 8
STEPS = 20
BATCH = 1_000_000


def _resident() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def fits_and_scores(kind: str, times: int) -> list[float]:
    """Return the resident memory after a tenth of so many fits and scores, and after all; for a fresh process."""
    make: dict[str, Callable[[int], Any]] = {
        "SpectralJunctionTree": lambda seed: SpectralJunctionTree(zoo.hmm(6, 1, 2, 3)),
        "EMJunctionTree": lambda seed: EMJunctionTree(
            zoo.hmm(6, 1, 2, 3), n_init=1, init="random", max_iter=5, random_state=seed
        ),
        "SpectralHMM": lambda seed: SpectralHMM(2),
        "EMHMM": lambda seed: EMHMM(2, n_init=1, init="random", max_iter=5, random_state=seed),
    }
    found = []
    for turn in range(times):
        rows = np.random.default_rng(turn).integers(0, 3, (200, 6))
        make[kind](turn).fit(rows).score(rows)
        if turn + 1 in (times // 10, times):
            found.append(_resident())
    return found


def threads_score(rows: int, calls: int) -> list[float]:
    """Return ms of a call, p50 and p99, by one thread and by eight with one model, and the gain of calls."""
    graph = zoo.hmm(STEPS, 1, 4, 4)
    X = LatentNetwork.random(graph, seed=0).sample(10_000, seed=1)
    model = SpectralJunctionTree(graph).fit(X)
    X = X[:rows]
    expected = model.score_samples(X)

    def measured(threads: int) -> tuple[list[float], float]:
        times: list[float] = []

        def work() -> None:
            for _ in range(calls):
                start = time.perf_counter()
                same = np.array_equal(model.score_samples(X), expected)
                times.append(time.perf_counter() - start)
                assert same

        started = time.perf_counter()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        return times, threads * calls / (time.perf_counter() - started)

    found: list[float] = []
    rates = []
    for threads in (1, THREADS):
        times, rate = measured(threads)
        found += [1e3 * float(np.quantile(times, share)) for share in (0.5, 0.99)]
        rates.append(rate)
    return [*found, rates[1] / rates[0]]


def many_rows(rows: int) -> list[float]:
    """Return seconds and bytes of growth while rows are scored that come in batches; for a fresh process."""
    graph = zoo.hmm(STEPS, 1, 4, 4)
    part = LatentNetwork.random(graph, seed=0).sample(100_000, seed=1).astype(np.uint8)
    model = SpectralJunctionTree(graph).fit(part)
    model.score_samples(part)
    start = time.perf_counter()

    def scored() -> None:
        with tempfile.TemporaryDirectory() as folder:
            batches = (part for _ in range(rows // len(part)))
            model.score_samples_to(batches, str(Path(folder) / "scores.csv"))

    growth = peak_growth(scored)
    return [time.perf_counter() - start, growth]


def _nothing(*_: Any) -> None:
    """Check nothing."""


UNCHECKED: dict[str, Callable[..., Any]] = {
    "io.stores.Reader.floats": lambda reader, name, *shape: reader.array(name, ("F64",), *shape),
    "counting.statistics._fitting": lambda statistics: statistics,
    "counting.statistics._checked_layout": lambda groups, columns: CountLayout.of(
        list(map(tuple, groups)), columns.states
    ),
    "estimators.fits.fitted_records.check_counts": _nothing,
    **dict.fromkeys(
        [f"planning.stored_plan._check_{part}" for part in ("leaves", "views", "hub", "columns")], _nothing
    ),
    "spectral.learn.stored_fit._check_sum": _nothing,
    "inference.networks.table_checks._are_normalised": lambda arrays: True,
    "inference.sequences.stored_chain._check_distributions": _nothing,
    "emissions.gaussian.IndependentNormal.is_proper": lambda emission: True,
}
"""The checks of what a model promises, each with what stands in its place to learn what it costs.

Whether a file is whole, and its entries of the types and sizes that reading needs, is always checked.
"""


def _sampled(graph: LatentGraph, rows: int) -> Any:
    return LatentNetwork.random(graph, seed=0).sample(rows, seed=1)


def _with_numbers() -> Any:
    codes = _sampled(zoo.mixture(20, 4, 4), 2_000)
    frame = pd.DataFrame(codes, columns=[f"x{k}" for k in range(20)])
    return frame.assign(
        **{f"x{k}": codes[:, k] + np.random.default_rng(k).normal(size=len(codes)) for k in range(10)}
    )


EM: dict[str, Any] = {"n_init": 1, "init": "random", "max_iter": 2, "random_state": 0}

SAVED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "SpectralJunctionTree, HMM of 50": lambda: (
        SpectralJunctionTree(zoo.hmm(50, 1, 4, 8)),
        _sampled(zoo.hmm(50, 1, 4, 8), 5_000),
    ),
    "SpectralJunctionTree, Mixture of 100": lambda: (
        SpectralJunctionTree(zoo.Mixture(8)),
        _sampled(zoo.mixture(100, 8, 4), 5_000),
    ),
    "SpectralJunctionTree, 10 numbers of 20": lambda: (SpectralJunctionTree(zoo.Mixture(4)), _with_numbers()),
    "SpectralHMM": lambda: (SpectralHMM(4), _sampled(zoo.hmm(50, 1, 4, 8), 500)),
    "EMJunctionTree, HMM of 100": lambda: (
        EMJunctionTree(zoo.hmm(100, 1, 4, 4), **EM),
        _sampled(zoo.hmm(100, 1, 4, 4), 2_000),
    ),
    "EMJunctionTree, Mixture of 100": lambda: (
        EMJunctionTree(zoo.Mixture(8), **EM),
        _sampled(zoo.mixture(100, 8, 4), 2_000),
    ),
    "LatentClassModel, 10 numbers of 20": lambda: (LatentClassModel(4, **EM), _with_numbers()),
    "EMHMM": lambda: (EMHMM(4, **EM), _sampled(zoo.hmm(50, 1, 4, 8), 500)),
    "JunctionTreeClassifier, HMM of 20": lambda: (
        JunctionTreeClassifier(SpectralJunctionTree(zoo.hmm(20, 1, 4, 4))),
        _sampled(zoo.hmm(20, 1, 4, 4), 2_000),
    ),
}
"""Of each kind of saved model, an estimator and rows to fit it to."""


def cost_of_checks(kind: str, calls: int) -> list[float]:
    """Return the size of a file, ms of loading it, the share of checks, and what remains of it after one score.

    Loads with checks and without take turns; times are medians of processor time. The first score finds done what
    checks have computed of what it needs.
    """
    model, X = SAVED[kind]()
    targets = (X[:, 0],) if isinstance(model, JunctionTreeClassifier) else ()
    with warnings.catch_warnings():
        # Two iterations do not converge.
        warnings.simplefilter("ignore")
        model.fit(X, *targets)
    times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.eigentree"
        model.save(path)
        # Collections during a load must not go through what fitting has left.
        gc.collect()
        gc.freeze()
        for _ in range(calls):
            for checked, found in times.items():
                with ExitStack() as stack:
                    for name, instead in {} if checked else UNCHECKED.items():
                        stack.enter_context(mock.patch(f"eigentree.{name}", instead))
                    start = time.process_time()
                    again = load(path)
                    middle = time.process_time()
                    (again.predict_proba if targets else again.score_samples)(X[:1])
                    found.append((middle - start, time.process_time() - start))
        (loading, both), (bare, bare_both) = (np.median(found, axis=0).tolist() for found in times.values())
        return [path.stat().st_size, 1e3 * loading, 1 - bare / loading, (both - bare_both) / loading]


def run(quick: bool) -> None:
    """Print the tables."""
    times = 50 if quick else 1_000
    table = []
    for kind in ("SpectralJunctionTree", "EMJunctionTree", "SpectralHMM", "EMHMM"):
        early, late = in_fresh_process(__name__, "fits_and_scores", kind, times)
        table.append([kind, f"{early:.0f}", f"{late:.0f}", f"{1024 * (late - early) / (0.9 * times):.2f}"])
    show_table(
        f"load: resident MiB after a tenth of {times:,} fits and scores of 200 x 6 cells, and after all",
        ["model", "a tenth", "all", "KiB a fit"],
        table,
    )
    table = []
    for rows in (1, 100) if quick else (1, 100, 10_000):
        calls = 50 if quick else 300
        alone, alone_99, shared, shared_99, gain = in_fresh_process(__name__, "threads_score", rows, calls)
        line = (alone, alone_99, shared, shared_99)
        table.append([f"{rows:,}", *(f"{each:.2f}" for each in line), f"{gain:.2f}"])
    show_table(
        f"load: ms of score_samples, {STEPS} steps, by one thread and by {THREADS} that share a model",
        ["rows", "p50, 1", "p99, 1", f"p50, {THREADS}", f"p99, {THREADS}", "calls a second"],
        table,
    )
    show_note(f"calls a second: by {THREADS} threads for each by one; all scores are bit-identical")
    table = []
    for rows in (200_000,) if quick else (1_000_000, 10_000_000):
        spent, growth = in_fresh_process(__name__, "many_rows", rows)
        table.append([f"{rows:,}", f"{spent:.1f}", f"{growth / 2**20:.1f}"])
    show_table(
        f"load: rows of {STEPS} cells in batches of 100,000, their scores written to a file",
        ["rows", "s", "MiB beyond"],
        table,
    )
    table = []
    for kind in SAVED:
        size, loading, share, scored = in_fresh_process(__name__, "cost_of_checks", kind, 10 if quick else 100)
        line = (f"{size / 1e6:.2f}", f"{loading:.2f}", f"{100 * share:.1f}", f"{100 * scored:.1f}")
        table.append([kind, *line])
    show_table(
        "load: what it costs to check what a model promises, processor time of one thread",
        ["model", "MB", "ms of loading", "% of it", "% extra"],
        table,
    )
    show_note("extra: of loading, then scoring a row, which needs some of what checks compute and finds it done")
