"""The conditional log-likelihood of a class given the other columns, and its gradient along free coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.conditional.free_coordinates import FreeCoordinates
    from eigentree.em.optimize.objective import Objective

__all__ = ["ConditionalObjective"]


@dataclass(frozen=True, eq=False)
class ConditionalObjective:
    """What conditional training maximises, as a function of free coordinates that are 0 at the generative fit.

    It is the sum over rows of ``log P(row, class) - weight · log P(row)``: with the weight 1 the conditional
    log-likelihood, with 0 that of generative training, and between a convex combination of both (Bouchard and
    Triggs, 2004). Both have the prior of generative training, which so has the share that the weight leaves. A
    ridge penalty, ``alpha / 2`` times the sum of the squares of the coordinates, holds them near the generative
    fit: a Gaussian prior around it.

    Attributes
    ----------
    coordinates : FreeCoordinates
    joint : Objective
        Of the rows with their classes.
    marginal : Objective
        Of the same rows without them.
    conditional_weight : float
    alpha : float
    """

    coordinates: FreeCoordinates
    joint: Objective
    marginal: Objective
    conditional_weight: float = 1.0
    alpha: float = 0.0

    def value_and_gradient(self, at: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient: expected counts with the class clamped less those with it free."""
        clamped, slopes = self.coordinates.value_and_gradient(self.joint, at)
        free, others = self.coordinates.value_and_gradient(self.marginal, at)
        value, gradient = clamped - self.conditional_weight * free, slopes - self.conditional_weight * others
        return value - 0.5 * self.alpha * float(at @ at), gradient - self.alpha * at

    def log_likelihood(self, at: Floats) -> float:
        """Return the conditional log-likelihood of the classes; -inf if a row is impossible."""
        parameters = self.coordinates.moved(at)
        return self.joint.log_likelihood(parameters) - self.marginal.log_likelihood(parameters)
