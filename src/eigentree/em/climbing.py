"""Climbs: EM steps from one start until hardly anything is left to gain, extrapolated or not.

The M-step is the relative frequency of each expected count, for the CPTs of a directed graph and the clique
conditionals (Eq. 6) of an undirected one alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from eigentree.em.expectation import Expectation
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.em.distinct import DistinctRows
    from eigentree.em.expectation import CodedRows
    from eigentree.em.parameters import ParameterLayout
    from eigentree.structures.graph import LatentGraph

__all__ = [
    "Accelerator",
    "Climb",
    "Evaluation",
    "Kept",
    "Problem",
    "Rule",
    "Stopping",
    "climbed",
    "has_converged",
    "remaining_gain",
]

Rule: TypeAlias = Literal["gain", "paper"]

MEMORY = 5
"""How many earlier steps an accelerated step looks back on."""

SMALLEST_SHARE = 0.1
"""An extrapolation leaves the root of each parameter at least this share of what a plain step would give it."""

RIDGE = 1e-10
"""What is added to the products of earlier changes, relative to their size: steps in one direction are no basis."""

SHARE_OF_CLIMB = 4
"""A stretch of steps by which the remaining gain is judged is at least one part of so many of the climb."""

FASTEST_RATE, SLOWEST_RATE = 0.5, 0.99
"""Bounds of the rate at which the gains of stretches are taken to fall."""

PATIENCE = 15
"""How many steps validation rows may not become likelier before a climb ends."""


class Evaluation(NamedTuple):
    """What one E-step and one M-step make of parameters.

    Attributes
    ----------
    parameters : (parameters,)
    following : (parameters,)
        The next parameters by one EM step.
    objective : float
        That of `parameters`; -inf if a row is impossible.
    impossible : int
        A row of the data that is impossible, or -1.
    """

    parameters: Floats
    following: Floats
    objective: float
    impossible: int


@dataclass(frozen=True, eq=False)
class Problem:
    """What a climb maximises: the log-likelihood of rows, plus `pseudo_counts` times the sum of all log parameters.

    Attributes
    ----------
    expectation : Expectation
    rows : CodedRows
    numbers : (rows,)
        By which the user knows the rows.
    pseudo_counts : float
    threads : int
    """

    expectation: Expectation
    rows: CodedRows
    numbers: Integers
    pseudo_counts: float
    threads: int

    @classmethod
    def of(
        cls, graph: LatentGraph, rows: DistinctRows, gaps: Iterable[str], pseudo_counts: float, threads: int
    ) -> Problem:
        """Return the problem of rows on a graph, given the columns that may have missing cells."""
        expectation = Expectation.of(graph, gaps, len(rows.codes))
        return cls(expectation, expectation.coded(rows.codes, rows.weights), rows.first, pseudo_counts, threads)

    @property
    def layout(self) -> ParameterLayout:
        """Where each parameter stands."""
        return self.expectation.layout

    @cached_property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.rows.weights.sum())

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the rows; -inf if one is impossible."""
        return self.expectation(parameters, self.rows, self.threads).log_likelihood

    def evaluated(self, parameters: Floats) -> Evaluation:
        """Return the objective of some parameters, and the step from them."""
        counts, objective, impossible = self.expectation(parameters, self.rows, self.threads)
        learned = self.layout.learned
        if self.pseudo_counts:
            if parameters[learned].min() > 0:
                objective += self.pseudo_counts * float(np.log(parameters[learned]).sum())
            else:
                objective = -math.inf
            counts = counts + self.pseudo_counts * learned
        number = int(self.numbers[impossible]) if impossible >= 0 else -1
        return Evaluation(parameters, self.layout.normalised(counts, parameters), objective, number)


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

    def reached(self, history: Sequence[float], weight: float) -> bool:
        """Return whether a climb has arrived, given its objectives and the weight of its rows."""
        if self.rule == "gain":
            return remaining_gain(history) <= self.tol * weight
        return len(history) > 1 and has_converged(history[-2], history[-1], self.tol)


def climbed(
    problem: Problem,
    start: Floats,
    stopping: Stopping,
    max_iter: int,
    accelerate: bool,
    validation: Problem | None = None,
) -> Iterator[Climb]:
    """Yield a climb at its start and after each step, until it has arrived or `max_iter` is reached.

    With validation rows it also ends once these have not become likelier for `PATIENCE` steps.

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
        moved = None
        proposed = accelerator.propose(climb.here) if accelerator else None
        if accelerator and proposed is not None:
            moved = climb.moved(problem.evaluated(proposed))
            if moved is None:
                accelerator.forget()
        plain = moved is None
        if moved is None:
            moved = climb.moved(problem.evaluated(climb.here.following))
        if moved is None:
            # No gain is left but rounding.
            yield replace(climb, converged=True)
            return
        climb = _validated(moved, validation)
        if climb.kept and len(climb.history) - 1 - climb.kept.step >= PATIENCE:
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


def _validated(climb: Climb, validation: Problem | None) -> Climb:
    return climb.validated(validation.log_likelihood(climb.here.parameters)) if validation else climb


def has_converged(before: float, after: float, tol: float) -> bool:
    """Return whether an objective changed by no more than the paper's rule (section 9) lets pass."""
    # With pseudo-counts, a start with zeros has the objective -inf.
    return math.isfinite(before) and abs(after - before) <= tol * (abs(after) + abs(before)) / 2


def remaining_gain(history: Sequence[float]) -> float:
    """Return how much an objective is still expected to rise, given its values so far; infinity if too few.

    The gains of two stretches of steps, one after the other, are taken as the last of a geometric series. A stretch
    is as long as the memory of an accelerated step, whose single gains are uneven; it is longer in a long climb,
    where the rate itself becomes slower.
    """
    stretch = max(MEMORY, len(history) // SHARE_OF_CLIMB)
    if len(history) <= 2 * stretch or not math.isfinite(history[-1 - 2 * stretch]):
        return math.inf
    before = history[-1 - stretch] - history[-1 - 2 * stretch]
    last = history[-1] - history[-1 - stretch]
    rate = last / before if before > 0 else FASTEST_RATE
    rate = min(max(rate, FASTEST_RATE), SLOWEST_RATE)
    return last * rate / (1.0 - rate)


class Accelerator:
    """Anderson's method on the square roots of the parameters.

    There the distance of two distributions is Hellinger's, which does not favour large parameters.
    """

    def __init__(self, layout: ParameterLayout) -> None:
        self._layout = layout
        self._points: list[Floats] = []
        self._residuals: list[Floats] = []

    def forget(self) -> None:
        """Start again from the next step."""
        self._points.clear()
        self._residuals.clear()

    def propose(self, here: Evaluation) -> Floats | None:
        """Return an extrapolation from a step and earlier ones, or None when there are none."""
        target, point = np.sqrt(here.following), np.sqrt(here.parameters)
        self._points.append(point)
        self._residuals.append(target - point)
        if len(self._points) == 1:
            return None
        if len(self._points) > MEMORY + 1:
            del self._points[0], self._residuals[0]
        moves, changes = np.diff(self._points, axis=0), np.diff(self._residuals, axis=0)
        products = changes @ changes.T
        size = float(np.trace(products))
        if size == 0.0:
            return None
        products[np.diag_indices_from(products)] += RIDGE * size
        weights = np.linalg.solve(products, changes @ self._residuals[-1])
        # A parameter stays positive where EM leaves it so, and zero where EM does.
        roots = np.maximum(target - weights @ (moves + changes), SMALLEST_SHARE * target)
        proposed = self._layout.normalised(roots**2, here.following)
        return np.where(self._layout.learned, proposed, here.following)
