"""How much to shrink: K-fold held-out likelihood, from counts that subtract and a bounded sample of rows.

Of one model it is the likelihood of rows; of one model a class, the likelihood of classes given rows.

The sample keeps the distinct rows with the smallest hashes, each with how often it occurs. So it depends on the
data alone, not on their order or on how they came in batches, and it can be merged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.row_sample import RowSample, bounded, held_share
from eigentree.engine.passes import upward_pass
from eigentree.spectral.learning import CountedTables, learn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.counting.counts import Counts
    from eigentree.spectral.learning import SpectralFit
    from eigentree.spectral.views import ViewPlan
    from eigentree.structures.graph import LatentGraph

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

BACK_OFF = (1.0, 10.0, 100.0, math.inf)
"""Where a probability is not positive, the same fit answers with the next of these shrinkages."""

FLOOR = 1e-3
"""What is still not positive becomes this part of the product of the columns' smoothed marginals."""


def floored(
    log_size: NDArray[np.float64],
    sign: NDArray[Any],
    codes: NDArray[Any],
    fit: SpectralFit,
    shrinkage: float,
    log_marginals: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], int]:
    """Return finite log probabilities, and how many were not positive and had to be replaced.

    Noise can leave a learned probability at or below zero. Shrunk further toward independent columns, the same fit
    gives a positive one, which says more about the row than any constant.

    Parameters
    ----------
    log_size, sign : array, shape (rows,)
        Of the fit at this shrinkage.
    codes : array, shape (rows, columns)
    log_marginals : sequence of array, shape (states + 1,)
        Log probability of each state of each column alone; 0 for a missing cell.
    """
    bad = np.flatnonzero(sign <= 0)
    count = len(bad)
    log_prob = log_size.copy() if count else log_size
    for more in BACK_OFF:
        if more > shrinkage and len(bad):
            size, positive = upward_pass(fit.flat_plan(more), np.asfortranarray(codes[bad]))
            log_prob[bad] = size
            bad = bad[positive <= 0]
    if len(bad):
        log_prob[bad] = _small_part(codes[bad], log_marginals)
    return log_prob, count


def _cut_off(
    log_size: NDArray[np.float64],
    sign: NDArray[Any],
    codes: NDArray[Any],
    log_marginals: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return log probabilities in which what is not positive is a small part of the product of the marginals."""
    bad = np.flatnonzero(sign <= 0)
    if not len(bad):
        return log_size
    log_prob = log_size.copy()
    log_prob[bad] = _small_part(codes[bad], log_marginals)
    return log_prob


def _small_part(codes: NDArray[Any], log_marginals: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the log of a small part of the product of the marginals, for each row."""
    log_prob = np.full(len(codes), math.log(FLOOR))
    for column, table in enumerate(log_marginals):
        log_prob += table[codes[:, column]]
    return log_prob


def pseudo_rows(graph: LatentGraph) -> float:
    """Return how many even pseudo-rows go with any shrinkage: half the mean number of states of a column.

    So infinite shrinkage, with variance scaling, is the product of the columns' marginals with 1/2 added to each
    count, where all columns have the same number of states, and on average else.
    """
    return sum(graph.states[name] for name in graph.observed) / len(graph.observed) / 2


def log_marginals(counts: Counts) -> tuple[NDArray[np.float64], ...]:
    """Return the log of the smoothed marginal of each column, with a 0 at the end for a missing cell."""
    columns = range(len(counts.graph.observed))
    return tuple(np.append(np.log(counts.smoothed(column)), 0.0) for column in columns)


def choose_shrinkage(
    plan: ViewPlan, counts: Counts, sample: RowSample, scaling: str | None
) -> tuple[float, dict[float, float], SpectralFit]:
    """Return a kappa, the held-out likelihoods of those tried, and the fit to all counts.

    The search begins at `USUAL` and goes on to a neighbour only where held-out likelihood is surely better there. A
    row whose probability is not positive counts as cut off, not as `floored` answers it: probabilities that are
    patched up add up to more than 1, so a kappa that needs many patches would look too good.
    """
    held = [fold for fold in _folds(counts, sample) if len(fold[0])]
    rests = [_without(counts, fold) for fold in held]
    usable = [k for k, rest in enumerate(rests) if rest.rows > 0]
    added = pseudo_rows(plan.graph)
    *fits, whole = learn(plan, [CountedTables(c, added) for c in [*(rests[k] for k in usable), counts]], scaling)
    folds = [(fit, *held[k], log_marginals(rests[k])) for fit, k in zip(fits, usable, strict=True)]
    if not folds:
        return math.inf, {}, whole
    weights = np.concatenate([weights for _, _, weights, _ in folds])
    scores: dict[float, NDArray[np.float64]] = {}

    def score(kappa: float) -> NDArray[np.float64]:
        if kappa not in scores:
            passed = [
                (upward_pass(fit.flat_plan(kappa), codes), codes, marginals) for fit, codes, _, marginals in folds
            ]
            scores[kappa] = np.concatenate(
                [_cut_off(*sizes, codes, marginals) for sizes, codes, marginals in passed]
            )
        return scores[kappa]

    def surely_better(kappa: float, than: float) -> bool:
        mean, error = _paired(score(kappa) - score(than), weights)
        return mean > SURE * error > 0

    best = GRID.index(USUAL)
    for step in (-1, 1):
        while 0 <= best + step < len(GRID) and surely_better(GRID[best + step], than=GRID[best]):
            best += step
    tried = {kappa: float(weights @ found / weights.sum()) for kappa, found in sorted(scores.items())}
    return GRID[best], tried, whole


def _folds(counts: Counts, sample: RowSample) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the rows and weights of each fold that is held out in turn."""
    share = held_share([sample])
    if share * sample.weights.sum() * MANY_SAMPLES <= counts.rows:
        return [sample.fold(0, 1, share)]
    tried = 1 if len(counts.dense) > LARGE_CELLS else FOLDS
    return [sample.fold(number, FOLDS, share) for number in range(tried)]


def _without(counts: Counts, fold: tuple[NDArray[Any], NDArray[Any]]) -> Counts:
    """Return the counts without the rows of a fold."""
    return counts - counts.empty().count(iter([fold])) if len(fold[0]) else counts


def _paired(gains: NDArray[np.float64], weights: NDArray[Any]) -> tuple[float, float]:
    """Return the mean of the rows' gains, and its standard error."""
    total = float(weights.sum())
    mean = float(weights @ gains) / total
    return mean, math.sqrt(float(weights @ (gains - mean) ** 2)) / total


def choose_class_shrinkage(
    plan: ViewPlan, counts: Sequence[Counts], samples: Sequence[RowSample], scaling: str | None
) -> tuple[float, dict[float, float]]:
    """Return one kappa for the models of all classes, and the mean held-out log P(class | row) of each one tried.

    Of all kappas that cannot be told from the best, by half a standard error of the paired difference, it is the
    largest: held-out rows near the border between classes are few, so the best alone is mostly chance where rows
    are few.

    Parameters
    ----------
    counts, samples : sequence, one a class
    """
    shared = bounded(samples)
    folds_tried = 1 if len(counts[0].dense) > LARGE_CELLS else CLASS_FOLDS
    parts = [_class_fold(plan, counts, shared, scaling, number) for number in range(folds_tried)]
    known = [part for part in parts if part is not None]
    if not known:
        return math.inf, {}
    log_share = np.concatenate([part for part, _ in known], axis=1)
    weights = np.concatenate([part for _, part in known])
    mean = log_share @ weights / float(weights.sum())
    behind = [_paired(log_share[mean.argmax()] - other, weights) for other in log_share]
    level = [kappa for kappa, (gap, error) in zip(CLASS_GRID, behind, strict=True) if gap <= LEVEL * error]
    return level[-1], dict(zip(CLASS_GRID, mean.tolist(), strict=True))


def _class_fold(
    plan: ViewPlan, counts: Sequence[Counts], samples: Sequence[RowSample], scaling: str | None, number: int
) -> tuple[NDArray[np.float64], NDArray[Any]] | None:
    """Return log P(class | row) at each kappa of the rows of one fold, learned from the others, and their weights.

    None where the fold has no rows, or holds all the rows of a class.
    """
    share = held_share(samples)
    held = [sample.fold(number, CLASS_FOLDS, share) for sample in samples]
    rests = [_without(whole, fold) for whole, fold in zip(counts, held, strict=True)]
    codes = np.asfortranarray(np.concatenate([codes for codes, _ in held]))
    if not len(codes) or not all(rest.rows > 0 for rest in rests):
        return None
    added = pseudo_rows(plan.graph)
    log_joint = np.empty((len(CLASS_GRID), len(counts), len(codes)))
    for label, fit in enumerate(learn(plan, [CountedTables(rest, added) for rest in rests], scaling)):
        marginals = log_marginals(rests[label])
        for k, kappa in enumerate(CLASS_GRID):
            log_size, sign = upward_pass(fit.flat_plan(kappa), codes)
            log_joint[k, label], _ = floored(log_size, sign, codes, fit, kappa, marginals)
    rows = np.array([rest.rows for rest in rests])
    log_joint += np.log(rows / rows.sum())[:, None]
    own = np.repeat(np.arange(len(held)), [len(codes) for codes, _ in held])
    log_share = log_joint[:, own, np.arange(len(codes))] - np.logaddexp.reduce(log_joint, axis=1)
    return log_share, np.concatenate([weights for _, weights in held])
