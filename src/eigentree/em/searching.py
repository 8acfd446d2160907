"""The search for the size of a learned tree, by rows that are not learned from.

The states of hidden variables are doubled while validation rows become likelier. Once, where hidden variables have
few states, a mixture of a few trees is tried in place of more states, and kept if it is the better of the two. Of
the best size several models are learned from different starts, and averaged: one network, the mixture of all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eigentree.em.annealing import Batches, Schedule, annealed
from eigentree.em.averaging import averaged, fitted_shares
from eigentree.em.climbing import Problem, Stopping, climbed
from eigentree.em.distinct import DistinctRows
from eigentree.em.sizes import Size, SizeSearch, Trial
from eigentree.em.starts import carried, random_start, seeded
from eigentree.structures.discovery import mixture_of_trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.exact.network import LatentNetwork
    from eigentree.structures.graph import LatentGraph

__all__ = ["Ground", "Searched", "searched"]

FIRST_STATES, SHAPING_STATES = 2, 4
"""How many states come first, and with how many a mixture of trees is compared with twice as many."""

SEVERAL_TREES = 4
"""How many trees a mixture has."""

BOTH_STARTS = 64
"""Up to this work per edge both kinds of starts are tried; beyond, the one that was better."""

BATCH, FEWEST_BATCHES = 128, 8
"""Rows of a batch that differ; where rows are few, batches are smaller."""

PASSES, FEWEST_STEPS, MOST_PASSES = 15, 600, 60
"""Passes of a model, more where all passes together would have fewer batches than these."""

WEIGHT_OF_BATCH = (0.5, 0.02)
"""What the first and the last batch weigh beside all before."""

SHARPNESS, NOISE = 0.5, 0.1
"""How much of a class is the row that it is seeded by, and how much of a hidden variable is no copy of its class."""

WORTH = 0.0025
"""Twice as many states are tried where the last step to a larger size gained at least this share of the score."""

FINISHING = 15
FINISHED = Stopping("gain", 1e-5)

Kind = Literal["mixture", "random"]


@dataclass(frozen=True, eq=False)
class Ground:
    """What sizes are tried on.

    Attributes
    ----------
    tree : callable
        From the number of hidden states to the tree.
    rows : DistinctRows
        To learn from.
    validation : DistinctRows
    gaps : frozenset of str
        The columns that may have missing cells.
    pseudo_counts : float
    threads : int
    hidden_states, trees : int, optional
        Where they are given.
    most_states : int
        No more hidden states are tried.
    members : int
        How many models are averaged at most.
    """

    tree: Callable[[int], LatentGraph]
    rows: DistinctRows
    validation: DistinctRows
    gaps: frozenset[str]
    pseudo_counts: float
    threads: int
    hidden_states: int | None
    trees: int | None
    most_states: int
    members: int

    def problem(self, size: Size) -> Problem:
        """Return the problem of the rows with a model of some size."""
        graph = mixture_of_trees(self.tree(size.hidden_states), size.trees)
        return Problem.of(graph, self.rows, self.gaps, self.pseudo_counts, self.threads)

    def held_out(self, problem: Problem) -> Problem:
        """Return the problem of the validation rows with the same model."""
        return Problem.of(problem.layout.graph, self.validation, self.gaps, 0.0, self.threads)


@dataclass(frozen=True, eq=False)
class Member:
    """A model that was tried.

    Attributes
    ----------
    trial : Trial
    network : LatentNetwork
    seed : Generator's seed
        From which it can be learned again.
    course : tuple of float
        Mean log probability of a validation row after each pass.
    """

    trial: Trial
    network: LatentNetwork
    seed: np.random.SeedSequence
    course: tuple[float, ...]


class Searched(NamedTuple):
    """How a search stands.

    Attributes
    ----------
    members : tuple of Member
        All that were tried so far, in order.
    size : Size
        What is being tried.
    passes, most : int
        Passes that it has done, and how many it will do.
    """

    members: tuple[Member, ...]
    size: Size
    passes: int
    most: int

    @property
    def best(self) -> Member:
        """The one under which validation rows are likeliest."""
        return max(self.members, key=lambda member: member.trial.validation)

    def averaged(self, ground: Ground) -> tuple[LatentNetwork, SizeSearch, Member]:
        """Return the average of the models of the best size, what was tried, and the best of them."""
        best = self.best
        same = [member for member in self.members if member.trial.size == best.trial.size]
        same.sort(key=lambda member: -member.trial.validation)
        codes, weights = ground.validation.codes, ground.validation.weights
        log_prob = np.array([member.network.model.score(codes)[0] for member in same])
        shares = fitted_shares(log_prob, weights)
        kept = np.flatnonzero(shares)
        network = averaged(
            ground.tree(best.trial.size.hidden_states), [same[place].network for place in kept], shares[kept]
        )
        joint = np.logaddexp.reduce(log_prob[kept] + np.log(shares[kept])[:, None], axis=0)
        search = SizeSearch(
            tuple(member.trial for member in self.members),
            best.trial.size,
            tuple(shares[kept].tolist()),
            float(joint @ weights / weights.sum()),
            float(ground.rows.weights.sum()),
            float(weights.sum()),
        )
        return network, search, best


def searched(ground: Ground, random: np.random.Generator) -> Iterator[Searched]:
    """Yield how a search stands, after each pass of each model, until the last of those that are averaged."""
    search = _Search(ground, random)
    first = Size(ground.hidden_states or min(FIRST_STATES, ground.most_states), ground.trees or 1)
    yield from search.tried(first)
    while larger := search.larger():
        before = search.best
        for size in larger:
            yield from search.tried(size, before)
        gain = search.best.trial.validation - before.trial.validation
        if gain < WORTH * abs(before.trial.validation):
            break
    while search.count(search.best.trial.size) < ground.members:
        yield from search.member(search.best.trial.size, search.best.trial.start)


class _Search:
    """Models of growing size, and which of them is the best."""

    def __init__(self, ground: Ground, random: np.random.Generator) -> None:
        self._ground = ground
        self._random = random
        self._members: list[Member] = []

    @property
    def best(self) -> Member:
        return max(self._members, key=lambda member: member.trial.validation)

    def count(self, size: Size) -> int:
        """Return how many models of a size were tried."""
        return sum(member.trial.size == size for member in self._members)

    def larger(self) -> list[Size]:
        """Return the sizes to try after the best one."""
        ground, (states, trees) = self._ground, self.best.trial.size
        sizes = []
        twice = Size(2 * states, trees)
        if ground.hidden_states is None and twice.work <= ground.most_states**2:
            sizes.append(twice)
        may_mix = ground.trees is None and trees == 1
        if may_mix and (ground.hidden_states is not None or states == SHAPING_STATES):
            sizes.append(Size(states, SEVERAL_TREES))
        return sizes

    def tried(self, size: Size, before: Member | None = None) -> Iterator[Searched]:
        """Try a size, from both kinds of starts where it is small."""
        kinds: Sequence[Kind] = ("mixture", "random")
        if before is not None and size.work > BOTH_STARTS:
            kinds = (before.trial.start,)
        for kind in kinds:
            yield from self.member(size, kind)

    def member(self, size: Size, kind: Kind) -> Iterator[Searched]:
        """Learn one model."""
        ground = self._ground
        began = time.process_time()
        (seed,) = self._random.bit_generator.seed_seq.spawn(1)
        problem = ground.problem(size)
        held = ground.held_out(problem)
        random = np.random.default_rng(seed)
        batches, schedule = _schedule(problem, random)
        start = _start(ground, problem, size, kind, random)
        course: list[float] = []
        best, kept, log_likelihood = -math.inf, start, math.nan
        for parameters, log_likelihood in annealed(batches, start, schedule, random):
            course.append(held.log_likelihood(parameters) / held.weight)
            if course[-1] > best:
                best, kept = course[-1], parameters
            yield Searched(tuple(self._members), size, len(course), schedule.passes)
        if FINISHING:
            for climb in climbed(problem, kept, FINISHED, FINISHING, True, held, 3):
                course.append(climb.validation[-1] / held.weight)
                yield Searched(tuple(self._members), size, len(course), schedule.passes)
            if climb.score / held.weight > best:
                best, kept = climb.score / held.weight, climb.parameters
        trial = Trial(
            size, kind, len(course), problem.layout.learned_count, log_likelihood / problem.weight, best,
            time.process_time() - began,
        )
        self._members.append(Member(trial, problem.layout.network(kept), seed, tuple(course)))
        yield Searched(tuple(self._members), size, len(course), schedule.passes)


def _schedule(problem: Problem, random: np.random.Generator) -> tuple[Batches, Schedule]:
    count = len(problem.rows.weights)
    batches = Batches.of(problem, max(1, min(BATCH, count // FEWEST_BATCHES)), random)
    passes = min(MOST_PASSES, max(PASSES, -(-FEWEST_STEPS // len(batches.parts))))
    return batches, Schedule(passes, *WEIGHT_OF_BATCH)


def _start(ground: Ground, problem: Problem, size: Size, kind: Kind, random: np.random.Generator) -> Floats:
    """Return where a model starts: at random, or with hidden variables that are copies of classes around rows."""
    if kind == "random":
        return random_start(problem.layout, random)
    tree = ground.tree(size.hidden_states)
    alone = replace(problem) if size.trees == 1 else Problem.of(tree, ground.rows, ground.gaps, 0.0, 1)
    networks = []
    for _ in range(size.trees):
        classes = seeded(tree, ground.rows, size.hidden_states, SHARPNESS, random)
        networks.append(alone.layout.network(carried(alone.layout, classes, NOISE, random)))
    return problem.layout.vector(averaged(tree, networks, np.full(size.trees, 1.0 / size.trees)))
