"""How often each row counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats

__all__ = ["MOST_WEIGHT", "checked_weights", "positive_weights"]

MOST_WEIGHT = 2.0**53
"""Largest sum of weights; beyond it doubles no longer tell whole numbers apart."""


def checked_weights(sample_weight: ArrayLike | None, rows: int) -> NDArray[Any] | None:
    """Return the weights as an array, or None; raise `DataError` where they do not fit the rows."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight)
    except ValueError:
        weights = np.empty(0, object)
    if weights.shape != (rows,) or weights.dtype.kind not in "iufb":
        raise DataError(
            f"sample_weight needs one number per row, shape ({rows},), not {weights.shape} {weights.dtype}"
        )
    if np.ma.is_masked(sample_weight) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("sample_weight holds negative, infinite or missing numbers")
    total = weights.sum(dtype=np.float64)
    if total > MOST_WEIGHT:
        raise DataError(f"sample_weight adds up to {total:.3g}, too much to count by ones; divide it by a constant")
    return weights


def positive_weights(sample_weight: ArrayLike | None, rows: int) -> Floats:
    """Return one weight per row, 1 by default; raise `DataError` where none is positive."""
    weights = checked_weights(sample_weight, rows)
    if weights is None:
        return np.ones(rows)
    if not weights.any():
        raise DataError("the weight of all rows is zero; there is nothing to count")
    return weights.astype(np.float64)
