"""How often each row counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, quoted
from eigentree.messages import notice

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats

__all__ = [
    "LIGHT",
    "MOST_WEIGHT",
    "NOT_A_NAME",
    "NO_WEIGHT",
    "check_total",
    "checked_weights",
    "positive_weights",
    "warn_of_few",
    "warn_of_little",
]

MOST_WEIGHT = 2.0**53
"""Largest sum of weights; beyond it doubles do not hold all whole numbers."""

LEAST_WEIGHT = 1e-100
"""Smallest weight of a row that counts at all: products of smaller ones are no longer exact."""

FEW = 0.1
"""Weights that add up to less than this share of the number of rows that have some are likely an error."""

LIGHT = "sample_weight adds up to"
"""How the warning begins that weights are such."""


NO_WEIGHT = "the weight of all rows is zero; there is nothing to learn from or to judge by"
"""What is said where no row counts."""


NOT_A_NAME = "; only rows that come as a stream name a column, so give that column itself"
"""What is said where a name stands for weights or labels."""


def checked_weights(sample_weight: ArrayLike | None, rows: int) -> NDArray[Any] | None:
    """Return the weights as an array, or None; raise `DataError` where they do not fit the rows."""
    if sample_weight is None:
        return None
    weights = _as_array(sample_weight, rows)
    if weights.shape != (rows,) or weights.dtype.kind not in "iufb":
        raise DataError(
            f"sample_weight needs one number per row, shape ({rows},), not {weights.shape} {weights.dtype}"
        )
    if np.ma.is_masked(sample_weight) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("sample_weight holds negative, infinite or missing numbers")
    with np.errstate(over="ignore"):
        total = weights.sum(dtype=np.float64)
    check_total(total)
    if ((weights > 0) & (weights < LEAST_WEIGHT)).any():
        raise DataError(
            f"sample_weight holds {weights[weights > 0].min():.3g}, too small to count; multiply it by a constant, "
            f"or give 0 for rows that are to be left out"
        )
    return weights


def check_total(total: float) -> None:
    """Raise `DataError` where weights add up to more than can be counted."""
    if total > MOST_WEIGHT:
        raise DataError(f"sample_weight adds up to {total:.3g}, too much to count by ones; divide it by a constant")


def positive_weights(sample_weight: ArrayLike | None, rows: int) -> Floats:
    """Return one weight per row, 1 by default; raise `DataError` where none is positive."""
    weights = checked_weights(sample_weight, rows)
    if weights is None:
        return np.ones(rows)
    if not weights.any():
        raise DataError(NO_WEIGHT)
    return weights.astype(np.float64)


def warn_of_few(weights: NDArray[Any] | None) -> None:
    """Warn where rows that are learned from have weights that add up to far less than their number."""
    if weights is not None:
        warn_of_little(weights.sum(dtype=np.float64), int(np.count_nonzero(weights)))


def warn_of_little(total: float, rows: int) -> None:
    """Warn where the weights of so many rows add up to far less than their number."""
    if total < FEW * rows:
        notice(
            f"{LIGHT} {total:.3g} for {rows} rows: the model would believe that it saw hardly any row; multiply "
            f"the weights so that they add up to the number of rows that they stand for"
        )


def _as_array(sample_weight: Any, rows: int) -> NDArray[Any]:
    # What is of another length, or of none, is not looked at: numpy would put all that it yields into an array.
    try:
        kind = type(sample_weight)
        if (hasattr(kind, "__array__") and not hasattr(kind, "__len__")) or len(sample_weight) == rows:
            return np.asarray(sample_weight)
        given = f"{len(sample_weight)} of them"
    except Exception:  # what an object's own __len__ and __array__ raise
        given = quoted(sample_weight)
    if isinstance(sample_weight, str):
        given = f"{quoted(sample_weight)}{NOT_A_NAME}"
    raise DataError(f"sample_weight needs one number per row, shape ({rows},), not {given}")
