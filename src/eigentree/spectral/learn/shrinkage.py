"""How much to shrink, and how high the floor is: K-fold held-out likelihood, from statistics that subtract.

For one model it is the likelihood of rows (or pieces of sequences); for one model per class, the likelihood of
classes given rows. Both are of the normalised distribution that the model will score with, whatever the shrinkage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from eigentree.arrays import Floats
from eigentree.counting.holdout_sample import bounded, held_share
from eigentree.counting.levels.hats import HATS, usual_hats
from eigentree.inference.operators.normalised_scoring import floor_of
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.number_model import SpectralNumberModel
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.spectral_fit import SpectralModel, counted_marginals, pseudo_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes
    from eigentree.counting.counts import Counts
    from eigentree.counting.holdout_sample import RowSample
    from eigentree.counting.levels.hats import HatScale
    from eigentree.counting.statistics import Statistics
    from eigentree.data.tables.columns import Columns
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.learn.spectral_fit import SpectralFit

__all__ = [
    "FLOORS",
    "FOLDS",
    "GRID",
    "LEAST_LOG",
    "MANY_SAMPLES",
    "USUAL",
    "HeldOutScore",
    "Trials",
    "Tried",
    "choose",
    "choose_class_shrinkage",
    "chosen",
    "hat_counts",
    "hat_options",
    "model_of",
    "usual_floor",
]

FOLDS = 2

MANY_SAMPLES = 20
"""Where the data are so many times the sample, all of it is held out at once: the rest is as good as everything."""

LARGE_CELLS = 2**20
"""Tables with more cells than this are learned from once only: one fold is held out, not each in turn."""

GRID = (0.1, 0.2, 0.4, 0.8, 1.6, 6.4, 25.6, 102.4, math.inf)
"""Values of kappa to choose from; infinity is independent columns, if scaled. Less than the first is never best."""

USUAL = 0.4
"""The best or next to it whatever the structure, from 1,000 rows on: the search starts here, and without held-out
rows it ends here."""

FLOORS = (1.0, 10.0, 30.0, 100.0)
"""Floors to choose from, as multiples of the usual one."""

LEAST_LOG = -745.0
"""About the log of the smallest number: what a cell counts as that is impossible without a floor."""

SURE = 2.0
"""By how many standard errors held-out likelihood must be better than at the usual place; less would be chance."""

CLASS_FOLDS = 3
"""For a classifier; on splice junctions five chose no better, for half as much time again."""

LEVEL = 0.5
"""Within how many standard errors of the best held-out log P(class | row) a kappa is as good.

More is safer where rows are few, but gives up the dependence between columns where they are not."""

CLASS_GRID = (0.4, 0.8, 1.2, 1.6, 2.4, 3.2, 4.8, 6.4, 12.8, math.inf)
"""Values of kappa to choose from for a classifier, which is often best with more shrinkage than likelihood."""

HeldOutScore: TypeAlias = Callable[[float, float], Floats]
"""Of a fit without some rows: the log probability of each of them at a shrinkage and a floor."""

Tried: TypeAlias = dict[tuple[float, float], float]
"""The held-out mean log probability at each shrinkage and floor that were tried."""

Trials: TypeAlias = tuple[list[list[HeldOutScore]], Any, float]
"""For each way of learning, the trial of each fold; the weights of all folds' rows, none where the rest of each
would be nothing; and what log probabilities are divided by: the mean length of held-out pieces."""

M = TypeVar("M")


def usual_floor(rows: float) -> float:
    """Return the floor at which the search starts, and ends where there are no rows to hold out.

    It is far below the uncertainty of a cell's probability, and falls to 0 as rows grow in number.
    """
    return min(1e-3, 10.0 / max(rows, 1.0))


def _searched(
    trials: Sequence[HeldOutScore], weights: NDArray[Any], floors: tuple[float, ...]
) -> tuple[tuple[float, float], Tried]:
    """Return the shrinkage and floor that a search from the usual ones leads to, and all means on its way.

    They are the usual ones unless held-out rows are surely better off.
    """
    scores: dict[tuple[int, int], Floats] = {}

    def mean(place: tuple[int, int]) -> float:
        if place not in scores:
            scores[place] = np.concatenate([trial(GRID[place[0]], floors[place[1]]) for trial in trials])
        return float(weights @ scores[place]) / float(weights.sum())

    usual = best = GRID.index(USUAL), 0
    while True:
        # More or less of one, or more of both.
        near = [(best[0] + a, best[1] + b) for a, b in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1))]
        better = max(((k, f) for k, f in near if 0 <= k < len(GRID) and 0 <= f < len(floors)), key=mean)
        if better == best:
            break
        best = better
    gain, error = _paired_gain(scores[best] - scores[usual], weights)
    k, f = best if gain > SURE * error else usual
    return (GRID[k], floors[f]), {(GRID[k], floors[f]): mean((k, f)) for k, f in sorted(scores)}


def _paired_gain(gains: Floats, weights: NDArray[Any]) -> tuple[float, float]:
    """Return the mean of the rows' gains, and its standard error."""
    total = float(weights.sum())
    mean = float(weights @ gains) / total
    return mean, math.sqrt(float(weights @ (gains - mean) ** 2)) / total


def chosen(
    rows: float,
    pseudo: float,
    trials: Callable[[float], Trials] | None,
    model: Callable[[int, float, float, float, float], M],
    shrinkage: float | None,
    floor: float | None,
) -> tuple[M, Tried]:
    """Return the model of the best shrinkage and floor, and the held-out likelihoods of those tried.

    The search goes from `USUAL` and `usual_floor` to better neighbours, and what it finds is taken where held-out
    likelihood is surely better there. What is given is not searched for, and with a given shrinkage the floor is
    the usual one and the way of learning the first one. A shrinkage of 0 means the counts as they are: no
    pseudo-rows, and no floor unless one is given.

    Parameters
    ----------
    rows, pseudo : float
        How many rows (or steps) there are, and how many uniform ones go with any shrinkage.
    trials : callable, optional
        Returns the trials of fits with some pseudo-rows; None where there is nothing to hold out.
    model : callable
        Returns the model of all rows, given the way of learning, the shrinkage, the floor, and the pseudo-rows of
        the moments and of the marginals that the floor is a share of.
    shrinkage, floor : float, optional
    """
    raw = shrinkage == 0
    usual, added = (0.0, 0.0) if raw else (usual_floor(rows), pseudo)
    ways, weights, unit = trials(added) if shrinkage is None and trials else ([], np.zeros(0), 1.0)
    if not len(weights):
        if shrinkage is None:
            # Rows that can only be held out all together are too few to learn more from than their columns.
            shrinkage = math.inf if trials else USUAL
        share = usual if floor is None else floor
        # Where there is a floor, nothing that any row could hold is impossible.
        return model(0, shrinkage, share, added, pseudo if share > 0 else added), {}
    floors = tuple(usual * multiple for multiple in FLOORS) if floor is None else (floor,)
    searches = [_searched(way, weights, floors) for way in ways]
    best = max(range(len(searches)), key=lambda way: searches[way][1][searches[way][0]])
    place, tried = searches[best]
    return model(best, *place, added, added), {pair: mean / unit for pair, mean in tried.items()}


def choose(
    plan: ViewPlan,
    statistics: Statistics,
    scaling: str | None,
    shrinkage: float | None = None,
    floor: float | None = None,
    hats: int | None = None,
) -> tuple[SpectralModel, Tried]:
    """Return the model of some statistics at the best shrinkage and floor, and what was tried; see `chosen`.

    The ways of learning are hubs together, and where there are any, hubs apart. Hubs have few parameters, which is
    a gain where the structure is true: data that are not of this structure have more dependence than a hub can
    represent. So are numbers of hat functions, where some columns are numbers.
    """
    counts = statistics.counts
    options = hat_options(plan, statistics, hats)
    whole: list[SpectralFit] = []
    folds = _folds(counts, statistics.sample) if len(statistics.sample.hashes) else []

    def trials(added: float) -> Trials:
        rests = [statistics.without(*fold) for fold in folds]
        held = [(rest, *fold) for rest, fold in zip(rests, folds, strict=True) if rest.rows > 0]
        # All together, which is fastest.
        tables = [CountedTables(each, added) for each in (*(rest for rest, _, _ in held), counts)]
        ways = []
        for own in options:
            *fits, last = learn(plan, tables, scaling, hats=own)
            marginals = [counted_marginals(rest, added, own) for rest, _, _ in held]
            for apart in (False, True) if last.apart else (False,):
                way = [(fit.apart or fit) if apart else fit for fit in (*fits, last)]
                whole.append(way[-1])
                ways.append(
                    [_trial(*each) for each in zip(way, (codes for _, codes, _ in held), marginals, strict=False)]
                )
        return ways, np.concatenate([np.zeros(0), *(weights for _, _, weights in held)]), 1.0

    def model(way: int, shrinkage: float, floor: float, added: float, smoothing: float) -> SpectralModel:
        learned = whole or learn(plan, [CountedTables(counts, added)], scaling, hats=options[0])
        fit = learned[way]
        marginals = counted_marginals(counts, smoothing, fit.hats)
        return model_of(fit, shrinkage, floor, marginals, statistics.columns, statistics.scales)

    pseudo = pseudo_rows(plan.graph, statistics.hats)
    return chosen(statistics.rows, pseudo, trials if folds else None, model, shrinkage, floor)


def model_of(
    fit: SpectralFit,
    shrinkage: float,
    floor: float,
    marginals: tuple[Floats, ...],
    columns: Columns,
    scales: tuple[HatScale | None, ...],
) -> SpectralModel:
    """Return the model of a fit at some shrinkage and floor, with the levels of its numbers where it has any."""
    if any(scales):
        return SpectralNumberModel.of_numbers(fit, shrinkage, floor, marginals, columns, scales)
    return SpectralModel.of(fit, shrinkage, floor, marginals)


def hat_options(plan: ViewPlan, statistics: Statistics, hats: int | None = None) -> list[tuple[int, ...]]:
    """Return how many hats of each column there may be, the usual number first; once () where there are no numbers.

    There are at least as many as a column has features, and no more than were counted.
    """
    counted = statistics.hats
    if not any(counted):
        return [()]
    ranks = {node.observed: node.generic_rank for node in plan.nodes}
    least = max(ranks[name] for name, own in zip(plan.graph.observed, counted, strict=True) if own)
    every = hat_counts(statistics.rows, least, max(counted), hats)
    return [tuple(own if each else 0 for each in counted) for own in every]


def hat_counts(rows: float, least: int, most: int, hats: int | None = None) -> list[int]:
    """Return the numbers of hats to choose from, the usual one for so many rows first; or the given one alone."""
    fitting = [own for own in HATS if least <= own <= most] or [most]
    if hats is not None:
        fitting = [min(max(hats, fitting[0]), fitting[-1])]
    usual = min(max(usual_hats(rows), fitting[0]), fitting[-1])
    return sorted(fitting, key=lambda own: own != usual)


def _trial(fit: SpectralFit, codes: Codes, marginals: tuple[Floats, ...]) -> HeldOutScore:
    def score(shrinkage: float, floor: float) -> Floats:
        log_prob = fit.chain_rule.log_prob(fit.values(shrinkage), floor_of(floor, marginals), codes).log_prob
        return np.asarray(np.maximum(log_prob, LEAST_LOG * codes.shape[1]))

    return score


def _folds(counts: Counts, sample: RowSample) -> list[tuple[Codes, NDArray[Any]]]:
    """Return the folds that are held out in turn, those that have rows: their codes and weights."""
    share = held_share([sample])
    if share * sample.weights.sum() * MANY_SAMPLES <= counts.rows:
        folds = [sample.fold(0, 1, share)]
    else:
        tried = 1 if len(counts.dense) > LARGE_CELLS else FOLDS
        folds = [sample.fold(number, FOLDS, share) for number in range(tried)]
    return [fold for fold in folds if len(fold[0])]


def choose_class_shrinkage(
    plan: ViewPlan,
    statistics: Sequence[Statistics],
    scaling: str | None,
    floor: float | None = None,
    large_cells: int = LARGE_CELLS,
) -> tuple[float, dict[float, float]]:
    """Return one kappa for the models of all classes, and the mean held-out log P(class | row) of each one tried.

    Of all kappas within half a standard error of the paired difference from the best, it is the largest: held-out
    rows near the border between classes are few, so the best alone is mostly chance where rows are few.

    The statistics are those of each class. Where tables have more than `large_cells` cells, one fold is held
    out only.
    """
    shared = bounded([each.sample for each in statistics])
    folds_tried = 1 if len(statistics[0].counts.dense) > large_cells else CLASS_FOLDS
    parts = [_class_fold(plan, statistics, shared, scaling, floor, number) for number in range(folds_tried)]
    known = [part for part in parts if part is not None]
    if not known:
        return math.inf, {}
    log_share = np.concatenate([part for part, _ in known], axis=1)
    weights = np.concatenate([part for _, part in known])
    mean = log_share @ weights / float(weights.sum())
    behind = [_paired_gain(log_share[mean.argmax()] - other, weights) for other in log_share]
    level = [kappa for kappa, (gap, error) in zip(CLASS_GRID, behind, strict=True) if gap <= LEVEL * error]
    return level[-1], dict(zip(CLASS_GRID, mean.tolist(), strict=True))


def _class_fold(
    plan: ViewPlan,
    statistics: Sequence[Statistics],
    samples: Sequence[RowSample],
    scaling: str | None,
    floor: float | None,
    number: int,
) -> tuple[Floats, NDArray[Any]] | None:
    """Return log P(class | row) at each kappa of the rows of one fold, learned from the others, and their weights.

    None where the fold has no rows, or holds all the rows of a class.
    """
    share = held_share(samples)
    held = [sample.fold(number, CLASS_FOLDS, share) for sample in samples]
    rests = [each.without(*fold) for each, fold in zip(statistics, held, strict=True)]
    codes = np.asfortranarray(np.concatenate([fold[0] for fold in held]))
    if not len(codes) or not all(rest.rows > 0 for rest in rests):
        return None
    hats = hat_options(plan, statistics[0])[0]
    added = pseudo_rows(plan.graph, hats)
    log_joint = np.empty((len(CLASS_GRID), len(statistics), len(codes)))
    for label, fit in enumerate(learn(plan, [CountedTables(rest, added) for rest in rests], scaling, hats=hats)):
        least = usual_floor(rests[label].rows) if floor is None else floor
        floors = floor_of(least, counted_marginals(rests[label], added, hats))
        for k, kappa in enumerate(CLASS_GRID):
            log_joint[k, label] = fit.chain_rule.log_prob(fit.values(kappa), floors, codes).log_prob
    rows = np.array([rest.rows for rest in rests])
    log_joint += np.log(rows / rows.sum())[:, None]
    own = np.repeat(np.arange(len(held)), [len(fold[0]) for fold in held])
    log_share = log_joint[:, own, np.arange(len(codes))] - np.logaddexp.reduce(log_joint, axis=1)
    return log_share, np.concatenate([fold[1] for fold in held])
