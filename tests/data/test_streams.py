"""Streams: rows in batches from files, engines and iterators, with errors that name file and column."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator
from csv import DictReader
from csv import reader as csv_reader
from functools import reduce
from operator import add
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
from hypothesis import given, settings
from hypothesis import strategies as st
from small_batches import read_in_small_batches

import eigentree as et
from eigentree.data.streams.row_batches import Batch
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.tables.cells import arrow_dictionary
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.text_cells import FileTable, TextColumn, typed_texts
from eigentree.io.text_files import MISSING_MARKS

TABLE = pd.DataFrame(
    {
        "number": [0, 1, 2, 0, 1, 2, 0, -1],
        "text": ["a", "b", None, "a", "c", "b", "a", "b"],
        "sparse": [5.0, 7.0, np.nan, 5.0, 9.0, 7.0, 5.0, 5.0],
        "truth": [True, False, True, True, False, False, True, False],
    }
)


def csv(path: Path) -> Any:
    TABLE.to_csv(path / "rows.csv", index=False)
    return path / "rows.csv"


def tsv(path: Path) -> Any:
    TABLE.to_csv(path / "rows.tsv", index=False, sep="\t")
    return str(path / "rows.tsv")


def packed(path: Path) -> Any:
    (path / "rows.csv.gz").write_bytes(gzip.compress(TABLE.to_csv(index=False).encode()))
    return path / "rows.csv.gz"


def parquet(path: Path) -> Any:
    pa.parquet.write_table(pa.Table.from_pandas(TABLE), path / "rows.parquet", row_group_size=5)
    return path / "rows.parquet"


def folder(path: Path) -> Any:
    (path / "parts" / "more").mkdir(parents=True)
    TABLE[:3].to_parquet(path / "parts" / "a.parquet")
    TABLE[3:].to_parquet(path / "parts" / "more" / "b.parquet")
    (path / "parts" / "_SUCCESS").write_text("")
    return path / "parts"


def pattern(path: Path) -> Any:
    return str(folder(path) / "**" / "*.parquet")


def several(path: Path) -> Any:
    TABLE[:2].to_csv(path / "first.csv", index=False)
    TABLE[2:].to_csv(path / "second.csv", index=False)
    return [str(path / "first.csv"), str(path / "second.csv")]


def dataset(path: Path) -> Any:
    return pa.dataset.dataset(folder(path), format="parquet")


def reader(path: Path) -> Any:
    return pa.Table.from_pandas(TABLE).to_reader(3)


def lazy(path: Path) -> Any:
    return pl.from_pandas(TABLE).lazy()


def relation(path: Path) -> Any:
    return duckdb.read_parquet(str(parquet(path)))


def generator(path: Path) -> Any:
    return (TABLE[start : start + 3] for start in range(0, len(TABLE), 3))


def record_batches(path: Path) -> Any:
    return iter(pa.Table.from_pandas(TABLE).to_batches(3))


def function(path: Path) -> Any:
    return lambda: (TABLE[start : start + 3] for start in range(0, len(TABLE), 3))


EVERY = [
    csv,
    tsv,
    packed,
    parquet,
    folder,
    pattern,
    several,
    dataset,
    reader,
    lazy,
    relation,
    generator,
    function,
    record_batches,
]


def seen(stream: Any, columns: Any = None) -> list[Batch]:
    return list(stream_of(stream).batches(columns))


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_every_stream_holds_the_rows_of_the_table(
    make: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in_small_batches(monkeypatch, 3, 60)
    given = make(tmp_path)
    assert is_stream(given)
    stream = stream_of(given)
    assert stream.names == tuple(TABLE.columns)
    assert stream.again == (make not in (reader, generator, record_batches))
    assert stream.rows in (None, len(TABLE))
    found = list(stream.batches())
    assert len(found) > 1 or make in (lazy, relation)
    columns = Columns.learned(reduce(add, (Schema.of(batch.data) for batch in found)))
    assert columns == Columns.learned(TABLE)
    codes = np.concatenate([Rows.of(batch.data, columns).encode() for batch in found])
    np.testing.assert_array_equal(codes, Rows.of(TABLE, columns).encode())
    if stream.again:
        again = list(stream.batches(["sparse", "number"]))
        for batch, before in zip(again, found, strict=True):
            assert (batch.source, batch.first) == (before.source, before.first)
            assert batch.table.names == ("sparse", "number")
        with pytest.raises(et.DataError, match="has no column 'numbr'; did you mean 'number'"):
            list(stream.batches(["numbr"]))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        *((each, False) for each in (TABLE, pa.table({"a": [1]}), np.zeros((2, 2)), [[0, 1]], ["ACGT"], [], None)),
        *((each, True) for each in ("rows.csv", ["a.csv", "b.csv"], [Path("a")])),
    ],
)
def test_what_is_a_stream_is_told_by_its_kind(data: Any, expected: bool) -> None:
    assert is_stream(data) == expected


TEXTS = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "07",
        "+3",
        "2.5",
        "1e3",
        ".5",
        "a",
        "NA",
        "",
        "nan",
        "None",
        "True",
        "False",
        "true",
        " 4",
        "b c",
    ]
)


def typed(X: Any) -> Columns | str:
    try:
        return Columns.learned(X)
    except et.DataError as error:
        return str(error).split(":")[0].split(";")[0]


def text_cells(cells: list[str]) -> Any:
    return pa.array([None if cell in MISSING_MARKS else cell for cell in cells], pa.string()).dictionary_encode()


@settings(max_examples=120, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12), st.integers(1, 12))
def test_text_is_read_as_pandas_reads_a_whole_file(cells: list[str], size: int) -> None:
    """Whatever a block holds alone, its cells are what they are in the whole column."""
    lines = "".join(f'"{cell}",x\n' for cell in cells)
    whole = pd.read_csv(io.StringIO("cell,other\n" + lines))[["cell"]]
    parts = [cells[start : start + size] for start in range(0, len(cells), size)]
    tables = [
        FileTable(
            ["cell"], [TextColumn(*arrow_dictionary(pa.chunked_array([text_cells(part)])))], len(part), "rows.csv"
        )
        for part in parts
    ]
    looks = reduce(add, map(Schema.of, tables))
    columns, expected = typed(looks), typed(whole)
    assert columns == expected
    if isinstance(columns, str):
        return
    codes = np.concatenate([Rows.of(table, columns).encode() for table in tables])
    np.testing.assert_array_equal(codes, Rows.of(whole, columns).encode())


def test_given_labels_are_found_in_text() -> None:
    assert typed_texts(["9223372036854775808"]) is None
    table = stream_table(b"a,b\n1,x\n-1,2\n2,\n")
    columns = Columns.learned(table, ReadOptions({"a": [1, 2], "b": ["x", 2]}))
    assert Rows.of(table, columns).encode().tolist() == [[0, 0], [2, 1], [1, 2]]
    columns = Columns.learned(table, ReadOptions({"a": [1, 3], "b": ["x", "2"]}))
    with pytest.raises(et.DataError, match="row 2, column 'a' holds 2"):
        Rows.of(table, columns)


def stream_table(text: bytes) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "t.csv"
        path.write_bytes(text)
        (batch,) = seen(path)
    return batch.data


def test_files_that_are_wrong_are_named(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    for cut in (0, 3, 400, os.path.getsize(path) - 1):
        short = tmp_path / "cut.parquet"
        short.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(et.FileError, match=r"cut.parquet' cannot be read; it may have been cut short"):
            stream_of([path, short])
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(et.FileError, match=r"line 3 of .*ragged.csv' has 3 cells, but the first line 2"):
        seen(ragged)
    ragged.write_bytes(b"a,b\n\xff\xfe,2\n")
    with pytest.raises(
        et.FileError, match=r"line 2 of .*ragged.csv' holds the byte 0xff, which is no UTF-8; .*'latin-1'"
    ):
        seen(ragged)
    ragged.write_text("")
    with pytest.raises(et.FileError, match=r"ragged.csv' is empty; its first line"):
        stream_of(ragged)
    ragged.write_text("a,a\n1,2\n")
    with pytest.raises(et.FileError, match=r"ragged.csv' has two columns 'a'"):
        stream_of(ragged)
    ragged.write_text('"a, b"\n1\n')
    assert stream_of(ragged).names == ("a, b",)
    with pytest.raises(et.FileError, match=r"there is no file .*absent.csv"):
        stream_of(tmp_path / "absent.csv")
    with pytest.raises(et.FileError, match=r"no file fits the pattern"):
        stream_of(tmp_path / "absent*.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(et.FileError, match=r"holds no file that ends with .csv"):
        stream_of(tmp_path / "empty")
    with pytest.raises(et.DataError, match="holds Parquet and text, maybe the same rows twice"):
        stream_of(tmp_path)
    (tmp_path / "hive" / "year=2026").mkdir(parents=True)
    with pytest.raises(et.DataError, match="is partitioned: the folder 'year=2026' holds a column"):
        stream_of(tmp_path / "hive")
    TABLE.to_parquet(tmp_path / "hive" / "year=2026" / "a.parquet")
    for pattern in ("*/*.parquet", "**/*.parquet", "year=*/a.parquet"):
        with pytest.raises(et.DataError, match="the folder 'year=2026' holds a column that the files do not"):
            stream_of(tmp_path / "hive" / pattern)
    assert len(seen(tmp_path / "hive" / "year=2026" / "*.parquet")) == len(seen(tmp_path / "hive" / "year=2026"))
    (tmp_path / "rows.xlsx").write_text("")
    with pytest.raises(et.FileError, match=r"rows.xlsx' does not show its format: it ends with none of .csv"):
        stream_of(tmp_path / "rows.xlsx")


def test_a_column_that_one_file_lacks_is_named_with_the_file(tmp_path: Path) -> None:
    TABLE.to_parquet(tmp_path / "a.parquet")
    TABLE.drop(columns="text").to_parquet(tmp_path / "b.parquet")
    for columns in (None, ["text", "number"]):
        with pytest.raises(et.DataError, match=r"b.parquet'.* has no column 'text'"):
            next(stream_of(tmp_path).batches(columns))
    assert len(seen(tmp_path, ["number"])) == 2


def test_a_page_that_is_damaged_is_told_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"a": list(range(1000))}), path, use_dictionary=False, compression="zstd")
    held = bytearray(path.read_bytes())
    held[8:300] = bytes(292)
    path.write_bytes(held)
    with pytest.raises(et.FileError, match=r"rows.parquet' cannot be read; it may have been cut short or damaged"):
        seen(path)


def test_what_is_no_stream_says_so() -> None:
    with pytest.raises(et.DataError, match=r"the iterator of batches has none"):
        stream_of(iter([]))
    with pytest.raises(et.DataError, match=r"batch 0: data need the shape"):
        stream_of(iter([3]))
    for rows in (csv_reader(["a,b", "x,y"]), DictReader(["a,b", "x,y"])):
        with pytest.raises(et.DataError, match=r"of csv hands out one row at a time.*; give the path of the file"):
            stream_of(rows)
    with pytest.raises(et.DataError, match=r"returned 3; return an iterator"):
        stream_of(lambda: 3)
    with pytest.raises(et.DataError, match=r"cannot be called without arguments"):
        stream_of(lambda rows: iter(rows))
    with pytest.raises(et.DataError, match=r"the lazy frame failed: ColumnNotFoundError"):
        stream_of(pl.LazyFrame({"a": [1]}).select("b"))

    def failing() -> Iterator[Any]:
        yield [[0, 1]]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):  # the user's own
        seen(failing())


def test_names_may_be_anything_and_headers_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a.b", 'a "quoted" name', "with, comma", "ü", "two\nlines", *(f"column {k}" * 9 for k in range(200))]
    rows = pd.DataFrame(np.arange(8 * len(names)).reshape(8, -1) % 3, columns=names)
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    wanted = names[:5]
    read_in_small_batches(monkeypatch, 3, 30_000)
    for stream in (
        tmp_path / "rows.parquet",
        tmp_path / "rows.csv",
        pl.from_pandas(rows).lazy(),
        duckdb.read_parquet(str(tmp_path / "rows.parquet")),
    ):
        columns = Columns.learned(reduce(add, (Schema.of(batch.data) for batch in seen(stream, wanted))))
        assert columns == Columns.learned(rows[wanted])


def test_text_has_the_labels_that_occur_in_its_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as a dictionary, for speed, it would have those of a group of rows."""
    path = tmp_path / "text.parquet"
    for kind in (pa.string(), pa.large_string()):
        text = pa.array(["a", "b", "a", "c", None, "d"], kind)
        pa.parquet.write_table(pa.table({"text": text}), path)
        assert [batch.table.cells(0) for batch in seen(path)] == [text.to_pylist()]
        with monkeypatch.context() as patch:
            read_in_small_batches(patch, 2)
            labels = [batch.table.column(0, "text").labels for batch in seen(path)]
        assert labels == [("a", "b"), ("a", "c"), ("d",)]


def test_types_that_declare_all_states_need_no_rows(tmp_path: Path) -> None:
    frame = pl.LazyFrame({"mood": pl.Series(["b"], dtype=pl.Enum(["b", "a"])), "so": [True]})
    typed = stream_of(frame).typed
    assert typed is not None
    assert typed.settles()
    assert Columns.learned(typed).labels("mood") == ("b", "a")
    connection = duckdb.connect()
    connection.execute("create type mood as enum ('b', 'a')")
    connection.execute("create table moods as select 'a'::mood as mood, true as so")
    typed = stream_of(connection.table("moods")).typed
    assert typed is not None
    assert typed.settles()
    assert Columns.learned(typed).labels("mood") == ("b", "a")
    pa.parquet.write_table(
        pa.table({"a": pa.array([0, 1], pa.int8()), "so": [True, False]}), tmp_path / "a.parquet"
    )
    typed = stream_of(tmp_path / "a.parquet").typed
    assert typed is not None
    assert typed.settles(codes=["a"])
    assert not typed.settles()


def test_columns_that_nobody_needs_may_hold_anything(tmp_path: Path) -> None:
    odd = TABLE.assign(when=pd.Timestamp("2026-11-17"), lists=[[1, 2]] * len(TABLE))
    odd.to_parquet(tmp_path / "odd.parquet")
    for stream in (
        tmp_path / "odd.parquet",
        pa.dataset.dataset(tmp_path / "odd.parquet"),
        pl.scan_parquet(tmp_path / "odd.parquet"),
        duckdb.read_parquet(str(tmp_path / "odd.parquet")),
        iter([odd]),
    ):
        (batch,) = seen(stream, ["number", "text"])
        assert Columns.learned(batch.data) == Columns.learned(TABLE[["number", "text"]])


def test_parquet_needs_pyarrow_and_text_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = csv(tmp_path), parquet(tmp_path)
    codes = np.random.default_rng(0).integers(0, 2, (30, 4))
    model = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(codes)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(et.DataError, match=r"reading Parquet needs pyarrow; pip install 'eigentree\[streams\]'"):
        stream_of(whole)
    assert sum(batch.table.count for batch in stream_of(path).batches()) == len(TABLE)
    with pytest.raises(et.FileError, match=r"is to be Parquet, which takes pyarrow: pip install pyarrow"):
        model.score_samples_to(codes, tmp_path / "scores.parquet")
    assert model.score_samples_to(codes, tmp_path / "scores.csv") == 30
    # Batches of other libraries do not.
    assert et.Statistics.of(iter([codes[:4], codes[4:]]), et.zoo.Mixture(2)).rows == 30


def test_a_lazy_frame_is_to_be_collected_for_answers_in_memory() -> None:
    frame = pl.DataFrame({"a": [0, 1, None, 1] * 10, "b": [0, 1, 1, 0] * 10})
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=2).fit(frame)
    with pytest.raises(et.DataError, match=r"impute_to writes .* read the rows first, as with X.collect\(\)"):
        model.impute(frame.lazy())


@pytest.mark.parametrize(("first", "again"), [(3, 2), (2, 3)])
def test_a_stream_with_other_rows_in_its_second_pass_is_refused(first: int, again: int) -> None:
    rows, calls = np.arange(300).reshape(100, 3) % 2, []

    def batches() -> list[np.ndarray]:
        # The first call only looks at the types.
        calls.append(None)
        return [rows] * (first if len(calls) < 3 else again)

    message = f"the stream had {first}00 rows when it was read first and {again}00 the next time"
    with pytest.raises(et.DataError, match=message):
        et.SpectralJunctionTree(et.zoo.Mixture()).fit(batches)
