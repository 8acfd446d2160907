"""Learned operators, and the distribution over all trees that is made of them: what each node expands to in turn.

Noise can leave a product of learned operators negative. So nodes are taken in pre-order: given all that was expanded
before, what the next one expands to has the distribution of the operators with all that is not yet expanded
marginalised out, its negative values clipped. With the moments of a grammar nothing is, and the product is its own
probability of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core.trees.chain_rule import CLIPPED
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_rows import TreeRows
from eigentree.errors import DataError
from eigentree.spectral.grammars.grammar_learning import learn_grammar
from eigentree.spectral.grammars.grammar_moments import CountedMoments
from eigentree.spectral.grammars.grammar_operators import scaled
from eigentree.spectral.learn.shrinkage import FOLDS, LEAST_LOG, chosen

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols
    from eigentree.inference.grammars.grammar import Backoff
    from eigentree.spectral.grammars.grammar_learning import GrammarFit
    from eigentree.spectral.grammars.grammar_operators import GrammarOperators
    from eigentree.spectral.learn.shrinkage import HeldOutScore, Trials, Tried

__all__ = ["NodeScores", "SpectralGrammar", "choose_grammar"]

HELD_SHARE = 0.1
"""The share of trees that are held out in each fold: from the others as much can be learned as from all."""

MOST_NODES = 2**18
"""About how many nodes are scored at once, which bounds the memory."""


class NodeScores(NamedTuple):
    """What was found of nodes.

    Attributes
    ----------
    log_prob : array
        The log probability of what each node expands to, given all before it in pre-order.
    clipped : array
        How much of the node's distribution was negative.
    """

    log_prob: Floats
    clipped: Floats


@dataclass(frozen=True, eq=False)
class SpectralGrammar:
    """The distribution of a fit over trees.

    Attributes
    ----------
    fit : GrammarFit
    shrinkage : float
    backoff : Backoff
        What is expected of rules and words that were not seen, of labels with one state each.
    """

    fit: GrammarFit
    shrinkage: float
    backoff: Backoff
    operators: GrammarOperators

    @classmethod
    def of(cls, fit: GrammarFit, shrinkage: float, backoff: Backoff) -> SpectralGrammar:
        """Return the model of a fit at some shrinkage."""
        return cls(fit, shrinkage, backoff, fit.operators(shrinkage))

    @property
    def symbols(self) -> GrammarSymbols:
        """The labels, words and rules."""
        return self.fit.symbols

    def score(self, rows: TreeRows) -> Floats:
        """Return the log probability of each tree; missing words are marginalised out."""
        found, first = np.empty(rows.count), 0
        for last in _ends(rows):
            part = rows.part(first, last)
            nodes = np.add.reduceat(self.scored(part).log_prob, part.offsets[:-1])
            with np.errstate(divide="ignore"):
                found[first:last] = nodes + np.log(self.operators.roots)[part.labels[part.offsets[1:] - 1]]
            first = last
        return found

    def scored(self, rows: TreeRows) -> NodeScores:
        """Return what is found of each node of trees without missing labels."""
        inside = self.operators.inside(rows)
        outside = self.operators.given_before(rows, inside)
        log_prob, clipped = np.empty(len(rows.labels)), np.zeros(len(rows.labels))
        rules, pairs = self.operators.ranges
        order = np.argsort(rows.labels, kind="stable")
        counts = np.bincount(rows.labels, minlength=len(self.symbols.labels))
        for label, nodes in enumerate(np.split(order, np.cumsum(counts)[:-1])):
            own, clipped[nodes] = self.expansions(label, outside[nodes])
            is_rule, known = rows.left[nodes] >= 0, rows.rule[nodes]
            first_pair = rules[label + 1] - rules[label]
            place = np.where(is_rule, known - rules[label], known - pairs[label] + first_pair)
            seen = np.where(known >= 0, own[np.arange(len(nodes)), np.where(known >= 0, place, 0)], 0.0)
            missing = (rows.words[nodes] < 0) & ~is_rule
            seen[missing] = own[missing, first_pair:].sum(axis=1)
            log_prob[nodes] = self.backoff.kept[label] * seen
        with np.errstate(divide="ignore"):
            return NodeScores(np.log(log_prob + self._unseen(rows)), clipped)

    def expansions(self, label: int, outside: Floats) -> tuple[Floats, Floats]:
        """Return the distribution over rules and then words of nodes of a label, and how much was negative."""
        head = self.operators.heads[label]
        table = outside[:, : head.shape[1]] @ head.T
        positive = np.maximum(table, 0.0)
        kept = positive.sum(axis=1, keepdims=True)
        clipped = np.maximum(kept - table.sum(axis=1, keepdims=True), 0.0)
        # Below zero is what noise has made of it, so in place of it stands what is surest.
        usable = (kept > 0) & np.isfinite(kept)
        without = head[:, 0] / max(float(head[:, 0].sum()), np.finfo(float).tiny)
        own = np.divide(
            positive + CLIPPED * clipped * without,
            kept + CLIPPED * clipped,
            out=np.zeros_like(table) + without,
            where=usable,
        )
        return own, np.where(usable, clipped, 1.0)[:, 0]

    def words(self, rows: TreeRows) -> tuple[Integers, Floats]:
        """Return the nodes whose word is missing, and the distribution of each over all words, given the rest."""
        nodes = np.flatnonzero((rows.left < 0) & (rows.words < 0))
        outside = self.operators.given_all(rows, self.operators.inside(rows))[nodes]
        found = np.zeros((len(nodes), len(self.symbols.words.names)))
        rules, pairs = self.operators.ranges
        for label in np.unique(rows.labels[nodes]).tolist():
            at = np.flatnonzero(rows.labels[nodes] == label)
            own = self.expansions(label, outside[at])[0][:, rules[label + 1] - rules[label] :]
            columns = self.symbols.lexicon[pairs[label] : pairs[label + 1], 1]
            found[np.ix_(at, columns)] = self.backoff.kept[label] * own
            found[at] += self.backoff.word[label] * self.backoff.words
        totals = found.sum(axis=1, keepdims=True)
        return nodes, np.divide(found, totals, out=np.full_like(found, 1 / found.shape[1]), where=totals > 0)

