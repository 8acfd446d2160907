"""Generic ranks: what an edge of the junction tree can carry for almost all parameters (section 7).

Each edge of the junction tree cuts the observed variables in two. The rank of the joint table inside × outside is
what the bond of that edge needs. It is a property of almost all parameters, so it is read off a random instance:
the span of the messages that can come up to a separator, and of those that can come down, is passed along the tree,
at most as many vectors as the separator has states. Observed configurations are never enumerated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dgeqp3, dorgqr

from eigentree.engine.calibration import Factor, without_pruned
from eigentree.engine.schedule import downward, upward
from eigentree.engine.tables import aligned, homes, table_axes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.structures.junction_tree import JunctionTree

__all__ = ["Passage", "Spans", "reaches"]

TOLERANCE = 1e-7
"""Singular values of spans below this part of the largest count as zero: spans carry errors of about 1e-9."""

VIEW_TOLERANCE = 1e-9
"""The same for the messages of a view, which are not made orthonormal on their way."""

PEAK = 0.7
"""How much of each row of a random instance stands on one state, so that singular values stay clear of rounding."""


@dataclass(frozen=True, slots=True)
class _Port:
    """How the variables of a separator lie in the clique of a node.

    Attributes
    ----------
    states : int
        Number of joint states of the separator.
    sizes : tuple of int
        Numbers of states, one per variable of the separator.
    rising : tuple of int
        How to transpose messages, shape (messages, sizes…), to the order of the clique, messages last.
    spread : tuple of int
        The shape of the clique with 1 for each variable that the separator lacks.
    others : tuple of int
        The axes of these variables.
    back : tuple of int
        How to transpose a table over the separator in the order of the clique, messages last, to that of the
        separator, messages first.
    """

    states: int
    sizes: tuple[int, ...]
    rising: tuple[int, ...]
    spread: tuple[int, ...]
    others: tuple[int, ...]
    back: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], axes: tuple[int, ...]) -> _Port:
        """Return the port of a separator whose variables are some axes of a clique."""
        sizes = tuple(shape[axis] for axis in axes)
        rising = sorted(range(len(axes)), key=axes.__getitem__)
        return cls(
            states=math.prod(sizes),
            sizes=sizes,
            rising=(*(1 + k for k in rising), 0),
            spread=tuple(size if axis in axes else 1 for axis, size in enumerate(shape)),
            others=tuple(axis for axis in range(len(shape)) if axis not in axes),
            back=(len(axes), *(rising.index(k) for k in range(len(axes)))),
        )


@dataclass(frozen=True, eq=False)
class Passage:
    """A node of a random instance, through which messages pass from some of its edges to another.

    Attributes
    ----------
    table : array
        What the node contributes to the joint table: one axis per variable of its clique.
    ports : list of _Port
        One per child and, last, that of the parent.
    """

    table: Floats
    ports: list[_Port]

    def leaf(self) -> Floats:
        """Return the messages of a leaf, shape (states of its variable, states of the separator)."""
        return self.table.reshape(self.ports[-1].states, -1).T

    def send(self, parts: Sequence[tuple[int, Floats]], onto: int, in_step: bool = False) -> Floats:
        """Return all products of messages that come in through some edges, summed down to another edge.

        Parameters
        ----------
        parts : sequence of (int, array)
            Edges (positions in `ports`), and the messages that come in through each, one per row.
        onto : int
            The edge that the products leave through.
        in_step : bool
            Whether to multiply equal rows of all parts only, in place of every row of one with every row of others.

        Returns
        -------
        array, shape (products, states of the separator)
        """
        shape = self.table.shape
        product: Floats = self.table[..., None]
        for edge, messages in parts:
            port = self.ports[edge]
            incoming = messages.reshape(-1, *port.sizes).transpose(port.rising).reshape(*port.spread, -1)
            product = product * incoming if in_step else product[..., :, None] * incoming[..., None, :]
            product = product.reshape(*shape, -1)
        port = self.ports[onto]
        left: Floats = product.sum(axis=port.others)
        return left.transpose(port.back).reshape(-1, port.states)


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """All that can be said of a separator from one side of its edge, on a random instance.

    Attributes
    ----------
    basis : array, shape (dimensions, states of the separator)
        Orthonormal rows.
    most : int
        How many dimensions the numbers of states allow, on any instance.
    """

    basis: Floats
    most: int


@dataclass(frozen=True, eq=False)
class Spans:
    """The spans of the messages up and down each edge on one random instance, and the ranks they give.

    Attributes
    ----------
    passages : list of Passage
        One per node of the junction tree.
    inside, outside : list of Span
        What comes up and what comes down the edge above each node.
    ranks : list of int
        The rank of inside × outside at each edge.
    full : bool
        Whether no instance can have higher ranks: all are as high as the numbers of states allow.
    """

    passages: list[Passage]
    inside: list[Span]
    outside: list[Span]
    ranks: list[int]
    full: bool

    @classmethod
    def draw(cls, tree: JunctionTree, seed: int) -> Spans:
        """Return the spans of the instance that a seed gives."""
        passages = _passages(tree, seed)
        random = np.random.default_rng(0)
        children = [node.children for node in tree.nodes]

        def collect(i: int, below: list[Span]) -> Span:
            passage = passages[i]
            if tree.nodes[i].observed is not None:
                messages = passage.leaf()
                return Span(_basis(messages), min(messages.shape))
            return _sent(passage, list(enumerate(below)), -1, random)

        def distribute(i: int, above: Span, below: list[Span]) -> Iterator[Span]:
            for k in range(len(below)):
                siblings = [(j, span) for j, span in enumerate(below) if j != k]
                yield _sent(passages[i], [*siblings, (-1, above)], k, random)

        inside = upward(children, collect)
        outside = downward(children, inside, distribute, Span(np.ones((1, 1)), 1))
        pairs = list(zip(inside, outside, strict=True))
        ranks = [_overlap(below.basis, above.basis) for below, above in pairs]
        return cls(passages, inside, outside, ranks, ranks == [min(a.most, b.most) for a, b in pairs])


def _sent(passage: Passage, parts: list[tuple[int, Span]], onto: int, random: np.random.Generator) -> Span:
    """Return the span of all products of what comes in through some edges, at another edge.

    Where there are many more products than dimensions, random products of random combinations span the same, though
    less evenly.
    """
    states = passage.ports[onto].states
    spans = [(edge, span.basis) for edge, span in parts]
    if math.prod([len(basis) for _, basis in spans]) <= 4 * states:
        messages = passage.send(spans, onto)
    else:
        mixed = [(edge, random.standard_normal((states + 4, len(basis))) @ basis) for edge, basis in spans]
        messages = passage.send(mixed, onto, in_step=True)
    return Span(_basis(messages), min(states, math.prod([span.most for _, span in parts])))


def _passages(tree: JunctionTree, seed: int) -> list[Passage]:
    """Return the nodes of a random instance; those that look alike share what does not depend on their tables."""
    ports: dict[tuple[tuple[int, ...], tuple[int, ...]], _Port] = {}
    passages = []
    for node, table in zip(tree.nodes, _random_tables(tree, seed), strict=True):
        place = {name: axis for axis, name in enumerate(node.clique)}
        found = []
        for separator in (*(tree.nodes[child].separator for child in node.children), node.separator):
            key = table.shape, tuple([place[name] for name in separator])
            if key not in ports:
                ports[key] = _Port.of(*key)
            found.append(ports[key])
        passages.append(Passage(table, found))
    return passages


def _random_tables(tree: JunctionTree, seed: int) -> list[Floats]:
    """Return a table for each node, axes in the order of its clique, that multiply to a random distribution."""
    axes = table_axes(tree.graph, tree)
    factors = _peaked_factors(tree, axes, np.random.default_rng(seed))
    # On an undirected graph, what was cut off has no table.
    if tree.graph.directed:
        factors = without_pruned(tree, factors)
    nodes = tree.nodes
    tables = [np.ones(tree.states_of(node.clique)) for node in nodes]
    placed = homes([node.clique for node in nodes], [factor.names for factor in factors])
    for factor, home in zip(factors, placed, strict=True):
        tables[home] *= aligned(factor.table, factor.names, nodes[home].clique)
    for i, node in enumerate(nodes):
        if node.observed is not None and not node.remainder:
            tables[i] = np.eye(tree.graph.states[node.observed])
    return tables


def _peaked_factors(
    tree: JunctionTree, axes: Mapping[tuple[str, ...], tuple[str, ...]], random: np.random.Generator
) -> list[Factor]:
    """Return random tables in which different rows lean to different states."""
    alike: dict[tuple[int, int], list[tuple[str, ...]]] = {}
    for key, names in axes.items():
        states = math.prod(tree.states_of(key))
        alike.setdefault((math.prod(tree.states_of(names)) // states, states), []).append(names)
    factors = []
    for (rows, states), families in alike.items():
        drawn = random.standard_exponential((len(families), rows, states))
        drawn *= (1 - PEAK) / drawn.sum(axis=2, keepdims=True)
        lean = random.permuted(np.tile(np.arange(rows) % states, (len(families), 1)), axis=1)
        drawn += PEAK * (lean[:, :, None] == np.arange(states))
        factors += [Factor(n, table.reshape(tree.states_of(n))) for n, table in zip(families, drawn, strict=True)]
    return factors


def _pivoted(vectors: Floats) -> tuple[Floats, Floats]:
    """Return the QR decomposition with pivoting of some rows, as LAPACK packs it.

    The sizes on its diagonal fall and show the rank as singular values do, at a fraction of their cost.
    """
    packed, _, scales, _, _ = dgeqp3(vectors.T)
    return packed, scales


def _basis(vectors: Floats) -> Floats:
    """Return orthonormal rows with the same span."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    # A product that is zero but for rounding must not be blown up to a direction of its own.
    least = TOLERANCE * norms.max()
    if norms.min() <= least:
        vectors, norms = vectors[norms > least], norms[norms > least]
    packed, scales = _pivoted(vectors / norms[:, None])
    rank = _rank(packed)
    if rank == len(packed):
        return np.eye(rank)
    return np.asarray(dorgqr(packed[:, :rank], scales[:rank])[0].T)


def _rank(packed: Floats) -> int:
    """Return the rank that a pivoted QR decomposition of spans shows."""
    sizes = [abs(size) for size in packed.diagonal().tolist()]
    return sum([size > TOLERANCE * sizes[0] for size in sizes])


def reaches(messages: Floats, need: int) -> bool:
    """Return whether the messages of a view, along the last axis, have a rank."""
    packed, _ = _pivoted(messages.reshape(-1, messages.shape[-1]))
    return min(packed.shape) >= need and bool(abs(packed[need - 1, need - 1]) > VIEW_TOLERANCE * abs(packed[0, 0]))


def _overlap(below: Floats, above: Floats) -> int:
    """Return the rank of what two spans of orthonormal rows say of each other."""
    states = below.shape[1]
    if max(len(below), len(above)) == states:
        return min(len(below), len(above))
    return _rank(_pivoted(below @ above.T)[0])
