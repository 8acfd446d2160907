"""Hidden chains side by side as one chain: its states are those of all of them together, its tables products."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats

__all__ = ["apart", "together"]


def together(tables: Sequence[Floats]) -> Floats:
    """Return the table of all chains together, given one of each chain; the last chain's state moves fastest.

    The axes of all tables are the same steps.

    Examples
    --------
    >>> together([np.array([0.5, 0.5]), np.array([0.25, 0.75])]).tolist()
    [0.125, 0.375, 0.125, 0.375]
    """
    return reduce(_product, tables)


def _product(first: Floats, second: Floats) -> Floats:
    axes = np.arange(2 * first.ndim).reshape(2, -1).T.ravel()
    both: Floats = np.multiply.outer(first, second).transpose(axes)
    return both.reshape([a * b for a, b in zip(first.shape, second.shape, strict=True)])


def apart(table: Floats, sizes: Sequence[int]) -> list[Floats]:
    """Return, for each chain, what a table of all chains together adds up to over the states of the others.

    Examples
    --------
    >>> [own.tolist() for own in apart(np.array([1.0, 2.0, 3.0, 4.0]), (2, 2))]
    [[3.0, 7.0], [4.0, 6.0]]
    """
    if len(sizes) == 1:
        return [table]
    found = []
    for place, size in enumerate(sizes):
        split = (math.prod(sizes[:place]), size, math.prod(sizes[place + 1 :]))
        others = tuple(3 * axis + side for axis in range(table.ndim) for side in (0, 2))
        found.append(table.reshape(split * table.ndim).sum(axis=others))
    return found
