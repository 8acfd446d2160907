"""The bootstrap: against formulas, under relabelling and other orders, by clusters and by replicate weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.errors import DataError, ParameterError
from eigentree.uncertainty.bootstrap import Bootstrap, Resampling
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.refits import FittedModel

NETWORK = et.LatentNetwork.random(et.zoo.mixture(5, 2, (2, 3, 2, 2, 2)), random_state=3, concentration=0.5)
ROWS = NETWORK.sample(200, random_state=1)
WORDS = ["".join(word) for word in np.random.default_rng(0).choice(list("ab"), (30, 6), p=[0.3, 0.7])]


def fitted(classes: int = 2, **settings: Any) -> et.LatentClassModel:
    return et.LatentClassModel(classes, random_state=0, **settings).fit(ROWS)


def quantity(found: Bootstrap | Estimates, *label: object) -> int:
    return list(found.labels).index(label)


@pytest.mark.parametrize("weighted", [False, True])
def test_standard_errors_of_one_class_are_those_of_shares(weighted: bool) -> None:
    """The table of a column is its shares, whose standard error is √(p (1 - p) / n), also of weighted rows."""
    rows, counts = np.unique(ROWS, axis=0, return_counts=True) if weighted else (ROWS, None)
    found = et.bootstrap(fitted(1), rows, sample_weight=counts, n_replicates=300, random_state=0)
    shares = found.values
    expected = np.sqrt(shares * (1 - shares) / len(ROWS))
    # The standard deviation of 300 replicates has a standard error of 4 %.
    assert_allclose(found.standard_errors, expected, rtol=0.15, atol=1e-9)
    assert_allclose(found.replicates.mean(axis=0), shares, atol=4 * expected.max() / np.sqrt(300))


def test_standard_errors_agree_with_those_of_the_information_matrix() -> None:
    random = np.random.default_rng(0)
    rows = (random.random((300, 4)) < np.where(random.random((300, 1)) < 0.4, 0.85, 0.2)).astype(int)
    model = et.LatentClassModel(2, random_state=0).fit(rows)
    found, exact = et.bootstrap(model, rows, n_replicates=80, random_state=0), model.estimates()
    assert list(found.labels) == list(exact.labels)
    assert_allclose(found.standard_errors, exact.standard_errors, rtol=0.35)
    assert np.mean(found.standard_errors / exact.standard_errors) == pytest.approx(1.0, abs=0.1)


def test_intervals_are_quantiles_of_the_replicates() -> None:
    found = et.bootstrap(fitted(), ROWS, n_replicates=30, random_state=0)
    low, high = np.quantile(found.replicates, [0.05, 0.95], axis=0, method="weibull")
    assert_allclose(found.confint(0.9), np.stack([low, high], axis=1))
    assert_allclose(
        found.confint(0.9, "basic"), np.stack([2 * found.values - high, 2 * found.values - low], axis=1)
    )
    assert_allclose(found.confint(method="normal"), found.estimates.confint())
    assert_allclose(found.estimates.vcov(), np.cov(found.replicates, rowvar=False))
    assert_allclose(found.estimates.standard_errors, found.standard_errors)
    for wrong in ({"level": 95}, {"method": "bca"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            found.confint(**wrong)  # type: ignore[arg-type]


def test_a_frame_has_the_numbers_that_are_printed() -> None:
    found = et.bootstrap(fitted(), ROWS, n_replicates=5, random_state=0)
    frame = found.to_frame()
    assert list(zip(*(frame[name] for name in found.header), strict=True)) == list(found.labels)
    assert_allclose(frame[["lower", "upper"]], found.confint())
    assert_allclose(frame.std_error, found.standard_errors)


def test_replicates_do_not_depend_on_the_number_of_processes() -> None:
    one, two = (et.bootstrap(fitted(), ROWS, n_replicates=6, random_state=0, n_jobs=n) for n in (1, 2))
    assert_array_equal(one.replicates, two.replicates)


def test_classes_keep_their_numbers() -> None:
    """Fits that begin with the classes in another order have the same replicates, in that order."""
    model = fitted()
    turned = fitted(init=model.network_.relabelled({model.network_.graph.hidden[0]: [1, 0]}))
    assert_allclose(turned.class_weights_, model.class_weights_[::-1], atol=1e-3)
    one, other = (et.bootstrap(each, ROWS, n_replicates=8, random_state=0) for each in (model, turned))
    for labels in one.labels:
        swapped = tuple(str(label).translate(str.maketrans("01", "10")) for label in labels[-1:])
        table, state = (labels[0], labels[1]) if labels[-1] else (labels[0], 1 - int(str(labels[1])))
        place = quantity(other, table, state, *swapped)
        assert_allclose(other.replicates[:, place], one.replicates[:, quantity(one, *labels)], atol=2e-3)


def test_states_of_fresh_fits_are_matched_to_those_of_the_original() -> None:
    """Whatever order another fit has its states in, tables after matching are near the original ones."""
    model = et.EMJunctionTree(et.zoo.hmm(5, hidden_states=2, observed_states=2), random_state=0, pseudo_counts=0.1)
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (300, 1)) ^ (random.random((300, 5)) < 0.15)
    original = FittedModel.of(model.fit(rows), rows, None, None)
    hidden = model.network_.graph.hidden
    turned = {name: [1, 0] for name in hidden[::2]}
    other = et.EMJunctionTree(model.structure, pseudo_counts=0.1, init=model.network_.relabelled(turned)).fit(rows)
    matched = original.matched(other)
    for name, table in model.tables_.items():
        assert_allclose(matched.tables_[name], table, atol=5e-3)


def test_parametric_replicates_do_not_depend_on_the_order_of_rows() -> None:
    model = fitted()
    order = np.random.default_rng(1).permutation(len(ROWS))
    one, other = (
        et.bootstrap(model, rows, n_replicates=4, parametric=True, random_state=0) for rows in (ROWS, ROWS[order])
    )
    assert_allclose(one.replicates, other.replicates, atol=1e-9)


def test_parametric_samples_miss_the_same_cells_and_follow_the_model() -> None:
    random = np.random.default_rng(0)
    gaps = np.where(random.random(ROWS.shape) < 0.2, -1, ROWS)
    model = fitted().fit(gaps)
    data, weights = FittedModel.of(model, gaps, None, np.full(200, 2.0)).sampled(random)
    assert_array_equal(weights, np.ones(400))
    for place in range(5):
        assert_array_equal(data.missing(place), np.repeat(gaps[:, place] == -1, 2))
    hmm = et.HMM(2, random_state=0).fit(WORDS)
    words, _ = FittedModel.of(hmm, [*WORDS[:-1], "a"], None, None).sampled(random)
    assert_array_equal(words.lengths, [6] * 29 + [1])


def test_parametric_samples_keep_covariates() -> None:
    """Items are sampled given the covariates: classes that these make certain are those of the rows."""
    age = np.repeat([-1.0, 1.0], 100)
    items = {f"q{k}": np.where(age > 0, "yes", "no") for k in range(3)}
    items["q0"][:10] = "yes"
    table = pandas.DataFrame(items | {"age": age})
    table.loc[150, "age"] = np.nan
    with pytest.warns(UserWarning, match="left out"):
        model = et.LatentClassModel(2, covariates=["age"], random_state=0).fit(table)
    data, _ = FittedModel.of(model, table, None, None).sampled(np.random.default_rng(0))
    columns = data.columns
    place = columns.position("age")
    assert_array_equal(data.cells[place], table["age"])
    shown = data.encode()[:, columns.position("q1")]
    assert_array_equal(np.delete(shown == shown[-1], 150), np.delete(age > 0, 150))


def test_clusters_are_resampled_together_and_within_their_strata() -> None:
    # A cluster belongs to its stratum, whatever it is called in others.
    clusters, strata = np.repeat([0, 1, 2, 0, 1, 2], 5), np.repeat(["a", "b"], 15)
    own = Resampling.of(np.ones(30), clusters, strata)
    drawn = np.array([own.drawn(np.random.default_rng(seed)) for seed in range(400)])
    by_cluster = drawn.reshape(400, 6, 5)
    assert (by_cluster == by_cluster[:, :, :1]).all()
    assert (by_cluster[:, :3] != by_cluster[:, 3:]).any()
    # Of three clusters two are sampled, each with weight 3 / 2.
    assert_allclose(by_cluster[:, :3, 0].sum(axis=1), 3.0)
    assert_allclose(by_cluster[:, 3:, 0].sum(axis=1), 3.0)
    assert set(np.unique(drawn)) == {0.0, 1.5, 3.0}
    assert_allclose(drawn.mean(axis=0), 1.0, atol=0.15)
    alone = Resampling.of(np.ones(30), np.repeat(range(6), 5)).drawn(np.random.default_rng(0)).reshape(6, 5)
    assert alone[:, 0].sum() == 6


def test_variance_of_a_stratified_mean_is_that_of_the_textbook() -> None:
    """Σ over strata of W_h² s_h² / n_h, unbiased where strata have few clusters (Rao and Wu)."""
    rows = np.array([[0], [1], [1], [0], [0], [1], [0], [0]])
    strata = np.repeat([0, 1], 4)
    model = et.LatentClassModel(1, random_state=0).fit(rows)
    found = et.bootstrap(
        model, rows, lambda fit: fit.tables_["x0"][0, 1], strata=strata, n_replicates=500, random_state=0
    )
    variance = sum(0.25 * rows[strata == h, 0].var(ddof=1) / 4 for h in (0, 1))
    assert found.standard_errors[0] ** 2 == pytest.approx(variance, rel=0.25)


def test_replicate_weights_that_leave_out_each_row_are_the_jackknife() -> None:
    """The jackknife variance of a mean is s² / n, whatever the scale of the weights."""
    rows = ROWS[:40]
    model = et.LatentClassModel(1, random_state=0, pseudo_counts=0).fit(rows)
    weights = (1.0 - np.eye(40)) * 40 / 39
    found = et.replicate_variance(model, rows, weights)
    share = float((rows[:, 0] == 1).mean())
    error = found.standard_errors[quantity(found, "x0", 1, "h=0")]
    assert error == pytest.approx(np.sqrt(share * (1 - share) / 39))
    scaled = et.replicate_variance(model, rows, weights, scale=39 / 40)
    assert_allclose(found.vcov(), scaled.vcov())
    half = et.replicate_variance(model, rows, weights, kind="brr", rho=0.5)
    assert_allclose(half.vcov(), found.vcov() / 39 * 4, atol=1e-12)
    with pytest.raises(ParameterError, match="rho is Fay's"):
        et.replicate_variance(model, rows, weights, rho=0.5)
    with pytest.raises(DataError, match="replicate_weights has the shape"):
        et.replicate_variance(model, rows, weights[:, 0])


def test_any_statistic_and_names_of_columns() -> None:
    table = pandas.DataFrame(ROWS[:, :3], columns=["moment", "start", "term"]).astype(str)
    model = et.LatentClassModel(2, random_state=0).fit(table)
    found = et.bootstrap(model, table, n_replicates=2, random_state=0)
    assert quantity(found, "moment", "0", "h=0") < quantity(found, "start", "0", "h=0")
    assert set(found.scales) == {"logit"}
    named = et.bootstrap(
        model, table, lambda fit: {"shares": fit.class_weights_, "bic": fit.bic(table)}, n_replicates=2
    )
    assert [label for (label,) in named.labels] == ["shares[0]", "shares[1]", "bic"]
    with pytest.raises(ParameterError, match="a statistic returns"):
        et.bootstrap(model, table, lambda fit: "much")
    with pytest.raises(ParameterError, match="statistic is a function"):
        et.bootstrap(model, table, "mean")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="gives no number"):
        et.bootstrap(model, table, lambda fit: [])


def test_hidden_markov_models_have_intervals_of_every_table() -> None:
    numbers = np.random.default_rng(0).normal(size=(60, 1)) + np.repeat([0.0, 4.0], 30)[:, None]
    lengths = [10] * 6
    model = et.HMM(2, emissions="gaussian", random_state=0).fit(numbers, lengths=lengths)
    found = et.bootstrap(model, numbers, lengths=lengths, n_replicates=4, random_state=0)
    mean, std = (quantity(found, "x0", moment, "state=1") for moment in ("mean", "std"))
    assert_allclose(found.values[mean], model.means_[1, 0])
    assert_allclose(found.values[std], np.sqrt(model.covars_[1, 0, 0]))
    assert (found.scales[mean], found.scales[std]) == ("identity", "log")
    assert_allclose(found.replicates[:, mean], model.means_[1, 0], atol=1.5)
    pair = et.HMM((2, 2), order=1, random_state=0).fit(WORDS)
    assert len(et.bootstrap(pair, WORDS, n_replicates=2, random_state=0).values) == 4 + 8 + 8
    second = et.HMM(2, order=2, random_state=0).fit(WORDS)
    starts = [label for label in et.bootstrap(second, WORDS, n_replicates=2).labels if label[0] == "start"]
    assert len(starts) == 4


def test_what_cannot_be_resampled_is_said() -> None:
    model = fitted()
    with pytest.raises(DataError, match="one row or sequence"):
        et.bootstrap(model, ROWS[:1])
    with pytest.raises(DataError, match="one cluster"):
        et.bootstrap(model, ROWS, clusters=np.zeros(200))
    with pytest.raises(DataError, match="strata has no label for row 3"):
        et.bootstrap(model, ROWS, strata=["a"] * 3 + [None] + ["b"] * 196)
    with pytest.raises(ParameterError, match="leave clusters and strata out"):
        et.bootstrap(model, ROWS, parametric=True, clusters=range(200))
    with pytest.raises(ParameterError, match="multiply it"):
        et.bootstrap(model, ROWS, sample_weight=np.full(200, 1e-3))
    with pytest.raises(ParameterError, match="the model is a fitted LatentClassModel"):
        et.bootstrap(et.OnlineEMJunctionTree(et.zoo.Mixture(2)).fit(ROWS), ROWS)
    hmm = et.HMM(2, random_state=0, max_iter=2, n_init=1).fit(WORDS[:4], inputs=[list("0101")] * 4)
    with pytest.raises(DataError, match="with inputs"):
        et.bootstrap(hmm, WORDS[:4])


def test_a_replicate_that_fails_is_left_out_and_said() -> None:
    def picky(fit: Any) -> float:
        share = float(fit.class_weights_[0])
        if share > model.class_weights_[0]:
            raise DataError("too large")
        return share

    model = fitted()
    with pytest.warns(UserWarning, match=r"of 12 replicates failed and are left out: too large"):
        found = et.bootstrap(model, ROWS, picky, n_replicates=12, random_state=0)
    assert len(found.failed) + len(found.replicates) == 12
    assert found.failed
    assert "left out" in repr(found)
