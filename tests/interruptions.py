"""Commands that write a file, ended at random times: the file is the old one or a new one, never a part.

``python tests/interruptions.py 200`` ends so many; a seed and a number of rows may follow.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import eigentree as et

COMMANDS = {
    "fit": "fit rows.csv --structure mixture --hidden 6 --seed 0 -o out",
    "impute": "impute model rows.csv -o out.csv",
    "count": "count rows.csv --structure mixture --hidden 3 -o out",
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
LONGEST = 300
OLD = b"what was there before\n"


def prepared(folder: Path, rows: int) -> dict[str, tuple[float, bytes]]:
    """Write what the commands read; return how long each takes when nothing ends it, and what it writes."""
    random = np.random.default_rng(0)
    network = et.LatentNetwork.random(et.zoo.mixture(8, 3, 4), random_state=random)
    cells = network.sample(rows, random_state=1).astype(str)
    cells[random.random(cells.shape) < 0.1] = ""
    names = ",".join(f"x{place}" for place in range(8))
    np.savetxt(folder / "rows.csv", cells, "%s", ",", header=names, comments="")
    et.LatentClassModel(3, n_init=1, random_state=0).fit(cells[:2000].astype(object)).save(folder / "model")
    whole = {}
    for name in COMMANDS:
        started = time.monotonic()
        code, errors, content = ended(folder, name, signal.SIGKILL, 600)
        assert code == 0, errors
        whole[name] = time.monotonic() - started, content
    return whole


def ended(folder: Path, name: str, number: int, after: float) -> tuple[int, str, bytes]:
    """Return the exit code of a command that a signal is sent to, its standard error, and what its file holds."""
    words = COMMANDS[name].split()
    place = folder / words[-1]
    place.write_bytes(OLD)
    source = os.pathsep.join([str(Path(et.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "eigentree", *words],
        cwd=folder,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": source},
    )
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    errors = process.communicate(timeout=LONGEST)[1].decode()
    return process.returncode, errors, place.read_bytes()


def fault(folder: Path, name: str, number: int, after: float, whole: bytes) -> str:
    """Return what went wrong when a signal ended a command, or an empty string."""
    there = {path.name for path in folder.iterdir()}
    code, errors, content = ended(folder, name, number, after)
    left = {path.name for path in folder.iterdir()} - there
    for each in left:
        (folder / each).unlink()
    if content not in (OLD, whole) and (name != "fit" or number != signal.SIGINT or not _loads(folder / "out")):
        return f"the file is neither the old one nor a new one: {content[:60]!r}"
    if left and number != signal.SIGKILL:
        return f"files are left: {left}"
    if "Traceback" in errors:
        # While Python itself starts, it is nobody's.
        ours = set(re.findall(r"/eigentree/([\w/]+)\.py", errors)) - {"__init__", "__main__"}
        return errors if ours else ""
    # Before a command begins, a signal ends its process itself; a shell says the same of both.
    return "" if code in (0, -number, 128 + number) else f"the exit code is {code}"


def _loads(path: Path) -> bool:
    """Return whether a fit that was interrupted left a model that is whole."""
    et.load(path)
    return True


def interrupted(times: int, seed: int = 0, rows: int = 20_000) -> tuple[Counter[str], list[str]]:
    """Return how often each command was ended by each signal, and what went wrong."""
    random = np.random.default_rng(seed)
    done: Counter[str] = Counter()
    faults = []
    # Whoever is started in the background by a shell ignores it, and so would the commands.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        whole = prepared(folder, rows)
        for turn in range(times):
            name, number = list(COMMANDS)[turn % 3], SIGNALS[turn // 3 % 3]
            lasting, content = whole[name]
            after = float(random.uniform(0.02, 1.1 * lasting))
            done[f"{name}, {number.name}"] += 1
            if wrong := fault(folder, name, number, after, content):
                faults.append(f"{name}, {number.name} after {after:.3f} s: {wrong}")
    return done, faults


def main(times: int = 200, seed: int = 0, rows: int = 20_000) -> int:
    done, faults = interrupted(times, seed, rows)
    print(*(f"{what}: {count}" for what, count in sorted(done.items())), *faults, sep="\n")
    print(f"{times} interruptions, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
