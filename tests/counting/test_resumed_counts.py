"""A long count that is interrupted: each part is counted and saved, and saved parts are not counted again."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd
from counted_arrays import arrays_of

import eigentree as et

STRUCTURE = et.zoo.HMM(hidden_states=2)
LABELS = ["low", "mid", "top"]

COUNT = """
import os, signal, sys
from pathlib import Path
import eigentree as et

for number, part in enumerate(sorted(Path(sys.argv[1]).glob("*.parquet"))):
    if not (saved := part.with_suffix(".eigentree")).exists():
        if number == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        et.Statistics.of(part, et.zoo.HMM(hidden_states=2), categories=["low", "mid", "top"]).save(saved)
        print(part.name)
"""


def count(folder: Path, killed_at: int) -> tuple[int, list[str]]:
    """Return how a process that counts the parts ended, and which parts it counted."""
    ended = subprocess.run(
        [sys.executable, "-uc", COUNT, str(folder), str(killed_at)], check=False, capture_output=True, text=True
    )
    return ended.returncode, ended.stdout.split()


def test_a_count_in_parts_that_was_killed_resumes_and_is_bit_identical(tmp_path: Path) -> None:
    graph = et.zoo.hmm(length=5, hidden_states=2, observed_states=3)
    codes = et.LatentNetwork.random(graph, seed=0).sample(900, seed=1)
    rows = pd.DataFrame(np.array(LABELS)[codes], columns=[f"c{k}" for k in range(5)])
    rows.iloc[::11, 2] = None
    for number, part in enumerate(np.array_split(np.arange(900), 3)):
        rows.iloc[part].to_parquet(tmp_path / f"part{number}.parquet", index=False)
    assert count(tmp_path, 1) == (-signal.SIGKILL, ["part0.parquet"])
    assert count(tmp_path, -1) == (0, ["part1.parquet", "part2.parquet"])
    total = reduce(add, (et.Statistics.load(saved) for saved in sorted(tmp_path.glob("*.eigentree"))))
    whole = arrays_of(et.Statistics.of(str(tmp_path / "*.parquet"), STRUCTURE, categories=LABELS))
    assert whole.keys() == arrays_of(total).keys()
    for name, array in arrays_of(total).items():
        np.testing.assert_array_equal(array, whole[name])
    np.testing.assert_array_equal(
        et.SpectralJunctionTree(STRUCTURE).fit_statistics(total).score_samples(rows),
        et.SpectralJunctionTree(STRUCTURE, categories=LABELS).fit(rows).score_samples(rows),
    )
