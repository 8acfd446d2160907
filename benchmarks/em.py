"""The time of one EM iteration of a 2nd-order hidden Markov model, beside other packages and numpy."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import packages
from benchmarks.measure import afresh, best_seconds, show_note, show_table
from benchmarks.models import FIRST_SEED, codes
from benchmarks.numpy_em import NumpyHMM
from eigentree import EMJunctionTree, LatentNetwork, zoo
from eigentree.em.estep.expectation import Expectation
from eigentree.em.parameters import ParameterLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

PLAIN: dict[str, Any] = {"tol": 0.0, "accelerate": False, "pseudo_counts": 0.0}
"""The parameters that make it steps of EM and nothing else."""
OURS = "eigentree"
NUMPY = "numpy"
CLOCK = time.process_time
TOLERANCE = 1e-9
TIMED_CELLS = 40_000_000
"""About how many cells the timed iterations of a fast contender go through: a quarter of a second of ours."""

MOST_ITERATIONS = 100
SLOW_ITERATIONS = 2
"""Timed iterations of a slow contender; pyagrum ends some runs after five."""

SLOW_REPEATS = 3


@dataclass(frozen=True, eq=False)
class Contender:
    """One EM implementation, on some rows, and the log-likelihood that one iteration should reach there.

    `timed` is how many iterations beyond the first are timed, `repeats` how often.
    """

    name: str
    em_run: packages.EMRun
    rows: int
    expected: float
    timed: int
    repeats: int

    def check(self) -> None:
        """Raise an error unless one iteration reaches what it should."""
        reached = self.em_run(1)()
        if not abs(reached / self.expected - 1) < TOLERANCE:
            raise AssertionError(f"{self.name}: an iteration reaches {reached!r}, not {self.expected!r}")

    def runs(self) -> dict[str, Callable[[], Any]]:
        """Return an EM run of one iteration and one of more."""
        return {
            f"{self.name}, first": partial(self.em_run, 1),
            f"{self.name}, all": partial(self.em_run, 1 + self.timed),
        }


@dataclass(frozen=True)
class Spent:
    """Seconds of one iteration, and of all else that a run does."""

    iteration: float
    besides: float


def eigentree_em(start: LatentNetwork, X: NDArray[Any]) -> packages.EMRun:
    """Return our EM, planned anew each time."""

    def em_run(iterations: int) -> Callable[[], float]:
        first = afresh(start)
        model = EMJunctionTree(first.graph, init=first, max_iter=iterations, **PLAIN).fit(X)
        if model.n_iter_ != iterations:
            raise AssertionError(f"the EM run ended after {model.n_iter_} of {iterations} iterations")
        return lambda: float(model.history_[-1])

    return em_run


def numpy_em(start: LatentNetwork, X: NDArray[np.uint8]) -> packages.EMRun:
    """Return the EM of `NumpyHMM`."""

    def em_run(iterations: int) -> Callable[[], float]:
        model = NumpyHMM(start)
        for _ in range(iterations):
            model.step(X.T)
        return lambda: model.step(X.T)

    return em_run


def after_one(start: LatentNetwork, X: NDArray[Any]) -> float:
    """Return the log-likelihood after one iteration of ours, as our scoring finds it."""
    model = EMJunctionTree(start.graph, init=start, max_iter=1, **PLAIN).fit(X)
    return float(model.score_samples(X).sum())


def homogeneous(truth: LatentNetwork) -> LatentNetwork:
    """Return a network of the same graph whose every step has the tables of step 2, and h_-1 = 0."""
    hidden, seen = packages.tables_by_step(truth)
    tables = {f"h{t}": table for t, table in enumerate([hidden[0], hidden[2][0], *[hidden[2]] * (len(hidden) - 2)])}
    return LatentNetwork(truth.graph, tables | {f"x{t}": seen[2] for t in range(len(seen))})


def over_pairs(same: LatentNetwork) -> LatentNetwork:
    """Return a homogeneous network as a first-order one over pairs (h_t-1, h_t), in which h_-1 is 0."""
    hidden, seen = packages.tables_by_step(same)
    states, steps = len(hidden[0]), len(hidden)
    graph = zoo.hmm(steps, 1, states**2, seen[0].shape[1])
    first = np.concatenate([hidden[0], np.zeros(states**2 - states)])
    moves, emits = packages.pair_moves(hidden[2]), np.tile(seen[2], (states, 1))
    tables = {"h0": first} | {f"h{t}": moves for t in range(1, steps)} | {f"x{t}": emits for t in range(steps)}
    return LatentNetwork(graph, tables)


def pooled_step(start: LatentNetwork, X: NDArray[Any]) -> LatentNetwork:
    """Return a homogeneous first-order network after an EM step that keeps it so: counts add up over the steps."""
    layout = ParameterLayout.of(start.graph)
    expectation = Expectation.of(start.graph, rows=len(X))
    parameters = layout.vector(start)
    counts = expectation(parameters, expectation.coded(X, np.ones(len(X)))).counts
    parts = {key: counts[at : at + np.prod(layout.shapes[key])] for key, at in layout.starts.items()}
    pools = {key: "start" if key == ("h0",) else key[0][0] for key in parts}
    sums = {pool: sum(parts[key] for key in parts if pools[key] == pool) for pool in set(pools.values())}
    pooled = np.concatenate([sums[pools[key]] for key in layout.axes])
    return layout.network(layout.normalised(pooled, parameters))


def start_and_rows(steps: int, rows: int) -> tuple[LatentNetwork, NDArray[np.uint8]]:
    """Return the start of all runs, and rows of another model."""
    graph = zoo.hmm(steps, 2, 2, 4)
    X = codes(LatentNetwork.random(graph, seed=FIRST_SEED), rows, seed=1)
    return LatentNetwork.random(graph, seed=FIRST_SEED + 1), X


def timed_iterations(X: NDArray[Any]) -> int:
    """Return how many iterations of a fast contender are enough to time."""
    return int(np.clip(TIMED_CELLS // X.size, 1, MOST_ITERATIONS))


def fast_contenders(start: LatentNetwork, X: NDArray[np.uint8], repeats: int) -> list[Contender]:
    """Return eigentree and numpy."""
    expected, timed = after_one(start, X), timed_iterations(X)
    return [
        Contender(OURS, eigentree_em(start, X), len(X), expected, timed, repeats),
        Contender(NUMPY, numpy_em(start, X), len(X), expected, timed, repeats),
    ]


def slow_contender(name: str, start: LatentNetwork, X: NDArray[np.uint8]) -> Contender:
    """Return another package."""
    if name == "hmmlearn":
        same = homogeneous(start)
        em_run, expected = packages.hmmlearn_em(same, X), pooled_step(over_pairs(same), X).log_prob(X).sum()
        return Contender("(hmmlearn, over pairs)", em_run, len(X), float(expected), SLOW_ITERATIONS, SLOW_REPEATS)
    em_run = {"pyagrum": packages.pyagrum_em, "pgmpy": packages.pgmpy_em}[name](start, X)
    return Contender(name, em_run, len(X), after_one(start, X), SLOW_ITERATIONS, SLOW_REPEATS)


def contenders(
    start: LatentNetwork, X: NDArray[np.uint8], package_rows: Mapping[str, int], repeats: int
) -> list[Contender]:
    """Return eigentree, numpy and, on as many rows as is said, those of the other packages that are installed."""
    pairs = over_pairs(homogeneous(start))
    ours = eigentree_em(pairs, X)
    return [
        *fast_contenders(start, X, repeats),
        Contender("(eigentree, over pairs)", ours, len(X), after_one(pairs, X), timed_iterations(X), repeats),
        *(slow_contender(name, start, X[:rows]) for name, rows in package_rows.items() if find_spec(name)),
    ]


def measured(running: Sequence[Contender]) -> dict[str, Spent]:
    """Return what each spends, once all are known to reach what they should.

    The time of an iteration is the difference of a long and a short run, by the number of iterations that they
    differ by; what remains of the short run is its set-up.
    """
    for one in running:
        one.check()
    best: dict[str, float] = {}
    for repeats in {one.repeats: None for one in running}:
        runs = {name: run for one in running if one.repeats == repeats for name, run in one.runs().items()}
        best |= best_seconds(runs, repeats, CLOCK)
    spent = {}
    for one in running:
        first = best[f"{one.name}, first"]
        iteration = (best[f"{one.name}, all"] - first) / one.timed
        spent[one.name] = Spent(iteration, first - iteration)
    return spent


def _show_contenders(steps: int, rows: int, package_rows: Mapping[str, int], repeats: int) -> None:
    """Print the iterations of all contenders."""
    start, X = start_and_rows(steps, rows)
    running = contenders(start, X, package_rows, repeats)
    spent = measured(running)
    each = {one.name: spent[one.name].iteration / one.rows for one in running}
    show_table(
        f"em: one EM iteration of a 2nd-order HMM, {steps} steps, 2 hidden, 4 observed states, {rows:,} rows,\n"
        f"{len(np.unique(X, axis=0)):,} of them different, uint8 column-major; processor time, 1 thread",
        ["contender", "rows", "best of", "ms besides", "ms per iteration", "us per row", f"x {OURS}", f"x {NUMPY}"],
        [
            [
                one.name,
                f"{one.rows:,}",
                f"{one.repeats}",
                f"{1e3 * spent[one.name].besides:,.2f}",
                f"{1e3 * spent[one.name].iteration:,.2f}",
                f"{1e6 * each[one.name]:,.3f}",
                f"{each[one.name] / each[OURS]:,.1f}",
                f"{each[one.name] / each[NUMPY]:,.2f}",
            ]
            for one in running
        ],
    )
    missing = [name for name in package_rows if not find_spec(name)]
    if missing:
        show_note(f"not installed: {', '.join(missing)}")


def _show_notes() -> None:
    """Print what the numbers mean, and what differs between the contenders."""
    show_note(
        "an iteration: the difference between an EM run of several iterations and one of a single one, from the"
        " same start, by their number; besides: what else a run of one iteration takes, set-up first of all (it"
        " may fall below 0 where it is less than the noise)"
    )
    show_note("x: by the row; the slow ones get fewer rows, and go through them one by one")
    show_note(
        "before any clock runs, one iteration of each must reach the log-likelihood that ours reaches on the same"
        f" rows, to {TOLERANCE:g} of it"
    )
    show_note(
        "eigentree, besides: planning, checking and encoding the rows, merging equal ones, and a first expectation"
        " that computes the likelihood of the start"
    )
    show_note(
        "over pairs: hmmlearn has one table of moves and one of emissions for all steps, so it gets a first-order"
        " model over the 4 pairs of hidden states, equal at every step, that starts from another point. It goes"
        " forward and backward as the others do but adds up counts of 2 tables, not 80; it is checked against our"
        " counts added up over the steps. Ours over pairs has the same states, and tables that differ by the step"
    )
    show_note(
        "pyagrum: hidden variables are columns without any known cell; besides is mostly one more pass through the"
        " rows. pgmpy: DiscreteEM, whose work is that of the ExpectationMaximization that it replaces; it lists all"
        " joint states of the hidden variables for each row, 1,024 for 10 steps and 10^12 for 40"
    )
    show_note(f"the aim is a numpy iteration that takes at least 5 x {OURS}")


def run(quick: bool) -> None:
    """Print the tables."""
    if quick:
        _show_contenders(5, 500, {"hmmlearn": 200, "pyagrum": 20, "pgmpy": 10}, 3)
    else:
        _show_contenders(40, 100_000, {"hmmlearn": 20_000, "pyagrum": 5}, 10)
        _show_contenders(10, 1_000, {"hmmlearn": 1_000, "pyagrum": 40, "pgmpy": 8}, 7)
    _show_notes()
