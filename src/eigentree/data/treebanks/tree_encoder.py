"""Trees in normal form become codes, one tree after the other, known labels and words or new ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from eigentree.data.treebanks.binarisation import INTERMEDIATE, is_intermediate
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_rows import ANY_ADDED, ANY_LABEL, ANY_WORD, GrammarSymbols, TreeRows, join_codes
from eigentree.data.treebanks.tree_store import BLOCK_NODES, TreeStore
from eigentree.data.treebanks.word_classes import WordClasses
from eigentree.errors import DataError, quoted, what_there_is

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eigentree.arrays import Integers
    from eigentree.data.treebanks.tree_rows import Nodes
    from eigentree.data.treebanks.word_classes import UnknownWords

__all__ = ["TreeEncoder", "encoded_blocks"]


def encoded_blocks(
    trees: Iterable[Tree], symbols: GrammarSymbols, unknown_is_missing: bool = False
) -> Iterator[TreeRows]:
    """Yield trees in normal form in blocks, encoded by the symbols of a grammar; one block at a time is in memory.

    Raises `DataError` where a label is unknown, unless it is taken for missing.
    """
    encoder = TreeEncoder(symbols, unknown_is_missing)
    for tree in trees:
        encoder.add(tree)
        if encoder.is_full:
            yield encoder.taken()
    if encoder.is_begun:
        yield encoder.taken()


@dataclass(eq=False)
class TreeEncoder:
    """Takes in trees in normal form one after the other; afterwards gives the symbols and the encoded trees.

    Without symbols, labels and words are numbered as they come, and get their codes at the end: one pass over the
    trees is enough, and their order does not matter.
    """

    symbols: GrammarSymbols | None = None
    unknown_is_missing: bool = False
    store: TreeStore = field(default_factory=TreeStore)
    _labels: dict[str, int] = field(default_factory=dict)
    _words: dict[str, int] = field(default_factory=dict)
    _nodes: tuple[list[int], list[int], list[int]] = field(default_factory=lambda: ([], [], []))
    _offsets: list[int] = field(default_factory=lambda: [0])
    _count: int = 0

    def __post_init__(self) -> None:
        if self.symbols is not None:
            self._labels = self.symbols.label_codes

    @property
    def is_full(self) -> bool:
        """Whether the trees since the last block are a block."""
        return len(self._nodes[0]) >= BLOCK_NODES

    @property
    def is_begun(self) -> bool:
        """Whether there are trees since the last block."""
        return len(self._offsets) > 1

    def taken(self) -> TreeRows:
        """Return the trees since the last block, which they now end; without symbols rules are not known yet."""
        labels, left, words = (np.array(each, np.int32) for each in self._nodes)
        offsets = np.array(self._offsets, np.int64)
        for each in self._nodes:
            each.clear()
        self._offsets[:] = [0]
        if self.symbols is None:
            return TreeRows(labels, left, words, np.full_like(labels, -1), offsets)
        return TreeRows.with_rules(labels, left, words, offsets, self.symbols)

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
            raise DataError(f"tree {self._count}: {error}") from None
        self._offsets.append(len(labels))
        self._count += 1
        if self.symbols is None and self.is_full:
            self.store.append(self.taken())

    def learned(self, least: int, unknown: UnknownWords) -> tuple[GrammarSymbols, TreeStore]:
        """Return the symbols of the trees, and the trees in blocks.

        Parameters
        ----------
        least : int
            How often a word occurs at least that is known by itself.
        unknown : {"signature", "single"}
        """
        if self.is_begun:
            self.store.append(self.taken())
        occurrences = sum(
            (np.bincount(block.words[block.words >= 0], minlength=len(self._words)) for block in self.store),
            np.zeros(len(self._words), np.int64),
        )
        vocabulary = WordClasses.of(dict(zip(self._words, occurrences.tolist(), strict=True)), least, unknown)
        names = sorted(self._labels)
        place = {name: code for code, name in enumerate(names)}
        # Codes that are negative stand for themselves.
        label_codes = np.array([*(place[name] for name in self._labels), ANY_ADDED, ANY_LABEL], np.int32)
        word_codes = np.array([*vocabulary.codes(self._words), ANY_WORD, -1], np.int32)
        coded = TreeStore(self.store.memory)
        rules, pairs = _Tally(len(names), 3), _Tally(len(vocabulary.names), 2)
        for block in self.store:
            labels, words = label_codes[block.labels], word_codes[block.words]
            inner, outer = np.flatnonzero(block.left >= 0), np.flatnonzero(block.left < 0)
            rules.add(labels[inner], labels[block.left[inner]], labels[inner - 1])
            pairs.add(labels[outer], words[outer])
        found = rules.codes, pairs.codes, rules.counts, pairs.counts
        symbols = GrammarSymbols(tuple(names), vocabulary, *found)
        for block in self.store:
            labels, words = label_codes[block.labels], word_codes[block.words]
            coded.append(TreeRows.with_rules(labels, block.left, words, block.offsets, symbols))
        return symbols, coded

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
            f"handle_unknown='missing' marginalises it out"
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


@dataclass(eq=False)
class _Tally:
    """How often each tuple of codes occurs, those aside that have a negative one."""

    base: int
    size: int
    keys: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, *codes: Nodes) -> None:
        keys, counts = np.unique(join_codes(self.base, *codes), return_counts=True)
        every = np.concatenate([self.keys, keys[keys >= 0]])
        self.keys, place = np.unique(every, return_inverse=True)
        self.counts = np.bincount(place, np.concatenate([self.counts, counts[keys >= 0]])).astype(np.int64)

    @property
    def codes(self) -> Integers:
        powers = self.base ** np.arange(self.size)[::-1]
        digits = self.keys[:, None] // powers
        digits[:, 1:] %= self.base
        return digits
