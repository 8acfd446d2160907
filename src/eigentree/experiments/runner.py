"""Cells of an experiment run in worker processes of one thread each, with their results journalled as they come."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from eigentree.errors import EigentreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eigentree.experiments.journal import Journal

    Result = dict[str, Any]

__all__ = ["THREAD_SETTINGS", "Cell", "Display", "Forecast", "Outcome", "run", "versions"]

THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Cell(Protocol):
    """One measurement: a method on a data set."""

    def describe(self) -> dict[str, object]:
        """Return what identifies the cell, as JSON can hold it."""
        ...

    @property
    def kind(self) -> tuple[str, ...]:
        """What cells of equal cost share, apart from their size."""
        ...

    @property
    def size(self) -> int:
        """Rows to learn from."""
        ...


class Display(Protocol):
    """What shows how far a run is."""

    def __call__(self, done: int, total: int, remaining: float | None) -> None:
        """Show cells done, of how many, and the seconds that remain, if they can be told yet."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Attributes
    ----------
    worked : int
        Cells that were measured now.
    failures : tuple of str
        One sentence for each cell whose method raised an error.
    """

    worked: int
    failures: tuple[str, ...]


def run(
    cells: Sequence[Cell],
    measure: Callable[[Any], Result],
    journal: Journal,
    jobs: int,
    display: Display,
) -> Outcome:
    """Return what was done to have every cell in the journal.

    Parameters
    ----------
    cells : sequence of Cell
        Those that the journal already has, without a failure, are skipped.
    measure : callable
        A function of a module (workers import it), from a cell to its result.
    journal : Journal
    jobs : int
        Number of worker processes.
    display : Display
    """
    forecast = Forecast(jobs)
    pending: list[Cell] = []
    for cell in cells:
        record = journal.find(cell.describe())
        if record is None or "failure" in record["result"]:
            pending.append(cell)
        else:
            forecast.learn(cell, record["result"]["elapsed"])
    display(len(cells) - len(pending), len(cells), forecast.remaining(pending))
    if not pending:
        return Outcome(0, ())
    failures = []
    left = {id(cell): cell for cell in pending}
    surroundings = versions()
    with _workers(min(jobs, len(pending))) as pool:
        futures = {pool.submit(_measured, measure, cell): cell for cell in pending}
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                cell, result = futures[future], future.result()
                journal.append(
                    {
                        "cell": cell.describe(),
                        "result": result,
                        "versions": surroundings,
                        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                    }
                )
                if "failure" in result:
                    failures.append(f"{cell.describe()}: {result['failure']}")
                else:
                    forecast.learn(cell, result["elapsed"])
                del left[id(cell)]
            display(len(cells) - len(left), len(cells), forecast.remaining(list(left.values())))
    return Outcome(len(pending), tuple(failures))


def _measured(measure: Callable[[Any], Result], cell: Cell) -> Result:
    """Return the result of a cell, or its failure, with the seconds that the whole of it took."""
    start = time.perf_counter()
    try:
        result = measure(cell)
    except (EigentreeError, ArithmeticError, MemoryError) as error:
        # One cell that cannot be done is a finding, and no reason to lose the others.
        lines = traceback.format_exception_only(error)
        result = {"failure": lines[-1].strip()}
    return {**result, "elapsed": time.perf_counter() - start}


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes that start afresh, with one thread each for numeric libraries."""
    before = {name: os.environ.get(name) for name in THREAD_SETTINGS}
    # Numeric libraries read these when they are first loaded, which in a fresh process is after this.
    os.environ.update(dict.fromkeys(THREAD_SETTINGS, "1"))
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_ignore_interrupts)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _ignore_interrupts() -> None:
    # Ctrl-C reaches all processes of a terminal. EM would end early and hand back the best so far as its result, so
    # only the parent listens, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Forecast:
    """How long the rest will take, from cells of the same kind that are done.

    Parameters
    ----------
    jobs : int
        Cells that run at a time.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._seconds: dict[tuple[str, ...], dict[int, list[float]]] = {}

    def learn(self, cell: Cell, seconds: float) -> None:
        """Take note of what a cell took."""
        self._seconds.setdefault(cell.kind, {}).setdefault(cell.size, []).append(seconds)

    def remaining(self, cells: Sequence[Cell]) -> float | None:
        """Return the seconds that these cells will take, or None while a kind of them has never been met."""
        total = 0.0
        for cell in cells:
            expected = self._expected(cell)
            if expected is None:
                return None
            total += expected
        return total / self.jobs

    def _expected(self, cell: Cell) -> float | None:
        met = self._seconds.get(cell.kind)
        if not met:
            return None
        nearest = min(met, key=lambda size: abs(size - cell.size))
        mean = sum(met[nearest]) / len(met[nearest])
        # Work grows with rows at most in proportion; what a smaller cell saves is not promised.
        return mean * max(1.0, cell.size / nearest)


def versions() -> dict[str, str]:
    """Return the versions of what the results depend on."""
    found = {name: version(name) for name in ("eigentree", "numpy", "scipy", "numba")}
    return {"python": platform.python_version(), **found}
