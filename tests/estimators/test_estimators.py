"""Conventions of scikit-learn, one model however the rows come, and scores that are always numbers."""

from __future__ import annotations

import copy
import gzip
import math
import pickle
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from brute_force import all_rows, observed_table, predictive
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from shared_files import shared_file
from sklearn.base import clone

import eigentree as et
from eigentree.planning.view_plan import ViewPlan
from eigentree.spectral.learn.shrinkage import USUAL, pseudo_rows

GRAPH = et.zoo.hmm(6, 2, 2, 3)
TRUTH = et.LatentNetwork.random(GRAPH, seed=0)
ROWS = TRUTH.sample(400, seed=1)
STATES = np.array([GRAPH.states[name] for name in GRAPH.observed])

RECIPES = {
    "default": {},
    "unshrunk": {"shrinkage": 0},
    "fixed": {"shrinkage": 2.5, "views": 2},
    "published": {"shrinkage": 0, "views": 1, "scaling": None},
}


def fitted(
    rows: np.ndarray, graph: et.LatentGraph = GRAPH, weight: object = None, **recipe
) -> et.SpectralJunctionTree:
    """A model of rows that may be too few for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return et.SpectralJunctionTree(graph, **recipe).fit(rows, sample_weight=weight)


def with_holes(rows: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    holed = rows.copy()
    holed[np.random.default_rng(seed).random(rows.shape) < share] = -1
    return holed


def assert_same_model(one: et.SpectralJunctionTree, other: et.SpectralJunctionTree) -> None:
    """To the last bit."""
    assert one.shrinkage_ == other.shrinkage_
    assert one.report_.tried == other.report_.tried
    assert one.report_.rows == other.report_.rows
    for mine, theirs in zip(one.operators_.nodes, other.operators_.nodes, strict=True):
        assert (mine.columns, mine.children) == (theirs.columns, theirs.children)
        assert_array_equal(mine.index, theirs.index)
        assert_array_equal(mine.values, theirs.values)


# Conventions


@pytest.mark.parametrize("structure", [GRAPH, et.zoo.HMM(order=2, hidden_states=2)], ids=["graph", "template"])
def test_parameters_are_kept_cloned_and_set(structure: object) -> None:
    given = {
        "structure": structure,
        "views": 3,
        "scaling": None,
        "shrinkage": 0.5,
        "max_rank": 2,
        "when_short": "warn",
        "floor": "auto",
        "categories": None,
        "handle_unknown": "error",
        "numeric": "error",
        "hats": 9,
        "emissions": {"x0": "categorical"},
    }
    model = et.SpectralJunctionTree(**given)
    assert model.get_params(deep=False) == given
    model.fit(ROWS)
    twin = clone(model)
    assert twin.get_params(deep=False) == given
    assert not hasattr(twin, "operators_"), "a clone is not fitted"
    assert_same_model(twin.fit(ROWS), model)
    assert twin.set_params(shrinkage=7.0, views=1) is twin
    assert (twin.shrinkage, twin.views) == (7.0, 1)
    assert twin.fit(ROWS).shrinkage_ == 7.0
    with pytest.raises(ValueError, match="SpectralJunctionTree has no parameter 'kappa'"):
        twin.set_params(kappa=1)


def test_a_fit_returns_the_model_and_leaves_its_traces() -> None:
    model = et.SpectralJunctionTree(GRAPH)
    assert model.fit(ROWS) is model
    assert model.partial_fit(ROWS) is model
    assert model.fit_moments(TRUTH) is model
    assert model.n_features_in_ == 6
    assert model.graph_ == GRAPH
    assert model.score(ROWS) == pytest.approx(model.score_samples(ROWS).mean())
    assert "shrinkage" not in repr(clone(model)), "only what differs from the default is shown"


def test_a_second_fit_forgets_the_first() -> None:
    model = fitted(TRUTH.sample(50, seed=9))
    assert_same_model(model.fit(ROWS), fitted(ROWS))
    model.fit_moments(TRUTH)
    assert not hasattr(model, "counts_"), "population moments have no counts"
    assert_same_model(model.partial_fit(ROWS), fitted(ROWS))


# Templates


def test_a_template_builds_its_graph_from_an_array() -> None:
    model = et.SpectralJunctionTree(et.zoo.HMM(order=2, hidden_states=2)).fit(ROWS)
    assert model.graph_ == GRAPH
    assert_same_model(model, fitted(ROWS))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_template_keeps_the_names_of_a_frame(library: str) -> None:
    names = ["mon", "tue", "wed", "thu", "fri", "sat"]
    frame = pd.DataFrame(ROWS, columns=names)
    model = et.SpectralJunctionTree(et.zoo.HMM(order=2, hidden_states=2))
    model.fit(frame if library == "pandas" else pl.DataFrame({n: ROWS[:, j] for j, n in enumerate(names)}))
    assert model.graph_.observed == tuple(names)
    assert model.n_features_in_ == 6
    assert_same_model(model, fitted(ROWS))
    backwards = frame[names[::-1]]
    assert_array_equal(model.score_samples(backwards), fitted(ROWS).score_samples(ROWS))
    assert_array_equal(model.predict_proba(backwards, "thu"), fitted(ROWS).predict_proba(ROWS, "x3"))


def test_a_template_takes_holes_and_different_numbers_of_states() -> None:
    rows = et.LatentNetwork.random(et.zoo.mixture(5, 2, [2, 3, 4, 2, 5]), seed=0).sample(500, seed=0)
    rows[:4, :] = [1, 2, 3, 1, 4]  # every state occurs
    holed = with_holes(rows, 0.1).astype(float)
    holed[0] = rows[0]
    holed[holed < 0] = np.nan
    model = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(holed)
    assert [model.graph_.states[name] for name in model.graph_.observed] == [2, 3, 4, 2, 5]
    assert np.isfinite(model.score_samples(holed)).all()


def test_moments_do_not_have_the_columns_of_a_template() -> None:
    with pytest.raises(et.EigentreeError, match=r"fit_moments needs a LatentGraph .* template"):
        et.SpectralJunctionTree(et.zoo.HMM()).fit_moments(TRUTH)


# The same rows, however they come


@settings(max_examples=15, deadline=None)
@given(st.data(), st.sampled_from(["auto", 0, 2.5, math.inf]), st.booleans())
def test_pieces_in_any_order_give_the_same_bits_as_the_whole(data, shrinkage: float | str, holes: bool) -> None:
    rows = with_holes(ROWS, 0.15) if holes else ROWS
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=3)))
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(rows))
    whole = fitted(rows, shrinkage=shrinkage)
    streamed = et.SpectralJunctionTree(GRAPH, shrinkage=shrinkage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for piece in np.split(rows[order], cuts):
            streamed.partial_fit(piece)
    assert_same_model(streamed, whole)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_whole_weights_are_repeated_rows(recipe: dict) -> None:
    weights = np.random.default_rng(0).integers(0, 4, len(ROWS))
    repeated = fitted(np.repeat(ROWS, weights, axis=0), **recipe)
    assert_same_model(fitted(ROWS, weight=weights, **recipe), repeated)
    assert_same_model(fitted(ROWS, weight=weights.astype(float), **recipe), repeated)
    streamed = et.SpectralJunctionTree(GRAPH, **recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        streamed.partial_fit(ROWS[:100], sample_weight=weights[:100])
        streamed.partial_fit(ROWS[100:], sample_weight=weights[100:])
    assert_same_model(streamed, repeated)


def test_fractions_of_weights_scale_nothing_but_the_number_of_rows() -> None:
    """Without shrinkage and scaling, only frequencies matter."""
    recipe = RECIPES["published"]
    thirds = fitted(ROWS, weight=np.full(len(ROWS), 1 / 3), **recipe)
    assert_allclose(thirds.joint(GRAPH.observed), fitted(ROWS, **recipe).joint(GRAPH.observed), atol=1e-12)
    assert_allclose(thirds.report_.rows, len(ROWS) / 3)


@pytest.mark.parametrize("recipe", [RECIPES["unshrunk"], RECIPES["fixed"], RECIPES["published"]])
def test_counts_give_the_same_bits_as_their_rows(recipe: dict) -> None:
    groups = ViewPlan.build(GRAPH, recipe.get("views", 6)).groups()
    model = et.SpectralJunctionTree(GRAPH, **recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit_moments(et.Counts(GRAPH, groups).update(ROWS))
    assert_same_model(model, fitted(ROWS, **recipe))


class OddMoments:
    """Moments of a network with something done to each table."""

    def __init__(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self.change = change

    def joint(self, names: list[str]) -> np.ndarray:
        return self.change(et.LatentNetwork.random(GRAPH, seed=0).joint(names))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table * 2, r"joint\(\['x\d'.*\]\) of the moments adds up to 2; it must be"),
        (lambda table: table * np.nan, "adds up to nan"),
        (lambda table: table.ravel()[:-1], r"has the shape \(\d+,\), but \("),
    ],
    ids=["twice", "missing", "flat"],
)
def test_moments_that_are_no_distributions_are_refused(change: Callable, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        et.SpectralJunctionTree(GRAPH).fit_moments(OddMoments(change))


def test_counts_have_no_rows_to_hold_out() -> None:
    counts = et.Counts(GRAPH, ViewPlan.build(GRAPH).groups()).update(ROWS)
    assert et.SpectralJunctionTree(GRAPH).fit_moments(counts).shrinkage_ == USUAL


@pytest.mark.parametrize("recipe", [{}, {"shrinkage": 0.4}, {"scaling": None}], ids=str)
def test_large_tables_that_no_row_has_in_full(recipe: dict) -> None:
    graph = et.zoo.hmm(6, 1, 2, 50)
    rows = et.LatentNetwork.random(graph, seed=0).sample(300, seed=1)
    for k, row in enumerate(rows):
        row[np.random.default_rng(k).permutation(6)[:4]] = -1
    one = et.LatentNetwork.random(graph, seed=0).sample(300, seed=1)
    one[1:, 3] = -1
    for data in (rows, one):
        assert np.isfinite(fitted(data, graph, **recipe).score_samples(data)).all()


@pytest.mark.parametrize("symbols", [3, 8], ids=["as an array", "too large for an array"])
def test_counts_of_all_columns_together_are_enough(symbols: int) -> None:
    graph = et.zoo.hmm(6, 1, 2, symbols)
    rows = et.LatentNetwork.random(graph, seed=0).sample(2_000, seed=1)
    model = et.SpectralJunctionTree(graph, shrinkage=1).fit_moments(et.Counts(graph, [graph.observed]).update(rows))
    assert_allclose(model.score_samples(rows), fitted(rows, graph, shrinkage=1).score_samples(rows), atol=1e-9)


def test_counts_that_lack_a_group_or_have_other_columns_are_refused() -> None:
    few = et.Counts(GRAPH, [("x0", "x1"), ("x2", "x3"), ("x4", "x5")]).update(ROWS)
    with pytest.raises(et.DataError, match="were not counted together"):
        et.SpectralJunctionTree(GRAPH).fit_moments(few)
    other = et.zoo.mixture(6, 2, 4)
    with pytest.raises(et.DataError, match="other columns"):
        et.SpectralJunctionTree(GRAPH).fit_moments(et.Counts(other, [other.observed]).update(ROWS))


def error(model: et.SpectralJunctionTree, network: et.LatentNetwork) -> float:
    rows = network.sample(500, seed=99)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(np.abs(np.exp(model.score_samples(rows) - network.log_prob(rows)) - 1).mean())


def test_holes_slow_learning_down_but_do_not_bias_it() -> None:
    graph = et.zoo.hmm(8, 2, 2, 4)
    few, many = [], []
    for seed in range(3):
        network = et.LatentNetwork.random(graph, seed=seed)
        few.append(error(fitted(network.sample(2_000, seed=5), graph), network))
        many.append(error(fitted(with_holes(network.sample(50_000, seed=6), 0.2), graph), network))
    assert np.median(many) < 0.7 * np.median(few)


def test_every_group_is_counted_wherever_its_own_cells_are_known() -> None:
    """Also a group that several larger ones hold, whose other cells are missing in other rows."""
    graph = et.zoo.hmm(12, 2, 2, [2, 3, 4, 2, 3, 2, 5, 2, 3, 2, 4, 2])
    rows = with_holes(et.LatentNetwork.random(graph, seed=0).sample(600, seed=0), 0.3)
    counts = fitted(rows, graph, shrinkage=1).counts_
    for group in ViewPlan.build(graph).groups():
        cells = rows[:, [graph.column(name) for name in group]]
        expected = np.zeros([graph.states[name] for name in group], int)
        np.add.at(expected, tuple(cells[(cells >= 0).all(axis=1)].T), 1)
        assert_array_equal(counts.table(group), expected)


def test_holes_leave_the_marginals_of_their_columns_alone() -> None:
    """A column with missing cells is counted where it is known, also where other columns are not."""
    rows = with_holes(ROWS, 0.4)
    model = fitted(rows, shrinkage=math.inf)
    for column, name in enumerate(GRAPH.observed):
        counted = model.counts_.table([name])
        assert_array_equal(counted, [(rows[:, column] == state).sum() for state in range(3)])
        assert_allclose(model.joint([name]), (counted + 0.5) / (counted.sum() + 1.5), atol=1e-9)


# Answers


def test_rows_with_symbols_never_seen_get_finite_scores() -> None:
    graph = et.zoo.hmm(6, 1, 2, 8)
    model = fitted(et.LatentNetwork.random(graph, seed=0).sample(5, seed=1) // 2, graph)
    everything = np.random.default_rng(0).integers(0, 8, (500, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        scores = model.score_samples(everything)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.score(np.full((1, 6), 7)))


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("recipe", ["default", "unshrunk", "fixed", "published"])
@pytest.mark.parametrize("count", [1, 10])
def test_predictions_are_distributions_however_bad_the_fit(count: int, recipe: str, holes: float) -> None:
    for seed in range(5):
        model = fitted(with_holes(TRUTH.sample(count, seed=seed), holes, seed), **RECIPES[recipe])
        rows = with_holes(TRUTH.sample(200, seed=seed + 50), holes, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for target in GRAPH.observed:
                proba = model.predict_proba(rows, target)
                assert proba.shape == (200, 3)
                assert (proba >= 0).all()
                assert_allclose(proba.sum(axis=1), 1.0)


def test_conditionals_are_parts_of_the_joint_where_operators_are_negative() -> None:
    model = fitted(ROWS[:10], **RECIPES["unshrunk"])
    _, sign = model.operators_.log_prob(np.asfortranarray(all_rows(GRAPH).astype(np.uint8)))
    assert (sign < 0).any()
    table = model.joint(GRAPH.observed)
    for first in range(3):
        found = model.conditional(GRAPH.observed[1:], given={GRAPH.observed[0]: first})
        assert_allclose(found, table[first] / table[first].sum(), atol=1e-12)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 1], [1]], "different lengths"),
        ([[0.0, np.inf], [1.0, 0.0]], "column 'x1' holds inf, which is no state"),
    ],
)
def test_templates_name_data_that_are_no_codes(X: object, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        et.SpectralJunctionTree(et.zoo.Mixture(hidden_states=2)).fit(X)


def test_predictions_are_those_of_the_learned_joint() -> None:
    model = fitted(ROWS, shrinkage=20)
    table = model.joint(GRAPH.observed)
    rows = with_holes(ROWS[:30], 0.2)
    assert (table > 0).all(), "the comparison needs a distribution"
    for column, target in enumerate(GRAPH.observed):
        expected = [predictive(table, row, column) for row in rows]
        assert_allclose(model.predict_proba(rows, target), expected, atol=1e-9)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
@pytest.mark.parametrize("count", [1, 10, 400])
def test_samples_never_fail_and_repeat_with_their_seed(count: int, recipe: dict) -> None:
    model = fitted(ROWS[:count], **recipe)
    rows = model.sample(300, seed=3)
    assert rows.shape == (300, 6)
    assert (rows >= 0).all()
    assert (rows < STATES).all()
    assert_array_equal(rows, model.sample(300, seed=3))
    assert count == 1 or (rows != model.sample(300, seed=4)).any()
    given = model.sample(100, seed=3, given={"x1": 2, "x4": 0})
    assert (given[:, 1] == 2).all()
    assert (given[:, 4] == 0).all()
    assert (given < STATES).all()
    assert model.sample(seed=0).shape == (1, 6)


def test_samples_follow_the_learned_joint() -> None:
    model = fitted(ROWS, shrinkage=20)
    rows = model.sample(50_000, seed=0)
    table = np.zeros((3, 3))
    np.add.at(table, (rows[:, 0], rows[:, 5]), 1 / len(rows))
    # Five standard deviations of a frequency.
    assert_allclose(table, model.joint(["x0", "x5"]), atol=5 * 0.5 / math.sqrt(len(rows)))


@pytest.mark.parametrize("method", ["mode", "sample"])
def test_imputing_fills_the_holes_and_nothing_else(method: str) -> None:
    model = fitted(ROWS, shrinkage=1)
    holed = with_holes(ROWS, 0.3)
    filled = model.impute(holed, method=method, seed=0)
    known = holed >= 0
    assert_array_equal(filled[known], holed[known])
    assert (filled >= 0).all()
    assert (filled < STATES).all()
    assert_array_equal(model.impute(ROWS, method=method, seed=0), ROWS)
    if method == "mode":
        for column, name in enumerate(GRAPH.observed):
            best = model.predict_proba(holed, name).argmax(axis=1)
            gone = ~known[:, column]
            assert_array_equal(filled[gone, column], best[gone])


@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("count", [1, 2, 5, 30])
@pytest.mark.parametrize("shrinkage", [0, 1, "auto", math.inf])
def test_the_model_sums_to_one_however_few_the_rows(shrinkage: float | str, count: int, holes: float) -> None:
    for seed in range(3):
        rows = with_holes(TRUTH.sample(count, seed=seed), holes, seed)
        model = fitted(rows, shrinkage=shrinkage)
        assert_allclose(model.joint(GRAPH.observed).sum(), 1.0, atol=1e-9)
        assert_allclose(model.joint(["x1", "x4"]).sum(), 1.0, atol=1e-9)
        nothing_known = np.full((1, 6), -1)
        assert_allclose(model.score_samples(nothing_known), 0.0, atol=1e-9)


def test_a_missing_cell_is_a_sum_over_its_states() -> None:
    model = fitted(ROWS, shrinkage=1)
    row = ROWS[:1].copy()
    row[0, [1, 3]] = -1
    filled = np.repeat(row, 9, axis=0)
    filled[:, [1, 3]] = all_rows(et.LatentGraph({"a": 3, "b": 3}))
    log_size, sign = model.operators_.log_prob(np.asfortranarray(filled.astype(np.uint8)))
    total = float((sign * np.exp(log_size)).sum())
    assert_allclose(model.score(row), math.log(total), atol=1e-9)


@pytest.mark.parametrize("symbols", [3, [2, 3, 4, 5, 2, 3]], ids=["equal", "different"])
def test_infinite_shrinkage_is_the_product_of_smoothed_marginals(symbols: int | list[int]) -> None:
    graph = et.zoo.hmm(6, 2, 2, symbols)
    rows = et.LatentNetwork.random(graph, seed=3).sample(100, seed=1)
    model = fitted(rows, graph, shrinkage=math.inf)
    added = pseudo_rows(graph)
    expected = np.zeros(len(rows))
    for column, name in enumerate(graph.observed):
        states = graph.states[name]
        counts = np.bincount(rows[:, column], minlength=states)
        marginal = (counts + added / states) / (len(rows) + added)
        expected += np.log(marginal[rows[:, column]])
        proba = model.predict_proba(rows, name)
        assert_allclose(proba, np.tile(marginal, (len(rows), 1)), atol=1e-12)
        assert_allclose(model.joint([name]), marginal, atol=1e-12)
    assert_allclose(model.score_samples(rows), expected, atol=1e-9)


def test_shrinkage_moves_the_model_toward_independence_bit_by_bit() -> None:
    def distance(kappa: float) -> float:
        joint = fitted(ROWS, shrinkage=kappa).joint(["x2", "x3"])
        return float(np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum())

    distances = [distance(kappa) for kappa in (0.01, 1, 10, 100, 1e4, math.inf)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-12
    assert distances[0] > 10 * distances[-2]


@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
def test_a_copy_scores_the_same_and_learns_on(how: str) -> None:
    model = fitted(ROWS)
    model.score(ROWS)
    twin = pickle.loads(pickle.dumps(model)) if how == "pickle" else copy.deepcopy(model)
    assert_same_model(twin, model)
    assert_array_equal(twin.score_samples(ROWS), model.score_samples(ROWS))
    more = TRUTH.sample(100, seed=8)
    twin.partial_fit(more)
    assert_same_model(twin, fitted(np.concatenate([ROWS, more])))
    assert_same_model(model, fitted(ROWS))


# Odd structures


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
@pytest.mark.parametrize(
    "graph",
    [et.LatentGraph({"x": 3}), et.LatentGraph({"h": 2, "x": 3}, [("h", "x")], ["h"])],
    ids=["alone", "below a hidden one"],
)
def test_one_observed_variable_is_learned_by_its_frequencies(graph: et.LatentGraph, recipe: dict) -> None:
    rows = np.repeat([0, 1, 2], [10, 20, 70])[:, None]
    model = et.SpectralJunctionTree(graph, **recipe).fit(rows)
    added = pseudo_rows(graph) if model.shrinkage else 0.0
    frequencies = (np.array([10, 20, 70]) + added / 3) / (100 + added)
    assert_allclose(np.exp(model.score_samples([[0], [1], [2]])), frequencies)
    assert_allclose(model.predict_proba([[-1]], "x"), [frequencies])
    assert set(model.sample(500, seed=0).ravel()) == {0, 1, 2}
    assert "weakest of 0 separators" in str(model.report_)


@pytest.mark.parametrize("recipe", ["unshrunk", "published"])
@pytest.mark.parametrize("directed", [True, False])
def test_a_graph_without_hidden_variables_is_learned_exactly(recipe: str, directed: bool) -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("b", "e")]
    graph = et.LatentGraph({"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}, edges, directed=directed)
    network = et.LatentNetwork.random(graph, seed=2)
    model = et.SpectralJunctionTree(graph, **RECIPES[recipe]).fit_moments(network)
    assert_allclose(model.joint(graph.observed), observed_table(network), atol=1e-10)


def test_a_fully_observed_chain_is_the_markov_chain_of_its_counts() -> None:
    """The closed form: products of pair frequencies over frequencies."""
    graph = et.LatentGraph({"a": 2, "b": 3, "c": 2}, [("a", "b"), ("b", "c")])
    rows = et.LatentNetwork.random(graph, seed=0).sample(3_000, seed=0)
    model = fitted(rows, graph, shrinkage=0)
    ab, bc = (np.zeros((2, 3)), np.zeros((3, 2)))
    np.add.at(ab, (rows[:, 0], rows[:, 1]), 1 / len(rows))
    np.add.at(bc, (rows[:, 1], rows[:, 2]), 1 / len(rows))
    expected = ab[:, :, None] * bc[None] / ab.sum(axis=0)[None, :, None]
    assert_allclose(model.joint(["a", "b"]), ab, atol=1e-9)
    assert_allclose(model.joint(["b", "c"]), bc, atol=1e-9)
    assert_allclose(model.joint(["a", "b", "c"]), expected, atol=0.02)


def test_independent_columns_are_the_product_of_their_frequencies() -> None:
    graph = et.LatentGraph({"a": 2, "b": 3, "c": 4})
    rows = np.column_stack([np.random.default_rng(k).integers(0, n, 200) for k, n in enumerate((2, 3, 4))])
    model = fitted(rows, graph, shrinkage=0)
    marginals = [np.bincount(rows[:, k]) / 200 for k in range(3)]
    assert_allclose(model.joint(["a", "b", "c"]), np.einsum("i,j,k->ijk", *marginals), atol=1e-12)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_columns_of_one_state_change_nothing(recipe: dict) -> None:
    graph = et.zoo.hmm(6, 1, 2, [1, 3, 2, 1, 4, 2])
    network = et.LatentNetwork.random(graph, seed=0)
    assert_allclose(
        et.SpectralJunctionTree(graph, **recipe).fit_moments(network).joint(graph.observed),
        observed_table(network),
        atol=1e-9,
    )
    rows = network.sample(300, seed=0)
    model = fitted(rows, graph, **recipe)
    assert_allclose(model.joint(["x0", "x3"]), [[model.joint(["x1"]).sum()]], atol=1e-9)
    without = rows.copy()
    without[:, [0, 3]] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert_allclose(model.score_samples(without), model.score_samples(rows), atol=1e-8)
        assert_allclose(model.predict_proba(rows, "x3"), 1.0)


# Mistakes


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"views": 0}, "views is a whole number of at least 1, not 0"),
        ({"views": 1.5}, "views is a whole number of at least 1, not 1.5"),
        ({"views": True}, "views is a whole number of at least 1, not True"),
        ({"scaling": "x"}, "scaling is 'variance' or None, not 'x'"),
        ({"shrinkage": -1}, "shrinkage is 'auto' or a number of at least 0, not -1"),
        ({"shrinkage": "x"}, "shrinkage is 'auto' or a number of at least 0, not 'x'"),
        ({"shrinkage": math.nan}, "shrinkage is 'auto' or a number of at least 0, not nan"),
        ({"shrinkage": None}, "shrinkage is 'auto' or a number of at least 0, not None"),
        ({"max_rank": 0}, "max_rank is a whole number of at least 1, not 0"),
        ({"max_rank": 2.5}, "max_rank is a whole number of at least 1, not 2.5"),
        ({"max_rank": "x"}, "max_rank is a whole number of at least 1, not 'x'"),
        ({"when_short": "ignore"}, "when_short is 'raise' or 'warn', not 'ignore'"),
    ],
    ids=str,
)
def test_a_wrong_parameter_is_named_at_every_door(parameters: dict, message: str) -> None:
    model = et.SpectralJunctionTree(GRAPH).set_params(**parameters)
    for door in (model.fit, model.partial_fit):
        with pytest.raises(et.EigentreeError) as caught:
            door(ROWS)
        assert str(caught.value) == message
    for source in (TRUTH, et.Counts(GRAPH, [GRAPH.observed]).update(ROWS)):
        with pytest.raises(et.EigentreeError) as caught:
            model.fit_moments(source)
        assert str(caught.value) == message
    later = fitted(ROWS).set_params(**parameters)
    if "views" not in parameters:
        with pytest.raises(et.EigentreeError) as caught:
            later.partial_fit(ROWS)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.fit(ROWS, sample_weight=np.zeros(len(ROWS))), "the weight of all rows is zero"),
        (
            lambda m: m.fit(ROWS, sample_weight=np.ones(3)),
            r"sample_weight needs one number per row, shape \(400,\)",
        ),
        (lambda m: m.fit(ROWS, sample_weight=-np.ones(len(ROWS))), "sample_weight holds negative"),
        (lambda m: m.fit(ROWS[:, :4]), "X has 4 features, but eigentree is expecting 6 features"),
        (lambda m: m.fit(ROWS[:0]), "the data have no rows"),
        (lambda m: m.fit(ROWS + 1), "holds 3, but 'x[0-5]' has the codes 0 to 2"),
        (lambda m: m.fit(ROWS).predict_proba(ROWS, "h0"), "'h0' is hidden"),
        (lambda m: m.fit(ROWS).joint(["x9"]), "no variable 'x9'"),
        (lambda m: m.fit(ROWS).sample(0), "whole number of at least 1, not 0"),
        (
            lambda m: m.fit(ROWS).impute(ROWS, method="most"),
            "method is 'mode', 'mean', 'median' or 'sample', not 'most'",
        ),
        (
            lambda m: m.set_params(structure="chains").fit(ROWS),
            "is a LatentGraph, a template .*, or a graph of .*, not 'chains'",
        ),
    ],
)
def test_mistakes_are_named(ask: Callable, message: str) -> None:
    with pytest.raises(et.EigentreeError, match=message):
        ask(et.SpectralJunctionTree(GRAPH, shrinkage=1))


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    model = fitted(ROWS)
    before = model.score_samples(ROWS)
    bad = ROWS.copy()
    bad[-1, -1] = 7
    for door in (model.fit, model.partial_fit):
        with pytest.raises(et.DataError, match="row 399, column 'x5' holds 7"):
            door(bad)
    assert_array_equal(model.score_samples(ROWS), before)
    assert_same_model(model.partial_fit(ROWS[:50]), fitted(np.concatenate([ROWS, ROWS[:50]])))


# Real data


def shared(name: str) -> np.ndarray:
    with gzip.open(shared_file(name), "rt") as file:
        return np.loadtxt(file, delimiter=",", dtype=np.uint8)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "structure",
    [et.zoo.Mixture(hidden_states=4), et.zoo.LatentTree(hidden_states=2), et.zoo.LatentTree(hidden_states=4)],
    ids=["mixture of 4", "tree of 2 states", "tree of 4 states"],
)
def test_nltcs_is_far_from_independent(structure: et.zoo.Template) -> None:
    """Independent columns reach -9.2336 a row on these files, a Chow-Liu tree -6.7590."""
    train, test = shared("nltcs.train.data.gz"), shared("nltcs.test.data.gz")
    assert train.shape == (16_181, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = et.SpectralJunctionTree(structure).fit(train)
        independent = et.SpectralJunctionTree(structure, shrinkage=math.inf).fit(train)
    learned, apart = model.score(test), independent.score(test)
    print(f"{structure}: {learned:.4f} a row; {model.report_.clipping}")
    assert_allclose(np.exp(model.score_samples(all_rows(model.graph_))).sum(), 1.0, atol=1e-9)
    assert apart == pytest.approx(-9.2336, abs=2e-3)
    assert learned > -7.5


@pytest.mark.parametrize(
    ("plain", "other"),
    [
        (
            et.OnlineEMJunctionTree(et.zoo.Mixture(2), batch_size=100, passes=2, stepsize=0.75, random_state=0),
            {"batch_size": np.int8(100), "passes": np.uint8(2), "stepsize": Fraction(3, 4)},
        ),
        (
            et.EMJunctionTree(et.zoo.Mixture(2), n_init=2, validation_fraction=0.25, n_jobs=2, random_state=0),
            {"n_init": np.int8(2), "validation_fraction": Fraction(1, 4), "n_jobs": np.int8(2)},
        ),
    ],
)
def test_numbers_of_other_types_are_the_same_parameters(plain: Any, other: dict[str, Any]) -> None:
    rows = et.LatentNetwork.random(et.zoo.mixture(4, 2, 3), seed=0).sample(300, seed=1)
    model = clone(plain).set_params(**other).fit(rows)
    assert_array_equal(model.score_samples(rows), clone(plain).fit(rows).score_samples(rows))
    assert all(getattr(model, name) is value for name, value in other.items()), "they are as they were given"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_states_of_a_small_type_are_as_many() -> None:
    model = et.SpectralHMM(np.int8(12), order=np.int8(2)).fit(["ABAB", "AABB"] * 20)
    assert type(model.hidden_states) is np.int8


@pytest.mark.parametrize("n_init", [1, np.int8(1)])
def test_a_parameter_that_is_set_while_a_fit_runs_stays_as_it_was_set(n_init: Any) -> None:
    model = et.EMJunctionTree(et.zoo.Mixture(2), n_init=n_init, max_iter=np.int8(9), random_state=0)

    class Cells:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            model.set_params(max_iter=7, tol=0.1)
            return np.eye(3, dtype=dtype)

    model.fit(Cells())
    assert (model.n_init, model.max_iter, model.tol) == (n_init, 7, 0.1)
    assert model.n_init is n_init
