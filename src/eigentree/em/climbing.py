"""Climbs: EM steps from one start until hardly anything is left to gain, extrapolated or not.

The M-step is the relative frequency of each expected count, for the CPTs of a directed graph and the clique
conditionals (Eq. 6) of an undirected one alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from eigentree.em.distinct import margins
from eigentree.em.expectation import Expectation
from eigentree.em.prior import spread
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.em.distinct import DistinctRows
    from eigentree.em.expectation import CodedRows, ExpectedCounts
    from eigentree.em.parameters import ParameterLayout
    from eigentree.structures.graph import LatentGraph

__all__ = [
    "USUAL_TOLERANCES",
    "Accelerator",
    "Climb",
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

MEMORY = 10
"""How many earlier steps an accelerated step looks back on."""

SMALLEST_SHARE = 0.1
"""An accelerated step leaves each root at least this share of the smaller of where it is and where EM would go."""

CURVED = 1e-10
"""A step is looked back on if the gradient fell along it by more, as the cosine of move and fall."""

SHORTER = (0.1, 0.5)
"""Bounds of the share to which a step is shortened that lowered the objective."""

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


class Objective(ABC):
    """What a climb maximises: the log-likelihood of rows, plus each log parameter times its pseudo-count.

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
        coded = expectation.coded(rows.codes, rows.weights)
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
    """

    rule: Rule
    tol: float

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

    @classmethod
    def within_chance(cls, share: float, parameters: int, rows: float) -> Stopping:
        """Return when no more is to be gained than a share of what chance makes of so many rows.

        From p parameters and n rows, chance alone makes the log-likelihood per row wrong by p / 2n.
        """
        return cls("gain", share * parameters / (2.0 * rows))

    def reached(self, history: Sequence[float], weight: float) -> bool:
        """Return whether a climb has arrived, given its objectives and the weight of its rows."""
        if self.rule == "gain":
            return remaining_gain(history) <= self.tol * weight
        return len(history) > 1 and has_converged(history[-2], history[-1], self.tol)


def climbed(
    problem: Objective,
    start: Floats,
    stopping: Stopping,
    max_iter: int,
    accelerate: bool,
    validation: Objective | None = None,
    patience: int = PATIENCE,
) -> Iterator[Climb]:
    """Yield a climb at its start and after each step, until it has arrived or `max_iter` is reached.

    With validation rows it also ends once these have not become likelier for `patience` steps.

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
    accelerator = Accelerator(problem.layout) if accelerate else None
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


def _accelerated(problem: Objective, climb: Climb, accelerator: Accelerator) -> Climb | None:
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


def _validated(climb: Climb, validation: Objective | None) -> Climb:
    return climb.validated(validation.log_likelihood(climb.here.parameters)) if validation else climb


def has_converged(before: float, after: float, tol: float) -> bool:
    """Return whether an objective changed by no more than the paper's rule (section 9) lets pass."""
    # With pseudo-counts, a start with zeros has the objective -inf.
    return math.isfinite(before) and abs(after - before) <= tol * (abs(after) + abs(before)) / 2


def remaining_gain(history: Sequence[float]) -> float:
    """Return how much an objective is still expected to rise, given its values so far; infinity if too few.

    The gains of two stretches of steps, one after the other, are taken as the last of a geometric series. A stretch
    is longer in a long climb, where the rate itself becomes slower.
    """
    stretch = max(SHORTEST_STRETCH, len(history) // SHARE_OF_CLIMB)
    if len(history) <= 2 * stretch or not math.isfinite(history[-1 - 2 * stretch]):
        return math.inf
    before = history[-1 - stretch] - history[-1 - 2 * stretch]
    last = history[-1] - history[-1 - stretch]
    rate = last / before if before > 0 else FASTEST_RATE
    rate = min(max(rate, FASTEST_RATE), SLOWEST_RATE)
    return last * rate / (1.0 - rate)


class Accelerator:
    """Quasi-Newton steps (L-BFGS) on the square roots of the parameters.

    There the distance of two distributions is Hellinger's, which does not favour large parameters, and the
    curvature that rows without gaps would have is four times the expected count of each distribution. What is not
    known yet of the true curvature is taken to be that: the first step is EM's own but for terms of higher order.
    """

    def __init__(self, layout: ParameterLayout) -> None:
        self._layout = layout
        self._last: _Place | None = None
        self._pairs: list[_Pair] = []
        self._try: _Try | None = None

    def forget(self) -> None:
        """Start again from the next step."""
        self._last = None
        self._pairs.clear()

    def propose(self, here: Evaluation) -> Floats | None:
        """Return where a quasi-Newton step leads, or None when nothing is known of the curvature."""
        place = _Place.of(here, self._layout)
        if self._last is not None:
            move, fall = place.roots - self._last.roots, self._last.gradient - place.gradient
            along = float(move @ fall)
            if along > CURVED * math.sqrt(float(move @ move) * float(fall @ fall)):
                self._pairs = [*self._pairs, _Pair(move, fall, along)][-MEMORY:]
        self._last = place
        if not self._pairs:
            return None
        direction = self._direction(place.gradient, here.totals)
        self._try = _Try(here, direction, float(place.gradient @ direction), 1.0)
        return self._reached(self._try)

    def shortened(self, objective: float) -> Floats:
        """Return where a shorter step leads, after one that led to this objective: to the top of a parabola."""
        assert self._try is not None
        here, direction, slope, length = self._try
        missed = slope * length + here.objective - objective
        share = slope * length / (2.0 * missed) if missed > 0.0 else 0.0
        shorter = length * min(max(share, SHORTER[0]), SHORTER[1])
        self._try = _Try(here, direction, slope, shorter)
        return self._reached(self._try)

    def _direction(self, gradient: Floats, totals: Floats) -> Floats:
        """Return the gradient times the inverse of the curvature that was seen (Nocedal's two loops)."""
        direction = gradient.copy()
        shares = []
        for pair in reversed(self._pairs):
            shares.append(float(pair.move @ direction) / pair.along)
            direction -= shares[-1] * pair.fall
        np.divide(direction, 4.0 * totals, out=direction, where=totals > 0)
        for pair, share in zip(self._pairs, reversed(shares), strict=True):
            direction += (share - float(pair.fall @ direction) / pair.along) * pair.move
        return direction

    def _reached(self, attempt: _Try) -> Floats:
        """Return the parameters to which a step leads: zero where EM leads to zero, and nowhere else."""
        here = attempt.here
        roots, targets = np.sqrt(here.parameters), np.sqrt(here.following)
        reached = np.maximum(
            roots + attempt.length * attempt.direction, SMALLEST_SHARE * np.minimum(roots, targets)
        )
        proposed = self._layout.normalised(np.where(targets > 0, reached**2, 0.0), here.following)
        return np.where(self._layout.learned, proposed, here.following)


class _Place(NamedTuple):
    """Where a climb was: the roots of the parameters, and the gradient of the objective in them."""

    roots: Floats
    gradient: Floats

    @classmethod
    def of(cls, here: Evaluation, layout: ParameterLayout) -> _Place:
        roots = np.sqrt(here.parameters)
        # The slope of a count c times log r^2 is 2 c / r; what would only lengthen a distribution is taken out.
        slopes = np.divide(here.following, roots, out=np.zeros_like(roots), where=layout.learned & (roots > 0))
        return cls(roots, np.where(layout.learned, 2.0 * here.totals * (slopes - roots), 0.0))


class _Pair(NamedTuple):
    """A move, how the gradient fell along it, and their product."""

    move: Floats
    fall: Floats
    along: float


class _Try(NamedTuple):
    """A step that is tried: from where, in which direction with which slope, and what share of it."""

    here: Evaluation
    direction: Floats
    slope: float
    length: float
