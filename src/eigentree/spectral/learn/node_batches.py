"""Nodes of the same shape, which go through each step of learning together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from eigentree.counting.joint_table import DENSE_CELLS
from eigentree.data.tables.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.planning.view_plan import PlanNode, ViewPlan

__all__ = ["Batch", "Member", "batches_of"]

BATCH_CELLS = 2**20
"""Cells of the tables that are worked on together."""


@dataclass(frozen=True, eq=False)
class Member:
    """One node, with its columns by number.

    Attributes
    ----------
    position : int
    node : PlanNode
    parts : list of tuple of int
        The columns of each child's inside view (of a leaf: its own column).
    inside : tuple of int
        The columns of its own inside view.
    outside : list of tuple of int
        The columns of each outside view; empty at the root.
    """

    position: int
    node: PlanNode
    parts: list[tuple[int, ...]]
    inside: tuple[int, ...]
    outside: list[tuple[int, ...]]

    def cells(self, states: Sequence[int]) -> int:
        """Return how many cells its largest table has."""
        views = [math.prod(states[column] for column in group) for group in self.outside]
        return math.prod(states[column] for part in self.parts for column in part) * max(views, default=1)


@dataclass(frozen=True, eq=False)
class Batch:
    """Nodes whose tables have the same shape.

    Attributes
    ----------
    members : sequence of Member
    dense : bool
        Whether every table is small enough to be an array.
    """

    members: Sequence[Member]
    dense: bool

    @property
    def rank(self) -> int:
        """The rank that every node is learned at."""
        return self.members[0].node.rank

    @property
    def generic_rank(self) -> int:
        """The rank of almost all parameters, the same at every node."""
        return self.members[0].node.generic_rank

    @property
    def leaf(self) -> bool:
        """Whether the nodes are leaves."""
        return self.members[0].node.observed is not None

    @cached_property
    def positions(self) -> list[int]:
        """Where the nodes stand in the plan."""
        return [member.position for member in self.members]

    @cached_property
    def inside(self) -> list[tuple[int, ...]]:
        """For each node, the columns of its own inside view."""
        return [member.inside for member in self.members]

    @cached_property
    def outside(self) -> list[list[tuple[int, ...]]]:
        """For each outside view, its columns at each node; empty at the root."""
        views = range(len(self.members[0].outside))
        return [[member.outside[view] for member in self.members] for view in views]

    @cached_property
    def below(self) -> list[tuple[int, ...]]:
        """For each node, the columns of all its parts."""
        return [tuple(column for part in member.parts for column in part) for member in self.members]

    @cached_property
    def groups(self) -> list[list[tuple[int, ...]]]:
        """For each outside view, and once at the root, the columns of each node's table."""
        if not self.outside:
            return [self.below]
        return [[low + high for low, high in zip(self.below, group, strict=True)] for group in self.outside]


class _Shape(NamedTuple):
    """What nodes must have in common to be learned together.

    Attributes
    ----------
    parts, outside : tuple
        States and features of the columns of each child's inside view, and of each outside view.
    seen : tuple of int
        Which of the columns below the inside view takes, in its order.
    rank, generic_rank : int
    children : tuple of (int, bool)
        Rank of each child's bond, and whether it is an inner node.
    inner, root : bool
    """

    parts: tuple[Any, ...]
    outside: tuple[Any, ...]
    seen: tuple[int, ...]
    rank: int
    generic_rank: int
    children: tuple[tuple[int, bool], ...]
    inner: bool
    root: bool


def batches_of(plan: ViewPlan, dense_cells: int = DENSE_CELLS) -> list[Batch]:
    """Return the nodes of a plan in batches of one shape, dense where a table has at most so many cells."""
    states = Columns.of(plan.graph).states
    ranks = {node.observed: node.generic_rank for node in plan.nodes}
    sizes = [(count, ranks[name]) for count, name in zip(states, plan.graph.observed, strict=True)]
    alike: dict[_Shape, list[Member]] = {}
    for member in _members(plan):
        alike.setdefault(_shape(plan, member, sizes), []).append(member)
    batches = []
    for members in alike.values():
        cells = members[0].cells(states)
        # Few nodes at a time where tables are large: their copies must not outgrow the counts.
        step = max(1, BATCH_CELLS // cells)
        batches += [Batch(members[k : k + step], cells <= dense_cells) for k in range(0, len(members), step)]
    return batches


def _members(plan: ViewPlan) -> list[Member]:
    def columns(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(plan.graph.column(name) for name in names)

    found = []
    for position, node in enumerate(plan.nodes):
        if node.observed is not None:
            parts = [columns([node.observed])]
        else:
            parts = [columns(plan.nodes[child].inside) for child in node.children]
        outside = [columns(group) for group in node.outside]
        found.append(Member(position, node, parts, columns(node.inside), outside))
    return found


def _shape(plan: ViewPlan, member: Member, sizes: Sequence[tuple[int, int]]) -> _Shape:
    """Return the shape of a node's tables, from the states and features of each column."""

    def sizes_of(group: Sequence[int]) -> tuple[tuple[int, int], ...]:
        return tuple(sizes[column] for column in group)

    node = member.node
    below = [column for part in member.parts for column in part]
    return _Shape(
        parts=tuple(map(sizes_of, member.parts)),
        outside=tuple(map(sizes_of, member.outside)),
        seen=tuple(below.index(column) for column in member.inside),
        rank=node.rank,
        generic_rank=node.generic_rank,
        children=tuple((plan.nodes[child].rank, plan.nodes[child].observed is None) for child in node.children),
        inner=node.observed is None,
        root=node.parent < 0,
    )
