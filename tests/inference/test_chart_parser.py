"""Parsing of sentences, against enumeration of all trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from inference.test_grammars import random_grammar

from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_encoder import TreeEncoder
from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.grammars.chart_tables import coarse_grammar
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout

TREES = ["(A (B x) (A (B y) (B x)))", "(A (A x) (B y))", "(B (A y) (B x))", "(A (A x) (A (B x) (A y)))"]
SENTENCES = ["x", "y x", "x y x", "x y z y", "x () y x"]


def grammar_of(seed: int, smooth: bool, names: str = "AB") -> Grammar:
    encoder = TreeEncoder()
    for text in TREES:
        encoder.add(Tree.parse(text.translate(str.maketrans("AB", names))))
    symbols, _ = encoder.learned(1, "signature")
    states = np.array([{names[0]: 2, names[1]: 3}[label] for label in symbols.labels])
    return random_grammar(GrammarLayout(symbols, states), seed, smooth)


def plain_of(grammar: Grammar) -> Grammar:
    """Return the plain grammar whose root has either label."""
    layout = GrammarLayout(grammar.symbols, np.ones(2, np.int64))
    return coarse_grammar(grammar.symbols, np.array([0.75, 0.25]), Backoff.witten_bell(layout))


def words_of(sentence: str) -> list[str | None]:
    return [None if word == "()" else word for word in sentence.split()]


def shapes(labels: range, begin: int, end: int) -> Iterator[tuple]:
    """Yield all labelled binary trees over words."""
    if end == begin + 1:
        yield from ((a, begin, end) for a in labels)
    for k in range(begin + 1, end):
        for a, left, right in product(labels, shapes(labels, begin, k), shapes(labels, k, end)):
            yield a, begin, end, left, right


def inside(grammar: Grammar, words: list[str | None], tree: tuple) -> np.ndarray:
    """Return the probability of a tree below each state of its root, by the definition of the grammar."""
    symbols, backoff, at = grammar.symbols, grammar.backoff, grammar.layout.state_at
    a, begin = tree[:2]
    if len(tree) == 3:
        own = symbols.lexicon[symbols.lexicon[:, 0] == a, 1].tolist()
        if words[begin] is None:
            return backoff.kept[a] * grammar.lexical(a).sum(axis=1) + backoff.word[a]
        code = symbols.words.code(words[begin])
        found = np.full(grammar.states[a], backoff.word[a] * backoff.words[code])
        return found + (backoff.kept[a] * grammar.lexical(a)[:, own.index(code)] if code in own else 0)
    left, right = (inside(grammar, words, each) for each in tree[3:])
    b, c = tree[3][0], tree[4][0]
    found = np.full(grammar.states[a], backoff.pair[a])
    found = found * (backoff.children[at[b] : at[b + 1]] @ left) * (backoff.children[at[c] : at[c + 1]] @ right)
    rules = symbols.rules.tolist()
    if [a, b, c] in rules:
        table = grammar.binary(rules.index([a, b, c]))
        found = found + backoff.kept[a] * np.einsum("stu,t,u->s", table, left, right)
    return found


def nodes(tree: tuple) -> list[tuple]:
    return [tree[:3], *(node for child in tree[3:] for node in nodes(child))]


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_all_trees(sentence: str, smooth: bool) -> None:
    """The probability of a sentence, and the tree of most expected correct nodes, by enumeration."""
    grammar, words = grammar_of(3, smooth), words_of(sentence)
    labels, count = range(len(grammar.states)), len(words)
    trees = list(shapes(labels, 0, count))
    weights = np.array([grammar.root(tree[0]) @ inside(grammar, words, tree) for tree in trees])
    parsed = ChartParser.of(grammar, 0.0).parse(words)
    if not weights.any():
        assert parsed.log_prob == -np.inf
        assert parsed.tree is None
        return
    assert np.isclose(parsed.log_prob, np.log(weights.sum()), rtol=0, atol=1e-10)
    expected: dict[tuple, float] = {}
    for tree, weight in zip(trees, weights / weights.sum(), strict=True):
        for node in nodes(tree):
            expected[node] = expected.get(node, 0.0) + weight
    risk = [sum(expected[node] for node in nodes(tree)) for tree in trees]
    assert np.isclose(parsed.expected_correct, max(risk), rtol=0, atol=1e-10)
    shown = [written(tree, words, grammar.symbols.labels) for tree in trees]
    assert np.isclose(risk[shown.index(str(parsed.tree))], max(risk), rtol=0, atol=1e-10)


def written(tree: tuple, words: list[str | None], labels: tuple[str, ...]) -> str:
    below = [written(each, words, labels) for each in tree[3:]] or [words[tree[1]] or "()"]
    return f"({' '.join([labels[tree[0]], *below])})"


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_little_pruning_changes_nothing(sentence: str) -> None:
    grammar, words = grammar_of(1, smooth=True), words_of(sentence)
    whole, pruned = (ChartParser.of(grammar, pruning).parse(words) for pruning in (0.0, 1e-200))
    assert (pruned.tree, pruned.log_prob) == (whole.tree, whole.log_prob)
    most = ChartParser.of(grammar, 0.9).parse(words)
    assert most.log_prob <= whole.log_prob
    assert most.tree is not None


def test_pruning_leaves_what_the_coarse_grammar_has() -> None:
    """Of trees that the plain grammar would sample, at most the share that pruning allows are lost."""
    grammar, words = plain_of(grammar_of(0, smooth=True)), words_of("x y x y x")
    whole = ChartParser.of(grammar, 0.0).log_prob(words)
    for pruning in (0.9, 0.5, 0.1, 1e-3):
        pruned = ChartParser.of(grammar, pruning).log_prob(words)
        assert whole + np.log1p(-pruning) <= pruned <= whole
        assert pruned < whole or pruning < 0.5


def test_names_of_labels_do_not_matter() -> None:
    words, own = words_of("x y z y"), grammar_of(5, smooth=True)
    other = grammar_of(0, smooth=True, names="ZM")
    symbols = other.symbols
    turned = [own.symbols.labels.index({"Z": "A", "M": "B"}[label]) for label in symbols.labels]
    rules = [own.symbols.rules.tolist().index([turned[label] for label in rule]) for rule in symbols.rules]
    other = Grammar.of_parts(
        other.layout,
        [own.root(label) for label in turned],
        [own.binary(rule) for rule in rules],
        [own.lexical(label) for label in turned],
        other.backoff,
    )
    one, two = ChartParser.of(own, 1e-3).parse(words), ChartParser.of(other, 1e-3).parse(words)
    assert np.isclose(one.log_prob, two.log_prob, rtol=1e-12)
    assert str(one.tree).translate(str.maketrans("AB", "ZM")) == str(two.tree)


def test_a_coarse_grammar_has_relative_frequencies() -> None:
    grammar = plain_of(grammar_of(0, smooth=False))
    rules = [[grammar.symbols.labels[label] for label in rule] for rule in grammar.symbols.rules]
    # Of 9 nodes A, one is above A and B.
    assert grammar.binary(rules.index(["A", "A", "B"])).item() == 1 / 9
    assert (grammar.states == 1).all()


def test_a_label_that_only_held_out_trees_have_may_become_anything() -> None:
    symbols = grammar_of(0, smooth=False).symbols
    none = replace(
        symbols,
        rule_counts=symbols.rule_counts * (symbols.rules[:, 0] != 1),
        lexicon_counts=symbols.lexicon_counts * (symbols.lexicon[:, 0] != 1),
    )
    backoff = Backoff.none(GrammarLayout(symbols, np.ones(2, np.int64)))
    grammar = coarse_grammar(none, np.array([0.5, 0.5]), backoff)
    assert np.allclose(grammar.lexical(1), 1 / 3)
