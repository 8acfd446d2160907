"""Small valid calls of the functions of encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield a function and its arguments, fresh each time."""
    rows, columns = int(random.integers(1, 80)), int(random.integers(1, 6))
    for code in (np.uint8, np.uint16, np.uint32):
        for cell in (np.int8, np.uint16, np.int64, np.float32, np.float64):
            cells = random.integers(0, 5, rows).astype(cell)
            yield _native.encode_column, (cells, 5, np.empty(rows, code))
        for cell in (np.int8, np.uint16, np.int32, np.int64):
            yield (
                _native.encode_rows,
                (
                    random.integers(0, 5, (rows + 3, columns)).astype(cell),
                    2,
                    np.full(columns, 5),
                    np.empty((columns, rows), code),
                    np.empty(columns, np.bool_),
                ),
            )
        codes = random.integers(0, 5, (columns, rows + 3)).astype(code)
        yield _native.hash_rows, (codes.copy(), np.empty(rows + 3, np.uint64))
