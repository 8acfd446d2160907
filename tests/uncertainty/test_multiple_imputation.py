"""Multiple imputation: what is known stays, what differs is what is uncertain, and Rubin's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t

import eigentree as et
from benchmarks import multiple_imputation as experiment
from eigentree.errors import DataError, ParameterError
from eigentree.uncertainty.bootstrap import Resampling
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.multiple_imputation import halved

RANDOM = np.random.default_rng(0)
ROWS = 300


def people() -> pd.DataFrame:
    classes = RANDOM.integers(0, 2, ROWS)
    items = np.where(RANDOM.random((ROWS, 3)) < np.where(classes, 0.85, 0.2)[:, None], "yes", "no")
    table = pd.DataFrame(items, columns=list("abc")).assign(z=RANDOM.normal(size=ROWS) + 2.0 * classes)
    return table.mask(RANDOM.random(table.shape) < 0.2)


TABLE = people()
MODEL = et.LatentClassModel(2, random_state=0).fit(TABLE)
COMPLETED = et.multiple_imputation(MODEL, TABLE, m=20, random_state=0)


def test_known_cells_stay_and_missing_ones_are_filled_in_the_same_form() -> None:
    assert len(COMPLETED) == 20
    for table in COMPLETED[:3]:
        assert list(table.columns) == list(TABLE.columns)
        assert not table.isna().any(axis=None)
        assert table.mask(TABLE.isna()).equals(TABLE)
    again = et.multiple_imputation(MODEL, TABLE, m=2, random_state=0)
    assert again[1].equals(et.multiple_imputation(MODEL, TABLE, m=2, random_state=0)[1])
    assert not again[0].equals(again[1])


def test_cells_are_filled_as_often_as_is_probable() -> None:
    missing = TABLE.a.isna()
    expected = np.asarray(MODEL.predict_proba(TABLE, "a"))[missing, 1]
    filled = np.mean([(table.a[missing] == "yes").mean() for table in COMPLETED])
    error = np.sqrt((expected * (1 - expected)).sum()) / missing.sum() / np.sqrt(20)
    assert abs(filled - expected.mean()) < 5 * error + 0.03, "beside that of parameters"


def test_tables_differ_more_than_samples_of_one_model_since_parameters_are_uncertain() -> None:
    # Where most cells of a column are missing, its mean is that of the parameters.
    few = TABLE.assign(z=TABLE.z.where(np.arange(ROWS) < 40))
    model = et.LatentClassModel(2, tol=1e-5, random_state=0).fit(few)
    drawn = et.multiple_imputation(model, few, m=15, random_state=1)
    same = [model.impute(few, "sample", random_state=seed) for seed in range(15)]
    spread, within = (np.std([table.z.mean() for table in each], ddof=1) for each in (drawn, same))
    assert spread > 1.5 * within


def test_words_and_sequences_and_averages_are_completed_too() -> None:
    words = [
        [None if cell is None or cell != cell else cell for cell in row] for row in TABLE[list("abc")].to_numpy()
    ]
    auto = et.EMJunctionTree(random_state=0).fit(words)
    for table in et.multiple_imputation(auto, words, m=2, random_state=0):
        cells = [pair for row, old in zip(table, words, strict=True) for pair in zip(row, old, strict=True)]
        assert all(cell == given for cell, given in cells if given)
        assert all(cell is not None for cell, _ in cells)
    steps = [[0, 1, -1, 1, 0], [1, 1, 0], [0, -1, -1, 1]] * 10
    hmm = et.HMM(2, n_init=1, random_state=0).fit(steps)
    for each in et.multiple_imputation(hmm, steps, m=2, random_state=0):
        flat = [cell for sequence in each for cell in sequence]
        assert set(flat) <= {0, 1}
        assert all(a == b for a, b in zip(flat, np.concatenate(steps), strict=True) if b >= 0)


def test_half_of_the_units_of_each_stratum_varies_as_a_bootstrap_sample_does() -> None:
    weights = np.ones(60)
    random = np.random.default_rng(0)
    values = random.normal(size=60)
    plain = Resampling.of(weights)
    means = [np.average(values, weights=halved(plain, random)) for _ in range(4000)]
    assert np.var(means) == pytest.approx(values.var(ddof=1) / 60, rel=0.1)
    parts = halved(Resampling.of(np.full(60, 0.5)), random)
    assert sorted(parts.tolist()) == [0.0] * 30 + [0.5] * 30
    strata, clusters = np.repeat([0, 1], 30), np.repeat(np.arange(15), 4)
    found = halved(Resampling.of(weights * 2.0, clusters[np.argsort(clusters)], strata), random)
    assert set(found.tolist()) == {0.0, 2.0}
    for cluster in range(15):
        for stratum in (0, 1):
            assert len(set(found[(clusters == cluster) & (strata == stratum)])) <= 1
    assert 24 <= found[strata == 0].sum() <= 36


# Rubin's rules


def test_pooled_estimates_are_those_of_the_textbook() -> None:
    values, errors = np.array([10.0, 12.0, 11.0, 13.0]), np.array([1.0, 1.2, 0.9, 1.1])
    within, between = np.mean(errors**2), np.var(values, ddof=1)
    total = within + 1.25 * between
    share = 1.25 * between / total
    old = 3 / share**2
    found = et.pool(values, errors)
    assert_allclose(found.values, [11.5])
    assert_allclose(found.vcov(), [[total]])
    assert_allclose(found.df, [old])
    assert_allclose(found.confint()[0], 11.5 + t.ppf([0.025, 0.975], old) * np.sqrt(total))
    ratio = 1.25 * between / within
    assert_allclose(found.missing_information, [(ratio + 2 / (old + 3)) / (ratio + 1)])
    # Barnard and Rubin: with few complete-data degrees of freedom there are fewer.
    observed = 31 / 33 * 30 * (1 - share)
    small = et.pool(values, errors, df=30)
    assert_allclose(small.df, [1 / (1 / old + 1 / observed)])
    assert small.df[0] < 30
    assert_allclose(et.pool(values, errors, df=1e12).df, [old])


def test_estimates_that_are_all_the_same_are_those_of_complete_data() -> None:
    found = et.pool([[0.5, 2.0]] * 4, [[0.1, 0.3]] * 4, df=20)
    assert_allclose(found.standard_errors, [0.1, 0.3])
    assert_array_equal(found.missing_information, [0.0, 0.0])
    assert_allclose(found.df, 21 / 23 * 20)
    assert np.isinf(et.pool([0.5] * 3, [0.1] * 3).df).all()


def test_covariances_scales_and_labels_are_pooled_with_estimates() -> None:
    covariance = np.array([[0.04, 0.01], [0.01, 0.02]])
    values = np.array([[0.5, 0.2], [0.6, 0.3], [0.4, 0.35]])
    each = [
        Estimates([("a",), ("b",)], own, covariance * scale, ("item",), ("logit", "identity"))
        for own, scale in zip(values, (1.0, 2.0, 3.0), strict=True)
    ]
    found = et.pool(each)
    assert_allclose(found.vcov(), covariance * 2.0 + 4 / 3 * np.cov(values, rowvar=False))
    assert found.scales == ("logit", "identity")
    assert ((found.confint()[0] > 0) & (found.confint()[0] < 1)).all()
    assert found.part(item="b").values.tolist() == [pytest.approx(values[:, 1].mean())]
    assert "missing info" in repr(found)
    assert "missing info" in found.to_markdown()


def test_nothing_is_said_of_what_has_no_standard_error() -> None:
    covariance = np.array([[0.04, np.nan], [np.nan, np.nan]])
    each = [Estimates([("a",), ("b",)], np.array([own, own]), covariance, ("item",)) for own in (0.5, 0.6)]
    found = et.pool(each)
    assert np.isnan(found.missing_information).tolist() == [False, True]
    assert np.isnan(found.confint()).any(axis=1).tolist() == [False, True]
    assert repr(found).splitlines()[-1].split() == ["b", "0.5500"]


def test_results_of_statsmodels_are_pooled_with_their_names() -> None:
    fits = [sm.OLS(table.z, sm.add_constant((table.a == "yes").astype(float))).fit() for table in COMPLETED]
    found = et.pool(fits, df=ROWS - 2)
    assert found.labels == [("const",), ("a",)]
    assert_allclose(found.values, np.mean([fit.params for fit in fits], axis=0))
    by_hand = et.pool([fit.params.to_numpy() for fit in fits], [fit.bse.to_numpy() for fit in fits], df=ROWS - 2)
    assert_allclose(found.standard_errors, by_hand.standard_errors)
    assert (found.missing_information > 0.02).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: et.pool([1.0, 2.0]), ParameterError, "need standard_errors"),
        (lambda: et.pool([1.0], [0.1]), DataError, "estimates of 1 table"),
        (lambda: et.pool([1.0, 2.0], [0.1]), DataError, r"of one shape"),
        (lambda: et.pool([1.0, 2.0], [0.1, -0.1]), DataError, "not negative"),
        (lambda: et.pool([1.0, 2.0], [0.1, 0.1], df=0), ParameterError, "df is a positive number"),
        (lambda: et.pool(["a", "b"], [0.1, 0.1]), DataError, "are numbers"),
        (lambda: et.pool([]), ParameterError, "need standard_errors"),
        (lambda: et.multiple_imputation(MODEL, TABLE, m=1), ParameterError, "m is a whole number of at least 2"),
        (
            lambda: et.multiple_imputation(et.LatentClassModel(2), TABLE),
            ParameterError,
            "the model is a fitted Lat",
        ),
        (lambda: et.multiple_imputation(3, TABLE), ParameterError, "the model is a fitted LatentClassModel"),
    ],
)
def test_what_makes_no_sense_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_estimates_of_different_quantities_are_not_pooled() -> None:
    one, other = (Estimates([(name,)], np.ones(1), np.eye(1), ("item",)) for name in "ab")
    with pytest.raises(ParameterError, match="different quantities"):
        et.pool([one, other])
    z = COMPLETED[0].z.astype(float)
    fits = [sm.OLS(z, pd.DataFrame({name: np.ones(ROWS)})).fit() for name in "ab"]
    with pytest.raises(ParameterError, match="different quantities"):
        et.pool(fits)
    assert et.pool(fit for fit in fits[:1] * 2).labels == [("a",)]


# The benchmark, small


def test_the_population_of_the_benchmark_is_what_it_samples() -> None:
    large = experiment.sampled(np.random.default_rng(0), 200_000)
    for name, found in experiment.estimated(large).items():
        assert abs(found.value - experiment.truth()[name]) < 4 * found.error, name
    missing = experiment.amputed(large.head(2_000), np.random.default_rng(1)).isna().mean()
    assert_allclose(missing[["a", "y"]], experiment.MISSING, atol=0.01)


def test_the_benchmark_gives_intervals_of_every_method() -> None:
    found = experiment.coverage(experiment.latent_classes, 1, 150, 2)
    assert "2 imputations" in found
    for each in found.values():
        assert set(each) == set(experiment.truth())
        assert all(length > 0 for _, _, length in each.values())


def test_standard_errors_of_text_are_no_numbers() -> None:
    for estimates, errors in (([1.0, 2.0], ["a", "b"]), (["a", "b"], [1.0, 2.0])):
        with pytest.raises(et.DataError, match="estimates and standard_errors are numbers of one shape"):
            et.pool(estimates, np.array(errors))
