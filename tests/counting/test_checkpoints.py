"""Counts that are killed and go on, and end with the same bits; files that are of something else are refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eigentree as et
from eigentree.counting import checkpoints
from eigentree.data.streams import encoded_stream as streamed
from eigentree.data.streams.row_batches import BatchSize
from eigentree.data.streams.sources import stream_of

SMALL = BatchSize(rows=50, text_bytes=1_000)
STRUCTURE = et.zoo.HMM(hidden_states=2)
GRAPH = et.zoo.hmm(length=5, hidden_states=2, observed_states=3)

KILLED = """
import os, signal, sys
import eigentree as et
from eigentree.counting import checkpoints
from eigentree.data.streams import encoded_stream as streamed
from eigentree.data.streams.row_batches import BatchSize
from eigentree.data.streams.sources import stream_of

streamed.SEGMENT, checkpoints.EVERY_SECONDS = 2, 0
before = streamed.StreamedRows.encoded
left = int(sys.argv[3])

def encoded(self, batch):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return before(self, batch)

streamed.StreamedRows.encoded = encoded
rows = stream_of(sys.argv[1], BatchSize(rows=50))
et.Statistics.of(rows, et.zoo.HMM(hidden_states=2), checkpoint=sys.argv[2], sample_weight="weight")
"""


def table(count: int = 900, seed: int = 1) -> pd.DataFrame:
    codes = et.LatentNetwork.random(GRAPH, seed=0).sample(count, seed=seed)
    made = pd.DataFrame(np.array(["low", "mid", "top"])[codes], columns=[f"c{k}" for k in range(5)])
    made.iloc[::11, 2] = None
    return made.assign(weight=np.random.default_rng(seed).random(count))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "SEGMENT", 2)
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0)


def same(one: et.Statistics, two: et.Statistics) -> bool:
    here, there = one.arrays(), two.arrays()
    return sorted(here) == sorted(there) and all(np.array_equal(here[key], there[key]) for key in here)


def folder(path: Path) -> Path:
    (path / "rows").mkdir()
    for number, part in enumerate(np.array_split(np.arange(900), 3)):
        table().iloc[part].to_parquet(path / "rows" / f"part {number}.parquet", index=False)
    return path / "rows"


def test_a_count_that_was_killed_goes_on_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Killed by a signal that nothing can catch; sums of weights that are fractions depend on their order."""
    rows, path = folder(tmp_path), tmp_path / "count.checkpoint"
    whole = et.Statistics.of(stream_of(rows, SMALL), STRUCTURE, sample_weight="weight")
    for kill_at in (7, 8):
        ended = subprocess.run([sys.executable, "-c", KILLED, str(rows), str(path), str(kill_at)], check=False)
        assert ended.returncode == -signal.SIGKILL
        assert path.exists()
        assert sorted(each.name for each in tmp_path.iterdir()) == ["count.checkpoint", "rows"]
    with pytest.MonkeyPatch.context() as patch:
        seen: list[Any] = []
        before = streamed.StreamedRows.encoded
        patch.setattr(
            streamed.StreamedRows, "encoded", lambda self, batch: seen.append(batch) or before(self, batch)
        )
        resumed = et.Statistics.of(stream_of(rows, SMALL), STRUCTURE, sample_weight="weight", checkpoint=path)
    # 18 batches in all; of those before the kills only what came after the last checkpoint is read again.
    assert len(seen) == 18 - 6 - 6
    assert same(resumed, whole)
    assert not path.exists()


@settings(max_examples=6, deadline=None)
@given(stop_at=st.integers(1, 18), kind=st.sampled_from(["csv", "parquet", "callable"]))
def test_an_error_anywhere_leaves_a_count_that_goes_on(
    stop_at: int, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("count")
    rows = table().drop(columns="weight")
    if kind == "callable":
        source: Any = lambda: (rows[start : start + 50] for start in range(0, 900, 50))  # noqa: E731
    else:
        source = place / f"rows.{kind}"
        rows.to_csv(source, index=False) if kind == "csv" else rows.to_parquet(source)
        source = stream_of(source, SMALL)
    path = place / "count"
    before = streamed.StreamedRows.encoded
    left = stop_at

    def failing(self: Any, batch: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return before(self, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed.StreamedRows, "encoded", failing)
        with pytest.raises(KeyboardInterrupt):
            et.Statistics.of(source, STRUCTURE, checkpoint=path)
        patch.setattr(streamed.StreamedRows, "encoded", before)
        resumed = et.Statistics.of(source, STRUCTURE, checkpoint=path)
        assert same(resumed, et.Statistics.of(source, STRUCTURE))
    np.testing.assert_array_equal(
        et.SpectralJunctionTree(STRUCTURE).fit_statistics(resumed).score_samples(rows),
        et.SpectralJunctionTree(STRUCTURE).fit(rows).score_samples(rows),
    )


def stopped(source: Any, path: Path, **settings: Any) -> None:
    """Leave a count that has begun."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "segments", lambda rows, skip: iter(_until_stopped(rows)))
        with pytest.raises(KeyboardInterrupt):
            et.Statistics.of(
                stream_of(source, SMALL), settings.pop("structure", STRUCTURE), checkpoint=path, **settings
            )
    assert path.exists()


def _until_stopped(rows: streamed.StreamedRows) -> Any:
    for number, segment in enumerate(streamed.segments(rows)):
        if number == 2:
            raise KeyboardInterrupt
        yield segment


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    rows, path = folder(tmp_path), tmp_path / "count"
    stopped(rows, path, sample_weight="weight")
    held = path.read_bytes()
    for settings_, message in [
        ({"sample_weight": None}, "of another sample_weight, \"'weight'\""),
        ({"sample_weight": "weight", "handle_unknown": "missing"}, "of another unknown, 'error'"),
        ({"sample_weight": "weight", "categories": {"c0": ["low"]}}, r"of another categories, \{\}"),
        ({"sample_weight": "weight", "views": 1}, "for another structure, views or max_rank"),
    ]:
        with pytest.raises(et.FileError, match=message):
            et.Statistics.of(rows, STRUCTURE, checkpoint=path, **settings_)
    with pytest.raises(et.FileError, match="for another structure"):
        et.Statistics.of(rows, et.zoo.Mixture(hidden_states=2), checkpoint=path, sample_weight="weight")
    table(40).to_parquet(rows / "part 9.parquet", index=False)
    with pytest.raises(et.FileError, match=r"count' is of a count of other files, or they have changed since"):
        et.Statistics.of(rows, STRUCTURE, checkpoint=path, sample_weight="weight")
    assert path.read_bytes() == held

    def source(seed: int) -> Any:
        return lambda: (table(seed=seed)[start : start + 50] for start in range(0, 900, 50))

    path.unlink()
    stopped(source(1), path, sample_weight="weight")
    with pytest.raises(et.FileError, match="of a count of other rows than those that come now"):
        et.Statistics.of(source(2), STRUCTURE, checkpoint=path, sample_weight="weight")


def test_what_cannot_be_gone_on_with_is_refused(tmp_path: Path) -> None:
    rows = table().drop(columns="weight")
    with pytest.raises(et.DataError, match="a checkpoint is for rows that come in batches"):
        et.Statistics.of(rows, STRUCTURE, checkpoint=tmp_path / "count")
    with pytest.raises(et.DataError, match="batches that come once cannot go on"):
        et.Statistics.of(iter([rows]), STRUCTURE, checkpoint=tmp_path / "count")
    et.Statistics.of(rows, STRUCTURE).save(tmp_path / "count")
    with pytest.raises(et.FileError, match="it holds a Statistics, no unfinished count"):
        et.Statistics.of(lambda: iter([rows]), STRUCTURE, checkpoint=tmp_path / "count")
    assert et.Statistics.load(tmp_path / "count").rows == 900
    with pytest.raises(et.FileError, match="cannot be written"):
        et.Statistics.of(lambda: iter([rows]), STRUCTURE, checkpoint=tmp_path / "absent" / "count")


def test_a_learned_structure_goes_on_too(tmp_path: Path) -> None:
    source, path = tmp_path / "rows.parquet", tmp_path / "count"
    table().drop(columns="weight").to_parquet(source)
    tree = et.zoo.HiddenChowLiu(hidden_states=2)
    stopped(source, path, structure=tree)
    resumed = et.Statistics.of(stream_of(source, SMALL), tree, checkpoint=path)
    assert same(resumed, et.Statistics.of(source, tree))
