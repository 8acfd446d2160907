"""Latent-variable grammars: where parameters stand, and exact probabilities against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from eigentree.data.treebanks.binarisation import Binarisation
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_rows import TreeEncoder, TreeRows
from eigentree.errors import DataError, NetworkError
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout

TREES = [
    "(S (NP she) (VP (V sees) (NP (D the) (N stars))))",
    "(S (NP (D the) (N stars)) (VP sleep))",
    "(S (NP she) (VP (VP sees) (NP (NP he) (NP stars))))",
    "(S (S (NP he) (VP sleep)) (C and) (S (NP she) (VP sees)))",
    "(NP stars)",
]
SIZES = {"S": 2, "NP": 3, "VP": 2, "@S": 2}


def encoded(texts: list[str]) -> tuple[GrammarLayout, TreeRows]:
    encoder = TreeEncoder()
    for text in texts:
        encoder.add(Binarisation().binarised(Tree.parse(text)))
    symbols, rows = encoder.learned(1, "signature")
    return GrammarLayout(symbols, np.array([SIZES.get(label, 1) for label in symbols.labels])), rows


def random_grammar(layout: GrammarLayout, seed: int, smooth: bool) -> Grammar:
    random = np.random.default_rng(seed)
    values = np.concatenate([random.dirichlet(np.ones(length)) for length in layout.lengths])
    return Grammar(layout, values, Backoff.witten_bell(layout) if smooth else Backoff.none(layout))


def test_parts_are_views_of_one_vector() -> None:
    layout, _ = encoded(TREES)
    grammar = random_grammar(layout, 0, smooth=False)
    symbols = layout.symbols
    labels = range(len(symbols.labels))
    parts = (
        [grammar.root(label) for label in labels],
        [grammar.binary(rule) for rule in range(len(symbols.rules))],
        [grammar.lexical(label) for label in labels],
    )
    assert all(np.shares_memory(part, grammar.values) for kind in parts for part in kind if part.size)
    assert np.array_equal(Grammar.of_parts(layout, *parts).values, grammar.values)
    assert np.isclose(sum(part.sum() for part in parts[0]), 1.0)
    for label in labels:
        rules = np.flatnonzero(symbols.rules[:, 0] == label)
        total = grammar.lexical(label).sum(axis=1) + sum(grammar.binary(r).sum(axis=(1, 2)) for r in rules)
        assert np.allclose(total, 1.0)
        for rule in rules:
            place = layout.rule_at[rule]
            assert grammar.values[place] == grammar.binary(rule)[0, 0, 0]
    for (label, _), place in zip(symbols.lexicon, layout.word_at, strict=True):
        own = np.flatnonzero(layout.word_at[symbols.lexicon[:, 0] == label] == place)
        assert grammar.values[place] == grammar.lexical(label)[0, own[0]]
    backoff = Backoff.witten_bell(layout)
    assert np.isclose(backoff.children.sum(), 1.0)
    assert np.isclose(backoff.words.sum(), 1.0)
    assert (backoff.kept > 0).all()


def test_what_is_no_grammar_is_refused() -> None:
    layout, _ = encoded(TREES)
    with pytest.raises(NetworkError, match="normalised"):
        Grammar(layout, np.ones(layout.size), Backoff.none(layout))
    with pytest.raises(NetworkError, match="parameters"):
        Grammar(layout, np.ones(3), Backoff.none(layout))
    with pytest.raises(DataError, match="no tree shows both children, or the word, of a node 'A'"):
        encoded(["(S (A ()) (B b))"])
