"""What a first process waits for: imports, the first fit, and commands of the shell, in fresh processes."""

from __future__ import annotations

import tempfile

from benchmarks.measure import children_seconds, python, show_note, show_table

PREPARE = """
import os
import numpy as np
from eigentree.cli.main import main
os.chdir({folder!r})
random = np.random.default_rng(0)
rows = (random.integers(0, 3, (2000, 40)) + random.integers(0, 2, (2000, 1))) % 4
np.save("rows.npy", rows)
cells = [[f"s{{code}}" for code in row] for row in rows[:800, :10]]
lines = [",".join(row) for row in [[f"x{{j}}" for j in range(10)], *cells]]
open("rows.csv", "w").write("\\n".join(lines))
main("fit rows.csv --structure mixture --hidden 2 -o model.eigentree".split())
"""
"""2,000 rows of two classes, and a file of a part of them with a model of it."""

FIT = """
import os
os.chdir({folder!r})
import numpy as np
import eigentree as et
rows = np.load("rows.npy")
{statement}
"""

COMMAND = """
import os
os.chdir({folder!r})
from eigentree.cli.main import main
main({statement!r}.split())
"""

CASES = {
    "import numpy": ("{statement}", "import numpy"),
    "import eigentree": ("{statement}", "import eigentree"),
    "spectral fit": (FIT, "et.SpectralJunctionTree(et.zoo.hmm(40, 2, 2, 4)).fit(rows)"),
    "spectral fit, scored": (FIT, "et.SpectralJunctionTree(et.zoo.hmm(40, 2, 2, 4)).fit(rows).score_samples(rows)"),
    "EM fit of two classes": (FIT, "et.EMJunctionTree(et.zoo.mixture(40, 2, 4)).fit(rows)"),
    "HMM fit of two states": (FIT, "et.EMHMM(2).fit(list(rows[:200]))"),
    "eigentree --help": (COMMAND, "--help"),
    "eigentree fit --help": (COMMAND, "fit --help"),
    "eigentree score of 800 rows": (COMMAND, "score model.eigentree rows.csv -o scores.csv"),
    "eigentree fit of 800 rows": (COMMAND, "fit rows.csv --structure mixture --hidden 2 -o other.eigentree"),
}


def run(quick: bool) -> None:
    """Print the processor seconds of whole processes."""
    rounds = 1 if quick else 5
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        python(PREPARE.format(folder=folder))
        for _ in range(rounds):
            for name, (text, statement) in CASES.items():
                before = children_seconds()
                python(text.format(folder=folder, statement=statement), {"PYTHONWARNINGS": "ignore"})
                best[name] = min(children_seconds() - before, best.get(name, float("inf")))
    show_table(
        f"first minute: processor seconds of a fresh process, imports included, best of {rounds}",
        ["process", "s"],
        [[name, f"{spent:.2f}"] for name, spent in best.items()],
    )
    show_note("fits are of 2,000 rows of 40 columns, of HMMs 200 sequences of 40 steps; commands of 800 rows of 10")
