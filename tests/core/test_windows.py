"""Windows, hashes of pieces and equality of sequences, against plain references."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.mirrors import windows as mirror
from numpy.testing import assert_array_equal

from eigentree.core.counting.window_cutting import cut_windows, fingerprints, hash_pieces, repeats

if TYPE_CHECKING:
    pass

CODES = [np.uint8, np.uint16, np.uint32]


pytestmark = pytest.mark.usefixtures("instructions")


def sequences(seed: int, kind: type, channels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of 0 to 40 steps, some steps before and after them."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, 12) * (random.random(12) < 0.8)
    starts = 3 + np.cumsum([0, *lengths])
    return random.integers(0, 200, (channels, starts[-1] + 2)).astype(kind), starts


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("most", [1, 7, 1000])
@pytest.mark.parametrize("reach", [0, 2, 50])
def test_windows_are_cut(kind: type, most: int, reach: int) -> None:
    """However many are cut at a time; cells before and after a sequence are missing."""
    for seed in range(10):
        codes, starts = sequences(seed, kind)
        own = np.sort(np.random.default_rng(seed).integers(0, 45, (len(starts) - 1, 2)), axis=1)
        lags, channels = np.array([0, -1, 2, -30, 60, 0]), np.array([0, 1, 1, 0, 1, 1])
        missing = np.arange(201, 207).astype(kind)
        cursor, rows, of = np.zeros(2, np.int64), [], []
        while cursor[0] < len(own):
            found, sequence = np.full((6, most), 255, kind), np.full(most, -1)
            count = cut_windows(codes, starts, own, reach, lags, channels, missing, cursor, found, sequence)
            rows += found[:, :count].T.tolist()
            of += sequence[:count].tolist()
            assert (found[:, count:] == 255).all()
        assert (rows, of) == mirror.windows(codes, starts, own, reach, lags, channels, missing)


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize(("length", "context", "reach"), [(1, 0, 0), (5, 2, 3), (16, 50, 0), (100, 3, 100)])
def test_hashes_of_pieces(kind: type, length: int, context: int, reach: int) -> None:
    for seed in range(5):
        codes, starts = sequences(seed, kind)
        expected = mirror.piece_hashes(codes, starts, length, context, reach)
        hashes, places = np.zeros(len(expected[0]), np.uint64), np.zeros((len(expected[0]), 2), np.int64)
        hash_pieces(codes, starts, length, context, reach, hashes, places)
        assert (hashes.tolist(), list(map(tuple, places.tolist()))) == expected


@pytest.mark.parametrize("kind", CODES)
def test_equal_sequences_have_equal_fingerprints_and_are_found(kind: type) -> None:
    random = np.random.default_rng(0)
    distinct = [random.integers(0, 3, size).tolist() for size in (0, 1, 3, 3, 3, 5, 8, 40)]
    distinct.append([*distinct[-1][:-1], 7])
    chosen = random.integers(0, len(distinct), 60)
    parts = [distinct[k] for k in chosen]
    symbols = np.concatenate([np.zeros(2), *parts]).astype(kind)
    starts = 2 + np.cumsum([0, *map(len, parts)])
    prints = np.zeros(len(parts), np.uint64)
    fingerprints(symbols, starts, prints)
    assert prints.tolist() == [mirror.fingerprint(part) for part in parts]
    order = random.permutation(np.repeat(np.arange(60), 2))
    same = np.zeros(len(order), np.bool_)
    repeats(symbols, starts, order, same)
    assert_array_equal(same[1:], [parts[a] == parts[b] for a, b in pairwise(order.tolist())])
    assert not same[0]


@pytest.mark.parametrize("starts", [[0, 9], [-1, 3], [0, 4, 2, 6], [], [2**62, 2**62]])
def test_sequences_that_are_not_there_are_refused(starts: list[int]) -> None:
    count = max(len(starts) - 1, 0)
    with pytest.raises(ValueError, match="sequence"):
        fingerprints(np.zeros(6, np.uint8), np.array(starts, np.int64), np.zeros(count, np.uint64))


@pytest.mark.parametrize(
    ("reach", "lag", "channel", "cursor", "own"),
    [
        (-1, 0, 0, 0, 0),
        (2**62, 0, 0, 0, 0),
        (0, 2**62, 0, 0, 0),
        (0, 0, 2, 0, 0),
        (0, 0, -1, 0, 0),
        (0, 0, 0, -1, 0),
        (0, 0, 0, 0, -1),
    ],
)
def test_windows_outside_their_arrays_are_refused(
    reach: int, lag: int, channel: int, cursor: int, own: int
) -> None:
    codes, line = np.zeros((2, 6), np.uint8), np.zeros((1, 9), np.uint8)
    with pytest.raises(ValueError, match=r"eigentree\.core"):
        cut_windows(
            codes,
            np.array([0, 6]),
            np.array([[own, 6]]),
            reach,
            np.array([lag]),
            np.array([channel]),
            np.zeros(1, np.uint8),
            np.array([cursor, 0]),
            line,
            np.zeros(9, np.int64),
        )
