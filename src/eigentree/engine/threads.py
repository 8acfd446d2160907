"""How many threads the linear algebra may use: one, where matrices are small."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["one_thread"]


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
