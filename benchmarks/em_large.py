"""EM on rows in memory, on disk and on a cluster: steps per second, peak memory, and that all are the same step."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, peak_memory, show_note, show_table
from eigentree import EMJunctionTree, LatentGraph, LatentNetwork, zoo

STEPS = 40
FILE_ROWS = 250_000
REPEATS = 3
PSEUDO_COUNTS = 0.1
FINISHED: tuple[int | str, ...] = (125_000, "auto")


def graph() -> LatentGraph:
    """Return a 2nd-order hidden Markov model."""
    return zoo.hmm(STEPS, 2, 2, 4)


def start() -> LatentNetwork:
    """Return the tables at which steps are timed."""
    return LatentNetwork.random(graph(), seed=7)


def write(folder: str, rows: int) -> int:
    """Write Parquet files of rows of a random model; return how large they are together."""
    import pyarrow
    from pyarrow import parquet

    truth = LatentNetwork.random(graph(), seed=0)
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        codes = truth.sample(min(FILE_ROWS, rows - first), seed=1_000 + number).astype(np.uint8)
        table = pyarrow.table(dict(zip(truth.graph.observed, codes.T, strict=True)))
        parquet.write_table(table, Path(folder) / f"part-{number:05d}.parquet")
    return sum(path.stat().st_size for path in Path(folder).glob("*.parquet"))


def in_memory(folder: str, threads: int) -> dict[str, float]:
    """Time steps on rows that are read into memory."""
    from pyarrow import parquet

    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.tree_objective import TreeObjective

    begun = time.perf_counter()
    files = sorted(Path(folder).glob("*.parquet"))
    codes = np.concatenate([np.column_stack(parquet.read_table(path).to_pandas().to_numpy().T) for path in files])
    distinct = DistinctRows(np.asfortranarray(codes), np.ones(len(codes)), np.arange(len(codes)))
    problem = TreeObjective.of(graph(), distinct, (), PSEUDO_COUNTS, threads)
    del codes, distinct
    return _timed(folder, "memory", problem, len(problem.rows.weights), begun)


def on_disk(folder: str, threads: int) -> dict[str, float]:
    """Time steps on rows whose codes are on disk as leaves read them."""
    from eigentree.counting.structure_and_schema import resolved
    from eigentree.em.out_of_core.on_disk import DiskRows

    begun = time.perf_counter()
    known, _, found = resolved(graph(), folder)
    rows = DiskRows(found)
    problem = rows.objective(known, frozenset(), PSEUDO_COUNTS, threads=threads)
    return _timed(folder, "disk", problem, rows.count, begun)


def read_anew(folder: str, _: int) -> dict[str, float]:
    """Time steps that read the Parquet files anew each time."""
    from eigentree.counting.structure_and_schema import resolved
    from eigentree.em.estep.expectation import Expectation
    from eigentree.em.parameters import ParameterLayout

    known, _columns, found = resolved(graph(), folder)
    rows, parameters = 0, ParameterLayout.of(known).vector(start())
    expectation = Expectation.of(known, (), 10**6)
    begun, clock = time.perf_counter(), time.process_time()
    for codes, _weights in found.chunks():
        expectation(parameters, expectation.coded(codes, np.ones(len(codes))))
        rows += len(codes)
    wall, processor = time.perf_counter() - begun, time.process_time() - clock
    return {"rows": rows, "wall": wall, "processor": processor, "first": 0.0, "peak": peak_memory()}


def on_cluster(folder: str, workers: int) -> dict[str, float]:
    """Time steps on a cluster of processes, each partition kept by the worker that read it."""
    from distributed import Client, LocalCluster

    from eigentree import Partitions
    from eigentree.counting.structure_and_schema import resolved
    from eigentree.em.out_of_core.dask_workers import ClusterRows

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        begun = time.perf_counter()
        known, columns, found = resolved(graph(), Partitions.of(folder, client))
        rows = ClusterRows(columns, found.stream)
        problem = rows.objective(known, frozenset(), PSEUDO_COUNTS)
        found_times = _timed(folder, f"cluster{workers}", problem, rows.count, begun)
        before = sum(client.run(time.process_time).values())
        problem.evaluated(problem.layout.vector(start()))
        spent = sum(client.run(time.process_time).values()) - before
        return found_times | {"processor": spent, "peak": max(client.run(peak_memory).values())}


def _timed(folder: str, name: str, problem: Any, rows: int, begun: float) -> dict[str, float]:
    """Return the best times of a step, what came before it, and the peak of memory; keep where the step led."""
    parameters = problem.layout.vector(start())
    first = time.perf_counter() - begun
    there = problem.evaluated(parameters)
    np.save(Path(folder) / f"{name}.npy", np.append(there.update, there.objective))
    walls, processors = [], []
    for _ in range(REPEATS):
        wall, processor = time.perf_counter(), time.process_time()
        problem.evaluated(parameters)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return {
        "rows": rows,
        "wall": min(walls),
        "processor": min(processors),
        "first": first,
        "peak": peak_memory(),
    }


def whole_fit(folder: str, finish_rows: int | str | None) -> dict[str, Any]:
    """Return what a whole fit took, on how many rows it ended, how good it is, and what it said."""
    truth = LatentNetwork.random(graph(), seed=0)
    test = truth.sample(100_000, seed=5)
    begun, clock = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        model = EMJunctionTree(graph(), random_state=0, finish_rows=finish_rows).fit(folder)
    return {
        "wall": time.perf_counter() - begun,
        "processor": time.process_time() - clock,
        "peak": peak_memory(),
        "finish_rows": model.finish_rows_,
        "steps": model.n_iter_,
        "start": model.start_.name,
        "behind": float(truth.log_prob(test).mean()) - model.score(test),
        "said": [str(each.message) for each in said],
    }


def run(quick: bool) -> None:
    """Print steps by where rows lie, and whole fits by how many rows they finish on."""
    rows = 300_000 if quick else 5_000_000
    with tempfile.TemporaryDirectory() as folder:
        size = write(folder, rows)
        ways = (
            ("rows in memory", "in_memory", 1),
            ("rows in memory, 2 threads", "in_memory", 2),
            ("codes on disk", "on_disk", 1),
            ("codes on disk, 2 threads", "on_disk", 2),
            ("Parquet read anew", "read_anew", 1),
            ("Dask, 1 worker", "on_cluster", 1),
            ("Dask, 2 workers", "on_cluster", 2),
        )
        table = []
        for name, function, number in ways:
            found = in_fresh_process(__name__, function, folder, number)
            table.append(
                [
                    name,
                    f"{found['rows'] / found['wall'] / 1e6:.2f}",
                    f"{found['rows'] / found['processor'] / 1e6:.2f}",
                    f"{found['first']:.1f}",
                    f"{found['peak'] / 1e6:,.0f}",
                ]
            )
        show_table(
            f"em_large: steps of EM on {rows:,} rows x {STEPS} columns ({size / 1e6:,.0f} MB of Parquet),\n"
            f"2nd-order HMM, 2 hidden and 4 observed states, each in a fresh process",
            ["", "10^6 rows/s", "per s of processor", "s before the first step", "peak MB"],
            table,
        )
        show_note("processor time and peak of Dask are those of its workers: of all together, and of the largest")
        whole = np.load(Path(folder) / "memory.npy")
        for name in ("disk", "cluster1", "cluster2"):
            other = np.load(Path(folder) / f"{name}.npy")
            worst = float(np.max(np.abs(other - whole) / np.maximum(np.abs(whole), 1e-300)))
            show_note(f"{name}: the step differs from that in memory by {worst:.1e} at most, relatively")
        _show_finishes(folder, FINISHED[:1] if quick else FINISHED)


def _show_finishes(folder: str, sizes: tuple[int | str, ...]) -> None:
    """Print whole fits that finish on more and more rows, and at last on all."""
    table, notes = [], []
    for finish_rows in (*sizes, None):
        found = in_fresh_process(__name__, "whole_fit", folder, finish_rows)
        table.append(
            [
                "all" if finish_rows is None else str(finish_rows),
                f"{found['finish_rows']:,}",
                f"{found['wall']:.0f}",
                f"{found['processor']:.0f}",
                found["start"],
                f"{found['steps']:.0f}",
                f"{found['peak'] / 1e6:,.0f}",
                f"{found['behind']:.5f}",
            ]
        )
        notes += [f"finish_rows={finish_rows!r} said: {text}" for text in found["said"]]
    show_table(
        "em_large: EMJunctionTree(graph, finish_rows=…).fit(folder) of the same Parquet files, as a stream;\n"
        "nats per row by which 100,000 test rows are less likely than under the truth",
        [
            "finish_rows",
            "finish_rows_",
            "s",
            "processor s",
            "start",
            "last steps",
            "peak MB",
            "nats behind the truth",
        ],
        table,
    )
    for note in notes:
        show_note(note)
