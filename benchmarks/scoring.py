"""The log probability of rows of a 2nd-order hidden Markov model: speed beside numpy and other packages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import packages
from benchmarks.measure import best_seconds, seconds, show_note, show_table
from eigentree import LatentNetwork, zoo

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATES = 4
TOLERANCE = 1e-9
BASE = "numpy, plain einsum"


@dataclass(frozen=True, eq=False)
class Contender:
    """One way to score rows, the rows, and the log probabilities that eigentree gives them."""

    name: str
    score: packages.Scorer
    X: NDArray[Any]
    expected: NDArray[np.float64]

    def first(self, rows: int) -> Contender:
        """Return the same contender on the first rows."""
        return Contender(self.name, self.score, self.X[:rows], self.expected[:rows])

    def difference(self) -> float:
        """Return the largest difference from what is expected of a row."""
        return float(np.abs(self.score(self.X) - self.expected).max())


def truth_of(steps: int) -> LatentNetwork:
    """Return the network that is scored: other tables at every step."""
    return LatentNetwork.random(zoo.hmm(steps, order=2, hidden_states=2, observed_states=STATES), seed=0)


def contenders(steps: int, rows: int) -> list[Contender]:
    """Return all that are installed, eigentree first."""
    truth = truth_of(steps)
    X = truth.sample(rows, seed=1)
    expected = truth.log_prob(X)
    found = [
        Contender("eigentree, int64", truth.log_prob, X, expected),
        Contender("eigentree, int8", truth.log_prob, X.astype(np.int8), expected),
        Contender(BASE, packages.numpy_plain(truth), X, expected),
        Contender("numpy, tuned matmul", packages.numpy_matmul(truth), X, expected),
    ]
    if find_spec("pyagrum"):
        found.append(Contender("pyagrum, LazyPropagation", packages.pyagrum_lazy(truth), X, expected))
    if find_spec("pgmpy"):
        found.append(Contender("pgmpy, VariableElimination", packages.pgmpy_elimination(truth), X, expected))
    return found


def affordable(contender: Contender, budget: float) -> Contender:
    """Return the contender on as many of its rows as it scores in the given seconds, after warming up."""
    rows = 8
    while True:
        part = contender.first(rows)
        part.score(part.X)
        spent = seconds(partial(part.score, part.X), time.process_time)
        if rows >= len(contender.X) or spent > budget / 10:
            return contender.first(int(np.clip(rows * budget / max(spent, 1e-9), 8, len(contender.X))))
        rows *= 4


def _show_speed(steps: int, rows: int, repeats: int, budget: float) -> None:
    """Print the rates of all contenders, once their answers are known to agree."""
    running = [affordable(contender, budget / repeats) for contender in contenders(steps, rows)]
    differences = {contender.name: contender.difference() for contender in running}
    for name, difference in differences.items():
        if not difference < TOLERANCE:
            raise AssertionError(f"{name} differs from eigentree by {difference:.2g} at {steps} steps")
    best = best_seconds({one.name: partial(one.score, one.X) for one in running}, repeats, time.process_time)
    rates = {one.name: len(one.X) / best[one.name] for one in running}
    show_table(
        f"scoring: log probability of rows of a 2nd-order HMM, {steps} steps, 2 hidden, {STATES} observed states,\n"
        f"{rows:,} rows (fewer where they take over {budget:g} s in all); processor time, 1 thread,"
        f" best of {repeats}",
        ["contender", "rows", "rows/s", f"x {BASE}", "largest difference"],
        [
            [
                one.name,
                f"{len(one.X):,}",
                f"{rates[one.name]:,.0f}",
                f"{rates[one.name] / rates[BASE]:.3g}",
                f"{differences[one.name]:.0e}",
            ]
            for one in running
        ],
    )


def run(quick: bool) -> None:
    """Print the rates."""
    rows, repeats, budget = (2_000, 3, 0.1) if quick else (100_000, 7, 5.0)
    for steps in (10, 40):
        _show_speed(steps, rows, repeats, budget)
    show_note(
        "plain: rows first, one np.einsum a step over pairs of hidden states, tables indexed by the codes;"
        " tuned: rows last, matmul over (h_t-1, h_t), tables by take"
    )
