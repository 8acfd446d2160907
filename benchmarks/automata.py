"""Sequences: held-out likelihood and time of spectral learning beside EM, and very many symbols."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import shared
from benchmarks.measure import in_fresh_process, peak_growth, seconds, show_note, show_table
from benchmarks.sequences import drawn
from eigentree import EMHMM, SpectralHMM

if TYPE_CHECKING:
    pass


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
    # Drawn in parallel: were they copies of a few, the sample of distinct pieces would be small, and cheap.
    X = drawn(10_000, -(-count * steps // 10_000), 4).codes.astype(np.uint8)[: count * steps]
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
        "automata: SpectralHMM(4) on many symbols of 4 kinds, sequences already read; processor seconds, 1 thread",
        ["sequences x steps", "fit s", "10^6 symbols/s", "score s", "10^6 symbols/s", "fit MB", "score MB"],
        table,
    )
    show_note("MB: peak memory beyond the data; a score is one number for each sequence")


def run(quick: bool) -> None:
    """Print likelihoods and times on real sequences, and what very many symbols take."""
    warnings.simplefilter("ignore", RuntimeWarning)
    cases = [(1, 100_000)] if quick else [(1, 1_000_000), (1, 10_000_000), (100_000, 10), (1_000_000, 10)]
    _show_scale(cases)
    if not shared.is_absent("automata: careers and families", shared.SEQUENCE_FILES):
        _show_real((4,) if quick else (2, 4, 6, 8))
