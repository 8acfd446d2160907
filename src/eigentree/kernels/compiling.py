"""How loops are compiled: the one place that says so.

Contraction to fused multiply-add is the only liberty: sums keep their order, so results do not depend on how rows
are cut into blocks.

What Python calls is an entry and is `compiled`. What only entries call is a `helper`, `inlined` or `inlined_sum`:
it gets no wrapper that Python could call it by, which would take as long to compile as the loop itself. A call from
Python would crash, so the names of all these start with an underscore.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit

__all__ = ["compiled", "helper", "inlined", "inlined_sum"]


def _decorator(**options: Any) -> Any:
    """Return a decorator that compiles a loop, once per installation where numba can keep it."""
    compile_with = partial(njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)

    def decorate(function: Any) -> Any:
        try:
            return compile_with(cache=True)(function)
        except RuntimeError:
            # No directory for numba's cache can be written to: compile in each process instead.
            return compile_with()(function)

    return decorate


compiled = _decorator(fastmath={"contract"})

helper = _decorator(fastmath={"contract"}, no_cpython_wrapper=True)

# Lines are named by numbers, and the loops over rows are compiled into their callers: to count the references of a
# slice, or a call, costs as much as a short loop.
inlined = _decorator(fastmath={"contract"}, no_cpython_wrapper=True, forceinline=True)

# These sums end in counts and not in probabilities, so their order is free, and the loops vectorise.
inlined_sum = _decorator(fastmath={"contract", "reassoc"}, no_cpython_wrapper=True, forceinline=True)
