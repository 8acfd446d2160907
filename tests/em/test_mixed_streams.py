"""EM on rows with numbers that are not in memory: every split gives the same bits, which are those in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.counting.structure_and_schema import resolved
from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.em.mixed.mixed_fit import mixed_layout
from eigentree.em.mixed.mixed_init import MixedInit
from eigentree.em.mixed.mixed_objective import MixedObjective, NumberObjective
from eigentree.em.mixed.number_columns import NumberColumns
from eigentree.em.out_of_core.number_rows import DiskNumbers, NumberRows
from eigentree.em.out_of_core.number_workers import ClusterNumbers
from eigentree.em.out_of_core.parted_rows import sampled_numbers
from eigentree.estimators.fits.number_fits import number_rows

SLOW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FAMILIES = {("a", "b"): "full", ("c",): "gaussian"}
PLAIN = {"max_iter": 8, "tol": 0.0, "stopping": "paper", "pseudo_counts": 0.5, "random_state": 0, "n_init": 1}


def drawn(rows: int, seed: int = 0, holes: float = 0.1) -> pd.DataFrame:
    """Rows of three numbers, one rounded, and two categories, in three classes; some cells are missing."""
    random = np.random.default_rng(seed)
    which = random.choice(3, rows, p=[0.5, 0.3, 0.2])
    numbers = random.normal(size=(rows, 3)) + np.array([[0.0, 0.0, 1.0], [3.0, 1.0, 0.0], [-2.0, 4.0, 5.0]])[which]
    numbers[:, 2] = numbers[:, 2].round(1)
    numbers[random.random(numbers.shape) < holes] = np.nan
    colour = np.array(["red", "green", "blue"])[(which + (random.random(rows) < 0.2)) % 3].astype(object)
    colour[random.random(rows) < holes] = None
    size = np.where(random.random(rows) < np.array([0.2, 0.5, 0.9])[which], "large", "small")
    return pd.DataFrame({**dict(zip("abc", numbers.T, strict=True)), "colour": colour, "size": size})


TABLE = drawn(2_000)
OPTIONS = ReadOptions(numeric="emissions")
COLUMNS = Columns.learned(TABLE, OPTIONS)
NUMBERS = NumberColumns.of(COLUMNS, FAMILIES)


def tree() -> et.LatentGraph:
    """A tree in which two blocks of numbers have different parents."""
    states = dict(zip(COLUMNS.names, COLUMNS.states, strict=True))
    edges = [("h", "g"), ("h", "a"), ("h", "b"), ("g", "c"), ("g", "colour"), ("h", "size")]
    return et.LatentGraph({"h": 3, "g": 2, **states}, edges, ["h", "g"])


@dataclass(frozen=True, eq=False)
class Cut(Encoded):
    """The rows of a table in parts that end at some places."""

    columns: Columns
    table: pd.DataFrame
    weights: np.ndarray | None
    cuts: list[int]

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        rows = Rows.of(self.table, self.columns)
        for start, stop in pairwise(ends(rows.count, self.cuts)):
            own = None if self.weights is None else self.weights[start:stop]
            yield rows.encode(start, stop), rows.values(start, stop), own


def ends(count: int, cuts: list[int]) -> list[int]:
    return sorted({0, count, *(cut % (count + 1) for cut in cuts)})


def short_stretches(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr("eigentree.em.mixed.mixed_rows.STRETCH", size)
    patch.setattr("eigentree.em.mixed.mixed_objective.STRETCH", size)


def near_and_start(table: pd.DataFrame, weights: np.ndarray | None) -> tuple[MixedObjective, np.ndarray]:
    """The objective of a table in memory, and parameters of it."""
    rows = NUMBERS.read(table, weights)
    graph = NUMBERS.graph(tree())
    layout = mixed_layout(graph, FAMILIES, NUMBERS.names, rows)
    near = MixedObjective.of(layout, NUMBERS.names, rows, NUMBERS.missing(rows), 0.5)
    start = MixedInit(near, rows, NUMBERS.names).candidate("random", np.random.default_rng(3)).make()
    return near, start


def far_objective(rows: NumberRows, near: MixedObjective, threads: int = 1) -> NumberObjective:
    return rows.objective(near.layout, NUMBERS.names, rows.with_missing(), 0.5, threads=threads)


def same_bits(far: NumberObjective, near: NumberObjective, parameters: np.ndarray, steps: int = 2) -> None:
    for _ in range(steps):
        one, other = near.evaluated(parameters), far.evaluated(parameters)
        assert other.objective == one.objective
        assert (other.update == one.update).all()
        assert (other.totals == one.totals).all()
        parameters = one.update


@SLOW
@given(st.integers(1, 200), st.lists(st.integers(0, 200), max_size=5), st.integers(1, 80), st.booleans())
def test_every_split_on_disk_steps_as_rows_in_memory(
    count: int, cuts: list[int], stretch: int, weighted: bool
) -> None:
    table = TABLE[:count]
    weights = np.random.default_rng(count).integers(0, 3, count).astype(float) if weighted else None
    if weights is not None:
        weights[0] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        short_stretches(patch, stretch)
        near, start = near_and_start(table, weights)
        far = DiskNumbers(NUMBERS, Cut(COLUMNS, table, weights, cuts))
        assert far.count == (count if weights is None else int((weights > 0).sum()))
        assert far.weight == near.weight
        assert far.with_missing() == NUMBERS.missing(NUMBERS.read(table, weights))
        same_bits(far_objective(far, near), near, start)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    short_stretches(monkeypatch, 300)
    near, start = near_and_start(TABLE, None)
    for threads, cuts in ((1, [3, 1_500]), (2, []), (3, [17, 250])):
        same_bits(
            far_objective(DiskNumbers(NUMBERS, Cut(COLUMNS, TABLE, None, cuts)), near, threads), near, start, 1
        )
    far = far_objective(DiskNumbers(NUMBERS, Cut(COLUMNS, TABLE, None, [])), near, 2)
    assert_allclose(far.log_likelihood(start), near.log_likelihood(start), rtol=1e-14)


@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 30), st.integers(0, 2**32))
def test_rows_are_taken_by_number_whatever_the_parts(count: int, cuts: list[int], size: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        short_stretches(patch, 7)
        far = DiskNumbers(NUMBERS, Cut(COLUMNS, TABLE[:count], None, cuts))
        places = sampled_numbers(count, size, np.random.default_rng(seed))
        whole, taken = NUMBERS.read(TABLE[:count], None), far.taken(places)
        assert (taken.codes == whole.codes[places]).all()
        assert np.array_equal(taken.values, whole.values[places], equal_nan=True)
        assert (taken.first == places).all()


def test_the_objective_of_some_rows_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    short_stretches(monkeypatch, 64)
    near, start = near_and_start(TABLE, None)
    places = np.arange(3, 1_900, 5)
    whole = NUMBERS.read(TABLE, None)
    own = MixedObjective.of(near.layout, NUMBERS.names, whole.taken(places), NUMBERS.missing(whole), 0.5)
    for rows in (DiskNumbers(NUMBERS, Cut(COLUMNS, TABLE, None, [100])), in_partitions([700, 0, 650])):
        found = rows.objective(near.layout, NUMBERS.names, NUMBERS.missing(whole), 0.5, places)
        assert found.weight == len(places)
        assert_allclose(found.evaluated(start).objective, own.evaluated(start).objective, rtol=1e-12)


def in_partitions(sizes: list[int], weights: np.ndarray | None = None) -> ClusterNumbers:
    table = TABLE if weights is None else TABLE.assign(times=weights)
    bounds = np.cumsum([0, *sizes, len(table) - sum(sizes)])
    parts = [dask.delayed(table[start:stop]) for start, stop in pairwise(bounds)]
    frame = dd.from_delayed(parts, meta=table[:0], verify_meta=False)
    options = ReadOptions(numeric="emissions", sample_weight=None if weights is None else "times")
    _, columns, rows = resolved(et.zoo.Mixture(2), frame, options)
    assert columns == COLUMNS
    found = number_rows(NUMBERS, rows)
    assert isinstance(found, ClusterNumbers)
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_partitions_step_as_rows_in_memory(weighted: bool) -> None:
    weights = np.random.default_rng(1).integers(0, 3, len(TABLE)) if weighted else None
    near, start = near_and_start(TABLE, weights)
    for sizes in ([], [700, 0, 650], [1] * 20):
        rows = in_partitions(sizes, weights)
        far = far_objective(rows, near)
        assert rows.weight == far.weight == near.weight
        one, other = near.evaluated(start), far.evaluated(start)
        assert_allclose(other.objective, one.objective, rtol=1e-12)
        assert_allclose(other.update, one.update, rtol=1e-10, atol=1e-13)
        assert far.evaluated(start).objective == other.objective
        places = sampled_numbers(rows.count, 40, np.random.default_rng(0))
        assert (rows.taken(places).first == NUMBERS.read(TABLE, weights).first[places]).all()


def test_an_impossible_row_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    short_stretches(monkeypatch, 50)
    table = TABLE.assign(colour="red")
    table.loc[0, "colour"] = "green"
    table.loc[[1_234, 1_700], "colour"] = "blue"
    weights = np.ones(len(table), int)
    weights[:100] = 0
    near, start = near_and_start(table, weights)
    tables, emissions = near.layout.split(start)
    named = dict(near.layout.tables.tables(tables))
    named[("colour",)] = np.tile([0.0, 0.5, 0.5], (2, 1))
    start = near.layout.joined(np.concatenate([named[key].ravel() for key in near.layout.tables.axes]), emissions)
    disk = DiskNumbers(NUMBERS, Cut(COLUMNS, table, weights, [777]))
    monkeypatch.setitem(globals(), "TABLE", table)
    for far in (near, far_objective(disk, near), far_objective(in_partitions([600, 600], weights), near)):
        found = far.evaluated(start)
        assert found.impossible == 1_234
        assert found.objective == -np.inf


def batches(size: int) -> Callable[[], Iterator[pd.DataFrame]]:
    return lambda: iter([TABLE[start : start + size] for start in range(0, len(TABLE), size)])


def same_fit(one: et.EMJunctionTree, other: et.EMJunctionTree) -> None:
    assert one.history_.tolist() == other.history_.tolist()
    assert (one.score_samples(TABLE) == other.score_samples(TABLE)).all()
    assert one.finish_rows_ == other.finish_rows_


def small_memory(patch: pytest.MonkeyPatch, rows: int = 500, finish_rows: int = 1_200) -> None:
    patch.setattr("eigentree.estimators.fits.memory_sample.MEMORY_ROWS", rows)
    patch.setattr("eigentree.estimators.fits.memory_sample.ROWS_PER_PARAMETER", 1)
    patch.setattr("eigentree.estimators.fits.memory_sample.FINISH_ROWS", finish_rows)
    patch.setattr("eigentree.estimators.fits.memory_sample.FINISH_ROWS_PER_PARAMETER", 1)
    short_stretches(patch, 300)


def test_rows_that_fit_into_memory_are_learned_as_if_they_were_there(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    TABLE.to_parquet(tmp_path / "rows.parquet")
    for more in ({}, {"validation_fraction": 0.2}, {"finish_rows": 700}):
        near = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, **more).fit(TABLE)
        assert near.finish_rows_ == more.get("finish_rows", 2_000)
        for stream in (tmp_path / "rows.csv", tmp_path / "rows.parquet", batches(333)(), batches(100)):
            same_fit(et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, **more).fit(stream), near)
    frame = dd.from_pandas(TABLE, npartitions=3)
    same_fit(et.LatentClassModel(2, random_state=0).fit(frame), et.LatentClassModel(2, random_state=0).fit(TABLE))


def test_a_fit_ends_on_all_rows_whatever_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_memory(monkeypatch)
    model = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, finish_rows=None)
    first = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, finish_rows=None).fit(batches(111)())
    assert first.finish_rows_ == 2_000
    assert (np.diff(first.history_) >= 0).all()
    for size in (2_000, 777):
        same_fit(model.fit(batches(size)), first)
    same_fit(et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, finish_rows=None, n_jobs=2).fit(batches(500)), first)
    far = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, finish_rows=None).fit(dd.from_pandas(TABLE, npartitions=4))
    assert_allclose(far.history_, first.history_, rtol=1e-12)
    # The last run is on the log-likelihood of all rows, as the network has it.
    free = {"init": first.network_, "max_iter": 1, "tol": 0.0, "stopping": "paper", "pseudo_counts": 0.0}
    gaussian = {"emissions": {name: {"family": "gaussian", "prior_rows": 0.0} for name in "abc"}}
    again = et.EMJunctionTree(first.graph_, **free, **gaussian, finish_rows=None, random_state=0).fit(batches(99))
    assert_allclose(again.history_[0], first.score_samples(TABLE).sum(), rtol=1e-9)


def test_a_sample_is_said_and_can_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    small_memory(monkeypatch)
    usual = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN)
    with pytest.warns(UserWarning, match=r"sample of 1,200 of the 2,000 rows.*None takes all"):
        usual.fit(batches(400))
    meant = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, finish_rows=1_200).fit(batches(150))
    same_fit(meant, usual)
    with pytest.raises(et.errors.ParameterError, match="validation= rows of their own, or finish_rows up to 500"):
        et.EMJunctionTree(et.zoo.Mixture(3), finish_rows=None, validation_fraction=0.1).fit(batches(150))
    held = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, finish_rows=None).fit(batches(150), validation=TABLE[:200])
    assert len(held.validation_history_) == len(held.history_)


def test_weights_are_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = np.random.default_rng(0).integers(0, 4, len(TABLE))
    TABLE.assign(times=times).to_csv(tmp_path / "rows.csv", index=False)
    near = et.EMJunctionTree(et.zoo.Mixture(2), **PLAIN).fit(TABLE, sample_weight=times)
    far = et.EMJunctionTree(et.zoo.Mixture(2), **PLAIN).fit(tmp_path / "rows.csv", sample_weight="times")
    assert far.history_.tolist() == near.history_.tolist()
    small_memory(monkeypatch)
    model = et.EMJunctionTree(et.zoo.Mixture(2), **PLAIN, finish_rows=None)
    model.fit(tmp_path / "rows.csv", sample_weight="times")
    assert model.finish_rows_ == (times > 0).sum()
    assert_allclose(model.history_[-1] / times.sum(), near.history_[-1] / times.sum(), atol=0.1)


def test_ordered_labels_are_numbers_of_a_stream_too(tmp_path: Path) -> None:
    grades = TABLE.assign(grade=pd.cut(TABLE["a"].fillna(0.0), 5, labels=False) + 1)
    grades.to_csv(tmp_path / "rows.csv", index=False)
    model = et.EMJunctionTree(et.zoo.Mixture(2), **PLAIN, emissions={"grade": "ordinal"})
    near = et.EMJunctionTree(et.zoo.Mixture(2), **PLAIN, emissions={"grade": "ordinal"}).fit(grades)
    assert model.fit(tmp_path / "rows.csv").history_.tolist() == near.history_.tolist()


def test_designs_are_compared_on_rows_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ["a", "c", "size"]
    few = [TABLE[columns][start : start + 30] for start in range(0, 120, 30)]
    near = et.EMJunctionTree("auto", random_state=0).fit(TABLE[columns][:120])
    far = et.EMJunctionTree("auto", random_state=0).fit(iter(few))
    assert (far.score_samples(TABLE[columns]) == near.score_samples(TABLE[columns])).all()
    assert far.finish_rows_ == 120
    small_memory(monkeypatch, 80)
    with pytest.warns(UserWarning, match="structure and emissions are tried on a sample of 80 of the 120 rows"):
        assert et.EMJunctionTree("auto", random_state=0).fit(iter(few)).finish_rows_ == 80
    with pytest.raises(et.errors.ParameterError, match="120 are too many"):
        et.EMJunctionTree("auto", random_state=0, finish_rows=None).fit(iter(few))


def test_a_tree_of_a_stream_is_that_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    near = et.EMJunctionTree(et.zoo.HiddenChowLiu(2), **PLAIN).fit(TABLE)
    assert et.EMJunctionTree(et.zoo.HiddenChowLiu(2), **PLAIN).fit(batches(300)).graph_ == near.graph_
    # Of many rows every third decides, whatever the batches.
    monkeypatch.setattr("eigentree.counting.pair_counts.MOST_CELLS", 5 * 700)
    third = et.EMJunctionTree(et.zoo.HiddenChowLiu(2), **PLAIN).fit(TABLE[::3])
    for size in (70, 401):
        assert et.EMJunctionTree(et.zoo.HiddenChowLiu(2), **PLAIN).fit(batches(size)).graph_ == third.graph_


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self) -> None: ...

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    with pytest.raises(et.errors.FileError, match=r"rows of numbers .*No space left on device.*TMPDIR"):
        DiskNumbers(NUMBERS, Cut(COLUMNS, TABLE, None, []))


@pytest.fixture(scope="module")
def model() -> et.EMJunctionTree:
    return et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN).fit(TABLE)


def test_streams_are_scored_and_filled_as_rows_in_memory(model: et.EMJunctionTree, tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    TABLE.to_parquet(tmp_path / "rows.parquet")
    scores = model.score_samples(TABLE)
    # A batch is given other lines than all rows together.
    assert_allclose(model.score_samples(batches(99)()), scores, rtol=1e-12)
    assert model.score_samples_to(tmp_path / "rows.csv", tmp_path / "scores.csv") == len(TABLE)
    assert_allclose(pd.read_csv(tmp_path / "scores.csv")["log_probability"], scores, rtol=1e-12)
    model.predict_proba_to(tmp_path / "rows.parquet", tmp_path / "colour.parquet", "colour")
    found = pd.read_parquet(tmp_path / "colour.parquet")
    red = np.asarray(model.predict_proba(TABLE, "colour"))[:, COLUMNS.labels("colour").index("red")]
    assert_allclose(found["P(colour=red)"], red, rtol=1e-9)
    for method in ("mode", "median"):
        filled = model.impute(TABLE, method)
        model.impute_to(tmp_path / "rows.parquet", tmp_path / "filled.parquet", method)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "filled.parquet"), filled, check_dtype=False)
        model.impute_to(tmp_path / "rows.csv", tmp_path / "filled.csv", method)
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "filled.csv"), filled, check_dtype=False)
    with pytest.raises(et.DataError, match=r"numbers are predicted of rows in memory.*impute_to"):
        model.predict(tmp_path / "rows.csv", "a")


def test_dask_frames_are_answered_as_rows_in_memory(model: et.EMJunctionTree) -> None:
    whole = TABLE.assign(n=pd.array(np.arange(len(TABLE)) % 50, "Int64"))
    whole.loc[::7, "n"] = pd.NA
    counted = et.EMJunctionTree(et.zoo.Mixture(3), **PLAIN, emissions={"n": "poisson"}).fit(whole)
    for found, table in ((model, TABLE), (counted, whole)):
        frame = dd.from_pandas(table, npartitions=3)
        assert_allclose(found.score_samples(frame).compute(), found.score_samples(table), rtol=1e-12)
        assert_allclose(found.score(frame), found.score(table), rtol=1e-12)
        pd.testing.assert_frame_equal(found.impute(frame).compute(), found.impute(table), check_dtype=False)
        kinds = found.impute(frame).compute().dtypes
        assert (kinds[list("abc")] == table.dtypes[list("abc")]).all()
        mean = found.predict(frame, "a")
        assert (mean.name, mean.dtype) == ("a", np.float64)
        assert_allclose(mean.compute(), found.predict(table, "a"), rtol=1e-9)
        low = found.predict_quantiles(frame.drop(columns="b"), "b", (0.1, 0.9)).compute()
        assert_allclose(low, found.predict_quantiles(table.drop(columns="b"), "b", (0.1, 0.9)), rtol=1e-9)
        assert low.columns.tolist() == [0.1, 0.9]
        assert (found.predict(frame, "colour").compute() == found.predict(table, "colour")).all()
    rows = counted.sample(30, random_state=0, partitions=4)
    assert rows.compute().dtypes["n"] == rows.dtypes["n"] == np.int64
    again = counted.sample(30, random_state=0, partitions=4).compute()
    pd.testing.assert_frame_equal(rows.compute(), again)
    assert (counted.sample(30, 0, {"a": 1.5}, partitions=2).compute()["a"] == 1.5).all()


def test_what_counts_says_that_numbers_cannot_be_counted(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    structure = et.zoo.Mixture(2)
    for X in (TABLE, tmp_path / "rows.csv"):
        asked: list[Callable[..., Any]] = [
            lambda X, **how: et.OnlineEMJunctionTree(structure, **how).fit(X),
            lambda X, **how: et.PairCounts.of(X, **how),
        ]
        for ask in asked:
            with pytest.raises(et.DataError, match="column 'a' looks continuous"):
                ask(X)
            with pytest.raises(et.DataError, match=r"'a', 'b', 'c' of numbers cannot be counted.*'quantiles'"):
                ask(X, numeric="emissions")


def test_a_table_may_have_many_numbers() -> None:
    X = np.random.default_rng(0).normal(size=(80, 40))
    model = et.EMJunctionTree(et.zoo.Mixture(2), **PLAIN).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
