"""Windows cut from sequences that lie end to end, hashes of their pieces, and which sequences are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.core.compiling import compiled

__all__ = ["cut_windows", "fingerprints", "hash_pieces", "repeats"]

PRIME = np.uint64(1099511628211)
BASIS = np.uint64(14695981039346656037)
SHIFT = np.uint64(29)


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

    `codes` (channels, steps); `starts` (sequences + 1,); `length`, `context`, `reach`: how many steps a piece has,
    and how many before and after it belong to it; `hashes` (pieces,); `places` (pieces, 2): the sequence, and the
    step of it that a piece begins with.
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


@compiled
def fingerprints(symbols: Any, starts: Any, out: Any) -> None:
    """Write a number for each sequence that depends on its symbols alone."""
    for number in range(len(starts) - 1):
        mixed = BASIS
        for step in range(starts[number], starts[number + 1]):
            mixed = (mixed ^ np.uint64(symbols[step])) * PRIME
            mixed ^= mixed >> SHIFT
        out[number] = mixed


@compiled
def repeats(symbols: Any, starts: Any, numbers: Any, out: Any) -> None:
    """Write, for each sequence in an order, whether it is the same as the one before."""
    for place in range(1, len(numbers)):
        first, second = numbers[place - 1], numbers[place]
        count = starts[second + 1] - starts[second]
        same = starts[first + 1] - starts[first] == count
        if same:
            for step in range(count):
                if symbols[starts[first] + step] != symbols[starts[second] + step]:
                    same = False
                    break
        out[place] = same
