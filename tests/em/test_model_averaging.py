"""Averages of fits: one network with the probabilities of a mixture, and held-out rows brought in at last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.holdout import Fold, held_out
from eigentree.em.parameters import ParameterLayout
from eigentree.em.size_search import SearchState, SizeProblem, average, averaged_fits
from eigentree.graphs.structure_learning import mixture_of_trees

STATES = [3, 2, 3, 2, 3]


def tree(states: int) -> et.LatentGraph:
    return et.zoo.LatentTree(hidden_states=states).build(STATES)


TREE = tree(3)
ROWS = et.LatentNetwork.random(tree(2), concentration=0.3, seed=1).sample(600, seed=0)


@settings(max_examples=20, deadline=None)
@given(trees=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 999))
def test_an_average_has_the_probabilities_of_a_mixture(trees: list[int], seed: int) -> None:
    networks = [
        et.LatentNetwork.random(mixture_of_trees(TREE, count), seed=seed + place)
        for place, count in enumerate(trees)
    ]
    vectors = [ParameterLayout.of(network.graph).vector(network) for network in networks]
    whole = ParameterLayout.of(mixture_of_trees(TREE, sum(trees))).network(averaged_fits(TREE, vectors))
    each = np.array([network.log_prob(ROWS) for network in networks])
    expected = np.logaddexp.reduce(each - np.log(len(trees)), axis=0)
    assert_allclose(whole.log_prob(ROWS), expected, rtol=1e-12)


def test_one_fit_is_its_own_average() -> None:
    vector = ParameterLayout.of(TREE).vector(et.LatentNetwork.random(TREE, seed=0))
    np.testing.assert_array_equal(averaged_fits(TREE, [vector]), vector)


def test_the_variable_of_a_mixture_takes_no_name_that_is_taken() -> None:
    graph = et.LatentGraph({"tree": 2, "a": 2, "b": 2}, [("tree", "a"), ("tree", "b")], ["tree"])
    mixed = mixture_of_trees(graph, 3)
    assert mixed.hidden == ("hidden_tree", "tree")
    assert mixed.parents("a") == ("hidden_tree", "tree")


def problem_of(codes: np.ndarray, share: float) -> SizeProblem:
    rows = DistinctRows.of(np.asfortranarray(codes.astype(np.uint8)), STATES, np.ones(len(codes)))
    part = held_out(rows.weights, share, np.random.default_rng(0))
    return SizeProblem(
        tree=tree,
        folds=(Fold(rows.weighing(rows.weights - part), rows.weighing(part)),),
        missing=frozenset(),
        pseudo_counts=0.1,
        whole=rows,
        threads=1,
        hidden_states=2,
        trees=1,
        most_states=4,
        fits=1,
    )


def ended(problem: SizeProblem) -> SearchState:
    *_, state = problem.search(np.random.default_rng(0))
    return state


def test_held_out_rows_are_brought_in_by_one_em_iteration_on_all_rows() -> None:
    problem = problem_of(ROWS, 1 / 6)
    state = ended(problem)
    before, found = average(replace(problem, whole=None), state)
    after, same = average(problem, state)
    step = et.EMJunctionTree(tree(2), init=before, max_iter=1, accelerate=False, pseudo_counts=0.1)
    expected = step.fit(ROWS).network_
    for name in expected.graph.names:
        assert_allclose(after.tables[name], expected.tables[name], atol=1e-12)
    assert found.validation == same.validation, "that of the fit before they were learned from"


def test_given_validation_rows_are_not_learned_from() -> None:
    fit = et.EMJunctionTree(et.zoo.HiddenChowLiu("auto", trees=1, most_states=2), random_state=0, pseudo_counts=0.1)
    model = fit.fit(ROWS[50:], validation=ROWS[:50])
    assert model.pseudo_counts_ == 0.1
    assert_allclose(model.search_.validation, model.score(ROWS[:50]), rtol=1e-12)
