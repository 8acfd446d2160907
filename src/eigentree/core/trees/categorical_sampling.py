"""States chosen by uniform random numbers."""

from __future__ import annotations

from typing import Any

from eigentree.core.compiling import compiled

__all__ = ["choose", "pick"]


@compiled
def pick(table: Any, r: int, states: int, uniform: float) -> int:
    """Return the state whose stretch of the positive part of a column of the table holds the uniform number.

    Where nothing is positive, return the code of a missing cell.
    """
    total = 0.0
    for v in range(states):
        total += max(table[v, r], 0.0)
    left = uniform * total
    chosen = states
    for v in range(states):
        if table[v, r] > 0.0:
            chosen = v
            left -= table[v, r]
            if left < 0.0:
                break
    return chosen


@compiled
def choose(cumulative: Any, given: Any, uniform: Any, chosen: Any) -> None:
    """Write, for each row, the state whose stretch of its cumulative distribution holds the uniform number."""
    states = cumulative.shape[1]
    for r in range(given.shape[0]):
        line = given[r]
        level = uniform[r] * cumulative[line, states - 1]
        low, high = 0, states - 1
        while low < high:
            middle = (low + high) // 2
            if cumulative[line, middle] > level:
                high = middle
            else:
                low = middle + 1
        chosen[r] = low
