"""Sequences under one hidden chain: probabilities, and how often each table entry is expected to be used.

Eight sequences of about the same length walk side by side, each in a lane of the vectors, so that a step is a
product of a small matrix with eight messages. Nothing is padded in memory; a lane whose sequence has ended goes on
with the symbol that tells nothing, and counts nothing. Of a long sequence only a block of messages is kept, and one
message per block to start it again from: memory does not grow with the steps.

A link is a table of a hidden state given the earlier ones: of state 0, of state 1 given state 0, …, and last the
one that is used at all further steps, given as many as the order. All stand in one list, the state itself last.
What a step shows is one symbol, however many channels it has; the line of a symbol holds its probability in each
state.
"""

from __future__ import annotations

import math
from typing import Any

from eigentree.kernels.compiling import compiled, helper, inlined
from eigentree.kernels.vectors import LANES, add_product, load, nothing, product, spread, store, sum_of, transposed

__all__ = ["WIDTH", "expected_sequences", "log_prob_sequences"]

WIDTH = 2 * LANES
"""Sequences that walk side by side."""

TINY = 2.0**-100
"""Messages that add up to less are multiplied by a power of two."""


@inlined
def _sizes(t: int, states: int, order: int) -> tuple[int, int, int]:
    """Return where a step's link begins, how many states the step drops, and how many lines it keeps."""
    offset, rest = 0, 1
    for _ in range(min(t, order)):
        offset += rest * states
        rest *= states
    if t >= order:
        return offset, states, rest // states
    return offset, 1, rest


@inlined
def _take_symbols(symbols: Any, firsts: Any, lasts: Any, t: int, nothing_shown: int, rows: Any) -> None:
    for lane in range(WIDTH):
        rows[lane] = symbols[firsts[lane] + t] if t <= lasts[lane] else nothing_shown


@inlined
def _look_up(emissions: Any, rows: Any, shown: Any) -> None:
    """Write the lines of eight symbols, one beside the other."""
    for first in range(0, emissions.shape[1], LANES):
        for lane in range(0, WIDTH, LANES):
            a, b, c, d = transposed(
                load(emissions, rows[lane], first),
                load(emissions, rows[lane + 1], first),
                load(emissions, rows[lane + 2], first),
                load(emissions, rows[lane + 3], first),
            )
            store(shown, first, lane, a)
            store(shown, first + 1, lane, b)
            store(shown, first + 2, lane, c)
            store(shown, first + 3, lane, d)


@inlined
def _add_counts(counts: Any, rows: Any, used: Any) -> None:
    """Add what stands beside each other to the lines of eight symbols."""
    for first in range(0, counts.shape[1], LANES):
        for lane in range(0, WIDTH, LANES):
            a, b, c, d = transposed(
                load(used, first, lane),
                load(used, first + 1, lane),
                load(used, first + 2, lane),
                load(used, first + 3, lane),
            )
            store(counts, rows[lane], first, sum_of(load(counts, rows[lane], first), a))
            store(counts, rows[lane + 1], first, sum_of(load(counts, rows[lane + 1], first), b))
            store(counts, rows[lane + 2], first, sum_of(load(counts, rows[lane + 2], first), c))
            store(counts, rows[lane + 3], first, sum_of(load(counts, rows[lane + 3], first), d))


@inlined
def _forward(
    messages: Any,
    before: int,
    after: int,
    links: Any,
    offset: int,
    dropped: int,
    rest: int,
    states: int,
    shown: Any,
) -> None:
    """Write the message of a step: that of the step before, times the link, times what is shown."""
    for r in range(rest):
        for j in range(states):
            low, high = nothing(), nothing()
            for d in range(dropped):
                z = d * rest + r
                link = spread(links, offset + z * states + j)
                low = add_product(low, load(messages, before + z, 0), link)
                high = add_product(high, load(messages, before + z, LANES), link)
            out = after + r * states + j
            store(messages, out, 0, product(low, load(shown, j, 0)))
            store(messages, out, LANES, product(high, load(shown, j, LANES)))


@inlined
def _totals(messages: Any, first: int, count: int, totals: Any) -> None:
    low, high = nothing(), nothing()
    for z in range(first, first + count):
        low = sum_of(low, load(messages, z, 0))
        high = sum_of(high, load(messages, z, LANES))
    store(totals, 0, 0, low)
    store(totals, 0, LANES, high)


@helper
def _scale(messages: Any, first: int, count: int, lane: int, total: float) -> int:
    """Multiply a lane by the power of two that takes its total to 1/2 … 1; return the exponent."""
    _, exponent = math.frexp(total)
    factor = math.ldexp(1.0, -exponent)
    for z in range(first, first + count):
        messages[z, lane] *= factor
    return exponent


@helper
def _walk(
    symbols: Any, firsts: Any, lasts: Any, emissions: Any, links: Any, shape: Any, span: Any, work: Any, ends: Any
) -> None:
    """Write the messages of the steps of a block, given that of the step before it."""
    states, order, widest = shape
    start, stop = span
    messages, factors, shown, rows, totals = work
    logs, exponents = ends
    for t in range(start, stop):
        place = t - start + 1
        after = place * widest
        _take_symbols(symbols, firsts, lasts, t, emissions.shape[0] - 1, rows)
        _look_up(emissions, rows, shown)
        offset, dropped, rest = _sizes(t, states, order)
        size = rest * states if t > 0 else states
        if t == 0:
            for j in range(states):
                link = spread(links, j)
                store(messages, after + j, 0, product(link, load(shown, j, 0)))
                store(messages, after + j, LANES, product(link, load(shown, j, LANES)))
        else:
            _forward(messages, after - widest, after, links, offset, dropped, rest, states, shown)
        _totals(messages, after, size, totals)
        for lane in range(WIDTH):
            total = totals[0, lane]
            if t == lasts[lane]:
                logs[lane] = math.log(total) + exponents[lane] * math.log(2.0) if total > 0.0 else -math.inf
            factors[place, lane] = 1.0
            if 0.0 < total < TINY:
                exponent = _scale(messages, after, size, lane, total)
                factors[place, lane] = math.ldexp(1.0, -exponent)
                exponents[lane] += exponent


@inlined
def _prepare(
    starts: Any,
    numbers: Any,
    group: int,
    weights: Any,
    firsts: Any,
    lasts: Any,
    shares: Any,
    logs: Any,
    exponents: Any,
) -> int:
    """Take the next eight sequences; return the length of the longest."""
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


@compiled
def log_prob_sequences(
    symbols: Any,
    starts: Any,
    numbers: Any,
    weights: Any,
    emissions: Any,
    links: Any,
    shape: Any,
    space: Any,
    out: Any,
) -> None:
    """Write the log probability of each sequence that is numbered.

    `shape` is the number of states, the order, and the size of a full message; `space` are the arrays of
    `em.sequence_space`.
    """
    messages, factors, shown, rows, totals, firsts, lasts, shares, logs, exponents = space
    _, _, widest = shape
    block = len(factors) - 1
    for group in range((len(numbers) + WIDTH - 1) // WIDTH):
        longest = _prepare(starts, numbers, group, weights, firsts, lasts, shares, logs, exponents)
        for start in range(0, longest, block):
            stop = min(start + block, longest)
            _walk(
                symbols,
                firsts,
                lasts,
                emissions,
                links,
                shape,
                (start, stop),
                (messages, factors, shown, rows, totals),
                (logs, exponents),
            )
            for z in range(widest):
                for lane in range(WIDTH):
                    messages[z, lane] = messages[(stop - start) * widest + z, lane]
        for lane in range(min(WIDTH, len(numbers) - group * WIDTH)):
            out[numbers[group * WIDTH + lane]] = logs[lane]


@inlined
def _use(
    messages: Any, here: int, size: int, states: int, ahead: Any, known: Any, totals: Any, scales: Any, used: Any
) -> None:
    """Write how often each state of a step is expected, and what messages are to be multiplied by for that."""
    low, high = nothing(), nothing()
    for z in range(size):
        low = add_product(low, load(messages, here + z, 0), load(ahead, z, 0))
        high = add_product(high, load(messages, here + z, LANES), load(ahead, z, LANES))
    store(totals, 0, 0, low)
    store(totals, 0, LANES, high)
    for lane in range(WIDTH):
        scales[0, lane] = known[lane] / totals[0, lane] if totals[0, lane] > 0.0 else 0.0
    for j in range(states):
        low, high = nothing(), nothing()
        for z in range(j, size, states):
            low = add_product(low, load(messages, here + z, 0), load(ahead, z, 0))
            high = add_product(high, load(messages, here + z, LANES), load(ahead, z, LANES))
        store(used, j, 0, product(low, load(scales, 0, 0)))
        store(used, j, LANES, product(high, load(scales, 0, LANES)))


@inlined
def _show_ahead(
    shown: Any, ahead: Any, scales: Any, rest: int, states: int, shown_ahead: Any, scaled_ahead: Any
) -> None:
    """Write what is shown times what is ahead, as it is and scaled."""
    for r in range(rest):
        for j in range(states):
            z = r * states + j
            low = product(load(shown, j, 0), load(ahead, z, 0))
            high = product(load(shown, j, LANES), load(ahead, z, LANES))
            store(shown_ahead, z, 0, low)
            store(shown_ahead, z, LANES, high)
            store(scaled_ahead, z, 0, product(low, load(scales, 1, 0)))
            store(scaled_ahead, z, LANES, product(high, load(scales, 1, LANES)))


@inlined
def _go_back(
    messages: Any, before: int, links: Any, sizes: Any, shown_ahead: Any, scaled_ahead: Any, ahead: Any, counts: Any
) -> None:
    """Write what is ahead of the step before, and add how often the link between is expected to be used."""
    offset, dropped, rest, states = sizes
    for d in range(dropped):
        for r in range(rest):
            z = d * rest + r
            past_low, past_high = load(messages, before + z, 0), load(messages, before + z, LANES)
            low, high = nothing(), nothing()
            for j in range(states):
                link, line = offset + z * states + j, r * states + j
                value = spread(links, link)
                low = add_product(low, load(shown_ahead, line, 0), value)
                high = add_product(high, load(shown_ahead, line, LANES), value)
                own = add_product(load(counts, link, 0), past_low, load(scaled_ahead, line, 0))
                store(counts, link, 0, own)
                own = add_product(load(counts, link, LANES), past_high, load(scaled_ahead, line, LANES))
                store(counts, link, LANES, own)
            store(ahead, z, 0, low)
            store(ahead, z, LANES, high)


@helper
def _count(
    symbols: Any,
    lanes: Any,
    emissions: Any,
    links: Any,
    shape: Any,
    span: Any,
    work: Any,
    backward: Any,
    link_counts: Any,
    symbol_counts: Any,
) -> None:
    """Walk back through a block, and add how often links and symbols are expected to be used."""
    states, order, widest = shape
    start, stop = span
    firsts, lasts, shares = lanes
    messages, factors, shown, rows, totals = work
    ahead, shown_ahead, scaled_ahead, used, scales, known = backward
    for t in range(stop - 1, start - 1, -1):
        here = (t - start + 1) * widest
        _take_symbols(symbols, firsts, lasts, t, emissions.shape[0] - 1, rows)
        _look_up(emissions, rows, shown)
        for lane in range(WIDTH):
            known[lane] = shares[lane] if t <= lasts[lane] else 0.0
            if t == lasts[lane]:
                for z in range(widest):
                    ahead[z, lane] = 1.0
        offset, dropped, rest = _sizes(t, states, order)
        size = rest * states if t > 0 else states
        _use(messages, here, size, states, ahead, known, totals, scales, used)
        _add_counts(symbol_counts, rows, used)
        if t == 0:
            for j in range(states):
                store(link_counts, j, 0, sum_of(load(link_counts, j, 0), load(used, j, 0)))
                store(link_counts, j, LANES, sum_of(load(link_counts, j, LANES), load(used, j, LANES)))
            continue
        for lane in range(WIDTH):
            scales[1, lane] = scales[0, lane] * factors[t - start + 1, lane]
        _show_ahead(shown, ahead, scales, rest, states, shown_ahead, scaled_ahead)
        sizes = (offset, dropped, rest, states)
        _go_back(messages, here - widest, links, sizes, shown_ahead, scaled_ahead, ahead, link_counts)
        _totals(ahead, 0, dropped * rest, totals)
        for lane in range(WIDTH):
            if 0.0 < totals[0, lane] < TINY:
                _scale(ahead, 0, dropped * rest, lane, totals[0, lane])


@compiled
def expected_sequences(
    symbols: Any,
    starts: Any,
    numbers: Any,
    weights: Any,
    emissions: Any,
    links: Any,
    shape: Any,
    space: Any,
    backward: Any,
    restarts: Any,
    link_counts: Any,
    symbol_counts: Any,
    out: Any,
) -> None:
    """Write the log probability of each sequence that is numbered, and add up how often what is used.

    `link_counts` has a lane for each of eight sequences, and is still to be multiplied by the links, but for those
    of state 0. `restarts` holds a message per block of the longest sequence.
    """
    messages, factors, shown, rows, totals, firsts, lasts, shares, logs, exponents = space
    _, _, widest = shape
    block = len(factors) - 1
    work = (messages, factors, shown, rows, totals)
    for group in range((len(numbers) + WIDTH - 1) // WIDTH):
        longest = _prepare(starts, numbers, group, weights, firsts, lasts, shares, logs, exponents)
        blocks = (longest + block - 1) // block
        for b in range(blocks):
            stop = min((b + 1) * block, longest)
            for z in range(widest * (b > 0)):
                for lane in range(WIDTH):
                    messages[z, lane] = messages[block * widest + z, lane]
                    restarts[b * widest + z, lane] = messages[z, lane]
            span = (b * block, stop)
            _walk(symbols, firsts, lasts, emissions, links, shape, span, work, (logs, exponents))
        for lane in range(min(WIDTH, len(numbers) - group * WIDTH)):
            out[numbers[group * WIDTH + lane]] = logs[lane]
        for z in range(widest):
            for lane in range(WIDTH):
                backward[0][z, lane] = 1.0
        for b in range(blocks - 1, -1, -1):
            span = (b * block, min((b + 1) * block, longest))
            if b < blocks - 1:
                for z in range(widest):
                    for lane in range(WIDTH):
                        messages[z, lane] = restarts[b * widest + z, lane]
                _walk(symbols, firsts, lasts, emissions, links, shape, span, work, (logs, exponents))
            lanes = (firsts, lasts, shares)
            _count(
                symbols,
                lanes,
                emissions,
                links,
                shape,
                span,
                work,
                backward,
                link_counts,
                symbol_counts,
            )
