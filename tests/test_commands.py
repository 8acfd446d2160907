"""Arguments of commands: what passes becomes a number, what does not is one sentence."""

from __future__ import annotations

import argparse

import pytest

from eigentree.commands.arguments import count, one_of, positive


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("12", 12), ("1_000", 1000), ("31,623", 31_623)])
def test_counts_are_whole_numbers_from_one_on(text: str, number: int) -> None:
    assert count(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "ten", ""])
def test_what_is_no_count_is_named(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number of at least 1"):
        count(text)


def test_positive_numbers_are_finite_and_above_zero() -> None:
    assert positive("0.3") == 0.3
    for text in ("0", "-1", "inf", "nan", "some"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number above 0"):
            positive(text)


def test_names_are_known_ones() -> None:
    known = one_of("structure", ("hmm2", "hmm3"))
    assert known("hmm3") == "hmm3"
    with pytest.raises(argparse.ArgumentTypeError, match="there is no structure 'hmm33'; did you mean 'hmm3'"):
        known("hmm33")
    with pytest.raises(argparse.ArgumentTypeError, match="there is no structure 'tree'; there are hmm2, hmm3"):
        known("tree")
