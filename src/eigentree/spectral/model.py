"""The model that a spectral fit leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from eigentree.engine.model import Model
from eigentree.spectral.flooring import floored

if TYPE_CHECKING:
    from eigentree.arrays import Codes, Floats
    from eigentree.spectral.fit import SpectralFit

__all__ = ["SpectralModel"]


@dataclass(frozen=True, eq=False)
class SpectralModel(Model):
    """Learned operators, with the fit they are from: shrunk further, it answers where they have no answer.

    Attributes
    ----------
    fit : SpectralFit
    shrinkage : float
    log_marginals : tuple of array, shape (states + 1,)
        Log probability of each state of each column alone; 0 for a missing cell.
    """

    fit: SpectralFit
    shrinkage: float
    log_marginals: tuple[Floats, ...]

    replaced: ClassVar[str] = (
        "had no positive probability and were floored: the same fit, shrunk further, answers for them; more rows, "
        "a larger shrinkage or a lower max_rank make this rarer"
    )

    @classmethod
    def of(cls, fit: SpectralFit, shrinkage: float, log_marginals: tuple[Floats, ...]) -> SpectralModel:
        """Return the model of a fit at some shrinkage."""
        return cls(fit.plan.graph, fit.operators(shrinkage), fit, shrinkage, log_marginals)

    def score(self, codes: Codes) -> tuple[Floats, int]:
        """Return finite log probabilities of rows of codes, and how many were not positive and were floored."""
        log_size, sign = self.operators.log_prob(codes)
        return floored(log_size, sign, codes, self.fit, self.shrinkage, self.log_marginals)
