"""Sequences of any length: windows cut from them, hashes of their pieces, and walks through one step's operators.

A sequence is a run of steps, each with one cell per channel; all sequences lie end to end. A walk goes cell by
cell, by the same rule as `walking` has for rows, and its operators are those of one step, used at every step. Its
message is the expectation of features given what it has seen, so it lies between their least and their largest
values. Noise would drive it beyond after enough steps, and so it is held there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.kernels.compiling import compiled, helper
from eigentree.kernels.walking import CLIPPED, LEAST_PRODUCT, Floor

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["StepOperators", "cut_windows", "hash_pieces", "smooth", "walk_sequences"]


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


@compiled
def cut_windows(
    codes: Any,
    starts: Any,
    own: Any,
    reach: int,
    lags: Any,
    channels: Any,
    missing: Any,
    cursor: Any,
    found: Any,
    of: Any,
) -> int:
    """Return how many windows were written, from where the cursor stands on; it is moved behind them.

    Parameters
    ----------
    codes : (channels, steps)
    starts : (sequences + 1,)
    own : (sequences, 2)
        From which step of each sequence on, and up to which, there is a window; counted from its own start.
    reach : int
        Steps with fewer than so many after them in their sequence have no window.
    lags, channels, missing : (columns,)
        Which cell each column of a window holds, and the code that marks one that is missing.
    cursor : (2,)
        The sequence and its step that come next.
    found : (columns, most windows)
    of : (most windows,)
        The sequence of each window.
    """
    written = 0
    most = found.shape[1]
    sequence, step = cursor[0], cursor[1]
    while sequence < own.shape[0] and written < most:
        first, last = starts[sequence], starts[sequence + 1]
        begin = max(own[sequence, 0], step)
        end = min(own[sequence, 1], last - first - reach)
        count = max(0, min(end - begin, most - written))
        for j in range(lags.shape[0]):
            source = first + begin + lags[j]
            before = min(max(first - source, 0), count)
            inside = max(min(last - source, count), before)
            line, channel = found[j], codes[channels[j]]
            for r in range(before):
                line[written + r] = missing[j]
            for r in range(before, inside):
                line[written + r] = channel[source + r]
            for r in range(inside, count):
                line[written + r] = missing[j]
        for r in range(count):
            of[written + r] = sequence
        written += count
        if begin + count >= end:
            sequence, step = sequence + 1, 0
        else:
            step = begin + count
    cursor[0], cursor[1] = sequence, step
    return written


@compiled
def hash_pieces(codes: Any, starts: Any, length: int, context: int, reach: int, hashes: Any, places: Any) -> None:
    """Write a 64-bit hash of each piece of each sequence, and where it is.

    Parameters
    ----------
    codes : (channels, steps)
    starts : (sequences + 1,)
    length, context, reach : int
        How many steps a piece has, and how many before and after it belong to it.
    hashes : (pieces,)
    places : (pieces, 2)
        The sequence, and the step of it that a piece begins with.
    """
    k = 0
    for sequence in range(starts.shape[0] - 1):
        size = starts[sequence + 1] - starts[sequence]
        for begin in range(0, size, length):
            low, high = max(begin - context, 0), min(begin + length + reach, size)
            mixed = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(begin - low)
            mixed = mixed * np.uint64(0xBF58476D1CE4E5B9) ^ np.uint64(min(length, size - begin))
            mixed = mixed * np.uint64(0xBF58476D1CE4E5B9) ^ np.uint64(high - begin)
            for channel in range(codes.shape[0]):
                for t in range(starts[sequence] + low, starts[sequence] + high):
                    mixed = (mixed ^ np.uint64(codes[channel, t])) * np.uint64(0xBF58476D1CE4E5B9)
                    mixed ^= mixed >> np.uint64(31)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
            hashes[k] = mixed ^ (mixed >> np.uint64(29))
            places[k, 0], places[k, 1] = sequence, begin
            k += 1


@helper
def _tabulate(steps: StepOperators, channel: int, message: Any, table: Any) -> float:
    """Return what is positive of the table of a cell given those before it, after writing the table."""
    states, first = steps.states[channel], steps.first_head[channel]
    for s in range(states):
        table[s] = 0.0
    for k in range(steps.ranks[channel]):
        for s in range(states):
            table[s] += steps.heads[first + k * states + s] * message[k]
    positive = 0.0
    for s in range(states):
        positive += max(table[s], 0.0)
    return positive


@helper
def _draw(floor: Floor, channel: int, states: int, table: Any, positive: float, left: float) -> int:
    """Return a state that is drawn from the distribution that a table stands for."""
    chosen = 0
    total = 0.0
    for s in range(states):
        total += table[s]
    clipped = CLIPPED * (positive - total)
    usable = positive > 0.0 and positive < math.inf
    for s in range(states):
        marginal = floor.marginals[floor.first[channel] + s]
        q = marginal
        if usable:
            own = (max(table[s], 0.0) + clipped * marginal) / (positive + clipped)
            q = (1.0 - floor.share) * own + floor.share * marginal
        if q > 0.0:
            # Rounding may leave a little over: the last state that is possible gets it.
            chosen = s
            left -= q
            if left < 0.0:
                break
    return chosen


@helper
def _advance(
    steps: StepOperators, channel: int, code: int, model: float, alone: float, message: Any, after: Any
) -> None:
    """Write the message behind a cell: partly that of its state, partly that of a missing one."""
    before, rank, states = steps.ranks[channel], steps.ranks[channel + 1], steps.states[channel]
    for n in range(rank):
        after[n] = 0.0
    if model != 0.0:
        first = steps.first_value[channel] + code * before * rank
        for k in range(before):
            weight = model * message[k]
            for n in range(rank):
                after[n] += weight * steps.values[first + k * rank + n]
    if alone != 0.0:
        first = steps.first_value[channel] + states * before * rank
        for k in range(before):
            weight = alone * message[k]
            for n in range(rank):
                after[n] += weight * steps.values[first + k * rank + n]
    following = channel + 1 if channel + 1 < steps.states.shape[0] else 0
    for n in range(1, rank):
        after[n] = min(max(after[n], steps.low[following, n]), steps.high[following, n])
    after[0] = 1.0


@helper
def _cell(
    steps: StepOperators, floor: Floor, channel: int, code: int, message: Any, table: Any, told: Any
) -> float:
    """Return a cell's probability given those before it, after writing what it tells of those after it.

    Parameters
    ----------
    told : (4,)
        How much of the message behind the cell is that of its state, and how much that of a missing one; the
        share of marginals in place of what is negative; 1 where the cell's own probability was not positive.
    """
    positive = _tabulate(steps, channel, message, table)
    marginal = floor.marginals[floor.first[channel] + code]
    q = marginal
    model, weight = 0.0, 0.0
    told[2], told[3] = 0.0, 0.0
    if positive > 0.0 and positive < math.inf:
        total = 0.0
        for s in range(steps.states[channel]):
            total += table[s]
        cell = max(table[code], 0.0)
        clipped = CLIPPED * (positive - total)
        trust = (1.0 - floor.share) / (positive + clipped)
        q = trust * (cell + clipped * marginal) + floor.share * marginal
        if clipped > 0.0:
            told[2] = clipped / (positive + clipped)
        if cell > 0.0:
            model = trust / q
            weight = model * cell
        else:
            told[3] = 1.0
    told[0], told[1] = model, 1.0 - weight
    return float(q)


@compiled
def walk_sequences(
    steps: StepOperators,
    floor: Floor,
    codes: Any,
    starts: Any,
    begins: Any,
    uniform: Any,
    drawn: Any,
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
        A missing cell is passed over, unless there are draws: then it gets a state.
    starts : (sequences + 1,)
    begins : (sequences,)
        Whether the first step is the first of its sequence; else nothing is known of those before it.
    uniform, drawn : (channels, steps), or (channels, 0) where nothing is to be drawn
        Random numbers, and the codes with what was drawn in place of missing cells.
    space : (3, most states or largest rank)
    found : (3, sequences)
        Log probability; the share of marginals in place of what was negative, summed over cells; cells whose own
        probability was not positive.
    each : (steps,), or (0,) where it is not asked for
        The log probability of each step given those before it.
    messages : (steps, first rank), or (0, first rank)
        The message before each step.
    last : (sequences, first rank), or (0, first rank)
        The message behind the last step.
    """
    channels = codes.shape[0]
    message, after, table = space[0], space[1], space[2]
    told = np.empty(4)
    for i in range(starts.shape[0] - 1):
        for k in range(steps.ranks[0]):
            message[k] = steps.start[k] if begins[i] else (1.0 if k == 0 else 0.0)
        log_prob, product, clipped, refused = 0.0, 1.0, 0.0, 0.0
        for t in range(starts[i], starts[i + 1]):
            if messages.shape[0] > 0:
                for k in range(steps.ranks[0]):
                    messages[t, k] = message[k]
            own = 1.0
            for c in range(channels):
                states = steps.states[c]
                code = int(codes[c, t])
                if code >= states and uniform.shape[1] > 0:
                    positive = _tabulate(steps, c, message, table)
                    code = _draw(floor, c, states, table, positive, uniform[c, t])
                if uniform.shape[1] > 0:
                    drawn[c, t] = code
                if code < states:
                    own *= _cell(steps, floor, c, code, message, table, told)
                    clipped += told[2]
                    refused += told[3]
                    _advance(steps, c, code, told[0], told[1], message, after)
                else:
                    _advance(steps, c, code, 0.0, 1.0, message, after)
                message, after = after, message
            if each.shape[0] > 0:
                each[t] = np.log(own)
            product *= own
            if product < LEAST_PRODUCT:
                log_prob += np.log(product)
                product = 1.0
        found[0, i], found[1, i], found[2, i] = log_prob + np.log(product), clipped, refused
        if last.shape[0] > 0:
            for k in range(steps.ranks[0]):
                last[i, k] = message[k]


@helper
def _both_ways(
    steps: StepOperators, floor: Floor, channel: int, before: Any, after: Any, table: Any, found: Any
) -> None:
    """Write the distribution of a missing cell given the messages from both sides."""
    states, rank, following = steps.states[channel], steps.ranks[channel], steps.ranks[channel + 1]
    first = steps.first_value[channel]
    positive, total = 0.0, 0.0
    for s in range(states):
        own = 0.0
        for k in range(rank):
            line = 0.0
            for n in range(following):
                line += steps.values[first + (s * rank + k) * following + n] * after[n]
            own += line * before[k]
        table[s] = own
        positive += max(own, 0.0)
        total += own
    clipped = CLIPPED * (positive - total)
    for s in range(states):
        marginal = floor.marginals[floor.first[channel] + s]
        q = marginal
        if positive > 0.0 and positive < math.inf:
            own = (max(table[s], 0.0) + clipped * marginal) / (positive + clipped)
            q = (1.0 - floor.share) * own + floor.share * marginal
        found[s] = q


@compiled
def smooth(
    steps: StepOperators, floor: Floor, codes: Any, wanted: Any, space: Any, seen: Any, told: Any, found: Any
) -> None:
    """Write the distribution of each wanted cell of one sequence given all its known cells but itself.

    Parameters
    ----------
    codes : (channels, steps)
        Of one sequence. A wanted cell is passed over, whether it is known or not.
    wanted : (channels, steps)
        -1, or the line of `found` that a cell's distribution is written to.
    space : (3, most states or largest rank)
    seen : (channels * steps + 1, largest rank)
        Room for the message before each cell.
    told : (channels * steps, 4)
        Room for what each cell tells.
    found : (wanted cells, most states)
    """
    channels, length = codes.shape
    table = space[2]
    for k in range(steps.ranks[0]):
        seen[0, k] = steps.start[k]
    for t in range(length):
        for c in range(channels):
            place = t * channels + c
            code = int(codes[c, t])
            if code < steps.states[c] and wanted[c, t] < 0:
                _cell(steps, floor, c, code, seen[place], table, told[place])
            else:
                told[place, 0], told[place, 1] = 0.0, 1.0
            _advance(steps, c, code, told[place, 0], told[place, 1], seen[place], seen[place + 1])
    after, before = space[0], space[1]
    for k in range(steps.ranks[0]):
        after[k] = 1.0 if k == 0 else 0.0
    for t in range(length - 1, -1, -1):
        for c in range(channels - 1, -1, -1):
            place = t * channels + c
            if wanted[c, t] >= 0:
                _both_ways(steps, floor, c, seen[place], after, table, found[wanted[c, t]])
            rank, following, states = steps.ranks[c], steps.ranks[c + 1], steps.states[c]
            code = min(int(codes[c, t]), states)
            largest = 0.0
            for k in range(rank):
                own = steps.first_value[c] + (code * rank + k) * following
                missing = steps.first_value[c] + (states * rank + k) * following
                total = 0.0
                for n in range(following):
                    line = told[place, 0] * steps.values[own + n] + told[place, 1] * steps.values[missing + n]
                    total += line * after[n]
                before[k] = total
                largest = max(largest, abs(total))
            if largest > 0.0:
                for k in range(rank):
                    before[k] /= largest
            before, after = after, before
