"""Hidden semi-Markov models: held-out likelihood beside hidden Markov models, recovered durations, and cost."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from benchmarks.measure import best_seconds, show_note, show_table
from benchmarks.shared import careers, families
from eigentree import EMHMM

if TYPE_CHECKING:
    from numpy.typing import NDArray

FAMILIES = (None, "geometric", "negative_binomial", "explicit")
NAMES = {None: "Markov", "geometric": "geometric", "negative_binomial": "negative binomial", "explicit": "explicit"}
FOLDS = 5
SEED = 0
"""Of the folds, the fits and the sampled sequences."""

LENGTH = 40
"""Steps of each sampled sequence, in which each ends."""

SHAPES = ((2.0, 3.0), (6.0, 6.0), (1.0, 9.0))
"""Size and mean of the further steps of each state of the sampled sequences."""

LONGEST = 60
STEPS = 3
"""Iterations whose time is taken, beyond the first."""


def folds(frames: dict[str, pandas.DataFrame], seed: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return training and held-out sequences of each fold."""
    count = len(next(iter(frames.values())))
    fold = np.random.default_rng(seed).permutation(count) % FOLDS
    return [
        ({name: X[fold != own] for name, X in frames.items()}, {name: X[fold == own] for name, X in frames.items()})
        for own in range(FOLDS)
    ]


def held_out(quick: bool) -> None:
    """Show the mean log-likelihood of held-out sequences."""
    rows = []
    for name, frames in (("mvad", {"x0": careers()}), ("biofam", families())):
        if quick:
            frames = {channel: X.iloc[:120, :20] for channel, X in frames.items()}
        for states in (3,) if quick else (3, 4, 6):
            found: dict[Any, list[NDArray[np.float64]]] = {kind: [] for kind in FAMILIES}
            parameters = {}
            for training, test in folds(frames, SEED):
                for kind in FAMILIES:
                    model = EMHMM(states, durations=kind, random_state=SEED, n_init=2 if quick else 5).fit(training)
                    found[kind].append(model.score_samples(test))
                    parameters[kind] = model.n_parameters_
            base = np.concatenate(found[None])
            for kind in FAMILIES:
                scores = np.concatenate(found[kind])
                gain = scores - base
                error = gain.std() / np.sqrt(len(gain))
                cells = [f"{scores.mean():.3f}", f"{gain.mean():+.3f}", f"{error:.3f}", f"{parameters[kind]}"]
                rows.append([f"{name}, {states} states, {NAMES[kind]}", *cells])
    header = ["held-out sequences", "log-likelihood", "gain", "its error", "parameters"]
    show_table(f"mean log-likelihood of a held-out sequence, {FOLDS} folds (nats)", header, rows)


def sampled(count: int, seed: int) -> list[NDArray[np.float64]]:
    """Return sequences of a number, from a semi-Markov chain whose durations are shifted negative binomial."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        states: list[int] = []
        state = int(random.integers(3))
        while len(states) < LENGTH:
            size, mean = SHAPES[state]
            states += [state] * (1 + int(random.negative_binomial(size, size / (size + mean))))
            state = (state + int(random.integers(1, 3))) % 3
        made.append(random.normal(2.0 * np.array(states[:LENGTH]), 1.0))
    return made


def recovery(quick: bool) -> None:
    """Show by how much estimated mean durations differ from the true ones."""
    truth = np.array([1.0 + mean for _, mean in SHAPES])
    sizes, repeats = ((50, 100), 1) if quick else ((100, 400, 1600), 5)
    rows = []
    for kind in FAMILIES[1:]:
        cells = []
        for size in sizes:
            errors = []
            for repeat in range(repeats):
                X = sampled(size, 100 * repeat + SEED)
                settings = {"emissions": "gaussian", "init": "clusters", "n_init": 1, "random_state": SEED}
                model = EMHMM(3, durations=kind, max_duration=LONGEST, **settings).fit(X)  # type: ignore[arg-type]
                found = model.durations_[np.argsort(model.means_[:, 0])]
                errors.append(np.sqrt(((found / truth - 1.0) ** 2).mean()))
            cells += [f"{np.mean(errors):.4f}", f"{np.mean(errors) * np.sqrt(size):.2f}"]
        rows.append([NAMES[kind], *cells])
    header = ["durations", *(part for size in sizes for part in (f"N = {size}", "times √N"))]
    show_table(f"relative error of mean durations, {LENGTH} steps a sequence, mean of {repeats}", header, rows)
    show_note("true durations are negative binomial; geometric ones cannot be right but in the third state")


def one_fit(X: list[NDArray[np.float64]], longest: int | None, iterations: int) -> EMHMM:
    """Return a model after so many iterations from given tables."""
    moves = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    init = {
        "start": np.full(3, 1 / 3),
        "transitions": moves,
        "emissions": {"mean": np.array([0.0, 2.0, 4.0]), "variance": np.ones(3)},
    }
    kind = None if longest is None else "explicit"
    settings: dict[str, Any] = {"emissions": "gaussian", "stopping": "paper", "tol": 0.0, "max_iter": iterations}
    return EMHMM(3, durations=kind, max_duration=longest, init=init, **settings).fit(X)


def cost(quick: bool) -> None:
    """Show the time of an iteration by the longest duration."""
    X = sampled(50 if quick else 1000, SEED)
    longest = (None, 5, 10) if quick else (None, 10, 20, 40, 80, 160, 320)
    runs: dict[Any, Any] = {
        (most, steps): partial(one_fit, X, most, steps) for most in longest for steps in (1, 1 + STEPS)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = best_seconds(runs, 3, time.process_time)
    rows = []
    for most in longest:
        seconds = (found[(most, 1 + STEPS)] - found[(most, 1)]) / STEPS  # type: ignore[index]
        each = "" if most is None else f"{1e6 * seconds / most:.0f}"
        rows.append(["Markov" if most is None else f"up to {most}", f"{1e3 * seconds:.1f}", each])
    header = ["durations", "ms an iteration", "µs for each duration"]
    show_table(f"EM iterations on {len(X)} sequences of {LENGTH} steps, 3 states", header, rows)


def run(quick: bool = False) -> None:
    """Run the topic."""
    cost(quick)
    recovery(quick)
    held_out(quick)
