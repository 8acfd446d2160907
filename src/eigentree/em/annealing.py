"""Annealed EM: many short steps on batches of the rows, each smaller than the one before.

A running average of expected counts follows the batches (Liang and Klein, 2009), fast at first and slowly at the
end. Where tables are many, ten passes lead about as far as forty to eighty accelerated steps on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.expectation import CodedRows, Expectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats
    from eigentree.em.tree_objective import TreeObjective
    from eigentree.structures.graph import LatentGraph

__all__ = ["Batches", "Pass", "Schedule", "annealed", "own_counts"]


class Schedule(NamedTuple):
    """How annealing goes.

    Attributes
    ----------
    passes : int
        How often all rows are gone through.
    first, last : float
        What the first and the last batch weigh beside all before them; the weight falls by one share each time.
    """

    passes: int
    first: float
    last: float


class Pass(NamedTuple):
    """Where one pass over the rows has led.

    Attributes
    ----------
    parameters : (parameters,)
    log_likelihood : float
        Of all rows, those of each batch under the tables just before it.
    """

    parameters: Floats
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class Batches:
    """The rows of a problem, dealt out at random into batches of about the same weight.

    Attributes
    ----------
    problem : TreeObjective
    parts : tuple of CodedRows
        A row that would weigh more than a batch is in each of them, with its share.
    """

    problem: TreeObjective
    parts: tuple[CodedRows, ...]

    @classmethod
    def of(cls, problem: TreeObjective, size: int, random: np.random.Generator) -> Batches:
        """Return batches of about so many rows that differ."""
        rows = problem.rows
        count = max(1, round(len(rows.weights) / size))
        heavy = rows.weights > rows.weights.sum() / count
        everywhere = np.flatnonzero(heavy)
        dealt = np.array_split(random.permutation(np.flatnonzero(~heavy)), count)
        places = [np.concatenate([everywhere, own]) for own in dealt]
        weights = np.where(heavy, rows.weights / count, rows.weights)
        order = np.concatenate(places)
        mixed = CodedRows(np.ascontiguousarray(rows.codes[:, order]), weights[order], rows.line_weights)
        ends = np.cumsum([0, *(len(part) for part in places)]).tolist()
        bounds = sorted(set(ends))
        return cls(problem, tuple(problem.expectation.batches_of(mixed, bounds, problem.threads)))


def annealed(batches: Batches, start: Floats, schedule: Schedule, random: np.random.Generator) -> Iterator[Pass]:
    """Yield where each pass leads.

    Parameters
    ----------
    batches : Batches
    start : (parameters,)
    schedule : Schedule
    random : Generator
        The order of the batches, another one in each pass.
    """
    problem = batches.problem
    layout, weight = problem.layout, problem.weight
    parameters = start
    average = own_counts(layout.graph, start) * weight
    cooling = (schedule.last / schedule.first) ** (1.0 / (schedule.passes * len(batches.parts)))
    step = schedule.first
    for _ in range(schedule.passes):
        log_likelihood = 0.0
        for place in random.permutation(len(batches.parts)).tolist():
            part = batches.parts[place]
            found = problem.expectation(parameters, part, problem.threads, problem.single)
            average += step * (found.counts * (weight / part.weights.sum()) - average)
            parameters = layout.normalised(average + problem.prior, parameters)
            log_likelihood += found.log_likelihood
            step *= cooling
        yield Pass(parameters, log_likelihood)


def own_counts(graph: LatentGraph, parameters: Floats) -> Floats:
    """Return what parameters themselves expect of a row of which nothing is known.

    An average that begins with it rules out no state because the first rows lack it.
    """
    nothing = np.array([[graph.states[name] for name in graph.observed]])
    expectation = Expectation.of(graph, graph.observed, 1)
    return expectation(parameters, expectation.coded(nothing, np.ones(1))).counts
