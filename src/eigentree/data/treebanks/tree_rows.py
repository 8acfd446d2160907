"""Encoded trees: what a grammar's labels, words and rules are, and all nodes of all trees in one set of arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigentree.data.treebanks.binarisation import INTERMEDIATE, is_intermediate
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.word_classes import WordClasses
from eigentree.errors import DataError, quoted, what_there_is

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eigentree.arrays import Booleans, Integers
    from eigentree.data.treebanks.word_classes import UnknownWords

__all__ = ["ANY_ADDED", "ANY_LABEL", "ANY_WORD", "GrammarSymbols", "TreeEncoder", "TreeRows"]

ANY_LABEL, ANY_ADDED = -1, -2
"""Codes of a label that is missing, and of that of a node which binarisation added below one."""

ANY_WORD = -2
"""The code of a word that is missing."""

Nodes = NDArray[np.int32]


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
        return _places(self._rule_keys, _joined(len(self.labels), parents, left, right))

    def pair_of(self, labels: Nodes | Integers, words: Nodes | Integers) -> Nodes:
        """Return the place in `lexicon` of each pair of a label and a word, -1 where there is none."""
        return _places(self._pair_keys, _joined(len(self.words.names), labels, words))

    @cached_property
    def _rule_keys(self) -> Integers:
        return _joined(len(self.labels), *self.rules.T)

    @cached_property
    def _pair_keys(self) -> Integers:
        return _joined(len(self.words.names), *self.lexicon.T)


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
    def of(cls, trees: Iterable[Tree], symbols: GrammarSymbols, unknown_is_missing: bool = False) -> TreeRows:
        """Return trees in normal form, encoded by the symbols of a grammar.

        Raises `DataError` where a label is unknown, unless it is taken for missing.
        """
        encoder = TreeEncoder(symbols, unknown_is_missing)
        for tree in trees:
            encoder.add(tree)
        return encoder.rows()

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


@dataclass(eq=False)
class TreeEncoder:
    """Takes in trees in normal form one after the other; afterwards gives the symbols and the encoded trees.

    Without symbols, labels and words are numbered as they come, and get their codes at the end: one pass over the
    trees is enough, and neither their order nor copies of labels matter.
    """

    symbols: GrammarSymbols | None = None
    unknown_is_missing: bool = False
    _labels: dict[str, int] = field(default_factory=dict)
    _words: dict[str, int] = field(default_factory=dict)
    _nodes: tuple[list[int], list[int], list[int]] = field(default_factory=lambda: ([], [], []))
    _offsets: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        if self.symbols is not None:
            self._labels = self.symbols.label_codes

    def add(self, tree: Tree) -> None:
        """Take in one tree; raise `DataError`, and take in nothing, unless it is in normal form and known."""
        labels, left, words = self._nodes
        begin = len(labels)
        try:
            # Post-order is the reverse of: a node, then the right subtree, then the left one.
            order: list[Tree] = []
            stack = [tree]
            while stack:
                node = stack.pop()
                order.append(node)
                if len(node.children) > 1 or isinstance(node.children[0], Tree):
                    stack += _two(node)
            roots: list[int] = []
            for place, node in enumerate(reversed(order), begin):
                labels.append(self._label(node))
                if len(node.children) == 1:
                    left.append(-1)
                    words.append(self._word(node.children[0]))
                else:
                    roots.pop()
                    left.append(roots.pop())
                    words.append(-1)
                roots.append(place)
        except DataError as error:
            for each in self._nodes:
                del each[begin:]
            raise DataError(f"tree {len(self._offsets) - 1}: {error}") from None
        self._offsets.append(len(labels))

    def rows(self) -> TreeRows:
        """Return the trees so far, encoded by the symbols that were given."""
        assert self.symbols is not None
        labels, left, words = (np.array(each, np.int32) for each in self._nodes)
        return _with_rules(labels, left, words, np.array(self._offsets, np.int64), self.symbols)

    def learned(self, least: int, unknown: UnknownWords) -> tuple[GrammarSymbols, TreeRows]:
        """Return the symbols of the trees, and the trees.

        Parameters
        ----------
        least : int
            How often a word occurs at least that is known by itself.
        unknown : {"signature", "single"}
        """
        labels, left, words = (np.array(each, np.int32) for each in self._nodes)
        occurrences = np.bincount(words[words >= 0], minlength=len(self._words)).tolist()
        vocabulary = WordClasses.of(dict(zip(self._words, occurrences, strict=True)), least, unknown)
        names = sorted(self._labels)
        # Codes that are negative stand for themselves.
        label_codes = np.array([*(names.index(name) for name in self._labels), ANY_ADDED, ANY_LABEL], np.int32)
        word_codes = np.array([*vocabulary.codes(self._words), ANY_WORD, -1], np.int32)
        labels, words = label_codes[labels], word_codes[words]
        offsets = np.array(self._offsets, np.int64)
        plain = GrammarSymbols(tuple(names), vocabulary, *_rules(labels, left, words))
        return plain, _with_rules(labels, left, words, offsets, plain)

    def _label(self, node: Tree) -> int:
        label = node.label
        if label == INTERMEDIATE and len(node.children) == 2:
            return ANY_ADDED
        if label is None:
            return ANY_LABEL
        code = self._labels.get(label)
        if code is not None:
            return code
        if self.symbols is None:
            self._labels[label] = len(self._labels)
            return len(self._labels) - 1
        if self.unknown_is_missing:
            return ANY_ADDED if is_intermediate(label) and len(node.children) == 2 else ANY_LABEL
        raise DataError(
            f"the label {quoted(label)} is not one of the training data{what_there_is(label, self._labels)}; "
            f"unknown_labels='missing' marginalises it out"
        )

    def _word(self, word: object) -> int:
        if word is None:
            return ANY_WORD
        assert isinstance(word, str)
        return self.symbols.words.code(word) if self.symbols else self._words.setdefault(word, len(self._words))


def _two(node: Tree) -> tuple[Tree, Tree]:
    if len(node.children) == 2:
        left, right = node.children
        if isinstance(left, Tree) and isinstance(right, Tree):
            return left, right
    raise DataError(
        f"the node {quoted(node.label)} has {len(node.children)} children, and in normal form a node has two nodes "
        f"or one word; binarise the trees"
    )


def _rules(labels: Nodes, left: Nodes, words: Nodes) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the different rules and pairs of labels and words, and how often each occurs."""
    inner = np.flatnonzero(left >= 0)
    triples = np.stack([labels[inner], labels[left[inner]], labels[inner - 1]], axis=1).astype(np.int64)
    outer = np.flatnonzero((left < 0) & (words >= 0))
    pairs = np.stack([labels[outer], words[outer]], axis=1).astype(np.int64)
    rules, rule_counts = np.unique(triples[(triples >= 0).all(axis=1)], axis=0, return_counts=True)
    lexicon, lexicon_counts = np.unique(pairs[(pairs >= 0).all(axis=1)], axis=0, return_counts=True)
    return rules, lexicon, rule_counts, lexicon_counts


def _with_rules(labels: Nodes, left: Nodes, words: Nodes, offsets: Integers, symbols: GrammarSymbols) -> TreeRows:
    rule = np.full(len(labels), -1, np.int32)
    inner = np.flatnonzero(left >= 0)
    rule[inner] = symbols.rule_of(labels[inner], labels[left[inner]], labels[inner - 1])
    outer = np.flatnonzero(left < 0)
    rule[outer] = symbols.pair_of(labels[outer], words[outer])
    return TreeRows(labels, left, words, rule, offsets)


def _joined(base: int, *codes: Nodes | Integers) -> Integers:
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
