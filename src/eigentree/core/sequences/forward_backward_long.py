"""Single sequences under one hidden chain that have no others of their length to walk side by side with.

As `sequences`, but a vector holds states of one message and not one state of several. A message stands without
gaps, and is written line by line, each a few numbers too long: the next line overwrites what is too much.
"""

from __future__ import annotations

import math
from typing import Any

from eigentree.core.compiling import compiled, helper, inlined
from eigentree.core.sequences.transition_index import link_sizes
from eigentree.core.vectors import LANES, add_product, load, nothing, product, spread, store, sum_of, transposed

__all__ = ["expected_alone", "log_prob_alone"]

TINY = 2.0**-100
"""Messages that add up to less are multiplied by a power of two."""


@helper
def _walk_alone(
    symbols: Any, start: int, stop: int, begin: int, emissions: Any, links: Any, shape: Any, work: Any
) -> tuple[float, float]:
    """Write the messages of the steps of a block, given that of the step before it.

    Returns
    -------
    total : float
        What the last message adds up to.
    exponent : float
        How often messages were halved.
    """
    states, order, _ = shape
    messages, flat, factors = work
    padded, stride = emissions.shape[1], messages.shape[1]
    total, exponents = 0.0, 0.0
    for t in range(start, stop):
        place = t - start + 1
        symbol = symbols[begin + t]
        size = states
        if t == 0:
            for v in range(0, padded, LANES):
                store(messages, place, v, product(load(links, 0, v), load(emissions, symbol, v)))
        else:
            offset, dropped, rest = link_sizes(t, states, order)
            first = offset // states
            before = (place - 1) * stride
            size = rest * states
            for r in range(rest):
                for v in range(0, padded, LANES):
                    even, odd = nothing(), nothing()
                    for d in range(0, dropped - 1, 2):
                        z = d * rest + r
                        even = add_product(even, spread(flat, before + z), load(links, first + z, v))
                        z += rest
                        odd = add_product(odd, spread(flat, before + z), load(links, first + z, v))
                    if dropped % 2:
                        z = (dropped - 1) * rest + r
                        even = add_product(even, spread(flat, before + z), load(links, first + z, v))
                    store(messages, place, r * states + v, product(sum_of(even, odd), load(emissions, symbol, v)))
        total = 0.0
        for z in range(place * stride, place * stride + size):
            total += flat[z]
        factors[place] = 1.0
        if 0.0 < total < TINY:
            _, exponent = math.frexp(total)
            factors[place] = math.ldexp(1.0, -exponent)
            exponents += exponent
            total *= factors[place]
            for z in range(place * stride, place * stride + size):
                flat[z] *= factors[place]
    return total, exponents


@inlined
def _product_sum(messages: Any, place: int, ahead: Any, count: int, few: Any) -> float:
    low = nothing()
    for z in range(0, count, LANES):
        low = add_product(low, load(messages, place, z), load(ahead, 0, z))
    store(few, 0, 0, low)
    total: float = (few[0, 0] + few[0, 1]) + (few[0, 2] + few[0, 3])
    return total


@helper
def _count_alone(
    symbols: Any,
    start: int,
    stop: int,
    begin: int,
    weight: float,
    emissions: Any,
    links: Any,
    shape: Any,
    work: Any,
    backward: Any,
    link_counts: Any,
    symbol_counts: Any,
) -> None:
    """Walk back through a block, and add how often links and symbols are expected to be used."""
    states, order, _ = shape
    messages, flat, factors = work
    ahead, shown_ahead, few, scales = backward
    padded = emissions.shape[1]
    for t in range(stop - 1, start - 1, -1):
        place = t - start + 1
        symbol = symbols[begin + t]
        offset, dropped, rest = link_sizes(t, states, order)
        first = offset // states
        lines = rest if t > 0 else 1
        total = _product_sum(messages, place, ahead, lines * states, few)
        scales[0] = weight / total if total > 0.0 else 0.0
        scales[1] = scales[0] * factors[place]
        for v in range(0, padded, LANES):
            own = nothing()
            for r in range(lines):
                own = add_product(own, load(messages, place, r * states + v), load(ahead, 0, r * states + v))
            own = product(own, spread(scales, 0))
            store(symbol_counts, symbol, v, sum_of(load(symbol_counts, symbol, v), own))
            if t == 0:
                store(link_counts, 0, v, sum_of(load(link_counts, 0, v), own))
        if t == 0:
            continue
        for r in range(rest):
            for v in range(0, padded, LANES):
                shown = product(load(emissions, symbol, v), load(ahead, 0, r * states + v))
                store(shown_ahead, 0, r * states + v, shown)
        before = (place - 1) * messages.shape[1]
        for z in range(dropped * rest):
            past = product(spread(flat, before + z), spread(scales, 1))
            line = (z % rest) * states
            for v in range(0, padded, LANES):
                own = add_product(load(link_counts, first + z, v), past, load(shown_ahead, 0, line + v))
                store(link_counts, first + z, v, own)
        _go_back(links, first, dropped * rest, rest, states, padded, ahead, shown_ahead)
        total = 0.0
        for z in range(dropped * rest):
            total += ahead[0, z]
        if 0.0 < total < TINY:
            _, exponent = math.frexp(total)
            factor = math.ldexp(1.0, -exponent)
            for z in range(dropped * rest):
                ahead[0, z] *= factor


@inlined
def _go_back(
    links: Any, first: int, count: int, rest: int, states: int, padded: int, ahead: Any, shown_ahead: Any
) -> None:
    """Write what is ahead of each state of the step before, four states at a time."""
    for z in range(0, count, LANES):
        a, b, c, d = nothing(), nothing(), nothing(), nothing()
        i, j, k, m = z % rest, (z + 1) % rest, (z + 2) % rest, (z + 3) % rest
        for v in range(0, padded, LANES):
            a = add_product(a, load(links, first + z, v), load(shown_ahead, 0, i * states + v))
            b = add_product(b, load(links, first + z + 1, v), load(shown_ahead, 0, j * states + v))
            c = add_product(c, load(links, first + z + 2, v), load(shown_ahead, 0, k * states + v))
            d = add_product(d, load(links, first + z + 3, v), load(shown_ahead, 0, m * states + v))
        a, b, c, d = transposed(a, b, c, d)
        store(ahead, 0, z, sum_of(sum_of(a, b), sum_of(c, d)))


@compiled
def log_prob_alone(
    symbols: Any, starts: Any, numbers: Any, emissions: Any, links: Any, shape: Any, work: Any, out: Any
) -> None:
    """Write the log probability of each sequence that is numbered.

    `links` stand in lines, filled up with zeros to a multiple of what a vector holds; `shape` is the number of
    states, the order, and the size of a full message.
    """
    messages, _, factors = work
    block = len(factors) - 1
    for number in numbers:
        begin, longest = starts[number], starts[number + 1] - starts[number]
        total, exponents = 0.0, 0.0
        for start in range(0, longest, block):
            stop = min(start + block, longest)
            total, exponent = _walk_alone(symbols, start, stop, begin, emissions, links, shape, work)
            exponents += exponent
            for z in range(messages.shape[1]):
                messages[0, z] = messages[stop - start, z]
        out[number] = math.log(total) + exponents * math.log(2.0) if total > 0.0 else -math.inf


@compiled
def expected_alone(
    symbols: Any,
    starts: Any,
    numbers: Any,
    weights: Any,
    emissions: Any,
    links: Any,
    shape: Any,
    work: Any,
    backward: Any,
    restarts: Any,
    link_counts: Any,
    symbol_counts: Any,
    out: Any,
) -> None:
    """Write the log probability of each sequence that is numbered, and add up how often what is used.

    `link_counts` is still to be multiplied by the links, but for the first line. What stands beyond the states, in
    either counts, means nothing. `restarts` holds a message per block of the longest sequence.
    """
    messages, _, factors = work
    block = len(factors) - 1
    for number in numbers:
        begin, longest = starts[number], starts[number + 1] - starts[number]
        blocks = (longest + block - 1) // block
        total, exponents = 0.0, 0.0
        for b in range(blocks):
            if b > 0:
                for z in range(messages.shape[1]):
                    messages[0, z] = messages[block, z]
                    restarts[b, z] = messages[0, z]
            stop = min((b + 1) * block, longest)
            total, exponent = _walk_alone(symbols, b * block, stop, begin, emissions, links, shape, work)
            exponents += exponent
        out[number] = math.log(total) + exponents * math.log(2.0) if total > 0.0 else -math.inf
        for z in range(messages.shape[1]):
            backward[0][0, z] = 1.0
        for b in range(blocks - 1, -1, -1):
            stop = min((b + 1) * block, longest)
            if b < blocks - 1:
                for z in range(messages.shape[1]):
                    messages[0, z] = restarts[b, z]
                _walk_alone(symbols, b * block, stop, begin, emissions, links, shape, work)
            first, share = b * block, weights[number]
            counts = (link_counts, symbol_counts)
            _count_alone(symbols, first, stop, begin, share, emissions, links, shape, work, backward, *counts)
