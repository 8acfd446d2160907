"""Sequences under one hidden chain: probabilities, and how often each table entry is expected to be used.

Eight sequences of about the same length are computed together, each in a lane of the vectors, so that a step is a
product of a small matrix with eight messages. Nothing is padded in memory; a lane whose sequence has ended goes on
with a symbol of probability 1 in all states, and counts nothing. Of a long sequence only a block of messages is
kept, and one message per block to start it again from: memory does not grow with the steps. Pieces of one sequence,
of which is known what comes before and after (`symbol_products`), are computed together too.

A link is a table of a hidden state given the earlier ones: of state 0, of state 1 given state 0, …, and last the
one that is used at all further steps, given as many as the order. All stand in one list, the state itself last.
What a step shows is one symbol, however many channels it has; the line of a symbol holds its probability in each
state.

What a message on and one back make of a step is the probability of the whole sequence, at any step: so it is
computed once a block, and where a message was scaled, and no step has to divide.
"""

from __future__ import annotations

import math
from typing import Any

from eigentree.core.compiling import compiled, helper, inlined
from eigentree.core.sequences.forward_backward_lanes import (
    WIDTH,
    add_counts,
    add_lanes,
    add_links,
    expect_states,
    link_sizes,
    look_up,
    show_ahead,
    step_back,
    step_on,
)
from eigentree.core.vectors import LANES, load_from, nothing, product, smallest, spread, store_at, sum_of

__all__ = ["STRETCH", "TINY", "expected_pieces", "expected_sequences", "log_prob_sequences"]

STRETCH = 16
"""Steps whose uses of a link are added up in registers."""

TINY = 2.0**-200
"""Messages that add up to less are multiplied by a power of two."""


@inlined
def _least_total(lines: Any, first: int, count: int) -> float:
    """Return the least of what the lanes of a message add up to."""
    low, high = nothing(), nothing()
    for z in range(first, first + count):
        low = sum_of(low, load_from(lines, WIDTH * z))
        high = sum_of(high, load_from(lines, WIDTH * z + LANES))
    least: float = smallest(low, high)
    return least


@inlined
def _total(lines: Any, first: int, count: int, lane: int) -> float:
    total = 0.0
    for z in range(first, first + count):
        total += lines[WIDTH * z + lane]
    return total


@helper
def _scale(lines: Any, first: int, count: int, factors: Any, place: int) -> None:
    """Multiply the lanes that have become small by the power of two that takes their total to 1/2 … 1."""
    for lane in range(WIDTH):
        factors[WIDTH * place + lane] = 1.0
        total = _total(lines, first, count, lane)
        if 0.0 < total < TINY:
            _, exponent = math.frexp(total)
            factors[WIDTH * place + lane] = math.ldexp(1.0, -exponent)
            for z in range(first, first + count):
                lines[WIDTH * z + lane] *= factors[WIDTH * place + lane]


@inlined
def _next_end(lasts: Any, t: int) -> int:
    """Return the first step from here on at which a lane ends."""
    found = 2**62
    for lane in range(WIDTH):
        if lasts[lane] >= t:
            found = min(found, lasts[lane])
    return found


@inlined
def _last_end(lasts: Any, t: int) -> int:
    """Return the last step up to here at which a lane ends."""
    found = -1
    for lane in range(WIDTH):
        if lasts[lane] <= t:
            found = max(found, lasts[lane])
    return found


@helper
def _forward(symbols: Any, lanes: Any, emissions: Any, links: Any, shape: Any, span: Any, work: Any) -> None:
    """Write the messages of the steps of a block, given that of the step before it."""
    states, order, widest = shape
    start, stop = span
    firsts, lasts, _, logs, exponents = lanes
    messages, factors, scaled, shown, rows = work
    nothing_shown, padded = len(emissions) // (len(shown) // WIDTH) - 1, len(shown) // WIDTH
    ending = _next_end(lasts, start)
    for t in range(start, stop):
        place = t - start + 1
        after = place * widest
        for lane in range(WIDTH):
            rows[lane] = symbols[firsts[lane] + t] if t <= lasts[lane] else nothing_shown
            rows[lane] *= padded
        look_up(emissions, rows, padded, shown)
        offset, dropped, rest = link_sizes(t, states, order)
        size = rest * states if t > 0 else states
        if t == 0:
            for j in range(states):
                link = spread(links, j)
                store_at(messages, WIDTH * (after + j), product(link, load_from(shown, WIDTH * j)))
                store_at(messages, WIDTH * (after + j) + LANES, product(link, load_from(shown, WIDTH * j + LANES)))
        else:
            step_on(messages, after - widest, after, links, (offset, dropped, rest, states), shown)
        scaled[place] = _least_total(messages, after, size) < TINY
        if scaled[place]:
            _scale(messages, after, size, factors, place)
            for lane in range(WIDTH):
                exponents[lane] -= math.log2(factors[WIDTH * place + lane])
        if t == ending:
            for lane in range(WIDTH):
                if t == lasts[lane]:
                    total = _total(messages, after, size, lane)
                    logs[lane] = math.log(total) + exponents[lane] * math.log(2.0) if total > 0.0 else -math.inf
            ending = _next_end(lasts, t + 1)


@inlined
def _prepare(starts: Any, numbers: Any, group: int, weights: Any, lanes: Any) -> int:
    """Take the next eight sequences; return the length of the longest."""
    firsts, lasts, shares, logs, exponents = lanes
    longest = 0
    for lane in range(WIDTH):
        place = group * WIDTH + lane
        firsts[lane], lasts[lane], shares[lane], logs[lane], exponents[lane] = 0, -1, 0.0, 0.0, 0.0
        if place < len(numbers):
            number = numbers[place]
            firsts[lane] = starts[number]
            lasts[lane] = starts[number + 1] - starts[number] - 1
            shares[lane] = weights[number]
            longest = max(longest, lasts[lane] + 1)
    return longest


@inlined
def _copy(lines: Any, first: int, out: Any, to: int, count: int) -> None:
    for z in range(count):
        store_at(out, WIDTH * (to + z), load_from(lines, WIDTH * (first + z)))
        store_at(out, WIDTH * (to + z) + LANES, load_from(lines, WIDTH * (first + z) + LANES))


@compiled
def log_prob_sequences(
    symbols: Any,
    starts: Any,
    numbers: Any,
    weights: Any,
    emissions: Any,
    links: Any,
    shape: Any,
    lanes: Any,
    work: Any,
    out: Any,
) -> None:
    """Write the log probability of each sequence that is numbered.

    `shape` is the number of states, the order, and the size of a full message; `lanes` and `work` are written
    on.
    """
    widest = shape[2]
    block = len(work[2]) - 1
    for group in range((len(numbers) + WIDTH - 1) // WIDTH):
        longest = _prepare(starts, numbers, group, weights, lanes)
        for start in range(0, longest, block):
            stop = min(start + block, longest)
            _forward(symbols, lanes, emissions, links, shape, (start, stop), work)
            _copy(work[0], (stop - start) * widest, work[0], 0, widest)
        for lane in range(min(WIDTH, len(numbers) - group * WIDTH)):
            out[numbers[group * WIDTH + lane]] = lanes[3][lane]


@helper
def _weigh(messages: Any, here: int, size: int, ahead: Any, t: int, lanes: Any, scales: Any) -> None:
    """Write what the product of messages on and back is to be multiplied by to count a lane's sequence."""
    _, lasts, shares, _, _ = lanes
    for lane in range(WIDTH):
        total = 0.0
        for z in range(size):
            total += messages[WIDTH * (here + z) + lane] * ahead[WIDTH * z + lane]
        scales[lane] = shares[lane] / total if t <= lasts[lane] and total > 0.0 else 0.0


@helper
def _count(
    symbols: Any, lanes: Any, emissions: Any, links: Any, shape: Any, span: Any, work: Any, back: Any, counts: Any
) -> None:
    """Go back through a block, and add how often links and symbols are expected to be used."""
    states, order, widest = shape
    start, stop = span
    firsts, lasts, _, _, _ = lanes
    messages, factors, scaled, shown, rows = work
    ahead, ends, shown_ahead, used, scales, again = back
    link_counts, symbol_counts = counts
    # A sum that waits for that of the lane before would be slow.
    apart = len(emissions) if len(symbol_counts) > len(emissions) else 0
    unweighed, steps = True, 0
    nothing_shown, padded = len(emissions) // (len(shown) // WIDTH) - 1, len(shown) // WIDTH
    ending = _last_end(lasts, stop - 1)
    for t in range(stop - 1, start - 1, -1):
        here = (t - start + 1) * widest
        for lane in range(WIDTH):
            rows[lane] = symbols[firsts[lane] + t] if t <= lasts[lane] else nothing_shown
            rows[lane] *= padded
        look_up(emissions, rows, padded, shown)
        if t == ending:
            unweighed, ending = True, _last_end(lasts, t - 1)
            for lane in range(WIDTH):
                for z in range(widest * (t == lasts[lane])):
                    ahead[WIDTH * z + lane] = ends[WIDTH * z + lane]
        offset, dropped, rest = link_sizes(t, states, order)
        size = rest * states if t > 0 else states
        if unweighed:
            _weigh(messages, here, size, ahead, t, lanes, scales)
        expect_states(messages, here, rest if t > 0 else 1, states, ahead, scales, used)
        add_counts(symbol_counts, rows, apart, padded, used)
        if t == 0:
            for j in range(states):
                add_lanes(link_counts, j, load_from(used, WIDTH * j), load_from(used, WIDTH * j + LANES))
            continue
        unweighed = scaled[t - start + 1]
        if unweighed:
            for lane in range(WIDTH):
                scales[lane] *= factors[WIDTH * (t - start + 1) + lane]
        steps += 1
        show_ahead(shown, ahead, scales, rest, states, shown_ahead, steps * widest)
        sizes = (offset, dropped, rest, states)
        step_back(links, sizes, shown_ahead, ahead)
        if steps == STRETCH or t == start or t <= order:
            add_links(messages, here + (steps - 2) * widest, shown_ahead, widest, steps, sizes, link_counts)
            steps = 0
        if _least_total(ahead, 0, dropped * rest) < TINY:
            _scale(ahead, 0, dropped * rest, again, 0)
            unweighed = True


@compiled
def expected_sequences(
    symbols: Any,
    starts: Any,
    numbers: Any,
    weights: Any,
    emissions: Any,
    links: Any,
    shape: Any,
    lanes: Any,
    work: Any,
    back: Any,
    restarts: Any,
    counts: Any,
    out: Any,
) -> None:
    """Write the log probability of each sequence that is numbered, and add up how often what is used.

    The first of `counts`, those of links, have a lane for each of eight sequences, and are still to be multiplied
    by the links, but for those of state 0. `restarts` holds a message per block of the longest sequence.
    """
    messages, widest = work[0], shape[2]
    block = len(work[2]) - 1
    for group in range((len(numbers) + WIDTH - 1) // WIDTH):
        longest = _prepare(starts, numbers, group, weights, lanes)
        blocks = (longest + block - 1) // block
        for b in range(blocks):
            if b > 0:
                _copy(messages, block * widest, messages, 0, widest)
                _copy(messages, 0, restarts, b * widest, widest)
            _forward(symbols, lanes, emissions, links, shape, (b * block, min((b + 1) * block, longest)), work)
        for lane in range(min(WIDTH, len(numbers) - group * WIDTH)):
            out[numbers[group * WIDTH + lane]] = lanes[3][lane]
        for z in range(widest):
            for lane in range(WIDTH):
                back[0][WIDTH * z + lane] = back[1][WIDTH * z + lane] = 1.0
        for b in range(blocks - 1, -1, -1):
            span = (b * block, min((b + 1) * block, longest))
            if b < blocks - 1:
                _copy(restarts, b * widest, messages, 0, widest)
                _forward(symbols, lanes, emissions, links, shape, span, work)
            _count(symbols, lanes, emissions, links, shape, span, work, back, counts)


@compiled
def expected_pieces(
    symbols: Any,
    bounds: Any,
    weight: float,
    before: Any,
    after: Any,
    emissions: Any,
    links: Any,
    states: int,
    lanes: Any,
    work: Any,
    back: Any,
    counts: Any,
) -> None:
    """Add up how often what is used in pieces of one sequence, under a chain of order 1.

    Piece p has the steps from `bounds[p]` to `bounds[p + 1]`, and these fit into a block. `before` and `after` have
    a line for each: the message that comes to it from either side, but for a factor. At the end the first lane of
    what is ahead is that of the step before the first piece.
    """
    firsts, lasts, shares, _, _ = lanes
    pieces, shape = len(before), (states, 1, states)
    for group in range((pieces - 1) // WIDTH, -1, -1):
        longest = 0
        for lane in range(WIDTH):
            piece = min(group * WIDTH + lane, pieces - 1)
            # As if one step had been before: that makes its first a step like all others.
            firsts[lane] = bounds[piece] - 1
            lasts[lane] = bounds[piece + 1] - bounds[piece]
            shares[lane] = weight if group * WIDTH + lane < pieces else 0.0
            longest = max(longest, lasts[lane])
            for z in range(states):
                work[0][WIDTH * z + lane] = before[piece, z]
                back[0][WIDTH * z + lane] = back[1][WIDTH * z + lane] = after[piece, z]
        span = (1, 1 + longest)
        _forward(symbols, lanes, emissions, links, shape, span, work)
        _count(symbols, lanes, emissions, links, shape, span, work, back, counts)
