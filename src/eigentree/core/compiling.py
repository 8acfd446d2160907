"""How loops are compiled: the one place that says so, but for what vectors compile to (`vectors`).

Contraction to fused multiply-add is the only liberty: sums keep their order, so results do not depend on how rows
are cut into blocks.

What Python calls is an entry and is `compiled`. What only entries call is a `helper`, `inlined` or `inlined_sum`:
it gets no wrapper that Python could call it by, which would take as long to compile as the loop itself. A call from
Python would crash, so the names of all these start with an underscore, but for those that entries of other modules
call: `leaves` and `matrix_tiles` have nothing for Python.

What makes compiling slow, and is left out of kernels: assignments to slices (numba compiles the formatting of an
error message with them), literals as arguments of helpers (each is a type of its own), arrays by the dozen in every
call.

numba keeps what it has compiled until the file of the entry changes. So whoever changes a helper that entries of
other files call has to touch these files as well, or their entries go on with the old one.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ContextDecorator
from functools import partial
from typing import TYPE_CHECKING, Any

from numba import get_num_threads, njit
from numba.core import event as compiler_events

from eigentree.messages import on_terminal

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["announced", "compiled", "helper", "inlined", "inlined_sum", "thread_count"]


class _Announcer(ContextDecorator, compiler_events.Listener):
    """Says on a terminal that kernels are being compiled, and in the end how long that took.

    numba notifies it of compilations only, so calls of what is compiled cost nothing. A context takes all that is
    compiled inside for one matter; outside of any, each entry is one.

    Attributes
    ----------
    kept : bool
        Whether what is compiled is kept for later processes.
    processor_seconds : float
        What this process has spent on compiling so far, so that work can be timed without it.
    """

    def __init__(self) -> None:
        self.kept = True
        self.processor_seconds = 0.0
        self._lock = threading.Lock()
        self._contexts = 0
        # What follows belongs to the one thread that compiles: numba lets no other in meanwhile.
        self._nested = 0
        self._started = 0.0
        self._started_processor = 0.0
        self._seconds = 0.0
        self._announced = False

    @property
    def compiling(self) -> bool:
        """Whether a kernel is being compiled."""
        return self._started > 0.0

    def on_start(self, event: Any) -> None:
        """Take note that numba starts to compile a function, and announce it if it is the first of ours."""
        self._nested += 1
        # All that numba compiles comes here, of whatever kind: no other package may fail for our curiosity.
        module = str(getattr(event.data["dispatcher"], "__module__", ""))
        if self._nested > 1 or not module.startswith("eigentree."):
            return
        self._started, self._started_processor = time.perf_counter(), time.process_time()
        if not self._announced and on_terminal():
            self._announced = True
            often = "once per installation" if self.kept else "in each process, as numba finds no cache directory"
            print(f"eigentree: compiling kernels, {often} …", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Take note that numba has compiled a function."""
        self._nested -= 1
        if self._nested == 0 and self._started:
            self._seconds += time.perf_counter() - self._started
            self.processor_seconds += time.process_time() - self._started_processor
            self._started = 0.0
            with self._lock:
                self._conclude()

    def __enter__(self) -> None:
        with self._lock:
            self._contexts += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._contexts -= 1
            self._conclude()

    def _conclude(self) -> None:
        """Say how long compiling took, if it was announced, is over and no context is left."""
        if self._contexts == 0 and not self._started:
            if self._announced:
                print(f"eigentree: … done in {self._seconds:.1f} s", file=sys.stderr, flush=True)
            self._announced, self._seconds = False, 0.0


announced = _Announcer()
"""``with announced:``, or ``@announced`` on a function, makes one message of all compilations inside."""

compiler_events.register("numba:compile", announced)  # type: ignore[no-untyped-call]


def thread_count() -> int:
    """Return how many threads may share the work, as numba's settings say."""
    return int(get_num_threads())


def _decorator(**options: Any) -> Any:
    """Return a decorator that compiles a loop, once per installation where numba can keep it."""
    compile_with = partial(njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)

    def decorate(function: Any) -> Any:
        try:
            return compile_with(cache=True)(function)
        except RuntimeError:
            # No directory for numba's cache can be written to: compile in each process instead.
            announced.kept = False
            return compile_with()(function)

    return decorate


compiled = _decorator(fastmath={"contract"})

helper = _decorator(fastmath={"contract"}, no_cpython_wrapper=True)

# Compiled into their callers: to count the references of a slice, or a call with a tree in its arguments, costs as
# much as a short loop.
inlined = _decorator(fastmath={"contract"}, no_cpython_wrapper=True, forceinline=True)

# These sums end in counts and not in probabilities, so their order is free, and the loops vectorise.
inlined_sum = _decorator(fastmath={"contract", "reassoc"}, no_cpython_wrapper=True, forceinline=True)
