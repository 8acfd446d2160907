"""Learners of probabilistic circuits that others have: deeprob-kit's LearnSPN and its ensembles of random circuits.

A script for a Python that has ``deeprob-kit``, which this project does not need; it imports nothing of ours. It
tries settings until none is left or its processor time is up, chooses by validation rows, scores test rows once,
and prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import signal
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LEARN_SPN, RANDOM_CIRCUITS = "LearnSPN", "random circuits"
LEARNERS = (LEARN_SPN, RANDOM_CIRCUITS)
CIRCUITS = 40
"""In an ensemble; with ten, validation rows of jester and dna were less likely by 0.6 to 0.7 nats."""

SMOOTHING = 0.1


class OutOfTimeError(Exception):
    """The processor time of this script is up."""


def settings(learner: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is tried, the fastest first, each with what to call it."""
    if learner == LEARN_SPN:
        for fewest, threshold in product((500, 200, 100, 50), (5.0, 15.0)):
            yield (
                f"m={fewest} p={threshold:g}",
                {
                    "learn_leaf": "binary-clt",
                    "learn_leaf_kwargs": {"alpha": SMOOTHING},
                    "split_rows": "kmeans",
                    "split_rows_kwargs": {"n": 2},
                    "split_cols": "gvs",
                    "split_cols_kwargs": {"p": threshold},
                    "min_rows_slice": fewest,
                    "random_state": 0,
                    "verbose": False,
                },
            )
        return
    for fewest, level, (length, arity) in product((512, 256, 128, 64), (0, 1), ((1, 2), (2, 4))):
        yield (
            f"m={fewest} sd={level} c={length}",
            {
                "method": "ensemble-xpc",
                "ensemble_dim": CIRCUITS,
                "det": False,
                "sd_level": level,
                "min_part_inst": fewest,
                "conj_len": length,
                "arity": arity,
                "random_seed": 0,
            },
        )


def part(folder: Path, name: str, which: str, most: int | None = None) -> NDArray[np.float32]:
    """Return rows of a data set."""
    with gzip.open(folder / f"{name}.{which}.data.gz", "rt") as lines:
        return np.loadtxt(lines, delimiter=",", dtype=np.float32, max_rows=most)


def _stop(number: int, frame: object) -> None:
    raise OutOfTimeError


def parameters(root: Any) -> int:
    """Return how many free parameters a circuit has: shares of sums, and those of its leaves."""
    from deeprob.spn.structure.node import Sum, bfs

    count = 0
    for node in bfs(root):
        if isinstance(node, Sum):
            count += len(node.weights) - 1
        elif not node.children:
            # A tree of binary columns has one table of two rows a column, and its root one row.
            count += 2 * len(node.scope) - 1
    return count


def main() -> None:
    """Print what a learner reaches, given folder, data set, learner, processor seconds, and perhaps most rows."""
    from deeprob.spn.algorithms.inference import log_likelihood
    from deeprob.spn.learning.wrappers import learn_estimator
    from deeprob.spn.structure.leaf import Bernoulli

    folder, name, learner = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    most = int(sys.argv[5]) if len(sys.argv) > 5 else None
    train, validation = part(folder, name, "train", most), part(folder, name, "valid")
    columns = train.shape[1]
    best, highest, tried, failed, chosen, cut = None, -np.inf, 0, 0, "", ""
    start = time.process_time()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[4]))
    try:
        for title, options in settings(learner):
            # Ensembles shuffle with numpy's global generator too.
            np.random.seed(0)  # noqa: NPY002
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    root = learn_estimator(train, [Bernoulli] * columns, [[0, 1]] * columns, **options)
            except (AssertionError, KeyError):
                # Some settings find no partition, or miss a tree of their own; the others count.
                failed += 1
                continue
            score = float(log_likelihood(root, validation).mean())
            tried += 1
            if score > highest:
                best, highest, chosen = root, score, title
    except OutOfTimeError:
        cut = ", cut"
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    spent = time.process_time() - start
    if best is None:
        raise SystemExit(f"nothing was learned in {spent:.0f} s of processor time")
    result = {
        "test": float(log_likelihood(best, part(folder, name, "test")).mean()),
        "validation": highest,
        "seconds": spent,
        "size": f"{chosen} of {tried}{f', {failed} failed' if failed else ''}{cut}",
        "parameters": parameters(best),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
