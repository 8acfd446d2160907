"""How much work a piece of Python does, in steps of the interpreter: growth is its own, the clock is not."""

from __future__ import annotations

import sys
from collections.abc import Callable


def steps_of(work: Callable[[], object]) -> int:
    """Lines, calls and returns that the interpreter goes through.

    A tracer that was at work before, such as that of coverage, sees what it would have seen, and stays.
    """
    counted = 0
    before = sys.gettrace()

    def counting(local):
        def count(frame, event, argument):
            nonlocal counted, local
            counted += 1
            if local is not None:
                local = local(frame, event, argument)
            return count

        return count

    def begin(frame, event, argument):
        nonlocal counted
        counted += 1
        return counting(before(frame, event, argument) if before is not None else None)

    sys.settrace(begin)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted
