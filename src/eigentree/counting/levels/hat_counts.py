"""Counts of groups of cells some of which are numbers: moments of hat functions, as tables of fractions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.counts import Counts
from eigentree.counting.joint_table import JointTable, collected
from eigentree.counting.levels.hats import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.counting.levels.hats import HatScale

__all__ = ["count_hats"]

MOST_PRODUCTS = 2**22
"""Of hats that are held in memory at once."""


def count_hats(
    counts: Counts, chunks: Iterator[tuple[Codes, NDArray[Any] | None]], scales: Sequence[HatScale | None]
) -> Counts:
    """Return counts with chunks of (codes, weights or None) added.

    Codes of columns with a scale are levels, and are counted as so many hats as the column has states.
    """
    layout = counts.layout
    every = list(zip(scales, counts.columns.states, strict=True))
    missing = [states if scale is None else LEVELS for scale, states in every]
    shown = {id(scale): _spans(scale.hats(states)) for scale, states in every if scale is not None}
    dense, sparse = np.zeros(layout.cells), layout.empty_sparse()
    rows: float = 0
    for codes, weights in chunks:
        rows += len(codes) if weights is None else weights.sum().item()
        known = np.stack([codes[:, c] != own for c, own in enumerate(missing)], axis=1)
        for g, (group, shape) in enumerate(zip(layout.groups, layout.shapes, strict=True)):
            chosen = np.asarray(known[:, list(group)].all(axis=1))
            often = np.ones(int(chosen.sum())) if weights is None else weights[chosen].astype(np.float64)
            hats = [shown.get(id(scales[column])) for column in group]
            for keys, values in _hats([codes[chosen, column] for column in group], often, hats, shape):
                if g in sparse:
                    sparse[g] = sparse[g].plus(JointTable(group, shape, *collected(keys, values)), 1)
                else:
                    dense[layout.part(g)] += np.bincount(keys, values, math.prod(shape))
    added = Counts.laid_out(counts.columns, layout, dense, sparse, rows)
    return counts + added if counts.rows else added


def _hats(
    cells: Sequence[Codes], often: Floats, hats: Sequence[tuple[Integers, Floats] | None], shape: Sequence[int]
) -> Iterator[tuple[Integers, Floats]]:
    """Yield all joint hats of a group that are not 0 at some rows, and the products of their values."""
    widths = [len(each[1]) for each in hats if each is not None]
    if max(widths, default=2) > 2:
        # Numbers that stand for many are few.
        cells, often = _distinct(cells, often)
    step = max(1, MOST_PRODUCTS // math.prod(widths))
    for start in range(0, len(often), step):
        part = slice(start, start + step)
        values = often[None, part]
        keys = np.zeros(values.shape, np.int64)
        for own, each, states in zip(cells, hats, shape, strict=True):
            if each is None:
                keys = keys * states + own[part]
            else:
                first, shares = each[0][own[part]], each[1][:, own[part]]
                keys = np.concatenate([keys * states + first + k for k in range(len(shares))])
                values = np.concatenate([values * share for share in shares])
        yield keys.ravel(), values.ravel()


def _spans(hats: Floats) -> tuple[Integers, Floats]:
    """Return, for each level, the first of its hats that is not 0, and the values of that and of those after it."""
    shown, most = hats > 0, hats.shape[1]
    first = shown.argmax(axis=1)
    width = int((most - shown[:, ::-1].argmax(axis=1) - first).max())
    first = np.minimum(first, most - width)
    return first, np.ascontiguousarray(np.take_along_axis(hats, first[:, None] + np.arange(width), axis=1).T)


def _distinct(cells: Sequence[Codes], often: Floats) -> tuple[list[Codes], Floats]:
    """Return the different rows of some columns, and how often each occurs."""
    place = np.zeros(len(often), np.int64)
    for own in cells:
        _, place = np.unique(place * (int(own.max(initial=0)) + 1) + own, return_inverse=True)
    _, first, place = np.unique(place, return_index=True, return_inverse=True)
    return [own[first] for own in cells], np.asarray(np.bincount(place, often, len(first)), np.float64)
