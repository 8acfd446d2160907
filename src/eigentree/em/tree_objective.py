"""The objective of rows under a tree of tables, for rows that are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import margins
from eigentree.em.optimize.objective import Objective

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.arrays import Floats, Integers
    from eigentree.em.constraints import ConstrainedLayout
    from eigentree.em.estep.expectation import CodedRows
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.optimize.objective import ExpectedCounts
    from eigentree.em.parameters import ParameterLayout
    from eigentree.graphs.graph import LatentGraph

__all__ = ["TreeObjective"]


@dataclass(frozen=True, eq=False)
class TreeObjective(Objective):
    """The objective of rows in memory: log-likelihood plus log prior.

    The M-step is the relative frequency of each expected count, for the CPTs of a directed graph and the clique
    conditionals (Eq. 6) of an undirected one alike. The user knows rows by their `numbers`. Single precision is
    enough for runs that end long before its last digits matter.
    """

    layout: ParameterLayout
    expectation: Expectation
    rows: CodedRows
    numbers: Integers
    prior: Floats
    threads: int
    single: bool = False

    @classmethod
    def of(
        cls,
        graph: LatentGraph,
        rows: DistinctRows,
        missing: Iterable[str],
        pseudo_counts: float,
        threads: int = 1,
        single: bool = False,
        constrained: ConstrainedLayout | None = None,
    ) -> TreeObjective:
        """Return the objective of rows on a graph, given the columns that may have missing cells."""
        expectation = Expectation.of(graph, missing, len(rows.codes))
        coded = expectation.coded(rows.codes, rows.weights, often=True)
        states = {name: graph.states[name] for name in graph.observed}
        layout = constrained or expectation.layout
        prior = layout.prior(margins(rows.codes, rows.weights, states), pseudo_counts)
        return cls(layout, expectation, coded, rows.first, prior, threads, single)

    @cached_property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.rows.weights.sum())

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts and the log-likelihood of all rows."""
        return self.expectation(parameters, self.rows, self.threads, self.single).numbered(self.numbers)

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the rows; -inf if one is impossible."""
        return self.expectation.log_likelihood(parameters, self.rows, self.threads, self.single)
