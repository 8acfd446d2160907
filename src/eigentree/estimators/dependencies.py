"""Mutual information of the variables of a model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.errors import GraphError, ParameterError, did_you_mean, quoted
from eigentree.estimators.mixins.latent_mixin import LatentMixin
from eigentree.estimators.number_bins import binned, number_leaves
from eigentree.graphs.structure_learning import mixed_tree
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.networks.pair_tables import PairTables
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eigentree.arrays import Floats, Integers
    from eigentree.estimators.number_bins import NumberLeaf

__all__ = ["Dependencies", "Link", "column_nats", "dependencies", "edge_strengths", "network_of"]

MOST_SHOWN = 10
"""Most pairs that are shown, the strongest first."""


class Link(NamedTuple):
    """Two variables and their mutual information, which is 0 where they are independent."""

    one: str
    other: str
    nats: float


@dataclass(frozen=True, repr=False)
class Dependencies:
    """Mutual information of the variables of a model; each list makes a frame, as in ``DataFrame(edges)``.

    Attributes
    ----------
    columns : list of Link
        All pairs of columns, the strongest first.
    edges : list of Link
        The edges of the graph, the strongest first.
    hidden : list of Link
        Each hidden variable and each column, the strongest of each first.
    """

    columns: list[Link]
    edges: list[Link]
    hidden: list[Link]

    def about(self, name: str) -> list[Link]:
        """Return the mutual information of a variable and each column, the strongest first; it is `one` in each."""
        turned = [Link(other, one, nats) for one, other, nats in self.columns]
        found = [link for link in (*self.hidden, *self.columns, *turned) if link.one == name]
        if not found:
            names = {link.one: None for link in (*self.hidden, *self.columns, *turned)}
            raise GraphError(
                f"there is no mutual information of {quoted(name)} and other columns{did_you_mean(name, names)}"
            )
        return _ranked(found)

    def __repr__(self) -> str:
        lines = ["pairs of columns with the most mutual information, in nats"]
        lines += [f"  {nats:.4f}  {one}, {other}" for one, other, nats in self.columns[:MOST_SHOWN]]
        if len(self.columns) > MOST_SHOWN:
            lines.append(f"  … ({len(self.columns)} pairs in all)")
        if self.hidden:
            lines.append("hidden variables, and the columns with most information about them")
        for name, links in groupby(self.hidden, key=lambda link: link.one):
            shown = ", ".join(f"{link.other} {link.nats:.3f}" for link in list(links)[:3])
            lines.append(f"  {name}: {shown}")
        return "\n".join(lines)


@our_arithmetic
def dependencies(model: LatentNetwork | LatentMixin) -> Dependencies:
    """Return the mutual information of the columns of a model, and of its hidden variables, exact under the model.

    That of numbers is the mutual information of 32 bins of about equal probability, which is a little less.

    Parameters
    ----------
    model : LatentNetwork, or a fitted EMJunctionTree or OnlineEMJunctionTree
        A fitted model or a network.

    Notes
    -----
    In a mixture of trees (``structure="auto"``), which has hidden states of its own in each tree, the mutual
    information of a hidden variable and any other is the mean over the trees. That of two columns is of the model
    as a whole.

    Examples
    --------
    >>> import eigentree as et
    >>> graph = et.LatentGraph({"h": 2, "x": 2, "y": 2}, [("h", "x"), ("h", "y")], ["h"])
    >>> copy = [[1.0, 0.0], [0.0, 1.0]]
    >>> dependencies(et.LatentNetwork(graph, {"h": [0.5, 0.5], "x": copy, "y": [[0.9, 0.1], [0.1, 0.9]]}))
    pairs of columns with the most mutual information, in nats
      0.3681  x, y
    hidden variables, and the columns with most information about them
      h: x 0.693, y 0.368
    """
    known = network_of(model)
    leaves = number_leaves(known)
    network = binned(known, leaves)
    tree, which = mixed_tree(network.graph)
    pairs = PairTables(network, which)
    together = _within_groups(leaves)
    columns: list[Link] = []
    hidden: dict[str, list[Link]] = {}
    for name, table in pairs.tables():
        tables = table if which else table[:, :, None]
        if name in tree.hidden:
            nats = column_nats(tables, pairs.starts)
            hidden[name] = _ranked(Link(name, *each) for each in zip(tree.observed, nats, strict=True))
        else:
            nats = column_nats(tables.sum(axis=2, keepdims=True), pairs.starts)
            place = tree.column(name)
            for other, own in zip(tree.observed[:place], nats[:place], strict=True):
                columns.append(Link(other, name, together.get(frozenset((other, name)), own)))
    return Dependencies(
        _ranked(columns),
        _ranked(Link(*edge, nats) for edge, nats in _edge_nats(network).items()),
        [link for name in tree.hidden for link in hidden[name]],
    )


def _within_groups(leaves: Mapping[str, NumberLeaf]) -> dict[frozenset[str], float]:
    """Return the mutual information of numbers that share an emission, pair by pair."""
    groups = {leaf.group.names: leaf.group for leaf in leaves.values()}
    return {
        frozenset((one, other)): column_nats(table[:, :, None], np.zeros(1, np.int64))[0]
        for group in groups.values()
        for one, other, table in group.pairs()
    }


def network_of(model: object) -> LatentNetwork:
    """Return the network that is given, or that was fitted, without covariates; else raise `ParameterError`."""
    if isinstance(model, LatentNetwork):
        return model.measurement
    if isinstance(model, LatentMixin):
        return model.network_.measurement
    raise ParameterError(
        f"a LatentNetwork or a fitted EMJunctionTree or OnlineEMJunctionTree has tables, not {quoted(model)}; "
        f"those of a spectral model are in to_network"
    )


@our_arithmetic
def edge_strengths(network: LatentNetwork) -> dict[tuple[str, str], float]:
    """Return the mutual information of both ends of each edge in nats, as in `dependencies`."""
    network = network.measurement
    return _edge_nats(binned(network, number_leaves(network)))


def _edge_nats(network: LatentNetwork) -> dict[tuple[str, str], float]:
    tree, which = mixed_tree(network.graph)
    beside = () if which is None else (which,)
    tables = network.clique_marginals([(*edge, *beside) for edge in tree.edges])
    return {
        edge: column_nats(table if which else table[:, :, None], np.zeros(1, np.int64))[0]
        for edge, table in zip(tree.edges, tables, strict=True)
    }


def column_nats(tables: Floats, starts: Integers) -> list[float]:
    """Return the mutual information of each column and one variable, in the mean over the trees of a mixture.

    `tables` has shape (states of all columns, states, trees); `starts` is the first row of each column.
    """
    columns = np.add.reduceat(tables, starts, axis=0)
    of_rows = np.repeat(columns, np.diff([*starts, len(tables)]), axis=0)
    expected = tables.sum(axis=1, keepdims=True) * of_rows
    known = tables * of_rows.sum(axis=1, keepdims=True)
    ratio = np.divide(known, expected, out=np.ones_like(tables), where=tables > 0)
    found = np.add.reduceat((tables * np.log(ratio)).sum(axis=(1, 2)), starts)
    # Rounding must not make it negative.
    return [max(float(nats), 0.0) for nats in found]


def _ranked(links: Iterable[Link]) -> list[Link]:
    return sorted(links, key=lambda link: (-link.nats, link.one, link.other))
