"""The size of a learned tree, chosen on held-out rows.

The search doubles the hidden states while held-out rows gain. From four states on it compares that with a mixture
of four times as many trees, which costs the same, and goes on from the better of the two. Then it compares the
Chow-Liu tree of the columns themselves, and latent classes. Several fits of the best size, from different starts,
are averaged.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.init.classes import NOISE, carried, most_classes, random_start, seeded
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import SHORTEST_STRETCH, Stopping
from eigentree.em.parameters import ParameterLayout
from eigentree.em.sizes import CLASSES, COLUMNS, SearchStart, Size, SizeSearch, SizeTrial
from eigentree.em.stepwise import stepwise_passes
from eigentree.em.tree_objective import TreeObjective
from eigentree.graphs.structure_learning import mixture_of_trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.holdout import Fold
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork

__all__ = [
    "Fit",
    "FittedSize",
    "SearchState",
    "SizeProblem",
    "average",
    "averaged_fits",
    "search",
]

MORE_TREES, MOST_TREES = 4, 16
"""By how much trees multiply, as much work as twice the states, first at as many states; and how many are mixed at
most, since the average of several fits mixes as many again."""

WORTH = 0.0025
"""The share of the held-out score by which a larger size has to gain for an even larger one to be tried, and
classes to be preferred to a tree: about what another seed changes."""

BATCH, FEWEST_BATCHES, PASSES, STEPSIZE = 768, 12, 10, 0.55
"""Rows of a mini-batch, the fewest mini-batches of a pass, and passes of stepwise EM: at least 120 updates, after
which a mini-batch has a weight of 0.07 by this step size; Liang and Klein's have to be above 0.5 to converge."""

LITTLE = WORTH / 10
"""A fit ends where the last few iterations raised the held-out score by less than this share of it, and averaging
where one more fit does: too little to decide between sizes."""


@dataclass(frozen=True, eq=False)
class SizeProblem:
    """What sizes are compared on: all of the folds, to each of which each size is fitted.

    `tree` makes a tree from a number of hidden states. `whole` are all rows, where held-out ones were taken from
    them. Hidden states and trees are None where they are to be chosen; a mixture of trees costs no more than a tree
    of `most_states`. At most so many `fits` are averaged where there is one fold; else one of each.
    """

    tree: Callable[[int], LatentGraph]
    folds: tuple[Fold, ...]
    missing: frozenset[str]
    pseudo_counts: float
    whole: DistinctRows | None
    threads: int
    hidden_states: int | None
    trees: int | None
    most_states: int
    fits: int

    def objective(self, size: Size, rows: DistinctRows, pseudo_counts: float, single: bool = True) -> TreeObjective:
        """Return the objective of some rows with a model of some size."""
        graph = mixture_of_trees(self.tree(size.hidden_states), size.trees)
        return TreeObjective.of(graph, rows, self.missing, pseudo_counts, self.threads, single)


class Fit(NamedTuple):
    """How far the fit of one model has come: the parameters with the highest held-out log-likelihood, its `score`.

    `history` is the log-likelihood of the training rows in each pass, then at each iteration, `validation` the mean
    log probability of a held-out row after each; `log_likelihood` that of the training rows at the end.
    """

    parameters: Floats
    score: float = -math.inf
    history: tuple[float, ...] = ()
    validation: tuple[float, ...] = ()
    log_likelihood: float = math.nan


class FittedSize(NamedTuple):
    """A size fitted from one start, to each fold."""

    trial: SizeTrial
    fits: tuple[Fit, ...]


class SearchState(NamedTuple):
    """How far a search has come: all that were fitted so far, in order, and the size that is being fitted.

    `passes` are its passes over the rows so far, of at most `most`; `to_come` the most further fits of this size,
    if no larger one is tried.
    """

    members: tuple[FittedSize, ...]
    size: Size
    passes: int = 0
    most: int = 0
    to_come: int = 0

    @property
    def best(self) -> FittedSize:
        """The one with the highest held-out score; classes have to be ahead of trees by something."""
        return max(self.members, key=lambda member: _rank(member.trial))

    @property
    def of_best_size(self) -> tuple[FittedSize, ...]:
        """All that are as large as the best, by their held-out scores."""
        same = [member for member in self.members if member.trial.size == self.best.trial.size]
        return tuple(sorted(same, key=lambda member: -member.trial.validation))


def _rank(trial: SizeTrial) -> float:
    """Return the score by which sizes are compared: a tree shows more of its columns than classes hardly better."""
    ahead = WORTH if trial.size.hidden_states == CLASSES else 0.0
    return trial.validation - ahead * abs(trial.validation)


def search(problem: SizeProblem, random: np.random.Generator) -> Iterator[SearchState]:
    """Yield how far the search has come, again and again, until the last of the fits that are averaged."""
    first = Size(problem.hidden_states or min(2, problem.most_states), problem.trees or 1)
    run = _Sizes(problem, random, first)
    sizes = [first]
    while sizes:
        before = run.score
        for size in sizes:
            yield from run.tried(size)
        sizes = run.larger() if run.score - before > WORTH * abs(before) or not math.isfinite(before) else []
    if problem.hidden_states is None and problem.trees is None:
        yield from run.multiplied(Size(COLUMNS, 1))
        yield from run.multiplied(Size(CLASSES, MORE_TREES))
    yield from run.repeated()


class _Sizes:
    """Models of growing size."""

    def __init__(self, problem: SizeProblem, random: np.random.Generator, first: Size) -> None:
        self._problem, self._random, self._state = problem, random, SearchState((), first)

    @property
    def score(self) -> float:
        """The best held-out score so far."""
        return self._state.best.trial.validation if self._state.members else -math.inf

    def larger(self) -> list[Size]:
        """Return the sizes to try after the best one."""
        problem, (states, trees) = self._problem, self._state.best.trial.size
        sizes = [Size(2 * states, trees)] if problem.hidden_states is None else []
        mixed = trees > 1 or states == MORE_TREES or problem.hidden_states is not None
        if problem.trees is None and mixed and MORE_TREES * trees <= MOST_TREES:
            sizes.append(Size(states, MORE_TREES * trees))
        known = {member.trial.size for member in self._state.members}
        return [size for size in sizes if size.work <= problem.most_states**2 and size not in known]

    def multiplied(self, size: Size) -> Iterator[SearchState]:
        """Try models without trees of hidden variables, ever more of them while that may lead to the best."""
        last = -math.inf
        while size.work <= self._problem.most_states**2:
            best = self.score
            yield from self.tried(size)
            score = self._state.members[-1].trial.validation
            # Each multiplication gains less than the last; of a single tree nothing is known.
            gain = score - last if size.trees > 1 else 0.0
            if not score + gain / 2 > best or gain <= WORTH * abs(score):
                return
            last, size = score, Size(size.hidden_states, MORE_TREES * size.trees)

    def tried(self, size: Size) -> Iterator[SearchState]:
        """Fit a size from both starts, where there are two."""
        starts: tuple[SearchStart, ...] = ("mixture", "random") if size.hidden_states > CLASSES else ("mixture",)
        for start in starts:
            yield from self.fitted(size, start, self._problem.fits - 1)

    def repeated(self) -> Iterator[SearchState]:
        """Fit more models of the best size, while their average gains."""
        trial = self._state.best.trial
        # Wherever a tree of observed columns starts, it ends at the same tables.
        if len(self._problem.folds) > 1 or self._problem.trees is not None or trial.size == Size(COLUMNS, 1):
            return
        score = _averaged(self._problem, self._state)[1]
        while (left := self._problem.fits - len(self._state.of_best_size)) > 0:
            before = score
            yield from self.fitted(trial.size, trial.start, left - 1)
            score = _averaged(self._problem, self._state)[1]
            if not score - before > LITTLE * abs(before):
                return

    def fitted(self, size: Size, start: SearchStart, to_come: int) -> Iterator[SearchState]:
        """Fit one model to each fold."""
        began = time.process_time()
        problem, fits, passes = self._problem, [], 0
        for fold in problem.folds:
            (random,) = self._random.spawn(1)
            objective = problem.objective(size, fold.rows, problem.pseudo_counts)
            held = problem.objective(size, fold.validation, 0.0)
            first = _start(problem.tree(size.hidden_states), objective.layout, fold.rows, size.trees, start, random)
            most = 10 * PASSES * len(problem.folds)
            for fit in _fitted(objective, held, first, random):
                yield SearchState(self._state.members, size, min(passes + len(fit.history), most), most, to_come)
            exact = [replace(each, single=False).log_likelihood(fit.parameters) for each in (objective, held)]
            fits.append(fit._replace(log_likelihood=exact[0], score=exact[1]))
            passes += len(fit.history)
        trial = SizeTrial(
            size,
            start,
            passes,
            objective.layout.learned_count,
            sum(fit.log_likelihood for fit in fits) / sum(float(fold.rows.weights.sum()) for fold in problem.folds),
            sum(fit.score for fit in fits) / _held_weight(problem),
            time.process_time() - began,
        )
        self._state = SearchState((*self._state.members, FittedSize(trial, tuple(fits))), size, most, most, to_come)
        yield self._state


def _held_weight(problem: SizeProblem) -> float:
    return sum(float(fold.validation.weights.sum()) for fold in problem.folds)


def _fitted(
    objective: TreeObjective, held: TreeObjective, start: Floats, random: np.random.Generator
) -> Iterator[Fit]:
    """Yield how far a fit has come: by passes of stepwise EM, then by iterations while held-out rows gain."""
    batches = max(FEWEST_BATCHES, round(len(objective.rows.weights) / BATCH))
    fit = Fit(start)
    for parameters, log_likelihood in stepwise_passes(objective, start, STEPSIZE, PASSES, batches, random):
        score = held.log_likelihood(parameters)
        if score > fit.score:
            fit = fit._replace(parameters=parameters, score=score)
        history, validation = (*fit.history, log_likelihood), (*fit.validation, score / held.weight)
        fit = fit._replace(history=history, validation=validation)
        yield fit
    for run in em_run(objective, fit.parameters, Stopping("gain", 0.0), 9 * PASSES, validation=held):
        fit = Fit(
            run.parameters,
            run.score,
            (*fit.history, run.objective - objective.log_prior(run.here.parameters)),
            (*fit.validation, run.validation[-1] / held.weight),
        )
        yield fit
        recent = fit.validation[-1 - SHORTEST_STRETCH :]
        if run.iterations >= SHORTEST_STRETCH and recent[-1] - recent[0] < LITTLE * abs(recent[-1]):
            return


def _start(
    tree: LatentGraph,
    layout: ParameterLayout,
    rows: DistinctRows,
    trees: int,
    start: SearchStart,
    random: np.random.Generator,
) -> Floats:
    """Return the start of a fit: at random, or with hidden variables that are copies of classes around rows."""
    if start == "random":
        return random_start(layout, random)
    own = ParameterLayout.of(tree)
    # With nothing hidden in it, each tree is one of the classes.
    far = None if tree.hidden else seeded(tree, rows, trees, random)
    vectors = []
    for place in range(trees):
        classes = far.one(place) if far else seeded(tree, rows, most_classes(tree), random)
        vectors.append(carried(own, classes, NOISE, random))
    return averaged_fits(tree, vectors)


def _trees(layout: ParameterLayout, mixture: Floats) -> tuple[Floats, Floats]:
    """Return the parameters of each tree of a mixture, shape (trees, parameters), and the shares of the trees."""
    if len(mixture) == layout.size:
        return mixture[None], np.ones(1)
    count = len(mixture) // (layout.size + 1)
    bounds = [count * start for start in layout.starts.values()][1:]
    tables = [table.reshape(count, -1) for table in np.split(mixture[count:], bounds)]
    return np.concatenate(tables, axis=1), mixture[:count]


def _averaged(problem: SizeProblem, state: SearchState) -> tuple[list[Floats], float]:
    """Return the fits of the best size that are averaged, and the mean log probability of a held-out row."""
    best = state.best
    if len(problem.folds) > 1:
        return [fit.parameters for fit in best.fits], best.trial.validation
    # Where the number of trees is given, it is that of the best fit alone.
    first, *others = state.of_best_size[: problem.fits if problem.trees is None else 1]
    kept, score = [first.fits[0].parameters], first.trial.validation
    states, trees = first.trial.size
    for member in others:
        size = Size(states, (len(kept) + 1) * trees)
        held = problem.objective(size, problem.folds[0].validation, 0.0, single=False)
        more = [*kept, member.fits[0].parameters]
        value = held.log_likelihood(averaged_fits(problem.tree(states), more)) / held.weight
        if value > score:
            kept, score = more, value
    return kept, score


def averaged_fits(tree: LatentGraph, vectors: Sequence[Floats]) -> Floats:
    """Return the parameters of the average of fits: the mixture of all their trees, fits with equal shares."""
    if len(vectors) == 1:
        return vectors[0]
    layout = ParameterLayout.of(tree)
    trees, shares = zip(*(_trees(layout, vector) for vector in vectors), strict=True)
    tables = np.split(np.concatenate(trees), list(layout.starts.values())[1:], axis=1)
    return np.concatenate([*(share / len(vectors) for share in shares), *(table.ravel() for table in tables)])


def average(problem: SizeProblem, state: SearchState) -> tuple[LatentNetwork, SizeSearch]:
    """Return the average of the fits of the best size, and what was tried.

    Held-out rows that were taken from the rows are brought in by one EM iteration on all rows. It starts where
    they ended the fit, so it adds what they show and hardly overfits the others.
    """
    size = state.best.trial.size
    vectors, validation = _averaged(problem, state)
    count = len(vectors)
    if problem.whole is not None:
        whole = problem.objective(size, problem.whole, problem.pseudo_counts, single=False)
        vectors = [whole.em_update(vector) for vector in vectors]
    tree = problem.tree(size.hidden_states)
    joint = averaged_fits(tree, vectors)
    graph = mixture_of_trees(tree, count * size.trees)
    tried = SizeSearch(
        trials=tuple(member.trial for member in state.members),
        size=size,
        shares=(1.0 / count,) * count,
        validation=validation,
        rows=sum(float(fold.rows.weights.sum()) for fold in problem.folds) / len(problem.folds),
        validation_rows=_held_weight(problem),
    )
    return ParameterLayout.of(graph).network(joint), tried
