"""The search for the size of a learned tree, by rows that are not learned from.

The states of hidden variables are doubled while that makes validation rows likelier by something. Where they are
few, a mixture of a few trees is tried beside twice as many states, and where trees are mixed, more trees; the
better of the two is gone on from. Beside these, models are tried that are no trees of hidden variables: the
Chow-Liu tree of the columns themselves, and classes. Of the best size several models are learned from different
starts, to be averaged.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.annealing import Batches, Schedule, annealed
from eigentree.em.averaging import averaged, fitted_average
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.parameters import ParameterLayout
from eigentree.em.sizes import CLASSES, COLUMNS, Kind, Size, Trial
from eigentree.em.starts import carried, most_classes, random_start, seeded
from eigentree.em.tree_objective import TreeObjective
from eigentree.errors import DataError
from eigentree.structures.discovery import mixture_of_trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eigentree.arrays import Floats
    from eigentree.em.distinct import DistinctRows
    from eigentree.exact.network import LatentNetwork
    from eigentree.structures.graph import LatentGraph

__all__ = ["FOLDS", "Fit", "Fold", "Ground", "Searched", "folds_of", "searched"]

FIRST_STATES, SHAPING_STATES = 2, 4
"""How many states come first, and with how many a mixture of trees is compared with twice as many."""

SEVERAL_TREES, MOST_TREES = 4, 16
"""How many trees the first mixture has, and how many times as many the next: as much work as twice the states. At
most so many are mixed: many trees of few states take more time than their work says."""

MOST_CLASSES = 256
"""So many classes are tried at most."""

WORTH, CLASSES_AHEAD = 0.0025, 0.001
"""More is tried where the last step to a larger size gained at least this share of the score; and by which share
classes have to be ahead of trees."""

BOTH_STARTS = 64
"""Up to this work per edge both kinds of starts are tried; beyond, the one that was better."""

BATCH, FEWEST_BATCHES = 768, 8
"""Rows of a batch that differ; where rows are few, batches are smaller. Those of 192 lead less far in more time."""

PASSES, FEWEST_STEPS = 10, 120
"""Passes of a model, more where all passes together would have fewer batches than these."""

WEIGHT_OF_BATCH = (0.5, 0.05)
"""What the first and the last batch weigh beside all before them."""

FINISHING, PATIENCE, FINISHED = 100, 3, Stopping("gain", 1e-5)
"""Accelerated steps on all rows, after all passes; how long validation rows may wait for a better one; the end."""

STRETCH, LITTLE = 5, 2e-4
"""Steps end where so many of them have raised the score of validation rows by less than this share of it."""

DEAR, DEAREST = 1e8, 5.0
"""Rows that differ times entries of tables, from where on steps must gain in proportion; so many times at most."""

DEAR_TWICE = 1e9
"""The same, from where on more trees that have lost to more states are not tried again beside even more states."""

ENOUGH = 1e-4
"""One more model is averaged where that is likely to gain this share of the score, times how dear it is."""

SHARPNESS, NOISE = 0.5, 0.1
"""How much of a class is the row that it is seeded by, and how much of a hidden variable is no copy of it."""


HELD_OUT, MOST_HELD_OUT, ENOUGH_ROWS = 0.1, 0.25, 200
"""The share of the rows that chooses, where none is given; more where that would be fewer rows than these."""

FEW_ROWS, FOLDS = 2_000, 5
"""With no more rows each of so many parts chooses in turn: one part would leave the choice to chance."""


class Fold(NamedTuple):
    """Rows that fits learn from, and others that choose between them.

    Attributes
    ----------
    rows, validation : DistinctRows
    """

    rows: DistinctRows
    validation: DistinctRows


@dataclass(frozen=True, eq=False)
class Ground:
    """What sizes are tried on.

    Attributes
    ----------
    tree : callable
        From the number of hidden states to the tree; where sizes are open, also from what stands for columns that
        are linked themselves, or not at all.
    folds : tuple of Fold
        One, or several, with all of which each size is tried.
    gaps : frozenset of str
        The columns that may have missing cells.
    pseudo_counts : float
        Of all sizes.
    has_fewer : bool
        Whether the best size may have fewer of them.
    whole : DistinctRows, optional
        All rows to learn from, where some that choose were taken from them.
    threads : int
    hidden_states, trees : int, optional
        Where they are given.
    most_states : int
        No more hidden states are tried, and in a mixture of trees no more than cost as much.
    members : int
        How many models are averaged at most, where there is one fold; else one of each.
    """

    tree: Callable[[int], LatentGraph]
    folds: tuple[Fold, ...]
    gaps: frozenset[str]
    pseudo_counts: float
    has_fewer: bool
    whole: DistinctRows | None
    threads: int
    hidden_states: int | None
    trees: int | None
    most_states: int
    members: int

    def problems(self, size: Size, fold: Fold) -> tuple[TreeObjective, TreeObjective]:
        """Return the problems of the rows and of the validation rows of a fold with a model of some size."""
        graph = mixture_of_trees(self.tree(size.hidden_states), size.trees)
        problem = TreeObjective.of(graph, fold.rows, self.gaps, self.pseudo_counts, self.threads, single=True)
        return problem, TreeObjective.of(graph, fold.validation, self.gaps, 0.0, self.threads, single=True)


class Ascent(NamedTuple):
    """How far one model has come.

    Attributes
    ----------
    parameters : (parameters,)
        Where validation rows were likeliest.
    score : float
        Their log-likelihood there.
    history : tuple of float
        Log-likelihood of the rows: in each pass, of each batch under the tables before it; then at each step.
    validation : tuple of float
        Mean log probability of a validation row after each of these.
    """

    parameters: Floats
    score: float
    history: tuple[float, ...]
    validation: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Fit:
    """A model that was learned from one fold.

    Attributes
    ----------
    network : LatentNetwork
    ascent : Ascent
    log_likelihood : float
        Of the rows under the network.
    held : DistinctRows
        The validation rows of the fold.
    """

    network: LatentNetwork
    ascent: Ascent
    log_likelihood: float
    held: DistinctRows

    @classmethod
    def of(cls, problem: TreeObjective, ascent: Ascent, held: TreeObjective, validation: DistinctRows) -> Fit:
        """Return the model at the end of an ascent, and its likelihoods in double precision."""
        told, score = (replace(each, single=False).log_likelihood(ascent.parameters) for each in (problem, held))
        network = problem.layout.network(ascent.parameters)
        return cls(network, ascent._replace(score=score), told, validation)

    @cached_property
    def log_prob(self) -> Floats:
        """The log probability of each validation row."""
        return self.network.model.score(self.held.codes)[0]


class Member(NamedTuple):
    """A size that was tried from one kind of start.

    Attributes
    ----------
    trial : Trial
    fits : tuple of Fit
        One per fold.
    """

    trial: Trial
    fits: tuple[Fit, ...]


class Searched(NamedTuple):
    """How a search stands.

    Attributes
    ----------
    members : tuple of Member
        All that were learned so far, in order.
    size : Size
        Of the model that is being learned.
    passes, most : int
        How often it went through the rows, and how often it will at most.
    to_come : int
        How many more of this size there will be, if no larger one is tried.
    """

    members: tuple[Member, ...]
    size: Size
    passes: int
    most: int
    to_come: int

    @property
    def best(self) -> Member:
        """The one under which validation rows are likeliest; classes have to be ahead of trees by something."""
        return max(self.members, key=lambda member: _rank(member.trial))

    @property
    def of_best_size(self) -> tuple[Member, ...]:
        """All that are as large as the best, the best first."""
        same = [member for member in self.members if member.trial.size == self.best.trial.size]
        return tuple(sorted(same, key=lambda member: -member.trial.validation))


def _rank(trial: Trial) -> float:
    """Return what sizes are compared by. A tree tells more of its columns than classes that are hardly better."""
    ahead = CLASSES_AHEAD if trial.size.hidden_states == CLASSES else 0.0
    return trial.validation - ahead * abs(trial.validation)


def folds_of(rows: DistinctRows, share: float, random: np.random.Generator, one: bool = False) -> tuple[Fold, ...]:
    """Return rows that are learned from and rows that choose: once, or each part in turn where rows are few.

    Parameters
    ----------
    rows : DistinctRows
    share : float
        How many choose; 0 for the usual share.
    random : Generator
    one : bool
        Whether there can be only one fold.

    Raises
    ------
    DataError
        When some rows would have to both teach and choose.
    """
    count = float(rows.weights.sum())
    if one or count > FEW_ROWS:
        held = share or min(MOST_HELD_OUT, max(HELD_OUT, ENOUGH_ROWS / count))
        parts = rows.dealt(np.array([held, 1.0 - held]), random)[:1]
    else:
        parts = rows.dealt(np.full(FOLDS, 1.0 / FOLDS), random)
    folds = [Fold(rows.weighing(rows.weights - part), rows.weighing(part)) for part in parts]
    usable = tuple(fold for fold in folds if len(fold.rows.weights) and len(fold.validation.weights))
    if not usable:
        given = f"validation_fraction={share:g} of " if share else ""
        raise DataError(
            f"the size of the model is chosen by rows that are not learned from, and {given}n_samples={count:g} "
            f"leaves none to learn from, or none to choose by; give more rows, another share or the sizes"
        )
    return usable


def searched(ground: Ground, random: np.random.Generator) -> Iterator[Searched]:
    """Yield how a search stands, again and again, until the last of the models that are averaged."""
    first = Size(ground.hidden_states or min(FIRST_STATES, ground.most_states), ground.trees or 1)
    search = _Search(ground, random, first)
    yield from search.tried(first)
    while larger := search.larger():
        before = search.best.validation
        for size in larger:
            yield from search.tried(size)
        if not search.best.validation - before > WORTH * abs(before):
            break
    if ground.hidden_states is None and ground.trees is None:
        yield from search.compared(COLUMNS, 1)
        yield from search.compared(CLASSES, SEVERAL_TREES)
    if len(ground.folds) == 1:
        while to_come := search.wanted():
            yield from search.learned(search.best.size, search.best.start, to_come - 1)


class _Search:
    """Models of growing size, and how the search for the best of them stands."""

    def __init__(self, ground: Ground, random: np.random.Generator, first: Size) -> None:
        self._ground = ground
        self._random = random
        self._standing = Searched((), first, 0, 0, 0)

    @property
    def best(self) -> Trial:
        return self._standing.best.trial

    def wanted(self) -> int:
        """Return how many more models of the best size are averaged at most; none where one more adds nothing.

        Of m models that are as good and err apart, the average gains 1 - 1/m of what any number of them would. So
        what m have gained over one of them tells what the next will.
        """
        if self.best.size == Size(COLUMNS, 1):
            # Wherever it starts, it ends at the same tables.
            return 0
        same = self._standing.of_best_size
        count, left = len(same), max(self._ground.members - len(same), 0)
        if left == 0 or count == 1 or self._ground.trees is not None:
            return left
        fits = [member.fits[0] for member in same]
        _, validation = fitted_average(np.array([fit.log_prob for fit in fits]), fits[0].held.weights)
        gain = (validation - fmean(member.trial.validation for member in same)) / (count**2 - 1)
        rows = len(self._ground.folds[0].rows.weights)
        return left if gain > ENOUGH * _dearness(rows, self.best.parameters) * abs(validation) else 0

    def larger(self) -> list[Size]:
        """Return the sizes to try after the best one."""
        ground, (states, trees) = self._ground, self.best.size
        sizes = []
        if ground.hidden_states is None:
            sizes.append(Size(2 * states, trees))
        # One tree whose states were doubled beyond these in place of a mixture is left alone.
        shaping = ground.hidden_states is not None or states == SHAPING_STATES
        if ground.trees is None and (trees > 1 or shaping) and SEVERAL_TREES * trees <= MOST_TREES:
            sizes.append(Size(states, SEVERAL_TREES * trees))
        known = {member.trial.size for member in self._standing.members}
        work = len(ground.folds[0].rows.weights) * SEVERAL_TREES * self.best.parameters
        if work > DEAR_TWICE and Size(states // 2, SEVERAL_TREES * trees) in known:
            sizes = sizes[:1]
        return [size for size in sizes if size.work <= ground.most_states**2 and size not in known]

    def compared(self, states: int, trees: int) -> Iterator[Searched]:
        """Try models without trees of hidden variables, ever more of them while that may lead to the best.

        Each time the number is multiplied, less is gained than the time before; about half is reckoned with.
        """
        most = MOST_CLASSES if states == CLASSES else MOST_TREES
        score = -math.inf
        while trees <= min(most, self._ground.most_states**2):
            best = self.best.validation
            yield from self.tried(Size(states, trees))
            last, score = score, self._standing.members[-1].trial.validation
            # Of one tree nothing tells what more of them would gain.
            gain = score - last if trees > 1 else 0.0
            if not score + gain / 2 > best or 0.0 < gain <= WORTH * abs(score):
                return
            trees *= SEVERAL_TREES

    def tried(self, size: Size) -> Iterator[Searched]:
        """Learn a model of some size, and one from the other kind of start where that costs little."""
        kinds: tuple[Kind, ...] = ("mixture", "random")
        if size.hidden_states in (COLUMNS, CLASSES):
            kinds = ("mixture",)
        elif self._standing.members and size.work > BOTH_STARTS:
            kinds = (self._better_start(),)
        for kind in kinds:
            yield from self.learned(size, kind, self._ground.members - 1 if len(self._ground.folds) == 1 else 0)

    def _better_start(self) -> Kind:
        """Return the kind of start that was better over all sizes that were tried from both: one may be luck."""
        found: dict[Size, dict[Kind, float]] = {}
        for trial in (member.trial for member in self._standing.members):
            found.setdefault(trial.size, {}).setdefault(trial.start, trial.validation)
        ahead = sum(each["mixture"] - each["random"] for each in found.values() if len(each) > 1)
        return "mixture" if ahead >= 0 else "random"

    def learned(self, size: Size, kind: Kind, to_come: int) -> Iterator[Searched]:
        """Learn one model from each fold."""
        began = time.process_time()
        ground, fits, passes = self._ground, [], 0
        for fold in ground.folds:
            problem, held = ground.problems(size, fold)
            (random,) = self._random.spawn(1)
            course = _Course.of(problem, random)
            most = course.most * len(ground.folds)
            start = _start(ground.tree(size.hidden_states), problem.layout, fold.rows, size.trees, kind, random)
            for done in course.climbed(start, held, random):
                yield Searched(self._standing.members, size, passes + len(done.history), most, to_come)
            fits.append(Fit.of(problem, done, held, fold.validation))
            passes += len(done.history)
        trial = Trial(
            size,
            kind,
            passes,
            problem.layout.learned_count,
            sum(fit.log_likelihood for fit in fits) / float(sum(fold.rows.weights.sum() for fold in ground.folds)),
            sum(fit.ascent.score for fit in fits)
            / float(sum(fold.validation.weights.sum() for fold in ground.folds)),
            time.process_time() - began,
        )
        members = (*self._standing.members, Member(trial, tuple(fits)))
        self._standing = Searched(members, size, most, most, to_come)
        yield self._standing


@dataclass(frozen=True, eq=False)
class _Course:
    """How one model is learned: passes in batches, then steps on all rows while validation rows become likelier."""

    batches: Batches
    schedule: Schedule

    @classmethod
    def of(cls, problem: TreeObjective, random: np.random.Generator) -> _Course:
        batches = Batches.of(problem, max(1, min(BATCH, len(problem.rows.weights) // FEWEST_BATCHES)), random)
        passes = max(PASSES, -(-FEWEST_STEPS // len(batches.parts)))
        return cls(batches, Schedule(passes, *WEIGHT_OF_BATCH))

    @property
    def most(self) -> int:
        """How often it goes through the rows at most; mostly far fewer steps are left to gain by."""
        return self.schedule.passes + 1 + FINISHING

    def climbed(self, start: Floats, held: TreeObjective, random: np.random.Generator) -> Iterator[Ascent]:
        """Yield how far the model has come, again and again, until it has arrived."""
        problem = self.batches.problem
        ascent = Ascent(start, -math.inf, (), ())
        for parameters, log_likelihood in annealed(self.batches, start, self.schedule, random):
            score = held.log_likelihood(parameters)
            history = (*ascent.history, log_likelihood)
            validation = (*ascent.validation, score / held.weight)
            if score > ascent.score:
                ascent = ascent._replace(parameters=parameters, score=score)
            ascent = ascent._replace(history=history, validation=validation)
            yield ascent
        for climb in em_run(problem, ascent.parameters, FINISHED, FINISHING, True, held, PATIENCE):
            ascent = Ascent(
                climb.parameters,
                climb.score,
                (*ascent.history, climb.here.objective - problem.log_prior(climb.here.parameters)),
                (*ascent.validation, climb.validation[-1] / held.weight),
            )
            yield ascent
            steps, recent = len(climb.history) - 1, ascent.validation[-1 - STRETCH :]
            if steps >= STRETCH and recent[-1] - recent[0] < self._little * abs(recent[-1]):
                break

    @property
    def _little(self) -> float:
        """The share of the score that a stretch of steps has to gain."""
        problem = self.batches.problem
        return LITTLE * max(_dearness(len(problem.rows.weights), problem.layout.learned_count), 1.0)


def _dearness(rows: int, parameters: int) -> float:
    """Return how many times the usual a gain has to be, given rows that differ and entries of tables."""
    return min(rows * parameters / DEAR, DEAREST)


def _start(
    tree: LatentGraph,
    layout: ParameterLayout,
    rows: DistinctRows,
    trees: int,
    kind: Kind,
    random: np.random.Generator,
) -> Floats:
    """Return where a model starts: at random, or with hidden variables that are copies of classes around rows."""
    if kind == "random":
        return random_start(layout, random)
    own = ParameterLayout.of(tree)
    # With nothing hidden in it, each tree is one of the classes.
    far = None if tree.hidden else seeded(tree, rows, trees, SHARPNESS, random)
    networks = []
    for place in range(trees):
        classes = far.one(place) if far else seeded(tree, rows, most_classes(tree), SHARPNESS, random)
        networks.append(own.network(carried(own, classes, NOISE, random)))
    return layout.vector(averaged(tree, networks, np.full(trees, 1.0 / trees)))
