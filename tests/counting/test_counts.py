"""Counts: additive, exact, whatever the order, the batches, the weights and the missing cells."""

from __future__ import annotations

from functools import reduce
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.counting.joint_table import ColumnFeatures, JointTable, collected
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows

GRAPH = et.LatentGraph({"h": 2, "a": 3, "b": 2, "c": 5, "d": 4}, [("h", n) for n in "abcd"], ["h"])
LARGE = et.LatentGraph({"h": 2, "a": 300, "b": 2, "c": 250, "d": 270}, [("h", n) for n in "abcd"], ["h"])
"""Its tables are kept as the codes that occur."""

GROUPS = [("a", "b", "c"), ("c", "d"), ("a", "d"), ("b",)]
RENAMED = et.LatentGraph({"h": 2, "A": 3, "B": 2, "C": 5, "D": 4}, [("h", n) for n in "ABCD"], ["h"])
RENAMED_GROUPS = [[name.upper() for name in group] for group in GROUPS]


def random_rows(seed: int, count: int = 400, holes: float = 0.0, graph: et.LatentGraph = GRAPH) -> np.ndarray:
    random = np.random.default_rng(seed)
    rows = np.column_stack([random.integers(0, graph.states[name], count) for name in graph.observed])
    rows[random.random(rows.shape) < holes] = -1
    return rows


def slow_table(
    rows: np.ndarray, names: tuple[str, ...], weights: np.ndarray | None = None, graph: et.LatentGraph = GRAPH
) -> np.ndarray:
    columns = [graph.column(name) for name in names]
    table = np.zeros([graph.states[name] for name in names], dtype=None if weights is None else weights.dtype)
    for k, row in enumerate(rows[:, columns]):
        if (row >= 0).all():
            table[tuple(row)] += 1 if weights is None else weights[k]
    return table


both_storages = pytest.mark.parametrize("graph", [GRAPH, LARGE], ids=["dense", "sparse"])


@pytest.mark.parametrize("holes", [0.0, 0.2])
@both_storages
def test_counts_equal_a_loop(graph: et.LatentGraph, holes: float) -> None:
    rows = random_rows(0, holes=holes, graph=graph)
    counts = et.Counts(graph, GROUPS).update(rows)
    assert bool(counts.sparse) == (graph is LARGE)
    for names in GROUPS:
        assert counts.table(names).dtype.kind == "i"
        assert_array_equal(counts.table(names), slow_table(rows, names, graph=graph))
        assert_array_equal(counts.table(names[::-1]), slow_table(rows, names[::-1], graph=graph))
    # Not asked for as a group of their own: the rows of the group that holds them count.
    complete = rows[(rows[:, :3] >= 0).all(axis=1)]
    assert_array_equal(counts.table(("c", "a")), slow_table(complete, ("c", "a"), graph=graph))
    assert counts.rows == len(rows)


@pytest.mark.parametrize("holes", [(0.0, 0.2), (0.2, 0.0)], ids=["holes later", "holes first"])
@pytest.mark.parametrize("states", [3, 45], ids=["dense", "sparse"])
def test_tables_that_are_gathered_are_those_that_are_found(states: int, holes: tuple[float, ...]) -> None:
    """Groups with a table of their own, read off another's, or asked for as a part; also in another order.

    Where to gather them from is remembered, and is not the same with missing cells and without.
    """
    graph = et.LatentGraph({"h": 2, **dict.fromkeys("abcde", states)}, [("h", n) for n in "abcde"], ["h"])
    groups = [("a", "b", "c"), ("b", "c", "d", "e"), ("a", "b"), ("b", "c"), ("d", "e"), ("e", "a")]
    pairs = [(0, 1), (2, 1), (1, 2), (4, 3), (0, 2), (0, 4), (1, 4)]
    triples = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (3, 4, 1), (4, 2, 3)]
    empty = et.Counts(graph, groups)
    random = np.random.default_rng(0)
    for share in (*holes, *holes):
        rows = random.integers(0, states, (300, 5))
        rows[random.random(rows.shape) < share] = -1
        counts = empty.update(rows)
        assert bool(counts.sparse) == (states == 45)
        for asked in (pairs, triples):
            expected = [counts.find(columns).array().ravel() for columns in asked]
            assert_array_equal(counts.stacked(asked), expected)


@pytest.mark.parametrize("holes", [0.0, 0.3, 1.0])
@both_storages
def test_sums_of_features_are_those_of_a_loop_over_rows(graph: et.LatentGraph, holes: float) -> None:
    """Also for a group that no row has in full, and one that a larger table holds."""
    random = np.random.default_rng(0)
    rows = random_rows(5, holes=min(holes, 0.3), graph=graph)
    if holes == 1.0:
        rows[:, 1] = -1
    matrices = [
        np.hstack([np.ones((size, 1)), random.random((size, 2))])
        for size in (graph.states[name] for name in graph.observed)
    ]
    counts = et.Counts(graph, GROUPS).update(rows)
    for names in GROUPS:
        columns = [graph.column(name) for name in names]
        known = rows[(rows[:, columns] >= 0).all(axis=1)]
        expected = np.zeros([3] * len(columns))
        for row in known:
            expected += reduce(np.multiply.outer, [matrices[column][row[column]] for column in columns])
        sums, totals = counts.featured([tuple(columns)], ColumnFeatures.stack(matrices))
        assert_allclose(sums[0], expected, atol=1e-9)
        assert totals[0] == len(known)


def test_a_table_of_its_own_is_read_before_a_larger_one_of_as_many_cells() -> None:
    graph = et.LatentGraph({"d": 1, "a": 300, "b": 300, "h": 2}, [("h", n) for n in "abd"], ["h"])
    rows = np.random.default_rng(0).integers(0, 300, (100, 3))
    rows[:, 0] = np.where(np.arange(100) < 60, -1, 0)
    counts = et.Counts(graph, [("d", "a", "b"), ("a", "b")]).update(rows)
    assert len(counts.sparse) == 2
    assert counts.table(["a", "b"]).sum() == 100


@pytest.mark.parametrize("holes", [0.0, 0.2])
@both_storages
def test_weights_may_be_whole_or_fractional(graph: et.LatentGraph, holes: float) -> None:
    """Over more rows than are counted in one block."""
    rows = random_rows(1, count=5_000, holes=holes, graph=graph)
    whole = np.random.default_rng(0).integers(0, 4, len(rows))
    repeated = et.Counts(graph, GROUPS).update(np.repeat(rows, whole, axis=0))
    weighted = et.Counts(graph, GROUPS).update(rows, sample_weight=whole)
    fractional = et.Counts(graph, GROUPS).update(rows, sample_weight=whole / 7)
    for names in GROUPS:
        assert_array_equal(weighted.table(names), repeated.table(names))
        assert_allclose(fractional.table(names), repeated.table(names) / 7)
    assert weighted.rows == whole.sum()


@pytest.mark.parametrize("order", list(permutations([0, 1, 2])), ids=str)
@both_storages
def test_chunks_may_have_weights_of_different_types(graph: et.LatentGraph, order: tuple[int, ...]) -> None:
    codes = Rows.of(random_rows(6, holes=0.2, graph=graph), Columns.of(graph)).encode()
    parts = np.array_split(np.arange(len(codes)), 3)
    random = np.random.default_rng(0)
    weights = [None, random.integers(0, 4, len(parts[1])), random.integers(0, 16, len(parts[2])) / 4]
    chunks = [(np.asfortranarray(codes[parts[k]]), weights[k]) for k in order]
    counts = et.Counts(graph, GROUPS).count(iter(chunks))
    everything = np.concatenate([np.ones(len(parts[0])), weights[1], weights[2]])
    expected = et.Counts(graph, GROUPS).count(iter([(codes, everything)]))
    for names in GROUPS:
        assert_array_equal(counts.table(names), expected.table(names))
    assert counts.rows == everything.sum()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 299))
def test_batches_and_order_change_no_bit(seed: int, cut: int) -> None:
    rows = random_rows(seed, holes=0.1)
    whole = et.Counts(GRAPH, GROUPS).update(rows)
    shuffled = np.random.default_rng(seed).permutation(rows)
    parts = et.Counts(GRAPH, GROUPS).update(shuffled[:cut]) + et.Counts(GRAPH, GROUPS).update(shuffled[cut:])
    streamed = et.Counts(GRAPH, GROUPS).update(rows[:cut]).update(rows[cut:])
    rest = whole - et.Counts(GRAPH, GROUPS).update(rows[:cut])
    for names in GROUPS:
        assert_array_equal(parts.table(names), whole.table(names))
        assert_array_equal(streamed.table(names), whole.table(names))
        assert_array_equal(rest.table(names), slow_table(rows[cut:], names))
    assert parts.rows == streamed.rows == whole.rows
    assert rest.rows == len(rows) - cut


def test_frequencies_are_normalised_by_their_own_rows() -> None:
    rows = random_rows(2, holes=0.3)
    counts = et.Counts(GRAPH, [("a", "b"), ("c", "d")]).update(rows)
    for names in (("a", "b"), ("c", "d")):
        assert_allclose(counts.joint(names).sum(), 1.0)
        assert_allclose(counts.joint(names), slow_table(rows, names) / slow_table(rows, names).sum())


def test_a_thousand_states_a_variable_need_no_dense_table() -> None:
    graph = et.zoo.mixture(4, 2, 1000)
    rows = np.random.default_rng(0).integers(0, 1000, (5_000, 4))
    counts = et.Counts(graph, [("x0", "x1", "x2"), ("x2", "x3")]).update(rows)
    kept = counts.find((0, 1, 2))
    assert len(kept.values) <= len(rows)
    assert kept.total == len(rows)
    assert counts.table(["x3"]).sum() == len(rows)
    features = [np.random.default_rng(k).random((1000, 2)) for k in range(3)]
    expected = np.einsum("na,nb,nc->abc", *(f[rows[:, k]] for k, f in enumerate(features)))
    assert_allclose(kept.expectation([((k,), f) for k, f in enumerate(features)]), expected)


def test_expectations_agree_between_storages() -> None:
    rows = random_rows(3)
    features = [np.random.default_rng(k).random((n, 2)) for k, n in enumerate((3, 10))]
    parts = [((0,), features[0]), ((2, 1), features[1])]
    dense = et.Counts(GRAPH, GROUPS).update(rows).find((0, 1, 2))
    sparse = JointTable(dense.columns, dense.shape, *collected(np.arange(len(dense.values)), dense.values))
    assert_allclose(dense.expectation(parts), sparse.expectation(parts))


def test_counts_are_not_changed_by_later_ones() -> None:
    first = et.Counts(GRAPH, GROUPS).update(random_rows(4))
    before = first.table(("c", "d")).copy()
    first.update(random_rows(5))
    assert_array_equal(first.table(("c", "d")), before)
    with pytest.raises(ValueError, match="read-only"):
        first.dense[0] = 5


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda c: c.table(["a", "b", "c", "d"]), r"\['a', 'b', 'c', 'd'\] were not counted together"),
        (lambda c: c + et.Counts(GRAPH, [("a",)]), "the same groups"),
        (lambda c: c - et.Counts(RENAMED, RENAMED_GROUPS), "of the same variables"),
        (lambda c: c.table([]), "at least one variable"),
        (lambda c: et.Counts(GRAPH, [("a", "a")]), "a group to count names 'a' twice"),
        (lambda c: et.Counts(GRAPH, [()]), "at least one"),
        (lambda c: c.update([[0, 0, 0, 0]], sample_weight=[1e17]), r"adds up to 1e\+17, too much"),
        (lambda c: c.update([[0, 0, 0, 0]], sample_weight=np.ma.array([1.0], mask=[True])), "missing numbers"),
        (lambda c: c.joint(["a"]), r"no row has all of the cells \['a'\]"),
        (lambda c: c.update([[0, 0, 0, 0]], sample_weight=[1, 2]), r"sample_weight needs one number per row"),
        (lambda c: c.update([[0, 0, 0, 0]], sample_weight=[-1.0]), "sample_weight holds negative"),
        (lambda c: c.update([[0, 0, 9, 0]]), "row 0, column 'c' holds 9"),
    ],
)
def test_mistakes_are_named(ask, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        ask(et.Counts(GRAPH, GROUPS))
