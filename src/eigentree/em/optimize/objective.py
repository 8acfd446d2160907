"""What EM maximises, for trees and for chains alike: an `Objective` over one `SimplexVector` of all tables."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["Evaluation", "ExpectedCounts", "Objective", "SimplexVector"]


class SimplexVector(ABC):
    """The layout of several conditional probability tables as one vector: one distribution after another."""

    @property
    @abstractmethod
    def lengths(self) -> Integers:
        """The number of entries of each distribution."""

    @property
    @abstractmethod
    def learned(self) -> Booleans:
        """Which entries are learned; the others keep the values of the start."""

    @property
    def possible(self) -> Booleans | np.bool_:
        """Which entries may be positive."""
        return np.True_

    @cached_property
    def _first(self) -> Integers:
        """Where each distribution starts."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def uniform(self) -> Floats:
        """The vector whose distributions are uniform over their possible entries."""
        possible = np.broadcast_to(self.possible, self.learned.shape).astype(np.float64)
        uniform: Floats = possible / self.totals(possible)
        return uniform

    @cached_property
    def learned_count(self) -> int:
        """The number of entries that are learned."""
        return int((self.learned & self.possible).sum())

    @cached_property
    def free_count(self) -> int:
        """The number of free parameters: of each distribution that is learned one entry follows from the others."""
        return self.learned_count - int(self.learned[self._first].sum())

    def totals(self, counts: Floats) -> Floats:
        """Return, for each entry, the sum over its distribution (along the last axis)."""
        return np.repeat(np.add.reduceat(counts, self._first, axis=-1), self.lengths, axis=-1)

    def normalised(self, counts: Floats, fallback: Floats) -> Floats:
        """Return relative frequencies, and the fallback's distribution where there are no counts."""
        totals = self.totals(counts)
        if (totals > 0).all():
            return np.asarray(counts / totals)
        frequencies: Floats = np.divide(counts, totals, out=fallback.copy(), where=totals > 0)
        return frequencies

    @property
    def table_layout(self) -> SimplexVector:
        """Where each entry of the tables stands, if other parameters follow these."""
        return self

    @property
    def estimated(self) -> Booleans:
        """Which entries of the tables are estimated: learned, possible, and not known from other parameters."""
        own = self.table_layout
        return np.asarray(own.learned & own.possible)

    def projected(self, parameters: Floats) -> Floats:
        """Return the parameters that satisfy constraints on the tables, and are near to some that need not."""
        return parameters

    def mixed(self, parameters: Floats, share: float) -> Floats:
        """Return parameters whose learned distributions are mixed with a share of the uniform one."""
        return np.where(self.learned, (1.0 - share) * parameters + share * self.uniform, parameters)


class ExpectedCounts(NamedTuple):
    """The expected sufficient statistics of data: how often each entry of the tables is expected to have been used.

    A row or sequence that is impossible is named by its number, else -1 stands there; the log-likelihood is then
    -inf.
    """

    counts: Floats
    log_likelihood: float
    impossible: int

    def numbered(self, numbers: Integers) -> ExpectedCounts:
        """Return them with the number by which the user knows an impossible row."""
        return self if self.impossible < 0 else self._replace(impossible=int(numbers[self.impossible]))

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:  # type: ignore[override]
        """Return those of both data sets together; of several that are impossible the first is named."""
        numbers = [part.impossible for part in (self, other) if part.impossible >= 0]
        return ExpectedCounts(
            self.counts + other.counts, self.log_likelihood + other.log_likelihood, min(numbers, default=-1)
        )


class Evaluation(NamedTuple):
    """One E-step and one M-step from some parameters: their objective, and the parameters after the iteration.

    `totals` has the expected count of the distribution that each entry belongs to, pseudo-counts included. If a row
    or sequence is impossible, `impossible` is its number and the objective -inf; else it is -1.
    """

    parameters: Floats
    update: Floats
    totals: Floats
    objective: float
    impossible: int


class Objective(ABC):
    """The log-likelihood of data plus the log density of a Dirichlet prior: log entries times pseudo-counts."""

    layout: SimplexVector
    """Where each parameter stands in one vector."""

    prior: Floats

    is_accelerable: ClassVar[bool] = True
    """Whether all parameters are entries of distributions, which quasi-Newton steps are made for."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """The total weight of the data, in rows or in steps of sequences: gains are judged per unit of it."""

    @abstractmethod
    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts of the tables and the log-likelihood of the data."""

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> tuple[ExpectedCounts, list[Any]]:
        """Return expected counts of the tables' entries, and statistics of emissions: the E-step.

        Emissions, or what stands in their place, need only have `states`, `lines` and `statistics`.
        """
        return self.counted(tables), []

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the data; -inf if a row or sequence is impossible."""
        return self.counted(parameters).log_likelihood

    def value_and_gradient(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient (Fisher's identity), zero where an entry is zero or not learned."""
        here = self.evaluated(parameters)
        used = self.layout.learned & (parameters > 0)
        expected = here.update * here.totals
        return here.objective, np.divide(expected, parameters, out=np.zeros_like(parameters), where=used)

    def parted(self, parameters: Floats) -> tuple[Floats, tuple[Any, ...]]:
        """Return the tables of a vector of parameters, end to end, and the emissions: what else is maximised."""
        return parameters, ()

    def whole(self, tables: Floats, emissions: Sequence[Any]) -> Floats:
        """Return the vector of tables and emissions."""
        return tables

    def em_update(self, parameters: Floats) -> Floats:
        """Return the parameters after one EM iteration."""
        return self.evaluated(parameters).update

    def evaluated(self, parameters: Floats) -> Evaluation:
        """Return the objective of some parameters and the EM iteration from them, by one pass over the data."""
        layout = self.layout.table_layout
        tables, emissions = self.parted(parameters)
        (counts, objective, impossible), statistics = self.expected_parts(tables, emissions)
        if self._has_prior.any():
            objective += self.log_prior(tables)
            counts = counts + self.prior[: len(tables)]
        objective += sum(emission.log_prior() for emission in emissions)
        if not layout.learned.all():
            counts = np.where(layout.learned, counts, 0.0)
        if impossible < 0:
            pairs = zip(emissions, statistics, strict=True)
            emissions = tuple(emission.maximised(own) for emission, own in pairs)
        update = self.whole(layout.normalised(counts, tables), emissions)
        # No parameter of an emission belongs to a distribution that was counted.
        totals = np.pad(layout.totals(counts), (0, len(update) - len(counts)))
        return Evaluation(parameters, update, totals, objective, impossible)

    @cached_property
    def _has_prior(self) -> Booleans:
        return np.asarray(self.prior[: len(self.layout.table_layout.learned)] > 0)

    def log_prior(self, tables: Floats) -> float:
        """Return what the prior of the tables adds to the log-likelihood; -inf if a pseudo-count is at a zero."""
        own = tables[self._has_prior]
        if not own.min(initial=1.0) > 0:
            return -math.inf
        return float(self.prior[: len(tables)][self._has_prior] @ np.log(own))
