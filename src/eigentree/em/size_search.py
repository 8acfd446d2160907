"""The size of a learned tree, chosen on held-out rows.

The search doubles the hidden states while held-out rows gain. From four states on it compares that with a mixture
of four times as many trees, which costs the same, and goes on from the better of the two. Then it compares the
Chow-Liu tree of the columns themselves, and latent classes. Several fits of the best size, from different starts,
are averaged.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from eigentree.em.optimize.objective import Objective
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork

__all__ = [
    "Fit",
    "FittedSize",
    "SearchProblem",
    "SearchState",
    "SizeProblem",
    "average",
    "averaged_fits",
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


class Fit(NamedTuple):
    """How far the fit of one model has come: the parameters with the highest held-out log-likelihood, its `score`.

    `history` is the log-likelihood of the training rows in each pass, then at each iteration, `validation` the mean
    log probability of a held-out row after each, and `passes` how many there were. `layout` says where each
    parameter stands.
    """

    layout: Any
    parameters: Floats
    score: float = -math.inf
    history: tuple[float, ...] = ()
    validation: tuple[float, ...] = ()
    passes: int = 0

    def passed(self, log_likelihood: float, validation: float) -> Fit:
        """Return the fit after one more pass."""
        history, held = (*self.history, log_likelihood), (*self.validation, validation)
        return self._replace(history=history, validation=held, passes=self.passes + 1)


@dataclass(frozen=True, eq=False)
class FittedSize:
    """A size fitted from one start, to each fold; `log_likelihoods` are those of the training rows."""

    trial: SizeTrial
    fits: tuple[Fit, ...]
    log_likelihoods: tuple[float, ...]

    @property
    def choice(self) -> Any:
        """What was fitted; several fits of it can be averaged."""
        return self.trial.size

    def beats(self, other: Any) -> bool:
        """Return whether held-out rows prefer this to another; classes have to be ahead of trees by something."""
        return _rank(self.trial) > _rank(other.trial)


def _rank(trial: SizeTrial) -> float:
    """Return the score by which sizes are compared: a tree shows more of its columns than classes hardly better."""
    ahead = WORTH if trial.size.hidden_states == CLASSES else 0.0
    return trial.validation - ahead * abs(trial.validation)


class SearchState(NamedTuple):
    """How far a search has come: all that were fitted so far, in order, the `best`, and what is being fitted.

    `passes` are its passes over the rows so far, of at most `most`; `to_come` the most further fits of this size,
    if no larger one is tried.
    """

    members: tuple[Any, ...]
    size: Size
    passes: int = 0
    most: int = 0
    to_come: int = 0
    best: Any = None

    def joined(self, member: FittedSize, most: int, to_come: int) -> SearchState:
        """Return the state after one more fit.

        Fits that cannot be averaged any more are let go: what a table with numbers needs grows with the rows.
        """
        best = member if self.best is None or member.beats(self.best) else self.best
        kept = (best.choice, member.choice)
        members = [each if each.choice in kept else replace(each, fits=()) for each in (*self.members, member)]
        return SearchState(tuple(members), member.trial.size, most, most, to_come, best)

    @property
    def score(self) -> float:
        """The held-out score of the best."""
        return -math.inf if self.best is None else float(self.best.trial.validation)

    @property
    def like_best(self) -> list[Any]:
        """All fits of what is best, by their held-out scores."""
        same = [member for member in self.members if member.choice == self.best.choice]
        return sorted(same, key=lambda member: -member.trial.validation)


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchProblem(ABC):
    """What models are compared on: all of the folds, to each of which each is fitted.

    Attributes
    ----------
    folds : tuple of Fold
    missing : frozenset of str
        Categories with missing cells.
    whole : DistinctRows, MixedRows or None
        All rows, where held-out ones were taken from them.
    most_states : int
        Of a hidden variable; a mixture of trees costs no more than a tree of so many.
    fits : int
        How many fits are averaged at most where there is one fold; else one of each.
    """

    folds: tuple[Fold[Any], ...]
    missing: frozenset[str]
    pseudo_counts: float
    whole: Any
    threads: int
    most_states: int
    fits: int

    @abstractmethod
    def search(self, random: np.random.Generator) -> Iterator[SearchState]:
        """Yield how far the search has come, again and again, until the last of the fits that are averaged."""

    @abstractmethod
    def objective(self, layout: Any, rows: Any, pseudo_counts: float) -> Objective:
        """Return the objective of some rows."""

    @abstractmethod
    def validation(self, members: Sequence[Any]) -> float:
        """Return the mean log probability of a row held out by the only fold, under the average of some fits."""

    @abstractmethod
    def network(self, size: Size, fits: Sequence[Fit]) -> LatentNetwork:
        """Return the average of fits of some size."""

    @property
    def held_weight(self) -> float:
        """The total weight of the held-out rows."""
        return sum(float(fold.validation.weights.sum()) for fold in self.folds)

    def worth_averaging(self, state: SearchState) -> tuple[list[Fit], float]:
        """Return the fits of what is best whose average has the highest held-out score, and that."""
        best = state.best
        if len(self.folds) > 1:
            return list(best.fits), best.trial.validation
        kept, score = [best], best.trial.validation
        for member in state.like_best[1 : self.fits]:
            value = self.validation([*kept, member])
            if value > score:
                kept, score = [*kept, member], value
        return [member.fits[0] for member in kept], score


def average(problem: SearchProblem, state: SearchState) -> tuple[LatentNetwork, SizeSearch]:
    """Return the average of the fits of the best size, and what was tried.

    Held-out rows that were taken from the rows are brought in by one EM iteration on all rows. It starts where
    they ended the fit, so it adds what they show and hardly overfits the others.
    """
    fits, validation = problem.worth_averaging(state)
    if problem.whole is not None:
        whole = problem.objective(fits[0].layout, problem.whole, problem.pseudo_counts)
        fits = [fit._replace(parameters=whole.em_update(fit.parameters)) for fit in fits]
    tried = SizeSearch(
        trials=tuple(member.trial for member in state.members),
        size=state.best.trial.size,
        shares=(1.0 / len(fits),) * len(fits),
        validation=validation,
        rows=sum(float(fold.rows.weights.sum()) for fold in problem.folds) / len(problem.folds),
        validation_rows=problem.held_weight,
    )
    return problem.network(tried.size, fits), tried


@dataclass(frozen=True, eq=False, kw_only=True)
class SizeProblem(SearchProblem):
    """What sizes are compared on; `tree` makes a tree from a number of hidden states.

    Hidden states and trees are None where they are to be chosen.
    """

    tree: Callable[[int], LatentGraph]
    hidden_states: int | None
    trees: int | None

    def layout(self, size: Size) -> ParameterLayout:
        """Return where the parameters of a model of some size stand."""
        return ParameterLayout.of(mixture_of_trees(self.tree(size.hidden_states), size.trees))

    def objective(self, layout: ParameterLayout, rows: DistinctRows, pseudo_counts: float) -> TreeObjective:
        """Return the objective of some rows."""
        return TreeObjective.of(layout.graph, rows, self.missing, pseudo_counts, self.threads)

    def validation(self, members: Sequence[FittedSize]) -> float:
        """Return the mean log probability of a held-out row under the average of some fits."""
        states, trees = members[0].trial.size
        layout = self.layout(Size(states, len(members) * trees))
        held = self.objective(layout, self.folds[0].validation, 0.0)
        vectors = [member.fits[0].parameters for member in members]
        return held.log_likelihood(averaged_fits(self.tree(states), vectors)) / held.weight

    def network(self, size: Size, fits: Sequence[Fit]) -> LatentNetwork:
        """Return the average of fits of some size: the mixture of all their trees."""
        joint = averaged_fits(self.tree(size.hidden_states), [fit.parameters for fit in fits])
        return self.layout(Size(size.hidden_states, len(fits) * size.trees)).network(joint)

    def search(self, random: np.random.Generator) -> Iterator[SearchState]:
        """Yield how far the search has come, again and again, until the last of the fits that are averaged."""
        first = Size(self.hidden_states or min(2, self.most_states), self.trees or 1)
        run = _Sizes(self, random, first)
        sizes = [first]
        while sizes:
            before = run.state.score
            for size in sizes:
                yield from run.tried(size)
            gain = run.state.score - before
            sizes = run.larger() if gain > WORTH * abs(before) or not math.isfinite(before) else []
        if self.hidden_states is None and self.trees is None:
            yield from run.multiplied(Size(COLUMNS, 1))
            yield from run.multiplied(Size(CLASSES, MORE_TREES))
        yield from run.repeated()


class _Sizes:
    """Models of growing size."""

    def __init__(self, problem: SizeProblem, random: np.random.Generator, first: Size) -> None:
        self._problem, self._random, self.state = problem, random, SearchState((), first)

    def larger(self) -> list[Size]:
        """Return the sizes to try after the best one."""
        problem, (states, trees) = self._problem, self.state.best.trial.size
        sizes = [Size(2 * states, trees)] if problem.hidden_states is None else []
        mixed = trees > 1 or states == MORE_TREES or problem.hidden_states is not None
        if problem.trees is None and mixed and MORE_TREES * trees <= MOST_TREES:
            sizes.append(Size(states, MORE_TREES * trees))
        known = {member.trial.size for member in self.state.members}
        return [size for size in sizes if size.work <= problem.most_states**2 and size not in known]

    def multiplied(self, size: Size) -> Iterator[SearchState]:
        """Try models without trees of hidden variables, ever more of them while that may lead to the best."""
        last = -math.inf
        while size.work <= self._problem.most_states**2:
            best = self.state.score
            yield from self.tried(size)
            score = self.state.members[-1].trial.validation
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
        trial = self.state.best.trial
        # Wherever a tree of observed columns starts, it ends at the same tables.
        if len(self._problem.folds) > 1 or trial.size == Size(COLUMNS, 1):
            return
        score = self._problem.worth_averaging(self.state)[1]
        while (left := self._problem.fits - len(self.state.like_best)) > 0:
            before = score
            yield from self.fitted(trial.size, trial.start, left - 1)
            score = self._problem.worth_averaging(self.state)[1]
            if not score - before > LITTLE * abs(before):
                return

    def fitted(self, size: Size, start: SearchStart, to_come: int) -> Iterator[SearchState]:
        """Fit one model to each fold."""
        began = time.process_time()
        problem, passes = self._problem, 0
        tree, layout = problem.tree(size.hidden_states), problem.layout(size)
        fits, log_likelihoods = [], []
        most = 10 * PASSES * len(problem.folds)
        for fold in problem.folds:
            (random,) = self._random.spawn(1)
            objective = problem.objective(layout, fold.rows, problem.pseudo_counts)
            held = problem.objective(layout, fold.validation, 0.0)
            first = Fit(layout, _start(tree, layout, fold.rows, size.trees, start, random))
            # Single precision is enough until the end.
            for fit in _fitted(replace(objective, single=True), replace(held, single=True), first, random):
                yield self.state._replace(size=size, passes=passes + fit.passes, most=most, to_come=to_come)
            fits.append(fit._replace(score=held.log_likelihood(fit.parameters)))
            log_likelihoods.append(objective.log_likelihood(fit.parameters))
            passes += fit.passes
        trial = SizeTrial(
            size,
            start,
            passes,
            layout.learned_count,
            sum(log_likelihoods) / sum(float(fold.rows.weights.sum()) for fold in problem.folds),
            sum(fit.score for fit in fits) / problem.held_weight,
            time.process_time() - began,
        )
        self.state = self.state.joined(FittedSize(trial, tuple(fits), tuple(log_likelihoods)), most, to_come)
        yield self.state


def _fitted(objective: TreeObjective, held: TreeObjective, fit: Fit, random: np.random.Generator) -> Iterator[Fit]:
    """Yield how far a fit has come: by passes of stepwise EM, then by iterations while held-out rows gain."""
    batches = max(FEWEST_BATCHES, round(len(objective.rows.weights) / BATCH))
    passed = stepwise_passes(objective, fit.parameters, STEPSIZE, PASSES, batches, random)
    for parameters, log_likelihood in passed:
        score = held.log_likelihood(parameters)
        if score > fit.score:
            fit = fit._replace(parameters=parameters, score=score)
        fit = fit.passed(log_likelihood, score / held.weight)
        yield fit
    for run in em_run(objective, fit.parameters, Stopping("gain", 0.0), 9 * PASSES, validation=held):
        fit = fit._replace(parameters=run.parameters, score=run.score)
        log_likelihood = run.objective - objective.log_prior(run.here.parameters)
        fit = fit.passed(log_likelihood, run.validation[-1] / held.weight)
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


def averaged_fits(tree: LatentGraph, vectors: Sequence[Floats]) -> Floats:
    """Return the parameters of the average of fits: the mixture of all their trees, fits with equal shares."""
    if len(vectors) == 1:
        return vectors[0]
    layout = ParameterLayout.of(tree)
    trees, shares = zip(*(_trees(layout, vector) for vector in vectors), strict=True)
    tables = np.split(np.concatenate(trees), list(layout.starts.values())[1:], axis=1)
    return np.concatenate([*(share / len(vectors) for share in shares), *(table.ravel() for table in tables)])
