"""What EM maximises for a hidden chain: all tables as one vector, and expected counts over ragged sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from eigentree.em.optimize.objective import ExpectedCounts, Objective, SimplexVector
from eigentree.inference.sequences.sequence_passes import marginal_chains, product_chain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.inference.sequences.sequence_passes import SequencePass

__all__ = ["ChainLayout", "ChainObjective"]

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class ChainLayout(SimplexVector):
    """Where each parameter of hidden chains stands in one vector: links, chain by chain, then emissions.

    Several chains move on independently of each other, and what is shown depends on the states of all: they are one
    chain whose states are theirs together, and whose links are products of theirs. What is expected of a product is
    expected of each factor, so that counts of the one chain add up to those of each.

    Attributes
    ----------
    sizes : tuple of int
        Numbers of states of each chain.
    order : int
    channels : tuple of int
        Numbers of states of the channels.
    allowed : tuple of array of bool, shape (states, states)
        Which state may follow which, in each chain.
    starts : tuple of array, shape (states,)
        The distribution of the first state of each chain, where it is given and not learned.
    """

    sizes: tuple[int, ...]
    order: int
    channels: tuple[int, ...]
    allowed: tuple[Booleans, ...]
    starts: tuple[Floats, ...] = ()

    @cached_property
    def states(self) -> int:
        """How many states all chains have together."""
        return math.prod(self.sizes)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each table that is learned."""
        links = [(size,) * (earlier + 1) for size in self.sizes for earlier in range(self.order + 1)]
        return links + [(self.states, count) for count in self.channels]

    @cached_property
    def _spans(self) -> list[tuple[slice, tuple[int, ...]]]:
        """Where each table stands in a vector, and its shape."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()
        return [(slice(end - math.prod(shape), end), shape) for end, shape in zip(ends, self.shapes, strict=True)]

    @cached_property
    def possible(self) -> Booleans:
        """Which parameters may be positive."""
        chains, emissions = self.parts(np.ones(self._spans[-1][0].stop, np.bool_))
        links = [
            table & allowed if table.ndim > 1 else table
            for chain, allowed in zip(chains, self.allowed, strict=True)
            for table in chain
        ]
        return np.concatenate([table.ravel() for table in (*links, *emissions)])

    @cached_property
    def learned(self) -> Booleans:
        """Which parameters are learned."""
        learned = np.ones(len(self.possible), np.bool_)
        if self.starts:
            for chain in self.parts(learned)[0]:
                chain[0][:] = False
        return learned

    @cached_property
    def lengths(self) -> Integers:
        """The number of entries of each distribution."""
        counts = [(math.prod(shape[:-1]), shape[-1]) for shape in self.shapes]
        return np.concatenate([np.full(lines, length) for lines, length in counts])

    def joined(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return counts of all chains together as one vector of counts of each chain."""
        split = [marginal_chains(table, self.sizes) for table in links]
        chains = [table[place] for place in range(len(self.sizes)) for table in split]
        return np.concatenate([np.ravel(table) for table in (*chains, *emissions)])

    def vector(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return tables of all chains together as one vector, what is not allowed or learned as it must be.

        Links that are no products become what they are to each chain by itself, the others being evenly likely.
        """
        return self.settled(self.joined(links, emissions))

    def settled(self, joined: Floats) -> Floats:
        """Return a vector of normalised distributions, with what is not allowed or learned as it must be."""
        joined = joined.copy()
        for chain, start in zip(self.parts(joined)[0], self.starts, strict=False):
            chain[0][:] = start
        return self.normalised(np.where(self.possible, joined, 0.0), self.uniform)

    def parts(self, vector: NDArray[Scalar]) -> tuple[list[list[NDArray[Scalar]]], list[NDArray[Scalar]]]:
        """Return the links of each chain and the emissions of a vector."""
        tables = [vector[span].reshape(shape) for span, shape in self._spans]
        each, links = self.order + 1, len(self.sizes) * (self.order + 1)
        return [tables[first : first + each] for first in range(0, links, each)], tables[links:]

    def tables(self, vector: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return the links of all chains together, and the emissions, of a vector."""
        chains, emissions = self.parts(vector)
        return [product_chain(tables) for tables in zip(*chains, strict=True)], emissions

    def prior(self, pseudo_counts: float, sticky: float) -> Floats:
        """Return the pseudo-count of each parameter; `sticky` are more for staying in a state."""
        prior = np.where(self.possible & self.learned, pseudo_counts, 0.0)
        for chain, allowed in zip(self.parts(prior)[0], self.allowed, strict=True):
            for table in chain[1:]:
                table += sticky * (np.eye(len(allowed), dtype=np.bool_) & allowed)
        return prior


@dataclass(frozen=True, eq=False)
class ChainObjective(Objective):
    """The objective of sequences under a hidden chain: log-likelihood plus log prior.

    Attributes
    ----------
    chain : ChainLayout
    walk : SequencePass
    prior : array, shape (parameters,)
        The pseudo-count of each parameter.
    """

    chain: ChainLayout
    walk: SequencePass
    prior: Floats

    @property
    def layout(self) -> ChainLayout:
        """Where each parameter stands."""
        return self.chain

    @cached_property
    def weight(self) -> float:
        """The number of steps of all sequences, by weight: gains are judged per step."""
        return float(self.walk.weights @ np.diff(self.walk.starts))

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the sequences; -inf if one is impossible."""
        return self._sum(self.walk.log_prob(*self.layout.tables(parameters)))

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts and the log-likelihood of all sequences."""
        links, emissions, log_prob = self.walk.counts(*self.layout.tables(parameters))
        log_likelihood, impossible = self._sum(log_prob), -1
        if log_likelihood == -math.inf:
            impossible = int(np.flatnonzero(np.isneginf(log_prob) & (self.walk.weights > 0))[0])
        return ExpectedCounts(self.layout.joined(links, emissions), log_likelihood, impossible)

    def _sum(self, log_prob: Floats) -> float:
        return float(self.walk.weights[self._counted] @ log_prob[self._counted])

    @cached_property
    def _counted(self) -> Integers:
        """The sequences that count, in the order in which they are added up."""
        order = self.walk.order if self.walk.order is not None else np.arange(len(self.walk.weights))
        return order[self.walk.weights[order] > 0]
