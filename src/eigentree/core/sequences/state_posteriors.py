"""The hidden states of the steps of sequences: filtered, smoothed, most probable together, and sampled.

Links, symbols and emissions are those of `forward_backward`. What is impossible leaves zeros, or states of -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core import _native
from eigentree.core.sequences.forward_backward import flat_links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers

__all__ = ["decode_steps", "filter_steps", "sample_given_steps", "sample_steps", "smooth_steps"]


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
