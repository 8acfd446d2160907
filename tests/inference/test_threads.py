"""Threads that share rows: they cover all of them, in order, and change no bit."""

from __future__ import annotations

import numpy as np
import pytest

import eigentree as et
from eigentree.inference.threads import LEAST_ROWS, in_stretches, usable_threads


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 100, 101])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_stretches_cover_all_rows_in_order(rows: int, threads: int) -> None:
    found = list(in_stretches(lambda start, stop: (start, stop), rows, 10, threads))
    assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
    assert found[-1][1] == rows
    assert len(found) <= threads
    assert len(found) == 1 or all(stop - start >= 10 for start, stop in found)


def test_the_environment_says_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert usable_threads() == 3
    for nothing in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert usable_threads() >= 1


def test_scores_are_the_same_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = et.LatentNetwork.random(et.zoo.hmm(3, 1, 2, 3), random_state=0)
    X = truth.sample(2 * LEAST_ROWS + 5, random_state=0).astype(float)
    X[::7, 1] = np.nan
    model = et.SpectralJunctionTree(truth.graph).fit(X)
    for score in (truth.log_prob, model.score_samples):
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        alone = score(X)
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        np.testing.assert_array_equal(score(X), alone)
    X[-1, 0], X[5, 2] = 7, 9
    with pytest.raises(et.DataError, match=r"row 5, column 'x2' holds 9"):
        truth.log_prob(X)
