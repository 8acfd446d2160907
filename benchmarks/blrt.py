"""The bootstrap likelihood-ratio test (BLRT): its size, its power, and time beside StepMix with the bootstrap."""

from __future__ import annotations

import contextlib
import io
import math
import os
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import eigentree as et
from benchmarks.measure import show_note, show_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

CLOCK = time.process_time

ITEMS = 8
"""Binary items, of which each class agrees with all, half or none."""

REPLICATES, EXCEEDANCES = 39, 2
"""The least with which a test at the 5 % level is exact: it rejects with at most one of 39 as large."""

SIZE_TESTS, POWER_TESTS = 600, 25

SAMPLES = (100, 250, 500)
SEPARATIONS = (0.2, 0.3, 0.4)
"""How far the share of a class that agrees with an item is from one half."""

BOOTSTRAP, BLRT, STARTS = 100, 30, 10
"""Replicates and random starts of the comparison with StepMix."""


class Truth(NamedTuple):
    """A latent class model of binary items whose classes are of the same size."""

    classes: int
    separation: float
    rows: int

    def sampled(self, seed: int) -> Rows:
        """Return sampled rows."""
        random = np.random.default_rng([self.classes, round(100 * self.separation), self.rows, seed])
        agrees = np.array([[1] * ITEMS, [-1] * ITEMS, [1] * (ITEMS // 2) + [-1] * (ITEMS // 2)])[: self.classes]
        share = 0.5 + self.separation * agrees
        states = random.integers(self.classes, size=self.rows)
        return (random.random((self.rows, ITEMS)) < share[states]).astype(np.int64)


def p_value(truth: Truth, small: int, seed: int) -> float:
    """Return the p-value of a test of so many classes against one more, on rows that are sampled."""
    X = truth.sampled(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [et.LatentClassModel(small + more, random_state=seed).fit(X) for more in (0, 1)]
        return et.bootstrap_likelihood_ratio_test(
            *fits, X, n_replicates=REPLICATES, max_exceedances=EXCEEDANCES, random_state=seed
        ).p_value


def rejected(truth: Truth, small: int, tests: int) -> float:
    """Return the share of tests at the 5 % level that reject so many classes."""
    run = delayed(p_value)
    found = Parallel(os.cpu_count())(run(truth, small, seed) for seed in range(tests))
    return float(np.mean(np.array(found) <= 0.05))


def size_and_power(quick: bool) -> None:
    """Show how often two classes are rejected where they are true, and where there are three."""
    tests, most = (4, 4) if quick else (SIZE_TESTS, POWER_TESTS)
    truth = Truth(2, 0.3, 250)
    share = rejected(truth, 2, tests)
    show_note(
        f"blrt: two classes against three where two are true, {truth.rows} rows, {ITEMS} items: rejected in "
        f"{100 * share:.1f} ± {100 * math.sqrt(0.05 * 0.95 / tests):.1f} % of {tests} tests at the 5 % level"
    )
    samples, separations = (SAMPLES[:1], SEPARATIONS[-1:]) if quick else (SAMPLES, SEPARATIONS)
    rows = [
        [f"{separation}", *(f"{rejected(Truth(3, separation, count), 2, most):.2f}" for count in samples)]
        for separation in separations
    ]
    show_table(
        f"blrt: power against three classes, which are true, {most} tests each of {REPLICATES} replicates;\n"
        f"classes agree with all, none and half of {ITEMS} items, with probabilities 0.5 ± separation",
        ["separation", *(f"N = {count}" for count in samples)],
        rows,
    )


def shares(fit: Any) -> Any:
    """Return P(1 | class) of each item."""
    return np.array([np.asarray(fit.tables_[f"x{item}"])[:, 1] for item in range(ITEMS)])


def ours(X: Rows, replicates: int, tests: int) -> list[tuple[float, Any]]:
    """Return processor seconds and results of the bootstrap, and of the test with all replicates."""
    fits = [et.LatentClassModel(k, init="random", n_init=STARTS, random_state=0).fit(X) for k in (2, 3)]
    begin = CLOCK()
    found = et.bootstrap(fits[0], X, shares, n_replicates=replicates, random_state=0)
    done: list[tuple[float, Any]] = [(CLOCK() - begin, found.standard_errors)]
    begin = CLOCK()
    test = et.bootstrap_likelihood_ratio_test(*fits, X, n_replicates=tests, max_exceedances=None, random_state=0)
    return [*done, (CLOCK() - begin, test.p_value)]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Hide what StepMix prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def theirs(X: Rows, replicates: int, tests: int) -> list[tuple[float, Any]]:
    """Return the same of StepMix."""
    from stepmix import StepMix
    from stepmix.bootstrap import blrt

    settings = {"n_init": STARTS, "abs_tol": 1e-8, "rel_tol": 0.0, "max_iter": 1000, "random_state": 0}
    small, large = (StepMix(k, measurement="binary", verbose=0, progress_bar=0, **settings) for k in (2, 3))
    small.fit(X)
    begin = CLOCK()
    found = small.bootstrap_stats(X, n_repetitions=replicates, progress_bar=False)
    done = [(CLOCK() - begin, found["mm_std"].to_numpy())]
    begin = CLOCK()
    p_value = blrt(small, large, X, n_repetitions=tests, random_state=0)
    return [*done, (CLOCK() - begin, p_value)]


def beside_stepmix(quick: bool) -> None:
    """Show processor time beside StepMix, same numbers of replicates and starts, and whether results agree."""
    replicates, tests = (3, 2) if quick else (BOOTSTRAP, BLRT)
    count = SAMPLES[0] if quick else 500
    X = Truth(2, 0.3, count).sampled(0)
    with warnings.catch_warnings(), _silence():
        warnings.simplefilter("ignore")
        both = list(zip(ours(X, replicates, tests), theirs(X, replicates, tests), strict=True))
    (_, errors), (_, their_errors) = both[0]
    (_, p_value), (_, their_p_value) = both[1]
    agreement = [
        f"standard errors {errors.mean():.4f}, {their_errors.mean():.4f}",
        f"p = {p_value:.2f}, {their_p_value:.2f}",
    ]
    lines = [
        [f"{count:,}", work, f"{mine:.1f}", f"{other:.1f}", f"{other / mine:.1f}", said]
        for work, ((mine, _), (other, _)), said in zip(("bootstrap", "BLRT"), both, agreement, strict=True)
    ]
    show_table(
        f"blrt: processor seconds beside StepMix, two classes, {ITEMS} binary items, {STARTS} random starts;\n"
        f"{replicates} replicates of the bootstrap, {tests} of the test of two classes against three",
        ["rows", "work", "eigentree", "StepMix", "StepMix / ours", "ours, StepMix's"],
        lines,
    )


def run(quick: bool) -> None:
    """Show all tables."""
    beside_stepmix(quick)
    size_and_power(quick)
