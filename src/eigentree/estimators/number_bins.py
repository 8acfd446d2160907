"""Numbers of a network as bins, for mutual information, and their distribution in hidden states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.data.tables.numbers import Numbers
from eigentree.emissions.base import StackedEmission
from eigentree.emissions.full import FullGaussian
from eigentree.inference.mixed.density import ConditionalDensity
from eigentree.inference.mixed.mixed_network import MixedNetwork
from eigentree.inference.networks.network import LatentNetwork
from eigentree.markup.html import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eigentree.arrays import Floats
    from eigentree.data.tables.labels import Meaning
    from eigentree.emissions.base import Emission

__all__ = [
    "BINS",
    "NumberGroup",
    "NumberLeaf",
    "NumberProfile",
    "binned",
    "normal_parts",
    "number_leaves",
    "shown_number",
    "shown_spread",
    "with_parents",
]

BINS = 32
"""Bins of about equal probability: two normal numbers of correlation 0.9 keep 96 % of their information."""

FINE = 4
"""Parts of each bin, at whose middles the distribution of another number of the same group is taken."""

REACH, POINTS = 4.0, 33
"""A state's distribution is first evaluated up to so many standard deviations from its mean, at so many points."""

DIGITS = 4
"""Digits of a mean that are shown; of a standard deviation one less."""

PASSES = 5
"""How often quantiles are interpolated and the distribution is evaluated there: bins need not be exactly equal."""


@dataclass(frozen=True, eq=False)
class NumberGroup:
    """Numbers of a network that share an emission.

    Attributes
    ----------
    names : tuple of str
    emission : Emission
        Its states are the joint states of the parents.
    shares : array, shape (states of the emission,)
        Their probabilities.
    """

    names: tuple[str, ...]
    emission: Emission
    shares: Floats

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each number in each state, shape (states, numbers)."""
        means, variances = self.emission.moments(np.full((1, len(self.names)), np.nan))
        return means[0], variances[0]

    def bins(self, edges: Floats) -> Floats:
        """Return P(bin | state), shape (bins, states, numbers), given edges of shape (edges, numbers)."""
        return _between(self._below(edges))

    def _below(self, values: Floats) -> Floats:
        found: Floats = self.emission.cdf(values, np.full_like(values, np.nan))
        return found

    @cached_property
    def quantiles(self) -> Floats:
        """The quantiles that cut bins, and parts of bins, into halves, shape (quantiles, numbers)."""
        means, variances = self.moments
        spread = np.linspace(-REACH, REACH, POINTS)[:, None, None] * np.sqrt(variances)
        shares = np.arange(1, 2 * FINE * BINS) / (2 * FINE * BINS)
        found = (means + spread).reshape(-1, len(self.names))
        points, below = np.zeros((0, len(self.names))), np.zeros((0, len(self.names)))
        for _ in range(PASSES):
            points = np.concatenate([points, found])
            below = np.concatenate([below, np.einsum("nsj,s->nj", self._below(found), self.shares)])
            order = np.lexsort((below, points), axis=0)
            points, below = np.take_along_axis(points, order, 0), np.take_along_axis(below, order, 0)
            found = np.stack([np.interp(shares, *each) for each in zip(below.T, points.T, strict=True)], axis=1)
        return found

    @property
    def edges(self) -> Floats:
        """The numbers between bins of about equal probability, shape (edges, numbers)."""
        return self.quantiles[2 * FINE - 1 :: 2 * FINE]

    @cached_property
    def tables(self) -> Floats:
        """P(bin | state) of these bins, shape (bins, states, numbers)."""
        return self.bins(self.edges)

    def pairs(self) -> Iterator[tuple[str, str, Floats]]:
        """Yield each two numbers with their joint table of bins.

        That of the one is cut into fine bins, at whose middles the distribution of the other is exact.
        """
        fine = self.bins(self.quantiles[1::2]) * self.shares[:, None]
        for one, name in enumerate(self.names[:-1]):
            middles = self.quantiles[::2, one]
            cells = np.full((len(middles), len(self.names)), np.nan)
            cells[:, one] = middles
            for other in range(one + 1, len(self.names)):
                cdf = self.emission.cdf_of(cells, other)
                given = _between(np.stack([cdf(np.full(len(cells), edge)) for edge in self.edges[:, other]]))
                parts = np.einsum("fs,bfs->fb", fine[:, :, one], given)
                yield name, self.names[other], parts.reshape(BINS, FINE, BINS).sum(axis=1)


@dataclass(frozen=True, eq=False)
class NumberLeaf:
    """A number of a network, one of a group."""

    name: str
    group: NumberGroup

    @property
    def emission(self) -> Emission:
        """That of its group."""
        return self.group.emission

    def density(self, weights: Floats) -> ConditionalDensity:
        """Return its distribution, given the probabilities of the states of the emission."""
        cells = np.full(len(self.group.names), np.nan)
        return ConditionalDensity(self.name, weights, self.emission, cells, self._place)

    def pdf(self, numbers: Floats) -> Floats:
        """Return the density of numbers in each state of the emission, shape (numbers, states)."""
        cells = np.full((len(numbers), len(self.group.names)), np.nan)
        cells[:, self._place] = numbers
        density: Floats = np.exp(self.emission.log_prob(cells))
        return density

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance in each state."""
        means, variances = self.group.moments
        return means[:, self._place], variances[:, self._place]

    @property
    def quantiles(self) -> Floats:
        """Its quantiles among all rows that cut bins, and parts of bins, into halves."""
        return self.group.quantiles[:, self._place]

    @property
    def edges(self) -> Floats:
        """The numbers between bins; one that has more than a bin's share stands there repeatedly."""
        return self.group.edges[:, self._place]

    @property
    def table(self) -> Floats:
        """P(bin | state), shape (states, bins)."""
        return self.group.tables[:, :, self._place].T

    @property
    def _place(self) -> int:
        return self.group.names.index(self.name)


@dataclass(frozen=True, eq=False)
class NumberProfile:
    """The distribution of a number in each state of a hidden variable, and among all rows.

    Attributes
    ----------
    leaf : NumberLeaf
    weights : array, shape (states of the hidden variable, states of the number's parents)
        P(parents | hidden variable); NaN for a state that has no share.
    meaning : Numbers or None
        What is known of the column.
    """

    leaf: NumberLeaf
    weights: Floats
    meaning: Meaning | None

    def density(self, place: int) -> ConditionalDensity:
        """Return its distribution in a state, by its place."""
        return self.leaf.density(self.weights[place])

    @property
    def overall(self) -> ConditionalDensity:
        """Its distribution among all rows."""
        return self.leaf.density(self.leaf.group.shares)

    @property
    def bins(self) -> Floats:
        """P(bin | state), shape (states, bins)."""
        return self.weights @ self.leaf.table

    @cached_property
    def moments(self) -> Floats:
        """Mean and standard deviation in each state, shape (states, 2)."""
        means, variances = self.leaf.moments
        mean = self.weights @ means
        variance = (self.weights * (variances + (means - mean[:, None]) ** 2)).sum(axis=1)
        return np.stack([mean, np.sqrt(variance)], axis=1)

    def shown(self, value: float) -> str:
        """Return one of its numbers as text; a date as such."""
        return shown_number(value, self.meaning)

    def shown_spread(self, value: float) -> str:
        """Return a difference of its numbers as text; of dates in days."""
        return shown_spread(value, self.meaning)


def shown_number(value: float, meaning: Meaning | None) -> str:
    """Return a number of a column as text, a date as such."""
    if value == value and isinstance(meaning, Numbers) and meaning.unit.startswith("datetime"):
        return str(np.datetime64(meaning.restored(np.array([value]))[0], "D"))
    return number(value, DIGITS) + _unit(meaning)


def shown_spread(value: float, meaning: Meaning | None) -> str:
    """Return a difference of numbers of a column as text, of dates in days."""
    return number(value, DIGITS - 1) + _unit(meaning)


def _unit(meaning: Meaning | None) -> str:
    return " days" if isinstance(meaning, Numbers) and meaning.unit else ""


def number_leaves(network: LatentNetwork) -> dict[str, NumberLeaf]:
    """Return the numbers of a network by name; none of a discrete one."""
    if not isinstance(network, MixedNetwork):
        return {}
    found: dict[str, NumberLeaf] = {}
    parents = [block.parents for block in network.blocks if block.parents]
    marginals = dict(zip(parents, network.clique_marginals(parents), strict=True))
    for block in network.blocks:
        shares = np.ravel(marginals.get(block.parents, 1.0))
        for names in block.groups:
            group = NumberGroup(names, network.emissions[names], shares)
            found |= {name: NumberLeaf(name, group) for name in names}
    return found


def binned(network: LatentNetwork, leaves: Mapping[str, NumberLeaf]) -> LatentNetwork:
    """Return the discrete network in which numbers are `BINS` bins of about equal probability.

    Tables of bins given the parents' states are exact. Numbers of a group are independent given these states here:
    `NumberGroup.pairs` has their joint tables.
    """
    return _with_tables(network, {name: leaf.table for name, leaf in leaves.items()})


def with_parents(network: LatentNetwork, leaves: Mapping[str, NumberLeaf]) -> LatentNetwork:
    """Return the discrete network in which a number shows the joint state of its parents."""
    return _with_tables(network, {name: np.eye(leaf.emission.states) for name, leaf in leaves.items()})


def normal_parts(emission: Emission) -> tuple[Floats, Floats] | None:
    """Return means and covariances of a group in each state, of normal scores those of the scores.

    None where the family has none.
    """
    if isinstance(emission, StackedEmission):
        found = [normal_parts(part) for part in emission.parts]
        known = [part for part in found if part is not None]
        if len(known) < len(found):
            return None
        means, every = zip(*known, strict=True)
        return emission.joined(means), emission.joined(every)
    return (emission.mean, emission.covariance) if isinstance(emission, FullGaussian) else None


def _between(below: Floats) -> Floats:
    """Return the probabilities between edges given those up to each edge, along the first axis."""
    made: Floats = np.diff(below, axis=0, prepend=0.0, append=1.0).clip(0.0)
    return made


def _with_tables(network: LatentNetwork, tables: Mapping[str, Floats]) -> LatentNetwork:
    """Return a discrete network in which some leaves have other tables, shape (states of their parents, states)."""
    if not tables:
        return network
    graph = network.graph.with_states({name: table.shape[1] for name, table in tables.items()})
    shaped = {
        name: table.reshape(*(graph.states[parent] for parent in graph.parents(name)), -1)
        for name, table in tables.items()
    }
    return LatentNetwork(graph, {**network.tables, **shaped})
