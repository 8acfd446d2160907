"""What is learned from streams is bit-identical to what is learned in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from counted_arrays import arrays_of
from hypothesis import given, settings
from hypothesis import strategies as st
from small_batches import read_in_small_batches

import eigentree as et
from eigentree.data.streams.encoded_stream import KeptBatches, Spool, StreamedRows
from eigentree.data.streams.sources import stream_of
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows

GRAPH = et.zoo.hmm(length=6, hidden_states=2, observed_states=3)
STRUCTURE = et.zoo.HMM(hidden_states=2)


def rows_of(count: int = 700, seed: int = 1) -> pd.DataFrame:
    """Labels, numbers, truth values and missing cells, of a hidden Markov model."""
    random = np.random.default_rng(seed)
    codes = et.LatentNetwork.random(GRAPH, seed=0).sample(count, seed=seed)
    table = pd.DataFrame(codes, columns=[f"step {t}" for t in range(6)]).astype(object)
    table["step 0"] = [["low", "mid", "top"][code] for code in codes[:, 0]]
    table["step 1"] = [[2, 4, 8][code] for code in codes[:, 1]]
    table["step 2"] = codes[:, 2] > 0
    table["step 3"] = [None if random.random() < 0.1 else ["a", "b", "c"][code] for code in codes[:, 3]]
    table["weight"] = random.integers(0, 4, count)
    return table.infer_objects()


TABLE = rows_of()
X = TABLE.drop(columns="weight")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_small_batches(monkeypatch, 97, 3_000)


def parquet(path: Path, table: pd.DataFrame) -> Any:
    pa.parquet.write_table(pa.Table.from_pandas(table), path / "rows.parquet", row_group_size=260)
    return stream_of(path / "rows.parquet")


def csv(path: Path, table: pd.DataFrame) -> Any:
    table.to_csv(path / "rows.csv", index=False)
    return stream_of(str(path / "rows.csv"))


def folder(path: Path, table: pd.DataFrame) -> Any:
    for number, rows in enumerate(np.array_split(np.random.default_rng(0).permutation(len(table)), 4)):
        table.iloc[rows].to_parquet(path / f"part {number}.parquet")
    return stream_of(path)


def lazy(path: Path, table: pd.DataFrame) -> Any:
    return stream_of(pl.from_pandas(table).lazy())


def relation(path: Path, table: pd.DataFrame) -> Any:
    parquet(path, table)
    return stream_of(duckdb.read_parquet(str(path / "rows.parquet")))


def dataset(path: Path, table: pd.DataFrame) -> Any:
    folder(path, table)
    return stream_of(pa.dataset.dataset(path, format="parquet"))


def generator(path: Path, table: pd.DataFrame) -> Iterator[Any]:
    """Batches of any sizes and order, empty ones too."""
    random = np.random.default_rng(3)
    order = random.permutation(len(table))
    cuts = np.sort(random.integers(0, len(table), 9))
    return (table.iloc[part] for part in np.split(order, cuts))


def function(path: Path, table: pd.DataFrame) -> Any:
    return lambda: generator(path, table)


EVERY = [parquet, csv, folder, lazy, relation, dataset, generator, function]
every_stream = pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
Make = Callable[[Path, pd.DataFrame], Any]


def same(one: et.Statistics, two: et.Statistics) -> bool:
    here, there = arrays_of(one), arrays_of(two)
    # What held the rows is no part of what was counted.
    columns = one.columns == two.columns
    return (
        columns
        and sorted(here) == sorted(there)
        and all(np.array_equal(here[key], there[key]) for key in here if key != "columns")
    )


@every_stream
def test_statistics_of_a_stream_are_those_in_memory(make: Make, tmp_path: Path) -> None:
    expected = et.Statistics.of(X, STRUCTURE)
    assert same(et.Statistics.of(make(tmp_path, X), STRUCTURE), expected)
    weighted = et.Statistics.of(X, STRUCTURE, sample_weight=TABLE["weight"])
    assert same(et.Statistics.of(make(tmp_path, TABLE), STRUCTURE, sample_weight="weight"), weighted)


@every_stream
def test_models_of_a_stream_are_those_in_memory(make: Make, tmp_path: Path) -> None:
    model = et.SpectralJunctionTree(STRUCTURE).fit(X)
    streamed = et.SpectralJunctionTree(STRUCTURE).fit(make(tmp_path, X))
    np.testing.assert_array_equal(streamed.score_samples(X), model.score_samples(X))
    assert streamed.columns_ == model.columns_
    more = rows_of(seed=2).drop(columns="weight")
    (tmp_path / "more").mkdir()
    both = streamed.partial_fit(make(tmp_path / "more", more))
    assert same(both.statistics_, model.partial_fit(more).statistics_)
    np.testing.assert_array_equal(both.score_samples(X), model.score_samples(X))


@every_stream
def test_pair_counts_of_a_stream_are_those_in_memory(make: Make, tmp_path: Path) -> None:
    pairs, expected = et.PairCounts.of(make(tmp_path, X)), et.PairCounts.of(X)
    assert pairs.columns == expected.columns
    np.testing.assert_array_equal(pairs.matrix, expected.matrix)
    weighted = et.PairCounts.of(make(tmp_path, TABLE), "weight")
    np.testing.assert_array_equal(weighted.matrix, et.PairCounts.of(X, TABLE["weight"]).matrix)


@pytest.mark.parametrize(
    ("make", "structure"), [(csv, "auto"), (generator, "auto"), (lazy, et.zoo.HiddenChowLiu(2))]
)
def test_structures_of_a_stream_are_those_in_memory(make: Make, structure: Any, tmp_path: Path) -> None:
    assert et.learn_structure(make(tmp_path, X)).edges == et.learn_structure(X).edges
    model = et.SpectralJunctionTree(structure).fit(X)
    streamed = et.SpectralJunctionTree(structure).fit(make(tmp_path, X))
    assert streamed.graph_.edges == model.graph_.edges
    np.testing.assert_array_equal(streamed.score_samples(X), model.score_samples(X))


@every_stream
def test_only_the_columns_of_a_graph_are_read(make: Make, tmp_path: Path) -> None:
    codes = pd.DataFrame(et.LatentNetwork.random(GRAPH, seed=0).sample(500, seed=3), columns=GRAPH.observed)
    codes.iloc[::7, 2] = -1
    expected = et.Statistics.of(codes, GRAPH)
    wide = codes.assign(note=[f"{k}" for k in range(500)], other=0.5)[["note", *GRAPH.observed[::-1], "other"]]
    assert same(et.Statistics.of(make(tmp_path, wide), GRAPH), expected)


def test_batches_without_names_are_columns_by_position() -> None:
    codes = et.LatentNetwork.random(GRAPH, seed=0).sample(500, seed=3)
    expected = et.Statistics.of(codes, GRAPH)
    for structure in (GRAPH, STRUCTURE):
        assert same(et.Statistics.of((codes[k : k + 99] for k in range(0, 500, 99)), structure), expected)
    words = ["".join("ACG"[code] for code in row) for row in codes]
    assert same(
        et.Statistics.of((words[k : k + 99] for k in range(0, 500, 99)), STRUCTURE),
        et.Statistics.of(words, STRUCTURE),
    )


def test_numbers_are_cut_into_the_same_bins(tmp_path: Path) -> None:
    measured = X.assign(degrees=np.random.default_rng(0).normal(15, 8, len(X)).round(1))
    expected = et.Statistics.of(measured, STRUCTURE, numeric="quantiles")
    for make in EVERY:
        (tmp_path / make.__name__).mkdir()
        stream = make(tmp_path / make.__name__, measured)
        assert same(et.Statistics.of(stream, STRUCTURE, numeric="quantiles"), expected)


def test_files_that_are_counted_apart_add_up(tmp_path: Path) -> None:
    folder(tmp_path, X)
    labels = {name: et.SpectralJunctionTree(STRUCTURE).fit(X).columns_.labels(name) for name in X}
    parts = [
        et.Statistics.of(tmp_path / name, STRUCTURE, categories=labels) for name in sorted(os.listdir(tmp_path))
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    assert same(total, et.Statistics.of(X, STRUCTURE, categories=labels))


def test_a_label_that_is_not_given_is_reported_with_file_and_row(tmp_path: Path) -> None:
    folder(tmp_path, X)
    odd = pd.read_parquet(tmp_path / "part 2.parquet")
    odd.loc[odd.index[120], "step 0"] = "new"
    odd.to_parquet(tmp_path / "part 2.parquet")
    given = {"step 0": ["low", "mid", "top"]}
    message = (
        r"part 2.parquet': row 120, column 'step 0' holds 'new', but 'step 0' has the labels 'low', 'mid', 'top'"
    )
    with pytest.raises(et.DataError, match=message):
        et.Statistics.of(stream_of(tmp_path), STRUCTURE, categories=given)
    assert et.Statistics.of(tmp_path, STRUCTURE, categories=given, handle_unknown="missing").rows == len(X)
    with pytest.raises(et.DataError, match=r"batch 1: row 20, column 'step 0' holds 'new'"):
        et.Statistics.of((odd[k : k + 100] for k in range(0, len(odd), 100)), STRUCTURE, categories=given)
    codes = np.zeros((10, 6), np.int64)
    codes[7, 3] = 3
    with pytest.raises(et.DataError, match=r"batch 1: row 2, column 'x3' holds 3, but 'x3' has the codes 0 to 2"):
        et.Statistics.of(iter([codes[:5], codes[5:]]), GRAPH)


def test_weights_of_a_stream_are_a_column(tmp_path: Path) -> None:
    path = parquet(tmp_path, TABLE)
    with pytest.raises(
        et.DataError, match="sample_weight names 'wight', which is no column; did you mean 'weight'"
    ):
        et.Statistics.of(path, STRUCTURE, sample_weight="wight")
    with pytest.raises(et.DataError, match="sample_weight is the name of one of their columns, not"):
        et.Statistics.of(path, STRUCTURE, sample_weight=TABLE["weight"])
    with pytest.raises(et.DataError, match=r"rows.parquet': sample_weight, column 'step 0', holds other cells"):
        et.Statistics.of(path, STRUCTURE, sample_weight="step 0")
    light = parquet(tmp_path, TABLE.assign(weight=TABLE["weight"] / 100))
    with pytest.warns(RuntimeWarning, match="sample_weight adds up to"):
        et.Statistics.of(light, STRUCTURE, sample_weight="weight")


def test_a_stream_of_measurements_stops_at_once(tmp_path: Path) -> None:
    def endless() -> Iterator[pd.DataFrame]:
        while True:
            yield pd.DataFrame({"a": [0.5, 1.5], "b": [0, 1]})

    with pytest.raises(et.DataError, match="batch 0: column 'a' looks continuous"):
        et.Statistics.of(endless(), STRUCTURE, numeric="error")


@settings(max_examples=12, deadline=None)
@given(
    order=st.permutations(range(60)),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    library=st.sampled_from([pd.DataFrame, pl.from_pandas, pa.Table.from_pandas]),
)
def test_batches_of_any_size_order_and_library_count_alike(order: Any, cuts: Any, library: Any) -> None:
    shuffled = X[:60].iloc[list(order)]
    ends = sorted({0, 60, *cuts})
    parts = [library(shuffled[a:b].reset_index(drop=True)) for a, b in pairwise(ends)]
    assert same(et.Statistics.of(iter(parts), STRUCTURE), et.Statistics.of(X[:60], STRUCTURE))
    assert same(et.Statistics.of(lambda: parts, STRUCTURE), et.Statistics.of(X[:60], STRUCTURE))


def test_a_spool_holds_codes_in_the_fewest_bytes() -> None:
    """Labels come late, more than fit into a byte, and columns stand in another order than in the rows."""
    count = 2_000
    rows = pd.DataFrame({"many": [f"label {k % 700}" for k in range(count)], "few": [k % 3 for k in range(count)]})
    rows["some"] = [None if k % 5 == 0 else bool(k % 2) for k in range(count)]
    rows["weight"] = range(count)
    parts = [rows[start : start + 150] for start in range(0, count, 150)]
    stream = stream_of(iter(parts))
    kept = KeptBatches(stream)
    for batch in stream.batches():
        kept.add(batch)
    columns = Columns.learned(rows[["some", "many", "few"]])
    streamed = StreamedRows(columns, kept, "weight")
    codes, weights = (np.concatenate(part) for part in zip(*streamed.chunks(), strict=True))
    np.testing.assert_array_equal(codes, Rows.of(rows[["many", "few", "some"]], columns).encode())
    np.testing.assert_array_equal(weights, np.arange(count))
    # Batches that are kept can be had again, also while they are read.
    for (one, _), (other, _) in zip(streamed.chunks(), streamed.chunks(), strict=True):
        np.testing.assert_array_equal(one, other)
    spool = Spool.of(columns, streamed.chunks())
    np.testing.assert_array_equal(np.concatenate([part for part, _ in spool.chunks()]), codes)
    np.testing.assert_array_equal(np.concatenate([part for _, part in spool.chunks()]), weights)
    assert spool.rows == count
    # One byte for two of the columns, and two for the one with more than 255 labels; weights as they were kept, and
    # what a pickle says of each part.
    size = os.fstat(spool._scratch.file.fileno()).st_size
    assert count * (1 + 2 + 1 + 1) < size <= count * (1 + 2 + 1 + 2) + 1_000 * len(parts)


def test_categories_that_a_later_batch_declares_count_too() -> None:
    """All columns are categoricals, so the types of the first batch alone could seem to be enough."""
    kinds = [["b", "a"], ["b", "c"], ["c", "a"]]
    parts = [pd.DataFrame({name: pd.Categorical(kind * 20, kind) for name in ("u", "v", "w")}) for kind in kinds]
    found = et.Statistics.of(iter(parts), et.zoo.Mixture(2)).columns
    assert [found.labels(name) for name in found.names] == [("b", "a", "c")] * 3
    assert et.Statistics.of(lambda: parts, et.zoo.Mixture(2)).columns == found
