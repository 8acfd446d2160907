"""A few features per column, through which alone it speaks of the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers

__all__ = ["ColumnFeatures"]


@dataclass(frozen=True, eq=False)
class ColumnFeatures:
    """A few features of each column, the first of which is the constant 1, as one array.

    Attributes
    ----------
    padded : array, shape (columns, most states, most features)
        Zeros beyond a column's own states and features.
    states, widths : array, shape (columns,)
        How many states and features each column has.
    """

    padded: Floats
    states: Integers
    widths: Integers

    @classmethod
    def stack(cls, matrices: Sequence[Floats]) -> ColumnFeatures:
        """Return the features that are the columns of one matrix (states, features) per column."""
        states, widths = np.array([matrix.shape for matrix in matrices]).T
        padded = np.zeros((len(matrices), states.max(), widths.max()))
        for column, matrix in enumerate(matrices):
            padded[column, : len(matrix), : matrix.shape[1]] = matrix
        return cls(padded, states, widths)

    def __getitem__(self, column: int) -> Floats:
        """Return the features of one column, shape (states, features)."""
        return self.padded[column, : self.states[column], : self.widths[column]]

    @cached_property
    def means(self) -> Floats:
        """What each feature is on average over its column's states, shape (columns, most features)."""
        return np.asarray(self.padded.sum(axis=1) / self.states[:, None])
