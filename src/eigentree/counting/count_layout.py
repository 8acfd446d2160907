"""Where joint counts lie: which groups of columns are counted, which as arrays laid end to end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.counting.group_counting import GroupTables, feature_sums
from eigentree.counting.joint_table import DENSE_CELLS, JointTable
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.counting.joint_table import ColumnFeatures

__all__ = ["CountLayout", "Holders"]

Group = tuple[int, ...]


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
    tables : GroupTables
        The same for the compiled loops.
    """

    groups: tuple[Group, ...]
    shapes: tuple[Group, ...]
    dense: tuple[int, ...]
    tables: GroupTables
    _found: dict[tuple[Group, ...], list[Holders]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, groups: Sequence[Group], states: Sequence[int], dense_cells: int = DENSE_CELLS) -> CountLayout:
        """Return the layout of some groups; those of more than `dense_cells` cells are kept as codes that occur."""
        kept = sorted(set(groups))
        shapes = [tuple(map(states.__getitem__, group)) for group in kept]
        cells = list(map(math.prod, shapes))
        if max(cells, default=0) > np.iinfo(np.int64).max:
            many = len(kept[cells.index(max(cells))])
            raise DataError(f"a joint table of {many} columns has more cells than can be numbered")
        dense = tuple(g for g, size in enumerate(cells) if size <= dense_cells)
        return cls(
            tuple(kept),
            tuple(shapes),
            dense,
            GroupTables(
                np.cumsum([0, *(len(kept[g]) for g in dense)]),
                np.array([column for g in dense for column in kept[g]], np.int64),
                np.array([size for g in dense for size in shapes[g]], np.int64),
                np.cumsum([0, *(cells[g] for g in dense)]),
            ),
        )

    def empty_sparse(self) -> dict[int, JointTable]:
        """Return a table without rows for each group that is not kept as an array."""
        none = np.zeros(0, np.int64)
        sparse = [g for g in range(len(self.groups)) if g not in self._place]
        return {g: JointTable(self.groups[g], self.shapes[g], none, none) for g in sparse}

    @property
    def cells(self) -> int:
        """How many cells the groups have that are kept as arrays."""
        return int(self.tables.table_start[-1])

    @cached_property
    def _place(self) -> dict[int, int]:
        return {g: k for k, g in enumerate(self.dense)}

    def part(self, g: int) -> slice:
        """Return where the array of a group lies."""
        k = self._place[g]
        return slice(int(self.tables.table_start[k]), int(self.tables.table_start[k + 1]))

    @cached_property
    def _holding(self) -> dict[int, list[tuple[int, frozenset[int]]]]:
        def size(g: int) -> tuple[int, int, Group]:
            return math.prod(self.shapes[g]), len(self.groups[g]), self.groups[g]

        holding: dict[int, list[tuple[int, frozenset[int]]]] = {}
        for g in sorted(range(len(self.groups)), key=size):
            members = frozenset(self.groups[g])
            for column in members:
                holding.setdefault(column, []).append((g, members))
        return holding

    def holder(self, columns: Group) -> int:
        """Return the smallest group that holds all of some columns, or -1."""
        rarest = min((self._holding.get(column, []) for column in columns), key=len)
        return next((g for g, members in rarest if members.issuperset(columns)), -1)

    def holders(self, groups: tuple[Group, ...]) -> list[Holders]:
        """Return the arrays that hold several groups of columns; groups that no array holds are no members."""
        if groups not in self._found:
            alike: dict[tuple[Group, Group], list[tuple[int, Group, int]]] = {}
            for k, columns in enumerate(groups):
                g = self.holder(columns)
                if g in self._place:
                    order = tuple(self.groups[g].index(column) for column in columns)
                    held = k, self.groups[g], self.part(g).start
                    alike.setdefault((self.shapes[g], order), []).append(held)
            made = []
            for (shape, order), members in alike.items():
                numbers, arrays, starts = zip(*members, strict=True)
                made.append(Holders(list(numbers), np.array(arrays), np.array(starts), np.array(shape), order))
            self._found[groups] = made
        return self._found[groups]


@dataclass(frozen=True, eq=False)
class Holders:
    """Arrays of the same shape that hold some groups of columns, the `members`.

    They have `columns`, shape (members, columns of an array), and `states` of each; `start` is where each begins.
    Of a group's columns `order` is where they are among those of its array; any others are marginalised out.
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

    def sum_up(self, dense: NDArray[Any], features: ColumnFeatures | None, sums: Floats, totals: Floats) -> None:
        """Add the members' sums of products of features, and their totals."""
        widths = self.states if features is None else features.widths[self.columns[0]]
        widths = np.where(self._kept, widths, 1)
        # A column is marginalised out by its first feature, the constant.
        if features is None:
            matrices = np.ones((len(self.members), len(self.states), self.states.max(), 1))
        else:
            matrices = features.padded[self.columns]
        whole = self._kept & (features is None)
        found = np.empty((len(self.members), math.prod(widths.tolist())))
        feature_sums(dense, self.start, self.states, widths, whole, matrices, found)
        totals[self.members] += found.sum(axis=1) if features is None else found[:, 0]
        # What is kept of an array in the order of the group, after an axis of members.
        axes = [0, *(1 + np.argsort(np.argsort(self.order)))]
        sums[self.members] += found.reshape(-1, *widths[self._kept]).transpose(axes)
