"""Sequences of any length through the operators of one step: scores, samples and smoothed distributions.

A sequence is a run of steps, each with one cell per channel, which may be a block of channels of the user's; all
sequences lie end to end. A cell's code is a pattern: it stands for the states that the cell can be, one where it is
known, all where it is missing, some where a part of its block is. Sequences go cell by cell, by the same rule as
`chain_rule` has for rows, and the operators are those of one step, used at every step. The message is the
expectation of features given the cells so far, so it lies between their least and their largest values. Noise would
drive it beyond after enough steps, and so it is held there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.compiling import compiled, helper, inlined
from eigentree.core.trees.chain_rule import CLIPPED, LEAST_PRODUCT, Floor

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["StepOperators", "smooth_sequences", "walk_sequences"]


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


@inlined
def _tabulate(steps: StepOperators, channel: int, messages: Any, at: int, table: Any) -> float:
    """Return what is positive of the table of a cell given those before it, after writing the table."""
    states, first = steps.states[channel], steps.first_head[channel]
    for s in range(states):
        table[s] = 0.0
    for k in range(steps.ranks[channel]):
        for s in range(states):
            table[s] += steps.heads[first + k * states + s] * messages[at, k]
    positive = 0.0
    for s in range(states):
        positive += max(table[s], 0.0)
    return positive


@inlined
def _is_missing(steps: StepOperators, channel: int, pattern: int) -> bool:
    """Return whether nothing is known of a cell."""
    return bool(pattern == steps.first_pattern[channel + 1] - steps.first_pattern[channel] - 1)


@helper
def _sampled_state(steps: StepOperators, channel: int, pattern: int, table: Any, left: float) -> int:
    """Return a state that a pattern can be, sampled from its distribution."""
    place = steps.first_pattern[channel] + pattern
    chosen = steps.matches[steps.first_match[place]]
    for m in range(steps.first_match[place], steps.first_match[place + 1]):
        s = steps.matches[m]
        if table[s] > 0.0:
            # Rounding may leave a little over: the last state that is possible gets it.
            chosen = s
            left -= table[s]
            if left < 0.0:
                break
    return int(chosen)


@helper
def _sample(
    steps: StepOperators, floor: Floor, channel: int, pattern: int, table: Any, positive: float, left: float
) -> int:
    """Return a state that a pattern can be, sampled from the distribution that a table stands for."""
    total = 0.0
    for s in range(steps.states[channel]):
        total += table[s]
    clipped = CLIPPED * (positive - total)
    usable = positive > 0.0 and positive < math.inf
    place = steps.first_pattern[channel] + pattern
    begin, end = steps.first_match[place], steps.first_match[place + 1]
    whole = 0.0
    for m in range(begin, end):
        s = steps.matches[m]
        marginal = floor.marginals[floor.first[channel] + s]
        q = marginal
        if usable:
            own = (max(table[s], 0.0) + clipped * marginal) / (positive + clipped)
            q = (1.0 - floor.share) * own + floor.share * marginal
        table[s] = q
        whole += q
    return int(_sampled_state(steps, channel, pattern, table, left * whole))


@inlined
def _add(
    steps: StepOperators, channel: int, state: int, share: float, messages: Any, at: int, behind: Any, to: int
) -> None:
    """Add a share of the message behind a cell in some state; the one behind the last is that of any."""
    before, rank = steps.ranks[channel], steps.ranks[channel + 1]
    first = steps.first_value[channel] + state * before * rank
    for k in range(before):
        weight = share * messages[at, k]
        for n in range(rank):
            behind[to, n] += weight * steps.values[first + k * rank + n]


@inlined
def _advance(
    steps: StepOperators,
    channel: int,
    pattern: int,
    effect: Any,
    row: int,
    table: Any,
    messages: Any,
    at: int,
    behind: Any,
    to: int,
) -> None:
    """Write the message behind a cell: partly that of what it can be, partly that of a missing one."""
    rank = steps.ranks[channel + 1]
    for n in range(rank):
        behind[to, n] = 0.0
    if effect[row, 0] != 0.0:
        place = steps.first_pattern[channel] + pattern
        for m in range(steps.first_match[place], steps.first_match[place + 1]):
            if table[steps.matches[m]] > 0.0:
                _add(steps, channel, steps.matches[m], effect[row, 0], messages, at, behind, to)
    if effect[row, 1] != 0.0:
        _add(steps, channel, steps.states[channel], effect[row, 1], messages, at, behind, to)
    following = channel + 1 if channel + 1 < steps.states.shape[0] else 0
    for n in range(1, rank):
        behind[to, n] = min(max(behind[to, n], steps.low[following, n]), steps.high[following, n])
    behind[to, 0] = 1.0


@inlined
def _cell(
    steps: StepOperators,
    floor: Floor,
    channel: int,
    pattern: int,
    messages: Any,
    at: int,
    table: Any,
    effect: Any,
    row: int,
) -> float:
    """Return a cell's probability given those before it, after writing its effect on those after it.

    `effect` (rows, 4): how much of the message behind the cell is that of its states, and how much that of a
    missing one; the share of marginals in place of what is negative; 1 where the cell's own probability was not
    positive.
    """
    positive = _tabulate(steps, channel, messages, at, table)
    usable = positive > 0.0 and positive < math.inf
    total = 0.0
    for s in range(steps.states[channel]):
        total += table[s]
    clipped = CLIPPED * (positive - total)
    trust = (1.0 - floor.share) / (positive + clipped) if usable else 0.0
    q, seen = 0.0, 0.0
    place = steps.first_pattern[channel] + pattern
    for m in range(steps.first_match[place], steps.first_match[place + 1]):
        s = steps.matches[m]
        marginal = floor.marginals[floor.first[channel] + s]
        if usable:
            own = max(table[s], 0.0)
            seen += own
            q += trust * (own + clipped * marginal) + floor.share * marginal
        else:
            q += marginal
    effect[row, 0], effect[row, 1], effect[row, 2], effect[row, 3] = 0.0, 1.0, 0.0, 0.0
    if usable and clipped > 0.0:
        effect[row, 2] = clipped / (positive + clipped)
    if usable and seen > 0.0:
        effect[row, 0] = trust / q
        effect[row, 1] = 1.0 - effect[row, 0] * seen
    elif usable:
        effect[row, 3] = 1.0
    return float(q)


@compiled
def walk_sequences(
    steps: StepOperators,
    floor: Floor,
    codes: Any,
    starts: Any,
    begins: Any,
    uniform: Any,
    sampled: Any,
    space: Any,
    found: Any,
    each: Any,
    messages: Any,
    last: Any,
) -> None:
    """Write the log probability of each sequence, cell after cell, and what had to be clipped on the way.

    Parameters
    ----------
    codes : (channels, steps)
        A missing cell is passed over, unless it is sampled: then it gets a state.
    starts : (sequences + 1,)
    begins : (sequences,)
        Whether the first step is the first of its sequence; else nothing is known of those before it.
    uniform, sampled : (channels, steps), or (channels, 0) where nothing is sampled
        Random numbers, and the codes with what was sampled in place of missing cells.
    space : (3, most states or largest rank)
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
    channels = codes.shape[0]
    table = space[2]
    effect = np.empty((1, 4))
    at = 0
    for i in range(starts.shape[0] - 1):
        for k in range(steps.ranks[0]):
            space[at, k] = steps.start[k] if begins[i] else (1.0 if k == 0 else 0.0)
        log_prob, product, clipped, refused = 0.0, 1.0, 0.0, 0.0
        for t in range(starts[i], starts[i + 1]):
            if messages.shape[0] > 0:
                for k in range(steps.ranks[0]):
                    messages[t, k] = space[at, k]
            own = 1.0
            for c in range(channels):
                pattern = int(codes[c, t])
                if uniform.shape[1] > 0:
                    positive = _tabulate(steps, c, space, at, table)
                    state = _sample(steps, floor, c, pattern, table, positive, uniform[c, t])
                    pattern = int(steps.patterns[floor.first[c] + state])
                    sampled[c, t] = pattern
                if _is_missing(steps, c, pattern):
                    effect[0, 0], effect[0, 1] = 0.0, 1.0
                else:
                    own *= _cell(steps, floor, c, pattern, space, at, table, effect, 0)
                    clipped += effect[0, 2]
                    refused += effect[0, 3]
                _advance(steps, c, pattern, effect, 0, table, space, at, space, 1 - at)
                at = 1 - at
            if each.shape[0] > 0:
                each[t] = np.log(own)
            product *= own
            if product < LEAST_PRODUCT:
                log_prob += np.log(product)
                product = 1.0
        found[0, i], found[1, i], found[2, i] = log_prob + np.log(product), clipped, refused
        if last.shape[0] > 0:
            for k in range(steps.ranks[0]):
                last[i, k] = space[at, k]


@helper
def _both_ways(
    steps: StepOperators,
    floor: Floor,
    channel: int,
    pattern: int,
    seen: Any,
    behind: Any,
    place: int,
    found: Any,
    to: int,
) -> None:
    """Write the distribution of a cell over what its pattern can be, given the messages from both sides."""
    rank, following = steps.ranks[channel], steps.ranks[channel + 1]
    own_pattern = steps.first_pattern[channel] + pattern
    begin, end = steps.first_match[own_pattern], steps.first_match[own_pattern + 1]
    positive, total, alone = 0.0, 0.0, 0.0
    for m in range(begin, end):
        s = steps.matches[m]
        first = steps.first_value[channel] + s * rank * following
        own = 0.0
        for k in range(rank):
            line = 0.0
            for n in range(following):
                line += steps.values[first + k * following + n] * behind[place + 1, n]
            own += line * seen[place, k]
        found[to, s] = own
        positive += max(own, 0.0)
        total += own
        alone += floor.marginals[floor.first[channel] + s]
    clipped = CLIPPED * (positive - total)
    for m in range(begin, end):
        s = steps.matches[m]
        marginal = floor.marginals[floor.first[channel] + s] / alone if alone > 0.0 else 1.0 / (end - begin)
        q = marginal
        if positive > 0.0 and positive < math.inf:
            own = (max(found[to, s], 0.0) + clipped * marginal) / (positive + clipped)
            q = (1.0 - floor.share) * own + floor.share * marginal
        found[to, s] = q


@helper
def _backward(
    steps: StepOperators, channel: int, pattern: int, effect: Any, row: int, table: Any, behind: Any
) -> None:
    """Write the message from the cells behind one, that one included, divided by its largest entry."""
    rank, following = steps.ranks[channel], steps.ranks[channel + 1]
    place = steps.first_pattern[channel] + pattern
    for k in range(rank):
        behind[row, k] = 0.0
    for m in range(steps.first_match[place], steps.first_match[place + 1] + 1):
        last = m == steps.first_match[place + 1]
        state = steps.states[channel] if last else steps.matches[m]
        share = effect[row, 1] if last else effect[row, 0]
        if share != 0.0 and (last or table[state] > 0.0):
            first = steps.first_value[channel] + state * rank * following
            for k in range(rank):
                for n in range(following):
                    behind[row, k] += share * steps.values[first + k * following + n] * behind[row + 1, n]
    largest = 0.0
    for k in range(rank):
        largest = max(largest, abs(behind[row, k]))
    if largest > 0.0:
        for k in range(rank):
            behind[row, k] /= largest


@helper
def _meet(
    steps: StepOperators,
    floor: Floor,
    codes: Any,
    first: int,
    last: int,
    table: Any,
    seen: Any,
    effect: Any,
    behind: Any,
) -> None:
    """Write the messages before each cell of a sequence, the effect of each cell, and the messages behind each."""
    channels = codes.shape[0]
    count = (last - first) * channels
    for k in range(steps.ranks[0]):
        seen[0, k] = steps.start[k]
        behind[count, k] = 1.0 if k == 0 else 0.0
    for place in range(count):
        c = place % channels
        pattern = int(codes[c, first + place // channels])
        effect[place, 0], effect[place, 1] = 0.0, 1.0
        if not _is_missing(steps, c, pattern):
            _cell(steps, floor, c, pattern, seen, place, table, effect, place)
        _advance(steps, c, pattern, effect, place, table, seen, place, seen, place + 1)
    for place in range(count - 1, -1, -1):
        c = place % channels
        pattern = int(codes[c, first + place // channels])
        _tabulate(steps, c, seen, place, table)
        _backward(steps, c, pattern, effect, place, table, behind)


@compiled
def smooth_sequences(
    steps: StepOperators,
    floor: Floor,
    codes: Any,
    starts: Any,
    uniform: Any,
    sampled: Any,
    table: Any,
    seen: Any,
    behind: Any,
    effect: Any,
    found: Any,
) -> None:
    """Write the distribution of each cell that is not known, given what is known of its sequence, or sample them.

    Parameters
    ----------
    codes : (channels, steps)
    starts : (sequences + 1,)
    uniform, sampled : (channels, steps), or (channels, 0) where distributions are wanted
        Random numbers, and the codes with what was sampled, all cells of a sequence together.
    table : (most states,)
    seen, behind : (channels * steps of the longest sequence + 1, largest rank)
        Space for the messages before each cell, and from behind each.
    effect : (channels * steps of the longest sequence, 4)
        Space for the effect of each cell.
    found : (cells that are not known, or 1 for samples, most states)
        Of zeros; in the order of the sequences, steps and channels. Zero where a state is not what a cell can be.
    """
    channels = codes.shape[0]
    line = 0
    sampling = uniform.shape[1] > 0
    for i in range(starts.shape[0] - 1):
        first = starts[i]
        count = (starts[i + 1] - first) * channels
        wanted = 0
        for place in range(count):
            c, t = place % channels, first + place // channels
            pattern = steps.first_pattern[c] + int(codes[c, t])
            if steps.first_match[pattern + 1] - steps.first_match[pattern] > 1:
                wanted += 1
            if sampling:
                sampled[c, t] = steps.patterns[floor.first[c] + steps.matches[steps.first_match[pattern]]]
        if wanted == 0:
            continue
        _meet(steps, floor, codes, first, starts[i + 1], table, seen, effect, behind)
        for place in range(count):
            c, t = place % channels, first + place // channels
            pattern = int(codes[c, t])
            match = steps.first_match[steps.first_pattern[c] + pattern]
            if steps.first_match[steps.first_pattern[c] + pattern + 1] - match > 1:
                _both_ways(steps, floor, c, pattern, seen, behind, place, found, line)
                if sampling:
                    state = _sampled_state(steps, c, pattern, found[line], uniform[c, t])
                    sampled[c, t] = steps.patterns[floor.first[c] + state]
                else:
                    line += 1
            if sampling:
                # The cells behind are sampled given this one too.
                _cell(steps, floor, c, int(sampled[c, t]), seen, place, table, effect, place)
                _advance(steps, c, int(sampled[c, t]), effect, place, table, seen, place, seen, place + 1)
