"""Small valid calls of the compiled passes of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from core.mirrors.message_passing import RandomTree

from eigentree.core import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def parts(tree: RandomTree) -> tuple[Any, ...]:
    """Return what a tree is made of, in fresh arrays."""
    _, arrays = tree.laid_out.__reduce__()
    return tuple(np.array(array) for array in arrays)


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions with arguments."""
    for smallest in (0, -400):
        tree = RandomTree(int(random.integers(10**6)), nodes=7, smallest=smallest)
        yield _native.OperatorTree, parts(tree)
        native = _native.OperatorTree(*parts(tree))
        rows, columns = int(random.integers(1, 40)), len(tree.states)
        ends = np.cumsum([0, *tree.states])
        for code_type in (np.uint8, np.uint16, np.uint32):
            codes = np.ascontiguousarray(tree.rows(rows, 0.4).T).astype(code_type)
            yield _native.tree_log_prob, (native, codes.copy(), np.empty(rows), np.empty(rows, np.int8))
            tables = np.empty((rows, int(ends[-1])))
            yield _native.tree_tables, (native, codes.copy(), ends[:-1].astype(np.int64), tables)
            yield _native.tree_draw, (native, codes.copy(), random.random((rows, columns)))
