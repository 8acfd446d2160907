"""The law of spectral learning: exact moments give the exact joint, for every latent graph and both recipes."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from brute_force import all_rows, observed_table
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs
from sklearn.base import clone

import eigentree as et
from eigentree.counting.joint_table import ColumnFeatures
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.planning.view_plan import ViewPlan, best_plan
from eigentree.planning.view_search import PlanOptions
from eigentree.spectral.learn.bonds import plain_bond
from eigentree.spectral.learn.moments import CountedTables, ExactTables
from eigentree.spectral.learn.operator_learning import learn

RECIPES = {
    "default": {"shrinkage": 0},
    "published": {"shrinkage": 0, "views": 1, "scaling": None},
}

networks = st.builds(
    et.LatentNetwork.random,
    latent_graphs(most_variables=9, fewest_states=2),
    concentration=st.just(1.0),
    seed=st.integers(0, 2**32 - 1),
)


def well_conditioned(model: et.SpectralJunctionTree) -> bool:
    """Whether every singular value that is divided by is at least 1e-6 of the largest."""
    return all(r.smallest >= 1e-6 * r.singular_values[0] for r in model.report_.separators)


def assert_same_probabilities(log_prob: np.ndarray, expected: np.ndarray) -> None:
    """To 1e-8, but for rounding: sums of both signs round by a share of their largest terms, not of the result."""
    assert_allclose(np.exp(log_prob), np.exp(expected), rtol=1e-8, atol=1e-13)


@settings(max_examples=200, deadline=None)
@given(networks, st.sampled_from(list(RECIPES)))
def test_population_moments_give_the_exact_joint(network: et.LatentNetwork, recipe: str) -> None:
    assume(network.tree.width <= 5)
    model = et.SpectralJunctionTree(network.graph, **RECIPES[recipe]).fit_moments(network)
    fine = well_conditioned(model)
    event(f"{recipe}: {'well conditioned' if fine else 'drawn again'}")
    assume(fine)
    rows = all_rows(network.graph)[:: max(1, len(all_rows(network.graph)) // 2000)]
    assert_same_probabilities(model.score_samples(rows), network.log_prob(rows))


@settings(max_examples=100, deadline=None)
@given(networks, st.sampled_from(list(RECIPES)))
def test_all_configurations_weighted_by_their_probability_give_the_exact_joint(
    network: et.LatentNetwork, recipe: str
) -> None:
    rows, weights = all_rows(network.graph), observed_table(network).ravel()
    assume(network.tree.width <= 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a total weight of 1 looks like one row
        model = et.SpectralJunctionTree(network.graph, **RECIPES[recipe]).fit(rows, sample_weight=weights)
    assume(well_conditioned(model))
    assert_same_probabilities(model.score_samples(rows), network.log_prob(rows))


ZOO = {
    "hmm of order 1": et.zoo.hmm(8, 1, 2, 3),
    "hmm of order 2": et.zoo.hmm(10, 2, 2, 4),
    "hmm of order 2, few symbols": et.zoo.hmm(8, 2, 2, 2),
    "hmm of order 3": et.zoo.hmm(9, 3, 2, 4),
    "factorial hmm": et.zoo.factorial_hmm(6, 2, 2, 5),
    "latent tree": et.zoo.latent_tree(depth=3, branching=2, hidden_states=2, observed_states=3),
    "mixture": et.zoo.mixture(9, 3, 2),
    "mixture with more components than states": et.zoo.mixture(12, 5, 2),
    "semi-hidden Markov": et.zoo.semi_hidden_markov(5, 2, 2, 5),
    "paper's junction tree": et.zoo.paper_junction_tree(2, 6),
    "chain of hidden variables with different states": et.LatentGraph(
        {
            name: count
            for t, size in enumerate((2, 2, 3, 3, 2, 2, 3))
            for name, count in ((f"h{t}", size), (f"x{t}", 5))
        },
        [(f"h{t}", f"h{t + 1}") for t in range(6)] + [(f"h{t}", f"x{t}") for t in range(7)],
        [f"h{t}" for t in range(7)],
    ),
    "dynamic Bayes net": et.zoo.dynamic_bayes_net(
        6, {"a": 2, "b": 2, "x": 3}, [("a", "b"), ("b", "x")], [("a", "a"), ("b", "a")], ["a", "b"]
    ),
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("graph", ZOO.values(), ids=ZOO.keys())
def test_the_law_holds_over_the_whole_zoo(graph: et.LatentGraph, recipe: str) -> None:
    for seed in range(20):
        network = et.LatentNetwork.random(graph, seed=seed)
        model = et.SpectralJunctionTree(graph, **RECIPES[recipe]).fit_moments(network)
        if well_conditioned(model):
            break
    else:
        pytest.fail("no well-conditioned network in 20 draws")
    print(f"drawn again {seed} times")
    rows = network.sample(500, seed=1)
    assert_allclose(model.score_samples(rows), network.log_prob(rows), atol=1e-8)
    rows[np.random.default_rng(0).random(rows.shape) < 0.3] = -1
    assert_allclose(model.score_samples(rows), network.log_prob(rows), atol=1e-8)
    target = graph.observed[len(graph.observed) // 2]
    assert_allclose(model.predict_proba(rows, target), network.predict_proba(rows, target), atol=1e-7)
    assert_allclose(model.joint(graph.observed[:2]), network.joint(graph.observed[:2]), atol=1e-9)


@pytest.mark.parametrize("root", ["h0", "h4", "h9"])
def test_the_root_changes_nothing(root: str) -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(10, 2, 2, 4), seed=0)
    plan = best_plan(JunctionTree.build(network.graph, root=root), PlanOptions(6, None, "raise"))
    (fit,) = learn(plan, [ExactTables(network, network.graph)], "variance")
    rows = network.sample(200, seed=1)
    log_size, sign = fit.operators(0.0).log_prob(Rows.of(rows, Columns.of(network.graph)).encode(0, 200))
    assert (sign == 1).all()
    assert_allclose(log_size, network.log_prob(rows), atol=1e-8)


def hsu_kakade_zhang(network: et.LatentNetwork, row: np.ndarray) -> float:
    """The observable operators of Hsu, Kakade and Zhang (2009), b_inf^T B_xt … B_x1 b_1, one set a step.

    For a non-homogeneous chain: P_{t+1,t} and P_{t+2,x,t} of each step t, U_t from the SVD of P_{t+1,t}.
    """
    length = len(row)
    pair = [network.joint([f"x{t + 1}", f"x{t}"]) for t in range(length - 1)]
    subspace = [np.linalg.svd(table)[0][:, :2] for table in pair]  # of x_{t+1}
    first = network.joint(["x0"])
    # The state after seeing x_0 … x_t is U_t^T P(x_{t+1}, x_0 … x_t).
    state = subspace[0].T @ pair[0][:, row[0]]
    assert first.shape == (pair[0].shape[1],)
    for t in range(1, length - 1):
        triple = network.joint([f"x{t + 1}", f"x{t}", f"x{t - 1}"])
        operator = subspace[t].T @ triple[:, row[t], :] @ np.linalg.pinv(subspace[t - 1].T @ pair[t - 1])
        state = operator @ state
    # At the last step the next symbol is read off directly: b_inf of the printed algorithm.
    read = pair[-1] @ np.linalg.pinv(subspace[-1].T @ pair[-1])
    return float(read[row[-1]] @ state)


def test_an_order_1_chain_reproduces_hsu_kakade_and_zhang() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(7, 1, 2, 4), seed=3)
    published = et.SpectralJunctionTree(network.graph, **RECIPES["published"]).fit_moments(network)
    rows = network.sample(50, seed=0)
    closed = np.log([hsu_kakade_zhang(network, row) for row in rows])
    assert_allclose(closed, network.log_prob(rows), atol=1e-9)
    assert_allclose(published.score_samples(rows), closed, atol=1e-8)


def parikh_2011(network: et.LatentNetwork, row: np.ndarray) -> float:
    """Parikh, Song and Xing (2011) on the tree r -> (a, b), a -> (x0, x1), b -> (x2, x3).

    Each hidden node's message is a vector in the span of one of its leaves; the root sums two of them.
    """

    def subspace(one: str, other: str) -> np.ndarray:
        return np.linalg.svd(network.joint([one, other]))[0][:, :2]

    def branch(left: str, right: str, outer: str, values: tuple[int, int]) -> np.ndarray:
        # What (left, right) = values say, in the coordinates of U^T P(left, .).
        u = subspace(left, outer)
        triple = network.joint([left, right, outer])[values[0], values[1]]
        return triple @ np.linalg.pinv(u.T @ network.joint([left, outer]))

    a = branch("x0", "x1", "x2", (row[0], row[1]))
    b = branch("x2", "x3", "x0", (row[2], row[3]))
    middle = subspace("x0", "x2").T @ network.joint(["x0", "x2"]) @ subspace("x2", "x0")
    return float(a @ middle @ b)


def test_a_latent_tree_reproduces_parikh_song_and_xing() -> None:
    edges = [("r", "a"), ("r", "b"), ("a", "x0"), ("a", "x1"), ("b", "x2"), ("b", "x3")]
    graph = et.LatentGraph({"r": 2, "a": 2, "b": 2} | {f"x{i}": 3 for i in range(4)}, edges, ["r", "a", "b"])
    network = et.LatentNetwork.random(graph, seed=1)
    rows = all_rows(graph)
    closed = np.log([parikh_2011(network, row) for row in rows])
    assert_allclose(closed, network.log_prob(rows), atol=1e-9)
    model = et.SpectralJunctionTree(graph, **RECIPES["published"]).fit_moments(network)
    assert_allclose(model.score_samples(rows), closed, atol=1e-8)


def error(model: et.SpectralJunctionTree, network: et.LatentNetwork, seed: int) -> float:
    rows = network.sample(500, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(np.abs(np.exp(model.score_samples(rows) - network.log_prob(rows)) - 1).mean())


@pytest.mark.parametrize(
    "graph",
    [et.zoo.hmm(8, 2, 2, 4), et.zoo.factorial_hmm(5, 2, 2, 8), et.zoo.paper_junction_tree(2, 6)],
    ids=["hmm2", "factorial", "paper"],
)
def test_the_error_falls_with_the_root_of_the_rows(graph: et.LatentGraph) -> None:
    """A tiny version of the consistency experiment; the full one is `python -m benchmarks consistency`."""
    slopes = []
    for seed in range(4):
        network = et.LatentNetwork.random(graph, seed=seed)
        errors = [
            error(et.SpectralJunctionTree(graph).fit(network.sample(n, seed=seed)), network, seed + 100)
            for n in (10_000, 320_000)
        ]
        slopes.append(math.log(errors[1] / errors[0]) / math.log(32))
    assert -0.65 < np.median(slopes) < -0.35


def test_ours_beats_the_published_recipe_and_independence_in_the_middle() -> None:
    graph = et.zoo.hmm(20, 2, 2, 4)
    ours, published, independent = [], [], []
    for seed in range(3):
        network = et.LatentNetwork.random(graph, seed=seed)
        rows = network.sample(10_000, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            ours.append(error(et.SpectralJunctionTree(graph).fit(rows), network, 9))
            published.append(error(et.SpectralJunctionTree(graph, **RECIPES["published"]).fit(rows), network, 9))
            independent.append(error(et.SpectralJunctionTree(graph, shrinkage=math.inf).fit(rows), network, 9))
    assert np.median(ours) < 0.75 * np.median(published)
    assert np.median(ours) < 0.5 * np.median(independent)


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_infinite_shrinkage_is_the_independence_model_with_one_half_added(holes: float) -> None:
    graph = et.zoo.hmm(8, 2, 2, 4)
    rows = et.LatentNetwork.random(graph, seed=0).sample(200, seed=1)
    rows[np.random.default_rng(2).random(rows.shape) < holes] = -1
    model = et.SpectralJunctionTree(graph, shrinkage=math.inf).fit(rows)
    expected = np.zeros(len(rows))
    for column in rows.T:
        counts = np.bincount(column[column >= 0], minlength=4) + 0.5
        expected += np.where(column >= 0, np.log(counts / counts.sum())[column], 0.0)
    assert_allclose(model.score_samples(rows), expected, atol=1e-9)


@pytest.mark.parametrize("states", [(3, 3, 3, 3), (3, 2, 3, 2)], ids=str)
def test_pseudo_rows_are_rows_of_every_configuration(states: tuple[int, ...]) -> None:
    graph = et.zoo.hmm(4, 1, 2, states)
    plan = ViewPlan.build(graph)
    rows = et.LatentNetwork.random(graph, seed=0).sample(50, seed=1)
    every = all_rows(graph)
    counts = et.Counts(graph, [*plan.groups(), graph.observed]).update(rows)
    more = counts.update(every, sample_weight=np.full(len(every), 1.5 / len(every)))
    random = np.random.default_rng(0)
    features = ColumnFeatures.stack([np.column_stack([np.ones(size), random.random(size)]) for size in states])
    groups = [(0, 1, 2), (2, 3, 0)]
    given, spread = CountedTables(more, 0.0), CountedTables(counts, 1.5)
    assert_allclose(spread.stacked(groups), given.stacked(groups), atol=1e-12)
    assert_allclose(spread.marginal(1), given.marginal(1), atol=1e-12)
    assert_allclose(spread.moments(groups, features), given.moments(groups, features), atol=1e-12)
    parts = [((0,), features[0]), ((1, 2), random.random((states[1] * states[2], 2)))]
    assert_allclose(spread.expectation(parts), given.expectation(parts), atol=1e-12)


def test_columns_that_no_row_has_together_count_as_independent() -> None:
    graph = et.zoo.hmm(4, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(60, seed=1)
    rows[:30, 0], rows[30:, 1] = -1, -1
    counts = et.Counts(graph, ViewPlan.build(graph).groups()).update(rows)
    tables = CountedTables(counts, 1.5)
    random = np.random.default_rng(0)
    features = ColumnFeatures.stack([np.column_stack([np.ones(3), random.random(3)]) for _ in range(4)])
    alone = [
        (np.bincount(column[column >= 0], minlength=3) + 0.5) / ((column >= 0).sum() + 1.5) for column in rows.T
    ]
    share = 1.5 / 61.5
    expected = (1 - share) * np.einsum("a,b,c->abc", *alone[:3]) + share / 27
    assert_allclose(tables.stacked([(0, 1, 2)])[0], expected.ravel(), atol=1e-12)
    turned = np.einsum("abc,ai,bj,ck->ijk", expected, features[0], features[1], features[2])
    assert_allclose(tables.moments([(0, 1, 2), (1, 2, 3)], features)[0], turned, atol=1e-12)
    parts = [((k,), features[k]) for k in range(3)]
    assert_allclose(tables.expectation(parts), turned, atol=1e-12)


# Large tables


@pytest.mark.parametrize(
    "recipe", [{}, {"views": 1, "scaling": None, "shrinkage": 0}], ids=["default", "published"]
)
def test_population_moments_are_exact_where_tables_are_too_large_for_arrays(recipe: dict) -> None:
    """Two columns of 300 states have 90,000 cells, so their joint tables go another way."""
    graph = et.zoo.mixture(3, 2, [300, 299, 4])
    truth = et.LatentNetwork.random(graph, concentration=0.5, seed=0)
    model = et.SpectralJunctionTree(graph, **recipe).fit_moments(truth)
    rows = truth.sample(300, seed=1)
    rows[::3, 1] = -1
    assert_allclose(model.score_samples(rows), truth.log_prob(rows), atol=1e-7)


@pytest.mark.parametrize("kind", ["fast", "slow"])
def test_singular_values_of_large_matrices_are_those_of_a_full_decomposition(kind: str) -> None:
    """Both ways that leave out most directions, on a spectrum that falls fast and on one that hardly falls."""
    random = np.random.default_rng(0)
    for size in (120, 450):
        left, _ = np.linalg.qr(random.standard_normal((size, size)))
        right, _ = np.linalg.qr(random.standard_normal((size + 30, size)))
        rate = 0.3 if kind == "fast" else 0.97
        matrix = left * rate ** np.arange(size) @ right.T
        bond = plain_bond([matrix[None, None]], 6)
        expected = np.linalg.svd(matrix, compute_uv=False)[:7]
        assert_allclose(bond.sizes[0, 0], expected, rtol=1e-6 if kind == "fast" else 2e-3)
        if kind == "fast":
            aligned = np.abs(left[:, :6].T @ bond.projection[0, 0])
            assert_allclose(aligned, np.eye(6), atol=1e-5)


def test_what_is_rounding_only_is_not_inverted() -> None:
    """The solves are those of the pseudo-inverse of the signal, also where less of it is left than the rank."""
    random = np.random.default_rng(0)
    left, right = random.random((8, 2)), random.random((2, 12))
    pair = left @ right
    pair /= pair.sum()
    bond = plain_bond([pair[None, None]], 4)
    projection, (solve,) = bond.projection[0, 0], bond.solves
    assert_allclose(solve[0, 0], np.linalg.pinv(pair, rcond=1e-10) @ projection, atol=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "estimator", [et.SpectralJunctionTree(et.zoo.Mixture(2), numeric="emissions"), et.SpectralHMM(2)]
)
def test_a_fitted_model_does_not_hold_what_it_was_learned_through(estimator: Any) -> None:
    rows = et.LatentNetwork.random(et.zoo.mixture(6, 2, 3), seed=0).sample(500, seed=1)
    for each in (rows, rows + np.random.default_rng(2).normal(size=rows.shape)):
        fit = clone(estimator).fit(each).model_.fit
        edges = [edge for edge in (*fit.edges, *getattr(fit, "leaves", ())) if edge is not None]
        assert sum(edge.damping.size for edge in edges) > 0
        assert sum(part.size for edge in edges for part in (edge.projection, *edge.solves)) == 0
        assert getattr(fit, "apart", None) is None
