"""How much to shrink, and how high the floor is: K-fold held-out likelihood, from statistics that subtract.

Of one model it is the likelihood of rows; of one model per class, the likelihood of classes given rows. Both are of
the distribution that the model will answer with, which adds up to 1 whatever the shrinkage.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from eigentree.counting.holdout_sample import bounded, held_share
from eigentree.inference.operators.normalised_scoring import floor_of
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.spectral_fit import counted_marginals, pseudo_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.counting.counts import Counts
    from eigentree.counting.holdout_sample import Fold, RowSample
    from eigentree.counting.statistics import Statistics
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.spectral.learn.spectral_fit import SpectralFit

__all__ = [
    "FLOORS",
    "GRID",
    "LEAST_LOG",
    "USUAL",
    "Choice",
    "ClassChoice",
    "Search",
    "Trial",
    "choose",
    "choose_class_shrinkage",
    "paired_gain",
    "usual_floor",
]

FOLDS = 2

MANY_SAMPLES = 20
"""Where the data are so many times the sample, all of it is held out at once: the rest is as good as everything."""

LARGE_CELLS = 2**20
"""Tables with more cells than this are learned from once only: one fold is held out, not each in turn."""

CLASS_FOLDS = 3
"""Where classes are told apart; on splice junctions five chose no better, for half as much time again."""

LEVEL = 0.5
"""Within how many standard errors of the best held-out log P(class | row) a kappa is as good.

More is safer where rows are few, but gives up what dependence between columns tells where they are not."""

CLASS_GRID = (0.4, 0.8, 1.2, 1.6, 2.4, 3.2, 4.8, 6.4, 12.8, math.inf)
"""Values of kappa to choose from where classes are told apart, which often wants more shrinkage than likelihood."""


class Choice(NamedTuple):
    """A shrinkage, a floor, and how they were found.

    Attributes
    ----------
    shrinkage, floor : float
    tried : dict of (float, float) to float
        The held-out mean log probability of each shrinkage and floor that were tried.
    fit : SpectralFit
        The fit to all rows.
    marginals : tuple of array, shape (states,)
        The distribution of each column alone, which the floor is a share of.
    """

    shrinkage: float
    floor: float
    tried: dict[tuple[float, float], float]
    fit: SpectralFit
    marginals: tuple[Floats, ...]


def choose(
    plan: ViewPlan,
    statistics: Statistics,
    scaling: str | None,
    shrinkage: float | None = None,
    floor: float | None = None,
) -> Choice:
    """Return a shrinkage and a floor, the held-out likelihoods of those tried, and the fit to all rows.

    The search climbs from `USUAL` and `usual_floor`, and what it finds is taken where held-out likelihood is surely
    better there. Hubs that were learned together are taken apart where that is better: data that are not of this
    structure have more to say than a hub can hold. What is given is not searched for, and with a given shrinkage
    the floor is the usual one, and hubs stay together. A shrinkage of 0 means the counts as they are: no
    pseudo-rows, and no floor unless one is given.
    """
    counts = statistics.counts
    raw = shrinkage == 0
    usual = 0.0 if raw else usual_floor(counts.rows)
    searched = shrinkage is None and len(statistics.sample.hashes)
    held = [fold for fold in _folds(counts, statistics.sample) if len(fold.codes)] if searched else []
    rests = [_without(counts, fold) for fold in held]
    usable = [k for k, rest in enumerate(rests) if rest.rows > 0]
    added = 0.0 if raw else pseudo_rows(plan.graph)
    *fits, whole = learn(plan, [CountedTables(c, added) for c in [*(rests[k] for k in usable), counts]], scaling)
    if not usable:
        if shrinkage is None:
            # Rows that can only be held out all together are too few to learn more from than their columns.
            shrinkage = math.inf if held else USUAL
        share = usual if floor is None else floor
        # Where there is a floor, nothing that any row could hold is impossible.
        smoothed = pseudo_rows(plan.graph) if share > 0 else added
        return Choice(shrinkage, share, {}, whole, counted_marginals(counts, smoothed))
    trials = [
        _Trial(fit, held[k].codes, counted_marginals(rests[k], added)) for fit, k in zip(fits, usable, strict=True)
    ]
    weights = np.concatenate([held[k].weights for k in usable])
    floors = tuple(usual * multiple for multiple in FLOORS) if floor is None else (floor,)
    search = Search(trials, weights, GRID, floors)
    if whole.apart:
        # Hubs have few parameters, which is a gain where the structure is true, and only there.
        apart = Search([trial.apart() for trial in trials], weights, GRID, floors)
        if apart.beats(search):
            search, whole = apart, whole.apart
    return Choice(*search.best(), search.tried(), whole, counted_marginals(counts, added))


class _Trial(NamedTuple):
    """A fit without the rows of one fold, and these rows.

    Attributes
    ----------
    fit : SpectralFit
    codes : array, shape (rows, columns)
    marginals : tuple of array, shape (states,)
        The distribution of each column alone, without these rows.
    """

    fit: SpectralFit
    codes: Codes
    marginals: tuple[Floats, ...]

    def apart(self) -> _Trial:
        """Return the trial of the fit whose nodes are all learned by their own views."""
        return self._replace(fit=self.fit.apart or self.fit)

    def score(self, shrinkage: float, floor: float) -> Floats:
        """Return the log probability of each held-out row."""
        log_prob = self.fit.walked(shrinkage, floor_of(floor, self.marginals), self.codes).log_prob
        return np.asarray(np.maximum(log_prob, LEAST_LOG * self.codes.shape[1]))


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


class ClassChoice(NamedTuple):
    """One shrinkage for the models of all classes, and the mean held-out log P(class | row) of each one tried."""

    shrinkage: float
    tried: dict[float, float]


def choose_class_shrinkage(
    plan: ViewPlan,
    statistics: Sequence[Statistics],
    scaling: str | None,
    floor: float | None = None,
    large_cells: int = LARGE_CELLS,
) -> ClassChoice:
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
    floor : float, optional
        That of all models; the usual one by default.
    large_cells : int
        How many cells of tables are too many to learn from each fold's rest in turn; one fold is held out then.
    """
    counts = [each.counts for each in statistics]
    shared = bounded([each.sample for each in statistics])
    folds_tried = 1 if len(counts[0].tally.dense) > large_cells else CLASS_FOLDS
    parts = [_class_fold(plan, counts, shared, scaling, floor, number) for number in range(folds_tried)]
    known = [part for part in parts if part is not None]
    if not known:
        return ClassChoice(math.inf, {})
    log_share = np.concatenate([part for part, _ in known], axis=1)
    weights = np.concatenate([part for _, part in known])
    mean = log_share @ weights / float(weights.sum())
    behind = [paired_gain(log_share[mean.argmax()] - other, weights) for other in log_share]
    level = [kappa for kappa, (gap, error) in zip(CLASS_GRID, behind, strict=True) if gap <= LEVEL * error]
    return ClassChoice(level[-1], dict(zip(CLASS_GRID, mean.tolist(), strict=True)))


def _class_fold(
    plan: ViewPlan,
    counts: Sequence[Counts],
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
    rests = [_without(whole, fold) for whole, fold in zip(counts, held, strict=True)]
    codes = np.asfortranarray(np.concatenate([fold.codes for fold in held]))
    if not len(codes) or not all(rest.rows > 0 for rest in rests):
        return None
    added = pseudo_rows(plan.graph)
    log_joint = np.empty((len(CLASS_GRID), len(counts), len(codes)))
    for label, fit in enumerate(learn(plan, [CountedTables(rest, added) for rest in rests], scaling)):
        least = usual_floor(rests[label].rows) if floor is None else floor
        floors = floor_of(least, counted_marginals(rests[label], added))
        for k, kappa in enumerate(CLASS_GRID):
            log_joint[k, label] = fit.walked(kappa, floors, codes).log_prob
    rows = np.array([rest.rows for rest in rests])
    log_joint += np.log(rows / rows.sum())[:, None]
    own = np.repeat(np.arange(len(held)), [len(fold.codes) for fold in held])
    log_share = log_joint[:, own, np.arange(len(codes))] - np.logaddexp.reduce(log_joint, axis=1)
    return log_share, np.concatenate([fold.weights for fold in held])


GRID = (0.1, 0.2, 0.4, 0.8, 1.6, 6.4, 25.6, 102.4, math.inf)
"""Values of kappa to choose from; infinity is independent columns, if scaled. Less than the first is never best."""

USUAL = 0.4
"""The best or next to it whatever the structure, from 1,000 rows on: here the search begins, and without rows to
hold out it ends here."""

FLOORS = (1.0, 10.0, 30.0, 100.0)
"""Floors to choose from, as multiples of the usual one."""

LEAST_LOG = -745.0
"""About the log of the smallest number: what a cell counts as that is impossible without a floor."""

SURE = 2.0
"""By how many standard errors held-out likelihood must be better than at the usual place; less would be chance."""


def usual_floor(rows: float) -> float:
    """Return the floor at which the search begins, and ends where there are no rows to hold out.

    It is far below what a cell's probability is uncertain by, and goes away as rows grow in number.
    """
    return min(1e-3, 10.0 / max(rows, 1.0))


class Trial(Protocol):
    """A fit without some data, and these data."""

    def score(self, shrinkage: float, floor: float) -> Floats:
        """Return the log probability of each held-out row or piece."""


_Place: TypeAlias = tuple[int, int]
"""Where a shrinkage and a floor stand among those to choose from."""


class Search:
    """A search among shrinkages and floors, which scores held-out rows at no more pairs than it has to.

    Attributes
    ----------
    trials : sequence of Trial
    weights : array, shape (rows of all trials,)
    grid : (tuple of float, tuple of float)
        Shrinkages and floors to choose from, in rising order.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        weights: NDArray[Any],
        shrinkages: tuple[float, ...],
        floors: tuple[float, ...],
    ) -> None:
        self.trials = trials
        self.weights = weights
        self.grid = shrinkages, floors
        self._scores: dict[_Place, Floats] = {}

    def best(self) -> tuple[float, float]:
        """Return the pair that climbing from the usual one leads to, if it is surely better; else the usual."""
        return self._at(self._best)

    @cached_property
    def _best(self) -> _Place:
        usual = place = self.grid[0].index(USUAL), 0
        while (better := max(self._near(place), key=self._mean)) != place:
            place = better
        gain, error = paired_gain(self._score(place) - self._score(usual), self.weights)
        return place if gain > SURE * error else usual

    def beats(self, other: Search) -> bool:
        """Return whether the best pair is better than that of a search on other fits and the same rows."""
        return self._mean(self._best) > other._mean(other._best)

    def tried(self) -> dict[tuple[float, float], float]:
        """Return the mean log probability at all pairs that were scored."""
        return {self._at(place): self._mean(place) for place in sorted(self._scores)}

    def _near(self, place: _Place) -> list[_Place]:
        """Return a place and those next to it: more or less of one, or more of both."""
        places = [(place[0] + a, place[1] + b) for a, b in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1))]
        shrinkages, floors = self.grid
        return [near for near in places if 0 <= near[0] < len(shrinkages) and 0 <= near[1] < len(floors)]

    def _mean(self, place: _Place) -> float:
        return float(self.weights @ self._score(place)) / float(self.weights.sum())

    def _at(self, place: _Place) -> tuple[float, float]:
        shrinkages, floors = self.grid
        return shrinkages[place[0]], floors[place[1]]

    def _score(self, place: _Place) -> Floats:
        if place not in self._scores:
            self._scores[place] = np.concatenate([trial.score(*self._at(place)) for trial in self.trials])
        return self._scores[place]


def paired_gain(gains: Floats, weights: NDArray[Any]) -> tuple[float, float]:
    """Return the mean of the rows' gains, and its standard error."""
    total = float(weights.sum())
    mean = float(weights @ gains) / total
    return mean, math.sqrt(float(weights @ (gains - mean) ** 2)) / total
