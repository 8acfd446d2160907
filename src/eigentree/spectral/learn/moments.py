"""Where moments come from: a source that knows the population, or counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eigentree.counting.joint_table import JointTable
from eigentree.errors import DataError, EigentreeError, quoted
from eigentree.spectral.learn.bonds import PairMoment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.counting.counts import Counts, MomentSource
    from eigentree.counting.joint_table import ColumnFeatures
    from eigentree.graphs.graph import LatentGraph

__all__ = ["CountedTables", "ExactTables", "Tables", "joint_of"]

UNEVEN = 1e-6
"""By how much the sum of a joint distribution may differ from 1."""

ROUNDING = 1e-12
"""How far below 0 rounding may put a probability."""


def joint_of(source: MomentSource, names: list[str]) -> Floats:
    """Return a joint table as a source gives it, once it is an array of numbers; raise `DataError` else."""
    if not callable(getattr(source, "joint", None)) or isinstance(source, type):
        raise DataError(
            f"moments come from a LatentNetwork, Counts or anything with joint(names), not {quoted(source)}"
        )
    try:
        return np.asarray(source.joint(names), np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, EigentreeError):
            raise
        raise DataError(f"joint({names}) of the moments is no array of numbers: {error}") from None


@dataclass(frozen=True, eq=False)
class ExactTables:
    """The tables of a source that knows the population: no noise, infinitely many rows."""

    source: MomentSource
    graph: LatentGraph
    rows: float = math.inf
    share: float = 0.0

    def probability(self, columns: tuple[int, ...]) -> JointTable:
        """Return the joint distribution of some columns, as the source gives it."""
        names = [self.graph.observed[column] for column in columns]
        shape = tuple(self.graph.states[name] for name in names)
        array = joint_of(self.source, names)
        if array.shape != shape:
            raise DataError(f"joint({names}) of the moments has the shape {array.shape}, but {shape} is expected")
        total = float(array.sum())
        # Also where a cell is missing or infinite, which no comparison is true of.
        if not abs(total - 1) < UNEVEN:
            raise DataError(f"joint({names}) of the moments adds up to {total:.6g}; it must be a distribution")
        if array.min() < -ROUNDING:
            raise DataError(
                f"joint({names}) of the moments holds {array.min():.3g}; probabilities are not negative"
            )
        return JointTable.from_dense(columns, array)

    def expectation(self, parts: Sequence[tuple[tuple[int, ...], Floats]]) -> Floats:
        """Return E[product of features], one axis per part."""
        return self.probability(tuple(column for group, _ in parts for column in group)).expectation(parts)

    def moments(self, groups: Sequence[tuple[int, ...]], features: ColumnFeatures) -> Floats:
        """Return E[product of the columns' features] of groups of the same shape, (groups, features of each…)."""
        return np.array([self.expectation([((c,), features[c]) for c in group]) for group in groups])

    def stacked(self, groups: Sequence[tuple[int, ...]]) -> Floats:
        """Return the distributions of groups of the same shape, shape (groups, cells)."""
        return np.array([self.probability(group).values for group in groups])

    def marginal(self, column: int) -> Floats:
        """Return the distribution of one column."""
        return np.asarray(self.probability((column,)).values)


class CountedTables:
    """Relative frequencies, with some pseudo-rows spread uniformly over all configurations.

    The pseudo-rows are one distribution over all columns, so all tables still agree with each other, and a symbol
    that was never seen gets a small probability. In a group that no row has in full, columns count as independent.
    `share` is how much of every table comes from the pseudo-rows.
    """

    def __init__(self, counts: Counts, pseudo_rows: float) -> None:
        self.counts, self.pseudo_rows, self.rows = counts, pseudo_rows, counts.rows
        self.share = pseudo_rows / (self.rows + pseudo_rows) if pseudo_rows else 0.0

    def expectation(self, parts: Sequence[tuple[tuple[int, ...], Floats]]) -> Floats:
        """Return E[product of features], one axis per part, pseudo-rows included."""
        table = self.counts.find(tuple(column for group, _ in parts for column in group))
        if table.total > 0:
            result = table.expectation(parts) / table.total
        else:
            result = _outer([self._product(group) @ matrix for group, matrix in parts])
        uniform = _outer([matrix.mean(axis=0) for _, matrix in parts])
        return np.asarray((1 - self.share) * result + self.share * uniform)

    def _product(self, columns: tuple[int, ...]) -> Floats:
        """Return the product of the smoothed marginals of some columns, flat."""
        return _outer([self.counts.smoothed(column) for column in columns]).ravel()

    def moments(self, groups: Sequence[tuple[int, ...]], features: ColumnFeatures) -> Floats:
        """Return E[product of the columns' features] of groups of the same shape, (groups, features of each…)."""
        sums, totals = self.counts.featured(groups, features)
        shape = [-1] + [1] * (sums.ndim - 1)
        for k in map(int, np.flatnonzero(~(totals > 0))):
            sums[k] = _outer([self.counts.smoothed(column) @ features[column] for column in groups[k]])
            totals[k] = 1.0
        sums *= ((1 - self.share) / totals).reshape(shape)
        uniform = np.full(len(groups), self.share)
        for axis, columns in enumerate(np.transpose(groups)):
            means = features.means[columns, : features.widths[columns[0]]]
            uniform = uniform[..., None] * means.reshape(len(groups), *[1] * axis, -1)
        return np.asarray(sums + uniform)

    def stacked(self, groups: Sequence[tuple[int, ...]]) -> Floats:
        """Return the distributions of groups of the same shape, pseudo-rows included, shape (groups, cells)."""
        counted = self.counts.stacked(groups)
        totals = counted.sum(axis=1, keepdims=True)
        for k in map(int, np.flatnonzero(~(totals[:, 0] > 0))):
            counted[k], totals[k] = self._product(groups[k]), 1.0
        counted *= (1 - self.share) / totals
        counted += self.share / counted.shape[1]
        return counted

    def marginal(self, column: int) -> Floats:
        """Return the distribution of one column, pseudo-rows included."""
        counted = self.counts.singles[column]
        counted = counted + self.pseudo_rows / len(counted)
        total = counted.sum()
        return np.asarray(counted / total if total > 0 else np.full(len(counted), 1 / len(counted)))

    def sparse_pair(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> PairMoment:
        """Return the joint distribution of two groups as a matrix, without the cells that no row has."""
        table = self.counts.find(inside + outside)
        counted = _sparse(table, len(inside))
        factors = [[np.full(size, 1.0) for size in counted.shape]]
        factors[0][0] *= self.share / math.prod(counted.shape)
        if table.total > 0:
            counted = counted * ((1 - self.share) / table.total)
        else:
            factors.append([(1 - self.share) * self._product(inside), self._product(outside)])
        left, right = (np.stack([factor[side] for factor in factors], axis=1) for side in range(2))
        return PairMoment(counted, left, right)

    def narrowed_pair(
        self, inside: tuple[int, ...], outside: tuple[int, ...], maps: Sequence[Floats | None]
    ) -> PairMoment:
        """Return the joint distribution of two groups, their columns mapped to fewer states.

        There is one map for each column of the inside and then of the outside group, shape (states after, states),
        and None for those that stay as they are.
        """
        pair, first = self.sparse_pair(inside, outside), len(inside)
        sizes = [self.counts.columns.states[column] for column in inside + outside]
        return pair.mapped(_joint_map(maps[:first], sizes[:first]), _joint_map(maps[first:], sizes[first:]))


def _joint_map(maps: Sequence[Floats | None], sizes: Sequence[int]) -> Any:
    """Return the map of joint states of several columns, as a sparse matrix."""
    from scipy import sparse

    own = [sparse.eye_array(size) if each is None else each for each, size in zip(maps, sizes, strict=True)]
    return reduce(sparse.kron, own, sparse.eye_array(1)).tocsr()


def _sparse(table: JointTable, inside: int) -> Any:
    """Return a table of two groups as a sparse matrix, given how many columns the first group has."""
    from scipy import sparse

    shape = math.prod(table.shape[:inside]), math.prod(table.shape[inside:])
    if table.keys is None:
        return sparse.csr_array(table.values.reshape(shape).astype(np.float64))
    row, column = np.divmod(table.keys, shape[1])
    return sparse.csr_array((table.values.astype(np.float64), (row, column)), shape=shape)


def _outer(vectors: Sequence[Floats]) -> Floats:
    """Return the outer product of several vectors, one axis each."""
    return reduce(np.multiply.outer, vectors, np.ones(()))


Tables: TypeAlias = ExactTables | CountedTables
