"""Threads: one for the linear algebra where matrices are small, several for work that comes in pieces."""

from __future__ import annotations

import os
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

__all__ = ["LEAST_ROWS", "in_order", "in_stretches", "one_thread", "usable_threads"]

T = TypeVar("T")

LEAST_ROWS = 2**16
"""Rows for each thread from which starting it pays."""

AHEAD = 2
"""How many pieces for each thread are begun before the first of them is wanted."""


def in_order(run: Callable[[int], T], pieces: int, threads: int) -> Iterator[T]:
    """Yield what each piece of work gives, in the order of the pieces, while threads work a few pieces ahead."""
    if threads == 1 or pieces < 2:
        yield from map(run, range(pieces))
        return
    from concurrent.futures import ThreadPoolExecutor

    begun: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for number in range(pieces):
                begun.append(pool.submit(run, number))
                if len(begun) > AHEAD * threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()


def in_stretches(
    run: Callable[[int, int], T], rows: int, least: int = LEAST_ROWS, threads: int | None = None
) -> Iterator[T]:
    """Yield what each stretch of rows gives, from a row up to before another, in the order of the rows.

    Each has a thread of its own and `least` rows or more; `threads` are by default `usable_threads`.
    """
    count = max(1, min(usable_threads() if threads is None else threads, rows // least))
    return in_order(lambda part: run(rows * part // count, rows * (part + 1) // count), count, count)


def usable_threads() -> int:
    """Return how many threads share work for which no n_jobs is given.

    As many as the environment variable OMP_NUM_THREADS says, which scikit-learn and BLAS follow too; else one for
    each processor that this process may use.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread.

    Threads on small matrices wait for each other longer than they multiply, on a busy machine for minutes. And sums
    keep their order, so that results do not depend on the machine.
    """
    context: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    # It knows the libraries that are loaded when it is made, and looking for them takes milliseconds.
    return ThreadpoolController()
