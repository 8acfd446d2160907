"""Sequences of any length through the operators of one step: scores, samples and smoothed distributions.

A sequence is a run of steps, each with one cell per channel, which may be a block of channels of the user's; all
sequences lie end to end. A cell's code is a pattern: it stands for the states that the cell can be, one where it is
known, all where it is missing, some where a part of its block is. Sequences go cell by cell, by the same rule as
`chain_rule` has for rows, and the operators are those of one step, used at every step. The message is the
expectation of features given the cells so far, so it lies between their least and their largest values. Noise would
drive it beyond after enough steps, and so it is held there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.core.trees.chain_rule import Floor

__all__ = ["StepOperators", "sample_sequences", "sample_unknown", "score_sequences", "smooth_sequences"]


class StepOperators(NamedTuple):
    """The operators of one step, a cell at a time.

    Attributes
    ----------
    values : (values,)
        For each channel a table with the axes state, bond before, bond after; the last state is the sum of all.
    heads : (heads,)
        For each channel its values at the constant of the bond after, with the axes bond before, state.
    first_value, first_head : (channels,)
        Where those of a channel begin.
    ranks : (channels + 1,)
        Size of the bond before each channel; the last is that before the next step's first.
    states : (channels,)
    start : (first rank,)
        The message before the first step.
    low, high : (channels, largest rank)
        Between what the message before each channel lies.
    first_pattern : (channels + 1,)
        Where the patterns of a channel begin.
    first_match : (patterns of all channels + 1,)
        Where the states that a pattern can be begin.
    matches : (matches,)
        Those states.
    patterns : (states of all channels,)
        The pattern of each state.
    clipping : (channels,)
        How much of a channel's own distribution is added to its table for each unit of probability below zero, as
        `CLIPPED` is for the columns of a table.
    """

    values: Floats
    heads: Floats
    first_value: Integers
    first_head: Integers
    ranks: Integers
    states: Integers
    start: Floats
    low: Floats
    high: Floats
    first_pattern: Integers
    first_match: Integers
    matches: Integers
    patterns: Integers
    clipping: Floats


def score_sequences(
    steps: StepOperators,
    floor: Floor,
    codes: Codes,
    starts: Integers,
    begins: Booleans,
    each: bool = False,
    messages: bool = False,
    last: bool = False,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the log probability of each sequence, cell after cell, and what had to be clipped on the way.

    Parameters
    ----------
    codes : (channels, steps)
        A missing cell is passed over.
    starts : (sequences + 1,)
    begins : (sequences,)
        Whether the first step is the first of its sequence; else nothing is known of those before it.
    each, messages, last : bool
        What is wanted of the last three results.

    Returns
    -------
    found : (3, sequences)
        Log probability; the share of marginals in place of what was negative, summed over cells; cells whose own
        probability was not positive.
    each : (steps,), or (0,) where it is not wanted
        The log probability of each step given those before it.
    messages : (steps, first rank), or (0, first rank)
        The message before each step.
    last : (sequences, first rank), or (0, first rank)
        The message behind the last step.
    """
    count, rank = len(starts) - 1, len(steps.start)
    found = np.empty((3, count))
    log_probs = np.empty(codes.shape[1] if each else 0)
    before = np.empty((codes.shape[1] if messages else 0, rank))
    behind = np.empty((count if last else 0, rank))
    _native.score_sequences(*steps, *floor, codes, starts, begins, found, log_probs, before, behind)
    return found, log_probs, before, behind


def sample_sequences(steps: StepOperators, floor: Floor, codes: Codes, starts: Integers, uniform: Floats) -> None:
    """Put a state into each cell of sequences, sampled given those before it from what its pattern can be.

    `codes`, `uniform` (channels, steps): patterns, and random numbers; `starts` (sequences + 1,).
    """
    _native.sample_sequences(*steps, *floor, codes, starts, uniform)


def smooth_sequences(steps: StepOperators, floor: Floor, codes: Codes, starts: Integers, unknown: int) -> Floats:
    """Return the distribution of each cell that is not known, given what is known of its sequence.

    `codes` (channels, steps); `starts` (sequences + 1,); `unknown`: how many cells can be more than one state. The
    result, of shape (unknown, most states), is in the order of the sequences, steps and channels; it is zero where
    a state is not what a cell can be.
    """
    found = np.zeros((unknown, int(steps.states.max())))
    _native.smooth_sequences(*steps, *floor, codes, starts, found)
    return found


def sample_unknown(steps: StepOperators, floor: Floor, codes: Codes, starts: Integers, uniform: Floats) -> None:
    """Put a state into each cell that is not known, all cells of a sequence sampled together.

    `codes`, `uniform` (channels, steps): patterns, and random numbers; `starts` (sequences + 1,).
    """
    _native.sample_unknown(*steps, *floor, codes, starts, uniform)
