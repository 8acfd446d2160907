"""How likely rows are under a model, beside simpler models that were learned from other rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.errors import DataError, EigentreeError
from eigentree.viz.reports.baselines import simpler_models
from eigentree.viz.reports.given import drawn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats, Integers
    from eigentree.viz.reports.baselines import Learner
    from eigentree.viz.reports.given import Given

__all__ = ["Likelihoods", "Rival", "likelihoods_of"]

MOST_COMPARED = 20_000
"""Most rows or sequences on which models are compared."""

FOLDS = 5
"""Parts of the rows, each of which is scored by simpler models that were learned from the others."""

SEED = 0


class Rival(NamedTuple):
    """A simpler model on the same rows.

    Attributes
    ----------
    name : str
    mean : float
        Mean log probability of a row.
    ahead : float
        By how much the model's own is higher, in the mean over the rows that are possible under both.
    error : float
        The standard error of that difference.
    """

    name: str
    mean: float
    ahead: float
    error: float


@dataclass(frozen=True)
class Likelihoods:
    """How likely rows are.

    Attributes
    ----------
    count, given : int
        How many rows or sequences were scored, and how many were given.
    mean, error : float
        The mean log probability, and its standard error.
    per_cell : float
        The mean log probability of a known cell.
    impossible : int
        How many rows are impossible under the model.
    rivals : tuple of Rival
    learned : int
        How many rows each of the simpler models learned from.
    apart : bool
        Whether these are other rows, which were given for it; else they are parts of the rows that are scored.
    absent : tuple of (str, str)
        Simpler models that could not be learned, with the reason.
    """

    count: int
    given: int
    mean: float
    error: float
    per_cell: float
    impossible: int
    rivals: tuple[Rival, ...]
    learned: int
    apart: bool
    absent: tuple[tuple[str, str], ...] = ()


def likelihoods_of(given: Given, training: Given | None = None) -> Likelihoods:
    """Return how likely rows are under the model, and under simpler ones.

    These are learned from the training rows where there are some, else from each four fifths of the rows for the
    last fifth, so that none scores what it has seen.

    Parameters
    ----------
    given : Given
        The rows that are scored.
    training : Given, optional
    """
    some = given.chosen(drawn(given.count, MOST_COMPARED, SEED))
    own = some.log_prob()
    rivals, absent, learned = [], [], 0
    for name, learn in simpler_models(some):
        try:
            scores, learned = _scored(learn, some, training)
        except EigentreeError as error:
            absent.append((name, str(error)))
            continue
        both = np.isfinite(own) & np.isfinite(scores)
        rivals.append(
            Rival(name, float(scores.mean()), *_mean_and_error((own - np.where(both, scores, 0.0))[both]))
        )
    known = int((~some.missing).sum())
    return Likelihoods(
        count=some.count,
        given=given.count,
        mean=_mean_and_error(own)[0],
        error=_mean_and_error(own)[1],
        per_cell=float(own.sum() / known) if known else math.nan,
        impossible=int(np.isneginf(own).sum()),
        rivals=tuple(rivals),
        learned=learned,
        apart=training is not None,
        absent=tuple(absent),
    )


def _mean_and_error(values: Floats) -> tuple[float, float]:
    if not len(values):
        return math.nan, math.nan
    if not np.isfinite(values).all():
        return float(values.mean()), math.nan
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(values.mean()), error


def _scored(learn: Learner, given: Given, training: Given | None) -> tuple[Floats, int]:
    """Return how likely each row is under a simpler model that has not seen it, and from how many that learned."""
    with warnings.catch_warnings():
        # They speak of fits that nobody asked for.
        warnings.simplefilter("ignore")
        if training is not None:
            some = training.chosen(drawn(training.count, MOST_COMPARED, SEED))
            return learn(some)(given), some.count
        scores, learned = np.empty(given.count), 0
        for rest, part in _folds(given.count):
            scores[part] = learn(given.chosen(rest))(given.chosen(part))
            learned = len(rest)
        return scores, learned


def _folds(count: int) -> Iterator[tuple[Integers, Integers]]:
    """Yield what is learned from and what is scored, in turn."""
    if count < 2:
        raise DataError("there is one row only, and none other to learn from")
    order = np.random.default_rng(SEED).permutation(count)
    for part in np.array_split(order, min(FOLDS, count)):
        rest = np.setdiff1d(order, part)
        yield rest, np.sort(part)
