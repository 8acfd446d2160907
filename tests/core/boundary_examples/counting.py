"""Small valid calls of the functions of counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from core.mirrors.counting import groups_of

from eigentree.core import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eigentree.arrays import Codes, Integers

STATES = [3, 2, 4, 5]
GROUPS = [(0, 1), (1, 2, 3), (0, 2), (3,)]


def count_groups(
    codes: Codes,
    group_start: Integers,
    columns: Integers,
    states: Integers,
    table_start: Integers,
    weights: Integers,
    tables: Integers,
) -> None:
    """Count rows often enough for groups to be merged."""
    counter = _native.GroupCounter(group_start, columns, states, table_start)
    for _ in range(10):
        counter.add(codes)
        counter.add_weighted(codes, weights)
    counter.add_to(tables)


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield a function and its arguments, fresh each time."""
    arrays = groups_of(GROUPS, STATES)
    cells = int(arrays[-1][-1])

    def layout() -> list[Integers]:
        return [array.copy() for array in arrays]

    yield _native.GroupCounter, tuple(layout())
    for code in (np.uint8, np.uint16, np.uint32):
        for rows in (int(random.integers(1, 90)), 2500):
            codes = np.array([random.integers(0, size + 1, rows) for size in STATES], code)
            whole = random.integers(0, 5, rows)
            yield count_groups, (codes.copy(), *layout(), whole, np.zeros(cells, np.int64))
            yield _native.weigh_groups, (codes.copy(), whole.astype(np.float64), *layout(), np.zeros(cells))
            for kind in (np.int64, np.float64):
                weights = whole.astype(kind)
                for total in (np.int32, np.int64) if kind is np.int64 else (np.float64,):
                    states = np.array(STATES)
                    yield (
                        _native.count_pairs,
                        (
                            codes.copy(),
                            weights.copy(),
                            np.array([True, False, True, False]),
                            states,
                            np.cumsum(states) - states,
                            states.copy(),
                            np.zeros((sum(STATES), sum(STATES)), total),
                        ),
                    )
    for kind in (np.int32, np.int64):
        planes = random.integers(0, 2**63, (5, 9)).astype(np.uint64)
        yield _native.add_common_bits, (planes, np.arange(5) + 1, np.zeros((7, 7), kind))
    for kind in (np.int64, np.float64):
        yield (
            _native.feature_sums,
            (
                random.integers(0, 9, 30).astype(kind),
                np.array([0, 6, 24]),
                np.array([3, 2]),
                np.array([2, 2]),
                np.array([False, True]),
                random.normal(size=(3, 2, 4, 3)),
                np.empty((3, 4)),
            ),
        )
