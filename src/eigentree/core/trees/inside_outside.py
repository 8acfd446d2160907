"""Inside and outside passes over trees under a latent-variable grammar.

Grammars and trees are tuples of arrays, in the order of `GrammarArrays` and `TreeArrays`; nodes are in post-order,
children before their parent. Results are bit-identical on any part of the trees; sums over trees depend on their
order by rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers

__all__ = [
    "GrammarArrays",
    "TreeArrays",
    "TreeMessages",
    "decode_trees",
    "expected_rules",
    "log_probabilities",
    "tree_messages",
]


class GrammarArrays(NamedTuple):
    """A grammar as the core reads it.

    Attributes
    ----------
    states, widths : arrays of int, shape (labels,)
        How many hidden states a label has, and how many numbers the distribution of each.
    rules : array of int, shape (rules, 4)
        A label, those of its two children, and where the rule's numbers begin.
    lexicon : array of int, shape (pairs, 2)
        A label, and where the probability of its word stands.
    values : array
        The root's distribution over the states of all labels, then those of all states.
    unseen : array, shape (labels, 2)
        How probable unseen rules and unseen words are.
    children, words : arrays
        The distributions of children (over the states of all labels) and of words then.
    """

    states: Integers
    widths: Integers
    rules: Integers
    lexicon: Integers
    values: Floats
    unseen: Floats
    children: Floats
    words: Floats


class TreeArrays(NamedTuple):
    """Trees as the core reads them: see `TreeRows`."""

    labels: NDArray[np.int32]
    left: NDArray[np.int32]
    words: NDArray[np.int32]
    rule: NDArray[np.int32]
    offsets: Integers


class TreeMessages(NamedTuple):
    """The messages of all nodes, end to end, each scaled so that its largest number is between 1/2 and 1.

    Those from inside are to be multiplied by two to the `exponent` of the node; by how much those from outside are
    scaled is not kept.
    """

    log_prob: Floats
    inside: Floats
    outside: Floats
    exponent: Integers


def log_probabilities(grammar: GrammarArrays, trees: TreeArrays) -> Floats:
    """Return the log probability of each tree; NaN where operators give a negative probability."""
    parts = _probabilities(trees)
    _native.inside_probabilities(*grammar, *trees, *parts)
    return _log(*parts)


def expected_rules(grammar: GrammarArrays, trees: TreeArrays, weights: Floats) -> tuple[Floats, Floats]:
    """Return the expected count of each of the grammar's values, and the log probability of each tree."""
    parts = _probabilities(trees)
    counts, any_word = np.empty_like(grammar.values), np.empty(len(grammar.children))
    _native.expected_rules(*grammar, *trees, weights, *parts, counts, any_word)
    if any_word.any():
        # A word that is missing is each of the label's, as probable as the state has it.
        first = np.concatenate([[0], np.cumsum(grammar.states)])
        for label, at in grammar.lexicon.tolist():
            states, width = int(grammar.states[label]), int(grammar.widths[label])
            counts[at : at + states * width : width][:states] += any_word[first[label] : first[label + 1]]
    counts *= grammar.values
    return counts, _log(*parts)


def tree_messages(grammar: GrammarArrays, trees: TreeArrays) -> TreeMessages:
    """Return the messages of all nodes of all trees."""
    parts, size = _probabilities(trees), int(grammar.states[trees.labels].sum())
    inside, outside, exponent = np.empty(size), np.empty(size), np.empty(len(trees.labels), np.int64)
    _native.tree_messages(*grammar, *trees, *parts, inside, outside, exponent)
    return TreeMessages(_log(*parts), inside, outside, exponent)


def decode_trees(grammar: GrammarArrays, trees: TreeArrays) -> tuple[NDArray[np.int32], Floats]:
    """Return the most probable hidden states of all nodes, and the log probability of each tree with them."""
    parts, states = _probabilities(trees), np.zeros(len(trees.labels), np.int32)
    _native.decode_trees(*grammar, *trees, *parts, states)
    return states, _log(*parts)


def _probabilities(trees: TreeArrays) -> tuple[Floats, Integers]:
    count = len(trees.offsets) - 1
    return np.empty(count), np.empty(count, np.int64)


def _log(mantissa: Any, exponent: Any) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(mantissa) + exponent * np.log(2.0))
