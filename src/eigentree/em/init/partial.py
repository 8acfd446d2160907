"""Starts from tables that are partly known: EM learns the others while the known ones are kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.init.classes import FLOOR, random_start
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eigentree.arrays import Booleans, Floats
    from eigentree.em.tree_objective import TreeObjective
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["completed"]


def completed(
    problem: TreeObjective,
    known: Mapping[TableKey, Floats],
    random: np.random.Generator,
    starts: int = 3,
    steps: int = 15,
) -> Floats:
    """Return parameters with the known tables, and the others as plain EM iterations leave them.

    Of several random starts for the unknown tables, the one with the highest objective is kept.

    Parameters
    ----------
    problem : TreeObjective
        A few thousand rows suffice.
    known : mapping of TableKey to array
        Axes as in `ParameterLayout.axes`.
    random : Generator
    starts, steps : int

    Raises
    ------
    DataError
        When a table is known of something that the graph has no table of, or in another shape.
    """
    layout = problem.layout
    given, frozen = np.zeros(layout.size), np.zeros(layout.size, np.bool_)
    for key, table in known.items():
        if layout.shapes.get(key) != table.shape:
            raise DataError(f"there is no table of {key} with the shape {table.shape} on this graph")
        place = slice(layout.starts[key], layout.starts[key] + table.size)
        given[place], frozen[place] = table.ravel(), True
    if frozen[layout.learned].all():
        starts, steps = 1, 0
    best, highest = given, -math.inf
    for seed in random.spawn(starts):
        unknown = random_start(layout, seed)
        start = layout.mixed(np.where(frozen, given, unknown), FLOOR)
        for parameters, objective in _iterated(problem, start, ~frozen, steps):
            if objective > highest or best is given:
                best, highest = parameters, objective
    return best


def _iterated(problem: TreeObjective, start: Floats, free: Booleans, steps: int) -> Iterator[tuple[Floats, float]]:
    """Yield the start and plain EM iterations of the free parameters, each with its objective."""
    here = problem.evaluated(start)
    yield start, here.objective
    for _ in range(steps):
        here = problem.evaluated(np.where(free, here.update, start))
        yield here.parameters, here.objective
