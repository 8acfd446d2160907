"""A latent-variable grammar: the probabilities of rules, words and hidden states, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import DataError, NetworkError, quoted
from eigentree.validation import check_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols

__all__ = ["Backoff", "Grammar", "GrammarLayout"]


@dataclass(frozen=True, eq=False)
class GrammarLayout:
    """Where each parameter of a grammar stands in one vector.

    First is the distribution of the root over all states of all labels; then, label by label and state by state,
    the distribution over what the state becomes: over the states of the children of each rule of the label, the
    rules in their order, and then over the words of the label.

    Attributes
    ----------
    symbols : GrammarSymbols
    states : array of int, shape (labels,)
        The number of hidden states of each label.
    """

    symbols: GrammarSymbols
    states: Integers

    def __post_init__(self) -> None:
        if not len(self.states) == len(self.symbols.labels) > 0 or not (self.states > 0).all():
            raise NetworkError("a grammar has labels, and each of them one hidden state at least")
        check_cells("the rules", int(self.first[-1]), "take fewer hidden_states, or trees with fewer labels")
        if len(empty := np.flatnonzero(self.widths == 0)):
            label = quoted(self.symbols.labels[empty[0]])
            raise DataError(f"no tree shows both children, or the word, of a node {label}; leave such trees out")

    @cached_property
    def state_at(self) -> Integers:
        """The first state of each label among those of all, and their number."""
        return np.concatenate([[0], np.cumsum(self.states)])

    @cached_property
    def rule_sizes(self) -> Integers:
        """For each rule, how many pairs of states its children have."""
        return np.asarray(self.states[self.symbols.rules[:, 1]] * self.states[self.symbols.rules[:, 2]])

    @cached_property
    def widths(self) -> Integers:
        """For each label, the number of entries of the distribution of each of its states."""
        count = len(self.states)
        pairs = np.bincount(self.symbols.lexicon[:, 0], minlength=count)
        inner = np.bincount(self.symbols.rules[:, 0], weights=self.rule_sizes, minlength=count)
        return np.asarray(inner.astype(np.int64) + pairs)

    @cached_property
    def first(self) -> Integers:
        """For each label, where the distributions of its states begin; at last the number of parameters."""
        return int(self.states.sum()) + np.concatenate([[0], np.cumsum(self.states * self.widths)])

    @cached_property
    def rule_at(self) -> Integers:
        """Where the first entry of each rule stands, in the distribution of its label's first state."""
        return self._placed(self.symbols.rules[:, 0], self.rule_sizes, np.zeros(len(self.states), np.int64))

    @cached_property
    def word_at(self) -> Integers:
        """Where the entry of each pair of the lexicon stands, in the distribution of its label's first state."""
        labels = self.symbols.lexicon[:, 0]
        inner = np.bincount(self.symbols.rules[:, 0], weights=self.rule_sizes, minlength=len(self.states))
        return self._placed(labels, np.ones(len(labels), np.int64), inner.astype(np.int64))

    @property
    def size(self) -> int:
        """The number of parameters."""
        return int(self.first[-1])

    @cached_property
    def lengths(self) -> Integers:
        """The number of entries of each distribution."""
        return np.concatenate([self.state_at[-1:], np.repeat(self.widths, self.states)])

    def root(self, values: Floats) -> Floats:
        """Return the part of a vector that belongs to the root: one entry for each state of each label."""
        return values[: self.state_at[-1]]

    def block(self, values: Floats, label: int) -> Floats:
        """Return the part of a label: one line for each state."""
        return values[self.first[label] : self.first[label + 1]].reshape(self.states[label], self.widths[label])

    def binary(self, values: Floats, rule: int) -> Floats:
        """Return the part of a rule, along the states of the label and of its two children."""
        parent, left, right = self.symbols.rules[rule]
        begin = self.rule_at[rule] - self.first[parent]
        lines = self.block(values, parent)[:, begin : begin + self.rule_sizes[rule]]
        return lines.reshape(self.states[parent], self.states[left], self.states[right])

    def lexical(self, values: Floats, label: int) -> Floats:
        """Return the part of the words of a label: states along lines, and the label's pairs of the lexicon."""
        count = int((self.symbols.lexicon[:, 0] == label).sum())
        return self.block(values, label)[:, self.widths[label] - count :]

    def _placed(self, labels: Integers, sizes: Integers, skipped: Integers) -> Integers:
        """Return where entries begin, those of one label end to end after what is skipped."""
        begins = np.cumsum(sizes) - sizes
        first_of_label = np.searchsorted(labels, np.arange(len(self.states)))
        own = np.concatenate([begins, [sizes.sum()]])[first_of_label]
        return np.asarray(self.first[labels] + skipped[labels] + begins - own[labels])


@dataclass(frozen=True, eq=False)
class Backoff:
    """What a grammar expects of rules and words that its training data do not have.

    A node of a label has with probability `pair` two children whose labels and states do not depend on it, and with
    probability `word` a word that does not; all else is as the rules say. So no tree is impossible, and the
    probabilities of all trees still add up.

    Attributes
    ----------
    pair, word : array, shape (labels,)
        For each label, the probability of either.
    children : array, shape (states of all labels,)
        The distribution of such a child.
    words : array, shape (words and classes,)
        The distribution of such a word.
    """

    pair: Floats
    word: Floats
    children: Floats
    words: Floats

    @property
    def kept(self) -> Floats:
        """For each label, the probability that the rules apply."""
        return 1.0 - self.pair - self.word

    @classmethod
    def none(cls, layout: GrammarLayout) -> Backoff:
        """Return what makes unseen rules and words impossible."""
        zeros, states, words = np.zeros(len(layout.states)), layout.state_at[-1], len(layout.symbols.words.names)
        return cls(zeros, zeros, np.full(states, 1.0 / states), np.full(words, 1.0 / words))

    @classmethod
    def witten_bell(cls, layout: GrammarLayout) -> Backoff:
        """Return the estimate of Witten and Bell (1991): each rule was new once, when it was seen first.

        Of n expansions of a label, t of which differ, t / (n + t) are expected to be new, half of one more having
        two children and half a word. Labels of children and words are then as frequent as elsewhere, but for one
        occurrence more of each.
        """
        symbols = layout.symbols
        labels, words = len(layout.states), len(symbols.words.names)
        parents, own = symbols.rules[:, 0], symbols.lexicon[:, 0]
        seen = np.bincount(parents, symbols.rule_counts, labels) + np.bincount(own, symbols.lexicon_counts, labels)
        pairs = np.bincount(parents, minlength=labels) + 0.5
        pairs_of_words = np.bincount(own, minlength=labels) + 0.5
        total = seen + pairs + pairs_of_words
        both = np.repeat(symbols.rule_counts, 2)
        children = np.bincount(symbols.rules[:, 1:].ravel(), both, labels) + 1.0
        each_word = np.bincount(symbols.lexicon[:, 1], symbols.lexicon_counts, words) + 1.0
        return cls(
            pairs / total,
            pairs_of_words / total,
            np.repeat(children / children.sum() / layout.states, layout.states),
            each_word / each_word.sum(),
        )


@dataclass(frozen=True, eq=False)
class Grammar:
    """A grammar whose labels have hidden states: immutable, normalised.

    Attributes
    ----------
    layout : GrammarLayout
    values : array
        All parameters, as the layout has them.
    backoff : Backoff
        What is expected of rules that the layout does not have.

    Methods
    -------
    root(label), binary(rule), lexical(label)
        Views of the parameters: the probabilities of the label's states at the root; of rule and states of both
        children given the state, along (state, left, right); and of the label's words given the state.
    """

    layout: GrammarLayout
    values: Floats
    backoff: Backoff

    def __post_init__(self) -> None:
        if self.values.shape != (self.layout.size,):
            raise NetworkError(f"the grammar has {self.layout.size} parameters, not {self.values.shape}")
        first = np.cumsum(self.layout.lengths) - self.layout.lengths
        sums = np.add.reduceat(self.values, first)
        sums = np.append(sums, [self.backoff.children.sum(), self.backoff.words.sum()])
        if not (self.values >= 0).all() or not np.allclose(sums, 1.0, atol=1e-6):
            raise NetworkError("the parameters of a grammar are distributions: not negative, and normalised")

    @property
    def symbols(self) -> GrammarSymbols:
        """The labels, words and rules."""
        return self.layout.symbols

    @property
    def states(self) -> Integers:
        """The number of hidden states of each label."""
        return self.layout.states

    def root(self, label: int) -> Floats:
        """Return the probability that the root has a label and each of its states."""
        begin, end = self.layout.state_at[label : label + 2]
        return self.values[begin:end]

    def binary(self, rule: int) -> Floats:
        """Return the probabilities of a rule and of the states of its children, given the state of its label."""
        return self.layout.binary(self.values, rule)

    def lexical(self, label: int) -> Floats:
        """Return the probability of each word of a label, given its state."""
        return self.layout.lexical(self.values, label)

    @classmethod
    def of_parts(
        cls,
        layout: GrammarLayout,
        root: Sequence[Floats],
        binary: Sequence[Floats],
        lexical: Sequence[Floats],
        backoff: Backoff | None = None,
    ) -> Grammar:
        """Return the grammar of the parts that its methods give: for each label, rule and label."""
        values = np.zeros(layout.size)
        layout.root(values)[:] = np.concatenate(root)
        for rule, own in enumerate(binary):
            parent = layout.symbols.rules[rule, 0]
            begin = layout.rule_at[rule] - layout.first[parent]
            lines = own.reshape(layout.states[parent], -1)
            layout.block(values, parent)[:, begin : begin + lines.shape[1]] = lines
        for label, own in enumerate(lexical):
            layout.lexical(values, label)[:] = own
        return cls(layout, values, backoff or Backoff.none(layout))
