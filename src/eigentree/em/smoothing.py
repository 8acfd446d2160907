"""How many pseudo-counts: as many as make held-out rows likeliest, where rows are few beside parameters.

With few rows a prior matters more than anything else that can be done about them, and which one is right depends on
the data: classes that are nearly alike want several pseudo-counts, classes far apart next to none.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.tree_fit import fit_tree
from eigentree.progress import shown_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.init.trees import Kind
    from eigentree.em.tree_fit import TreeFit
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["FEW_PSEUDO_COUNTS", "chosen_pseudo_counts"]

FEW_PSEUDO_COUNTS = 0.1
"""What is enough where rows are many: no cell is impossible, and nothing else changes much."""

STRENGTHS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Pseudo-counts to choose from."""

FEWEST_ROWS = 10
"""With fewer rows there are none to hold out."""

FOLDS = 5
"""Into how many parts rows are dealt, of which one is held out."""

FEW_ROWS = 500
"""With no more rows than these, each part is held out in turn: one alone would leave the choice to chance."""

MOST_ROWS = 3_000
"""Rows that differ, from which pseudo-counts are chosen."""

ROWS_PER_PARAMETER = 50
"""With more rows than this for each entry of the tables, the prior hardly matters and is not searched for."""

STEPS = 60
"""Steps that are taken with each number of pseudo-counts, from where the next smaller one has led to."""

GOOD_ENOUGH = 1e-4
"""A climb ends when it has less than this still to gain, in log-likelihood per row: pseudo-counts change more."""

LEVEL = 0.5
"""Within so many standard errors of the best, the larger number is as good: it is the safer one."""

SOFTENED = 1e-4
"""The share that is made uniform first: what one part of the rows rules out, the other may show."""


def chosen_pseudo_counts(
    fit: TreeFit,
    init: LatentNetwork | Literal["multistart"] | Kind,
    random: np.random.Generator,
    verbose: int = 0,
    rows: float | None = None,
) -> float:
    """Return the pseudo-counts under which rows that were held out are likeliest.

    One fit to the other rows, with next to none, is gone on from with more and more: a fit that begins with many
    would miss what is peaked in the data.

    Parameters
    ----------
    fit : TreeFit
    init : LatentNetwork, "multistart" or the name of an initialiser
        Where that fit starts; for a race, from a mixture.
    random : Generator
        Deals out the rows, and draws starts.
    verbose : int
        Show progress if positive, as the fit itself does.
    rows : float, optional
        How many rows there are, where the course has but a sample of them.
    """
    rows = float(fit.rows.weights.sum()) if rows is None else rows
    if not FEWEST_ROWS <= rows <= ROWS_PER_PARAMETER * fit.whole.layout.learned_count:
        return FEW_PSEUDO_COUNTS
    some = fit.rows.by_name(fit.graph.observed)
    # A prior is a matter of the tables and not of how many rows there are: some tell it, and cost less.
    if len(some.weights) > MOST_ROWS:
        some = some.sampled(MOST_ROWS, random)[0]
    parts = some.dealt(np.full(FOLDS, 1.0 / FOLDS), random)[: FOLDS if rows <= FEW_ROWS else 1]
    with shown_progress(verbose, "pseudo-counts", len(parts) * (1 + len(STRENGTHS)) * STEPS) as report:
        steps = itertools.count(1)
        trials = [
            _tried(fit, some, part, init, random, lambda objective: report(next(steps), objective))
            for part in parts
        ]
    known = [trial for trial in trials if trial is not None]
    if not known:
        return FEW_PSEUDO_COUNTS
    weights = np.concatenate([held.weights for held, _ in known])
    scores = [np.concatenate(each) for each in zip(*(found for _, found in known), strict=True)]
    return max(
        strength for strength, score in zip(STRENGTHS, scores, strict=True) if _level(score, scores, weights)
    )


def _tried(
    fit: TreeFit,
    rows: DistinctRows,
    part: Floats,
    init: LatentNetwork | Literal["multistart"] | Kind,
    random: np.random.Generator,
    report: Callable[[float], None],
) -> tuple[DistinctRows, list[Floats]] | None:
    """Return rows that were held out, and their log probabilities with each number of pseudo-counts.

    How much of each row is held out, `part` says.
    """
    rest, held = rows.weighing(rows.weights - part), rows.weighing(part)
    if not len(rest.weights) or not len(held.weights):
        return None
    learning = replace(fit, rows=rest, pseudo_counts=FEW_PSEUDO_COUNTS, max_iter=STEPS, validation=None)
    # A whole race would cost more than the rest of the fit; for a prior one good start is enough.
    for state in fit_tree(learning, "mixture" if init == "multistart" else init, 1, random):
        report(state.objective)
    here = state.best[1].parameters
    scores = []
    for strength in STRENGTHS:
        problem = replace(learning, pseudo_counts=strength).objective(rest)
        here = problem.layout.mixed(here, SOFTENED)
        for climb in em_run(problem, here, Stopping("gain", GOOD_ENOUGH), STEPS, accelerate=True):
            here = climb.here.parameters
            report(climb.here.objective)
        scores.append(problem.layout.network(here).model.score(held.codes)[0])
    return held, scores


def _level(score: Floats, scores: list[Floats], weights: Floats) -> bool:
    """Return whether the score of held-out rows is hardly behind the best: by less than chance easily makes it."""
    total = float(weights.sum())
    behind = max(scores, key=lambda each: float(weights @ each)) - score
    mean = float(weights @ behind) / total
    return mean <= LEVEL * math.sqrt(float(weights @ (behind - mean) ** 2)) / total
