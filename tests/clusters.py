"""A small cluster of real processes on this machine, and partitions that go wrong on purpose."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import distributed


@contextmanager
def cluster_of_processes(workers: int = 2, allowed_failures: int = 3) -> Iterator[Any]:
    """Yield a client of some worker processes, each of one thread."""
    quiet = {
        "distributed.scheduler.allowed-failures": allowed_failures,
        "distributed.worker.memory.terminate": False,
        "distributed.logging": {"distributed": "critical", "distributed.nanny": "critical"},
    }
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def dies_once(frame: Any, flag: str, number: int, fatal: int) -> Any:
    """Return a partition; the first worker that is asked for the fatal one is killed by it."""
    if number == fatal and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return frame


def dies(frame: Any) -> Any:
    """Kill whoever asks for this partition."""
    os.kill(os.getpid(), signal.SIGKILL)
    return frame


def slow(frame: Any, seconds: float) -> Any:
    """Return a partition, late."""
    time.sleep(seconds)
    return frame
