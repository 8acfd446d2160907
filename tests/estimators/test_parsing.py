"""Parsing by estimators: what users bring, what they are told, and that threads change nothing."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import pytest

import eigentree as et

TREES = [
    "(S (NP she) (VP (V sees) (NP (D the) (N stars) (PP (P of) (NP night)))))",
    "(S (NP stars) (VP (V see) (NP her)))",
    "(S (S (NP she) (VP sleeps)) (C and) (S (NP stars) (VP (V see) (NP her))))",
] * 6


def fitted(**options: object) -> et.LatentGrammar:
    return et.LatentGrammar(2, random_state=0, validation_fraction=0, max_iter=20, **options).fit(TREES)


def test_parses_are_trees_as_the_training_data_have_them() -> None:
    model = fitted()
    parsed = model.parse([et.Tree.parse(text) for text in TREES[:3]])
    assert [str(tree) for tree in parsed] == TREES[:3]
    assert et.labelled_f1(TREES[:3], parsed).f1 == 1.0


@pytest.mark.parametrize("pruning", [0.0, 1e-3])
def test_threads_change_nothing(pruning: float) -> None:
    sentences = ["she sees the stars of night", "stars see her", "she sleeps and stars see her"] * 5
    one, four = fitted(), fitted(n_jobs=4)
    assert one.parse(sentences, pruning) == four.parse(sentences, pruning)
    assert np.array_equal(one.score_sentences(sentences), four.score_sentences(sentences))


def test_a_sentence_is_as_probable_as_all_of_its_trees() -> None:
    """Without rules that were not seen, only one tree has these words; with a word missing, several."""
    model = fitted(unseen="impossible")
    tree = "(S (NP stars) (VP (V see) (NP her)))"
    assert np.allclose(model.score_sentences(["stars see her"]), model.score_samples([tree]), rtol=0, atol=1e-10)
    missing = model.score_sentences([["stars", "see", None]])
    each = [model.score_sentences([["stars", "see", word]])[0] for word in model.grammar_.symbols.words.names]
    assert np.allclose(missing, np.logaddexp.reduce(each), rtol=0, atol=1e-10)


def test_sentences_without_a_tree_are_flat_and_warned_of() -> None:
    model = fitted(unseen="impossible")
    with pytest.warns(RuntimeWarning, match="1 of 2 sentences have no tree .* number 1, 'see see see'"):
        good, flat = model.parse(["stars see her", "see see see"])
    assert str(good) == "(S (NP stars) (VP (V see) (NP her)))"
    assert str(flat) == "(S see see see)"
    assert model.score_sentences(["see see see"]) == -np.inf
    (parsed,) = fitted().parse(["see see see"])
    assert parsed.words == ("see", "see", "see")


def test_trees_in_normal_form_stay_so() -> None:
    trees = ["(S (A x) (B y))", "(S (A x) (S (A x) (B y)))"] * 5
    model = et.LatentGrammar(1, binarisation=None, random_state=0, validation_fraction=0).fit(trees)
    assert [str(tree) for tree in model.parse(["x x x y"])] == ["(S (A x) (S (A x) (S (A x) (B y))))"]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("she sees stars", "sentences are a list of strings"),
        (["she", ""], "sentence 1 has no words; leave it out"),
        ([["she", 3]], "sentence 0: a word is a string that is not empty, or None where it is missing, not 3"),
        ([5], "sentence 0 is a string, a list of words or a tree, not 5"),
        (7, "sentences are a list of strings"),
        ([repeat("she")], "sentence 0 has more than 32,767 words; split it"),
        (np.array(3), "sentences are a list of strings"),
        ([np.array(3)], "sentence 0 is a string, a list of words or a tree"),
    ],
)
def test_what_is_no_sentence_is_named(sentences: object, message: str) -> None:
    model = fitted()
    with pytest.raises(et.DataError, match=message):
        model.parse(sentences)
    with pytest.raises(et.ParameterError, match="pruning is a finite number from 0 to 1, not 2"):
        model.parse(["she sees stars"], pruning=2)


def test_a_stream_without_end_comes_in_parts() -> None:
    with pytest.raises(et.DataError, match="more than 1,048,576 sentences; give them in parts"):
        fitted().parse(repeat("stars see her"))


def test_a_chart_beyond_memory_is_refused() -> None:
    with pytest.raises(et.DataError, match="the chart of a sentence of 9000 words would be"):
        fitted().parse([["stars"] * 9000])


def test_learned_operators_parse_too() -> None:
    model = et.SpectralLatentGrammar(2).fit(TREES)
    trees = [et.Tree.parse(text) for text in TREES[:3]]
    assert model.parse(trees) == trees
    (parsed,) = model.parse(["see the"])
    assert parsed.words == ("see", "the")
