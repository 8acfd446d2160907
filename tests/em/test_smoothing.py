"""Pseudo-counts chosen by the marginal likelihood of the data."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

import eigentree as et
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.smoothing import PSEUDO_COUNTS, log_marginal_likelihood
from eigentree.em.tree_objective import TreeObjective

GRAPH = et.zoo.hmm(8, 1, 2, 3)


def fitted(rows: np.ndarray, **settings: object) -> et.EMJunctionTree:
    return et.EMJunctionTree(GRAPH, random_state=0, **settings).fit(rows)


def chosen(classes: list[list[float]]) -> list[float]:
    graph = et.zoo.mixture(8, 2, 3)
    tables = {graph.hidden[0]: [0.5, 0.5]} | dict.fromkeys(graph.observed, classes)
    rows = [et.LatentNetwork(graph, tables).sample(150, seed=seed) for seed in range(3)]
    model = et.EMJunctionTree(graph, init="mixture", n_init=1, random_state=0)
    return [model.fit(some).pseudo_counts_ for some in rows]


def test_classes_that_are_alike_need_more_than_classes_far_apart() -> None:
    alike = chosen([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1]])
    apart = chosen([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98]])
    assert set(alike) | set(apart) <= set(PSEUDO_COUNTS)
    assert min(alike) > 2 * max(apart)


def test_many_rows_have_the_fewest() -> None:
    rows = et.LatentNetwork.random(GRAPH, 5.0, seed=0).sample(4_000, seed=1)
    assert fitted(rows).pseudo_counts_ == PSEUDO_COUNTS[0]


@pytest.mark.parametrize(
    "init", ["multistart", et.LatentNetwork.random(GRAPH, seed=5)], ids=["multistart", "given"]
)
def test_the_fit_ends_at_an_optimum_of_the_chosen_objective(init: object) -> None:
    rows = et.LatentNetwork.random(GRAPH, seed=0).sample(60, seed=1)
    auto = fitted(rows, init=init)
    assert auto.pseudo_counts_ > PSEUDO_COUNTS[0]
    given = fitted(rows, init=auto.network_, pseudo_counts=auto.pseudo_counts_)
    assert given.history_[-1] - given.history_[0] < 1e-3
    assert given.history_[0] == pytest.approx(auto.history_[-1], abs=1e-6)
    again = fitted(rows, init=init)
    assert again.pseudo_counts_ == auto.pseudo_counts_
    assert_array_equal(again.score_samples(rows), auto.score_samples(rows))


def answers(seed: int) -> pd.DataFrame:
    """A table as people have them: columns of labels that two or three classes explain, with missing cells."""
    states = [2, 3, 4, 2, 3]
    graph = et.zoo.Mixture(2 + seed % 2).build(states)
    codes = et.LatentNetwork.random(graph, seed=seed).sample(250, seed=seed)
    labels = np.array(["no", "perhaps", "yes", "never"])
    frame = pd.DataFrame(labels[codes], columns=["a", "b", "c", "d", "long"])
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < 0.05)


@pytest.mark.parametrize("seed", range(4))
def test_neither_seed_nor_labels_nor_order_matter(seed: int) -> None:
    frame, random = answers(seed), np.random.default_rng(seed)
    renamed = frame.replace({"no": "z", "perhaps": "m", "yes": "a", "never": "k"})
    tables = [
        (frame, frame.columns, 0),
        (frame, frame.columns, 1),
        (frame, frame.columns, 2),
        (renamed, frame.columns, 0),
        (frame.iloc[random.permutation(len(frame))], frame.columns, 0),
        (frame, ["long", "d", "c", "b", "a"], 0),
    ]
    model = et.EMJunctionTree(et.zoo.Mixture(2 + seed % 2))
    found = {model.set_params(random_state=s).fit(t[list(c)]).pseudo_counts_ for t, c, s in tables}
    assert len(found) == 1


def test_held_out_rows_are_more_probable_than_with_the_fewest() -> None:
    gains = []
    for seed in range(3):
        network = et.LatentNetwork.random(GRAPH, seed=seed)
        rows, test = network.sample(80, seed=1), network.sample(2_000, seed=2)
        few = fitted(rows, pseudo_counts=PSEUDO_COUNTS[0], init="random", n_init=1)
        gains.append(fitted(rows, init="random", n_init=1).score(test) - few.score(test))
    assert np.mean(gains) > 0.05


def test_without_hidden_variables_the_marginal_likelihood_is_exact() -> None:
    """A product of Dirichlet-multinomials, which sums to 1 over all data of one size."""
    graph = et.LatentGraph({"a": 2, "b": 3}, [("a", "b")])
    parameters = np.array([0.5, 0.5, 0.2, 0.3, 0.5, 0.1, 0.8, 0.1])
    total = 0.0
    for rows in product(product(range(2), range(3)), repeat=2):
        codes = np.asfortranarray(np.array(rows, np.uint8))
        distinct = DistinctRows.of(codes, [2, 3], np.ones(2))
        objective = TreeObjective.of(graph, distinct, frozenset(), 0.2)
        prior = objective.prior
        found = log_marginal_likelihood(objective, parameters)
        counts = objective.counted(parameters).counts
        parts = [slice(0, 2), slice(2, 5), slice(5, 8)]
        expected = sum(
            gammaln(prior[part].sum())
            - gammaln((prior + counts)[part].sum())
            + (gammaln((prior + counts)[part]) - gammaln(prior[part])).sum()
            for part in parts
        )
        assert_allclose(found, expected, atol=1e-12)
        total += np.exp(found)
    assert total == pytest.approx(1.0, abs=1e-12)


def test_the_choice_takes_no_more_iterations_than_max_iter() -> None:
    rows = et.LatentNetwork.random(GRAPH, seed=0).sample(60, seed=1)
    passes = []
    with pytest.MonkeyPatch.context() as patch:
        counted = TreeObjective.counted
        patch.setattr(TreeObjective, "counted", lambda self, given: passes.append(1) or counted(self, given))
        fitted(rows, init="random", n_init=1, max_iter=3, pseudo_counts=0.1, accelerate=False)
        alone = len(passes)
        fitted(rows, init="random", n_init=1, max_iter=3, accelerate=False)
    # Each number of pseudo-counts takes a start, three iterations with their shortened steps, and a comparison.
    assert len(passes) - alone <= (1 + len(PSEUDO_COUNTS)) * (1 + 4 * 3 + 1)


@pytest.mark.parametrize("given", ["some", -1.0, None])
def test_pseudo_counts_are_auto_or_a_number(given: object) -> None:
    with pytest.raises(et.ParameterError, match="pseudo_counts is"):
        fitted(np.zeros((20, 8), int), pseudo_counts=given)
