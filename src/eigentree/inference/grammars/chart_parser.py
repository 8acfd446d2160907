"""Trees of plain sentences: the parse of minimum risk, from a chart that a plain grammar prunes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.sentence_charts import Cells, filled_chart
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_rows import ANY_WORD
from eigentree.inference.grammars.chart_tables import ChartTables, coarse_grammar, spans
from eigentree.inference.grammars.grammar import Backoff
from eigentree.validation import check_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.inference.grammars.grammar import Grammar

__all__ = ["ChartParser", "Parse"]

MOST_NUMBERS = 2**27
"""Of a chart, one for each state of each label at each span: 1 GiB, and as much again for what is outside."""


@dataclass(frozen=True, eq=False)
class Parse:
    """What a parser found of one sentence.

    Attributes
    ----------
    log_prob : float
        The log probability of the words, all trees summed that pruning left; -inf where it is not positive.
    tree : Tree or None
        In normal form; None where no tree of the grammar has these words.
    expected_correct : float
        How many nodes of the tree are expected to be right.
    """

    log_prob: float
    tree: Tree | None
    expected_correct: float


@dataclass(frozen=True, eq=False)
class ChartParser:
    """Parses sentences by a grammar; safe to share between threads.

    The tree is that of minimum risk (Goodman 1996): no other has more nodes, in normal form, whose label and span
    are expected to be right. It needs not be a tree of the grammar, as each node is chosen by its own posterior
    probability. A sentence that is impossible by the grammar, or negative by learned operators, is parsed by the
    plain grammar.

    Parameters
    ----------
    fine : ChartTables
    plain : ChartTables
        Of the plain grammar.
    pruning : float
        First the plain grammar parses a sentence, and of all labels at all spans the least probable ones are left
        out whose posterior probabilities add up to so much at most: by Boole's inequality, the plain grammar's tree
        loses one of its nodes with no greater probability. With 0 nothing is left out.
    """

    fine: ChartTables
    plain: ChartTables
    pruning: float

    @classmethod
    def of(cls, grammar: Grammar, pruning: float) -> ChartParser:
        """Return the parser of a grammar with hidden states."""
        first, known = grammar.layout.state_at[:-1], grammar.backoff
        children = np.add.reduceat(known.children, first)
        backoff = Backoff(known.pair, known.word, children, known.words)
        roots = np.add.reduceat(grammar.layout.root(grammar.values), first)
        plain = coarse_grammar(grammar.symbols, roots, backoff)
        return cls(ChartTables.of(grammar), ChartTables.of(plain), pruning)

    @property
    def likely_root(self) -> str:
        """The most frequent label of roots."""
        return self.fine.symbols.labels[int(self.plain.root.argmax())]

    def parse(self, words: Sequence[str | None]) -> Parse:
        """Return the parse of a sentence; words that are None are missing."""
        codes = self._codes(words)
        log_prob, cells, posteriors = self._posteriors(codes)
        if log_prob == -np.inf:
            emissions = self.plain.emissions(codes)
            cells = Cells.of(self.plain.possible(emissions))
            plain, posteriors = filled_chart(self.plain.core, emissions, cells)
            if plain == -np.inf:
                return Parse(log_prob, None, 0.0)
        return Parse(log_prob, *_least_risk(words, cells, posteriors, self.fine.symbols.labels))

    def log_prob(self, words: Sequence[str | None]) -> float:
        """Return the log probability of a sentence, all trees summed."""
        return self._posteriors(self._codes(words))[0]

    def _codes(self, words: Sequence[str | None]) -> list[int]:
        numbers = len(words) * (len(words) + 1) // 2 * self.fine.states
        check_cells(
            f"the chart of a sentence of {len(words)} words", numbers, "split the sentence", most=MOST_NUMBERS
        )
        code = self.fine.symbols.words.code
        return [ANY_WORD if word is None else code(word) for word in words]

    def _posteriors(self, codes: Sequence[int]) -> tuple[float, Cells, Floats]:
        emissions = self.fine.emissions(codes)
        if self.pruning > 0:
            cells = self._pruned(codes)
            log_prob, posteriors = filled_chart(self.fine.core, emissions, cells)
            if log_prob > -np.inf:
                return log_prob, cells, posteriors
        cells = Cells.of(self.fine.possible(emissions))
        log_prob, posteriors = filled_chart(self.fine.core, emissions, cells)
        return log_prob, cells, posteriors

    def _pruned(self, codes: Sequence[int]) -> Cells:
        """Return the cells that are likely by the plain grammar."""
        emissions = self.plain.emissions(codes)
        allowed = self.plain.possible(emissions)
        _, posteriors = filled_chart(self.plain.core, emissions, Cells.of(allowed))
        order = np.argsort(posteriors)
        dropped = order[np.cumsum(posteriors[order]) <= self.pruning]
        spans, labels = np.nonzero(allowed)
        allowed[spans[dropped], labels[dropped]] = False
        return Cells.of(allowed)


def _least_risk(
    words: Sequence[str | None], cells: Cells, posteriors: Floats, labels: Sequence[str]
) -> tuple[Tree, float]:
    """Return the tree of most expected correct nodes, and how many these are."""
    count = len(words)
    best = np.full((count + 1, count + 1), -np.inf)
    filled = np.flatnonzero(np.diff(cells.first))
    own = np.full(len(cells.first) - 1, -np.inf)
    own[filled] = np.maximum.reduceat(posteriors, cells.first[filled])
    best[spans(count)] = own
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
