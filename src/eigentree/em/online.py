"""Stepwise online EM (Liang and Klein, 2009): a running average of expected counts, and the tables that follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from eigentree.em.annealing import own_counts
from eigentree.em.distinct import columns_with_gaps
from eigentree.em.expectation import Expectation
from eigentree.em.parameters import ParameterLayout
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.em.expectation import CodedRows
    from eigentree.exact.network import LatentNetwork
    from eigentree.structures.graph import LatentGraph

__all__ = ["Learner", "Lesson"]


class Lesson(NamedTuple):
    """What one mini-batch taught.

    Attributes
    ----------
    learner : Learner
    log_likelihood : float
        Of the rows, under the tables before.
    """

    learner: Learner
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class Learner:
    """All that stepwise EM knows; to learn makes a new one.

    Attributes
    ----------
    graph : LatentGraph
    stepsize : float
        Mini-batch k = 0, 1, … has the weight (k + 2) ** -stepsize.
    batch_size : int
    pseudo_counts : float
        Added to every expected count over all rows seen.
    threads : int
    parameters : (parameters,)
    average : (parameters,)
        Expected counts per row.
    missing : frozenset of str
        Columns that have had missing cells.
    batches, rows : int
        How many were learned from.
    """

    graph: LatentGraph
    stepsize: float
    batch_size: int
    pseudo_counts: float
    threads: int
    parameters: Floats
    average: Floats
    missing: frozenset[str] = frozenset()
    batches: int = 0
    rows: int = 0

    @classmethod
    def of(
        cls,
        graph: LatentGraph,
        start: LatentNetwork,
        stepsize: float,
        batch_size: int,
        pseudo_counts: float,
        threads: int,
    ) -> Learner:
        """Return a learner that has seen nothing but its start."""
        parameters = ParameterLayout.of(graph).vector(start)
        average = own_counts(graph, parameters)
        return cls(graph, stepsize, batch_size, pseudo_counts, threads, parameters, average)

    @property
    def network(self) -> LatentNetwork:
        """The tables so far."""
        return ParameterLayout.of(self.graph).network(self.parameters)

    def lessons(self, codes: Codes, weights: Floats, numbers: Integers) -> Iterator[Lesson]:
        """Yield what each mini-batch of rows teaches, one after the other.

        Parameters
        ----------
        codes : (rows, columns)
        weights : (rows,)
        numbers : (rows,)
            By which the user knows the rows.

        Raises
        ------
        DataError
            When a row has probability zero under the tables before its mini-batch.
        """
        learner = replace(self, missing=self.missing | columns_with_gaps(codes, self.graph))
        expectation = Expectation.of(self.graph, learner.missing, self.batch_size)
        coded = expectation.coded(codes, weights)
        for first in range(0, len(codes), self.batch_size):
            rows = expectation.part(coded, first, first + self.batch_size)
            lesson = learner._lesson(expectation, rows, numbers[first:])
            learner = lesson.learner
            yield lesson

    def _lesson(self, expectation: Expectation, rows: CodedRows, numbers: Integers) -> Lesson:
        counts, log_likelihood, impossible = expectation(self.parameters, rows, self.threads)
        if impossible >= 0:
            raise DataError(
                f"row {numbers[impossible]} has probability zero under the tables so far; "
                f"give pseudo_counts, or an init whose tables have no zeros there"
            )
        layout, size = expectation.layout, len(rows.weights)
        # The start counts as a row of the first mini-batch's usual weight.
        before = self.average if self.batches else self.average * rows.weights.mean()
        step = (self.batches + 2) ** -self.stepsize
        average = (1 - step) * before + step * counts / size
        prior = self.pseudo_counts / (self.rows + size) * layout.learned
        learner = replace(
            self,
            parameters=layout.normalised(average + prior, self.parameters),
            average=average,
            batches=self.batches + 1,
            rows=self.rows + size,
        )
        return Lesson(learner, log_likelihood)
