"""Queries of estimators that have learned a latent-variable grammar from trees."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError
from eigentree.estimators.mixins.information_criteria import Criteria
from eigentree.estimators.mixins.treebank_mixin import TreebankMixin, postorder, relabelled
from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.grammars.completion import Completion
from eigentree.inference.grammars.tree_passes import decode, log_prob, node_posteriors
from eigentree.inference.grammars.tree_sampling import sampled_tree
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats
    from eigentree.data.treebanks.tree import Tree
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows
    from eigentree.inference.grammars.grammar import Grammar

__all__ = ["GrammarMixin"]


class GrammarMixin(TreebankMixin):
    """What a fitted grammar answers about trees: probabilities, hidden states, what is missing, anomalies.

    Trees are a list or an iterator of `Tree`, brackets, nested tuples or lists, or a file of such. A label or a
    word that is None is missing, and marginalised out. Hidden states are those of nodes in normal form, which
    `normal_form` returns, in post-order: children before their parent, the left subtree first.
    """

    grammar_: Grammar
    n_parameters_: int

    @property
    def hidden_states_(self) -> dict[str, int]:
        """The number of hidden states of each label."""
        self._require_fit()
        return dict(zip(self.labels_, self.grammar_.states.tolist(), strict=True))

    @our_arithmetic
    def predict_proba(self, X: Any) -> list[list[Floats]]:
        """Return for each tree the posterior distributions of its nodes' hidden states.

        Labels may not be missing.
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

        Labels may not be missing.
        """
        found: list[Tree] = []
        for trees, rows in self._complete(X):
            states = decode(self.grammar_, rows).tolist()
            for tree, begin in zip(trees, rows.offsets.tolist(), strict=False):
                own = [(f"{node.label}-{states[begin + k]}", node) for k, node in enumerate(postorder(tree))]
                found.append(relabelled(own))
        return found

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of trees, which are as many as they have nodes."""
        return self._criteria(X).bic

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion of trees."""
        return self._criteria(X).aic

    @our_arithmetic
    def score_sentences(self, sentences: Any) -> Floats:
        """Return the log probability of each sentence: the sum over all trees that have its words.

        Parameters
        ----------
        sentences : list of str, of lists of str, or of trees, whose words are scored
            A word that is None is missing, and marginalised out.
        """
        self._require_fit()
        return np.array([parse.log_prob for parse in self._parses(sentences, self._parser(0.0))[1]])

    @property
    def _symbols(self) -> GrammarSymbols:
        return self.grammar_.symbols

    def _log_prob(self, rows: TreeRows) -> Floats:
        return log_prob(self.grammar_, rows)

    def _expansions(self, rows: TreeRows) -> Floats:
        return node_posteriors(self.grammar_, rows).expansion

    def _filler(self) -> Callable[[TreeRows], TreeRows]:
        return Completion(self.grammar_).filled

    def _parser(self, pruning: float) -> ChartParser:
        return ChartParser.of(self.grammar_, pruning)

    def _sampled(self, random: np.random.Generator, most_nodes: int) -> Tree:
        return sampled_tree(self.grammar_, random, most_nodes)

    def _criteria(self, X: Any) -> Criteria:
        total, nodes = 0.0, 0
        for _, rows in self._blocks(X):
            total, nodes = total + float(log_prob(self.grammar_, rows).sum()), nodes + len(rows.labels)
        if not nodes:
            raise DataError("there is no tree to compare models by")
        return Criteria.of(total, self.n_parameters_, float(nodes))
