"""The objective of trees under a latent-variable grammar, and the plain grammar that starts and smooths it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.inside_outside import expected_rules, log_probabilities
from eigentree.em.optimize.objective import ExpectedCounts, Objective, SimplexVector
from eigentree.errors import DataError
from eigentree.inference.grammars.tree_passes import grammar_arrays, tree_arrays
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.core.trees.inside_outside import GrammarArrays
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows
    from eigentree.inference.grammars.grammar import Backoff, GrammarLayout

__all__ = ["GrammarObjective", "GrammarVector", "plain_grammar", "training_counts"]


@dataclass(frozen=True, eq=False)
class GrammarVector(SimplexVector):
    """The parameters of a grammar as distributions end to end."""

    grammar: GrammarLayout

    @property
    def lengths(self) -> Integers:
        """The number of entries of each distribution."""
        return self.grammar.lengths

    @cached_property
    def learned(self) -> Booleans:
        """All entries are learned."""
        return np.ones(self.grammar.size, np.bool_)


def training_counts(
    symbols: GrammarSymbols, blocks: Sequence[TreeRows], weights: Floats
) -> tuple[GrammarSymbols, Floats]:
    """Return the symbols with the occurrences in those trees that count, and how often each label is a root's.

    Raises `DataError` where a label is missing.
    """
    counts, number = np.zeros(len(symbols.labels)), 0
    rules, pairs = np.zeros(len(symbols.rules)), np.zeros(len(symbols.lexicon))
    for rows in blocks:
        if (incomplete := rows.incomplete).any():
            tree = number + int(incomplete.argmax())
            raise DataError(f"tree {tree} has a node without a label; trees to learn from miss words only")
        own = weights[number : number + rows.count]
        counts += np.bincount(rows.labels[rows.offsets[1:] - 1], own, len(counts))
        each, known = np.repeat(own, np.diff(rows.offsets)), rows.rule >= 0
        for found, used in ((rules, known & (rows.left >= 0)), (pairs, known & (rows.left < 0))):
            found += np.bincount(rows.rule[used], each[used], len(found))
        number += rows.count
    occurrences = rules.astype(np.int64), pairs.astype(np.int64)
    return replace(symbols, rule_counts=occurrences[0], lexicon_counts=occurrences[1]), counts


def plain_grammar(layout: GrammarLayout, roots: Floats) -> Floats:
    """Return the parameters of the grammar without hidden states, all states of a label being alike.

    Rules and words are as frequent as in the training data. A root has a label that no root had with the
    probability of Witten and Bell (1991), and this is then as frequent as among all nodes.
    """
    symbols, states = layout.symbols, layout.states
    values = np.empty(layout.size)
    nodes = np.zeros(len(states))
    nodes += np.bincount(symbols.rules[:, 0], symbols.rule_counts, len(states))
    nodes += np.bincount(symbols.lexicon[:, 0], symbols.lexicon_counts, len(states))
    every = np.where(symbols.added, 0.0, nodes)
    new = np.count_nonzero(roots) / (roots.sum() + np.count_nonzero(roots))
    labels = (1.0 - new) * roots / roots.sum() + new * every / every.sum()
    layout.root(values)[:] = np.repeat(labels / states, states)
    for label in range(len(states)):
        begin, end = np.searchsorted(symbols.rules[:, 0], [label, label + 1])
        sizes = layout.rule_sizes[begin:end]
        inner = np.repeat(symbols.rule_counts[begin:end] / sizes, sizes)
        begin, end = np.searchsorted(symbols.lexicon[:, 0], [label, label + 1])
        line = np.concatenate([inner, symbols.lexicon_counts[begin:end]])
        # A label that only held-out trees have shows nothing.
        layout.block(values, label)[:] = line / line.sum() if line.any() else 1.0 / len(line)
    return values


@dataclass(frozen=True, eq=False)
class GrammarObjective(Objective):
    """The objective of trees under a latent-variable grammar: log-likelihood plus log prior.

    Attributes
    ----------
    layout : GrammarVector
    blocks : sequence of TreeRows
        The trees, which need not all be in memory.
    weights : array, shape (trees,)
        How often each tree counts.
    backoff : Backoff
    prior : array
        The pseudo-count of each parameter.
    threads : int
    """

    layout: GrammarVector
    blocks: Sequence[TreeRows]
    weights: Floats
    backoff: Backoff
    prior: Floats
    threads: int = 1

    @cached_property
    def first(self) -> Integers:
        """The number of the first tree of each block, and that of trees."""
        return np.cumsum([0, *(len(rows.offsets) - 1 for rows in self.blocks)])

    @cached_property
    def weight(self) -> float:
        """The number of nodes of all trees, by weight: gains are judged per node."""
        sizes = np.concatenate([np.diff(rows.offsets) for rows in self.blocks])
        return float(self.weights @ sizes)

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts and the log-likelihood of all trees."""
        arrays = self._arrays(parameters)

        def run(block: int) -> ExpectedCounts:
            rows, weights = self._weighted(block)
            counts, log_prob = expected_rules(arrays, tree_arrays(rows), weights)
            return ExpectedCounts(counts, *self._total(block, log_prob, weights))

        total = ExpectedCounts(np.zeros_like(parameters), 0.0, -1)
        for part in in_order(run, len(self.blocks), self.threads):
            total += part
        return total

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the trees; -inf if one is impossible."""
        arrays = self._arrays(parameters)

        def run(block: int) -> float:
            rows, weights = self._weighted(block)
            return self._total(block, log_probabilities(arrays, tree_arrays(rows)), weights)[0]

        return math.fsum(in_order(run, len(self.blocks), self.threads))

    def _arrays(self, parameters: Floats) -> GrammarArrays:
        return grammar_arrays(self.layout.grammar, parameters, self.backoff)

    def _weighted(self, block: int) -> tuple[TreeRows, Floats]:
        return self.blocks[block], self.weights[self.first[block] : self.first[block + 1]]

    def _total(self, block: int, log_prob: Floats, weights: Floats) -> tuple[float, int]:
        """Return the log-likelihood of the trees of a block, and the number of one that is impossible, or -1."""
        used = weights > 0
        impossible = np.flatnonzero(used & ~(log_prob > -math.inf))
        if len(impossible):
            return -math.inf, int(self.first[block] + impossible[0])
        return float(weights[used] @ log_prob[used]), -1
