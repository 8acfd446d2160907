"""How likely test rows of the standard density-estimation data are, beside other models and published figures.

Sizes, settings and where to stop are chosen on validation rows. Test rows are read, and scored once, after the last
fit of a data set.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import eigentree as et
from benchmarks import shared
from benchmarks.circuits import CIRCUITS, LEARNERS
from benchmarks.measure import ROOT, show_note, show_table
from benchmarks.paper.baselines import IndependentColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.shared import Codes

SEEDS = (0, 1, 2)
BOTH = (0, 1)
"""The states of every column; some columns are constant in training rows."""

MIXTURE_STATES = (4, 8, 16, 32, 64)
SPECTRAL_STATES = 4
FEW_PSEUDO_COUNTS = 0.1
PEER_SECONDS = 60
"""Processor time that each learner of others has for a data set, all of its settings together."""

QUICK_ROWS = 2_000

INDEPENDENT, CHOW_LIU, MIXTURE, SPECTRAL, OURS = "independent", "Chow-Liu", "mixture", "spectral", 'EM, "auto"'


PUBLISHED = {
    "nltcs": -6.00,
    "msnbc": -6.06,
    "kdd": -2.14,
    "plants": -14.26,
    "audio": -39.77,
    "jester": -52.38,
    "accidents": -26.74,
    "retail": -10.86,
    "dna": -79.05,
}
"""Mean log probability of a test row under mixtures of 4 hidden Chow-Liu trees of 12 states (HCLT 12x4), trained on
a GPU; ``../shared/data/README.md`` says whose."""


class Scoring(Protocol):
    """Anything that gives the log probability of rows."""

    def score_samples(self, X: Any) -> NDArray[np.float64]: ...


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a data set that fits may see."""

    name: str
    train: Codes
    validation: Codes

    @classmethod
    def of(cls, name: str, most: int | None) -> Rows:
        """Return those of a data set; the first training rows only, where the most of them is given."""
        return cls(name, shared.binary_part(name, "train", most), shared.binary_part(name, "valid"))


@dataclass(frozen=True, eq=False)
class Fit:
    """A model that was chosen: how, how likely validation rows are, and how long all that led to it took."""

    method: str
    seed: int | None
    model: Scoring | None
    """None of others, which score test rows themselves."""
    validation: float
    seconds: float
    size: str
    parameters: int
    test: float = math.nan

    def tested(self, rows: Codes) -> Fit:
        """Return the fit with the mean log probability of a test row."""
        return replace(self, test=float(self.model.score_samples(rows).mean())) if self.model else self


def independent(rows: Rows) -> Fit:
    """Return independent columns."""
    start = time.process_time()
    model = IndependentColumns([len(BOTH)] * rows.train.shape[1], rows.train)
    return _fit(rows, INDEPENDENT, None, model, start, "-", rows.train.shape[1])


def chow_liu(rows: Rows) -> Fit:
    """Return the Chow-Liu tree of the columns themselves."""
    start = time.process_time()
    graph = et.learn_structure(rows.train, hidden_states=None, categories=BOTH)
    model = et.EMJunctionTree(graph, pseudo_counts=FEW_PSEUDO_COUNTS, categories=BOTH).fit(rows.train)
    return _fit(rows, CHOW_LIU, None, model, start, "-", model.n_parameters_)


def mixture(rows: Rows, most: int) -> Fit:
    """Return a mixture of independent columns, with twice as many classes while validation log-likelihood rises."""
    start = time.process_time()
    best: et.EMJunctionTree | None = None
    highest = -np.inf
    for states in MIXTURE_STATES:
        if states > most:
            break
        model = et.EMJunctionTree(et.zoo.Mixture(states), random_state=SEEDS[0], categories=BOTH)
        score = model.fit(rows.train, validation=rows.validation).score(rows.validation)
        if score <= highest:
            break
        best, highest, chosen = model, score, states
    assert best is not None
    return _fit(rows, MIXTURE, SEEDS[0], best, start, f"{chosen} classes", best.n_parameters_)


def spectral(rows: Rows) -> Fit:
    """Return the spectral fit of a hidden Chow-Liu tree of few states; a larger one has ranks that rows lack."""
    start = time.process_time()
    structure = et.zoo.HiddenChowLiu(hidden_states=SPECTRAL_STATES)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = et.SpectralJunctionTree(structure, categories=BOTH).fit(rows.train)
    size = f"{SPECTRAL_STATES} states{', warned' if caught else ''}"
    return _fit(rows, SPECTRAL, None, model, start, size, 0)


def ours(rows: Rows, seed: int) -> Fit:
    """Return what ``EMJunctionTree("auto")`` makes of the rows."""
    start = time.process_time()
    model = et.EMJunctionTree("auto", random_state=seed, categories=BOTH)
    model.fit(rows.train, validation=rows.validation)
    search = model.search_
    size = f"{search.size} x {len(search.shares)} fits"
    return _fit(rows, OURS, seed, model, start, size, model.n_parameters_)


def _fit(
    rows: Rows, method: str, seed: int | None, model: Scoring, start: float, size: str, parameters: int
) -> Fit:
    """Return a fit that began at some processor time and ends now."""
    spent = time.process_time() - start
    return Fit(method, seed, model, float(model.score_samples(rows.validation).mean()), spent, size, parameters)


def peer(python: Path, rows: Rows, learner: str, most: int | None, budget: int) -> Fit | str:
    """Return what a learner of others reaches, run by a Python that has it; or why it reaches nothing."""
    script = ROOT / "benchmarks" / "circuits.py"
    sizes = [] if most is None else [str(most)]
    command = [str(python), str(script), str(shared.FOLDER), rows.name, learner, str(budget), *sizes]
    # What the other Python imports must come from its own installation.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no message"])[-1]
    result = json.loads(done.stdout.splitlines()[-1])
    return Fit(learner, SEEDS[0], None, **result)


def _fits(rows: Rows, seeds: Sequence[int], quick: bool) -> Iterator[Fit]:
    """Yield one fit after the other."""
    runs: list[Callable[[Rows], Fit]] = [
        independent,
        chow_liu,
        partial(mixture, most=MIXTURE_STATES[1 if quick else -1]),
        spectral,
        *(partial(ours, seed=seed) for seed in seeds),
    ]
    for run in runs:
        yield run(rows)


def measured(name: str, seeds: Sequence[int], python: Path | None, quick: bool) -> list[Fit]:
    """Return what comes of all methods on a data set; each is printed as soon as it is fitted."""
    most = QUICK_ROWS if quick else None
    rows = Rows.of(name, most)
    print(f"\ndensity: {name}, {len(rows.train):,} rows, {rows.train.shape[1]} columns; as they are fitted:")
    fits = []
    for fit in _fits(rows, seeds, quick):
        fits.append(fit)
        _show(fit)
    for learner in LEARNERS if python else ():
        assert python is not None
        found = peer(python, rows, learner, most, PEER_SECONDS)
        if isinstance(found, str):
            show_note(f"{learner}: {found}")
        else:
            fits.append(found)
            _show(found)
    test = shared.binary_part(name, "test")
    return [fit.tested(test) for fit in fits]


def _show(one: Fit) -> None:
    """Print one line at once, without test rows."""
    seed = "-" if one.seed is None else str(one.seed)
    figures = f"validation {one.validation:9.4f}  {one.seconds:8.2f} s  {one.parameters:9,d} parameters"
    print(f"  {one.method:16s} seed {seed}  {figures}  {one.size}", flush=True)


def _summary(name: str, fits: Sequence[Fit], methods: Sequence[str]) -> list[str]:
    """Return the line of a data set: all methods, ours with its spread, the published figure and a verdict."""
    tests = {method: [one.test for one in fits if one.method == method] for method in methods}
    mine = tests[OURS]
    ahead = fmean(mine) - PUBLISHED[name]
    return [
        name,
        *(f"{scores[0]:.3f}" if scores else "-" for method, scores in tests.items() if method != OURS),
        f"{fmean(mine):.3f}",
        f"{stdev(mine):.3f}" if len(mine) > 1 else "-",
        f"{fmean(one.seconds for one in fits if one.method == OURS):.1f}",
        f"{PUBLISHED[name]:.2f}",
        "yes" if ahead >= 0 else "no",
    ]


def warm_up() -> None:
    """Fit everything once, so that imports and first calls are over before any clock runs."""
    codes = np.random.default_rng(0).integers(0, 2, (400, 8)).astype(np.int8)
    for _ in _fits(Rows("random", codes, codes[:100]), SEEDS[:1], quick=True):
        pass


def run(quick: bool, sets: Sequence[str] = (), peer_python: Path | None = None) -> None:
    """Print the fits of each data set as they come, and one table of all."""
    names = ["nltcs"] if quick else list(sets) or list(PUBLISHED)
    if unknown := [name for name in names if name not in PUBLISHED]:
        raise SystemExit(f"there is no data set {unknown[0]!r}; there are {', '.join(PUBLISHED)}")
    parts = ("train", "valid", "test")
    if shared.is_absent("density", [f"{name}.{part}.data.gz" for name in names for part in parts]):
        return
    warm_up()
    seeds = SEEDS[:1] if quick else SEEDS
    methods = [INDEPENDENT, CHOW_LIU, MIXTURE, SPECTRAL, *(LEARNERS if peer_python else ()), OURS]
    lines = [_summary(name, measured(name, seeds, peer_python, quick), methods) for name in names]
    others = [method for method in methods if method != OURS]
    show_table(
        "density: mean log probability of a test row in nats; ours: mean of the seeds"
        f" {', '.join(map(str, seeds))}, their\n"
        "standard deviation, mean processor seconds of the whole search, 1 thread",
        ["data", *others, OURS, "spread", "s", "HCLT 12x4", "at or above"],
        lines,
    )
    _show_notes(peer_python)


def _show_notes(peer_python: Path | None) -> None:
    """Print what the methods are."""
    show_note(
        f"mixture: EMJunctionTree(zoo.Mixture(k)) stopped by validation rows, k doubled from {MIXTURE_STATES[0]} to"
        f" {MIXTURE_STATES[-1]} while that raises their log-likelihood, seed {SEEDS[0]}; spectral:"
        f" SpectralJunctionTree on HiddenChowLiu({SPECTRAL_STATES}), nothing chosen; HCLT: published,"
        " trained on a GPU, given with two digits; ours is not rounded before it is compared"
    )
    if peer_python:
        show_note(
            "LearnSPN, random circuits: deeprob-kit's learn_spn with Chow-Liu trees as leaves, and its ensembles of"
            f" {CIRCUITS} extremely randomised circuits; all settings of benchmarks/circuits.py, chosen by"
            f" validation rows, as far as {PEER_SECONDS} s of processor time go (cut where they do not)"
        )
    else:
        show_note("not measured: deeprob-kit, which is where --peer names a Python that has it")
