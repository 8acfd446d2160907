"""BIC, AIC and the like, of tables and of sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scipy.special import entr

from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.arrays import Floats

__all__ = ["MAXIMUM_LIKELIHOOD", "NEGLIGIBLE", "Criteria", "entropy_r2"]

MAXIMUM_LIKELIHOOD = 1e-6
"""Pseudo-counts that change no digit that is reported, and rule out nothing: maximum likelihood in practice."""

NEGLIGIBLE = 1e-3
"""Pseudo-counts up to which criteria are those of maximum likelihood: an entry of the tables then changes the
log-likelihood by far less than the 1 that a criterion charges for it at least."""


class Criteria(NamedTuple):
    """Information criteria of a fit, the lower the better, and how certain its hidden states are.

    With log-likelihood l, p free parameters and n rows, or steps of sequences:

    Attributes
    ----------
    log_likelihood : float
    parameters : int
    rows : float
        Rows, or steps of sequences; weighted ones are as many as their weights add up to.
    bic : float
        p log(n) - 2 l (Schwarz 1978).
    aic : float
        2 p - 2 l (Akaike 1974).
    sabic : float
        Sample-size-adjusted BIC, p log((n + 2) / 24) - 2 l (Sclove 1987).
    caic : float
        Consistent AIC, p (log(n) + 1) - 2 l (Bozdogan 1987).
    icl : float
        Integrated completed likelihood, BIC + 2 · entropy (ICL-BIC; Biernacki, Celeux and Govaert 2000). The
        entropy is that of the posterior of each hidden variable, or of the state of each step, added up; where
        there are several in a row it is an upper bound of that of their joint posterior.
    entropy_r2 : float
        1 - entropy / the most that it could be; 1 where hidden states are certain, NaN where there are none.
    smallest_class : float
        The share of the smallest class: the mean posterior probability of the rarest hidden state.
    """

    log_likelihood: float
    parameters: int
    rows: float
    bic: float
    aic: float
    sabic: float
    caic: float
    icl: float
    entropy_r2: float
    smallest_class: float

    @classmethod
    def of(
        cls,
        log_likelihood: float,
        parameters: int,
        count: float,
        posteriors: Iterable[tuple[Floats, Floats]] = (),
    ) -> Criteria:
        """Return the criteria, given the number of free parameters and that of rows, or of steps of sequences.

        Posteriors are those of hidden variables, each with the weights of its rows.
        """
        deviance, entropy, most, smallest = -2.0 * log_likelihood, 0.0, 0.0, math.inf
        for posterior, weights in posteriors:
            entropy += float(weights @ entr(posterior).sum(axis=1))
            most += float(weights.sum()) * math.log(posterior.shape[1])
            smallest = min(float((weights @ posterior).min() / weights.sum()), smallest)
        bic = parameters * math.log(count) + deviance
        return cls(
            log_likelihood,
            parameters,
            count,
            bic,
            2 * parameters + deviance,
            parameters * math.log((count + 2) / 24) + deviance,
            bic + parameters,
            bic + 2 * entropy,
            1.0 - entropy / most if most else math.nan,
            smallest if math.isfinite(smallest) else math.nan,
        )

    @classmethod
    def of_rows(
        cls,
        log_prob: Floats,
        weights: Floats,
        parameters: int,
        count: float,
        prior: float,
        posteriors: Iterable[tuple[Floats, Floats]] = (),
    ) -> Criteria:
        """Return the criteria, given log probabilities and weights; warn unless it is maximum likelihood."""
        if prior > NEGLIGIBLE:
            notice(
                f"bic and aic compare fits of maximum likelihood, and this one has pseudo-counts ({prior:g}), "
                f"which lower its likelihood; fit with pseudo_counts={MAXIMUM_LIKELIHOOD:g} (or 0) to compare",
                UserWarning,
            )
        # An impossible row of weight 0 is no row.
        used = weights > 0
        return cls.of(float(weights[used] @ log_prob[used]), parameters, count, posteriors)


def entropy_r2(posterior: Floats, weights: Floats) -> float:
    """Return how certain hidden states are, 1 for certain ones and 0 for mere guesses; NaN for one state."""
    return Criteria.of(0.0, 0, 1.0, [(posterior, weights)]).entropy_r2
