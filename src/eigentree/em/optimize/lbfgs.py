"""Accelerated EM iterations: limited-memory quasi-Newton steps (L-BFGS)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Evaluation, SimplexVector

__all__ = ["LBFGS", "MEMORY"]

MEMORY = 10
"""How many earlier steps an accelerated step looks back on."""

SMALLEST_SHARE = 0.1
"""An accelerated step leaves each root at least this share of the smaller of where it is and where EM would go."""

SHORTER = (0.1, 0.5)
"""Bounds of the share to which a step is shortened that lowered the objective."""


class LBFGS:
    """Quasi-Newton steps (L-BFGS) on the square roots of the parameters.

    There the distance of two distributions is Hellinger's, which does not favour large parameters, and the
    curvature that complete data would have is four times the expected count of each distribution. What is not
    known yet of the true curvature is taken to be that: the first step is EM's own but for terms of higher order.

    Parameters
    ----------
    layout : SimplexVector
    """

    def __init__(self, layout: SimplexVector) -> None:
        self._layout = layout
        self._last: _Iterate | None = None
        self._pairs: list[_Pair] = []
        self._try: _Try | None = None

    def forget(self) -> None:
        """Start again from the next step."""
        self._last = None
        self._pairs.clear()

    def propose(self, here: Evaluation) -> Floats | None:
        """Return where a quasi-Newton step leads, or None when nothing is known of the curvature."""
        place = _Iterate.of(here, self._layout)
        if self._last is not None:
            move, fall = place.roots - self._last.roots, self._last.gradient - place.gradient
            along = float(move @ fall)
            # The cosine of move and fall is more than rounding, as in L-BFGS-B.
            if along > np.finfo(np.float64).eps * math.sqrt(float(move @ move) * float(fall @ fall)):
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
        roots, targets = np.sqrt(here.parameters), np.sqrt(here.update)
        reached = np.maximum(
            roots + attempt.length * attempt.direction, SMALLEST_SHARE * np.minimum(roots, targets)
        )
        proposed = self._layout.normalised(np.where(targets > 0, reached**2, 0.0), here.update)
        return np.where(self._layout.learned, proposed, here.update)


class _Iterate(NamedTuple):
    """Where a run was: the roots of the parameters, and the gradient of the objective in them."""

    roots: Floats
    gradient: Floats

    @classmethod
    def of(cls, here: Evaluation, layout: SimplexVector) -> _Iterate:
        roots = np.sqrt(here.parameters)
        # The slope of a count c times log r^2 is 2 c / r; what would only lengthen a distribution is taken out.
        slopes = np.divide(here.update, roots, out=np.zeros_like(roots), where=layout.learned & (roots > 0))
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
