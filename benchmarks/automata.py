"""Sequences: held-out likelihood and time of spectral learning beside EM, and very many symbols."""

from __future__ import annotations

import logging
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import shared
from benchmarks.measure import in_fresh_process, peak_growth, seconds, show_note, show_table
from eigentree import EMHMM, SpectralHMM

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

STEPS = 40
TESTED = 1_000
STARTS = 5
"""Random starts of hmmlearn, of which the best on the training sequences is kept."""
ITERATIONS = 100
MOST_FOR_PEERS = 100
"""Most sequences of 40 steps that hmmlearn is run on: beyond, its starts take minutes."""


class Truth(NamedTuple):
    """A hidden Markov model that sequences are sampled from; its start is not stationary."""

    start: NDArray[np.float64]
    transition: NDArray[np.float64]
    emission: NDArray[np.float64]

    @classmethod
    def random(cls, hidden: int, states: int, concentration: float, sticky: float, seed: int) -> Truth:
        """Return tables whose rows are Dirichlet, the transitions mixed with staying."""
        random = np.random.default_rng(seed)
        transition = random.dirichlet(np.full(hidden, concentration), hidden)
        return cls(
            random.dirichlet(np.ones(hidden)),
            (1 - sticky) * transition + sticky * np.eye(hidden),
            random.dirichlet(np.full(states, concentration), hidden),
        )

    def sample(self, count: int, steps: int, seed: int) -> NDArray[np.int64]:
        """Return sequences of codes, shape (count, steps)."""
        random = np.random.default_rng(seed)
        hidden = random.choice(len(self.start), count, p=self.start)
        found = np.empty((count, steps), np.int64)
        moves, symbols = self.transition.cumsum(axis=1), self.emission.cumsum(axis=1)
        for t in range(steps):
            found[:, t] = np.minimum(
                (random.random((count, 1)) > symbols[hidden]).sum(axis=1), symbols.shape[1] - 1
            )
            hidden = np.minimum((random.random((count, 1)) > moves[hidden]).sum(axis=1), len(self.start) - 1)
        return found

    def log_prob(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the exact log probability of each sequence."""
        message = np.broadcast_to(self.start, (len(codes), len(self.start)))
        found = np.zeros(len(codes))
        for t in range(codes.shape[1]):
            message = message * self.emission[:, codes[:, t]].T
            total = message.sum(axis=1, keepdims=True)
            found += np.log(total[:, 0])
            message = message / total @ self.transition
        return found


DRAWN = {
    "3 states, 4 symbols": (3, 4, 1.0, 0.0),
    "4 states, 6 symbols, Dirichlet(0.3)": (4, 6, 0.3, 0.0),
    "4 states, 6 symbols, Dirichlet(0.3), sticky": (4, 6, 0.3, 0.7),
    "8 states, 12 symbols, Dirichlet(0.3)": (8, 12, 0.3, 0.3),
}


def _hmmlearn(hidden: int, states: int, starts: int) -> Callable[[Any, Any], tuple[float, Any]]:
    """Return a fit of hmmlearn's that keeps the best of several random starts."""
    from hmmlearn.hmm import CategoricalHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)

    def fit(codes: Any, lengths: Any) -> Any:
        found = []
        for seed in range(starts):
            model = CategoricalHMM(hidden, n_iter=ITERATIONS, tol=1e-3, random_state=seed, n_features=states)
            model.fit(codes, lengths)
            found.append((model.score(codes, lengths), seed, model))
        return max(found, key=lambda each: each[:2])[2]

    return fit


def _show_drawn(sizes: tuple[int, ...], names: list[str]) -> None:
    table = []
    for name in names:
        hidden, states, concentration, sticky = DRAWN[name]
        truth = Truth.random(hidden, states, concentration, sticky, 1)
        test = truth.sample(TESTED, STEPS, 2)
        best = float(truth.log_prob(test).mean()) / STEPS
        for count in sizes:
            train = truth.sample(count, STEPS, 3)
            cells = [f"{name}, {count:,}", f"{np.exp(-best):.3f}"]
            alone = np.log((np.bincount(train.ravel(), minlength=states) + 0.5) / (train.size + states / 2))
            cells.append(f"{best - float(alone[test].mean()):.4f}")
            categories = {"x0": list(range(states))}
            for model in (
                SpectralHMM(hidden, categories=categories),
                EMHMM(hidden, categories=categories, random_state=0),
            ):
                model.fit(train[:50])
                spent = seconds(lambda model=model, train=train: model.fit(train), time.process_time)
                cells += [f"{best - float(model.score(test)) / STEPS:.4f}", f"{spent:.2f}"]
            for starts in (1, STARTS):
                if count > MOST_FOR_PEERS:
                    cells += ["-", "-"]
                    continue
                began = time.process_time()
                model = _hmmlearn(hidden, states, starts)(train.reshape(-1, 1), np.full(count, STEPS))
                spent = time.process_time() - began
                score = model.score(test.reshape(-1, 1), np.full(TESTED, STEPS)) / test.size
                cells += [f"{best - score:.4f}", f"{spent:.2f}"]
            table.append(cells)
    show_table(
        f"automata: nats a symbol behind the true model on {TESTED:,} new sequences of {STEPS} steps, and\n"
        f"processor seconds of the fit, 1 thread; all normalised over sequences of a length",
        [
            "drawn from, sequences",
            "true perplexity",
            "independent",
            "spectral",
            "s",
            "EMHMM",
            "s",
            "hmmlearn x1",
            "s",
            f"x{STARTS}",
            "s",
        ],
        table,
    )
    show_note(
        f"hmmlearn's CategoricalHMM runs {ITERATIONS} iterations at most from random tables and keeps the best of "
        f"its starts on the training sequences; it is left out beyond {MOST_FOR_PEERS:,} sequences"
    )


def _show_real(hidden: tuple[int, ...]) -> None:
    table = []
    for name, frames in (("mvad", {"x0": shared.careers()}), ("biofam", shared.families())):
        train = {each: frame[frame.index % 3 > 0] for each, frame in frames.items()}
        test = {each: frame[frame.index % 3 == 0] for each, frame in frames.items()}
        alone = 0.0
        for each, frame in test.items():
            shares = train[each].stack().value_counts(normalize=True)
            alone += float(np.log(frame.stack().map(shares)).sum()) / len(frame)
        for states in hidden:
            cells = [f"{name}, {states} states", f"{alone:.2f}"]
            for model in (
                SpectralHMM(states),
                SpectralHMM(states, channels="dependent"),
                EMHMM(states, random_state=0, pseudo_counts=0.1),
            ):
                spent = seconds(lambda model=model, train=train: model.fit(train), time.process_time)
                cells += [f"{model.score(test):.2f}", f"{spent:.2f}"]
            table.append(cells)
    show_table(
        "automata: mean log probability of a held-out sequence, and processor seconds; every third person held out",
        ["data", "independent", "spectral", "s", "dependent channels", "s", "EMHMM", "s"],
        table,
    )


def scale(count: int, steps: int) -> list[float]:
    """Return seconds of fit and score, and bytes that fit and score add to peak memory; for a fresh process."""
    truth = Truth.random(4, 6, 0.3, 0.5, 0)
    # Drawn in parallel: were they copies of a few, the sample of distinct pieces would be small, and cheap.
    X = truth.sample(10_000, -(-count * steps // 10_000), 1).astype(np.uint8).ravel()[: count * steps]
    lengths = np.full(count, steps)
    warm = SpectralHMM(4).fit(X[: 50 * 20], lengths=np.full(50, 20))
    warm.score_samples(X[: 50 * 20], lengths=np.full(50, 20))
    from eigentree.data.sequences.sequence_codes import Sequences

    sequences = Sequences.learned(X, lengths)
    model = SpectralHMM(4)
    spent: list[float] = []
    growth = peak_growth(lambda: spent.append(seconds(lambda: model.fit(sequences), time.process_time)))
    more = peak_growth(lambda: spent.append(seconds(lambda: model.score_samples(sequences), time.process_time)))
    return [*spent, growth, more]


def _show_scale(cases: list[tuple[int, int]]) -> None:
    table = []
    for count, steps in cases:
        fit, score, growth, more = in_fresh_process(__name__, "scale", count, steps)
        symbols = count * steps
        table.append(
            [
                f"{count:,} x {steps:,}",
                f"{fit:.2f}",
                f"{symbols / fit / 1e6:.1f}",
                f"{score:.2f}",
                f"{symbols / score / 1e6:.1f}",
                f"{growth / 1e6:.1f}",
                f"{more / 1e6:.1f}",
            ]
        )
    show_table(
        "automata: SpectralHMM(4) on many symbols of 6 kinds, sequences already read; processor seconds, 1 thread",
        ["sequences x steps", "fit s", "10^6 symbols/s", "score s", "10^6 symbols/s", "fit MB", "score MB"],
        table,
    )
    show_note("MB: peak memory beyond the data; a score is one number for each sequence")


def run(quick: bool) -> None:
    """Print likelihoods and times on sampled and real sequences, and what very many symbols take."""
    warnings.simplefilter("ignore", RuntimeWarning)
    cases = [(1, 100_000)] if quick else [(1, 1_000_000), (1, 10_000_000), (100_000, 10), (1_000_000, 10)]
    _show_scale(cases)
    if not shared.is_absent("automata: careers and families", shared.SEQUENCE_FILES):
        _show_real((4,) if quick else (2, 4, 6, 8))
    names = list(DRAWN)
    _show_drawn((100,) if quick else (100, 1_000, 10_000), names[:1] if quick else names)
