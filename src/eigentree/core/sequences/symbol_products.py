"""Along one long sequence, several symbols at a time, from both ends at once: what comes to pieces of it.

A step waits for the one before, and a processor that waits does nothing. So the matrices of all words of a few
symbols are multiplied out beforehand, and a message goes a word at a time; messages on and back do not wait for
each other. What comes before and after each piece is kept, and then all pieces can be computed together
(`forward_backward`).

Chains are of order 1. Matrices stand one below the other, filled up with zeros to a multiple of what a vector
holds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eigentree.core.compiling import compiled, inlined
from eigentree.core.sequences.forward_backward import TINY
from eigentree.core.vectors import LANES, add_product, load, nothing, spread, store_at, sum_of

__all__ = ["through_words"]


@inlined
def _word(symbols: Any, first: int, length: int, count: int) -> Any:
    """Return the number of a word, whose symbols are the digits."""
    number = np.int64(0)
    for place in range(first, first + length):
        number = number * count + symbols[place]
    return number


@inlined
def _onward(buffer: Any, here: int, there: int, matrices: Any, number: int) -> None:
    """Write a message times a matrix."""
    padded = matrices.shape[1]
    first = number * padded
    for v in range(0, padded, LANES):
        one, two = nothing(), nothing()
        for z in range(0, padded, 2):
            one = add_product(one, spread(buffer, here + z), load(matrices, first + z, v))
            two = add_product(two, spread(buffer, here + z + 1), load(matrices, first + z + 1, v))
        store_at(buffer, there + v, sum_of(one, two))


@inlined
def _scale(buffer: Any, first: int, count: int) -> float:
    """Take a message that has become small to a total of 1/2 … 1; return how often it was halved."""
    total = 0.0
    for z in range(first, first + count):
        total += buffer[z]
    if not 0.0 < total < TINY:
        return 0.0
    _, exponent = math.frexp(total)
    factor = math.ldexp(1.0, -exponent)
    for z in range(first, first + count):
        buffer[z] *= factor
    return float(exponent)


@compiled
def through_words(
    symbols: Any,
    bounds: Any,
    length: int,
    single: Any,
    words: Any,
    turned: Any,
    buffer: Any,
    before: Any,
    after: Any,
) -> float:
    """Write what comes to each piece of a sequence from before and after; return how often messages were halved.

    Piece p has the steps from `bounds[p]` to `bounds[p + 1]`; all but the first are a multiple of `length`, that of
    words, and alike. `single` are the matrices of symbols, `words` those of words, `turned` their transposes.
    `buffer` holds the message before the first piece, as much buffer, and the same for messages back; at the end
    the first message is that after the last piece. Where `after` is empty, nothing goes back.
    """
    padded, pieces, count = words.shape[1], len(bounds) - 1, len(single) // words.shape[1]
    back, halved = 2 * padded, 0.0
    here, there = 0, padded
    for z in range(padded):
        before[0, z] = buffer[z]
    for t in range(bounds[0], bounds[1]):
        _onward(buffer, here, there, single, _word(symbols, t, 1, count))
        halved += _scale(buffer, there, padded)
        here, there = there, here
    from_here, to_there = 0, padded
    for piece in range(1, pieces):
        mirrored = pieces - piece
        for z in range(padded):
            before[piece, z] = buffer[here + z]
        steps = bounds[piece + 1] - bounds[piece]
        for z in range(padded * (len(after) > 0)):
            after[mirrored, z] = buffer[back + from_here + z]
        for step in range(0, steps, length):
            _onward(buffer, here, there, words, _word(symbols, bounds[piece] + step, length, count))
            if len(after) > 0:
                number = _word(symbols, bounds[mirrored + 1] - step - length, length, count)
                _onward(buffer, back + from_here, back + to_there, turned, number)
                _scale(buffer, back + to_there, padded)
                from_here, to_there = to_there, from_here
            halved += _scale(buffer, there, padded)
            here, there = there, here
    for z in range(padded):
        buffer[z] = buffer[here + z]
    for z in range(padded * (len(after) > 0)):
        after[0, z] = buffer[back + from_here + z]
    return halved
