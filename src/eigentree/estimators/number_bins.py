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
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.data.tables.labels import Meaning
    from eigentree.emissions.base import Emission

__all__ = [
    "BINS",
    "NumberLeaf",
    "NumberProfile",
    "binned",
    "covariances",
    "number_leaves",
    "pairs_of_group",
    "shown_number",
    "shown_spread",
    "with_parents",
]

BINS = 32
"""Bins of about equal probability: two normal numbers of correlation 0.9 keep 96 % of their information."""

FINE = 8
"""Parts of each bin, at whose middles the distribution of another number of the same group is taken."""

REACH, POINTS = 4.0, 33
"""A state's distribution is first evaluated up to so many standard deviations from its mean, at so many points."""

DIGITS = 4
"""Digits of a mean that are shown; of a standard deviation one less."""

PASSES = 5
"""How often quantiles are interpolated and the distribution is evaluated there: bins need not be exactly equal."""


@dataclass(frozen=True, eq=False)
class NumberLeaf:
    """A number of a network.

    Attributes
    ----------
    name : str
    group : tuple of str
        The columns that share its emission, itself included.
    emission : Emission
        Its states are the joint states of the parents.
    shares : array, shape (states of the emission,)
        Their probabilities.
    """

    name: str
    group: tuple[str, ...]
    emission: Emission
    shares: Floats

    def density(self, weights: Floats) -> ConditionalDensity:
        """Return its distribution, given the probabilities of the states."""
        return ConditionalDensity(self.name, weights, self.emission, np.full(len(self.group), np.nan), self._place)

    def moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance in each state."""
        means, variances = self.emission.moments(np.full((1, len(self.group)), np.nan))
        return means[0, :, self._place], variances[0, :, self._place]

    def below(self, numbers: Floats) -> Floats:
        """Return P(number <= each of some | state), shape (numbers, states)."""
        values = np.repeat(numbers[:, None], len(self.group), axis=1)
        found: Floats = self.emission.cdf(values, np.full_like(values, np.nan))[:, :, self._place]
        return found

    def bins(self, edges: Floats) -> Floats:
        """Return P(bin | state), shape (states, edges + 1)."""
        return _between(self.below(edges)).T

    @property
    def edges(self) -> Floats:
        """The numbers between bins of equal probability; one that has more stands there repeatedly."""
        return self.quantiles[2 * FINE - 1 :: 2 * FINE]

    @cached_property
    def quantiles(self) -> Floats:
        """The quantiles that cut bins, and parts of bins, into halves."""
        means, variances = self.moments()
        around = means + np.linspace(-REACH, REACH, POINTS)[:, None] * np.sqrt(variances)
        shares = np.arange(1, 2 * FINE * BINS) / (2 * FINE * BINS)
        points, below = np.zeros(0), np.zeros(0)
        found = np.unique(around)
        for _ in range(PASSES):
            points, below = np.append(points, found), np.append(below, self.below(found) @ self.shares)
            order = np.lexsort((below, points))
            points, below = points[order], below[order]
            found = np.interp(shares, below, points)
        return found

    @property
    def _place(self) -> int:
        return self.group.index(self.name)


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
        return self.leaf.density(self.leaf.shares)

    @property
    def bins(self) -> Floats:
        """P(bin | state), shape (states, bins)."""
        return self.weights @ self.leaf.bins(self.leaf.edges)

    @cached_property
    def moments(self) -> Floats:
        """Mean and standard deviation in each state, shape (states, 2)."""
        means, variances = self.leaf.moments()
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
        for group in block.groups:
            found |= {name: NumberLeaf(name, group, network.emissions[group], shares) for name in group}
    return found


def binned(network: LatentNetwork, leaves: Mapping[str, NumberLeaf]) -> LatentNetwork:
    """Return the discrete network in which numbers are `BINS` bins of about equal probability.

    Tables of bins given the parents' states are exact. Numbers of a group are independent given these states here:
    `pairs_of_group` has their joint tables.
    """
    return _with_tables(network, {name: leaf.bins(leaf.edges) for name, leaf in leaves.items()})


def with_parents(network: LatentNetwork, leaves: Mapping[str, NumberLeaf]) -> LatentNetwork:
    """Return the discrete network in which a number shows the joint state of its parents."""
    return _with_tables(network, {name: np.eye(leaf.emission.states) for name, leaf in leaves.items()})


def covariances(emission: Emission) -> Floats | None:
    """Return the covariance of the columns of a group in each state; None where the family has none."""
    if isinstance(emission, StackedEmission):
        parts = [covariances(part) for part in emission.parts]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None
    return emission.covariance if isinstance(emission, FullGaussian) else None


def pairs_of_group(group: Sequence[NumberLeaf]) -> Iterator[tuple[str, str, Floats]]:
    """Yield each two numbers that share an emission, with their joint table of bins.

    That of the one is cut into fine bins, at whose middles the distribution of the other is exact.
    """
    edges = np.stack([leaf.edges for leaf in group], axis=1)
    for one, leaf in enumerate(group[:-1]):
        cells = np.full((BINS * FINE, len(group)), np.nan)
        cells[:, one] = leaf.quantiles[::2]
        fine = leaf.bins(leaf.quantiles[1::2]) * leaf.shares[:, None]
        every = np.stack([leaf.emission.cdf(np.repeat(row[None], len(cells), axis=0), cells) for row in edges])
        for other in range(one + 1, len(group)):
            parts = np.einsum("sf,bfs->fb", fine, _between(every[:, :, :, other]))
            yield leaf.name, group[other].name, parts.reshape(BINS, FINE, BINS).sum(axis=1)


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
