"""Commands that are ended, or have no room: files are whole, and what is said is one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from command_line import in_shell
from interruptions import interrupted

import eigentree as et


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ends")
    votes = et.datasets.load_votes(as_frame=True).data
    pd.concat([votes] * 20).to_csv(made / "votes.csv", index=False)
    et.LatentClassModel(2, n_init=1, random_state=0).fit(votes).save(made / "model")
    (made / "out.csv").write_text("as it was")
    return made


def test_commands_that_signals_end_leave_a_whole_file() -> None:
    _, faults = interrupted(9, rows=2000)
    assert not faults


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("(ulimit -f 4; eigentree impute model votes.csv -o out.csv)", "'out.csv' cannot be written: File too large"),
        ("eigentree impute model votes.csv > /dev/full", "standard output: No space left on device"),
        ("eigentree score model votes.csv --summary > /dev/full", "standard output: No space left on device"),
        ("eigentree inspect model > /dev/full", "standard output: No space left on device"),
        ("eigentree impute model votes.csv -o /proc/out.csv", "'/proc/out.csv' cannot be written"),
        ("eigentree impute model votes.csv -o /dev/full", "'/dev/full' is no plain file"),
        ("(ulimit -v 900000; eigentree fit votes.csv --structure mixture --hidden 400000 -o m)", "memory"),
    ],
)
def test_no_room_is_said_in_a_sentence(folder: Path, line: str, said: str) -> None:
    before = sorted(os.listdir(folder))
    found = in_shell(f"export OPENBLAS_NUM_THREADS=1; {line}", cwd=folder)
    errors = found.stderr.decode()
    assert found.returncode == 1, errors
    assert said in errors
    assert "Traceback" not in errors
    assert sorted(os.listdir(folder)) == before
    assert (folder / "out.csv").read_text() == "as it was"


def test_files_that_vanish_or_grow_while_they_are_read_are_named(tmp_path: Path) -> None:
    votes = et.datasets.load_votes(as_frame=True).data
    for name in ("a.csv", "b.csv"):
        votes.to_csv(tmp_path / name, index=False)
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    rows = et.open_table(paths)
    et.SpectralJunctionTree(et.zoo.Mixture()).fit(rows)
    paths[1].unlink()
    with pytest.raises(et.EigentreeError, match=r"b\.csv"):
        et.SpectralJunctionTree(et.zoo.Mixture()).fit(rows)
