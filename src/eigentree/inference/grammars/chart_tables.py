"""A grammar as charts of sentences read it: with hidden states, with learned operators, or plain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.sentence_charts import ChartGrammar
from eigentree.data.treebanks.tree_rows import ANY_WORD
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols

__all__ = ["ChartTables", "coarse_grammar", "spans"]


def coarse_grammar(symbols: GrammarSymbols, roots: Floats, backoff: Backoff) -> Grammar:
    """Return a grammar without hidden states: its rules are as frequent as in the training data.

    At the maximum of the likelihood, the expected counts of a latent-variable grammar, summed over hidden states,
    are the counts of the training data: so this is the latent grammar with its states marginalised out.

    Parameters
    ----------
    symbols : GrammarSymbols
    roots : array, shape (labels,)
        The distribution of the root's label.
    backoff : Backoff
        Of labels with one state each.
    """
    layout = GrammarLayout(symbols, np.ones(len(roots), np.int64))
    values = np.concatenate([roots, np.zeros(layout.size - len(roots))])
    values[layout.rule_at], values[layout.word_at] = symbols.rule_counts, symbols.lexicon_counts
    for label in range(len(roots)):
        own = layout.block(values, label)
        # A label that only held-out trees have shows nothing.
        own[:] = own / own.sum() if own.any() else 1.0 / own.size
    return Grammar(layout, values, backoff)


class ChartTables:
    """The parts of a grammar, in the order in which charts read them.

    Parameters
    ----------
    symbols : GrammarSymbols
    states : array of int, shape (labels,)
        The number of states of each label, or the rank of its operators.
    root : array, shape (all states,)
    rules : sequence of array
        Of each rule, along the states of the node, the left child and the right one.
    pairs : array
        Of each pair of the lexicon, for the states of its label.
    certain : array, shape (all states,)
        The inside vectors of what has probability 1, whatever the state.
    backoff : Backoff
        Its children are of all states.
    """

    def __init__(
        self,
        symbols: GrammarSymbols,
        states: Integers,
        root: Floats,
        rules: Sequence[Floats],
        pairs: Floats,
        certain: Floats,
        backoff: Backoff,
    ) -> None:
        self.symbols = symbols
        self.root = root
        self.first_state = np.cumsum(states) - states
        kept = backoff.kept
        order = np.lexsort(symbols.rules.T[[0, 2, 1]])
        values = [rules[rule].ravel() * kept[symbols.rules[rule, 0]] for rule in order]
        self.core = ChartGrammar(
            np.ascontiguousarray(states, np.int64),
            np.ascontiguousarray(symbols.rules[order][:, [1, 2, 0]]),
            np.concatenate([np.empty(0), *values]),
            np.ascontiguousarray(root),
            np.repeat(backoff.pair, states) * certain,
            backoff.children,
        )
        self._inner = (np.bincount(symbols.rules[:, 0], minlength=len(states)) > 0) | (backoff.pair > 0)
        self._any_word = np.repeat(backoff.word, states) * certain
        self._unseen = backoff.words
        # Pairs of the lexicon sorted by their words, each with the states of its label.
        count = states[symbols.lexicon[:, 0]]
        state = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        labels, words = np.repeat(symbols.lexicon, count, axis=0).T
        by_word = np.argsort(words, kind="stable")
        self._states = (self.first_state[labels] + state)[by_word]
        self._known = (pairs * kept[labels])[by_word]
        self._first_pair = np.searchsorted(words[by_word], np.arange(len(symbols.words.names) + 1))

    @classmethod
    def of(cls, grammar: Grammar) -> ChartTables:
        """Return the parts of a grammar with hidden states."""
        layout, symbols = grammar.layout, grammar.symbols
        count = layout.states[symbols.lexicon[:, 0]]
        state = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        places = np.repeat(layout.word_at, count) + state * np.repeat(layout.widths[symbols.lexicon[:, 0]], count)
        rules = [grammar.binary(rule) for rule in range(len(symbols.rules))]
        root = layout.root(grammar.values)
        return cls(symbols, layout.states, root, rules, grammar.values[places], np.ones(len(root)), grammar.backoff)

    @property
    def states(self) -> int:
        """The number of states of all labels."""
        return len(self.root)

    def emissions(self, codes: Sequence[int]) -> Floats:
        """Return the probability of each word in each state, shape (words, states of all labels)."""
        found = np.empty((len(codes), self.states))
        for line, code in zip(found, codes, strict=True):
            if code == ANY_WORD:
                line[:] = self._any_word + np.bincount(self._states, self._known, self.states)
            else:
                line[:] = self._any_word * self._unseen[code]
                own = slice(self._first_pair[code], self._first_pair[code + 1])
                line[self._states[own]] += self._known[own]
        return found

    def possible(self, emissions: Floats) -> Booleans:
        """Return which labels each span can have, shape (spans, labels)."""
        count = len(emissions)
        begins, ends = spans(count)
        allowed = np.repeat(self._inner[None], len(begins), axis=0)
        allowed[ends - begins == 1] = np.logical_or.reduceat(emissions != 0, self.first_state, axis=1)
        allowed[count - 1] &= np.logical_or.reduceat(self.root != 0, self.first_state)
        return allowed


def spans(count: int) -> tuple[Integers, Integers]:
    """Return where each span of a sentence begins and ends, in the order of charts."""
    begins, ends = np.triu_indices(count + 1, 1)
    return begins, ends
