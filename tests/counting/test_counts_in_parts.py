"""Rows that are counted in parts, by several threads, weighted or not: the same counts as all at once."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import eigentree as et
from eigentree.counting.counts import count_rows
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.inference.threads import usable_threads

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
@pytest.mark.parametrize("states", [STATES, LARGER], ids=["few", "many"])
def test_counts_do_not_depend_on_parts(kind: str, states: tuple[int, ...]) -> None:
    rows = rows_of(3, 9_001, kind, states)
    graph = graph_of(states)
    names = [tuple(f"x{j}" for j in group) for group in GROUPS]
    codes = Rows.of(rows, Columns.of(graph)).encode()
    alone = et.Counts(graph, names).update(rows)
    # Neither column-major nor row-major.
    together = alone.empty().count((codes[start : start + 2_500], None) for start in range(0, len(codes), 2_500))
    assert_array_equal(together.dense, alone.dense)
    assert together.rows == alone.rows == len(rows)
    for group in names:
        assert_array_equal(together.table(group), alone.table(group))


@pytest.mark.parametrize("threads", [2, 3, 50])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "missing"])
def test_threads_count_the_same(threads: int, weighted: bool, kind: str) -> None:
    rows = rows_of(5, 12_345, kind)
    graph = graph_of()
    weights = np.random.default_rng(0).integers(0, 4, len(rows)) if weighted else None
    empty = et.Statistics.empty(et.SpectralJunctionTree(graph).plan(graph))
    alone = empty.update(rows, weights)
    read = Rows.of(rows, Columns.of(graph))
    shared = count_rows(empty.count, read, weights, 0, threads, shared_from=1)
    twice = alone + count_rows(empty.count, read, weights, 0, threads, shared_from=1)
    for one, other in ((shared, alone), (twice, alone + alone)):
        assert_array_equal(one.counts.dense, other.counts.dense)
        assert one.rows == other.rows
        for name in ("hashes", "codes", "weights"):
            assert_array_equal(getattr(one.sample, name), getattr(other.sample, name))


def test_the_first_cell_that_is_no_code_is_named_whatever_the_threads() -> None:
    rows = rows_of(5, 9_000, "uniform")
    rows[[2_000, 7_000], 1] = 9
    empty = et.Counts(graph_of(), [("x0", "x1")])
    with pytest.raises(et.DataError, match="row 2000, column 'x1' holds 9"):
        count_rows(empty.count, Rows.of(rows, empty.columns), None, 0, 3, shared_from=1)


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("2,1", 2), ("", None), ("0", None), ("many", None)])
def test_threads_are_those_of_the_environment_or_the_processors(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert usable_threads() == (expected or len(os.sched_getaffinity(0)))


def test_merged_groups_count_the_same_as_each_group() -> None:
    """Groups that have columns in common are counted as one after the first rows, where none of them is missing."""
    graph = et.zoo.hmm(12, 1, 2, 3)
    rows = np.random.default_rng(0).integers(0, 3, (60_000, 12), dtype=np.int8)
    rows[40_000:, 7][::5] = -1
    empty = et.Statistics.empty(et.SpectralJunctionTree(graph).plan(graph)).counts
    whole = empty.update(rows)
    # So few rows at a time are counted group by group.
    parts = sum((empty.update(part) for part in np.array_split(rows, 40)), start=empty)
    assert_array_equal(whole.dense, parts.dense)


def test_weighted_rows_may_come_among_others() -> None:
    graph = graph_of()
    names = [tuple(f"x{j}" for j in group) for group in GROUPS]
    rows = rows_of(4, 6_000, "missing")
    codes = Rows.of(rows, Columns.of(graph)).encode()
    parts = np.array_split(codes, 4)
    weights = [None, np.full(1_500, 2), None, np.full(1_500, 3)]
    repeated = et.Counts(graph, names).update(rows, sample_weight=np.repeat([1, 2, 1, 3], 1_500))
    chunks = zip(map(np.asfortranarray, parts), weights, strict=True)
    mixed = repeated.empty().count(chunks)
    for group in names:
        assert_array_equal(mixed.table(group), repeated.table(group))
