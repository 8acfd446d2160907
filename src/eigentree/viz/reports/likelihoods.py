"""How probable rows are under a model, compared with baselines on the same footing: held-out, or in-sample."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.errors import DataError, EigentreeError
from eigentree.viz.reports.baselines import baselines
from eigentree.viz.reports.evaluation_data import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats
    from eigentree.viz.reports.baselines import Learner
    from eigentree.viz.reports.evaluation_data import EvaluationData

__all__ = ["Baseline", "Likelihoods", "likelihoods_of"]

MOST_COMPARED = 20_000
"""Most rows or sequences on which models are compared."""

FOLDS, SEED = 5, 0


class Baseline(NamedTuple):
    """A baseline on the same rows, with its mean log probability.

    `ahead` is by how much the model's own is higher, in the mean over the rows that are possible under both, and
    `error` the standard error of that difference.
    """

    name: str
    mean: float
    ahead: float
    error: float


@dataclass(frozen=True)
class Likelihoods:
    """How probable rows are.

    Attributes
    ----------
    count, given : int
        How many rows or sequences were scored, and how many were given.
    mean, error : float
        The mean log probability, and its standard error.
    impossible : int
        How many rows are impossible under the model.
    baselines : tuple of Baseline
        Those that have not seen the rows that they score: fitted to the training data, or cross-validated.
    in_sample : tuple of Baseline
        Those that were fitted to the very rows that they score, as the model may have been; empty where training
        data were given, since then these rows are held out.
    learned : int
        How many rows each of `baselines` was fitted to.
    held_out : bool
        Whether training data were given.
    absent : tuple of (str, str)
        Baselines that could not be fitted, with the reason.
    """

    count: int
    given: int
    mean: float
    error: float
    impossible: int
    baselines: tuple[Baseline, ...]
    in_sample: tuple[Baseline, ...]
    learned: int
    held_out: bool
    absent: tuple[tuple[str, str], ...] = ()


def likelihoods_of(data: EvaluationData, training: EvaluationData | None = None) -> Likelihoods:
    """Return how probable rows are under the model and under baselines.

    Baselines are fitted to the training data; without any they are cross-validated on the rows, and fitted to them.
    """
    some = data.chosen(sampled(data.count, MOST_COMPARED, SEED))
    own = some.log_prob()
    known = None if training is None else training.chosen(sampled(training.count, MOST_COMPARED, SEED))
    absent: dict[str, str] = {}

    def compared(score: Callable[[Learner], Floats]) -> tuple[Baseline, ...]:
        found = []
        for name, learn in baselines(some):
            try:
                with warnings.catch_warnings():
                    # These would be about fits that nobody asked for.
                    warnings.simplefilter("ignore")
                    scores = score(learn)
            except EigentreeError as error:
                absent[name] = str(error)
                continue
            both = np.isfinite(own) & np.isfinite(scores)
            ahead = _mean_and_error(own[both] - scores[both])
            found.append(Baseline(name, float(scores.mean()), *ahead))
        return tuple(found)

    unseen = compared(lambda learn: _cross_validated(learn, some) if known is None else learn(known)(some))
    mean, error = _mean_and_error(own)
    return Likelihoods(
        count=some.count,
        given=data.count,
        mean=mean,
        error=error,
        impossible=int(np.isneginf(own).sum()),
        baselines=unseen,
        in_sample=compared(lambda learn: learn(some)(some)) if known is None else (),
        learned=some.count - math.ceil(some.count / FOLDS) if known is None else known.count,
        held_out=training is not None,
        absent=tuple(absent.items()),
    )


def _mean_and_error(values: Floats) -> tuple[float, float]:
    if not len(values):
        return math.nan, math.nan
    if not np.isfinite(values).all():
        return float(values.mean()), math.nan
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(values.mean()), error


def _cross_validated(learn: Learner, data: EvaluationData) -> Floats:
    """Return how probable each row is under a baseline that was fitted to other parts of the rows."""
    if data.count < 2:
        raise DataError("there is one row only, and none other to learn from")
    order = np.random.default_rng(SEED).permutation(data.count)
    scores = np.empty(data.count)
    for part in np.array_split(order, min(FOLDS, data.count)):
        rest = np.setdiff1d(order, part)
        scores[np.sort(part)] = learn(data.chosen(rest))(data.chosen(np.sort(part)))
    return scores
