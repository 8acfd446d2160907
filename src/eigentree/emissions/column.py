"""What families share: checked cells, and mean and variance of columns with missing cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats

__all__ = ["mean_and_variance"]


def mean_and_variance(cells: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the variance of the known cells of each column; the variance is never 0."""
    weight = np.where(np.isnan(cells), 0.0, weights[:, None])
    total = weight.sum(axis=0)
    some = np.where(total > 0, total, 1.0)
    mean = (weight * np.nan_to_num(cells)).sum(axis=0) / some
    variance = (weight * np.nan_to_num(cells - mean) ** 2).sum(axis=0) / some
    # A constant column has no variance but the mean's rounding: its resolution stands for it, or 1 without cells.
    resolution = np.where(total > 0, np.sqrt(np.spacing(np.maximum(np.abs(mean), 1.0))), 1.0)
    rounding = np.square(8 * np.spacing(np.abs(mean)))
    return mean, np.where(variance > rounding, variance, resolution)
