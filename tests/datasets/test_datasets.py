"""The data of the package: what UCI published, in the forms that scikit-learn gives, and damage is found out."""

from __future__ import annotations

import builtins
import lzma
from collections import Counter
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from shared_files import shared_file

import eigentree as et
from eigentree.datasets import (
    CLASS_NAMES,
    LETTERS,
    load_contraceptive,
    load_mushrooms,
    load_splice,
    load_votes,
    splice,
    uci,
)
from eigentree.datasets.packaged import Packaged
from eigentree.errors import quoted

PACKAGED = [splice.SPLICE, uci.CONTRACEPTIVE, uci.MUSHROOMS, uci.VOTES]
LOADERS = [load_splice, load_contraceptive, load_mushrooms, load_votes]
each_loader = pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)


def packed(data: Packaged) -> bytes:
    return files("eigentree.datasets").joinpath(data.file).read_bytes()


def published(name: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in shared_file(name).read_text().splitlines()]


# What was published.


@pytest.mark.shared_data
def test_the_package_holds_the_published_sequences() -> None:
    rows = Counter((label, sequence) for label, _, sequence in published("splice.data"))
    assert Counter(zip(*splice.parsed(splice.SPLICE.lines()), strict=True)) == rows


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("load", "name"), [(load_mushrooms, "agaricus-lepiota.data"), (load_votes, "house-votes-84.data")]
)
def test_the_package_holds_the_published_tables(load: Any, name: str) -> None:
    data = load()
    cells = [["?" if cell is None else cell for cell in row] for row in data.data.tolist()]
    assert cells == [row[1:] for row in published(name)]
    assert data.target.tolist() == [row[0] for row in published(name)]


@pytest.mark.parametrize(
    ("load", "shape", "classes", "missing"),
    [
        (load_splice, (3190, 60), {"EI": 767, "IE": 768, "N": 1655}, None),
        (load_mushrooms, (8124, 22), {"e": 4208, "p": 3916}, 2480),
        (load_votes, (435, 16), {"democrat": 267, "republican": 168}, 392),
        (load_contraceptive, (1473, 9), {"long-term": 333, "none": 629, "short-term": 511}, 0),
    ],
)
def test_rows_classes_and_missing_cells_are_as_many_as_published(
    load: Any, shape: tuple[int, int], classes: dict[str, int], missing: int | None
) -> None:
    data = load()
    assert data.data.shape == shape
    assert Counter(data.target.tolist()) == classes
    assert data.target_names == tuple(classes)
    gaps = np.equal(data.data, None).astype(bool)
    if missing is not None:
        assert gaps.sum() == missing
    kinds = {str, int} if load is load_contraceptive else {str}
    assert {type(cell) for cell in data.data[~gaps]} == kinds
    assert len(set(data.feature_names)) == shape[1]


def test_columns_stand_under_their_names() -> None:
    """What is known of the data beside their file shows whether the names are in the right order."""
    mushrooms, votes = load_mushrooms(as_frame=True), load_votes(as_frame=True)
    gaps = mushrooms.data.isna().sum()
    assert gaps[gaps > 0].to_dict() == {"stalk-root": 2480}
    assert mushrooms.data["veil-type"].nunique() == 1
    foul = mushrooms.data["odor"].isin(list("cfmpsy"))
    assert (mushrooms.target[foul] == "p").all()
    assert mushrooms.data["habitat"].cat.categories.tolist() == list("dglmpuw")
    # Republicans were for the freeze of physicians' fees, nearly to the last one, and democrats against.
    froze = votes.data["physician-fee-freeze"] == "y"
    assert (froze == (votes.target == "republican")).mean() > 0.94
    # South Africa is what most members did not vote on.
    assert votes.data.isna().sum().idxmax() == "export-administration-act-south-africa"
    # Women had been to school for less long than their husbands, and those with most of it used most methods.
    survey = load_contraceptive(as_frame=True)
    educated = survey.data[["education", "husband_education"]] == "4 high"
    assert educated["husband_education"].mean() > educated["education"].mean()
    assert (survey.target[educated["education"]] == "none").mean() < (survey.target == "none").mean()
    assert survey.data["religion"].value_counts().to_dict() == {"islam": 1253, "other": 220}
    assert survey.data["age"].agg(["min", "max"]).tolist() == [16, 49]


def test_the_description_names_each_letter_that_occurs() -> None:
    mushrooms = load_mushrooms(as_frame=True)
    lines = mushrooms.DESCR.partition("\ncap-shape")
    text = " ".join((lines[1] + lines[2]).split())
    for place, (name, own) in enumerate(mushrooms.data.items()):
        after = mushrooms.feature_names[place + 1] if place + 1 < 22 else "the end"
        told = text.partition(f"{name} ")[2].partition(f" {after} ")[0]
        assert [meaning.split()[0] for meaning in told.split(", ")] == own.cat.categories.tolist()


# In what form.


@each_loader
def test_frames_hold_what_arrays_hold(load: Any) -> None:
    plain, framed = load(), load(as_frame=True)
    assert plain.frame is None
    assert tuple(framed.data.columns) == framed.feature_names == plain.feature_names
    numbers = {"age", "children"} if load is load_contraceptive else set()
    assert {name: str(kind) for name, kind in framed.data.dtypes.items()} == {
        name: "int64" if name in numbers else "category" for name in plain.feature_names
    }
    again = framed.data.astype(object)
    assert again.where(again.notna(), None).to_numpy().tolist() == plain.data.tolist()
    assert framed.target.tolist() == plain.target.tolist()
    assert tuple(framed.target.cat.categories) == plain.target_names
    assert framed.frame.equals(framed.data.join(framed.target))
    assert framed.frame.columns[-1] == framed.target.name == "class"


@each_loader
def test_data_and_target_alone(load: Any) -> None:
    plain, (X, y) = load(), load(return_X_y=True)
    assert X.tolist() == plain.data.tolist()
    assert y.tolist() == plain.target.tolist()
    X, y = load(return_X_y=True, as_frame=True)
    assert X.equals(load(as_frame=True).data)
    assert isinstance(y, pd.Series)


def test_classifiers_learn_from_labels_as_they_come() -> None:
    """Arrays with None and frames of categories give a bit-identical model where names are alike."""
    (X, y), (frame, series) = load_votes(return_X_y=True), load_votes(return_X_y=True, as_frame=True)
    frame.columns = [f"x{column}" for column in range(16)]
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.Mixture(hidden_states=2)))
    probabilities = model.fit(X, y).predict_proba(X)
    assert model.score(X, y) > 0.93
    assert (model.fit(frame, series).predict_proba(frame) == probabilities).all()
    assert model.classes_.tolist() == list(load_votes().target_names)


@each_loader
def test_attributes_are_items(load: Any) -> None:
    data = load()
    assert {"data", "target", "frame", "feature_names", "target_names", "DESCR"} <= set(data.keys())
    for name in data.keys():  # noqa: SIM118 - it is no dictionary
        assert data[name] is getattr(data, name)
    with pytest.raises(KeyError, match="keys"):
        data["keys"]
    assert f"{len(data.data):,} rows of {data.data.shape[1]} columns" in repr(data)


@each_loader
def test_the_source_and_the_licence_come_with_the_data(load: Any) -> None:
    for phrase in (
        "UCI Machine Learning Repository",
        "doi:10.24432/",
        "CC BY 4.0",
        "Changes:",
        f"{len(load().data):,}",
    ):
        assert phrase in load().DESCR
    assert load_splice().attribution == load_splice().DESCR


@each_loader
@pytest.mark.parametrize("wrong", ["yes", 1, None, np.array([True, False]), 10**5000], ids=quoted)
def test_switches_are_true_or_false(load: Any, wrong: Any) -> None:
    with pytest.raises(et.ParameterError, match="return_X_y is True or False, not"):
        load(return_X_y=wrong)
    with pytest.raises(et.ParameterError, match="as_frame is True or False, not"):
        load(as_frame=wrong)


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pandas(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(et.EigentreeError, match="as_frame=True needs pandas: pip install pandas"):
        load_votes(as_frame=True)
    assert load_votes().data.shape == (435, 16)


# Damage.


@pytest.mark.parametrize("data", PACKAGED, ids=lambda data: data.name)
def test_a_damaged_file_is_refused(data: Packaged) -> None:
    text = lzma.decompress(packed(data))
    assert data.opened(packed(data)) == text.decode().splitlines()
    changed = bytes([text[0] ^ 1]) + text[1:]
    for damaged in (b"", packed(data)[:1000], packed(data) + b"more", lzma.compress(changed)):
        with pytest.raises(et.DataError, match=rf"{data.name}\.txt\.xz .* is damaged .* install it again"):
            data.opened(damaged)


def test_the_files_are_small() -> None:
    assert sum(len(packed(data)) for data in PACKAGED) < 85_000


# Splice junctions.


def test_codes_stand_for_the_letters_and_ambiguous_ones_are_missing() -> None:
    data = load_splice()
    labels, sequences = splice.parsed(splice.SPLICE.lines())
    letters = np.array([list(sequence) for sequence in sequences])
    assert data.codes.shape == letters.shape == (3190, 60)
    assert [data.class_names[label] for label in data.classes] == labels == data.target.tolist()
    for code, letter in enumerate(LETTERS):
        assert ((data.codes == code) == (letters == letter)).all()
        assert ((data.data == letter) == (letters == letter)).all()
    assert set(letters[data.codes == -1]) == set(splice.AMBIGUOUS)
    assert_array_equal(np.equal(data.data, None), data.codes == -1)
    assert data.class_names == CLASS_NAMES
    assert data.feature_names[0] == "base-30"
    assert data.feature_names[29:31] == ("base-1", "base+1")


def test_dropping_leaves_exactly_the_rows_without_ambiguous_letters() -> None:
    kept, whole = load_splice(ambiguous="drop"), load_splice()
    clear = (whole.codes >= 0).all(axis=1)
    assert (~clear).sum() == 15
    assert (kept.codes == whole.codes[clear]).all()
    assert (kept.classes == whole.classes[clear]).all()
    assert (kept.data == whole.data[clear]).all()
    X, y = load_splice("drop", return_X_y=True)
    assert (len(X), len(y)) == (3175, 3175)


@pytest.mark.parametrize("wrong", ["dropped", np.array(["drop", "drop"])], ids=str)
def test_a_mistyped_choice_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(et.ParameterError, match="ambiguous is 'missing' or 'drop', not"):
        load_splice(ambiguous=wrong)


def test_codes_are_those_documented() -> None:
    """Introns begin with GT and end with AG, but for a few: what biology knows of the letters, by their codes."""
    data = load_splice()
    starts, ends = (data.codes[data.classes == data.class_names.index(name)] for name in ("EI", "IE"))
    assert (starts[:, 30:32] == [2, 3]).all(axis=1).mean() > 0.95
    assert (ends[:, 28:30] == [0, 2]).all(axis=1).mean() > 0.95
