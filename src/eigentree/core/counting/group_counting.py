"""Joint counts of groups of columns and of pairs, and the moments that are sums over their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers

__all__ = ["GroupCounter", "GroupTables", "add_common_bits", "count_pairs", "feature_sums", "weigh_groups"]


class GroupTables(NamedTuple):
    """Groups of columns whose tables lie end to end; none has more than 65,536 cells.

    `columns` and `states` are those of all groups, end to end; `group_start` and `table_start` are where those of
    each group and its table begin, and where the last end.
    """

    group_start: Integers
    columns: Integers
    states: Integers
    table_start: Integers


class GroupCounter:
    """Joint counts of groups of columns, to which rows are added.

    Groups that have columns in common are counted as one table where rows are many, and marginalised in the end.
    """

    def __init__(self, groups: GroupTables) -> None:
        self._counter = _native.GroupCounter(*groups)

    def add(self, codes: Codes, weights: Integers | None = None) -> None:
        """Count rows, as often as whole weights say if there are any; codes are (columns, rows).

        A row does not count for a group of which it misses a cell.
        """
        if weights is None:
            self._counter.add(np.ascontiguousarray(codes))
        else:
            self._counter.add_weighted(np.ascontiguousarray(codes), weights)

    def add_to(self, tables: Integers) -> None:
        """Add all counts to tables that lie end to end."""
        self._counter.add_to(tables)


def weigh_groups(codes: Codes, weights: Floats, groups: GroupTables, tables: Floats) -> None:
    """Add weights that are not whole to the tables of each group, row by row; codes are (columns, rows)."""
    _native.weigh_groups(np.ascontiguousarray(codes), weights, *groups, tables)


def feature_sums(
    dense: NDArray[Any],
    start: Integers,
    states: Integers,
    widths: Integers,
    whole: Booleans,
    matrices: Floats,
    sums: Floats,
) -> None:
    """Write the sum over the cells of each table of count times product of features.

    `dense` (cells,): tables of the same shape, each from its `start` on; `states`, `widths` (axes,): states and
    features of each axis; `whole` (axes,): axes whose features are their states; `matrices` (tables, axes, at least
    states, at least widths): the features of all other axes; `sums` (tables, product of widths).
    """
    _native.feature_sums(dense, start, states, widths, whole, matrices, sums)


def count_pairs(
    codes: Codes,
    weights: NDArray[Any],
    wide: Booleans,
    states: Integers,
    start: Integers,
    kept: Integers,
    matrix: NDArray[Any],
) -> None:
    """Add the weights of the rows to the table of each pair of columns of which at least one is wide.

    Parameters
    ----------
    codes : (columns, rows)
    weights : (rows,)
    wide : (columns,)
        Whether to count the pairs of a column here.
    states, start, kept : (columns,)
        How many states each column has, where they begin in `matrix`, and how many of them are counted there.
    matrix : (counted states, counted states)
        Of a pair, the first column is the one that stands first; of a column with itself, the diagonal is counted.
    """
    _native.count_pairs(np.ascontiguousarray(codes), weights, wide, states, start, kept, matrix)


def add_common_bits(planes: NDArray[np.uint64], places: Integers, matrix: NDArray[Any]) -> None:
    """Add to the upper triangle of a matrix how many bits each plane has in common with each that follows.

    Rows as bits, 64 to a word: how many have two states at once is counted without reading any single row.

    `planes` (planes, words): of 64 bits each; `places` (planes,): where they stand in the matrix; they rise;
    `matrix` (at least planes, at least planes): the diagonal gets how many bits a plane has at all.
    """
    _native.add_common_bits(planes, places, matrix)
