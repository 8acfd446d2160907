"""Expected counts of networks with numbers: those of the posterior, whatever parts rows come in."""

from __future__ import annotations

import numpy as np
import pytest

import eigentree as et
from eigentree.emissions.gaussian import Gaussian
from eigentree.inference.mixed.mixed_network import MixedNetwork


def network() -> MixedNetwork:
    graph = et.LatentGraph({"h": 2, "c": 3, "x": 1, "y": 1}, [("h", "c"), ("h", "x"), ("h", "y")], ["h"])
    tables = {"h": [0.3, 0.7], "c": [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]}
    number = Gaussian(np.array([0.0, 2.0]), np.array([1.0, 2.0]), 0.0, 1.0, 0.0)
    return MixedNetwork(graph, tables, {"x": number, "y": number})


def test_expected_counts_are_sums_of_posteriors() -> None:
    known = network()
    rows = np.asarray(known.sample(300, random_state=0), np.float64)
    rows[::7, known.columns.position("x")] = np.nan
    weights = np.random.default_rng(0).random(300)
    counts = et.expected_counts(known, rows, weights)
    posterior = known.posterior(rows)["h"].array
    np.testing.assert_allclose(counts["h"].array, weights @ posterior)
    category = rows[:, known.columns.position("c")].astype(int)
    np.testing.assert_allclose(counts["c"].array, (posterior * weights[:, None]).T @ np.eye(3)[category])
    assert set(counts) == {"h", "c"}
    parts = [
        et.expected_counts(known, part, own) for part, own in ((rows[:90], weights[:90]), (rows[90:], weights[90:]))
    ]
    for name in counts:
        np.testing.assert_allclose(sum(part[name].array for part in parts), counts[name].array)


def test_missing_categories_count_by_their_posterior() -> None:
    known = network()
    rows = np.array([[np.nan, 0.3, np.nan], [np.nan, np.nan, np.nan]])
    order = [known.columns.names.index(name) for name in ("c", "x", "y")]
    given = np.empty_like(rows)
    given[:, order] = rows
    counts = et.expected_counts(known, given)
    posterior = known.posterior(given)["h"].array
    np.testing.assert_allclose(counts["c"].array, posterior.sum(axis=0)[:, None] * known.tables["c"])
    assert counts["c"].array.sum() == pytest.approx(2.0)
