"""A plan past this machine, on paper: how long workers would take for 10^10 rows, from what one core does here."""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measure import best_seconds, seconds, show_note, show_table
from eigentree import LatentNetwork, SpectralJunctionTree, Statistics, zoo
from eigentree.em.estep.expectation import Expectation
from eigentree.em.parameters import ParameterLayout
from eigentree.planning.view_plan import ViewPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree import LatentGraph

CLOCK = time.process_time
STEPS, STATES = 40, 4
ROWS = 10**10
PARTITION = 10_000_000
"""Rows that a worker counts before it hands on their statistics."""

WORKERS = (1, 8, 32, 128, 512)
DISK = 200e6
"""Bytes per second that each worker reads: assumed, a share of a disk or of an object store."""

NETWORK = 125e6
"""Bytes per second between two workers: assumed, 1 Gbit/s."""

START = 10.0
"""Seconds to start all workers, imports included: assumed."""

LOSS = 0.2
"""Part of the workers' time that is lost to stragglers and to other work: assumed."""

EM_STEPS = 30


@dataclass(frozen=True)
class Measured:
    """What one core does here.

    Attributes
    ----------
    reading, counting, expecting : float
        Processor seconds per row: Parquet to codes, codes to statistics, and one E-step over codes.
    row_bytes : float
        Of a Parquet file.
    statistics_bytes : int
        Of the statistics of a partition, as they are sent.
    adding, learning : float
        Processor seconds to add two of them, and to learn a model from their sum.
    expected_bytes : int
        Of the expected counts of an E-step, as they are sent.
    """

    reading: float
    counting: float
    expecting: float
    row_bytes: float
    statistics_bytes: int
    adding: float
    learning: float
    expected_bytes: int


def read_codes(path: Path, columns: int) -> NDArray[np.uint8]:
    """Return the cells of a Parquet file of bytes, column-major."""
    from pyarrow import parquet

    table = parquet.read_table(path, use_threads=False)
    X = np.empty((table.num_rows, columns), np.uint8, order="F")
    for j in range(columns):
        X[:, j] = table.column(j).to_numpy()
    return X


def measured(graph: LatentGraph, rows: int, repeats: int) -> Measured:
    """Return what one core does with rows of a model of a graph."""
    import pyarrow
    from pyarrow import parquet

    truth = LatentNetwork.random(graph, seed=0)
    X = np.asfortranarray(truth.sample(rows, seed=1).astype(np.uint8))
    empty = Statistics.empty(ViewPlan.build(graph))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        path = Path(folder) / "rows.parquet"
        parquet.write_table(pyarrow.table(dict(zip(graph.observed, X.T, strict=True))), path)
        one, other = empty.update(X), empty.update(X[: rows // 2])
        sent = Path(folder) / "statistics"
        one.save(sent)
        layout = ParameterLayout.of(graph)
        expectation = Expectation.of(graph, rows=rows)
        parameters, coded = layout.vector(truth), expectation.coded(X, np.ones(rows))
        runs = {
            "reading": partial(read_codes, path, len(graph.observed)),
            "counting": partial(empty.update, X),
            "expecting": partial(expectation, parameters, coded),
            "adding": lambda: one + other,
            "learning": lambda: SpectralJunctionTree(graph).fit_statistics(one),
        }
        for run in runs.values():
            seconds(run)
        best = best_seconds(runs, repeats, CLOCK)
        return Measured(
            best["reading"] / rows,
            best["counting"] / rows,
            best["expecting"] / rows,
            path.stat().st_size / rows,
            sent.stat().st_size,
            best["adding"],
            best["learning"],
            8 * len(parameters),
        )


@dataclass(frozen=True)
class Simulated:
    """Seconds of a pass of some workers over all rows."""

    counting: float
    reduction: float
    expecting: float

    @classmethod
    def of(cls, found: Measured, workers: int) -> Simulated:
        """Return what follows from the assumptions."""
        partitions = math.ceil(ROWS / PARTITION)
        # The slowest worker has one partition more where they do not come out even.
        each = math.ceil(partitions / workers) * PARTITION
        read = max(found.reading, found.row_bytes / DISK)
        levels = math.ceil(math.log2(workers)) if workers > 1 else 0
        merged = math.ceil(partitions / workers) * found.adding
        reduction = merged + levels * (found.statistics_bytes / NETWORK + found.adding)
        step = each * found.expecting + levels * found.expected_bytes / NETWORK
        return cls(each * (read + found.counting) / (1 - LOSS), reduction, step / (1 - LOSS))


def run(quick: bool) -> None:
    """Print what was measured, and what would follow."""
    rows, repeats = (20_000, 2) if quick else (1_000_000, 3)
    graph = zoo.hmm(STEPS, 2, 2, STATES)
    found = measured(graph, rows, repeats)
    show_table(
        f"plan: what one core does here, 2nd-order HMM of {STEPS} steps, {STATES} states, {rows:,} rows of bytes;\n"
        f"processor time, 1 thread, best of {repeats}",
        ["what", "measured"],
        [
            ["rows a second, Parquet to codes", f"{1 / found.reading:,.0f}"],
            ["rows a second, codes to Statistics", f"{1 / found.counting:,.0f}"],
            ["rows a second, both", f"{1 / (found.reading + found.counting):,.0f}"],
            ["rows a second, E-step", f"{1 / found.expecting:,.0f}"],
            ["bytes a row, Parquet", f"{found.row_bytes:.1f}"],
            ["bytes of Statistics, as saved", f"{found.statistics_bytes:,}"],
            ["ms to add two Statistics", f"{1e3 * found.adding:.2f}"],
            ["s to learn from them", f"{found.learning:.2f}"],
            ["bytes of expected counts", f"{found.expected_bytes:,}"],
        ],
    )
    simulated = {workers: Simulated.of(found, workers) for workers in WORKERS}
    show_table(
        f"plan: {ROWS:.0e} rows in {ROWS // PARTITION:,} partitions of {PARTITION:,}"
        f" ({ROWS * found.row_bytes / 1e12:.2f} TB of Parquet), on paper",
        ["workers", "min to count", "s to reduce", "min, spectral model", f"min, {EM_STEPS} EM steps"],
        [
            [
                f"{workers:,}",
                f"{one.counting / 60:,.1f}",
                f"{one.reduction:.2f}",
                f"{(START + one.counting + one.reduction + found.learning) / 60:,.1f}",
                f"{(START + EM_STEPS * one.expecting) / 60:,.1f}",
            ]
            for workers, one in simulated.items()
        ],
    )
    show_note(
        f"assumed, not measured: a worker is one core like this one and reads {DISK / 1e6:.0f} MB/s; two workers"
        f" exchange {NETWORK / 1e6:.0f} MB/s; statistics are reduced as a binary tree, one level after the other;"
        f" {START:.0f} s to start; {LOSS:.0%} of the time is lost to stragglers; nobody fails"
    )
    show_note(
        "EM: rows stay in the workers' memory as codes"
        f" ({ROWS * STEPS / 1e9:,.0f} GB in all) after a first pass that is not counted here; equal rows are merged"
        " nowhere; all E-steps of one EM run, after the multi-start on a sample"
    )
