"""Commands that are ended, or have no room: files are whole, and what is said is one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest
from command_line import in_shell
from interruptions import interrupted

import eigentree as et
from eigentree.data.streams.row_batches import Batch, Stream


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


INTERRUPTED_IN_A_CALLBACK = """
import signal, sys, weakref
from eigentree.cli.main import main

class Held: pass

held = [Held()]
watch = weakref.ref(held[0], lambda _: signal.raise_signal(signal.SIGINT))

class Output:
    buffer = property(lambda self: self)
    def write(self, text): held.clear()
    def flush(self): pass

sys.stdout, sys.argv = Output(), ["eigentree", "dataset", "votes"]
sys.exit(main())
"""


def test_an_interrupt_that_python_drops_is_no_traceback() -> None:
    """What is raised in a callback of a weak reference, such as those of locks of imports, goes no further."""
    found = subprocess.run([sys.executable, "-c", INTERRUPTED_IN_A_CALLBACK], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (130, "votes: 435 rows\nstopped\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "(ulimit -f 4; eigentree impute model votes.csv -o out.csv)",
            "'out.csv' cannot be written: File too large",
        ),
        ("eigentree impute model votes.csv > /dev/full", "standard input or output: No space left on device"),
        ("eigentree inspect model > /dev/full", "standard input or output: No space left on device"),
        ("eigentree impute model votes.csv -o /proc/out.csv", "'/proc/out.csv' cannot be written"),
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), r"there is no file .*b\.csv"),
        (
            lambda path: path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(True)[-1]),
            "the stream had 870 rows",
        ),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), r"b\.csv"),
    ],
)
def test_files_that_vanish_or_change_while_they_are_read_are_named(
    change: Callable[[Path], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = et.datasets.load_votes(as_frame=True).data.astype(object).fillna("none")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        votes.to_csv(path, index=False)
    whole_pass = Stream.whole_pass

    def changed_behind(stream: Stream, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        yield from whole_pass(stream, columns)
        change(paths[1])

    monkeypatch.setattr(Stream, "whole_pass", changed_behind)
    with pytest.raises(et.EigentreeError, match=message):
        et.SpectralJunctionTree(et.zoo.Mixture()).fit(paths)
