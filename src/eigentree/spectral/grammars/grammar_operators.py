"""The operators of a grammar, and what they say of each node of many trees at once: inside and outside vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.inference.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows

__all__ = ["GrammarOperators", "scaled"]


@dataclass(frozen=True, eq=False)
class GrammarOperators:
    """The operators of rules and words.

    An inside vector b of a subtree and an outside vector s of its context have the product b @ s, the probability
    of both. The first unit vector is the inside vector of all subtrees together, so s[0] is that of the context
    alone. Here both are divided by their first entry: the vectors of one child, given what the other is, do not
    depend on how probable that is.

    Attributes
    ----------
    symbols : GrammarSymbols
    ranks : array of int, shape (labels,)
    rules : tuple of array, shape (left child, right child, node)
    words : array, shape (pairs, largest rank)
        Inside vectors of words, 0 behind those of their label.
    starts : array, shape (labels, largest rank)
        Outside vectors of roots.
    """

    symbols: GrammarSymbols
    ranks: Integers
    rules: tuple[Floats, ...]
    words: Floats
    starts: Floats

    @cached_property
    def heads(self) -> tuple[Floats, ...]:
        """Of each label: what each rule, and then each pair, makes of an outside vector; all add up to its first.

        The other operators of a rule are replaced by what all subtrees are together, the first unit vector.
        """
        rules, pairs = self.ranges
        found = []
        for label, rank in enumerate(self.ranks.tolist()):
            own = [self.rules[rule][0, 0] for rule in range(*rules[label : label + 2])]
            words = self.words[slice(*pairs[label : label + 2]), :rank]
            found.append(np.concatenate([np.reshape(own, (-1, rank)), words]))
        return tuple(found)

    @cached_property
    def ranges(self) -> tuple[Integers, Integers]:
        """The first rule of each label, and the first pair, and the number of them."""
        labels = np.arange(len(self.symbols.labels) + 1)
        return (
            np.searchsorted(self.symbols.rules[:, 0], labels),
            np.searchsorted(self.symbols.lexicon[:, 0], labels),
        )

    def inside(self, rows: TreeRows) -> Floats:
        """Return the inside vector of each node, divided by its first entry; the unit vector where unknown."""
        found = self._units(len(rows.labels))
        known = np.flatnonzero((rows.left < 0) & (rows.rule >= 0))
        found[known] = scaled(self.words[rows.rule[known]])
        with one_thread():
            for rule, nodes in reversed(list(self._groups(rows))):
                found[nodes, : self.rules[rule].shape[2]] = self.joined(
                    rule, found[rows.left[nodes]], found[nodes - 1]
                )
        return found

    def joined(self, rule: int, left: Floats, right: Floats) -> Floats:
        """Return the inside vectors of nodes of a rule, given those of their children."""
        b, c, a = self.rules[rule].shape
        both = (left[:, :b] @ self.rules[rule].reshape(b, c * a)).reshape(-1, c, a)
        return scaled((right[:, None, :c] @ both)[:, 0])

    def given_before(self, rows: TreeRows, inside: Floats) -> Floats:
        """Return the outside vector of each node, given all nodes that come before it in pre-order.

        A left child has one that is the mean over all right sisters, a right child that of its left sister.
        """
        return self._outside(rows, inside, None)

    def given_all(self, rows: TreeRows, inside: Floats) -> Floats:
        """Return the outside vector of each node, given all nodes that are not below it."""
        return self._outside(rows, inside, inside)

    def children(self, rule: int, outside: Floats) -> Floats:
        """Return the operators of both children of nodes with some outside vectors: (nodes, left, right)."""
        b, c, a = self.rules[rule].shape
        return np.asarray(outside[:, :a] @ self.rules[rule].reshape(b * c, a).T).reshape(-1, b, c)

    def _outside(self, rows: TreeRows, before: Floats, after: Floats | None) -> Floats:
        found = self._units(len(rows.labels))
        roots = rows.offsets[1:] - 1
        found[roots] = self.starts[rows.labels[roots]]
        with one_thread():
            for rule, nodes in self._groups(rows):
                both = self.children(rule, found[nodes])
                _, b, c = both.shape
                left = both[:, :, 0] if after is None else (both @ after[nodes - 1, :c, None])[:, :, 0]
                found[rows.left[nodes], :b] = scaled(left, both[:, :, 0])
                right = (before[rows.left[nodes], None, :b] @ both)[:, 0]
                found[nodes - 1, :c] = scaled(right, both[:, 0])
        return found

    def _units(self, count: int) -> Floats:
        found = np.zeros((count, self.words.shape[1]))
        found[:, 0] = 1.0
        return found

    def _groups(self, rows: TreeRows) -> Iterator[tuple[int, Integers]]:
        """Yield the nodes of each rule on each level below the roots, level by level."""
        level = rows.offsets[1:] - 1
        while len(level):
            inner = level[rows.left[level] >= 0]
            own = rows.rule[inner]
            order = np.argsort(own, kind="stable")
            ends = np.flatnonzero(np.diff(own[order], append=-2)) + 1
            for nodes in np.split(inner[order], ends[:-1]):
                if len(nodes) and rows.rule[nodes[0]] >= 0:
                    yield int(rows.rule[nodes[0]]), nodes
            level = np.concatenate([rows.left[inner], inner - 1])


def scaled(vectors: Floats, instead: Floats | None = None) -> Floats:
    """Return vectors divided by their first entry, which is a probability.

    Where it is not positive, for noise, others are scaled in their place, or the unit vector where there are none.
    """
    first = vectors[:, :1]
    usable: Booleans = (first > 0) & np.isfinite(vectors).all(axis=1, keepdims=True)
    unit = np.zeros_like(vectors)
    unit[:, 0] = 1.0
    otherwise = unit if instead is None else scaled(instead)
    return np.asarray(np.divide(vectors, first, out=otherwise, where=usable))
