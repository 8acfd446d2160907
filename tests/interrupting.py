"""Errors at every step: a call is ended as one of the package's own functions begins, whichever it is."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

PACKAGE = "src/eigentree/"


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    # A generator is also called to be closed, and no error comes out then. Comprehensions are part of functions.
    function = not code.co_flags & inspect.CO_GENERATOR and not code.co_name.endswith("comp>")
    return function and PACKAGE in code.co_filename.replace("\\", "/")


def steps_of(call: Callable[[], object]) -> list[int]:
    """Return the numbers of the first call of each of the package's functions, and of the last in `models`."""
    first: dict[Any, int] = {}
    last: dict[Any, int] = {}
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event == "call" and _is_ours(frame):
            first.setdefault(frame.f_code, count)
            if "/models/" in frame.f_code.co_filename:
                last[frame.f_code] = count
            count += 1

    _traced(call, trace)
    return sorted({*first.values(), *last.values()})


def ended_at(step: int, call: Callable[[], object], error: BaseException) -> bool:
    """Make a call, but raise an error as its given step begins; return whether the error came out."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event == "call" and _is_ours(frame):
            count += 1
            if count == step + 1:
                raise error

    try:
        _traced(call, trace)
    except BaseException as raised:
        if raised is not error:
            raise
        return True
    return False


def _traced(call: Callable[[], object], trace: Callable[[FrameType, str, object], None]) -> None:
    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(earlier)
