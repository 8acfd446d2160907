"""The imputer: what a model fills in, as a step of any pipeline, in whatever is asked for."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import MissingIndicator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import get_tags

import eigentree as et

CODES = et.LatentNetwork.random(et.zoo.mixture(4, 2, [3, 2, 3, 2]), concentration=0.3, seed=25).sample(200, seed=1)
HOLED = np.where(np.random.default_rng(0).random(CODES.shape) < 0.15, -1, CODES)
HOLED[0] = [-1, 1, 2, 0]
CLASSES = np.array(["no", "yes"])[CODES[:, 3]]
LABELS = (("blue", "green", "red"), ("no", "yes"), ("l", "m", "s"), (5, 9))
LISTS = [[None if code < 0 else LABELS[place][code] for place, code in enumerate(row)] for row in HOLED.tolist()]
FRAME = pd.DataFrame(LISTS, columns=["colour", "happy", "size", "age"], index=np.arange(200) * 3)
EM = et.EMJunctionTree(et.zoo.Mixture(2), init="random", n_init=1, max_iter=50, pseudo_counts=0.1, random_state=0)
ESTIMATORS = [
    et.SpectralJunctionTree(et.zoo.Mixture(2)),
    EM,
    et.OnlineEMJunctionTree(et.zoo.Mixture(2), passes=1, random_state=0),
]


@pytest.fixture(params=ESTIMATORS, ids=lambda each: type(each).__name__)
def estimator(request: pytest.FixtureRequest) -> Any:
    return clone(request.param)


def imputer(**settings: Any) -> et.JunctionTreeImputer:
    return et.JunctionTreeImputer(EM, **settings)


# What is filled in


@pytest.mark.parametrize("method", ["mode", "sample"])
def test_it_fills_in_what_its_estimator_does(estimator: Any, method: str) -> None:
    made = et.JunctionTreeImputer(estimator, method, random_state=3)
    for rows in (HOLED, np.where(HOLED < 0, np.nan, HOLED), LISTS):
        own = clone(estimator).fit(rows)
        assert made.fit(rows) is made
        assert_array_equal(made.transform(rows), own.impute(rows, method, seed=3))
        assert_array_equal(made.fit_transform(rows), made.transform(rows))
        assert (made.transform(HOLED) if rows is HOLED else made.transform(rows)).shape == CODES.shape
    assert not hasattr(estimator, "graph_"), "what was given stays unfitted"
    assert made.n_features_in_ == 4
    assert not hasattr(made, "feature_names_in_")


@pytest.mark.parametrize("frame", [FRAME, pl.DataFrame(LISTS, schema=list(FRAME), orient="row"), None])
def test_frames_come_back_as_frames_in_the_order_of_the_fit(frame: Any) -> None:
    frame = pa.Table.from_pandas(FRAME, preserve_index=False) if frame is None else frame
    made = imputer().fit(frame)
    filled = made.transform(frame)
    assert type(filled) is type(frame)
    turned = frame.select(list(FRAME)[::-1]) if hasattr(frame, "select") else frame[list(FRAME)[::-1]]
    again = made.transform(turned)
    assert again.equals(filled), "columns are found by name, and come as in the fit"
    assert list(made.feature_names_in_) == list(made.get_feature_names_out()) == list(FRAME)
    if isinstance(frame, pd.DataFrame):
        assert_array_equal(filled.index, frame.index)


def test_words_are_filled() -> None:
    words = ["ACGT", "ACGA", "TCGT", "TTTT"] * 10
    made = et.JunctionTreeImputer(clone(EM).set_params(handle_unknown="missing")).fit(words)
    filled = made.transform(["AC?T", "????"])
    assert [len(set(word) - set("ACGT")) for word in filled] == [0, 0]
    shown = made.set_output(transform="pandas").transform(["AC?T"])
    assert list(shown.columns) == ["x0", "x1", "x2", "x3"]
    assert "".join(shown.iloc[0]) == filled[0]


def test_weights_are_repeated_rows() -> None:
    weights = np.random.default_rng(0).integers(0, 4, len(HOLED))
    spectral = et.JunctionTreeImputer(ESTIMATORS[0])
    weighted = spectral.fit(HOLED, sample_weight=weights).transform(HOLED)
    assert_array_equal(spectral.fit(np.repeat(HOLED, weights, axis=0)).transform(HOLED), weighted)
    piped = make_pipeline(spectral).fit_transform(HOLED, junctiontreeimputer__sample_weight=weights)
    assert_array_equal(piped, weighted)


def test_by_default_a_table_of_anything_is_filled() -> None:
    random = np.random.default_rng(0)
    frame = FRAME.assign(income=np.where(random.random(200) < 0.1, np.nan, random.normal(size=200)))
    frame = frame.iloc[:60]
    made = et.JunctionTreeImputer(random_state=0).fit(frame)
    filled = made.transform(frame)
    assert filled.notna().all(axis=None)
    known = frame.notna()
    assert (filled.astype(object).where(known, 0) == frame.astype(object).where(known, 0)).all(axis=None)
    odd = frame.iloc[:1].assign(happy="perhaps")
    assert made.transform(odd)["happy"].item() in ("no", "yes"), "what was never seen is as good as missing"
    again = et.JunctionTreeImputer(random_state=0).fit_transform(frame)
    pd.testing.assert_frame_equal(again, filled)
    assert made.estimator is None


def test_imputation_is_better_than_the_mode_of_each_column() -> None:
    hidden = HOLED < 0
    filled = et.JunctionTreeImputer(et.EMJunctionTree(et.zoo.Mixture(2), random_state=0)).fit_transform(HOLED)
    modes = np.array([np.bincount(HOLED[HOLED[:, place] >= 0, place]).argmax() for place in range(4)])
    assert (filled == CODES)[hidden].mean() > (modes == CODES)[hidden].mean() + 0.05


# Containers


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("kind", ["codes", "lists", "pandas", "polars", "pyarrow", "unnamed"])
def test_output_is_set(library: str, kind: str) -> None:
    rows: Any = {
        "codes": HOLED,
        "lists": LISTS,
        "pandas": FRAME,
        "polars": pl.DataFrame(LISTS, schema=list(FRAME), orient="row"),
        "pyarrow": pa.Table.from_pandas(FRAME, preserve_index=False),
        "unnamed": pd.DataFrame(HOLED),
    }[kind]
    made = imputer().fit(rows)
    plain = made.transform(rows)
    wanted = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    assert made.set_output(transform=library) is made
    for again in (made, pickle.loads(pickle.dumps(made)), clone(made).fit(rows)):
        filled = again.set_output().transform(rows)
        assert isinstance(filled, wanted)
        assert list(filled.columns) == list(made.get_feature_names_out())
        cells = plain.to_pandas() if kind in ("polars", "pyarrow") else plain
        assert np.asarray(filled, object).tolist() == np.asarray(cells, object).tolist()
    if (library, kind) == ("pandas", "pandas"):
        assert_array_equal(made.transform(rows).index, rows.index)
    if kind == "lists" and library == "pandas":
        assert made.transform(rows)["x3"].dtype == np.int64, "a column of numbers is one"
    made.set_output(transform="default")
    assert type(made.transform(rows)) is type(plain)
    with sklearn.config_context(transform_output=library):
        assert type(made.transform(rows)) is type(plain), "what is set here comes first"
        assert isinstance(imputer().fit_transform(rows), wanted)


# Pipelines


@pytest.mark.parametrize("encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()], ids=repr)
@pytest.mark.parametrize("rows", [FRAME, np.array(LISTS, object)], ids=["frame", "array"])
def test_before_an_encoder_and_a_classifier(rows: Any, encoder: Any) -> None:
    # A fold may have labels that the others do not have.
    lenient = et.JunctionTreeImputer(clone(EM).set_params(handle_unknown="missing"))
    piped = make_pipeline(lenient, encoder, LogisticRegression())
    assert cross_val_score(piped, rows, CLASSES, cv=3).mean() > 0.8
    search = GridSearchCV(
        piped, {"junctiontreeimputer__estimator__structure__hidden_states": [1, 2]}, cv=2, error_score="raise"
    ).fit(rows, CLASSES)
    chosen = search.best_params_["junctiontreeimputer__estimator__structure__hidden_states"]
    assert search.best_estimator_[0].estimator_.graph_.states["h"] == chosen
    assert lenient.estimator.structure == et.zoo.Mixture(2), "what was given is as it was"


def test_names_go_through_pipelines() -> None:
    piped = make_pipeline(imputer(), OneHotEncoder()).fit(FRAME)
    assert list(piped.get_feature_names_out())[:3] == ["colour_blue", "colour_green", "colour_red"]
    after = make_pipeline(OrdinalEncoder(encoded_missing_value=-1), imputer()).fit(FRAME)
    assert list(after.get_feature_names_out()) == list(FRAME), "columns without names are called as they were"


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_some_columns_of_a_frame(output: str) -> None:
    mixed = FRAME.assign(weight=np.linspace(0, 1, 200))
    transformer = ColumnTransformer(
        [("filled", imputer(), ["size", "colour", "happy"])], remainder="passthrough"
    ).set_output(transform=output)
    found = transformer.fit_transform(mixed)
    assert found.shape == (200, 5)
    alone = imputer().fit_transform(FRAME[["size", "colour", "happy"]])
    cells = found.to_numpy() if output != "default" else found
    assert np.asarray(cells, object)[:, :3].tolist() == alone.to_numpy().tolist()
    names = ["filled__size", "filled__colour", "filled__happy", "remainder__age", "remainder__weight"]
    assert list(transformer.get_feature_names_out()) == names
    if output != "default":
        assert list(found.columns) == names


def test_beside_other_transformers() -> None:
    rows = np.where(HOLED < 0, np.nan, HOLED)
    union = make_union(imputer(), MissingIndicator(features="all"))
    assert isinstance(union, FeatureUnion)
    found = union.fit_transform(rows)
    assert_array_equal(found[:, :4], imputer().fit_transform(rows))
    assert_array_equal(found[:, 4:], np.isnan(rows))
    assert list(union.get_feature_names_out())[:2] == ["junctiontreeimputer__x0", "junctiontreeimputer__x1"]
    encoded = make_column_transformer((make_pipeline(imputer(), OneHotEncoder()), ["colour", "size"]))
    assert encoded.fit_transform(FRAME).shape == (200, 6)


# Manners


def test_it_is_a_transformer() -> None:
    tags = get_tags(imputer())
    assert tags.estimator_type is None
    assert tags.transformer_tags is not None
    assert (tags.input_tags.allow_nan, tags.input_tags.categorical, tags.input_tags.string) == (True, True, True)
    assert not tags.target_tags.required
    assert [
        get_tags(et.JunctionTreeImputer(EM, method, seed)).non_deterministic
        for method, seed in (("mode", None), ("sample", None), ("sample", 3))
    ] == [False, True, False]
    assert repr(et.JunctionTreeImputer()) == "JunctionTreeImputer()"
    assert imputer().get_params()["estimator__structure__hidden_states"] == 2


def test_errors_say_what_is_wrong() -> None:
    for ask in (lambda: imputer().transform(HOLED), lambda: imputer().get_feature_names_out()):
        with pytest.raises(NotFittedError, match="JunctionTreeImputer instance is not fitted yet"):
            ask()
    with pytest.raises(et.ParameterError, match="estimator is a SpectralJunctionTree, an EMJunctionTree or an"):
        et.JunctionTreeImputer(3).fit(HOLED)
    for structure in ("auto", et.zoo.Mixture(2)):
        with pytest.raises(et.ParameterError, match=r"a structure is wrapped, as in EMJunctionTree\(['M]"):
            et.JunctionTreeImputer(structure).fit(HOLED)
    with pytest.raises(et.ParameterError, match="method is 'mode', 'mean', 'median' or 'sample', not 'most'"):
        imputer(method="most").fit(HOLED)
    with pytest.raises(et.ParameterError, match=r"transform is 'default', .* or None, not 'dask'"):
        imputer().set_output(transform="dask")
    made = imputer().fit(FRAME)
    with pytest.raises(et.DataError, match="input_features is not equal to feature_names_in_"):
        made.get_feature_names_out(["a", "b", "c", "d"])
    with pytest.raises(et.DataError, match=r"length equal to number of features \(4\), got 1"):
        made.get_feature_names_out(["a"])
    with pytest.raises(et.DataError, match="input_features is a list of names, not 5"):
        made.get_feature_names_out(5)
    with pytest.raises(et.DataError, match="the frame has no column 'size'"):
        made.transform(FRAME.drop(columns="size"))
    with pytest.raises(et.DataError, match="X has 3 features, but eigentree is expecting 4 features as input"):
        made.transform(np.array(LISTS, object)[:, :3])
    before = dict(vars(made))
    with pytest.raises(et.DataError, match="the data have no rows"):
        made.fit(FRAME.iloc[:0])
    assert vars(made) == before, "a fit that fails changes nothing"


def test_a_failed_fit_transform_leaves_the_imputer_unfitted() -> None:
    made = imputer()
    with pytest.raises(et.DataError, match="in memory"):
        made.fit_transform(iter([HOLED]))
    assert not made.__sklearn_is_fitted__()


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dates_of_any_unit_are_handed_out_as_frames(library: str, kind: str, unit: str) -> None:
    days = np.random.default_rng(0).integers(0, 30, (40, 2)).astype(f"{kind}[D]").astype(f"{kind}[{unit}]")
    imputer = et.JunctionTreeImputer(et.EMJunctionTree(et.zoo.Mixture(2), max_iter=2, random_state=0))
    frame = imputer.set_output(transform=library).fit_transform(days)
    assert_array_equal(frame.to_numpy().astype(f"{kind}[ns]"), days.astype(f"{kind}[ns]"))
