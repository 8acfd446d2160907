"""What a grammar says of encoded trees: log probabilities, posteriors of hidden states, the most probable ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core.trees.inside_outside import (
    GrammarArrays,
    TreeArrays,
    decode_trees,
    log_probabilities,
    tree_messages,
)
from eigentree.data.treebanks.tree_rows import TreeRows
from eigentree.inference.grammars.completion import Completion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats
    from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout

__all__ = ["NodePosteriors", "decode", "grammar_arrays", "log_prob", "node_posteriors", "tree_arrays"]


def grammar_arrays(layout: GrammarLayout, values: Floats, backoff: Backoff) -> GrammarArrays:
    """Return a grammar as the core reads it."""
    symbols = layout.symbols
    return GrammarArrays(
        layout.states,
        layout.widths,
        np.column_stack([symbols.rules, layout.rule_at]),
        np.column_stack([symbols.lexicon[:, 0], layout.word_at]),
        np.ascontiguousarray(values),
        np.column_stack([backoff.pair, backoff.word]),
        backoff.children,
        backoff.words,
    )


def tree_arrays(rows: TreeRows) -> TreeArrays:
    """Return trees as the core reads them."""
    parts = (rows.labels, rows.left, rows.words, rows.rule)
    labels, left, words, rule = (np.ascontiguousarray(part, np.int32) for part in parts)
    return TreeArrays(labels, left, words, rule, np.ascontiguousarray(rows.offsets, np.int64))


def log_prob(grammar: Grammar, rows: TreeRows) -> Floats:
    """Return the log probability of each tree; what is missing is marginalised out."""
    found = np.empty(rows.count)
    incomplete = rows.incomplete
    complete = _complete(rows, incomplete)
    arrays = grammar_arrays(grammar.layout, grammar.values, grammar.backoff)
    found[~incomplete] = log_probabilities(arrays, tree_arrays(complete))
    for number in np.flatnonzero(incomplete).tolist():
        found[number] = Completion(grammar).log_prob(rows.part(number, number + 1))
    return found


def decode(grammar: Grammar, rows: TreeRows) -> NDArray[np.int32]:
    """Return the hidden states of all nodes that are most probable together, of trees without missing labels."""
    return decode_trees(grammar_arrays(grammar.layout, grammar.values, grammar.backoff), tree_arrays(rows))[0]


class NodePosteriors(NamedTuple):
    """What is known of nodes, end to end.

    Attributes
    ----------
    states : array
        The posterior distribution of the hidden state of each node, one after the other.
    node_at : array of int, shape (nodes + 1,)
        Where that of each node begins.
    expansion : array, shape (nodes,)
        The log probability of what the node becomes, its rule or its word, given all outside its subtree.
    """

    states: Floats
    node_at: NDArray[np.int64]
    expansion: Floats


def node_posteriors(grammar: Grammar, rows: TreeRows) -> NodePosteriors:
    """Return what is known of the nodes of trees without missing labels; NaN where a tree is impossible."""
    layout = grammar.layout
    messages = tree_messages(grammar_arrays(layout, grammar.values, grammar.backoff), tree_arrays(rows))
    states = layout.states[rows.labels]
    node_at = np.concatenate([[0], np.cumsum(states)])
    node = np.repeat(np.arange(len(states)), states)
    own = layout.state_at[rows.labels][node] + np.arange(node_at[-1]) - node_at[node]
    with np.errstate(invalid="ignore", divide="ignore"):
        both = messages.inside * messages.outside
        posterior = both / np.add.reduceat(both, node_at[:-1])[node]
        before = messages.outside / np.add.reduceat(messages.outside, node_at[:-1])[node]
        becomes = np.zeros(len(node))
        for inner, table in ((True, _rule_totals(grammar)), (False, _word_totals(grammar))):
            line = rows.rule[node].astype(np.int64)
            used = ((rows.left >= 0) == inner)[node] & (line >= 0)
            first = layout.state_at[rows.labels][node]
            becomes[used] = table[0][table[1][line[used]] + own[used] - first[used]]
        kept, pair, word = grammar.backoff.kept, grammar.backoff.pair, grammar.backoff.word
        shares = np.add.reduceat(grammar.backoff.children, layout.state_at[:-1])
        right = rows.right
        unseen = np.where(
            rows.left >= 0,
            pair[rows.labels] * shares[rows.labels[rows.left]] * shares[rows.labels[right]],
            word[rows.labels] * np.where(rows.words >= 0, grammar.backoff.words[rows.words], 0.0),
        )
        total = np.add.reduceat(before * becomes, node_at[:-1]) * kept[rows.labels] + unseen
        missing = (rows.left < 0) & (rows.words < 0)
        expansion = np.where(missing, 0.0, np.log(total))
    return NodePosteriors(posterior, node_at, expansion)


def _rule_totals(grammar: Grammar) -> tuple[Floats, NDArray[np.int64]]:
    """Return the probability of each rule in each state of its label, end to end, and where each rule begins."""
    totals = [grammar.binary(rule).sum(axis=(1, 2)) for rule in range(len(grammar.symbols.rules))]
    sizes = [len(each) for each in totals]
    return np.concatenate([np.zeros(0), *totals]), np.cumsum([0, *sizes])[:-1]


def _word_totals(grammar: Grammar) -> tuple[Floats, NDArray[np.int64]]:
    """Return the same of pairs of a label and a word."""
    labels = range(len(grammar.symbols.labels))
    states = grammar.states[grammar.symbols.lexicon[:, 0]]
    return np.concatenate([grammar.lexical(label).T.ravel() for label in labels]), np.cumsum(states) - states


def _complete(rows: TreeRows, incomplete: NDArray[np.bool_]) -> TreeRows:
    if not incomplete.any():
        return rows
    whole = np.flatnonzero(~incomplete).tolist()
    return TreeRows.joined([rows.part(0, 0), *(rows.part(number, number + 1) for number in whole)])
