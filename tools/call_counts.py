"""Count the modules, functions and frames of eigentree that common calls pass: how much there is to read.

``python tools/call_counts.py`` prints a table. Each call is made once before, so that compiling and imports do not
count; functions are distinct ones, and the stack is the deepest of the package's own frames.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import eigentree as et
from eigentree.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

HOME = str(Path(et.__file__).parent)


def passed(call: Callable[[], object]) -> tuple[int, int, int]:
    """Return how many modules and functions of the package a call passes, and how deep its stack is."""
    seen: set[tuple[str, str]] = set()
    depth = deepest = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth, deepest
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(HOME):
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        if not frame.f_code.co_name.startswith("<"):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len({module for module, _ in seen}), len(seen), deepest


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the calls that are counted, by name."""
    votes = et.datasets.load_votes(as_frame=True).data
    graph = et.zoo.hmm(8, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, random_state=0).sample(1_000, random_state=1)
    sequences = [np.random.default_rng(seed).integers(0, 4, 20) for seed in range(50)]
    table, model, filled = (str(folder / name) for name in ("votes.csv", "votes.eigentree", "filled.csv"))
    votes.to_csv(table, index=False)
    et.LatentClassModel(2, random_state=0).fit(votes).save(model)

    def impute() -> None:
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main(["impute", model, table, "-o", filled])

    return {
        'EMJunctionTree("auto").fit(df)': lambda: et.EMJunctionTree("auto", random_state=0).fit(votes),
        "LatentClassModel(2).fit(df)": lambda: et.LatentClassModel(2, random_state=0).fit(votes),
        "SpectralJunctionTree(graph).fit(X)": lambda: et.SpectralJunctionTree(graph).fit(rows),
        "HMM(2).fit(sequences)": lambda: et.HMM(2, random_state=0).fit(sequences),
        "eigentree impute": impute,
    }


def show() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print(f"{'call':36s} modules  functions  stack")
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(nowhere),
    ):
        counted = calls(Path(folder))
        for call in counted.values():
            call()
        lines = [(name, *passed(call)) for name, call in counted.items()]
    for name, modules, functions, deepest in lines:
        print(f"{name:36s} {modules:7d}  {functions:9d}  {deepest:5d}")


if __name__ == "__main__":
    show()
