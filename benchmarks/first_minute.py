"""What a first process waits for: compiling in a fresh installation, then a process that finds all compiled."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.measure import python, show_note, show_table

if TYPE_CHECKING:
    from pathlib import Path

STEPS = """
import json, os, time
def spent():
    times = os.times()
    return times.user + times.system
marks = {"start": spent()}
import numpy as np
import eigentree as et
graph = et.zoo.hmm(40, 2, 2, 4)
rows = np.random.default_rng(0).integers(0, 4, (2000, 40))
marks["import"] = spent()
model = et.SpectralJunctionTree(graph).fit(rows)
marks["first fit"] = spent()
model.predict_proba(rows[:50], "x7")
marks["predict_proba"] = spent()
model.sample(50, seed=0)
marks["sample"] = spent()
et.EMJunctionTree(graph, n_init=1, max_iter=2, random_state=0).fit(rows)
marks["EM"] = spent()
print(json.dumps(marks))
"""


def run(quick: bool, against: Path | None = None) -> None:
    """Print processor seconds of each step, in a fresh cache and in a full one, of one or two versions."""
    sources = {"this version": None} | ({"the other": against} if against else {})
    rounds = 1 if quick else 3
    for title, fresh in (("in a fresh installation", True), ("when all is compiled", False)):
        found = {name: _best(source, rounds, fresh) for name, source in sources.items()}
        steps = list(next(iter(found.values())))
        rows = [[step, *(f"{times[step]:.2f}" for times in found.values())] for step in steps]
        show_table(
            f"first minute {title}: processor seconds, best of {rounds}, 2nd-order HMM of 40 steps, 2,000 rows",
            ["step", *found],
            rows,
        )
    show_note("each step comes after those above it in one process; the last line adds all up")


def _best(source: Path | None, rounds: int, fresh: bool) -> dict[str, float]:
    """Return the shortest time of each step over some fresh processes."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {"NUMBA_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore"}
        if source:
            environment["PYTHONPATH"] = str(source)
        if not fresh:
            python(STEPS, environment)
        found = []
        for number in range(rounds):
            here = {"NUMBA_CACHE_DIR": f"{cache}/{number}"} if fresh else {}
            marks = json.loads(python(STEPS, environment | here))
            times = {name: marks[name] - marks[before] for before, name in pairwise(marks)}
            found.append(times | {"all": sum(times.values())})
    return {name: min(times[name] for times in found) for name in found[0]}
