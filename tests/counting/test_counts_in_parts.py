"""Rows that are counted in parts, by several threads, weighted or not: the same counts as all at once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import eigentree as et
from eigentree.counting.counts import Accumulator
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows

STATES = (3, 2, 5, 4, 2, 7, 70)
LARGER = (3, 2, 50, 40, 20, 7, 70)
"""Of the joint tables of such columns, some are kept as the codes that occur."""

GROUPS = [(0, 1, 2), (2, 3), (0, 3, 4), (1,), (4, 5), (0, 5, 6), (2, 5), (6, 3)]


def graph_of(states: tuple[int, ...] = STATES) -> et.LatentGraph:
    names = {f"x{j}": size for j, size in enumerate(states)}
    return et.LatentGraph({"h": 2} | names, [("h", name) for name in names], ["h"])


def rows_of(seed: int, count: int, kind: str, states: tuple[int, ...] = STATES) -> np.ndarray:
    """Uniform rows, or such as repeat a code, or with missing cells in two columns of the second half."""
    random = np.random.default_rng(seed)
    rows = np.column_stack([random.integers(0, size, count) for size in states])
    if kind == "repeated":
        rows[random.random(rows.shape) < 0.97] = 0
    if kind == "missing":
        lost = random.random(rows.shape) < 0.1
        lost[: count // 2] = lost[:, [0, 1, 3, 5, 6]] = False
        rows[lost] = -1
    return rows


@pytest.mark.parametrize("kind", ["uniform", "repeated", "missing"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("states", [STATES, LARGER], ids=["few", "many"])
def test_counts_do_not_depend_on_threads_or_parts(kind: str, threads: int, states: tuple[int, ...]) -> None:
    rows = rows_of(3, 9_001, kind, states)
    graph = graph_of(states)
    names = [tuple(f"x{j}" for j in group) for group in GROUPS]
    codes = Rows.of(rows, Columns.of(graph)).encode()
    alone = et.Counts(graph, names).update(rows)
    accumulator = Accumulator(alone.layout, threads, shared_from=0)
    for start in range(0, len(codes), 2_500):
        accumulator.add(np.asfortranarray(codes[start : start + 2_500]), None)
    together = accumulator.counts(alone.columns)
    assert_array_equal(together.dense, alone.dense)
    assert together.rows == alone.rows == len(rows)
    for group in names:
        assert_array_equal(together.table(group), alone.table(group))


def test_weighted_rows_among_others_are_counted_after_the_threads() -> None:
    graph = graph_of()
    names = [tuple(f"x{j}" for j in group) for group in GROUPS]
    rows = rows_of(4, 6_000, "missing")
    codes = Rows.of(rows, Columns.of(graph)).encode()
    parts = np.array_split(codes, 4)
    weights = [None, np.full(1_500, 2), None, np.full(1_500, 3)]
    repeated = et.Counts(graph, names).update(rows, sample_weight=np.repeat([1, 2, 1, 3], 1_500))
    accumulator = Accumulator(repeated.layout, threads=2, shared_from=0)
    for part, weight in zip(parts, weights, strict=True):
        accumulator.add(np.asfortranarray(part), weight)
    mixed = accumulator.counts(repeated.columns)
    for group in names:
        assert_array_equal(mixed.table(group), repeated.table(group))
