"""Windows, hashes and equality of sequences, one step at a time."""

from __future__ import annotations

import numpy as np

MASK = 2**64 - 1
FACTOR = 0xBF58476D1CE4E5B9


def windows(
    codes: np.ndarray,
    starts: np.ndarray,
    own: np.ndarray,
    reach: int,
    lags: np.ndarray,
    channels: np.ndarray,
    missing: np.ndarray,
) -> tuple[list[list[int]], list[int]]:
    """All windows, one row each, and their sequences."""
    found, of = [], []
    for sequence in range(len(starts) - 1):
        part = codes[:, starts[sequence] : starts[sequence + 1]]
        size = part.shape[1]
        for step in range(own[sequence, 0], min(own[sequence, 1], size - reach)):
            cells = zip((step + lags).tolist(), channels.tolist(), missing.tolist(), strict=True)
            found.append([int(part[channel, at]) if 0 <= at < size else mark for at, channel, mark in cells])
            of.append(sequence)
    return found, of


def piece_hashes(
    codes: np.ndarray, starts: np.ndarray, length: int, context: int, reach: int
) -> tuple[list[int], list[tuple[int, int]]]:
    """The hash of each piece, and its sequence and first step."""
    hashes, places = [], []
    for sequence in range(len(starts) - 1):
        part = codes[:, starts[sequence] : starts[sequence + 1]].tolist()
        size = int(starts[sequence + 1] - starts[sequence])
        for begin in range(0, size, length):
            low, high = max(begin - context, 0), min(begin + length + reach, size)
            mixed = 0x9E3779B97F4A7C15 ^ (begin - low)
            mixed = mixed * FACTOR & MASK ^ min(length, size - begin)
            mixed = mixed * FACTOR & MASK ^ (high - begin)
            for channel in part:
                for code in channel[low:high]:
                    mixed = (mixed ^ code) * FACTOR & MASK
                    mixed ^= mixed >> 31
            mixed = (mixed ^ mixed >> 30) * 0x94D049BB133111EB & MASK
            hashes.append(mixed ^ mixed >> 29)
            places.append((sequence, begin))
    return hashes, places


def fingerprint(symbols: list[int]) -> int:
    mixed = 14695981039346656037
    for symbol in symbols:
        mixed = (mixed ^ symbol) * 1099511628211 & MASK
        mixed ^= mixed >> 29
    return mixed
