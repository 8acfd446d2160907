"""Normalised probabilities of spectral models, whatever noise has left of the operators."""

from __future__ import annotations

import math
import warnings
from itertools import combinations

import numpy as np
import pytest
from brute_force import all_rows, observed_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from random_graphs import latent_graphs

import eigentree as et
from eigentree.core.trees.chain_rule import CLIPPED
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.markup.html import number

PUBLISHED = {"views": 1, "scaling": None, "shrinkage": 0}
RECIPES = {
    "default": {},
    "floor": {"shrinkage": 0.1, "floor": 0.2},
    "unshrunk": {"shrinkage": 0},
    "published": PUBLISHED,
    "published, floor": PUBLISHED | {"floor": 0.01},
}
STRUCTURES = {
    "hmm": et.zoo.hmm(5, 1, 2, 3),
    "order 2": et.zoo.hmm(5, 2, 2, 3),
    "mixture": et.zoo.mixture(6, 3, 2),
    "tree": et.zoo.latent_tree(depth=2, branching=2, hidden_states=2, observed_states=3),
    "mixed": et.zoo.mixture(4, 2, [2, 5, 1, 3]),
}


def fitted(graph: et.LatentGraph, rows: np.ndarray, **recipe: object) -> et.SpectralJunctionTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # few rows support no rank
        return et.SpectralJunctionTree(graph, **recipe).fit(rows)


def sampled(graph: et.LatentGraph, count: int, absent: float = 0.0, seed: int = 0) -> np.ndarray:
    """Copies of a dozen rows and some noise: no network on the graph fits them, and operators turn negative."""
    random = np.random.default_rng(seed)
    states = [graph.states[name] for name in graph.observed]
    few = random.integers(0, states, (12, len(states)))
    rows = np.where(random.random((count, 1)) < 0.9, few[random.integers(0, 12, count) ** 2 // 12], -1)
    rows = np.where(rows < 0, random.integers(0, states, rows.shape), rows)
    rows[random.random(rows.shape) < absent] = -1
    return rows


def patterns(rows: np.ndarray) -> list[np.ndarray]:
    """All configurations with each choice of columns missing, each once."""
    columns = range(rows.shape[1])
    found = []
    for size in columns:
        for absent in combinations(columns, size):
            part = rows.copy()
            part[:, list(absent)] = -1
            found.append(np.unique(part, axis=0))
    return found


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
@pytest.mark.parametrize("graph", STRUCTURES.values(), ids=STRUCTURES.keys())
@pytest.mark.parametrize(("count", "absent"), [(20, 0.0), (20, 0.3), (300, 0.5), (10_000, 0.0)])
def test_scores_add_up_to_one_for_every_pattern_of_missing_cells(
    graph: et.LatentGraph, recipe: dict, count: int, absent: float
) -> None:
    model = fitted(graph, sampled(graph, count, absent), **recipe)
    for rows in patterns(all_rows(graph)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # without a floor, what was never seen is impossible
            total = np.exp(model.score_samples(rows)).sum()
        assert_allclose(total, 1.0, atol=1e-9)


def clipped(model: et.SpectralJunctionTree) -> float:
    """How much is clipped over all configurations."""
    codes = Rows.of(all_rows(model.graph_), Columns.of(model.graph_)).encode()
    return float(model.model_.scored(codes).clipped.mean())


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_something_is_clipped_where_scores_are_tested(recipe: dict) -> None:
    """Else the law above would say nothing."""
    found = [
        clipped(fitted(graph, sampled(graph, count), **recipe))
        for graph in STRUCTURES.values()
        for count in (20, 300)
    ]
    assert sum(share > 0 for share in found) >= 5


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(latent_graphs(most_variables=5, most_states=3), st.integers(0, 100))
def test_exact_moments_give_the_true_probability(graph: et.LatentGraph, seed: int) -> None:
    network = et.LatentNetwork.random(graph, seed=seed)
    model = et.SpectralJunctionTree(graph, when_short="warn").fit_moments(network)
    rows = all_rows(graph)
    assert_allclose(np.exp(model.score_samples(rows)), observed_table(network).ravel(), atol=1e-8)
    with_missing = rows.copy()
    with_missing[np.random.default_rng(seed).random(rows.shape) < 0.4] = -1
    assert_allclose(np.exp(model.score_samples(with_missing)), np.exp(network.log_prob(with_missing)), atol=1e-8)


def chain_rule(model: et.SpectralJunctionTree, row: np.ndarray) -> float:
    """The probability of a row by the formula, each signed table contracted by itself, cells weighted as given."""
    spectral = model.model_
    chain_rule = spectral.fit.chain_rule
    operators = spectral.fit.operators(spectral.shrinkage)
    # Cells before are mixtures of what the model and what the marginal says: enumerate which of both was true.
    cases = {(): 1.0}
    total = 1.0
    states = spectral.columns.states
    for column in chain_rule.order:
        if row[column] < 0:
            continue
        table = np.zeros(states[column])
        for kept, weight in cases.items():
            codes = np.array([states] * states[column])
            codes[:, column] = range(states[column])
            for other in kept:
                codes[:, other] = row[other]
            log_size, sign = operators.log_prob(np.asfortranarray(codes.astype(np.uint8)))
            table += weight * sign * np.exp(log_size)
        marginal = spectral.marginals[column]
        positive, below = np.maximum(table, 0.0), CLIPPED * np.maximum(-table, 0.0).sum()
        share = (1 - spectral.floor) / (positive.sum() + below)
        q = share * (positive + below * marginal) + spectral.floor * marginal
        total *= q[row[column]]
        weight = share * positive[row[column]] / q[row[column]]
        effect = weight / table[row[column]] if weight > 0 else 0.0
        cases = {
            **{kept: old * (1 - weight) / table.sum() for kept, old in cases.items()},
            **{(*kept, column): old * effect for kept, old in cases.items()},
        }
    return total


@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize("graph", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_scores_are_the_chain_rule(graph: et.LatentGraph, floor: float) -> None:
    model = fitted(graph, sampled(graph, 60), shrinkage=0.1, floor=floor)
    rows = sampled(graph, 30, absent=0.2, seed=5)
    expected = [chain_rule(model, row) for row in rows]
    assert_allclose(np.exp(model.model_.log_prob(rows)[0]), expected, rtol=1e-9)
    assert clipped(model) > 0


def test_a_floor_without_anything_negative_replaces_cells_by_draws_from_their_columns() -> None:
    graph = STRUCTURES["hmm"]
    network = et.LatentNetwork.random(graph, concentration=3.0, seed=0)
    exact = et.SpectralJunctionTree(graph).fit_moments(network).model_
    model = type(exact).of(exact.fit, 0.0, 0.3, exact.marginals)
    tables = dict(network.tables)
    for name, marginal in zip(graph.observed, exact.marginals, strict=True):
        tables[name] = 0.7 * tables[name] + 0.3 * marginal
    replaced = et.LatentNetwork(graph, tables)
    rows = sampled(graph, 200, absent=0.2)
    assert_allclose(model.log_prob(rows)[0], replaced.log_prob(rows), atol=1e-8)


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """How many standard deviations a goodness-of-fit statistic is above its mean, rare cells taken together."""
    expected = probabilities * counts.sum()
    often = expected >= 5
    seen = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    kept = wanted > 1e-9
    assert not seen[~kept].any()
    statistic = float(((seen[kept] - wanted[kept]) ** 2 / wanted[kept]).sum())
    freedom = kept.sum() - 1
    return (statistic - freedom) / math.sqrt(2 * max(freedom, 1))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
@pytest.mark.parametrize("name", ["order 2", "mixture", "mixed"])
def test_samples_are_of_the_distribution_of_the_scores(name: str, recipe: dict) -> None:
    graph = STRUCTURES[name]
    model = fitted(graph, sampled(graph, 30), **recipe)
    shape = model.model_.columns.states
    rows = model.sample(60_000, seed=1)
    counts = np.bincount(np.ravel_multi_index(rows.T, shape), minlength=math.prod(shape))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        probabilities = np.exp(model.score_samples(all_rows(graph)))
    assert abs(chi_square(counts, probabilities)) < 5


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
@pytest.mark.parametrize("graph", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_tables_and_predictions_are_those_of_the_scores(graph: et.LatentGraph, recipe: dict) -> None:
    model = fitted(graph, sampled(graph, 30), **recipe)
    names = list(graph.observed)
    for group in (names[1:3], names[::-2], names[:1]):
        table = model.joint(group)
        assert (table >= 0).all()
        assert_allclose(table.sum(), 1.0, atol=1e-9)
        columns = [graph.column(name) for name in group]
        rows = np.full((table.size, len(names)), -1)
        rows[:, columns] = np.indices(table.shape).reshape(len(group), -1).T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert_allclose(np.exp(model.score_samples(rows)), table.ravel(), atol=1e-12)
    row = sampled(graph, 30)[3]
    given = dict(zip(names[1:], row[1:].tolist(), strict=True))
    found = model.conditional([names[0]], given=given)
    assert (found >= 0).all()
    assert_allclose(found.sum(), 1.0, atol=1e-9)
    assert_allclose(model.predict_proba([row], names[0])[0], found, atol=1e-12)


@pytest.mark.parametrize("recipe", [{}, {"floor": 0.3}, {"shrinkage": 0}, PUBLISHED | {"floor": 0.03}])
def test_draws_given_cells_follow_the_conditional(recipe: dict) -> None:
    graph = STRUCTURES["mixture"]
    model = fitted(graph, sampled(graph, 30), **recipe)
    given = {"x0": 0, "x2": 1}
    rows = model.sample(20_000, seed=0, given=given)
    assert (rows[:, [0, 2]] == [0, 1]).all()
    first = next(
        name for name in (graph.observed[c] for c in model.model_.fit.chain_rule.order) if name not in given
    )
    share = np.bincount(rows[:, graph.column(first)], minlength=2) / len(rows)
    assert_allclose(share, model.conditional([first], given=given), atol=0.02)
    with_missing = np.full((20_000, 6), -1)
    with_missing[:, [0, 2]] = [0, 1]
    filled = model.impute(with_missing, method="sample", seed=1)
    assert_allclose(np.bincount(filled[:, graph.column(first)], minlength=2) / len(rows), share, atol=0.02)


def test_what_has_no_probability_is_told() -> None:
    graph = STRUCTURES["hmm"]
    model = fitted(graph, sampled(graph, 400) % 2, shrinkage=0)
    with pytest.warns(RuntimeWarning, match="1 of 2 rows have probability zero, and the score -inf"):
        model.score_samples([[2, 0, 0, 0, 0], [0, -1, -1, -1, -1]])
    for ask in (model.sample, model.conditional):
        arguments = (3,) if ask == model.sample else (["x1"],)
        with pytest.raises(et.DataError, match=r"the evidence \{'x0': 2\} has no positive probability"):
            ask(*arguments, given={"x0": 2})


def test_tables_agree_with_each_other_where_nothing_is_clipped() -> None:
    graph = STRUCTURES["hmm"]
    rows = et.LatentNetwork.random(graph, concentration=3.0, seed=0).sample(5_000, seed=0)
    model = fitted(graph, rows, shrinkage=5.0, floor=0.05)
    assert clipped(model) == 0.0
    everything = model.joint(graph.observed)
    assert_allclose(everything.sum(axis=(1, 2, 4)), model.joint(["x0", "x3"]), atol=1e-12)


def test_modes_are_the_most_probable_of_their_predictions() -> None:
    graph = STRUCTURES["order 2"]
    model = fitted(graph, sampled(graph, 40))
    rows = sampled(graph, 60, absent=0.4, seed=2)
    filled = model.impute(rows)
    for column, name in enumerate(graph.observed):
        best = model.predict_proba(rows, name).argmax(axis=1)
        absent = rows[:, column] < 0
        assert_array_equal(filled[absent, column], best[absent])
        assert_array_equal(filled[~absent, column], rows[~absent, column])


def test_names_and_the_order_of_columns_change_no_score() -> None:
    graph = et.zoo.hmm(5, 2, 2, 3)
    rows = sampled(graph, 40)
    turned = et.LatentGraph(dict(reversed(graph.states.items())), graph.edges, graph.hidden, directed=True)
    order = [graph.column(name) for name in turned.observed]
    assert order != sorted(order)
    expected = fitted(graph, rows).score_samples(rows)
    assert_allclose(fitted(turned, rows[:, order]).score_samples(rows[:, order]), expected, atol=1e-9)


def test_blocks_of_rows_change_no_bit() -> None:
    graph = STRUCTURES["tree"]
    model = fitted(graph, sampled(graph, 30))
    rows = sampled(graph, 1_300, absent=0.1, seed=3)
    whole = model.score_samples(rows)
    parts = np.concatenate([model.score_samples(part) for part in np.split(rows, [1, 8, 600, 1_111])])
    assert_array_equal(whole, parts)


def test_the_report_tells_how_much_was_clipped() -> None:
    graph = STRUCTURES["order 2"]
    rows = sampled(graph, 30)
    model = fitted(graph, rows, shrinkage=0.1, floor=0.01)
    scores = model.model_.scored(Rows.of(rows, Columns.of(graph)).encode())
    assert_allclose(model.report_.clipping.share, scores.clipped.mean() / 5)
    assert_allclose(model.report_.clipping.refused, (scores.refused > 0).mean())
    assert f"{number(100 * model.report_.clipping.share)} % of cells' distributions" in str(model.report_)


def test_without_a_floor_what_was_never_seen_is_impossible_and_the_rest_is_not() -> None:
    graph = STRUCTURES["hmm"]
    rows = sampled(graph, 400) % 2
    model = fitted(graph, rows, shrinkage=0)
    assert model.floor_ == 0.0
    scores, _ = model.model_.log_prob([[2, 0, 0, 0, 0], rows[0]])
    assert scores[0] == -math.inf
    assert np.isfinite(scores[1])
    floored = fitted(graph, rows, shrinkage=0, floor=0.01)
    assert np.isfinite(floored.score_samples([[2, 2, 2, 2, 2]])).all()


def test_a_chain_of_thousands_neither_underflows_nor_takes_lines_for_each_step() -> None:
    graph = et.zoo.hmm(700, 1, 2, 3)
    network = et.LatentNetwork.random(graph, concentration=3.0, seed=0)
    rows = np.random.default_rng(0).integers(0, 3, (20, 700))
    assert network.log_prob(rows).max() < -750, "the smallest double is exp(-745)"
    model = et.SpectralJunctionTree(graph).fit_moments(network)
    assert_allclose(model.score_samples(rows), network.log_prob(rows), rtol=1e-6)
    steps = model.model_.fit.chain_rule.plan.steps
    assert steps[:, 6].max() < 40


@pytest.mark.parametrize("floor", [-0.1, 1.1, "no", True, math.nan, None])
def test_a_floor_is_a_share(floor: object) -> None:
    with pytest.raises(et.ParameterError, match="floor is 'auto' or a number from 0 to 1, not"):
        et.SpectralJunctionTree(STRUCTURES["hmm"], floor=floor).fit(sampled(STRUCTURES["hmm"], 20))
