"""Small valid calls of decoding and of choosing states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions with arguments."""
    # A node of three hidden states above two columns of two and three.
    native = _native.OperatorTree(
        np.array([2, 3]),
        np.array([[1, 2, 0, 3], [3, 0, 1, 3], [3, 0, 1, 3]]),
        np.array([1, 2]),
        np.array([0, 1]),
        np.array([[k, k, 0, 0] for k in range(3)] + [[0, 0, 0, k] for k in range(3)] * 2),
        np.log(random.random(3 + 9 + 12)),
    )
    for code_type in (np.uint8, np.uint16, np.uint32):
        rows = int(random.integers(1, 20))
        codes = np.array([random.integers(0, 3, rows), random.integers(0, 4, rows)], code_type)
        decoded = random.random(2) < 0.5
        yield _native.tree_decode, (native, codes, decoded, np.zeros((3, rows), np.int64), np.empty(rows))
    lines, rows = int(random.integers(1, 5)), int(random.integers(1, 20))
    cumulative = random.random((lines, 4)).cumsum(axis=1)
    given = random.integers(0, lines, rows)
    yield _native.choose_states, (cumulative, given, random.random(rows), np.empty(rows, np.int64))
