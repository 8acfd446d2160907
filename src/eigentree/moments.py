"""Joint counts of groups of columns, and the moments that are read off them (section 6).

Counts add and subtract, and unweighted ones are whole numbers: however rows are ordered, split into batches or
spread over machines, the counts are the same to the last bit, and so is every model that is learned from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from eigentree import kernels
from eigentree.codes import Rows
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.graph import LatentGraph

    Floats = NDArray[np.float64]

DENSE_CELLS = 2**16
"""Largest table that is kept as an array; a larger one is kept as the codes that occur, never more than rows."""

COUNT_CHUNK = 16_384


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
        product = self.values.astype(np.float64)[:, None]
        for columns, matrix in parts[:-1]:
            product = (product[:, :, None] * matrix[self.codes(columns)][:, None, :]).reshape(len(product), -1)
        columns, matrix = parts[-1]
        shape = [matrix.shape[1] for _, matrix in parts]
        return (product.T @ matrix[self.codes(columns)]).reshape(shape)


def _collected(keys: NDArray[np.int64], values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return sorted keys without repeats, their values added up, zeros dropped."""
    unique, inverse = np.unique(keys, return_inverse=True)
    totals = np.zeros(len(unique), values.dtype)
    np.add.at(totals, inverse, values)
    kept = totals != 0
    return unique[kept], totals[kept]


class Counts:
    """Additive joint counts of groups of observed variables; never changed once made.

    Parameters
    ----------
    graph : LatentGraph
    groups : sequence of sequence of str
        The groups to count. Tables of their subsets come for free.

    Examples
    --------
    >>> from eigentree.zoo import mixture
    >>> counts = Counts(mixture(3, 2, 2), [("x0", "x1"), ("x2",)]).update([[0, 1, 1], [0, 1, 0], [1, -1, 0]])
    >>> counts.table(["x0", "x1"]).tolist()
    [[0, 2], [0, 0]]
    >>> counts.rows
    3
    """

    def __init__(self, graph: LatentGraph, groups: Sequence[Sequence[str]]) -> None:
        self.graph = graph
        self.groups = tuple(tuple(sorted(graph.column(name) for name in group)) for group in groups)
        states = [graph.states[name] for name in graph.observed]
        self._tables = tuple(_empty(group, tuple(states[column] for column in group)) for group in self.groups)
        self.rows: float = 0
        self._layout = _Layout.of(self._tables)

    def _with(self, tables: Sequence[JointTable], rows: float) -> Counts:
        made = object.__new__(Counts)
        made.graph, made.groups, made._layout = self.graph, self.groups, self._layout
        made._tables, made.rows = tuple(tables), rows
        return made

    def empty(self) -> Counts:
        """Return counts of the same groups without any row."""
        return self._with([_empty(table.columns, table.shape) for table in self._tables], 0)

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
        return self.count((codes, part) for codes, part in weighted_chunks(rows, weights))

    def count(self, chunks: Iterator[tuple[NDArray[Any], NDArray[Any] | None]]) -> Counts:
        """Return these counts with chunks of (codes, weights or None) added."""
        total = _Accumulator(self._layout, self.empty()._tables)
        for codes, weights in chunks:
            total.add(codes, weights)
        return self + self._with(total.tables(), total.rows)

    def __add__(self, other: Counts) -> Counts:
        return self._combined(other, 1)

    def __sub__(self, other: Counts) -> Counts:
        return self._combined(other, -1)

    def _combined(self, other: Counts, sign: int) -> Counts:
        if self.groups != other.groups or self.graph.observed != other.graph.observed:
            raise DataError("counts add up only when they count the same groups of the same variables")
        tables = [mine.plus(theirs, sign) for mine, theirs in zip(self._tables, other._tables, strict=True)]
        return self._with(tables, self.rows + sign * other.rows)

    @cached_property
    def _holding(self) -> dict[int, list[int]]:
        holding: dict[int, list[int]] = {}
        for g, group in enumerate(self.groups):
            for column in group:
                holding.setdefault(column, []).append(g)
        return holding

    @cached_property
    def _found(self) -> dict[tuple[int, ...], JointTable]:
        return {}

    def find(self, columns: Sequence[int]) -> JointTable:
        """Return the counts of some columns, from the smallest counted group that holds them all."""
        key = tuple(columns)
        if key not in self._found:
            wanted = set(key)
            rarest = min((self._holding.get(column, []) for column in key), key=len)
            able = [g for g in rarest if wanted <= set(self.groups[g])]
            if not able:
                names = [self.graph.observed[column] for column in key]
                raise DataError(f"the variables {names} were not counted together; count them as a group first")
            best = min(able, key=lambda g: (math.prod(self._tables[g].shape), self.groups[g]))
            self._found[key] = self._tables[best].marginal(key)
        return self._found[key]

    def table(self, names: Sequence[str]) -> NDArray[Any]:
        """Return the counts of some variables that were counted together, axes in the order of the names."""
        return self.find([self.graph.column(name) for name in names]).array()

    def joint(self, names: Sequence[str]) -> Floats:
        """Return the relative frequencies of some variables that were counted together."""
        table = self.find([self.graph.column(name) for name in names])
        if not table.total > 0:
            raise DataError(f"no row has all of the cells {list(names)}, so their joint frequencies are unknown")
        return np.asarray(table.array() / table.total)


def checked_weights(sample_weight: ArrayLike | None, rows: int) -> NDArray[Any] | None:
    """Return the weights as an array, or None; raise `DataError` where they do not fit the rows."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight)
    if weights.shape != (rows,) or weights.dtype.kind not in "iufb":
        raise DataError(
            f"sample_weight needs one number a row, shape ({rows},), not {weights.shape} {weights.dtype}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("sample_weight holds negative, infinite or missing numbers")
    return weights


def weighted_chunks(rows: Rows, weights: NDArray[Any] | None) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
    """Yield codes and weights (or None) of consecutive rows."""
    for start, codes in rows.chunks(COUNT_CHUNK):
        yield codes, None if weights is None else weights[start : start + len(codes)]


def _empty(columns: tuple[int, ...], shape: tuple[int, ...]) -> JointTable:
    cells = math.prod(shape)
    if cells <= DENSE_CELLS:
        return JointTable(columns, shape, None, np.zeros(cells, np.int64))
    if cells > np.iinfo(np.int64).max:
        raise DataError(f"a joint table of {len(columns)} columns has {cells:.3g} cells, more than can be numbered")
    return JointTable(columns, shape, np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class _Layout:
    """The dense groups laid end to end for the kernels, and which groups are sparse."""

    dense: tuple[int, ...]
    sparse: tuple[int, ...]
    group_start: NDArray[np.int64]
    columns: NDArray[np.int64]
    states: NDArray[np.int64]
    table_start: NDArray[np.int64]

    @classmethod
    def of(cls, tables: Sequence[JointTable]) -> _Layout:
        dense = tuple(g for g, table in enumerate(tables) if table.keys is None)
        chosen = [tables[g] for g in dense]
        return cls(
            dense,
            tuple(g for g, table in enumerate(tables) if table.keys is not None),
            np.cumsum([0, *(len(table.columns) for table in chosen)]),
            np.array([column for table in chosen for column in table.columns], np.int64),
            np.array([size for table in chosen for size in table.shape], np.int64),
            np.cumsum([0, *(len(table.values) for table in chosen)]),
        )


class _Accumulator:
    """Counts while they are being made."""

    def __init__(self, layout: _Layout, empty: Sequence[JointTable]) -> None:
        self.layout = layout
        self.empty = empty
        self.rows: float = 0
        self.whole = np.zeros(int(layout.table_start[-1]), np.int64)
        self.weighted: Floats | None = None
        self.sparse: dict[int, list[tuple[NDArray[np.int64], NDArray[Any]]]] = {g: [] for g in layout.sparse}

    def add(self, codes: NDArray[Any], weights: NDArray[Any] | None) -> None:
        layout = self.layout
        if weights is None or weights.dtype.kind in "iub":
            whole_weights = None if weights is None else weights.astype(np.int64)
        else:
            whole_weights = None
            if self.weighted is None:
                self.weighted = np.zeros(len(self.whole))
        groups = (layout.group_start, layout.columns, layout.states, layout.table_start)
        if weights is None:
            largest = codes.max(axis=0, initial=0)
            holes = np.zeros(codes.shape[1], np.bool_)
            holes[layout.columns] = largest[layout.columns] == layout.states
            kernels.count_groups(codes, *groups, self.whole, holes)
            self.rows += len(codes)
        elif whole_weights is not None:
            kernels.weigh_groups(codes, whole_weights, *groups, self.whole)
            self.rows += int(whole_weights.sum())
        else:
            assert self.weighted is not None
            kernels.weigh_groups(codes, weights.astype(np.float64), *groups, self.weighted)
            self.rows += float(weights.sum())
        for g in layout.sparse:
            self._add_sparse(g, codes, weights if whole_weights is None else whole_weights)

    def _add_sparse(self, g: int, codes: NDArray[Any], weights: NDArray[Any] | None) -> None:
        table = self.empty[g]
        keys = np.zeros(len(codes), np.int64)
        present = np.ones(len(codes), np.bool_)
        for column, states in zip(table.columns, table.shape, strict=True):
            keys = keys * states + codes[:, column]
            present &= codes[:, column] != states
        counted = np.ones(len(codes), np.int64) if weights is None else weights
        parts = self.sparse[g]
        parts.append(_collected(keys[present], counted[present]))
        # Merged now and then, so that memory stays in proportion to the codes that occur.
        if len(parts) == 32:
            parts[:] = [_merged(parts)]

    def tables(self) -> list[JointTable]:
        layout = self.layout
        values: NDArray[Any] = self.whole if self.weighted is None else self.whole + self.weighted
        tables = list(self.empty)
        for k, g in enumerate(layout.dense):
            part = values[layout.table_start[k] : layout.table_start[k + 1]]
            tables[g] = JointTable(self.empty[g].columns, self.empty[g].shape, None, part)
        for g, parts in self.sparse.items():
            if parts:
                tables[g] = JointTable(self.empty[g].columns, self.empty[g].shape, *_merged(parts))
        return tables


def _merged(
    parts: Sequence[tuple[NDArray[np.int64], NDArray[Any]]],
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    return _collected(np.concatenate([keys for keys, _ in parts]), np.concatenate([values for _, values in parts]))
