"""Mixture hidden Markov models: drawn clusters, and how intervals cover; family life in three channels."""

from __future__ import annotations

import time
import warnings
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import show_table
from benchmarks.shared import families
from eigentree import MixtureHMM, select

SEEDS = range(20)
"""Of drawn data; fixed before anything was looked at."""

CLUSTERS, STATES, SYMBOLS, STEPS = 3, 2, 5, 15
STAYS = 0.75
"""The chance that a state stays."""
SIZES = (100, 500)
SLOPES = np.array([0.0, 1.0, -1.0])
INTERVAL = 1.96


class Drawn(NamedTuple):
    """Sequences with a covariate, their clusters, and the tables they are drawn from."""

    sequences: list[np.ndarray]
    covariate: np.ndarray
    clusters: np.ndarray
    tables: dict[str, np.ndarray]


def drawn(count: int, seed: int) -> Drawn:
    """Return sequences of clusters whose states stay three times in four, and whose emissions are drawn."""
    random = np.random.default_rng(seed)
    shown = random.dirichlet(np.full(SYMBOLS, 0.5), (CLUSTERS, STATES))
    covariate = random.normal(size=count)
    shares = np.exp(np.outer(covariate, SLOPES))
    shares /= shares.sum(axis=1, keepdims=True)
    clusters = (random.random((count, 1)) > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)
    states = random.integers(STATES, size=count)
    found = np.empty((count, STEPS), np.int64)
    for step in range(STEPS):
        own = shown[clusters, states].cumsum(axis=1)[:, :-1]
        found[:, step] = (random.random((count, 1)) > own).sum(axis=1)
        states = np.where(random.random(count) < STAYS, states, 1 - states)
    start = np.full(CLUSTERS * STATES, 1.0 / (CLUSTERS * STATES))
    moves = np.where(np.eye(STATES), STAYS, 1 - STAYS)
    transitions = np.kron(np.eye(CLUSTERS), moves)
    tables = {"start": start, "transitions": transitions, "emissions": shown.reshape(-1, SYMBOLS)}
    return Drawn(list(found), covariate, clusters, tables)


def run(quick: bool) -> None:
    """Print what is recovered of drawn clusters, and log-likelihoods of family life."""
    warnings.simplefilter("ignore")
    _show_drawn(SIZES[:1] if quick else SIZES, SEEDS[:5] if quick else SEEDS)
    _show_families((1, 2, 3) if quick else (1, 2, 3, 4, 5))


def _show_drawn(sizes: tuple[int, ...], seeds: Any) -> None:
    rows = []
    for size in sizes:
        found = np.array([_one(drawn(size, seed)) for seed in seeds])
        right, near, below, inside, selected, seconds = found.mean(axis=0)
        cells = [
            f"{right:.3f}",
            f"{near:.3f}",
            f"{below:.0%}",
            f"{inside:.1%}",
            f"{selected:.0%}",
            f"{seconds:.2f}",
        ]
        rows.append([f"{size:,}", *cells])
    head = [
        "sequences",
        "right",
        "right from the truth",
        "below that fit",
        "slopes covered",
        "BIC finds 3",
        "seconds",
    ]
    show_table(
        f"{CLUSTERS} clusters of {STATES} states, {STEPS} steps of {SYMBOLS} symbols; {len(seeds)} times",
        head,
        rows,
    )


def _one(data: Drawn) -> tuple[float, ...]:
    """Return shares of right clusters, whether the fit is below the optimum near the truth, coverage and time."""
    X, inputs = data.sequences, data.covariate[:, None]
    how: dict[str, Any] = {"hidden_states": STATES, "pseudo_counts": 1e-6, "random_state": 0}
    begin = time.process_time()
    model = MixtureHMM(CLUSTERS, **how).fit(X, inputs=inputs)
    seconds = time.process_time() - begin
    known = MixtureHMM(CLUSTERS, **how | {"init": data.tables}).fit(X, inputs=inputs)
    own = model.predict(X, inputs=inputs)
    order = max(permutations(range(CLUSTERS)), key=lambda each: np.mean(np.array(each)[own] == data.clusters))
    right = float(np.mean(np.array(order)[own] == data.clusters))
    below = model.score(X, inputs=inputs) < known.score(X, inputs=inputs) - 1e-4
    estimates = model.estimates().part(table="logit of clusters")
    slope = np.array(["x0" in str(labels[2]) for labels in estimates.labels])
    truths = np.array([SLOPES[order[cluster]] - SLOPES[order[0]] for cluster in range(1, CLUSTERS)])
    apart = np.abs(estimates.values[slope] - truths)
    inside = float(np.mean(apart <= INTERVAL * estimates.standard_errors[slope]))
    best = select(X, (2, 3, 4), MixtureHMM(**how)).best().n_clusters
    near = np.mean(known.predict(X, inputs=inputs) == data.clusters)
    return right, float(near), float(below), inside, float(best == CLUSTERS), seconds


def _show_families(counts: tuple[int, ...]) -> None:
    rows = []
    for count in counts:
        begin = time.process_time()
        settings: dict[str, Any] = {"transitions": "left-to-right", "pseudo_counts": 1e-6, "random_state": 0}
        model = MixtureHMM(count, 4, **settings).fit(families())
        seconds = time.process_time() - begin
        own = model.criteria(families())
        figures = [f"{own.log_likelihood:.2f}", str(own.parameters), f"{own.bic:.2f}", f"{own.entropy_r2:.3f}"]
        rows.append([str(count), *figures, f"{seconds:.2f}"])
    show_table(
        "biofam, 2,000 people, three channels, clusters of four states from left to right",
        ["clusters", "log-likelihood", "parameters", "BIC", "entropy R²", "seconds"],
        rows,
    )
