"""Trees of plain sentences: the parse of minimum risk, from a chart that a plain grammar prunes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.sentence_charts import Cells, ChartGrammar, filled_chart
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_rows import ANY_WORD
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout
from eigentree.validation import check_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["ChartParser", "Parse", "coarse_grammar"]

MOST_NUMBERS = 2**27
"""Of a chart, one for each state of each label at each span: 1 GiB, and as much again for what is outside."""


def coarse_grammar(grammar: Grammar) -> Grammar:
    """Return a grammar without hidden states: its rules are as frequent as in the training data.

    At the maximum of the likelihood, the expected counts of a latent-variable grammar, summed over hidden states,
    are the counts of the training data: so this is the latent grammar with its states marginalised out.
    """
    symbols, first = grammar.symbols, grammar.layout.state_at[:-1]
    layout = GrammarLayout(symbols, np.ones(len(first), np.int64))
    total = np.bincount(symbols.rules[:, 0], symbols.rule_counts, len(first))
    total += np.bincount(symbols.lexicon[:, 0], symbols.lexicon_counts, len(first))
    values = np.empty(layout.size)
    layout.root(values)[:] = np.add.reduceat(grammar.layout.root(grammar.values), first)
    values[layout.rule_at] = symbols.rule_counts / total[symbols.rules[:, 0]]
    values[layout.word_at] = symbols.lexicon_counts / total[symbols.lexicon[:, 0]]
    backoff = grammar.backoff
    children = np.add.reduceat(backoff.children, first)
    return Grammar(layout, values, Backoff(backoff.pair, backoff.word, children, backoff.words))


@dataclass(frozen=True, eq=False)
class Parse:
    """What a parser found of one sentence.

    Attributes
    ----------
    log_prob : float
        The log probability of the words, all trees summed: of those that pruning left.
    tree : Tree or None
        In normal form; None where no tree of the grammar has these words.
    expected_correct : float
        How many nodes of the tree are expected to be right.
    """

    log_prob: float
    tree: Tree | None
    expected_correct: float


class ChartParser:
    """Parses sentences by a grammar; immutable, and safe to share between threads.

    The tree is that of minimum risk (Goodman 1996): no other has more nodes, in normal form, whose label and span
    are expected to be right. It needs not be a tree of the grammar, as each node is chosen by its own posterior
    probability.

    Parameters
    ----------
    grammar : Grammar
    pruning : float
        First the plain grammar parses a sentence, and of all labels at all spans the least probable ones are left
        out whose posterior probabilities add up to so much at most: by Boole's inequality, the plain grammar's tree
        loses one of its nodes with no greater probability. With 0 nothing is left out.
    """

    def __init__(self, grammar: Grammar, pruning: float) -> None:
        self.grammar = grammar
        self.pruning = pruning

    def parse(self, words: Sequence[str | None]) -> Parse:
        """Return the parse of a sentence; words that are None are missing."""
        codes = self._codes(words)
        log_prob, cells, posteriors = self._posteriors(codes)
        if log_prob == -np.inf:
            return Parse(log_prob, None, 0.0)
        return Parse(log_prob, *_least_risk(words, cells, posteriors, self.grammar.symbols.labels))

    def log_prob(self, words: Sequence[str | None]) -> float:
        """Return the log probability of a sentence, all trees summed."""
        return self._posteriors(self._codes(words))[0]

    def _codes(self, words: Sequence[str | None]) -> list[int]:
        numbers = len(words) * (len(words) + 1) // 2 * int(self.grammar.layout.state_at[-1])
        check_cells(
            f"the chart of a sentence of {len(words)} words", numbers, "split the sentence", most=MOST_NUMBERS
        )
        code = self.grammar.symbols.words.code
        return [ANY_WORD if word is None else code(word) for word in words]

    def _posteriors(self, codes: Sequence[int]) -> tuple[float, Cells, Floats]:
        emissions = self._fine.emissions(codes)
        if self.pruning > 0:
            cells = self._pruned(codes)
            log_prob, posteriors = filled_chart(self._fine.core, emissions, cells)
            if log_prob > -np.inf:
                return log_prob, cells, posteriors
        cells = Cells.of(self._fine.possible(emissions))
        log_prob, posteriors = filled_chart(self._fine.core, emissions, cells)
        return log_prob, cells, posteriors

    def _pruned(self, codes: Sequence[int]) -> Cells:
        """Return the cells that are likely by the plain grammar."""
        emissions = self._plain.emissions(codes)
        allowed = self._plain.possible(emissions)
        _, posteriors = filled_chart(self._plain.core, emissions, Cells.of(allowed))
        order = np.argsort(posteriors)
        dropped = order[np.cumsum(posteriors[order]) <= self.pruning]
        spans, labels = np.nonzero(allowed)
        allowed[spans[dropped], labels[dropped]] = False
        return Cells.of(allowed)

    @cached_property
    def _fine(self) -> _Tables:
        return _Tables(self.grammar)

    @cached_property
    def _plain(self) -> _Tables:
        return _Tables(coarse_grammar(self.grammar))


class _Tables:
    """A grammar as charts read it."""

    def __init__(self, grammar: Grammar) -> None:
        layout, symbols, backoff = grammar.layout, grammar.symbols, grammar.backoff
        order = np.lexsort(symbols.rules.T[[0, 2, 1]])
        kept = backoff.kept
        values = [grammar.binary(rule).ravel() * kept[symbols.rules[rule, 0]] for rule in order]
        root = np.ascontiguousarray(layout.root(grammar.values))
        self.core = ChartGrammar(
            layout.states,
            np.ascontiguousarray(symbols.rules[order][:, [1, 2, 0]]),
            np.concatenate(values) if values else np.empty(0),
            root,
            backoff.pair,
            backoff.children,
        )
        self.first_state = layout.state_at[:-1]
        self.inner = (np.bincount(symbols.rules[:, 0], minlength=len(layout.states)) > 0) | (backoff.pair > 0)
        self.at_root = np.add.reduceat(root, self.first_state) > 0
        self.any_word = np.repeat(backoff.word, layout.states)
        self.unseen = backoff.words
        # Pairs of the lexicon sorted by their words, each with the states of its label.
        pairs = np.argsort(symbols.lexicon[:, 1], kind="stable")
        labels = symbols.lexicon[pairs, 0]
        count = layout.states[labels]
        state = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        self.states = np.repeat(layout.state_at[labels], count) + state
        places = np.repeat(layout.word_at[pairs], count) + state * np.repeat(layout.widths[labels], count)
        self.known = grammar.values[places] * np.repeat(kept[labels], count)
        words = np.repeat(symbols.lexicon[pairs, 1], count)
        self.first_pair = np.searchsorted(words, np.arange(len(symbols.words.names) + 1))

    def emissions(self, codes: Sequence[int]) -> Floats:
        """Return the probability of each word in each state, shape (words, states of all labels)."""
        found = np.empty((len(codes), len(self.any_word)))
        for line, code in zip(found, codes, strict=True):
            if code == ANY_WORD:
                line[:] = self.any_word + np.bincount(self.states, self.known, len(line))
            else:
                line[:] = self.any_word * self.unseen[code]
                own = slice(self.first_pair[code], self.first_pair[code + 1])
                line[self.states[own]] += self.known[own]
        return found

    def possible(self, emissions: Floats) -> Booleans:
        """Return which labels each span can have, shape (spans, labels)."""
        count = len(emissions)
        begins, ends = _spans(count)
        allowed = np.repeat(self.inner[None], len(begins), axis=0)
        allowed[ends - begins == 1] = np.add.reduceat(emissions, self.first_state, axis=1) > 0
        allowed[count - 1] &= self.at_root
        return allowed


def _spans(count: int) -> tuple[Integers, Integers]:
    """Return where each span begins and ends."""
    begins, ends = np.triu_indices(count + 1, 1)
    return begins, ends


def _least_risk(
    words: Sequence[str | None], cells: Cells, posteriors: Floats, labels: Sequence[str]
) -> tuple[Tree, float]:
    """Return the tree of most expected correct nodes, and how many these are."""
    count = len(words)
    best = np.full((count + 1, count + 1), -np.inf)
    filled = np.flatnonzero(np.diff(cells.first))
    highest = np.maximum.reduceat(posteriors, cells.first[filled])
    own = np.full(len(cells.first) - 1, -np.inf)
    own[filled] = np.where(highest > 0, highest, -np.inf)
    best[_spans(count)] = own
    middle = np.zeros((count + 1, count + 1), np.int64)
    for width in range(2, count + 1):
        starts = np.arange(count + 1 - width)
        split = starts[:, None] + np.arange(1, width)
        below = best[starts[:, None], split] + best[split, starts[:, None] + width]
        chosen = below.argmax(axis=1)
        best[starts, starts + width] += below[starts, chosen]
        middle[starts, starts + width] = starts + 1 + chosen

    built: list[Tree] = []
    stack = [(0, count, False)]
    while stack:
        begin, end, below = stack.pop()
        if end - begin > 1 and not below:
            k = int(middle[begin, end])
            stack += [(begin, end, True), (k, end, False), (begin, k, False)]
            continue
        span = begin * count - begin * (begin - 1) // 2 + end - begin - 1
        first, last = cells.first[span : span + 2]
        label = labels[cells.labels[first + posteriors[first:last].argmax()]]
        if end - begin == 1:
            built.append(Tree(label, (words[begin],)))
        else:
            right = built.pop()
            built.append(Tree(label, (built.pop(), right)))
    return built[0], float(best[0, count])
