"""A Parquet data set larger than memory should hold: learned as a stream and on a cluster of one and two processes.

The data set is written once, to a folder of its own among temporary files, and used again by later runs.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, peak_memory, show_note, show_table
from eigentree import LatentNetwork, SpectralJunctionTree, Statistics, zoo

STEPS = 40
ROWS = 20_000_000
QUICK_ROWS = 40_000
ROWS_OF_A_FILE = 1_000_000
ROWS_OF_A_GROUP = 125_000
LETTERS = np.array(["a", "c", "g", "t"])
LIMIT = 1_000
AIM = 1.6


def graph() -> Any:
    """Return the structure of the data set: a 2nd-order HMM."""
    return zoo.hmm(STEPS, 2, 2, 4)


def folder(rows: int) -> Path:
    """Return the data set, written unless it is there: labels of text as a dictionary, as engines write them."""
    import pyarrow as pa
    from pyarrow import parquet

    place = Path(tempfile.gettempdir()) / f"eigentree-large-{rows}"
    place.mkdir(exist_ok=True)
    truth = LatentNetwork.random(graph(), seed=0)
    for number, start in enumerate(range(0, rows, ROWS_OF_A_FILE)):
        path = place / f"part-{number:03d}.parquet"
        if path.exists():
            continue
        drawn = truth.sample(min(ROWS_OF_A_FILE, rows - start), seed=number)
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(LETTERS)) for codes in drawn.T
        ]
        table = pa.Table.from_arrays(columns, names=list(truth.graph.observed))
        parquet.write_table(table, f"{path}.part", row_group_size=ROWS_OF_A_GROUP)
        os.replace(f"{path}.part", path)
    return place


def learned_from_stream(rows: int) -> list[float]:
    """Return wall-clock and processor seconds of a fit from the folder, and peak memory; for a fresh process."""
    place = folder(rows)
    began, worked = time.perf_counter(), time.process_time()
    model = SpectralJunctionTree(graph()).fit(place)
    spent = [time.perf_counter() - began, time.process_time() - worked, float(peak_memory())]
    assert model.statistics_.rows == rows
    return spent


def learned_on_cluster(rows: int, workers: int) -> list[float]:
    """Return wall-clock seconds of the count on so many processes, and bytes that one part sends back."""
    from distributed import Client, LocalCluster

    from eigentree import Partitions

    place = folder(rows)
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        # Workers have imported everything before the clock runs.
        small = [min(place.glob("*.parquet"))] * workers
        Statistics.of(Partitions.of(small, client), graph())
        began = time.perf_counter()
        model = SpectralJunctionTree(graph()).fit(Partitions.of(place, client))
        spent = time.perf_counter() - began
    assert model.statistics_.rows == rows
    return [spent, float(len(pickle.dumps(model.statistics_)))]


def run(quick: bool) -> None:
    """Print rows per second and memory as a stream, and rows per second on one and two workers."""
    rows = QUICK_ROWS if quick else ROWS
    size = sum(path.stat().st_size for path in folder(rows).iterdir())
    wall, worked, peak = in_fresh_process(__name__, "learned_from_stream", rows)
    table = [["stream, 1 thread", f"{wall:.1f}", f"{rows / wall:,.0f}", f"{worked:.1f}", f"{peak / 1e6:,.0f}", ""]]
    first, sent = 0.0, 0.0
    for workers in (1, 2):
        spent, sent = in_fresh_process(__name__, "learned_on_cluster", rows, workers)
        first = first or spent
        table.append(
            [f"Dask, {workers} processes", f"{spent:.1f}", f"{rows / spent:,.0f}", "", "", f"{first / spent:.2f}"]
        )
    show_table(
        f"large: SpectralJunctionTree learned from {rows:,} x {STEPS} labels in Parquet ({size / 1e6:,.0f} MB)",
        ["how", "seconds", "rows a second", "processor s", "peak MB", "times 1 worker"],
        table,
    )
    show_note(
        f"the aims are a peak under {LIMIT:,} MB and {AIM} times with two workers; what one part sends back is "
        f"{sent / 1e6:.1f} MB. Seconds are by the clock, so other programs count."
    )
