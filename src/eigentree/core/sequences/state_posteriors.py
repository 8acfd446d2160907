"""The hidden states of the steps of sequences: filtered, smoothed, most probable together, and sampled.

Links, symbols and shapes are those of `forward_backward`. One sequence at a time, because the result has a number
per step and state anyway. What is impossible leaves zeros, or states of -1.
"""

from __future__ import annotations

import math
from typing import Any

from eigentree.core.compiling import compiled, helper
from eigentree.core.sequences.forward_backward_lanes import link_sizes

__all__ = ["decode_steps", "filter_steps", "sample_given_steps", "sample_steps", "smooth_steps"]


@helper
def _forward(symbols: Any, begin: int, count: int, emissions: Any, links: Any, shape: Any, messages: Any) -> bool:
    """Write the distribution of the hidden states of each step, given all steps up to it; return if possible."""
    states, order, _ = shape
    for t in range(count):
        symbol = symbols[begin + t]
        offset, dropped, rest = link_sizes(t, states, order)
        total = 0.0
        for r in range(rest if t > 0 else 1):
            for j in range(states):
                value = 0.0
                if t == 0:
                    value = links[j]
                else:
                    for d in range(dropped):
                        z = d * rest + r
                        value += messages[t - 1, z] * links[offset + z * states + j]
                value *= emissions[symbol, j]
                messages[t, r * states + j] = value
                total += value
        if not total > 0.0:
            return False
        for z in range((rest if t > 0 else 1) * states):
            messages[t, z] /= total
    return True


@compiled
def filter_steps(
    symbols: Any, starts: Any, emissions: Any, links: Any, shape: Any, messages: Any, out: Any, ends: Any
) -> None:
    """Write P(state of a step | steps up to it), and the full message at the end of each sequence."""
    states, order, _ = shape
    for number in range(len(starts) - 1):
        begin, count = starts[number], starts[number + 1] - starts[number]
        if count == 0 or not _forward(symbols, begin, count, emissions, links, shape, messages):
            continue
        for t in range(count):
            _, _, rest = link_sizes(t, states, order)
            for z in range((rest if t > 0 else 1) * states):
                out[begin + t, z % states] += messages[t, z]
        _, _, rest = link_sizes(count - 1, states, order)
        for z in range((rest if count > 1 else 1) * states):
            ends[number, z] = messages[count - 1, z]


@compiled
def smooth_steps(
    symbols: Any, starts: Any, emissions: Any, links: Any, shape: Any, messages: Any, ahead: Any, out: Any
) -> None:
    """Write P(state of a step | all steps of its sequence)."""
    states, order, widest = shape
    for number in range(len(starts) - 1):
        begin, count = starts[number], starts[number + 1] - starts[number]
        if count == 0 or not _forward(symbols, begin, count, emissions, links, shape, messages):
            continue
        for z in range(widest):
            ahead[0, z] = 1.0
        for t in range(count - 1, -1, -1):
            symbol = symbols[begin + t]
            offset, dropped, rest = link_sizes(t, states, order)
            lines = rest if t > 0 else 1
            total = 0.0
            for z in range(lines * states):
                total += messages[t, z] * ahead[0, z]
            for z in range(lines * states):
                out[begin + t, z % states] += messages[t, z] * ahead[0, z] / total
            if t == 0:
                break
            largest = 0.0
            for d in range(dropped):
                for r in range(rest):
                    z = d * rest + r
                    value = 0.0
                    for j in range(states):
                        value += links[offset + z * states + j] * emissions[symbol, j] * ahead[0, r * states + j]
                    ahead[1, z] = value
                    largest = max(largest, value)
            for z in range(dropped * rest):
                ahead[0, z] = ahead[1, z] / largest


@compiled
def decode_steps(
    symbols: Any,
    starts: Any,
    log_emissions: Any,
    log_links: Any,
    shape: Any,
    scores: Any,
    back: Any,
    out: Any,
    log_prob: Any,
) -> None:
    """Write the jointly most probable states of all steps of each sequence, and their log probability with it."""
    states, order, _ = shape
    for number in range(len(starts) - 1):
        begin, count = starts[number], starts[number + 1] - starts[number]
        if count == 0:
            continue
        for t in range(count):
            symbol = symbols[begin + t]
            offset, dropped, rest = link_sizes(t, states, order)
            for r in range(rest if t > 0 else 1):
                for j in range(states):
                    best, arg = -math.inf, 0
                    if t == 0:
                        best = log_links[j]
                    else:
                        for d in range(dropped):
                            z = d * rest + r
                            value = scores[0, z] + log_links[offset + z * states + j]
                            if value > best:
                                best, arg = value, d
                    scores[1, r * states + j] = best + log_emissions[symbol, j]
                    back[t, r * states + j] = arg
            for z in range((rest if t > 0 else 1) * states):
                scores[0, z] = scores[1, z]
        _, _, rest = link_sizes(count - 1, states, order)
        best, place = -math.inf, -1
        for z in range((rest if count > 1 else 1) * states):
            if scores[0, z] > best:
                best, place = scores[0, z], z
        log_prob[number] = best
        for t in range(count - 1, -1, -1):
            if place < 0:
                out[begin + t] = -1
                continue
            out[begin + t] = place % states
            _, _, rest = link_sizes(t, states, order)
            place = back[t, place] * rest + place // states


@compiled
def sample_steps(starts: Any, links: Any, shape: Any, chances: Any, out: Any) -> None:
    """Sample the hidden states of sequences, given a number from 0 to 1 for each step."""
    states, order, _ = shape
    for number in range(len(starts) - 1):
        place = 0
        for t in range(starts[number + 1] - starts[number]):
            offset, _, rest = link_sizes(t, states, order)
            left = chances[starts[number] + t]
            chosen, last = -1, 0
            for j in range(states):
                chance = links[offset + place * states + j]
                if chance > 0.0:
                    last = j
                    left -= chance
                    if left < 0.0:
                        chosen = j
                        break
            # Rounding may leave a little.
            chosen = last if chosen < 0 else chosen
            out[starts[number] + t] = chosen
            # The oldest state of a full message is dropped.
            place = (place % rest if t >= order else place) * states + chosen


@compiled
def sample_given_steps(
    symbols: Any, starts: Any, emissions: Any, links: Any, shape: Any, messages: Any, chances: Any, out: Any
) -> None:
    """Sample the hidden states of sequences, given what they show and a number from 0 to 1 for each step."""
    states, order, _ = shape
    for number in range(len(starts) - 1):
        begin, count = starts[number], starts[number + 1] - starts[number]
        if count == 0:
            continue
        if not _forward(symbols, begin, count, emissions, links, shape, messages):
            for t in range(count):
                out[begin + t] = -1
            continue
        _, _, rest = link_sizes(count - 1, states, order)
        left, place = chances[begin + count - 1], -1
        for z in range((rest if count > 1 else 1) * states):
            if messages[count - 1, z] > 0.0 and left >= 0.0:
                left -= messages[count - 1, z]
                place = z
        for t in range(count - 1, -1, -1):
            out[begin + t] = place % states
            if t == 0:
                break
            offset, dropped, rest = link_sizes(t, states, order)
            line, j = place // states, place % states
            total = 0.0
            for d in range(dropped):
                z = d * rest + line
                total += messages[t - 1, z] * links[offset + z * states + j]
            left = chances[begin + t - 1] * total
            for d in range(dropped):
                z = d * rest + line
                chance = messages[t - 1, z] * links[offset + z * states + j]
                if chance > 0.0 and left >= 0.0:
                    left -= chance
                    place = z
