"""Joint counts of groups of columns, and the moments that are read off them (section 6).

Counts add and subtract, and unweighted ones are whole numbers: however rows are ordered, split into batches or
spread over machines, the counts are the same to the last bit, and so is every model that is learned from them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from eigentree.counting.accumulators import Accumulator, Tally
from eigentree.counting.count_layout import CountLayout
from eigentree.counting.joint_table import JointTable
from eigentree.data.streams.encoded_stream import Encoded, any_rows
from eigentree.data.tables.columns import Columns
from eigentree.errors import DataError, quoted
from eigentree.graphs.graph import check_graph
from eigentree.validation import different_names, one_by_one, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.counting.column_features import ColumnFeatures
    from eigentree.data.tables.rows import Rows
    from eigentree.graphs.graph import LatentGraph

__all__ = ["ROUNDING", "Counts", "MomentSource", "weighted_chunks"]

ROUNDING = 1e-6
"""How far below 0 the difference of fractional weights may end up."""


class MomentSource(Protocol):
    """Anything that knows joint tables: an exact network, or counts."""

    def joint(self, names: Sequence[str]) -> Any:
        """Return the joint table of some observed variables, axes in the order of the names."""


class Counts:
    """Additive joint counts of groups of observed variables; never changed once made.

    `update` and `count` return new counts and leave these as they are.

    Parameters
    ----------
    graph : LatentGraph
    groups : sequence of sequence of str
        The groups to count. Tables of their subsets come for free.

    Examples
    --------
    >>> from eigentree.graphs.zoo import mixture
    >>> counts = Counts(mixture(3, 2, 2), [("x0", "x1"), ("x2",)]).update([[0, 1, 1], [0, 1, 0], [1, -1, 0]])
    >>> counts.table(["x0", "x1"]).tolist()
    [[0, 2], [0, 0]]
    >>> counts.rows
    3
    """

    columns: Columns
    layout: CountLayout
    tally: Tally

    def __init__(self, graph: LatentGraph, groups: Sequence[Sequence[str]]) -> None:
        check_graph(graph)
        wanted: list[tuple[str, ...]] = []
        for group in one_by_one("groups", groups, "groups of names", DataError):
            wanted.append(different_names("a group to count", group, DataError))
            if not wanted[-1]:
                raise DataError("a group to count has each variable once and at least one, not []")
        # Kept on the graph: however often a structure is counted, its groups are laid out once.
        self._fill(Columns.of(graph), graph.derived(_layout, tuple(wanted)), None)

    @classmethod
    def laid_out(cls, columns: Columns, layout: CountLayout, tally: Tally | None = None) -> Counts:
        """Return counts of the groups of a layout, without any row unless a tally is given."""
        made = object.__new__(cls)
        made._fill(columns, layout, tally)
        return made

    def _fill(self, columns: Columns, layout: CountLayout, tally: Tally | None) -> None:
        nothing = np.zeros(int(layout.table_start[-1]), np.int64)
        self.__dict__.update(
            columns=columns, layout=layout, tally=tally or Tally(nothing, layout.empty_sparse(), None, 0)
        )
        self.tally.dense.flags.writeable = False

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Counts never change: {name!r} cannot be set")

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each group that is counted."""
        return self.layout.groups

    @property
    def rows(self) -> float:
        """How many rows were counted, or the sum of their weights."""
        return self.tally.rows

    @property
    def holds_negative(self) -> bool:
        """Whether a cell is negative, as after subtracting what was never added; rounding of weights is not."""
        tally = self.tally
        tables = [tally.dense, *(table.values for table in tally.sparse.values())]
        tables += [] if tally.residual is None else [tally.residual]
        return self.rows < 0 or any(bool((table < -ROUNDING).any()) for table in tables)

    def empty(self) -> Counts:
        """Return counts of the same groups without any row."""
        return Counts.laid_out(self.columns, self.layout)

    @our_arithmetic
    def update(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Counts:
        """Return these counts with more rows added.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            A row counts for a group where none of the group's cells is missing.
        sample_weight : array-like of shape (rows,), optional
            How often each row counts; may be fractional.
        """
        return self.count(weighted_chunks(*any_rows(X, self.columns, sample_weight)))

    def count(self, chunks: Iterator[tuple[Codes, NDArray[Any] | None]]) -> Counts:
        """Return these counts with chunks of (codes, weights or None) added."""
        total = Accumulator(self.layout)
        for codes, weights in chunks:
            total.add(codes, weights)
        added = Counts.laid_out(self.columns, self.layout, total.tally())
        return self + added if self.rows else added

    def __add__(self, other: Counts) -> Counts:
        return self._combined(other, 1)

    def __radd__(self, other: object) -> Counts:
        raise DataError(f"Counts add up with Counts, not with {quoted(other)}")

    def __sub__(self, other: Counts) -> Counts:
        return self._combined(other, -1)

    @our_arithmetic
    def _combined(self, other: Counts, sign: int) -> Counts:
        if not isinstance(other, Counts):
            raise DataError(f"Counts add up with Counts, not with {quoted(other)}")
        if self.groups != other.groups or self.columns != other.columns:
            raise DataError(_not_the_same(self.columns, other.columns))
        return Counts.laid_out(self.columns, self.layout, self.tally.plus(other.tally, sign))

    def _table(self, g: int) -> JointTable:
        """Return the table of one counted group."""
        if g in self.tally.sparse:
            return self.tally.sparse[g]
        return JointTable(self.groups[g], self.layout.shapes[g], None, self.tally.dense[self.layout.part(g)])

    def find(self, columns: Sequence[int]) -> JointTable:
        """Return the counts of some columns, from the smallest counted group that holds them all."""
        if not len(columns):
            raise DataError("name at least one variable; counts of none were asked for")
        covered = self.layout.covered.get(tuple(sorted(columns)))
        if self.tally.residual is None or covered is None:
            return self._table(self._holder(tuple(columns))).marginal(columns)
        # The residual is what its own holder lacks, which need not be the smallest.
        table = self._table(self._holder(covered.holder)).marginal(columns)
        rest = JointTable(tuple(sorted(columns)), covered.shape, None, self.tally.residual[covered.part])
        return table.plus(rest.marginal(columns), 1)

    def _holder(self, columns: tuple[int, ...]) -> int:
        g = self.layout.holder(columns)
        if g < 0:
            names = [self.columns.names[column] for column in columns]
            raise DataError(f"the variables {names} were not counted together; count them as a group first")
        return g

    @cached_property
    def singles(self) -> tuple[Floats, ...]:
        """The counts of each column alone."""
        states = self.columns.states
        found: dict[int, Floats] = {}
        for size in set(states):
            alike = [column for column, count in enumerate(states) if count == size]
            found.update(zip(alike, self.stacked([(column,) for column in alike]), strict=True))
        return tuple(found[column] for column in range(len(states)))

    def smoothed(self, column: int) -> Floats:
        """Return the distribution of one column, 1/2 added to the count of each state."""
        counted = self.singles[column]
        return np.asarray((counted + 0.5) / (counted.sum() + 0.5 * len(counted)))

    def stacked(self, groups: Sequence[tuple[int, ...]]) -> Floats:
        """Return the counts of several groups of columns of the same shape, one row each, flat."""
        return self.featured(groups, None)[0].reshape(len(groups), -1)

    def featured(self, groups: Sequence[tuple[int, ...]], features: ColumnFeatures | None) -> tuple[Floats, Floats]:
        """Return sums over rows of the product of the columns' features, and how many rows each group has.

        Parameters
        ----------
        groups : sequence of tuple of int
            Columns, those at the same place having equally many states and features.
        features : ColumnFeatures, optional
            By default one per state, which makes the sums counts.

        Returns
        -------
        sums : array, shape (groups, features of each column…)
        totals : array, shape (groups,)
        """
        states = [self.columns.states[column] for column in groups[0]]
        shape = states if features is None else features.widths[list(groups[0])]
        sums, totals = np.zeros((len(groups), *shape)), np.zeros(len(groups))
        alone = set(range(len(groups)))
        for held in self.layout.holders(tuple(groups), self.tally.residual is not None):
            held.sum_up(self.tally.dense, features, sums, totals)
            alone.difference_update(held.members)
        if self.tally.residual is not None:
            for held in self.layout.residual_holders(tuple(groups)):
                held.sum_up(self.tally.residual, features, sums, totals)
        for k in alone:
            table = self.find(groups[k])
            totals[k] = table.total
            if features is None:
                sums[k] = table.array()
            else:
                sums[k] = table.expectation([((column,), features[column]) for column in groups[k]])
        return sums, totals

    def table(self, names: Sequence[str]) -> NDArray[Any]:
        """Return the counts of some variables that were counted together, axes in the order of the names."""
        return self.find([self.columns.position(name) for name in different_names("names", names)]).array()

    @our_arithmetic
    def joint(self, names: Sequence[str]) -> Floats:
        """Return the relative frequencies of some variables that were counted together."""
        asked = different_names("names", names)
        table = self.find([self.columns.position(name) for name in asked])
        if not table.total > 0:
            raise DataError(f"no row has all of the cells {list(asked)}, so their joint frequencies are unknown")
        return np.asarray(table.array() / table.total)


def weighted_chunks(
    rows: Rows | Encoded, weights: NDArray[Any] | None
) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
    """Yield codes and weights (or None) of consecutive rows; those of a stream know their weights."""
    if isinstance(rows, Encoded):
        yield from rows.chunks()
        return
    for start, codes in rows.chunks():
        yield codes, None if weights is None else weights[start : start + len(codes)]


def _layout(graph: LatentGraph, groups: tuple[tuple[str, ...], ...]) -> CountLayout:
    numbered = [tuple(sorted(graph.column(name) for name in group)) for group in groups]
    return CountLayout.of(numbered, Columns.of(graph).states)


def _not_the_same(one: Columns, other: Columns) -> str:
    """Return why counts of some columns and of others do not add up."""
    if one.names == other.names:
        for name in one.names:
            here, there = quoted(one.labels(name)), quoted(other.labels(name))
            if one.labels(name) != other.labels(name):
                return (
                    f"counts add up only when their columns have the same labels, but {name!r} has {here} in one "
                    f"and {there} in the other; give all of them as categories="
                )
    return "counts add up only when they count the same groups of the same variables"
