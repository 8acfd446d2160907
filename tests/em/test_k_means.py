"""k-means: clusters that lie apart are found, and weights count as repeated points do."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from eigentree.em.init.k_means import k_means


@pytest.mark.parametrize("seed", range(5))
def test_clusters_that_lie_apart_are_found_as_scikit_learn_finds_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = random.integers(4, size=400)
    points = 50.0 * np.eye(4)[truth] + random.normal(size=(400, 4))
    found = k_means(points, np.ones(400), 4, random)
    assert adjusted_rand_score(truth, found) == 1.0
    theirs = KMeans(4, n_init=1, random_state=0).fit_predict(points)
    assert adjusted_rand_score(theirs, found) == 1.0


def test_points_without_weight_have_no_say_in_the_centres() -> None:
    random = np.random.default_rng(0)
    points = np.concatenate([random.normal(size=(50, 2)), random.normal(size=(50, 2)) + 20.0, [[1e6, 1e6]]])
    weights = np.concatenate([np.ones(100), [0.0]])
    found = k_means(points, weights, 2, random)
    assert len(set(found[:50])) == len(set(found[50:])) == 1
    assert found[0] != found[50]


def test_a_weight_counts_as_so_many_points() -> None:
    points = np.array([[0.0], [1.0], [10.0]])
    # The heavy point is all but certain to be the first centre, and alone in its cluster.
    heavy = [k_means(points, np.array([1.0, 1.0, 1000.0]), 2, np.random.default_rng(seed)) for seed in range(20)]
    assert all(own[0] == own[1] != own[2] for own in heavy)


def test_points_that_are_equal_are_shared_at_random() -> None:
    points = np.repeat([[0.0], [1.0]], 500, axis=0)
    found = k_means(points, np.ones(1000), 3, np.random.default_rng(0))
    assert_array_equal(np.unique(found), [0, 1, 2])


@pytest.mark.parametrize("count", [3, 4, 32])
def test_points_in_one_cluster_are_equal_where_no_more_differ_than_there_are_clusters(count: int) -> None:
    random = np.random.default_rng(0)
    values = random.integers(3, size=500)
    found = k_means(np.array([[0.0], [1.0], [5.0]])[values], np.ones(500), count, random)
    assert found.min() >= 0
    assert found.max() < count
    assert all(len(set(values[found == own])) == 1 for own in set(found))


def test_distances_whose_squares_are_zero_are_distances() -> None:
    points = np.array([[0.0], [0.0], [1e-200], [2e-200], [1.0]])
    found = k_means(points, np.ones(5), 3, np.random.default_rng(0))
    assert found[4] not in found[:4]
