"""The counter of steps counts, and leaves other tracers, such as that of coverage, at work."""

from __future__ import annotations

import sys

import pytest
from growth import steps_of


def counting(times: int) -> int:
    total = 0
    for number in range(times):
        total += number
    return total


def test_more_work_is_more_steps() -> None:
    assert steps_of(lambda: counting(1_000)) == pytest.approx(10 * steps_of(lambda: counting(100)), rel=0.1)


def test_a_tracer_that_was_at_work_sees_all_and_stays() -> None:
    def watched(run) -> tuple[list[tuple[str, int]], object]:
        """What a tracer sees of `counting`, and who traces afterwards."""
        seen: list[tuple[str, int]] = []

        def local(frame, event, argument):
            seen.append((event, frame.f_lineno))
            return local

        def tracer(frame, event, argument):
            return local(frame, event, argument) if frame.f_code is counting.__code__ else None

        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            run()
            return seen, sys.gettrace() is tracer
        finally:
            sys.settrace(before)

    plain, _ = watched(lambda: counting(3))
    counted, stays = watched(lambda: steps_of(lambda: counting(3)))
    assert plain == counted
    assert len(plain) > 3
    assert stays


def test_a_tracer_comes_back_after_an_error() -> None:
    def failing() -> None:
        raise KeyError

    before = sys.gettrace()
    with pytest.raises(KeyError):
        steps_of(failing)
    assert sys.gettrace() is before
