"""What a model is made of: variables, how much those beside each other tell, and the junction tree above them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from eigentree.models.dependencies import dependencies, edge_strengths
from eigentree.models.spectral import SpectralJunctionTree
from eigentree.structures.junction_tree import JunctionTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.models.dependencies import Link
    from eigentree.viz.reports.adapters import Subject

__all__ = ["Edge", "Separator", "Structure", "structure_of"]

MOST_PAIRED = 400
"""Most columns all pairs of which are looked at."""


class Edge(NamedTuple):
    """An edge of the graph.

    Attributes
    ----------
    one, other : str
    nats : float or None
        The mutual information of its ends under the model, where tables are known.
    """

    one: str
    other: str
    nats: float | None


class Separator(NamedTuple):
    """What cliques of the junction tree share.

    Attributes
    ----------
    members : tuple of str
    cliques : tuple of int
        The cliques that meet in it, by their places.
    states : int
        How many joint states it has.
    ranks : tuple of (int, int)
        The lowest and the highest rank that was learned for it; without operators, that of its states.
    """

    members: tuple[str, ...]
    cliques: tuple[int, ...]
    states: int
    ranks: tuple[int, int]


@dataclass(frozen=True)
class Structure:
    """The graph and the junction tree of a model.

    Attributes
    ----------
    states : mapping of str to int
        Of each variable.
    hidden : tuple of str
    edges : tuple of Edge
        The strongest first, where strengths are known.
    arrows : bool
        Whether directions matter: in trees they say the same whichever way they point.
    cliques : tuple of tuple of str
        Hidden variables first.
    separators : tuple of Separator
    width : int
        The treewidth of the triangulation.
    pairs : tuple of Link
        Columns that tell most of each other, where tables are known; the strongest first.
    """

    states: Mapping[str, int]
    hidden: tuple[str, ...]
    edges: tuple[Edge, ...]
    arrows: bool
    cliques: tuple[tuple[str, ...], ...]
    separators: tuple[Separator, ...]
    width: int
    pairs: tuple[Link, ...]

    @property
    def centre(self) -> Separator | None:
        """The one separator in which all cliques meet, where each adds one column to it, as in a mixture."""
        if len(self.separators) != 1 or len(self.cliques) < 2:
            return None
        (only,) = self.separators
        star = set(only.members) == set(self.hidden) and len(only.cliques) == len(self.cliques)
        return only if star and all(len(clique) == len(only.members) + 1 for clique in self.cliques) else None


def structure_of(subject: Subject, pairs: int = 10) -> Structure:
    """Return what a model is made of, with so many pairs of columns at most."""
    graph = subject.graph
    nats = {} if subject.network is None else edge_strengths(subject.network)
    edges = [Edge(*edge, nats.get(edge)) for edge in graph.edges]
    tree, hidden = JunctionTree.of(graph), set(graph.hidden)
    linked: tuple[Link, ...] = ()
    if subject.network is not None and not subject.steps and 1 < len(graph.observed) <= MOST_PAIRED:
        linked = tuple(dependencies(subject.network).columns[:pairs])
    return Structure(
        states=dict(graph.states),
        hidden=graph.hidden,
        edges=tuple(sorted(edges, key=lambda edge: -(edge.nats or 0.0))),
        arrows=graph.directed and any(len(graph.parents(name)) > 1 for name in graph.names),
        cliques=tuple(tuple(sorted(clique, key=lambda name: name not in hidden)) for clique in tree.cliques),
        separators=_separators(tree, _ranks(subject)),
        width=tree.width,
        pairs=linked,
    )


def _ranks(subject: Subject) -> dict[frozenset[str], tuple[int, int]]:
    """Return the lowest and the highest rank that was learned for each separator."""
    found: dict[frozenset[str], tuple[int, int]] = {}
    if isinstance(subject.asked, SpectralJunctionTree):
        for one in subject.asked.report_.separators:
            key = frozenset(one.separator)
            low, high = found.get(key, (one.rank, one.rank))
            found[key] = min(low, one.rank), max(high, one.rank)
    return found


def _separators(tree: JunctionTree, ranks: Mapping[frozenset[str], tuple[int, int]]) -> tuple[Separator, ...]:
    """Return the separators of all cliques; equal ones that meet in a clique are one, so it stays a tree."""
    groups: list[tuple[frozenset[str], list[int]]] = []
    at: dict[tuple[int, frozenset[str]], int] = {}
    for clique, parent in enumerate(tree.clique_parents):
        shared = frozenset(tree.cliques[clique]) & frozenset(tree.cliques[parent]) if parent >= 0 else frozenset()
        if not shared:
            continue
        # Parents stand before their children, so theirs is known already.
        group = at.get((parent, shared))
        if group is None:
            group = len(groups)
            groups.append((shared, [parent]))
            at[parent, shared] = group
        groups[group][1].append(clique)
        at[clique, shared] = group
    made = []
    for shared, cliques in groups:
        members = tuple(name for name in tree.cliques[cliques[0]] if name in shared)
        states = 1
        for count in tree.states_of(members):
            states *= count
        made.append(Separator(members, tuple(cliques), states, ranks.get(shared, (states, states))))
    return tuple(made)
