"""Many fits, scores, threads and rows in one process: memory that stays, and waiting times."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import in_fresh_process, peak_growth, show_note, show_table
from eigentree import EMHMM, EMJunctionTree, LatentNetwork, SpectralHMM, SpectralJunctionTree, zoo

if TYPE_CHECKING:
    from collections.abc import Callable

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
