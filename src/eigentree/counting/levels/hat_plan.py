"""Plans for tables with numbers: how many hat functions are counted of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from eigentree.counting.joint_table import DENSE_CELLS
from eigentree.counting.levels.hats import HATS
from eigentree.errors import RankError
from eigentree.messages import kept_notices, notice
from eigentree.planning.view_plan import ViewPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.graphs.graph import LatentGraph

__all__ = ["hat_plan", "with_numbers"]


def hat_plan(
    graph: LatentGraph,
    numbers: Sequence[str],
    views: int = 6,
    max_rank: int | None = None,
    when_short: Literal["raise", "warn"] = "raise",
) -> ViewPlan:
    """Return the plan of a graph some of whose columns are numbers, which have as many states as hats are counted.

    They are the finest with which the joint tables of numbers are arrays, and no rank is lost.
    """
    if not numbers:
        return ViewPlan.build(graph, views, max_rank, when_short)
    own, found = tuple(numbers), None
    for hats in reversed(HATS):
        try:
            with kept_notices():
                plan = ViewPlan.build(with_numbers(graph, own, hats), views, max_rank, when_short)
        except RankError:
            if found is None:
                raise
            break
        if found is not None and [node.rank for node in plan.nodes] != [node.rank for node in found.nodes]:
            break
        found = plan
        if hats ** max(len(set(own).intersection(group)) for group in plan.groups()) <= DENSE_CELLS:
            break
    assert found is not None
    for message in found.short:
        notice(message)
    return found


def with_numbers(graph: LatentGraph, numbers: Sequence[str], states: int = 1) -> LatentGraph:
    """Return a graph in which columns of numbers have so many states."""
    return graph.derived(_with_numbers, tuple(numbers), states)


def _with_numbers(graph: LatentGraph, numbers: tuple[str, ...], states: int) -> LatentGraph:
    return graph.with_states(dict.fromkeys(numbers, states))
