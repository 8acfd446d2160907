"""Queries of all estimators that have learned the distribution of labelled trees, about trees and sentences."""

from __future__ import annotations

from abc import abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.data.tables.state_rules import UNKNOWN_RULES
from eigentree.data.treebanks.binarisation import INTERMEDIATE, Binarisation
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_encoder import TreeEncoder, encoded_blocks
from eigentree.data.treebanks.tree_rows import ANY_WORD
from eigentree.data.treebanks.tree_sources import sentences_of, trees_of
from eigentree.data.treebanks.word_classes import UNKNOWN_WORDS
from eigentree.errors import DataError, quoted
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.inference.grammars.grammar import Backoff
from eigentree.inference.threads import in_order
from eigentree.messages import notice
from eigentree.validation import (
    MOST_THREADS,
    finite_number,
    generator,
    one_of,
    our_arithmetic,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.data.tables.state_rules import UnknownRule
    from eigentree.data.treebanks.binarisation import Factoring
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows
    from eigentree.data.treebanks.tree_store import TreeStore
    from eigentree.data.treebanks.word_classes import UnknownWords
    from eigentree.inference.grammars.chart_parser import ChartParser, Parse
    from eigentree.inference.grammars.grammar import GrammarLayout
    from eigentree.validation import Seed

MOST_TREES = 2**27
"""So many trees are beyond all memory."""

MOST_SENTENCES = 2**20
"""At a time: each is parsed for itself, so more of them, or a stream without end, come in parts."""

__all__ = ["TreeAnomaly", "TreebankMixin", "normal_trees", "postorder", "relabelled"]


class TreeAnomaly(NamedTuple):
    """A node of a tree that becomes what was not to be expected.

    Attributes
    ----------
    tree : int
        The number of the tree.
    log_prob : float
        The log probability of the node's rule or word, given all of the tree that is outside the node's subtree.
    subtree : Tree
        The node and what is below it.
    """

    tree: int
    log_prob: float
    subtree: Tree


def normal_trees(X: Any, binarisation: Factoring | None) -> Iterator[Tree]:
    """Yield the trees that users bring, in normal form; an error names the tree."""
    how = None if binarisation is None else Binarisation(binarisation)
    for number, tree in enumerate(trees_of(X)):
        try:
            yield tree if how is None else how.binarised(tree)
        except DataError as error:
            raise DataError(f"tree {number}: {error}") from None


class TreebankMixin(Parameters):
    """What a fitted model of trees answers: probabilities, what is missing, anomalies, samples, and parses.

    Trees are a list or an iterator of `Tree`, brackets, nested tuples or lists, or a file of such. A label or a
    word that is None is missing.
    """

    unseen: Literal["witten_bell", "impossible"]
    binarisation: Factoring | None
    min_word_count: int
    unknown_words: UnknownWords
    handle_unknown: UnknownRule

    @property
    @abstractmethod
    def _symbols(self) -> GrammarSymbols:
        """The labels, words and rules."""

    @abstractmethod
    def _log_prob(self, rows: TreeRows) -> Floats:
        """Return the log probability of each tree."""

    @abstractmethod
    def _expansions(self, rows: TreeRows) -> Floats:
        """Return the log probability of what each node becomes, given all that is outside its subtree."""

    @abstractmethod
    def _filler(self) -> Callable[[TreeRows], TreeRows]:
        """Return what fills in what is most probable in place of missing labels and words of one tree."""

    @abstractmethod
    def _sampled(self, random: np.random.Generator, most_nodes: int) -> Tree:
        """Return a tree in normal form that is sampled."""

    @abstractmethod
    def _parser(self, pruning: float) -> ChartParser:
        """Return what parses sentences."""

    def _check_reading(self) -> None:
        """Raise `ParameterError` unless the arguments that say how trees to learn from are read are such."""
        one_of("unseen", self.unseen, ("witten_bell", "impossible"))
        one_of("binarisation", self.binarisation, ("right", "left", None))
        one_of("unknown_words", self.unknown_words, UNKNOWN_WORDS)
        whole_number("min_word_count", self.min_word_count)

    def _encoded(self, X: Any) -> tuple[GrammarSymbols, TreeStore]:
        """Return the labels, words and rules of trees to learn from, and the trees as codes."""
        encoder = TreeEncoder()
        for tree in normal_trees(X, self.binarisation):
            encoder.add(tree)
        symbols, store = encoder.learned(self.min_word_count, self.unknown_words)
        if not store.trees:
            raise DataError("there is no tree to learn from")
        return symbols, store

    def _backoff(self, layout: GrammarLayout) -> Backoff:
        """Return what rules and words that no training tree has are as probable as."""
        return Backoff.witten_bell(layout) if self.unseen == "witten_bell" else Backoff.none(layout)

    @property
    def labels_(self) -> tuple[str, ...]:
        """The labels of nodes in normal form."""
        self._require_fit()
        return self._symbols.labels

    @our_arithmetic
    def score_samples(self, X: Any) -> Floats:
        """Return the log probability of each tree; hidden states and what is missing are marginalised out.

        Trees are read one block after the other, and may be more than memory holds.
        """
        found = [self._log_prob(rows) for _, rows in self._blocks(X)]
        return np.concatenate([np.zeros(0), *found])

    def score(self, X: Any, y: object = None) -> float:
        """Return the mean log probability of the trees; `y` is ignored."""
        scores = self.score_samples(X)
        if not len(scores):
            raise DataError("there is no tree to score")
        return float(scores.mean())

    def normal_form(self, X: Any) -> list[Tree]:
        """Return the trees in normal form: each node has two children or one word."""
        return list(normal_trees(X, self.binarisation))

    @our_arithmetic
    def impute(self, X: Any) -> list[Tree]:
        """Return the trees with the labels and words in place of what is missing that are most probable.

        They are most probable together with all hidden states; a word may be the name of a class of rare words. An
        impossible tree stays as it is.
        """
        found: list[Tree] = []
        filled: Callable[[TreeRows], TreeRows] | None = None
        for trees, rows in self._blocks(X):
            names = self._symbols
            filled = filled or self._filler()
            misses = rows.words == ANY_WORD
            is_partial = rows.incomplete | (np.add.reduceat(misses, rows.offsets[:-1]) > 0)
            for number, tree in enumerate(trees):
                if is_partial[number]:
                    part = filled(rows.part(number, number + 1))
                    own = []
                    for k, node in enumerate(postorder(tree)):
                        label, word = int(part.labels[k]), int(part.words[k])
                        is_gap = node.label is None or node.label == INTERMEDIATE
                        name = names.labels[label] if is_gap and label >= 0 else node.label
                        if node.children == (None,) and word >= 0:
                            node = Tree(name, (names.words.names[word],))
                        own.append((name, node))
                    tree = relabelled(own)
                found.append(self._restored(tree))
        return found

    @our_arithmetic
    def anomalies(self, X: Any, n: int = 10) -> list[TreeAnomaly]:
        """Return the nodes of trees that are least to be expected from what is around them, the least one first.

        Parameters
        ----------
        X : trees
            Without missing labels.
        n : int
            How many.
        """
        whole_number("n", n)
        found: list[TreeAnomaly] = []
        number = 0
        for trees, rows in self._complete(X):
            expansion = self._expansions(rows)
            for node in np.argsort(expansion, kind="stable")[:n].tolist():
                own = int(np.searchsorted(rows.offsets, node, side="right")) - 1
                subtree = postorder(trees[own])[node - int(rows.offsets[own])]
                found.append(TreeAnomaly(number + own, float(expansion[node]), self._restored(subtree)))
            found = sorted(found, key=lambda each: each.log_prob)[:n]
            number += rows.count
        return found

    def sample(self, n: int = 1, random_state: Seed = None, max_nodes: int = 100_000) -> list[Tree]:
        """Return trees sampled from the grammar; rare words are named by their classes.

        Parameters
        ----------
        n : int
        random_state : int, Generator or None
        max_nodes : int
            A tree with more nodes is an error: not every grammar ends.
        """
        self._require_fit()
        count, most = whole_number("n", n, 0, most=MOST_TREES), whole_number("max_nodes", max_nodes)
        random = generator(random_state)
        return [self._restored(self._sampled(random, most)) for _ in range(count)]

    @our_arithmetic
    def parse(self, sentences: Any, pruning: float = 1e-3) -> list[Tree]:
        """Return the tree of each sentence, as the training data have them: the parse of minimum risk.

        All trees and hidden states are summed over, and no tree in normal form has more nodes whose label and
        words are expected to be right (Goodman 1996). Unknown words are known by their classes. A sentence that no
        tree of the grammar has, which is warned of, becomes one node above all of its words.

        Parameters
        ----------
        sentences : list of str, of lists of str, or of trees, whose words are parsed
            A word that is None is missing, and marginalised out.
        pruning : float
            How probable it may be that leaving out improbable labels of spans loses a node of the plain grammar's
            own tree; 0 leaves nothing out and takes longer.

        Examples
        --------
        >>> import eigentree as et
        >>> trees = ["(S (NP she) (VP (V sees) (NP stars)))", "(S (NP stars) (VP (V see) (NP her)))"] * 9
        >>> model = et.LatentGrammar(hidden_states=2, random_state=0).fit(trees)
        >>> model.parse(["stars sees her"])
        [Tree('(S (NP stars) (VP (V sees) (NP her)))')]
        """
        self._require_fit()
        parser = self._parser(finite_number("pruning", pruning, 0.0, most=1.0))
        given, parses = self._parses(sentences, parser)
        flat = [number for number, parse in enumerate(parses) if parse.tree is None]
        if flat:
            shown = quoted(" ".join(word or "()" for word in given[flat[0]]))
            notice(
                f"{len(flat)} of {len(given)} sentences have no tree of the grammar, the first of them number "
                f"{flat[0]}, {shown}: they become one node each; with unseen='witten_bell' nearly all have trees"
            )
        label = parser.likely_root
        return [
            self._restored(parse.tree or Tree(label, words)) for parse, words in zip(parses, given, strict=True)
        ]

    def _parses(self, sentences: Any, parser: ChartParser) -> tuple[list[tuple[str | None, ...]], list[Parse]]:
        threads = whole_number("n_jobs", getattr(self, "n_jobs", 1), most=MOST_THREADS)
        given = list(islice(sentences_of(sentences), MOST_SENTENCES + 1))
        if len(given) > MOST_SENTENCES:
            raise DataError(f"there are more than {MOST_SENTENCES:,} sentences; give them in parts")
        return given, list(in_order(lambda number: parser.parse(given[number]), len(given), threads))

    def _restored(self, tree: Tree) -> Tree:
        return tree if self.binarisation is None else Binarisation(self.binarisation).restored(tree)

    def _blocks(self, X: Any) -> Iterator[tuple[list[Tree], TreeRows]]:
        """Yield the trees in blocks: in normal form, and encoded."""
        self._require_fit()
        one_of("handle_unknown", self.handle_unknown, UNKNOWN_RULES)
        trees: list[Tree] = []

        def remembered() -> Iterator[Tree]:
            for tree in normal_trees(X, self.binarisation):
                trees.append(tree)
                yield tree

        for rows in encoded_blocks(remembered(), self._symbols, self.handle_unknown == "missing"):
            own, trees[:] = trees[: rows.count], trees[rows.count :]
            yield own, rows

    def _complete(self, X: Any) -> Iterator[tuple[list[Tree], TreeRows]]:
        """Yield the trees in blocks; raise `DataError` where a label is missing."""
        number = 0
        for trees, rows in self._blocks(X):
            if (missing := rows.incomplete).any():
                tree = number + int(missing.argmax())
                raise DataError(f"tree {tree} has a node without a label; impute fills in what is missing")
            number += rows.count
            yield trees, rows


def postorder(tree: Tree) -> list[Tree]:
    """Return the nodes of a tree, children before their parent."""
    order: list[Tree] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        order.append(node)
        stack += [child for child in node.children if isinstance(child, Tree)]
    return order[::-1]


def relabelled(nodes: Sequence[tuple[str | None, Tree]]) -> Tree:
    """Return the tree in normal form of nodes in post-order, each with its label."""
    built: list[Tree] = []
    for label, node in nodes:
        if len(node.children) == 1:
            built.append(Tree(label, node.children))
        else:
            right = built.pop()
            built.append(Tree(label, (built.pop(), right)))
    return built[0]
