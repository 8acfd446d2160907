"""Generic ranks: what an edge of the junction tree can carry for almost all parameters (section 7).

Each edge of the junction tree cuts the observed variables in two. The rank of the joint table inside × outside is
what the bond of that edge needs. It is a property of almost all parameters, so it is read off a random instance:
the span of the messages that can come up to a separator, and of those that can come down, is passed along the tree,
at most as many vectors as the separator has states. Observed configurations are never enumerated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg.lapack import dgeqp3, dorgqr

from eigentree.engine.calibration import Factor, without_pruned
from eigentree.engine.schedule import downward, upward
from eigentree.engine.tables import aligned, flat_index, homes, table_axes
from eigentree.planning.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.structures.junction_tree import JunctionTree

__all__ = ["Dimensions", "Passage", "Spans", "orthonormal", "reaches", "view_rank"]

TOLERANCE = 1e-7
"""Singular values of spans below this part of the largest count as zero: spans carry errors of about 1e-9."""

VIEW_TOLERANCE = 1e-9
"""The same for the messages of a view, which are not made orthonormal on their way."""

MOST_SUMS = 2**12
"""Up to which size sums over some variables of a clique are done by a product of matrices."""

PEAK = 0.7
"""How much of each row of a random instance stands on one state, so that singular values stay clear of rounding."""


@dataclass(frozen=True, eq=False, slots=True)
class _Port:
    """How the variables of a separator lie in the clique of a node.

    Attributes
    ----------
    states : int
        Number of joint states of the separator.
    index : array, shape (cells of the clique,)
        The state of the separator that each cell agrees with.
    shape : tuple of int
        The shape of the clique.
    others : tuple of int
        The axes of the variables that the separator lacks.
    order : tuple of int
        How to transpose a table over the other axes, and last the messages, to the order of the separator.
    sums : array, shape (states, cells), or None
        A 1 where a cell agrees with a state, unless there are many of both.
    """

    states: int
    index: Integers
    shape: tuple[int, ...]
    others: tuple[int, ...]
    order: tuple[int, ...]
    sums: Floats | None

    @classmethod
    def of(cls, shape: tuple[int, ...], axes: tuple[int, ...]) -> _Port:
        """Return the port of a separator whose variables are some axes of a clique."""
        states = math.prod(shape[axis] for axis in axes)
        index = flat_index(shape, tuple(range(len(shape))), axes)
        return cls(
            states,
            index,
            shape,
            others=tuple(axis for axis in range(len(shape)) if axis not in axes),
            order=(*(sorted(axes).index(axis) for axis in axes), len(axes)),
            sums=np.eye(states)[:, index] if states * len(index) <= MOST_SUMS else None,
        )

    def summed(self, product: Floats) -> Floats:
        """Return a table (cells of the clique, messages) summed down to (messages, states of the separator)."""
        if self.sums is not None:
            # While cliques are small, a product of matrices is faster than sums over axes.
            return (self.sums @ product).T
        left: Floats = product.reshape(*self.shape, -1).sum(axis=self.others)
        return left.transpose(self.order).reshape(self.states, -1).T


@dataclass(frozen=True, eq=False)
class Passage:
    """A node of a random instance, through which messages pass from some of its edges to another.

    Attributes
    ----------
    node : int
        Its place in the junction tree.
    table : array
        What the node contributes to the joint table: one axis per variable of its clique.
    ports : list of _Port
        One per child and, last, that of the parent.
    work : Work
        Where its multiplications are noted.
    """

    node: int
    table: Floats
    ports: list[_Port]
    work: Work

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
        cells = self.table.size
        product = self.table.reshape(cells, 1)
        for edge, messages in parts:
            self.work.products(self.node, cells * len(messages) * (1 if in_step else product.shape[1]))
            incoming = messages.T.take(self.ports[edge].index, axis=0)
            # There are more messages than cells: loops over them are the longer ones.
            product = product * incoming if in_step else product[:, :, None] * incoming[:, None, :]
            product = product.reshape(cells, -1)
        return self.ports[onto].summed(product)


class Dimensions(NamedTuple):
    """How many dimensions the spans at each edge can have at most, whatever the instance."""

    inside: list[int]
    outside: list[int]

    @classmethod
    def allowed(cls, tree: JunctionTree, most: int | None = None) -> Dimensions:
        """Return what the numbers of states allow, and `most`, if it takes no more work than may be done.

        Raises
        ------
        OverworkError
            When spans of that many dimensions would take too long.
        """
        nodes, children = tree.nodes, [node.children for node in tree.nodes]
        states = [math.prod(tree.states_of(node.separator)) for node in nodes]
        cells = [math.prod(tree.states_of(node.clique)) for node in nodes]
        work = Work(len(nodes))

        def through(i: int, parts: list[int], onto: int) -> int:
            rows = _count_products(parts, states[onto], most) or _enough(states[onto], most)
            work.products(i, rows * cells[i])
            work.decomposition(i, rows, states[onto])
            return min(math.prod(parts), states[onto], most or states[onto])

        def collect(i: int, below: list[int]) -> int:
            # A leaf has one message per state of its variable.
            observed = nodes[i].observed
            return through(i, below if observed is None else [tree.graph.states[observed]], i)

        def distribute(i: int, above: int, below: list[int]) -> Iterator[int]:
            for k, child in enumerate(nodes[i].children):
                yield through(i, [*below[:k], *below[k + 1 :], above], child)

        inside = upward(children, collect)
        return cls(inside, downward(children, inside, distribute, 1))


@dataclass(frozen=True, eq=False)
class Spans:
    """The spans of the messages up and down each edge on one random instance, and the ranks they give.

    Attributes
    ----------
    passages : list of Passage
        One per node of the junction tree.
    inside, outside : list of array, shape (dimensions, states of the separator)
        Orthonormal rows: all that can be said of the separator above each node from below, and from above.
    ranks : list of int
        The rank of inside × outside at each edge.
    """

    passages: list[Passage]
    inside: list[Floats]
    outside: list[Floats]
    ranks: list[int]

    @classmethod
    def draw(cls, tree: JunctionTree, seed: int, work: Work, most: int | None = None) -> Spans:
        """Return the spans of the instance that a seed gives.

        Parameters
        ----------
        tree : JunctionTree
        seed : int
        work : Work
            Where the work is noted.
        most : int, optional
            How many dimensions of a span to keep, a random part of it where it has more. Ranks up to this are
            right, and higher ones are found to be this.
        """
        passages = _passages(tree, seed, work)
        random = np.random.default_rng(0)
        children = [node.children for node in tree.nodes]

        def collect(i: int, below: list[Floats]) -> Floats:
            if tree.nodes[i].observed is not None:
                return _basis(passages[i], passages[i].leaf(), most, random)
            return _sent(passages[i], list(enumerate(below)), -1, most, random)

        def distribute(i: int, above: Floats, below: list[Floats]) -> Iterator[Floats]:
            for k in range(len(below)):
                siblings = [(j, span) for j, span in enumerate(below) if j != k]
                yield _sent(passages[i], [*siblings, (-1, above)], k, most, random)

        inside = upward(children, collect)
        outside = downward(children, inside, distribute, np.ones((1, 1)))
        return cls(passages, inside, outside, list(map(_overlap, inside, outside)))


def _count_products(parts: Sequence[int], states: int, most: int | None) -> int | None:
    """Return how many products of so many messages there are, or None where random ones are better."""
    count = math.prod(parts)
    return count if count <= 4 * min(states, most or states) else None


def _enough(states: int, most: int | None) -> int:
    """Return how many random products span as many dimensions as are kept."""
    return min(states, most or states) + 4


def _sent(
    passage: Passage, parts: list[tuple[int, Floats]], onto: int, most: int | None, random: np.random.Generator
) -> Floats:
    """Return the span of all products of what comes in through some edges, at another edge.

    Where there are many more products than dimensions, random products of random combinations span the same, though
    less evenly.
    """
    states = passage.ports[onto].states
    if _count_products([len(span) for _, span in parts], states, most):
        messages = passage.send(parts, onto)
    else:
        mixed = [(edge, _mixed(span, _enough(states, most), random)) for edge, span in parts]
        messages = passage.send(mixed, onto, in_step=True)
    return _basis(passage, messages, most, random)


def _mixed(span: Floats, count: int, random: np.random.Generator) -> Floats:
    """Return random vectors of a span."""
    weights = random.standard_normal((count, len(span)))
    # All there is: the basis is the identity.
    return weights if len(span) == span.shape[1] else weights @ span


def _passages(tree: JunctionTree, seed: int, work: Work) -> list[Passage]:
    """Return the nodes of a random instance; those that look alike share what does not depend on their tables."""
    ports: dict[tuple[tuple[int, ...], tuple[int, ...]], _Port] = {}
    passages = []
    for i, (node, table) in enumerate(zip(tree.nodes, _random_tables(tree, seed), strict=True)):
        place = {name: axis for axis, name in enumerate(node.clique)}
        found = []
        for separator in (*(tree.nodes[child].separator for child in node.children), node.separator):
            key = table.shape, tuple([place[name] for name in separator])
            if key not in ports:
                ports[key] = _Port.of(*key)
            found.append(ports[key])
        passages.append(Passage(i, table, found, work))
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


def _basis(passage: Passage, messages: Floats, most: int | None, random: np.random.Generator) -> Floats:
    """Return orthonormal rows with the span of some messages through a node, or with a random part of it."""
    passage.work.decomposition(passage.node, *messages.shape)
    basis = orthonormal(messages)
    if most is None or len(basis) <= most:
        return basis
    return orthonormal(_mixed(basis, most, random))


def orthonormal(vectors: Floats) -> Floats:
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


def _rank(packed: Floats, tolerance: float = TOLERANCE) -> int:
    """Return the rank that a pivoted QR decomposition shows."""
    sizes = [abs(size) for size in packed.diagonal().tolist()]
    return sum([size > tolerance * sizes[0] for size in sizes])


def view_rank(messages: Floats) -> int:
    """Return the rank of the messages of a view, one per row."""
    return _rank(_pivoted(messages)[0], VIEW_TOLERANCE)


def reaches(messages: Floats, need: int) -> bool:
    """Return whether the messages of a view have a rank, and do not look further."""
    packed, _ = _pivoted(messages)
    return min(packed.shape) >= need and bool(abs(packed[need - 1, need - 1]) > VIEW_TOLERANCE * abs(packed[0, 0]))


def _overlap(below: Floats, above: Floats) -> int:
    """Return the rank of what two spans of orthonormal rows say of each other."""
    states = below.shape[1]
    if max(len(below), len(above)) == states:
        return min(len(below), len(above))
    return _rank(_pivoted(below @ above.T)[0])
