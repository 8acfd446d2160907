r"""Tables from a spectral fit: what a `LatentNetwork` needs, as far as the fit tells it.

The states of sets of hidden variables are told apart on the bonds (`gauges`) and named (`labelling`). Emissions
follow from the gauges of leaves. A table among hidden variables follows from a bond that two sets separate: there
the identity is :math:`\sum_{s, t} P(s, t)\, G_{\cdot s} \otimes H_{\cdot t}`, with the gauge G of what lies below
the bond given the one set and H of what lies above given the other; or from a node and a set beyond each of its
legs. Either is solved by non-negative least squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from eigentree.errors import RankError
from eigentree.graphs.elimination import moral_adjacency
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.tensors.named_tables import learnable_tables, marginal, table_axes
from eigentree.inference.threads import one_thread
from eigentree.spectral.recover.gauges import Gauges, Told
from eigentree.spectral.recover.heuristic_emissions import sketched
from eigentree.spectral.recover.joint_distributions import Meeting, at_bonds, at_nodes
from eigentree.spectral.recover.separations import Leg, separations
from eigentree.spectral.recover.state_labels import STEADY, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eigentree.arrays import Floats
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey
    from eigentree.spectral.learn.spectral_fit import SpectralFit

__all__ = ["Recovery", "copied", "recovered"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Recovery:
    """The tables that a spectral fit tells.

    Attributes
    ----------
    graph : LatentGraph
    tables : mapping of TableKey to array
        Axes as in ``table_axes(graph)``: what is given, then what the table distributes. States of hidden variables
        come in an order of their own, the same in all tables.
    resolved : mapping of str to float
        The hidden variables whose states were told apart, with the relative residual of the joint diagonalisation:
        0 for exact moments, near 1 where noise is as large as the signal.
    unresolved : mapping of TableKey to str
        Why each other table was not found.
    sketches : mapping of TableKey to array
        Guesses of some of these, for a start of EM: emissions within what the fit knows of their column.
    """

    graph: LatentGraph
    tables: Mapping[TableKey, Floats]
    resolved: Mapping[str, float]
    unresolved: Mapping[TableKey, str]
    sketches: Mapping[TableKey, Floats]

    @property
    def hints(self) -> dict[TableKey, Floats]:
        """The tables and the sketches together: what EM starts from."""
        return {**self.tables, **self.sketches}

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
    """Return the tables that a spectral fit tells.

    Parameters
    ----------
    fit : SpectralFit
    shrinkage : float
        Toward independent columns, before the states are told apart.
    """
    with one_thread():
        return _Recovering(fit, shrinkage).recovery()


class _Recovering:
    """The steps of a recovery; what is found fills up as they are taken."""

    def __init__(self, fit: SpectralFit, shrinkage: float) -> None:
        self.plan = fit.plan
        self.graph = fit.plan.graph
        self.gauges = Gauges(fit, shrinkage)
        self.trouble: dict[tuple[str, ...], str] = {}
        found = named(self.plan, self._told())
        self.told = found.sets
        for told in found.nameless:
            self.trouble[told.separation.names] = "has states that cannot be named variable by variable"
        self.copies = self.graph.derived(copied, frozenset(self._quality()))

    def _told(self) -> list[Told]:
        """Return all sets whose states can be told apart."""
        found = []
        for separation in self.plan.derived(separations):
            try:
                told = self.gauges.told(separation)
            except np.linalg.LinAlgError:
                told = "led to a matrix that cannot be inverted"
            if isinstance(told, str):
                self.trouble[separation.names] = told
            else:
                found.append(told)
        return found

    def recovery(self) -> Recovery:
        """Return what was found."""
        tables: dict[TableKey, Floats] = {}
        unresolved: dict[TableKey, str] = {}
        useful = set(learnable_tables(self.graph, table_axes(self.graph)))
        for key, axes in table_axes(self.graph).items():
            # Nothing observed depends on the others, so that even ones will do.
            even = np.ones([self.graph.states[name] for name in axes])
            table = self._table(key, axes) if key in useful else _normalised(even, len(key))
            if table is None:
                unresolved[key] = self._reason(axes)
            else:
                tables[key] = table
        quality = self._quality()
        sketches = sketched(self.gauges, {*quality, *self.copies})
        return Recovery(
            self.graph,
            MappingProxyType(tables),
            MappingProxyType(quality),
            MappingProxyType(unresolved),
            MappingProxyType({key: table for key, table in sketches.items() if key not in tables}),
        )

    def _quality(self) -> dict[str, float]:
        best: dict[str, float] = {}
        for told in self.told:
            for name in told.separation.names:
                best[name] = min(told.residual, best.get(name, math.inf))
        return {name: best[name] for name in self.graph.hidden if name in best}

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

        It is the mean over all sets that tell it.
        """
        leaf = next((self._leaves[name] for name in axes if name in self._leaves), 0)
        column = self.plan.nodes[leaf].observed
        if column is None:
            return None
        if axes == (column,):
            return self.gauges.alone(leaf)
        above = set(axes) - {column}
        total, weights = np.zeros([self.graph.states[name] for name in axes]), 0.0
        for told in self._by_leaf.get(leaf, ()):
            names = told.separation.names
            if above <= set(names) and column not in names:
                joint = (self.gauges.cores[leaf] @ told.legs[Leg(leaf, False)]) * told.shares
                weight = 1 / (told.residual**2 + STEADY)
                total += weight * marginal(joint.T.reshape(*told.separation.sizes, -1), (*names, column), axes)
                weights += weight
        return total / weights if weights else None

    @cached_property
    def _leaves(self) -> dict[str, int]:
        """The leaves of columns that no other leaf or set holds."""
        nodes = enumerate(self.plan.nodes)
        return {node.observed: i for i, node in nodes if node.observed and node.observed not in node.passed[-1]}

    @cached_property
    def _by_leaf(self) -> dict[int, list[Told]]:
        found: dict[int, list[Told]] = {}
        for told in self.told:
            for leg in told.legs:
                if not leg.up and self.plan.nodes[leg.bond].observed is not None:
                    found.setdefault(leg.bond, []).append(told)
        return found

    def _joint(self, axes: tuple[str, ...]) -> Floats | None:
        """Return the joint distribution of some variables of sets, or None."""
        within = [told for told in self._by_set.get(axes[0], ()) if set(axes) <= set(told.separation.names)]
        if within:
            best = min(within, key=lambda told: (told.separation.states, told.residual))
            shares = np.maximum(best.shares, 0.0).reshape(best.separation.sizes)
            return marginal(shares, best.separation.names, axes)
        for meetings in (self._bonds, self._nodes):
            fitting = [meeting for meeting in meetings.get(axes[0], ()) if set(axes) <= set(meeting.names)]
            fitting.sort(key=lambda meeting: (math.prod(meeting.shape), meeting.residual))
            for meeting in fitting:
                joint = meeting.joint(self.gauges)
                if joint is not None:
                    return marginal(joint, meeting.names, axes)
        return None

    @cached_property
    def _by_set(self) -> dict[str, list[Told]]:
        return _by_name((told.separation.names, told) for told in self.told)

    @cached_property
    def _bonds(self) -> dict[str, list[Meeting]]:
        return _by_name((meeting.names, meeting) for meeting in at_bonds(self.plan, self.told))

    @cached_property
    def _nodes(self) -> dict[str, list[Meeting]]:
        return _by_name((meeting.names, meeting) for meeting in at_nodes(self.plan, self.told))


def _by_name(items: Iterable[tuple[tuple[str, ...], T]]) -> dict[str, list[T]]:
    """Return, for each name, the items that have it among theirs."""
    found: dict[str, list[T]] = {}
    for names, item in items:
        for name in names:
            found.setdefault(name, []).append(item)
    return found


def _normalised(table: Floats, distributed: int) -> Floats:
    """Return distributions over the last axes: no negative numbers, and even ones where nothing is left."""
    positive = np.maximum(table, 0.0)
    axes = tuple(range(table.ndim - distributed, table.ndim))
    totals = positive.sum(axis=axes, keepdims=True)
    even = np.full_like(positive, 1 / math.prod(table.shape[table.ndim - distributed :]))
    return np.asarray(np.divide(positive, totals, out=even, where=totals > 0))


def copied(graph: LatentGraph, known: frozenset[str]) -> dict[str, str]:
    """Return hidden variables that may be copies of known ones without any loss, each with its original.

    A hidden variable between two others only (the first of a chain, a root with two children) has no states of its
    own that rows could tell: what it makes of one neighbour given the other, a copy of that one makes too. The same
    holds of several hidden variables that are all parents of one observed variable, and beside it have one known
    neighbour each, like the first step of a factorial HMM.

    Parameters
    ----------
    graph : LatentGraph
    known : frozenset of str
        Hidden variables whose states are known.

    Examples
    --------
    >>> from eigentree.graphs.zoo import hmm
    >>> copied(hmm(length=4), frozenset({"h1", "h2"}))
    {'h0': 'h1', 'h3': 'h2'}
    """
    moral = moral_adjacency(graph)
    copies: dict[str, str] = {}
    for name in graph.hidden:
        if name in known or name in copies:
            continue
        beside = sorted(other for other in moral[name] & known if graph.states[other] <= graph.states[name])
        if len(moral[name]) == 2 and beside:
            copies[name] = beside[0]
        else:
            copies |= _copied_together(graph, name, known, moral)
    return copies


def _copied_together(
    graph: LatentGraph, name: str, known: frozenset[str], moral: dict[str, set[str]]
) -> dict[str, str]:
    """Return copies for a variable and the other parents of the one observed variable below it, or none."""
    below = sorted(moral[name].intersection(graph.observed))
    group = {name, *(moral[below[0]] if len(below) == 1 else ())}
    copies: dict[str, str] = {}
    for member in sorted(group):
        others = moral[member] - group - set(below)
        if len(others) != 1 or not others <= known or not group.isdisjoint(graph.neighbors(member)):
            return {}
        (copies[member],) = others
    distinct = len(set(copies.values())) == len(group) and known.isdisjoint(group)
    fits = all(graph.states[original] <= graph.states[member] for member, original in copies.items())
    return copies if distinct and fits else {}
