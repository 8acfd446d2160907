"""Tables in files: what is written is read again, in every format, delimiter and encoding; errors name the line."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_batches import read_in_small_batches

import eigentree as et
from eigentree.data.streams.file_batches import FileStream, open_table, read_table
from eigentree.data.streams.sources import stream_of
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.text_cells import FileTable
from eigentree.io.table_files import write_table
from eigentree.io.text_files import TextOptions

CELLS = {"town": ["Köln", "a;b", None, "a,b", 'say "x"'], "n": ["1", "2", "3", None, "1"]}


def cells(table: FileTable) -> dict[str, list[Any]]:
    return {name: table.cells(place) for place, name in enumerate(table.names)}


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.tab.bz2", "t.csv.xz", "t.csv.zst", "t.jsonl"])
def test_what_is_written_is_read_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_small_batches(monkeypatch, 2, 16)
    parts = [{key: column[:2] for key, column in CELLS.items()}, {key: column[2:] for key, column in CELLS.items()}]
    assert write_table(str(tmp_path / name), parts) == 5
    assert cells(read_table(tmp_path / name)) == CELLS
    stream = open_table(tmp_path / name, large=0)
    assert isinstance(stream, FileTable if name == "t.jsonl" else FileStream)
    batches = [stream] if isinstance(stream, FileTable) else [batch.data for batch in stream.batches()]
    joined = {key: [cell for each in batches for cell in cells(each)[key]] for key in CELLS}
    assert joined == CELLS


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(*[st.text(st.characters(codec="latin-1", exclude_characters="\x00\r"))] * 3), min_size=1
    ),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "utf-16"]),
)
def test_any_text_comes_back(
    rows: list[tuple[str, ...]], delimiter: str, encoding: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "t.csv"
    given_cells = {name: list(column) for name, column in zip("abc", zip(*rows, strict=True), strict=True)}
    with open(path, "w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(["abc", *rows])
    options = TextOptions(encoding="latin-1" if encoding == "latin-1" else None, delimiter=delimiter)
    missing = TextOptions()
    expected = {name: [missing.cell(cell) for cell in column] for name, column in given_cells.items()}
    # The reader takes off the apostrophe before what would be a formula, whoever wrote it.
    assert cells(read_table(path, text=options)) == expected
    stream = open_table(path, large=0, **asdict(options))
    assert isinstance(stream, FileStream)
    joined = [cells(batch.data) for batch in stream.batches()]
    assert {name: [cell for each in joined for cell in each[name]] for name in "abc"} == expected


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_the_delimiter_is_found(delimiter: str, name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["x, y", "z"], "b": ["1", "2"], "c, d": ["u", "v"]})
    frame.to_csv(tmp_path / name, sep=delimiter, index=False)
    table = read_table(tmp_path / name)
    assert cells(table) == frame.to_dict("list")
    given_it = read_table(tmp_path / name, text=TextOptions(delimiter="tab" if delimiter == "\t" else delimiter))
    assert cells(given_it) == cells(table)
    assert stream_of(tmp_path / name).names == ("a", "b", "c, d")


def test_one_column_stays_one(tmp_path: Path) -> None:
    assert read_table(written(tmp_path / "t.csv", "word\na;b\nc\n")).cells(0) == ["a;b", "c"]
    assert read_table(written(tmp_path / "t.csv", "x;y\n1\n2\n")).names == ("x;y",)


def test_encodings_are_given_or_an_error_names_the_line(tmp_path: Path) -> None:
    text = "town,n\n" + "Bonn,1\n" * 3_000 + "Köln,2\n"
    path = written(tmp_path / "t.csv", text, "cp1252")
    for opened in (lambda: read_table(path), lambda: [*open_table(path, large=0).batches()]):  # type: ignore[union-attr]
        with pytest.raises(et.FileError, match=r"line 3002 of .*t.csv' holds the byte 0xf6, .* encoding='latin-1'"):
            opened()
    assert read_table(path, text=TextOptions(encoding="cp1252")).cells(0)[-1] == "Köln"
    for encoding in ("utf-8-sig", "utf-16"):
        assert read_table(written(tmp_path / "t.csv", text, encoding)).cells(0)[-1] == "Köln"
    with pytest.raises(et.FileError, match=r"there is no encoding 'latin-0'; common ones are 'utf-8', 'latin-1'"):
        TextOptions(encoding="latin-0")
    with pytest.raises(et.FileError, match="delimiter is one character, such as ';', or 'tab', not 'ab'"):
        TextOptions(delimiter="ab")


def test_an_index_without_a_name_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"]})
    frame.to_csv(tmp_path / "t.csv")
    with pytest.warns(RuntimeWarning, match=r"the first column of .*t.csv' has no name, as the index has"):
        table = read_table(tmp_path / "t.csv")
    assert cells(table) == frame.to_dict("list")
    with pytest.warns(RuntimeWarning, match="has no name"):
        stream = open_table(tmp_path / "t.csv", large=0)
    assert isinstance(stream, FileStream)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [cells(batch.data) for batch in stream.batches()] == [frame.to_dict("list")]
    with pytest.raises(et.FileError, match="one of them is empty: name column 2"):
        read_table(written(tmp_path / "u.csv", "a,,b\n1,2,3\n"))


def test_decimal_commas_and_thousands_are_numbers_once_they_are_given(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "income;height\n125,000;1,80\n1,250,000;1,75\n90,000;NA\n")
    with pytest.warns(RuntimeWarning) as caught:
        columns = Columns.learned(read_table(path))
    said = [str(each.message) for each in caught]
    assert "column 'income' holds numbers with commas, such as '1,250,000', and is read as text" in said[0]
    assert "thousands=','" in said[0]
    assert "column 'height' holds numbers with commas, such as '1,75'" in said[1]
    assert "decimal=','" in said[1]
    assert columns.labels("height") == ("1,75", "1,80")
    assert cells(read_table(path, text=TextOptions(decimal=",")))["height"] == ["1.80", "1.75", None]
    table = read_table(path, text=TextOptions(thousands=","))
    assert table.cells(0) == ["125000", "1250000", "90000"]
    assert Columns.learned(table.only(["income"])).labels("income") == (90000, 125000, 1250000)


def test_formulas_are_escaped_and_read_again(tmp_path: Path) -> None:
    column = ["=1+1", "+x", "@me", "-a", "-5", "-", "plain", "'quoted"]
    with pytest.warns(RuntimeWarning, match=r"4 cells begin with =, \+, - or @, as formulas of spreadsheets do"):
        write_table(str(tmp_path / "t.csv"), [{"a": column}])
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines == ["a", "'=1+1", "'+x", "'@me", "'-a", "-5", "-", "plain", "'quoted"]
    assert read_table(tmp_path / "t.csv").cells(0) == column
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_table(str(tmp_path / "t.jsonl"), [{"a": column}])
        write_table(str(tmp_path / "n.csv"), [{"a": np.array([-1.5, np.nan])}])
    assert read_table(tmp_path / "t.jsonl").cells(0) == column


def test_pipes_and_columns_that_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    text = gzip.compress(b"id;a;b\n1;x;?\n2;y;v\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    table = read_table("-", text=TextOptions(missing=("?",)), drop=["id"])
    assert cells(table) == {"a": ["x", "y"], "b": [None, "v"]}
    with pytest.raises(et.DataError, match="standard input has no column 'c'"):
        table.dropping(["c"])
    with pytest.raises(et.DataError, match="has no columns left"):
        table.dropping(["a", "b"])
    assert cells(table.take(np.array([1]))) == {"a": ["y"], "b": ["v"]}


def test_files_that_are_no_tables_name_the_line(tmp_path: Path) -> None:
    for text, message in (
        ("a,b\n1,2\n1\n", r"line 3 of .*t.csv' has 1 cells, but the first line 2"),
        ('a,b\n1,"2\n', r"line 2 of .*t.csv' cannot be read: unexpected end of data"),
        ("a,b\n", r"t.csv' has no rows; give at least one"),
        ("", r"t.csv' is empty; its first line holds the names"),
        ("a,a\n1,2\n", r"t.csv' has two columns 'a'; rename one"),
    ):
        path = written(tmp_path / "t.csv", text)
        with pytest.raises(et.EigentreeError, match=message):
            read_table(path)
    for text, message in (
        ('{"a": 1}\n[1]\n', r"line 2 of .*t.jsonl' is no object such as"),
        ('{"a": 1}\n{"a"', r"line 2 of .*t.jsonl' is no JSON"),
        ('{"a": [1]}\n', r"line 1 of .*t.jsonl' holds more than one value in 'a'"),
    ):
        path = written(tmp_path / "t.jsonl", text)
        with pytest.raises(et.FileError, match=message):
            read_table(path)
    with pytest.raises(
        et.FileError, match=r"the name .*t.xls' does not show its format: it ends with none of .csv"
    ):
        read_table(written(tmp_path / "t.xls", "a\n1\n"))
    assert read_table(tmp_path / "t.xls", "csv").names == ("a",)


def test_json_lines_are_rows_of_a_fit(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", "".join(f'{{"a": {k % 2}, "b": "{k % 3}"}}\n' for k in range(60)))
    model = et.EMJunctionTree(et.zoo.Mixture(2), init="random", max_iter=2, random_state=0, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = model.fit(path).columns_
    assert columns == Columns.learned(pd.DataFrame({"a": [0, 1, 0], "b": ["0", "1", "2"]}))


def test_what_a_model_finds_is_written_in_any_format(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (40, 3))
    model = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(rows)
    for name in ("scores.csv", "scores.jsonl", "scores.tsv.gz", "scores.parquet", "scores"):
        assert model.score_samples_to(rows, tmp_path / name) == 40
        found = read_table(tmp_path / name, None if "." in name else "parquet")
        np.testing.assert_array_equal(np.array(found.cells(0), float), model.score_samples(rows))
