"""How much to shrink: K-fold held-out likelihood, from statistics that subtract.

Of one model it is the likelihood of rows; of one model per class, the likelihood of classes given rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.counting.row_sample import bounded, held_share
from eigentree.engine.passes import upward_pass
from eigentree.spectral.flooring import cut_off, floored, log_marginals
from eigentree.spectral.learning import learn
from eigentree.spectral.sources import CountedTables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.counting.counts import Counts
    from eigentree.counting.row_sample import Fold, RowSample
    from eigentree.counting.statistics import Statistics
    from eigentree.planning.views import ViewPlan
    from eigentree.spectral.fit import SpectralFit
    from eigentree.structures.graph import LatentGraph

__all__ = ["USUAL", "ClassChoice", "ShrinkageChoice", "choose_class_shrinkage", "choose_shrinkage", "pseudo_rows"]

FOLDS = 2

MANY_SAMPLES = 20
"""Where the data are so many times the sample, all of it is held out at once: the rest is as good as everything."""

LARGE_CELLS = 2**20
"""Tables with more cells than this are learned from once only: one fold is held out, not each in turn."""

GRID = (0.1, 0.2, 0.4, 0.8, 1.6, 6.4, math.inf)
"""Values of kappa to choose from; infinity is independent columns, if scaled. Less than the first is never best."""

USUAL = 0.4
"""The best or next to it whatever the structure, from 1,000 rows on: here the search begins, and without rows to
hold out it ends here."""

SURE = 2.0
"""By how many standard errors held-out likelihood must be better for the search to go on; less would be chance."""

CLASS_FOLDS = 3
"""Where classes are told apart; on splice junctions five chose no better, for half as much time again."""

LEVEL = 0.5
"""Within how many standard errors of the best held-out log P(class | row) a kappa is as good.

More is safer where rows are few, but gives up what dependence between columns tells where they are not."""

CLASS_GRID = (0.4, 0.8, 1.2, 1.6, 2.4, 3.2, 4.8, 6.4, 12.8, math.inf)
"""Values of kappa to choose from where classes are told apart, which often wants more shrinkage than likelihood."""


def pseudo_rows(graph: LatentGraph) -> float:
    """Return how many even pseudo-rows go with any shrinkage: half the mean number of states of a column.

    So infinite shrinkage, with variance scaling, is the product of the columns' marginals with 1/2 added to each
    count, where all columns have the same number of states, and on average else.
    """
    return sum(graph.states[name] for name in graph.observed) / len(graph.observed) / 2


class ShrinkageChoice(NamedTuple):
    """A shrinkage and how it was found.

    Attributes
    ----------
    shrinkage : float
    tried : dict of float to float
        The held-out mean log probability of each shrinkage that was tried.
    fit : SpectralFit
        The fit to all rows.
    """

    shrinkage: float
    tried: dict[float, float]
    fit: SpectralFit


def choose_shrinkage(plan: ViewPlan, statistics: Statistics, scaling: str | None) -> ShrinkageChoice:
    """Return a kappa, the held-out likelihoods of those tried, and the fit to all rows.

    The search begins at `USUAL` and goes on to a neighbour only where held-out likelihood is surely better there. A
    row whose probability is not positive counts as cut off, not as `floored` answers it: probabilities that are
    patched up add up to more than 1, so a kappa that needs many patches would look too good.
    """
    counts = statistics.counts
    held = [fold for fold in _folds(counts, statistics.sample) if len(fold.codes)]
    rests = [_without(counts, fold) for fold in held]
    usable = [k for k, rest in enumerate(rests) if rest.rows > 0]
    added = pseudo_rows(plan.graph)
    *fits, whole = learn(plan, [CountedTables(c, added) for c in [*(rests[k] for k in usable), counts]], scaling)
    if not usable:
        return ShrinkageChoice(math.inf, {}, whole)
    trials = [_Trial(fit, held[k].codes, log_marginals(rests[k])) for fit, k in zip(fits, usable, strict=True)]
    weights = np.concatenate([held[k].weights for k in usable])
    scores: dict[float, Floats] = {}

    def score(kappa: float) -> Floats:
        if kappa not in scores:
            scores[kappa] = np.concatenate([trial.score(kappa) for trial in trials])
        return scores[kappa]

    def surely_better(kappa: float, than: float) -> bool:
        mean, error = _paired(score(kappa) - score(than), weights)
        return mean > SURE * error > 0

    best = GRID.index(USUAL)
    for step in (-1, 1):
        while 0 <= best + step < len(GRID) and surely_better(GRID[best + step], than=GRID[best]):
            best += step
    tried = {kappa: float(weights @ found / weights.sum()) for kappa, found in sorted(scores.items())}
    return ShrinkageChoice(GRID[best], tried, whole)


class _Trial(NamedTuple):
    """A fit without the rows of one fold, and these rows.

    Attributes
    ----------
    fit : SpectralFit
    codes : array, shape (rows, columns)
    marginals : tuple of array, shape (states + 1,)
        Log probability of each state of each column alone, without these rows.
    """

    fit: SpectralFit
    codes: Codes
    marginals: tuple[Floats, ...]

    def score(self, kappa: float) -> Floats:
        """Return the log probability of each held-out row."""
        log_size, sign = upward_pass(self.fit.flat(kappa), self.codes)
        return cut_off(log_size, sign, self.codes, self.marginals)


def _folds(counts: Counts, sample: RowSample) -> list[Fold]:
    """Return the folds that are held out in turn."""
    share = held_share([sample])
    if share * sample.weights.sum() * MANY_SAMPLES <= counts.rows:
        return [sample.fold(0, 1, share)]
    tried = 1 if len(counts.tally.dense) > LARGE_CELLS else FOLDS
    return [sample.fold(number, FOLDS, share) for number in range(tried)]


def _without(counts: Counts, fold: Fold) -> Counts:
    """Return the counts without the rows of a fold."""
    return counts - counts.empty().count(iter([fold])) if len(fold.codes) else counts


def _paired(gains: Floats, weights: NDArray[Any]) -> tuple[float, float]:
    """Return the mean of the rows' gains, and its standard error."""
    total = float(weights.sum())
    mean = float(weights @ gains) / total
    return mean, math.sqrt(float(weights @ (gains - mean) ** 2)) / total


class ClassChoice(NamedTuple):
    """One shrinkage for the models of all classes, and the mean held-out log P(class | row) of each one tried."""

    shrinkage: float
    tried: dict[float, float]


def choose_class_shrinkage(plan: ViewPlan, statistics: Sequence[Statistics], scaling: str | None) -> ClassChoice:
    """Return one kappa for the models of all classes, and the mean held-out log P(class | row) of each one tried.

    Of all kappas that cannot be told from the best, by half a standard error of the paired difference, it is the
    largest: held-out rows near the border between classes are few, so the best alone is mostly chance where rows
    are few.

    Parameters
    ----------
    plan : ViewPlan
    statistics : sequence of Statistics
        Those of each class.
    scaling : {"variance", None}
    """
    counts = [each.counts for each in statistics]
    shared = bounded([each.sample for each in statistics])
    folds_tried = 1 if len(counts[0].tally.dense) > LARGE_CELLS else CLASS_FOLDS
    parts = [_class_fold(plan, counts, shared, scaling, number) for number in range(folds_tried)]
    known = [part for part in parts if part is not None]
    if not known:
        return ClassChoice(math.inf, {})
    log_share = np.concatenate([part for part, _ in known], axis=1)
    weights = np.concatenate([part for _, part in known])
    mean = log_share @ weights / float(weights.sum())
    behind = [_paired(log_share[mean.argmax()] - other, weights) for other in log_share]
    level = [kappa for kappa, (gap, error) in zip(CLASS_GRID, behind, strict=True) if gap <= LEVEL * error]
    return ClassChoice(level[-1], dict(zip(CLASS_GRID, mean.tolist(), strict=True)))


def _class_fold(
    plan: ViewPlan, counts: Sequence[Counts], samples: Sequence[RowSample], scaling: str | None, number: int
) -> tuple[Floats, NDArray[Any]] | None:
    """Return log P(class | row) at each kappa of the rows of one fold, learned from the others, and their weights.

    None where the fold has no rows, or holds all the rows of a class.
    """
    share = held_share(samples)
    held = [sample.fold(number, CLASS_FOLDS, share) for sample in samples]
    rests = [_without(whole, fold) for whole, fold in zip(counts, held, strict=True)]
    codes = np.asfortranarray(np.concatenate([fold.codes for fold in held]))
    if not len(codes) or not all(rest.rows > 0 for rest in rests):
        return None
    added = pseudo_rows(plan.graph)
    log_joint = np.empty((len(CLASS_GRID), len(counts), len(codes)))
    for label, fit in enumerate(learn(plan, [CountedTables(rest, added) for rest in rests], scaling)):
        marginals = log_marginals(rests[label])
        for k, kappa in enumerate(CLASS_GRID):
            log_size, sign = upward_pass(fit.flat(kappa), codes)
            log_joint[k, label], _ = floored(log_size, sign, codes, fit, kappa, marginals)
    rows = np.array([rest.rows for rest in rests])
    log_joint += np.log(rows / rows.sum())[:, None]
    own = np.repeat(np.arange(len(held)), [len(fold.codes) for fold in held])
    log_share = log_joint[:, own, np.arange(len(codes))] - np.logaddexp.reduce(log_joint, axis=1)
    return log_share, np.concatenate([fold.weights for fold in held])
