"""Random chains and sequences of the tests of sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SIZES = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (8, 1), (9, 1), (21, 1), (1, 2), (2, 2), (3, 2), (4, 2)]
SIZES += [(5, 2), (8, 2), (2, 3), (3, 4)]
"""Numbers of states and orders."""


class SequenceProblem(NamedTuple):
    """Symbols of all steps, where sequences start, and tables of a chain; the last symbol is a missing cell."""

    symbols: np.ndarray
    starts: np.ndarray
    emissions: np.ndarray
    links: list[np.ndarray]

    @classmethod
    def of(
        cls,
        random: np.random.Generator,
        lengths: np.ndarray | list[int],
        states: int,
        order: int,
        count: int = 5,
        dtype: type = np.uint8,
    ) -> SequenceProblem:
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        symbols = random.integers(0, count + 1, starts[-1]).astype(dtype)
        emissions = np.ones((count + 1, states))
        emissions[:-1] = random.dirichlet(np.ones(count), states).T
        links = [random.dirichlet(np.ones(states), (states,) * earlier) for earlier in range(order + 1)]
        return cls(symbols, starts, emissions, links)

    @property
    def sequences(self) -> list[np.ndarray]:
        """The symbols of each sequence."""
        return np.split(self.symbols, self.starts[1:-1])
