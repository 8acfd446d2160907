"""Joint counts of groups of columns, and the moments that follow from them (section 6)."""

from __future__ import annotations

from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from eigentree.core.counting.group_counting import GroupCounter, weigh_groups
from eigentree.counting.additive import Additive, require_added, total_rows
from eigentree.counting.count_layout import CountLayout
from eigentree.counting.joint_table import JointTable, collected, smoothed
from eigentree.data.streams.encoded_stream import Encoded, any_rows
from eigentree.data.tables.columns import Columns
from eigentree.errors import DataError, quoted
from eigentree.graphs.graph import check_graph
from eigentree.inference.threads import LEAST_ROWS, in_stretches
from eigentree.validation import different_names, one_by_one, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.counting.joint_table import ColumnFeatures
    from eigentree.data.tables.rows import Rows
    from eigentree.graphs.graph import LatentGraph

__all__ = ["Counts", "MomentSource", "count_rows", "weighted_chunks"]

T = TypeVar("T")

MOST_PARTS = 32
"""Parts of a sparse table that are kept apart before they are merged: memory stays in proportion to what occurs."""


class MomentSource(Protocol):
    """Anything that knows joint tables: an exact network, or counts."""

    def joint(self, names: Sequence[str]) -> Any:
        """Return the joint table of some observed variables, axes in the order of the names."""


class Counts(Additive):
    """Additive joint counts of groups of observed variables; immutable.

    `update` and `count` return new counts and leave these as they are.

    Parameters
    ----------
    graph : LatentGraph
    groups : sequence of sequence of str
        The groups to count; tables of their subsets come for free.

    Attributes
    ----------
    columns : Columns
    layout : CountLayout
    dense : array
        The tables that are kept as arrays, end to end.
    sparse : dict of int to JointTable
        The others, by the number of their group.
    rows : float
        How many rows were counted, or the sum of their weights.

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
    dense: NDArray[Any]
    sparse: dict[int, JointTable]
    rows: float

    def __init__(self, graph: LatentGraph, groups: Sequence[Sequence[str]]) -> None:
        check_graph(graph)
        wanted: list[tuple[str, ...]] = []
        for group in one_by_one("groups", groups, "groups of names", DataError):
            wanted.append(different_names("a group to count", group, DataError))
            if not wanted[-1]:
                raise DataError("a group to count has each variable once and at least one, not []")
        # Kept on the graph: however often a structure is counted, its groups are laid out once.
        layout = graph.derived(_layout, tuple(wanted))
        self.__dict__.update(vars(Counts.laid_out(Columns.of(graph), layout)))

    @classmethod
    def laid_out(
        cls,
        columns: Columns,
        layout: CountLayout,
        dense: NDArray[Any] | None = None,
        sparse: dict[int, JointTable] | None = None,
        rows: float = 0,
    ) -> Counts:
        """Return counts of the groups of a layout, without any row unless their tables are given."""
        dense = np.zeros(layout.cells, np.int64) if dense is None else dense
        dense.flags.writeable = False
        sparse = layout.empty_sparse() if sparse is None else sparse
        made = object.__new__(cls)
        made.__dict__.update(columns=columns, layout=layout, dense=dense, sparse=sparse, rows=rows)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Counts never change: {name!r} cannot be set")

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each group that is counted."""
        return self.layout.groups

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
        rows, weights = any_rows(X, self.columns, sample_weight)
        return self + count_rows(self.empty().count, rows, weights, len(self.dense))

    def count(self, chunks: Iterator[tuple[Codes, NDArray[Any] | None]]) -> Counts:
        """Return these counts with chunks of (codes, weights or None) added."""
        layout = self.layout
        rows: float = 0
        counter, fractional = GroupCounter(layout.tables), np.zeros(0)
        parts: dict[int, list[tuple[Integers, NDArray[Any]]]] = {g: [] for g in layout.empty_sparse()}
        for codes, weights in chunks:
            if weights is None:
                counter.add(codes.T)
                rows += len(codes)
            elif weights.dtype.kind in "iub":
                weights = weights.astype(np.int64)
                counter.add(codes.T, weights)
                rows += int(weights.sum())
            else:
                weights = weights.astype(np.float64)
                fractional = fractional if len(fractional) else np.zeros(layout.cells)
                weigh_groups(codes.T, weights, layout.tables, fractional)
                rows += float(weights.sum())
            for g, found in parts.items():
                found.append(_occurring(codes, weights, layout.groups[g], layout.shapes[g]))
                if len(found) == MOST_PARTS:
                    found[:] = [_merged(found)]
        whole = np.zeros(layout.cells, np.int64)
        counter.add_to(whole)
        dense = whole + fractional if len(fractional) else whole
        sparse = layout.empty_sparse()
        for g, found in parts.items():
            if found:
                sparse[g] = JointTable(layout.groups[g], layout.shapes[g], *_merged(found))
        added = Counts.laid_out(self.columns, layout, dense, sparse, rows)
        return self + added if self.rows else added

    def _combined(self, other: Counts, sign: int) -> Counts:
        if self.groups != other.groups or self.columns != other.columns:
            raise DataError(_not_the_same(self.columns, other.columns))
        found = Counts.laid_out(
            self.columns,
            self.layout,
            self.dense + other.dense if sign > 0 else self.dense - other.dense,
            {g: table.plus(other.sparse[g], sign) for g, table in self.sparse.items()},
            total_rows(self.rows, other.rows, sign),
        )
        if sign < 0:
            require_added(found.arrays(), self.rows, other.rows)
        return found

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays of counts."""
        return [self.dense, *(table.values for table in self.sparse.values())]

    def find(self, columns: Sequence[int]) -> JointTable:
        """Return the counts of some columns, from the smallest counted group that has them all."""
        if not len(columns):
            raise DataError("name at least one variable, whose counts are wanted")
        g = self.layout.holder(tuple(columns))
        if g < 0:
            names = [self.columns.names[column] for column in columns]
            raise DataError(f"the variables {names} were not counted together; count them as a group first")
        if g in self.sparse:
            return self.sparse[g].marginal(columns)
        table = JointTable(self.groups[g], self.layout.shapes[g], None, self.dense[self.layout.part(g)])
        return table.marginal(columns)

    @cached_property
    def singles(self) -> tuple[Floats, ...]:
        """The counts of each single column."""
        every = range(len(self.columns.names))
        return tuple(np.asarray(self.find((column,)).array(), np.float64) for column in every)

    def smoothed(self, column: int) -> Floats:
        """Return the distribution of one column, 1/2 added to the count of each state."""
        return smoothed(self.singles[column])

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
        for held in self.layout.holders(tuple(groups)):
            held.sum_up(self.dense, features, sums, totals)
            alone.difference_update(held.members)
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
        wanted = different_names("names", names)
        table = self.find([self.columns.position(name) for name in wanted])
        if not table.total > 0:
            raise DataError(f"no row has all of the cells {list(wanted)}, so their joint frequencies are unknown")
        return np.asarray(table.array() / table.total)


def weighted_chunks(
    rows: Rows | Encoded, weights: NDArray[Any] | None, first: int = 0, stop: int | None = None
) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
    """Yield codes and weights (or None) of consecutive rows; those of a stream know their weights."""
    if isinstance(rows, Encoded):
        yield from rows.chunks()
        return
    for start, codes in rows.chunks(first=first, stop=stop):
        yield codes, None if weights is None else weights[start : start + len(codes)]


def count_rows(
    count: Callable[[Iterator[tuple[Codes, NDArray[Any] | None]]], T],
    rows: Rows | Encoded,
    weights: NDArray[Any] | None,
    cells: int,
    threads: int | None = None,
    shared_from: int = LEAST_ROWS,
) -> T:
    """Return what a function counts of rows, which threads share.

    Each thread encodes and counts a stretch of the rows in tables of its own, and whole numbers add up to the same
    in any order. Sums of fractional weights depend on their order: these, and streams, have one thread.

    Parameters
    ----------
    count : callable
        Of chunks of (codes, weights or None); what it returns adds up.
    rows, weights
    cells : int
        Of the tables of one thread: those of all threads have to be added up.
    threads : int, optional
        By default `usable_threads`.
    shared_from : int
        Rows for each thread from which starting it pays.
    """
    if isinstance(rows, Encoded) or (weights is not None and weights.dtype.kind == "f"):
        return count(weighted_chunks(rows, weights))

    def part(start: int, stop: int) -> T:
        return count(weighted_chunks(rows, weights, start, stop))

    return reduce(add, in_stretches(part, rows.count, max(shared_from, cells), threads))


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


def _occurring(
    codes: Codes, weights: NDArray[Any] | None, columns: Sequence[int], shape: Sequence[int]
) -> tuple[Integers, NDArray[Any]]:
    """Return the joint codes of a group that occur in some rows, and how often each does."""
    keys = np.zeros(len(codes), np.int64)
    present = np.ones(len(codes), np.bool_)
    for column, states in zip(columns, shape, strict=True):
        keys = keys * states + codes[:, column]
        present &= codes[:, column] != states
    counted = np.ones(len(codes), np.int64) if weights is None else weights
    return collected(keys[present], counted[present])


def _merged(parts: Sequence[tuple[Integers, NDArray[Any]]]) -> tuple[Integers, NDArray[Any]]:
    return collected(np.concatenate([keys for keys, _ in parts]), np.concatenate([values for _, values in parts]))
