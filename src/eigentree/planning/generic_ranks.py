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

from eigentree.inference.tensors.calibration import Factor, downward, upward, without_pruned
from eigentree.inference.tensors.named_tables import aligned, homes, table_axes
from eigentree.planning.node_products import CliqueLayout, CliqueTable, Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.graphs.junction_tree import JunctionTree

__all__ = ["Spans", "most_dimensions", "orthonormal", "reaches", "view_rank"]

TOLERANCE = 1e-7
"""Singular values of spans below this part of the largest count as zero: spans carry errors of about 1e-9."""

VIEW_TOLERANCE = 1e-9
"""The same for the messages of a view, which are not made orthonormal on their way."""

PEAK = 0.7
"""How much of each row of a random instance stands on one state, so that singular values stay clear of rounding."""


def most_dimensions(tree: JunctionTree, most: int | None = None) -> tuple[list[int], list[int]]:
    """Return how many dimensions the spans inside and outside of each edge can have by the numbers of states.

    At most `most` count. Raises `OverworkError` when spans of that many dimensions would take too long.
    """
    nodes, children = tree.nodes, [node.children for node in tree.nodes]
    states = [math.prod(tree.states_of(node.separator)) for node in nodes]
    cells = [math.prod(tree.states_of(node.clique)) for node in nodes]
    # Spans are less than half of the work: views are sought at each edge, and maybe on other instances.
    work = Work(len(nodes), share=0.5)

    def through(i: int, parts: list[int], onto: int) -> int:
        count = _count_products(parts, states[onto], most)
        rows = count or _enough(states[onto], most)
        work.products(i, rows * (states[onto] if count else cells[i]))
        work.decomposition(i, min(rows, most or rows), states[onto])
        return min(math.prod(parts), states[onto], most or states[onto])

    def collect(i: int, below: list[int]) -> int:
        # A leaf has one message per state of its variable.
        observed = nodes[i].observed
        return through(i, below if observed is None else [tree.graph.states[observed]], i)

    def distribute(i: int, above: int, below: list[int]) -> Iterator[int]:
        for k, child in enumerate(nodes[i].children):
            yield through(i, [*below[:k], *below[k + 1 :], above], child)

    inside = upward(children, collect)
    return inside, downward(children, inside, distribute, 1)


@dataclass(frozen=True, eq=False)
class Spans:
    """The spans of the messages up and down each edge on one random instance, and the ranks they give.

    `inside` and `outside` have orthonormal rows, shape (dimensions, states of the separator): all that can be known
    of the separator above each node from below, and from above. `ranks` are those of inside × outside.
    """

    tables: list[CliqueTable]
    inside: list[Floats]
    outside: list[Floats]
    ranks: list[int]

    @classmethod
    def sampled(cls, tree: JunctionTree, seed: int, work: Work, most: int | None = None) -> Spans:
        """Return the spans of the random instance of a seed.

        Of each, at most `most` dimensions are kept, a random part where there are more: ranks up to this are right,
        and higher ones are found to be this.
        """
        tables = _clique_tables(tree, seed, work)
        random = np.random.default_rng(0)
        children = [node.children for node in tree.nodes]

        def collect(i: int, below: list[Floats]) -> Floats:
            if tree.nodes[i].observed is not None:
                return _basis(tables[i], tables[i].leaf(), most, random)
            return _sent(tables[i], list(enumerate(below)), -1, most, random)

        def distribute(i: int, above: Floats, below: list[Floats]) -> Iterator[Floats]:
            for k in range(len(below)):
                siblings = [(j, span) for j, span in enumerate(below) if j != k]
                yield _sent(tables[i], [*siblings, (-1, above)], k, most, random)

        inside = upward(children, collect)
        outside = downward(children, inside, distribute, np.ones((1, 1)))
        return cls(tables, inside, outside, list(map(_overlap, inside, outside)))


def _count_products(parts: Sequence[int], states: int, most: int | None) -> int | None:
    """Return how many products of so many messages there are, or None where random ones are better."""
    count = math.prod(parts)
    return count if count <= 4 * min(states, most or states) else None


def _enough(states: int, most: int | None) -> int:
    """Return how many random products span as many dimensions as are kept."""
    return min(states, most or states) + 4


def _sent(
    table: CliqueTable, parts: list[tuple[int, Floats]], onto: int, most: int | None, random: np.random.Generator
) -> Floats:
    """Return the span of all products of what comes in through some edges, at another edge.

    Where there are many more products than dimensions, random products of random combinations span the same, though
    with less equal lengths.
    """
    states = table.layout.states[onto]
    if _count_products([len(span) for _, span in parts], states, most):
        messages = table.send(sorted(parts, key=lambda part: len(part[1])), onto)
    else:
        mixed = []
        for edge, span in parts:
            weights = random.standard_normal((_enough(states, most), len(span)))
            # Where the span is all there is, its basis is the identity.
            mixed.append((edge, weights if len(span) == span.shape[1] else weights @ span))
        messages = table.send_in_step(mixed, onto)
    return _basis(table, messages, most, random)


def _clique_tables(tree: JunctionTree, seed: int, work: Work) -> list[CliqueTable]:
    """Return the tables of a random instance; nodes of the same form share a layout."""
    layouts: dict[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], CliqueLayout] = {}
    found = []
    for i, (node, table) in enumerate(zip(tree.nodes, _random_tables(tree, seed), strict=True)):
        place = {name: axis for axis, name in enumerate(node.clique)}
        separators = [*(tree.nodes[child].separator for child in node.children), node.separator]
        axes = tuple([tuple([place[name] for name in separator]) for separator in separators])
        if (table.shape, axes) not in layouts:
            layouts[table.shape, axes] = CliqueLayout(table.shape, axes)
        found.append(CliqueTable(i, table.reshape(-1), layouts[table.shape, axes], work))
    return found


def _random_tables(tree: JunctionTree, seed: int) -> list[Floats]:
    """Return a table for each node, axes in the order of its clique, that multiply to a random distribution."""
    factors = _random_factors(tree, np.random.default_rng(seed))
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


def _random_factors(tree: JunctionTree, random: np.random.Generator) -> list[Factor]:
    """Return random tables in which different rows lean to different states."""
    alike: dict[tuple[int, int], list[tuple[str, ...]]] = {}
    for key, names in table_axes(tree.graph, tree).items():
        states = math.prod(tree.states_of(key))
        alike.setdefault((math.prod(tree.states_of(names)) // states, states), []).append(names)
    factors = []
    for (rows, states), families in alike.items():
        sampled = random.standard_exponential((len(families), rows, states))
        sampled *= (1 - PEAK) / sampled.sum(axis=2, keepdims=True)
        lean = random.permuted(np.tile(np.arange(rows) % states, (len(families), 1)), axis=1)
        sampled += PEAK * (lean[:, :, None] == np.arange(states))
        factors += [Factor(n, table.reshape(tree.states_of(n))) for n, table in zip(families, sampled, strict=True)]
    return factors


def _pivoted(vectors: Floats) -> tuple[Floats, Floats]:
    """Return the QR decomposition with pivoting of some rows, as LAPACK packs it.

    The sizes on its diagonal fall and show the rank as singular values do, at a fraction of their cost.
    """
    packed, _, scales, _, _ = dgeqp3(vectors.T)
    return packed, scales


def _basis(table: CliqueTable, messages: Floats, most: int | None, random: np.random.Generator) -> Floats:
    """Return orthonormal rows with the span of some messages through a node, or with a random part of it."""
    if most is not None and len(messages) > most:
        table.work.products(table.node, most * messages.shape[1], len(messages))
        messages = random.standard_normal((most, len(messages))) @ messages
    table.work.decomposition(table.node, *messages.shape)
    basis = orthonormal(messages)
    if len(basis) < messages.shape[1]:
        # To form the basis takes as long again; all there is has none to form.
        table.work.decomposition(table.node, *basis.shape)
    return basis


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
    """Return whether the messages of a view have at least some rank."""
    packed, _ = _pivoted(messages)
    return min(packed.shape) >= need and bool(abs(packed[need - 1, need - 1]) > VIEW_TOLERANCE * abs(packed[0, 0]))


def _overlap(below: Floats, above: Floats) -> int:
    """Return the rank of the products of two spans of orthonormal rows."""
    states = below.shape[1]
    if max(len(below), len(above)) == states:
        return min(len(below), len(above))
    return _rank(_pivoted(below @ above.T)[0])
