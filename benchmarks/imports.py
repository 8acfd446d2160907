"""How long imports take, each in a fresh process."""

from __future__ import annotations

from functools import partial

from benchmarks.measure import best_seconds, children_seconds, python, show_note, show_table

STATEMENTS = (
    "pass",
    "import numpy",
    "import eigentree",
    "from eigentree import JunctionTree, zoo",
    "from eigentree.cli.main import main; main(['--help'])",
    "from eigentree.cli.main import main; main(['fit', '--help'])",
    "from eigentree import LatentNetwork",
)


def run(quick: bool) -> None:
    """Print the time of each statement, and what it adds to a bare interpreter."""
    repeats = 3 if quick else 15
    best = best_seconds(
        {statement: partial(python, statement) for statement in STATEMENTS}, repeats, children_seconds
    )
    bare, numpy = best["pass"], best["import numpy"] - best["pass"]
    rows = [
        [
            statement,
            f"{1e3 * time:.1f}",
            f"{1e3 * (time - bare):.1f}",
            "" if statement == "pass" else f"{(time - bare) / numpy:.2f}",
        ]
        for statement, time in best.items()
    ]
    show_table(
        f"imports: processor time of the whole process, 1 thread, best of {repeats} fresh processes",
        ["statement", "ms", "ms above bare python", "x import numpy"],
        rows,
    )
    show_note("--help of the command line, aim: at most twice the whole of import numpy, the interpreter included")
    show_note("names of eigentree load at first use: LatentNetwork is what brings in numpy and the core")
