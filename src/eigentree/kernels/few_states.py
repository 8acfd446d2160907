"""The loops of `long_sequences` where there are at most four states, of order 1: all tables stay in registers.

Nothing here is for calls from Python: see `compiling`.
"""

from __future__ import annotations

import math
from typing import Any

from eigentree.kernels.compiling import helper
from eigentree.kernels.vectors import add_product, load, nothing, product, spread, store, sum_of, transposed

__all__ = ["count_few", "walk_few"]

TINY = 2.0**-100
"""Messages that add up to less are multiplied by a power of two."""


@helper
def walk_few(
    symbols: Any, start: int, stop: int, begin: int, emissions: Any, links: Any, work: Any
) -> tuple[float, float]:
    """Write the messages of a block; return what the last adds up to, and how often messages were halved."""
    messages, flat, factors = work
    stride = messages.shape[1]
    row, second, third, fourth = load(links, 1, 0), load(links, 2, 0), load(links, 3, 0), load(links, 4, 0)
    total, exponents = 0.0, 0.0
    for t in range(start, stop):
        place = t - start + 1
        shown = load(emissions, symbols[begin + t], 0)
        if t == 0:
            message = product(load(links, 0, 0), shown)
        else:
            before = (place - 1) * stride
            even = add_product(product(spread(flat, before), row), spread(flat, before + 1), second)
            odd = add_product(product(spread(flat, before + 2), third), spread(flat, before + 3), fourth)
            message = product(sum_of(even, odd), shown)
        store(messages, place, 0, message)
        here = place * stride
        total = (flat[here] + flat[here + 1]) + (flat[here + 2] + flat[here + 3])
        factors[place] = 1.0
        if 0.0 < total < TINY:
            _, exponent = math.frexp(total)
            factors[place] = math.ldexp(1.0, -exponent)
            exponents += exponent
            total *= factors[place]
            for z in range(here, here + 4):
                flat[z] *= factors[place]
    return total, exponents


@helper
def count_few(
    symbols: Any,
    start: int,
    stop: int,
    begin: int,
    weight: float,
    emissions: Any,
    links: Any,
    work: Any,
    backward: Any,
    link_counts: Any,
    symbol_counts: Any,
) -> None:
    """Walk back through a block, and add how often links and symbols are expected to be used."""
    messages, flat, factors = work
    ahead, _, few, scales = backward
    stride = messages.shape[1]
    row, second, third, fourth = load(links, 1, 0), load(links, 2, 0), load(links, 3, 0), load(links, 4, 0)
    used, used_second, used_third, used_fourth = nothing(), nothing(), nothing(), nothing()
    future = load(ahead, 0, 0)
    for t in range(stop - 1, start - 1, -1):
        place = t - start + 1
        symbol = symbols[begin + t]
        own = product(load(messages, place, 0), future)
        store(few, 0, 0, own)
        total = (few[0, 0] + few[0, 1]) + (few[0, 2] + few[0, 3])
        scales[0] = weight / total if total > 0.0 else 0.0
        scales[1] = scales[0] * factors[place]
        own = product(own, spread(scales, 0))
        store(symbol_counts, symbol, 0, sum_of(load(symbol_counts, symbol, 0), own))
        if t == 0:
            store(link_counts, 0, 0, sum_of(load(link_counts, 0, 0), own))
            continue
        shown = product(load(emissions, symbol, 0), future)
        scaled = product(shown, spread(scales, 1))
        before = (place - 1) * stride
        used = add_product(used, spread(flat, before), scaled)
        used_second = add_product(used_second, spread(flat, before + 1), scaled)
        used_third = add_product(used_third, spread(flat, before + 2), scaled)
        used_fourth = add_product(used_fourth, spread(flat, before + 3), scaled)
        a, b, c, d = transposed(
            product(row, shown), product(second, shown), product(third, shown), product(fourth, shown)
        )
        future = sum_of(sum_of(a, b), sum_of(c, d))
        store(ahead, 0, 0, future)
        total = (ahead[0, 0] + ahead[0, 1]) + (ahead[0, 2] + ahead[0, 3])
        if 0.0 < total < TINY:
            _, exponent = math.frexp(total)
            for z in range(4):
                ahead[0, z] *= math.ldexp(1.0, -exponent)
            future = load(ahead, 0, 0)
    store(link_counts, 1, 0, sum_of(load(link_counts, 1, 0), used))
    store(link_counts, 2, 0, sum_of(load(link_counts, 2, 0), used_second))
    store(link_counts, 3, 0, sum_of(load(link_counts, 3, 0), used_third))
    store(link_counts, 4, 0, sum_of(load(link_counts, 4, 0), used_fourth))
