"""Log probabilities that are always finite, where a learned probability is not positive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.engine.passes import upward_pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.counting.counts import Counts, MomentSource
    from eigentree.spectral.fit import SpectralFit
    from eigentree.structures.graph import LatentGraph

__all__ = ["cut_off", "exact_log_marginals", "floored", "log_marginals"]

LEAST_LOG = -700.0
"""The log of a marginal that is zero, so that sums of some stay finite."""

BACK_OFF = (1.0, 10.0, 100.0, math.inf)
"""Where a probability is not positive, the same fit answers with the next of these shrinkages."""

FLOOR = 1e-3
"""What is still not positive becomes this part of the product of the columns' smoothed marginals."""


def log_marginals(counts: Counts) -> tuple[Floats, ...]:
    """Return the log of the smoothed marginal of each column, with a 0 at the end for a missing cell."""
    columns = range(len(counts.columns.names))
    return tuple(np.append(np.log(counts.smoothed(column)), 0.0) for column in columns)


def exact_log_marginals(source: MomentSource, graph: LatentGraph) -> tuple[Floats, ...]:
    """Return the log of each column's distribution, with a 0 at the end for a missing cell."""
    found = []
    for name in graph.observed:
        with np.errstate(divide="ignore"):
            table = np.log(np.asarray(source.joint([name]), np.float64))
        found.append(np.append(np.maximum(table, LEAST_LOG), 0.0))
    return tuple(found)


def floored(
    log_size: Floats,
    sign: NDArray[Any],
    codes: Codes,
    fit: SpectralFit,
    shrinkage: float,
    log_marginals: Sequence[Floats],
) -> tuple[Floats, int]:
    """Return finite log probabilities, and how many were not positive and had to be replaced.

    Noise can leave a learned probability at or below zero. Shrunk further toward independent columns, the same fit
    gives a positive one, which says more about the row than any constant.

    Parameters
    ----------
    log_size, sign : array, shape (rows,)
        Of the fit at this shrinkage.
    codes : array, shape (rows, columns)
    log_marginals : sequence of array, shape (states + 1,)
        Log probability of each state of each column alone; 0 for a missing cell.
    """
    bad = np.flatnonzero(sign <= 0)
    count = len(bad)
    log_prob = log_size.copy() if count else log_size
    for more in BACK_OFF:
        if more > shrinkage and len(bad):
            size, positive = upward_pass(fit.flat(more), np.asfortranarray(codes[bad]))
            log_prob[bad] = size
            bad = bad[positive <= 0]
    if len(bad):
        log_prob[bad] = _small_part(codes[bad], log_marginals)
    return log_prob, count


def cut_off(
    log_size: Floats,
    sign: NDArray[Any],
    codes: Codes,
    log_marginals: Sequence[Floats],
) -> Floats:
    """Return log probabilities in which what is not positive is a small part of the product of the marginals."""
    bad = np.flatnonzero(sign <= 0)
    if not len(bad):
        return log_size
    log_prob = log_size.copy()
    log_prob[bad] = _small_part(codes[bad], log_marginals)
    return log_prob


def _small_part(codes: Codes, log_marginals: Sequence[Floats]) -> Floats:
    """Return the log of a small part of the product of the marginals, for each row."""
    log_prob = np.full(len(codes), math.log(FLOOR))
    for column, table in enumerate(log_marginals):
        log_prob += table[codes[:, column]]
    return log_prob
