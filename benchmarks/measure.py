"""What all benchmarks share: timing in turns, fresh processes, peak memory, plain tables."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Thing = TypeVar("Thing")

ROOT = Path(__file__).resolve().parents[1]

BALLAST_BYTES = 2**18


def seconds(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long one run takes."""
    start = clock()
    run()
    return clock() - start


def best_seconds(
    runs: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the shortest time of each run; the runs take turns, so that a noisy moment hits all alike.

    `time.process_time` as clock leaves out the time that other programs take, for runs within this process.
    """
    best = dict.fromkeys(runs, float("inf"))
    # What other contenders have loaded must not slow the garbage collector during a run.
    gc.collect()
    gc.freeze()
    for _ in range(repeats):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run, clock))
    gc.unfreeze()
    return best


def afresh(thing: Thing) -> Thing:
    """Return an equal graph, or network with its graph, on which nothing is remembered: the next fit plans anew."""
    equal: Thing = pickle.loads(pickle.dumps(thing))
    return equal


def python(code: str, environment: Mapping[str, str] | None = None) -> str:
    """Return what a few lines of Python print in a fresh process at the root of the checkout."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def children_seconds() -> float:
    """Return the processor time of all processes that this one has started and that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_fresh_process(module: str, function: str, *arguments: Any) -> Any:
    """Return what a function returns in a fresh process; arguments and answer pass through JSON."""
    call = f"json.dumps({function}(*json.loads({json.dumps(arguments)!r})))"
    return json.loads(python(f"import json\nfrom {module} import {function}\nprint({call})"))


def peak_memory() -> int:
    """Return the most memory, in bytes, that has been resident in this process so far."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_growth(run: Callable[[], object]) -> int:
    """Return by how many bytes one run raises the peak of resident memory; for a process of its own.

    The peak may lie above what is resident now, and a child starts with its parent's. So memory is filled up to the
    peak first: whatever the run then adds is seen.
    """
    ballast = []
    before = peak_memory()
    while (peak := peak_memory()) == before:
        ballast.append(b"\1" * BALLAST_BYTES)
    run()
    return peak_memory() - peak


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
    print(f"\n{title}")
    for row in (header, ["-" * width for width in widths], *rows):
        right = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  ".join([row[0].ljust(widths[0]), *right]).rstrip())


def show_note(text: str) -> None:
    """Print a remark that belongs to the table above."""
    print(textwrap.fill(text, 112, initial_indent="  note: ", subsequent_indent="        "))
