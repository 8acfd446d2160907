"""Climbs: EM steps from one start until hardly anything is left to gain, extrapolated or not.

The M-step is the relative frequency of each expected count, for the CPTs of a directed graph and the clique
conditionals (Eq. 6) of an undirected one alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from eigentree.em.accelerating import Accelerator
from eigentree.em.distinct import margins
from eigentree.em.expectation import Expectation
from eigentree.em.prior import spread
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.em.accelerating import Distributions
    from eigentree.em.curvature import Curvature
    from eigentree.em.distinct import DistinctRows
    from eigentree.em.expectation import CodedRows, ExpectedCounts
    from eigentree.em.parameters import ParameterLayout
    from eigentree.structures.graph import LatentGraph

__all__ = [
    "USUAL_TOLERANCES",
    "Climb",
    "Climbable",
    "Evaluation",
    "Kept",
    "Objective",
    "Problem",
    "Rule",
    "Stopping",
    "climbed",
    "has_converged",
    "remaining_gain",
]

Rule: TypeAlias = Literal["gain", "paper"]

TRIES = 3
"""How often a step is tried, shorter and shorter, before all that was remembered is given up."""

SHORTEST_STRETCH = 5
"""The fewest steps by whose gain the remaining gain is judged: single gains are uneven."""

SHARE_OF_CLIMB = 4
"""A stretch of steps by which the remaining gain is judged is at least one part of so many of the climb."""

FASTEST_RATE, SLOWEST_RATE = 0.5, 0.99
"""Bounds of the rate at which the gains of stretches are taken to fall."""

USUAL_TOLERANCES = {"gain": 4e-6, "paper": 1e-4}
"""The tolerance of each rule of stopping where none is given."""

DEAR_ROWS, SHARE_OF_ERROR = 32_000, 0.005
"""With so many rows that differ steps are dear, and such a share of chance error is not climbed for."""

SHARE_OF_ERROR_BY_NEWTON, NEWTONS_STRETCH = 0.02, 10
"""The same where steps are Newton's, and by how many at least the rest is judged: the first few gain so much that
what comes after them would look like nothing, even where it goes on for long."""

PATIENCE = 15
"""How many steps validation rows may not become likelier before a climb ends."""


class Evaluation(NamedTuple):
    """What one E-step and one M-step make of parameters.

    Attributes
    ----------
    parameters : (parameters,)
    following : (parameters,)
        The next parameters by one EM step.
    totals : (parameters,)
        The expected count of the distribution that each parameter belongs to, pseudo-counts included.
    objective : float
        That of `parameters`; -inf if a row is impossible.
    impossible : int
        A row of the data that is impossible, or -1.
    """

    parameters: Floats
    following: Floats
    totals: Floats
    objective: float
    impossible: int


class Climbable(Protocol):
    """What a climb asks of what it maximises, be it of rows under a tree or of sequences under a chain."""

    @property
    def layout(self) -> Distributions:
        """Where each parameter stands."""

    @property
    def weight(self) -> float:
        """The total weight of the data, by which gains are judged."""

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the data; -inf if it is impossible."""

    def evaluated(self, parameters: Floats) -> Evaluation:
        """Return the objective of some parameters, and the step from them."""


class Objective(ABC):
    """What a climb on rows maximises: the log-likelihood of rows, plus each log parameter times its pseudo-count.

    Where the rows lie, and who counts them, is another matter.

    Attributes
    ----------
    expectation : Expectation
    prior : (parameters,)
        The pseudo-count of each parameter.
    """

    expectation: Expectation
    prior: Floats

    @property
    def layout(self) -> ParameterLayout:
        """Where each parameter stands."""
        return self.expectation.layout

    @property
    @abstractmethod
    def weight(self) -> float:
        """The total weight of the rows."""

    @abstractmethod
    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return what all rows say; one that is impossible is named by the number that the user knows."""

    @cached_property
    def _has_prior(self) -> Booleans:
        return self.prior > 0

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the rows; -inf if one is impossible."""
        return self.counted(parameters).log_likelihood

    def log_prior(self, parameters: Floats) -> float:
        """Return what pseudo-counts add to the log-likelihood; -inf if one stands at a parameter of zero."""
        own = parameters[self._has_prior]
        if not own.min(initial=1.0) > 0:
            return -math.inf
        return float(self.prior[self._has_prior] @ np.log(own))

    def evaluated(self, parameters: Floats) -> Evaluation:
        """Return the objective of some parameters, and the step from them."""
        counts, objective, impossible = self.counted(parameters)
        if self._has_prior.any():
            objective += self.log_prior(parameters)
            counts = counts + self.prior
        following = self.layout.normalised(counts, parameters)
        return Evaluation(parameters, following, self.layout.totals(counts), objective, impossible)


@dataclass(frozen=True, eq=False)
class Problem(Objective):
    """The objective of rows that are at hand.

    Attributes
    ----------
    expectation : Expectation
    rows : CodedRows
    numbers : (rows,)
        By which the user knows the rows.
    prior : (parameters,)
    threads : int
    single : bool
        Whether single precision will do: for climbs that end long before its last digits matter.
    """

    expectation: Expectation
    rows: CodedRows
    numbers: Integers
    prior: Floats
    threads: int
    single: bool = False

    @classmethod
    def of(
        cls,
        graph: LatentGraph,
        rows: DistinctRows,
        gaps: Iterable[str],
        pseudo_counts: float,
        threads: int,
        single: bool = False,
    ) -> Problem:
        """Return the problem of rows on a graph, given the columns that may have missing cells."""
        expectation = Expectation.of(graph, gaps, len(rows.codes))
        coded = expectation.coded(rows.codes, rows.weights, often_by=threads)
        states = {name: graph.states[name] for name in graph.observed}
        prior = spread(expectation.layout, margins(rows.codes, rows.weights, states), pseudo_counts)
        return cls(expectation, coded, rows.first, prior, threads, single)

    @cached_property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.rows.weights.sum())

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return what all rows say."""
        found = self.expectation(parameters, self.rows, self.threads, self.single)
        return found._replace(impossible=int(self.numbers[found.impossible])) if found.impossible >= 0 else found

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the rows; -inf if one is impossible."""
        return self.expectation.log_likelihood(parameters, self.rows, self.threads, self.single)


class Kept(NamedTuple):
    """The best parameters by validation rows so far.

    Attributes
    ----------
    step : int
    parameters : (parameters,)
    """

    step: int
    parameters: Floats


@dataclass(frozen=True, eq=False)
class Climb:
    """How far a climb has come.

    Attributes
    ----------
    here : Evaluation
    history : tuple of float
        The objective of each step, start included; it never decreases, and its last is that of `here`.
    converged : bool
    validation : tuple of float
        The log-likelihood of validation rows at each step, if there are any.
    kept : Kept, optional
        Where that was highest.
    """

    here: Evaluation
    history: tuple[float, ...]
    converged: bool = False
    validation: tuple[float, ...] = ()
    kept: Kept | None = None

    def moved(self, there: Evaluation) -> Climb | None:
        """Return the climb after a step, or None when that does not raise the objective."""
        if not there.objective > self.here.objective:
            return None
        return replace(self, here=there, history=(*self.history, there.objective))

    def validated(self, log_likelihood: float) -> Climb:
        """Return the climb with the log-likelihood of validation rows at its last step."""
        step = len(self.validation)
        better = self.kept is None or log_likelihood > self.validation[self.kept.step]
        kept = Kept(step, self.here.parameters) if better else self.kept
        return replace(self, validation=(*self.validation, log_likelihood), kept=kept)

    @property
    def parameters(self) -> Floats:
        """The best parameters: by validation rows, if there are any."""
        return self.kept.parameters if self.kept else self.here.parameters

    @property
    def score(self) -> float:
        """What climbs are compared by: the last objective, or the best log-likelihood of validation rows."""
        return self.validation[self.kept.step] if self.kept else self.history[-1]


class Stopping(NamedTuple):
    """When a climb has arrived.

    Attributes
    ----------
    rule : {"gain", "paper"}
        "gain": no more than `tol` is still to be gained in log-likelihood per row. "paper": the objective f
        satisfies |f(t) - f(t-1)| <= tol (|f(t)| + |f(t-1)|) / 2 (section 9).
    tol : float
    stretch : int
        By the gain of how many steps at least the remaining gain is judged.
    """

    rule: Rule
    tol: float
    stretch: int = SHORTEST_STRETCH

    @classmethod
    def usual(cls, rule: Rule, rows: DistinctRows, parameters: int) -> Stopping:
        """Return when a climb on rows has arrived by a rule, given how many entries of the tables are learned."""
        return cls.usual_for(rule, len(rows.weights), float(rows.weights.sum()), parameters)

    @classmethod
    def usual_for(cls, rule: Rule, rows: int, weight: float, parameters: int) -> Stopping:
        """Return the same, given how many rows differ, and their total weight."""
        tol = USUAL_TOLERANCES[rule]
        if rule == "gain" and rows >= DEAR_ROWS:
            tol = max(tol, cls.within_chance(SHARE_OF_ERROR, parameters, weight).tol)
        return cls(rule, tol)

    def eased(self, rows: DistinctRows, parameters: int) -> Stopping:
        """Return when a climb by Newton's steps has arrived, unless a tolerance was given: somewhat sooner."""
        if self != Stopping.usual("gain", rows, parameters) or len(rows.weights) < DEAR_ROWS:
            return self
        newton = Stopping.within_chance(SHARE_OF_ERROR_BY_NEWTON, parameters, float(rows.weights.sum()))
        return Stopping("gain", max(self.tol, newton.tol), NEWTONS_STRETCH)

    @classmethod
    def within_chance(cls, share: float, parameters: int, rows: float) -> Stopping:
        """Return when no more is to be gained than a share of what chance makes of so many rows.

        From p parameters and n rows, chance alone makes the log-likelihood per row wrong by p / 2n.
        """
        return cls("gain", share * parameters / (2.0 * rows))

    def reached(self, history: Sequence[float], weight: float) -> bool:
        """Return whether a climb has arrived, given its objectives and the weight of its rows."""
        if self.rule == "gain":
            return remaining_gain(history, self.stretch) <= self.tol * weight
        return len(history) > 1 and has_converged(history[-2], history[-1], self.tol)


def climbed(
    problem: Climbable,
    start: Floats,
    stopping: Stopping,
    max_iter: int,
    accelerate: bool,
    validation: Climbable | None = None,
    patience: int = PATIENCE,
    curvature: Curvature | None = None,
) -> Iterator[Climb]:
    """Yield a climb at its start and after each step, until it has arrived or `max_iter` is reached.

    With validation rows it also ends once these have not become likelier for `patience` steps. Accelerated steps
    are Newton's where it is told how the log-likelihood bends, by a part of the rows.

    Raises
    ------
    DataError
        When a row is impossible at the start: no step would make it possible.
    """
    here = problem.evaluated(start)
    if here.impossible >= 0:
        raise DataError(
            f"row {here.impossible} has probability zero at the start, so EM cannot explain it; "
            f"give an init whose tables have no zeros there"
        )
    climb = _validated(Climb(here, (here.objective,)), validation)
    yield climb
    told = curvature.factored(problem.weight) if curvature else None
    accelerator = Accelerator(problem.layout, told) if accelerate else None
    for _ in range(max_iter):
        moved = _accelerated(problem, climb, accelerator) if accelerator else None
        plain = moved is None
        if moved is None:
            moved = climb.moved(problem.evaluated(climb.here.following))
        if moved is None:
            # No gain is left but rounding.
            yield replace(climb, converged=True)
            return
        climb = _validated(moved, validation)
        if climb.kept and len(climb.history) - 1 - climb.kept.step >= patience:
            yield replace(climb, converged=True)
            return
        if stopping.reached(climb.history, problem.weight):
            if plain or stopping.rule == "gain":
                yield replace(climb, converged=True)
                return
            # A poor extrapolation is no sign of the summit: ask a plain step.
            assert accelerator is not None
            accelerator.forget()
        yield climb


def _accelerated(problem: Climbable, climb: Climb, accelerator: Accelerator) -> Climb | None:
    """Return the climb after an accelerated step, or None when there is none that raises the objective."""
    proposed = accelerator.propose(climb.here)
    if proposed is None:
        return None
    for _ in range(TRIES):
        there = problem.evaluated(proposed)
        moved = climb.moved(there)
        if moved is not None:
            return moved
        proposed = accelerator.shortened(there.objective)
    accelerator.forget()
    return None


def _validated(climb: Climb, validation: Climbable | None) -> Climb:
    return climb.validated(validation.log_likelihood(climb.here.parameters)) if validation else climb


def has_converged(before: float, after: float, tol: float) -> bool:
    """Return whether an objective changed by no more than the paper's rule (section 9) lets pass."""
    # With pseudo-counts, a start with zeros has the objective -inf.
    return math.isfinite(before) and abs(after - before) <= tol * (abs(after) + abs(before)) / 2


def remaining_gain(history: Sequence[float], shortest: int = SHORTEST_STRETCH) -> float:
    """Return how much an objective is still expected to rise, given its values so far; infinity if too few.

    The gains of two stretches of steps, one after the other, are taken as the last of a geometric series. A stretch
    is longer in a long climb, where the rate itself becomes slower.
    """
    stretch = max(shortest, len(history) // SHARE_OF_CLIMB)
    if len(history) <= 2 * stretch or not math.isfinite(history[-1 - 2 * stretch]):
        return math.inf
    before = history[-1 - stretch] - history[-1 - 2 * stretch]
    last = history[-1] - history[-1 - stretch]
    rate = last / before if before > 0 else FASTEST_RATE
    rate = min(max(rate, FASTEST_RATE), SLOWEST_RATE)
    return last * rate / (1.0 - rate)
