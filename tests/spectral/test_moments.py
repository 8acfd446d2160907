"""Moments of counts: the same distribution whether a pair of groups is an array or what occurs of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.counting.counts import Counts
from eigentree.spectral.learn.moments import CountedTables

GRAPH = et.LatentGraph({"h": 2, "a": 2, "b": 3, "c": 5}, [("h", "a"), ("h", "b"), ("h", "c")], ["h"])


@pytest.mark.parametrize("added", [0.0, 1.5])
@pytest.mark.parametrize("rows", [0, 40])
def test_a_sparse_pair_is_the_distribution_of_both_groups(added: float, rows: int) -> None:
    sampled = et.LatentNetwork.random(GRAPH, seed=0).sample(50, seed=1)
    sampled[rows:, 2] = -1
    tables = CountedTables(Counts(GRAPH, [("a", "b", "c")]).update(sampled), added)
    for inside, outside in (((0,), (1, 2)), ((0, 1), (2,)), ((2,), (0,))):
        pair = tables.sparse_pair(inside, outside)
        sizes = [int(np.prod([(2, 3, 5)[column] for column in group])) for group in (inside, outside)]
        found = np.asarray(pair.counted.todense()) + pair.left @ pair.right.T
        assert found.shape == tuple(sizes)
        assert_allclose(found.ravel(), tables.stacked([inside + outside])[0], atol=1e-12)
