"""States chosen by uniform random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["choose"]


def choose(cumulative: Floats, given: Integers, uniform: Floats) -> Integers:
    """Return, for each row, the state whose stretch of a cumulative distribution holds the uniform number.

    `cumulative` has the shape (distributions, states), and `given` says which of them is the row's.
    """
    chosen = np.empty(len(given), np.int64)
    lines = np.ascontiguousarray(cumulative)
    _native.choose_states(lines, np.ascontiguousarray(given), np.ascontiguousarray(uniform), chosen)
    return chosen
