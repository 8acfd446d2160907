"""Larger groups of columns that are counted in place of several, whose tables are sums of theirs.

To count a row takes as long in a table of a few thousand cells as in one of ten, as long as the table stays in the
first cache. So groups that have columns in common are counted as one, and summed out once in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.counting.group_counting import add_margins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Integers

__all__ = ["Carriers"]

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
