r"""Moments of the nodes of trees: of inside and outside features, and of rules with both.

Write :math:`\phi` for the inside and :math:`\psi` for the outside features of a node, as in `TreeWindows`, each
one-hot and averaged over its symbols. Of each label `a` the pair moment :math:`\Omega^a = E[\phi\psi^T \mid a]` is
wanted first, and with maps :math:`Y = U_a^T\phi` and :math:`Z = V_a^T\psi` made from it, of each rule
:math:`E[Y_b \otimes Y_c \otimes Z_a \mid a \to b\,c]` (Cohen et al., 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from eigentree.counting.tree_windows import AROUND, INSIDE, LEFT, NONE, OUTSIDE, RIGHT, SHOWN
from eigentree.spectral.learn.bonds import PairMoment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.counting.tree_windows import TreeWindows
    from eigentree.data.treebanks.tree_rows import GrammarSymbols

__all__ = ["CountedMoments", "FeatureMaps", "ProjectedMoments"]


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


@dataclass(frozen=True, eq=False)
class CountedMoments:
    """The moments of counted windows, in sums whose order is that of the windows.

    Attributes
    ----------
    windows : TreeWindows
    """

    windows: TreeWindows
    exact = False

    @property
    def symbols(self) -> GrammarSymbols:
        """The labels, words and rules."""
        return self.windows.symbols

    @property
    def nodes(self) -> Floats:
        """How many nodes of each label there are."""
        return self.windows.nodes

    @property
    def rules(self) -> Floats:
        """How many nodes of each rule."""
        return self.windows.expansions[: len(self.symbols.rules)]

    @property
    def lexicon(self) -> Floats:
        """How many nodes of each pair of the lexicon."""
        return self.windows.expansions[len(self.symbols.rules) :]

    @cached_property
    def roots(self) -> Floats:
        """How many roots of each label."""
        at = self._roots
        labels = self.windows.codes[at, 0]
        return np.bincount(labels, self.windows.counts[at], len(self.symbols.labels)).astype(np.float64)

    def pair(self, label: int) -> PairMoment:
        """Return the moment of the features that nodes of a label have, as the joint table of two columns."""
        inside, outside = self._one_hot(label, 0), self._one_hot(label, 1)
        counts = self.windows.counts[self._range(label)]
        total = SHOWN * AROUND * max(float(counts.sum()), 1.0)
        none = np.zeros((inside.shape[1], 0)), np.zeros((outside.shape[1], 0))
        weighted = outside.multiply(counts[:, None])
        return PairMoment((inside.T @ weighted).tocsr() / total, *none)

    def deviations(self, label: int, maps: FeatureMaps) -> tuple[Floats, Floats]:
        """Return the standard deviations of mapped features, whose means are 0 but for the constant's."""
        counts = self.windows.counts[self._range(label)]
        below, around = (
            np.sqrt(counts @ (self._one_hot(label, side) @ own) ** 2 / counts.sum()) / (SHOWN, AROUND)[side]
            for side, own in enumerate(maps)
        )
        return np.asarray(below), np.asarray(around)

    def projected(self, maps: Sequence[FeatureMaps]) -> ProjectedMoments:
        """Return the means of mapped features."""
        codes, counts = self.windows.codes, self.windows.counts.astype(np.float64)
        labels = range(len(maps))
        ranks = [own.inside.shape[1] for own in maps]
        count, widest = len(self.symbols.rules), max(ranks)
        outside = np.zeros((len(codes), widest))
        for label in labels:
            outside[self._range(label), : ranks[label]] = self._one_hot(label, 1) @ maps[label].outside / AROUND
        own = codes[:, INSIDE.start]
        inner = np.flatnonzero((own >= 0) & (own < count))
        sides = []
        for place, part in ((1, LEFT), (2, RIGHT)):
            below = self.symbols.rules[own[inner], place]
            values = np.zeros((len(inner), widest))
            for label in labels:
                at = np.flatnonzero(below == label)
                values[at, : ranks[label]] = self._mapped(label, codes[inner[at], part], maps[label].inside)
            sides.append(values)
        order = np.argsort(own[inner], kind="stable")
        ends = np.searchsorted(own[inner][order], np.arange(count + 1))
        weighted = outside * counts[:, None]
        rules = []
        for rule, (a, b, c) in enumerate(self.symbols.rules.tolist()):
            at = order[ends[rule] : ends[rule + 1]]
            both = sides[0][at, : ranks[b], None] * sides[1][at, None, : ranks[c]]
            total = both.reshape(len(at), ranks[b] * ranks[c]).T @ weighted[inner[at], : ranks[a]]
            rules.append(total.reshape(ranks[b], ranks[c], ranks[a]) / max(float(self.rules[rule]), 1.0))
        outer = own >= count
        roots = np.zeros((len(self._roots), widest))
        for label in np.unique(codes[self._roots, 0]).tolist():
            at = np.flatnonzero(codes[self._roots, 0] == label)
            roots[at, : ranks[label]] = self._mapped(label, codes[self._roots[at], INSIDE], maps[label].inside)
        return ProjectedMoments(
            rules,
            _means(own[outer] - count, weighted[outer], self.lexicon),
            _means(codes[self._roots, 0], roots * counts[self._roots, None], self.roots),
        )

    @cached_property
    def _roots(self) -> Integers:
        """The windows of roots."""
        return np.flatnonzero(self.windows.codes[:, OUTSIDE.start] == NONE)

    @cached_property
    def _begins(self) -> Integers:
        return np.searchsorted(self.windows.codes[:, 0], np.arange(len(self.symbols.labels) + 1))

    def _range(self, label: int) -> slice:
        """Return the windows of a label."""
        return slice(*self._begins[label : label + 2].tolist())

    @cached_property
    def _names(self) -> list[tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]]:
        """For each label, the dictionaries of its inside and its outside features: all symbols of each place."""
        found = []
        for label in range(len(self.symbols.labels)):
            own = self.windows.codes[self._range(label)]
            inside, outside = ([np.unique(symbols) for symbols in own[:, part].T] for part in (INSIDE, OUTSIDE))
            found.append((inside, outside))
        return found

    def _columns(self, names: list[NDArray[np.int32]], symbols: NDArray[np.int32]) -> Integers:
        """Return the feature that each symbol is, of those of all places."""
        first = np.cumsum([0, *map(len, names)])
        each = zip(names, symbols.T, first.tolist(), strict=False)
        return np.stack([np.searchsorted(known, own) + begin for known, own, begin in each], axis=1)

    def _one_hot(self, label: int, side: int) -> csr_array:
        """Return the inside (side 0) or outside (side 1) features of a label's windows."""
        names = self._names[label][side]
        columns = self._columns(names, self.windows.codes[self._range(label), (INSIDE, OUTSIDE)[side]])
        ends = np.arange(0, columns.size + 1, columns.shape[1])
        shape = len(columns), sum(map(len, names))
        return csr_array((np.ones(columns.size), columns.ravel(), ends), shape=shape)

    def _mapped(self, label: int, symbols: NDArray[np.int32], own: Floats) -> Floats:
        """Return the mapped inside features of nodes of a label, given their symbols."""
        return np.asarray(own[self._columns(self._names[label][0], symbols)].mean(axis=1))


def _means(groups: Integers | NDArray[np.int32], sums: Floats, counts: Floats) -> Floats:
    """Return the mean of the values of each group, 0 where it is empty."""
    total = [np.bincount(groups, column, len(counts)) for column in sums.T]
    return np.stack(total, axis=1) / np.maximum(counts, 1.0)[:, None]
