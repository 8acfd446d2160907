"""Trees with missing labels and words: their probability, and what is most probable in place of what is missing.

A message has an entry for each state of each label that a node may have. One tree at a time, in numpy: a missing
label takes as long as all rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from eigentree.data.treebanks.tree_rows import ANY_ADDED, TreeRows

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.inference.grammars.grammar import Grammar

__all__ = ["Completion"]

Message: TypeAlias = "dict[int, Floats]"
"""For each label that is possible one number for each of its states."""

Choice: TypeAlias = "tuple[int, int, int, int] | int"
"""The labels and states of both children, or a word."""


@dataclass(frozen=True, eq=False)
class Completion:
    """A grammar, asked about trees of which something is missing."""

    grammar: Grammar

    def log_prob(self, rows: TreeRows) -> float:
        """Return the log probability of one tree; what is missing is marginalised out."""
        messages: list[Message] = []
        scale = 0.0
        for node in range(len(rows.labels)):
            left = rows.left[node]
            message: Message = {}
            for label in self._labels(rows, node):
                if left < 0:
                    message[label] = self._word(label, int(rows.words[node]), int(rows.rule[node]))
                else:
                    message[label] = self._pair(label, messages[left], messages[node - 1])
            most = max((float(each.max()) for each in message.values()), default=0.0)
            if not most > 0:
                return -math.inf
            messages.append({label: each / most for label, each in message.items() if each.any()})
            scale += math.log(most)
        total = sum(float(self.grammar.root(label) @ each) for label, each in messages[-1].items())
        return scale + math.log(total) if total > 0 else -math.inf

    def filled(self, rows: TreeRows) -> TreeRows:
        """Return one tree with the labels and words that are most probable together with all hidden states.

        An impossible tree is returned as it is.
        """
        messages: list[Message] = []
        choices: list[dict[tuple[int, int], Choice]] = []
        for node in range(len(rows.labels)):
            left = rows.left[node]
            message: Message = {}
            chosen: dict[tuple[int, int], Choice] = {}
            for label in self._labels(rows, node):
                if left < 0:
                    message[label] = self._best_word(label, rows, node, chosen)
                else:
                    message[label] = self._best_pair(label, messages[left], messages[node - 1], chosen)
            messages.append({label: each for label, each in message.items() if (each > -math.inf).any()})
            choices.append(chosen)
        with np.errstate(divide="ignore"):
            roots = {label: each + np.log(self.grammar.root(label)) for label, each in messages[-1].items()}
        best = max(roots, key=lambda label: float(roots[label].max()), default=-1)
        if best < 0 or not roots[best].max() > -math.inf:
            return rows
        return self._traced(rows, choices, best, int(roots[best].argmax()))

    def _traced(
        self, rows: TreeRows, choices: list[dict[tuple[int, int], Choice]], label: int, state: int
    ) -> TreeRows:
        labels, words = rows.labels.copy(), rows.words.copy()
        found = {len(labels) - 1: (label, state)}
        for node in range(len(labels) - 1, -1, -1):
            labels[node] = found[node][0]
            chosen = choices[node][found[node]]
            if isinstance(chosen, int):
                words[node] = chosen
            else:
                found[int(rows.left[node])], found[node - 1] = chosen[:2], chosen[2:]
        return TreeRows.with_rules(labels, rows.left, words, rows.offsets, self.grammar.symbols)

    def _labels(self, rows: TreeRows, node: int) -> list[int]:
        """Return the labels that a node may have."""
        code = int(rows.labels[node])
        if code >= 0:
            return [code]
        added = self.grammar.symbols.added
        return np.flatnonzero(added if code == ANY_ADDED else ~added).tolist()

    def _word(self, label: int, word: int, pair: int) -> Floats:
        backoff = self.grammar.backoff
        own = self.grammar.lexical(label)
        if word < 0:
            return np.asarray(backoff.kept[label] * own.sum(axis=1) + backoff.word[label])
        known = np.flatnonzero(self._words[label] == word) if pair < 0 else [pair - self._first_pair[label]]
        return np.asarray(
            backoff.kept[label] * own[:, known].sum(axis=1) + backoff.word[label] * backoff.words[word]
        )

    def _pair(self, label: int, left: Message, right: Message) -> Floats:
        grammar, backoff = self.grammar, self.grammar.backoff
        total = np.zeros(int(grammar.states[label]))
        for rule, b, c in self._rules(label, left, right):
            total += np.einsum("hij,i,j->h", grammar.binary(rule), left[b], right[c])
        unseen = [sum(float(self._child(b) @ each) for b, each in side.items()) for side in (left, right)]
        return np.asarray(backoff.kept[label] * total + backoff.pair[label] * unseen[0] * unseen[1])

    def _best_word(self, label: int, rows: TreeRows, node: int, chosen: dict[tuple[int, int], Choice]) -> Floats:
        word = int(rows.words[node])
        backoff = self.grammar.backoff
        with np.errstate(divide="ignore"):
            if word >= 0:
                for state in range(int(self.grammar.states[label])):
                    chosen[label, state] = word
                return np.asarray(np.log(self._word(label, word, int(rows.rule[node]))))
            every = np.tile(backoff.word[label] * backoff.words, (int(self.grammar.states[label]), 1))
            every[:, self._words[label]] += backoff.kept[label] * self.grammar.lexical(label)
            for state, best in enumerate(every.argmax(axis=1).tolist()):
                chosen[label, state] = best
            return np.asarray(np.log(every.max(axis=1)))

    def _best_pair(
        self, label: int, left: Message, right: Message, chosen: dict[tuple[int, int], Choice]
    ) -> Floats:
        grammar, backoff = self.grammar, self.grammar.backoff
        states = int(grammar.states[label])
        best = np.full(states, -math.inf)
        with np.errstate(divide="ignore"):
            if backoff.pair[label] > 0 and left and right:
                (b, i, above), (c, j, beside) = self._best_child(left), self._best_child(right)
                best[:] = math.log(backoff.pair[label]) + above + beside
                chosen.update({(label, h): (b, i, c, j) for h in range(states)})
            for rule, b, c in self._rules(label, left, right):
                unseen = backoff.pair[label] * np.outer(self._child(b), self._child(c))
                own = np.log(backoff.kept[label] * grammar.binary(rule) + unseen)
                scores = (own + left[b][:, None] + right[c]).reshape(states, -1)
                place = scores.argmax(axis=1)
                for h in np.flatnonzero(scores[np.arange(states), place] > best).tolist():
                    best[h] = scores[h, place[h]]
                    i, j = divmod(int(place[h]), len(right[c]))
                    chosen[label, h] = (b, i, c, j)
        return best

    def _best_child(self, message: Message) -> tuple[int, int, float]:
        with np.errstate(divide="ignore"):
            scores = {label: each + np.log(self._child(label)) for label, each in message.items()}
        label = max(scores, key=lambda each: float(scores[each].max()))
        return label, int(scores[label].argmax()), float(scores[label].max())

    def _child(self, label: int) -> Floats:
        begin, end = self.grammar.layout.state_at[label : label + 2]
        return self.grammar.backoff.children[begin:end]

    def _rules(self, label: int, left: Message, right: Message) -> list[tuple[int, int, int]]:
        """Return the rules of a label whose children are possible."""
        rules = self.grammar.symbols.rules
        begin, end = np.searchsorted(rules[:, 0], [label, label + 1]).tolist()
        own = enumerate(rules[begin:end, 1:].tolist(), begin)
        return [(rule, b, c) for rule, (b, c) in own if b in left and c in right]

    @cached_property
    def _first_pair(self) -> Integers:
        """The first pair of each label in the lexicon."""
        return np.searchsorted(self.grammar.symbols.lexicon[:, 0], np.arange(len(self.grammar.states) + 1))

    @cached_property
    def _words(self) -> list[Integers]:
        """The words of each label."""
        first, words = self._first_pair.tolist(), self.grammar.symbols.lexicon[:, 1]
        return [words[begin:end] for begin, end in pairwise(first)]
