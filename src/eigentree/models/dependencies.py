"""Which columns speak to which: how much the variables of a model tell of each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.checks import our_arithmetic
from eigentree.counting.dependence import information_of
from eigentree.errors import GraphError, ParameterError, did_you_mean, quoted
from eigentree.exact.network import LatentNetwork
from eigentree.exact.pair_tables import PairTables
from eigentree.models.tables_face import TablesFace
from eigentree.structures.discovery import mixed_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.arrays import Floats

__all__ = ["Dependencies", "Link", "dependencies", "edge_strengths", "network_of"]

MOST_SHOWN = 10
"""Most pairs that are shown, the strongest first."""


class Link(NamedTuple):
    """How much two variables tell of each other.

    Attributes
    ----------
    one, other : str
    nats : float
        Their mutual information: 0 where they are independent, the entropy of either where each tells the other.
    """

    one: str
    other: str
    nats: float


@dataclass(frozen=True, repr=False)
class Dependencies:
    """How much the variables of a model tell of each other; any of these makes a frame, as in ``DataFrame(edges)``.

    Attributes
    ----------
    columns : list of Link
        All pairs of columns, the strongest first.
    edges : list of Link
        The edges of the graph, the strongest first.
    hidden : list of Link
        Each hidden variable and each column, those first that it tells most about.
    """

    columns: list[Link]
    edges: list[Link]
    hidden: list[Link]

    def about(self, name: str) -> list[Link]:
        """Return what a variable has to do with each column, the strongest first; it stands first in each."""
        turned = [Link(other, one, nats) for one, other, nats in self.columns]
        found = [link for link in (*self.hidden, *self.columns, *turned) if link.one == name]
        if not found:
            names = {link.one: None for link in (*self.hidden, *self.columns, *turned)}
            raise GraphError(
                f"nothing is known of a variable {quoted(name)} beside other columns{did_you_mean(name, names)}"
            )
        return _ranked(found)

    def __repr__(self) -> str:
        lines = ["columns that tell most of each other, in nats"]
        lines += [f"  {nats:.4f}  {one}, {other}" for one, other, nats in self.columns[:MOST_SHOWN]]
        if len(self.columns) > MOST_SHOWN:
            lines.append(f"  … ({len(self.columns)} pairs in all)")
        if self.hidden:
            lines.append("columns that hidden variables tell most about")
        for name, links in groupby(self.hidden, key=lambda link: link.one):
            shown = ", ".join(f"{link.other} {link.nats:.3f}" for link in list(links)[:3])
            lines.append(f"  {name}: {shown}")
        return "\n".join(lines)


@our_arithmetic
def dependencies(model: LatentNetwork | TablesFace) -> Dependencies:
    """Return how much the columns of a model, and its hidden variables, tell of each other: mutual information.

    All is exact under the model, whatever cells were missing when it was learned. The time grows with the square of
    the number of columns.

    Parameters
    ----------
    model : LatentNetwork, or a fitted EMJunctionTree or OnlineEMJunctionTree
        In a mixture of trees (``structure="auto"``), which has hidden states of its own in each tree, that of a
        hidden variable and any other is the mean over the trees. That of two columns is of the model as a whole.

    Examples
    --------
    >>> import eigentree as et
    >>> graph = et.LatentGraph({"h": 2, "x": 2, "y": 2}, [("h", "x"), ("h", "y")], ["h"])
    >>> copy = [[1.0, 0.0], [0.0, 1.0]]
    >>> dependencies(et.LatentNetwork(graph, {"h": [0.5, 0.5], "x": copy, "y": [[0.9, 0.1], [0.1, 0.9]]}))
    columns that tell most of each other, in nats
      0.3681  x, y
    columns that hidden variables tell most about
      h: x 0.693, y 0.368
    """
    network = network_of(model)
    tree, which = mixed_tree(network.graph)
    tables = PairTables(network, which)
    columns: dict[tuple[str, str], float] = {}
    hidden: dict[tuple[str, str], float] = {}
    for column in tree.observed:
        for other, table in tables.of(column).items():
            if other in tree.hidden:
                hidden[other, column] = _information(table, which is not None)
            elif tree.column(column) < tree.column(other):
                columns[column, other] = _information(table.sum(axis=2) if which else table, False)
    return Dependencies(
        _ranked(Link(*pair, columns.get(pair, 0.0)) for pair in combinations(tree.observed, 2)),
        _ranked(Link(*edge, nats) for edge, nats in edge_strengths(network).items()),
        [
            link
            for name in tree.hidden
            for link in _ranked(Link(name, column, hidden.get((name, column), 0.0)) for column in tree.observed)
        ],
    )


def network_of(model: object) -> LatentNetwork:
    """Return the network that is given, or that was fitted; else raise `ParameterError`."""
    if isinstance(model, LatentNetwork):
        return model
    if isinstance(model, TablesFace):
        # Where it was not fitted, this says so.
        assert model.graph_
        return model.network_
    raise ParameterError(
        f"a LatentNetwork or a fitted EMJunctionTree or OnlineEMJunctionTree has tables, not {quoted(model)}; "
        f"those of a spectral model are in to_network"
    )


@our_arithmetic
def edge_strengths(network: LatentNetwork) -> dict[tuple[str, str], float]:
    """Return the mutual information of both ends of each edge in nats, as `dependencies` tells it."""
    tree, which = mixed_tree(network.graph)
    beside = () if which is None else (which,)
    tables = network.clique_marginals([(*edge, *beside) for edge in tree.edges])
    return {edge: _information(table, which is not None) for edge, table in zip(tree.edges, tables, strict=True)}


def _information(table: Floats, mixed: bool) -> float:
    """Return the mutual information of the first two axes, where a third has the trees of a mixture, its mean."""
    tables = table if mixed else table[:, :, None]
    shares = tables.sum(axis=(0, 1))
    alone = np.divide(tables, shares, out=np.zeros_like(tables), where=shares > 0)
    return float(information_of(alone) @ shares)


def _ranked(links: Iterable[Link]) -> list[Link]:
    return sorted(links, key=lambda link: (-link.nats, link.one, link.other))
