"""Pseudo-counts chosen by rows that were held out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.data.tables.columns import Columns
from eigentree.em import smoothing
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.smoothing import FEW_PSEUDO_COUNTS, STRENGTHS

GRAPH = et.zoo.hmm(8, 1, 2, 3)


def fitted(rows: np.ndarray, **settings: object) -> et.EMJunctionTree:
    return et.EMJunctionTree(GRAPH, random_state=0, max_iter=100, **settings).fit(rows)


def chosen(classes: list[list[float]]) -> list[float]:
    graph = et.zoo.mixture(8, 2, 3)
    tables = {graph.hidden[0]: [0.5, 0.5]} | dict.fromkeys(graph.observed, classes)
    rows = [et.LatentNetwork(graph, tables).sample(150, seed=seed) for seed in range(3)]
    model = et.EMJunctionTree(graph, init="mixture", n_init=1, random_state=0)
    return [model.fit(some).pseudo_counts_ for some in rows]


def test_classes_that_are_alike_want_more_than_classes_far_apart() -> None:
    alike = chosen([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1]])
    apart = chosen([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98]])
    assert set(alike) | set(apart) <= set(STRENGTHS)
    assert min(alike) > 2 * max(apart)


@pytest.mark.parametrize("count", [6, 4_000])
def test_many_rows_and_very_few_are_not_searched(count: int) -> None:
    rows = et.LatentNetwork.random(GRAPH, 5.0, seed=0).sample(count, seed=1)
    assert fitted(rows).pseudo_counts_ == FEW_PSEUDO_COUNTS


@pytest.mark.parametrize(
    "init", ["multistart", "random", et.LatentNetwork.random(GRAPH, seed=5)], ids=["multistart", "random", "given"]
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
    model = et.EMJunctionTree(et.zoo.Mixture(2), init="random", n_init=1, random_state=0)
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
        settings = {"init": "random", "n_init": 1}
        few = fitted(rows, pseudo_counts=FEW_PSEUDO_COUNTS, **settings)
        gains.append(fitted(rows, **settings).score(test) - few.score(test))
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize("kind", ["whole", "fractions"])
def test_all_parts_are_all_rows_together(kind: str) -> None:
    random = np.random.default_rng(0)
    codes = random.integers(0, 3, (40, 8)).astype(np.uint8)
    weights = random.integers(1, 9, 40) * (1.0 if kind == "whole" else 0.3)
    rows = DistinctRows.of(np.asfortranarray(codes), Columns.of(GRAPH).states, weights)
    parts = rows.dealt(np.full(5, 0.2), np.random.default_rng(1))
    assert parts.shape == (5, len(rows.weights))
    assert (parts >= 0).all()
    assert_allclose(parts.sum(axis=0), rows.weights)
    shares = parts.sum(axis=1) / rows.weights.sum()
    assert (shares > 0.1).all()
    assert (shares < 0.3).all()
    if kind == "fractions":
        light = parts[:, rows.weights < 1]
        assert light.size
        assert ((light > 0).sum(axis=0) == 1).all(), "a row that is less than one is in one part"


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
    et.EMJunctionTree(et.zoo.Mixture(2), init="random", n_init=1, max_iter=3, verbose=3, random_state=0).fit(rows)
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert len(smoothing.STRENGTHS) < len(told) <= told[0][1]
