"""Groups that are counted together: the same counts as one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import eigentree as et
from eigentree.core.counting.group_counting import add_margins
from eigentree.counting.count_layout import CountLayout, MergedGroups
from eigentree.counting.counts import Accumulator
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows

STATES = (3, 2, 5, 4, 2, 7, 70)
LARGER = (3, 2, 50, 40, 20, 7, 70)
"""Few groups of such columns fit together into a table that is counted in place of theirs."""

GROUPS = [(0, 1, 2), (2, 3), (0, 3, 4), (1,), (4, 5), (0, 5, 6), (2, 5), (6, 3)]


def graph_of(states: tuple[int, ...] = STATES) -> et.LatentGraph:
    names = {f"x{j}": size for j, size in enumerate(states)}
    return et.LatentGraph({"h": 2} | names, [("h", name) for name in names], ["h"])


@st.composite
def groups_and_states(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[int]]:
    states = draw(st.lists(st.integers(1, 12), min_size=1, max_size=8))
    columns = st.lists(st.integers(0, len(states) - 1), min_size=1, max_size=4, unique=True)
    return draw(st.lists(columns.map(lambda group: tuple(sorted(group))), min_size=1, max_size=12)), states


@settings(max_examples=100, deadline=None)
@given(groups_and_states(), st.sampled_from([1, 30, 4096]))
def test_every_group_is_merged_once_or_alone(case: tuple[list[tuple[int, ...]], list[int]], most: int) -> None:
    layout = CountLayout.of(*case)
    groups = [layout.groups[g] for g in layout.dense]
    found = MergedGroups.of(groups, [layout.shapes[g] for g in layout.dense], layout.table_start, most)
    assert sorted([*found.alone, *(g for each in found.members for g in each)]) == list(range(len(groups)))
    for k, members in enumerate(found.members):
        columns = found.columns[found.group_start[k] : found.group_start[k + 1]].tolist()
        assert len(members) > 1
        assert set(columns) == {column for g in members for column in groups[g]}
        assert math.prod(case[1][column] for column in columns) <= most


@pytest.mark.parametrize("most", [1, 100, 5_000])
def test_the_tables_of_all_merged_groups_are_bounded(most: int) -> None:
    layout = CountLayout.of([(j, j + 1) for j in range(40)], [4] * 41)
    found = MergedGroups.of(layout.groups, layout.shapes, layout.table_start, most_together=most)
    assert found.table_start[-1] <= most
    assert (len(found.members) > 0) == (most == 5_000)


@settings(max_examples=50, deadline=None)
@given(groups_and_states(), st.integers(0, 1000))
def test_members_are_margins_of_merged_groups(case: tuple[list[tuple[int, ...]], list[int]], seed: int) -> None:
    layout = CountLayout.of(*case)
    found = layout.merged
    random = np.random.default_rng(seed)
    tables = random.integers(0, 100, int(found.table_start[-1]))
    before = random.integers(0, 100, int(layout.table_start[-1]))
    sums = before.copy()
    arrays = found.group_start, found.states, found.table_start
    add_margins(tables, *arrays, found.margins, found.stride_start, found.strides, sums)
    expected = before.copy()
    for k, members in enumerate(found.members):
        columns = found.columns[found.group_start[k] : found.group_start[k + 1]].tolist()
        table = tables[found.table_start[k] : found.table_start[k + 1]].reshape([case[1][c] for c in columns])
        for g in members:
            group = layout.groups[layout.dense[g]]
            lacking = tuple(axis for axis, column in enumerate(columns) if column not in group)
            expected[layout.table_start[g] : layout.table_start[g + 1]] += table.sum(axis=lacking).ravel()
    assert_array_equal(sums, expected)


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
def test_counts_do_not_depend_on_merging(kind: str, threads: int, states: tuple[int, ...]) -> None:
    rows = rows_of(3, 9_001, kind, states)
    graph = graph_of(states)
    names = [tuple(f"x{j}" for j in group) for group in GROUPS]
    codes = Rows.of(rows, Columns.of(graph)).encode()
    alone = et.Counts(graph, names).update(rows)
    assert alone.layout.merged.members
    accumulator = Accumulator(alone.layout, threads, shared_from=0, merged_from=2_500)
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
    accumulator = Accumulator(repeated.layout, threads=2, shared_from=0, merged_from=0)
    for part, weight in zip(parts, weights, strict=True):
        accumulator.add(np.asfortranarray(part), weight)
    mixed = accumulator.counts(repeated.columns)
    for group in names:
        assert_array_equal(mixed.table(group), repeated.table(group))
