"""Pseudo-counts chosen by rows that were held out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.data.columns import Columns
from eigentree.em import smoothing
from eigentree.em.distinct import DistinctRows
from eigentree.em.smoothing import FEW_PSEUDO_COUNTS, STRENGTHS, split

GRAPH = et.zoo.hmm(8, 1, 2, 3)


def fitted(rows: np.ndarray, **settings: object) -> et.EMJunctionTree:
    return et.EMJunctionTree(GRAPH, random_state=0, max_iter=100, **settings).fit(rows)


def chosen(concentration: float, count: int) -> list[float]:
    networks = [et.LatentNetwork.random(GRAPH, concentration, seed=seed) for seed in range(3)]
    return [fitted(network.sample(count, seed=1), init="random", restarts=1).pseudo_counts_ for network in networks]


def test_even_tables_want_more_than_peaked_ones() -> None:
    even, peaked = chosen(5.0, 150), chosen(0.2, 150)
    assert set(even) | set(peaked) <= set(STRENGTHS)
    assert np.mean(even) > 2 * np.mean(peaked)


@pytest.mark.parametrize("count", [6, 4_000])
def test_many_rows_and_very_few_are_not_searched(count: int) -> None:
    rows = et.LatentNetwork.random(GRAPH, 5.0, seed=0).sample(count, seed=1)
    assert fitted(rows).pseudo_counts_ == FEW_PSEUDO_COUNTS


@pytest.mark.parametrize(
    "init", ["race", "random", et.LatentNetwork.random(GRAPH, seed=5)], ids=["race", "random", "given"]
)
def test_the_choice_leads_where_the_same_number_given_does(init: object) -> None:
    rows = et.LatentNetwork.random(GRAPH, seed=0).sample(60, seed=1)
    auto = fitted(rows, init=init)
    given = fitted(rows, init=init, pseudo_counts=auto.pseudo_counts_)
    assert_array_equal(auto.score_samples(rows), given.score_samples(rows))
    again = fitted(rows, init=init)
    assert again.pseudo_counts_ == auto.pseudo_counts_
    assert_array_equal(again.score_samples(rows), auto.score_samples(rows))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_the_columns_of_a_frame_does_not_matter(seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.random((300, 5)) < np.where(random.random((300, 1)) < 0.5, 0.85, 0.15)
    frame = pd.DataFrame(np.where(codes, "y", "n"), columns=["a", "b", "c", "d", "long"])
    frame = frame.mask(random.random((300, 5)) < 0.1)
    model = et.EMJunctionTree(et.zoo.Mixture(2), init="random", restarts=1, random_state=0)
    found, scores = model.fit(frame).pseudo_counts_, model.score_samples(frame)
    for columns in (["long", "d", "c", "b", "a"], ["c", "long", "a", "d", "b"]):
        turned = frame[columns]
        assert model.fit(turned).pseudo_counts_ == found
        assert_allclose(model.score_samples(turned), scores, atol=1e-5)


def test_held_out_rows_are_likelier_than_with_next_to_no_pseudo_counts() -> None:
    gains = []
    for seed in range(3):
        network = et.LatentNetwork.random(GRAPH, seed=seed)
        rows, test = network.sample(80, seed=1), network.sample(2_000, seed=2)
        settings = {"init": "random", "restarts": 1}
        few = fitted(rows, pseudo_counts=FEW_PSEUDO_COUNTS, **settings)
        gains.append(fitted(rows, **settings).score(test) - few.score(test))
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize("kind", ["whole", "fractions"])
def test_both_sides_of_a_split_are_all_rows_together(kind: str) -> None:
    random = np.random.default_rng(0)
    codes = random.integers(0, 3, (40, 8)).astype(np.uint8)
    weights = random.integers(1, 9, 40) * (1.0 if kind == "whole" else 0.3)
    rows = DistinctRows.of(np.asfortranarray(codes), Columns.of(GRAPH).states, weights)
    rest, held = split(rows, 0.2, np.random.default_rng(1))
    total = dict.fromkeys(map(tuple, rows.codes.tolist()), 0.0)
    for part in (rest, held):
        assert (part.weights > 0).all()
        for row, weight in zip(part.codes.tolist(), part.weights, strict=True):
            total[tuple(row)] += weight
    assert_allclose(list(total.values()), rows.weights)
    assert 0.1 < held.weights.sum() / rows.weights.sum() < 0.3
    if kind == "fractions":
        both = {tuple(row) for row in rest.codes.tolist()} & {tuple(row) for row in held.codes.tolist()}
        light = {tuple(row) for row in rows.codes[rows.weights < 1].tolist()}
        assert light
        assert not both & light, "a row that is less than one is on one side"


@pytest.mark.parametrize("given", ["some", -1.0, None])
def test_pseudo_counts_are_auto_or_a_number(given: object) -> None:
    with pytest.raises(et.ParameterError, match="pseudo_counts is"):
        fitted(np.zeros((20, 8), int), pseudo_counts=given)


def test_the_choice_shows_progress_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can take longer than the fit: nobody is to wait for minutes without a line that moves."""
    told: list[tuple[int, float]] = []

    @contextlib.contextmanager
    def shown(verbose: int, title: str, total: int) -> Iterator[Callable[[int, float], None]]:
        assert verbose == 3
        assert title == "pseudo-counts"
        yield lambda done, objective: told.append((done, total))

    monkeypatch.setattr(smoothing, "shown_progress", shown)
    rows = et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), seed=0).sample(60, seed=1)
    et.EMJunctionTree(et.zoo.Mixture(2), init="random", restarts=1, max_iter=3, verbose=3, random_state=0).fit(rows)
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert len(smoothing.STRENGTHS) < len(told) <= told[0][1]
