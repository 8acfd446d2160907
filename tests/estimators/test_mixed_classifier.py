"""Classifier and imputer of tables with numbers: Bayes' rule with densities, and conditional means."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import eigentree as et

STEPS: dict[str, Any] = {"init": "mixture", "n_init": 1, "max_iter": 5, "pseudo_counts": 0.1, "random_state": 0}
SMALL = et.EMJunctionTree(et.zoo.Mixture(2), **STEPS)
CHECKED = {
    "latent classes": et.LatentClassModel(**STEPS),
    "classifier": et.JunctionTreeClassifier(SMALL),
    # One check has classes that two states cannot tell apart.
    "class as a column": et.JunctionTreeClassifier(
        et.EMJunctionTree(et.zoo.Mixture(6), **STEPS), class_as="column"
    ),
    "imputer": et.JunctionTreeImputer(SMALL),
    "imputer of medians": et.JunctionTreeImputer(SMALL, method="median"),
}
SKIPPED = {"check_array_api_input"}
"""What scikit-learn itself leaves out."""


@pytest.mark.parametrize("name", CHECKED)
def test_scikit_learns_own_checks_pass_with_densities(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(CHECKED[name], on_fail=None, on_skip=None)
    assert len(results) > 45
    assert not {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"}
    assert {each["check_name"] for each in results if each["status"] == "skipped"} <= SKIPPED


def mixed(rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Rows of two numbers, a count and a colour in two classes that are called species; some cells are missing."""
    random = np.random.default_rng(seed)
    which = random.integers(0, 2, rows)
    table = pd.DataFrame(
        {
            "length": random.normal(3.0 * which, 1.0).round(2),
            "width": random.gamma(2.0 + which),
            "petals": pd.array(random.poisson(40 + 20 * which), "Int64"),
            "colour": np.array(["red", "blue", "white"])[(which + (random.random(rows) < 0.3)) % 3],
        }
    )
    for name in table:
        table.loc[random.random(rows) < 0.1, name] = None
    return table, pd.Series(np.array(["setosa", "virginica"])[which], name="species")


def test_one_state_for_each_class_is_gaussian_naive_bayes() -> None:
    X, y = load_wine(return_X_y=True)
    free = {"family": "gaussian", "prior_rows": 0.0}
    emissions = {f"x{place}": free for place in range(X.shape[1])}
    pattern = et.EMJunctionTree(et.zoo.Mixture(1), pseudo_counts=0.0, emissions=emissions, random_state=0)
    theirs = GaussianNB(var_smoothing=0.0).fit(X, y)
    ours = et.JunctionTreeClassifier(pattern).fit(X, y)
    assert_allclose(ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-9)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6, atol=1e-12)


def test_a_class_is_told_by_the_density_of_its_model() -> None:
    X, y = mixed()
    pattern = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, emissions={"width": "gamma"})
    model = et.JunctionTreeClassifier(pattern).fit(X, y)
    own = [et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, emissions={"width": "gamma"}) for _ in range(2)]
    for place, (label, prior) in enumerate(zip(model.classes_, model.class_prior_, strict=True)):
        # By itself each class has only some of the colours.
        found = own[place].set_params(categories={"colour": ["blue", "red", "white"]}).fit(X[y == label])
        joint = model.predict_joint_log_proba(X)[:, place]
        assert_allclose(joint, found.score_samples(X) + np.log(prior), rtol=1e-9)
    assert model.score(X, y) > 0.9
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)


def test_the_class_is_a_column_beside_numbers() -> None:
    X, y = mixed()
    known = y.mask(np.random.default_rng(0).random(len(y)) < 0.3)
    pattern = et.EMJunctionTree(et.zoo.Mixture(3), random_state=0, n_init=1)
    with pytest.warns(UserWarning, match="rows have no class"):
        model = et.JunctionTreeClassifier(pattern, class_as="column").fit(X, known)
    every = X.assign(species=None)
    joint = model.predict_joint_log_proba(X)
    assert_allclose(np.logaddexp.reduce(joint, axis=1), model.estimator_.score_samples(every), rtol=1e-9)
    assert_allclose(model.predict_proba(X), model.estimator_.predict_proba(every, "species"), rtol=1e-7, atol=1e-12)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("class_as", ["models", "column"])
def test_numbers_without_an_estimator(class_as: Any) -> None:
    for X, y in (load_iris(return_X_y=True), load_wine(return_X_y=True)):
        holed = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
        model = et.JunctionTreeClassifier(class_as=class_as, random_state=0)
        assert cross_val_score(model, holed, y, cv=3, error_score="raise").mean() > 0.9


def test_a_number_that_is_constant_in_a_class_rules_nothing_out() -> None:
    X, y = load_iris(return_X_y=True)
    X[y == 0, 3] = 0.2
    X[y == 1, 3] = np.nan
    model = et.JunctionTreeClassifier(et.EMJunctionTree(et.zoo.Mixture(2), random_state=0)).fit(X, y)
    assert np.isfinite(model.predict_joint_log_proba(X)).all()
    assert model.score(X, y) > 0.9


def test_numbers_get_their_mean_or_median_given_the_row() -> None:
    X, _ = mixed(200)
    pattern = et.EMJunctionTree(et.zoo.Mixture(3), random_state=0, n_init=1)
    model = pattern.fit(X)
    mean = et.JunctionTreeImputer(pattern).fit_transform(X)
    median = et.JunctionTreeImputer(pattern, method="median").fit_transform(X)
    for name in ("length", "width"):
        absent = X[name].isna()
        assert_allclose(mean[name][~absent], X[name][~absent])
        assert_allclose(mean[name][absent], model.predict(X, name)[absent], rtol=1e-9)
        middle = np.asarray(model.predict_quantiles(X, name, [0.5]))[:, 0]
        assert_allclose(median[name][absent], middle[absent], rtol=1e-9)
        assert (mean[name][absent] != median[name][absent]).all()
    for filled in (mean, median):
        assert filled.isna().sum().sum() == 0
        assert (filled.dtypes[["length", "width", "petals"]] == X.dtypes[["length", "width", "petals"]]).all()
    assert (mean["colour"] == median["colour"]).all()
    imputer = et.JunctionTreeImputer(pattern, method="sample").fit(X)
    drawn = [imputer.set_params(random_state=seed).transform(X)["length"] for seed in range(30)]
    absent = X["length"].isna()
    apart = np.mean(drawn, axis=0)[absent] - mean["length"][absent]
    assert abs(apart.mean()) < 4 * np.std(drawn, axis=0)[absent].mean() / np.sqrt(30 * absent.sum())


@pytest.mark.parametrize(("load", "rows"), [(load_iris, 60), (load_diabetes, 100)])
def test_arrays_are_filled_better_than_by_the_mean_of_columns(load: Any, rows: int) -> None:
    X = StandardScaler().fit_transform(load(return_X_y=True)[0])
    X = X[np.random.default_rng(1).permutation(len(X))[:rows]]
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    holed = np.where(hidden, np.nan, X)
    filled = et.JunctionTreeImputer(random_state=0).fit_transform(holed)
    assert filled.dtype == np.float64
    assert (filled[~hidden] == X[~hidden]).all()
    error = np.sqrt(np.mean((filled - X)[hidden] ** 2))
    by_mean = np.sqrt(np.mean((np.nanmean(holed, axis=0)[None] - X)[hidden] ** 2))
    assert error < by_mean


def test_pipelines_with_encoders() -> None:
    X, y = mixed()
    encoded = make_column_transformer(
        (OneHotEncoder(), ["colour"]), (StandardScaler(), ["length", "width", "petals"])
    )
    pipeline = make_pipeline(et.JunctionTreeImputer(SMALL), encoded, LogisticRegression())
    assert cross_val_score(pipeline, X, y, cv=3, error_score="raise").mean() > 0.9
    imputer = et.JunctionTreeImputer(SMALL).set_output(transform="pandas").fit(X.to_numpy(object))
    filled = imputer.transform(X.to_numpy(object))
    assert filled.columns.tolist() == ["x0", "x1", "x2", "x3"]
    assert filled.notna().all().all()
    assert imputer.fit(X).get_feature_names_out().tolist() == list(X)


def test_weights_are_repetitions() -> None:
    X, _ = mixed(120)
    times = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(X, sample_weight=times)
    repeated = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(X.loc[X.index.repeat(times)])
    assert weighted.history_.tolist() == repeated.history_.tolist()
    shuffled = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(X.sample(frac=1.0, random_state=1))
    assert (
        shuffled.history_.tolist() == et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(X).history_.tolist()
    )
