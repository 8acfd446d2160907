"""Files that are read block by block: results, models and errors are those of a whole file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import answer, call
from counted_arrays import arrays_of
from small_batches import read_in_small_batches

import eigentree as et
from eigentree.cli import rows_read
from eigentree.cli.arguments import Reading
from eigentree.data.streams.file_batches import FileStream, open_table

ROWS = 200


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    graph = et.zoo.hmm(length=5, hidden_states=2, observed_states=3)
    codes = et.LatentNetwork.random(graph, seed=0).sample(ROWS, seed=1)
    made = pd.DataFrame({"key": [f"row, {k}" for k in range(ROWS)]})
    for place, labels in enumerate([["low", "mid", 'to"p'], ["1", "2", "10"], ["a", "b", "c"], ["x", "y", "z"]]):
        made[f"c{place}"] = np.array(labels)[codes[:, place]]
    gone = np.random.default_rng(0).random((ROWS, 4)) < 0.1
    made.iloc[:, 1:] = made.iloc[:, 1:].mask(gone, "?")
    return made


@pytest.fixture
def here(table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the rows."""
    monkeypatch.chdir(tmp_path)
    table.to_csv("rows.csv", index=False)
    table.to_csv("rows.tsv.gz", index=False, sep="\t")
    table.replace("?", None).to_parquet("rows.parquet", row_group_size=70)
    return tmp_path


def read_from(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files of so many bytes be large, and batches small."""
    read_in_small_batches(monkeypatch, 33, 1_000)
    monkeypatch.setattr(rows_read, "open_table", partial(open_table, large=size))


def at_once_and_in_blocks(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return what a command prints about a small file, and about a large one."""
    answers = []
    for size in (2**40, 0):
        read_from(size, monkeypatch)
        answers.append(answer(line))
    return answers[0], answers[1]


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv.gz", "rows.parquet"])
def test_results_are_those_of_a_whole_file(here: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = f"{name} --missing '?'"
    models = []
    for size in (2**40, 0):
        read_from(size, monkeypatch)
        answer(f"eigentree fit {read} --drop key --structure hmm --method spectral -o {size}.eigentree")
        answer(f"eigentree count {read} --drop key --structure hmm -o counts{size}.eigentree")
        answer(f"eigentree count {read} --like counts{size}.eigentree -o like{size}.eigentree")
        models.append([et.load(f"{kind}{size}.eigentree") for kind in ("", "counts", "like")])
    assert isinstance(rows_read.open_rows(name, Reading(missing=["?"])), FileStream)
    whole, parts = models
    assert whole[0].columns_ == parts[0].columns_
    for one, other in ((whole[0].statistics_, parts[0].statistics_), *zip(whole[1:], parts[1:], strict=True)):
        assert one.rows == other.rows == ROWS
        for key, array in arrays_of(one).items():
            np.testing.assert_array_equal(array, arrays_of(other)[key])
    for line in (
        f"score 0.eigentree {read} --id key -o -",
        f"predict 0.eigentree {read} --target c1 -o -",
        f"impute 0.eigentree {read} -o -",
        f"impute 0.eigentree {read} -o filled.csv --json",
    ):
        one, other = at_once_and_in_blocks(f"eigentree {line}", monkeypatch)
        assert one == other, line
    for line in (
        f"score 0.eigentree {read} --summary --json",
        f"predict 0.eigentree {read} --target c1 -o p.parquet --json",
    ):
        one, other = (json.loads(text) for text in at_once_and_in_blocks(f"eigentree {line}", monkeypatch))
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert other[key] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value)
    assert len(pd.read_parquet("p.parquet")) == ROWS
    # One draw after the other, from one seed.
    drawn = [answer(f"eigentree impute 0.eigentree {read} --by sample --seed 3 -o -") for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_em_and_graphs_learn_from_large_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("graph.toml").write_text(
        'hidden = ["kind"]\nedges = [["kind", "c0"], ["kind", "c1"], ["kind", "c2"]]\n[states]\nkind = 2\n'
    )
    read = "rows.csv --missing '?' --drop key"
    for shape in ("--structure mixture --hidden 2", "--structure graph.toml"):
        one, other = (
            json.loads(text)
            for text in at_once_and_in_blocks(f"eigentree fit {read} {shape} -o em.eigentree --json", monkeypatch)
        )
        assert other["rows"] == ROWS
        assert other["mean_log_probability"] == pytest.approx(one["mean_log_probability"], abs=1e-6)


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("a,b\n1,2\n" * 1 + "1,2\n" * 300 + "1,2,3\n", "line 303 of 'bad.csv' has 3 cells, but the first line 2"),
        ("a,b\n" + "1,2\n" * 300 + '1,"2\n', "line 302 of 'bad.csv' cannot be read"),
        ("a,a\n1,2\n", "'bad.csv' has two columns 'a'; rename one"),
        ("a,\n1,2\n", "one of them is empty: name column 2"),
        ("", "'bad.csv' is empty"),
        ("a,b\n", "'bad.csv' has no rows; give at least one"),
    ],
)
def test_errors_are_those_of_a_small_file(
    here: Path, text: str, errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bad.csv").write_text(text)
    found = []
    for size in (2**40, 0):
        read_from(size, monkeypatch)
        found.append(call("eigentree fit bad.csv --structure mixture --method spectral -o bad.eigentree"))
    assert found[0] == found[1]
    assert found[0][0] != 0
    assert errors in found[0][2]
    assert not Path("bad.eigentree").exists()


def test_damaged_parquet_is_an_error_and_late_types_are_not(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_from(0, monkeypatch)
    held = Path("rows.parquet").read_bytes()
    Path("cut.parquet").write_bytes(held[: len(held) // 2])
    code, _, errors = call("eigentree count cut.parquet --structure hmm -o bad.eigentree")
    assert code != 0
    assert "'cut.parquet' cannot be read; it may have been cut short or damaged" in errors
    answer("eigentree fit rows.csv --drop key --structure hmm --method spectral -o model.eigentree")
    late = pd.read_csv("rows.csv").assign(note=[None] * 150 + ["seen"] * 50)
    late.to_csv("late.csv", index=False)
    assert call("eigentree impute model.eigentree late.csv -o late.parquet")[0] == 0
    assert pd.read_parquet("late.parquet")["note"].isna().sum() == 150
    late.assign(note=[1] * 150 + [1.5] * 50, key=0).to_parquet("late.parquet", row_group_size=50)
    assert call("eigentree impute model.eigentree late.parquet -o filled.parquet")[0] == 0
