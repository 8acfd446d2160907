"""Likelihood-ratio tests: against scipy, their size where the small model is true, and when they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, chi2_contingency

import eigentree as et
from benchmarks.blrt import ITEMS, Truth, p_value
from eigentree.errors import ParameterError
from eigentree.messages import kept_notices

QUICK: dict[str, Any] = {"init": "random", "n_init": 2, "random_state": 0}


def test_chi_squared_test_of_independence_is_scipys() -> None:
    """Two columns: the independence model against all their joint probabilities."""
    table = np.array([[20, 15, 5], [10, 25, 25]])
    rows = np.argwhere(table >= 0)
    counts = table.ravel()
    settings: dict[str, Any] = {"pseudo_counts": 0, "random_state": 0}
    apart = et.EMJunctionTree(et.zoo.mixture(2, 1, (2, 3)), **settings)
    edge = et.LatentGraph({"x0": 2, "x1": 3}, [("x0", "x1")], [], directed=True)
    small, large = (each.fit(rows, sample_weight=counts) for each in (apart, et.EMJunctionTree(edge, **settings)))
    found = et.likelihood_ratio_test(small, large, rows, sample_weight=counts)
    expected = chi2_contingency(table, lambda_="log-likelihood")
    assert found.df == expected.dof
    assert_allclose([found.statistic, found.p_value], [expected.statistic, expected.pvalue])


def test_a_covariate_is_tested_beside_the_model_without_it() -> None:
    random = np.random.default_rng(0)
    age = random.normal(size=200)
    classes = random.random(200) < 1 / (1 + np.exp(-2 * age))
    items = {f"q{k}": (random.random(200) < np.where(classes, 0.9, 0.1)).astype(str) for k in range(4)}
    table = pandas.DataFrame(items | {"age": age})
    # A row without all covariates is left out of a fit, and of the test.
    whole, table = table, pandas.concat([table, table[:1].assign(age=np.nan)])
    without, model = (
        et.LatentClassModel(2, covariates=own, random_state=0).fit(whole[[*items, *own]]) for own in ([], ["age"])
    )
    found = et.likelihood_ratio_test(without, model, table)
    both = model.score_samples(whole).sum() - without.score_samples(whole[[*items]]).sum()
    assert found.df == 1
    assert_allclose([found.statistic, found.p_value], [2 * both, chi2.sf(2 * both, 1)])
    assert found.p_value < 1e-6
    with pytest.raises(ParameterError, match="covariates are not sampled"):
        et.bootstrap_likelihood_ratio_test(without, model, table)


def test_p_values_are_uniform_where_the_small_model_is_true() -> None:
    """With 9 replicates they are 1 / 10, …, 10 / 10, each as often as the others."""
    random = np.random.default_rng(0)
    found = []
    for number in range(14):
        rows = random.integers(0, 2, (60, 3))
        one, two = (et.LatentClassModel(k, **QUICK).fit(rows) for k in (1, 2))
        test = et.bootstrap_likelihood_ratio_test(
            one, two, rows, n_replicates=9, max_exceedances=None, random_state=number
        )
        found.append(test.p_value)
    assert_allclose(np.array(found) * 10, np.rint(np.array(found) * 10))
    # The mean of 14 such is 0.55 with the standard error 0.08.
    assert 0.35 < np.mean(found) < 0.75
    assert min(found) < 0.3
    assert max(found) > 0.7


def test_a_test_that_ends_early_decides_as_all_replicates_do() -> None:
    """The tenth of 199 that is as large makes p larger than 5 %, whatever the others are."""
    random = np.random.default_rng(1)
    share = np.where(random.random((80, 1)) < 0.5, 0.3, 0.75)
    rows = (random.random((80, 3)) < share).astype(int)
    one, two = (et.LatentClassModel(k, **QUICK).fit(rows) for k in (1, 2))
    whole, early = (
        et.bootstrap_likelihood_ratio_test(one, two, rows, n_replicates=39, max_exceedances=most, random_state=0)
        for most in (None, 2)
    )
    assert whole.n_replicates == 39
    assert whole.p_value == (1 + (whole.replicates >= whole.statistic).sum()) / 40
    assert_array_equal(early.replicates, whole.replicates[: early.n_replicates])
    exceeding = (early.replicates >= early.statistic).sum()
    assert (early.p_value <= 0.05) == (whole.p_value <= 0.05)
    assert exceeding <= 2
    if early.n_replicates < 39:
        assert early.p_value == 2 / early.n_replicates
        assert early.replicates[-1] >= early.statistic


def test_a_test_that_ends_early_has_the_share_as_p_value() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (60, 3))
    one, two = (et.LatentClassModel(k, **QUICK).fit(rows) for k in (1, 2))
    tests = [
        et.bootstrap_likelihood_ratio_test(one, two, rows, max_exceedances=3, random_state=0, n_jobs=n)
        for n in (1, 2)
    ]
    assert tests[0].n_replicates < 199
    assert tests[0].p_value == 3 / tests[0].n_replicates
    assert_array_equal(tests[0].replicates, tests[1].replicates)
    assert f"3 of {tests[0].n_replicates} replicates are as large" in repr(tests[0])


def test_the_progress_of_a_test_is_how_many_replicates_are_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    @contextmanager
    def kept(*about: Any) -> Iterator[Any]:
        yield lambda done, value: shown.append((done, value))

    monkeypatch.setattr("eigentree.uncertainty.refits.shown_progress", kept)
    rows = np.random.default_rng(0).integers(0, 2, (60, 3))
    one, two = (et.LatentClassModel(k, **QUICK).fit(rows) for k in (1, 2))
    test = et.bootstrap_likelihood_ratio_test(one, two, rows, max_exceedances=2, random_state=0)
    as_large = np.cumsum(test.replicates >= test.statistic).tolist()
    assert shown == list(enumerate(as_large, start=1))
    assert as_large[-1] == 2


def test_one_state_of_an_hmm_is_rejected_where_there_are_two() -> None:
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("ab"), 8, p=[p, 1 - p])) for p in np.repeat([0.1, 0.9], 15)]
    one, two = (et.HMM(k, pseudo_counts=1e-6, **QUICK).fit(words) for k in (1, 2))
    test = et.bootstrap_likelihood_ratio_test(one, two, words, n_replicates=19, random_state=0)
    assert (test.p_value, test.n_replicates) == (0.05, 19)
    assert test.statistic == pytest.approx(2 * (two.score_samples(words).sum() - one.score_samples(words).sum()))


def test_the_benchmark_samples_classes_and_rejects_too_few() -> None:
    rows = Truth(3, 0.4, 3000).sampled(0)
    assert_allclose(rows.mean(axis=0), np.repeat([1.9 / 3, 1.1 / 3], ITEMS // 2), atol=0.04)
    assert p_value(Truth(2, 0.4, 40), 1, seed=0) == 1 / 40


def test_models_that_are_not_nested_are_refused() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (50, 3))
    one, two = (et.LatentClassModel(k, **QUICK).fit(rows) for k in (1, 2))
    with pytest.raises(ParameterError, match="give the small one first"):
        et.likelihood_ratio_test(two, one, rows)
    other = et.LatentClassModel(2, **QUICK).fit(pandas.DataFrame(rows, columns=["a", "b", "c"]))
    with pytest.raises(ParameterError, match="both models need the same columns"):
        et.likelihood_ratio_test(one, other, rows)
    stuck = et.LatentClassModel(2, **QUICK).fit((1 - rows)[:20])
    with pytest.warns(UserWarning, match=r"differ in their numbers of hidden states.* use bootstrap_likelihood"):
        assert et.likelihood_ratio_test(one, two, rows).df == 4
    with kept_notices() as told:
        et.likelihood_ratio_test(one, stuck, rows)
    assert "fit it with a larger n_init" in told[0][0]


@pytest.mark.parametrize("sizes", [(1, 2), (2, 3), ((2, 2), (2, 3))])
def test_the_chi_squared_test_warns_of_other_numbers_of_states_of_sequences(sizes: tuple[Any, Any]) -> None:
    words = ["abba", "baab", "aaab", "abab"] * 5
    small, large, other = (et.HMM(size, n_init=1, random_state=0).fit(words) for size in (*sizes, sizes[0]))
    with pytest.warns(UserWarning, match="numbers of hidden states"):
        et.likelihood_ratio_test(small, large, words)
    with pytest.raises(ParameterError, match="give the small one first"):
        et.likelihood_ratio_test(small, other, words)
