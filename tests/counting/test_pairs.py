"""Counts of all pairs of columns, and mutual information of columns, against plain loops and under splitting."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from counted_arrays import arrays_of, of_arrays
from hypothesis import given, settings
from hypothesis import strategies as st

import eigentree as et
from eigentree.counting.mutual_information import (
    correlation_distances,
    distances_of,
    information_of,
    mutual_information,
)
from eigentree.counting.pair_counts import MOST_NARROW, PairCounts
from eigentree.data.tables.columns import Columns


def random_table(seed: int, rows: int = 60, holes: float = 0.1) -> tuple[Columns, np.ndarray]:
    """Columns of few and of many states, and one of a single one; some have missing cells and some have none."""
    random = np.random.default_rng(seed)
    states = random.permutation([1, 2, 2, 3, 4, 6, MOST_NARROW, MOST_NARROW + 1])
    table = np.column_stack([random.integers(0, count, rows) for count in states])
    gone = random.random(table.shape) < holes
    gone[:, random.random(len(states)) < 0.5] = False
    table[gone] = -1
    return Columns(tuple(f"c{place}" for place in range(len(states))), tuple(states.tolist())), table


def plain_table(columns: Columns, table: np.ndarray, i: int, j: int, weights: np.ndarray) -> np.ndarray:
    found = np.zeros((columns.states[i], columns.states[j]), weights.dtype)
    known = (table[:, i] >= 0) & (table[:, j] >= 0)
    np.add.at(found, (table[known, i], table[known, j]), weights[known])
    return found


def assert_same(one: PairCounts, other: PairCounts) -> None:
    assert one.columns == other.columns
    assert one.rows == other.rows
    assert one.matrix.dtype == other.matrix.dtype
    assert (one.matrix == other.matrix).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["ones", "whole", "fractional"])
def test_tables_are_those_of_plain_loops(seed: int, kind: str) -> None:
    columns, table = random_table(seed, rows=0 if seed == 5 else 300)
    random = np.random.default_rng(seed)
    weights = {
        "ones": np.ones(len(table), int),
        "whole": random.integers(0, 4, len(table)),
        "fractional": random.random(len(table)),
    }[kind]
    if not len(table):
        pairs = PairCounts.empty(columns)
    else:
        pairs = PairCounts.empty(columns).update(table, None if kind == "ones" else weights)
    for i, one in enumerate(columns.names):
        for j, other in enumerate(columns.names):
            expected = plain_table(columns, table, i, j, weights)
            found = pairs.table(one, other)
            if kind == "fractional":
                assert found == pytest.approx(expected, abs=1e-9)
            else:
                assert found.dtype == np.int64
                assert (found == expected).all()


@given(st.integers(0, 10**6), st.lists(st.integers(0, 60), max_size=4))
@settings(max_examples=25, deadline=None)
def test_parts_add_up_bit_identically_and_can_be_taken_away_again(seed: int, cuts: list[int]) -> None:
    columns, table = random_table(seed)
    whole = PairCounts.empty(columns).update(table)
    total = PairCounts.empty(columns)
    parts = [part for part in np.split(table, sorted(cuts)) if len(part)]
    for part in parts:
        total = total + PairCounts.empty(columns).update(part)
    assert_same(total, whole)
    assert_same(of_arrays(PairCounts, arrays_of(whole)), whole)
    rest = whole - PairCounts.empty(columns).update(parts[0])
    others = PairCounts.empty(columns)
    for part in parts[1:]:
        others = others.update(part)
    assert rest.rows == others.rows
    for one in columns.names:
        for other in columns.names:
            assert (rest.table(one, other) == others.table(one, other)).all()


def test_many_columns_and_long_tables_are_counted_block_by_block() -> None:
    random = np.random.default_rng(0)
    wide = random.integers(0, 2, (50, 1_200))
    pairs = PairCounts.of(wide)
    states = np.stack([1 - wide, wide], axis=2).reshape(50, -1)
    assert (pairs.matrix == states.T @ states).all()
    long = random.integers(0, 3, (40_000, 3))
    long[random.random(long.shape) < 0.01] = -1
    columns = Columns(("a", "b", "c"), (3, 3, 3))
    assert (
        PairCounts.empty(columns).update(long).table("a", "c")
        == plain_table(columns, long, 0, 2, np.ones(len(long), int))
    ).all()


def test_counts_do_not_change_once_made() -> None:
    columns, table = random_table(0)
    pairs = PairCounts.empty(columns).update(table)
    with pytest.raises(ValueError, match="read-only"):
        pairs.matrix[0, 0] = 1
    with pytest.raises(AttributeError):
        pairs.rows = 3  # type: ignore[misc]
    before = pairs.matrix.copy()
    pairs.update(table)
    assert (pairs.matrix == before).all()
    assert repr(pairs) == "<PairCounts of 60 rows: 8 columns>"


def test_what_does_not_add_up_is_refused() -> None:
    columns, table = random_table(0)
    pairs = PairCounts.empty(columns).update(table)
    with pytest.raises(et.DataError, match="some of them were never added"):
        PairCounts.empty(columns).update(table[:10]) - pairs
    with pytest.raises(et.DataError, match="same names and labels"):
        et.PairCounts.of([["a", "b"], ["b", "a"]]) + et.PairCounts.of([["a", "c"], ["c", "a"]])
    with pytest.raises(et.DataError, match="not with 3"):
        pairs + 3  # type: ignore[operator]
    with pytest.raises(et.DataError, match="not with 3"):
        3 + pairs  # type: ignore[operator]
    heavy = et.PairCounts.of([[0, 1], [1, 0]], [2**51, 2**51])
    with pytest.raises(et.DataError, match="add up to"):
        heavy + heavy + heavy


def test_what_would_not_fit_is_refused_before_memory_is_allocated() -> None:
    columns = Columns(("a", "b", "c"), (2**20, 2**20, 2))
    with pytest.raises(et.DataError, match=r"counts of all pairs of columns would be 4\.4e\+12 numbers"):
        PairCounts.empty(columns)


def test_arrays_that_are_no_counts_are_refused() -> None:
    columns, table = random_table(1)
    arrays = arrays_of(PairCounts.empty(columns).update(table))
    document = json.loads(bytes(arrays["content"]))
    lopsided = arrays["matrix"].copy()
    lopsided[0, 1] += 1
    spoiled: list[tuple[str, np.ndarray]] = [
        *(
            ("content", np.frombuffer(json.dumps(document | entries).encode(), np.uint8))
            for entries in ({"rows": -1}, {"rows": "many"}, {"more": 1})
        ),
        ("columns", np.zeros(3, np.uint8)),
        ("content", np.zeros(3, np.uint8)),
        ("matrix", arrays["matrix"] + 100),
        ("matrix", lopsided),
    ]
    for name, wrong in spoiled:
        with pytest.raises(et.FileError):
            of_arrays(PairCounts, arrays | {name: wrong})


def plain_information(joint: np.ndarray) -> float:
    total = 0.0
    for a in range(joint.shape[0]):
        for b in range(joint.shape[1]):
            if joint[a, b] > 0:
                total += joint[a, b] * np.log(joint[a, b] / (joint[a].sum() * joint[:, b].sum()))
    return total


@pytest.mark.parametrize("seed", range(4))
def test_mutual_information_is_that_of_smoothed_tables(seed: int) -> None:
    columns, table = random_table(seed)
    pairs = PairCounts.empty(columns).update(table)
    found = mutual_information(pairs)
    own = []
    for place, count in enumerate(columns.states):
        counts = np.bincount(table[table[:, place] >= 0, place], minlength=count) + 0.5
        own.append(counts / counts.sum())
    for i in range(len(columns.names)):
        for j in range(len(columns.names)):
            if i == j:
                continue
            counted = plain_table(columns, table, i, j, np.ones(len(table)))
            joint = (counted + np.outer(own[i], own[j])) / (counted.sum() + 1)
            assert found[i, j] == pytest.approx(plain_information(joint), abs=1e-12)
    assert np.diag(found) == pytest.approx([-(p * np.log(p)).sum() for p in own])


@pytest.mark.parametrize("measure", [mutual_information, correlation_distances])
def test_where_columns_stand_changes_no_bit(measure: object) -> None:
    columns, table = random_table(3, rows=200)
    order = np.random.default_rng(0).permutation(len(columns.names))
    moved = Columns(tuple(columns.names[k] for k in order), tuple(columns.states[k] for k in order))
    one = measure(PairCounts.empty(columns).update(table))  # type: ignore[operator]
    other = measure(PairCounts.empty(moved).update(table[:, order]))  # type: ignore[operator]
    assert (other == one[np.ix_(order, order)]).all()
    assert (one == one.T).all()


def test_columns_that_never_occur_together_have_no_information() -> None:
    table = np.array([[0, -1, 0], [1, -1, 1], [-1, 0, 0], [-1, 1, 1]] * 5)
    information = mutual_information(PairCounts.empty(Columns(("a", "b", "c"), (2, 2, 2))).update(table))
    assert information[0, 1] == pytest.approx(0, abs=1e-15)
    assert information[0, 2] > 0.3


def random_joints(seed: int, tables: int, shape: tuple[int, int]) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(shape[0] * shape[1]), tables).T.reshape(*shape, tables)


def test_distances_are_of_canonical_correlations() -> None:
    joints = random_joints(0, 5, (3, 4))
    for joint, root, product in zip(
        np.moveaxis(joints, 2, 0), distances_of(joints), distances_of(joints, 3), strict=True
    ):
        scaled = joint / np.sqrt(np.outer(joint.sum(1), joint.sum(0)))
        correlations = np.linalg.svd(scaled, compute_uv=False)
        assert correlations[0] == pytest.approx(1)
        assert root == pytest.approx(-np.log(np.sqrt((correlations[1:] ** 2).sum())))
        assert product == pytest.approx(-np.log(correlations[1] * correlations[2]))
    two = random_joints(1, 5, (2, 2))
    assert distances_of(two) == pytest.approx(distances_of(two, 2))
    independent = np.outer([0.2, 0.8], [0.5, 0.5])[:, :, None]
    assert np.isfinite(distances_of(independent)).all()
    assert information_of(independent) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("hidden_states", [2, 3])
def test_distances_add_up_along_paths(hidden_states: int) -> None:
    """Of four columns below two linked hidden variables, two by two, with more states than these have."""
    random = np.random.default_rng(hidden_states)
    hidden = random.dirichlet(np.ones(hidden_states))
    below = [random.dirichlet(np.ones(hidden_states + 1), hidden_states) for _ in range(4)]
    between = random.dirichlet(np.ones(hidden_states), hidden_states)
    joint = hidden[:, None] * between

    def distance(one: int, other: int) -> float:
        sides = (np.diag(hidden), joint, joint, np.diag(hidden @ between))
        middle = sides[(one >= 2) + 2 * (other >= 2)]
        return float(distances_of((below[one].T @ middle @ below[other])[:, :, None], hidden_states)[0])

    assert distance(0, 2) + distance(1, 3) == pytest.approx(distance(0, 3) + distance(1, 2))
    assert distance(0, 2) + distance(1, 3) > distance(0, 1) + distance(2, 3)


def test_what_is_left_over_cannot_be_negative() -> None:
    zeros, ones = (
        et.PairCounts.of(np.full((count, 2), cell), categories=[0, 1]) for count, cell in ((10, 0), (3, 1))
    )
    with pytest.raises(et.DataError, match="some of them were never added"):
        zeros - ones
    arrays = arrays_of(et.PairCounts.of(np.array([[0, 1], [1, 0]] * 25)))
    with pytest.raises(et.FileError, match="are no pair counts"):
        of_arrays(et.PairCounts, arrays | {"matrix": np.where(arrays["matrix"] == 0, 50, arrays["matrix"])})


@pytest.mark.parametrize("weights", [None, 0.5])
def test_counts_in_files_are_what_they_were(weights: float | None, tmp_path: Path) -> None:
    _, table = random_table(4)
    labels = np.array([f"s{place}" for place in range(13)], object)
    words = np.where(table >= 0, labels[table], None)
    weighted = None if weights is None else np.full(len(table), weights)
    found = PairCounts.of(words, weighted, numeric="quantiles")
    found.save(tmp_path / "pairs")
    for again in (PairCounts.load(tmp_path / "pairs"), et.load(str(tmp_path / "pairs"))):
        assert_same(again, found)
        assert (again.matrix.dtype, type(again.rows)) == (found.matrix.dtype, type(found.rows))
        assert_same(again + found, found + found)


def test_a_file_that_holds_no_pair_counts_is_refused(tmp_path: Path) -> None:
    et.LatentNetwork.random(et.zoo.mixture(3, 2, 2), seed=0).save(tmp_path / "network")
    with pytest.raises(et.FileError, match=r"it holds a LatentNetwork, not pair counts; eigentree\.load loads it"):
        PairCounts.load(tmp_path / "network")
    found = PairCounts.of(random_table(1)[1])
    crooked = found.matrix.copy()
    crooked[0, 1] += 1
    replace(found, matrix=crooked).save(tmp_path / "crooked")
    with pytest.raises(et.FileError, match="no pair counts"):
        PairCounts.load(tmp_path / "crooked")
