"""Spectral learning of latent-variable grammars: exact moments, normalised scores, additive counts, samples."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.counting.tree_windows import TreeWindows, held_trees
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_encoder import encoded_blocks
from eigentree.data.treebanks.tree_rows import ANY_WORD, GrammarSymbols, TreeRows
from eigentree.data.treebanks.word_classes import WordClasses
from eigentree.errors import DataError, NetworkError
from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout
from eigentree.inference.grammars.tree_passes import log_prob
from eigentree.inference.grammars.tree_sampling import sampled_tree
from eigentree.spectral.grammars.exact_moments import ExactMoments
from eigentree.spectral.grammars.grammar_learning import SpectralGrammarFit, learn_grammar
from eigentree.spectral.grammars.grammar_model import SpectralGrammar, choose_grammar, spectral_parser
from eigentree.spectral.grammars.grammar_moments import CountedMoments
from eigentree.spectral.grammars.grammar_report import GrammarReport

Rule = tuple[str, str, str]

ENDLESS: tuple[Rule, ...] = (("A", "A", "B"), ("A", "B", "B"), ("B", "A", "B"), ("S", "A", "B"), ("S", "B", "A"))
FINITE: tuple[Rule, ...] = (("A", "B", "B"), ("S", "A", "A"), ("S", "A", "B"), ("S", "B", "B"))


def random_grammar(
    rules: tuple[Rule, ...], states: dict[str, int], seed: int, words: int = 3, inner: float = 0.3
) -> Grammar:
    """Return a grammar of the labels A and B, above words too, and of the root S."""
    random = np.random.default_rng(seed)
    labels = tuple(sorted(states))
    codes = np.array(sorted([labels.index(label) for label in rule] for rule in rules))
    lexicon = np.array([(label, word) for label in range(2) for word in range(words)])
    names = WordClasses(tuple("uvwxyz"[: words - 1]), ("<unknown>",))
    ones = np.ones(len(codes), np.int64), np.ones(len(lexicon), np.int64)
    symbols = GrammarSymbols(labels, names, codes, lexicon, *ones)
    sizes = [states[label] for label in labels]
    layout = GrammarLayout(symbols, np.array(sizes))
    shares = np.where(np.arange(3) == 2, 1.0, inner) / np.maximum(np.bincount(codes[:, 0], minlength=3), 1)
    binary = [
        random.dirichlet(np.full(sizes[b] * sizes[c], 0.4), sizes[a]).reshape(sizes[a], sizes[b], -1) * shares[a]
        for a, b, c in codes.tolist()
    ]
    left = 1.0 - np.bincount(codes[:, 0], shares[codes[:, 0]], 3)
    lexical = [random.dirichlet(np.full(words, 0.4), sizes[a]) * left[a] for a in range(2)]
    root = [np.zeros(sizes[0]), np.zeros(sizes[1]), random.dirichlet(np.ones(sizes[2]))]
    return Grammar.of_parts(layout, root, binary, [*lexical, np.zeros((sizes[2], 0))])


def encoded(trees: list[Tree], symbols: GrammarSymbols) -> TreeRows:
    return TreeRows.joined(list(encoded_blocks(iter(trees), symbols, False)))


def sampled(grammar: Grammar, count: int, seed: int) -> list[Tree]:
    random = np.random.default_rng(seed)
    return [sampled_tree(grammar, random, 10_000) for _ in range(count)]


def all_trees(grammar: Grammar, label: int) -> list[Tree]:
    """Return all trees of a grammar that has finitely many."""
    symbols = grammar.symbols
    own = symbols.lexicon[symbols.lexicon[:, 0] == label, 1].tolist()
    found = [Tree(symbols.labels[label], (symbols.words.names[word],)) for word in own]
    for _, b, c in symbols.rules[symbols.rules[:, 0] == label].tolist():
        found += [
            Tree(symbols.labels[label], pair) for pair in product(all_trees(grammar, b), all_trees(grammar, c))
        ]
    return found


def counted(rows: TreeRows, symbols: GrammarSymbols, shrinkage: float, states: int = 3) -> SpectralGrammar:
    return SpectralGrammar.of(learned(rows, symbols, states), shrinkage, without_backoff(symbols))


def learned(rows: TreeRows, symbols: GrammarSymbols, states: int = 3) -> SpectralGrammarFit:
    return learn_grammar(CountedMoments(TreeWindows.of([rows], symbols)), states)


def without_backoff(symbols: GrammarSymbols) -> Backoff:
    return Backoff.none(GrammarLayout(symbols, np.ones(len(symbols.labels), np.int64)))


def exact(grammar: Grammar, states: int = 3) -> SpectralGrammar:
    return SpectralGrammar.of(learn_grammar(ExactMoments(grammar), states), 0.0, without_backoff(grammar.symbols))


@pytest.mark.parametrize("seed", range(4))
def test_exact_moments_give_exact_probabilities_of_trees(seed: int) -> None:
    grammar = random_grammar(ENDLESS, {"A": 3, "B": 2, "S": 2}, seed)
    rows = encoded(sampled(grammar, 200, seed), grammar.symbols)
    model = exact(grammar)
    assert_allclose(model.score(rows), log_prob(grammar, rows), rtol=1e-8)
    assert model.scored(rows).clipped.max() < 1e-9
    assert model.operators.ranks.tolist() == [3, 2, 1]
    assert exact(grammar, 1).operators.ranks.tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(2))
def test_exact_moments_give_exact_charts_of_sentences(seed: int) -> None:
    grammar = random_grammar(ENDLESS, {"A": 3, "B": 2, "S": 2}, seed)
    for tree in sampled(grammar, 20, seed):
        for pruning in (0.0, 1e-3):
            truth = ChartParser.of(grammar, pruning).parse(tree.words)
            found = spectral_parser(exact(grammar), pruning).parse(tree.words)
            assert_allclose(found.log_prob, truth.log_prob, rtol=1e-8)
            assert_allclose(found.expected_correct, truth.expected_correct, rtol=1e-6)


def test_exact_moments_are_those_of_endless_trees() -> None:
    grammar = random_grammar(ENDLESS, {"A": 3, "B": 2, "S": 1}, 0)
    rows = encoded(sampled(grammar, 5000, 0), grammar.symbols)
    truth, data = ExactMoments(grammar), CountedMoments(TreeWindows.of([rows], grammar.symbols))
    for name in ("nodes", "rules", "lexicon", "roots"):
        assert_allclose(getattr(data, name) / rows.count, getattr(truth, name), rtol=0.15)
    for label in range(2):
        found, wanted = data.pair(label).counted, truth.pair(label).counted
        assert_allclose(np.linalg.svd(found.toarray())[1][:4], np.linalg.svd(wanted.toarray())[1][:4], atol=0.02)


def test_grammars_whose_trees_do_not_end_have_no_moments() -> None:
    grammar = random_grammar(ENDLESS, {"A": 1, "B": 1, "S": 1}, 0, inner=0.9)
    with pytest.raises(NetworkError, match="finite mean size"):
        learn_grammar(ExactMoments(grammar), 2)


def test_a_right_branching_tree_is_a_hidden_markov_model() -> None:
    random = np.random.default_rng(0)
    start, moves, shown = (
        random.dirichlet(np.ones(3)),
        random.dirichlet(np.ones(3), 3),
        random.dirichlet(np.ones(4), 3),
    )
    words = WordClasses(("a", "b", "c"), ("<unknown>",))
    lexicon = np.array([(label, word) for label in range(2) for word in range(4)])
    ones = np.ones(1, np.int64), np.ones(8, np.int64)
    symbols = GrammarSymbols(("A", "W"), words, np.array([(0, 1, 0)]), lexicon, *ones)
    rule = 0.8 * np.eye(3)[:, :, None] * np.array(moves)[:, None]
    layout = GrammarLayout(symbols, np.array([3, 3]))
    grammar = Grammar.of_parts(layout, [start, np.zeros(3)], [rule], [0.2 * shown, shown])
    model = exact(grammar)
    for codes in product(range(4), repeat=4):
        *first, tree = [Tree("W" if k < 3 else "A", (words.names[code],)) for k, code in enumerate(codes)]
        for word in reversed(first):
            tree = Tree("A", (word, tree))
        message = start
        for code in codes[:-1]:
            message = (message * shown[:, code]) @ moves
        wanted = np.log(message @ shown[:, codes[-1]] * 0.8**3 * 0.2)
        assert_allclose(model.score(encoded([tree], symbols)), wanted, rtol=1e-8)


@pytest.mark.parametrize("backoff", [False, True])
def test_scores_are_of_one_distribution_however_noisy(backoff: bool) -> None:
    grammar = random_grammar(FINITE, {"A": 2, "B": 2, "S": 1}, 1)
    symbols = grammar.symbols
    fit = learned(encoded(sampled(grammar, 40, 0), symbols), symbols)
    model = SpectralGrammar.of(fit, 0.0, without_backoff(symbols))
    trees = all_trees(grammar, 2)
    rows = encoded(trees, symbols)
    assert model.scored(rows).clipped.max() > 0.01
    for label in range(3):
        outside = np.random.default_rng(0).normal(size=(50, 3))
        assert_allclose(model.expansions(label, outside)[0].sum(axis=1), 1.0)
    assert_allclose(np.exp(model.score(rows)).sum(), 1.0)
    if backoff:
        layout = GrammarLayout(symbols, np.ones(3, np.int64))
        smooth = SpectralGrammar.of(fit, 0.4, Backoff.witten_bell(layout))
        # Other trees have a part of the probability.
        assert 0.1 < np.exp(smooth.score(rows)).sum() < 1.0
        assert np.isfinite(smooth.score(encoded([Tree.parse("(S (A (A u) (A v)) (B u))")], symbols)))


def test_samples_are_of_the_distribution_that_is_scored() -> None:
    grammar = random_grammar(FINITE, {"A": 2, "B": 2, "S": 1}, 1, words=2)
    symbols = grammar.symbols
    model = counted(encoded(sampled(grammar, 40, 0), symbols), symbols, 0.0)
    random = np.random.default_rng(0)
    found = Counter(str(model.sampled(random, 100)) for _ in range(2000))
    trees = all_trees(grammar, 2)
    wanted = 2000 * np.exp(model.score(encoded(trees, symbols)))
    counts = np.array([found[str(tree)] for tree in trees])
    assert counts.sum() == 2000
    assert (np.abs(counts - wanted) <= 5 * np.sqrt(wanted) + 1).all()
    with pytest.raises(DataError, match="max_nodes"):
        model.sampled(random, 1)


def test_a_missing_word_is_marginalised_out_and_has_its_posterior() -> None:
    grammar = random_grammar(ENDLESS, {"A": 3, "B": 2, "S": 2}, 5)
    symbols, model = grammar.symbols, exact(random_grammar(ENDLESS, {"A": 3, "B": 2, "S": 2}, 5))
    text = "(S (A (B {}) (B u)) (B (A v) (B v)))"
    names = symbols.words.names
    whole = encoded([Tree.parse(text.format(name)) for name in names], symbols)
    gap = encoded([Tree.parse(text.format("()"))], symbols)
    scores = model.score(whole)
    assert_allclose(model.score(gap), np.log(np.exp(scores).sum()), rtol=1e-8)
    nodes, found = model.words(gap)
    assert (gap.words[nodes] == ANY_WORD).all()
    assert_allclose(found, np.exp(scores - np.log(np.exp(scores).sum()))[None], rtol=1e-7)


def test_neither_order_nor_split_of_trees_changes_a_bit() -> None:
    grammar = random_grammar(ENDLESS, {"A": 3, "B": 2, "S": 1}, 2)
    symbols, trees = grammar.symbols, sampled(grammar, 300, 2)
    layout = GrammarLayout(symbols, np.ones(3, np.int64))

    def chosen(*parts: list[Tree]) -> tuple[SpectralGrammar, GrammarReport]:
        blocks = [encoded(part, symbols) for part in parts]
        return choose_grammar(blocks, symbols, 3, None, Backoff.witten_bell(layout))

    plain, report = chosen(trees)
    rows = encoded(trees, symbols)
    for parts in ([trees[::-1]], [trees[:50], trees[50:]]):
        other, again = chosen(*parts)
        assert again.tried == report.tried
        assert_array_equal(other.score(rows), plain.score(rows))
    windows = [TreeWindows.of([encoded(part, symbols)], symbols) for part in (trees, trees[:50], trees[50:])]
    assert_array_equal((windows[1] + windows[2]).codes, windows[0].codes)
    assert_array_equal((windows[0] - windows[1]).counts, windows[2].counts)
    with pytest.raises(DataError, match="never added"):
        windows[1] - windows[0]
    held = [held_trees(blocks, 300, 0.2) for blocks in ([rows], [encoded(trees[::-1], symbols)])]
    assert 0 < held[0].count < 120
    assert_array_equal(held[0].words, held[1].words)


def test_shrinkage_goes_from_the_moments_to_the_plain_grammar() -> None:
    grammar = random_grammar(ENDLESS, {"A": 3, "B": 2, "S": 1}, 3)
    symbols = grammar.symbols
    rows = encoded(sampled(grammar, 400, 3), symbols)
    windows = TreeWindows.of([rows], symbols)
    plain = counted(rows, symbols, 0.4, states=1)
    assert_allclose(counted(rows, symbols, np.inf).score(rows), plain.score(rows), rtol=1e-12)
    shares = windows.expansions / windows.nodes[np.concatenate([symbols.rules[:, 0], symbols.lexicon[:, 0]])]
    wanted = np.log(shares[: len(symbols.rules)])[rows.rule[rows.left >= 0]].sum()
    wanted += np.log(shares[len(symbols.rules) :])[rows.rule[rows.left < 0]].sum()
    assert_allclose(plain.score(rows).sum(), wanted, rtol=1e-12)


def test_errors_fall_with_the_root_of_the_number_of_trees() -> None:
    grammar = random_grammar(FINITE, {"A": 2, "B": 2, "S": 1}, 4)
    rows = encoded(all_trees(grammar, 2), grammar.symbols)
    truth = np.exp(log_prob(grammar, rows))
    errors = []
    for count in (500, 8000):
        own = encoded(sampled(grammar, count, 0), grammar.symbols)
        errors.append(np.abs(np.exp(counted(own, grammar.symbols, 0.0, 2).score(rows)) - truth).sum() / 2)
    assert errors[1] < 0.1
    assert 2 < errors[0] / errors[1] < 8


def test_the_report_names_labels_and_what_they_lack() -> None:
    grammar = random_grammar(FINITE, {"A": 2, "B": 2, "S": 1}, 4)
    rows = encoded(sampled(grammar, 100, 0), grammar.symbols)
    report = GrammarReport.of(learned(rows, grammar.symbols), 0.0, {})
    assert [each.label for each in report.spectra] == ["A", "B", "S"]
    assert report.trees == 100
    assert report.nodes == len(rows.labels)
    assert "label" in report.warnings[0]
    assert "learned from" in str(report)
    assert not GrammarReport.of(learned(rows, grammar.symbols), 0.4, {}).warnings
