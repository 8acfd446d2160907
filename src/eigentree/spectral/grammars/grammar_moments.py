r"""Moments of the nodes of trees: of inside and outside features, and of rules with both.

Write :math:`\phi` for the inside and :math:`\psi` for the outside features of a node, as in `node_features`, each
one-hot and averaged over its symbols. Of each label `a` the pair moment :math:`\Omega^a = E[\phi\psi^T \mid a]` is
wanted first, and with maps :math:`Y = U_a^T\phi` and :math:`Z = V_a^T\psi` made from it, of each rule
:math:`E[Y_b \otimes Y_c \otimes Z_a \mid a \to b\,c]` (Cohen et al., 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array

from eigentree.spectral.grammars.node_features import FEATURES, NodeFeatures
from eigentree.spectral.learn.bonds import PairMoment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows

__all__ = ["CountedMoments", "FeatureMaps", "GrammarMoments", "ProjectedMoments"]


class FeatureMaps(NamedTuple):
    """The maps of a label's features: U_a and V_a, the constant first."""

    inside: Floats
    outside: Floats


class ProjectedMoments(NamedTuple):
    """Means of mapped features.

    Attributes
    ----------
    rules : list of array, shape (features of the left child, of the right child, of the node outside)
        Of each rule; the first feature of each node is constant.
    lexicon : array, shape (pairs, most features)
        Of the outside features of each pair's nodes, 0 behind those of its label.
    roots : array, shape (labels, most features)
        Of the inside features of roots.
    """

    rules: list[Floats]
    lexicon: Floats
    roots: Floats


class GrammarMoments(Protocol):
    """What a grammar is learned from."""

    @property
    def symbols(self) -> GrammarSymbols:
        """The labels, words and rules."""

    @property
    def exact(self) -> bool:
        """Whether there is no noise."""

    @property
    def nodes(self) -> Floats:
        """How many nodes of each label there are, or are expected in a tree."""

    @property
    def rules(self) -> Floats:
        """How many nodes of each rule."""

    @property
    def lexicon(self) -> Floats:
        """How many nodes of each pair of the lexicon."""

    @property
    def roots(self) -> Floats:
        """How many roots of each label."""

    def pair(self, label: int) -> PairMoment:
        """Return the moment of the features that nodes of a label have, as the joint table of two columns."""

    def deviations(self, label: int, maps: FeatureMaps) -> tuple[Floats, Floats]:
        """Return the standard deviations of mapped features, 1 where they are of no consequence."""

    def projected(self, maps: Sequence[FeatureMaps]) -> ProjectedMoments:
        """Return the means of mapped features."""


@dataclass(frozen=True, eq=False)
class CountedMoments:
    """The moments of encoded trees.

    Counts are whole numbers. Means of mapped features are sums of floats, in the order of the nodes.

    Attributes
    ----------
    rows : TreeRows
        All labels are known.
    symbols : GrammarSymbols
    """

    rows: TreeRows
    symbols: GrammarSymbols
    exact = False

    @cached_property
    def nodes(self) -> Floats:
        """How many nodes of each label there are."""
        return np.bincount(self.rows.labels, minlength=len(self.symbols.labels)).astype(np.float64)

    @cached_property
    def _expanded(self) -> Floats:
        own = self._features.inside[:, 0]
        size = len(self.symbols.rules) + len(self.symbols.lexicon)
        return np.bincount(own[own >= 0], minlength=size).astype(np.float64)

    @property
    def rules(self) -> Floats:
        """How many nodes of each rule."""
        return self._expanded[: len(self.symbols.rules)]

    @property
    def lexicon(self) -> Floats:
        """How many nodes of each pair of the lexicon."""
        return self._expanded[len(self.symbols.rules) :]

    @cached_property
    def roots(self) -> Floats:
        """How many roots of each label."""
        roots = self.rows.labels[self.rows.offsets[1:] - 1]
        return np.bincount(roots, minlength=len(self.symbols.labels)).astype(np.float64)

    def pair(self, label: int) -> PairMoment:
        """Return the moment of the features that nodes of a label have, as the joint table of two columns."""
        inside, outside = self._sparse[label]
        total = FEATURES**2 * max(inside.shape[0], 1)
        none = np.zeros((inside.shape[1], 0)), np.zeros((outside.shape[1], 0))
        return PairMoment((inside.T @ outside).tocsr() / total, *none)

    def deviations(self, label: int, maps: FeatureMaps) -> tuple[Floats, Floats]:
        """Return the standard deviations of mapped features."""
        inside, outside = self._sparse[label]
        # Their means are 0, but for the constant's.
        return _root_mean_square(inside @ maps.inside), _root_mean_square(outside @ maps.outside)

    def projected(self, maps: Sequence[FeatureMaps]) -> ProjectedMoments:
        """Return the means of mapped features."""
        rows = self.rows
        most = max(own.inside.shape[1] for own in maps)
        inside, outside = (np.zeros((len(rows.labels), most)) for _ in range(2))
        for label, own in enumerate(maps):
            at, (below, around) = self._nodes_of[label], self._sparse[label]
            inside[at, : own.inside.shape[1]] = below @ own.inside / FEATURES
            outside[at, : own.outside.shape[1]] = around @ own.outside / FEATURES
        ranks = [own.inside.shape[1] for own in maps]
        expanded = self._features.inside[:, 0]
        count = len(self.symbols.rules)
        order = np.argsort(expanded, kind="stable")
        begins = np.searchsorted(expanded[order], np.arange(count + 1))
        rules = []
        for rule, (a, b, c) in enumerate(self.symbols.rules.tolist()):
            at = order[begins[rule] : begins[rule + 1]]
            both = inside[rows.left[at], : ranks[b], None] * inside[at - 1, None, : ranks[c]]
            total = both.reshape(len(at), -1).T @ outside[at, : ranks[a]]
            rules.append(total.reshape(ranks[b], ranks[c], ranks[a]) / max(len(at), 1))
        outer = expanded >= count
        roots = rows.offsets[1:] - 1
        return ProjectedMoments(
            rules,
            _means(expanded[outer] - count, outside[outer], len(self.symbols.lexicon)),
            _means(rows.labels[roots], inside[roots], len(self.symbols.labels)),
        )

    @cached_property
    def _features(self) -> NodeFeatures:
        return NodeFeatures.of(self.rows, self.symbols)

    @cached_property
    def _nodes_of(self) -> list[Integers]:
        """The nodes of each label."""
        order = np.argsort(self.rows.labels, kind="stable")
        return np.split(order, np.cumsum(self.nodes.astype(np.int64))[:-1])

    @cached_property
    def _sparse(self) -> list[tuple[csr_array, csr_array]]:
        """The features of the nodes of each label, one-hot: a dictionary of those that occur, in their order."""
        return [
            (_one_hot(self._features.inside[nodes]), _one_hot(self._features.outside[nodes]))
            for nodes in self._nodes_of
        ]


def _one_hot(features: Integers) -> csr_array:
    """Return the symbols of nodes as a sparse matrix: a column for each symbol that occurs in each place."""
    columns, width = np.empty_like(features), 0
    for place, symbols in enumerate(features.T):
        names, codes = np.unique(symbols, return_inverse=True)
        columns[:, place] = codes + width
        width += len(names)
    ends = np.arange(0, columns.size + 1, features.shape[1])
    return csr_array((np.ones(columns.size), columns.ravel(), ends), shape=(len(features), width))


def _root_mean_square(values: Floats) -> Floats:
    return np.asarray(np.sqrt(np.mean(values**2, axis=0))) / FEATURES


def _means(groups: Integers, values: Floats, count: int) -> Floats:
    """Return the mean of the values of each group, 0 where it is empty."""
    sizes = np.maximum(np.bincount(groups, minlength=count), 1)
    sums = [np.bincount(groups, column, count) for column in values.T]
    return np.stack(sums, axis=1) / sizes[:, None]
