"""Encoded trees: what a grammar's labels, words and rules are, and all nodes of all trees in one set of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigentree.data.treebanks.binarisation import INTERMEDIATE, is_intermediate
from eigentree.data.treebanks.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Integers
    from eigentree.data.treebanks.word_classes import WordClasses

__all__ = ["ANY_ADDED", "ANY_LABEL", "ANY_WORD", "GrammarSymbols", "Nodes", "TreeRows", "join_codes"]

ANY_LABEL, ANY_ADDED = -1, -2
"""Codes of a label that is missing, and of that of a node which binarisation added below one."""

ANY_WORD = -2
"""The code of a word that is missing."""

Nodes: TypeAlias = NDArray[np.int32]
"""One number for each node."""


@dataclass(frozen=True, eq=False)
class GrammarSymbols:
    """What the labels, words and rules of a grammar are.

    Attributes
    ----------
    labels : tuple of str
        Sorted; a label's code is its place.
    words : WordClasses
    rules : array of shape (rules, 3)
        The codes of a label and of its two children, sorted: ``a -> b c``.
    lexicon : array of shape (pairs, 2)
        The codes of a label and of a word, sorted: ``a -> x``.
    rule_counts, lexicon_counts : arrays
        How often each occurred in the training data.
    """

    labels: tuple[str, ...]
    words: WordClasses
    rules: Integers
    lexicon: Integers
    rule_counts: Integers
    lexicon_counts: Integers

    @cached_property
    def label_codes(self) -> dict[str, int]:
        """The code of each label."""
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def added(self) -> Booleans:
        """Which labels are those of inner nodes that binarisation added."""
        return np.array([is_intermediate(label) and label != INTERMEDIATE for label in self.labels], np.bool_)

    def rule_of(self, parents: Nodes | Integers, left: Nodes | Integers, right: Nodes | Integers) -> Nodes:
        """Return the place in `rules` of each triple of labels, -1 where there is none."""
        return _places(self._rule_keys, join_codes(len(self.labels), parents, left, right))

    def pair_of(self, labels: Nodes | Integers, words: Nodes | Integers) -> Nodes:
        """Return the place in `lexicon` of each pair of a label and a word, -1 where there is none."""
        return _places(self._pair_keys, join_codes(len(self.words.names), labels, words))

    @cached_property
    def _rule_keys(self) -> Integers:
        return join_codes(len(self.labels), *self.rules.T)

    @cached_property
    def _pair_keys(self) -> Integers:
        return join_codes(len(self.words.names), *self.lexicon.T)


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Encoded trees in normal form: nodes in post-order, those of one tree after those of another.

    The children of a node stand before it, its right child directly, so the root is the last node of its tree.

    Attributes
    ----------
    labels : array of int32, shape (nodes,)
        `ANY_LABEL` or `ANY_ADDED` where the label is missing.
    left : array of int32, shape (nodes,)
        The node that is the left child; -1 at preterminals, which are above one word.
    words : array of int32, shape (nodes,)
        The word at a preterminal, `ANY_WORD` where it is missing, and -1 at inner nodes.
    rule : array of int32, shape (nodes,)
        The place of the node's rule, at a preterminal that of its pair in the lexicon; -1 where there is none, or
        something is missing.
    offsets : array of int64, shape (trees + 1,)
        The first node of each tree, and the number of nodes.
    """

    labels: Nodes
    left: Nodes
    words: Nodes
    rule: Nodes
    offsets: Integers

    @property
    def right(self) -> Nodes:
        """The node that is the right child, -1 at preterminals."""
        return np.where(self.left < 0, -1, np.arange(-1, len(self.left) - 1)).astype(np.int32)

    @property
    def count(self) -> int:
        """The number of trees."""
        return len(self.offsets) - 1

    @property
    def incomplete(self) -> Booleans:
        """Which trees miss labels."""
        missing = np.concatenate([[0], np.cumsum(self.labels < 0)])
        return np.asarray(missing[self.offsets[1:]] > missing[self.offsets[:-1]])

    def part(self, first: int, last: int) -> TreeRows:
        """Return the trees from one up to before another."""
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        left = self.left[begin:end]
        return TreeRows(
            self.labels[begin:end],
            np.where(left < 0, left, left - np.int32(begin)).astype(np.int32),
            self.words[begin:end],
            self.rule[begin:end],
            self.offsets[first : last + 1] - begin,
        )

    @classmethod
    def joined(cls, parts: Sequence[TreeRows]) -> TreeRows:
        """Return trees of several parts, in their order."""
        begins = np.cumsum([0, *(len(part.labels) for part in parts)])
        left = [
            np.where(part.left < 0, part.left, part.left + np.int32(begin))
            for part, begin in zip(parts, begins[:-1].tolist(), strict=True)
        ]
        offsets = [part.offsets[1:] + begin for part, begin in zip(parts, begins[:-1].tolist(), strict=True)]
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate(left).astype(np.int32),
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.rule for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
        )

    @classmethod
    def with_rules(
        cls, labels: Nodes, left: Nodes, words: Nodes, offsets: Integers, symbols: GrammarSymbols
    ) -> TreeRows:
        """Return trees given all but the places of their rules."""
        rule = np.full(len(labels), -1, np.int32)
        inner, outer = np.flatnonzero(left >= 0), np.flatnonzero(left < 0)
        rule[inner] = symbols.rule_of(labels[inner], labels[left[inner]], labels[inner - 1])
        rule[outer] = symbols.pair_of(labels[outer], words[outer])
        return cls(labels, left, words, rule, offsets)

    def tree(self, number: int, symbols: GrammarSymbols) -> Tree:
        """Return a tree in normal form, with the names of classes in place of rare words."""
        built: list[Tree] = []
        first, last = int(self.offsets[number]), int(self.offsets[number + 1])
        for node in range(first, last):
            code, word = int(self.labels[node]), int(self.words[node])
            label = symbols.labels[code] if code >= 0 else INTERMEDIATE if code == ANY_ADDED else None
            if self.left[node] < 0:
                built.append(Tree(label, (None if word == ANY_WORD else symbols.words.names[word],)))
            else:
                right = built.pop()
                built.append(Tree(label, (built.pop(), right)))
        return built[0]


def join_codes(base: int, *codes: Nodes | Integers) -> Integers:
    """Return one number for each tuple of codes, -1 where one of them is negative."""
    key = np.zeros(len(codes[0]), np.int64)
    known = np.ones(len(key), np.bool_)
    for each in codes:
        key = key * base + each
        known &= each >= 0
    return np.where(known, key, -1)


def _places(keys: Integers, wanted: Integers) -> Nodes:
    if not len(keys):
        return np.full(len(wanted), -1, np.int32)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1).astype(np.int32)
