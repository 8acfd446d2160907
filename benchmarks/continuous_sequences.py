"""Spectral learning of sequences of numbers beside EM, in the spirit of Song, Boots, Siddiqi, Gordon, Smola (2010).

A drawn Gaussian hidden Markov model, whose density is known, and the spoken vowels of nine speakers, one model for
each. The vowels are a file of the package aeon, of whose code nothing runs; without it they are left out.
"""

from __future__ import annotations

import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from benchmarks.measure import show_note, show_table
from eigentree import EMHMM, EMJunctionTree, SpectralHMM, SpectralJunctionTree, zoo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

MOVES = np.array([[0.85, 0.10, 0.05], [0.10, 0.80, 0.10], [0.05, 0.15, 0.80]])
MEANS, WIDTHS = np.array([-1.6, 0.0, 1.8]), np.array([0.6, 0.5, 0.8])
"""The drawn model of three states, which overlap."""

STATIONARY = np.linalg.matrix_power(MOVES.T, 500)[:, 0]

LENGTH = 5
"""Steps of each drawn sequence, as many as the density of a row can be told from chance for."""

TEST = 3000

STATES = 5
"""Of the model of each speaker."""

HMMLEARN = "hmmlearn, Gaussian, 3 starts"

MOST_OF_HMMLEARN = 1_000
"""Drawn sequences that hmmlearn learns from: 10,000 take it a minute, and with one start it is often stuck."""


class Scored(Protocol):
    """A fitted model of sequences."""

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log density of each sequence."""


class Tabled:
    """A tree over the steps of sequences of one length, which are the columns of a table."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def fit(self, X: Sequence[NDArray[np.float64]]) -> Tabled:
        """Return the model learned from sequences."""
        self.tree.fit(np.stack(X)[:, :, 0])
        return self

    def score_samples(self, X: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the log density of each sequence."""
        return np.asarray(self.tree.score_samples(np.stack(X)[:, :, 0]))


class Gaussian:
    """hmmlearn's Gaussian model with a variance for each channel, the best of some starts."""

    def __init__(self, states: int, starts: int) -> None:
        self.states, self.starts = states, starts

    def fit(self, X: Sequence[NDArray[np.float64]]) -> Gaussian:
        """Return the model learned from sequences."""
        from hmmlearn.hmm import GaussianHMM

        flat, lengths = np.concatenate(X), [len(each) for each in X]
        fits = [
            GaussianHMM(self.states, "diag", n_iter=100, tol=1e-2, random_state=seed).fit(flat, lengths)
            for seed in range(self.starts)
        ]
        self.model = max(fits, key=lambda fit: float(fit.score(flat, lengths)))
        return self

    def score_samples(self, X: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the log density of each sequence."""
        return np.array([self.model.score(each) for each in X])

    def filter_means(self, X: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Return the mean of each step given those before it."""
        made = []
        for each in X:
            log_density = norm.logpdf(
                each[:, None, :], self.model.means_, np.sqrt(np.stack([np.diag(own) for own in self.model.covars_]))
            ).sum(axis=2)
            prior, means = self.model.startprob_, np.empty_like(each)
            for step, own in enumerate(log_density):
                means[step] = prior @ self.model.means_
                posterior = prior * np.exp(own - own.max())
                prior = posterior / posterior.sum() @ self.model.transmat_
            made.append(means)
        return made


def drawn(count: int, seed: int) -> NDArray[np.float64]:
    """Return sequences of the drawn model, shape (count, LENGTH)."""
    random = np.random.default_rng(seed)
    state = random.choice(len(MEANS), count, p=STATIONARY)
    made = np.empty((count, LENGTH))
    for step in range(LENGTH):
        made[:, step] = random.normal(MEANS[state], WIDTHS[state])
        state = (random.random(count)[:, None] > MOVES.cumsum(axis=1)[state]).sum(axis=1).clip(max=len(MEANS) - 1)
    return made


def true_log_density(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log density of each row under the drawn model."""
    log_density = norm.logpdf(rows[:, :, None], MEANS, WIDTHS)
    message = np.log(STATIONARY) + log_density[:, 0]
    for step in range(1, rows.shape[1]):
        message = logsumexp(message[:, :, None] + np.log(MOVES), axis=1) + log_density[:, step]
    return np.asarray(logsumexp(message, axis=1))


def of_drawn(sizes: Sequence[int], seeds: Sequence[int]) -> None:
    """Show how far densities are from the true one, by the number of sequences."""
    states = len(MEANS)
    chain = zoo.HMM(hidden_states=states)
    makers: dict[str, Callable[[], Any]] = {
        "spectral, hats": lambda: SpectralHMM(states),
        "spectral tree, hats": lambda: Tabled(SpectralJunctionTree(chain)),
        "EM tree, Gaussian": lambda: Tabled(EMJunctionTree(chain, emissions="gaussian", random_state=0)),
        "EM, Gaussian": lambda: EMHMM(states, emissions="gaussian", random_state=0),
        "EM, semiparametric": lambda: EMHMM(states, emissions="semiparametric", random_state=0),
        HMMLEARN: lambda: Gaussian(states, 3),
    }
    rows = drawn(TEST, 1000)
    test, truth = [row[:, None] for row in rows], true_log_density(rows)
    lines = []
    for name, make in makers.items():
        cells = []
        for size in sizes:
            if name == HMMLEARN and size > MOST_OF_HMMLEARN:
                cells += ["-"] * 3
                continue
            errors, behind, spent = [], [], []
            for seed in seeds:
                X = [row[:, None] for row in drawn(size, seed)]
                start = time.process_time()
                model: Scored = make().fit(X)
                spent.append(time.process_time() - start)
                log_ratio = model.score_samples(test) - truth
                errors.append(float(np.abs(np.expm1(log_ratio)).mean()))
                behind.append(-float(log_ratio.mean()))
            cells += [f"{np.mean(errors):.3f}", f"{np.mean(behind):.4f}", f"{np.mean(spent):.2f}"]
        lines.append([name, *cells])
    header = ["method", *(part for size in sizes for part in (f"{size:,}", "nats", "s"))]
    show_table(
        f"Drawn Gaussian HMM, 3 states, {LENGTH} steps: mean relative error of the density of test sequences, nats "
        f"behind the truth, seconds; mean of {len(seeds)} draws",
        header,
        lines,
    )
    show_note(
        "the Gaussian family is the true one; hats assume no family. Trees have tables of their own for "
        "each step, the others the same for all."
    )


def vowels(part: str) -> tuple[list[NDArray[np.float64]], NDArray[np.int64]]:
    """Return the sequences of a part of JapaneseVowels, and the speaker of each."""
    found = find_spec("aeon")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("there is no package aeon", name="aeon")
    path = Path(found.origin).parent / "datasets" / "data" / "JapaneseVowels" / f"JapaneseVowels_{part}.ts"
    sequences, speakers = [], []
    for line in path.read_text().splitlines():
        if line.strip() and line[0] not in "#@":
            *channels, speaker = line.strip().split(":")
            cells = [[float(cell) for cell in channel.split(",") if cell != "?"] for channel in channels]
            sequences.append(np.array(cells).T)
            speakers.append(int(speaker))
    return sequences, np.array(speakers)


def step_means(model: Any, X: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Return the mean of each step of sequences given those before it."""
    if isinstance(model, Gaussian):
        return model.filter_means(X)
    if isinstance(model, EMHMM):
        # P(state | steps before) from P(state | steps so far).
        made = []
        for proba in model.filter(X):
            before = np.concatenate([model.startprob_[None], np.asarray(proba)[:-1] @ model.transmat_])
            made.append(before @ model.means_)
        return made
    of_channels = [model.filter(X, target=name) for name in model.columns_.names]
    return [np.stack(parts, axis=1) for parts in zip(*of_channels, strict=True)]


def of_vowels(channel_counts: Sequence[int]) -> None:
    """Show accuracy, log density and error of the next step of one model for each speaker."""
    try:
        (train, speakers), (test, wanted) = vowels("TRAIN"), vowels("TEST")
    except ModuleNotFoundError:
        show_note("JapaneseVowels is left out: install aeon, whose wheel has its file.")
        return
    flat = np.concatenate(train)
    middle, spread = flat.mean(axis=0), flat.std(axis=0)
    train, test = ([(each - middle) / spread for each in part] for part in (train, test))
    _, _, directions = np.linalg.svd(np.concatenate(train), full_matrices=False)
    makers: dict[str, Callable[[], Any]] = {
        "spectral, hats": lambda: SpectralHMM(STATES),
        "EM, Gaussian": lambda: EMHMM(STATES, emissions="gaussian", random_state=0),
        "EM, semiparametric": lambda: EMHMM(STATES, emissions="semiparametric", random_state=0),
        HMMLEARN: lambda: Gaussian(STATES, 3),
    }
    every = np.unique(speakers)
    for count in channel_counts:
        whole = count == flat.shape[1]
        learned, judged = (
            part if whole else [each @ directions[:count].T for each in part] for part in (train, test)
        )
        lines = []
        for name, make in makers.items():
            start = time.process_time()
            models = [
                make().fit([each for each, own in zip(learned, speakers, strict=True) if own == speaker])
                for speaker in every
            ]
            spent = time.process_time() - start
            scores = np.stack([model.score_samples(judged) for model in models], axis=1)
            own = scores[np.arange(len(judged)), np.searchsorted(every, wanted)]
            accuracy = float((every[scores.argmax(axis=1)] == wanted).mean())
            squares = []
            for model, speaker in zip(models, every, strict=True):
                mine = [each for each, who in zip(judged, wanted, strict=True) if who == speaker]
                squares += [(mean - each) ** 2 for mean, each in zip(step_means(model, mine), mine, strict=True)]
            error = float(np.sqrt(np.concatenate(squares).mean() / np.concatenate(judged).var(axis=0).mean()))
            nats = float(own.sum() / sum(map(len, judged)))
            lines.append([name, f"{accuracy:.3f}", f"{nats:.3f}", f"{error:.3f}", f"{spent:.1f}"])
        what = f"all {count} channels" if whole else f"first {count} principal component{'s' * (count > 1)}"
        show_table(
            f"JapaneseVowels, {what}, {STATES} states, one model for each of {len(every)} speakers: accuracy, test "
            f"log density of a step under its speaker's model, error of the next step over the standard deviation",
            ["method", "accuracy", "log density", "error", "s"],
            lines,
        )
    show_note(f"{len(train)} sequences to learn from and {len(test)} to be judged by, as the file has them.")


def run(quick: bool = False) -> None:
    """Show both."""
    with warnings.catch_warnings():
        # Of fits that stop at their last iteration.
        warnings.simplefilter("ignore")
        of_drawn((1_000,) if quick else (1_000, 10_000, 100_000), (7,) if quick else (7, 8, 9))
        of_vowels((1,) if quick else (1, 4, 12))
