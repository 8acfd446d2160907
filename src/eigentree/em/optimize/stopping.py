"""When an EM run has converged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "SHARE_OF_ERROR",
    "SHORTEST_STRETCH",
    "SHORT_RUN",
    "USUAL_TOLERANCES",
    "Rule",
    "Stopping",
    "has_converged",
    "remaining_gain",
]

Rule: TypeAlias = Literal["gain", "paper"]

SHORTEST_STRETCH = 5
"""The fewest iterations whose gain the remaining gain is extrapolated from: single gains are uneven."""

SHORT_RUN = 2 * SHORTEST_STRETCH + 1
"""After so many iterations the remaining gain can first be extrapolated."""

SHARE_OF_RUN = 4
"""A stretch of iterations is at least one part of so many of the run: in a long run the rate itself slows."""

FASTEST_RATE, SLOWEST_RATE = 0.5, 0.99
"""Bounds of the estimated rate of convergence."""

USUAL_TOLERANCES = {"gain": 4e-6, "paper": 1e-4}
"""The tolerance of each rule of stopping where none is given."""

DEAR_ROWS, SHARE_OF_ERROR = 32_000, 0.005
"""With so many rows that differ iterations are dear, and such a share of the chance error is left."""


class Stopping(NamedTuple):
    """When an EM run has converged.

    By the rule "gain": no more than `tol` is still to be gained in log-likelihood per row. By "paper": the
    objective f satisfies |f(t) - f(t-1)| <= tol (|f(t)| + |f(t-1)|) / 2 (section 9).
    """

    rule: Rule
    tol: float

    @classmethod
    def usual(cls, rule: Rule, rows: int, weight: float, parameters: int) -> Stopping:
        """Return when a run has converged by a rule, given how many rows differ and their weight."""
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
        """Return whether a run has converged, given its objectives and the weight of its rows."""
        if self.rule == "gain":
            return remaining_gain(history) <= self.tol * weight
        return len(history) > 1 and has_converged(history[-2], history[-1], self.tol)


def has_converged(before: float, after: float, tol: float) -> bool:
    """Return whether an objective changed by no more than the paper's rule (section 9) lets pass."""
    # With pseudo-counts, a start with zeros has the objective -inf.
    return math.isfinite(before) and abs(after - before) <= tol * (abs(after) + abs(before)) / 2


def remaining_gain(history: Sequence[float]) -> float:
    """Return how much an objective is still expected to rise, given its values so far; infinity if too few.

    The gains of two stretches of steps, one after the other, are taken as the last of a geometric series. A stretch
    is longer in a long run, where the rate itself becomes slower.
    """
    stretch = max(SHORTEST_STRETCH, len(history) // SHARE_OF_RUN)
    if len(history) <= 2 * stretch or not math.isfinite(history[-1 - 2 * stretch]):
        return math.inf
    before = history[-1 - stretch] - history[-1 - 2 * stretch]
    last = history[-1] - history[-1 - stretch]
    rate = last / before if before > 0 else FASTEST_RATE
    rate = min(max(rate, FASTEST_RATE), SLOWEST_RATE)
    return last * rate / (1.0 - rate)
