"""Forward and backward passes over sequences under one hidden chain: log probabilities and expected counts.

The links of a chain are the tables of a hidden state given the earlier ones: of state 0, of state 1 given state 0,
…, and last the one that is used at all further steps, given as many as the order; earlier states first, the state
itself last. What a step shows is one symbol, however many channels it has; emissions, shape (symbols, states), are
its probability in each state.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers

__all__ = ["LANES", "expected_sequences", "flat_links", "log_prob_sequences", "split_links"]

LANES = _native.LANES
"""Sequences that are computed together; they should be of about the same length."""


def flat_links(links: Sequence[Floats]) -> Floats:
    """Return the tables of a chain end to end."""
    return np.concatenate([table.ravel() for table in links])


def split_links(flat: Floats, links: Sequence[Floats]) -> list[Floats]:
    """Return tables of the shapes of links that stand end to end."""
    ends = accumulate(table.size for table in links)
    return [flat[end - table.size : end].reshape(table.shape) for end, table in zip(ends, links, strict=True)]


def log_prob_sequences(
    symbols: NDArray[Any],
    starts: Integers,
    numbers: Integers,
    weights: Floats,
    emissions: Floats,
    links: Sequence[Floats],
    out: Floats,
) -> None:
    """Write the log probability of each sequence that is numbered."""
    _native.sequence_log_prob(symbols, starts, numbers, weights, emissions, flat_links(links), len(links) - 1, out)


def expected_sequences(
    symbols: NDArray[Any],
    starts: Integers,
    numbers: Integers,
    weights: Floats,
    emissions: Floats,
    links: Sequence[Floats],
    out: Floats,
) -> tuple[Floats, Floats]:
    """Return the expected counts of links, end to end, and of emissions; write the log probabilities.

    Each sequence that is numbered counts by its weight.
    """
    flat = flat_links(links)
    used, shown = np.empty_like(flat), np.empty_like(emissions)
    known = (symbols, starts, numbers, weights, emissions, flat, len(links) - 1)
    _native.sequence_counts(*known, out, used, shown)
    return used, shown
