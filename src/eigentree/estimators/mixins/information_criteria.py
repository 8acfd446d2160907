"""BIC and AIC, of tables and of sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from eigentree.messages import notice

if TYPE_CHECKING:
    from eigentree.arrays import Floats

__all__ = ["MAXIMUM_LIKELIHOOD", "Criteria"]

MAXIMUM_LIKELIHOOD = 1e-6
"""Pseudo-counts that change no digit that is reported, and rule out nothing: maximum likelihood in practice."""

NEGLIGIBLE = 1e-3
"""Pseudo-counts up to which criteria are those of maximum likelihood: an entry of the tables then changes the
log-likelihood by far less than the 1 that a criterion charges for it at least."""


class Criteria(NamedTuple):
    """Information criteria of a fit: the lower, the better."""

    bic: float
    aic: float

    @classmethod
    def of(cls, log_likelihood: float, parameters: int, count: float) -> Criteria:
        """Return -2 · log-likelihood + parameters · log(count), and -2 · log-likelihood + 2 · parameters.

        Parameters are the free ones; the count is that of rows, or of steps of sequences.
        """
        return cls(parameters * math.log(count) - 2 * log_likelihood, 2 * (parameters - log_likelihood))

    @classmethod
    def of_rows(cls, log_prob: Floats, weights: Floats, parameters: int, count: float, prior: float) -> Criteria:
        """Return the criteria, given log probabilities and weights; warn unless it is maximum likelihood."""
        if prior > NEGLIGIBLE:
            notice(
                f"bic and aic compare fits of maximum likelihood, and this one has pseudo-counts ({prior:g}), "
                f"which lower its likelihood; fit with pseudo_counts={MAXIMUM_LIKELIHOOD:g} (or 0) to compare",
                UserWarning,
            )
        # An impossible row of weight 0 is no row.
        used = weights > 0
        return cls.of(float(weights[used] @ log_prob[used]), parameters, count)
