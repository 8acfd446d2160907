"""Commands about trees: their results are those of the library."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import answer, call

import eigentree as et

TREES = ["(S (NP she) (VP (V sees) (NP stars)))", "(S (NP stars) (VP (V see) (NP her)))"] * 9


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("trees.mrg").write_text("\n".join(TREES))
    return tmp_path


@pytest.fixture
def model(here: Path) -> et.LatentGrammar:
    answer("eigentree grammar fit trees.mrg --hidden 2 --seed 3 -o grammar.eigentree")
    return et.load("grammar.eigentree")


def test_a_grammar_is_that_of_the_library(model: et.LatentGrammar) -> None:
    own = et.LatentGrammar(2, random_state=3).fit(TREES)
    assert np.array_equal(own.grammar_.values, model.grammar_.values)
    facts = json.loads(answer("eigentree grammar fit trees.mrg --hidden 1 -o plain.eigentree --json"))
    assert (facts["labels"], facts["hidden_states"]) == (4, 4)


def test_a_spectral_grammar_is_that_of_the_library(here: Path) -> None:
    answer("eigentree grammar fit trees.mrg --hidden 2 --method spectral -o spectral.eigentree")
    own = et.SpectralLatentGrammar(2).fit(TREES)
    out = answer("eigentree grammar parse spectral.eigentree -", b"she sees her")
    assert out.splitlines() == [str(tree) for tree in own.parse(["she sees her"])]


def test_scores_are_those_of_the_library(model: et.LatentGrammar) -> None:
    lines = list(csv.DictReader(io.StringIO(answer("eigentree grammar score grammar.eigentree trees.mrg"))))
    assert [int(line["tree"]) for line in lines] == list(range(len(TREES)))
    assert np.allclose([float(line["log_probability"]) for line in lines], model.score_samples(TREES))


def test_parses_are_those_of_the_library(model: et.LatentGrammar) -> None:
    sentences = ["she sees her", "stars see stars"]
    out = answer("eigentree grammar parse grammar.eigentree -", "\n\n".join(sentences).encode())
    assert out.splitlines() == [str(tree) for tree in model.parse(sentences)]
    code, out, errors = call("eigentree grammar parse grammar.eigentree trees.mrg --gold -o parsed.mrg")
    assert (code, out) == (0, "")
    assert "labelled F1 1.0000 (precision 1.0000, recall 1.0000), exact match 1.0000 of 18 trees" in errors
    assert list(et.read_trees("parsed.mrg")) == model.parse(et.read_trees("trees.mrg"))


def test_samples_are_those_of_the_library(model: et.LatentGrammar) -> None:
    out = answer("eigentree grammar sample grammar.eigentree -n 3 --seed 1")
    assert out.splitlines() == [str(tree) for tree in model.sample(3, random_state=1)]


def test_errors_are_sentences(model: et.LatentGrammar) -> None:
    for line, sentence in (
        ("fit none.mrg -o g.eigentree", "there is no file 'none.mrg'"),
        ("score grammar.eigentree -", "line 1: 'a' stands outside the brackets of a tree"),
        ("parse trees.mrg -", "'trees.mrg'"),
        ("parse grammar.eigentree - -o no/parsed.mrg", "no folder 'no'"),
    ):
        code, out, errors = call(f"eigentree grammar {line}", b"a b")
        assert (code, out) == (1, "")
        assert sentence in errors
    assert call("eigentree grammar")[0] == 2
