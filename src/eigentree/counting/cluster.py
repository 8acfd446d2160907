"""What is learned of rows that lie in partitions of a cluster: each partition is counted where it lies.

What travels is the plan to the workers, and looks, counts and pair counts back, added up on the way: a few megabytes at
most, however many rows there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.counting.pairs import PairCounts
from eigentree.counting.statistics import Statistics
from eigentree.data.looking import Look

if TYPE_CHECKING:
    from collections.abc import Collection

    from eigentree.data.columns import Columns
    from eigentree.data.partitions import Partitions
    from eigentree.planning.views import ViewPlan

__all__ = ["looked_at", "pairs_counted", "statistics_counted"]


def looked_at(partitions: Partitions, weight: str | None = None, skip: Collection[str] = ()) -> Look:
    """Return the look at the columns of all partitions, but for those to skip and that of weights."""
    return partitions.reduced(_look, weight, tuple(skip))


def statistics_counted(
    partitions: Partitions, plan: ViewPlan, columns: Columns, weight: str | None = None
) -> Statistics:
    """Return the statistics that a plan asks for, of the rows of all partitions; `weight` names a column."""
    return partitions.reduced(_statistics, plan, columns, weight)


def pairs_counted(partitions: Partitions, columns: Columns, weight: str | None = None) -> PairCounts:
    """Return the pair counts of the rows of all partitions; `weight` names a column."""
    return partitions.reduced(_pairs, columns, weight)


def _look(frame: Any, weight: str | None, skip: Collection[str]) -> Look:
    rows, weights = _apart(frame, weight)
    return Look.of(rows, weights, skip)


def _statistics(frame: Any, plan: ViewPlan, columns: Columns, weight: str | None) -> Statistics:
    empty = Statistics.empty(plan, columns)
    return empty.update(*_apart(frame, weight)) if len(frame) else empty


def _pairs(frame: Any, columns: Columns, weight: str | None) -> PairCounts:
    empty = PairCounts.empty(columns)
    return empty.update(*_apart(frame, weight)) if len(frame) else empty


def _apart(frame: Any, weight: str | None) -> tuple[Any, Any]:
    """Return a frame without its column of weights, and these."""
    if weight is None:
        return frame, None
    return frame.drop(columns=weight), frame[weight].to_numpy()
