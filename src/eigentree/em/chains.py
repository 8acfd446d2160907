"""What EM maximises for a hidden chain: all tables as one vector, and expected counts over ragged sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.climbing import Evaluation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.engine.sequence_passes import SequencePass

__all__ = ["ChainLayout", "ChainProblem"]


@dataclass(frozen=True, eq=False)
class ChainLayout:
    """Where each parameter of a chain stands in one vector: links, then emissions.

    Attributes
    ----------
    states : int
        Of the hidden variable.
    order : int
    channels : tuple of int
        Numbers of states of the channels.
    allowed : array of bool, shape (states, states)
        Which state may follow which.
    start : array, shape (states,), optional
        The distribution of the first state, where it is given and not learned.
    """

    states: int
    order: int
    channels: tuple[int, ...]
    allowed: Booleans
    start: Floats | None = None

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each table."""
        links = [(self.states,) * (earlier + 1) for earlier in range(self.order + 1)]
        return links + [(self.states, count) for count in self.channels]

    @cached_property
    def possible(self) -> Booleans:
        """Which parameters may be positive."""
        parts = []
        for place, shape in enumerate(self.shapes):
            link = 0 < place <= self.order
            parts.append(np.broadcast_to(self.allowed if link else True, shape).ravel())
        return np.concatenate(parts)

    @cached_property
    def learned(self) -> Booleans:
        """Which parameters are learned."""
        learned = np.ones(len(self.possible), np.bool_)
        if self.start is not None:
            learned[: self.states] = False
        return learned

    @cached_property
    def n_parameters(self) -> int:
        """How many parameters are free."""
        entries = int((self.possible & self.learned).sum())
        return entries - int(self.learned[self._first].sum())

    @cached_property
    def _lengths(self) -> Integers:
        counts = [(math.prod(shape[:-1]), shape[-1]) for shape in self.shapes]
        return np.concatenate([np.full(lines, length) for lines, length in counts])

    @cached_property
    def _first(self) -> Integers:
        return np.cumsum(self._lengths) - self._lengths

    def totals(self, counts: Floats) -> Floats:
        """Return, for each parameter, what the counts of its distribution add up to."""
        return np.repeat(np.add.reduceat(counts, self._first), self._lengths)

    def normalised(self, counts: Floats, fallback: Floats) -> Floats:
        """Return relative frequencies, and the fallback's where there are no counts, or nothing is learned."""
        totals = self.totals(counts)
        frequencies: Floats = np.divide(counts, totals, out=fallback.copy(), where=(totals > 0) & self.learned)
        return frequencies

    def vector(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return tables as one vector, with what is not allowed or not learned as it must be."""
        joined = np.concatenate([np.ravel(table) for table in (*links, *emissions)])
        if self.start is not None:
            joined[: self.states] = self.start
        even = self.possible / self.totals(self.possible.astype(np.float64))
        kept: Floats = np.where(self.possible, joined, 0.0)
        totals = self.totals(kept)
        return np.divide(kept, totals, out=even, where=totals > 0)

    def softened(self, vector: Floats, share: float) -> Floats:
        """Return a vector with a share of even distributions mixed in: steps hardly lead away from zero."""
        even = self.possible / self.totals(self.possible.astype(np.float64))
        return np.where(self.learned, (1.0 - share) * vector + share * even, vector)

    def tables(self, vector: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return the links and the emissions of a vector."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = np.split(vector, ends[:-1])
        tables = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return tables[: self.order + 1], tables[self.order + 1 :]

    def prior(self, pseudo_counts: float, sticky: float) -> Floats:
        """Return the pseudo-count of each parameter; `sticky` are more for staying in a state."""
        links, emissions = self.tables(np.where(self.possible & self.learned, pseudo_counts, 0.0))
        staying = np.eye(self.states, dtype=np.bool_) & self.allowed
        added = [links[0], *(table + sticky * staying for table in links[1:])]
        return np.concatenate([table.ravel() for table in (*added, *emissions)])


@dataclass(frozen=True, eq=False)
class ChainProblem:
    """What a climb maximises: the log-likelihood of sequences, plus each log parameter times its pseudo-count.

    Attributes
    ----------
    layout : ChainLayout
    walk : SequencePass
    prior : array, shape (parameters,)
        The pseudo-count of each parameter.
    """

    layout: ChainLayout
    walk: SequencePass
    prior: Floats

    @cached_property
    def weight(self) -> float:
        """How many steps all sequences have, by weight: gains are judged by the step."""
        return float(self.walk.weights @ np.diff(self.walk.starts))

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the sequences; -inf if one is impossible."""
        return self._sum(self.walk.log_prob(*self.layout.tables(parameters)))

    def log_prior(self, parameters: Floats) -> float:
        """Return what pseudo-counts add to the log-likelihood; -inf if one stands at a parameter of zero."""
        own = self.prior > 0
        if not parameters[own].min(initial=1.0) > 0:
            return -math.inf
        return float(self.prior[own] @ np.log(parameters[own]))

    def evaluated(self, parameters: Floats) -> Evaluation:
        """Return the objective of some parameters, and the EM step from them."""
        links, emissions, log_prob = self.walk.counts(*self.layout.tables(parameters))
        counts = np.concatenate([table.ravel() for table in (*links, *emissions)]) + self.prior
        objective = self._sum(log_prob) + self.log_prior(parameters)
        lost = np.flatnonzero(np.isneginf(log_prob) & (self.walk.weights > 0))
        return Evaluation(
            parameters,
            self.layout.normalised(counts, parameters),
            self.layout.totals(counts),
            objective,
            int(lost[0]) if len(lost) else -1,
        )

    def _sum(self, log_prob: Floats) -> float:
        order = self.walk.order
        if order is None:
            order = np.arange(len(log_prob))
        weights = self.walk.weights[order]
        used = weights > 0
        return float(weights[used] @ log_prob[order][used])
