"""Sequences as users bring them: whatever the form, the same codes, and answers in the same form."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentree.data.sequences.sequence_codes import Sequences, filled_sequences, per_step, sampled_sequences
from eigentree.data.sequences.steps import FORM, SequenceForm
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.errors import DataError, FileError
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols
from eigentree.io.codec import At

LETTERS = st.lists(st.text("ACGT", max_size=7), min_size=1, max_size=6).filter(any)


def long_frame(words: list[str], shuffle: int) -> pandas.DataFrame:
    rows = [(f"s{number}", step, letter) for number, word in enumerate(words) for step, letter in enumerate(word)]
    frame = pandas.DataFrame(rows, columns=["id", "month", "base"])
    return frame.sample(frac=1, random_state=shuffle).reset_index(drop=True)


def wide_frame(words: list[str]) -> pandas.DataFrame:
    width = max(map(len, words))
    cells = [[*word, *[None] * (width - len(word))] for word in words]
    return pandas.DataFrame(cells, columns=[f"m{step}" for step in range(width)])


@given(LETTERS)
@settings(max_examples=60, deadline=None)
def test_every_form_of_the_same_sequences_has_the_same_codes(words: list[str]) -> None:
    known = Sequences.learned(words)
    joined = np.array(list("".join(words)))
    forms: list[tuple[Any, dict[str, Any]]] = [
        ([list(word) for word in words], {}),
        ([np.array(list(word), "U1") for word in words], {}),
        (tuple(tuple(word) for word in words), {}),
        (joined, {"lengths": list(map(len, words))}),
        (pandas.Series(joined), {"lengths": list(map(len, words))}),
        (joined[:, None], {"lengths": np.array(list(map(len, words)))}),
        (wide_frame(words), {}),
        (polars.from_pandas(wide_frame(words)), {}),
        (wide_frame(words).to_numpy(object), {}),
    ]
    for X, told in forms:
        read = Sequences.learned(X, **told)
        assert (read.codes == known.codes).all()
        assert (read.starts == known.starts).all()
        assert read.columns.labels("x0") == known.columns.labels("x0")
        again = Sequences.of(X, known.columns, told.get("lengths"))
        assert (again.codes == known.codes).all()


@given(LETTERS, st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_a_long_frame_is_ordered_by_its_columns(words: list[str], shuffle: int) -> None:
    frame = long_frame(words, shuffle)
    known = {f"s{number}": word for number, word in enumerate(words)}
    for native in (frame, polars.from_pandas(frame)):
        read = Sequences.learned(native, sequence="id", time="month")
        labels = np.array(read.columns.labels("base"))
        found = ["".join(labels[part[:, 0]]) for part in np.split(read.codes, read.starts[1:-1])]
        assert found == [known[name] for name in dict.fromkeys(frame["id"])]
        # What is found for each step goes back to its row.
        steps = np.concatenate([np.arange(length) for length in read.lengths])
        assert (per_step(read, steps) == frame["month"].to_numpy()).all()


MONTHS = ["jan", "feb", "mar"]


@pytest.mark.parametrize(
    "native",
    [
        pandas.DataFrame({"when": pandas.Series([2, 10, 9], dtype=object)}),
        pandas.DataFrame({"when": pandas.Categorical(["jan", "mar", "feb"], MONTHS, ordered=True)}),
        pandas.DataFrame({"when": pandas.to_datetime(["2024-01-02", "2024-01-10", "2024-01-09"])}),
        polars.DataFrame({"when": ["jan", "mar", "feb"]}, schema={"when": polars.Enum(MONTHS)}),
        polars.DataFrame({"when": [2.0, 10.0, 9.0]}),
    ],
    ids=["objects", "ordered", "dates", "enum", "numbers"],
)
def test_time_has_the_order_of_its_own_kind(native: Any) -> None:
    told = {"who": [5, 5, 5], "cell": ["a", "c", "b"]}
    frame = (
        native.assign(**told)
        if isinstance(native, pandas.DataFrame)
        else native.with_columns(**{name: polars.Series(cells) for name, cells in told.items()})
    )
    assert Sequences.learned(frame, sequence="who", time="when").codes[:, 0].tolist() == [0, 1, 2]


def test_steps_of_one_time_stay_as_they_stand() -> None:
    frame = pandas.DataFrame({"who": [1] * 40, "row": [1] * 20 + [0] * 20, "cell": list("ab" * 10 + "cd" * 10)})
    read = Sequences.learned(frame, sequence="who", time="row")
    assert read.codes[:, 0].tolist() == [2, 3] * 10 + [0, 1] * 10


@pytest.mark.parametrize(
    "names",
    [[1, "1", 1], ["b", "", "b"], [-1, 0, -1], pandas.to_datetime(["2024-05-01", "2023-05-01", "2024-05-01"])],
    ids=["mixed", "text", "numbers", "dates"],
)
def test_sequences_may_be_called_anything(names: Any) -> None:
    read = Sequences.learned(pandas.DataFrame({"who": names, "cell": ["a", "b", "c"]}), sequence="who")
    assert (read.codes[:, 0].tolist(), read.starts.tolist()) == ([0, 2, 1], [0, 2, 3])


def test_sequences_of_no_steps_are_read_once_channels_are_known() -> None:
    for columns in (Sequences.learned(["ab"]).columns, Sequences.learned([[["a", 0]], [["b", 1]]]).columns):
        for X, told in ((["", ""], None), ([[], []], None), (np.empty((0, 1)), [0, 0])):
            read = Sequences.of(X, columns, told)
            assert (read.count, read.codes.shape) == (2, (0, len(columns.names)))
            filled = filled_sequences(X, told, read, read.codes, None)
            assert type(filled) is type(X)
            assert len(filled) == len(X)
            assert sum(map(len, filled)) == 0


def test_without_an_order_the_rows_of_a_long_frame_stay_as_they_stand() -> None:
    frame = pandas.DataFrame({"who": [2, 1, 2, 1], "cell": ["a", "b", "c", "a"]})
    read = Sequences.learned(frame, sequence="who")
    assert read.codes[:, 0].tolist() == [0, 2, 1, 0]
    assert read.starts.tolist() == [0, 2, 4]


def test_missing_cells_end_a_row_only_where_nothing_follows() -> None:
    read = Sequences.learned(np.array([[0, -1, 1, -1], [-1, -1, -1, -1], [1, 0, 0, 1]]))
    assert read.lengths.tolist() == [3, 0, 4]
    assert read.codes[:, 0].tolist() == [0, 2, 1, 1, 0, 0, 1]
    two = Sequences.learned(
        {
            "work": pandas.DataFrame([["a", None, None], ["b", "a", None]]),
            "home": pandas.DataFrame([["x", "y", None], ["x", None, None]]),
        }
    )
    assert two.lengths.tolist() == [2, 2]
    assert two.columns.names == ("work", "home")
    assert two.codes.T.tolist() == [[0, 2, 1, 0], [0, 1, 0, 2]]


def test_a_step_that_nobody_shows_is_no_mistake_among_text() -> None:
    wide = pandas.DataFrame({"m1": ["a", "b"], "m2": [np.nan, np.nan], "m3": ["b", None]})
    assert Sequences.learned(wide).lengths.tolist() == [3, 1]


def test_unseen_labels_are_mistakes_or_missing() -> None:
    columns = Sequences.learned(["AC", "GT"]).columns
    with pytest.raises(DataError, match="step 1 of sequence 2, column 'x0' holds 'Z', but 'x0' has the labels 'A'"):
        Sequences.of(["A", "C", "GZ"], columns)
    lenient = Sequences.of(["A", "C", "GZ"], columns.reading("missing"))
    assert lenient.codes[:, 0].tolist() == [0, 1, 2, 4]
    # An unknown label at the end of a row is a step still.
    assert Sequences.of(wide_frame(["AZ"]), columns.reading("missing")).lengths.tolist() == [2]
    numbers = Sequences.learned([[0, 1], [2]]).columns
    with pytest.raises(DataError, match="step 0 of sequence 1, column 'x0' holds 3, but 'x0' has the codes 0 to 2"):
        Sequences.of([[1], [3]], numbers)


MISTAKES: list[tuple[Any, dict[str, Any], str]] = [
    ("ACGT", {}, r"write \[text\]"),
    (None, {}, "not None"),
    (3, {}, "not 3"),
    ([], {}, "no sequences"),
    ([[], []], {}, "all sequences are empty"),
    (["", ""], {}, "all words are empty"),
    ([[1, 2], 3], {}, "sequence 1 is 3"),
    (["ab", 3], {}, "sequence 1 is 3, others are words"),
    ([[1, [2]], [3]], {}, "steps of the sequences differ"),
    ([np.zeros((2, 2)), np.zeros((2, 3))], {}, "steps of the sequences differ"),
    (np.zeros(3, int), {"lengths": [2]}, "add up to 2, but the data have 3"),
    (np.zeros(3, int), {"lengths": [-1, 4]}, "lengths holds -1"),
    (np.zeros(3, int), {"lengths": "ab"}, "lengths are whole numbers"),
    (np.zeros(3, int), {"sequence": "id"}, "names a column of a frame"),
    (pandas.DataFrame({"id": [1], "x": [0]}), {"sequence": "idd"}, "did you mean 'id'"),
    (pandas.DataFrame({"id": [1], "x": [0]}), {"sequence": "id", "time": "id"}, "they are two columns"),
    (pandas.DataFrame({"id": [1], "x": [0]}), {"sequence": "id", "lengths": [1]}, "give one of them"),
    (pandas.DataFrame({"id": [1], "x": [0]}), {"time": "x"}, "name these by sequence="),
    (pandas.DataFrame({"id": [1]}), {"sequence": "id"}, "no column beside"),
    (pandas.DataFrame({"id": [1, None], "x": [0, 1]}), {"sequence": "id"}, "row 1 has no sequence"),
    (pandas.DataFrame({"id": [1, 1], "t": [1, None], "x": [0, 1]}), {"sequence": "id", "time": "t"}, "no order"),
    (
        polars.DataFrame({"id": [1, 1], "t": polars.Series([{1}, {2}], dtype=polars.Object), "x": [0, 1]}),
        {"sequence": "id", "time": "t"},
        "cannot be sorted",
    ),
    (pandas.DataFrame({"id": [[1], [2]], "x": [0, 1]}), {"sequence": "id"}, "names or numbers"),
    (pandas.DataFrame({0: [1, 1], 1: [2, 3]}), {"sequence": "0"}, "as text; rename"),
    (pandas.DataFrame({"id": [7, 8], "may": ["a", "b"]}), {}, "'id' holds numbers and 'may' does not.*sequence="),
    (np.empty((0, 1), int), {"lengths": [0]}, "all sequences are empty"),
    ({}, {}, "a mapping of channels"),
    ({"a": np.zeros((2, 3), int), "b": np.zeros((2, 2), int)}, {}, "all need the same sequences and steps"),
    ({"a": np.zeros((2, 3), int)}, {"lengths": [1]}, "leave lengths"),
    (np.zeros((2, 0)), {}, "has rows and columns"),
]


@pytest.mark.parametrize(("X", "told", "message"), MISTAKES, ids=[message for *_, message in MISTAKES])
def test_mistakes_are_told(X: Any, told: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Sequences.learned(X, **told)


FORMS: list[tuple[Any, Any, dict[str, Any]]] = [
    ([["a", None, "b"], ["b"]], [["a", "b", "b"], ["b"]], {}),
    ([np.array([0, -1]), np.array([1, 0])], [[0, 1], [1, 0]], {}),
    ([[["a", 0], [None, 1]], [["b", None]]], [[["a", 0], ["b", 1]], [["b", 1]]], {}),
    ([0, 1, -1], [0, 1, 1], {}),
    (np.array([0, 1, -1]), [0, 1, 1], {"lengths": [2, 1]}),
    (np.array([[0], [1], [-1]]), [[0], [1], [1]], {"lengths": [2, 1]}),
    (np.array([[0, -1, 1, -1], [1, 0, -1, -1]]), [[0, 1, 1, -1], [1, 0, -1, -1]], {}),
]


@pytest.mark.parametrize(("X", "expected", "told"), FORMS)
def test_filled_cells_come_back_in_the_form_they_came_in(X: Any, expected: Any, told: dict[str, Any]) -> None:
    read = Sequences.learned(X, **told)
    codes = np.where(read.missing, 1, read.codes)
    filled = filled_sequences(X, told.get("lengths"), read, codes, None)
    listed = [np.asarray(each).tolist() for each in filled] if isinstance(filled, list) else filled.tolist()
    assert listed == expected


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_filled_frames_are_frames_whose_ends_stay_missing(library: str) -> None:
    wide = pandas.DataFrame({"m1": ["a", "b"], "m2": [None, None], "m3": ["b", None]})
    long = pandas.DataFrame({"t": [1, 0, 0], "x": [None, "a", "b"], "id": [7, 7, 8]})
    if library == "polars":
        wide, long = polars.from_pandas(wide), polars.from_pandas(long)
    read = Sequences.learned(wide)
    filled = filled_sequences(wide, None, read, np.where(read.missing, 1, read.codes), None)
    assert type(filled) is type(wide)
    assert list(filled.columns) == ["m1", "m2", "m3"]
    rows = filled.rows() if library == "polars" else filled.astype(object).where(filled.notna(), None).to_numpy()
    assert [list(row) for row in rows] == [["a", "b", "b"], ["b", None, None]]
    read = Sequences.learned(long[["x"]], lengths=[2, 1])
    filled = filled_sequences(long[["x"]], [2, 1], read, np.where(read.missing, 1, read.codes), None)
    assert type(filled) is type(long)
    assert list(filled["x"]) == ["b", "a", "b"]
    read = Sequences.learned(long, sequence="id", time="t")
    filled = filled_sequences(long, None, read, np.where(read.missing, 1, read.codes), None)
    assert list(filled.columns) == ["t", "x", "id"]
    assert list(filled["x"]) == ["b", "a", "b"]
    assert list(filled["id"]) == [7, 7, 8]
    drawn = sampled_sequences(read.columns, read.form, np.zeros((4, 1), np.int64), 2, 2, np.random.default_rng(0))
    assert list(drawn["id"]) == [0, 0, 1, 1]
    assert list(drawn["t"]) == [0, 1, 0, 1]
    assert set(drawn["x"]) == {"a"}


def test_what_is_found_for_steps_has_the_form_of_the_sequences() -> None:
    words = Sequences.learned(["ab", "", "b"])
    assert [part.tolist() for part in per_step(words, np.arange(3))] == [[0, 1], [], [2]]
    rows = Sequences.learned(np.array([[0, 1], [1, -1]]))
    assert per_step(rows, np.arange(3)).tolist() == [[0, 1], [2, -1]]
    shares = per_step(rows, np.ones((3, 2)))
    assert shares.shape == (2, 2, 2)
    assert np.isnan(shares[1, 1]).all()


def test_chosen_sequences_are_those_and_in_this_order() -> None:
    read = Sequences.learned(["abc", "", "ca", "b"])
    chosen = read.chosen([2, 3, 0])
    assert chosen.codes[:, 0].tolist() == [2, 0, 1, 0, 1, 2]
    assert chosen.starts.tolist() == [0, 2, 3, 6]


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=20).filter(any), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_equal_sequences_are_merged_and_weights_add_up(words: list[str], chance: Any) -> None:
    weights = np.array([chance.randint(1, 4) for _ in words], float)
    read = Sequences.learned([*words, "ab"])
    starts, codes = read.starts[:-1], read.codes[: read.starts[-2]]
    walk = SequencePass.of_distinct(Symbols.of(codes, (2,)), starts, weights, 1)
    found: dict[str, float] = {}
    for word, weight in zip(words, walk.weights, strict=True):
        if weight:
            assert word not in found
            found[word] = weight
    expected: dict[str, float] = {}
    for word, weight in zip(words, weights, strict=True):
        expected[word] = expected.get(word, 0.0) + weight
    assert found == expected


def test_symbols_of_several_channels_stand_for_what_they_were_made_of() -> None:
    random = np.random.default_rng(0)
    for states in ((2, 3), (1, 1, 2), (2000, 3000)):
        codes = np.stack([random.integers(0, count + 1, 200) for count in states], axis=1).astype(np.uint16)
        symbols = Symbols.of(codes, states)
        assert (symbols.lines[symbols.steps] == codes).all()
        assert len(np.unique(symbols.lines, axis=0)) == len(symbols.lines)


def test_a_form_survives_json_and_nothing_else_is_one() -> None:
    form = SequenceForm("long", False, sequence="id", time="t")
    writer: Any = None
    content = FORM.write(writer, "form", form)
    at = At("form", "the form", {})
    assert FORM.read(writer, json.loads(json.dumps(content)), at) == form
    for broken in ({}, None, content | {"kind": "odd"}, content | {"sequence": None}, content | {"width": -1}):
        with pytest.raises(FileError, match=r"a? ?form of sequences"):
            FORM.read(writer, broken, at)


MIXED = ReadOptions(numeric="emissions")


def mixed_steps(count: int) -> tuple[pandas.DataFrame, list[int]]:
    """Return a long frame of shuffled steps with two numbers, a category and missing cells, and the lengths."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 9, size=count).tolist()
    steps = sum(lengths)
    frame = pandas.DataFrame(
        {
            "who": np.repeat(np.arange(count), lengths),
            "when": np.concatenate([np.arange(length) for length in lengths]),
            "x": random.normal(size=steps),
            "word": random.choice(["a", "b", None], size=steps),
            "y": random.normal(size=steps).round(2),
        }
    )
    frame.loc[random.random(steps) < 0.2, "x"] = np.nan
    return frame, lengths


def test_values_are_the_numbers_of_each_step_in_the_order_of_sequences() -> None:
    frame, lengths = mixed_steps(40)
    ordered = Sequences.learned(frame, None, "who", "when", MIXED)
    assert ordered.columns.numbers == ("x", "y")
    np.testing.assert_array_equal(ordered.values, frame[["x", "y"]])
    assert (ordered.missing[:, 0] == frame.x.isna()).all()
    assert (ordered.codes[:, [0, 2]] == frame[["x", "y"]].isna()).all().all()
    mixed = frame.sample(frac=1, random_state=1)
    shuffled = Sequences.of(mixed, ordered.columns, None, "who", "when")
    first_seen = mixed.who.drop_duplicates().to_numpy()
    chosen = shuffled.chosen(np.argsort(first_seen))
    np.testing.assert_array_equal(chosen.values, ordered.values)
    np.testing.assert_array_equal(chosen.codes, ordered.codes)
    assert chosen.lengths.tolist() == lengths
    assert not ordered.values.flags.writeable


def test_every_form_of_numbers_has_the_same_values() -> None:
    random = np.random.default_rng(2)
    X = random.normal(size=(24, 2))
    X[5, 1] = np.nan
    known = Sequences.learned(X, [8, 8, 8], options=MIXED)
    parts = np.split(X, 3)
    names = {name: pandas.DataFrame(X[:, place].reshape(3, 8)) for place, name in enumerate(("x0", "x1"))}
    frame = pandas.DataFrame(X, columns=["x0", "x1"]).assign(who=np.repeat([0, 1, 2], 8))
    forms: list[tuple[Any, dict[str, Any]]] = [
        (parts, {}),
        ([part.tolist() for part in parts], {}),
        (X.reshape(3, 8, 2), {}),
        (names, {}),
        (frame, {"sequence": "who"}),
        (polars.from_pandas(frame), {"sequence": "who"}),
        (pandas.DataFrame(X, columns=["x0", "x1"]), {"lengths": [8, 8, 8]}),
    ]
    for data, more in forms:
        read = Sequences.learned(data, options=MIXED, **more)
        np.testing.assert_array_equal(read.values, known.values)
        np.testing.assert_array_equal(read.codes, known.codes)
        assert read.starts.tolist() == known.starts.tolist()
    assert Sequences.learned(["ACCA", "GA"]).values.shape == (6, 0)


def test_rows_of_numbers_end_where_only_missing_cells_follow() -> None:
    rows = np.array([[1.5, np.nan, 2.25, np.nan], [0.1, 0.2, 0.3, 0.45], [np.nan] * 4])
    read = Sequences.learned(rows, options=MIXED)
    assert read.lengths.tolist() == [3, 4, 0]
    np.testing.assert_array_equal(read.values[:, 0], [1.5, np.nan, 2.25, 0.1, 0.2, 0.3, 0.45])
    full = np.where(np.isnan(read.values), 9.75, read.values)
    filled = filled_sequences(rows, None, read, full, None)
    np.testing.assert_array_equal(filled, [[1.5, 9.75, 2.25, np.nan], rows[1], rows[2]])
    numbers = np.arange(8.0)[:, None] / 4
    sampled = sampled_sequences(read.columns, read.form, numbers, 2, 4, np.random.default_rng(0))
    np.testing.assert_array_equal(sampled, numbers.reshape(2, 4))


def test_rows_of_few_numbers_are_warned_of_unless_the_user_says_what_they_are() -> None:
    random = np.random.default_rng(0)
    X, options = random.normal(size=(50, 3)), ReadOptions(numeric="emissions")
    for rows in (X, pandas.DataFrame(X)):
        with pytest.warns(
            RuntimeWarning, match=r"the 50 rows of 3 numbers are read as 50 sequences .*lengths=\[50\]"
        ):
            assert Sequences.learned(rows, options=options).count == 50
    assert Sequences.learned(X, [50], options=options).count == 1
    assert Sequences.learned(X[:, :, None], options=options).count == 50
    # More steps than sequences, or codes.
    assert Sequences.learned(X.T, options=options).count == 3
    assert Sequences.learned(random.integers(3, size=(50, 3)), options=options).count == 50


def test_filled_numbers_stand_where_cells_were_missing() -> None:
    frame, _ = mixed_steps(30)
    mixed = frame.sample(frac=1, random_state=3)
    read = Sequences.learned(mixed, None, "who", "when", MIXED)
    cells = np.array(read.codes, np.float64)
    cells[:, [0, 2]] = np.where(np.isnan(read.values), 7.5, read.values)
    cells[:, 1] = np.where(read.missing[:, 1], 0.0, cells[:, 1])
    filled = filled_sequences(mixed, None, read, cells, None)
    expected = mixed.fillna({"x": 7.5, "word": "a"})
    pandas.testing.assert_frame_equal(filled, expected, check_dtype=False)
