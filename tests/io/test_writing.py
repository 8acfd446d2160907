"""Answers about streams, in files: those of the rows in memory, written whole or not at all."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest
from command_line import read_numbers
from small_batches import read_in_small_batches

import eigentree as et
from eigentree.data.streams.sources import stream_of

STRUCTURE = et.zoo.HMM(hidden_states=2)


def rows_of(count: int = 500) -> pd.DataFrame:
    graph = et.zoo.hmm(length=5, hidden_states=2, observed_states=3)
    codes = et.LatentNetwork.random(graph, seed=0).sample(count, seed=1)
    random = np.random.default_rng(0)
    table = pd.DataFrame({"key": [f"row {k}" for k in range(count)]})
    table["words"] = np.array(["low", "mid", "top"])[codes[:, 0]]
    table["codes"] = codes[:, 1]
    table["numbers"] = np.array([2.0, 4.0, 8.0])[codes[:, 2]]
    table["truths"] = codes[:, 3] > 0
    table["sorts"] = pd.Categorical(np.array(["x", "y", "z"])[codes[:, 4]], ["z", "y", "x", "w"])
    for name in ("words", "numbers", "sorts"):
        table.loc[random.random(count) < 0.15, name] = None
    return table


TABLE = rows_of()
X = TABLE.drop(columns="key")


@pytest.fixture(scope="module")
def model() -> et.SpectralJunctionTree:
    return et.SpectralJunctionTree(STRUCTURE).fit(X)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_small_batches(monkeypatch, 97, 2_000)


def sources(path: Path) -> dict[str, Any]:
    TABLE.to_parquet(path / "rows.parquet", row_group_size=150)
    TABLE.to_csv(path / "rows.csv", index=False)
    return {
        "parquet": stream_of(path / "rows.parquet"),
        "csv": stream_of(str(path / "rows.csv")),
        "lazy": stream_of(pl.from_pandas(TABLE).lazy()),
        "generator": (TABLE[start : start + 90] for start in range(0, len(TABLE), 90)),
        "memory": TABLE,
    }


@pytest.mark.parametrize("kind", ["parquet", "csv", "lazy", "generator", "memory"])
def test_files_hold_the_answers_in_memory(kind: str, model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    scores, proba, filled = (tmp_path / f"{name}.parquet" for name in ("scores", "proba", "filled"))
    if kind != "memory":
        assert model.score_samples_to(sources(tmp_path)[kind], scores) == len(X)
        np.testing.assert_array_equal(pd.read_parquet(scores)["log_probability"], model.score_samples(X))
        np.testing.assert_array_equal(model.score_samples(sources(tmp_path)[kind]), model.score_samples(X))
        assert model.score(sources(tmp_path)[kind]) == model.score(X)
        assert model.predict_proba_to(sources(tmp_path)[kind], proba, target="words") == len(X)
        expected = model.predict_proba(X, target="words")
        found = pd.read_parquet(proba)
        labels = ["low", "mid", "top"]
        assert list(found.columns) == ["words", *(f"P(words={label})" for label in labels)]
        np.testing.assert_array_equal(found.drop(columns="words").to_numpy(), np.asarray(expected))
        assert found["words"].tolist() == [labels[place] for place in np.argmax(expected, axis=1)]
    assert model.impute_to(sources(tmp_path)[kind], filled) == len(X)
    found, expected = pd.read_parquet(filled), model.impute(X)
    assert list(found.columns) == list(TABLE.columns)
    assert found["key"].tolist() == TABLE["key"].tolist()
    for name in X:
        assert found[name].tolist() == expected[name].tolist()
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(".")) == []


def test_types_stay_where_they_can(model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    model.impute_to(sources(tmp_path)["parquet"], tmp_path / "filled.parquet")
    found = pd.read_parquet(tmp_path / "filled.parquet")
    assert found["sorts"].cat.categories.tolist() == ["z", "y", "x", "w"]
    assert found.dtypes.astype(str)[["codes", "numbers", "truths"]].tolist() == ["int64", "float64", "bool"]
    model.impute_to(sources(tmp_path)["csv"], tmp_path / "filled.parquet")
    types = pyarrow.parquet.read_schema(tmp_path / "filled.parquet").types
    assert [str(each) for each in types] == ["string", "string", "int64", "int64", "bool", "string"]


def test_a_column_may_be_empty_in_the_first_file(model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    notes = [None] * 100 + ["seen"] * (len(TABLE) - 100)
    for number, part in enumerate((slice(None, 100), slice(100, None))):
        TABLE[part].assign(note=notes[part]).to_parquet(tmp_path / f"{number}.parquet")
    assert model.impute_to(stream_of(tmp_path / "*.parquet"), tmp_path / "filled.parquet") == len(TABLE)
    found = pd.read_parquet(tmp_path / "filled.parquet")["note"]
    assert found[:100].isna().all()
    assert (found[100:] == "seen").all()


def test_a_stream_is_told_which_method_writes_its_answers(model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    TABLE.to_csv(path := tmp_path / "rows.csv", index=False)
    with pytest.raises(et.DataError, match=r"rows\.csv'\); impute_to writes the results into a file"):
        model.impute(str(path))
    with pytest.raises(et.DataError, match="predict_proba_to writes the results"):
        model.predict_proba(iter([X]), target="words")


def test_draws_are_repeated_by_their_seed_and_differ_between_batches(tmp_path: Path) -> None:
    holes = pl.DataFrame(
        {f"c{k}": [None] * 200 for k in range(3)}, schema=dict.fromkeys(("c0", "c1", "c2"), pl.String)
    )
    known = pd.DataFrame(np.random.default_rng(0).choice(["a", "b"], (300, 3)), columns=["c0", "c1", "c2"])
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(known)

    def drawn(seed: int) -> pd.DataFrame:
        source = (holes[start : start + 100] for start in (0, 100))
        model.impute_to(source, tmp_path / "drawn.parquet", method="sample", seed=seed)
        return pd.read_parquet(tmp_path / "drawn.parquet")

    first = drawn(1)
    assert first.equals(drawn(1))
    assert not first.equals(drawn(2))
    assert not first[:100].equals(first[100:].reset_index(drop=True))


def test_a_target_need_not_be_there(model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    X.drop(columns="sorts").to_parquet(tmp_path / "rows.parquet")
    model.predict_proba_to(tmp_path / "rows.parquet", tmp_path / "proba.parquet", target="sorts")
    found = pd.read_parquet(tmp_path / "proba.parquet").drop(columns="sorts")
    np.testing.assert_array_equal(found.to_numpy(), np.asarray(model.predict_proba(X, target="sorts")))


def test_an_error_in_the_last_batch_leaves_what_was_there(model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    odd = X.copy()
    odd.loc[450, "words"] = "odd"
    odd.to_parquet(tmp_path / "rows.parquet")
    path = tmp_path / "out.parquet"
    path.write_bytes(b"before")
    for ask in (model.score_samples_to, model.impute_to):
        with pytest.raises(et.DataError, match=r"rows.parquet': row 450, column 'words' holds 'odd'"):
            ask(stream_of(tmp_path / "rows.parquet"), path)
    (tmp_path / "short.parquet").write_bytes((tmp_path / "rows.parquet").read_bytes()[:-9])
    with pytest.raises(et.FileError, match=r"short.parquet' cannot be read; it may have been cut short"):
        model.impute_to([tmp_path / "rows.parquet", tmp_path / "short.parquet"], path)
    with pytest.raises(et.DataError, match=r"the data have no rows"):
        model.score_samples_to(iter([X[:0]]), path)
    with pytest.raises(et.FileError, match=r"out.parquet.*cannot be written"):
        model.score_samples_to(X, path / "inside")
    with pytest.raises(
        et.DataError, match=r"from row 500 on, column 'note' is of the type .*string, and was int64"
    ):
        model.impute_to((X.assign(note=note) for note in (1, "a")), path)
    assert path.read_bytes() == b"before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.parquet", "rows.parquet", "short.parquet"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 100 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(place)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"NOT TESTED: a full disk, since no small file system can be made here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_told_and_nothing_is_half_written(
    model: et.SpectralJunctionTree, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = pd.concat([X] * 60, ignore_index=True)
    path = small_disk / "out.parquet"
    path.write_bytes(b"before")
    asked: list[Any] = [
        lambda: model.score_samples_to(big, path),
        lambda: model.impute_to(big.assign(key=np.random.default_rng(0).random(len(big))), path),
        lambda: model.save(path),
        lambda: model.statistics_.save(path),
    ]
    with suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    for ask in asked:
        with pytest.raises(et.FileError, match=r"out.parquet' cannot be written: No space left"):
            ask()
        assert path.read_bytes() == b"before"
        assert sorted(os.listdir(small_disk)) == ["filler", "out.parquet"]
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    with pytest.raises(et.FileError, match=r"rows cannot be kept in .*: No space left.*set TMPDIR"):
        et.Statistics.of((big[start : start + 5_000] for start in range(0, len(big), 5_000)), STRUCTURE)
    assert sorted(os.listdir(small_disk)) == ["filler", "out.parquet"]


LIMITED = """
import resource, signal, sys
import pandas, eigentree as et
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
model = et.load(sys.argv[1])
rows = pandas.concat([pandas.read_parquet(sys.argv[2])] * 40, ignore_index=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    model.impute_to(rows.assign(key=range(len(rows))), sys.argv[3])
except et.FileError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit of file sizes here")
def test_a_file_that_may_not_grow_is_told(model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    X.to_parquet(tmp_path / "rows.parquet")
    arguments = [str(tmp_path / name) for name in ("model", "rows.parquet", "out.parquet")]
    said = subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, check=True)
    assert "out.parquet' cannot be written: File too large; nothing was changed" in said.stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "rows.parquet"]


def test_rows_are_identified_and_each_batch_is_handed_out(model: et.SpectralJunctionTree, tmp_path: Path) -> None:
    path, batches = tmp_path / "scores.csv", []
    model.score_samples_to(sources(tmp_path)["csv"], path, id="key", each=lambda *part: batches.append(part))
    found = read_numbers(path)
    assert list(found.columns) == ["key", "log_probability"]
    assert found["key"].tolist() == TABLE["key"].tolist()
    np.testing.assert_array_equal(np.concatenate([scores for _, scores in batches]), found["log_probability"])
    assert len(batches) > 1
    model.score_samples_to(TABLE, tmp_path / "numbered", id="row", form="tsv")
    assert pd.read_csv(tmp_path / "numbered", sep="\t")["row"].tolist() == list(range(len(TABLE)))
    with pytest.raises(et.DataError, match="has no column 'kye'; did you mean 'key'"):
        model.score_samples_to(sources(tmp_path)["parquet"], path, id="kye")
    with pytest.raises(et.DataError, match="'words' would stand in the output twice"):
        model.predict_proba_to(X, path, "words", id="words")


def test_hidden_variables_are_written_where_there_are_tables(tmp_path: Path) -> None:
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=20, init="random", n_init=1).fit(X)
    model.predict_proba_to(stream_of(sources(tmp_path)["csv"]), tmp_path / "h.csv", target="h")
    found = pd.read_csv(tmp_path / "h.csv")
    np.testing.assert_allclose(found[["P(h=0)", "P(h=1)"]], model.predict_proba(X, "h"), rtol=1e-12)
    assert found["h"].tolist() == model.predict(X, "h").tolist()


def test_text_stays_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,note,b\n" + "07,x,1.50\n7,=y,2\n,z,1.50\n" * 20)
    model = et.EMJunctionTree(et.zoo.Mixture(1), random_state=0, categories={"b": [1.5, 2.0]})
    model.fit(pd.DataFrame({"a": [7, 7], "b": [1.5, 2.0]}))
    counts: list[int] = []
    with pytest.warns(RuntimeWarning, match="20 cells begin with ="):
        model.impute_to(tmp_path / "rows.csv", tmp_path / "filled.csv", each=lambda _, cells: counts.append(cells))
    lines = (tmp_path / "filled.csv").read_text().splitlines()
    assert lines[:4] == ["a,note,b", "07,x,1.50", "7,'=y,2", "7,z,1.50"]
    assert counts == [20]
