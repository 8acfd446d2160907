"""`SpectralLatentGrammar`: what no label shows, exact moments of a learned grammar, files, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et

WORDS = {"N": (("dog", "cat", "rat"), ("dogs", "cats", "rats")), "V": (("runs", "sleeps"), ("run", "sleep"))}


def sentences(count: int, seed: int) -> list[tuple[Any, ...]]:
    """Return trees whose subject and verb agree in number, which no label shows."""
    random = np.random.default_rng(seed)
    trees = []
    for number in random.integers(2, size=count):
        noun, verb = (str(random.choice(WORDS[label][number])) for label in "NV")
        trees.append(("S", ("NP", ("D", "the"), ("N", noun)), ("VP", ("V", verb), ("A", "now"))))
    return trees


TREES = sentences(400, 0)


@pytest.fixture(scope="module")
def model() -> et.SpectralLatentGrammar:
    return et.SpectralLatentGrammar(2).fit(TREES)


def test_what_no_label_shows_is_learned(model: et.SpectralLatentGrammar) -> None:
    plain = et.SpectralLatentGrammar(1).fit(TREES)
    test = sentences(200, 1)
    # Number is one bit, of which the plain grammar knows nothing.
    assert model.score(test) - plain.score(test) > 0.9 * np.log(2.0)
    counted = et.LatentGrammar(1, validation_fraction=0.0, random_state=0).fit(TREES)
    assert_allclose(plain.score_samples(test), counted.score_samples(test), atol=0.01)
    gap = ("S", ("NP", ("D", "the"), ("N", None)), ("VP", ("V", "run"), ("A", "now")))
    (filled,) = model.impute([gap])
    assert filled.words[1] in WORDS["N"][1]
    every = [("S", ("NP", ("D", "the"), ("N", noun)), gap[2]) for noun in sum(WORDS["N"], ())]
    assert_allclose(model.score([gap]), np.log(np.exp(model.score_samples(every)).sum()), atol=0.02)
    wrong = ("S", ("NP", ("D", "the"), ("N", "dogs")), ("VP", ("V", "runs"), ("A", "now")))
    assert {each.tree for each in model.anomalies([*test[:50], wrong], 2)} == {50}
    likely = model.score_samples(model.sample(300, random_state=0)) > model.score_samples([wrong])
    assert likely.mean() > 0.9


def test_exact_moments_of_a_learned_grammar_give_its_probabilities() -> None:
    learned = et.LatentGrammar(2, init="random", unseen="impossible", validation_fraction=0.0, random_state=0)
    grammar = learned.fit(TREES).grammar_
    exact = et.SpectralLatentGrammar(2).fit_moments(grammar)
    test = sentences(50, 1)
    assert_allclose(exact.score_samples(test), learned.score_samples(test), rtol=1e-8)
    assert exact.shrinkage_ == 0


def test_order_and_blocks_change_nothing(model: et.SpectralLatentGrammar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentree.data.treebanks.tree_encoder.BLOCK_NODES", 100)
    other = et.SpectralLatentGrammar(2).fit(str(et.Tree.of(tree)) for tree in reversed(TREES))
    assert other.shrinkage_ == model.shrinkage_
    assert_array_equal(other.score_samples(TREES), model.score_samples(TREES))


def test_files_give_the_model_back(model: et.SpectralLatentGrammar, tmp_path: Path) -> None:
    model.save(tmp_path / "m.eigentree")
    again = et.load(tmp_path / "m.eigentree")
    assert_array_equal(again.score_samples(TREES), model.score_samples(TREES))
    assert str(again.report_) == str(model.report_)
    assert again.report_.tried == model.report_.tried
    assert again.sample(3, random_state=0) == model.sample(3, random_state=0)


def test_what_is_wrong_is_named(model: et.SpectralLatentGrammar) -> None:
    with pytest.raises(et.DataError, match="no tree"):
        et.SpectralLatentGrammar().fit([])
    with pytest.raises(et.DataError, match="grammar_ of a LatentGrammar"):
        et.SpectralLatentGrammar().fit_moments(TREES)  # type: ignore[arg-type]
    with pytest.raises(et.ParameterError, match="shrinkage"):
        et.SpectralLatentGrammar(shrinkage=-1).fit(TREES)
    unlabelled = [TREES[0], (None, *TREES[0][1:])]
    with pytest.raises(et.DataError, match="tree 1 has a node without a label"):
        et.SpectralLatentGrammar().fit(unlabelled)
    with pytest.raises(et.DataError, match="LatentGrammar marginalises"):
        model.score_samples(unlabelled)
    with pytest.raises(et.DataError, match="LatentGrammar marginalises"):
        model.impute(unlabelled)
    assert et.SpectralLatentGrammar(shrinkage=np.inf).fit(TREES[:1]).shrinkage_ == np.inf
    assert np.isfinite(et.SpectralLatentGrammar().fit(TREES[:1]).score(TREES))
