"""Forward and backward passes over sequences under one hidden chain: log probabilities, expected counts and states.

The links of a chain are the tables of a hidden state given the earlier ones: of state 0, of state 1 given state 0,
…, and last the one that is used at all further steps, given as many as the order; earlier states first, the state
itself last. What a step shows is one symbol, however many channels it has; emissions, shape (symbols, states), are
its probability in each state. Hidden states are filtered, smoothed, most probable together, or sampled; what is
impossible leaves zeros, or states of -1.
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

__all__ = [
    "LANES",
    "decode_steps",
    "expected_sequences",
    "filter_steps",
    "flat_links",
    "log_prob_sequences",
    "sample_given_steps",
    "sample_steps",
    "smooth_steps",
    "split_links",
]

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


def filter_steps(
    symbols: NDArray[Any], starts: Integers, emissions: Floats, links: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Return P(state of a step | steps up to it), and the full message at the end of each sequence."""
    proba = np.empty((len(symbols), len(links[0])))
    ends = np.empty((len(starts) - 1, links[-1].size // len(links[0])))
    _native.filter_steps(symbols, starts, emissions, flat_links(links), len(links) - 1, proba, ends)
    return proba, ends


def smooth_steps(symbols: NDArray[Any], starts: Integers, emissions: Floats, links: Sequence[Floats]) -> Floats:
    """Return P(state of a step | all steps of its sequence)."""
    proba = np.empty((len(symbols), len(links[0])))
    _native.smooth_steps(symbols, starts, emissions, flat_links(links), len(links) - 1, proba)
    return proba


def decode_steps(
    symbols: NDArray[Any], starts: Integers, emissions: Floats, links: Sequence[Floats]
) -> tuple[Integers, Floats]:
    """Return the jointly most probable states of all steps, and their log probability with each sequence."""
    states, log_prob = np.empty(len(symbols), np.int64), np.empty(len(starts) - 1)
    _native.decode_steps(symbols, starts, emissions, flat_links(links), len(links) - 1, states, log_prob)
    return states, log_prob


def sample_steps(starts: Integers, links: Sequence[Floats], uniform: Floats) -> Integers:
    """Return the hidden states of sequences, sampled given a number from 0 to 1 for each step."""
    states = np.empty(len(uniform), np.int64)
    _native.sample_steps(starts, flat_links(links), len(links[0]), len(links) - 1, uniform, states)
    return states


def sample_given_steps(
    symbols: NDArray[Any], starts: Integers, emissions: Floats, links: Sequence[Floats], uniform: Floats
) -> Integers:
    """Return the hidden states of sequences, sampled given their symbols and a number from 0 to 1 for each step."""
    states = np.empty(len(symbols), np.int64)
    _native.sample_given_steps(symbols, starts, emissions, flat_links(links), len(links) - 1, uniform, states)
    return states
