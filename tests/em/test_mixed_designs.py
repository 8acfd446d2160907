"""What designs of mixed tables are compared by, and what follows from them: laws, and cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import eigentree as et
from eigentree.counting.pair_counts import coarse_pairs
from eigentree.em.init.k_means import standardised
from eigentree.em.mixed.emission_choice import families_of_columns
from eigentree.em.mixed.mixed_fit import mixed_layout
from eigentree.em.mixed.mixed_objective import MixedObjective, Responsibilities
from eigentree.em.mixed.mixed_rows import MixedRows
from eigentree.em.mixed.mixed_search import Design, MixedMember, averaged_network, correlated
from eigentree.em.mixed.number_columns import NumberColumns
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.em.sizes import SizeTrial
from eigentree.emissions.base import Emission
from eigentree.emissions.families import make
from eigentree.emissions.gaussian import Gaussian
from eigentree.errors import FileError
from eigentree.inference.mixed.mixed_network import MixedNetwork

RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "a": RANDOM.normal(size=400),
        "b": RANDOM.normal(2.0, 3.0, size=400),
        "n": RANDOM.poisson(9.0, size=400),
        "kind": RANDOM.choice(["x", "y", "z"], 400),
    }
)
CLASSES = et.LatentGraph({"h": 2, "a": 1, "b": 1, "kind": 3}, [("h", "a"), ("h", "b"), ("h", "kind")], hidden=["h"])
TREE = et.LatentGraph(
    {"g": 2, "h": 3, "a": 1, "b": 1, "kind": 3}, [("g", "h"), ("h", "a"), ("g", "b"), ("h", "kind")], ["g", "h"]
)


def network_of(graph: et.LatentGraph, seed: int) -> MixedNetwork:
    """A network whose states show different normal distributions."""
    random = np.random.default_rng(seed)
    tables = et.LatentNetwork.random(graph, random_state=seed).tables
    emissions = {}
    for name in "ab":
        (parent,) = graph.parents(name)
        cells, states = TABLE[[name]].to_numpy(), graph.states[parent]
        shares = random.dirichlet(np.full(states, 0.1), len(cells))
        fitted = make("gaussian", cells, np.ones(len(cells)), states).fitted(cells, shares)
        emissions[name] = fitted.of_vector(
            fitted.vector + np.append(random.normal(0.0, 4.0, states), [0.0] * states)
        )
    return MixedNetwork(graph, {name: tables[name] for name in graph.names if name not in "ab"}, emissions)


ROWS = np.array([[0.3, 1.0, 2.0], [np.nan, -4.0, 0.0], [1.5, np.nan, np.nan]])


@pytest.mark.parametrize("graph", [CLASSES, TREE], ids=["classes", "tree"])
def test_an_average_has_the_mean_density(graph: et.LatentGraph) -> None:
    networks = [network_of(graph, seed) for seed in range(3)]
    densities = [np.exp(network.log_prob(ROWS)) for network in networks]
    assert_allclose(np.exp(averaged_network(networks).log_prob(ROWS)), np.mean(densities, axis=0), rtol=1e-9)


@pytest.mark.parametrize("graph", [CLASSES, TREE], ids=["classes", "tree"])
def test_the_order_of_states_changes_no_density(graph: et.LatentGraph) -> None:
    network = network_of(graph, 4)
    moved = network.relabelled({"h": np.arange(graph.states["h"])[::-1]})
    assert_allclose(moved.log_prob(ROWS), network.log_prob(ROWS), rtol=1e-12)
    assert_allclose(moved.predict_proba(ROWS, "h"), network.predict_proba(ROWS, "h")[:, ::-1], rtol=1e-9)


def test_free_parameters_are_those_of_tables_and_emissions() -> None:
    assert network_of(CLASSES, 0).n_parameters == 1 + 2 * 2 + 2 * (2 + 2)
    assert network_of(TREE, 0).n_parameters == 1 + 2 * 2 + 3 * 2 + 3 * 2 + 2 * 2


def test_a_number_is_predicted_from_the_other_cells() -> None:
    network = network_of(CLASSES, 5)
    changed = np.column_stack([ROWS[:, 0] + 7.0, ROWS[:, 1:]])
    for target in (ROWS, changed):
        assert_allclose(network.predict(target, "a"), network.predict(ROWS * [np.nan, 1, 1], "a"), rtol=1e-12)


def test_a_density_has_the_moments_of_its_samples() -> None:
    density = network_of(CLASSES, 7).conditional(["b"], {"kind": 1})
    drawn = density.sample(100_000, random_state=0)
    assert_allclose(density.std, drawn.std(), rtol=0.02)
    assert_allclose(density.mean, drawn.mean(), atol=4 * density.std / np.sqrt(len(drawn)))


def member(scores: list[float], parameters: int, states: int) -> MixedMember:
    design = Design(False, (("a", "b"),), "full", 1.0, states)
    trial = SizeTrial(design.size, "mixture", 1, parameters, 0.0, float(np.mean(scores)), 0.0, str(design))
    return MixedMember(trial, (), (), design, np.array(scores), np.ones(len(scores)))


def test_a_larger_design_needs_a_gain_beyond_a_standard_error() -> None:
    small = member([0.0, 0.0, 0.0, 0.0], 5, 1)
    # The mean gain is 0.5; its standard errors are 0.76 and 0.29.
    chance, sure = member([-1.0, 2.0, -0.5, 1.5], 9, 2), member([0.0, 1.0, 0.0, 1.0], 9, 2)
    assert not chance.beats(small)
    assert sure.beats(small)
    # Five times the rows, less than half the standard error.
    assert replace(chance, weights=np.full(4, 5.0)).beats(small)
    assert not small.beats(chance)


def test_numbers_that_repeat_do_not_shrink_priors_without_end() -> None:
    """A third of the cells is zero, where a density could be as high as it likes."""
    random = np.random.default_rng(3)
    cells = np.where(random.random((100, 3)) < 0.3, 0.0, random.normal(size=(100, 3)))
    model = et.EMJunctionTree(random_state=0).fit(pd.DataFrame(cells, columns=list("abc")))
    for trial in model.search_.trials:
        groups, prior = trial.emissions.removeprefix("normal_scores of ").removeprefix("full of ").split(", prior ")
        smallest = min(len(group.split("+")) for group in groups.split())
        assert trial.size.hidden_states * trial.size.trees * float(prior) * (smallest + 2) >= 1.0


def test_the_held_out_score_is_that_of_the_average() -> None:
    random = np.random.default_rng(0)
    a = random.uniform(-3.0, 3.0, 900)
    b = np.sin(2.0 * a) + 0.2 * random.normal(size=900)
    table = pd.DataFrame({"a": a, "b": b, "kind": np.where(random.random(900) < 1 / (1 + np.exp(-a)), "x", "y")})
    model = et.EMJunctionTree("auto", random_state=0).fit(table[:600], validation=table[600:])
    assert len(model.search_.shares) > 1
    assert_allclose(model.search_.validation, model.score(table[600:]), rtol=1e-10)
    assert model.search_.validation >= max(trial.validation for trial in model.search_.trials) - 1e-12


def test_groups_have_a_medium_correlation_of_ranks_in_all_pairs() -> None:
    random = np.random.default_rng(1)
    a, c, e = random.normal(size=(3, 2_000))
    # b has a correlation of 0.7 with a and with c, which have none; d falls as e rises, on a bent scale.
    values = np.stack([a, a + c, c, -np.exp(3 * e), e + 0.5 * random.normal(size=2_000)], axis=1)
    values[::7, 4] = np.nan
    rows = MixedRows.of(np.zeros((2_000, 5), np.uint8), values, np.ones(2_000))
    found = set(correlated(rows, list("abcde"), list("abcde")))
    assert ("d", "e") in found
    assert found - {("d", "e")} in ({("a", "b"), ("c",)}, {("a",), ("b", "c")})


def test_columns_without_a_given_family_have_that_of_their_kind() -> None:
    columns = et.LatentClassModel(1).fit(TABLE).columns_
    kinds = {("a",): "gaussian", ("b",): "gaussian", ("n",): "negative_binomial"}
    assert families_of_columns("auto", columns) == kinds
    assert families_of_columns({("a", "b"): "full", "kind": "categorical"}, columns) == {
        ("a", "b"): "full",
        ("n",): "negative_binomial",
    }
    assert families_of_columns("student", columns) == dict.fromkeys(kinds, "student")


def test_bins_of_numbers_hold_equal_weights() -> None:
    values, weights = RANDOM.normal(size=(300, 1)), RANDOM.integers(1, 9, 300).astype(float)
    weights[values[:, 0] > 0.5] *= 6.0
    values[::9] = np.nan
    codes = np.stack([np.where(np.isnan(values[:, 0]), 1, 0), RANDOM.integers(3, size=300)], axis=1)
    given = (("a", "kind"), (1, 3), codes)
    found = coarse_pairs(*given, ["a"], values, weights)
    times = weights.astype(int)
    copied = coarse_pairs(*given[:2], codes.repeat(times, axis=0), ["a"], values.repeat(times, axis=0), None)
    bent = coarse_pairs(*given, ["a"], np.exp(values), weights)
    for other in (copied, bent):
        assert found.columns.states == other.columns.states
        assert_allclose(found.table("a", "kind"), other.table("a", "kind"), rtol=1e-9)


def test_the_first_of_impossible_rows_is_named() -> None:
    parts = [Responsibilities(ExpectedCounts(np.ones(1), -1.0, place), []) for place in (-1, 12, -1, 40)]
    assert reduce(add, parts).expected.impossible == 12
    assert reduce(add, parts[:1]).expected.impossible == -1


def test_units_do_not_decide_which_rows_are_alike() -> None:
    values, weights = RANDOM.normal(size=(50, 3)), RANDOM.gamma(2.0, size=50)
    values[::5, 1] = np.nan
    found = standardised(values, weights)
    assert_allclose(standardised(values * [1e3, 2.0, 1e-4] + [5.0, 0.0, 1.0], weights), found, atol=1e-9)
    assert_allclose(weights @ found**2 / np.where(np.isnan(values), 0.0, weights[:, None]).sum(axis=0), 1.0)


def test_levels_are_read_as_numbers_and_missing_ones_as_missing() -> None:
    grades = TABLE.assign(grade=pd.Categorical(np.arange(400) % 3, ordered=True))
    grades.loc[::10, "grade"] = None
    columns = et.LatentClassModel(1, emissions={"grade": "ordinal"}).fit(grades).columns_
    rows = NumberColumns.of(columns, {("grade",): "ordinal"}).read(grades, None)
    expected = grades["grade"].astype(float).to_numpy()
    np.testing.assert_array_equal(rows.values[:, -1], expected)
    np.testing.assert_array_equal(rows.codes[:, columns.position("grade")], np.isnan(expected))


class _Arrays:
    """Arrays of a file, kept in memory."""

    def __init__(self) -> None:
        self.held: dict[str, np.ndarray] = {}

    def array(self, name: str, array: np.ndarray) -> None:
        self.held[name] = array

    def floats(self, name: str, *shape: int) -> np.ndarray:
        return self.held[name].reshape(shape)


def test_a_stored_emission_is_a_distribution() -> None:
    from eigentree.emissions.stored import emission_content, read_emission

    emission = make("gaussian", TABLE[["b"]].to_numpy(), np.ones(400), 2)
    arrays: Any = _Arrays()
    content = emission_content(arrays, emission)
    assert (read_emission(arrays, content).vector == emission.vector).all()
    expected = norm.logpdf(TABLE["b"], emission.vector[0], np.sqrt(emission.vector[2]))
    assert_allclose(read_emission(arrays, content).log_prob(TABLE[["b"]].to_numpy())[:, 0], expected, rtol=1e-12)
    for name, wrong in (("variance", [1.0, -1.0]), ("mean", [0.0, np.inf]), ("mean", [0.0, np.nan])):
        kept = arrays.held[name]
        arrays.held[name] = np.array(wrong)
        with pytest.raises(FileError, match="'gaussian' are none of a distribution"):
            read_emission(arrays, content)
        arrays.held[name] = kept
    content = emission_content(arrays, emission.permuted(np.array([0])))
    arrays.held["variance"] = np.array([-1.0])
    # The check of all families, which a Gaussian does without.
    assert not Emission.is_proper(replace(emission.permuted(np.array([0])), variance=np.array([-1.0])))
    with pytest.raises(FileError, match="'gaussian' are none of a distribution"):
        read_emission(arrays, content)


@pytest.mark.parametrize("variance", [1e-320, 1e-309, 3e-309, 1e-307, 1.0, 1e307, np.inf])
def test_a_gaussian_is_proper_where_its_density_is(variance: float) -> None:
    """Of cells around 1e-154, that is less than the least normal number."""
    emission = Gaussian(np.zeros(1), np.array([variance]), 1.0, 1.0, 0.0)
    with np.errstate(all="ignore"):
        assert emission.is_proper() == np.isfinite(emission.log_prob(np.zeros((1, 1)))).all()


def started_at(network: MixedNetwork, weights: np.ndarray | None = None, **emission: float) -> et.EMJunctionTree:
    """A few EM iterations from a network, with the priors of its emissions alone."""
    given = {"family": "gaussian", **emission}
    model = et.EMJunctionTree(
        network.graph, init=network, max_iter=5, tol=0.0, pseudo_counts=0.0, emissions={"a": given, "b": given}
    )
    return model.fit(TABLE[["a", "b", "kind"]], sample_weight=weights)


def test_the_objective_without_priors_is_the_log_likelihood_by_weight() -> None:
    network = network_of(CLASSES, 7)
    codes = TABLE[["a", "b"]].assign(kind=TABLE["kind"].map({"x": 0, "y": 1, "z": 2})).to_numpy(float)
    for weights in (np.ones(400), RANDOM.gamma(2.0, size=400)):
        history = started_at(network, weights, prior_rows=0.0).history_
        assert_allclose(history[0], weights @ network.log_prob(codes), rtol=1e-9)


def test_heavy_priors_of_emissions_never_lower_the_objective() -> None:
    network = network_of(CLASSES, 8)
    history = started_at(network, prior_rows=1_000.0).history_
    assert len(history) > 3
    assert (np.diff(history) > -1e-9 * np.abs(history[1:])).all()


def test_starts_from_weighted_rows_are_those_of_repeated_ones() -> None:
    random, times = np.random.default_rng(5), RANDOM.integers(1, 5, 400)
    codes = np.zeros((400, 3), np.uint8)
    rows = MixedRows.of(codes, TABLE[["a", "b"]].to_numpy(), times.astype(float))
    copies = rows.taken(np.arange(400).repeat(times))._replace(weights=np.ones(times.sum()))
    shares = random.dirichlet([0.3, 0.3], 400)
    layout = mixed_layout(CLASSES, {("a",): "gaussian", ("b",): "student"}, ("a", "b"), rows)
    tables = np.full(layout.tables.size, 0.5)
    one, other = (
        MixedObjective.of(layout, ("a", "b"), each, frozenset(), 0.0).of_posteriors(tables, [posterior])
        for each, posterior in ((rows, shares), (copies, shares.repeat(times, axis=0)))
    )
    assert_allclose(one, other, rtol=1e-9)
