"""Rows in partitions of a cluster of real processes: what is learned is bit-identical."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from clusters import cluster_of_processes, dies, dies_once, slow
from counted_arrays import arrays_of

import eigentree as et

STRUCTURE = et.zoo.Mixture(hidden_states=3)

OTHER_SCHEDULERS = pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler:UserWarning")
"""Of tests that compare a cluster's results with those of this process, which earlier versions of Dask warn of."""


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster_of_processes() as found:
        yield found


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    votes, party = et.datasets.load_votes(return_X_y=True, as_frame=True)
    # As files and engines hold them: text, whose labels nobody has declared.
    return votes.assign(party=party).astype(object).where(lambda cells: cells.notna(), None)


def same(one: et.Statistics, two: et.Statistics) -> None:
    """Check that statistics are bit-identical."""
    here, there = arrays_of(one), arrays_of(two)
    # What the rows came in is known from the array of columns too, and may differ.
    assert one.columns == two.columns
    del here["columns"], there["columns"]
    assert here.keys() == there.keys()
    for name, array in here.items():
        assert array.dtype == there[name].dtype, name
        np.testing.assert_array_equal(array, there[name], err_msg=name)


def changed(frame: Any, change: Any) -> Any:
    """A Dask DataFrame whose partitions are changed by a function of the partition and its number."""
    parts = [dask.delayed(change)(part, number) for number, part in enumerate(frame.to_delayed())]
    return dd.from_delayed(parts, meta=frame._meta, verify_meta=False)


@pytest.mark.parametrize("partitions", [1, 9])
def test_partitions_in_threads_count_as_one_table(table: pd.DataFrame, partitions: int) -> None:
    frame = dd.from_pandas(table, npartitions=partitions)
    same(et.Statistics.of(frame, STRUCTURE), et.Statistics.of(table, STRUCTURE))


def test_processes_learn_the_same_model(client: Any, table: pd.DataFrame) -> None:
    frame = dd.from_pandas(table, npartitions=11)
    spread = et.SpectralJunctionTree(STRUCTURE).fit(frame)
    here = et.SpectralJunctionTree(STRUCTURE).fit(table)
    same(spread.statistics_, here.statistics_)
    np.testing.assert_array_equal(spread.score_samples(table), here.score_samples(table))
    assert spread.columns_ == here.columns_


def test_files_are_partitions(client: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    for number in range(4):
        table[number * 100 : (number + 1) * 100].to_parquet(tmp_path / f"{number}.parquet")
    spread = et.Statistics.of(et.Partitions.of(tmp_path, client), STRUCTURE)
    same(spread, et.Statistics.of(table[:400], STRUCTURE))


def test_more_rows_are_added_to_what_was_counted(client: Any, table: pd.DataFrame) -> None:
    begun = et.Statistics.of(table, STRUCTURE)
    same(begun.update(dd.from_pandas(table[:50], npartitions=3)), begun.update(table[:50]))


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    client: Any, table: pd.DataFrame, tmp_path: Path
) -> None:
    flag = str(tmp_path / "killed")
    frame = changed(dd.from_pandas(table, npartitions=8), lambda part, number: dies_once(part, flag, number, 5))
    same(et.Statistics.of(frame, STRUCTURE), et.Statistics.of(table, STRUCTURE))
    assert Path(flag).exists()


def test_structures_are_learned_from_partitions(client: Any, table: pd.DataFrame) -> None:
    frame = dd.from_pandas(table, npartitions=5)
    np.testing.assert_array_equal(et.PairCounts.of(frame).matrix, et.PairCounts.of(table).matrix)
    assert et.learn_structure(frame, hidden_states=2) == et.learn_structure(table, hidden_states=2)


def test_weights_are_a_column(client: Any, table: pd.DataFrame) -> None:
    weights = np.arange(len(table)) % 3
    frame = dd.from_pandas(table.assign(often=weights), npartitions=4)
    same(
        et.Statistics.of(frame, STRUCTURE, sample_weight="often"),
        et.Statistics.of(table, STRUCTURE, sample_weight=weights),
    )


def test_what_travels_is_small(table: pd.DataFrame) -> None:
    many = pd.concat([table] * 20, ignore_index=True)
    sizes = [len(pickle.dumps(et.Statistics.of(rows, STRUCTURE))) for rows in (table, many)]
    assert sizes[1] < 1.1 * sizes[0] < 4_000_000


def test_labels_of_one_partition_count(client: Any, table: pd.DataFrame) -> None:
    odd = table.copy()
    odd.loc[420:, "crime"] = "abstained"
    frame = dd.from_pandas(odd, npartitions=6)
    same(et.Statistics.of(frame, STRUCTURE), et.Statistics.of(odd, STRUCTURE))
    known = {"crime": ["n", "y"]}
    with pytest.raises(et.DataError, match=r"^partition 5: row \d+, column 'crime' holds 'abstained'"):
        et.Statistics.of(frame, STRUCTURE, categories=known)
    lenient = et.Statistics.of(frame, STRUCTURE, categories=known, handle_unknown="missing")
    same(lenient, et.Statistics.of(odd, STRUCTURE, categories=known, handle_unknown="missing"))


def test_a_column_that_one_partition_lacks_is_named(client: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    frame = dd.from_pandas(table, npartitions=4)
    broken = changed(frame, lambda part, number: part.drop(columns="crime") if number == 2 else part)
    with pytest.raises(et.DataError, match=r"^partition 2 has no column 'crime'"):
        et.Statistics.of(broken, STRUCTURE)
    table[:50].to_parquet(tmp_path / "a.parquet")
    table[50:90].drop(columns="crime").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(et.DataError, match=r"b\.parquet.* has no column 'crime'"):
        et.Partitions.of(tmp_path, client)


def test_a_file_that_is_cut_short_is_named(client: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    for name in "ab":
        table.to_parquet(tmp_path / f"{name}.parquet")
    partitions = et.Partitions.of(tmp_path, client)
    whole = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(et.FileError, match=r"b\.parquet' cannot be read; it may have been cut short"):
        et.Statistics.of(partitions, STRUCTURE)
    with pytest.raises(et.FileError, match=r"b\.parquet' cannot be read; it may have been cut short"):
        et.Partitions.of(tmp_path, client)


def test_results_are_lazy_frames(client: Any, table: pd.DataFrame) -> None:
    frame = dd.from_pandas(table, npartitions=4)
    model = et.EMJunctionTree(STRUCTURE, init="random", max_iter=3, random_state=0).fit(table)
    scores, filled = model.score_samples(frame), model.impute(frame)
    predicted, hidden = model.predict_proba(frame, target="party"), model.predict_proba(frame, target="h")
    assert [answer.npartitions for answer in (scores, filled, predicted, hidden)] == [4] * 4
    np.testing.assert_array_equal(scores.compute(), model.score_samples(table))
    assert model.score(frame) == pytest.approx(model.score(table), abs=1e-12)
    pd.testing.assert_frame_equal(filled.compute(), model.impute(table), check_dtype=False)
    np.testing.assert_array_equal(predicted.compute(), model.predict_proba(table, target="party"))
    np.testing.assert_array_equal(hidden.compute(), model.predict_proba(table, target="h"))
    assert predicted.compute().columns.tolist() == ["democrat", "republican"]


@OTHER_SCHEDULERS
def test_samples_come_in_partitions(client: Any, table: pd.DataFrame) -> None:
    model = et.SpectralJunctionTree(STRUCTURE).fit(table)
    drawn = model.sample(10_001, seed=3, partitions=4)
    assert drawn.npartitions == 4
    rows = drawn.compute()
    assert rows.index.tolist() == list(range(10_001))
    pd.testing.assert_frame_equal(rows, model.sample(10_001, seed=3, partitions=4).compute(scheduler="synchronous"))
    # Partitions are not copies of each other, and have the model's own shares.
    assert not rows[:2500].reset_index(drop=True).equals(rows[2500:5000].reset_index(drop=True))
    expected = float(model.joint(["party"])[0])
    assert abs((rows["party"] == "democrat").mean() - expected) < 0.02
    with pytest.raises(et.DataError, match="3 rows cannot be sampled in 4 partitions"):
        model.sample(3, partitions=4)
    with pytest.raises(et.ParameterError, match="partitions is a whole number of at most"):
        model.sample(10**12, partitions=2**31)


@OTHER_SCHEDULERS
def test_imputation_by_samples_is_reproducible(table: pd.DataFrame) -> None:
    model = et.SpectralJunctionTree(STRUCTURE).fit(table)
    filled = model.impute(dd.from_pandas(table, npartitions=4), method="sample", seed=1)
    once, twice = filled.compute(scheduler="synchronous"), filled.compute(scheduler="threads")
    pd.testing.assert_frame_equal(once, twice)
    assert not once.isna().any(axis=None)


def test_what_is_no_partitioned_table_is_reported() -> None:
    with pytest.raises(et.DataError, match="those of a Dask DataFrame, or files, not of"):
        et.Partitions.of([[0, 1]])
    with pytest.raises(et.DataError, match=r"a client is a distributed\.Client, not 3"):
        et.Partitions.of("rows", client=3)


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_a_client_that_is_closed_is_reported(client: Any, table: pd.DataFrame, late: float) -> None:
    frame = dd.from_pandas(table, npartitions=4).map_partitions(slow, late, meta=table[:0])
    other = distributed.Client(client.cluster, set_as_default=False)
    partitions = et.Partitions.of(frame, other)
    closing = threading.Timer(late, other.close)
    closing.start()
    closing.join(0 if late else None)
    with pytest.raises(et.DataError, match="the client of the cluster was closed; make another, and call again"):
        et.Statistics.of(partitions, STRUCTURE)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda part: part.to_numpy(), "partition 1 failed: AttributeError"),
        (lambda part: part.assign(party="none"), "partition 1: row 0, column 'party' holds 'none'"),
        (lambda part: part.astype(object).assign(party=1.5), "partition 1: row 0, column 'party' holds 1.5"),
    ],
)
def test_a_partition_of_another_kind_is_named(table: pd.DataFrame, spoil: Any, message: str) -> None:
    model = et.SpectralJunctionTree(STRUCTURE).fit(table)
    half = len(table) // 2
    parts = [dask.delayed(table[:half]), dask.delayed(spoil)(table[half:])]
    frame = dd.from_delayed(parts, meta=table[:0], verify_meta=False)
    with pytest.raises(et.DataError, match=message):
        model.score(frame)


@pytest.mark.parametrize("kind", ["category", "string"])
def test_the_type_of_one_partition_does_not_count(table: pd.DataFrame, kind: str) -> None:
    half = len(table) // 2
    parts = [
        dask.delayed(table[:half]),
        dask.delayed(table[:0].astype(object)),
        dask.delayed(table[half:].astype(kind)),
    ]
    frame = dd.from_delayed(parts, meta=table[:0], verify_meta=False)
    same(et.Statistics.of(frame, STRUCTURE), et.Statistics.of(table, STRUCTURE))


# The last tests here take workers away.


def test_a_cluster_that_is_lost_is_reported(client: Any, table: pd.DataFrame) -> None:
    frame = dd.from_pandas(table, npartitions=4)
    client.cluster.scale(1)
    same(et.Statistics.of(frame, STRUCTURE), et.Statistics.of(table, STRUCTURE))
    client.cluster.scale(0)
    while client.scheduler_info()["workers"]:
        pass
    waiting = dask.config.set({"eigentree.longest-without-workers": 0.5})
    with waiting, pytest.raises(et.DataError, match="the cluster has had no worker for"):
        et.Statistics.of(frame, STRUCTURE)


def test_a_partition_that_ends_every_worker_is_reported(table: pd.DataFrame) -> None:
    with cluster_of_processes(workers=1, allowed_failures=0):
        frame = changed(dd.from_pandas(table, npartitions=2), lambda part, number: dies(part))
        with pytest.raises(et.DataError, match="a partition ended each worker that it was given to"):
            et.Statistics.of(frame, STRUCTURE)
