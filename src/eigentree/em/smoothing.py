"""How many pseudo-counts: as many as make held-out rows likeliest, where rows are few beside parameters.

With few rows a prior matters more than anything else that can be done about them, and which one is right depends on
the data: tables with even rows want several pseudo-counts, tables with peaked ones next to none.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eigentree.em.climbing import Stopping, climbed
from eigentree.em.distinct import DistinctRows
from eigentree.em.fitting import fitted
from eigentree.em.frozen import softened
from eigentree.em.starts import Start

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.entrants import Kind
    from eigentree.em.racing import Course, Standing
    from eigentree.exact.network import LatentNetwork

__all__ = ["FEW_PSEUDO_COUNTS", "Smoothing", "smoothed", "split"]

FEW_PSEUDO_COUNTS = 0.1
"""What is enough where rows are many: no cell is impossible, and nothing else changes much."""

STRENGTHS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Pseudo-counts to choose from."""

FEWEST_ROWS = 10
"""With fewer rows there are none to hold out."""

ROWS_PER_PARAMETER = 50
"""With more rows than this for each free parameter, the prior hardly matters and is not searched for."""

HELD_OUT = 0.2
"""The share of the rows by which pseudo-counts are chosen."""

STEPS = 60
"""Steps that are taken with each number of pseudo-counts, from where the next larger one has led to."""

GOOD_ENOUGH = 1e-4
"""A climb ends when it has less than this still to gain, in log-likelihood per row: pseudo-counts change more."""

LEVEL = 0.5
"""Within so many standard errors of the best, the larger number is as good: it is the safer one."""

SOFTENED = 1e-4
"""The share that is made uniform first: what one part of the rows rules out, the other may show."""


class Smoothing(NamedTuple):
    """How many pseudo-counts to use, and the fit by which that was found.

    Attributes
    ----------
    pseudo_counts : float
    standing : Standing, optional
        Of the fit to the rows that were not held out, with these pseudo-counts; None where rows are too many or too
        few to ask.
    """

    pseudo_counts: float
    standing: Standing | None = None


def smoothed(
    course: Course, init: LatentNetwork | Literal["race"] | Kind, random: np.random.Generator
) -> Smoothing:
    """Return the pseudo-counts under which rows that were held out are likeliest.

    One fit to the other rows, with the most pseudo-counts, is gone on from with fewer and fewer.

    Parameters
    ----------
    course : Course
    init : LatentNetwork, "race" or the name of a kind of start
        Where that fit starts.
    random : Generator
        Deals out the rows, and draws starts.
    """
    rows = float(course.rows.weights.sum())
    if not FEWEST_ROWS <= rows <= ROWS_PER_PARAMETER * int(course.whole.layout.learned.sum()):
        return Smoothing(FEW_PSEUDO_COUNTS)
    rest, held = split(course.rows, HELD_OUT, random)
    if not len(rest.weights) or not len(held.weights):
        return Smoothing(FEW_PSEUDO_COUNTS)
    part = replace(course, rows=rest, pseudo_counts=STRENGTHS[-1], validation=None)
    (standing,) = deque(fitted(part, init, 1, random), maxlen=1)
    here = max((climb for _, climb in standing.climbs), key=lambda climb: climb.score).parameters
    scores, ends = [], []
    for strength in reversed(STRENGTHS):
        problem = replace(part, pseudo_counts=strength).problem(rest, course.threads)
        here = softened(problem.layout, here, SOFTENED)
        for climb in climbed(problem, here, Stopping("gain", GOOD_ENOUGH), STEPS, accelerate=True):
            here = climb.here.parameters
        scores.append(problem.layout.network(here).model.score(held.codes)[0])
        ends.append(here)
    chosen = next(k for k, score in enumerate(scores) if _level(score, scores, held))
    leader = Start(standing.leader.name, softened(course.whole.layout, ends[chosen], SOFTENED))
    return Smoothing(STRENGTHS[::-1][chosen], standing._replace(leader=leader, climbs=()))


def _level(score: Floats, scores: list[Floats], held: DistinctRows) -> bool:
    """Return whether the score of held-out rows is hardly behind the best: by less than chance easily makes it."""
    total = held.weights.sum()
    behind = max(scores, key=lambda each: float(held.weights @ each)) - score
    mean = float(held.weights @ behind) / total
    return bool(mean <= LEVEL * math.sqrt(float(held.weights @ (behind - mean) ** 2)) / total)


def split(rows: DistinctRows, share: float, random: np.random.Generator) -> tuple[DistinctRows, DistinctRows]:
    """Return the rows without a share of them, and that share, each copy of a row dealt out by itself."""
    whole = np.floor(rows.weights)
    taken = random.binomial(whole.astype(np.int64), share) + (rows.weights - whole) * share
    return _weighing(rows, rows.weights - taken), _weighing(rows, taken)


def _weighing(rows: DistinctRows, weights: Floats) -> DistinctRows:
    kept = np.flatnonzero(weights > 0)
    return DistinctRows(np.asfortranarray(rows.codes[kept]), weights[kept], rows.first[kept])
