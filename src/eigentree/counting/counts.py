"""Joint counts of groups of columns, and the moments that are read off them (section 6).

Counts add and subtract, and unweighted ones are whole numbers: however rows are ordered, split into batches or
spread over machines, the counts are the same to the last bit, and so is every model that is learned from them.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numba import get_num_threads

from eigentree.data.rows import Rows, checked_weights
from eigentree.errors import DataError
from eigentree.kernels import codes as codes_kernels
from eigentree.kernels import counting as counting_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.structures.graph import LatentGraph

    Floats = NDArray[np.float64]

DENSE_CELLS = 2**16
"""Largest table that is kept as an array; a larger one is kept as the codes that occur, never more than rows."""

BLOCK_CELLS = 2**20
"""Numbers that are worked on at a time in a table that is too large for an array."""

COUNT_CHUNK = 16_384

SHARED_FROM = 300_000
"""Rows times groups from which starting threads pays."""


class MomentSource(Protocol):
    """Anything that knows joint tables: an exact network, or counts."""

    def joint(self, names: Sequence[str]) -> Any:
        """Return the joint table of some observed variables, axes in the order of the names."""


@dataclass(frozen=True, eq=False)
class JointTable:
    """The joint counts (or probabilities) of a group of columns.

    Attributes
    ----------
    columns : tuple of int
    shape : tuple of int
        Numbers of states of the columns.
    keys : array of int64 or None
        Sorted joint codes that occur, for a large table; None for a dense one.
    values : array
        All cells of a dense table in row-major order, or the counts of the `keys`.
    """

    columns: tuple[int, ...]
    shape: tuple[int, ...]
    keys: NDArray[np.int64] | None
    values: NDArray[Any]

    @classmethod
    def from_dense(cls, columns: Sequence[int], array: NDArray[Any]) -> JointTable:
        """Return the table of an array with one axis a column."""
        return cls(tuple(columns), array.shape, None, array.ravel())

    @cached_property
    def total(self) -> float:
        """The sum of all cells: how many rows had all cells of the group."""
        return float(self.values.sum())

    def plus(self, other: JointTable, sign: int) -> JointTable:
        """Return the sum (sign 1) or the difference (sign -1) of two tables of the same columns."""
        if self.keys is None or other.keys is None:
            return JointTable(self.columns, self.shape, None, self.values + sign * other.values)
        keys = np.concatenate([self.keys, other.keys])
        values = np.concatenate([self.values, sign * other.values])
        return JointTable(self.columns, self.shape, *_collected(keys, values))

    def marginal(self, columns: Sequence[int]) -> JointTable:
        """Return the table of some of the columns, in the order given."""
        wanted = tuple(columns)
        if wanted == self.columns:
            return self
        shape = tuple(self.shape[self.columns.index(column)] for column in wanted)
        if self.keys is None:
            array = self.values.reshape(self.shape)
            summed = array.sum(axis=tuple(k for k, column in enumerate(self.columns) if column not in wanted))
            kept = [column for column in self.columns if column in wanted]
            return JointTable.from_dense(wanted, np.transpose(summed, [kept.index(column) for column in wanted]))
        keys = self.codes(wanted)
        if math.prod(shape) <= DENSE_CELLS:
            counts = np.zeros(math.prod(shape), self.values.dtype)
            np.add.at(counts, keys, self.values)
            return JointTable(wanted, shape, None, counts)
        return JointTable(wanted, shape, *_collected(keys, self.values))

    def codes(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """Return the joint code over some columns of every cell that is kept."""
        keys = np.arange(len(self.values)) if self.keys is None else self.keys
        digits = dict(zip(self.columns, np.unravel_index(keys, self.shape), strict=True))
        codes = np.zeros(len(keys), np.int64)
        for column in columns:
            codes = codes * self.shape[self.columns.index(column)] + digits[column]
        return codes

    def array(self) -> NDArray[Any]:
        """Return the table with one axis a column, in the order of the columns."""
        if self.keys is None:
            return self.values.reshape(self.shape)
        full = np.zeros(math.prod(self.shape), self.values.dtype)
        full[self.keys] = self.values
        return full.reshape(self.shape)

    def expectation(self, parts: Sequence[tuple[Sequence[int], Floats]]) -> Floats:
        """Return the sum over cells of count · product of features, shape (features of each part…).

        Parameters
        ----------
        parts : sequence of (columns, matrix)
            Disjoint groups that together are all columns of the table, each with the features of its joint codes,
            shape (joint states, features).
        """
        if self.keys is None:
            order = [self.columns.index(column) for columns, _ in parts for column in columns]
            array = np.transpose(self.values.reshape(self.shape), order).astype(np.float64)
            result = array.reshape([len(matrix) for _, matrix in parts])
            # The last part first: it has the most states, so the table shrinks fastest.
            for _, matrix in reversed(parts):
                result = np.moveaxis(result @ matrix, -1, 0)
            return result
        codes = [self.codes(columns) for columns, _ in parts]
        widths = [matrix.shape[1] for _, matrix in parts]
        total = np.zeros((math.prod(widths[:-1]), widths[-1]))
        step = max(1, BLOCK_CELLS // len(total))
        for start in range(0, len(self.values), step):
            block = slice(start, start + step)
            product = self.values[block].astype(np.float64)[:, None]
            for code, (_, matrix) in zip(codes[:-1], parts[:-1], strict=True):
                product = (product[:, :, None] * matrix[code[block]][:, None, :]).reshape(len(product), -1)
            total += product.T @ parts[-1][1][codes[-1][block]]
        return total.reshape(widths)


def _collected(keys: NDArray[np.int64], values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return sorted keys without repeats, their values added up, zeros dropped."""
    unique, inverse = np.unique(keys, return_inverse=True)
    totals = np.zeros(len(unique), values.dtype)
    np.add.at(totals, inverse, values)
    kept = totals != 0
    return unique[kept], totals[kept]


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
    states: NDArray[np.int64]
    widths: NDArray[np.int64]

    @classmethod
    def stack(cls, matrices: Sequence[Floats]) -> ColumnFeatures:
        """Return the features that are the columns of one matrix (states, features) a column."""
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


class Counts:
    """Additive joint counts of groups of observed variables; never changed once made.

    Parameters
    ----------
    graph : LatentGraph
    groups : sequence of sequence of str
        The groups to count. Tables of their subsets come for free.

    Examples
    --------
    >>> from eigentree.structures.zoo import mixture
    >>> counts = Counts(mixture(3, 2, 2), [("x0", "x1"), ("x2",)]).update([[0, 1, 1], [0, 1, 0], [1, -1, 0]])
    >>> counts.table(["x0", "x1"]).tolist()
    [[0, 2], [0, 0]]
    >>> counts.rows
    3
    """

    def __init__(self, graph: LatentGraph, groups: Sequence[Sequence[str]]) -> None:
        for group in groups:
            if not group or len(set(group)) < len(group):
                raise DataError(f"a group to count has each variable once and at least one, not {list(group)}")
        states = [graph.states[name] for name in graph.observed]
        self.graph = graph
        self.layout = layout_of(
            tuple(tuple(sorted(graph.column(name) for name in group)) for group in groups), tuple(states)
        )
        self.dense: NDArray[Any] = np.zeros(int(self.layout.table_start[-1]), np.int64)
        self._sparse: dict[int, JointTable] = self.layout.empty_sparse()
        self._residual: NDArray[Any] | None = None
        self.rows: float = 0

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each group that is counted."""
        return self.layout.groups

    def _with(
        self, dense: NDArray[Any], sparse: dict[int, JointTable], residual: NDArray[Any] | None, rows: float
    ) -> Counts:
        made = object.__new__(Counts)
        made.graph, made.layout = self.graph, self.layout
        made.dense, made._sparse, made._residual, made.rows = dense, sparse, residual, rows
        dense.flags.writeable = False
        return made

    def empty(self) -> Counts:
        """Return counts of the same groups without any row."""
        return self._with(np.zeros(len(self.dense), np.int64), self.layout.empty_sparse(), None, 0)

    def update(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Counts:
        """Return these counts with more rows added.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            A row counts for a group where none of the group's cells is missing.
        sample_weight : array-like of shape (rows,), optional
            How often each row counts; may be fractional.
        """
        rows = Rows.of(X, self.graph)
        weights = checked_weights(sample_weight, rows.count)
        return self.count(weighted_chunks(rows, weights))

    def count(self, chunks: Iterator[tuple[NDArray[Any], NDArray[Any] | None]]) -> Counts:
        """Return these counts with chunks of (codes, weights or None) added."""
        total = _Accumulator(self.layout)
        for codes, weights in chunks:
            total.add(codes, weights)
        added = self._with(*total.result(), total.rows)
        return self + added if self.rows else added

    def __add__(self, other: Counts) -> Counts:
        return self._combined(other, 1)

    def __sub__(self, other: Counts) -> Counts:
        return self._combined(other, -1)

    def _combined(self, other: Counts, sign: int) -> Counts:
        if self.groups != other.groups or self.graph.observed != other.graph.observed:
            raise DataError("counts add up only when they count the same groups of the same variables")
        sparse = {g: table.plus(other._sparse[g], sign) for g, table in self._sparse.items()}
        dense = self.dense + other.dense if sign > 0 else self.dense - other.dense
        residual = self._residual
        if other._residual is not None:
            residual = sign * other._residual if residual is None else residual + sign * other._residual
        return self._with(dense, sparse, residual, self.rows + sign * other.rows)

    def _table(self, g: int) -> JointTable:
        """Return the table of one counted group."""
        if g in self._sparse:
            return self._sparse[g]
        return JointTable(self.groups[g], self.layout.shapes[g], None, self.dense[self.layout.part(g)])

    def find(self, columns: Sequence[int]) -> JointTable:
        """Return the counts of some columns, from the smallest counted group that holds them all."""
        if not len(columns):
            raise DataError("name at least one variable; counts of none were asked for")
        covered = self.layout.covered.get(tuple(sorted(columns)))
        if self._residual is None or covered is None:
            return self._table(self._holder(tuple(columns))).marginal(columns)
        # The residual is what its own holder lacks, which need not be the smallest.
        table = self._table(self._holder(covered.holder)).marginal(columns)
        rest = JointTable(tuple(sorted(columns)), covered.shape, None, self._residual[covered.part])
        return table.plus(rest.marginal(columns), 1)

    def _holder(self, columns: tuple[int, ...]) -> int:
        g = self.layout.holder(columns)
        if g < 0:
            names = [self.graph.observed[column] for column in columns]
            raise DataError(f"the variables {names} were not counted together; count them as a group first")
        return g

    @cached_property
    def columns(self) -> tuple[Floats, ...]:
        """The counts of each column alone."""
        states = [self.graph.states[name] for name in self.graph.observed]
        found: dict[int, Floats] = {}
        for size in set(states):
            alike = [column for column, count in enumerate(states) if count == size]
            found.update(zip(alike, self.stacked([(column,) for column in alike]), strict=True))
        return tuple(found[column] for column in range(len(states)))

    def smoothed(self, column: int) -> Floats:
        """Return the distribution of one column, 1/2 added to the count of each state."""
        counted = self.columns[column]
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
            By default one a state, which makes the sums counts.

        Returns
        -------
        sums : array, shape (groups, features of each column…)
        totals : array, shape (groups,)
        """
        states = [self.graph.states[self.graph.observed[column]] for column in groups[0]]
        shape = states if features is None else features.widths[list(groups[0])]
        sums, totals = np.zeros((len(groups), *shape)), np.zeros(len(groups))
        alone = set(range(len(groups)))
        for held in self.layout.holders(tuple(groups), self._residual is not None):
            held.sum_up(self.dense, features, sums, totals)
            alone.difference_update(held.members)
        if self._residual is not None:
            for held in self.layout.residual_holders(tuple(groups)):
                held.sum_up(self._residual, features, sums, totals)
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
        return self.find([self.graph.column(name) for name in names]).array()

    def joint(self, names: Sequence[str]) -> Floats:
        """Return the relative frequencies of some variables that were counted together."""
        table = self.find([self.graph.column(name) for name in names])
        if not table.total > 0:
            raise DataError(f"no row has all of the cells {list(names)}, so their joint frequencies are unknown")
        return np.asarray(table.array() / table.total)


def weighted_chunks(rows: Rows, weights: NDArray[Any] | None) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
    """Yield codes and weights (or None) of consecutive rows."""
    for start, codes in rows.chunks(COUNT_CHUNK):
        yield codes, None if weights is None else weights[start : start + len(codes)]


@dataclass(frozen=True, eq=False)
class Layout:
    """Which groups are counted, which as arrays laid end to end, and where each cell is.

    Attributes
    ----------
    groups : tuple of tuple of int
    shapes : tuple of tuple of int
        Numbers of states of the columns of each group.
    dense : tuple of int
        The groups that are kept as arrays, in the order in which they lie end to end.
    covered : mapping of tuple of int to Covered
        The groups that are read off another one's array.
    group_start, columns, states, table_start : array
        The same for the kernels.
    """

    groups: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    dense: tuple[int, ...]
    covered: Mapping[tuple[int, ...], Covered]
    group_start: NDArray[np.int64]
    columns: NDArray[np.int64]
    states: NDArray[np.int64]
    table_start: NDArray[np.int64]

    def empty_sparse(self) -> dict[int, JointTable]:
        """Return a table without rows for each group that is not kept as an array."""
        kept = set(self.dense)
        none = np.zeros(0, np.int64)
        return {
            g: JointTable(self.groups[g], self.shapes[g], none, none)
            for g in range(len(self.groups))
            if g not in kept
        }

    @cached_property
    def residual_size(self) -> int:
        """How many cells the covered groups have."""
        return max((covered.part.stop for covered in self.covered.values()), default=0)

    @cached_property
    def _place(self) -> dict[int, int]:
        return {g: k for k, g in enumerate(self.dense)}

    def part(self, g: int) -> slice:
        """Return where the array of a group lies."""
        k = self._place[g]
        return slice(int(self.table_start[k]), int(self.table_start[k + 1]))

    @cached_property
    def _holding(self) -> dict[int, list[tuple[int, frozenset[int]]]]:
        holding: dict[int, list[tuple[int, frozenset[int]]]] = {}
        for g in sorted(
            range(len(self.groups)), key=lambda g: (math.prod(self.shapes[g]), len(self.groups[g]), self.groups[g])
        ):
            members = frozenset(self.groups[g])
            for column in members:
                holding.setdefault(column, []).append((g, members))
        return holding

    def holder(self, columns: tuple[int, ...]) -> int:
        """Return the smallest group that holds all of some columns, or -1."""
        rarest = min((self._holding.get(column, []) for column in columns), key=len)
        return next((g for g, members in rarest if members.issuperset(columns)), -1)

    @cached_property
    def _holders(self) -> dict[tuple[Any, bool], list[Holders]]:
        return {}

    def holders(self, groups: tuple[tuple[int, ...], ...], holed: bool) -> list[Holders]:
        """Return the arrays that hold several groups of columns; groups that no array holds are no members.

        With holes, a covered group is read off its own holder, to which its residual belongs.
        """
        if (groups, holed) not in self._holders:
            found = []
            for k, columns in enumerate(groups):
                covered = self.covered.get(tuple(sorted(columns))) if holed else None
                g = self.holder(columns if covered is None else covered.holder)
                if g in self._place:
                    found.append((k, columns, self.groups[g], self.shapes[g], self.part(g).start))
            self._holders[groups, holed] = _alike(found)
        return self._holders[groups, holed]

    @cached_property
    def _residual_holders(self) -> dict[Any, list[Holders]]:
        return {}

    def residual_holders(self, groups: tuple[tuple[int, ...], ...]) -> list[Holders]:
        """Return the arrays in the residual of those of several groups of columns that are covered."""
        if groups not in self._residual_holders:
            found = []
            for k, columns in enumerate(groups):
                ordered = tuple(sorted(columns))
                if ordered in self.covered:
                    covered = self.covered[ordered]
                    found.append((k, columns, ordered, covered.shape, covered.part.start))
            self._residual_holders[groups] = _alike(found)
        return self._residual_holders[groups]


def _alike(
    found: Sequence[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]],
) -> list[Holders]:
    """Return holders of (number, columns, columns of the array, shape, start), those of one shape together."""
    alike: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[int, tuple[int, ...], int]]] = {}
    for k, columns, group, shape, start in found:
        order = tuple(group.index(column) for column in columns)
        alike.setdefault((shape, order), []).append((k, group, start))
    return [
        Holders(
            [k for k, _, _ in members],
            np.array([group for _, group, _ in members]),
            np.array([start for _, _, start in members]),
            np.array(shape),
            order,
        )
        for (shape, order), members in alike.items()
    ]


@dataclass(frozen=True, eq=False)
class Holders:
    """Arrays of the same shape that hold some groups of columns.

    Attributes
    ----------
    members : list of int
        Which groups.
    columns : array, shape (members, columns of an array)
    start : array, shape (members,)
        Where each array starts.
    states : array, shape (columns of an array,)
    order : tuple of int
        Where each column of a group is among those of its array; any others are summed out.
    """

    members: list[int]
    columns: NDArray[np.int64]
    start: NDArray[np.int64]
    states: NDArray[np.int64]
    order: tuple[int, ...]

    @cached_property
    def _kept(self) -> NDArray[np.bool_]:
        """Whether each column of an array is one of its group's, shape (columns of an array,)."""
        return np.isin(np.arange(len(self.states)), self.order)

    @cached_property
    def _axes(self) -> list[int]:
        """How to put what is kept of an array in the order of the group, after an axis of members."""
        return [0, *(1 + np.argsort(np.argsort(self.order)))]

    @cached_property
    def _ones(self) -> Floats:
        return np.ones((len(self.members), len(self.states), self.states.max(), 1))

    def sum_up(self, dense: NDArray[Any], features: ColumnFeatures | None, sums: Floats, totals: Floats) -> None:
        """Add the members' sums of products of features, and their totals."""
        widths = self.states if features is None else features.widths[self.columns[0]]
        widths = np.where(self._kept, widths, 1)
        # A column is summed out by its first feature, the constant.
        matrices = self._ones if features is None else features.padded[self.columns]
        whole = self._kept & (features is None)
        found = np.empty((len(self.members), math.prod(widths.tolist())))
        counting_kernels.feature_sums(dense, self.start, self.states, widths, whole, matrices, found)
        totals[self.members] += found.sum(axis=1) if features is None else found[:, 0]
        sums[self.members] += found.reshape(-1, *widths[self._kept]).transpose(self._axes)


@lru_cache(maxsize=4)
def layout_of(groups: tuple[tuple[int, ...], ...], states: tuple[int, ...]) -> Layout:
    """Return the layout of some groups of columns; those that another small table covers are read off it.

    Kept for the last few, so that a structure is laid out once however often it is fitted.
    """
    kept, covered = _maximal(groups, states)
    shapes = [tuple(states[column] for column in group) for group in kept]
    for group, shape in zip(kept, shapes, strict=True):
        if math.prod(shape) > np.iinfo(np.int64).max:
            raise DataError(f"a joint table of {len(group)} columns has more cells than can be numbered")
    dense = tuple(g for g, shape in enumerate(shapes) if math.prod(shape) <= DENSE_CELLS)
    return Layout(
        tuple(kept),
        tuple(shapes),
        dense,
        covered,
        np.cumsum([0, *(len(kept[g]) for g in dense)]),
        np.array([column for g in dense for column in kept[g]], np.int64),
        np.array([size for g in dense for size in shapes[g]], np.int64),
        np.cumsum([0, *(math.prod(shapes[g]) for g in dense)]),
    )


@dataclass(frozen=True)
class Covered:
    """A group that is read off a larger one's array.

    Rows that have all cells of this group but not of the larger one are counted apart, in the residual.

    Attributes
    ----------
    holder : tuple of int
        The larger group.
    shape : tuple of int
    part : slice
        Where its counts lie in the residual.
    """

    holder: tuple[int, ...]
    shape: tuple[int, ...]
    part: slice


def _maximal(
    groups: Sequence[tuple[int, ...]], states: Sequence[int]
) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], Covered]]:
    """Return the groups to count, and those that are sums of another's small table."""
    kept: list[tuple[int, ...]] = []
    covered: dict[tuple[int, ...], Covered] = {}
    holding: dict[int, list[tuple[int, ...]]] = {}
    end = 0
    for group in sorted(set(groups), key=lambda group: (-len(group), group)):
        shape = tuple(states[column] for column in group)
        rarest = min((holding.get(column, []) for column in group), key=len)
        holder = next((other for other in rarest if set(group) <= set(other)), None)
        if holder is not None:
            covered[group] = Covered(holder, shape, slice(end, end + math.prod(shape)))
            end += math.prod(shape)
            continue
        kept.append(group)
        if math.prod(shape) <= DENSE_CELLS:
            for column in group:
                holding.setdefault(column, []).append(group)
    return sorted(kept), covered


class _Accumulator:
    """Counts while they are being made."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows: float = 0
        self.whole = np.zeros(int(layout.table_start[-1]), np.int64)
        self.weighted: Floats | None = None
        self.residual: NDArray[Any] | None = None
        self.empty = layout.empty_sparse()
        self.parts: dict[int, list[tuple[NDArray[np.int64], NDArray[Any]]]] = {g: [] for g in self.empty}

    def add(self, codes: NDArray[Any], weights: NDArray[Any] | None) -> None:
        layout = self.layout
        groups = (layout.group_start, layout.columns, layout.states, layout.table_start)
        holes = np.zeros(codes.shape[1], np.bool_)
        largest = np.zeros(codes.shape[1], codes.dtype)
        if len(codes):
            codes_kernels.largest_codes(codes.T, largest)
        holes[layout.columns] = largest[layout.columns] == layout.states
        if weights is None:
            _in_threads(
                lambda part: counting_kernels.count_groups(
                    codes.T,
                    layout.group_start[part],
                    layout.columns,
                    layout.states,
                    layout.table_start[part],
                    self.whole,
                    holes,
                ),
                len(layout.dense),
                len(codes),
            )
            self.rows += len(codes)
        elif weights.dtype.kind in "iub":
            weights = weights.astype(np.int64)
            counting_kernels.weigh_groups(codes.T, weights, *groups, self.whole)
            self.rows += int(weights.sum())
        else:
            weights = weights.astype(np.float64)
            if self.weighted is None:
                self.weighted = np.zeros(len(self.whole))
            counting_kernels.weigh_groups(codes.T, weights, *groups, self.weighted)
            self.rows += float(weights.sum())
        for g in self.empty:
            self._add_sparse(g, codes, weights)
        if holes.any():
            self._add_residual(codes, weights, set(np.flatnonzero(holes).tolist()))

    def _add_residual(self, codes: NDArray[Any], weights: NDArray[Any] | None, holed: set[int]) -> None:
        """Count the rows that a covered group has and its holder has not, for want of a cell."""
        layout = self.layout
        size = {int(c): int(n) for c, n in zip(layout.columns, layout.states, strict=True)}
        absent: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        for group, covered in layout.covered.items():
            if holed.isdisjoint(covered.holder):
                continue
            if covered.holder not in absent:
                gone = [codes[:, column] == size[column] for column in covered.holder]
                absent[covered.holder] = np.logical_or.reduce(gone)
            chosen = absent[covered.holder]
            kind = np.int64 if weights is None else weights.dtype
            if self.residual is None:
                self.residual = np.zeros(layout.residual_size, kind)
            elif self.residual.dtype != kind:
                self.residual = self.residual.astype(np.float64)
            counted = np.ones(int(chosen.sum()), kind) if weights is None else weights[chosen]
            counting_kernels.weigh_groups(
                np.asfortranarray(codes[chosen]).T,
                counted,
                np.array([0, len(group)]),
                np.array(group),
                np.array(covered.shape),
                np.array([0, covered.part.stop - covered.part.start]),
                self.residual[covered.part],
            )

    def _add_sparse(self, g: int, codes: NDArray[Any], weights: NDArray[Any] | None) -> None:
        table = self.empty[g]
        keys = np.zeros(len(codes), np.int64)
        present = np.ones(len(codes), np.bool_)
        for column, states in zip(table.columns, table.shape, strict=True):
            keys = keys * states + codes[:, column]
            present &= codes[:, column] != states
        counted = np.ones(len(codes), np.int64) if weights is None else weights
        parts = self.parts[g]
        parts.append(_collected(keys[present], counted[present]))
        # Merged now and then, so that memory stays in proportion to the codes that occur.
        if len(parts) == 32:
            parts[:] = [_merged(parts)]

    def result(self) -> tuple[NDArray[Any], dict[int, JointTable], NDArray[Any] | None]:
        dense: NDArray[Any] = self.whole if self.weighted is None else self.whole + self.weighted
        sparse = dict(self.empty)
        for g, parts in self.parts.items():
            if parts:
                sparse[g] = JointTable(self.empty[g].columns, self.empty[g].shape, *_merged(parts))
        return dense, sparse, self.residual


def _in_threads(work: Callable[[slice], None], groups: int, rows: int) -> None:
    """Do work on the starts of consecutive groups, shared by as many threads as numba is allowed.

    Every group has a table of its own, so nothing depends on who counts it.
    """
    threads = min(get_num_threads(), groups) if groups * rows > SHARED_FROM else 1
    bounds = [round(k * groups / threads) for k in range(threads + 1)]
    parts = [slice(a, b + 1) for a, b in pairwise(bounds)]
    if threads == 1:
        work(parts[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))


def _merged(
    parts: Sequence[tuple[NDArray[np.int64], NDArray[Any]]],
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    return _collected(np.concatenate([keys for keys, _ in parts]), np.concatenate([values for _, values in parts]))
