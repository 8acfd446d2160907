"""The splice data: what the package holds is what UCI published, and damage is found out."""

from __future__ import annotations

import lzma
import os
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import eigentree as et
from eigentree.datasets import CLASS_NAMES, LETTERS, load_splice, splice

SHARED = Path(__file__).parents[2] / "shared" / "data"


def packed() -> bytes:
    return files("eigentree.datasets").joinpath(splice.FILE).read_bytes()


@pytest.mark.shared_data
def test_the_package_holds_the_published_sequences() -> None:
    original = SHARED / "splice.data"
    if not original.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{original} is absent, and CI must not skip this test")
        pytest.skip(f"{original} is absent, so the packed splice data go unchecked against the original")
    published = Counter()
    for line in original.read_text().splitlines():
        label, _, sequence = (cell.strip() for cell in line.split(","))
        published[label, sequence] += 1
    assert Counter(zip(*splice.parsed(packed()), strict=True)) == published


def test_codes_stand_for_the_letters_and_ambiguous_ones_are_missing() -> None:
    data = load_splice()
    labels, sequences = splice.parsed(packed())
    letters = np.array([list(sequence) for sequence in sequences])
    assert data.codes.shape == letters.shape == (3190, 60)
    assert [data.class_names[label] for label in data.classes] == labels
    for code, letter in enumerate(LETTERS):
        assert ((data.codes == code) == (letters == letter)).all()
    assert set(letters[data.codes == -1]) == set(splice.AMBIGUOUS)
    assert Counter(labels) == {"EI": 767, "IE": 768, "N": 1655}
    assert data.class_names == CLASS_NAMES


def test_dropping_leaves_exactly_the_rows_without_ambiguous_letters() -> None:
    kept, whole = load_splice(ambiguous="drop"), load_splice()
    clear = (whole.codes >= 0).all(axis=1)
    assert (~clear).sum() == 15
    assert (kept.codes == whole.codes[clear]).all()
    assert (kept.classes == whole.classes[clear]).all()


def test_the_source_and_the_licence_come_with_the_data() -> None:
    attribution = et.datasets.load_splice().attribution
    for phrase in ("UCI Machine Learning Repository", "Splice-junction Gene Sequences", "CC BY 4.0"):
        assert phrase in attribution


@pytest.mark.parametrize(
    "damaged",
    [b"", packed()[:1000], lzma.compress(lzma.decompress(packed()).replace(b"EI CCAG", b"IE CCAG", 1))],
    ids=["empty", "cut short", "changed"],
)
def test_a_damaged_file_is_refused(damaged: bytes) -> None:
    with pytest.raises(et.DataError, match=r"splice.txt.xz .* is damaged .* install it again"):
        splice.parsed(damaged)


def test_a_mistyped_choice_is_refused_by_name() -> None:
    with pytest.raises(et.ParameterError, match="'missing' or 'drop', not 'dropped'"):
        load_splice(ambiguous="dropped")  # type: ignore[arg-type]


def test_codes_are_those_documented() -> None:
    """Introns begin with GT and end with AG, but for a few: what biology knows of the letters, by their codes."""
    data = load_splice()
    starts, ends = (data.codes[data.classes == data.class_names.index(name)] for name in ("EI", "IE"))
    assert (starts[:, 30:32] == [2, 3]).all(axis=1).mean() > 0.95
    assert (ends[:, 28:30] == [0, 2]).all(axis=1).mean() > 0.95
