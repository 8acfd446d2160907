"""Small valid calls of the functions of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield a function and its arguments, fresh each time."""
    for code in (np.uint8, np.uint16, np.uint32):
        lengths = random.integers(0, 12, 5)
        starts = np.cumsum([0, *lengths])
        codes = random.integers(0, 9, (2, int(starts[-1]))).astype(code)
        yield (
            _native.cut_windows,
            (
                codes.copy(),
                starts.copy(),
                np.stack([np.zeros_like(lengths), lengths], axis=1),
                1,
                np.array([0, -1, 3]),
                np.array([0, 1, 1]),
                np.full(3, 9, code),
                np.array([0, 0]),
                np.empty((3, 20), code),
                np.empty(20, np.int64),
            ),
        )
        pieces = int((-(-lengths // 4)).sum())
        hashes, places = np.empty(pieces, np.uint64), np.empty((pieces, 2), np.int64)
        yield _native.hash_pieces, (codes.copy(), starts.copy(), 4, 2, 1, hashes, places)
        yield _native.fingerprints, (codes[0].copy(), starts.copy(), np.empty(5, np.uint64))
        order = random.permutation(5)
        yield _native.repeats, (codes[0].copy(), starts.copy(), order, np.empty(5, np.bool_))
