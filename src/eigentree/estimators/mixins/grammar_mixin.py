"""Queries of estimators that have learned a latent-variable grammar from trees."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.tables.state_rules import UNKNOWN_RULES
from eigentree.data.treebanks.binarisation import INTERMEDIATE, Binarisation
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_encoder import encoded_blocks
from eigentree.data.treebanks.tree_rows import ANY_WORD
from eigentree.data.treebanks.tree_sources import trees_of
from eigentree.errors import DataError
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.estimators.mixins.information_criteria import Criteria
from eigentree.inference.grammars.completion import Completion
from eigentree.inference.grammars.tree_passes import decode, log_prob, node_posteriors
from eigentree.inference.grammars.tree_sampling import sampled_tree
from eigentree.validation import generator, one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.data.treebanks.binarisation import Factoring
    from eigentree.data.treebanks.tree_rows import TreeRows
    from eigentree.inference.grammars.grammar import Grammar
    from eigentree.validation import Seed

__all__ = ["GrammarMixin", "TreeAnomaly", "normal_trees"]


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


class GrammarMixin(Parameters):
    """What a fitted grammar answers about trees: probabilities, hidden states, what is missing, anomalies.

    Trees are a list or an iterator of `Tree`, brackets, nested tuples or lists, or a file of such. A label or a
    word that is None is missing, and marginalised out. Hidden states are those of nodes in normal form, which
    `normal_form` returns, in post-order: children before their parent, the left subtree first.
    """

    binarisation: Factoring | None
    grammar_: Grammar
    n_parameters_: int

    @property
    def labels_(self) -> tuple[str, ...]:
        """The labels of nodes in normal form."""
        self._require_fit()
        return self.grammar_.symbols.labels

    @property
    def hidden_states_(self) -> dict[str, int]:
        """The number of hidden states of each label."""
        self._require_fit()
        return dict(zip(self.labels_, self.grammar_.states.tolist(), strict=True))

    @our_arithmetic
    def score_samples(self, X: Any) -> Floats:
        """Return the log probability of each tree; hidden states and what is missing are marginalised out.

        Trees are read one block after the other, and may be more than memory holds.

        Parameters
        ----------
        X : trees
        """
        found = [log_prob(self.grammar_, rows) for _, rows in self._blocks(X)]
        return np.concatenate([np.zeros(0), *found])

    def score(self, X: Any, y: object = None) -> float:
        """Return the mean log probability of the trees.

        Parameters
        ----------
        X : trees
        y : ignored
        """
        scores = self.score_samples(X)
        if not len(scores):
            raise DataError("there is no tree to score")
        return float(scores.mean())

    def normal_form(self, X: Any) -> list[Tree]:
        """Return the trees in normal form: each node has two children or one word.

        Parameters
        ----------
        X : trees
        """
        return list(normal_trees(X, self.binarisation))

    @our_arithmetic
    def predict_proba(self, X: Any) -> list[list[Floats]]:
        """Return for each tree the posterior distributions of its nodes' hidden states.

        Parameters
        ----------
        X : trees
            Without missing labels.
        """
        found: list[list[Floats]] = []
        for _, rows in self._complete(X):
            known = node_posteriors(self.grammar_, rows)
            nodes = [known.states[begin:end] for begin, end in pairwise(known.node_at.tolist())]
            found += [nodes[begin:end] for begin, end in pairwise(rows.offsets.tolist())]
        return found

    @our_arithmetic
    def decode(self, X: Any) -> list[Tree]:
        """Return the trees in normal form with the hidden states that are most probable together: ``NP-3``.

        Parameters
        ----------
        X : trees
            Without missing labels.
        """
        found: list[Tree] = []
        for trees, rows in self._complete(X):
            states = decode(self.grammar_, rows).tolist()
            for tree, begin in zip(trees, rows.offsets.tolist(), strict=False):
                own = [(f"{node.label}-{states[begin + k]}", node) for k, node in enumerate(_postorder(tree))]
                found.append(_relabelled(own))
        return found

    @our_arithmetic
    def impute(self, X: Any) -> list[Tree]:
        """Return the trees with the labels and words in place of what is missing that are most probable.

        They are most probable together with all hidden states; a word may be the name of a class of rare words. An
        impossible tree stays as it is.

        Parameters
        ----------
        X : trees
        """
        found: list[Tree] = []
        completion: Completion | None = None
        names = self.grammar_.symbols
        for trees, rows in self._blocks(X):
            completion = completion or Completion(self.grammar_)
            misses = rows.words == ANY_WORD
            is_partial = rows.incomplete | (np.add.reduceat(misses, rows.offsets[:-1]) > 0)
            for number, tree in enumerate(trees):
                if is_partial[number]:
                    part = completion.filled(rows.part(number, number + 1))
                    own = []
                    for k, node in enumerate(_postorder(tree)):
                        label, word = int(part.labels[k]), int(part.words[k])
                        is_gap = node.label is None or node.label == INTERMEDIATE
                        name = names.labels[label] if is_gap and label >= 0 else node.label
                        if node.children == (None,) and word >= 0:
                            node = Tree(name, (names.words.names[word],))
                        own.append((name, node))
                    tree = _relabelled(own)
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
            expansion = node_posteriors(self.grammar_, rows).expansion
            for node in np.argsort(expansion, kind="stable")[:n].tolist():
                own = int(np.searchsorted(rows.offsets, node, side="right")) - 1
                subtree = _postorder(trees[own])[node - int(rows.offsets[own])]
                found.append(TreeAnomaly(number + own, float(expansion[node]), self._restored(subtree)))
            found = sorted(found, key=lambda each: each.log_prob)[:n]
            number += rows.count
        return found

    def sample(self, n_samples: int = 1, random_state: Seed = None, max_nodes: int = 100_000) -> list[Tree]:
        """Return trees sampled from the grammar; rare words are named by their classes.

        Parameters
        ----------
        n_samples : int
        random_state : int, Generator or None
        max_nodes : int
            A tree with more nodes is an error: not every grammar ends.
        """
        self._require_fit()
        count, most = whole_number("n_samples", n_samples, 0), whole_number("max_nodes", max_nodes)
        random = generator(random_state)
        return [self._restored(sampled_tree(self.grammar_, random, most)) for _ in range(count)]

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion (Schwarz 1978) of trees, which are as many as they have nodes.

        Parameters
        ----------
        X : trees
        """
        return self._criteria(X).bic

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion of trees.

        Parameters
        ----------
        X : trees
        """
        return self._criteria(X).aic

    def _criteria(self, X: Any) -> Criteria:
        total, nodes = 0.0, 0
        for _, rows in self._blocks(X):
            total, nodes = total + float(log_prob(self.grammar_, rows).sum()), nodes + len(rows.labels)
        if not nodes:
            raise DataError("there is no tree to compare models by")
        return Criteria.of(total, self.n_parameters_, float(nodes))

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

        for rows in encoded_blocks(remembered(), self.grammar_.symbols, self.handle_unknown == "missing"):
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


def _postorder(tree: Tree) -> list[Tree]:
    """Return the nodes of a tree, children before their parent."""
    order: list[Tree] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        order.append(node)
        stack += [child for child in node.children if isinstance(child, Tree)]
    return order[::-1]


def _relabelled(nodes: Sequence[tuple[str | None, Tree]]) -> Tree:
    """Return the tree in normal form of nodes in post-order, each with its label."""
    built: list[Tree] = []
    for label, node in nodes:
        if len(node.children) == 1:
            built.append(Tree(label, node.children))
        else:
            right = built.pop()
            built.append(Tree(label, (built.pop(), right)))
    return built[0]
