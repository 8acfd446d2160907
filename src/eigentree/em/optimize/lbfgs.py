"""Accelerated EM iterations: limited-memory quasi-Newton steps (L-BFGS)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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
    """

    def __init__(self, layout: SimplexVector) -> None:
        self._layout = layout
        self._last: tuple[Floats, Floats] | None = None
        # Moves, how the gradient fell along each, and their products.
        self._pairs: list[tuple[Floats, Floats, float]] = []
        # The step that is tried: from where, in which direction, with which slope, and what share of it.
        self._step: tuple[Evaluation, Floats, float, float] | None = None

    def forget(self) -> None:
        """Start again from the next step."""
        self._last = None
        self._pairs.clear()

    def propose(self, here: Evaluation) -> Floats | None:
        """Return where a quasi-Newton step leads, or None when nothing is known of the curvature."""
        roots, learned = np.sqrt(here.parameters), self._layout.learned
        # The slope of a count c times log r^2 is 2 c / r; what would only lengthen a distribution is taken out.
        slopes = np.divide(here.update, roots, out=np.zeros_like(roots), where=learned & (roots > 0))
        gradient = np.where(learned, 2.0 * here.totals * (slopes - roots), 0.0)
        if self._last is not None:
            move, fall = roots - self._last[0], self._last[1] - gradient
            along = float(move @ fall)
            # The cosine of move and fall is more than rounding, as in L-BFGS-B.
            if along > np.finfo(np.float64).eps * math.sqrt(float(move @ move) * float(fall @ fall)):
                self._pairs = [*self._pairs, (move, fall, along)][-MEMORY:]
        self._last = roots, gradient
        if not self._pairs:
            return None
        direction = self._direction(gradient, here.totals)
        return self._reached(here, direction, float(gradient @ direction), 1.0)

    def shortened(self, objective: float) -> Floats:
        """Return where a shorter step leads, after one that led to this objective: to the top of a parabola."""
        assert self._step is not None
        here, direction, slope, length = self._step
        missed = slope * length + here.objective - objective
        share = slope * length / (2.0 * missed) if missed > 0.0 else 0.0
        return self._reached(here, direction, slope, length * min(max(share, SHORTER[0]), SHORTER[1]))

    def _direction(self, gradient: Floats, totals: Floats) -> Floats:
        """Return the gradient times the inverse of the curvature that was seen (Nocedal's two loops)."""
        direction = gradient.copy()
        shares = []
        for move, fall, along in reversed(self._pairs):
            shares.append(float(move @ direction) / along)
            direction -= shares[-1] * fall
        np.divide(direction, 4.0 * totals, out=direction, where=totals > 0)
        for (move, fall, along), share in zip(self._pairs, reversed(shares), strict=True):
            direction += (share - float(fall @ direction) / along) * move
        return direction

    def _reached(self, here: Evaluation, direction: Floats, slope: float, length: float) -> Floats:
        """Return the parameters to which a step leads: zero where EM leads to zero, and nowhere else."""
        self._step = here, direction, slope, length
        roots, targets = np.sqrt(here.parameters), np.sqrt(here.update)
        reached = np.maximum(roots + length * direction, SMALLEST_SHARE * np.minimum(roots, targets))
        proposed = self._layout.normalised(np.where(targets > 0, reached**2, 0.0), here.update)
        return np.where(self._layout.learned, proposed, here.update)
