"""Tables from spectral fits: exact on exact moments, with a report where moments do not suffice."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs

import eigentree as et
from eigentree.errors import DataError, GraphError, ParameterError, RankError
from eigentree.graphs import zoo
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.tensors.named_tables import table_axes
from eigentree.spectral.recover.gauges import jointly_diagonal
from eigentree.spectral.recover.recovery import Recovery, copied, recovered

LEAVES = {f"x{i}": 3 for i in range(6)}
POLYTREE = LatentGraph(
    {"a": 2, "b": 2, "c": 2, **LEAVES},
    [("a", "c"), ("b", "c"), *zip("aabbcc", LEAVES, strict=True)],
    hidden=["a", "b", "c"],
)
MARKOV_FIELD = LatentGraph(
    {"a": 2, "b": 3, "x0": 3, "x1": 3, "x2": 3, "x3": 3},
    [("a", "b"), ("a", "x0"), ("a", "x1"), ("b", "x2"), ("b", "x3")],
    hidden=["a", "b"],
    directed=False,
)
OBSERVED_PARENT = LatentGraph(
    {"y": 2, "h": 2, "x0": 3, "x1": 3, "x2": 3},
    [("y", "h"), ("h", "x0"), ("h", "x1"), ("h", "x2")],
    hidden=["h"],
)
OBSERVED_CHAIN = zoo.dynamic_bayes_net(4, {"h": 2, "x": 3}, [("h", "x")], [("h", "h"), ("x", "x")], hidden=["h"])
WHOLE = {
    "mixture": zoo.mixture(6, 3, 3),
    "more classes than states": zoo.mixture(8, 6, 3),
    "hmm": zoo.hmm(6, 1, 3, 4),
    "binary tree": zoo.latent_tree(3, 2, 3, 4),
    "bushy tree": zoo.latent_tree(2, 4, 4, 3),
    "two hidden parents": POLYTREE,
    "undirected": MARKOV_FIELD,
    "observed parent": OBSERVED_PARENT,
}


def from_moments(truth: et.LatentNetwork, **options: object) -> et.SpectralJunctionTree:
    return et.SpectralJunctionTree(truth.graph, **options).fit_moments(truth)


@pytest.mark.parametrize("scaling", ["variance", None])
@pytest.mark.parametrize("name", WHOLE)
def test_exact_moments_give_a_network_with_the_true_probabilities(name: str, scaling: str | None) -> None:
    for seed in range(4):
        truth = et.LatentNetwork.random(WHOLE[name], seed=seed)
        network = from_moments(truth, scaling=scaling).to_network()
        rows = truth.sample(100, seed=seed)
        rows[::3, seed % rows.shape[1]] = -1
        assert_allclose(network.log_prob(rows), truth.log_prob(rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("graph", "least"),
    [
        (zoo.mixture(6, 3, 3), 7),
        (zoo.hmm(6, 1, 3, 4), 7),
        (zoo.hmm(10, 2, 2, 4), 12),
        (zoo.hmm(14, 3, 2, 4), 7),
        (zoo.latent_tree(2, 3, 3, 4), 13),
        (POLYTREE, 9),
    ],
    ids=["mixture", "hmm", "second order", "third order", "tree", "two hidden parents"],
)
def test_resolved_tables_are_the_true_ones_up_to_the_order_of_hidden_states(graph: LatentGraph, least: int) -> None:
    for seed in range(3):
        truth = et.LatentNetwork.random(graph, seed=seed)
        recovery = from_moments(truth).recover()
        # Copies are as good as the truth for rows, but not the truth.
        told = {key: table for key, table in recovery.tables.items() if _all_told(graph, key, recovery)}
        assert len(told) >= least
        orders = _orders(truth, told)
        for (name,), table in told.items():
            axes = (*graph.parents(name), name)
            true = truth.tables[name][np.ix_(*(orders.get(axis, range(graph.states[axis])) for axis in axes))]
            assert_allclose(table, true, atol=1e-6)


def _all_told(graph: LatentGraph, key: tuple[str, ...], recovery: Recovery) -> bool:
    return {*graph.parents(key[0]), *key} <= {*recovery.resolved, *graph.observed}


def _orders(truth: et.LatentNetwork, told: dict[tuple[str, ...], np.ndarray]) -> dict[str, tuple[int, ...]]:
    """The order of the true states of each hidden variable that its own table has, or that of a leaf below it."""
    orders = {}
    for (name,), table in told.items():
        parents = truth.graph.parents(name)
        if not parents or (name in truth.graph.observed and len(parents) == 1):
            options = permutations(range(len(table)))
            order = min(options, key=lambda o: np.abs(truth.tables[name][list(o)] - table).max())
            orders[parents[0] if parents else name] = order
    return orders


@settings(max_examples=40, deadline=None)
@given(latent_graphs(most_variables=7, most_states=3, most_cells=2_000, fewest_states=2), st.integers(0, 2**20))
@pytest.mark.filterwarnings("ignore:.*no view:RuntimeWarning")
def test_on_any_graph_every_table_is_exact_or_named_with_a_reason(graph: LatentGraph, seed: int) -> None:
    truth = et.LatentNetwork.random(graph, seed=seed)
    try:
        recovery = from_moments(truth).recover()
    except RankError:
        return
    axes = table_axes(graph)
    assert {*recovery.tables, *recovery.unresolved} == set(axes)
    assert all(recovery.unresolved.values())
    for key, table in (*recovery.tables.items(), *recovery.guesses.items()):
        assert table.shape == tuple(graph.states[name] for name in axes[key])
        assert table.min() >= 0
        assert_allclose(table.reshape(-1, np.prod(table.shape[table.ndim - len(key) :])).sum(axis=1), 1.0)
    if recovery.unresolved:
        with pytest.raises(RankError, match=r"do not follow from the moments alone.*to_network\(X\)"):
            _ = recovery.network
    else:
        assert_allclose(recovery.network.joint(graph.observed), truth.joint(graph.observed), atol=1e-6)


def test_guesses_lie_in_the_span_of_the_true_emissions_and_one_is_made_per_set_of_parents() -> None:
    for graph in (zoo.hmm(12, 2, 2, 5), zoo.paper_junction_tree(observed_states=8), zoo.mixture(2, 2, 4)):
        truth = et.LatentNetwork.random(graph, seed=1)
        recovery = from_moments(truth).recover()
        assert recovery.guesses
        assert len({graph.parents(name) for (name,) in recovery.guesses}) == len(recovery.guesses)
        for (name,), table in recovery.guesses.items():
            states = graph.states[name]
            emissions = truth.tables[name].reshape(-1, states)
            both = np.vstack([emissions, table.reshape(-1, states)])
            assert np.linalg.matrix_rank(both, tol=1e-6) == np.linalg.matrix_rank(emissions, tol=1e-6)
            assert np.linalg.matrix_rank(table.reshape(-1, states), tol=1e-6) > 1


def test_columns_that_have_nothing_to_do_with_each_other_resolve_nothing() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (2_000, 6))
    recovery = et.SpectralJunctionTree(zoo.HMM(hidden_states=2)).fit(rows).recover()
    assert not recovery.resolved
    assert "noise" in recovery.unresolved["x2",] or "three parts" in recovery.unresolved["x2",]
    assert recovered(et.SpectralJunctionTree(zoo.Mixture(hidden_states=2)).fit(rows[:, :3]).model_.fit).unresolved


def test_clear_data_resolve_hidden_variables_from_rows() -> None:
    truth = et.LatentNetwork.random(zoo.mixture(6, 2, 3), concentration=0.5, seed=2)
    recovery = et.SpectralJunctionTree(truth.graph).fit(truth.sample(50_000, seed=3)).recover()
    assert recovery.resolved["h"] < 0.2
    network = recovery.network
    order = min(
        permutations(range(2)), key=lambda o: np.abs(network.tables["x0"][list(o)] - truth.tables["x0"]).max()
    )
    assert_allclose(network.tables["h"][list(order)], truth.tables["h"], atol=0.05)


@pytest.mark.parametrize(
    "truth",
    [
        et.LatentNetwork.random(zoo.hmm(12, 2, 2, 4), seed=0),
        et.LatentNetwork.random(zoo.mixture(8, 3, 3), seed=1),
        et.LatentNetwork.random(MARKOV_FIELD, seed=2),
        et.LatentNetwork.random(
            zoo.dynamic_bayes_net(4, {"h": 2, "x": 3}, [("h", "x")], [("x", "x")], ["h"]), seed=3
        ),
    ],
    ids=["second-order hmm", "mixture", "undirected", "observed parents"],
)
def test_rows_finish_tables_that_do_not_follow_from_the_fit(truth: et.LatentNetwork) -> None:
    rows, fresh = truth.sample(4_000, seed=5), truth.sample(2_000, seed=6)
    network = et.SpectralJunctionTree(truth.graph).fit(rows).to_network(rows)
    alone = [np.bincount(column, minlength=4) / len(rows) for column in rows.T]
    independent = np.mean([sum(np.log(p[c]) for p, c in zip(alone, row, strict=True)) for row in fresh])
    best = truth.log_prob(fresh).mean()
    assert network.log_prob(fresh).mean() > best - 0.25 * (best - independent) - 0.02


def test_a_network_from_rows_is_the_same_for_a_seed_and_for_weights_that_repeat_rows() -> None:
    truth = et.LatentNetwork.random(zoo.hmm(5, 1, 2, 3), seed=0)
    rows = truth.sample(300, seed=1)
    rows[::7, 2] = -1
    model = et.SpectralJunctionTree(truth.graph).fit(rows)
    first, again = model.to_network(rows, steps=3), model.to_network(rows, steps=3)
    twice = model.to_network(np.vstack([rows, rows]), steps=3, pseudo_counts=0.2)
    weighted = model.to_network(rows, steps=3, sample_weight=np.full(300, 2), pseudo_counts=0.2)
    for name in truth.graph.names:
        assert_allclose(again.tables[name], first.tables[name], rtol=0, atol=0)
        assert_allclose(weighted.tables[name], twice.tables[name], atol=1e-9)
    more = model.to_network(rows, steps=30, pseudo_counts=0.0).log_prob(rows).mean()
    assert more >= model.to_network(rows, steps=3, pseudo_counts=0.0).log_prob(rows).mean() - 1e-9


def test_mistakes_are_named() -> None:
    truth = et.LatentNetwork.random(zoo.hmm(6, 2, 2, 3), seed=0)
    model = from_moments(truth)
    with pytest.raises(RankError, match=r"such as that of h0: \{h0\} does not split .* pass rows"):
        model.to_network()
    rows = truth.sample(10, seed=0)
    with pytest.raises(ParameterError, match="steps is a whole number"):
        model.to_network(rows, steps=0)
    with pytest.raises(DataError, match="nothing to learn from"):
        model.to_network(rows, sample_weight=np.zeros(10))
    asked = {
        "predict_proba": (rows, "h3"),
        "posterior": (rows, ["h3"]),
        "decode": (rows,),
        "sample_hidden": (rows,),
    }
    for question, arguments in asked.items():
        with pytest.raises(GraphError, match=r"model\.to_network\(X\)"):
            getattr(model, question)(*arguments)
        assert hasattr(truth, question)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**20))
@settings(max_examples=40, deadline=None)
def test_a_family_with_one_basis_is_diagonal_in_it(size: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    basis = np.linalg.qr(random.standard_normal((size, size)))[0] + 0.3 * random.standard_normal((size, size))
    if np.linalg.cond(basis) > 50:
        return
    # At least 0.5 apart in the first matrix, so that no two vectors of the basis can be mixed.
    values = np.vstack([random.permutation(size), random.standard_normal((count - 1, size))]).astype(float)
    family = np.array([basis @ np.diag(line) @ np.linalg.inv(basis) for line in values])
    found = jointly_diagonal(family)
    assert found is not None
    vectors, residual = found
    assert residual < 1e-6
    turned = np.linalg.solve(vectors, family @ vectors)
    orders = permutations(range(size))
    assert min(np.abs(turned - np.array([np.diag(v[list(o)]) for v in values])).max() for o in orders) < 1e-5


def test_a_noisy_family_is_diagonalised_as_well_as_by_the_basis_it_is_from() -> None:
    random = np.random.default_rng(0)
    basis = np.eye(4) + 0.3 * random.standard_normal((4, 4))
    clean = np.array([basis @ np.diag(random.standard_normal(4)) @ np.linalg.inv(basis) for _ in range(8)])
    noisy = clean + 0.02 * random.standard_normal(clean.shape)
    found = jointly_diagonal(noisy)
    assert found is not None
    turned = np.linalg.solve(found[0], noisy @ found[0])
    beside = turned * (1 - np.eye(4))
    own = np.linalg.solve(basis, noisy @ basis) * (1 - np.eye(4))
    assert np.linalg.norm(beside) < 1.2 * np.linalg.norm(own)
    assert jointly_diagonal(np.array([np.eye(3), 2 * np.eye(3)])) is None
    assert jointly_diagonal(np.full((2, 3, 3), np.nan)) is None


def test_copies_are_only_made_where_nothing_is_lost() -> None:
    assert copied(zoo.hmm(5), frozenset({"h1", "h2", "h3"})) == {"h0": "h1", "h4": "h3"}
    assert copied(zoo.hmm(6, order=2), frozenset({"h2", "h3"})) == {}
    assert copied(zoo.latent_tree(3), frozenset({f"h{i}" for i in range(1, 7)})) == {"h0": "h1"}
    smaller = LatentGraph(
        {"h0": 2, "h1": 3, "x0": 4, "x1": 4}, [("h1", "h0"), ("h0", "x0"), ("h1", "x1")], ["h0", "h1"]
    )
    assert copied(smaller, frozenset({"h1"})) == {}
