"""Hubs: nodes at one separator, learned as one multiplication of its functions."""

from __future__ import annotations

import itertools
import math
import warnings
from itertools import permutations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.planning.hub_plan import SymmetricBasis, _full, distinct_triples
from eigentree.planning.view_plan import ViewPlan
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.spectral_fit import graph_parameters, operator_parameters, pseudo_rows

BUSHY = {
    "three classes": et.zoo.mixture(7, 3, 3),
    "six classes": et.zoo.mixture(12, 6, 3),
    "many columns": et.zoo.mixture(40, 3, 2),
    "uneven columns": et.zoo.mixture(6, 3, (2, 3, 4, 3, 2, 5)),
    "hubs beside hubs": et.zoo.latent_tree(depth=2, branching=4, hidden_states=3, observed_states=3),
    "hubs above others": et.zoo.latent_tree(depth=3, branching=3, hidden_states=2, observed_states=3),
}


@pytest.mark.parametrize("graph", BUSHY.values(), ids=BUSHY.keys())
def test_exact_moments_give_exact_probabilities(graph) -> None:
    truth = et.LatentNetwork.random(graph, seed=0)
    model = et.SpectralJunctionTree(graph).fit_moments(truth)
    assert model.report_.hubs
    rows = truth.sample(200, seed=5)
    rows[::3, 1] = -1
    assert_allclose(model.score_samples(rows), truth.log_prob(rows), atol=1e-8)


@pytest.mark.parametrize("graph", BUSHY.values(), ids=BUSHY.keys())
def test_the_branches_of_a_hub_are_cut_off_from_each_other(graph) -> None:
    plan = ViewPlan.build(graph)
    below = [frozenset() if node.observed is None else frozenset({node.observed}) for node in plan.nodes]
    for i in reversed(range(1, len(plan.nodes))):
        below[plan.nodes[i].parent] |= below[i]
    for hub in plan.hubs:
        parts = [below[branch.position] for branch in hub.below]
        if not hub.rooted:
            parts.append(frozenset(graph.observed) - below[hub.nodes[0]])
        assert sum(map(len, parts)) == len(frozenset().union(*parts)) == len(graph.observed)
        for branch, part in zip(hub.branches, parts, strict=True):
            assert part.issuperset(branch.columns)


def test_what_is_counted_grows_with_the_columns() -> None:
    few, many = (len(ViewPlan.build(et.zoo.mixture(count, 3, 3)).groups()) for count in (60, 120))
    assert many <= 2.2 * few


@pytest.mark.parametrize(
    "graph",
    [
        et.zoo.hmm(8, 2, 2, 4),
        et.zoo.factorial_hmm(5, 2, 2, 4),
        et.zoo.paper_junction_tree(2, 8),
        et.zoo.latent_tree(depth=3, branching=2, hidden_states=2, observed_states=3),
    ],
)
def test_chains_and_binary_trees_have_no_hubs(graph) -> None:
    assert ViewPlan.build(graph).hubs == ()


def test_one_view_means_no_hubs_and_the_published_algorithm() -> None:
    assert ViewPlan.build(BUSHY["six classes"], views=1).hubs == ()


def test_statistics_of_parts_add_up_to_the_same_model() -> None:
    graph = BUSHY["hubs beside hubs"]
    rows = et.LatentNetwork.random(graph, seed=0).sample(600, seed=1)
    whole = et.SpectralJunctionTree(graph).fit(rows)
    parts = [et.Statistics.of(part, graph) for part in (rows[::-1][:250], rows[:350])]
    added = et.SpectralJunctionTree(graph).fit_statistics(parts[0] + parts[1])
    assert_array_equal(added.score_samples(rows), whole.score_samples(rows))


def test_names_of_states_do_not_matter() -> None:
    graph = BUSHY["three classes"]
    rows = et.LatentNetwork.random(graph, seed=0).sample(1_000, seed=1)
    turned = rows.copy()
    turned[:, 2] = (rows[:, 2] + 1) % 3
    models = [et.SpectralJunctionTree(graph, shrinkage=0.4).fit(each) for each in (rows, turned)]
    assert_allclose(models[0].score_samples(rows), models[1].score_samples(turned), atol=1e-8)


def test_infinite_shrinkage_is_independent_columns() -> None:
    graph = BUSHY["hubs beside hubs"]
    rows = et.LatentNetwork.random(graph, seed=0).sample(500, seed=1)
    model = et.SpectralJunctionTree(graph, shrinkage=math.inf).fit(rows)
    table = model.joint(["x0", "x1"])
    assert_allclose(table, np.outer(table.sum(axis=1), table.sum(axis=0)), atol=1e-12)


@pytest.mark.parametrize(
    ("graph", "most"),
    [
        (et.zoo.mixture(12, 3, 3), 0.5),
        (et.zoo.mixture(12, 6, 3), 0.5),
        (et.zoo.latent_tree(depth=2, branching=4, hidden_states=3, observed_states=3), 0.75),
    ],
    ids=["three classes", "six classes", "tree"],
)
def test_hubs_learned_together_have_a_lower_error_than_apart(graph, most) -> None:
    together, apart = [], []
    for seed in range(5):
        truth = et.LatentNetwork.random(graph, seed=seed)
        rows, test = truth.sample(10_000, seed=1), truth.sample(1_000, seed=2)
        model = et.SpectralJunctionTree(graph, shrinkage=0.4).fit(rows)
        (fit,) = learn(model.plan_, [CountedTables(model.statistics_.counts, pseudo_rows(graph))], "variance")
        assert fit.apart is not None
        log_truth, codes = truth.log_prob(test), np.asfortranarray(test.astype(np.uint8))
        for errors, each in ((together, fit), (apart, fit.apart)):
            log_size, sign = each.operators(0.4).log_prob(codes)
            errors.append(np.abs(sign * np.exp(log_size - log_truth) - 1).mean())
    assert np.median(together) <= most * np.median(apart)


def test_hubs_are_taken_apart_where_the_data_are_not_of_the_structure() -> None:
    """Pairs of columns that depend on each other beyond the class: a hub cannot say so, its nodes apart can."""
    graph = et.zoo.mixture(8, 3, 3)
    random = np.random.default_rng(0)
    rows = random.integers(0, 3, (5_000, 8))
    copied = random.random((5_000, 4)) < 0.7
    rows[:, 1::2] = np.where(copied, rows[:, ::2], rows[:, 1::2])
    assert et.SpectralJunctionTree(graph, shrinkage=0.4).fit(rows).report_.hubs == 1
    assert et.SpectralJunctionTree(graph).fit(rows).report_.hubs == 0


def test_triples_of_distinct_parts_equal_the_sum_over_them() -> None:
    random = np.random.default_rng(0)
    factors = random.standard_normal((5, 3, 3))
    grams = factors @ factors.transpose(0, 2, 1)
    basis = SymmetricBasis(3).vectors
    total = sum(np.kron(np.kron(grams[a], grams[b]), grams[c]) for a, b, c in permutations(range(5), 3))
    assert_allclose(distinct_triples(grams), basis @ total @ basis.T, atol=1e-9)
    assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    for tensor in basis.reshape(-1, 3, 3, 3):
        for i, j, k in product(range(3), repeat=3):
            assert all(tensor[i, j, k] == tensor[order] for order in itertools.permutations((i, j, k)))


def test_ratios_of_free_parameters_are_those_of_the_law() -> None:
    ratios = []
    for classes in (3, 6):
        graph = et.zoo.mixture(12, classes, 3)
        plan = ViewPlan.build(graph)
        ratios.append(math.sqrt(operator_parameters(plan, together=False) / graph_parameters(graph)))
        assert operator_parameters(plan, together=True) <= 1.14 * graph_parameters(graph)
    chain = et.zoo.hmm(40, 2, 2, 4)
    ratios.append(math.sqrt(operator_parameters(ViewPlan.build(chain), together=True) / graph_parameters(chain)))
    assert_allclose(ratios, [1.59, 2.41, 1.38], atol=0.005)


def test_the_report_has_the_ratio_of_free_parameters() -> None:
    graph = et.zoo.mixture(12, 3, 3)
    report = et.SpectralJunctionTree(graph).fit_moments(et.LatentNetwork.random(graph, seed=0)).report_
    assert (report.parameters, report.graph_parameters) == (75, 74)
    assert f"{math.sqrt(75 / 74):.2f} times those of maximum likelihood" in str(report)


@pytest.mark.parametrize("hidden", [2, 3, 5])
@pytest.mark.parametrize("columns", [5, 10])
def test_columns_of_one_state_make_no_hub(hidden: int, columns: int) -> None:
    """Whatever the rounding errors of a processor are."""
    graph = et.LatentGraph(
        {"h": hidden} | {f"x{i}": 1 for i in range(columns)}, [("h", f"x{i}") for i in range(columns)], ["h"]
    )
    assert not ViewPlan.build(graph).hubs
    assert not _full(np.full((4, 1), 1e-17))
    assert _full(np.full((4, 1), 1e-3))


@pytest.mark.parametrize("rows", [1, 50])
def test_constant_columns_are_learned(rows: int) -> None:
    constant = np.full((rows, 6), "a", object)
    for estimator in (et.SpectralJunctionTree, et.EMJunctionTree):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a hidden variable that no column depends on is warned of
            model = estimator(et.zoo.Mixture(2)).fit(constant)
        assert_allclose(model.score_samples(constant), 0.0, atol=1e-12)
