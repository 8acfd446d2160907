"""Stepwise EM (Liang and Klein, 2009): a running average of expected counts over mini-batches of rows.

Mini-batch k = 0, 1, … has the weight (k + 2) ** -stepsize in the average, and the tables follow after each. The
rows of `OnlineEMJunctionTree` come one mini-batch after another (`Learner`); those of a search are passed several
times (`stepwise_passes`), where ten passes lead about as far as 40 to 80 L-BFGS iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from eigentree.em.estep.expectation import CodedRows, Expectation
from eigentree.em.estep.unique_rows import columns_with_missing
from eigentree.em.parameters import ParameterLayout
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.em.tree_objective import TreeObjective
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["Learner", "RunningAverage", "batches_of", "stepwise_passes"]


@dataclass(frozen=True, eq=False)
class RunningAverage:
    """The state of stepwise EM: the average of expected counts per row, or unit of weight, over mini-batches."""

    graph: LatentGraph
    stepsize: float
    parameters: Floats
    average: Floats
    batches: int = 0

    @classmethod
    def of(cls, graph: LatentGraph, parameters: Floats, stepsize: float) -> Self:
        """Return the average that starts with the counts that the parameters expect of a row without any cell.

        An average that starts with them rules out no state because the first rows lack it.
        """
        empty = np.array([[graph.states[name] for name in graph.observed]])
        expectation = Expectation.of(graph, graph.observed, 1)
        counts = expectation(parameters, expectation.coded(empty, np.ones(1))).counts
        return cls(graph, stepsize, parameters, counts)

    def after(self, counts: Floats, prior: Floats) -> Self:
        """Return the state after a mini-batch, given its expected counts and pseudo-counts, both per row."""
        step = (self.batches + 2) ** -self.stepsize
        average = (1.0 - step) * self.average + step * counts
        parameters = ParameterLayout.of(self.graph).normalised(average + prior, self.parameters)
        return replace(self, parameters=parameters, average=average, batches=self.batches + 1)


def batches_of(objective: TreeObjective, count: int, random: np.random.Generator) -> Sequence[CodedRows]:
    """Return the rows of an objective in random mini-batches of about equal weight.

    A row that weighs more than a mini-batch is in each of them, with its share.
    """
    rows = objective.rows
    heavy = rows.weights > rows.weights.sum() / count
    everywhere = np.flatnonzero(heavy)
    others = np.array_split(random.permutation(np.flatnonzero(~heavy)), count)
    places = [np.concatenate([everywhere, own]) for own in others]
    order = np.concatenate(places)
    weights = np.where(heavy, rows.weights / count, rows.weights)[order]
    shuffled = CodedRows(np.ascontiguousarray(rows.codes[:, order]), weights, rows.line_weights)
    bounds = sorted({0, *np.cumsum([len(part) for part in places]).tolist()})
    return objective.expectation.batches_of(shuffled, bounds, often=True)


def stepwise_passes(
    objective: TreeObjective, start: Floats, stepsize: float, passes: int, count: int, random: np.random.Generator
) -> Iterator[tuple[Floats, float]]:
    """Yield, after each pass over the rows, the parameters and the log-likelihood.

    The log-likelihood is that of each of `count` mini-batches under the parameters just before it. Rows are dealt
    out at random, and the mini-batches come in another order in each pass.
    """
    batches = batches_of(objective, count, random)
    state = RunningAverage.of(objective.layout.graph, start, stepsize)
    prior = objective.prior / objective.weight
    for _ in range(passes):
        log_likelihood = 0.0
        for place in random.permutation(len(batches)).tolist():
            rows = batches[place]
            found = objective.expectation(state.parameters, rows, objective.threads, objective.single)
            state = state.after(found.counts / rows.weights.sum(), prior)
            log_likelihood += found.log_likelihood
        yield state.parameters, log_likelihood


@dataclass(frozen=True, eq=False)
class Learner(RunningAverage):
    """Stepwise EM on rows that come one mini-batch after another.

    Pseudo-counts are added to every expected count over all rows seen, `rows` so far; the columns in `missing` have
    had missing cells.
    """

    batch_size: int = 1
    pseudo_counts: float = 0.0
    threads: int = 1
    missing: frozenset[str] = frozenset()
    rows: int = 0

    @property
    def network(self) -> LatentNetwork:
        """The tables so far."""
        return ParameterLayout.of(self.graph).network(self.parameters)

    def updates(self, codes: Codes, weights: Floats, numbers: Integers) -> Iterator[tuple[Learner, float]]:
        """Yield the state after each mini-batch, and the log-likelihood of its rows under the tables before.

        The user knows rows by their `numbers`. Raises `DataError` when one has probability zero under the tables
        before its mini-batch.
        """
        learner = replace(self, missing=self.missing | columns_with_missing(codes, self.graph))
        expectation = Expectation.of(self.graph, learner.missing, self.batch_size)
        coded = expectation.coded(codes, weights)
        for first in range(0, len(codes), self.batch_size):
            rows = expectation.part(coded, first, first + self.batch_size)
            found = expectation(learner.parameters, rows, self.threads)
            if found.impossible >= 0:
                raise DataError(
                    f"row {numbers[first + found.impossible]} has probability zero under the tables so far; "
                    f"give pseudo_counts, or an init whose tables have no zeros there"
                )
            learner = learner._seen(found.counts, rows.weights, expectation.layout)
            yield learner, found.log_likelihood

    def _seen(self, counts: Floats, weights: Floats, layout: ParameterLayout) -> Learner:
        seen = self.rows + len(weights)
        # The start counts as a row of the first mini-batch's mean weight.
        before = self if self.batches else replace(self, average=self.average * float(weights.mean()))
        after = before.after(counts / len(weights), self.pseudo_counts / seen * layout.learned.astype(float))
        return replace(after, rows=seen)
