"""This version beside another checkout, the same work in alternating processes: is anything slower than it was?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.measure import python, show_note, show_table, version_of

if TYPE_CHECKING:
    from pathlib import Path

# Only names that every version has. 0.1.0 keeps the plans of the last four structures, so five are planned in turn.
WORK = """
import json, sys, time, warnings
import numpy as np
import eigentree as et
warnings.simplefilter("ignore")
count = {count}
def best(work, repeats):
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
found = {{}}
graph = et.zoo.hmm(40, 2, 2, 4)
truth = et.LatentNetwork.random(graph, seed=0)
rows = truth.sample(count, seed=1)
codes = np.asfortranarray(rows.astype(np.uint8))
model = et.SpectralJunctionTree(graph, shrinkage=1.0).fit(codes)
groups = model.plan_.groups()
found["score, exact"] = best(lambda: truth.log_prob(codes), 5)
found["score, spectral"] = best(lambda: model.score_samples(codes), 5)
found["score 1 row, x 100"] = best(lambda: [truth.log_prob(codes[:1]) for _ in range(100)], 5)
few = rows[: count // 10].copy()
few[:, ::3] = -1
found["predict_proba, a tenth"] = best(lambda: model.predict_proba(few, "x7"), 5)
found["impute, a tenth"] = best(lambda: model.impute(few), 3)
found["sample, a tenth"] = best(lambda: model.sample(count // 10, seed=0), 3)
found["draw from the network"] = best(lambda: truth.sample(count, seed=0), 3)
found["count"] = best(lambda: et.Counts(graph, groups).update(codes), 5)
found["count, missing cells"] = best(lambda: et.Counts(graph, groups).update(few), 3)
found["fit, planned"] = best(lambda: et.SpectralJunctionTree(graph).fit(codes), 5)
def chain(length):
    return et.zoo.hmm(length, 2, 2, 4)
found["plan five chains"] = best(
    lambda: [et.SpectralJunctionTree(chain(n)).fit(codes[:50, :n]) for n in (40, 39, 38, 37, 36)], 3
)
for name, other in {{
    "hmm2": graph, "hmm3": et.zoo.hmm(40, 3, 2, 4), "mixture": et.zoo.mixture(40, 6, 4),
    "tree of 16": et.zoo.latent_tree(depth=4, hidden_states=16, observed_states=4),
}}.items():
    n = len(other.observed)
    def em_run(steps):
        start = et.LatentNetwork.random(other, seed=0)
        em = et.EMJunctionTree(other, tol=0, max_iter=steps, init=start, accelerate=False, pseudo_counts=0.0)
        return em.fit(codes[: count // 5, :n])
    found["EM step, " + name] = (best(lambda: em_run(7), 2) - best(lambda: em_run(2), 2)) / 5
print(json.dumps(found))
"""


def run(quick: bool, against: Path | None = None) -> None:
    """Print the time of each piece of work in both versions, and their ratio."""
    if against is None:
        show_note("versions: give --against SRC, the src folder of another checkout, to compare with it")
        return
    code = WORK.format(count=10_000 if quick else 100_000)
    best: dict[str, dict[str, float]] = {"this": {}, "other": {}}
    for _ in range(2 if quick else 4):
        for version, environment in (("this", {}), ("other", version_of(against))):
            for name, time in json.loads(python(code, environment)).items():
                best[version][name] = min(time, best[version].get(name, time))
    rows = [
        [name, f"{1e3 * best['other'][name]:.1f}", f"{1e3 * time:.1f}", f"{time / best['other'][name]:.2f}"]
        for name, time in best["this"].items()
    ]
    show_table(
        "two versions: processor time, 1 thread, best of alternating processes",
        ["work", "other ms", "this ms", "ratio"],
        rows,
    )
    show_note("hmm2 is a 2nd-order HMM of 40 steps; EM steps are over a fifth of the rows")
