"""The end of a search: pseudo-counts chosen on validation rows, and a last step on all rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from eigentree.em.searching import Fold, Ground, Searched, searched
from eigentree.em.settling import Settled, settled
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.em.estep.unique_rows import DistinctRows

STATES = [3, 2, 3, 2, 3]


def tree(states: int) -> et.LatentGraph:
    return et.zoo.LatentTree(hidden_states=states).build(STATES)


def ground_of(codes: np.ndarray, held: int, **changed: object) -> Ground:
    rows = DistinctRows.of(np.asfortranarray(codes.astype(np.uint8)), STATES, np.ones(len(codes)))
    part = rows.dealt(np.array([held, len(codes) - held]) / len(codes), np.random.default_rng(0))[0]
    usual = Ground(
        tree=tree,
        folds=(Fold(rows.weighing(rows.weights - part), rows.weighing(part)),),
        gaps=frozenset(),
        pseudo_counts=0.1,
        has_fewer=False,
        whole=rows,
        threads=1,
        hidden_states=2,
        trees=1,
        most_states=4,
        members=1,
    )
    return replace(usual, **changed)


def ended(ground: Ground) -> Searched:
    *_, standing = searched(ground, np.random.default_rng(0))
    return standing


SHARP = et.LatentNetwork.random(tree(2), concentration=0.03, seed=2).sample(600, seed=0)
ROWS = et.LatentNetwork.random(tree(2), concentration=0.3, seed=1).sample(600, seed=0)


def test_rows_that_choose_are_brought_in_by_one_step_of_em_on_all_rows() -> None:
    ground = ground_of(ROWS, 100)
    standing = ended(ground)
    before = settled(standing, replace(ground, whole=None))
    after = settled(standing, ground)
    step = et.EMJunctionTree(tree(2), init=before.network, max_iter=1, accelerate=False, pseudo_counts=0.1)
    expected = step.fit(ROWS).network_
    for name in expected.graph.names:
        assert_allclose(after.network.tables[name], expected.tables[name], atol=1e-12)
    assert after.search.validation == before.search.validation, "told as it was before they were learned from"


def test_validation_rows_say_how_many_pseudo_counts_are_left() -> None:
    """Sharp tables want few, rows that say nothing as many as there are."""
    for rows, fewer in ((SHARP, True), (np.random.default_rng(0).integers(0, STATES, (60, 5)), False)):
        ground = ground_of(rows, len(rows) // 3, whole=None)
        standing = ended(ground)
        fixed, chosen = (settled(standing, replace(ground, has_fewer=has)) for has in (False, True))
        assert fixed.pseudo_counts == 0.1
        assert (chosen.pseudo_counts < 0.1) == fewer
        assert (chosen.search.validation > fixed.search.validation) == fewer
        held = ground.folds[0].validation
        told = chosen.network.log_prob(held.codes) @ held.weights / held.weights.sum()
        assert told == pytest.approx(chosen.search.validation, abs=1e-12)


def test_what_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pseudo-counts that are given are not made fewer, and validation rows that are given are not learned from."""
    seen: list[Ground] = []

    def spy(standing: Searched, ground: Ground) -> Settled:
        seen.append(ground)
        return settled(standing, ground)

    monkeypatch.setattr("eigentree.estimators.em_junction_tree.settled", spy)
    fit = partial(et.EMJunctionTree, "auto", n_init=1, random_state=0)
    fit(validation_fraction=0.2).fit(ROWS)
    assert fit(pseudo_counts=0.1).fit(ROWS, validation=ROWS[:50]).pseudo_counts_ == 0.1
    assert [ground.has_fewer for ground in seen] == [True, False]
    assert seen[0].whole is not None
    assert seen[0].whole.weights.sum() == len(ROWS)
    assert seen[1].whole is None
