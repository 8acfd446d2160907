"""Variances of survey designs: linearised, by replicate weights, and both as textbooks have them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import hadamard

import eigentree as et
from eigentree.errors import DataError, ParameterError

RANDOM = np.random.default_rng(0)
STRATA = np.repeat(["north", "south", "west"], [40, 60, 80])
CLUSTERS = np.concatenate([np.repeat(np.arange(count), 10) for count in (4, 6, 8)])
WEIGHTS = np.repeat([3.0, 1.0, 2.0], [40, 60, 80]) * RANDOM.uniform(0.5, 1.5, 180)
CHANCE = np.clip(0.5 + 0.3 * RANDOM.normal(size=18), 0.1, 0.9)
YES = (RANDOM.random(180) < np.repeat(CHANCE, 10)).astype(int)
ROWS = YES[:, None]
HOW = {"init": "random", "n_init": 1, "pseudo_counts": 0, "random_state": 0}


def proportion(weights: np.ndarray = WEIGHTS, rows: np.ndarray = ROWS) -> et.LatentClassModel:
    return et.LatentClassModel(1, **HOW).fit(rows, sample_weight=weights)


def share(model: et.LatentClassModel) -> float:
    return float(np.asarray(model.tables_["x0"])[0, 1])


def linearised(clusters: np.ndarray, strata: np.ndarray, weights: np.ndarray = WEIGHTS) -> float:
    """The textbook: residuals of the ratio, added up by cluster, and their variance in each stratum."""
    residuals = weights * (YES - np.average(YES, weights=weights)) / weights.sum()
    variance = 0.0
    for stratum in np.unique(strata):
        own = strata == stratum
        sums = np.array([residuals[own & (clusters == name)].sum() for name in np.unique(clusters[own])])
        variance += len(sums) * sums.var(ddof=1)
    return float(np.sqrt(variance))


@pytest.mark.parametrize("named", [CLUSTERS, np.arange(180)], ids=["clusters", "rows"])
def test_the_error_of_a_proportion_is_that_of_the_textbook(named: np.ndarray) -> None:
    clusters = None if named is not CLUSTERS else CLUSTERS
    found = proportion().estimates(clusters=clusters, strata=STRATA, statistic=share)
    assert_allclose(found.values, np.average(YES, weights=WEIGHTS))
    assert_allclose(found.standard_errors, linearised(named, STRATA), rtol=1e-5)


def test_one_stratum_is_none_and_names_of_clusters_are_those_of_their_stratum() -> None:
    model = proportion()
    one = model.estimates(clusters=np.arange(180) // 10, strata=np.zeros(180), statistic=share)
    none = model.estimates(clusters=np.arange(180) // 10, statistic=share)
    assert_allclose(one.standard_errors, none.standard_errors, rtol=1e-6)
    named = model.estimates(clusters=CLUSTERS, strata=STRATA, statistic=share)
    unique = model.estimates(clusters=np.arange(180) // 10, strata=STRATA, statistic=share)
    assert_allclose(named.standard_errors, unique.standard_errors, rtol=1e-12)
    assert named.standard_errors[0] != pytest.approx(none.standard_errors[0], rel=1e-3)


def test_rows_without_weight_are_in_no_cluster() -> None:
    weights = np.where(np.arange(180) < 10, 0.0, WEIGHTS)
    found = proportion(weights).estimates(clusters=CLUSTERS, strata=STRATA, statistic=share)
    keep = weights > 0
    model = et.LatentClassModel(1, **HOW).fit(ROWS[keep], sample_weight=weights[keep])
    alone = model.estimates(clusters=CLUSTERS[keep], strata=STRATA[keep], statistic=share)
    assert_allclose(found.standard_errors, alone.standard_errors, rtol=1e-6)


def test_a_jackknife_of_rows_is_the_variance_of_a_mean() -> None:
    rows, count = ROWS[:30], 30
    weights = (1.0 - np.eye(count)) * count / (count - 1)
    found = et.replicate_variance(proportion(np.ones(count), rows), rows, weights, share)
    assert_allclose(found.vcov(), [[YES[:30].var(ddof=1) / count]], rtol=1e-6)


def test_a_jackknife_within_strata_is_the_variance_of_a_stratified_mean() -> None:
    strata = np.repeat([0, 1], [12, 18])
    weights, own = np.repeat([3.0, 1.0], [12, 18]), YES[:30]
    counts = np.array([12.0, 18.0])
    replicates = np.tile(weights[:, None], 30)
    for row, stratum in enumerate(strata):
        replicates[strata == stratum, row] *= counts[stratum] / (counts[stratum] - 1.0)
        replicates[row, row] = 0.0
    scale = ((counts - 1.0) / counts)[strata]
    found = et.replicate_variance(proportion(weights, ROWS[:30]), ROWS[:30], replicates, share, scale=scale)
    parts = np.array([3.0 * 12, 18.0]) / weights.sum()
    textbook = sum(
        part**2 * own[strata == stratum].var(ddof=1) / counts[stratum] for stratum, part in enumerate(parts)
    )
    assert_allclose(found.vcov(), [[textbook]], rtol=1e-6)


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_balanced_half_samples_give_the_differences_of_pairs(rho: float) -> None:
    # Three strata of two rows: the first three columns of a Hadamard matrix are balanced.
    signs = hadamard(4)[:, 1:]
    pairs = np.array([[1, 0], [1, 1], [0, 1]])
    rows, size = pairs.reshape(-1, 1), np.array([2.0, 1.0, 3.0])
    taken = np.stack([1 + (1 - rho) * signs.T, 1 - (1 - rho) * signs.T], axis=1)
    weights = np.repeat(size, 2)
    model = proportion(weights, rows)
    found = et.replicate_variance(model, rows, weights[:, None] * taken.reshape(6, 4), share, kind="brr", rho=rho)
    textbook = ((size / weights.sum()) ** 2 * (pairs[:, 0] - pairs[:, 1]) ** 2).sum()
    assert_allclose(found.vcov(), [[textbook]], rtol=1e-6)


def test_classes_of_a_survey_have_about_the_same_errors_either_way() -> None:
    classes = RANDOM.integers(0, 2, 180)
    rows = (RANDOM.random((180, 4)) < np.where(classes, 0.9, 0.15)[:, None]).astype(int)
    model = et.LatentClassModel(2, random_state=0).fit(rows, sample_weight=WEIGHTS)
    found = model.estimates(clusters=CLUSTERS, strata=STRATA)
    names = [f"{stratum} {cluster}" for stratum, cluster in zip(STRATA, CLUSTERS, strict=True)]
    units = sorted(set(names))
    replicates, scale = np.tile(WEIGHTS[:, None], len(units)), np.empty(len(units))
    for place, unit in enumerate(units):
        own = unit.split()[0] == STRATA
        count = len(set(CLUSTERS[own]))
        is_out = np.array([name == unit for name in names])
        replicates[own, place] *= count / (count - 1.0)
        replicates[is_out, place] = 0.0
        scale[place] = (count - 1.0) / count
    jackknife = et.replicate_variance(model, rows, replicates, scale=scale)
    assert jackknife.labels == found.labels
    assert_allclose(jackknife.standard_errors, found.standard_errors, rtol=0.35)
    assert np.median(jackknife.standard_errors / found.standard_errors) == pytest.approx(1.0, abs=0.12)


def test_what_makes_no_sense_is_named() -> None:
    model = proportion()
    with pytest.raises(DataError, match="stratum of row 0 has one cluster"):
        model.estimates(clusters=np.arange(180) // 10, strata=np.arange(180) // 10)
    with pytest.raises(DataError, match="stratum of row 0 has one row, which shows no variance"):
        model.estimates(strata=np.arange(180))
    with pytest.raises(DataError, match="clusters has no label for row 2"):
        model.estimates(clusters=[0.0, 1.0, np.nan] * 60)
    with pytest.raises(DataError, match="strata has the shape"):
        model.estimates(strata=[1, 2])
    with pytest.raises(ParameterError, match="clusters and strata are for kind='robust'"):
        model.estimates(strata=STRATA, kind="observed")
    with pytest.raises(DataError, match="replicate_weights has the shape"):
        et.replicate_variance(model, ROWS, np.ones((3, 2)))
    with pytest.raises(ParameterError, match="rho is Fay's"):
        et.replicate_variance(model, ROWS, np.ones((180, 2)), rho=0.5)
