"""Hidden Markov models of numbers beside hmmlearn: time of an EM iteration, and how near fits come to the truth."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import expon, gamma, norm, uniform
from scipy.stats import t as student

from benchmarks.measure import best_seconds, show_table
from eigentree import EMHMM

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CLOCK = time.process_time

STEPS = 20
"""Iterations whose time is taken, beyond the first."""

REPEATS = 3

MOVES = np.array([[0.9, 0.07, 0.03], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
"""Transitions of the sequences whose truth is known."""

TRAINING, TEST = 4800, 20_000
"""Steps that fits learn from, and by which they are judged."""


class Case(NamedTuple):
    """Steps end to end, the length of each sequence, and how many states a model has."""

    name: str
    X: NDArray[np.float64]
    lengths: list[int]
    states: int


def drawn(sequences: int, length: int, channels: int, states: int) -> Case:
    """Return Gaussian sequences from a chain that likes to stay in a state."""
    random = np.random.default_rng(0)
    moves = 0.8 * np.eye(states) + 0.2 * random.dirichlet(np.ones(states), states)
    ends = moves.cumsum(axis=1)
    means = random.normal(size=(states, channels))
    state, steps = np.zeros(sequences, np.int64), np.empty((sequences, length), np.int64)
    for step in range(length):
        state = (random.random(sequences)[:, None] > ends[state]).sum(axis=1).clip(max=states - 1)
        steps[:, step] = state
    X = means[steps.ravel()] + random.normal(size=(sequences * length, channels))
    return Case(f"{sequences} x {length}, {channels} channels", X, [length] * sequences, states)


def start(case: Case, family: str) -> dict[str, Any]:
    """Return parameters to start from."""
    random = np.random.default_rng(1)
    channels = case.X.shape[1]
    spread = np.tile(case.X.var(axis=0), (case.states, 1))
    return {
        "start": random.dirichlet(np.ones(case.states)),
        "transitions": random.dirichlet(np.ones(case.states), case.states),
        "mean": case.X[random.choice(len(case.X), case.states, replace=False)],
        "spread": spread if family == "diag" else np.stack([np.diag(own) for own in spread]),
        "channels": channels,
    }


def theirs(case: Case, family: str, steps: int, implementation: str) -> Any:
    """Return hmmlearn's model after some iterations."""
    from hmmlearn.hmm import GaussianHMM

    own = start(case, family)
    model = GaussianHMM(
        case.states, family, n_iter=steps, tol=-np.inf, init_params="", implementation=implementation, min_covar=0.0
    )
    model.startprob_, model.transmat_ = own["start"], own["transitions"]
    model.means_, model.covars_ = own["mean"], own["spread"]
    return model.fit(case.X, case.lengths)


def ours(case: Case, family: str, steps: int) -> EMHMM:
    """Return our model after some iterations."""
    own = start(case, family)
    names = tuple(f"x{place}" for place in range(own["channels"]))
    spread = {"variance" if family == "diag" else "covariance": own["spread"]}
    init = {key: own[key] for key in ("start", "transitions")} | {"emissions": {"mean": own["mean"]} | spread}
    families = {names: "diagonal" if family == "diag" else "full"}
    return EMHMM(
        case.states, init=init, max_iter=steps, emissions=families, pseudo_counts=0.0, tol=0.0, stopping="paper"
    ).fit(case.X, lengths=case.lengths)


def per_iteration(runs: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Return the seconds of an iteration of each contender: longer runs less those of one iteration."""
    every = {(name, steps): partial(run, steps) for name, run in runs.items() for steps in (1, 1 + STEPS)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = best_seconds(every, REPEATS, CLOCK)  # type: ignore[arg-type]
    return {name: (found[(name, 1 + STEPS)] - found[(name, 1)]) / STEPS for name in runs}  # type: ignore[index]


def speed(quick: bool) -> None:
    """Show the time of an iteration beside hmmlearn."""
    sizes = [(200, 50, channels, states) for channels in (1, 2, 5) for states in (2, 4, 8)]
    sizes += [(1, 10_000, channels, states) for channels in (1, 2, 5) for states in (2, 4, 8)]
    rows = []
    for size in sizes[:2] if quick else sizes:
        case = drawn(*size)
        for family in ("diag", "full"):
            runs: dict[str, Any] = {"ours": partial(ours, case, family)}
            for name in ("log", "scaling"):
                runs[name] = partial(theirs, case, family, implementation=name)
            found = per_iteration(runs)
            best = min(found["log"], found["scaling"])
            rows.append(
                [
                    case.name,
                    str(case.states),
                    family,
                    f"{1e3 * found['ours']:.2f}",
                    f"{1e3 * best:.2f}",
                    f"{best / found['ours']:.1f}",
                ]
            )
    show_table(
        f"gaussian_hmm: milliseconds of processor time per EM iteration, same start, {STEPS} iterations;\n"
        f"hmmlearn's GaussianHMM with the faster of implementation='scaling' and 'log'",
        ["sequences", "states", "covariance", "eigentree", "hmmlearn", "hmmlearn / ours"],
        rows,
    )


def known(kind: str, steps: int, seed: int) -> NDArray[np.float64]:
    """Return one sequence of two channels from a chain of three states, Gaussian or not."""
    random = np.random.default_rng(seed)
    state, found = 0, np.empty((steps, 2))
    for step in range(steps):
        state = random.choice(3, p=MOVES[state])
        if kind == "gaussian":
            means = [[-1.5, 0.0], [0.0, 1.0], [1.5, -1.0]][state]
            found[step] = random.normal(means, [[0.7, 0.5], [0.6, 0.8], [0.9, 0.6]][state])
        elif state == 0:
            found[step] = random.gamma(2.0, 0.5), random.exponential(1.0)
        elif state == 1:
            found[step] = random.choice([-2.0, 2.0]) + 0.4 * random.normal(), random.normal(0.0, 0.4)
        else:
            found[step] = 0.6 * random.standard_t(3), random.uniform(-2.0, 2.0)
    return found


def truth(kind: str, X: NDArray[np.float64]) -> float:
    """Return the true log density per step of a sequence of `known`."""
    a, b = X.T
    if kind == "gaussian":
        means = np.array([[-1.5, 0.0], [0.0, 1.0], [1.5, -1.0]])
        logs = norm.logpdf(X[:, None, :], means, [[0.7, 0.5], [0.6, 0.8], [0.9, 0.6]]).sum(axis=2)
    else:
        two = np.logaddexp(norm.logpdf(a, -2.0, 0.4), norm.logpdf(a, 2.0, 0.4)) - np.log(2.0)
        logs = np.stack(
            [
                gamma.logpdf(a, 2.0, scale=0.5) + expon.logpdf(b),
                two + norm.logpdf(b, 0.0, 0.4),
                student.logpdf(a, 3.0, scale=0.6) + uniform.logpdf(b, -2.0, 4.0),
            ],
            axis=1,
        )
    message, total = np.log(MOVES[0]), 0.0
    for step in logs:
        here = message + step
        total += (scale := logsumexp(here))
        message = np.log(np.exp(here - scale) @ MOVES)
    return float(total / len(X))


def accuracy(quick: bool) -> None:
    """Show how far behind the truth fits are, in nats per step of new sequences."""
    from eigentree.emissions.families import FAMILIES

    families = ["diagonal", *(["semiparametric"] if "semiparametric" in FAMILIES else []), "auto"]
    rows = []
    for kind in ("gaussian", "other"):
        X, test = known(kind, TRAINING, 1), known(kind, TEST, 2)
        best = truth(kind, test)
        for family in families[:1] if quick else families:
            begin = time.perf_counter()
            model = EMHMM(3, emissions=family, random_state=0).fit(X, lengths=[len(X)])
            seconds = time.perf_counter() - begin
            own = float(model.score_samples(test, [len(test)])[0]) / len(test)
            rows.append([kind, family, f"{own:.4f}", f"{best - own:.4f}", f"{seconds:.1f}"])
    show_table(
        f"gaussian_hmm: log density per step of {TEST:,} new steps after a fit to {TRAINING:,}, three states",
        ["sequence", "emissions", "log density", "behind the truth", "fit, s"],
        rows,
    )


def run(quick: bool = False) -> None:
    """Print both tables."""
    speed(quick)
    accuracy(quick)
