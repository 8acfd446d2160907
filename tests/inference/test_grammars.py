"""Latent-variable grammars: where parameters stand, and exact probabilities against enumeration."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from eigentree.data.treebanks.binarisation import Binarisation
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_encoder import TreeEncoder, encoded_blocks
from eigentree.data.treebanks.tree_rows import TreeRows
from eigentree.errors import DataError, NetworkError
from eigentree.inference.grammars.completion import Completion
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout
from eigentree.inference.grammars.tree_passes import decode, log_prob, node_posteriors
from eigentree.inference.grammars.tree_sampling import sampled_tree

TREES = [
    "(S (NP she) (VP (V sees) (NP (D the) (N stars))))",
    "(S (NP (D the) (N stars)) (VP sleep))",
    "(S (NP she) (VP (VP sees) (NP (NP he) (NP stars))))",
    "(S (S (NP he) (VP sleep)) (C and) (S (NP she) (VP sees)))",
    "(NP stars)",
]
SIZES = {"S": 2, "NP": 3, "VP": 2, "@S": 2, "V": 2}


def encoded(texts: list[str]) -> tuple[GrammarLayout, TreeRows]:
    encoder = TreeEncoder()
    for text in texts:
        encoder.add(Binarisation().binarised(Tree.parse(text)))
    symbols, (rows,) = encoder.learned(1, "signature")
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


def annotations(grammar: Grammar, tree: Tree) -> dict[str, float]:
    """Return the joint probability of a tree in normal form and each annotation of it, by plain recursion."""
    symbols, backoff = grammar.symbols, grammar.backoff
    at = grammar.layout.state_at

    def below(node: Tree) -> list[tuple[int, int, str, float]]:
        """Label, state, annotation and probability of the subtree given label and state."""
        found = []
        for label in [symbols.label_codes[node.label]] if node.label else range(len(symbols.labels)):
            if node.label is None and symbols.added[label]:
                continue
            for state in range(grammar.states[label]):
                name = f"{symbols.labels[label]}-{state}"
                kept = backoff.kept[label]
                if len(node.children) == 1:
                    own = symbols.lexicon[symbols.lexicon[:, 0] == label, 1].tolist()
                    (word,) = node.children
                    for code in [symbols.words.code(str(word))] if word else range(len(symbols.words.names)):
                        seen = grammar.lexical(label)[state, own.index(code)] if code in own else 0.0
                        unseen = backoff.word[label] * backoff.words[code]
                        found.append((label, state, f"({name} {code})", kept * seen + unseen))
                    continue
                left, right = (below(child) for child in node.children if isinstance(child, Tree))
                for b, i, first, p in left:
                    for c, j, second, q in right:
                        (rule,) = symbols.rule_of(*(np.array([each]) for each in (label, b, c)))
                        seen = grammar.binary(rule)[state, i, j] if rule >= 0 else 0.0
                        unseen = backoff.pair[label] * backoff.children[at[b] + i] * backoff.children[at[c] + j]
                        found.append((label, state, f"({name} {first} {second})", (kept * seen + unseen) * p * q))
        return found

    return {text: grammar.root(label)[state] * p for label, state, text, p in below(tree)}


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "(NP she)",
        "(S (NP she) (VP (V sees) (NP stars)))",
        "(S (NP ()) (VP sleep))",
        "(() (NP she) (VP sleep))",
        "(S (NP he) (() (V ()) (NP stars)))",
        "(S (VP sees) (NP and))",
    ],
)
def test_what_is_missing_is_marginalised_out_and_filled_as_by_enumeration(text: str, smooth: bool) -> None:
    layout, _ = encoded(TREES)
    grammar = random_grammar(layout, 1, smooth)
    tree = Tree.parse(text)
    (rows,) = encoded_blocks([tree], layout.symbols)
    every = annotations(grammar, tree)
    total = sum(every.values())
    with np.errstate(divide="ignore"):
        assert np.isclose(log_prob(grammar, rows)[0], np.log(total), rtol=1e-10)
        assert np.isclose(Completion(grammar).log_prob(rows), np.log(total), rtol=1e-10)
    if not total:
        return
    filled = Completion(grammar).filled(rows)
    best = max(every, key=every.__getitem__)
    states = decode(grammar, filled)
    annotated = annotated_text(filled, layout, states.tolist())
    assert annotated == best


def annotated_text(rows: TreeRows, layout: GrammarLayout, states: list[int]) -> str:
    built: list[str] = []
    for node, (label, left, state) in enumerate(zip(rows.labels, rows.left, states, strict=True)):
        name = f"{layout.symbols.labels[label]}-{state}"
        if left < 0:
            built.append(f"({name} {rows.words[node]})")
        else:
            right = built.pop()
            built.append(f"({name} {built.pop()} {right})")
    return built[0]


def test_posteriors_are_those_of_enumeration() -> None:
    layout, _ = encoded(TREES)
    grammar = random_grammar(layout, 2, smooth=True)
    tree = Tree.parse("(S (NP she) (VP (V sees) (NP stars)))")
    (rows,) = encoded_blocks([tree], layout.symbols)
    found = node_posteriors(grammar, rows)
    every = annotations(grammar, tree)
    total = sum(every.values())
    # Annotations name nodes from the root down, rows have children first.
    for node, label in enumerate(rows.labels):
        name = layout.symbols.labels[label]
        place = [layout.symbols.labels[each] for each in rows.labels[node + 1 :]].count(name)
        for state in range(layout.states[label]):
            marginal = 0.0
            for text, p in every.items():
                shown = re.findall(rf"\({name}-(\d)", text)
                marginal += p * (int(shown[-1 - place]) == state)
            assert np.isclose(found.states[found.node_at[node] + state], marginal / total)


@pytest.mark.parametrize("smooth", [False, True])
def test_all_trees_together_have_probability_one(smooth: bool) -> None:
    """The trees of depth d or less, by recursion over labels and states, and by sampling."""
    layout, _ = encoded(TREES)
    grammar = random_grammar(layout, 3, smooth)
    symbols, backoff, at = layout.symbols, grammar.backoff, layout.state_at
    labels = range(len(symbols.labels))
    within = np.zeros(at[-1])
    shallow = []
    for _ in range(3):
        after = np.zeros(at[-1])
        for label in labels:
            own = slice(at[label], at[label + 1])
            total = grammar.lexical(label).sum(axis=1)
            for rule in np.flatnonzero(symbols.rules[:, 0] == label):
                _, b, c = symbols.rules[rule]
                sides = within[at[b] : at[b + 1]], within[at[c] : at[c + 1]]
                total = total + np.einsum("hij,i,j->h", grammar.binary(rule), *sides)
            unseen = backoff.word[label] + backoff.pair[label] * (backoff.children @ within) ** 2
            after[own] = backoff.kept[label] * total + unseen
        within = after
        shallow.append(float(layout.root(grammar.values) @ within))
    # Enumerate the trees of depth 1 and 2 that have no unseen labels: all shapes with all labels and words.
    words = layout.symbols.words.names
    leaves = [Tree(label, (word,)) for label in symbols.labels for word in words]
    assert np.isclose(probability(grammar, leaves), shallow[0])
    missing = [
        Tree(label, (Tree(b, (None,)), Tree(c, (None,)))) for label, b, c in product(symbols.labels, repeat=3)
    ]
    assert np.isclose(probability(grammar, [*leaves, *missing]), shallow[1])
    random = np.random.default_rng(0)
    depths = [sampled_depth(grammar, random) for _ in range(2_000)]
    for depth, expected in enumerate(shallow, 1):
        assert abs(np.mean([each <= depth for each in depths]) - expected) < 4 * np.sqrt(0.25 / 2_000)


def probability(grammar: Grammar, trees: list[Tree]) -> float:
    return sum(float(np.exp(log_prob(grammar, rows)).sum()) for rows in encoded_blocks(trees, grammar.symbols))


def sampled_depth(grammar: Grammar, random: np.random.Generator) -> int:
    try:
        text = str(sampled_tree(grammar, random, 200))
    except DataError:
        return 99
    depths = np.cumsum([{"(": 1, ")": -1}.get(letter, 0) for letter in text])
    return int(depths.max())


def test_the_expansion_of_a_preterminal_is_its_word_given_all_else() -> None:
    layout, _ = encoded(TREES)
    grammar = random_grammar(layout, 4, smooth=False)
    # V is above words only, so that all else is the tree without its word.
    whole, without = (Tree.parse(f"(S (NP she) (VP (V {word}) (NP stars)))") for word in ("sees", "()"))
    rows, other = (next(iter(encoded_blocks([tree], layout.symbols))) for tree in (whole, without))
    expected = log_prob(grammar, rows)[0] - log_prob(grammar, other)[0]
    assert np.isclose(node_posteriors(grammar, rows).expansion[1], expected)
    assert node_posteriors(grammar, other).expansion[1] == 0.0
