"""A step of eight sequences together, under one hidden chain: the products that `forward_backward` is made of.

Line z of a message holds eight numbers, one of each sequence, in two registers. Messages stand in a plain list, so
that a place in them is a multiple of eight: to multiply by a width that is not known would take longer than the
products themselves.

Nothing here is for calls from Python: see `compiling`.
"""

from __future__ import annotations

from typing import Any

from eigentree.core.compiling import inlined
from eigentree.core.vectors import (
    LANES,
    add_product,
    load_from,
    nothing,
    product,
    spread,
    store_at,
    sum_of,
    transposed,
)

__all__ = [
    "WIDTH",
    "add_counts",
    "add_lanes",
    "add_links",
    "expect_states",
    "link_sizes",
    "look_up",
    "show_ahead",
    "step_back",
    "step_on",
]

WIDTH = 2 * LANES
"""Sequences that are computed together."""


@inlined
def link_sizes(t: int, states: int, order: int) -> tuple[int, int, int]:
    """Return where a step's link begins, how many states the step drops, and how many lines it keeps."""
    offset, rest = 0, 1
    for _ in range(min(t, order)):
        offset += rest * states
        rest *= states
    if t >= order:
        return offset, states, rest // states
    return offset, 1, rest


@inlined
def look_up(emissions: Any, rows: Any, padded: int, shown: Any) -> None:
    """Write the lines of eight symbols, one beside the other."""
    for first in range(0, padded, LANES):
        for lane in range(0, WIDTH, LANES):
            a, b, c, d = transposed(
                load_from(emissions, rows[lane] + first),
                load_from(emissions, rows[lane + 1] + first),
                load_from(emissions, rows[lane + 2] + first),
                load_from(emissions, rows[lane + 3] + first),
            )
            here = WIDTH * first + lane
            store_at(shown, here, a)
            store_at(shown, here + WIDTH, b)
            store_at(shown, here + 2 * WIDTH, c)
            store_at(shown, here + 3 * WIDTH, d)


@inlined
def _add(counts: Any, place: int, more: Any) -> None:
    store_at(counts, place, sum_of(load_from(counts, place), more))


@inlined
def add_counts(counts: Any, rows: Any, apart: int, padded: int, used: Any) -> None:
    """Add what stands beside each other to the lines of eight symbols; those of each lane may be its own."""
    for first in range(0, padded, LANES):
        for lane in range(0, WIDTH, LANES):
            here = WIDTH * first + lane
            a, b, c, d = transposed(
                load_from(used, here),
                load_from(used, here + WIDTH),
                load_from(used, here + 2 * WIDTH),
                load_from(used, here + 3 * WIDTH),
            )
            own = lane * apart + first
            _add(counts, rows[lane] + own, a)
            _add(counts, rows[lane + 1] + own + apart, b)
            _add(counts, rows[lane + 2] + own + 2 * apart, c)
            _add(counts, rows[lane + 3] + own + 3 * apart, d)


@inlined
def step_on(messages: Any, before: int, after: int, links: Any, sizes: Any, shown: Any) -> None:
    """Write the message of a step: that of the step before, times the link, times what is shown."""
    offset, dropped, rest, states = sizes
    whole = states - states % 4
    for r in range(rest):
        for j in range(0, whole, 4):
            a, b, c, d = nothing(), nothing(), nothing(), nothing()
            e, f, g, h = nothing(), nothing(), nothing(), nothing()
            for old in range(dropped):
                z = old * rest + r
                link = offset + z * states + j
                low, high = (
                    load_from(messages, WIDTH * (before + z)),
                    load_from(messages, WIDTH * (before + z) + LANES),
                )
                first, second = spread(links, link), spread(links, link + 1)
                a, e = add_product(a, low, first), add_product(e, high, first)
                b, f = add_product(b, low, second), add_product(f, high, second)
                third, fourth = spread(links, link + 2), spread(links, link + 3)
                c, g = add_product(c, low, third), add_product(g, high, third)
                d, h = add_product(d, low, fourth), add_product(h, high, fourth)
            out = after + r * states + j
            store_at(messages, WIDTH * out, product(a, load_from(shown, WIDTH * j)))
            store_at(messages, WIDTH * out + LANES, product(e, load_from(shown, WIDTH * j + LANES)))
            store_at(messages, WIDTH * (out + 1), product(b, load_from(shown, WIDTH * (j + 1))))
            store_at(messages, WIDTH * (out + 1) + LANES, product(f, load_from(shown, WIDTH * (j + 1) + LANES)))
            store_at(messages, WIDTH * (out + 2), product(c, load_from(shown, WIDTH * (j + 2))))
            store_at(messages, WIDTH * (out + 2) + LANES, product(g, load_from(shown, WIDTH * (j + 2) + LANES)))
            store_at(messages, WIDTH * (out + 3), product(d, load_from(shown, WIDTH * (j + 3))))
            store_at(messages, WIDTH * (out + 3) + LANES, product(h, load_from(shown, WIDTH * (j + 3) + LANES)))
        for j in range(whole, states):
            a, e = nothing(), nothing()
            for old in range(dropped):
                z = old * rest + r
                first = spread(links, offset + z * states + j)
                a = add_product(a, load_from(messages, WIDTH * (before + z)), first)
                e = add_product(e, load_from(messages, WIDTH * (before + z) + LANES), first)
            out = after + r * states + j
            store_at(messages, WIDTH * out, product(a, load_from(shown, WIDTH * j)))
            store_at(messages, WIDTH * out + LANES, product(e, load_from(shown, WIDTH * j + LANES)))


@inlined
def expect_states(messages: Any, here: int, lines: int, states: int, ahead: Any, scales: Any, used: Any) -> None:
    """Write how often each state of a step is expected."""
    low_scale, high_scale = load_from(scales, 0), load_from(scales, LANES)
    for j in range(states):
        low, high = nothing(), nothing()
        for r in range(lines):
            z = r * states + j
            low = add_product(low, load_from(messages, WIDTH * (here + z)), load_from(ahead, WIDTH * z))
            high = add_product(
                high, load_from(messages, WIDTH * (here + z) + LANES), load_from(ahead, WIDTH * z + LANES)
            )
        store_at(used, WIDTH * j, product(low, low_scale))
        store_at(used, WIDTH * j + LANES, product(high, high_scale))


@inlined
def show_ahead(shown: Any, ahead: Any, scales: Any, rest: int, states: int, shown_ahead: Any, used_at: int) -> None:
    """Write what is shown times what is ahead, as it is and, from a line on, scaled."""
    low_scale, high_scale = load_from(scales, 0), load_from(scales, LANES)
    for r in range(rest):
        for j in range(states):
            z = r * states + j
            low = product(load_from(shown, WIDTH * j), load_from(ahead, WIDTH * z))
            high = product(load_from(shown, WIDTH * j + LANES), load_from(ahead, WIDTH * z + LANES))
            store_at(shown_ahead, WIDTH * z, low)
            store_at(shown_ahead, WIDTH * z + LANES, high)
            store_at(shown_ahead, WIDTH * (used_at + z), product(low, low_scale))
            store_at(shown_ahead, WIDTH * (used_at + z) + LANES, product(high, high_scale))


@inlined
def step_back(links: Any, sizes: Any, shown_ahead: Any, ahead: Any) -> None:
    """Write what is ahead of the step before."""
    offset, dropped, rest, states = sizes
    whole, apart = dropped - dropped % 4, rest * states
    for r in range(rest):
        for old in range(0, whole, 4):
            a, b, c, d = nothing(), nothing(), nothing(), nothing()
            e, f, g, h = nothing(), nothing(), nothing(), nothing()
            z = old * rest + r
            for j in range(states):
                link = offset + z * states + j
                low, high = (
                    load_from(shown_ahead, WIDTH * (r * states + j)),
                    load_from(shown_ahead, WIDTH * (r * states + j) + LANES),
                )
                first, second = spread(links, link), spread(links, link + apart)
                a, e = add_product(a, low, first), add_product(e, high, first)
                b, f = add_product(b, low, second), add_product(f, high, second)
                third, fourth = spread(links, link + 2 * apart), spread(links, link + 3 * apart)
                c, g = add_product(c, low, third), add_product(g, high, third)
                d, h = add_product(d, low, fourth), add_product(h, high, fourth)
            store_at(ahead, WIDTH * z, a)
            store_at(ahead, WIDTH * z + LANES, e)
            store_at(ahead, WIDTH * (z + rest), b)
            store_at(ahead, WIDTH * (z + rest) + LANES, f)
            store_at(ahead, WIDTH * (z + 2 * rest), c)
            store_at(ahead, WIDTH * (z + 2 * rest) + LANES, g)
            store_at(ahead, WIDTH * (z + 3 * rest), d)
            store_at(ahead, WIDTH * (z + 3 * rest) + LANES, h)
        for old in range(whole, dropped):
            a, e = nothing(), nothing()
            z = old * rest + r
            for j in range(states):
                first = spread(links, offset + z * states + j)
                a = add_product(a, load_from(shown_ahead, WIDTH * (r * states + j)), first)
                e = add_product(e, load_from(shown_ahead, WIDTH * (r * states + j) + LANES), first)
            store_at(ahead, WIDTH * z, a)
            store_at(ahead, WIDTH * z + LANES, e)


@inlined
def add_lanes(counts: Any, line: int, low: Any, high: Any) -> None:
    """Add both registers of a line."""
    _add(counts, WIDTH * line, low)
    _add(counts, WIDTH * line + LANES, high)


@inlined
def add_links(
    messages: Any, before: int, shown_ahead: Any, widest: int, steps: int, sizes: Any, counts: Any
) -> None:
    """Add how often a link is expected to be used in a stretch of steps, backward: the last is first."""
    offset, dropped, rest, states = sizes
    for r in range(rest):
        for old in range(0, dropped, 2):
            # Without a second, the first is its own.
            further = min(old + 1, dropped - 1)
            for j in range(0, states, 2):
                other = min(j + 1, states - 1)
                a, b, c, d = nothing(), nothing(), nothing(), nothing()
                e, f, g, h = nothing(), nothing(), nothing(), nothing()
                for step in range(steps):
                    past = before - step * widest + r
                    later = (step + 1) * widest + r * states
                    low = load_from(messages, WIDTH * (past + old * rest))
                    high = load_from(messages, WIDTH * (past + old * rest) + LANES)
                    one, two = (
                        load_from(shown_ahead, WIDTH * (later + j)),
                        load_from(shown_ahead, WIDTH * (later + j) + LANES),
                    )
                    three, four = (
                        load_from(shown_ahead, WIDTH * (later + other)),
                        load_from(shown_ahead, WIDTH * (later + other) + LANES),
                    )
                    a, e = add_product(a, low, one), add_product(e, high, two)
                    b, f = add_product(b, low, three), add_product(f, high, four)
                    low = load_from(messages, WIDTH * (past + further * rest))
                    high = load_from(messages, WIDTH * (past + further * rest) + LANES)
                    c, g = add_product(c, low, one), add_product(g, high, two)
                    d, h = add_product(d, low, three), add_product(h, high, four)
                first = offset + (old * rest + r) * states
                second = offset + (further * rest + r) * states
                add_lanes(counts, first + j, a, e)
                if other > j:
                    add_lanes(counts, first + other, b, f)
                if further > old:
                    add_lanes(counts, second + j, c, g)
                    if other > j:
                        add_lanes(counts, second + other, d, h)
