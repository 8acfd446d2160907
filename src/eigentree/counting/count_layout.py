"""Where joint counts lie: which groups of columns are counted, which as arrays laid end to end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.counting.group_counting import add_margins, feature_sums
from eigentree.counting.joint_table import DENSE_CELLS, JointTable
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.counting.joint_table import ColumnFeatures

__all__ = ["Carriers", "CountLayout", "Covered", "Holders"]


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


@dataclass(frozen=True, eq=False)
class CountLayout:
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
    group_start: Integers
    columns: Integers
    states: Integers
    table_start: Integers

    @classmethod
    def of(
        cls, groups: Sequence[tuple[int, ...]], states: Sequence[int], dense_cells: int = DENSE_CELLS
    ) -> CountLayout:
        """Return the layout of some groups of columns; those that another small table covers are read off it.

        A table of more than `dense_cells` cells is kept as the codes that occur.
        """
        kept, covered = _maximal(groups, states, dense_cells)
        shapes = [tuple(states[column] for column in group) for group in kept]
        for group, shape in zip(kept, shapes, strict=True):
            if math.prod(shape) > np.iinfo(np.int64).max:
                raise DataError(f"a joint table of {len(group)} columns has more cells than can be numbered")
        dense = tuple(g for g, shape in enumerate(shapes) if math.prod(shape) <= dense_cells)
        return cls(
            tuple(kept),
            tuple(shapes),
            dense,
            covered,
            np.cumsum([0, *(len(kept[g]) for g in dense)]),
            np.array([column for g in dense for column in kept[g]], np.int64),
            np.array([size for g in dense for size in shapes[g]], np.int64),
            np.cumsum([0, *(math.prod(shapes[g]) for g in dense)]),
        )

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
    def carriers(self) -> Carriers:
        """Which of the groups that are kept as arrays are counted together."""
        groups = [self.groups[g] for g in self.dense]
        return Carriers.of(groups, [self.shapes[g] for g in self.dense], self.table_start)

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
    columns: Integers
    start: Integers
    states: Integers
    order: tuple[int, ...]

    @cached_property
    def _kept(self) -> Booleans:
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
        feature_sums(dense, self.start, self.states, widths, whole, matrices, found)
        totals[self.members] += found.sum(axis=1) if features is None else found[:, 0]
        sums[self.members] += found.reshape(-1, *widths[self._kept]).transpose(self._axes)


def _maximal(
    groups: Sequence[tuple[int, ...]], states: Sequence[int], dense_cells: int
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
        if math.prod(shape) <= dense_cells:
            for column in group:
                holding.setdefault(column, []).append(group)
    return sorted(kept), covered


CARRIED_CELLS = 4096
"""Most cells of a table that is counted in place of several: 32 KiB, a first-level cache."""

ALL_CELLS = 2**21
"""Most cells of all these tables together, which bounds their memory."""

CANDIDATES = 32
"""Carriers of a column that are looked at for a group, the latest first: the search stays linear."""


@dataclass(frozen=True, eq=False)
class Carriers:
    """Which groups are counted together.

    Attributes
    ----------
    carried : tuple of tuple of int
        The numbers of the groups of each carrier, at least two.
    alone : array of int
        The groups that have no carrier.
    group_start, columns, states, table_start : array
        Columns, numbers of states and cells of the carriers, as `CountLayout` has them of its groups.
    members : array, shape (carried groups, 3)
        Carrier, and first and last cell but one of the group, as `add_margins` takes them.
    stride_start, strides : array
        How far apart the cells of a carried group lie, along the axes of its carrier.
    """

    carried: tuple[tuple[int, ...], ...]
    alone: Integers
    group_start: Integers
    columns: Integers
    states: Integers
    table_start: Integers
    members: Integers
    stride_start: Integers
    strides: Integers

    @classmethod
    def of(
        cls,
        groups: Sequence[tuple[int, ...]],
        shapes: Sequence[tuple[int, ...]],
        table_start: Integers,
        most: int = CARRIED_CELLS,
        most_together: int = ALL_CELLS,
    ) -> Carriers:
        """Return the carriers of groups of sorted columns, given their shapes and where their tables start.

        A carrier has at most `most` cells, all of them have `most_together`.
        """
        states = {
            column: n
            for group, shape in zip(groups, shapes, strict=True)
            for column, n in zip(group, shape, strict=True)
        }
        found = _joined(groups, states, most)
        while sum(math.prod(states[c] for c in columns) for columns, _ in found) > most_together:
            most //= 2
            found = _joined(groups, states, most)
        carried = tuple(tuple(members) for _, members in found)
        members: list[tuple[int, int, int]] = []
        strides: list[int] = []
        stride_start: list[int] = []
        for k, (columns, numbers) in enumerate(found):
            for g in numbers:
                members.append((k, int(table_start[g]), int(table_start[g + 1])))
                stride_start.append(len(strides))
                steps = {c: math.prod(shapes[g][a + 1 :]) for a, c in enumerate(groups[g])}
                strides += [steps.get(column, 0) for column in columns]
        taken = {g for numbers in carried for g in numbers}
        return cls(
            carried,
            np.array([g for g in range(len(groups)) if g not in taken], np.int64),
            np.cumsum([0, *(len(columns) for columns, _ in found)]),
            np.array([column for columns, _ in found for column in columns], np.int64),
            np.array([states[column] for columns, _ in found for column in columns], np.int64),
            np.cumsum([0, *(math.prod(states[c] for c in columns) for columns, _ in found)]),
            np.array(members, np.int64).reshape(-1, 3),
            np.array(stride_start, np.int64),
            np.array(strides, np.int64),
        )

    @cached_property
    def _carrier_of_column(self) -> Integers:
        return np.repeat(np.arange(len(self.carried)), np.diff(self.group_start))

    def whole(self, holes: Booleans) -> Booleans:
        """Return which carriers have no column with a hole."""
        found = np.ones(len(self.carried), np.bool_)
        found[self._carrier_of_column[holes[self.columns]]] = False
        return found

    def directly(self, whole: Booleans) -> Integers:
        """Return the groups that are counted by themselves where only some carriers are whole."""
        return np.concatenate([self.alone, *(self.carried[k] for k in np.flatnonzero(~whole))])

    def add_to(self, sums: NDArray[np.int64], tables: NDArray[np.int64]) -> None:
        """Add what the tables of the carriers hold to those of their groups."""
        add_margins(
            tables,
            self.group_start,
            self.states,
            self.table_start,
            self.members,
            self.stride_start,
            self.strides,
            sums,
        )


def _joined(
    groups: Sequence[tuple[int, ...]], states: dict[int, int], most: int
) -> list[tuple[tuple[int, ...], list[int]]]:
    """Return columns and members of the unions of groups with at most so many cells, those of at least two.

    The largest groups come first, and each joins the carrier that it shares a column with and widens least.
    """
    unions: list[frozenset[int]] = []
    members: list[list[int]] = []
    holding: dict[int, list[int]] = {}
    sizes = [math.prod(states[column] for column in group) for group in groups]
    for g in sorted(range(len(groups)), key=lambda g: (-sizes[g], groups[g])):
        if sizes[g] > most:
            continue
        columns = frozenset(groups[g])
        near = {k for column in groups[g] for k in holding.get(column, [])[-CANDIDATES:]}
        wider = [(math.prod(states[column] for column in columns - unions[k]), k) for k in near]
        fitting = [(by, k) for by, k in wider if by * math.prod(states[column] for column in unions[k]) <= most]
        if fitting:
            _, k = min(fitting)
            members[k].append(g)
        else:
            k = len(unions)
            unions.append(frozenset())
            members.append([g])
        for column in columns - unions[k]:
            holding.setdefault(column, []).append(k)
        unions[k] |= columns
    return [(tuple(sorted(union)), each) for union, each in zip(unions, members, strict=True) if len(each) > 1]
