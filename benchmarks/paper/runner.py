"""Cells of an experiment measured in worker processes of one thread each, with results appended to a journal."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from eigentree.errors import DataError, EigentreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Result = dict[str, Any]
    Record = dict[str, Any]

__all__ = ["THREAD_SETTINGS", "Cell", "Journal", "Outcome", "run"]

THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Cell(Protocol):
    """One measurement: a method on a data set."""

    def describe(self) -> dict[str, object]:
        """Return what identifies the cell, as JSON can hold it."""
        ...

    @property
    def size(self) -> int:
        """Training rows."""
        ...


class Journal:
    """An append-only file of results, one JSON object a line, so that a killed run goes on where it stopped.

    Each object has the keys "cell" (which identifies the line) and "result". A line that a killed run left
    half-written is cut off when the file is opened; its cell is then run again.

    Parameters
    ----------
    path : Path
        The file; it and its folder are made when they do not exist.

    Raises
    ------
    DataError
        When a line other than the last is not a result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._records: dict[str, Record] = {}
        written = path.read_bytes() if path.exists() else b""
        whole = written.rfind(b"\n") + 1
        if whole < len(written):
            os.truncate(path, whole)
        for number, line in enumerate(written[:whole].splitlines(), start=1):
            try:
                record = json.loads(line)
                self._records[_identity(record["cell"])] = record
            except (ValueError, TypeError, KeyError):
                raise DataError(
                    f"line {number} of {path} is not a result; remove that line, or choose another --out"
                ) from None

    def find(self, cell: Mapping[str, object]) -> Record | None:
        """Return the last record of a cell, or None."""
        return self._records.get(_identity(cell))

    def append(self, record: Record) -> None:
        """Write a record through to the disk."""
        line = json.dumps(record, allow_nan=False) + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._records[_identity(record["cell"])] = record


def _identity(cell: Mapping[str, object]) -> str:
    """Return the text that two descriptions of one cell share, whatever the order of their keys."""
    return json.dumps(dict(cell), sort_keys=True)


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


def run(cells: Sequence[Cell], measure: Callable[[Any], Result], journal: Journal, jobs: int) -> Outcome:
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
    """
    records = [journal.find(cell.describe()) for cell in cells]
    pending = [
        cell for cell, record in zip(cells, records, strict=True) if record is None or "failure" in record["result"]
    ]
    if not pending:
        return Outcome(0, ())
    failures = []
    seconds, rows = 0.0, 0
    done = len(cells) - len(pending)
    versions = {name: version(name) for name in ("eigentree", "numpy", "scipy")}
    with _workers(min(jobs, len(pending))) as pool:
        futures = {pool.submit(_measured, measure, cell): cell for cell in pending}
        for count, future in enumerate(as_completed(futures), start=done + 1):
            cell, result = futures[future].describe(), future.result()
            journal.append(
                {
                    "cell": cell,
                    "result": result,
                    "versions": {"python": platform.python_version(), **versions},
                    "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                }
            )
            if "failure" in result:
                failures.append(f"{cell}: {result['failure']}")
            # The time of a cell is about proportional to its rows.
            seconds, rows = seconds + result["elapsed"], rows + futures[future].size
            left = seconds / rows * (sum(each.size for each in pending) - rows) / jobs / 60
            told = f"{count} of {len(cells)}, about {left:.0f} min left: {result['elapsed']:.1f} s for {cell}"
            print(told, file=sys.stderr, flush=True)
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
