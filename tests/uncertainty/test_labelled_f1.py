"""Labelled F1: hand-computed examples, and laws."""

from __future__ import annotations

import math

import pytest

from eigentree.data.treebanks.tree import Tree
from eigentree.errors import DataError, ParameterError
from eigentree.uncertainty.labelled_f1 import labelled_f1

GOLD = "(TOP (S (NP (D the) (N cat)) (VP (V saw) (NP (NP (D a) (N dog)) (PP (P in) (NP (N town))))) (. .)))"
PARSED = "(TOP (S (NP (D the) (N cat)) (VP (VP (V saw) (NP (D a) (N dog))) (PP (P in) (NP (N town)))) (. .)))"


def test_a_tree_agrees_with_itself() -> None:
    found = labelled_f1([GOLD, PARSED], [Tree.parse(GOLD), Tree.parse(PARSED)])
    assert found.precision == found.recall == found.f1 == found.exact_match == 1.0
    assert found.labels == ("NP", "PP", "S", "VP")


def test_an_attachment_that_is_wrong() -> None:
    """Counted by hand: of 7 gold constituents NP 3-8 is not found; of 7 parsed ones VP 2-5 is wrong."""
    found = labelled_f1([GOLD], [PARSED])
    assert found.gold.sum() == found.parsed.sum() == 7
    assert found.f1 == found.precision == found.recall == 6 / 7
    assert found.exact_match == 0
    other = labelled_f1([PARSED], [GOLD])
    assert other.f1 == found.f1
    assert labelled_f1([GOLD], [PARSED], ignore=()).f1 == 7 / 8


def test_words_of_labels_that_are_ignored_stand_nowhere() -> None:
    gold, parsed = "(S (NP (N she) (N he)) (, ,) (V is))", "(S (NP (N she) (N he) (, ,)) (V is))"
    assert labelled_f1([gold], [parsed]).matched.sum() == 1
    assert labelled_f1([gold], [parsed], ignore=[","]).f1 == 1.0
    # Nothing is left of a constituent of such words alone.
    assert labelled_f1(["(S (N she) (X (, ,) (, ,)))"], ["(S (N she) (, ,) (, ,))"], ignore=[","]).f1 == 1.0


def test_a_label_counts_as_often_as_a_span_has_it() -> None:
    found = labelled_f1(["(S (NP (NP (D a) (N b))))"], ["(S (NP (D a) (N b)))"])
    assert (found.gold.tolist(), found.parsed.tolist(), found.matched.tolist()) == ([2, 1], [1, 1], [1, 1])


def test_table() -> None:
    table = labelled_f1([GOLD], [PARSED])
    assert "exact match: 0.0000 of 1 trees" in repr(table)
    assert table.to_frame().set_index("label").loc["NP", "recall"] == 0.75
    assert table.to_markdown(2).splitlines()[2] == "| all | 7 | 7 | 6 | 0.86 | 0.86 | 0.86 |"
    assert math.isnan(labelled_f1([], []).f1)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(DataError, match="tree 1: the treebank has the words 'a b', and the parsed tree 'a c'"):
        labelled_f1(["(S a b)", "(S a b)"], ["(S a b)", "(S a c)"])
    with pytest.raises(DataError, match="1 trees of the treebank and 0 parsed ones"):
        labelled_f1(["(S a b)"], [])
    for ignore in ("TOP", 3, [None]):
        with pytest.raises(ParameterError, match="ignore is a list of labels"):
            labelled_f1(["(S a b)"], ["(S a b)"], ignore=ignore)
