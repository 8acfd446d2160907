"""Climbs: EM steps from one start until the objective hardly changes, extrapolated or not.

The M-step is the relative frequency of each expected count, for the CPTs of a directed graph and the clique
conditionals (Eq. 6) of an undirected one alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats, Integers
    from eigentree.em.expectation import CodedRows, Expectation
    from eigentree.em.parameters import ParameterLayout

__all__ = ["Accelerator", "Climb", "Evaluation", "Problem", "climbed", "has_converged"]

MEMORY = 5
"""How many earlier steps an accelerated step looks back on."""

SMALLEST_SHARE = 0.1
"""An extrapolation leaves the root of each parameter at least this share of what a plain step would give it."""

RIDGE = 1e-10
"""What is added to the products of earlier changes, relative to their size: steps in one direction are no basis."""


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

    @property
    def layout(self) -> ParameterLayout:
        """Where each parameter stands."""
        return self.expectation.layout

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


@dataclass(frozen=True, eq=False)
class Climb:
    """How far a climb has come.

    Attributes
    ----------
    here : Evaluation
    history : tuple of float
        The objective of each step, start included; it never decreases, and its last is that of `here`.
    converged : bool
    """

    here: Evaluation
    history: tuple[float, ...]
    converged: bool = False

    def moved(self, there: Evaluation) -> Climb | None:
        """Return the climb after a step, or None when that does not raise the objective."""
        if not there.objective > self.here.objective:
            return None
        return Climb(there, (*self.history, there.objective))


def climbed(problem: Problem, start: Floats, tol: float, max_iter: int, accelerate: bool) -> Iterator[Climb]:
    """Yield a climb at its start and after each step, until it has converged by `tol` or `max_iter` is reached.

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
    climb = Climb(here, (here.objective,))
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
        climb = moved
        if has_converged(climb.history[-2], climb.history[-1], tol):
            if plain:
                yield replace(climb, converged=True)
                return
            # A poor extrapolation is no sign of the summit: ask a plain step.
            assert accelerator is not None
            accelerator.forget()
        yield climb


def has_converged(before: float, after: float, tol: float) -> bool:
    """Return whether an objective changed by no more than the paper's rule (section 9) lets pass."""
    # With pseudo-counts, a start with zeros has the objective -inf.
    return math.isfinite(before) and abs(after - before) <= tol * (abs(after) + abs(before)) / 2


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
        return self._layout.normalised(roots**2, here.following)
