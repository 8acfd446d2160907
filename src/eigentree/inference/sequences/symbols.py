"""What sequences show at their steps, as symbols: one number a step, however many channels there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.vectors import LANES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers

__all__ = ["Symbols"]

MOST_LOOKED_UP = 2**20
"""With so many different symbols or fewer, those that occur are found by a table of all."""

CHUNK = 2**20
"""Steps that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class Symbols:
    """The symbols of steps.

    Attributes
    ----------
    steps : array of unsigned int, shape (steps,)
        The symbol of each step.
    lines : array of int, shape (symbols, channels)
        The codes that each symbol stands for, that of a missing cell included.
    states : tuple of int
        Of each channel.
    """

    steps: NDArray[Any]
    lines: Integers
    states: tuple[int, ...]

    @classmethod
    def of(cls, codes: Codes, states: Sequence[int]) -> Symbols:
        """Return the symbols of codes, shape (steps, channels)."""
        if len(states) == 1:
            return cls(np.ascontiguousarray(codes[:, 0]), np.arange(states[0] + 1)[:, None], tuple(states))
        sizes = [count + 1 for count in states]
        if math.prod(sizes) > MOST_LOOKED_UP:
            lines, steps = np.unique(codes, axis=0, return_inverse=True)
            kind = np.min_scalar_type(len(lines))
            return cls(steps.ravel().astype(kind), lines.astype(np.int64), tuple(states))
        seen = np.zeros(math.prod(sizes), np.bool_)
        for start in range(0, len(codes), CHUNK):
            seen[_joined(codes[start : start + CHUNK], sizes)] = True
        found = np.flatnonzero(seen)
        places = np.zeros(len(seen), np.min_scalar_type(len(found)))
        places[found] = np.arange(len(found))
        found_steps = np.empty(len(codes), places.dtype)
        for start in range(0, len(codes), CHUNK):
            found_steps[start : start + CHUNK] = places[_joined(codes[start : start + CHUNK], sizes)]
        return cls(found_steps, np.stack(np.unravel_index(found, sizes), axis=1), tuple(states))

    def emissions(self, tables: Sequence[Floats]) -> Floats:
        """Return the probability of each symbol in each hidden state, shape (symbols + 1, states and some zeros).

        The last symbol tells nothing. States are filled up with zeros to a multiple of what a vector holds.
        """
        states = tables[0].shape[0]
        lines = np.zeros((len(self.lines) + 1, -(-states // LANES) * LANES))
        lines[:, :states] = 1.0
        for channel, table in enumerate(tables):
            lines[:-1, :states] *= np.column_stack([table, np.ones(states)])[:, self.lines[:, channel]].T
        return lines

    def channel_counts(self, counts: Floats) -> list[Floats]:
        """Return how often each code of each channel was used, (hidden states, states), given that of symbols."""
        made = []
        for channel, states in enumerate(self.states):
            table = np.zeros((counts.shape[1], states + 1))
            np.add.at(table.T, self.lines[:, channel], counts)
            made.append(table[:, :states])
        return made


def _joined(codes: Codes, sizes: Sequence[int]) -> Integers:
    joined = codes[:, 0].astype(np.int64)
    for channel, size in enumerate(sizes[1:], 1):
        joined *= size
        joined += codes[:, channel]
    return joined
