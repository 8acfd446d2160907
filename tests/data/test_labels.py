"""Labels in and out: whatever holds the rows, they mean the same, and come back as they came."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from counted_arrays import arrays_of, of_arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import eigentree as et
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.columns import Columns, columns_content, columns_of
from eigentree.data.tables.labels import Bins
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions

COLOURS = ("blue", "green", "red")
NETWORK = et.LatentNetwork.random(et.zoo.mixture(4, 2, [3, 2, 2, 3]), seed=5)
CODES = NETWORK.sample(300, seed=1)
CODES[np.random.default_rng(0).random(CODES.shape) < 0.1] = -1
CODES[0] = [0, 1, -1, 2]


def cell(column: int, code: int) -> Any:
    """A colour, whether somebody is happy, a truth value, and one of the numbers 1, 5 and 9."""
    if code < 0:
        return None
    return (COLOURS, ("no", "yes"), (False, True), (1, 5, 9))[column][code]


LISTS = [[cell(column, code) for column, code in enumerate(row)] for row in CODES]
NAMES = ["colour", "happy", "open", "size"]


def pandas_frame() -> pd.DataFrame:
    return pd.DataFrame(LISTS, columns=NAMES)


def nullable_frame() -> pd.DataFrame:
    return pandas_frame().convert_dtypes()


def categorical_frame() -> pd.DataFrame:
    frame = pandas_frame()
    frame["colour"] = pd.Categorical(frame["colour"], categories=COLOURS)
    frame["happy"] = pd.Categorical(frame["happy"], categories=("no", "yes"), ordered=True)
    return frame


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(LISTS, schema=NAMES, orient="row")


def enum_frame() -> pl.DataFrame:
    return polars_frame().with_columns(
        pl.col("colour").cast(pl.Enum(COLOURS)),
        pl.col("happy").cast(pl.Categorical),
        pl.col("size").cast(pl.Int128),
    )


def arrow_table() -> pa.Table:
    return pa.table(dict(zip(NAMES, map(list, zip(*LISTS, strict=True)), strict=True)))


def dictionary_table() -> pa.Table:
    held = pa.DictionaryArray.from_arrays(
        pa.array([None if code < 0 else int(code) for code in CODES[:, 0]], pa.int8()), pa.array(COLOURS)
    )
    halves = pa.chunked_array([held.slice(0, 100), held.slice(100)])
    return arrow_table().set_column(0, "colour", halves)


FRAMES: dict[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        pandas_frame,
        nullable_frame,
        categorical_frame,
        polars_frame,
        enum_frame,
        arrow_table,
        dictionary_table,
    )
}


def model_of(X: Any, **settings: Any) -> et.SpectralJunctionTree:
    return et.SpectralJunctionTree(et.zoo.Mixture(2), **settings).fit(X)


def as_lists(X: Any) -> list[list[Any]]:
    if isinstance(X, pa.Table):
        X = X.to_pandas()
    if isinstance(X, pl.DataFrame):
        return [list(row) for row in X.rows()]
    cells = X.astype(object).to_numpy() if isinstance(X, pd.DataFrame) else np.asarray(X, object)
    return [[None if pd.isna(each) else each for each in row] for row in cells.tolist()]


BY_CODES = et.SpectralJunctionTree(NETWORK.graph).fit(CODES)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_frames_of_labels_mean_what_codes_mean(make: Callable[[], Any]) -> None:
    X = make()
    model = model_of(X)
    assert model.columns_.states == (3, 2, 2, 3)
    assert model.columns_.labels("colour") == COLOURS
    assert model.columns_.labels("size") == (1, 5, 9)
    assert list(model.feature_names_in_) == NAMES
    assert_array_equal(model.score_samples(X), BY_CODES.score_samples(CODES))
    assert_array_equal(model.predict_proba(X, "size"), BY_CODES.predict_proba(CODES, "x3"))
    # What was learned from one type of frame is queried with another, columns in any order.
    turned = polars_frame().select(NAMES[::-1])
    assert_array_equal(model.score_samples(turned), BY_CODES.score_samples(CODES))


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_frames_are_filled_as_they_came(make: Callable[[], Any]) -> None:
    X = make()
    model = model_of(X)
    filled = model.impute(X)
    assert type(filled) is type(X)
    wanted = BY_CODES.impute(CODES)
    assert as_lists(filled) == [[cell(column, code) for column, code in enumerate(row)] for row in wanted]
    kinds = filled.dtypes if hasattr(filled, "dtypes") else filled.schema.types
    before = X.dtypes if hasattr(X, "dtypes") else X.schema.types
    assert list(kinds) == list(before)
    drawn = model.impute(X, method="sample", seed=3)
    for row, before in zip(as_lists(drawn), LISTS, strict=True):
        assert all(found == given for found, given in zip(row, before, strict=True) if given is not None)
        assert None not in row


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_draws_come_in_what_was_learned_from(make: Callable[[], Any]) -> None:
    X = make()
    model = model_of(X)
    drawn = model.sample(50, seed=2, given={"colour": "red"})
    assert type(drawn) is type(X)
    codes = BY_CODES.sample(50, seed=2, given={"x0": 2})
    assert as_lists(drawn) == [[cell(column, code) for column, code in enumerate(row)] for row in codes]
    network = model.to_network(X)
    states = network.decode(X).states
    assert type(states) is type(X)
    assert np.asarray(states).shape == (300, 1)


def test_lists_and_arrays_of_labels_come_back_as_arrays() -> None:
    for X in (LISTS, np.array(LISTS, object), [tuple(row) for row in LISTS]):
        model = model_of(X)
        assert not hasattr(model, "feature_names_in_")
        assert list(model.get_feature_names_out()) == ["x0", "x1", "x2", "x3"]
        assert_array_equal(model.score_samples(X), BY_CODES.score_samples(CODES))
        filled = model.impute(X)
        assert filled.dtype == object
        wanted = BY_CODES.impute(CODES)
        assert filled.tolist() == [[cell(column, code) for column, code in enumerate(row)] for row in wanted]
    numbers = np.array([1, 5, 9])[np.maximum(CODES[:, [3, 0]], 0)]
    model = model_of(numbers)
    assert model.columns_.states == (3, 3)
    assert model.sample(5, seed=0).dtype == np.int64
    assert set(model.sample(50, seed=0).ravel()) <= {1, 5, 9}
    holed = np.where(CODES[:, [3, 0]] < 0, np.nan, numbers)
    assert model.impute(holed).dtype == np.int64


def test_letters_have_one_alphabet_and_come_back_as_words() -> None:
    letters = np.array(list("ACGT"))
    graph = et.zoo.hmm(6, 1, 2, 4)
    codes = et.LatentNetwork.random(graph, seed=0).sample(200, seed=1)
    words = ["".join(letters[row]) for row in codes]
    plain = et.SpectralJunctionTree(graph).fit(codes)
    for X in (words, np.array(words), np.array(words, "S"), tuple(words)):
        for structure in (graph, et.zoo.HMM(hidden_states=2)):
            model = et.SpectralJunctionTree(structure).fit(X)
            assert_array_equal(model.score_samples(X), plain.score_samples(codes))
            assert model.sample(3, seed=0) == ["".join(letters[row]) for row in plain.sample(3, seed=0)]
    lenient = et.SpectralJunctionTree(graph, handle_unknown="missing").fit(words, sample_weight=np.ones(200))
    holed = codes[:4].copy()
    holed[:, 2] = -1
    marked = [word[:2] + "N" + word[3:] for word in words[:4]]
    assert_array_equal(lenient.score_samples(marked), plain.score_samples(holed))
    assert lenient.impute(marked) == ["".join(letters[row]) for row in plain.impute(holed)]
    with pytest.raises(et.DataError, match="row 0, column 'x2' holds 'N', but 'x2' has the labels 'A', 'C'"):
        model.score_samples(marked)
    given_all = et.SpectralJunctionTree(et.zoo.HMM(), categories="ACGTN").fit(words)
    assert given_all.columns_.states == (5,) * 6


def test_declared_categories_are_all_states_in_their_order() -> None:
    wide = pd.DataFrame({"a": pd.Categorical(["y", "x", "y"], categories=["z", "y", "x"]), "b": [0, 1, 1]})
    assert Columns.learned(wide).labels("a") == ("z", "y", "x")
    enum = pl.DataFrame({"a": pl.Series(["y", "x"], dtype=pl.Enum(["z", "y", "x"])), "b": [0, 1]})
    assert Columns.learned(enum).labels("a") == ("z", "y", "x")
    given = Columns.learned(wide, ReadOptions({"b": [0, 1, 2]}))
    assert given.states == (3, 3)
    options = ReadOptions({"x0": ["b", "a", "c"]})
    assert Columns.learned([["b", 1], ["a", 0]], options).labels("x0") == ("b", "a", "c")
    drawn = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5).fit(wide).sample(4, seed=0)
    assert list(drawn["a"].cat.categories) == ["z", "y", "x"]


def test_intervals_of_pandas_are_labels() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"age": pd.qcut(random.normal(size=100), 3), "b": random.integers(0, 2, 100)})
    holed = frame.copy()
    holed.loc[3, "age"] = None
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5).fit(frame)
    assert model.columns_.states == (3, 2)
    filled = model.impute(holed)
    assert filled["age"].dtype == frame["age"].dtype
    assert filled["age"].notna().all()


def test_a_fold_may_miss_a_state() -> None:
    from sklearn.model_selection import cross_val_score

    rows = [["a", "x"], ["b", "y"]] * 6 + [["c", "x"]]
    strict = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5)
    strict.fit(rows[:12])
    with pytest.raises(et.DataError, match="holds 'c', but 'x0' has the labels 'a', 'b'; fit with all of them as"):
        strict.score(rows)
    # Also after the fit.
    assert math.isfinite(strict.set_params(handle_unknown="missing").score(rows))
    wide = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5, categories={"x0": "abc"})
    assert np.isfinite(cross_val_score(wide, np.array(rows, object), cv=3)).all()
    lenient = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5, handle_unknown="missing")
    assert np.isfinite(cross_val_score(lenient, np.array(rows, object), cv=3)).all()


@pytest.mark.parametrize("estimator", [et.SpectralJunctionTree, et.OnlineEMJunctionTree])
def test_more_rows_have_the_labels_of_the_first(estimator: Any) -> None:
    settings = {"random_state": 0} if estimator is et.OnlineEMJunctionTree else {}
    model = estimator(et.zoo.Mixture(2), **settings).partial_fit(LISTS[:100])
    with pytest.raises(et.DataError, match="row 1, column 'x0' holds 'pink'"):
        model.partial_fit([*LISTS[:1], ["pink", "no", True, 1]])
    assert_array_equal(
        model.partial_fit(LISTS[100:]).score_samples(LISTS),
        estimator(et.zoo.Mixture(2), **settings)
        .partial_fit(LISTS[:100])
        .partial_fit(LISTS[100:])
        .score_samples(LISTS),
    )
    model.set_params(handle_unknown="missing").partial_fit([["pink", "no", True, 1]])


def test_statistics_of_labels_add_up() -> None:
    structure = et.zoo.Mixture(2)
    parts = [et.Statistics.of(part, structure, categories={"x0": COLOURS}) for part in (LISTS[:150], LISTS[150:])]
    model = et.SpectralJunctionTree(structure).fit_statistics(parts[0] + parts[1])
    assert_array_equal(model.score_samples(LISTS), BY_CODES.score_samples(CODES))
    assert model.columns_.labels("x0") == COLOURS
    again = of_arrays(et.Statistics, arrays_of(parts[0]))
    assert again.columns == parts[0].columns
    with pytest.raises(et.DataError, match="columns have the same labels, but 'x0' has"):
        parts[0] + et.Statistics.of(
            [["pink", *row[1:]] for row in LISTS], structure, categories={"x0": ["pink", 1, 2]}
        )


def test_tables_are_arrays_with_labels() -> None:
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=20).fit(pandas_frame())
    joint = model.joint(["happy", "colour"])
    assert isinstance(joint, np.ndarray)
    assert joint.states == (("no", "yes"), COLOURS)
    assert float(joint.at(happy="yes", colour="red")) == joint[1, 2]
    assert model.tables_["colour"].states == (range(2), COLOURS) or model.tables_["colour"].states == (
        (0, 1),
        COLOURS,
    )
    conditional = model.conditional(["colour"], given={"size": 9})
    assert conditional.states == (COLOURS,)
    proba = model.predict_proba(pandas_frame(), "colour")
    assert list(proba.to_pandas().columns) == list(COLOURS)
    assert proba.to_polars().columns == ["row", *COLOURS]
    proba[0] = 0  # an answer is the user's own
    with pytest.raises(et.DataError, match="'colour' is given as 'pink', but has the labels 'blue', 'green'"):
        model.conditional(["happy"], given={"colour": "pink"})
    with pytest.raises(et.DataError, match="'size' is given as 2, but has the labels 1, 5, 9"):
        model.sample(1, given={"size": 2})


def test_classes_share_their_columns() -> None:
    X = pandas_frame().drop(columns="happy")
    y = pandas_frame()["happy"].fillna("no")
    graph = et.LatentGraph(
        {"h": 2, "colour": 3, "open": 2, "size": 3}, [("h", "colour"), ("h", "open"), ("h", "size")], ["h"]
    )
    for estimator in (et.SpectralJunctionTree, et.EMJunctionTree):
        settings = {"random_state": 0} if estimator is et.EMJunctionTree else {}
        labelled = et.JunctionTreeClassifier(estimator(et.zoo.Mixture(2), **settings)).fit(X, y)
        coded = et.JunctionTreeClassifier(estimator(graph, **settings)).fit(CODES[:, [0, 2, 3]], y)
        assert_array_equal(labelled.predict_proba(X), coded.predict_proba(CODES[:, [0, 2, 3]]))
        assert set(labelled.estimators_[0].sample(20, seed=0)["colour"]) <= set(COLOURS)
        assert labelled.n_features_in_ == 3


# ValueCounts


def test_measurements_are_told_from_codes() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"age": random.normal(40, 10, 200), "b": random.integers(0, 2, 200)})
    with pytest.raises(
        et.DataError,
        match=r"'age' looks continuous: 200 different numbers in 200 rows, .*='quantiles'",
    ):
        model_of(frame, numeric="error")
    assert model_of(frame).columns_.numbers == ("age",)
    frame["age"] = random.integers(0, 100, 200)
    with pytest.raises(et.DataError, match="column 'age' looks continuous"):
        model_of(frame, numeric="error")
    # Many rows of each of many numbers are codes; so is whatever a graph says.
    many = pd.DataFrame({"word": np.tile(np.arange(50), 20), "b": random.integers(0, 2, 1000)})
    assert Columns.learned(many).states == (50, 2)
    floats = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [0, 1, 1]})
    assert Columns.learned(floats).labels("a") == (1, 2)


@pytest.mark.parametrize("first", [0, 10_000])
def test_a_column_of_identifiers_is_to_be_dropped(first: int) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"id": first + random.permutation(200), "b": random.integers(0, 2, 200)})
    with pytest.raises(
        et.DataError,
        match=r"column 'id' holds 200 different whole numbers in 200 rows, such as \d+, as an identifier",
    ):
        Columns.learned(frame)
    with pytest.warns(RuntimeWarning, match="column 'id' is an identifier, which numbers the rows; drop it"):
        Columns.learned(frame, ReadOptions(numeric="quantiles"))


def test_a_column_of_frequencies_hints_at_weights() -> None:
    frame = pd.DataFrame({"a": [0, 0, 1, 1], "b": ["x", "y", "x", "y"], "Freq": [10, 3, 3, 12]})
    with pytest.warns(RuntimeWarning, match="column 'Freq' holds whole numbers, .* give it as sample_weight"):
        Columns.learned(frame)
    # Many rows of few configurations are no table of counts, and labels that were given are meant.
    Columns.learned(pd.concat([frame] * 9))
    Columns.learned(frame, ReadOptions({"Freq": [3, 10, 12]}))
    Columns.learned(frame.rename(columns={"Freq": "rooms"}))
    many = pd.DataFrame({"a": np.arange(400) % 20, "b": np.arange(400) % 17, "n": np.arange(400) // 2})
    with pytest.raises(
        et.DataError, match=r"column 'n' looks continuous.*sample_weight if it says how often each row"
    ):
        Columns.learned(many)


def test_all_columns_with_errors_are_named_at_once() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{k}": random.normal(size=50) for k in range(10)} | {"b": random.integers(0, 2, 50)})
    with pytest.raises(et.DataError) as caught:
        Columns.learned(frame)
    lines = str(caught.value).splitlines()
    assert lines[0] == "10 columns cannot be read:"
    assert [line[:25] for line in lines[1:9]] == [f"- column 'c{k}' looks conti" for k in range(8)]
    assert lines[9] == "- and columns 'c8', 'c9'"
    rows = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], "c": [0, 1]})
    columns = Columns.learned(rows)
    with pytest.raises(et.DataError) as caught:
        Rows.of(pd.DataFrame({"a": ["x", "?"], "b": ["!", "v"], "c": [0, 1]}), columns)
    assert "2 columns cannot be read" in str(caught.value)
    assert "row 1, column 'a' holds '?'" in str(caught.value)
    assert "row 0, column 'b' holds '!'" in str(caught.value)
    with pytest.raises(et.DataError, match="the frame has no columns 'a', 'b'"):
        Rows.of(pd.DataFrame({"c": [0, 1]}), columns)


@pytest.mark.parametrize("declared", [False, True])
def test_labels_that_name_their_rows_are_told(declared: bool) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"m{row}" for row in range(100)], "b": random.integers(0, 2, 100)})
    frame.loc[:4, "id"] = None
    if declared:
        frame = frame.astype({"id": "category"})
    told = "column 'id' is an identifier: 95 different labels in 95 rows, .* drop the column"
    with pytest.warns(RuntimeWarning, match=told):
        Columns.learned(frame)
    with pytest.warns(RuntimeWarning, match=told):
        Columns.learned(Schema.of(frame[:30]) + Schema.of(frame[30:]))
    with pytest.warns(RuntimeWarning, match=told):
        et.learn_structure(frame)
    # Nobody is told who says which labels there are, or has two rows of each, or few of them.
    Columns.learned(frame, ReadOptions({"id": [f"m{row}" for row in range(100)]}))
    Columns.learned(pd.concat([frame, frame]))
    Columns.learned(frame.head(30).astype(str))


def test_labels_that_differ_in_blanks_only_are_told() -> None:
    frame = pd.DataFrame({"state": ["ok", " ok", "bad", "not ok"] * 5, "b": [0, 1] * 10})
    with pytest.warns(RuntimeWarning, match="column 'state' has the labels ' ok' and 'ok', which differ in blanks"):
        Columns.learned(frame)
    # Nobody is told who says which labels there are, or whose labels have blanks and differ in more.
    Columns.learned(frame, ReadOptions({"state": ["ok", " ok", "bad", "not ok"]}))
    Columns.learned(frame[1:4])


@pytest.mark.parametrize("whole", [False, True])
def test_numbers_are_cut_into_bins_and_drawn_inside_them(whole: bool) -> None:
    random = np.random.default_rng(1)
    age = random.normal(40, 10, 1000)
    age = age.round() if whole else age
    frame = pd.DataFrame({"age": age, "old": (age > 45).astype(int), "b": random.integers(0, 2, 1000)})
    holed = frame.astype({"age": float})
    holed.loc[::3, "age"] = np.nan
    if whole:
        frame = frame.astype({"age": int})
        assert len(frame["age"].unique()) > 32
        frame = pd.concat([frame.head(200)])
        holed = holed.head(200)
    model = et.EMJunctionTree(et.zoo.Mixture(3), random_state=0, numeric="quantiles").fit(frame)
    bins = model.columns_.meanings[0]
    assert isinstance(bins, Bins)
    assert bins.whole == whole
    codes = bins.encode(frame["age"].to_numpy())
    assert np.bincount(codes).min() >= len(frame) / 8 / 2
    assert len(model.joint(["age"]).states[0]) == len(bins.edges) + 1
    for filled in (model.impute(holed), model.impute(holed, "sample", seed=0)):
        known = holed["age"].notna()
        assert_array_equal(filled["age"][known], holed["age"][known])
        assert filled["age"].notna().all()
    drawn = model.sample(2000, seed=0)["age"].to_numpy()
    assert drawn.min() >= frame["age"].min()
    assert drawn.max() <= frame["age"].max()
    assert (drawn == np.rint(drawn)).all() == whole
    # A number beyond all that were seen is in an outer bin.
    assert np.isfinite(model.score_samples(pd.DataFrame({"age": [-1000.0, 1e6], "old": [0, 1], "b": [0, 0]}))).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(0, 2**32))
def test_a_drawn_number_falls_into_its_own_bin(cells: list[float], seed: int) -> None:
    for array in (np.array(cells), np.rint(np.array(cells))):
        bins = Bins.of(array)
        codes = np.repeat(np.arange(len(bins.labels)), 5)
        assert_array_equal(bins.encode(bins.sampled(codes, np.random.default_rng(seed))), codes)
        assert_array_equal(bins.encode(np.array(bins.typical)), np.arange(len(bins.labels)))
        assert len(set(bins.labels)) == len(bins.labels)


def test_negative_numbers() -> None:
    signs = [[-1, 1], [1, -1], [1, 1]]
    assert Columns.learned(signs).labels("x0") == (-1, 1)
    assert_array_equal(model_of(np.array(signs * 20)).impute(signs), signs)
    likert = [[-2, 0], [-1, 1], [0, 0], [1, 1], [2, 0]]
    assert Columns.learned(likert).labels("x0") == (-2, -1, 0, 1, 2)
    marked = [[-1, 0], [0, 1], [1, 0]]
    assert Columns.learned(marked).states == (2, 2)
    assert Columns.learned(marked, ReadOptions({"x0": [-1, 0, 1]})).labels("x0") == (-1, 0, 1)


# Mistakes, and keeping


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        (LISTS, {"categories": {"colour": ["red"]}}, "categories name 'colour', which is no column"),
        (LISTS, {"categories": {"x0": ["red", "red"]}}, "categories of 'x0' are different labels"),
        (LISTS, {"categories": {"x0": 3}}, "categories of 'x0' are a list of labels, not 3"),
        (LISTS, {"categories": {"x0": np.array(3)}}, "categories of 'x0' are a list of labels, not array"),
        (LISTS, {"categories": 3}, "categories are labels for all columns"),
        (LISTS, {"categories": {"x0": [None]}}, "hold None or NaN"),
        (LISTS, {"categories": {"x0": [math.nan]}}, "hold None or NaN"),
        (LISTS, {"handle_unknown": "ignore"}, "handle_unknown is 'error' or 'missing', not 'ignore'"),
        (LISTS, {"numeric": "bins"}, "numeric is 'error', 'quantiles' or 'emissions', not 'bins'"),
        (LISTS, {"categories": {"x0": ["red", "blue"]}}, "row 1[0-9]*, column 'x0' holds 'green'|holds 'green'"),
        ([[{}, 0], [1, 1]], {}, r"column 'x0' holds \{\}, a dict, which is no state"),
        ([[None, 0], [None, 1]], {}, "column 'x0' has no known cell"),
        (np.array([["2020-01-01", "2020-01-02"]], "M8[D]"), {"numeric": "error"}, "column 'x0' holds dates"),
        (pl.DataFrame({"a": [[1], [2]], "b": [0, 1]}), {}, "column 'a' holds List"),
        (pl.DataFrame({"a": [{"z": 1}], "b": [0]}), {}, "column 'a' holds Struct"),
        (
            pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": [0]}),
            {"numeric": "quantiles"},
            "column 'a' holds dates",
        ),
        (
            pa.table({"a": pa.array([None, None], pa.dictionary(pa.int8(), pa.string())), "b": [0, 1]}),
            {},
            "no known cell",
        ),
        (["ACGT", "ACG"], {}, "row 1 has 3 letters and row 0 has 4"),
        (["", ""], {}, "empty strings"),
    ],
)
def test_mistakes_are_named(X: Any, settings: dict, message: str) -> None:
    with pytest.raises(et.EigentreeError, match=message):
        model_of(X, **settings)


def test_labels_and_a_graph_must_have_as_many_states() -> None:
    graph = et.zoo.mixture(2, 2, 3)
    with pytest.raises(
        et.DataError, match=r"'x0' has 2 states \(the labels 'a', 'b'\), but 3 in the graph; give all"
    ):
        et.SpectralJunctionTree(graph).fit([["a", 0], ["b", 1]])
    wide = et.SpectralJunctionTree(graph, categories={"x0": "abc"}, when_short="warn", shrinkage=1)
    assert wide.fit([["a", 0], ["b", 1]] * 20).columns_.labels("x0") == ("a", "b", "c")


LABEL = st.one_of(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(LABEL, min_size=1, max_size=5, unique=True), min_size=1, max_size=4))
def test_columns_are_kept_as_json(labels: list[list[Any]]) -> None:
    names = [f"x{place}" for place in range(len(labels))]
    rows = [[each[k % len(each)] for each in labels] for k in range(10)]
    columns = Columns.learned(rows, ReadOptions(dict(zip(names, labels, strict=True))))
    stored = json.loads(json.dumps(columns_content(columns)))
    for kept in (columns_of(stored), pickle.loads(pickle.dumps(columns))):
        assert kept == columns
        assert [tuple(map(type, kept.labels(name))) for name in names] == [
            tuple(map(type, columns.labels(name))) for name in names
        ]


def test_a_network_made_of_labels_keeps_them() -> None:
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5).fit(pandas_frame())
    for network in (model.network_, pickle.loads(pickle.dumps(model.network_)), model.network_.ordered()):
        assert_array_equal(network.log_prob(pandas_frame()), model.score_samples(pandas_frame()))
    with pytest.raises(et.NetworkError, match="columns are those of the graph's observed variables"):
        NETWORK.with_columns(model.columns_)


# What a fresh reader found


def test_numbers_as_names_of_columns_are_names_unless_they_count() -> None:
    frame = pd.DataFrame(np.maximum(CODES, 0))
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=3).fit(frame)
    with pytest.raises(et.DataError, match="the frame has no columns 'x0', 'x1'"):
        model.score_samples(frame[[3, 2, 1, 0]])
    years = frame.set_axis([2018, 2019, 2020, 2021], axis=1)
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=3).fit(years)
    assert_array_equal(model.score_samples(years[[2021, 2020, 2019, 2018]]), model.score_samples(years))
    with pytest.raises(et.GraphError, match="has no variable 2020; did you mean '2020'"):
        model.predict_proba(years, target=2020)
    with pytest.raises(et.DataError, match="column 2 has no name, counted from 0; rename or drop it"):
        et.learn_structure(years.rename(columns={2020: ""}))
    with pytest.raises(et.DataError, match="the frame has two columns '1'"):
        Columns.learned(pd.DataFrame([[0, 1]], columns=[1, "1"]))
    unnamed = model_of(np.array(LISTS, object))
    with pytest.raises(et.DataError, match=r"fitted on columns without names, so give X.to_numpy\(\)"):
        unnamed.score_samples(pandas_frame())


def test_one_and_its_text_are_two_labels() -> None:
    frame = pd.DataFrame({"a": pd.Categorical([1, "1"] * 100, categories=[1, "1"]), "b": ["x", "y"] * 100})
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(frame)
    holed = pd.DataFrame({"a": pd.Categorical([None, None], categories=[1, "1"]), "b": ["x", "y"]})
    assert model.impute(holed)["a"].tolist() == [1, "1"]
    mixed = np.array([[True, "a"], ["1", "b"], [1, "a"], [None, "b"]] * 20, object)
    assert [type(cell) for cell in model_of(mixed).impute(mixed)[:3, 0]] == [bool, str, int]
    assert model.joint(["b", "a"]).to_polars().columns == ["b", "a=1", "a='1'"]


def test_what_is_filled_fits_its_column_or_changes_its_type() -> None:
    frame = pd.DataFrame({"a": [0.5, 2, 0.5, 0.5, 2] * 30, "b": ["x", "y", "x", "x", "y"] * 30})
    model = model_of(frame, categories={"a": [0.5, 2]})
    holed = pd.DataFrame({"a": [-1, -1, 2], "b": ["x", "y", "x"]})
    for X in (holed, pl.from_pandas(holed), pa.Table.from_pandas(holed)):
        assert list(model.impute(X)["a"].to_numpy()) == [0.5, 2.0, 2.0]


def test_large_whole_numbers_stay_apart_beside_missing_cells() -> None:
    large = pd.DataFrame({"id": pd.array([2**53, 2**53 + 1, None] * 20, "Int64"), "b": ["x", "y", "x"] * 20})
    for X in (large, pl.from_pandas(large), pa.Table.from_pandas(large), large.to_numpy()):
        model = model_of(X)
        assert model.columns_.labels(model.columns_.names[0]) == (2**53, 2**53 + 1)
        assert as_lists(model.impute(X))[:2] == [[2**53, "x"], [2**53 + 1, "y"]]


def test_a_number_that_marks_missing_cells_does_so_among_text() -> None:
    marked = [["y", -1], ["n", "y"], [-1, "n"]] * 20
    plain = [[None if cell == -1 else cell for cell in row] for row in marked]
    assert Columns.learned(marked) == Columns.learned(plain)
    assert_array_equal(model_of(marked).score_samples(marked), model_of(plain).score_samples(plain))


def test_rows_keep_their_index_and_a_target_need_not_be_there() -> None:
    frame = pandas_frame().set_axis(np.arange(300) * 10)
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5).fit(frame)
    proba = model.predict_proba(frame[5:8], "colour")
    assert proba.to_pandas().index.tolist() == [50, 60, 70]
    assert model.posterior(frame[5:8])["h"].states[0] == [50, 60, 70]
    for X in (frame, polars_frame(), arrow_table()):
        without = X.drop(columns="colour") if isinstance(X, pd.DataFrame) else None
        without = X.drop("colour") if isinstance(X, pl.DataFrame) else without
        without = X.drop_columns("colour") if without is None else without
        assert_array_equal(model.predict_proba(without, "colour"), model.predict_proba(X, "colour"))


def test_evidence_is_given_as_the_user_has_it() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"age": pd.cut(random.normal(size=100), 3), "b": random.integers(0, 2, 100)})
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5).fit(frame)
    interval = frame["age"].iloc[0]
    assert set(model.sample(5, seed=0, given={"age": interval})["age"]) == {str(interval)}
    numbers = frame.assign(age=random.normal(size=100))
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, max_iter=5, numeric="quantiles").fit(numbers)
    name = model.columns_.labels("age")[0]
    lowest = model.conditional(["b"], given={"age": numbers["age"].min()})
    for low in (name, -(10**400), -1e9):
        assert_array_equal(model.conditional(["b"], given={"age": low}), lowest)
    with pytest.raises(et.DataError, match="row 1 is None, others are words"):
        Columns.learned(["ab", None])
    for categories in (iter("ab"), frame):
        with pytest.raises(et.DataError, match="categories of 'each column' are a list of labels"):
            Columns.learned(frame, ReadOptions(categories))


@pytest.mark.parametrize("whole", [False, True])
def test_a_number_that_is_given_is_sampled_as_it_is(whole: bool) -> None:
    random = np.random.default_rng(0)
    ages = random.integers(18, 290, 400) if whole else random.normal(50, 10, 400)
    frame = pd.DataFrame({"age": ages, "b": random.integers(0, 2, 400)})
    model = et.EMJunctionTree(et.zoo.Mixture(2), numeric="quantiles", random_state=0, max_iter=3).fit(frame)
    given_age = 40 if whole else 41.25
    rows = model.sample(20, random_state=0, given={"age": given_age})
    assert rows["age"].tolist() == [given_age] * 20
    assert rows["age"].dtype == model.sample(20, random_state=0)["age"].dtype
    inside = model.columns_.labels("age")[3]
    assert len(set(model.sample(20, random_state=0, given={"age": inside})["age"])) > 1
    for number in (-1, 1_000, float("inf")):
        with pytest.raises(et.DataError, match=r"'age' is given as .*, but has numbers from \d+.* to \d+"):
            model.sample(1, given={"age": number})
