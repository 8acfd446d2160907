"""Which link of a hidden chain a step uses, where all links stand in one list (`sequences`).

Nothing here is for calls from Python: see `compiling`.
"""

from __future__ import annotations

from eigentree.core.compiling import inlined

__all__ = ["link_sizes"]


@inlined
def link_sizes(t: int, states: int, order: int) -> tuple[int, int, int]:
    """Return where a step's link begins, how many states the step drops, and how many lines it keeps."""
    offset, rest = 0, 1
    for _ in range(min(t, order)):
        offset += rest * states
        rest *= states
    if t >= order:
        return offset, states, rest // states
    return offset, 1, rest
