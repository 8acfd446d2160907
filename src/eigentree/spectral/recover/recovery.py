r"""Conditional probability tables from a spectral fit, as far as they follow from it.

The states of sets of hidden variables are identified on the bonds (`gauges`) and labelled (`state_labels`).
Emissions follow from the gauges of leaves. A table among hidden variables follows from a bond that two sets
separate: there the identity is :math:`\sum_{s, t} P(s, t)\, G_{\cdot s} \otimes H_{\cdot t}`, with the gauge G of
what lies below the bond given the one set and H of what lies above given the other; or from a node and a set beyond
each of its legs. Either is solved by non-negative least squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentree.errors import RankError
from eigentree.graphs.elimination import moral_adjacency
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.tensors.named_tables import learnable_tables, marginal, table_axes
from eigentree.inference.threads import one_thread
from eigentree.spectral.recover.gauges import Gauges, at_bonds, at_nodes
from eigentree.spectral.recover.separations import Leg, separations
from eigentree.spectral.recover.state_labels import labelled, weight_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from eigentree.arrays import Floats
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey
    from eigentree.spectral.learn.spectral_fit import SpectralFit
    from eigentree.spectral.recover.gauges import IdentifiedStates, Meeting

__all__ = ["Recovery", "copied", "guessed_emissions", "recovered"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Recovery:
    """The conditional probability tables that follow from a spectral fit.

    Attributes
    ----------
    graph : LatentGraph
    tables : mapping of TableKey to array
        Axes as in ``table_axes(graph)``: what is given, then what the table distributes. States of hidden variables
        come in an order of their own, the same in all tables.
    resolved : mapping of str to float
        The hidden variables whose states were identified, with the relative residual of the joint diagonalisation:
        0 for exact moments, near 1 where noise is as large as the signal.
    unresolved : mapping of TableKey to str
        Why each other table was not found.
    guesses : mapping of TableKey to array
        Of some of these, to initialise EM: emissions within the span of their leaf.
    """

    graph: LatentGraph
    tables: Mapping[TableKey, Floats]
    resolved: Mapping[str, float]
    unresolved: Mapping[TableKey, str]
    guesses: Mapping[TableKey, Floats]

    @property
    def hints(self) -> dict[TableKey, Floats]:
        """The tables and the guesses together, from which EM is initialised."""
        return {**self.tables, **self.guesses}

    @property
    def network(self) -> LatentNetwork:
        """The network of the tables, states of hidden variables in canonical order.

        Raises
        ------
        RankError
            When some table was not found.
        """
        if self.unresolved:
            key, reason = next(iter(self.unresolved.items()))
            raise RankError(
                f"{len(self.unresolved)} of {len(self.tables) + len(self.unresolved)} tables do not follow from "
                f"the moments alone, such as that of {', '.join(key)}: {reason}; pass rows, to_network(X), and "
                f"EM finds them"
            )
        return LatentNetwork(self.graph, dict(self.tables)).ordered()

    def __str__(self) -> str:
        lines = [f"{len(self.tables)} of {len(self.tables) + len(self.unresolved)} tables follow from the moments"]
        lines += [f"  {name}: resolved, residual {residual:.2g}" for name, residual in self.resolved.items()]
        lines += [f"  table of {', '.join(key)}: {why}" for key, why in self.unresolved.items()]
        return "\n".join(lines)


def recovered(fit: SpectralFit, shrinkage: float = 0.0) -> Recovery:
    """Return the tables that follow from a spectral fit.

    The shrinkage is toward independent columns, before the states are identified.
    """
    with one_thread():
        return _Recovering(fit, shrinkage).recovery()


class _Recovering:
    """The steps of a recovery."""

    def __init__(self, fit: SpectralFit, shrinkage: float) -> None:
        self.plan = fit.plan
        self.graph = fit.plan.graph
        self.gauges = Gauges(fit, shrinkage)
        self.trouble: dict[tuple[str, ...], str] = {}
        identified = []
        for separation in self.plan.derived(separations):
            try:
                found = self.gauges.identified(separation)
            except np.linalg.LinAlgError:
                found = "led to a matrix that cannot be inverted"
            if isinstance(found, str):
                self.trouble[separation.names] = found
            else:
                identified.append(found)
        self.sets, unlabelled = labelled(self.plan, identified)
        for states in unlabelled:
            self.trouble[states.separation.names] = "has states that cannot be labelled variable by variable"
        best: dict[str, float] = {}
        for states in self.sets:
            for name in states.separation.names:
                best[name] = min(states.residual, best.get(name, math.inf))
        self.quality = {name: best[name] for name in self.graph.hidden if name in best}
        self.copies = self.graph.derived(copied, frozenset(self.quality))
        self._meetings: dict[Any, dict[str, list[Meeting]]] = {}

    def recovery(self) -> Recovery:
        """Return what was found."""
        tables: dict[TableKey, Floats] = {}
        unresolved: dict[TableKey, str] = {}
        useful = set(learnable_tables(self.graph, table_axes(self.graph)))
        for key, axes in table_axes(self.graph).items():
            # Nothing observed depends on the others, so that uniform ones will do.
            uniform = np.ones([self.graph.states[name] for name in axes])
            table = self._table(key, axes) if key in useful else _normalised(uniform, len(key))
            if table is None:
                unresolved[key] = self._reason(axes)
            else:
                tables[key] = table
        guesses = guessed_emissions(self.gauges, {*self.quality, *self.copies})
        return Recovery(
            self.graph,
            MappingProxyType(tables),
            MappingProxyType(self.quality),
            MappingProxyType(unresolved),
            MappingProxyType({key: table for key, table in guesses.items() if key not in tables}),
        )

    def _reason(self, axes: tuple[str, ...]) -> str:
        """Return why a table was not found: the trouble with the set that has most of its variables."""
        shared = {names: len(set(names) & set(axes)) for names in self.trouble}
        nearest = max(shared, key=lambda names: (shared[names], -len(names)), default=())
        if not shared.get(nearest):
            return "no bond or node shows all its variables"
        return f"{{{', '.join(nearest)}}} {self.trouble[nearest]}"

    def _table(self, key: TableKey, axes: tuple[str, ...]) -> Floats | None:
        """Return a table, or None; where variables are copies, from what they are copies of."""
        originals = tuple(self.copies.get(name, name) for name in axes)
        names = tuple(dict.fromkeys(originals))
        joint = self._with_leaf(names)
        if joint is None:
            joint = self._joint(names)
        if joint is None:
            return None
        spread = np.zeros([self.graph.states[name] for name in axes])
        cells = np.indices(joint.shape)
        spread[tuple(cells[names.index(name)] for name in originals)] = joint
        return _normalised(spread, len(key))

    def _with_leaf(self, axes: tuple[str, ...]) -> Floats | None:
        """Return the joint distribution of an observed variable and variables above its leaf, or None.

        It is the mean over all sets that show it.
        """
        leaf = next((self._leaves[name] for name in axes if name in self._leaves), 0)
        column = self.plan.nodes[leaf].observed
        if column is None:
            return None
        if axes == (column,):
            return self.gauges.alone(leaf)
        above = set(axes) - {column}
        total, weights = np.zeros([self.graph.states[name] for name in axes]), 0.0
        for states in self._by_leaf.get(leaf, ()):
            names = states.separation.names
            if above <= set(names) and column not in names:
                joint = (self.gauges.cores[leaf] @ states.legs[Leg(leaf, False)]) * states.shares
                weight = weight_of(states)
                total += weight * marginal(joint.T.reshape(*states.separation.sizes, -1), (*names, column), axes)
                weights += weight
        return total / weights if weights else None

    @cached_property
    def _leaves(self) -> dict[str, int]:
        """The leaves of columns that no other leaf or set holds."""
        nodes = enumerate(self.plan.nodes)
        return {node.observed: i for i, node in nodes if node.observed and node.observed not in node.passed[-1]}

    @cached_property
    def _by_leaf(self) -> dict[int, list[IdentifiedStates]]:
        found: dict[int, list[IdentifiedStates]] = {}
        for states in self.sets:
            for leg in states.legs:
                if not leg.up and self.plan.nodes[leg.bond].observed is not None:
                    found.setdefault(leg.bond, []).append(states)
        return found

    def _joint(self, axes: tuple[str, ...]) -> Floats | None:
        """Return the joint distribution of some variables of sets, or None."""
        within = [states for states in self._by_set.get(axes[0], ()) if set(axes) <= set(states.separation.names)]
        if within:
            best = min(within, key=lambda states: (states.separation.states, states.residual))
            shares = np.maximum(best.shares, 0.0).reshape(best.separation.sizes)
            return marginal(shares, best.separation.names, axes)
        # Of nodes only where bonds do not suffice.
        for meetings in (at_bonds, at_nodes):
            if meetings not in self._meetings:
                found = meetings(self.plan, self.sets)
                self._meetings[meetings] = _by_name((tuple(meeting.sizes), meeting) for meeting in found)
            fitting = [m for m in self._meetings[meetings].get(axes[0], ()) if set(axes) <= set(m.sizes)]
            for meeting in sorted(fitting, key=lambda m: (math.prod(m.sizes.values()), m.residual)):
                joint = meeting.joint(self.gauges)
                if joint is not None:
                    return marginal(joint, tuple(meeting.sizes), axes)
        return None

    @cached_property
    def _by_set(self) -> dict[str, list[IdentifiedStates]]:
        return _by_name((states.separation.names, states) for states in self.sets)


def _by_name(items: Iterable[tuple[tuple[str, ...], T]]) -> dict[str, list[T]]:
    """Return, for each name, the items that have it among theirs: recovery stays linear in the columns."""
    found: dict[str, list[T]] = {}
    for names, item in items:
        for name in names:
            found.setdefault(name, []).append(item)
    return found


def _normalised(table: Floats, distributed: int) -> Floats:
    """Return distributions over the last axes: no negative numbers, and uniform ones where nothing is left."""
    positive = np.maximum(table, 0.0)
    axes = tuple(range(table.ndim - distributed, table.ndim))
    totals = positive.sum(axis=axes, keepdims=True)
    uniform = np.full_like(positive, 1 / math.prod(table.shape[table.ndim - distributed :]))
    return np.asarray(np.divide(positive, totals, out=uniform, where=totals > 0))


def copied(graph: LatentGraph, known: frozenset[str]) -> dict[str, str]:
    """Return hidden variables that may be copies of known ones without any loss, each with its original.

    A hidden variable between two others only (the first of a chain, a root with two children) is not identified: as
    a copy of one neighbour it gives the same distribution.

    `known` are hidden variables whose states are known.

    Examples
    --------
    >>> from eigentree.graphs.zoo import hmm
    >>> copied(hmm(length=4), frozenset({"h1", "h2"}))
    {'h0': 'h1', 'h3': 'h2'}
    """
    moral = moral_adjacency(graph)
    copies: dict[str, str] = {}
    for name in graph.hidden:
        if name in known:
            continue
        beside = sorted(other for other in moral[name] & known if graph.states[other] <= graph.states[name])
        if len(moral[name]) == 2 and beside:
            copies[name] = beside[0]
    return copies


SPREAD = 0.7
"""How far a state goes on its way from the column's own distribution to where a probability would be zero."""

ROUNDS = 20
"""Most iterations of clustering."""

RAREST = 1e-9
"""A state of a column with less probability has no features."""

NO_SPAN = 1e-9
"""Directions that are shorter than this part of the longest are rounding."""


def guessed_emissions(gauges: Gauges, known: Collection[str]) -> dict[TableKey, Floats]:
    """Return guesses of P(x | parents) for leaves whose parents are hidden and not known, on a directed graph.

    Of several leaves below the same parents, only the clearest gets one: the order of states is anybody's guess,
    and two guesses would not agree.
    """
    plan, graph = gauges.fit.plan, gauges.fit.plan.graph
    clearest: dict[tuple[str, ...], tuple[float, TableKey, Floats]] = {}
    for bond, (node, edge) in enumerate(zip(plan.nodes, gauges.fit.edges, strict=True)):
        if node.observed is None or edge is None:
            continue
        parents = graph.parents(node.observed)
        if not parents or not set(parents) <= set(graph.hidden) or not set(parents).isdisjoint(known):
            continue
        sizes = [graph.states[name] for name in parents]
        guess = _guess(gauges.cores[bond], gauges.alone(bond), math.prod(sizes))
        if guess is None:
            continue
        clarity = float(edge.singular_values[: node.rank][-1]) / max(edge.noise, RAREST)
        if parents not in clearest or clarity > clearest[parents][0]:
            clearest[parents] = (clarity, (node.observed,), guess.reshape(*sizes, -1))
    return {key: guess for _, key, guess in clearest.values()}


def _guess(core: Floats, alone: Floats, count: int) -> Floats | None:
    """Return as many distributions within the span of a leaf's core, shape (count, states), or None."""
    if count > len(alone) or not np.isfinite(core).all() or not alone.min() > RAREST:
        return None
    roots = np.sqrt(alone)[:, None]
    moves = (core - alone[:, None] * core.sum(axis=0)) / roots
    directions, sizes, _ = np.linalg.svd(moves, full_matrices=False)
    features = directions[:, sizes > NO_SPAN * max(1.0, sizes[0])] / roots
    if not features.shape[1]:
        return None
    leanings = features @ _clustered(features, alone, count).T
    lowest = leanings.min(axis=0)
    far = np.divide(-SPREAD, lowest, out=np.zeros_like(lowest), where=lowest < 0)
    guess: Floats = (alone[:, None] * (1 + leanings * far)).T
    return np.asarray(guess / guess.sum(axis=1, keepdims=True))


def _clustered(points: Floats, weights: Floats, count: int) -> Floats:
    """Return the centres of weighted clusters, begun at points that lie far from each other."""
    distances = (points**2).sum(axis=1)
    chosen: list[int] = []
    while len(chosen) < count:
        chosen.append(int((weights * distances).argmax()))
        distances = ((points[:, None] - points[chosen]) ** 2).sum(axis=2).min(axis=1)
    centres = points[chosen]
    for _ in range(ROUNDS):
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        members = (nearest == np.arange(count)[:, None]) * weights
        totals = members.sum(axis=1, keepdims=True)
        moved = np.divide(members @ points, totals, out=centres.copy(), where=totals > 0)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres
